"""Pack spans into a budget of tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from lmkrag.rendering.places import count_paragraphs
from lmkrag.results import Span, SpanList
from lmkrag.search.request import MOST_RESULTS

Cost = Callable[[int, Span], int]  # tokens of a span with its frame, by its number from 1
_FIRST_LOOK = 8  # spans that are searched for at first, at least
_TOKENS_PER_SPAN = 40
_MOST_LOOKS = 8  # times as many, at most, where spans with the same words are left out


def fill_budget(
    search: Callable[[int], SpanList], *, limit: int | None, budget: int, cost: Cost
) -> SpanList:
    """Search for as many spans as fit a budget in tokens; ``limit`` is None when only the budget
    limits them.
    """
    first = limit or max(_FIRST_LOOK, budget // _TOKENS_PER_SPAN)
    count = first
    while True:
        spans = search(count)
        packed, is_full = pack_spans(spans, budget=budget, cost=cost)
        is_last = limit is not None or count >= min(_MOST_LOOKS * first, MOST_RESULTS)
        if is_last or is_full or len(spans) < count:
            return SpanList(packed, spans.notes)
        count = min(2 * count, MOST_RESULTS)


def pack_spans(spans: Sequence[Span], *, budget: int, cost: Cost) -> tuple[list[Span], bool]:
    """Return the best of the spans that fit into ``budget`` tokens, in their order, and whether
    some did not fit.

    A span that does not fit whole is cut, if it is the first; else it is left out and smaller ones
    after it may still fit. A span with the same words as a better one is left out, too.
    """
    packed: list[Span] = []
    seen: set[str] = set()
    left, full = budget, False
    for span in spans:
        words = " ".join(span.text.split())
        if words in seen:
            continue
        number = len(packed) + 1
        tokens = cost(number, span)
        if tokens > left:
            full = True
            if not packed:
                span = _shorten(span, budget, cost)
                tokens = cost(number, span)
        if span.text and tokens <= left:
            packed.append(span)
            seen.add(words)
            left -= tokens
    return packed, full


def _shorten(span: Span, budget: int, cost: Cost) -> Span:
    """The longest piece of a span that fits, from its start if that includes its best hit, else
    from the hit.
    """

    def fits(part: Span) -> bool:
        return cost(1, part) <= budget

    first = 0
    if span.hits:
        hit = max(0, span.hits[0].start - span.start)
        end = min(len(span.text), span.hits[0].end - span.start)
        if not fits(_piece(span, 0, len(span.text[:end].rstrip()))):
            first = hit
    low, high = first, len(span.text)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_piece(span, first, middle)):
            low = middle
        else:
            high = middle - 1
    piece = span.text[first:low]
    if low < len(span.text) and not span.text[low].isspace() and any(map(str.isspace, piece)):
        piece = piece[: max(i for i, character in enumerate(piece) if character.isspace())]
    return _piece(span, first, first + len(piece.rstrip()))


def _piece(span: Span, first: int, stop: int) -> Span:
    text = span.text[first:stop]
    piece = replace(span, start=span.start + first, end=span.start + stop, text=text)
    if span.line is not None:
        line = span.line + span.text.count("\n", 0, first)
        return replace(piece, line=line, last_line=line + text.count("\n"))
    if span.paragraph is not None:
        return replace(
            piece, paragraph=span.paragraph + count_paragraphs(span.text[:first], span.kind)
        )
    return piece
