"""Questions to begin with, taken from the documents: headings that are questions, other headings, titles."""

import re
from itertools import islice

from lmkrag.engine import Engine

_DOCUMENTS = 60
_CHARACTERS = 20_000  # that are read of each
_HEADING = re.compile(r"^(?:#{1,4} +(.+?)#*|(.+)\n[=\-~^]{3,})$", re.MULTILINE)
_ASKS = re.compile(r"(?:how|what|why|when|where|who|which|can|do|does|is|are)\b.*\w{4}", re.IGNORECASE)
_MOST = 3
_WORDS = range(3, 13)


def find_examples(engine: Engine) -> list[str]:
    """Return up to three questions or topics, each of another document."""
    questions: list[str] = []
    titles: list[str] = []
    topics: list[str] = []
    for info in islice(engine.documents(limit=_DOCUMENTS), _DOCUMENTS):
        if info.kind == "code":
            continue
        text = engine.read(info.doc_id, 0, _CHARACTERS)
        headings = [_clean(match[1] or match[2]) for match in _HEADING.finditer(text)]
        headings = [heading for heading in headings if len(heading.split()) in _WORDS and heading != info.title]
        questions += [heading for heading in headings if heading.endswith("?") or _ASKS.match(heading)][:1]
        titles += [info.title] if len(info.title.split()) in _WORDS else []
        topics += headings[:1]
    return list(dict.fromkeys([*questions, *titles, *topics]))[:_MOST]


def _clean(heading: str) -> str:
    """A heading without its number, anchor and marks of Markdown."""
    plain = re.sub(r"\{[^}]*\}|[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"^\W*(?:\d+(?:\.\d+)*[.)]?\s+)?", "", plain).strip()
