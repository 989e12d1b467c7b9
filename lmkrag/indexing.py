"""The add jobs: files and documents into an index, what can't be indexed reported."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lmkrag.changes import KEPT, Changes, find_changes, find_gone, find_named_changes
from lmkrag.corpus.isolated import IsolatedLoader
from lmkrag.corpus.load import fingerprint, is_long
from lmkrag.corpus.long_text import load_long_text
from lmkrag.corpus.walk import Found, find_path, printable
from lmkrag.encoding import Loaded, encode_documents
from lmkrag.errors import DocumentError, EmptyDocument
from lmkrag.index import catalog
from lmkrag.index.adopting import Adopted
from lmkrag.index.catalog import DocumentRow, SkippedFile
from lmkrag.index.shards import ShardedStore, Store, narrow_id, parts_of
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.stored import read_stored
from lmkrag.types import BYTE_ORDER_MARK, Document, IndexReport, Skipped, Text
from lmkrag.version import __version__

if TYPE_CHECKING:  # torch takes seconds to import; a run with nothing to encode needs none of it
    from lmkrag.encoder.landmark import LandmarkEncoder

Progress = Callable[[str, int, int], None]
"""Called with the name of the document that is being encoded, bytes done, and bytes in all or 0 if nobody knows."""

_DOCUMENTS_AT_ONCE = 1_000  # given as values, that are divided among shards
_ATTACHMENT = -1  # in the place of a size: what can't be read is no file, but in one
_RACY_NS = 2_000_000_000  # a file changed this recently may change again within its clock's tick
_logger = logging.getLogger(__name__)


class Run:
    """What one run has done so far, and how far it has come in bytes of its sources."""

    def __init__(self, known: dict[str, DocumentRow], progress: Progress | None = None) -> None:
        self.known = known
        self.added = self.updated = self.unchanged = self.sentences = self.characters = 0
        self.removed: list[str] = []
        self.removed_already = 0  # attachments that their files no longer have
        self.skipped: list[Skipped] = []
        self.touched: list[
            tuple[int, tuple[int, int]]
        ] = []  # document rows and what their files' size and time are now
        self.unreadable: list[SkippedFile] = []
        self.total = 0
        self._progress = progress
        self._done = self._inside = 0  # of sources that are done with, of the document that is being encoded
        self._began = time.monotonic()

    def skip(self, doc_id: str, reason: str, *, size: int = 0) -> None:
        """A document can't be indexed."""
        _logger.info("%s: skipped: %s", doc_id, reason)
        self.skipped.append(Skipped(doc_id, reason))
        self.advance(doc_id, size)

    def advance(self, doc_id: str, size: int) -> None:
        """A source of so many bytes is done with."""
        self._done += size
        self._report(doc_id)

    def encoded(self, item: Loaded) -> None:
        """A part of a document is encoded."""
        self._inside = int(item.share * item.stat[0])
        self._report(item.document.doc_id)

    def finished(self, item: Loaded) -> None:
        """A document is whole."""
        self._inside = 0
        self.advance(item.document.doc_id, item.stat[0])

    def committed(self, staged: list[Staged]) -> None:
        """Documents are durable."""
        for item in staged:
            new = item.document.doc_id not in self.known
            self.added += new
            self.updated += not new
            self.sentences += len(item.sentences)
            self.characters += len(item.text)
            self.removed_already += len(item.replaces)

    def _report(self, doc_id: str) -> None:
        if self._progress is not None:
            self._progress(doc_id, self._done + self._inside, self.total)

    def adopted(self, done: "EncodedFiles", adopted: Adopted, size: int) -> None:
        """Files of so many bytes were encoded elsewhere, and what came of it is durable."""
        self.added += adopted.added
        self.updated += adopted.updated
        self.unchanged += adopted.unchanged + done.report.unchanged
        self.sentences += adopted.sentences
        self.characters += adopted.characters
        self.removed_already += adopted.removed
        self.removed += done.removed
        self.touched += done.touched
        self.skipped += [*done.report.skipped, *(Skipped(*refused) for refused in adopted.refused)]
        self._done += size
        self._inside = 0

    def inside(self, doc_id: str, done: int) -> None:
        """So many bytes are encoded elsewhere, but not durable yet."""
        self._inside = done
        self._report(doc_id)

    def report(self) -> IndexReport:
        """Return the counts."""
        return IndexReport(
            added=self.added,
            updated=self.updated,
            unchanged=self.unchanged,
            removed=len(self.removed) + self.removed_already,
            skipped=tuple(self.skipped),
            sentences=self.sentences,
            characters=self.characters,
            seconds=time.monotonic() - self._began,
        )


