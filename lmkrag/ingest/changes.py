"""Compare files with an index: which are new, changed, gone or unreadable."""

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from stat import S_ISDIR

from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow, SkippedFile, owner_of
from lmkrag.index.store import IndexStore
from lmkrag.ingest.generated import describe_generated
from lmkrag.ingest.walk import SourceFile, examine, walk
from lmkrag.system.files import find_path, hash_file, printable
from lmkrag.types import Skipped
from lmkrag.version import __version__

_TAKEN_IN = "--generated or its own path takes it in"
KEPT = "; the text indexed before is kept"


@dataclass(slots=True)
class Changes:
    """What a run has to do with each file.

    Attributes:
        to_read: new and changed files.
        unchanged: number of files that are as they were when they were indexed.
        skipped: files that can't be indexed, with reasons.
        forgotten: paths of skipped files that are no longer to be remembered.
        seen: paths of files that exist.
    """

    to_read: list[SourceFile] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # the paths of files that are there


def read_known(store: IndexStore, doc_ids: Sequence[str] | None = None) -> dict[str, DocumentRow]:
    """Return the documents of a store by ``doc_id``.

    Args:
        store: an open index.
        doc_ids: names of documents, which are returned with their attachments; None for all.
    """
    with store.reader.snapshot(segments=False) as snapshot:
        if doc_ids is None:
            return {row.doc_id: row for row in snapshot.all_documents()}
        rows = list(snapshot.find_documents(doc_ids).values())
        attachments = [catalog.find_attachments(snapshot.connection, row) for row in rows]
    return {row.doc_id: row for row in chain(rows, *attachments)}


def read_skipped(store: IndexStore) -> dict[str, SkippedFile]:
    """Return the files that were skipped before, by path."""
    with store.reader.snapshot(segments=False) as snapshot:
        return catalog.read_skipped(snapshot.connection)


def find_changes(
    sources: Sequence[Path],
    known: Mapping[str, DocumentRow],
    remembered: Mapping[str, SkippedFile],
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    follow_links: bool = False,
    generated: bool = False,
) -> Changes:
    """Walk files and directories, and compare them with the index; unchanged files need only a
    stat.

    A file is one document, whichever of the sources, links or folders leads to it. It keeps its
    ``doc_id`` of the index. That of a new file is its path below its source, after the source's
    name if there are several, and after the names of parent folders if another file has that id.

    Args:
        sources: files and directories.
        known: the documents of the index by ``doc_id``.
        remembered: the files that were skipped before, by path; they are not read again until they
            change.
        include: globs in the form of ``.gitignore``; only files that match one. All files if
            there are none.
        exclude: globs in the same form; no files that match one.
        follow_links: whether links to files outside the directories are followed.
        generated: whether to read new files in directories that a program wrote, such as
            lock files.

    Raises:
        UsageError: a source does not exist, is a URL or an archive, or a glob can't be parsed.
    """
    changes = Changes()
    files: list[SourceFile] = []
    several = sum(map(os.path.isdir, sources)) > 1
    for source in sources:
        folder = f"{source.resolve().name}/" if several and source.is_dir() else ""
        for item in walk(source, include=include, exclude=exclude, follow_links=follow_links):
            if isinstance(item, SourceFile):
                files.append(replace(item, doc_id=folder + item.doc_id) if folder else item)
            else:
                changes.skipped.append(item)
    # Keep one entry of each file, name its document, and compare it with the index.
    by_place: dict[str, SourceFile] = {}  # each file once, by its own name rather than a link's
    for file in sorted(
        files, key=lambda file: (file.real != str(file.path), file.doc_id, str(file.path))
    ):
        by_place.setdefault(file.real, file)
    distinct = sorted(by_place.values(), key=lambda file: (file.doc_id, str(file.path)))
    _compare(_name_files(distinct, known), known, remembered, changes)
    if not generated:
        named = {os.path.realpath(source) for source in sources if not source.is_dir()}
        _leave_out_generated(changes, known, named)
    unseen = (path for path in remembered if path not in changes.seen)
    changes.forgotten += filter(_is_gone, unseen)
    return changes


