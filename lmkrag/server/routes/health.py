"""Whether the server lives and is ready, and what Prometheus asks."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from lmkrag.server.problems import Problem
from lmkrag.server.service import TheService

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def is_alive() -> dict[str, str]:
    """Return 200 while the server lives."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    responses={503: {"description": "An index can't be read, a folder is not followed, or the server still warms up."}},
)
def is_ready(service: TheService) -> Response:
    """Return 200 once a search has warmed every index up, while each can be read and the served folder is followed."""
    if not service.ready:
        raise Problem(503, "not-ready", "Not ready", "the server warms up", headers={"Retry-After": "1"})
    for index in service.indexes.by_name.values():
        index.call(lambda engine: engine.documents(limit=1))
    if since := service.follower_state.not_followed_since:
        raise Problem(503, "not-followed", "Not followed", f"changes of the folder are not followed since {since}")
    return JSONResponse({"status": "ready"})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def render_metrics(service: TheService) -> Response:
    """Return requests, latencies, queues and the state of each index in Prometheus's text format."""
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