def add_files(
    store: Store,
    encoder: "Callable[[], LandmarkEncoder]",
    sources: Sequence[Path],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    prune: bool = False,
    follow_links: bool = False,
    progress: Progress | None = None,
    encode: "Callable[[list[Found], Run], list[Found]] | None" = None,
) -> IndexReport:
    """Index files and directories; re-running only stats unchanged files, changed ones are replaced when whole.

    Args:
        store: to write to.
        encoder: gives the encoder; called only when there is something to encode.
        sources: files and directories.
        include: globs; only files that match.
        exclude: globs; no files that match.
        prune: remove documents whose files are gone from the directories in ``sources``.
        follow_links: also follow links to files outside the directories.
        progress: called as documents are encoded.
        encode: encodes changed files elsewhere and commits them, within the lock of the writer; returns those that it
            leaves to this process.

    Raises:
        UsageError: a source does not exist, or a glob can't be parsed. StorageError: the index can't be written to.
    """
    with store.writing():
        run = Run(_known(store), progress)
        changes = find_changes(
            sources, run.known, _read_skipped(store), include=include, exclude=exclude, follow_links=follow_links
        )
        _add_changes(store, encoder, changes, run, encode)
        if prune:
            run.removed += [doc_id for doc_id in find_gone(sources, run.known.values()) if doc_id not in run.removed]
        if run.removed:
            store.commit_removed(run.removed)
        return run.report()


def add_named_files(
    store: Store,
    encoder: "Callable[[], LandmarkEncoder]",
    named: Mapping[str, Path],
    *,
    progress: Progress | None = None,
) -> IndexReport:
    """Index files under names that are given; one that takes the place of another document is replaced when whole.

    Args:
        store: to write to.
        encoder: gives the encoder; called only when there is something to encode.
        named: files by ``doc_id``.
        progress: called as documents are encoded.

    Raises:
        StorageError: the index can't be written to.
    """
    with store.writing():
        run = Run(_known(store), progress)
        _add_changes(store, encoder, find_named_changes(named, run.known, _read_skipped(store)), run)
        return run.report()


def _add_changes(
    store: Store,
    encoder: "Callable[[], LandmarkEncoder]",
    changes: Changes,
    run: "Run",
    encode: "Callable[[list[Found], Run], list[Found]] | None" = None,
) -> None:
    """Read and encode the files that have changed, and remember what was seen of the others."""
    run.unchanged, run.skipped = changes.unchanged, changes.skipped
    run.total = sum(file.stat[0] for file in changes.to_read)
    try:
        files = changes.to_read if encode is None else encode(changes.to_read, run)
        with IsolatedLoader() as loader:
            for part, own in divide_files(store, files):
                known = run.known if part is store else _known_of(part, own)
                _encode(part, encoder, _load(own, loader, run, part), run, known)
    finally:
        if changes.to_read or changes.forgotten:
            _note_files(store, run, changes.forgotten)
    if run.sentences:
        for part in parts_of(store):
            part.merge_small()


def divide_files(store: Store, files: Sequence[Found]) -> list[tuple[IndexStore, list[Found]]]:
    """Return the files of each shard of an index; all of them with an index that has none."""
    if not isinstance(store, ShardedStore):
        return [(store, list(files))]
    own: list[list[Found]] = [[] for _ in store.shards]
    for file in files:
        own[store.number_of(file.doc_id)].append(file)
    return [(shard, part) for shard, part in zip(store.shards, own, strict=True) if part]


