"""The parts of the server that routes use: its indexes, threads, jobs and settings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from lmkrag.engine import Engine
from lmkrag.readers.base import Reader
from lmkrag.server.guard import Guard
from lmkrag.server.indexes import Result, ServedIndex, ServedIndexes
from lmkrag.server.metrics import Metrics
from lmkrag.server.overview import Overviews
from lmkrag.server.problems import Problem
from lmkrag.server.settings import ServerSettings
from lmkrag.server.uploads import Uploads


@dataclass(slots=True)
class Service:
    """The parts of a running server."""

    settings: ServerSettings
    reader: Reader
    indexes: ServedIndexes
    metrics: Metrics
    uploads: Uploads | None
    overviews: Overviews = field(default_factory=Overviews)
    guard: Guard = field(init=False)  # set before the first request
    ready: bool = False


def get_service(request: Request) -> Service:
    """Return the service of the application that got a request."""
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(get_service)]


async def find_index(
    service: TheService,
    index: Annotated[str | None, Query(max_length=200, description="Name of the index.")] = None,
) -> ServedIndex:
    """Return the index that the query of a request names. Raises Problem: there is none."""
    return service.indexes.find(index)


async def require_uploads(service: TheService) -> Uploads:
    """Return what documents are added and removed by. Raises Problem: the server only reads."""
    if service.uploads is None:
        raise Problem(403, "read-only", "documents can't be changed here: start with --writable")
    return service.uploads


def on_thread(route: Callable[..., Result]) -> Callable[..., Awaitable[Result]]:
    """Let a route be a plain function of an ``engine``, which runs on a thread.

    FastAPI finds the index that the request names, because the argument is annotated as
    :data:`TheEngine`; the route gets the engine of this index, see :meth:`ServedIndex.run`.
    """

    @wraps(route)
    async def run(engine: ServedIndex, **arguments: Any) -> Result:
        return await engine.run(lambda opened: route(engine=opened, **arguments))

    return run


TheIndex = Annotated[ServedIndex, Depends(find_index)]
TheEngine = Annotated[Engine, Depends(find_index)]  # of a route that is ``on_thread``
TheUploads = Annotated[Uploads, Depends(require_uploads)]
