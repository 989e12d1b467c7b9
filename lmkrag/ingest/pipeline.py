"""Stream documents through the encoder, and commit complete ones in batches."""

import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lmkrag.errors import IndexCorrupt
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.segments import SegmentFile
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.words.postings import PostingsBuilder
from lmkrag.ingest.report import Run, SourceDocument
from lmkrag.sentences.split import iter_sentences
from lmkrag.sentences.structure import StructureTable
from lmkrag.specs import CODE
from lmkrag.types.arrays import Vectors

if TYPE_CHECKING:  # torch takes seconds to import; a run with nothing to encode needs none of it
    from lmkrag.encoder.landmark import Encoded, EncoderInput, LandmarkEncoder

_COMMIT_SENTENCES = 32_768  # of a batch: what a killed run has to repeat
_COMMIT_SECONDS = 30.0
_KEPT_BYTES = 64 << 20  # of vectors of windows of this run
_MOST_DOCUMENTS = 100_000  # whose windows are held in memory
_DOCUMENTS_A_WINDOW = 100  # whose windows are looked up in the time that encoding one window takes
_SEGMENT_ROWS = 16_384  # a document larger than this spreads over several segments


def encode_documents(
    store: IndexStore,
    encoder: "LandmarkEncoder",
    documents: Iterable[SourceDocument],
    run: Run,
    *,
    recall_from: IndexStore | None = None,
) -> None:
    """Encode documents as they come, and commit them in batches, inside
    :meth:`~lmkrag.index.store.IndexStore.writing`.

    Windows that a changed document of ``run.known`` still has are not encoded again, nor those of
    copies: the same words after the same title, in this run or in the index. An interruption
    commits the complete documents.

    Args:
        store: the index that is written.
        encoder: the encoder of the index.
        documents: the documents, read as they are needed.
        run: counts what is committed, and reports progress.
        recall_from: the index of ``run.known`` if that is not ``store``.

    Raises:
        StorageError: writing failed; what was committed before is kept.
    """
    open_documents: dict[int, SourceDocument] = {}

    def feed() -> "Iterator[EncoderInput]":
        from lmkrag.encoder.landmark import EncoderInput

        for key, item in enumerate(documents):
            open_documents[key] = item
            sentences = iter_sentences(item.text, kind=item.document.kind)
            yield EncoderInput(key, item.text, sentences, item.document.title)

    # Vectors come from memory where a window was encoded before.
    memory = _WindowMemory(recall_from or store, run.known)

    def recall(key: int, window_hash: int, count: int) -> Vectors | None:
        return memory.recall(open_documents[key].document.doc_id, window_hash, count)

    pending = _PendingCommit(store, run.count_commit)

    def finish(key: int) -> None:
        item = open_documents.pop(key)
        pending.finish(item)
        run.finish(item)

    # Parts of documents come in order; a part of the next document finishes the one before.
    current: int | None = None
    try:
        for part in encoder.encode_stream(feed(), recall=recall):
            if current is not None and part.key != current:
                finish(current)
            current = part.key
            memory.keep(part.window_hash, part.vectors)
            pending.extend(open_documents[current], part)
            run.track(open_documents[current])
        if current is not None:
            finish(current)
    except KeyboardInterrupt:
        pending.commit()
        raise
    pending.commit()


_Windows = dict[int, tuple[int, int]]  # the sentences of windows, first and stop, by their hashes