def _read_skipped(store: Store) -> dict[str, SkippedFile]:
    """The files that were skipped before, by path."""
    found: dict[str, SkippedFile] = {}
    for part in parts_of(store):
        with part.reader.snapshot(segments=False) as snapshot:
            found |= catalog.read_skipped(snapshot.connection)
    return found


def _note_files(store: Store, run: "Run", forgotten: Sequence[str]) -> None:
    """Record what was seen of files; of a sharded index, what was skipped in its first shard."""
    if not isinstance(store, ShardedStore):
        store.note_files(touched=run.touched, skipped=run.unreadable, forgotten=forgotten)
        return
    for number, shard in enumerate(store.shards):
        ids = ((narrow_id(key), stat) for key, stat in run.touched)
        touched = [(key, stat) for (place, key), stat in ids if place == number]
        shard.note_files(touched=touched, skipped=run.unreadable if number == 0 else (), forgotten=forgotten)


@dataclass(frozen=True, slots=True)
class EncodedFiles:
    """What became of files that were encoded for another index.

    ``touched`` are its document rows whose files only look changed, with their size and time, ``removed`` its documents
    whose files are empty now.
    """

    report: IndexReport
    touched: list[tuple[int, tuple[int, int]]]
    removed: list[str]


def encode_files(
    store: IndexStore,
    encoder: "Callable[[], LandmarkEncoder]",
    files: Sequence[Found],
    *,
    target: IndexStore | None = None,
    progress: Progress | None = None,
) -> EncodedFiles:
    """Encode files into an empty index, from which another one, ``target``, will adopt them.

    Args:
        store: to write to.
        encoder: gives the encoder; called only when there is something to encode.
        files: to read.
        target: the index that they are meant for: what it has of them is not encoded again; None for a new one.
        progress: called as documents are encoded.
    """
    run = Run({} if target is None else _known_of(target, files), progress)
    run.total = sum(file.stat[0] for file in files)
    with store.writing(), IsolatedLoader() as loader:
        _encode(store, encoder, _load(files, loader, run, None), run, run.known, target)
        store.note_files(skipped=run.unreadable)
    return EncodedFiles(run.report(), run.touched, run.removed)


def _known_of(store: IndexStore, files: Sequence[Found]) -> dict[str, DocumentRow]:
    """What an index holds of some files, by name."""
    return _known_of_names(store, [file.doc_id for file in files])


def _known_of_names(store: IndexStore, doc_ids: Sequence[str]) -> dict[str, DocumentRow]:
    known = {}
    with store.reader.snapshot(segments=False) as snapshot:
        for doc_id in doc_ids:
            row = snapshot.find_document(doc_id)
            if row is not None:
                rows = (row, *catalog.find_attachments(snapshot.connection, row))
                known.update({one.doc_id: one for one in rows})
    return known


def restore_files(
    store: IndexStore, encoder: "Callable[[], LandmarkEncoder]", rows: Sequence[DocumentRow]
) -> IndexReport:
    """Index the files of documents that were lost, under the names they had; those that are gone are skipped."""
    run = Run({})
    files = {}
    for row in rows:
        path = find_path(row.path)
        if path.is_file():
            stat = path.stat()
            doc_id = catalog.owner_of(row) or row.doc_id
            files[doc_id] = Found(path, doc_id, row.root, (stat.st_size, stat.st_mtime_ns), str(path))
        else:
            run.skip(row.doc_id, f"its source is gone ({row.path})")
    if files:
        with store.writing(), IsolatedLoader() as loader:
            _encode(store, encoder, _load(list(files.values()), loader, run, store), run, run.known)
    return run.report()