def _leave_out_generated(
    changes: Changes, known: Mapping[str, DocumentRow], named: Collection[str]
) -> None:
    """Skip the new files that programs wrote, unless they are ``named`` themselves. Those that the
    index has stay up to date.
    """
    to_read = []
    for file in changes.to_read:
        name = printable(str(file.path)).removeprefix(f"{file.root}/")
        is_wanted = file.doc_id in known or file.real in named
        what = "" if is_wanted else describe_generated(file.path, name, file.stamp.size)
        if what:
            changes.skipped.append(
                Skipped(file.doc_id, f"left out as generated ({what}); {_TAKEN_IN}")
            )
        else:
            to_read.append(file)
    changes.to_read = to_read


def find_named_changes(
    named: Mapping[str, Path],
    known: Mapping[str, DocumentRow],
    remembered: Mapping[str, SkippedFile],
) -> Changes:
    """Compare files that the caller has named with the index.

    Args:
        named: files by the ``doc_id`` of their documents.
        known: the documents of the index by ``doc_id``.
        remembered: the files that were skipped before, by path.
    """
    items = [
        examine(path.absolute(), doc_id, "", os.path.realpath(path))
        for doc_id, path in named.items()
    ]
    changes = Changes(skipped=[item for item in items if isinstance(item, Skipped)])
    _compare([item for item in items if isinstance(item, SourceFile)], known, remembered, changes)
    return changes


def _compare(
    files: list[SourceFile],
    known: Mapping[str, DocumentRow],
    remembered: Mapping[str, SkippedFile],
    changes: Changes,
) -> None:
    """Separate files to read from unchanged ones, and record the paths that exist."""
    inside = _by_file(remembered)
    seen = set()
    for file in files:
        path = printable(str(file.path))
        seen.add(path)
        row, skipped = known.get(file.doc_id), remembered.get(path)
        if row is not None and row.path == path and (row.size, row.mtime_ns) == file.stamp:
            changes.unchanged += 1
            changes.skipped += (
                Skipped(file.doc_id + name.removeprefix(path), remembered[name].reason)
                for name in inside.get(path, ())
            )
        elif skipped is not None and (skipped.size, skipped.mtime_ns, skipped.version) == (
            *file.stamp,
            __version__,
        ):
            changes.skipped.append(
                Skipped(file.doc_id, skipped.reason + (KEPT if row is not None else ""))
            )
        else:
            changes.to_read.append(file)
            changes.forgotten += inside.get(path, ())
            if skipped is not None:
                changes.forgotten.append(path)
    changes.seen = seen.union(*inside.values())


def _by_file(remembered: Mapping[str, SkippedFile]) -> dict[str, list[str]]:
    """Return the paths of skipped attachments, by the file that contains them, if that exists."""
    inside: dict[str, list[str]] = {}
    for path, skipped in remembered.items():
        if skipped.size < 0:
            # The path of an attachment's attachment has two parents that are no folders.
            file = next(filter(os.path.isfile, find_path(path).parents), None)
            if file is not None:
                inside.setdefault(printable(str(file)), []).append(path)
    return inside


@dataclass(slots=True)
class GoneFiles:
    """The documents below some directories whose files are gone.

    Attributes:
        doc_ids: names of the documents.
        emptied: for each directory all of whose files are gone, as those of a disk that is not
            mounted, the names of its documents.
    """

    doc_ids: list[str]
    emptied: dict[str, list[str]]


