"""The address of an index on Qdrant, and calls to it, which are repeated if the connection fails.

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
from typing import Any

from lmkrag.errors import IndexNotFound, StorageError, UsageError, needs
from lmkrag.system.clients import open_qdrant

with needs("qdrant", "qdrant-client"):
    import httpx
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

_TIMEOUT = 30  # seconds for one call
_PAUSES = (0.2, 1.0, 3.0)  # seconds before a call is repeated
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_ADDRESS = re.compile(  # pathlib makes one slash of two
    r"qdrant(\+https)?:/{1,2}(:memory:|(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?)/([\w-]{1,200})"
)
_memory: list[Any] = []  # the client in local mode, which is not thread-safe
_memory_guard = threading.RLock()


class Connection:
    """Calls to the collection of an index. State: a client.

    Attributes:
        text: the address as users write it.
        name: name of the collection.
        server: a URL, or ``:memory:``.
        is_local: whether the index is in this process.
    """

    def __init__(self, address: object) -> None:
        """Connect to a server.

        Args:
            address: the address of an index.

        Raises:
            UsageError: it is no address of an index on Qdrant.
            StorageError: no server answers, or its version is too old.
        """
        match = _ADDRESS.fullmatch(str(address))
        if match is None:
            form = (
                "qdrant://HOST:6333/NAME, or qdrant+https:// with TLS, and the API key to "
                "QDRANT_API_KEY"
            )
            raise UsageError(f"{str(address)!r} is no index on Qdrant: write {form}")
        tls, host, self.name = match.groups(default="")
        self.text, self.is_local = f"qdrant{tls}://{host}/{self.name}", host == ":memory:"
        self.server = host if self.is_local else f"http{'s' if tls else ''}://{host}"
        self._client = self._connect()
        version = str(self.call("info").version)
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < (1, 17):  # the first with insert_only
            raise StorageError(
                f"{self.text}: Qdrant {version} can't tell which of two writers was first; 1.17 can"
            )

    def _connect(self) -> Any:
        """Return the client of the server, or the one of this process for the local mode."""
        if not self.is_local:
            key = os.environ.get("QDRANT_API_KEY") or None
            return open_qdrant(self.server, api_key=key, timeout=_TIMEOUT)
        with _memory_guard:
            _memory[:] = _memory or [open_qdrant(self.server)]
            return _memory[0]

    def close(self) -> None:
        """Close the connection; what is in memory stays until the process ends."""
        if not self.is_local:
            self._client.close()

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the client for the collection; a failed connection is tried four times.

        Args:
            method: name of the method of qdrant-client.
            args: its arguments after the name of the collection.
            options: its keyword arguments.

        Returns:
            The result of the method.

        Raises:
            IndexNotFound: there is no such collection.
            StorageError: the server can't be reached, or refuses.
        """
        args = () if method == "info" else (self.name, *args)
        for pause in (*_PAUSES, None):
            try:
                with _memory_guard if self.is_local else nullcontext():
                    return getattr(self._client, method)(*args, **options)
            except (
                ResponseHandlingException,
                ResourceExhaustedResponse,
                httpx.HTTPError,
                OSError,
            ) as error:
                if pause is None:
                    why = str(getattr(error, "source", error)) or type(error).__name__
                    why = (
                        f"Qdrant can't be reached ({why}); what was committed is kept: see "
                        "that it runs and that the"
                    )
                    raise StorageError(
                        f"{self.text}: {why} address is right, then repeat the command"
                    ) from error
                pause = max(pause, min(_TIMEOUT, getattr(error, "retry_after_s", 0)))
            except (UnexpectedResponse, ValueError) as error:
                if pause is None or getattr(error, "status_code", 404) not in _BUSY:
                    raise self._to_error(error) from error
            time.sleep(pause)
        raise AssertionError  # the last turn returns or raises

    def _to_error(self, error: UnexpectedResponse | ValueError) -> Exception:
        """Return the error to raise for a refused call."""
        if not isinstance(error, UnexpectedResponse):  # of the local mode
            return (
                self.missing()
                if "not found" in str(error)
                else StorageError(f"{self.text}: {error}")
            )
        if error.status_code == 404:
            return self.missing()
        reason = " ".join(bytes(error.content[:300]).decode("utf-8", "replace").split())
        if error.status_code in (401, 403):
            reason = "set QDRANT_API_KEY to a key that may do this"
        return StorageError(f"{self.text}: Qdrant refused ({error.status_code}): {reason}")

    def missing(self) -> IndexNotFound:
        """Return the error of an index that does not exist."""
        return IndexNotFound(
            f"{self.text}: no index here; make one with: lmkrag index PATH --index {self.text}"
        )


def in_parts(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield the items in lists of at most ``size``."""
    items = iter(items)
    while part := list(islice(items, size)):
        yield part
