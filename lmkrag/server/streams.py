"""Server-sent events: kept alive, ended when the client goes away, given time to end when the server stops."""

import json
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse

GRACE = 25.0
"""Seconds that streams may take to end when the server stops."""

Event = tuple[str, Any]
"""The name of an event, empty for none, and its data; a string without a name is sent as it is."""


def stream_events(events: AsyncIterator[Event]) -> EventSourceResponse:
    """Return a response of events, their data as JSON."""

    async def encoded() -> AsyncIterator[dict[str, str]]:
        try:
            async for name, data in events:
                text = data if isinstance(data, str) and not name else json.dumps(data, ensure_ascii=False)
                yield {"event": name, "data": text} if name else {"data": text}
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # a generator; its reader stops with it

    return EventSourceResponse(encoded(), sep="\n", shutdown_grace_period=GRACE)
