"""The address of an index on Qdrant, and calls to it: repeated where the connection fails, their errors are ours.

qdrant://HOST:6333/NAME           a server; qdrant+https:// with TLS, the API key in QDRANT_API_KEY
qdrant://:memory:/NAME            qdrant-client's local mode in this process, for tests
"""

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self
from urllib.parse import urlsplit

from lmkrag.errors import IndexNotFound, StorageError, UsageError, needs

with needs("qdrant", "qdrant-client"):
    import httpx
    from qdrant_client import QdrantClient
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

_TIMEOUT = 30  # seconds for one call
_PAUSES = (0.2, 1.0, 3.0)  # seconds before a call is repeated
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_OLDEST = (1, 17)  # the version of Qdrant that first inserts a point only if there is none of its id
_FORM = "qdrant://HOST:6333/NAME, or qdrant+https:// with TLS; a new index may have ?replicas=2&shards=6"
_ADDRESS = re.compile(r"qdrant(\+https)?:/{1,2}([^/?]+)/([\w-]{1,200})(?:\?([\w=&]*))?")  # Path makes one slash of two
_MEMORY = ":memory:"

_memory_guard = threading.RLock()  # the local mode is not made for threads
_memory_client: list[QdrantClient] = []


@dataclass(frozen=True, slots=True)
class Address:
    """Where an index is. ``replicas`` and ``shards`` count when it is made."""

    text: str  # as users write it, without options
    server: str  # a URL, or ``:memory:``
    name: str  # of the collection
    replicas: int = 1
    shards: int | None = None

    @property
    def is_local(self) -> bool:
        return self.server == _MEMORY

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the parts of an address. Raises UsageError: it is none."""
        parts = _ADDRESS.fullmatch(text)
        if parts is None:
            raise UsageError(f"{text!r} is no index on Qdrant: write {_FORM}")
        tls, host, name, query = parts.groups()
        counts = dict(item.partition("=")[::2] for item in (query or "").split("&") if item)
        if not counts.keys() <= {"replicas", "shards"} or not all(
            re.fullmatch(r"[1-9]\d{0,3}", count) for count in counts.values()
        ):
            raise UsageError(f"{text!r} has unknown options: write {_FORM}")
        server = host if host == _MEMORY else f"http{'s' if tls else ''}://{host}"
        try:
            sound = host == _MEMORY or ("@" not in host and urlsplit(server).hostname and urlsplit(server).port != 0)
        except ValueError:  # the port is no number
            sound = False
        if not sound:
            raise UsageError(f"{text!r} names no host: write {_FORM}, and the API key to QDRANT_API_KEY")
        shards = int(counts["shards"]) if "shards" in counts else None
        return cls(f"qdrant{tls or ''}://{host}/{name}", server, name, int(counts.get("replicas", 1)), shards)


class Connection:
    """Calls to the collection of an index. State: a client, a new one in a forked process."""

    def __init__(self, address: Address) -> None:
        """Connect. Raises StorageError: nothing answers, or a version of Qdrant that is too old."""
        self.address = address
        self._client, self._process = self._connect(), os.getpid()
        version = str(self.call("info", of_collection=False).version)
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise StorageError(f"{address.text}: Qdrant {version} is too old for several writers: upgrade to {oldest}")

    def _connect(self) -> QdrantClient:
        server = self.address.server
        if self.address.is_local:
            with _memory_guard:
                if not _memory_client:
                    _memory_client.append(QdrantClient(server))
                return _memory_client[0]
        key, port = os.environ.get("QDRANT_API_KEY") or None, urlsplit(server).port or 6333
        return QdrantClient(url=server, port=port, api_key=key, timeout=_TIMEOUT, check_compatibility=False)

    def close(self) -> None:
        """Close the connection; what is in memory stays until the process ends."""
        if not self.address.is_local:
            self._client.close()

    def call(self, method: str, *args: Any, of_collection: bool = True, **options: Any) -> Any:
        """Call a method of the client for the collection, again where the connection fails: all calls may be repeated.

        Raises StorageError: it failed. IndexNotFound: there is no such collection.
        """
        if self._process != os.getpid() and not self.address.is_local:  # connections are the parent's
            self._client, self._process = self._connect(), os.getpid()
        if of_collection:
            args = (self.address.name, *args)
        for pause in (*_PAUSES, None):
            wait = pause or 0.0
            try:
                with _memory_guard if self.address.is_local else nullcontext():
                    return getattr(self._client, method)(*args, **options)
            except UnexpectedResponse as error:
                if error.status_code not in _BUSY or pause is None:
                    raise self._to_error(error) from error
            except (ResponseHandlingException, ResourceExhaustedResponse, httpx.HTTPError, OSError) as error:
                if pause is None:
                    why = str(getattr(error, "source", error)) or type(error).__name__
                    raise StorageError(
                        f"{self.address.text}: Qdrant can't be reached ({why}); what was committed is kept: see that "
                        "it runs and that the address is right, then repeat the command"
                    ) from error
                wait = max(wait, min(_TIMEOUT, getattr(error, "retry_after_s", 0)))
            except ValueError as error:  # of the local mode
                if "not found" not in str(error):
                    raise
                raise IndexNotFound(f"{self.address.text}: the collection of the index is gone") from error
            time.sleep(wait)
        raise AssertionError  # the last turn returns or raises

    def _to_error(self, error: UnexpectedResponse) -> StorageError:
        text = self.address.text
        if error.status_code in (401, 403):
            return StorageError(f"{text}: Qdrant refuses the API key: set QDRANT_API_KEY to one that may do this")
        if error.status_code == 404:
            return IndexNotFound(f"{text}: the collection of the index is gone: see Qdrant's dashboard")
        reason = " ".join(bytes(error.content[:300]).decode("utf-8", "replace").split())
        return StorageError(f"{text}: Qdrant answered {error.status_code}: {reason}")


def in_parts(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield the items that go into one call each."""
    items = iter(items)
    while part := list(islice(items, size)):
        yield part
