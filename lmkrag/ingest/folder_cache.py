"""Indexes of folders that nobody indexed by name: kept in the user's cache directory, found again by path.

A folder that was never seen is searched at once: the files that have the words of the question are encoded first, as
many as a second or so allows; the rest is left to a process in the background.
"""

import contextlib
import hashlib
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from filelock import FileLock

from lmkrag.errors import IndexCorrupt, IndexLocked, IndexMismatch, LmkragError, StorageError
from lmkrag.index.files import lock_index
from lmkrag.index.store import IndexStore
from lmkrag.index.words.terms import drop_stop_words, split_words
from lmkrag.ingest.changes import find_changes
from lmkrag.ingest.ingest import GetEncoder, ingest
from lmkrag.ingest.report import Run
from lmkrag.ingest.sources import Files, read_known, read_skipped
from lmkrag.ingest.walk import Found
from lmkrag.system import PYTHON, printable

Result = TypeVar("Result")

_FIRST = 30_000
"""Bytes of files that are encoded before the first answer, about a second on two cores."""

_LOOKED_AT = 300_000  # bytes of a file in which words are counted
_IN_NAME = 3.0  # what a word in a file's name counts, against one in its text
_GIT_SECONDS = 30  # that git may take to list worktrees
_STEM = 4  # letters that a word keeps at least when its ending is cut off


