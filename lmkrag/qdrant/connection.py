"""The address of an index on Qdrant, and calls to it: repeated where the connection fails, their errors are ours.

qdrant://HOST:6333/NAME           a server; qdrant+https:// with TLS, the key in QDRANT_API_KEY
qdrant:///FOLDER/NAME             qdrant-client's local mode: for trials and tests, in one process
qdrant://:memory:/NAME            the same without files
"""

import os
import re
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lmkrag.errors import IndexNotFound, StorageError, UsageError, needs

with needs("qdrant", "qdrant-client"):
    import httpx
    from qdrant_client import QdrantClient
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

_TIMEOUT = 30  # seconds for one call
_PAUSES = (0.2, 1.0, 3.0)  # seconds before a call is repeated
_BUSY = frozenset({429, 500, 502, 503, 504})
_ADDRESS = "qdrant://HOST:6333/NAME, qdrant+https://HOST:6333/NAME or qdrant:///FOLDER/NAME"


@dataclass(frozen=True, slots=True)
class Address:
    """Where an index is. ``replicas`` and ``shards`` count when it is made."""

    text: str  # as users write it, without options
    server: str  # a URL, a folder of the local mode, or ``:memory:``
    name: str
    replicas: int = 1
    shards: int | None = None

    @property
    def is_local(self) -> bool:
        return not self.server.startswith("http")

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return the parts of an address. Raises UsageError: it is none."""
        place, _, query = text.partition("?")
        options = parse_qs(query, keep_blank_values=True)
        start, _, name = place.rpartition("/")
        scheme, _, server = start.partition("://")
        counts = {key: values[-1] for key, values in options.items()}
        sound = re.fullmatch(r"[\w-]{1,200}", name) and all(re.fullmatch(r"[1-9]\d{0,3}", n) for n in counts.values())
        if not sound or not server or not counts.keys() <= {"replicas", "shards"}:
            raise UsageError(f"{text!r} is no index on Qdrant: write {_ADDRESS}, perhaps with ?replicas=2&shards=6")
        if server != ":memory:" and not server.startswith("/"):
            server = f"{'https' if scheme.endswith('https') else 'http'}://{server}"
            parts = urlsplit(server)
            if not parts.hostname or parts.username is not None:
                raise UsageError(f"{place!r} names no host: write {_ADDRESS}, and the API key to QDRANT_API_KEY")
        shards = int(counts["shards"]) if "shards" in counts else None
        return cls(place, server, name, int(counts.get("replicas", 1)), shards)


_guard = threading.RLock()  # of the local clients, which are not made for threads
_local: dict[str, tuple[QdrantClient, int]] = {}  # by folder, with how many connections use each


class Connection:
    """Calls to Qdrant. State: a client, a new one in a forked process."""

    def __init__(self, address: Address) -> None:
        """Connect. Raises StorageError: another process uses the folder of the local mode."""
        self.address = address
        self._client, self._process = self._connect(), os.getpid()

    def _connect(self) -> QdrantClient:
        server = self.address.server
        if not self.address.is_local:
            key = os.environ.get("QDRANT_API_KEY") or None
            port = urlsplit(server).port or 6333
            return QdrantClient(url=server, port=port, api_key=key, timeout=_TIMEOUT, check_compatibility=False)
        with _guard:
            client, users = _local.get(server, (None, 0))
            try:
                options: dict[str, Any] = {"location": server} if server == ":memory:" else {"path": server}
                client = client or QdrantClient(**options, force_disable_check_same_thread=True)
            except (RuntimeError, OSError) as error:
                raise StorageError(
                    f"{self.address.text}: another process has this folder open ({error}); several processes need a "
                    "Qdrant server"
                ) from error
            _local[server] = client, users + 1
            return client

    def close(self) -> None:
        """Close the connection; what is in memory stays until the process ends."""
        server = self.address.server
        if not self.address.is_local:
            self._client.close()
        elif server != ":memory:":
            with _guard:
                client, users = _local.pop(server)
                if users > 1:
                    _local[server] = client, users - 1
                else:
                    client.close()

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the client, again where the connection fails: all of ours may be repeated.

        Raises StorageError: it failed. IndexNotFound: there is no such collection.
        """
        if self._process != os.getpid() and not self.address.is_local:  # connections are the parent's
            self._client, self._process = self._connect(), os.getpid()
        if self.address.is_local:
            options.pop("search_params", None)  # it compares all vectors, and warns that it does
        for pause in (*_PAUSES, None):
            try:
                with _guard if self.address.is_local else nullcontext():
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
            time.sleep(pause)
        raise AssertionError  # the last turn returns or raises

    def _to_error(self, error: UnexpectedResponse) -> StorageError:
        if error.status_code in (401, 403):
            return StorageError(f"{self.address.text}: Qdrant refuses the API key: set QDRANT_API_KEY to one that may")
        if error.status_code == 404:
            return IndexNotFound(f"{self.address.text}: a collection of the index is gone: see Qdrant's dashboard")
        reason = " ".join(bytes(error.content[:300]).decode("utf-8", "replace").split())
        return StorageError(f"{self.address.text}: Qdrant answered {error.status_code}: {reason}")
