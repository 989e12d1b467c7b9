"""Errors as RFC 9457 problem details, and in the shapes that OpenAI's and Dify's clients expect."""

import logging
import re
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from lmkrag import errors

if TYPE_CHECKING:
    from fastapi import FastAPI

_logger = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[errors.LmkragError], int, str], ...] = (
    (errors.DocumentNotFound, 404, "No such document"),
    (errors.IndexClosed, 503, "The index is closed"),
    (errors.UsageError, 400, "Invalid request"),
    (errors.DocumentError, 422, "The document can't be used"),
    (errors.IndexLocked, 409, "The index is being written to"),
    (errors.IndexNotFound, 503, "The index is gone"),
    (errors.IndexMismatch, 503, "Another index is in its place"),
    (errors.IndexCorrupt, 503, "The index is damaged"),
    (errors.StorageError, 503, "The index can't be used"),
    (errors.ReaderError, 502, "The reader failed"),
    (errors.ServerError, 502, "Another server failed"),
    (errors.EncoderError, 500, "The encoder can't be used"),
    (errors.MissingExtra, 501, "A package is missing here"),
    (errors.LmkragError, 500, "Internal error"),
)
"""The first class that an error is an instance of decides."""

_FOLDERS = re.compile(r"(?<![\w:/.=~-])/(?:[^/\s:'\"]+/)+(?=[^/\s])")  # before the name of a file

_RETRY = {"Retry-After": "5"}  # seconds


class Problem(Exception):
    """A request that can't be answered, as RFC 9457 describes one. ``members`` extend the
    description.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.headers = status, kind, headers or {}
        self.body = {
            "type": f"urn:lmkrag:{kind}",
            "title": title,
            "status": status,
            "detail": detail,
            **members,
        }

    def to_response(self, path: str = "") -> JSONResponse:
        """Return it as a response, in the shape that clients of ``path`` expect."""
        if path.startswith("/v1/"):
            error = {
                "message": self.body["detail"],
                "type": self.kind,
                "param": None,
                "code": self.kind,
            }
            return JSONResponse({"error": error}, self.status, self.headers)
        if path == "/retrieval":
            code = {401: 1002, 403: 1002, 404: 2001}.get(self.status, self.status)
            return JSONResponse(
                {"error_code": code, "error_msg": self.body["detail"]}, self.status, self.headers
            )
        return JSONResponse(
            self.body, self.status, self.headers, media_type="application/problem+json"
        )


class RequestAborted(HTTPException):
    """Aborts a request while its body is read; FastAPI replaces every other exception there by a
    generic 400.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.status, str(problem))
        self.problem = problem


def busy(detail: str) -> Problem:
    """Return the problem of an overloaded server."""
    return Problem(429, "busy", "Too many requests", detail, headers=_RETRY)


def from_error(error: errors.LmkragError, index: str, path: str) -> Problem:
    """Convert one of our errors to a problem; its message names the index, not its ``path``, and no
    folder.
    """
    name = errors.name_kind(type(error))
    status, title = next(
        (status, title) for kind, status, title in _STATUSES if isinstance(error, kind)
    )
    if isinstance(error, errors.DocumentNotFound):
        error = errors.DocumentNotFound(error.doc_id, index, error.near)
        return Problem(
            404, name, title, str(error), doc_id=error.doc_id, index=index, near=error.near
        )
    headers = _RETRY if status in (409, 503) else {}
    place = re.escape(path)
    if not path.startswith("/"):  # it may be "."
        place = rf"(?<![\w./-]){place}(?=[:/])"
    message = _FOLDERS.sub("", re.sub(place, lambda _: index, str(error)))
    return Problem(status, name, title, message, headers=headers)


def handle_errors(app: "FastAPI") -> None:
    """Let an application answer every error as a problem."""
    from fastapi.exceptions import RequestValidationError

    @app.exception_handler(Problem)
    async def on_problem(request: Request, error: Problem) -> JSONResponse:
        return error.to_response(request.url.path)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        details = [
            {"loc": list(map(str, item["loc"])), "msg": item["msg"].removeprefix("Value error, ")}
            for item in error.errors()
        ]
        unreadable = any(item["type"] == "json_invalid" for item in error.errors())
        detail = "; ".join(
            f"{'.'.join(item['loc'][1:]) or 'body'}: {item['msg']}" for item in details[:5]
        )
        kind = request.headers.get("content-type", "none")
        if any(item["loc"] == ["body"] for item in details) and "json" not in kind:
            wanted = "send the body as JSON with the header Content-Type: application/json"
            detail = f"{wanted}, not {kind}"
        title = "The request is not JSON" if unreadable else "Invalid request"
        problem = Problem(400 if unreadable else 422, "invalid", title, detail, errors=details[:20])
        return problem.to_response(request.url.path)

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error, RequestAborted):
            return error.problem.to_response(request.url.path)
        kind = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}.get(
            error.status_code, "http"
        )
        headers, text = dict(error.headers or {}), str(error.detail)
        problem = Problem(error.status_code, kind, text, text, headers=headers)
        return problem.to_response(request.url.path)

    @app.exception_handler(Exception)
    async def on_bug(request: Request, error: Exception) -> JSONResponse:
        _logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
        problem = Problem(
            500, "internal", "Internal error", "this is a bug; the server's log says more"
        )
        return problem.to_response(request.url.path)
