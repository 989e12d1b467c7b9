"""Indexes of folders in the user's cache directory, found by the folders' paths.

A new folder can be searched at once: the files with the words of the question are encoded first, as
many as allow a first answer within three seconds; a background process encodes the rest.
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.errors import EncoderError, IndexCorrupt, IndexLocked, IndexMismatch, StorageError
from lmkrag.formats.load import fingerprint, may_hold_prose
from lmkrag.index.store import IndexStore
from lmkrag.ingest.changes import find_changes, find_gone, read_known, read_skipped
from lmkrag.ingest.opening import open_index
from lmkrag.ingest.walk import SourceFile
from lmkrag.language.terms import find_stems
from lmkrag.system.cache import cache_path, make_private
from lmkrag.system.platform import hold_lock
from lmkrag.system.processes import PYTHON

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder

Opened = TypeVar("Opened")
Result = TypeVar("Result")

# Bytes of files that are encoded before the first answer, which then comes within three seconds.
_FIRST = 20_000
_LONGEST = 60_000  # bytes of the best file
_LOOKED_AT = 300_000  # bytes of a file whose words are counted
_IN_NAME = 3.0  # weight of a word in a file's name, relative to one in its text
_LEAST_SPACE = 1 << 20  # bytes; with less, the disk counts as full


def cached_index(folders: Sequence[Path]) -> Path:
    """Return the path of the index of some folders, whether it exists or not.

    Its name is that of the first folder, with a hash of all their paths.
    """
    resolved = [folder.resolve() for folder in folders]
    digest = fingerprint("\0".join(map(str, resolved)).encode("utf-8", "surrogateescape"))
    return cache_path("folders", f"{resolved[0].name or 'root'}-{digest[:16]}")


def use_cached(
    index: Path, prepare: Callable[[], Opened], use: Callable[[Opened], Result]
) -> Result:
    """Use a cached index, which is prepared under a lock; a damaged one is removed and prepared
    anew.

    Args:
        index: path of the index in the cache.
        prepare: brings the index up to date and opens it.
        use: uses what ``prepare`` returned.

    Returns:
        The result of ``use``.

    Raises:
        StorageError: the cache can't be written to.
    """
    number = None
    try:
        with _lock_cache(index):
            opened = prepare()
            number = index.stat().st_ino
        return use(opened)
    except (IndexMismatch, IndexCorrupt):
        with _lock_cache(index):
            is_replaced = number is not None and index.exists() and index.stat().st_ino != number
            if not is_replaced:
                shutil.rmtree(index, ignore_errors=True)
            opened = prepare()
        return use(opened)


@contextlib.contextmanager
def _lock_cache(index: Path) -> Iterator[None]:
    """Hold the lock of a cached index; only the user may read the cache."""
    try:
        with contextlib.ExitStack() as lock:
            try:
                make_private(index.parent)
                lock.enter_context(hold_lock(index.parent.with_name(f"{index.name}.lock")))
                if index.exists() and not IndexStore.exists(index):  # creating it failed
                    shutil.rmtree(index)
            except OSError as error:
                raise StorageError(error.strerror) from error
            yield
    except StorageError as error:
        if type(error) is not StorageError:
            raise
        is_full = index.parent.exists() and shutil.disk_usage(index.parent).free < _LEAST_SPACE
        reason = "No space left on device" if is_full else error
        raise StorageError(
            f"{index.parent}: the cache can't be written to ({reason}); XDG_CACHE_HOME names "
            "another folder for it"
        ) from error


class OpenFolder(contextlib.ExitStack):
    """The index of a folder, updated as far as that is quick.

    While another process writes to it, a temporary index has the best of the changed files. On
    exit, a background process starts to index the remaining files.

    Attributes:
        indexes: the open stores, each with its encoder if that is loaded.
        note: what part of the folder the stores have; empty if they have all.
    """

    def __init__(
        self,
        index: Path,
        path: Path,
        query: str,
        include: Sequence[str],
        exclude: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:
        """Bring the cached index up to date, files with a question's words first.

        Args:
            index: path of the index in the cache.
            path: the folder that is indexed, or a file in it, which is read whoever wrote it.
            query: the question; its words rank the changed files.
            include: globs in the form of ``.gitignore``; only files that match one.
            exclude: globs in the same form; no files that match one.
            tell: called with :attr:`note` once it is known, before files are read.

        Raises:
            UsageError: ``path`` does not exist, or a glob can't be parsed.
            StorageError: the index can't be written.
        """
        super().__init__()
        self.note, self._tell = "", tell
        self._named = path.resolve() if path.is_file() else None
        store, encoder = open_index(index, create=True)
        self.callback(store.close)
        encoders = IndexEncoders(index, store.encoder, encoder)
        self.indexes = [(store, encoder)]

        def get_encoder() -> "LandmarkEncoder":
            loaded = encoders.encoder_of(store.encoder)
            self.indexes[0] = (store, loaded)
            return loaded

        sources = (path,) if path.is_dir() else (path.parent, path)
        # Look for changes; without any, nothing else is imported.
        known = read_known(store)
        changes = find_changes(
            sources, known, read_skipped(store), include=include, exclude=exclude
        )
        gone = find_gone(sources, known.values(), changes).doc_ids
        if not (changes.to_read or changes.forgotten or gone):
            return
        from lmkrag.ingest.ingest import encode_files, ingest
        from lmkrag.ingest.sources import Files

        loading = Thread(target=_load_meanwhile, args=(changes.to_read,), daemon=True)
        loading.start()
        # Encode the best of the changed files, here or beside the index.
        source = Files(
            sources,
            prune="some",
            encode=lambda files, _: self._choose(files, query),
            changes=changes,
        )
        try:
            ingest(store, get_encoder, source)
        except IndexLocked:  # by a background process
            files = self._choose(changes.to_read, query)
            if files:
                scratch = self.enter_context(tempfile.TemporaryDirectory())
                temporary, encoder = open_index(
                    f"{scratch}/index", create=True, encoder=get_encoder()
                )
                self.callback(temporary.close)
                encode_files(temporary, get_encoder, files)
                self.indexes.append((temporary, encoder))
        else:
            if self.note:
                self.callback(_index_in_background, sources, index, include, exclude)
        loading.join()

    def _choose(self, files: list[SourceFile], query: str) -> list[SourceFile]:
        """Choose the files to encode now; say how many, if that is not all. A file that is named
        is searched alone, so it alone is encoded.
        """
        if self._named is not None:
            return [file for file in files if file.path.resolve() == self._named]
        chosen = choose_files(files, query)
        if len(chosen) < len(files):
            self.note = (
                f"{len(chosen)} of {len(files):,} new or changed files are searched now, those "
                "with the words of the question; results and their order may change while the "
                "rest is being indexed, so run this again for all"
            )
            self._tell(self.note)
        return chosen


def _load_meanwhile(files: Sequence[SourceFile]) -> None:
    """Load what a search of prose needs, if there is any, while others read the files."""
    from lmkrag.reranker.loading import load_reranker
    from lmkrag.sentences.prose import find_starts

    if any(may_hold_prose(file.path) for file in files):
        with contextlib.suppress(EncoderError):  # which the search raises again
            load_reranker()
        find_starts("")


def choose_files(files: Sequence[SourceFile], query: str) -> list[SourceFile]:
    """Return the files to encode before the first answer, best first.

    They have about 20,000 bytes together. If even the best file is long, the shortest of all is
    returned.
    """
    chosen: list[SourceFile] = []
    size = 0
    if sum(file.stamp.size for file in files) > _FIRST:
        files = rank_files(files, query)
    for file in files:
        if size + file.stamp.size <= (_FIRST if chosen else _LONGEST):
            chosen.append(file)
            size += file.stamp.size
    # A minified file would take minutes.
    return chosen or sorted(files, key=lambda file: file.stamp.size)[:1]


def rank_files(files: Sequence[SourceFile], query: str) -> list[SourceFile]:
    """Sort files by how well their texts and names match the words of a question.

    It is BM25 (Robertson et al., 1994) over whole files, without an index; a word in a file's name
    counts three times.
    """
    terms = [word.encode() for word in find_stems(query)]
    rows = []
    for file in files:
        try:
            with file.path.open("rb") as opened:
                text = opened.read(_LOOKED_AT).lower()
        except OSError:
            text = b""
        name = file.doc_id.lower().encode("utf-8", "surrogateescape")
        rows.append([text.count(term) + _IN_NAME * name.count(term) for term in terms])
    # Weigh each word by how few files have it, and each count by the length of the file.
    counts = np.array(rows).reshape(len(files), len(terms))
    frequencies = np.count_nonzero(counts, axis=0)
    rarity = np.log(1 + (len(files) - frequencies + 0.5) / (frequencies + 0.5))
    sizes = np.array([file.stamp.size for file in files])
    lengths = 0.4 + 0.6 * np.minimum(_LOOKED_AT, sizes) / (sizes.mean() or 1)
    scores = counts / (counts + lengths[:, np.newaxis]) @ rarity
    return [files[position] for position in np.argsort(-scores, kind="stable")]


def _index_in_background(
    sources: Sequence[Path], index: Path, include: Sequence[str], exclude: Sequence[str]
) -> None:
    """Start a process that indexes the rest of a folder; it ends at once if another process is
    writing.
    """
    command = [*PYTHON, "-m", "lmkrag", "index", *map(str, sources), "--index", str(index)]
    command.append("--prune")
    command += [f"--include={glob}" for glob in include] + [f"--exclude={glob}" for glob in exclude]
    subprocess.Popen(
        command,
        start_new_session=True,
        umask=0o077,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
