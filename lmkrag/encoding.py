"""Stream documents through the encoder, and commit what is whole in batches."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lmkrag.arrays import Vectors
from lmkrag.corpus.sentences import iter_sentences
from lmkrag.corpus.structure import ParagraphTracker, StructureTable
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.postings import PostingsBuilder
from lmkrag.index.segments import SegmentFile
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.index.store import IndexStore
from lmkrag.types import Document, Text

if TYPE_CHECKING:  # torch takes seconds to import; a run with nothing to encode needs none of it
    from lmkrag.encoder.landmark import Encoded, EncoderInput, LandmarkEncoder

_COMMIT_SENTENCES = 32_768  # a batch; what a killed run repeats
_COMMIT_SECONDS = 30.0
_SEGMENT_ROWS = 16_384  # a document larger than this spreads over several segments


@dataclass(slots=True)
class Loaded:
    """A document on its way through the encoder; ``text`` is its own, or on disk."""

    document: Document
    text: Text
    root: str
    stat: tuple[int, int]
    sentences: SentenceTable = field(default_factory=SentenceTable)
    windows: WindowTable = field(default_factory=WindowTable)
    paragraphs: ParagraphTracker = field(default_factory=ParagraphTracker)

    @property
    def share(self) -> float:
        """How much of it is encoded, from 0 to 1."""
        return self.sentences.length / max(1, len(self.text))


def encode_documents(
    store: IndexStore,
    encoder: "LandmarkEncoder",
    documents: Iterable[Loaded],
    known: Mapping[str, DocumentRow],
    *,
    on_progress: Callable[[Loaded], None],
    on_finish: Callable[[Loaded], None],
    on_commit: Callable[[list[Staged]], None],
    recall_from: IndexStore | None = None,
) -> None:
    """Encode documents and commit them in batches. An interruption commits those that are whole.

    Args:
        store: to write to, inside its :meth:`~lmkrag.index.store.IndexStore.writing`.
        encoder: that made the index.
        documents: read as they are needed.
        known: documents by ``doc_id``: windows that a changed one still has are not encoded again.
        on_progress: called as parts of a document are encoded.
        on_finish: called when a document is whole.
        on_commit: called with the documents of each batch once they are durable.
        recall_from: the index that ``known`` is of, if it is another.
    """
    open_documents: dict[int, Loaded] = {}

    def feed() -> "Iterator[EncoderInput]":
        from lmkrag.encoder.landmark import EncoderInput

        for key, item in enumerate(documents):
            open_documents[key] = item
            sentences = iter_sentences(item.text, kind=item.document.kind)
            yield EncoderInput(key, item.text, sentences, item.document.title)

    memory = _WindowMemory(recall_from or store, known)

    def recall(key: int, window_hash: int, count: int) -> Vectors | None:
        return memory.recall(open_documents[key].document.doc_id, window_hash, count)

    batch = _Batch(store, on_commit)

    def finish(key: int) -> None:
        item = open_documents.pop(key)
        batch.finish(item)
        on_finish(item)

    current: int | None = None
    try:
        for part in encoder.encode_stream(feed(), recall=recall):
            if current is not None and part.key != current:
                finish(current)
            current = part.key
            batch.extend(open_documents[current], part)
            on_progress(open_documents[current])
        if current is not None:
            finish(current)
    except KeyboardInterrupt:
        batch.commit()
        raise
    batch.commit()


class _WindowMemory:
    """The vectors of windows that a changed document still has, from its version in the index."""

    def __init__(self, store: IndexStore, known: Mapping[str, DocumentRow]) -> None:
        self._store, self._known = store, known
        self._windows: tuple[str, dict[int, tuple[int, int]]] = ("", {})  # of one document, hash to sentences

    def recall(self, doc_id: str, window_hash: int, count: int) -> Vectors | None:
        row = self._known.get(doc_id)
        if row is None:
            return None
        if self._windows[0] != doc_id:
            self._windows = (doc_id, self._read(row))
        first, stop = self._windows[1].get(window_hash, (0, 0))
        if stop - first != count:
            return None
        with self._store.reader.snapshot() as snapshot:
            return snapshot.read_vectors(np.arange(first, stop))

    def _read(self, row: DocumentRow) -> dict[int, tuple[int, int]]:
        with self._store.reader.snapshot(segments=False) as snapshot:
            hashes, ordinals = catalog.read_windows(snapshot.connection, row)
        borders = row.first_sentence + np.append(ordinals, row.sentences)
        return dict(zip(hashes.tolist(), pairwise(borders.tolist()), strict=True))


class _Batch:
    """Documents and vectors on their way to one commit; rows of the document that is still open come last."""

    def __init__(self, store: IndexStore, on_commit: Callable[[list[Staged]], None]) -> None:
        self._store, self._on_commit = store, on_commit
        self._vectors: list[Vectors] = []
        self._words, self._structure = PostingsBuilder(), StructureTable()
        self._staged: list[Staged] = []
        self._segments: list[SegmentFile] = []  # of the open document only, once it has filled one
        self._whole = 0  # rows in memory that are of documents in _staged
        self._began = time.monotonic()

    def extend(self, item: Loaded, part: "Encoded") -> None:
        """Take the next sentences of the open document."""
        item.windows.append(part.window_hash, len(item.sentences))
        item.sentences.extend(part.sentences)
        texts = [item.text[sentence.start : sentence.end] for sentence in part.sentences]
        self._vectors.append(part.vectors)
        self._words.add(texts)
        kinds = [sentence.kind for sentence in part.sentences]
        self._structure.add(zip(texts, kinds, strict=True), item.paragraphs)
        if len(self._words) - self._whole >= _SEGMENT_ROWS:
            if self._staged:
                self.commit()
            self._segments.append(self._stage(len(self._words)))

    def finish(self, item: Loaded) -> None:
        """The open document is whole."""
        self._staged.append(Staged(item.document, item.text, item.sentences, item.root, item.stat, item.windows))
        self._whole = len(self._words)
        if self._segments or self._whole >= _COMMIT_SENTENCES or time.monotonic() - self._began > _COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Commit the documents that are whole; what there is of another one stays."""
        if self._staged:
            segments = self._segments + ([self._stage(self._whole)] if self._whole else [])
            self._store.commit(self._staged, segments)
            self._on_commit(self._staged)
            self._staged, self._segments, self._whole = [], [], 0
        self._began = time.monotonic()

    def _stage(self, rows: int) -> SegmentFile:
        """Write the first rows in memory to a segment."""
        taken, count = [], 0
        while count < rows:
            vectors = self._vectors.pop(0)
            if count + len(vectors) > rows:
                self._vectors.insert(0, vectors[rows - count :])
                vectors = vectors[: rows - count]
            taken.append(vectors)
            count += len(vectors)
        return self._store.stage_segment(taken, self._words.take(rows), self._structure.take(rows))
