"""The headings of a document, and the definitions of source code."""

from dataclasses import dataclass

from lmkrag.search.results import read_heading
from lmkrag.sentences.code_lines import DEFINITION
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Document

_LONGEST = 200  # characters of a heading


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading or a definition: its level from 1, and characters ``[start, end)`` of what stands
    under it.
    """

    level: int
    text: str
    start: int
    end: int


def outline(document: Document) -> list[Heading]:
    r"""Return the headings of a document in order, or the functions and classes of source code.

    >>> text = "# Ferry\n\nIt leaves at nine.\n\n## Fares\n\nFour crowns.\n"
    >>> [(heading.level, heading.text, heading.start) for heading in outline(Document(text=text, kind="markdown"))]
    [(1, 'Ferry', 0), (2, 'Fares', 29)]
    """  # noqa: E501
    if document.kind == "code":
        entries = [
            (
                1 + len(match["indent"].expandtabs(4)) // 4,
                match[0].strip().rstrip(":"),
                match.start(),
            )
            for match in DEFINITION.finditer(document.text)
        ]
    else:
        entries = [
            (*read_heading(document.text[each.start : each.end]), each.start)
            for each in split_sentences(document.text, kind=document.kind)
            if each.kind == "heading"
        ]
    headings: list[Heading] = []
    # those that end what stands under an earlier heading, the nearest last
    following: list[Heading] = []
    for level, text, start in reversed(entries):
        while following and following[-1].level > level:
            following.pop()
        end = following[-1].start if following else len(document.text)
        following.append(Heading(level, text[:_LONGEST], start, end))
        headings.append(following[-1])
    return headings[::-1]
