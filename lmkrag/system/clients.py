"""Every HTTP client of lmkrag is made here, so that a server on this machine is never asked through
a proxy.

``HTTP_PROXY`` and its like name a proxy for other machines. No client follows a redirect: its
request is for the server that was named.
"""

import ipaddress
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx
    from openai import AsyncOpenAI, OpenAI
    from qdrant_client import QdrantClient

_HOSTED = "https://api.openai.com/v1"
# All headers that a server gets of an anonymous client; a key, an organisation and headers of the
# user's own come from variables of the environment.
_PLAIN = (
    "host",
    "accept",
    "accept-encoding",
    "connection",
    "content-type",
    "content-length",
    "user-agent",
)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address: a name, or numbers in any notation.

    >>> is_loopback("localhost"), is_loopback("127.8.0.1"), is_loopback("[::1]"), is_loopback("10.0.0.1")
    (True, True, True, False)
    """  # noqa: E501
    address = _read_address(host)
    return address.is_loopback if address else host.lower().rstrip(".") == "localhost"


def _read_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host names in numbers, also in short forms such as ``127.1``; None
    for a name.
    """
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except OSError:
            return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_here(url: str) -> bool:
    """Return whether a URL leads to this machine; a connection to ``0.0.0.0`` does, too."""
    host = urlsplit(url).hostname or ""
    address = _read_address(host)
    return is_loopback(host) or (address is not None and address.is_unspecified)


def _transport(url: str) -> dict[str, Any]:
    """Return the settings of a client: no proxy for a server on this machine, else those of the
    environment.
    """
    import httpx

    if not _is_here(url):
        return {}
    # with the certificates of the environment
    return {"trust_env": False, "verify": httpx.create_ssl_context()}


def open_client(url: str, **settings: Any) -> "httpx.Client":
    """Return an HTTP client for a server.

    Args:
        url: the URL of the server.
        settings: further arguments of ``httpx.Client``.
    """
    import httpx

    return httpx.Client(**_transport(url), **settings)


def open_async_client(url: str, **settings: Any) -> "httpx.AsyncClient":
    """Return an HTTP client for a server, for an event loop: see :func:`open_client`."""
    import httpx

    return httpx.AsyncClient(**_transport(url), **settings)


def _strip(request: "httpx.Request") -> None:
    """Remove headers from a request that the environment sets."""
    for name in [name for name in request.headers if name not in _PLAIN]:
        del request.headers[name]


async def _astrip(request: "httpx.Request") -> None:
    """Remove headers from a request that the environment sets, for an event loop."""
    _strip(request)


def open_openai(url: str | None, *, anonymous: bool, **options: Any) -> "OpenAI":
    """Return OpenAI's client for a server.

    Args:
        url: the URL of a compatible server; None for the hosted service.
        anonymous: whether requests have only the question: no key and no header that the
            environment sets.
        options: further arguments of ``openai.OpenAI``.
    """
    import openai

    hooks = {"event_hooks": {"request": [_strip]}} if anonymous else {}
    return openai.OpenAI(base_url=url, http_client=open_client(url or _HOSTED, **hooks), **options)


def open_async_openai(url: str | None, *, anonymous: bool, **options: Any) -> "AsyncOpenAI":
    """Return OpenAI's client for a server, for an event loop: see :func:`open_openai`.

    Args:
        url: the URL of a compatible server; None for the hosted service.
        anonymous: whether requests have only the question.
        options: further arguments of ``openai.AsyncOpenAI``.
    """
    import openai

    hooks = {"event_hooks": {"request": [_astrip]}} if anonymous else {}
    return openai.AsyncOpenAI(
        base_url=url, http_client=open_async_client(url or _HOSTED, **hooks), **options
    )


def open_qdrant(url: str, **options: Any) -> "QdrantClient":
    """Return a client of Qdrant.

    Args:
        url: the URL of a server, or ``:memory:`` for an index in this process.
        options: further arguments of ``QdrantClient``.
    """
    from qdrant_client import QdrantClient

    if url == ":memory:":
        return QdrantClient(url)
    return QdrantClient(url=url, check_compatibility=False, **_transport(url), **options)
