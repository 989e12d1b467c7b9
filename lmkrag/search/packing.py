"""Pack spans into a budget of tokens."""

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from lmkrag.rendering.places import count_paragraphs
from lmkrag.results import Span, SpanList
from lmkrag.search.results import multiply_score

Cost = Callable[[int, Span], int]  # tokens of a span with its frame, by its number from 1
_TOKENS_PER_SPAN = 40
_MOST_LOOKED_AT = 64  # spans that are looked at for a budget, at least
_LOOKS = 8  # times as many, at most, as would fill the budget
_LAST_WORD = re.compile(r"(?<!\S)\S++\Z")


def take_spans(parts: Iterable[SpanList], count: int) -> SpanList:
    """Return the first spans of all parts, ``count`` at most, with the notes of all."""
    taken = SpanList()
    for part in parts:
        taken = _join(taken, part)
        if len(taken) >= count:
            break
    return SpanList(taken[:count], taken.notes)


def _join(spans: SpanList, more: SpanList) -> SpanList:
    """Spans and those that follow, whose scores are lowered to theirs."""
    least = min((span.score for span in spans), default=math.inf)
    best = max((span.score for span in more), default=0.0)
    following: list[Span] = more
    if 0 < least < best:
        following = [multiply_score(span, least / best, "after the first results") for span in more]
    return SpanList([*spans, *following], tuple(dict.fromkeys([*spans.notes, *more.notes])))


def exclude_known(
    spans: Iterable[Span], known: Iterable[Span], per_document: int | None
) -> Iterator[Span]:
    """Yield the spans that share no character with known ones, of a document as many as may be."""
    by_document: defaultdict[str, list[Span]] = defaultdict(list)
    for span in known:
        by_document[span.doc_id].append(span)
    for span in spans:
        same = by_document[span.doc_id]
        is_known = any(other.start < span.end and span.start < other.end for other in same)
        if not is_known and (per_document is None or len(same) < per_document):
            same.append(span)
            yield span


def fill_budget(
    parts: Iterable[SpanList], *, limit: int | None, budget: int, cost: Cost
) -> SpanList:
    """Return as many of the spans of all parts as fit a budget in tokens.

    Args:
        parts: spans, best first; as many parts are found as are needed.
        limit: spans at most; None where only the budget limits them.
        budget: tokens of all.
        cost: returns the tokens of a span with its frame.
    """
    most = limit or max(_MOST_LOOKED_AT, _LOOKS * budget // _TOKENS_PER_SPAN)
    looked_at, packed = SpanList(), list[Span]()
    for part in parts:
        looked_at = _join(looked_at, part)
        packed, is_full = pack_spans(looked_at[:most], budget=budget, cost=cost)
        if is_full or len(looked_at) >= most:
            break
    return SpanList(packed, looked_at.notes)


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
    first = 0
    if span.hits:
        hit = max(0, span.hits[0].start - span.start)
        end = min(len(span.text), span.hits[0].end - span.start)
        if cost(1, _piece(span, 0, len(span.text[:end].rstrip()))) > budget:
            first = hit
    ends = range(first + 1, len(span.text) + 1)
    low = first + bisect_right(ends, budget, key=lambda end: cost(1, _piece(span, first, end)))
    piece = span.text[first:low]
    if low < len(span.text) and not span.text[low].isspace():
        piece = _LAST_WORD.sub("", piece) or piece
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
