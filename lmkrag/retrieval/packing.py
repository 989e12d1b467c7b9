"""Pack spans into a budget of tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from lmkrag.types import Span


def pack_spans(spans: Sequence[Span], *, budget: int, count_tokens: Callable[[str], int]) -> list[Span]:
    """Keep the best spans that fit.

    A span that does not fit whole is cut after a whole sentence or word, if it is the first; else it is left out and
    smaller ones after it may still fit. So is one that says, word for word, what a better one says elsewhere.

    Args:
        spans: best first.
        budget: tokens, at least 1.
        count_tokens: of a text.

    Returns:
        Spans in the order given, at most ``budget`` tokens in all.
    """
    packed: list[Span] = []
    said: set[str] = set()
    left = budget
    for span in spans:
        words = " ".join(span.text.split())
        if words in said:
            continue
        cost = count_tokens(span.text)
        if cost > left and not packed:
            span = _shorten(span, left, count_tokens)
            cost = count_tokens(span.text)
        if span.text and cost <= left:
            packed.append(span)
            said.add(words)
            left -= cost
    return packed


def _shorten(span: Span, budget: int, count_tokens: Callable[[str], int]) -> Span:
    """The longest head of a span, ended at white space, that fits."""
    low, high = 0, len(span.text)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(span.text[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    head = span.text[:low]
    if low < len(span.text) and not span.text[low].isspace() and any(map(str.isspace, head)):
        head = head[: max(i for i, character in enumerate(head) if character.isspace())]
    head = head.rstrip()
    return replace(span, end=span.start + len(head), text=head)
