"""Find the files of a corpus, by ``.gitignore`` and globs; what can't be read is reported."""

import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path

from pathspec import GitIgnoreSpec

from lmkrag.errors import UsageError
from lmkrag.system.files import FileStamp, printable
from lmkrag.types import Skipped

_INDEX_FILES = {"catalog.sqlite", "segments"}  # a directory with both is an index, not a corpus
# hidden folders in which people look for texts: how to contribute, whom to tell of a fault
_HIDDEN_TEXTS = frozenset((".github", ".gitlab", ".gitea", ".forgejo", ".well-known"))
_MAX_GITIGNORE = 1 << 20  # bytes
_MAX_PATTERN = 1_000  # characters
_MAX_WILDCARDS = 3
_WILDCARDS = re.compile(r"\*+")
_URL = re.compile(r"([a-z][a-z0-9.-]+)(?:\+[a-z]+)?:/", re.IGNORECASE)
_ARCHIVE = re.compile(r".+\.(zip|t[bgx]z2?|tar(\.(gz|bz2|xz|zst))?)", re.IGNORECASE)
_MIRROR = "wget --mirror --no-parent --adjust-extension --no-if-modified-since -P DIR {source}"
_CLONE = "git clone URL DIR"
_FETCH = {
    "http": _MIRROR,
    "https": _MIRROR,
    "git": _CLONE,
    "ssh": _CLONE,
    "s3": "aws s3 sync {source} DIR",
}
"""The command that fetches the files of a URL, by its scheme."""


Rule = tuple[str, str, GitIgnoreSpec]
"""A prefix that names get, one that they lose, and patterns of a ``.gitignore``."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file that was found.

    Attributes:
        path: the file.
        doc_id: the name of its document in the index.
        root: the directory it was found from.
        stamp: its size and the time of its last change.
        real: its path without links.
    """

    path: Path
    doc_id: str  # its name in the index
    root: str  # the directory it was found from
    stamp: FileStamp
    real: str  # its path without links


def walk(
    source: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    follow_links: bool = False,
) -> Iterator[SourceFile | Skipped]:
    """Yield the files under a directory in the order of their names, or a file itself.

    Hidden files, indexes and what ``.gitignore`` files name are left out, as version control does.
    Links to files below the directory are followed, links to directories are not.

    Args:
        source: a file or a directory.
        include: globs in the form of ``.gitignore``; only files that match one. All files by
            default.
        exclude: globs in the same form; no files that match one.
        follow_links: whether links to any files are followed.

    Yields:
        A file, or what can't be read with the reason.

    Raises:
        UsageError: ``source`` does not exist or is an archive, or a glob can't be parsed.
    """
    included, excluded = _parse_globs("include", include), _parse_globs("exclude", exclude)
    check_source(source)
    if not source.is_dir():
        absolute = source.absolute()
        yield examine(
            absolute, printable(source.name), str(absolute.parent), os.path.realpath(absolute)
        )
        return
    root = source.resolve()
    rules = _rules_above(root) + ([("", "", excluded)] if exclude else [])
    yield from _walk_directory(
        root, included if include else None, rules, follow_links=follow_links
    )


def _rules_above(root: Path) -> list[Rule]:
    """Return the rules of ``.gitignore`` files from the repository's folder down to above ``root``.

    The outermost is first; rules that name ``root`` itself are left out.
    """
    above = [root, *root.parents]
    repository = next((folder for folder in above if os.path.exists(folder / ".git")), None)  # noqa: PTH110
    if repository is None or repository == root:
        return []
    folders = above[1 : above.index(repository) + 1]
    rules = (
        (root.relative_to(folder).as_posix() + "/", "", _read_gitignore(folder)[0])
        for folder in folders
    )
    return [rule for rule in reversed(list(rules)) if not _ignored("", [rule])]


def check_source(source: str | Path) -> Path:
    """Return a path to index.

    Raises:
        UsageError: it does not exist, or is a URL or an archive; the message names a command that
            fetches it.
    """
    path = local_path(source)
    try:
        path.stat()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: {os.strerror(getattr(error, 'errno', ENOENT)).lower()}"
        ) from None
    if (archive := _ARCHIVE.fullmatch(path.name)) and path.is_file():
        name = shlex.quote(str(path))
        command = (
            f"unzip {name} -d DIR"
            if archive[1].lower() == "zip"
            else f"mkdir DIR && tar -xf {name} -C DIR"
        )
        raise UsageError(f"{path}: is an archive; run {command}, then index DIR")
    return path


def local_path(source: str | Path) -> Path:
    """Return a source as a path.

    Raises:
        UsageError: it is empty or a URL; the message names a command that fetches it.
    """
    if source == "":
        raise UsageError("an empty path names no file or directory; '.' is the working directory")
    url = _URL.match(str(source))
    if url is None or os.path.lexists(source):
        return Path(source)
    command = _FETCH.get(url[1].lower(), "rclone sync REMOTE:PATH DIR").format(
        source=shlex.quote(str(source))
    )
    raise UsageError(f"{source}: is not a file or directory; run {command}, then index DIR")


