"""Lexical search by BM25 over the live segments of a snapshot.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with k1 =
1.2 and b = 0.75.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmkrag.index.live import LiveSegment, Pieces, Selection
from lmkrag.index.ranges import DocumentRanges, clip_runs
from lmkrag.index.words.postings import Posting
from lmkrag.types.arrays import NO_IDS, NO_SCORES, Bytes, Hashes, Ids, Scores

K1, B = 1.2, 0.75  # saturation and length normalisation
_COMMON = 100_000  # a word in more sentences than this tells no documents apart


class Totals(NamedTuple):
    """The counts of an index, by which words and lengths are weighed.

    Attributes:
        documents: number of documents.
        sentences: number of sentences.
        words: number of words of all sentences.
        languages: languages other than English in which words were stemmed.
    """

    documents: int
    sentences: int
    words: int
    languages: frozenset[str] = frozenset()


class Terms(NamedTuple):
    """The words of a question in an index.

    Attributes:
        words: ``[w]`` uint64, their hashes.
        postings: for each segment, the live postings of each word.
        counts: in how many sentences each word is.
        weights: the inverse document frequency of each word, over sentences.
        totals: the counts of the index.
    """

    words: Hashes
    postings: list[list[Posting]]
    counts: list[int]
    weights: list[float]
    totals: Totals


def find_terms(segments: Sequence[LiveSegment], totals: Totals, words: Hashes) -> Terms:
    """Look up words in segments.

    Args:
        segments: the segments of a snapshot.
        totals: the counts of the index.
        words: ``[w]`` uint64, hashes from :func:`lmkrag.language.terms.query_words`.
    """
    postings = [
        [_live_posting(live, posting) for posting in live.segment.postings.find(words)]
        for live in segments
    ]
    counts = [
        sum(len(of_segment[number].rows) for of_segment in postings) for number in range(len(words))
    ]
    weights = [inverse_document_frequency(count, totals.sentences) for count in counts]
    return Terms(words, postings, counts, weights, totals)


def _live_posting(live: LiveSegment, posting: Posting) -> Posting:
    """Return the part of a posting whose rows are alive."""
    if live.whole or not len(posting.rows):
        return posting
    alive = live.mask[posting.rows]
    return Posting(posting.rows[alive], posting.counts[alive])


def search_terms(
    segments: Sequence[LiveSegment], terms: Terms, top_k: int, allowed: Selection | None = None
) -> tuple[Ids, Scores]:
    """Find sentences that have any of some words, by BM25.

    Args:
        segments: the segments of a snapshot.
        terms: the words, from :func:`find_terms`.
        top_k: maximum number of sentences.
        allowed: the documents to search in; None for all. Words weigh the same either way.

    Returns:
        Sentence ids ``[n]`` int64 and scores ``[n]`` float32 with ``n <= top_k``, best first, ties
            by id.
    """
    if not terms.totals.sentences:
        return NO_IDS, NO_SCORES
    average = max(1, terms.totals.words) / terms.totals.sentences
    ids, scores = [NO_IDS], [NO_SCORES]
    for live, postings in zip(segments, terms.postings, strict=True):
        lengths, pieces = live.segment.postings.lengths, live.pieces
        if pieces is None:
            rows, bm25 = score_rows(postings, terms.weights, lengths, average)
        else:
            rows, bm25 = _score_pieces(postings, terms.weights, lengths, average, pieces)
        if allowed is not None:
            chosen = allowed.rows(live)[rows]
            rows, bm25 = rows[chosen], bm25[chosen]
        if len(rows) > top_k:
            chosen = bm25 >= -np.partition(-bm25, top_k - 1)[top_k - 1]
            rows, bm25 = rows[chosen], bm25[chosen]
        ids.append(live.sentences(rows))
        scores.append(bm25)
    all_ids, all_scores = np.concatenate(ids), np.concatenate(scores)
    order = np.lexsort((all_ids, -all_scores))[:top_k]
    return all_ids[order], all_scores[order]


def count_document_words(
    segments: Sequence[LiveSegment], documents: DocumentRanges, positions: Ids
) -> Ids:
    """Return the number of words of documents, titles not counted.

    Args:
        segments: the segments of a snapshot.
        documents: all documents of the snapshot.
        positions: ``[k]`` int64, increasing positions of the documents to count.

    Returns:
        ``[k]`` int64.
    """
    lengths = np.zeros(len(positions), np.int64)
    for live in segments:
        runs, owners = clip_runs(live.runs, documents.first[positions], documents.stop[positions])
        before = live.segment.postings.before
        np.add.at(lengths, owners, before[runs[:, 0] + runs[:, 2]] - before[runs[:, 0]])
    return lengths


class Places(NamedTuple):
    """Where a word first stands in each document that has it.

    Attributes:
        documents: ``[k]`` int64, positions of the documents.
        before: ``[k]`` int64, number of words of the document before the sentence.
        roles: ``[k]`` uint8, roles of the sentence.
    """

    documents: Ids  # positions, ``[k]``
    before: Ids  # how many words stand before the sentence, ``[k]``
    roles: Bytes  # of the sentence, ``[k]``


def find_first(
    segments: Sequence[LiveSegment], documents: DocumentRanges, terms: Terms
) -> list[Places]:
    """Find where each word first stands in each document.

    Args:
        segments: the segments of a snapshot.
        documents: all documents of the snapshot.
        terms: the words, from :func:`find_terms`.

    Returns:
        The places of each word; none for a word in more than 100,000 sentences.
    """
    places = []
    for column in zip(*terms.postings, strict=True):
        owners, before, roles = (
            [NO_IDS],
            [NO_IDS],
            [np.zeros(0, np.uint8)],
        )
        if sum(len(posting.rows) for posting in column) <= _COMMON:
            for live, posting in zip(segments, column, strict=True):
                sentences = live.sentences(posting.rows.astype(np.int64))
                owner = documents.owners(sentences)
                opens = np.flatnonzero(np.diff(owner, prepend=-1))
                rows, owner = posting.rows[opens].astype(np.int64), owner[opens]
                run = live.runs[np.searchsorted(live.runs[:, 0], rows, side="right") - 1, 0]
                above = np.minimum(sentences[opens] - documents.first[owner], rows - run)
                words = live.segment.postings.before
                owners.append(owner)
                before.append(words[rows] - words[rows - above])
                roles.append(live.segment.structure["roles"][rows])
        places.append(Places(np.concatenate(owners), np.concatenate(before), np.concatenate(roles)))
    return places


def inverse_document_frequency(matches: int, total: int) -> float:
    """Return the weight of a word that is in ``matches`` of ``total`` sentences, at least 1e-6.

    It is log((N - n + 0.5) / (n + 0.5)), as Robertson and Spärck Jones derived it (1976).
    """
    return max(1e-6, float(np.log((total - matches + 0.5) / (matches + 0.5))))


def score_rows(
    postings: Sequence[Posting],
    weights: Sequence[float],
    lengths: NDArray[np.uint16],
    average: float,
) -> tuple[Ids, Scores]:
    """Return every row of a segment that has one of some words, and its BM25 score.

    Args:
        postings: the rows of each word.
        weights: the weight of each word.
        lengths: ``[rows]`` uint16, number of words of each row.
        average: mean number of words of a sentence in the index.

    Returns:
        Rows ``[n]`` int64 in no order, and their scores ``[n]`` float32.
    """
    total = np.zeros(len(lengths), np.float32)
    matching = [np.zeros(0, np.uint32)]
    for posting, weight in zip(postings, weights, strict=True):
        rows, counts = posting.rows, posting.counts.astype(np.float32)
        norm = _norm(lengths[rows], average)
        before = total[rows]
        matching.append(rows[before == 0])
        total[rows] = before + np.float32(weight * (K1 + 1)) * counts / (counts + norm)
    every = np.concatenate(matching).astype(np.int64)
    return every, total[every]


def _score_pieces(
    postings: Sequence[Posting],
    weights: Sequence[float],
    lengths: NDArray[np.uint16],
    average: float,
    pieces: Pieces,
) -> tuple[Ids, Scores]:
    """Return what :func:`score_rows` returns for a segment with conversations: of the rows of a
    piece, the best has the score of the piece, by BM25 over pieces, and the others have none.
    """
    rows, bm25 = score_rows(postings, weights, lengths, average)
    rows = rows[np.lexsort((rows, -bm25))]
    heads, first = np.unique(pieces.heads[rows], return_index=True)
    total = np.zeros(len(heads), np.float32)
    relative = pieces.lengths / np.where(pieces.of_messages, pieces.average, average)
    norm = _norm(relative[heads], 1)
    for posting, weight in zip(postings, weights, strict=True):
        place = np.searchsorted(heads, pieces.heads[posting.rows])
        counts = np.bincount(place, posting.counts, len(heads)).astype(np.float32)
        total += np.float32(weight * (K1 + 1)) * counts / (counts + norm)
    return rows[first], total


def _norm(lengths: NDArray[Any], average: float) -> NDArray[Any]:
    """Return what BM25 adds to the count of a word in texts of some lengths, k1 (1 - b + b length /
    average).
    """
    return np.float32(K1 * (1 - B)) + np.float32(K1 * B / average) * lengths
