"""The URLs of object storage and other file systems that fsspec reads, where backups are."""

import re
from typing import TYPE_CHECKING

from lmkrag.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
# s3fs itself tries five times; each try with botocore's minute, and five tries of its own, is half an hour.
_WAITS = {"connect_timeout": 5, "read_timeout": 10, "retries": {"max_attempts": 0}}  # seconds


def is_url(source: object) -> bool:
    """Return whether a source is the URL of a remote file or folder.

    >>> is_url("s3://bucket/docs"), is_url("docs/")
    (True, False)
    """
    return isinstance(source, str) and bool(_URL.match(source))


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
