"""The parts of the server that routes use: its indexes, threads, jobs and settings."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from lmkrag.readers.base import Reader
from lmkrag.server.guard import Guard
from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.metrics import Metrics
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
    guard: Guard | None = None
    ready: bool = False


def get_service(request: Request) -> Service:
    """Return the service of the application that got a request."""
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(get_service)]
