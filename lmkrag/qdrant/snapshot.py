"""One committed state of an index on Qdrant, and what a search asks of it."""

import base64
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from qdrant_client import models

from lmkrag.arrays import Bytes, Hashes, Ids, Mask, Scores, Vectors
from lmkrag.errors import IndexClosed, IndexCorrupt, SnapshotExpired
from lmkrag.index import codec
from lmkrag.index.catalog import SENTENCES_PER_BLOCK, TEXT_PER_BLOCK, DocumentRow, SkippedFile, owner_of
from lmkrag.index.columns import column_of
from lmkrag.index.live import Selection
from lmkrag.index.searchable import Searchable
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.index.view import DocumentView
from lmkrag.index.words.lexical import (
    COMMON,
    TITLED,
    Openings,
    Terms,
    Totals,
    inverse_document_frequency,
    score_counts,
    score_documents_by_counts,
    weigh_holders,
)
from lmkrag.qdrant.connection import Connection
from lmkrag.qdrant.log import Log, State, fold, from_model
from lmkrag.qdrant.points import SENTENCES, TEXT, WINDOWS, block_id, read_row, restore_counts
from lmkrag.system import FileStamp, computed_once
from lmkrag.types import Document

_PAGE = 256  # points read in one call
_ROWS = ["row", "checksum", "doc_id", "document", "length", "title", "lines"]  # of documents, without columns
_STRUCTURE = ["position", "role", "length"]
_NEARBY = 250
_TOGETHER = 16  # neighbouring blocks read in one call
_CACHED = 50_000  # points kept
_PREPARED = (4, 8)  # blocks of sentences and of text that are read with a document's row
_CHARACTERS = 200  # of a sentence, at most as a rule
_EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
_NEAREST = models.SearchParams(
    hnsw_ef=256, quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)
)


class QdrantReader:
    """Snapshots of an index on Qdrant. State: what was read of points, which never change while a document lives."""

    def __init__(self, connection: Connection, log: Log) -> None:
        self.connection, self.log = connection, log
        self.closed = False
        self.points: dict[Any, Any] = {}  # payloads of documents and blocks, and structure of sentences, by their ids
        self.columns: dict[str, dict[int, dict[str, Any]]] = {}  # fields of documents by column
        self.swept = frozenset[int]()  # removed documents whose points are gone
        self.names: tuple[State | None, list[str], list[int]] = (None, [], [])  # of a state, in order

    def forget(self, key: int) -> None:
        """Read the row of a document again, which has changed."""
        self.points.pop(("point", key), None)
        for column in self.columns.values():
            column.pop(key, None)

    @contextmanager
    def snapshot(self, *, segments: bool = True) -> Iterator["QdrantSnapshot"]:
        """Hold the newest committed state. Raises IndexClosed, StorageError."""
        if self.closed:
            raise IndexClosed(f"{self.connection.address.text}: this index was closed; open it again")
        if len(self.points) > _CACHED:
            self.points = {}
        yield QdrantSnapshot(self, self.log.refresh())


