"""Jobs: documents that are being added, and how far they are."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import Response

from lmkrag.server.problems import Problem
from lmkrag.server.schemas import JobReply
from lmkrag.server.service import TheService
from lmkrag.server.streams import Event, stream_events
from lmkrag.server.uploads import UploadJob

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

_INTERVAL = 0.25  # seconds between two looks at a job


@router.get("/{job_id}", response_model=JobReply)
async def find_job(job_id: str, service: TheService) -> Any:
    """Return a job."""
    return asdict(_find(service, job_id))


@router.get(
    "/{job_id}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}, "description": "A `job` event for every change."}},
)
async def follow_job(
    job_id: str, service: TheService, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> Response:
    """Follow a job until it ends. A client that was cut off asks again and gets the job as it is now."""
    job = _find(service, job_id)

    async def events() -> AsyncIterator[Event]:
        record: dict[str, Any] = {}
        while record.get("state") not in ("done", "failed"):
            if record:
                await asyncio.sleep(_INTERVAL)
            if record != (record := asdict(job)):
                yield "job", record

    return stream_events(events())


def _find(service: TheService, job_id: str) -> UploadJob:
    if service.uploads is None:
        raise Problem(404, "unknown-job", "No such job", "documents can't be added here, so there are no jobs")
    return service.uploads.find(job_id)
