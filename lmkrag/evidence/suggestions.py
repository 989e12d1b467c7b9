"""Questions to begin with: made of the headings of documents, and kept where they are answered."""

import re
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import NamedTuple, Protocol

from lmkrag.rendering.places import TABLES
from lmkrag.results import Answer
from lmkrag.search.outline import Heading, outline
from lmkrag.types import Document, DocumentInfo

_TRIED = 30  # questions at most
_READ = 20_000  # characters of a document whose headings are read
_SECTION = 200  # characters that stand under a heading, at least
_LONGEST_TITLE = 60  # characters
# two to seven words: a name, but no clause such as "How it works", or a question
_NAME = re.compile(
    r"(?!(?i:how|what|when|where|which|who|why)\b)[^\W\d_]++(?: [^\W\d_]++){1,6}"
    r"|[^\W\d_]++(?: [^\W\d_]++){1,6}\?"
)
_NUMBER = re.compile(r"\A(?:[\dIVX]++(?:\.\d++)*+[.):]?|[A-Z][.)]|Section \d++[.:])\s++")
NOT_PROSE = frozenset({*TABLES, "code"})
"""Kinds of documents whose headings are made no questions."""


class Answering(Protocol):
    """An engine, as far as suggestions need it."""

    def read(self, doc_id: str, start: int = 0, end: int | None = None) -> str:
        """Read characters of a document."""

    def ask(self, question: str) -> Answer:
        """Answer a question."""


class Suggestion(NamedTuple):
    """A question, and the heading of a document that what answers it should stand under."""

    question: str
    doc_id: str
    heading: Heading

    def is_answered(self, engine: Answering) -> bool:
        """Return whether the question gets a strong or likely answer from under its heading."""
        answer = engine.ask(self.question)
        return answer.label in ("strong", "likely") and any(
            cited.span.doc_id == self.doc_id
            and self.heading.start <= cited.start < self.heading.end
            for cited in answer.citations[:1]
        )


def suggest(engine: Answering, infos: Sequence[DocumentInfo]) -> list[Suggestion]:
    """Return questions about what stands under the headings of documents, which are still to be
    tried.

    A question names the document, too: many documents have a heading such as "The index".

    Args:
        engine: the index.
        infos: its documents, those to begin with first. Each gives a question before any gives a
            second one.
    """
    each = [_ask(engine, info) for info in infos if info.kind not in NOT_PROSE]
    return list(filter(None, chain.from_iterable(zip_longest(*each))))[:_TRIED]


def _ask(engine: Answering, info: DocumentInfo) -> list[Suggestion]:
    """Questions about the headings of one document. Headings of one word, with codes or
    placeholders in them, or with hardly a sentence below are left out.
    """
    is_named = info.title not in info.doc_id and len(info.title) <= _LONGEST_TITLE
    place = f" in {info.title}" if is_named else ""
    document = Document(info.doc_id, text=engine.read(info.doc_id, 0, _READ), kind=info.kind)
    suggestions = []
    for heading in outline(document):
        name = _NUMBER.sub("", heading.text, count=1).strip(" .:")
        is_long = heading.end - heading.start >= _SECTION
        if is_long and name != info.title and _NAME.fullmatch(name):
            question = name if name.endswith("?") else f"What is said about {_inside(name)}{place}?"
            suggestions.append(Suggestion(question, info.doc_id, heading))
    return suggestions


def _inside(name: str) -> str:
    """A heading as it is written inside a sentence: its first letter is small if all others are."""
    first, _, others = name.partition(" ")
    return name[0].lower() + name[1:] if first.istitle() and others.islower() else name
