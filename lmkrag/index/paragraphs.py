"""Which sentences stand in one paragraph."""

import re

_WRAPPED = 120  # a longer line is a paragraph in itself, no line of a wrapped one
_ENOUGH = 1_000  # characters: a list, a transcript or a contract without blank lines is cut at the next line's end

_LINE_END = re.compile(r"\r\n|\r|\n")
_INTRODUCES = re.compile(r"[:：]$|[?？][\"'”’»)\]]*$")


def introduces(sentence: str) -> bool:
    """Tell whether a sentence ends in a colon or asks a question, so that what follows belongs to it."""
    return _INTRODUCES.search(sentence.rstrip()) is not None


class ParagraphTracker:
    r"""Follows the sentences of one document, and says where each stands in its paragraph.

    A paragraph ends at a blank line, after a long line, and, once it is long itself, after any line; but not after a
    colon or a question. A heading begins one, with what it heads, a blank line between them or not.

    >>> tracker = ParagraphTracker()
    >>> [tracker.place(sentence) for sentence in ("Honey\n", "Bees make it. ", "It keeps.\n\n", "Wax is next.\n")]
    [0, 1, 2, 0]
    >>> [tracker.place("# Wax\n\n", heading=True), tracker.place("It is next.\n")]
    [0, 1]
    """

    def __init__(self) -> None:
        """Begin before a document's first sentence."""
        self._place = self._length = self._line = 0
        self._heading = False  # whether the sentence before was one

    def place(self, sentence: str, *, heading: bool = False) -> int:
        """Return how many sentences of its paragraph stand before the next sentence of the document.

        Args:
            sentence: its text, with the white space after it.
            heading: it is a heading.
        """
        if heading:
            if not self._heading:
                self._place = 0
            self._heading = True
            self._length = self._line = 0
            self._place += 1
            return self._place - 1
        self._heading = False
        place = self._place
        body = sentence.rstrip()
        self._length += len(sentence)
        last_end = max(body.rfind("\n"), body.rfind("\r"))
        self._line = len(body) - last_end - 1 if last_end >= 0 else self._line + len(body)
        line_ends = len(_LINE_END.findall(sentence, len(body)))
        ends = line_ends > 1 or (line_ends and (self._line > _WRAPPED or self._length > _ENOUGH))
        if ends and not introduces(sentence):
            self._place = self._length = self._line = 0
            return place
        self._place += 1
        self._line = 0 if line_ends else self._line + len(sentence) - len(body)
        return place
