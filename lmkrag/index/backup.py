"""Copy an index that is in use: the copy is one committed state, and an ordinary index.

SQLite's backup copies the catalog. Segments never change: they become hard links where the file
system allows that, else copies. The copy is built beside its place, verified, and takes its place
in one step.
"""

import contextlib
import json
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from lmkrag.errors import IndexCorrupt, StorageError, UsageError
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.columns import read_ranges
from lmkrag.index.files import File, MappedFile, lock_index
from lmkrag.index.location import locate_index
from lmkrag.index.pool import CATALOG
from lmkrag.index.segments import SegmentFile
from lmkrag.index.store import IndexStore
from lmkrag.index.verify import find_problems
from lmkrag.index.working import WorkingFolder
from lmkrag.system.platform import sync

# in a copy: its path, so that an index restored elsewhere is not taken for a copy
_MARKER = "backup.json"
_TRIES = 20  # of a copy whose segments a writer replaces meanwhile


@dataclass(frozen=True, slots=True)
class Backup:
    """The counts of a copy, and what it took.

    Attributes:
        documents: number of documents in the copy.
        sentences: number of sentences in the copy.
        new_files: number of segment files that the copy before it did not have.
        new_bytes: size of these files.
    """

    documents: int
    sentences: int
    new_files: int
    new_bytes: int


def back_up_index(index: Path, copy: Path) -> Backup:
    """Copy the state that an index has now to a directory; an earlier copy there is replaced.

    If the process is killed, the earlier copy stays complete, and the next call reuses the files
    copied so far.

    Args:
        index: the directory of the index, which may be in use.
        copy: where the copy is to be: an earlier copy, an empty directory, or none.

    Returns:
        The counts of the copy.

    Raises:
        UsageError: ``copy`` holds something else, or one directory is inside the other.
        IndexNotFound: there is no index at ``index``.
        IndexLocked: another process makes this copy, or writes to it.
        IndexCorrupt: the index is damaged; the earlier copy stays.
        StorageError: the copy can't be written.
    """
    work = WorkingFolder(copy, "backup")
    source = locate_index(index)
    if source == work.index or source in work.index.parents or work.index in source.parents:
        raise UsageError(f"{copy}: choose a directory outside of the index")
    _check_place(work.index)
    with contextlib.closing(IndexStore.open(source)) as store:
        try:
            work.index.parent.mkdir(parents=True, exist_ok=True)
            work.claim()
            with lock_index(work.path):
                work.finish_interrupted()
                work.keep_new()
                # Build the copy beside its place, and verify every file and row of it.
                backup = _copy_state(store, work)
                with contextlib.closing(IndexStore.open(work.new)) as new:
                    if problems := find_problems(new):
                        raise IndexCorrupt(f"{source}: {problems[0]}; an earlier copy is unchanged")
                # Make it durable, then exchange it with the earlier copy in one step.
                for path in (
                    work.new / CATALOG,
                    work.new / _MARKER,
                    work.new / "segments",
                    work.new,
                ):
                    sync(path)
                with (
                    lock_index(work.index)
                    if IndexStore.exists(work.index)
                    else contextlib.nullcontext()
                ):
                    work.take_place()
                work.remove()
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"{copy}: can't be written ({error}); an earlier copy is unchanged"
            ) from error
    return backup


def _check_place(copy: Path) -> None:
    """Refuse to replace anything but an earlier copy or an empty directory."""
    if not copy.exists() or (copy.is_dir() and not any(copy.iterdir())):
        return
    try:
        recorded = json.loads((copy / _MARKER).read_text("utf-8"))["path"]
    except (OSError, ValueError, KeyError, TypeError):
        recorded = None
    if recorded != str(copy):
        raise UsageError(
            f"{copy}: exists and was not made by lmkrag backup; choose another directory"
        )


def _copy_state(store: IndexStore, work: WorkingFolder) -> Backup:
    """Copy the catalog and its segments to ``work.new``.

    A writer may replace segments meanwhile; the newer state is copied then.
    """
    segments = work.new / "segments"
    segments.mkdir(parents=True, exist_ok=True)
    for attempt in range(_TRIES):
        for path in work.new.glob(f"{CATALOG}*"):
            path.unlink()
        with store.reader.snapshot(segments=False) as snapshot:
            generation = catalog.generation(snapshot.connection)
            documents = read_ranges(snapshot.connection)
            named = [file for file, _ in catalog_segments.read_segments(snapshot.connection)]
            with contextlib.closing(sqlite3.connect(work.new / CATALOG)) as target:
                snapshot.connection.backup(target)
        try:
            new = _place_segments(named, store.path / "segments", work.index / "segments", segments)
            break
        except (FileNotFoundError, IndexCorrupt):
            with store.reader.snapshot(segments=False) as snapshot:
                if catalog.generation(snapshot.connection) == generation or attempt + 1 == _TRIES:
                    raise
    (work.new / _MARKER).write_text(json.dumps({"path": str(work.index)}) + "\n", "utf-8")
    return Backup(
        len(documents.keys), documents.sentences, len(new), sum(file.bytes for file in new)
    )


def _place_segments(
    named: list[SegmentFile], index: Path, earlier: Path, target: Path
) -> list[File]:
    """Make a directory hold the files of segments and no others.

    Args:
        named: the segments of the catalog's copy.
        index: the segments' directory of the index.
        earlier: that of the earlier copy, from which files are taken first.
        target: that of the new copy.

    Returns:
        The files that the earlier copy did not have; they are compared with their checksums.
    """
    files = {name: file for segment in named for name, file in segment.files.items()}
    for path in target.iterdir():
        if path.name not in files or not files[path.name].is_at(path):  # of an interrupted run
            path.unlink()
    new = []
    for name, file in files.items():
        path = target / name
        if path.exists():
            continue
        source = (earlier if file.is_at(earlier / name) else index) / name
        if source.parent == index:
            MappedFile(source, file).read()  # compared with its checksums
            new.append(file)
        try:
            path.hardlink_to(source)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, path)
            sync(path)
    return new
