"""Complete spans to passages that can be read alone.

A span often can't be understood without the text around it. A passage adds what it needs and no
more: a row's header, a list item's lead-in, the question of a reply, what a pronoun stands for, the
whole function of a line of code, the rest of a short paragraph.
"""

import re

from lmkrag.index.view import DocumentView
from lmkrag.language.messages import count_marks
from lmkrag.search.code_blocks import enclosing_block
from lmkrag.search.messages import count_line_marks
from lmkrag.search.units import (
    ASKS,
    begins_entry,
    begins_unit,
    find_bounds,
    find_unit,
    find_unit_start,
    measure,
)
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.sentences.structure import count_line_ends
from lmkrag.specs import BLOCK_KINDS, CHAT

_STEPS = 3  # backward: an answer, the pronoun in its question, and what that stands for

_ANNOUNCES = re.compile(r"[:：]\s*$")
_REFERS_BACK = re.compile(
    r"""(?:[A-Z][\w.'’ -]{0,40}:\s+)?[-*\"'“(]*(?:
    (?:It|They|He|She|Its|Their|His|Her|These|Those|Such|Both|Neither)\b(?!\s+[A-Z])
    |(?:This|That)\b(?!\s+[A-Z])
    |(?:For\s+(?:example|instance)|Zum\s+Beispiel|Par\s+exemple|Por\s+ejemplo|Then|Dann)\b
    |(?:During|After|Before)\s+(?:this|that)\b
    |(?:Er|Dies|Diese|Dieser|Dieses|Der\s+Rest|Sein|Seine|Ihre?)\b
    |(?:Ils|Elles?|Cela|Cette|Ces|Celle-ci|Celui-ci)\b|(?:Esto|Ellos|Ellas|Este|Estas?|Estos)\b
    |(?:Esso|Essa|Essi|Questo|Questa|Questi|Queste)\b|(?:Ze|Zij|Deze|Dit)\b
    )""",
    re.VERBOSE,
)


def complete_span(
    view: DocumentView, first: int, stop: int, weights: Weights = WEIGHTS, *, replies: bool = True
) -> tuple[int, int]:
    """Return the passage of sentences ``[first, stop)`` as characters ``[start, end)``, white space
    around included.

    Without ``replies``, a question of a conversation comes without the message that follows.
    """
    if view.row.kind == "code":
        return enclosing_block(view, *find_bounds(view, first, stop), weights.block_chars)
    is_chat = view.row.kind == CHAT
    if not is_chat:
        first, stop = _whole_section(view, first, stop, weights.section_chars)
    first, stop = _whole_paragraph(view, first, stop, weights.paragraph_chars)
    first, stop = _whole_units(view, first, stop, weights)
    for _ in range(_STEPS):
        extended = _take_before(view, first, weights)
        if extended == first:
            break
        first = extended
    first = find_unit_start(view, first, weights.lead_chars)
    stop = _take_after(view, first, stop, weights, replies=is_chat and replies)
    if is_chat and view.kind(first) == "heading" and first + 1 < stop:
        first += 1  # who speaks in a message stands beside it
    return find_bounds(view, first, stop)


def _whole_section(view: DocumentView, first: int, stop: int, most: int) -> tuple[int, int]:
    """The span with the rest of the text under its heading, where that is short and one unit."""

    def reaches(ordinal: int) -> bool:
        is_short = measure(view, min(ordinal, first), max(ordinal + 1, stop)) <= most
        return is_short and view.kind(ordinal) != "heading"

    top, bottom = first, stop
    while view.kind(top) != "heading" and top > 0 and reaches(top - 1):
        top -= 1
    while bottom < view.row.sentences and reaches(bottom):
        bottom += 1
    is_headed = view.kind(top) == "heading" or (top > 0 and view.kind(top - 1) == "heading")
    is_ended = bottom == view.row.sentences or view.kind(bottom) == "heading"
    is_short = measure(view, top, bottom) <= most
    if not (is_headed and is_ended and is_short):
        return first, stop
    is_divided = any(begins_unit(view, ordinal) for ordinal in range(top + 1, bottom))
    return (first, stop) if is_divided else (top, bottom)


def _whole_paragraph(view: DocumentView, first: int, stop: int, most: int) -> tuple[int, int]:
    """The span with the rest of its first and last sentences' paragraphs, where those are short."""
    top, bottom = first, stop
    while top > 0 and _goes_on(view, top - 1) and measure(view, top - 1, stop) <= 2 * most:
        top -= 1
    while _goes_on(view, bottom - 1) and measure(view, first, bottom + 1) <= 2 * most:
        bottom += 1
    whole = measure(view, top, bottom) <= most
    closed = (top == 0 or not _goes_on(view, top - 1)) and not _goes_on(view, bottom - 1)
    return (top, bottom) if whole and closed else (first, stop)