def cached_index(folders: Sequence[Path]) -> Path:
    """Return where the index of some folders is kept, whether it exists or not: a name and a hash of their paths."""
    from platformdirs import user_cache_path

    resolved = [folder.resolve() for folder in folders]
    digest = hashlib.sha256("\0".join(map(str, resolved)).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return user_cache_path("lmkrag", appauthor=False) / "folders" / f"{resolved[0].name or 'root'}-{digest}"


def use_cached(index: Path, use: Callable[[], Result]) -> Result:
    """Return what ``use`` makes of a cached index; one of another version, or a damaged one, is made again first.

    Only the user may read the cache. Another process that uses the same index is waited for.

    Raises:
        StorageError: the cache can't be written to.
    """
    lock = FileLock(index.parent.with_name(f"{index.name}.lock"))
    try:
        for folder in (index.parent.parent, index.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        lock.acquire()  # waits
    except OSError as error:
        reason = f"the cache can't be written to ({error.strerror}); XDG_CACHE_HOME names another folder for it"
        raise StorageError(f"{index.parent}: {reason}") from error
    try:
        return use()
    except (IndexMismatch, IndexCorrupt):
        shutil.rmtree(index, ignore_errors=True)
        return use()
    finally:
        lock.release()


def adopt_worktree(folder: Path, index: Path) -> None:
    """Begin the index of a folder with that of the same folder in another worktree of its git repository.

    Texts that are the same in both are not encoded again then. Without another worktree that has an index, or while
    somebody writes to that, nothing happens.
    """
    for other in _find_worktrees(folder.resolve()):
        known = cached_index([other])
        if not IndexStore.exists(known):
            continue
        partial = index.with_name(f"{index.name}.part")
        try:
            with lock_index(known):
                shutil.copytree(known, partial, ignore=shutil.ignore_patterns("write.lock"))
            with contextlib.closing(IndexStore.open(partial)) as store:
                store.move_files(printable(str(other)), printable(str(folder.resolve())))
            partial.rename(index)
        except (LmkragError, OSError):  # somebody writes to it, or it is of another version
            shutil.rmtree(partial, ignore_errors=True)
        else:
            return


def _find_worktrees(folder: Path) -> list[Path]:
    """The same folder in the other worktrees of its git repository."""
    command = ["git", "-C", str(folder), "worktree", "list", "--porcelain"]
    try:
        output = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return []
    lines = os.fsdecode(output).splitlines()
    roots = [Path(line.removeprefix("worktree ")).resolve() for line in lines if line.startswith("worktree ")]
    here = max((root for root in roots if folder.is_relative_to(root)), key=lambda root: len(root.parts), default=None)
    return [root / folder.relative_to(here) for root in roots if here is not None and root != here]


class CaughtUp(NamedTuple):
    """How many changed files were left out, and those for a temporary index, best first.

    There are files for a temporary index only while another process writes, which also indexes the others.
    """

    remaining: int
    unindexed: list[Found]


def catch_up(
    store: IndexStore, encoder: GetEncoder, folder: Path, query: str, *, include: Sequence[str], exclude: Sequence[str]
) -> CaughtUp:
    """Bring the index of a folder up to date as far as that is quick.

    While the process in the background writes, the most promising files go into a temporary index.

    Args:
        store: of the index.
        encoder: gives the encoder; called only when a file has changed.
        folder: that is searched.
        query: whose words choose the files that come first.
        include: globs; only files that match.
        exclude: globs; no files that match.

    Raises:
        UsageError: a glob can't be parsed. StorageError: the index can't be written to.
    """
    remaining = 0

    def choose(files: list[Found], _: Run | None = None) -> list[Found]:
        nonlocal remaining
        chosen: list[Found] = []
        size = 0
        for file in rank_files(files, query) if sum(one.stamp.size for one in files) > _FIRST else files:
            if not chosen or size + file.stamp.size <= _FIRST:
                chosen.append(file)
                size += file.stamp.size
        remaining = len(files) - len(chosen)
        return chosen

    try:
        ingest(store, encoder, Files((folder,), include=include, exclude=exclude, prune=True, encode=choose))
    except IndexLocked:
        changes = find_changes((folder,), read_known(store), read_skipped(store), include=include, exclude=exclude)
        unindexed = choose(changes.to_read)
        return CaughtUp(remaining, unindexed)
    return CaughtUp(remaining, [])


def rank_files(files: Sequence[Found], query: str) -> list[Found]:
    """Return files, those first whose texts and names have the words of a question (BM25; Robertson et al., 1994)."""
    terms = [word.encode() for word in find_stems(query)]
    counts: list[list[float]] = []
    for file in files:
        try:
            with file.path.open("rb") as opened:
                text = opened.read(_LOOKED_AT).lower()
        except OSError:
            text = b""
        name = file.doc_id.lower().encode("utf-8", "surrogateescape")
        counts.append([text.count(term) + _IN_NAME * name.count(term) for term in terms])
    found = [sum(1 for row in counts if row[position]) for position in range(len(terms))]
    rarity = [math.log(1 + (len(files) - count + 0.5) / (count + 0.5)) for count in found]
    mean = sum(file.stamp.size for file in files) / max(1, len(files)) or 1

    def score(position: int) -> float:
        length = 0.4 + 0.6 * min(_LOOKED_AT, files[position].stamp.size) / mean
        return sum(weight * count / (count + length) for weight, count in zip(rarity, counts[position], strict=True))

    order = sorted(range(len(files)), key=score, reverse=True)
    return [files[position] for position in order]


def find_stems(query: str) -> list[str]:
    """Return the beginnings of a question's words, without their endings: ``expired`` and ``expires`` are alike.

    >>> find_stems("Where are expired tokens refused?")
    ['expi', 'toke', 'refu']
    """
    words = dict.fromkeys(word[: max(_STEM, len(word) - 3)] for word in drop_stop_words(split_words(query)))
    return [word for word in words if len(word) > 1]


def index_in_background(folder: Path, index: Path, include: Sequence[str], exclude: Sequence[str]) -> None:
    """Start a process that indexes the rest of a folder; it ends at once if another one writes already."""
    command = [*PYTHON, "-m", "lmkrag", "index", str(folder), "--index", str(index), "--prune"]
    command += [f"--include={glob}" for glob in include] + [f"--exclude={glob}" for glob in exclude]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(command, start_new_session=True, umask=0o077, **quiet)  # type: ignore[call-overload]