class _WindowMemory:
    """The vectors of windows that were encoded before.

    They are those that a changed document still has, those of this run, and those of the index: of
    copies of a file, such as licences. State: the last windows of this run, and where those of the
    index are, once that is worth reading.
    """

    def __init__(self, store: IndexStore, known: Mapping[str, DocumentRow]) -> None:
        self._store, self._known = store, known
        self._earlier: tuple[str, _Windows] = ("", {})  # of one document
        self._recent: OrderedDict[int, Vectors] = OrderedDict()  # of this run, by their hashes
        self._bytes = self._seen = 0
        self._all: _Windows | None = None  # of the index

    def recall(self, doc_id: str, window_hash: int, count: int) -> Vectors | None:
        """Return the vectors of a window, None if it was not encoded before.

        Args:
            doc_id: name of the document.
            window_hash: hash of the window's tokens, and of the range that it owns.
            count: number of sentences that the window owns.

        Returns:
            ``[count, dimensions]`` float32.
        """
        row = self._known.get(doc_id)
        if row is not None and self._earlier[0] != doc_id:
            self._earlier = (doc_id, self._read([row]))
        borders = self._earlier[1].get(window_hash) if row is not None else None
        if borders is None:
            if window_hash in self._recent:
                vectors = self._recent[window_hash]
                return vectors if len(vectors) == count else None
            borders = self._of_index().get(window_hash)
        if borders is None or borders[1] - borders[0] != count:
            return None
        sentences = np.arange(*borders)
        with self._store.reader.snapshot() as snapshot:
            if (snapshot.documents.owners(sentences) < 0).any():
                return None  # the document was replaced in this run
            return snapshot.read_vectors(sentences)

    def keep(self, window_hash: int, vectors: Vectors) -> None:
        """Keep the vectors of a window, and forget those that were encoded long ago."""
        self._seen += 1
        if window_hash in self._recent:
            return
        self._recent[window_hash] = vectors
        self._bytes += vectors.nbytes
        while self._bytes > _KEPT_BYTES:
            self._bytes -= self._recent.popitem(last=False)[1].nbytes

    def _of_index(self) -> _Windows:
        """Return the windows of the index before this run; empty as long as reading them takes
        longer than encoding.
        """
        if self._all is None:
            too_many = len(self._known) > _MOST_DOCUMENTS
            if too_many or self._seen < len(self._known) // _DOCUMENTS_A_WINDOW:
                return {}
            self._all = self._read(self._known.values())
        return self._all

    def _read(self, rows: Iterable[DocumentRow]) -> _Windows:
        """Return the sentences of the windows of some documents, by the windows' hashes."""
        windows: _Windows = {}
        with self._store.reader.snapshot(segments=False) as snapshot:
            for row in rows:
                with contextlib.suppress(
                    IndexCorrupt
                ):  # verify reports it; the document is encoded again
                    hashes, ordinals = catalog.read_windows(snapshot.connection, row)
                    borders = row.first_sentence + np.append(ordinals, row.sentences)
                    windows |= zip(hashes.tolist(), pairwise(borders.tolist()), strict=True)
        return windows


class _PendingCommit:
    """The next commit.

    Rows of the open document, and of attachments whose document follows, come last.
    """

    def __init__(self, store: IndexStore, on_commit: Callable[[list[Staged]], None]) -> None:
        """Take the store, and a function that gets the documents of each commit."""
        self._store, self._on_commit = store, on_commit
        self._vectors: list[Vectors] = []
        self._words, self._structure = PostingsBuilder(), StructureTable()
        self._staged: list[Staged] = []
        self._segments: list[SegmentFile] = []  # of the open document, if it fills more than one
        self._complete = 0  # documents in _staged that may be committed
        self._complete_rows = 0  # their rows in memory
        self._began = time.monotonic()

    def extend(self, item: SourceDocument, part: "Encoded") -> None:
        """Add the next sentences of the open document."""
        title = "" if len(item.sentences) or item.document.kind == CODE else item.document.title
        item.windows.append(part.window_hash, len(item.sentences))
        item.sentences.extend(part.sentences)
        self._vectors.append(part.vectors)
        self._words.add(
            [sentence.read(item.text) for sentence in part.sentences], item.language, title
        )
        texts = (
            (item.text[sentence.start : sentence.end], sentence.kind) for sentence in part.sentences
        )
        self._structure.add(texts, item.paragraphs)
        if len(self._words) - self._complete_rows >= _SEGMENT_ROWS:
            self.commit()
            self._segments.append(self._stage(len(self._words)))

    def finish(self, item: SourceDocument) -> None:
        """Close the open document, and commit if the batch is large or old enough."""
        staged = Staged(
            item.document,
            item.text,
            item.sentences,
            item.root,
            item.stamp,
            item.windows,
            item.replaces,
        )
        self._staged.append(staged)
        if item.is_attachment:
            return
        self._complete, self._complete_rows = len(self._staged), len(self._words)
        late = time.monotonic() - self._began > _COMMIT_SECONDS
        if self._segments or self._complete_rows >= _COMMIT_SENTENCES or late:
            self.commit()

    def commit(self) -> None:
        """Commit the complete documents; the open one stays."""
        if self._complete:
            segments = self._segments + (
                [self._stage(self._complete_rows)] if self._complete_rows else []
            )
            committed, self._staged = self._staged[: self._complete], self._staged[self._complete :]
            self._store.commit(
                committed, segments, removed=[gone for item in committed for gone in item.replaces]
            )
            self._on_commit(committed)
            self._segments, self._complete, self._complete_rows = [], 0, 0
            self._store.merge_small()  # merging removes staged files; there are none now
        self._began = time.monotonic()

    def _stage(self, rows: int) -> SegmentFile:
        """Write the first ``rows`` rows in memory to a segment."""
        taken, count = [], 0
        while count < rows:
            vectors = self._vectors.pop(0)
            if count + len(vectors) > rows:
                self._vectors.insert(0, vectors[rows - count :])
                vectors = vectors[: rows - count]
            taken.append(vectors)
            count += len(vectors)
        return self._store.stage_segment(taken, self._words.take(rows), self._structure.take(rows))
