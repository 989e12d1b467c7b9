"""Sources of documents: files and directories, or values.

The languages of the first documents choose the encoder of a new index.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, Protocol

from lmkrag.encoder.index_encoder import load_encoder
from lmkrag.encoder.spec import DEFAULT_ENCODER, MULTILINGUAL_ENCODER
from lmkrag.errors import DocumentError, EmptyDocument, FilesGone, UsageError
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.formats.load import fingerprint, is_long, may_hold_prose
from lmkrag.index import catalog
from lmkrag.index.catalog import SkippedFile
from lmkrag.index.store import IndexStore
from lmkrag.ingest.changes import (
    KEPT,
    Changes,
    GoneFiles,
    find_changes,
    find_gone,
    find_named_changes,
    read_skipped,
)
from lmkrag.ingest.long_text import load_long_text
from lmkrag.ingest.report import Run, SourceDocument
from lmkrag.ingest.walk import SourceFile, local_path
from lmkrag.sentences.languages import document_language, sample_prose
from lmkrag.specs import BYTE_ORDER_MARK, ENGLISH, Text
from lmkrag.system.files import FileStamp, printable
from lmkrag.types import Document, Skipped, check_doc_id
from lmkrag.version import __version__

SAMPLED = 24  # documents that are read to choose an encoder, at most
_MIN_FOREIGN = 0.2  # share of languages other than English that selects the multilingual encoder
_MAX_BYTES = 2 << 20
_SOURCE_KEYS = ("source", "file_path", "url", "path", "file_name")


def is_foreign(value: object) -> bool:
    """Return whether a value is a LangChain ``Document``, or a LlamaIndex ``Document`` or node.

    The shape of the value decides; neither framework is imported.
    """
    return _text_of(value) is not None


def from_foreign(value: Any) -> Document:
    """Convert a document of another framework; filters can use its metadata.

    Its id is the framework's, else made of its source, its page and a hash of its text, so that
    documents of several calls never replace each other, and a document that is added again is
    unchanged.
    """
    text = _text_of(value) or ""
    meta = {str(key): item for key, item in value.metadata.items() if item is not None}
    plain = {key: item for key, item in meta.items() if isinstance(item, str | int | float | bool)}
    source = next((str(plain[name]) for name in _SOURCE_KEYS if plain.get(name)), "")
    doc_id = str(getattr(value, "id_", None) or getattr(value, "id", None) or "")
    if not doc_id:
        page = plain.get("page_label", plain.get("page"))
        digest = fingerprint(text.encode("utf-8", "surrogatepass"))
        parts = source, "" if page is None else f"page={page}", digest[:16]
        doc_id = "#".join(filter(None, parts))
    return Document(doc_id, source or doc_id, text, title=str(plain.get("title", "")), meta=meta)


def _text_of(value: object) -> str | None:
    """Return the text of another framework's document; None for any other value."""
    if isinstance(value, Document) or not isinstance(getattr(value, "metadata", None), Mapping):
        return None
    for name in ("page_content", "text"):
        text = getattr(value, name, None)
        if isinstance(text, str):
            return text
    return None


_ATTACHMENT = -1  # the size recorded for an unreadable attachment, which is no file
_SOURCES = "add paths, or documents of lmkrag, LangChain or LlamaIndex"
_NOT_BOTH = "add paths or documents, not both in one call"
_RACY_NS = 2_000_000_000  # a file changed this recently may change again without another timestamp


