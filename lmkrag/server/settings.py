"""The settings that a server starts with."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lmkrag.errors import UsageError
from lmkrag.system.clients import is_loopback

if TYPE_CHECKING:
    from lmkrag.readers.base import Reader

_SHORTEST_TOKEN = 16  # characters
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much a server takes on; further requests get status 429."""

    threads: int = field(default_factory=lambda: max(2, os.cpu_count() or 1))  # searches at once
    waiting: int = 256  # searches that wait for one of them
    requests: int = 512  # in flight at once, streams included
    public_requests: int = 128  # the same for paths that need no token, such as the login's
    seconds: float = 30.0  # a search may take, waiting included
    # seconds that the body of a request may take, plus one for each 10,000 bytes
    arrival: float = 30.0
    # seconds without a byte from or to a client, or without a request, before it is cut off
    stall: float = 20.0
    body: int = 1 << 20  # bytes of a request
    upload: int = 100 << 20  # bytes of a document that is added
    pending: int = 1 << 30  # bytes of all documents that are received or wait to be indexed
    waiting_uploads: int = 1_000  # documents that wait to be indexed
    connections: int = 2_000  # at once; further ones get status 503


@dataclass(frozen=True, slots=True)
class IndexingProgress:
    """How far the indexing of a folder is, in bytes of the files it reads; ``total`` is 0 until it
    is known.
    """

    done: int
    total: int


class FollowerState(NamedTuple):
    """Whether the served folder is being indexed, and whether its changes are followed."""

    indexing: IndexingProgress | None = None  # None while nothing is indexed
    not_followed_since: str | None = None  # ISO 8601; changes may be missing from then on


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How to serve; raises UsageError where there is no index, or no token where there must be
    one.
    """

    indexes: Mapping[str, Path]  # directories by the names that they are served under
    host: str = "127.0.0.1"
    port: int = 8700
    writable: bool = False
    token: str | None = None  # what every request must carry
    authenticated: bool = True  # False: serve any address without a token
    allowed_hosts: frozenset[str] = frozenset()  # further names of the server
    show_paths: bool = False  # in replies; only where no other machine reaches the server
    feedback: Path | None = None  # a file for what people say of answers, a JSON line each
    reader: "Reader | None" = None  # defaults to quoting the passages
    rerank: bool = True  # default of searches, as is the next field
    rerank_timeout_ms: float | None = 1_000.0
    rerank_model: str | None = None  # a folder, a hub name or a URL
    limits: ServerLimits = field(default_factory=ServerLimits)
    follower_state: Callable[[], FollowerState] = FollowerState  # of the served folder

    def __post_init__(self) -> None:
        if not self.indexes:
            raise UsageError("nothing to serve: name an index with --index DIR")
        for name in self.indexes:
            if not _NAME.fullmatch(name):
                raise UsageError(
                    f"{name!r} can't be the name of an index: use letters, digits, '-', '_' and '.'"
                )
        if self.token is not None:
            _check_token(self.token)
        if self.show_paths and not is_loopback(self.host):
            raise UsageError(
                f"--show-paths is for this machine, and others reach {self.host}: leave "
                "one of them out"
            )
        if self.token is None and self.authenticated and not is_loopback(self.host):
            advice = "set LMKRAG_TOKEN or --token-file, or say --no-auth"
            raise UsageError(f"anybody who reaches {self.host} could read the documents: {advice}")


def _check_token(token: str) -> None:
    """Raise UsageError: a token is too short, or has characters that a header can't hold."""
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        wanted = f"at least {_SHORTEST_TOKEN} printable ASCII characters"
        raise UsageError(f"the token must be {wanted}, such as `openssl rand -hex 32` prints")


def name_indexes(values: tuple[str, ...]) -> dict[str, Path]:
    """Return index directories by name, from ``NAME=DIR`` or ``DIR``. Raises UsageError: two have
    one name.
    """
    named: dict[str, Path] = {}
    for value in values:
        name, separator, folder = value.partition("=")
        if not (separator and _NAME.fullmatch(name)):
            name, folder = Path(value).resolve().name, value
        if name in named:
            raise UsageError(f"two indexes are called {name!r}: name them with --index NAME=DIR")
        named[name] = Path(folder)
    return named
