"""Questions to begin with: made of the headings of documents, and kept where they are answered."""

import re
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import NamedTuple, Protocol

from lmkrag.rendering.places import TABLES
from lmkrag.results import Answer
from lmkrag.search.outline import Heading, outline
from lmkrag.types import Document, DocumentInfo

_TRIED = 15  # questions at most
_READ = 20_000  # characters of a document whose headings are read
_SECTION = 200  # characters that stand under a heading, at least
_WORDS = range(2, 8)  # of a heading
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
        """Return whether the question gets a strong answer from under its heading."""
        answer = engine.ask(self.question)
        return answer.label == "strong" and any(
            cited.span.doc_id == self.doc_id
            and self.heading.start <= cited.start < self.heading.end
            for cited in answer.citations[:1]
        )


def suggest(engine: Answering, infos: Sequence[DocumentInfo]) -> list[Suggestion]:
    """Return questions about what stands under the headings of documents, which are still to be
    tried.

    Args:
        engine: the index.
        infos: its documents, those to begin with first. Each gives a question before any gives a
            second one, and all headings are asked about in one form before the next.
    """
    each = [_name_headings(engine, info) for info in infos if info.kind not in NOT_PROSE]
    named = list(filter(None, chain.from_iterable(zip_longest(*each))))
    first = [each._replace(question=_ask(each.question)) for each in named]
    others = [
        each._replace(question=f"How does {each.question} work?")
        for each in named
        if not each.question.endswith("?")
    ]
    return [*first, *others][:_TRIED]


def _ask(name: str) -> str:
    """A question about a heading, which is one itself if it ends with a question mark."""
    return name if name.endswith("?") else f"What is said about {name}?"


def _name_headings(engine: Answering, info: DocumentInfo) -> list[Suggestion]:
    """The headings of one document, each with its name in place of a question. Numbers before it
    are left out, and so are headings of one word, with codes or placeholders in them, or with
    hardly a sentence below.
    """
    document = Document(info.doc_id, text=engine.read(info.doc_id, 0, _READ), kind=info.kind)
    named = []
    for heading in outline(document):
        name = _NUMBER.sub("", heading.text, count=1).strip(" .:")
        is_name = len(name.split()) in _WORDS and name.replace(" ", "").rstrip("?").isalpha()
        if is_name and name != info.title and heading.end - heading.start >= _SECTION:
            named.append(Suggestion(name, info.doc_id, heading))
    return named