def sample_files(files: Sequence[SourceFile], loader: IsolatedLoader) -> Iterator[Document]:
    """Read some of the files that may hold prose, evenly spread, at most 24.

    What a file holds is known when it is read: a manual page may be named ``tar.1``. A file that
    can't be read is left out.
    """
    prose = [file for file in files if file.stamp.size <= _MAX_BYTES and may_hold_prose(file.path)]
    for file in prose[:: len(prose) // SAMPLED + 1]:
        try:
            yield loader.load(file.path, file.doc_id)
        except DocumentError:
            continue


def choose_encoder(store: IndexStore, run: Run, sample: Iterable[Document]) -> None:
    """Choose the encoder of a new index by the languages of its documents.

    The multilingual encoder is recorded, with a warning, if more than a fifth of the sampled text
    is not in English. An index that has documents, or whose encoder the user named, keeps its
    encoder.

    Args:
        store: the index that is written.
        run: the run, which has the known documents and gets the warning.
        sample: some of the documents to index.
    """
    if run.known or not store.chooses_encoder:
        return
    english = foreign = 0  # characters
    for document in sample:
        characters = len(sample_prose(document.text, document.kind))
        if document_language(document.text, document.kind) == ENGLISH:
            english += characters
        else:
            foreign += characters
    is_foreign = foreign > _MIN_FOREIGN * (english + foreign)
    name = MULTILINGUAL_ENCODER if is_foreign else DEFAULT_ENCODER
    if name != store.encoder.name:
        store.change_encoder(load_encoder(name).spec)
    if name == MULTILINGUAL_ENCODER:
        share = foreign / (english + foreign)
        run.warnings.append(
            f"{share:.0%} of the text sampled is not in English: encoder {name} was chosen"
        )


def warn_of_languages(store: IndexStore, run: Run) -> None:
    """Warn if an index whose encoder reads English got many documents in other languages."""
    documents = run.added + run.updated
    if store.encoder.name == DEFAULT_ENCODER and run.foreign > _MIN_FOREIGN * documents:
        run.warnings.append(
            f"{run.foreign} of {documents} documents are not in English, which {DEFAULT_ENCODER} "
            "reads: make the index "
            f"with encoder {MULTILINGUAL_ENCODER}, or change it by lmkrag index-tools reindex "
            "--encoder "
            f"{MULTILINGUAL_ENCODER}"
        )


class DocumentSource(Protocol):
    """A source of documents: files, values, or another index."""

    def read(self, store: IndexStore, run: Run) -> Iterator[SourceDocument]:
        """Yield the documents to encode; count the unchanged, skipped and removed ones in
        ``run``.
        """

    def finish(self, store: IndexStore, run: Run) -> None:
        """Record the state of the files, also after an error or an interruption."""


Prune = bool | Literal["all", "some"]
"""Whether documents whose files are gone are removed, and what happens where all files of a
directory are gone.

True: nothing, with an error; ``"some"``: its documents are kept, with a warning; ``"all"``: they
are removed.
"""

Encode = Callable[[list[SourceFile], Run], list[SourceFile]]
"""Commits files that others encode; returns the rest."""


@dataclass(slots=True)
class Files:
    """Files and directories: see :meth:`lmkrag.Engine.add`. Unchanged files need only a stat.

    Attributes:
        sources: files and directories.
        named: files by the ``doc_id`` that their documents get, in place of sources.
        include: globs in the form of ``.gitignore``; only files that match one.
        exclude: globs in the same form; no files that match one.
        prune: what happens to documents whose files are gone: see :data:`Prune`.
        follow_links: whether links to files outside the directories are followed.
        generated: whether to read new files in directories that a program wrote, such as
            lock files.
        encode: encodes changed files in other processes, commits them, and returns the others.
        changes: the changes of the files, if they are known.
        gone: names of documents to remove.
    """

    sources: Sequence[Path] = ()
    named: Mapping[str, Path] = field(default_factory=dict)  # files by the ``doc_id`` that they get
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    prune: Prune = False
    follow_links: bool = False
    generated: bool = False
    encode: Encode | None = None  # encodes changed files in other processes
    changes: Changes | None = None  # if they are known already
    gone: list[str] = field(default_factory=list)  # documents to remove

    def read(self, store: IndexStore, run: Run) -> Iterator[SourceDocument]:
        """Yield the documents of new and changed files; count the others in ``run``."""
        skipped = read_skipped(store)
        if self.changes is not None:
            changes = self.changes
        elif self.named:
            changes = find_named_changes(self.named, run.known, skipped)
        else:
            changes = find_changes(
                self.sources,
                run.known,
                skipped,
                include=self.include,
                exclude=self.exclude,
                follow_links=self.follow_links,
                generated=self.generated,
            )
        self.changes = changes
        if self.prune:
            self.gone = self._choose_gone(find_gone(self.sources, run.known.values(), changes), run)
        run.unchanged, run.skipped = changes.unchanged, changes.skipped
        run.total = sum(file.stamp.size for file in changes.to_read)
        with IsolatedLoader() as loader:
            choose_encoder(store, run, sample_files(changes.to_read, loader))
            files = changes.to_read if self.encode is None else self.encode(changes.to_read, run)
            yield from load_files(files, loader, run, store)

    def finish(self, store: IndexStore, run: Run) -> None:
        """Record which documents are to be removed, and the state of files that were not
        encoded.
        """
        changes = self.changes or Changes()
        run.removed += [doc_id for doc_id in self.gone if doc_id not in run.removed]
        if changes.to_read or changes.forgotten:
            store.note_files(
                touched=run.touched, skipped=run.unreadable, forgotten=changes.forgotten
            )

    def _choose_gone(self, found: GoneFiles, run: Run) -> list[str]:
        """Return the documents to remove.

        Raises:
            FilesGone: all files of a directory are gone, and ``prune`` does not say what to do.
        """
        if not found.emptied or self.prune == "all":
            return found.doc_ids
        told = [
            (
                f"{folder}: all files that were indexed from it are gone (documents: "
                f"{len(doc_ids)}; is it mounted?)"
            )
            for folder, doc_ids in found.emptied.items()
        ]
        if self.prune == "some":
            run.warnings += [f"{line}; they are kept; --prune=all removes them" for line in told]
            kept = set(chain(*found.emptied.values()))
            return [doc_id for doc_id in found.doc_ids if doc_id not in kept]
        raise FilesGone(f"{'; '.join(told)}; nothing was removed; --prune=all removes them")


@dataclass(slots=True)
class Documents:
    """Documents given as values, read lazily; of two with the same ``doc_id``, the first counts."""

    documents: Iterable[Document]

    def finish(self, store: IndexStore, run: Run) -> None:
        """Do nothing: there are no files."""

    def read(self, store: IndexStore, run: Run) -> Iterator[SourceDocument]:
        """Yield documents that are new or changed; count the others in ``run``."""
        documents = iter(self.documents)
        first = list(islice(documents, SAMPLED))
        choose_encoder(store, run, first)
        digests: dict[str, str] = {}
        for document in chain(first, documents):
            digest = document.fingerprint or _fingerprint(document)
            row = run.known.get(document.doc_id)
            is_repeated = document.doc_id in digests
            if digests.setdefault(document.doc_id, digest) != digest:
                run.skip(document.doc_id, "another document of this run has this doc_id")
            elif not is_repeated and not document.text.removeprefix(BYTE_ORDER_MARK).strip():
                run.skip(document.doc_id, "no text in it" + (KEPT if row is not None else ""))
            elif is_repeated or (row is not None and row.fingerprint == digest):
                run.unchanged += 1
            else:
                stamp = FileStamp(len(document.text), 0)
                yield SourceDocument(
                    replace(document, fingerprint=digest), document.text, "", stamp
                )


def make_source(source: object, **options: Any) -> DocumentSource:
    """Return the source for the argument of :meth:`lmkrag.Engine.add`.

    Args:
        source: a path, a mapping of names to paths, a document, or an iterable of paths or
            documents.
        options: the options of files: ``include``, ``exclude``, ``prune``,
            ``follow_links``, ``generated`` and ``encode``.

    Raises:
        UsageError: it is neither paths nor documents, or an option does not fit it.
    """
    prune = options.get("prune", False)
    if prune not in (True, False, "some", "all"):
        raise UsageError(f'prune must be true, false, "some" or "all", not {prune!r}')
    for_files = any(options.values())
    if isinstance(source, Mapping):
        if for_files:
            raise UsageError(
                "include, exclude, prune, follow_links, generated and ray are for directories"
            )
        return Files(
            named={check_doc_id(doc_id): _as_path(path) for doc_id, path in source.items()}
        )
    if isinstance(source, str | Path | Document) or is_foreign(source):
        source = [source]
    if not isinstance(source, Iterable):
        raise UsageError(f"{_SOURCES}, not {type(source).__name__}")
    first = list(islice(items := iter(source), 1))
    items = chain(first, items)
    if first and not isinstance(first[0], str | Path):
        if for_files:
            raise UsageError(
                "include, exclude, prune and ray are for files: documents given as values have none"
            )
        return Documents(map(_as_document, items))
    return Files([_as_path(item) for item in items], **options)


def _as_path(item: object) -> Path:
    """Return an item of a source as a path."""
    if not isinstance(item, str | Path):
        raise UsageError(_NOT_BOTH)
    return local_path(item)


def _as_document(item: object) -> Document:
    """Return an item of a source as a document."""
    if isinstance(item, Document):
        return item
    if not is_foreign(item):
        raise UsageError(_NOT_BOTH if isinstance(item, str | Path) else _SOURCES)
    return from_foreign(item)


def load_files(
    files: Sequence[SourceFile], loader: IsolatedLoader, run: Run, store: IndexStore | None
) -> Iterator[SourceDocument]:
    """Read changed files one at a time; record the unchanged and unreadable ones in ``run``.

    Args:
        files: new and changed files.
        loader: reads files in a process of its own.
        run: counts files, and has the earlier versions' rows.
        store: the index with the earlier versions; None if there is none.

    Yields:
        The document of each file, after its attachments.
    """
    for file in files:
        stamp = _stamp_to_record(file)
        row = run.known.get(file.doc_id)
        path = printable(str(file.path))
        try:
            document, text, attached, unread = _read(file, loader)
        except DocumentError as error:
            _skip(file, stamp, error, run)
            continue
        for skipped in unread:
            run.skip(skipped.path, skipped.reason)
            inside = path + skipped.path.removeprefix(file.doc_id)
            run.unreadable.append(
                SkippedFile(inside, _ATTACHMENT, stamp.mtime_ns, skipped.reason, __version__)
            )
        document = replace(document, path=path)
        if row is not None and _is_unchanged(document, run):
            run.unchanged += 1
            run.touched.append((row.id, stamp))
            run.advance(file.doc_id, file.stamp.size)
            continue
        # Attachments come before their document: a commit that contains it contains them.
        for inner in (replace(each, path=path) for each in attached):
            if _is_unchanged(inner, run):
                run.unchanged += 1
            else:
                moment = FileStamp(0, file.stamp.mtime_ns)
                yield SourceDocument(inner, inner.text, file.root, moment, is_attachment=True)
        removed: tuple[str, ...] = ()
        if row is not None and store is not None:
            names = {inner.doc_id for inner in attached}
            with store.reader.snapshot(segments=False) as snapshot:
                before = catalog.find_attachments(snapshot.connection, row)
            removed = tuple(each.doc_id for each in before if each.doc_id not in names)
        yield SourceDocument(document, text, file.root, stamp, replaces=removed)


def _stamp_to_record(file: SourceFile) -> FileStamp:
    """Return a file's stamp; of one that was changed just now, a stamp that it does not have: a
    further change with the same timestamp would be missed.
    """
    size, changed = file.stamp
    is_racy = time.time_ns() - changed < _RACY_NS
    return FileStamp(size, changed - 1 if is_racy else changed)


def _skip(file: SourceFile, stamp: FileStamp, error: DocumentError, run: Run) -> None:
    """Count a file that can't be read, and say what becomes of its text of an earlier run."""
    reason = str(error)
    if file.doc_id in run.known and isinstance(error, EmptyDocument):
        run.removed.append(file.doc_id)
        reason += "; the text indexed before is removed"
    elif file.doc_id in run.known:
        reason += KEPT
    run.skip(file.doc_id, reason, size=file.stamp.size)
    if error.lasting:
        path = printable(str(file.path))
        run.unreadable.append(SkippedFile(path, *stamp, str(error), __version__))


def _is_unchanged(document: Document, run: Run) -> bool:
    """Return whether the index has a document in the same version, from the same file."""
    row = run.known.get(document.doc_id)
    return row is not None and (row.fingerprint, row.path) == (document.fingerprint, document.path)


def _read(
    file: SourceFile, loader: IsolatedLoader
) -> tuple[Document, Text, list[Document], list[Skipped]]:
    """Return a file's document, its text, its attachments, and those attachments that can't be
    read.
    """
    try:
        if is_long(file.path, file.stamp.size):
            return *load_long_text(file.path, file.doc_id), [], []
        document, attached, unread = loader.load_with_attachments(file.path, file.doc_id)
    except OSError as error:
        raise DocumentError(f"can't be read ({error.strerror or error})", lasting=False) from error
    except MemoryError as error:
        raise DocumentError("needs more memory than it may use: skipped", lasting=False) from error
    return document, document.text, attached, unread


def _fingerprint(document: Document) -> str:
    """Return a hash of a document given as a value: of its text, title, kind, pages and
    metadata.
    """
    details = repr(
        (
            document.path,
            document.title,
            document.kind,
            document.page_starts,
            sorted(document.meta.items()),
        )
    )
    return fingerprint((details + "\0" + document.text).encode("utf-8", "surrogatepass"))
