"""Jobs: documents that are being added, and how far they are."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response

from lmkrag.server.problems import Problem
from lmkrag.server.routes.documents import job_to_json
from lmkrag.server.schemas import JobReply, JobsReply
from lmkrag.server.service import TheService
from lmkrag.server.streams import Event, stream_events
from lmkrag.server.uploads import Uploads

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

_INTERVAL = 0.25  # seconds between two looks at a job


@router.get("", response_model=JobsReply)
async def list_jobs(service: TheService, index: Annotated[str | None, Query(max_length=200)] = None) -> Any:
    """List the jobs of an index, the newest first."""
    name = service.indexes.find(index).name
    return {"jobs": [job_to_json(job) for job in service.uploads.all(name)] if service.uploads else []}


@router.get("/{job_id}", response_model=JobReply)
async def find_job(job_id: str, service: TheService) -> Any:
    """Return a job."""
    return job_to_json(_uploads(service).find(job_id))


@router.get(
    "/{job_id}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}, "description": "A `job` event for every change."}},
)
async def follow_job(
    job_id: str, service: TheService, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> Response:
    """Follow a job until it ends. A client that was cut off asks again and gets the job as it is now."""
    uploads = _uploads(service)
    uploads.find(job_id)

    async def events() -> AsyncIterator[Event]:
        sent = None
        while True:
            job = uploads.find(job_id)
            if job != sent:
                sent = job
                yield "job", job_to_json(job)
            if job.ended:
                return
            await asyncio.sleep(_INTERVAL)

    return stream_events(events())


def _uploads(service: TheService) -> Uploads:
    if service.uploads is None:
        raise Problem(404, "unknown-job", "No such job", "documents can't be added here, so there are no jobs")
    return service.uploads
