"""The headings of a document, and the definitions of source code."""

from collections.abc import Iterator
from dataclasses import dataclass

from lmkrag.search.results import read_heading
from lmkrag.sentences.code_lines import DEFINITION
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Document

_LONGEST = 200  # characters of a heading


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading or a definition: its level from 1, and characters ``[start, end)`` of what stands under it."""

    level: int
    text: str
    start: int
    end: int


def outline(document: Document) -> list[Heading]:
    r"""Return the headings of a document in order, or the functions and classes of source code.

    >>> text = "# Ferry\n\nIt leaves at nine.\n\n## Fares\n\nFour crowns.\n"
    >>> [(heading.level, heading.text, heading.start) for heading in outline(Document(text=text, kind="markdown"))]
    [(1, 'Ferry', 0), (2, 'Fares', 29)]
    """
    definitions = (
        (1 + len(match["indent"].expandtabs(4)) // 4, match[0].strip().rstrip(":"), match.start())
        for match in DEFINITION.finditer(document.text)
    )
    headings: list[Heading] = []
    following: list[Heading] = []  # those that end what stands under an earlier heading, the nearest last
    for level, text, start in reversed(list(definitions if document.kind == "code" else _headings(document))):
        while following and following[-1].level > level:
            following.pop()
        end = following[-1].start if following else len(document.text)
        following.append(Heading(level, text[:_LONGEST], start, end))
        headings.append(following[-1])
    return headings[::-1]


def _headings(document: Document) -> Iterator[tuple[int, str, int]]:
    for sentence in split_sentences(document.text, kind=document.kind):
        if sentence.kind == "heading":
            level, text = read_heading(document.text[sentence.start : sentence.end])
            yield level, text, sentence.start
