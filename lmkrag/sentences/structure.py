"""The position of each sentence in its paragraph, and its roles: heading, lead-in, record,
navigation.
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmkrag.language.messages import read_opener
from lmkrag.specs import CHAT, SentenceKind

NO_CONTENT, LEAD_IN, RECORD, NAVIGATION, HEADING, MESSAGE, OWN, ASSISTANT = (
    1 << bit for bit in range(8)
)
"""Roles of a sentence, as bits.

``NO_CONTENT``: a heading with text under it, front matter, or a sentence without words, such as the
rule of a table. ``LEAD_IN``: a sentence that ends with a colon or a question mark, to which the
next one belongs. ``RECORD``: a row of a data table or a line of a log, to which no other sentence
belongs. ``NAVIGATION``: an entry of a table of contents, or a link alone. ``HEADING``: a heading
with text under it. ``MESSAGE``: of a conversation; ``OWN``: of a message of the one who asks an
assistant, ``ASSISTANT`` of its own.
"""

_WRAPPED = 120  # a longer line is a paragraph in itself, no line of a wrapped one
# characters: a list, a transcript or a contract without blank lines is cut at the next line's end
_ENOUGH = 1_000
_PIECE = 400  # characters of a message after which a piece of it ends with the sentence

# "Present: ", "[10:31] ", "2026-03-12 10:31 ": a line that goes on with no line before it
OWN_LINE = re.compile(
    r"[\s\u200e]*(?:(?:\*\*|<)?(?![a-zß-öø-ÿ])[^\W_][\w.'’/&() "
    r"-]{0,40}(?:\*\*|>)?(?::(?:\*\*)?(?=\s|$)|：)"
    r"|\[[^\[\]]{0,24}\d:\d\d[^\[\]]{0,12}\]|(?:\d{1,4}[-./]\d\d?[-./]\d{1,4}|[A-Z][a-z]{2} "
    r"+\d\d?)[T,]?\s*\d\d?:\d\d)"
)

LINE_END = re.compile(r"\r\n|\r|\n")
_LEAD_IN = re.compile(r"[:：]$|[?？][\"'”’»)\]]*$")
_WORD = re.compile(r"[^\W_]")
_PAGE = r"(?:\d{1,4}|[ivxlc]{1,6})\s*$"
_ENTRY = re.compile(
    rf"(?:(?:\.[ \t]?){{4}}|……|____)\s*{_PAGE}"  # Pumps ........ 12
    # - [Pumps](#pumps), - 1.2. [Valves](#valves)
    r"|^\s*(?:(?:[-*+•]|\d{1,3}(?:\.\d{1,3})*[.)])\s+)+\[[^\]]*\]\([^)]*\)\s*$",
    re.IGNORECASE,
)
_LONGEST_ENTRY = 300
_NUMBERED_ENTRY = re.compile(rf"[^\n]{{2,100}}\s{_PAGE}", re.IGNORECASE)  # 3.2 Pumps 12
_CONTENTS = re.compile(
    r"[#\s*_]*(?:table of contents|contents|inhalt(?:sverzeichnis)?|sommaire|table des "
    r"matières|índice|indice|sumário"
    r"|inhoud(?:sopgave)?|目次|目录)[\s*_:#=-]*$",
    re.IGNORECASE,
)


def count_line_ends(text: str) -> int:
    """Return the number of line ends in the white space at the end of a text."""
    return len(LINE_END.findall(text, len(text.rstrip())))


def is_lead_in(sentence: str) -> bool:
    """Return whether a sentence ends with a colon or asks a question, so that the next one belongs
    to it.
    """
    return _LEAD_IN.search(sentence.rstrip()) is not None


def is_navigation(sentence: str) -> bool:
    """Return whether a sentence is an entry of a table of contents, or a link alone."""
    return len(sentence) <= _LONGEST_ENTRY and _ENTRY.search(sentence) is not None


class ParagraphTracker:
    r"""Follows the sentences of one document and counts their positions in their paragraphs.

    A paragraph ends at a blank line, after a long line, and after any line once it is long itself,
    but not after a colon or a question. A heading begins a paragraph with the text under it, with
    or without a blank line between them. In a conversation, paragraphs are pieces of messages.

    Attributes:
        role: the role of all sentences of the message that the last one was of; else 0.
    """

    def __init__(self, kind: str = "text") -> None:
        """Begin a document of a kind."""
        self.role = MESSAGE if kind == CHAT else 0
        self._position = self._length = self._line = 0
        self._after_heading = False
        self._in_contents = False

    def navigates(self, sentence: str, *, heading: bool = False) -> bool:
        """Return whether the next sentence of the document is an entry of a table of contents, or a
        link alone.

        Under a heading such as "Contents" these are short lines that end with numbers.
        """
        lines = sentence.strip().splitlines()
        self._in_contents = (
            len(sentence) <= _LONGEST_ENTRY and _CONTENTS.match(sentence) is not None
        ) or (
            self._in_contents
            and all(len(line) <= _LONGEST_ENTRY and _NUMBERED_ENTRY.match(line) for line in lines)
        )
        return self._in_contents or (not heading and is_navigation(sentence))

    def position(self, sentence: str, *, heading: bool = False, record: bool = False) -> int:
        """Return the number of sentences that stand before the next sentence in its paragraph.

        Args:
            sentence: the sentence, with the space after it.
            heading: whether it is a heading.
            record: whether it is a record, which is a paragraph of its own.
        """
        if self.role:
            return self._place_in_message(sentence, heading=heading)
        if (heading or record) and not self._after_heading:
            self._position = 0
        position, self._after_heading = self._position, heading
        if heading or record:
            self._position = position + 1 if heading else 0
            self._length = self._line = 0
            return position
        body = sentence.rstrip()
        self._length += len(sentence)
        last_end = max(body.rfind("\n"), body.rfind("\r"))
        self._line = len(body) - last_end - 1 if last_end >= 0 else self._line + len(body)
        line_ends = count_line_ends(sentence)
        ends = line_ends > 1 or (line_ends and (self._line > _WRAPPED or self._length > _ENOUGH))
        if ends and not is_lead_in(sentence):
            self._position = self._length = self._line = 0
            return position
        self._position += 1
        self._line = 0 if line_ends else self._line + len(sentence) - len(body)
        return position

    def _place_in_message(self, sentence: str, *, heading: bool) -> int:
        opener = read_opener(sentence) if heading else None
        if opener is not None:
            speaks = OWN if opener.is_own else ASSISTANT if opener.is_assistant else 0
            self.role = MESSAGE | speaks
        is_long = self._length >= _PIECE and not self._after_heading
        if opener is not None or is_long:
            self._position = self._length = 0
        self._after_heading = heading
        self._position += 1
        self._length += len(sentence)
        return self._position - 1


class StructureTable:
    """Collects positions and roles of sentences, a row for each, of any number of documents."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._roles = bytearray()
        self._headings: list[int] = []  # rows of the open paragraph that no text has followed yet

    def __len__(self) -> int:
        return len(self._positions)

    def add(
        self, sentences: Iterable[tuple[str, SentenceKind]], paragraphs: ParagraphTracker
    ) -> None:
        """Add the next sentences of one document.

        Args:
            sentences: the text of each, with the space after it, and its kind.
            paragraphs: the tracker of the document.
        """
        for text, kind in sentences:
            heading, record = kind == "heading", kind in ("record", "metadata")
            position = paragraphs.position(text, heading=heading, record=record)
            role = 0 if _WORD.search(text) and kind != "metadata" else NO_CONTENT
            role |= paragraphs.role
            if paragraphs.navigates(text, heading=heading):
                role |= NAVIGATION
            if record:
                role |= RECORD
            elif not heading and is_lead_in(text):
                role |= LEAD_IN
            self._roles.append(role)
            if position == 0:
                self._headings.clear()
            if heading:
                self._headings.append(len(self._positions))
            else:
                for above in self._headings:
                    self._roles[above] |= NO_CONTENT | HEADING
                self._headings.clear()
            self._positions.append(position)

    def take(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return the tables of the first rows, and keep the others.

        Returns:
            ``positions`` ``[rows]`` uint16 in paragraphs, and ``roles`` ``[rows]`` uint8.
        """
        positions, self._positions = self._positions[:rows], self._positions[rows:]
        roles, self._roles = self._roles[:rows], self._roles[rows:]
        self._headings = [row - rows for row in self._headings if row >= rows]
        stored = np.minimum(positions, 65_535).astype(np.uint16)
        return {"positions": stored, "roles": np.frombuffer(bytes(roles), np.uint8)}
