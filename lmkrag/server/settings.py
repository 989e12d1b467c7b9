"""The settings that a server starts with."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lmkrag.errors import UsageError
from lmkrag.readers.base import Reader

_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much a server takes on.

    Args:
        threads: searches at once.
        waiting: searches that wait for one of them; further requests get status 429.
        requests: in flight at once, streams included; further requests get status 429.
        public_requests: the same for the paths that need no token, such as that of the login.
        seconds: a search may take, waiting included.
        arrival: seconds that the body of a request may take, and one more for each 10,000 bytes of it.
        stall: seconds without a byte from or to a client, after which it is given up.
        body: bytes of a request.
        upload: bytes of a document that is added.
        pending: bytes of all documents that are received or wait to be indexed; further ones get status 429.
        waiting_uploads: documents that wait to be indexed; further ones get status 429.
        connections: at once; further ones get status 503.
    """

    threads: int = field(default_factory=lambda: max(2, os.cpu_count() or 1))
    waiting: int = 256
    requests: int = 512
    public_requests: int = 128
    seconds: float = 30.0
    arrival: float = 30.0
    stall: float = 20.0
    body: int = 1 << 20
    upload: int = 100 << 20
    pending: int = 1 << 30
    waiting_uploads: int = 1_000
    connections: int = 2_000


class IndexingProgress(NamedTuple):
    """How far the indexing of a folder is, in bytes of the files it reads; ``total`` is 0 until it is known."""

    done: int
    total: int


class FollowerState(NamedTuple):
    """What becomes of the folder that is served: ``indexing`` is None while nothing is indexed.

    ``not_followed_since`` is the time (ISO 8601) from which changes may be missing in the index; None if none are.
    """

    indexing: IndexingProgress | None = None
    not_followed_since: str | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How to serve; raises UsageError where there is no index, or no token where there must be one.

    ``indexes`` are directories by the names that they are served under. ``token`` is what every request must carry;
    without ``authenticated``, other addresses than the loopback need none. ``allowed_hosts`` are further names of the
    server, ``reader`` is what answers, by default the passages themselves. ``rerank`` and ``rerank_timeout_ms`` are
    defaults of searches, ``rerank_model`` a folder or hub name. ``follower_state`` returns what becomes of the folder
    that is served.
    """

    indexes: Mapping[str, Path]
    host: str = "127.0.0.1"
    port: int = 8700
    writable: bool = False
    token: str | None = None
    authenticated: bool = True
    allowed_hosts: frozenset[str] = frozenset()
    reader: Reader | None = None
    rerank: bool = True
    rerank_timeout_ms: float | None = 300.0
    rerank_model: str | None = None
    limits: ServerLimits = field(default_factory=ServerLimits)
    follower_state: Callable[[], FollowerState] | None = None

    def __post_init__(self) -> None:
        if not self.indexes:
            raise UsageError("nothing to serve: name an index with --index DIR")
        for name in self.indexes:
            if not _NAME.fullmatch(name):
                raise UsageError(f"{name!r} can't be the name of an index: use letters, digits, '-', '_' and '.'")
        if self.token is not None and (len(self.token) < 8 or not self.token.isascii() or not self.token.isprintable()):
            raise UsageError("the token must be at least 8 ASCII characters, such as `openssl rand -hex 32` prints")
        if self.token is None and self.authenticated and not is_loopback(self.host):
            raise UsageError(
                f"anybody who reaches {self.host} could read the documents: set LMKRAG_TOKEN or --token-file, "
                "or say --no-auth"
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def name_indexes(values: tuple[str, ...]) -> dict[str, Path]:
    """Return index directories by name, from ``NAME=DIR`` or ``DIR``. Raises UsageError: two have one name."""
    named: dict[str, Path] = {}
    for value in values:
        name, separator, folder = value.partition("=")
        if not (separator and _NAME.fullmatch(name)):
            name, folder = Path(value).resolve().name, value
        if name in named:
            raise UsageError(f"two indexes are called {name!r}: name them with --index NAME=DIR")
        named[name] = Path(folder)
    return named
