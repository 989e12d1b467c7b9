"""Plan sliding windows over the sentences of a document in one pass, in bounded memory."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from lmkrag.specs import Window
from lmkrag.types.arrays import Vectors


def plan_windows(
    token_counts: Iterable[int], *, budget: int, overlap: float = 0.5
) -> Iterator[Window]:
    """Cover sentences with windows of whole sentences, and assign each to the window with most
    context around it.

    A sentence in two windows is owned by the one that maximises the smaller of its left and right
    context, as BERT does for long answers (Devlin et al., 2019). The ranges that windows own tile
    the sentences. Memory holds two windows.

    Args:
        token_counts: number of tokens of each sentence, landmarks included and special tokens not.
        budget: the most tokens of a window.
        overlap: share of tokens that consecutive windows have in common, at least 0 and below 1;
            about, since windows hold whole sentences.

    Yields:
        The windows, in order.

    Raises:
        ValueError: a sentence is above the budget, or ``overlap`` is out of range.

    >>> [(w.first, w.stop, w.own_first, w.own_stop) for w in plan_windows([4, 4, 4, 4], budget=8, overlap=0.5)]
    [(0, 2, 0, 2), (1, 3, 2, 3), (2, 4, 3, 4)]
    """  # noqa: E501
    if not 0 <= overlap < 1:
        raise ValueError(f"overlap must be in [0, 1), not {overlap}")
    previous: tuple[int, list[int]] | None = (
        None  # the window before: its first sentence and its counts
    )
    own_first = 0
    for following in chain(_cover(token_counts, budget, overlap), [None]):
        if previous is not None:
            first, counts = previous
            own_stop = _border(first, counts, *following) if following else first + len(counts)
            yield Window(first, first + len(counts), own_first, own_stop, sum(counts))
            own_first = own_stop
        previous = following


def _cover(
    token_counts: Iterable[int], budget: int, overlap: float
) -> Iterator[tuple[int, list[int]]]:
    """Yield (first sentence, token counts) of windows as full as whole sentences allow."""
    window: deque[int] = deque()
    first = tokens = fresh = 0  # fresh: sentences no window before has held
    for count in token_counts:
        if count > budget:
            raise ValueError(f"a sentence of {count} tokens is above the budget of {budget}")
        if tokens + count > budget:
            yield first, list(window)
            fresh = 0
            while window and (tokens > overlap * budget or tokens + count > budget):
                tokens -= window.popleft()
                first += 1
        window.append(count)
        tokens += count
        fresh += 1
    if fresh:
        yield first, list(window)


def _border(left_first: int, left: list[int], right_first: int, right: list[int]) -> int:
    """Return the first sentence with more context in the right window than in the left one.

    Args:
        left_first: the first sentence of the left window.
        left: token counts of the left window's sentences.
        right_first: the first sentence of the right window.
        right: token counts of the right window's sentences.
    """
    left_stop = left_first + len(left)
    before = sum(left[: right_first - left_first])  # context that only the left window has
    after = sum(right[left_stop - right_first :])  # context that only the right window has
    shared = left[right_first - left_first :]
    total = sum(shared)
    seen = 0
    for offset, count in enumerate(shared):
        rest = total - seen - count
        if min(seen, rest + after) > min(before + seen, rest):
            return right_first + offset
        seen += count
    return left_stop


class WindowModel(Protocol):
    """A network with its pooling, in some runtime.

    Attributes:
        device: the device it computes on, as torch names it, such as ``cpu``.
        precision: the precision that documents are read in, such as ``float32``, ``bfloat16`` or
            ``int8``.
    """

    device: str

    @property
    def precision(self) -> str: ...

    def read(
        self,
        windows: Sequence[Sequence[Sequence[int]]],
        titles: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> Vectors:
        """Return the vectors of the sentences in windows.

        Args:
            windows: for each window the token ids of its sentences, landmarks included.
            titles: for each window the token ids that it begins with; an empty list for no title.
            exact: whether to compute in float32 even if documents are read in int8.

        Returns:
            Vectors ``[sentences, dimensions]`` float32 of length one, in the order of the windows.
        """
        ...