def add_documents(
    store: Store,
    encoder: "Callable[[], LandmarkEncoder]",
    documents: Iterable[Document],
    *,
    progress: Progress | None = None,
) -> IndexReport:
    """Index documents given as values; one that is in the index just so is left alone.

    Args:
        store: to write to.
        encoder: gives the encoder; called only when there is something to encode.
        documents: read as they are needed; of two with one ``doc_id`` the first is taken.
        progress: called as documents are encoded.

    Raises:
        UsageError: a document's ``doc_id`` or metadata can't be stored.
    """
    with store.writing():
        run = Run(_known(store), progress)
        new = _new_documents(documents, run)
        if isinstance(store, ShardedStore):
            _encode_by_shards(store, encoder, new, run)
        else:
            _encode(store, encoder, new, run, run.known)
        for part in parts_of(store):
            part.merge_small()
        return run.report()


def encode_again(
    store: Store, encoder: "LandmarkEncoder", source: Store, progress: Progress | None = None
) -> IndexReport:
    """Encode every document of one index, as it is stored, into another; what that has of them is left alone.

    Args:
        store: to write to.
        encoder: that made it.
        source: the index that the documents are of.
        progress: called as documents are encoded.

    Raises:
        IndexCorrupt: a document of the source is damaged.
    """
    with store.writing():
        run = Run(_known(store), progress)
        rows = _known(source)
        run.total = sum(row.size for row in rows.values())
        gone = [doc_id for doc_id in run.known if doc_id not in rows]
        if gone:
            store.commit_removed(gone)
        documents = _stored_documents(source, run)
        if isinstance(store, ShardedStore):
            _encode_by_shards(store, lambda: encoder, documents, run)
        else:
            _encode(store, lambda: encoder, documents, run, {})
        for part in parts_of(store):
            part.merge_small()
        parts_of(store)[0].note_files(skipped=_read_skipped(source).values())
        return run.report()


def _stored_documents(source: Store, run: Run) -> Iterator[Loaded]:
    """The documents of an index as they are stored, without those that a run knows already."""
    for part in parts_of(source):
        with part.reader.snapshot(segments=False) as snapshot:
            for row in snapshot.all_documents():
                known = run.known.get(row.doc_id)
                if known is not None and known.fingerprint == row.fingerprint:
                    run.unchanged += 1
                    run.advance(row.doc_id, row.size)
                    continue
                staged = read_stored(snapshot.connection, row)
                yield Loaded(staged.document, staged.text, staged.root, staged.stat)


def _encode_by_shards(
    store: ShardedStore, encoder: "Callable[[], LandmarkEncoder]", documents: Iterator[Loaded], run: Run
) -> None:
    while batch := list(islice(documents, _DOCUMENTS_AT_ONCE)):
        own: list[list[Loaded]] = [[] for _ in store.shards]
        for item in batch:
            own[store.number_of(item.document.doc_id, item.document.meta)].append(item)
        for shard, part in zip(store.shards, own, strict=True):
            _encode(shard, encoder, iter(part), run, _known_of_names(shard, [one.document.doc_id for one in part]))


def _new_documents(documents: Iterable[Document], run: Run) -> Iterator[Loaded]:
    names: dict[str, str] = {}
    for document in documents:
        own = document.fingerprint or _fingerprint(document)
        row = run.known.get(document.doc_id)
        if document.doc_id in names:
            if names[document.doc_id] == own:
                run.unchanged += 1
            else:
                run.skip(document.doc_id, "another document of this run has this doc_id")
            continue
        names[document.doc_id] = own
        if not document.text.removeprefix(BYTE_ORDER_MARK).strip():
            run.skip(document.doc_id, "no text in it" + (KEPT if row is not None else ""))
        elif row is not None and row.fingerprint == own:
            run.unchanged += 1
        else:
            yield Loaded(replace(document, fingerprint=own), document.text, "", (len(document.text), 0))


