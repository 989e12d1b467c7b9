"""When a request ends, told to the work that is done for it, which stops itself then."""

import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a request ends: at a ``time`` of ``time.monotonic``, or once it is ``abandoned``."""

    time: float
    abandoned: threading.Event


DEADLINE: ContextVar[Deadline] = ContextVar("DEADLINE")  # of the request that the call is for


class RequestEnded(Exception):
    """The request that the running call is for has ended: nobody waits for its result."""


def stop_if_late() -> None:
    """Raise RequestEnded if the request of the running call has ended.

    Whatever a client chooses the amount of calls this between units of work, each of which takes a
    second at most: a check from outside would only leave the work alone, and not end it. Without a
    request nothing happens.
    """
    deadline = DEADLINE.get(None)
    if deadline and (deadline.abandoned.is_set() or time.monotonic() > deadline.time):
        raise RequestEnded("the request has ended")
