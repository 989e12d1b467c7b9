"""One committed state of an index, and how it is searched."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmkrag.errors import IndexCorrupt
from lmkrag.index import catalog
from lmkrag.index.catalog import Ids, Living, find_ranges
from lmkrag.index.lexical import HEADS, INTRODUCES, Posting, Words, query_words, score_rows, score_texts, weigh
from lmkrag.index.segments import Segment
from lmkrag.index.vectors import VectorFile

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]

_TITLES = 100_000  # whose words are kept at most: some 500 bytes each


class LiveSegment:
    """A segment in a snapshot: which of its rows are alive, and which sentences they are."""

    def __init__(self, segment: Segment, runs: Ids, living: Living) -> None:
        """Take a segment, which sentences it was written with, and the documents there are now.

        Args:
            segment: opened.
            runs: ``[n, 3]`` row, id of the first sentence, count; they tile the rows.
            living: sentences of other documents are dead.

        ``owners`` are the positions in ``living`` of the documents that the live runs are of.
        """
        owners = living.owners(runs[:, 1])
        alive = owners >= 0
        self.segment = segment
        self.runs: Ids = runs[alive]
        self.owners: Ids = owners[alive]
        self.whole = bool(alive.all())
        self.by_sentence = sort_runs(self.runs)

    @cached_property
    def alive(self) -> int:
        """How many rows are alive."""
        return int(self.runs[:, 2].sum())

    @cached_property
    def rows(self) -> Ids:
        """The live rows, in order."""
        return _spread(self.runs[:, 0], self.runs[:, 2])

    @cached_property
    def mask(self) -> Mask:
        """``[rows of the file]``: which are alive."""
        return self._mask(self.runs)

    @cached_property
    def words(self) -> int:
        """The words of all live sentences together."""
        lexicon = self.segment.lexicon
        return lexicon.length if self.whole else int(lexicon.lengths[self.mask].sum(dtype=np.int64))

    @cached_property
    def words_before(self) -> Ids:
        """``[rows of the file + 1]``: the words of all rows before each."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.segment.lexicon.lengths, dtype=np.int64)])

    def allowed(self, ranges: Ids) -> Mask:
        """Return ``[rows of the file]``: which are alive and in one of the ranges ``[n, 2]`` of sentence ids."""
        return self._mask(self.runs[find_ranges(self.runs[:, 1], ranges[:, 0], ranges[:, 1]) >= 0])

    def _mask(self, runs: Ids) -> Mask:
        mask = np.zeros(self.segment.file.rows, bool)
        mask[_spread(runs[:, 0], runs[:, 2])] = True
        return mask

    def sentences(self, rows: Ids) -> Ids:
        """Return the sentence of each live row."""
        run = self.runs[np.searchsorted(self.runs[:, 0], rows, side="right") - 1]
        return run[..., 1] + rows - run[..., 0]


def _spread(first: Ids, counts: Ids) -> Ids:
    """The numbers of ranges, end to end."""
    total = int(counts.sum())
    if not total:
        return np.zeros(0, np.int64)
    jump = np.ones(total, np.int64)
    jump[0] = first[0]
    starts = np.cumsum(counts)[:-1]
    jump[starts] = first[1:] - (first[:-1] + counts[:-1] - 1)
    return np.cumsum(jump)


class Selection:
    """Documents to search in: what a filter keeps. Each segment's rows are worked out once."""

    def __init__(self, living: Living, keys: Sequence[int]) -> None:
        """Take the documents of a snapshot and the row ids of those to keep."""
        kept = np.isin(living.keys, np.array(keys, np.int64))
        self._ranges: Ids = living.ranges[kept]
        self._masks: dict[str, Mask] = {}

    def rows(self, live: LiveSegment) -> Mask:
        """Return ``[rows of the file]``: which may be found."""
        name = live.segment.file.name
        if name not in self._masks:
            self._masks[name] = live.allowed(self._ranges)
        return self._masks[name]


class FoundWords(NamedTuple):
    """Where the words of a question are, segment by segment, and what each word weighs."""

    postings: list[list[Posting]]
    weights: list[float]


class Described(NamedTuple):
    """Of some sentences, each ``[k]``.

    ``paragraphs`` are their paragraphs' first sentences. Those not ``telling`` say nothing by themselves: headings that
    text follows, and what has no word, such as a table's rule. The ``introducing`` ones end in a colon or ask.
    """

    paragraphs: Ids
    telling: Mask
    introducing: Mask