def _whole_units(view: DocumentView, first: int, stop: int, weights: Weights) -> tuple[int, int]:
    """The span with the rest of the listings and the entries that it begins and ends in, where
    these are short; a term never stands alone.
    """
    if view.kind(first) == "code":
        top, end = find_unit(view, first)
        if measure(view, top, end) <= weights.block_chars:
            first = top
    top, end = find_unit(view, stop - 1)
    most = weights.block_chars if view.kind(stop - 1) == "code" else weights.lead_chars
    if measure(view, top, end) > most:
        end = max(stop, min(end, top + 2))
    return first, end


def _goes_on(view: DocumentView, ordinal: int) -> bool:
    """Whether the sentence after this one is of the same paragraph."""
    if ordinal + 1 >= view.row.sentences:
        return False
    kinds = view.kind(ordinal), view.kind(ordinal + 1)
    if not BLOCK_KINDS.isdisjoint(kinds):
        return False
    # Line ends: the next line is another turn or item.
    most = 0 if kinds[1] in ("turn", "item") else 1
    line_ends = count_line_ends(view.sentence(ordinal))
    return line_ends == 0 or (line_ends <= most and not begins_unit(view, ordinal + 1))


def _take_before(view: DocumentView, first: int, weights: Weights) -> int:
    """The first sentence that a passage needs which begins with sentence ``first``."""
    kind = view.kind(first)
    if first == 0 or kind == "heading" or view.kind(first - 1) == "metadata":
        return first
    if kind in ("row", "item"):
        return _take_group(view, first, kind, weights.lead_chars)
    is_near = _distance(view, first - 1, first) <= weights.lead_chars
    is_needed = kind != "record" and is_near and _needs_before(view, first, weights)
    return first - 1 if is_needed else first


def _take_group(view: DocumentView, first: int, kind: str, most: int) -> int:
    """The first row of a table, or what announces it or a list; ``first`` where that is too far:
    half a table or list is of no use.
    """
    top = first
    while top > 0 and view.kind(top - 1) == kind and not begins_unit(view, top):
        top -= 1
        if _distance(view, top, first) > most:
            return first
    is_announced = top > 0 and _announces(view, top - 1)
    if is_announced and _distance(view, top - 1, first) <= most:
        return top - 1
    return top if kind == "row" or is_announced else first


def _needs_before(view: DocumentView, first: int, weights: Weights) -> bool:
    """Whether a sentence can't be understood without the one before it."""
    text, before = view.sentence(first), view.sentence(first - 1)
    if ASKS.search(before) or _announces(view, first - 1):
        return True
    if count_line_marks(view, first - 1) > count_marks(text):
        return True
    if view.kind(first - 1) == "code":
        return text.lstrip()[:1].islower()  # the sentence goes on below what it quotes
    is_antecedent = view.kind(first - 1) not in ("heading", "row")
    is_short = len(before) <= weights.antecedent_chars
    refers_back = view.kind(first) == "code" or _REFERS_BACK.match(text.lstrip()) is not None
    return is_antecedent and is_short and refers_back


def _announces(view: DocumentView, ordinal: int) -> bool:
    """Whether a sentence, which is no heading, announces what follows it."""
    return view.kind(ordinal) != "heading" and bool(_ANNOUNCES.search(view.sentence(ordinal)))


def _distance(view: DocumentView, above: int, below: int) -> int:
    return view.bounds(below)[0] - view.bounds(above)[0]


def _take_after(
    view: DocumentView, first: int, stop: int, weights: Weights, *, replies: bool
) -> int:
    """The end of the text that the last sentence of a passage announces: a list, entries, code, the
    answer to a question.
    """
    last, kind = view.sentence(stop - 1), view.kind(stop - 1)
    if kind == "item" and view.kind(first) != "item":  # in a list with what announces it
        return _take_group_after(view, stop, "item", weights)
    is_quoted = count_line_marks(view, stop - 1) > 0
    if not (_ANNOUNCES.search(last) or ASKS.search(last) or is_quoted):
        return stop
    following = stop
    is_asked = replies and ASKS.search(last) is not None
    if is_asked and following < view.row.sentences and view.kind(following) == "heading":
        following += 1  # the reply is a message of its own
    if following == view.row.sentences or view.kind(following) == "heading":
        return stop
    end = _take_group_after(view, following, view.kind(following), weights)
    return end if end > following else stop


def _take_group_after(view: DocumentView, stop: int, kind: str, weights: Weights) -> int:
    """The end of the items, rows, entries, listing or paragraph of a kind that follows, by whole
    units and as far as it is in reach.
    """
    top, most = stop, view.bounds(stop - 1)[1]
    are_entries = top < view.row.sentences and begins_entry(view, top)
    if kind == "code":
        most += weights.block_chars
    else:
        most += weights.lead_chars if are_entries else weights.following_chars

    def goes_on(ordinal: int) -> bool:
        if are_entries:
            return begins_entry(view, ordinal)
        if kind in ("text", "turn"):
            return ordinal == top or _goes_on(view, ordinal - 1)
        return view.kind(ordinal) == kind and not begins_unit(view, ordinal)

    while stop < view.row.sentences and goes_on(stop):
        _, end = find_unit(view, stop)
        if view.bounds(end - 1)[1] > most:
            break
        stop = end
    return stop
