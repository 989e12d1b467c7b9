"""A Ray cluster: joined, or started on this machine."""

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

from lmkrag.errors import MissingExtra, UsageError

LOCAL = "local"
"""As an address: start a cluster on this machine, for as long as it is needed."""


_PATIENCE = 10.0  # seconds; Ray itself tries for minutes


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Give the module ``ray``, connected to a cluster.

    Args:
        address: ``HOST:PORT``, ``ray://HOST:PORT``, ``auto`` for the one that this machine belongs to, or ``local``. A
            process that is connected already stays so.

    Raises:
        MissingExtra: Ray is not installed. UsageError: no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray") from None
    if ray.is_initialized():
        yield ray
        return
    try:
        _check_reachable(address)
        with contextlib.chdir(os.sep):  # Ray has its workers import modules from the working directory
            ray.init(
                address=address,
                include_dashboard=False if address == LOCAL else None,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is an OSError
        why = first_line(error)
        message = f"no Ray cluster can be reached at {address!r} ({why}); start one with: ray start --head"
        raise UsageError(message) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or what it is called."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _check_reachable(address: str) -> None:
    """Raise OSError if nobody listens at an address of a host and a port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=_PATIENCE).close()