def _parse_globs(name: str, globs: Sequence[str]) -> GitIgnoreSpec:
    """Return the patterns of an option.

    Raises:
        UsageError: it is not a list of globs.
    """
    if isinstance(globs, str) or not all(isinstance(glob, str) for glob in globs):
        raise UsageError(f"{name} must be a list of globs, such as ['*.md']")
    for glob in globs:
        try:
            GitIgnoreSpec.from_lines([glob])
        except ValueError:
            raise UsageError(f"{name} {glob!r}: not a glob of .gitignore form") from None
    return GitIgnoreSpec.from_lines(globs)


def _walk_directory(
    root: Path, included: GitIgnoreSpec | None, rules: list[Rule], *, follow_links: bool
) -> Iterator[SourceFile | Skipped]:
    """Yield the files below a directory, folder by folder, each with the rules of its own
    ``.gitignore``.
    """
    stack = [(root, "", rules)]
    while stack:
        directory, prefix, rules = stack.pop()
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError as error:
            yield Skipped(printable(prefix or "."), f"can't be read ({error.strerror})")
            continue
        names = {entry.name for entry in entries}
        if names >= _INDEX_FILES:
            continue
        if ".gitignore" in names:
            spec, problems = _read_gitignore(directory)
            yield from (Skipped(printable(f"{prefix}.gitignore"), problem) for problem in problems)
            rules = [*rules, ("", prefix, spec)]
        inner = []
        for entry in entries:
            name = prefix + entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            marked = f"{name}/" if is_directory else name
            if _ignored(marked, rules):
                continue
            if entry.name.startswith("."):
                if is_directory and entry.name in _HIDDEN_TEXTS and included is None:
                    reason = "hidden folder: left out, add it by its own path"
                    yield Skipped(printable(name), reason)
                continue
            if is_directory:
                inner.append((Path(entry.path), marked, rules))
            elif entry.is_symlink() and os.path.isdir(entry.path):  # noqa: PTH112  # Path's raises
                reason = "link to a directory: not followed, add it by its own path"
                yield Skipped(printable(name), reason)
            elif included is None or included.match_file(name):
                yield _examine_entry(entry, name, root, follow_links=follow_links)
        stack.extend(reversed(inner))


def _examine_entry(
    entry: os.DirEntry[str], name: str, root: Path, *, follow_links: bool
) -> SourceFile | Skipped:
    """Look at a file of a folder; a link outside of ``root`` is followed only if that is wanted."""
    real = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
    if entry.is_symlink() and not follow_links and not Path(real).is_relative_to(root):
        reason = "link to a file outside the directory: --follow-links (follow_links=True) reads it"
        return Skipped(printable(name), reason)
    return examine(Path(entry.path), printable(name), str(root), real)


def examine(path: Path, doc_id: str, root: str, real: str) -> SourceFile | Skipped:
    """Look at one file.

    Args:
        path: the file.
        doc_id: name of its document.
        root: the directory it was found from.
        real: its path without links.

    Returns:
        The file with its stamp, or why it is skipped.
    """
    try:
        status = path.stat()
    except OSError as error:
        return Skipped(doc_id, f"can't be read ({error.strerror or error})")
    if not stat.S_ISREG(status.st_mode):
        return Skipped(doc_id, "not a regular file")
    return SourceFile(path, doc_id, printable(root), FileStamp.of(status), real)


def _read_gitignore(directory: Path) -> tuple[GitIgnoreSpec, list[str]]:
    """Return the rules of a directory's ``.gitignore``, and a message for each ignored line."""
    path = directory / ".gitignore"
    nothing = GitIgnoreSpec.from_lines([])
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_GITIGNORE:
            return nothing, [
                f"is not a regular file of at most {_MAX_GITIGNORE >> 20} MiB: was ignored"
            ]
        lines = path.read_text("utf-8-sig", "replace").splitlines()
    except OSError:
        return nothing, []
    good, problems = [], []
    for number, line in enumerate(lines, 1):
        if _is_pattern(line):
            good.append(line)
        else:
            problems.append(f"line {number} is not a pattern: {line.strip()[:80]!r} was ignored")
    return GitIgnoreSpec.from_lines(good), problems


def _is_pattern(line: str) -> bool:
    """Return whether a line is a pattern that is matched in little time."""
    # Each wildcard multiplies the possible matches.
    wildcards = [len(_WILDCARDS.findall(part)) for part in line.split("/")]
    has_many = max(wildcards) > _MAX_WILDCARDS or sum(wildcards) > 2 * _MAX_WILDCARDS
    if has_many or len(line) > _MAX_PATTERN:
        return False
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _ignored(name: str, rules: list[Rule]) -> bool:
    """Return whether rules leave a name out: the last matching rule decides, the deepest
    ``.gitignore`` last.
    """
    decisions = (
        spec.check_file(lead + name[len(prefix) :]).include
        for lead, prefix, spec in reversed(rules)
    )
    return next((decision for decision in decisions if decision is not None), False)
