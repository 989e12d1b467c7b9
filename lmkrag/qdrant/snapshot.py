"""One state of an index on Qdrant: words and texts are read from the copy here, vectors are searched there."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from qdrant_client import models

from lmkrag.arrays import Ids, Scores, Vectors
from lmkrag.errors import SnapshotExpired
from lmkrag.index.live import LiveSegment, Selection
from lmkrag.index.pool import IndexReader
from lmkrag.index.ranges import expand_ranges, find_rows
from lmkrag.index.searchable import Nearest
from lmkrag.index.snapshot import Snapshot
from lmkrag.qdrant.connection import Connection, in_parts
from lmkrag.qdrant.log import VECTOR
from lmkrag.qdrant.points import PointFile, PointSegment, find_in_runs
from lmkrag.specs import EncoderSpec

_INTERVAL = 0.5  # seconds between two looks at the log
_SCORED = 1_000  # sentences that are scored in one request; of as few, all are scored rather than searched
_LISTED = 50_000  # sentences that a request may name; of more, those that a filter leaves out are dropped here
_OVERSAMPLING = 2.0  # candidates from the quantized vectors, scored by the originals
_WIDTH = 256  # of a search in the graph


@dataclass(frozen=True)
class QdrantSnapshot(Snapshot):
    """One state of the copy. ``similarities`` of sentences, by questions, are asked for once."""

    qdrant: Connection
    expire: Callable[[], None]  # has the next snapshot look at the log
    similarities: dict[bytes, dict[int, float]] = field(default_factory=dict)

    def find_nearest(self, vector: Scores, top_k: int, allowed: Selection | None, matched: Ids) -> Nearest:
        """Find the sentences nearest to a question, and ask for the similarities of those that words have found."""
        counts = self.documents.stop - self.documents.first
        inside = None
        if allowed is not None:
            inside = expand_ranges(self.documents.first[allowed.kept], counts[allowed.kept])
            if len(inside) <= _SCORED:
                similar = self._compare(vector, np.union1d(inside, matched), inside)
                best = np.lexsort((inside, -similar))[:top_k]
                return Nearest(inside[best], similar[best])
        few = None if inside is None or len(inside) > _LISTED else self.find_points(inside)
        share = 1.0 if inside is None or few is not None else len(inside) / max(1, self.documents.sentences)
        limit = int(1.25 * top_k / share)
        while True:
            waiting = self._unknown(vector, matched)[:_SCORED]
            requests = [self._request(vector, limit, few), *([self._request_scores(vector, waiting)] if waiting else [])]
            found, *scored = self.qdrant.call("query_batch_points", requests)
            for reply in scored:
                self._remember(vector, waiting, reply.points)
            sentences = self.find_sentences(np.array([int(point.id) for point in found.points], np.int64))
            similar = np.array([point.score for point in found.points], np.float32)
            living = sentences >= 0
            if few is None and allowed is not None:
                living &= np.isin(self.documents.owners(sentences), allowed.kept)
            if living.sum() >= top_k or len(sentences) < limit:
                break
            limit *= 4  # too many are of removed documents, or not of this state
        sentences, similar = sentences[living], similar[living]
        best = np.lexsort((sentences, -similar))[:top_k]
        return Nearest(sentences[best], similar[best])

    def compare_sentences(self, vector: Scores, sentences: Ids) -> Scores:
        """Return the inner product of a question with sentences ``[n]``."""
        return self._compare(vector, sentences, sentences)

    def _compare(self, vector: Scores, asked: Ids, sentences: Ids) -> Scores:
        """The similarities of ``sentences``, after those of all that are ``asked`` for and not known."""
        parts = list(in_parts(self._unknown(vector, asked), _SCORED))
        if parts:
            replies = self.qdrant.call("query_batch_points", [self._request_scores(vector, part) for part in parts])
            for part, reply in zip(parts, replies, strict=True):
                self._remember(vector, part, reply.points)
        known = self.similarities.get(vector.tobytes(), {})
        return np.array([known[sentence] for sentence in sentences.tolist()], np.float32)

    def _unknown(self, vector: Scores, sentences: Ids) -> list[int]:
        known = self.similarities.setdefault(vector.tobytes(), {})
        return [sentence for sentence in sentences.tolist() if sentence not in known]

    def _remember(self, vector: Scores, asked: list[int], points: list[Any]) -> None:
        sentences = self.find_sentences(np.array([int(point.id) for point in points], np.int64)).tolist()
        self.similarities[vector.tobytes()] |= zip(sentences, (point.score for point in points), strict=True)
        self._check(len(points) == len(asked))

    def _check(self, complete: bool) -> None:
        if not complete:
            self.expire()
            text = self.qdrant.address.text
            raise SnapshotExpired(f"{text}: vectors that were asked for are gone; if this stays so, run lmkrag verify")

    def _request(self, vector: Scores, limit: int, among: Ids | None, *, exact: bool = False) -> models.QueryRequest:
        keep = None if among is None else models.Filter(must=[models.HasIdCondition(has_id=among.tolist())])
        quantization = models.QuantizationSearchParams(ignore=exact, rescore=True, oversampling=_OVERSAMPLING)
        width = None if exact else max(_WIDTH, limit)
        search = models.SearchParams(exact=exact, hnsw_ef=width, quantization=quantization)
        params = None if self.qdrant.address.is_local else search  # the local mode is always exact, and warns
        return models.QueryRequest(query=vector.tolist(), using=VECTOR, filter=keep, limit=limit, params=params)

    def _request_scores(self, vector: Scores, sentences: list[int]) -> models.QueryRequest:
        return self._request(vector, len(sentences), self.find_points(np.array(sentences, np.int64)), exact=True)

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors ``[len(sentences), dimensions]``. Raises SnapshotExpired: one is gone."""
        vectors: dict[int, Any] = {}
        points = self.find_points(sentences).tolist()
        for part in in_parts(points, _SCORED):
            for record in self.qdrant.call("retrieve", part, with_payload=False, with_vectors=[VECTOR]):
                vectors[int(record.id)] = record.vector[VECTOR]
        self._check(vectors.keys() == set(points))
        return np.array([vectors[point] for point in points], np.float32)

    def find_points(self, sentences: Ids) -> Ids:
        """Return the points of sentences ``[n]``, which are of this state."""
        points = np.full(len(sentences), -1)
        for live in self.segments:
            inside, rows = find_rows(live.by_sentence, sentences)
            points[inside] = points_of(live).of(rows)
        return points

    def find_sentences(self, points: Ids) -> Ids:
        """Return the sentences of points ``[n]``; -1 where one is of no sentence of this state."""
        sentences = np.full(len(points), -1)
        for live in self.segments:
            rows = find_in_runs(points_of(live).by_point, points, 1)
            sentences = np.where(rows >= 0, find_in_runs(live.runs, rows, 0), sentences)
        return sentences


def points_of(live: LiveSegment) -> PointFile:
    """Return the points of a segment."""
    return cast(PointSegment, live.segment).points


class QdrantReader(IndexReader):
    """Snapshots of the copy, which is brought up to date first, unless that was done just now."""

    segment_type = PointSegment

    def __init__(self, path: Path, encoder: EncoderSpec, qdrant: Connection, refresh: Callable[[], None]) -> None:
        super().__init__(path, encoder)
        self._qdrant, self._refresh = qdrant, refresh
        self.expire()

    def expire(self) -> None:
        """Have the next snapshot look at the log."""
        self._next_look = 0.0

    @contextlib.contextmanager
    def snapshot(self, *, segments: bool = True) -> Iterator[Snapshot]:
        """Hold one state of the copy: see :meth:`lmkrag.index.pool.IndexReader.snapshot`."""
        if getattr(self._held, "connection", None) is None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _INTERVAL
            self._refresh()
        with super().snapshot(segments=segments) as snapshot:
            state = snapshot.connection, snapshot.documents, snapshot.segments
            yield QdrantSnapshot(*state, self._qdrant, self.expire)
