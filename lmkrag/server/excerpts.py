"""A part of a document's text that fits into one reply."""

from lmkrag.engine import Engine
from lmkrag.server.schemas import TextReply


class Excerpt(TextReply):
    """Characters ``[start, end)`` of a document that has ``characters``."""

    title: str


def read_excerpt(engine: Engine, doc_id: str, start: int, end: int | None, *, most: int) -> Excerpt:
    """Read characters ``[start, end)`` of a document, at most ``most`` of them.

    Raises:
        DocumentNotFound: it is not in the index.
    """
    (info,) = engine.documents(doc_ids=[doc_id])
    first = min(start, info.characters)
    stop = min(info.characters if end is None else max(end, first), info.characters, first + most)
    text = engine.read(doc_id, first, stop)
    counts = {"start": first, "end": first + len(text), "characters": info.characters}
    return Excerpt(doc_id=doc_id, title=info.title, text=text, **counts)
