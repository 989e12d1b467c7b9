"""Sources that are no folders of this machine: mirrored to it, then read as any other folder.

They are websites (:mod:`lmkrag.corpus.websites`), git repositories and archives (:mod:`lmkrag.corpus.archives`), and
folders of object storage and other file systems that fsspec reads.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pathspec import GitIgnoreSpec
from platformdirs import user_cache_path

from lmkrag.corpus.archives import check_out, is_archive, is_git, split_ref, unpack
from lmkrag.corpus.walk import check_globs, describe_error, is_safe_name, printable
from lmkrag.errors import MissingExtra, StorageError, UsageError
from lmkrag.types import Skipped

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_STAMPS = ".lmkrag-mirror.json"
# s3fs itself tries five times; each try with botocore's minute, and five tries of its own, is half an hour.
_WAITS = {"connect_timeout": 5, "read_timeout": 10, "retries": {"max_attempts": 0}}  # seconds
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_CHANGED_AT = ("LastModified", "mtime", "last_modified", "updated", "modified")


def is_url(source: object) -> bool:
    """Return whether a source is the URL of a remote file or folder.

    >>> is_url("s3://bucket/docs"), is_url("docs/"), is_url(Path("s3://bucket"))
    (True, False, False)
    """
    return isinstance(source, str) and bool(_URL.match(source))


def localize(
    sources: Sequence[str | Path], *, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[list[Path], list[Skipped]]:
    """Return sources as paths on this machine, remote ones mirrored and archives unpacked, and what can't be read.

    Raises:
        UsageError: nothing reads such URLs, there is nothing, or a glob can't be parsed. StorageError: a folder can't
        be listed, or the mirror not written. MissingExtra: what reads such URLs is not installed.
    """
    paths: list[Path] = []
    skipped: list[Skipped] = []
    for source in sources:
        name = str(source)
        if is_url(source) and name.startswith(("http://", "https://")):
            from lmkrag.corpus.websites import mirror_site

            paths.append(_place(name, urlsplit(name).path.strip("/").rpartition("/")[2] or urlsplit(name).netloc))
            skipped += mirror_site(name, paths[-1])
        elif is_url(source) and is_git(name):
            paths.append(_place(name, PurePosixPath(split_ref(name)[0]).stem or "tree"))
            check_out(name, paths[-1])
        elif is_url(source):
            path, left_out = mirror(name, include=include, exclude=exclude)
            paths.append(path)
            skipped += left_out
        elif is_archive(Path(source)):
            paths.append(_place(str(Path(source).resolve()), Path(source).name.partition(".")[0] or "archive"))
            unpack(Path(source), paths[-1])
        else:
            paths.append(Path(source))
    return paths, skipped


def mirror(url: str, *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[Path, list[Skipped]]:
    """Bring the mirror of a remote file or folder up to date; return where it is, and what could not be fetched.

    Only what has changed travels, by its ETag where there is one, else by size and time. Files that are gone are
    removed. Credentials and endpoints are those of the environment, as fsspec's packages read them.

    Args:
        url: that fsspec reads, such as ``s3://bucket/docs``.
        include: globs of ``.gitignore`` form; only files that match one are fetched.
        exclude: globs; no files that match one.

    Raises:
        As :func:`localize`.
    """
    check_globs(include, exclude)
    files, root = open_url(url)
    found, single = _list(files, root, url)
    place = _place(url, PurePosixPath(root).name or "root")
    folder = place.parent if single else place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return place, list(_update(files, folder, dict(_wanted(found, include, exclude))))
    except OSError as error:
        raise StorageError(f"{folder}: can't hold the mirror of {url} ({error.strerror or error})") from error


def _place(source: str, name: str) -> Path:
    """Where on this machine a source is kept, under its own name."""
    return _cache() / hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16] / name


def _cache() -> Path:
    return user_cache_path("lmkrag", appauthor=False) / "sources"


def mirrored_url(path: Path) -> str:
    """Return the address of the web page that a file of this machine is the copy of; empty if it is none."""
    cache = _cache()
    source, folder, *rest = path.relative_to(cache).parts if path.is_relative_to(cache) else ("", "")
    if not rest:
        return ""
    from lmkrag.corpus.websites import page_url

    return page_url(cache / source / folder, "/".join(rest))


def open_url(url: str) -> "tuple[AbstractFileSystem, str]":
    """Return the file system of a URL, and the path in it.

    Raises:
        UsageError: nothing reads such URLs. MissingExtra: what does is not installed.
    """
    from fsspec.core import url_to_fs

    options = {"config_kwargs": _WAITS} if url.startswith(("s3://", "s3a://")) else {}
    try:
        found: tuple[AbstractFileSystem, str] = url_to_fs(url, **options)
    except ImportError as error:
        raise MissingExtra("s3", "s3fs" if url.startswith("s3") else str(error.name or "what reads it")) from error
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from error
    return found


def _list(files: "AbstractFileSystem", root: str, url: str) -> tuple[dict[str, dict[str, Any]], bool]:
    """The files below a root by their names relative to it, and whether the root itself is one file."""
    try:
        files.invalidate_cache()
        if files.isfile(root):
            return {PurePosixPath(root).name: files.info(root)}, True
        listed: dict[str, dict[str, Any]] = files.find(root, detail=True)
    except FileNotFoundError:
        raise UsageError(f"{url}: no such file or directory") from None
    except Exception as error:  # each kind of storage fails in its own way
        raise StorageError(f"{url}: can't be listed ({describe_error(error)})") from error
    if not listed:
        raise UsageError(f"{url}: no such file or directory")
    prefix = root.rstrip("/") + "/"
    return {name.removeprefix(prefix): details for name, details in listed.items() if not name.endswith("/")}, False


def _wanted(
    found: Mapping[str, dict[str, Any]], include: Sequence[str], exclude: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    only, never = GitIgnoreSpec.from_lines(include), GitIgnoreSpec.from_lines(exclude)
    for name, details in sorted(found.items()):
        if (not include or only.match_file(name)) and not never.match_file(name):
            yield name, details


def _update(files: "AbstractFileSystem", folder: Path, wanted: Mapping[str, dict[str, Any]]) -> Iterator[Skipped]:
    """Fetch what has changed and remove what is gone; yield what can't be fetched."""
    record = folder / _STAMPS
    stamps: dict[str, str] = json.loads(record.read_text("utf-8")) if record.is_file() else {}
    for name in stamps.keys() - wanted.keys():
        (folder / name).unlink(missing_ok=True)
        del stamps[name]
    try:
        for name, details in wanted.items():
            stamp = str(details.get("ETag") or (details.get("size"), *map(details.get, _CHANGED_AT)))
            local = folder / name
            if stamps.get(name) == stamp and local.is_file():
                continue
            if not is_safe_name(name):
                yield Skipped(printable(name), "not a name that a file can have")
                continue
            try:
                _fetch(files, details, local)
            except Exception as error:  # each kind of storage fails in its own way
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise
                yield Skipped(printable(name), f"can't be read ({describe_error(error)})")
                continue
            stamps[name] = stamp
    finally:
        partial = record.with_suffix(".part")
        partial.write_text(json.dumps(stamps), "utf-8")
        partial.replace(record)


def _fetch(files: "AbstractFileSystem", details: dict[str, Any], local: Path) -> None:
    local.parent.mkdir(parents=True, exist_ok=True)
    partial = local.with_name(f".{local.name[:200]}.part")  # hidden: never indexed
    files.get_file(details["name"], str(partial))
    changed_at = next((details[key] for key in _CHANGED_AT if details.get(key) is not None), None)
    if changed_at is not None:
        seconds = changed_at.timestamp() if hasattr(changed_at, "timestamp") else float(changed_at)
        os.utime(partial, (seconds, seconds))
    partial.replace(local)