class QdrantSnapshot(Searchable):
    """A state of an index on Qdrant; what is deleted meanwhile raises SnapshotExpired, and is to be read again."""

    def __init__(self, reader: QdrantReader, state: State) -> None:
        self._reader, self.state, self.documents = reader, state, state.documents
        self._call = reader.connection.call
        self._sentences = f"{reader.connection.address.name}-sentences"
        self._documents = f"{reader.connection.address.name}-documents"

    # The parts of a search

    @computed_once
    def totals(self) -> Totals:
        """What the index holds in all."""
        counts = self.state.counts
        languages = frozenset(name.removeprefix("languages ") for name in +counts if name.startswith("languages "))
        return Totals(len(self.documents.keys), self.documents.sentences, counts["words"], languages)

    def search_dense(self, queries: Vectors, top_k: int, allowed: Selection | None = None) -> tuple[Vectors, Ids]:
        scores, ids = np.full((len(queries), top_k), -np.inf, np.float32), np.full((len(queries), top_k), -1, np.int64)
        for number, query in enumerate(queries):
            hits = self._search("dense", query.tolist(), top_k, allowed, _NEAREST)
            found, similarity = np.array([hit.id for hit in hits], np.int64), np.array([hit.score for hit in hits])
            order = np.lexsort((found, -similarity))[:top_k]
            ids[number, : len(order)], scores[number, : len(order)] = found[order], similarity[order]
        return scores, ids

    def find_terms(self, words: Hashes) -> Terms:
        counts, total = self._reader.log.count_words(self.state, words), self.totals.sentences
        weights = [inverse_document_frequency(max(0, count), total) for count in counts[:, 0].tolist()]
        return Terms(words, [], weights, self.totals)

    def search_lexical(self, terms: Terms, top_k: int, allowed: Selection | None = None) -> tuple[Ids, Scores]:
        if not len(terms.words) or not self.totals.sentences:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        folded = fold(terms.words)
        weights = dict(zip(folded.tolist(), terms.weights, strict=True))
        query = models.SparseVector(indices=list(weights), values=list(weights.values()))
        # Twice as many: they come by the weights of an index whose sentences have AVERAGE words, and are weighed here
        hits = self._search("words", query, 2 * top_k, allowed, None, with_vectors=["words"])
        ids = np.array([hit.id for hit in hits], np.int64)
        lengths = np.array([hit.payload["length"] for hit in hits], np.uint16)
        stored = np.zeros((len(folded), len(hits)), np.float32)
        for place, hit in enumerate(hits):
            words, values = from_model(hit.vector["words"])
            at = np.minimum(np.searchsorted(words, folded), len(words) - 1)
            stored[:, place] = np.where(words[at] == folded, values[at], 0)
        scores = score_counts(restore_counts(stored, lengths), terms, lengths)
        order = np.lexsort((ids, -scores))[:top_k]
        return ids[order], scores[order]

    def _search(
        self, name: str, query: Any, top_k: int, allowed: Selection | None, params: Any, **options: Any
    ) -> list[Any]:
        """The best living sentences, more of them in turn where some that come are dead."""
        if not len(self.documents.keys) or (allowed is not None and not len(allowed.kept)):
            return []
        limit, chosen = top_k, None if allowed is None else self._filter(allowed.kept)
        options |= {"using": name, "query_filter": chosen, "search_params": params, "with_payload": _STRUCTURE}
        while True:
            hits = self._call("query_points", self._sentences, query=query, limit=limit, **options).points
            owners = self.documents.owners(np.array([hit.id for hit in hits], np.int64))
            alive = [hit for hit, owner in zip(hits, owners.tolist(), strict=True) if owner >= 0]
            if len(alive) >= top_k or len(hits) < limit:
                self._keep_structure(alive)
                return alive[:top_k]
            limit *= 4

    def _filter(self, kept: Ids) -> models.Filter:
        """The filter of documents at some positions, or of all but the others where these are fewer."""
        keys = self.documents.keys[kept].tolist()
        if 2 * len(keys) <= len(self.documents.keys):
            return models.Filter(must=[models.FieldCondition(key="document", match=models.MatchAny(any=keys))])
        others = np.delete(self.documents.keys, kept).tolist()
        condition = models.FieldCondition(key="document", match=models.MatchAny(any=others))
        return models.Filter(must_not=[condition] if others else [])

    def _keep_structure(self, points: Iterable[Any]) -> None:
        for point in points:
            self._reader.points[point.id] = tuple(point.payload[name] for name in _STRUCTURE)

    def score_vectors(self, vector: Scores, sentences: Ids) -> Scores:
        chosen = models.Filter(must=[models.HasIdCondition(has_id=sentences.tolist())])
        options: dict[str, Any] = {"using": "dense", "query_filter": chosen, "search_params": _EXACT}
        hits = self._call(
            "query_points",
            self._sentences,
            query=vector.tolist(),
            limit=len(sentences),
            with_payload=_STRUCTURE,
            **options,
        ).points
        self._keep_structure(hits)
        scores = {hit.id: hit.score for hit in hits}
        self._check_all(sentences, scores)
        return np.array([scores[sentence] for sentence in sentences.tolist()], np.float32)

    def read_structure(self, sentences: Ids) -> tuple[Ids, Bytes]:
        known, ids = self._reader.points, sentences.tolist()
        missing = [sentence for sentence in ids if sentence not in known]
        for records in self._retrieve(self._sentences, missing, _STRUCTURE):
            self._keep_structure(records)
        self._check_all(ids, known)
        table = np.array([known[sentence] for sentence in ids], np.int64).reshape(-1, len(_STRUCTURE))
        return sentences - table[:, 0], table[:, 1].astype(np.uint8)

    def read_vectors(self, sentences: Ids) -> Vectors:
        found = {
            record.id: record.vector["dense"]
            for records in self._retrieve(self._sentences, sentences.tolist(), False, with_vectors=["dense"])
            for record in records
        }
        self._check_all(sentences, found)
        return np.array([found[sentence] for sentence in sentences.tolist()], np.float32)

    def _check_all(self, ids: Iterable[Any], found: Any) -> None:
        if any(one not in found for one in (ids.tolist() if isinstance(ids, np.ndarray) else ids)):
            raise SnapshotExpired(f"{self._reader.connection.address.text}: a document was replaced; read again")

    def find_openings(self, terms: Terms, among: Ids | None, border: tuple[float, int, int]) -> Openings:
        counts = self._reader.log.count_words(self.state, terms.words)
        holders, openings, folded = counts[:, 1], counts[:, 2], fold(terms.words).tolist()
        count, chosen = len(self.documents.keys), None
        if among is not None:
            chosen = models.Filter(must=[models.HasIdCondition(has_id=self.documents.keys[among].tolist())])
            holders, openings = self._count_among(folded, chosen, len(among), counts)
            count = len(among)
        inverse = [
            0.0 if sentences > COMMON else weigh_holders(max(0, number), count)
            for sentences, number in zip(counts[:, 0].tolist(), holders.tolist(), strict=True)
        ]
        weights = {word: weight for word, weight in zip(folded, inverse, strict=True) if weight > 0}
        if not weights:
            return Openings(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), 0.0, openings, lambda _: np.zeros(0, bool))
        query = models.SparseVector(indices=list(weights), values=list(weights.values()))
        requests = [
            models.QueryRequest(query=query, using=name, limit=2 * TITLED, filter=chosen)
            for name in ("words", "openings")
        ]
        found = self._call("query_batch_points", self._documents, requests)
        scores = [{int(point.id): point.score for point in reply.points} for reply in found]
        positions = self.documents.find(np.array(sorted(scores[0] | scores[1]), np.int64))
        keys = self.documents.keys[positions].tolist()

        def words_of(place: int) -> Mask:
            (record,) = self._call("retrieve", self._documents, [keys[place]], with_vectors=["openings"])
            return np.isin(np.array(folded), from_model(record.vector.get("openings")).words)

        held, opened = (np.array([score.get(key, 0.0) for key in keys]) for score in scores)
        return Openings(positions, held, opened, sum(inverse), openings, words_of)

    def _count_among(self, folded: list[int], chosen: models.Filter, size: int, counts: Ids) -> tuple[Ids, Ids]:
        """In how many of the documents of a filter each word is, and in how many openings; of many an estimate."""
        if size > TITLED:
            estimate = np.rint(counts * size / len(self.documents.keys)).astype(np.int64)
            return estimate[:, 1], estimate[:, 2]
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=[word], values=[1.0]), using=name, limit=size, filter=chosen
            )
            for name in ("words", "openings")
            for word in folded
        ]
        replies = self._call("query_batch_points", self._documents, requests)
        both = np.array([len(reply.points) for reply in replies]).reshape(2, -1)
        return both[0], both[1]

    def score_documents(self, positions: Ids, terms: Terms) -> Scores:
        keys = self.documents.keys[positions].tolist()
        chosen = models.Filter(must=[models.HasIdCondition(has_id=keys)])
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=[word], values=[1.0]), using="counts", limit=len(keys), filter=chosen
            )
            for word in fold(terms.words).tolist()
        ]
        counts = np.zeros((len(requests), len(keys)))
        for row, reply in zip(counts, self._call("query_batch_points", self._documents, requests), strict=True):
            found = {point.id: point.score for point in reply.points}
            row[:] = [found.get(key, 0) for key in keys]
        lengths = np.array([payload["length"] for payload in self._read_payloads(keys)], np.int64)
        return score_documents_by_counts(counts, lengths, terms)

    def match_titles(self, positions: Ids, words: Hashes) -> Scores:
        asked = set(words.view(np.int64).tolist())
        titles = [payload["title"] for payload in self._read_payloads(self.documents.keys[positions].tolist())]
        return np.array([len(asked & set(title)) / max(1, len(title)) for title in titles], np.float32)

    # Documents

    def _retrieve(self, collection: str, ids: Sequence[Any], payload: Any, **options: Any) -> Iterator[list[Any]]:
        for low in range(0, len(ids), _PAGE):
            part = list(ids[low : low + _PAGE])
            yield self._call("retrieve", collection, part, with_payload=payload, **options)

    def _read_points(self, ids: Iterable[Any]) -> None:
        """Read the points of documents and blocks that are not known yet."""
        missing = [one for one in ids if ("point", one) not in self._reader.points]
        for records in self._retrieve(self._documents, missing, [*_ROWS, "data"]):
            self._reader.points |= {("point", record.id): record.payload for record in records}

    def _read_payloads(self, keys: list[int]) -> list[dict[str, Any]]:
        self._read_points(keys)
        known = [self._reader.points.get(("point", key)) for key in keys]
        if None in known:
            raise SnapshotExpired(f"{self._reader.connection.address.text}: a document was replaced; read again")
        return [payload for payload in known if payload is not None]

    def prepare(self, keys: Iterable[int]) -> None:
        ids: list[Any] = []
        for key in keys:
            place = int(np.searchsorted(self.documents.keys, key))
            sentences = int(self.documents.stop[place]) - key
            ids.append(key)
            steps = ((SENTENCES, SENTENCES_PER_BLOCK, sentences), (TEXT, TEXT_PER_BLOCK, _CHARACTERS * sentences))
            for (kind, step, size), most in zip(steps, _PREPARED, strict=True):
                ids += [block_id(key, kind, start) for start in range(0, min(size, most * step), step)]
        self._read_points(ids)

    def _read_block(self, row: DocumentRow, kind: int, start: int, step: int, length: int) -> bytes:
        """The bytes of a block, read with its neighbours."""
        name = ("point", block_id(row.id, kind, start))
        if name not in self._reader.points:
            low = start - start % (step * _TOGETHER)
            high = min(low + step * _TOGETHER, length)
            self._read_points(block_id(row.id, kind, first) for first in range(low, high, step))
        if name not in self._reader.points:
            if not any(self._retrieve(self._documents, [row.id], False)):
                raise SnapshotExpired(f"{self._reader.connection.address.text}: a document was replaced; read again")
            raise IndexCorrupt(f"a block of {row.doc_id!r} is gone: index its file again")
        return base64.b64decode(self._reader.points[name]["data"])

    def _read_sentences(self, row: DocumentRow, first: int) -> tuple[Ids, Bytes]:
        packed = self._read_block(row, SENTENCES, first, SENTENCES_PER_BLOCK, row.sentences)
        return codec.unpack_sentences(packed, row.id, first)

    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        end = row.length if end is None else min(end, row.length)
        first = start - start % TEXT_PER_BLOCK
        pieces = [
            codec.unpack_text(self._read_block(row, TEXT, block, TEXT_PER_BLOCK, row.length), row.id, block)
            for block in range(first, end, TEXT_PER_BLOCK)
        ]
        return "".join(pieces)[start - first : max(start, end) - first]

    def view_document(self, key: int) -> DocumentView:
        (payload,) = self._read_payloads([key])
        row = read_row(key, payload)
        lines = payload["lines"]
        return DocumentView(row, partial(self._read_sentences, row), partial(self.read_text, row), lines)

    def read_rows(self, keys: Iterable[int]) -> Iterator[DocumentRow]:
        """Rows as they are now: a file's time may have changed."""
        remaining = iter(keys)
        while part := list(islice(remaining, _PAGE)):
            found = {one.id: one.payload for one in next(self._retrieve(self._documents, part, _ROWS))}
            self._check_all(part, found)
            yield from (read_row(key, found[key]) for key in part)

    def find_document(self, doc_id: str) -> DocumentRow | None:
        match = models.FieldCondition(key="doc_id", match=models.MatchValue(value=doc_id))
        records, _ = self._call("scroll", self._documents, models.Filter(must=[match]), limit=_PAGE, with_payload=_ROWS)
        alive = self.documents.find(np.array([record.id for record in records], np.int64))
        living = set(self.documents.keys[alive].tolist())
        if not living and self._reader.log.refresh().head != self.state.head:
            raise SnapshotExpired(
                f"{self._reader.connection.address.text}: {doc_id!r} may have been replaced; read again"
            )
        return next((read_row(record.id, record.payload) for record in records if record.id in living), None)

    def _read_column(self, column: str) -> dict[int, dict[str, Any]]:
        """The fields of a column, of all documents: those of documents seen before are known."""
        known = self._reader.columns.setdefault(column, {})
        missing = [key for key in self.documents.keys.tolist() if key not in known]
        name = "doc_id" if column == "doc_id" else f"column_{column}"
        for low in range(0, len(missing), 4 * _PAGE):
            part = missing[low : low + 4 * _PAGE]
            for record in self._call("retrieve", self._documents, part, with_payload=[name]):
                value = (record.payload or {}).get(name)
                known[record.id] = {"doc_id": value} if column == "doc_id" else json.loads(value or "{}")
            self._check_all(part, known)
        return known

    def _list_names(self) -> tuple[list[str], list[int]]:
        state, names, keys = self._reader.names
        if state is not self.state:
            column = self._read_column("doc_id")
            order = sorted((column[key]["doc_id"], key) for key in self.documents.keys.tolist())
            names, keys = [name for name, _ in order], [key for _, key in order]
            self._reader.names = self.state, names, keys
        return names, keys

    def find_attachments(self, row: DocumentRow) -> list[DocumentRow]:
        names, keys = self._list_names()
        below = slice(bisect_left(names, row.doc_id + "/"), bisect_left(names, row.doc_id + "0"))
        return [found for found in self.read_rows(keys[below]) if owner_of(found) == row.doc_id]

    def nearby_ids(self, doc_id: str) -> list[str]:
        names, _ = self._list_names()
        place = bisect_left(names, doc_id)
        return names[max(0, place - _NEARBY) : place + _NEARBY]

    def all_documents(
        self, after: str = "", limit: int | None = None, among: Iterable[int] | None = None
    ) -> Iterable[DocumentRow]:
        names, keys = self._list_names()
        chosen = None if among is None else set(among)
        place = bisect_left(names, after + "\0") if after else 0
        return self.read_rows(islice((key for key in keys[place:] if chosen is None or key in chosen), limit))

    def match_field(self, key: str, test: Callable[[Any], bool]) -> Mask:
        column, without = self._read_column(column_of(key)), test(None)

        def passes(document: int) -> bool:
            values = _flatten(column[document].get(key))
            return any(map(test, values)) if values else without

        return np.array([passes(document) for document in self.documents.keys.tolist()], bool)

    def select(self, predicate: Callable[[Callable[[str, Callable[[Any], bool]], Any]], Any]) -> list[int]:
        kept: list[int] = self.documents.keys[predicate(self.match_field)].tolist()
        return kept

    def read_windows(self, row: DocumentRow) -> tuple[Hashes, Ids]:
        return codec.unpack_windows(self._read_block(row, WINDOWS, 0, 1, 1), row.id)

    def read_stored(self, row: DocumentRow) -> Staged:
        text = self.read_text(row)
        blocks = [self._read_sentences(row, first) for first in range(0, row.sentences, SENTENCES_PER_BLOCK)]
        ends = [np.zeros(0, np.int64), *(borders[1:] for borders, _ in blocks)]
        kinds = [np.zeros(0, np.uint8), *(of_block for _, of_block in blocks)]
        sentences = SentenceTable(np.concatenate(ends).tolist(), np.concatenate(kinds).tolist())
        if codec.checksum_content(row.doc_id, text, sentences.ends) != row.content_checksum:
            raise IndexCorrupt(f"the stored text of {row.doc_id!r} is damaged (checksum): index its file again")
        places = (row.title, row.kind, row.page_starts, row.meta)
        document = Document(row.doc_id, row.path, text, *places, fingerprint=row.fingerprint)
        windows = WindowTable(*(array.tolist() for array in self.read_windows(row)))
        return Staged(document, text, sentences, row.root, FileStamp(row.size, row.mtime_ns), windows)

    def read_skipped(self) -> dict[str, SkippedFile]:
        is_skipped = models.FieldCondition(key="kind", match=models.MatchValue(value="skipped"))
        found: dict[str, SkippedFile] = {}
        offset = None
        while True:
            records, offset = self._call(
                "scroll", self._documents, models.Filter(must=[is_skipped]), limit=_PAGE, offset=offset
            )
            found |= {file.path: file for file in (SkippedFile(*one.payload["file"]) for one in records)}
            if offset is None:
                return found


def _flatten(value: Any) -> list[Any]:
    """The values of a field: those of a list, and of the lists in it."""
    if not isinstance(value, list) or not value:
        return [] if value is None else [value]
    return [one for item in value for one in (_flatten(item) if isinstance(item, list) else [item])]
