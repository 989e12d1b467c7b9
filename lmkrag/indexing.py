"""The add job: find files, skip the unchanged, load, split, encode, commit in batches."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lmkrag.corpus.isolated import IsolatedLoader
from lmkrag.corpus.load import fingerprint, is_long
from lmkrag.corpus.long_text import load_long_text
from lmkrag.corpus.sentences import iter_sentences
from lmkrag.corpus.walk import Found, walk
from lmkrag.errors import DocumentError
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.lexical import WordCounter
from lmkrag.index.paragraphs import ParagraphTracker
from lmkrag.index.segments import SegmentFile
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.index.store import IndexStore
from lmkrag.types import Document, IndexReport, Skipped, Text

if TYPE_CHECKING:  # torch takes seconds to import; a run with nothing to encode needs none of it
    from lmkrag.encoder.landmark import Encoded, EncoderInput, LandmarkEncoder, Vectors

Progress = Callable[[str, int, int], None]
"""Called with the name of the document that is being encoded, bytes done and bytes in all."""

_COMMIT_SENTENCES = 32_768  # a batch; what a killed run repeats
_COMMIT_SECONDS = 30.0
_SEGMENT_ROWS = 16_384  # a document larger than this spreads over several segments
_RACY_NS = 2_000_000_000  # a file changed this recently may change again within its clock's tick


@dataclass(slots=True)
class _Loading:
    """A document on its way through the encoder; ``text`` is its own, or on disk."""

    document: Document
    text: Text
    root: str
    stat: tuple[int, int]
    sentences: SentenceTable = field(default_factory=SentenceTable)
    windows: WindowTable = field(default_factory=WindowTable)
    paragraphs: ParagraphTracker = field(default_factory=ParagraphTracker)


class _Meter:
    """Tells how far a run has come, in bytes of its files."""

    def __init__(self, tell: Progress | None = None, total: int = 0) -> None:
        self._tell, self._total = tell, total
        self._done = self._inside = 0  # of whole files, of the one being encoded

    def skip(self, item: Found) -> None:
        self._done += item.stat[0]
        self._say(item.doc_id)

    def reach(self, item: "_Loading") -> None:
        """Part of a document is encoded."""
        self._inside = item.stat[0] * item.sentences.length // max(1, len(item.text))
        self._say(item.document.doc_id)

    def finish(self, item: "_Loading") -> None:
        self._done, self._inside = self._done + item.stat[0], 0
        self._say(item.document.doc_id)

    def _say(self, name: str) -> None:
        if self._tell is not None:
            self._tell(name, self._done + self._inside, self._total)


class _Counts:
    def __init__(self) -> None:
        self.added = self.updated = self.unchanged = self.sentences = self.characters = 0
        self.skipped: list[Skipped] = []


def add_files(
    store: IndexStore,
    encoder: "Callable[[], LandmarkEncoder]",
    sources: Sequence[Path],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    prune: bool = False,
    progress: Progress | None = None,
) -> IndexReport:
    """Index files and directories; unchanged files cost one stat, changed ones are replaced when whole.

    Args:
        store: to write to.
        encoder: gives the encoder; called only when there is something to encode.
        sources: files and directories.
        include: globs; only files that match.
        exclude: globs; no files that match.
        prune: remove documents whose files are gone from the directories in ``sources``.
        progress: told of each document.

    Raises:
        UsageError: a source does not exist. StorageError: the index can't be written to.
    """
    began = time.monotonic()
    counts = _Counts()
    with store.writing():
        known = _known(store)
        found = [item for source in sources for item in walk(source, include=include, exclude=exclude)]
        counts.skipped += [item for item in found if isinstance(item, Skipped)]
        files = sorted((item for item in found if isinstance(item, Found)), key=lambda item: item.doc_id)
        changed = list(_changed(files, known, counts))
        if changed:
            with IsolatedLoader() as loader:
                meter = _Meter(progress, sum(item.stat[0] for item in changed))
                loading = _load(changed, loader, known, counts, store, meter)
                _encode_all(store, encoder(), loading, known, counts, meter)
            store.merge_small()
        removed = _missing(sources, found, known) if prune else []
        if removed:
            store.commit([], removed=removed)
    return _report(counts, len(removed), began)


def restore_files(
    store: IndexStore, encoder: "Callable[[], LandmarkEncoder]", rows: Sequence[DocumentRow]
) -> IndexReport:
    """Index the files of documents that were lost, under the names they had; those that are gone are skipped."""
    began = time.monotonic()
    counts = _Counts()
    files = []
    for row in rows:
        path = Path(row.path)
        if path.is_file():
            facts = path.stat()
            files.append(Found(path, row.doc_id, row.root, (facts.st_size, facts.st_mtime_ns)))
        else:
            counts.skipped.append(Skipped(row.doc_id, f"its source is gone ({row.path})"))
    if files:
        with store.writing(), IsolatedLoader() as loader:
            meter = _Meter()
            _encode_all(store, encoder(), _load(files, loader, {}, counts, store, meter), {}, counts, meter)
    return _report(counts, 0, began)


def add_documents(store: IndexStore, encoder: "LandmarkEncoder", documents: Iterable[Document]) -> IndexReport:
    """Index documents given as values; one that is in the index just so is left alone.

    Args:
        store: to write to.
        encoder: that made the index.
        documents: read as they are needed; of two with one ``doc_id`` the first is taken.
    """
    began = time.monotonic()
    counts = _Counts()
    with store.writing():
        known = _known(store)

        def loading() -> Iterator[_Loading]:
            names: set[str] = set()
            for document in documents:
                mark = document.fingerprint or _fingerprint(document)
                row = known.get(document.doc_id)
                if document.doc_id in names:
                    counts.skipped.append(Skipped(document.doc_id, "another document of this run has this doc_id"))
                    continue
                names.add(document.doc_id)
                if not document.text.strip():
                    counts.skipped.append(Skipped(document.doc_id, "no text in it"))
                elif row is not None and row.fingerprint == mark:
                    counts.unchanged += 1
                else:
                    yield _Loading(replace(document, fingerprint=mark), document.text, "", (len(document.text), 0))

        _encode_all(store, encoder, loading(), known, counts, _Meter())
        store.merge_small()
    return _report(counts, 0, began)


def _known(store: IndexStore) -> dict[str, DocumentRow]:
    """What the index holds already, by name."""
    with store.reading(vectors=False) as snapshot:
        return {row.doc_id: row for row in catalog.all_documents(snapshot.connection)}


def _fingerprint(document: Document) -> str:
    facts = repr((document.path, document.title, document.kind, document.page_starts, sorted(document.meta.items())))
    return fingerprint((facts + "\0" + document.text).encode("utf-8", "surrogatepass"))


def _report(counts: _Counts, removed: int, began: float) -> IndexReport:
    return IndexReport(
        added=counts.added,
        updated=counts.updated,
        unchanged=counts.unchanged,
        removed=removed,
        skipped=tuple(counts.skipped),
        sentences=counts.sentences,
        characters=counts.characters,
        seconds=time.monotonic() - began,
    )


def _changed(files: Iterable[Found], known: dict[str, DocumentRow], counts: _Counts) -> Iterator[Found]:
    """Drop files whose size and time are as recorded, and those whose name another file has."""
    names: dict[str, Path] = {}
    for item in files:
        row = known.get(item.doc_id)
        other = names.setdefault(item.doc_id, item.path)
        if other == item.path and row is not None and row.path != str(item.path) and Path(row.path).exists():
            other = Path(row.path)
        if other != item.path:
            reason = f"the name is taken by {other}: add a directory above both"
            counts.skipped.append(Skipped(item.doc_id, reason))
        elif row is not None and row.path == str(item.path) and (row.size, row.mtime_ns) == item.stat:
            counts.unchanged += 1
        else:
            yield item


def _load(
    files: Sequence[Found],
    loader: IsolatedLoader,
    known: dict[str, DocumentRow],
    counts: _Counts,
    store: IndexStore,
    meter: _Meter,
) -> Iterator[_Loading]:
    """Read changed files one at a time; those that only look changed are recorded as unchanged."""
    touched: list[tuple[int, tuple[int, int]]] = []
    now = time.time_ns()
    for item in files:
        size, changed_at = item.stat
        stat = (size, 0 if now - changed_at < _RACY_NS else changed_at)
        try:
            document, text = _read(item, loader)
        except DocumentError as error:
            counts.skipped.append(Skipped(item.doc_id, str(error)))
            meter.skip(item)
            continue
        row = known.get(item.doc_id)
        if row is not None and row.fingerprint == document.fingerprint and row.path == document.path:
            counts.unchanged += 1
            touched.append((row.id, stat))
            meter.skip(item)
            continue
        yield _Loading(document, text, item.root, stat)
    if touched:
        store.commit([], touched=touched)


def _read(item: Found, loader: IsolatedLoader) -> tuple[Document, Text]:
    if is_long(item.path, item.stat[0]):
        return load_long_text(item.path, item.doc_id)
    document = loader.load(item.path, item.doc_id)
    return document, document.text


def _encode_all(
    store: IndexStore,
    encoder: "LandmarkEncoder",
    loading: Iterable[_Loading],
    known: dict[str, DocumentRow],
    counts: _Counts,
    meter: _Meter,
) -> None:
    """Stream documents through the encoder, and commit what is whole in batches."""
    open_documents: dict[int, _Loading] = {}

    def feed() -> "Iterator[EncoderInput]":
        from lmkrag.encoder.landmark import EncoderInput

        for key, item in enumerate(loading):
            open_documents[key] = item
            sentences = iter_sentences(item.text, kind=item.document.kind)
            yield EncoderInput(key, item.text, sentences, item.document.title)

    memory = _Memory(store, known)

    def recall(key: int, mark: int, count: int) -> "Vectors | None":
        return memory.recall(open_documents[key].document.doc_id, mark, count)

    batch = _Batch(store, known, counts)

    def finish(key: int) -> None:
        item = open_documents.pop(key)
        batch.finish(item)
        meter.finish(item)

    current: int | None = None
    for part in encoder.encode_stream(feed(), recall=recall):
        if current is not None and part.key != current:
            finish(current)
        current = part.key
        batch.extend(open_documents[current], part)
        meter.reach(open_documents[current])
    if current is not None:
        finish(current)
    batch.commit()


class _Memory:
    """The vectors of windows that a changed document still has, from its version in the index."""

    def __init__(self, store: IndexStore, known: dict[str, DocumentRow]) -> None:
        self._store, self._known = store, known
        self._windows: tuple[str, dict[int, tuple[int, int]]] = ("", {})  # of one document, mark to sentences

    def recall(self, doc_id: str, mark: int, count: int) -> "Vectors | None":
        row = self._known.get(doc_id)
        if row is None:
            return None
        if self._windows[0] != doc_id:
            self._windows = (doc_id, self._read(row))
        first, stop = self._windows[1].get(mark, (0, 0))
        if stop - first != count:
            return None
        with self._store.reading() as snapshot:
            return snapshot.read_vectors(np.arange(first, stop))

    def _read(self, row: DocumentRow) -> dict[int, tuple[int, int]]:
        with self._store.reading(vectors=False) as snapshot:
            marks, ordinals = catalog.read_windows(snapshot.connection, row)
        borders = row.first_sentence + np.append(ordinals, row.sentences)
        return dict(zip(marks.tolist(), pairwise(borders.tolist()), strict=True))


class _Batch:
    """Documents and vectors on their way to one commit."""

    def __init__(self, store: IndexStore, known: dict[str, DocumentRow], counts: _Counts) -> None:
        self._store, self._known, self._counts = store, known, counts
        self._reset()

    def _reset(self) -> None:
        self._vectors: list[Vectors] = []
        self._words = WordCounter()
        self._rows = 0
        self._staged: list[Staged] = []
        self._segments: list[SegmentFile] = []
        self._sentences = 0
        self._began = time.monotonic()

    def extend(self, item: _Loading, part: "Encoded") -> None:
        item.windows.append(part.mark, len(item.sentences))
        item.sentences.extend(part.sentences)
        self._vectors.append(part.vectors)
        self._words.add(((item.text[s.start : s.end], s.kind) for s in part.sentences), item.paragraphs)
        self._rows += len(part.vectors)
        if self._rows >= _SEGMENT_ROWS:
            self._stage()

    def finish(self, item: _Loading) -> None:
        self._staged.append(Staged(item.document, item.text, item.sentences, item.root, item.stat, item.windows))
        self._sentences += len(item.sentences)
        if self._sentences >= _COMMIT_SENTENCES or time.monotonic() - self._began > _COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        if not self._staged:
            return
        if self._rows:
            self._stage()
        self._store.commit(self._staged, self._segments)
        for item in self._staged:
            new = item.document.doc_id not in self._known
            self._counts.added += new
            self._counts.updated += not new
            self._counts.sentences += len(item.sentences)
            self._counts.characters += len(item.text)
        self._reset()

    def _stage(self) -> None:
        self._segments.append(self._store.stage_segment(self._vectors, self._words.tables()))
        self._vectors, self._words, self._rows = [], WordCounter(), 0


def _missing(sources: Sequence[Path], found: Sequence[Found | Skipped], known: dict[str, DocumentRow]) -> list[str]:
    roots = {str(source.resolve()) for source in sources if source.is_dir()}
    seen = {item.doc_id if isinstance(item, Found) else item.path for item in found}
    return [row.doc_id for row in known.values() if row.root in roots and row.doc_id not in seen]
