"""A state of an index on Qdrant.

Words and texts are in the local copy, whose segments have ids of points in place of vectors.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from qdrant_client import models

from lmkrag.errors import SnapshotExpired
from lmkrag.index.files import File, read_tables, write_tables
from lmkrag.index.live import Selection
from lmkrag.index.pool import IndexReader
from lmkrag.index.ranges import expand_ranges, find_ranges, find_rows, join_runs, sort_runs
from lmkrag.index.searchable import Nearest
from lmkrag.index.segments import Segment
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.vectors.vector_set import Slices
from lmkrag.qdrant.connection import Connection, in_parts
from lmkrag.qdrant.log import VECTOR
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import NO_IDS, Ids, Scores, Vectors

_INTERVAL = 0.5  # seconds between two polls of the log
_SCORED = 1_000  # sentences scored in one request; up to as many are scored rather than searched
_LISTED = 50_000  # ids that a request may filter by; larger selections are filtered here
_COLUMNS = ("rows", "points", "counts")


def write_points(path: Path, read: Slices, rows: int, recipe: Recipe) -> File:
    """Write the ids of the points of a segment, and make the file durable.

    Args:
        path: the new file.
        read: yields the ids, in order of the rows.
        rows: number of rows.
        recipe: not used; a directory's store needs it.
    """
    points = np.concatenate([NO_IDS, *read()])
    runs = join_runs(np.column_stack([np.arange(rows), points, np.ones(rows, np.int64)]))
    return write_tables(path, dict(zip(_COLUMNS, np.ascontiguousarray(runs.T), strict=True)))


class PointSegment(Segment):
    """The files of a segment of the copy. In place of vectors one has runs (row, first point,
    count).
    """

    @computed_once
    def vectors(self) -> Any:
        """Its runs ``[n, 3]`` by row."""
        tables = read_tables(self._vectors)
        return np.column_stack([tables[name] for name in _COLUMNS])

    def slices(self, rows: Ids) -> Iterator[Ids]:
        """Yield the points of some rows, in one array."""
        yield _look_up(self.vectors, rows)


def _look_up(runs: Ids, keys: Ids, key: int = 0) -> Ids:
    """Map rows to points, or points to rows.

    Args:
        runs: ``[n, 3]`` int64, sorted by the column of the keys.
        keys: ``[k]`` int64.
        key: the column of the keys, 0 or 1.

    Returns:
        ``[k]`` int64, values of the other column; -1 for a key that is in no run.
    """
    place = find_ranges(keys, runs[:, key], runs[:, key] + runs[:, 2])
    shift = np.append(runs[:, 1 - key] - runs[:, key], 0)
    return np.where(place >= 0, keys + shift[place], -1)


def _choose(sentences: Ids, similar: Scores, top_k: int) -> Nearest:
    """Return the ``top_k`` most similar sentences, best first, ties by id."""
    best = np.lexsort((sentences, -similar))[:top_k]
    return Nearest(sentences[best], similar[best])


@dataclass(frozen=True)
class QdrantSnapshot(Snapshot):
    """One state of the copy, whose vectors are on the server.

    Attributes:
        qdrant: the connection to the server.
        similarities: similarities of sentences that were requested, by the bytes of the question's
            vector.
    """

    qdrant: Connection
    similarities: dict[bytes, dict[int, float]] = field(default_factory=dict)

    def find_nearest(
        self, vector: Scores, top_k: int, allowed: Selection | None, matched: Ids
    ) -> Nearest:
        """Find the sentences nearest to a question.

        The same call returns the similarities of the sentences that have its words.

        Args:
            vector: ``[dimensions]`` float32 of length one.
            top_k: maximum number of sentences.
            allowed: the documents to search in; None for all.
            matched: ``[n]`` int64, sentences of the lexical search.

        Raises:
            SnapshotExpired: vectors of this state are gone.
            StorageError: the server can't be reached.
        """
        counts, share, few = self.documents.stop - self.documents.first, 1.0, None
        if allowed is not None:
            inside = expand_ranges(
                self.documents.first[allowed.positions], counts[allowed.positions]
            )
            if len(inside) <= _SCORED:
                self._ask(vector, np.union1d(inside, matched))
                return _choose(inside, self.compare_sentences(vector, inside), top_k)
            few = self.find_points(inside) if len(inside) <= _LISTED else None
            share = 1.0 if few is not None else len(inside) / counts.sum()
        # Search until enough sentences of this state are found; the server has points of others,
        # too.
        limit = int(1.25 * top_k / share)
        while True:
            _, (reply,) = self._ask(vector, matched, self._request(vector, limit, few))
            sentences, similar = self._read_reply(reply)
            living = sentences >= 0
            if allowed is not None:
                living &= np.isin(self.documents.owners(sentences), allowed.positions)
            if living.sum() >= top_k or len(sentences) < limit:
                return _choose(sentences[living], similar[living], top_k)
            limit *= 4  # too many are of removed documents or uncommitted

    def compare_sentences(self, vector: Scores, sentences: Ids) -> Scores:
        """Return the inner product of a question with sentences ``[n]``."""
        known, _ = self._ask(vector, sentences)
        return np.array([known[sentence] for sentence in sentences.tolist()], np.float32)

    def _ask(
        self, vector: Scores, sentences: Ids, *more: models.QueryRequest
    ) -> tuple[dict[int, float], list[Any]]:
        """Request the similarities of sentences that are not cached, together with further
        requests.

        Returns:
            All similarities of the question by sentence, and the replies to the further requests.
        """
        known = self.similarities.setdefault(vector.tobytes(), {})
        unknown = [sentence for sentence in sentences.tolist() if sentence not in known]
        points = (self.find_points(np.array(part)) for part in in_parts(unknown, _SCORED))
        requests = [*more, *(self._request(vector, len(part), part, exact=True) for part in points)]
        replies = self.qdrant.call("query_batch_points", requests) if requests else []
        for reply in replies[len(more) :]:
            known |= zip(*(array.tolist() for array in self._read_reply(reply)), strict=True)
        self._check_complete(known.keys() >= set(unknown))
        return known, list(replies[: len(more)])

    def _read_reply(self, reply: Any) -> tuple[Ids, Scores]:
        """Return the sentences of a reply, -1 for a point of another state, and their
        similarities.
        """
        points = np.array([int(point.id) for point in reply.points], np.int64)
        return self.find_sentences(points), np.array(
            [point.score for point in reply.points], np.float32
        )

    def _check_complete(self, complete: bool) -> None:
        """Raise SnapshotExpired unless the server had all vectors."""
        if not complete:
            raise SnapshotExpired(
                f"{self.qdrant.text}: vectors are gone; if this stays so, run lmkrag verify"
            )

    def _request(
        self, vector: Scores, limit: int, among: Ids | None, *, exact: bool = False
    ) -> models.QueryRequest:
        """Return a request for the nearest points, of all or of some, compared exactly or by their
        codes first.
        """
        keep = (
            None
            if among is None
            else models.Filter(must=[models.HasIdCondition(has_id=among.tolist())])
        )
        codes = models.QuantizationSearchParams(ignore=exact, rescore=True, oversampling=2.0)
        search = models.SearchParams(exact=exact, hnsw_ef=max(256, limit), quantization=codes)
        # the local mode is always exact, and warns
        params = None if self.qdrant.is_local else search
        return models.QueryRequest(
            query=vector.tolist(), using=VECTOR, filter=keep, limit=limit, params=params
        )

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors ``[len(sentences), dimensions]`` float32 of sentences.

        Raises:
            SnapshotExpired: a vector is gone.
        """
        points, vectors = self.find_points(sentences).tolist(), dict[int, Any]()
        for part in in_parts(points, _SCORED):
            records = self.qdrant.call("retrieve", part, with_payload=False, with_vectors=[VECTOR])
            vectors |= {int(record.id): record.vector[VECTOR] for record in records}
        self._check_complete(vectors.keys() >= set(points))
        return np.array([vectors[point] for point in points], np.float32)

    def find_points(self, sentences: Ids) -> Ids:
        """Return the points of sentences ``[n]`` of this state."""
        points = np.full(len(sentences), -1)
        for live in self.segments:
            inside, rows = find_rows(live.by_sentence, sentences)
            points[inside] = _look_up(cast(PointSegment, live.segment).vectors, rows)
        return points

    def find_sentences(self, points: Ids) -> Ids:
        """Return the sentences of points ``[n]``; -1 for a point of no sentence of this state."""
        sentences = np.full(len(points), -1)
        for live in self.segments:
            rows = _look_up(sort_runs(cast(PointSegment, live.segment).vectors), points, key=1)
            sentences = np.maximum(sentences, _look_up(live.runs, rows))
        return sentences


class QdrantReader(IndexReader):
    """Gives snapshots of the local copy, which is updated before, at most twice a second."""

    segment_type = PointSegment

    def __init__(
        self, path: Path, encoder: EncoderSpec, qdrant: Connection, refresh: Callable[[], None]
    ) -> None:
        """Take a copy and what updates it.

        Args:
            path: the directory of the copy.
            encoder: the encoder of the index.
            qdrant: the connection to the server.
            refresh: applies new entries of the log to the copy.
        """
        super().__init__(path, encoder)
        self._qdrant, self._refresh, self._next_look = qdrant, refresh, 0.0

    @contextlib.contextmanager
    def snapshot(self, *, segments: bool = True) -> Iterator[Snapshot]:
        """Hold one state of the copy: see :meth:`lmkrag.index.pool.IndexReader.snapshot`."""
        if getattr(self._held, "connection", None) is None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _INTERVAL
            self._refresh()
        with super().snapshot(segments=segments) as state:
            yield QdrantSnapshot(
                state.connection, state.read_documents, state.segments, self._qdrant
            )