def find_gone(
    sources: Sequence[Path], known: Collection[DocumentRow], changes: Changes
) -> GoneFiles:
    """Return the documents below directories whose files are gone, not only unreadable or
    unvisited.

    Args:
        sources: files and directories of the run.
        known: the documents of the index.
        changes: the result of :func:`find_changes` for the sources.
    """
    folders = [source.resolve() for source in sources if source.is_dir()]
    gone: list[DocumentRow] = []
    left: list[DocumentRow] = []
    for row in known:
        is_unseen = row.path not in changes.seen
        is_lost = is_unseen and _is_below(row.path, folders) and _is_gone(row.path)
        if row.root:
            (gone if is_lost else left).append(row)
    # The root of a document may be another disk, inside of a source.
    roots = {find_path(root) for root in {row.root for row in gone} if _is_below(root, folders)}
    emptied = {}
    for folder in sorted({*folders, *roots}):
        rows = _rows_below(folder, gone)
        if rows and not _rows_below(folder, left) and not _has_moved(rows, folder, changes):
            emptied[str(folder)] = [row.doc_id for row in rows]
    return GoneFiles([row.doc_id for row in gone], emptied)


def _rows_below(folder: Path, rows: Sequence[DocumentRow]) -> list[DocumentRow]:
    """Return the documents whose files are, or were, below a folder."""
    return [row for row in rows if _is_below(row.path, [folder])]


def _is_below(path: str, folders: Sequence[Path]) -> bool:
    """Return whether a path is below one of some folders."""
    return any(find_path(path).is_relative_to(folder) for folder in folders)


def _has_moved(gone: Sequence[DocumentRow], folder: Path, changes: Changes) -> bool:
    """Return whether a new file has the content of one that is gone: then files were renamed, not
    lost.
    """
    contents = {(row.size, row.fingerprint) for row in gone}
    sizes = {size for size, _ in contents}
    new = (
        file
        for file in changes.to_read
        if file.stamp.size in sizes and _is_below(str(file.path), [folder])
    )
    for file in new:
        with contextlib.suppress(OSError):
            if (file.stamp.size, hash_file(file.path, file.stamp)) in contents:
                return True
    return False


def _is_gone(path: str) -> bool:
    """Return whether there is no file at a path, as opposed to one that can't be read."""
    try:
        return S_ISDIR(find_path(path).stat().st_mode)  # a folder that took the file's place
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)


def _name_files(files: Sequence[SourceFile], known: Mapping[str, DocumentRow]) -> list[SourceFile]:
    """Return files with the names of their documents, in the order of the names.

    Documents of the index keep theirs; a new file whose name is taken gets the names of parent
    folders before it.
    """
    by_path = _index_paths(files, known)
    names: dict[str, SourceFile] = {}
    new = []
    for file in files:
        row = by_path.get(printable(str(file.path))) or by_path.get(printable(file.real))
        if row is not None and row.doc_id not in names:
            names[row.doc_id] = replace(file, path=find_path(row.path))
        else:
            new.append(file)
    for file in new:
        names[_find_free_name(file, names, known)] = file
    return [replace(file, doc_id=name) for name, file in sorted(names.items())]


def _index_paths(
    files: Sequence[SourceFile], known: Mapping[str, DocumentRow]
) -> dict[str, DocumentRow]:
    """Return the documents of the index that are files, by path; those found by way of a link also
    by the path that it leads to.
    """
    by_path = {row.path: row for row in known.values() if row.root and owner_of(row) is None}
    if all(printable(str(file.path)) in by_path for file in files):
        return by_path
    links = [path for path in by_path if os.path.islink(path)]  # noqa: PTH114  # Path's raises
    return {os.path.realpath(path): by_path[path] for path in links} | by_path


def _find_free_name(
    file: SourceFile, names: Collection[str], known: Mapping[str, DocumentRow]
) -> str:
    """Return the name of a new file's document, after names of parent folders if it is taken."""

    def is_taken(doc_id: str) -> bool:
        row = known.get(doc_id)
        is_free = row is None or (row.root and _is_gone(row.path))
        return doc_id in names or not is_free

    doc_id, folder = file.doc_id, Path(file.root)
    if file.path == folder.parent / doc_id:  # it has the name of its folder already
        folder = folder.parent
    while is_taken(doc_id):
        if folder == folder.parent:
            return printable(str(file.path))
        doc_id, folder = f"{folder.name}/{doc_id}", folder.parent
    return doc_id