def _encode(
    store: IndexStore,
    encoder: "Callable[[], LandmarkEncoder]",
    documents: Iterator[Loaded],
    run: Run,
    known: Mapping[str, DocumentRow],
    recall_from: IndexStore | None = None,
) -> None:
    """Encode documents, if there are any."""
    first = next(documents, None)
    if first is None:
        return

    def every() -> Iterator[Loaded]:
        yield first
        yield from documents

    encode_documents(
        store,
        encoder(),
        every(),
        known,
        on_progress=run.encoded,
        on_finish=run.finished,
        on_commit=run.committed,
        recall_from=recall_from,
    )


def _known(store: Store) -> dict[str, DocumentRow]:
    """What the index holds already, by name."""
    with store.reader.snapshot(segments=False) as snapshot:
        return {row.doc_id: row for row in snapshot.all_documents()}


def _fingerprint(document: Document) -> str:
    facts = repr((document.path, document.title, document.kind, document.page_starts, sorted(document.meta.items())))
    return fingerprint((facts + "\0" + document.text).encode("utf-8", "surrogatepass"))


def _load(files: Sequence[Found], loader: IsolatedLoader, run: Run, store: IndexStore | None) -> Iterator[Loaded]:
    """Read changed files one at a time; note those that only look changed, and those that can't be read."""
    for file in files:
        stat = _safe_stat(file.stat)
        row = run.known.get(file.doc_id)
        path = printable(str(file.path))
        try:
            document, text, attached, unread = _read(file, loader)
        except DocumentError as error:
            reason = str(error)
            if row is not None and isinstance(error, EmptyDocument):
                run.removed.append(file.doc_id)
                reason += "; the text indexed before is removed"
            elif row is not None:
                reason += KEPT
            run.skip(file.doc_id, reason, size=file.stat[0])
            if error.lasting:
                run.unreadable.append(SkippedFile(path, *stat, str(error), __version__))
            continue
        for skipped in unread:
            run.skip(skipped.path, skipped.reason)
            inside = path + skipped.path.removeprefix(file.doc_id)
            run.unreadable.append(SkippedFile(inside, _ATTACHMENT, stat[1], skipped.reason, __version__))
        if row is not None and row.fingerprint == document.fingerprint and row.path == path:
            run.unchanged += 1
            run.touched.append((row.id, stat))
            run.advance(file.doc_id, file.stat[0])
            continue
        # Attachments come before the document that they are attached to: once that is whole, so are they.
        for one in attached:
            known = run.known.get(one.doc_id)
            if known is not None and known.fingerprint == one.fingerprint and known.path == path:
                run.unchanged += 1
            else:
                inner = replace(one, path=path)
                yield Loaded(inner, one.text, file.root, (0, file.stat[1]), is_attachment=True)
        gone = () if row is None or store is None else _gone_attachments(store, row, attached)
        yield Loaded(replace(document, path=path), text, file.root, stat, replaces=gone)


def _gone_attachments(store: IndexStore, row: DocumentRow, attached: Sequence[Document]) -> tuple[str, ...]:
    """The attachments that a document of the index has and its new version has not."""
    with store.reader.snapshot(segments=False) as snapshot:
        before = catalog.find_attachments(snapshot.connection, row)
    names = {document.doc_id for document in attached}
    return tuple(one.doc_id for one in before if one.doc_id not in names)


def _safe_stat(stat: tuple[int, int]) -> tuple[int, int]:
    """The size and time to remember: of a file that may change again unseen, a time that it will not have."""
    size, changed_at = stat
    return size, changed_at - 1 if time.time_ns() - changed_at < _RACY_NS else changed_at


def _read(file: Found, loader: IsolatedLoader) -> tuple[Document, Text, list[Document], list[Skipped]]:
    """A file's document, its text, what is attached to it, and which of that can't be read."""
    try:
        if is_long(file.path, file.stat[0]):
            return *load_long_text(file.path, file.doc_id), [], []
        document, attached, unread = loader.load_with_attachments(file.path, file.doc_id)
    except OSError as error:
        raise DocumentError(f"can't be read ({error.strerror or error})", lasting=False) from error
    except MemoryError as error:
        raise DocumentError("needs more memory than it may use: skipped", lasting=False) from error
    return document, document.text, attached, unread
