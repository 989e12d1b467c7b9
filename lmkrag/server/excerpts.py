"""A part of a document's text that fits into one reply."""

from dataclasses import dataclass

from lmkrag.engine import Engine


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Characters ``[start, end)`` of a document that has ``characters``."""

    doc_id: str
    title: str
    start: int
    end: int
    characters: int
    text: str


def read_excerpt(engine: Engine, doc_id: str, start: int, end: int | None, *, most: int) -> Excerpt:
    """Read characters ``[start, end)`` of a document, at most ``most`` of them.

    Raises:
        DocumentNotFound: it is not in the index.
    """
    (info,) = engine.documents(doc_ids=[doc_id])
    first = min(start, info.characters)
    stop = min(info.characters if end is None else max(end, first), info.characters, first + most)
    text = engine.read(doc_id, first, stop)
    return Excerpt(doc_id, info.title, first, first + len(text), info.characters, text)
