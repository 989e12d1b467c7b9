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
from itertools import islice
from typing import Any, NamedTuple

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
_ADDRESS = re.compile(  # pathlib makes one slash of two
    r"qdrant(\+https)?:/{1,2}(:memory:|(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?)/([\w-]{1,200})"
)
_memory: list[QdrantClient] = []  # the client in local mode, which is not made for threads
_memory_guard = threading.RLock()


class Address(NamedTuple):
    """Where an index is."""

    text: str  # as users write it
    server: str  # a URL, or ``:memory:``
    name: str  # of the collection

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return the parts of an address. Raises UsageError: it is none."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            form = "qdrant://HOST:6333/NAME, or qdrant+https:// with TLS, and the API key to QDRANT_API_KEY"
            raise UsageError(f"{text!r} is no index on Qdrant: write {form}")
        tls, host, name = match.groups(default="")
        server = host if host == ":memory:" else f"http{'s' if tls else ''}://{host}"
        return cls(f"qdrant{tls}://{host}/{name}", server, name)


class Connection:
    """Calls to the collection of an index. State: a client, a new one in a forked process."""

    def __init__(self, address: Address) -> None:
        """Connect. Raises StorageError: nothing answers, or a version of Qdrant that is too old."""
        self.address, self.is_local = address, address.server == ":memory:"
        self._client, self._process = self._connect(), os.getpid()
        version = str(self.call("info").version)
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            raise StorageError(f"{address.text}: Qdrant {version} can't tell which of two writers was first; 1.17 can")

    def _connect(self) -> QdrantClient:
        server, key = self.address.server, os.environ.get("QDRANT_API_KEY") or None
        if not self.is_local:
            return QdrantClient(url=server, api_key=key, timeout=_TIMEOUT, check_compatibility=False)
        with _memory_guard:
            _memory[:] = _memory or [QdrantClient(server)]
            return _memory[0]

    def close(self) -> None:
        """Close the connection; what is in memory stays until the process ends."""
        if not self.is_local:
            self._client.close()

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the client for the collection, again where the connection fails: all calls may be repeated.

        Raises StorageError: it failed. IndexNotFound: there is no such collection.
        """
        if self._process != os.getpid() and not self.is_local:  # connections are the parent's
            self._client, self._process = self._connect(), os.getpid()
        args = () if method == "info" else (self.address.name, *args)
        for pause in (*_PAUSES, None):
            try:
                with _memory_guard if self.is_local else nullcontext():
                    return getattr(self._client, method)(*args, **options)
            except (ResponseHandlingException, ResourceExhaustedResponse, httpx.HTTPError, OSError) as error:
                if pause is None:
                    why = str(getattr(error, "source", error)) or type(error).__name__
                    advice = "see that it runs and that the address is right, then repeat the command"
                    reason = f"Qdrant can't be reached ({why}); what was committed is kept: {advice}"
                    raise StorageError(f"{self.address.text}: {reason}") from error
                pause = max(pause, min(_TIMEOUT, getattr(error, "retry_after_s", 0)))
            except (UnexpectedResponse, ValueError) as error:
                if pause is None or getattr(error, "status_code", 404) not in _BUSY:
                    raise self._to_error(error) from error
            time.sleep(pause)
        raise AssertionError  # the last turn returns or raises

    def _to_error(self, error: UnexpectedResponse | ValueError) -> Exception:
        if not isinstance(error, UnexpectedResponse):  # of the local mode
            return self.missing() if "not found" in str(error) else StorageError(f"{self.address.text}: {error}")
        if error.status_code == 404:
            return self.missing()
        reason = " ".join(bytes(error.content[:300]).decode("utf-8", "replace").split())
        if error.status_code in (401, 403):
            reason = "set QDRANT_API_KEY to a key that may do this"
        return StorageError(f"{self.address.text}: Qdrant refused ({error.status_code}): {reason}")

    def missing(self) -> IndexNotFound:
        """Return the error where there is no index."""
        text = self.address.text
        return IndexNotFound(f"{text}: no index here; make one with: lmkrag index PATH --index {text}")


def in_parts(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield the items that go into one call each."""
    items = iter(items)
    while part := list(islice(items, size)):
        yield part
