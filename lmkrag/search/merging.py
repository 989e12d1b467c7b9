"""Merge grown spans to results, best first: spans that touch, passages that overlap, copies in
other documents.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from lmkrag.index.view import DocumentView
from lmkrag.language.messages import QUOTE_MARKS
from lmkrag.rendering.places import has_lines
from lmkrag.reranker.inputs import prepare_passage
from lmkrag.results import Span
from lmkrag.search.candidates import Candidates
from lmkrag.search.filters import asks_who_speaks
from lmkrag.search.growth import Grown
from lmkrag.search.messages import Message, find_passage_message
from lmkrag.search.passages import complete_span
from lmkrag.search.request import SearchRequest
from lmkrag.search.results import SpanMaker, strip
from lmkrag.search.surroundings import SpanInput, prepare_surroundings
from lmkrag.search.units import begins_unit, find_bounds
from lmkrag.search.weights import Weights
from lmkrag.specs import CHAT, CODE
from lmkrag.types.arrays import Ids, Scores

# positions of the first candidate, after the last, and of the hits, best first
Run = tuple[int, int, tuple[int, ...]]


@dataclass(frozen=True)
class Results:
    """What the results of one search are made of, and how many are made at most.

    Attributes:
        candidates: the sentences that were found.
        request: says which level the results have, how many are of one document, and whether they
            are explained.
        count: results to make, at most.
        collapse: whether the best passage of each file of code comes before all others, with the
            lines of these in ``more``.
    """

    candidates: Candidates
    request: SearchRequest
    count: int
    collapse: bool

    @cached_property
    def unranked(self) -> list[Span]:
        """The results in the order of the search.

        A document is a whole span, by its best sentence (LongRAG, arXiv 2406.15319); sentences are
        those with content.
        """
        candidates, level = self.candidates, self.request.level
        grown, growth = list(candidates.grow()), None
        if self.request.explain:
            has_growth = level in ("passage", "span")
            growth = {hit: (first, stop) for first, stop, hit in grown} if has_growth else {}
        maker = SpanMaker(candidates, growth)
        if level == "passage":
            return self._make_passages(maker, grown)
        if level == "span":
            return _make_spans(maker, self._merge_spans(grown))
        if level == "sentence":
            positions = np.flatnonzero(candidates.has_content)
            return _make_spans(maker, self._limit(positions, self.request.per_document))
        return [
            maker.make_span(0, candidates.view(hit).row.length, (hit,))
            for hit, _, _ in self._limit(np.arange(len(candidates.score)), 1)
        ]

    def prepare(self, span: Span) -> SpanInput:
        """Return what a re-ranker reads of one of the results."""
        if self.request.level == "passage":
            return SpanInput(prepare_passage(span).passage)
        return prepare_surroundings(self.candidates, span)

    def _merge_spans(self, grown: Iterable[Grown]) -> list[Run]:
        """Merge spans that touch, if the lesser one is nearly as good as the better one."""
        candidates, score, merged = self.candidates, self.candidates.score, list[Run]()
        for first, stop, hit in grown:
            run: Run = (first, stop, (hit,))
            near = [
                other
                for other in merged
                if _touch(candidates, other, run)
                and score[hit] >= candidates.weights.join * score[other[2][0]]
            ]
            if near:
                merged[merged.index(near[0])] = _join([*near, run])
                for other in near[1:]:
                    merged.remove(other)
            elif self._is_full(merged, hit):
                continue
            elif len(merged) == self.count:
                break
            else:
                merged.append(run)
        return merged

    def _is_full(self, runs: Iterable[Run], hit: int) -> bool:
        """Whether no other result may be of the document of a hit."""
        most, documents = self.request.per_document, self.candidates.documents
        return most is not None and most <= sum(documents[run[0]] == documents[hit] for run in runs)

    def _limit(self, positions: Ids, per_document: int | None) -> list[Run]:
        """The best of some candidates, each alone, ``per_document`` of each document at most."""
        best: list[Run] = []
        score = self.candidates.score
        counts: Counter[int] = Counter()
        for hit in positions[np.argsort(-score[positions], kind="stable")].tolist():
            document = int(self.candidates.documents[hit])
            if per_document is None or counts[document] < per_document:
                counts[document] += 1
                best.append((hit, hit + 1, (hit,)))
                if len(best) == self.count:
                    break
        return best

    def _make_passages(self, maker: SpanMaker, grown: Iterable[Grown]) -> list[Span]:
        """Complete spans to passages, and merge those that meet."""
        candidates, weights = self.candidates, self.candidates.weights
        per_document = self.request.per_document
        replies = not asks_who_speaks(self.request.filter)
        merged: list[_Passage] = []

        def choose(passages: list[_Passage]) -> list[_Passage]:
            limited = _limit_each(passages, per_document)
            return _best_of_each(limited) if self.collapse else limited

        divided = chain.from_iterable(map(self._divide, grown))
        for rank, (first, stop, hit) in enumerate(divided):
            view, ordinal = candidates.view(hit), candidates.ordinal(hit)
            low, high = candidates.ordinal(first), candidates.ordinal(stop - 1) + 1
            whole = complete_span(view, low, high, weights, replies=replies)
            passage = _open_passage(view, ordinal, strip(view, *whole), hit)
            touching = rank < weights.touching and view.kind(ordinal) != "record"
            bounds, score = view.bounds(ordinal), candidates.score
            if _merge(merged, passage, bounds, score, touching=touching, weights=weights):
                continue
            if _is_message_full(merged, passage, weights):
                continue
            is_known = any(other.view is view for other in merged)
            is_further = self.collapse and is_known and view.row.kind == CODE
            if not is_further and len(choose(merged)) >= self.count:
                merged = _without_copies(merged, weights)
                if len(choose(merged)) == self.count:
                    break
            merged.append(passage)
        merged = _limit_each(_without_copies(merged, weights), per_document)
        firsts = choose(merged)
        others = [passage for passage in merged if passage not in firsts]  # if they collapse
        return [
            replace(
                maker.make_span(passage.start, passage.end, passage.hits),
                also_in=tuple(passage.also_in),
                more=_list_lines(passage.view, others) if passage in firsts else (),
            )
            for passage in [*firsts, *others][: self.count]
        ]

    def _divide(self, grown: Grown) -> list[Grown]:
        """A span as one of each unit that it reaches into, the best one first; code stays whole."""
        first, stop, hit = grown
        candidates, view = self.candidates, self.candidates.view(hit)
        borders = [
            position
            for position in range(first + 1, stop)
            if view.row.kind != CODE and begins_unit(view, candidates.ordinal(position))
        ]
        parts = [
            (
                low,
                high,
                hit if low <= hit < high else max(range(low, high), key=candidates.score.item),
            )
            for low, high in pairwise([first, *borders, stop])
        ]
        return sorted(parts, key=lambda part: part[2] != hit)


def _join(runs: Sequence[Run]) -> Run:
    """Runs as one, with the hits of all in their order."""
    hits = tuple(hit for run in runs for hit in run[2])
    return min(run[0] for run in runs), max(run[1] for run in runs), hits


def _touch(candidates: Candidates, run: Run, other: Run) -> bool:
    """Whether two runs of candidates follow each other in one document, nothing between them."""
    left, right = sorted((run, other))
    before, after = left[1] - 1, right[0]
    if after != before + 1 or candidates.record[before] or candidates.record[after]:
        return False
    if candidates.heading[after] and candidates.view(after).row.kind == CHAT:
        return False  # another message, or a section of one
    is_next = candidates.sentences[after] - candidates.sentences[before] == 1
    return bool(is_next and candidates.documents[after] == candidates.documents[before])


def _make_spans(maker: SpanMaker, runs: list[Run]) -> list[Span]:
    spans = []
    for first, stop, hits in runs:
        candidates = maker.candidates
        low, high = candidates.ordinal(first), candidates.ordinal(stop - 1) + 1
        spans.append(maker.make_span(*find_bounds(candidates.view(first), low, high), hits))
    return spans


@dataclass(slots=True, eq=False)
class _Passage:
    view: DocumentView
    start: int
    end: int
    hits: list[int]
    also_in: list[str] = field(default_factory=list)
    message: Message | None = None  # of a conversation, that its best hit is of
    quoted: str = ""  # its best hit, if a mail quotes it


def _open_passage(view: DocumentView, ordinal: int, bounds: tuple[int, int], hit: int) -> _Passage:
    """Return a passage by the ordinal of its hit, with the message that it is of."""
    passage = _Passage(view, *bounds, [hit])
    message = find_passage_message(view, ordinal, view.ordinal_at(passage.end - 1))
    if view.row.kind == CHAT:
        passage.message = message
    elif message is not None and message.is_quoted:
        passage.quoted = view.sentence(ordinal)
    return passage


def _is_message_full(merged: Iterable[_Passage], passage: _Passage, weights: Weights) -> bool:
    """Whether the message of a passage has as many passages as one message may have."""
    if passage.message is None:
        return False
    count = sum(other.view is passage.view and other.message == passage.message for other in merged)
    return count >= weights.per_message


def _best_of_each(merged: list[_Passage]) -> list[_Passage]:
    """The first passage of each file of code, and all passages of other documents."""
    best: dict[int, _Passage] = {}
    return [
        passage
        for passage in merged
        if passage.view.row.kind != CODE or best.setdefault(passage.view.row.id, passage) is passage
    ]


def _limit_each(merged: list[_Passage], per_document: int | None) -> list[_Passage]:
    """The first ``per_document`` passages of each document; all if that is None."""
    if per_document is None:
        return merged
    counts: Counter[DocumentView] = Counter()
    kept: list[_Passage] = []
    for passage in merged:
        counts[passage.view] += 1
        if counts[passage.view] <= per_document:
            kept.append(passage)
    return kept


def _list_lines(view: DocumentView, passages: Iterable[_Passage]) -> tuple[int, ...]:
    """The lines where the passages of a document begin, if its lines are those of its file."""
    is_lined = has_lines(view.row.kind, view.row.doc_id)
    inside = (passage for passage in passages if passage.view is view and is_lined)
    return tuple(view.count_lines(passage.start) + 1 for passage in inside)


def _merge(
    merged: list[_Passage],
    passage: _Passage,
    hit: tuple[int, int],
    score: Scores,
    *,
    touching: bool,
    weights: Weights,
) -> bool:
    """Merge a passage with a better one that it meets, or cut it where they overlap; return whether
    it is merged.
    """
    for better in merged:
        if better.view is not passage.view:
            continue
        low, high = min(better.start, passage.start), max(better.end, passage.end)
        apart = passage.end <= better.start or better.end <= passage.start
        if apart:
            is_asked_for = score[passage.hits[0]] >= weights.join * score[better.hits[0]]
            if not touching or high - low > weights.max_merged_chars:
                continue
            if not _follow(better, passage, across=bool(is_asked_for)):
                continue
        added = high - low - (better.end - better.start)
        if apart or touching or added <= weights.max_extension_chars:
            better.start, better.end = low, high
        elif hit[1] <= better.start or better.end <= hit[0]:
            left = hit[1] <= better.start
            start, end = (passage.start, better.start) if left else (better.end, passage.end)
            passage.start, passage.end = strip(passage.view, start, end)
            continue
        better.hits += passage.hits
        _absorb(merged, better)
        return True
    return False


def _follow(passage: _Passage, other: _Passage, *, across: bool) -> bool:
    """Whether two passages touch: in one unit, or in neighbouring ones of a section, if they may go
    ``across`` units.
    """
    view = passage.view
    before, after = sorted((passage, other), key=lambda each: each.start)
    if view.text(before.end, after.start).strip():
        return False
    ordinal = view.ordinal_at(after.start)
    return not begins_unit(view, ordinal) or (across and view.kind(ordinal) != "heading")


def _absorb(merged: list[_Passage], passage: _Passage) -> None:
    """Join a passage that has grown with those that it now overlaps, in the place of the best of
    them.
    """
    while True:
        together = [
            other
            for other in merged
            if other.view is passage.view
            and other.start < passage.end
            and passage.start < other.end
        ]
        if len(together) == 1:
            return
        best, *others = together
        best.start = min(other.start for other in together)
        best.end = max(other.end for other in together)
        for other in others:
            best.hits += other.hits
            merged.remove(other)
        passage = best


def _without_copies(merged: list[_Passage], weights: Weights) -> list[_Passage]:
    """Drop passages whose words a better one of another document has; what a mail quotes is no
    better than the original.
    """
    originals: dict[_Passage, str] = {}
    for passage in sorted(merged, key=lambda each: each.quoted != ""):
        _add_original(passage, originals, weights)
    return [passage for passage in merged if passage in originals]


def _add_original(passage: _Passage, originals: dict[_Passage, str], weights: Weights) -> bool:
    """Add a passage and its words to the originals, and return whether it was added.

    It is not if a passage of another document has the same words: that one then names this document
    in ``also_in``. Of what a mail quotes only the best sentence is compared.
    """
    words = _read_words(passage.view.text(passage.start, passage.end))
    said = _read_words(passage.quoted) or words
    others = originals if passage.quoted or len(words) >= weights.min_copy_chars else {}
    for other, text in others.items():
        if other.view is not passage.view and said in text:
            doc_ids = [*other.also_in, passage.view.row.doc_id, *passage.also_in]
            other.also_in = list(dict.fromkeys(doc_ids))
            return False
    originals[passage] = words
    return True


def _read_words(text: str) -> str:
    """The words of a text, without the marks of what a mail quotes."""
    return " ".join(QUOTE_MARKS.sub("", text).split())