@dataclass(frozen=True)
class Snapshot:
    """One committed state of the index, for as long as the reader holds it."""

    connection: sqlite3.Connection
    generation: int
    living: Living
    segments: tuple[LiveSegment, ...]
    titles: dict[int, frozenset[int]]
    """Words of documents' titles, by document; filled as they are asked for, and good for every later snapshot."""

    def search_dense(self, queries: Vectors, top: int, allowed: Selection | None = None) -> tuple[Vectors, Ids]:
        """Find the sentences nearest to each query by inner product.

        Args:
            queries: ``[n, dimensions]`` float32 of length one.
            top: how many sentences a query.
            allowed: documents to search in; None for all.

        Returns:
            Scores ``[n, k]`` and sentence ids ``[n, k]`` with ``k <= top``, best first, ties by id; id -1 where there
            are no more.
        """
        scores = [np.zeros((len(queries), 0), np.float32)]
        ids = [np.zeros((len(queries), 0), np.int64)]
        for live in self.segments:
            mask = allowed.rows(live) if allowed is not None else None if live.whole else live.mask
            if mask is not None and not mask.any():
                continue
            found, rows = live.segment.vectors.search(queries, top, mask)
            scores.append(np.where(rows >= 0, found, -np.inf))
            ids.append(np.where(rows >= 0, live.sentences(np.maximum(rows, 0)), -1))
        all_scores, all_ids = np.concatenate(scores, axis=1), np.concatenate(ids, axis=1)
        order = np.lexsort((all_ids, -all_scores), axis=1)[:, :top]
        return np.take_along_axis(all_scores, order, 1), np.take_along_axis(all_ids, order, 1)

    def find_words(self, words: Words) -> FoundWords:
        """Look up some words, from :func:`lmkrag.index.lexical.query_words`."""
        postings = [[self._posting(live, int(word)) for word in words] for live in self.segments]
        total = self.living.sentences
        weights = [weigh(sum(len(posting.rows) for posting in column), total) for column in zip(*postings, strict=True)]
        return FoundWords(postings, weights)

    def _posting(self, live: LiveSegment, word: int) -> Posting:
        posting = live.segment.lexicon.find(word)
        if live.whole or not len(posting.rows):
            return posting
        alive = live.mask[posting.rows]
        return Posting(posting.rows[alive], posting.counts[alive])

    @property
    def _words(self) -> int:
        """The words of all sentences together, at least one."""
        return max(1, sum(live.words for live in self.segments))

    def search_lexical(self, words: FoundWords, top: int, allowed: Selection | None = None) -> tuple[Ids, Vectors]:
        """Find sentences by BM25 over any of some words.

        Args:
            words: those of the question, looked up here.
            top: how many sentences, at most.
            allowed: documents to search in; None for all. Words weigh the same either way.

        Returns:
            Sentence ids ``[k]`` and scores ``[k]`` float32, best first, ties by id.
        """
        total = self.living.sentences
        if not total:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        average = self._words / total
        ids, scores = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for live, mine in zip(self.segments, words.postings, strict=True):
            rows, found = score_rows(mine, words.weights, live.segment.lexicon.lengths, average)
            if allowed is not None:
                kept = allowed.rows(live)[rows]
                rows, found = rows[kept], found[kept]
            if len(rows) > top:
                kept = found >= -np.partition(-found, top - 1)[top - 1]
                rows, found = rows[kept], found[kept]
            ids.append(live.sentences(rows))
            scores.append(found)
        all_ids, all_scores = np.concatenate(ids), np.concatenate(scores)
        order = np.lexsort((all_ids, -all_scores))[:top]
        return all_ids[order], all_scores[order]

    def score_documents(self, documents: Ids, words: FoundWords) -> Vectors:
        """Return the BM25 scores of some documents, each read as one text without its title.

        A passage of a document that is about the question as a whole is more often the one that is meant (Callan,
        "Passage-level evidence in document retrieval", SIGIR 1994).

        Args:
            documents: ``[k]`` their positions in ``living``, each once.
            words: those of the question, looked up here.

        Returns:
            ``[k]`` float32.
        """
        place = np.full(len(self.living.keys), -1)
        place[documents] = np.arange(len(documents))
        counts = np.zeros((len(words.weights), len(documents)))
        lengths = np.zeros(len(documents), np.int64)
        for live, mine in zip(self.segments, words.postings, strict=True):
            owners = place[live.owners]
            kept = owners >= 0
            owners, starts = owners[kept], live.runs[kept, 0]
            stops = starts + live.runs[kept, 2]
            borders = np.array([starts, stops], np.uint32)  # of another type, each posting would be copied
            np.add.at(lengths, owners, live.words_before[stops] - live.words_before[starts])
            for number, posting in enumerate(mine):
                first, stop = np.searchsorted(posting.rows, borders)
                having = stop > first
                found = posting.counts[_spread(first[having], (stop - first)[having])]
                of = np.repeat(owners[having], (stop - first)[having])
                counts[number] += np.bincount(of, found, len(documents))
        return score_texts(counts, words.weights, lengths, self._words / max(1, len(self.living.keys)))

    def share_named(self, documents: Ids, words: Words) -> Vectors:
        """Return which share of the words of each document's title are among some words.

        Args:
            documents: ``[k]`` their row ids.
            words: from :func:`lmkrag.index.lexical.query_words`.

        Returns:
            ``[k]`` float32; 0 without a title.
        """
        titles = {key: self.titles.get(key) for key in documents.tolist()}
        unknown = [key for key, title in titles.items() if title is None]
        if unknown:
            rows = catalog.read_documents(self.connection, unknown)
            read = {key: frozenset(query_words(row.title).tolist()) for key, row in rows.items()}
            if len(self.titles) + len(read) > _TITLES:
                self.titles.clear()
            self.titles.update(read)
            titles |= read
        asked = frozenset(words.tolist())
        shares = {key: len(title & asked) / len(title) if title else 0.0 for key, title in titles.items()}
        return np.array([shares[key] for key in documents.tolist()], np.float32)

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors ``[len(sentences), dimensions]`` of some sentences.

        Raises:
            IndexCorrupt: there is none of one of them.
        """
        vectors = gather_vectors([(live.segment.vectors, live.by_sentence) for live in self.segments], sentences)
        if vectors is None:
            raise IndexCorrupt("no segment holds one of the sentences asked for; run lmkrag repair")
        return vectors

    def describe(self, sentences: Ids) -> Described:
        """Return what the index knows of some sentences ``[k]``, their words and vectors aside."""
        paragraphs = sentences.copy()
        telling, introducing = np.ones(len(sentences), bool), np.zeros(len(sentences), bool)
        for live in self.segments:
            mine, rows = _find_rows(live.by_sentence, sentences)
            lexicon = live.segment.lexicon
            paragraphs[mine] -= lexicon.places[rows]
            telling[mine] = (lexicon.leads[rows] != HEADS) & (lexicon.lengths[rows] > 0)
            introducing[mine] = lexicon.leads[rows] == INTRODUCES
        return Described(paragraphs, telling, introducing)


def sort_runs(runs: Ids) -> Ids:
    """Return runs ``[n, 3]`` by sentence."""
    return runs[np.argsort(runs[:, 1], kind="stable")]


def gather_vectors(parts: Sequence[tuple[VectorFile, Ids]], sentences: Ids) -> Vectors | None:
    """Read the vectors of some sentences.

    Args:
        parts: vector files with their runs ``[n, 3]`` by sentence.
        sentences: ``[k]`` ids.

    Returns:
        ``[k, dimensions]`` float32, or None if one of them has none.
    """
    vectors: Vectors | None = None
    missing = np.ones(len(sentences), bool)
    for file, runs in parts:
        mine, rows = _find_rows(runs, sentences)
        if not len(rows):
            continue
        found = file.read(rows)
        if vectors is None:
            vectors = np.zeros((len(sentences), found.shape[1]), np.float32)
        vectors[mine] = found
        missing &= ~mine
    return None if missing.any() else vectors


def _find_rows(runs: Ids, sentences: Ids) -> tuple[Mask, Ids]:
    """Which of some sentences ``[k]`` are in runs ``[n, 3]`` by sentence; and the rows of those that are."""
    place = find_ranges(sentences, runs[:, 1], runs[:, 1] + runs[:, 2])
    mine = place >= 0
    run = runs[place[mine]]
    return mine, run[:, 0] + sentences[mine] - run[:, 1]
