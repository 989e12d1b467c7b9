"""Find the server of a language model on this machine, and make sure that it is the user's own."""

import os
import pwd
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lmkrag.errors import UsageError
from lmkrag.system.clients import open_client
from lmkrag.system.platform import read_proc

_HOST = "127.0.0.1"
PORTS = (11434, 1234, 8080, 8000)  # the default ports of Ollama, LM Studio, llama.cpp and vLLM
_SECONDS = 0.5  # for a server to list its models
_LISTENS = "0A"  # the state of a socket that waits for connections, in /proc/net/tcp
_LINE = 8  # fields up to the owner


class LocalServer(NamedTuple):
    """The address of a server that speaks OpenAI's API, and the model that it has loaded or lists
    first.
    """

    base_url: str
    model: str


def find_local_server(ports: Sequence[int] | None = None) -> LocalServer:
    """Return the first server of a language model that this user runs on this machine, by default
    on :data:`PORTS`.

    Each port is asked once for its models, only over the loopback interface. Embedding models and
    servers of lmkrag, which speak the same API, are skipped. A server of another user is asked
    nothing: it would get the user's documents. Raises UsageError: there is none.
    """
    foreign = []
    for port in PORTS if ports is None else ports:
        base_url = f"http://{_HOST}:{port}/v1"
        if owner := find_other_owner(port):
            foreign.append(
                f"; {_HOST}:{port} is of {owner}: if you trust it, name it with "
                f"--base-url {base_url}"
            )
        elif model := _ask_for_model(base_url):
            return LocalServer(base_url, model)
    raise UsageError(
        "--llm: no language model of this user answers on this machine: start Ollama, LM Studio, "
        "llama.cpp or vLLM, "
        f"or give --base-url and --model{''.join(foreign)}"
    )


def _ask_for_model(base_url: str) -> str:
    """The name of the first model of a server that is no embedding model; empty where nothing of
    the kind answers.
    """
    import httpx

    try:
        with open_client(base_url, timeout=_SECONDS) as client:
            models = client.get(f"{base_url}/models").raise_for_status().json()["data"]
        names = [model["id"] for model in models if model.get("owned_by") != "lmkrag"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError):
        return ""
    return next(
        (name for name in names if isinstance(name, str) and "embed" not in name.lower()), ""
    )


def find_other_owner(port: int) -> str:
    """Return the name of another user who listens on a port of this machine; empty for this user,
    or nobody.

    Linux names the owner of each socket in ``/proc/net/tcp``. Where that file is missing, or has no
    socket for a port that answers (a server outside WSL), the owner is unknown, and taken for this
    user.
    """
    others = {owner for owner in _list_owners(port) if owner != os.getuid()}
    return ", ".join(sorted(map(_name_user, others)))


def _list_owners(port: int) -> Iterator[int]:
    """Yield the user of each socket that takes connections to a port of the loopback address."""
    loopback, mapped = socket.inet_aton(_HOST), socket.inet_pton(socket.AF_INET6, f"::ffff:{_HOST}")
    taking = {_to_hex(address) for address in (loopback, bytes(4), mapped, bytes(16))}
    for table in ("net/tcp", "net/tcp6"):
        for line in read_proc(table).splitlines()[1:]:
            _, local, _, state, _, _, _, owner, *_ = line.split(maxsplit=_LINE)
            address, _, number = local.partition(":")
            if state == _LISTENS and int(number, 16) == port and address in taking:
                yield int(owner)


def _to_hex(address: bytes) -> str:
    """An address as ``/proc/net/tcp`` writes it: words of four bytes, each as a number of this
    machine.
    """
    words = (address[first : first + 4] for first in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def _name_user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
