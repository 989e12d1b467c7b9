"""Commits of git repositories, and zip and tar archives: brought onto the disk, then read as any other folder."""

import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from lmkrag.errors import StorageError, UsageError

_GIT = "git+"
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_MOST_BYTES, _MOST_FILES = 4 << 30, 200_000  # that an archive unpacks to
_SECONDS = 1_800  # a git command may take
_STAMP = ".lmkrag-archive"


def is_git(source: str) -> bool:
    """Return whether a source is a git repository, such as ``git+https://host/project@v1``."""
    return source.startswith(_GIT)


def is_archive(path: Path) -> bool:
    """Return whether a source is an archive that can be unpacked."""
    return path.name.lower().endswith(_ARCHIVES) and path.is_file()


def check_out(source: str, folder: Path) -> None:
    """Bring a folder to the state of a commit, which git itself works out; only what differs is fetched and written.

    Neither hooks nor links nor submodules nor large-file filters of the repository are carried out.

    Args:
        source: ``git+URL[@REF]``; without a branch, tag or commit the default branch.
        folder: to write to; the repository is kept beside it.

    Raises:
        StorageError: git is missing, can't reach the repository, or does not know the commit.
    """
    url, ref = split_ref(source)
    repository = folder.with_name(f"{folder.name}.git")
    folder.mkdir(parents=True, exist_ok=True)
    if not (repository / "HEAD").is_file():
        run_git("init", "--quiet", "--bare", str(repository))
    inside = (f"--git-dir={repository}", f"--work-tree={folder}")
    run_git(*inside, "fetch", "--quiet", "--depth=1", "--no-tags", "--force", "--", url, ref)
    run_git(*inside, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    run_git(*inside, "clean", "--quiet", "-ffdx")


def split_ref(source: str) -> tuple[str, str]:
    """Return the URL of a repository, and the commit to take.

    >>> split_ref("git+https://host/project.git@v1.2"), split_ref("git+ssh://git@host/project")
    (('https://host/project.git', 'v1.2'), ('ssh://git@host/project', 'HEAD'))
    """
    url = source.removeprefix(_GIT)
    head, at, ref = url.rpartition("@")
    return (head, ref) if at and ref and urlsplit(head).path.strip("/") else (url, "HEAD")


def run_git(*arguments: str) -> str:
    """Run a git command without hooks, links or prompts, and return its output.

    Raises:
        StorageError: git is missing, fails, or takes too long.
    """
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c", "protocol.ext.allow=never"]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=_SECONDS, env=environment, check=False
        )
    except FileNotFoundError:
        raise StorageError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise StorageError(f"git took longer than {_SECONDS} seconds") from None
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise StorageError(f"git failed: {said or f'exit code {done.returncode}'}")
    return done.stdout


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive, unless it was unpacked as it is.

    Raises:
        UsageError: it is broken or encrypted, would unpack to too much, or outside of the folder.
    """
    stat = archive.stat()
    stamp = f"{stat.st_size} {stat.st_mtime_ns}"
    record = folder.with_name(f"{folder.name}{_STAMP}")
    if record.is_file() and record.read_text("utf-8") == stamp:
        return
    partial = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _check_sizes(archive, _sizes(archive))
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(partial)  # what would lie elsewhere is left out
        else:
            with tarfile.open(archive) as tarred:
                tarred.extractall(partial, filter="data")
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UsageError(f"{archive}: can't be unpacked ({error})") from error
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
    record.write_text(stamp, "utf-8")


def _sizes(archive: Path) -> Iterator[int]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            yield from (entry.file_size for entry in zipped.infolist())
    else:
        with tarfile.open(archive) as tarred:
            yield from (entry.size for entry in tarred)


def _check_sizes(archive: Path, sizes: Iterator[int]) -> None:
    total = 0
    for number, size in enumerate(sizes, 1):
        total += size
        if number > _MOST_FILES or total > _MOST_BYTES:
            raise UsageError(f"{archive}: would unpack to more than {_MOST_BYTES >> 30} GB or {_MOST_FILES:,} files")
