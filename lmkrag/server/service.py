"""The parts of the server that routes use: its indexes, threads, jobs and settings."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Query, Request

from lmkrag.readers.base import Reader
from lmkrag.server.guard import Guard
from lmkrag.server.indexes import ServedIndex, ServedIndexes
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


TheIndex = Annotated[ServedIndex, Depends(find_index)]
TheUploads = Annotated[Uploads, Depends(require_uploads)]
