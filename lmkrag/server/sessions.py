"""Who may ask: the sessions of people who gave the token, and how long whoever guesses it has to
wait.
"""

import asyncio
import hashlib
import ipaddress
import secrets
import time
from dataclasses import dataclass

from lmkrag.server.problems import busy

SESSION = 30 * 24 * 3600  # seconds
_SESSIONS = 10_000  # that are remembered, the latest ones
_ADDRESSES = 10_000  # that are remembered for their wrong tokens, the latest ones
_FREE = 3  # wrong tokens of an address without a wait
_SHORTEST, _LONGEST = 0.25, 10.0  # seconds of the first wait; each further one is twice as long
_FORGOTTEN = 900.0  # seconds without a wrong token after which an address begins anew
_AT_ONCE = 8  # tokens of an address that wait; further ones are not looked at


class Sessions:
    """The sessions of a server, which end with it. State: when each ends, the oldest first."""

    def __init__(self) -> None:
        self._ends: dict[bytes, float] = {}

    def begin(self) -> str:
        """Begin a session; return its name, which nobody can guess."""
        if len(self._ends) == _SESSIONS:
            del self._ends[next(iter(self._ends))]
        name = secrets.token_urlsafe(32)
        self._ends[_hash(name)] = time.monotonic() + SESSION
        return name

    def end(self, name: str) -> None:
        """End a session, wherever its name is kept."""
        self._ends.pop(_hash(name), None)

    def is_open(self, name: str) -> bool:
        """Return whether a session has begun and not ended."""
        return self._ends.get(_hash(name), 0.0) > time.monotonic()


def _hash(name: str) -> bytes:
    """A key to look a name up by: how long that takes says nothing of the name."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


@dataclass(slots=True)
class _Guesses:
    wrong: int = 0
    waiting: int = 0
    last: float = 0.0  # by time.monotonic


class TokenCheck:
    """Compares tokens with the server's. State: the wrong ones of each address, a bounded number of
    them.

    A wrong token is answered late, and the later the more of them an address has sent. The right
    one never waits, unless too many of its address do: then none is looked at, or the reply would
    tell at once whether it is right.
    """

    def __init__(self, token: str | None) -> None:
        """Take the server's token; every one is right where it has none."""
        self._token = token
        self._guesses: dict[str, _Guesses] = {}  # by address, the one that guessed last at the end

    async def is_right(self, token: str, address: str) -> bool:
        """Return whether this is the token. Raises Problem: too many of this address wait."""
        if self._token is None:
            return True
        group = _group(address)
        guesses = self._guesses.get(group, _Guesses())
        if guesses.waiting >= _AT_ONCE:
            raise busy(
                "too many wrong tokens come from this address; try again in a few seconds",
                int(_LONGEST),
            )
        if secrets.compare_digest(_hash(token), _hash(self._token)):
            return True
        await self._wait(group, guesses)
        return False

    async def _wait(self, group: str, guesses: _Guesses) -> None:
        """Remember a wrong token, and let whoever sent it wait."""
        now = time.monotonic()
        if now - guesses.last > _FORGOTTEN:
            guesses.wrong = 0
        guesses.wrong, guesses.last = guesses.wrong + 1, now
        self._guesses.pop(group, None)
        if len(self._guesses) == _ADDRESSES:
            del self._guesses[next(iter(self._guesses))]
        self._guesses[group] = guesses
        if guesses.wrong <= _FREE:
            return
        guesses.waiting += 1
        try:
            await asyncio.sleep(min(_LONGEST, _SHORTEST * 2 ** (guesses.wrong - _FREE - 1)))
        finally:
            guesses.waiting -= 1


def _group(address: str) -> str:
    """An address, of IPv6 the network that one household or machine has."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    return address if known.version == 4 else str(ipaddress.ip_network((known, 64), strict=False))
