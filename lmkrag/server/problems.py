"""Errors as RFC 9457 problem details, and in the shapes that OpenAI's and Dify's clients expect."""

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from lmkrag import errors

if TYPE_CHECKING:
    from fastapi import FastAPI

_logger = logging.getLogger(__name__)

_STATUSES: dict[type[errors.LmkragError], int] = {
    errors.DocumentNotFound: 404,
    errors.IndexClosed: 503,
    errors.UsageError: 400,
    errors.DocumentError: 422,
    errors.IndexLocked: 409,
    errors.StorageError: 503,
    errors.ReaderError: 502,
    errors.ServerError: 502,
    errors.MissingExtra: 501,
    errors.LmkragError: 500,
}
"""The first class that an error is an instance of decides."""

_FOLDERS = re.compile(r"(?<![\w:/.=~-])/(?:[^/\s:'\"]+/)+(?=[^/\s])")  # before the name of a file

_RETRY = {"Retry-After": "5"}  # seconds


class Problem(HTTPException):
    """A request that can't be answered, as RFC 9457 describes one. ``members`` extend the
    description.

    An HTTPException, because FastAPI replaces every other exception by a generic 400 while it reads
    a body.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(status, detail, headers)
        self.kind = kind
        self.body = {
            "type": f"urn:lmkrag:{kind}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            **members,
        }

    def __str__(self) -> str:
        return self.detail

    def to_response(self, path: str) -> JSONResponse:
        """Return it as a response, in the shape that clients of ``path`` expect."""
        if path.startswith("/v1/"):
            error = {
                "message": self.detail,
                "type": self.kind,
                "param": None,
                "code": self.kind,
            }
            return JSONResponse({"error": error}, self.status_code, self.headers)
        if path == "/retrieval":
            code = {401: 1002, 403: 1002, 404: 2001}.get(self.status_code, self.status_code)
            body = {"error_code": code, "error_msg": self.detail}
            return JSONResponse(body, self.status_code, self.headers)
        return JSONResponse(
            self.body, self.status_code, self.headers, media_type="application/problem+json"
        )


def busy(detail: str, seconds: int = 5) -> Problem:
    """Return the problem of an overloaded server, and in how many seconds to try again."""
    return Problem(429, "busy", detail, headers={"Retry-After": str(seconds)})


def from_error(error: errors.LmkragError, index: str, path: str) -> Problem:
    """Convert one of our errors to a problem; its message names the index, not its ``path``, and no
    folder.
    """
    name = errors.name_kind(type(error))
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    if isinstance(error, errors.DocumentNotFound):
        error = errors.DocumentNotFound(error.doc_id, index, error.near)
        doc_id, near = error.doc_id, error.near
        return Problem(status, name, str(error), doc_id=doc_id, index=index, near=near)
    headers = _RETRY if status in (409, 503) else {}
    place = re.escape(path)
    if not path.startswith("/"):  # it may be "."
        place = rf"(?<![\w./-]){place}(?=[:/])"
    message = _FOLDERS.sub("", re.sub(place, lambda _: index, str(error)))
    return Problem(status, name, message, headers=headers)


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
        problem = Problem(400 if unreadable else 422, "invalid", detail, errors=details[:20])
        return problem.to_response(request.url.path)

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        kind = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}.get(
            error.status_code, "http"
        )
        problem = Problem(error.status_code, kind, str(error.detail), headers=error.headers)
        return problem.to_response(request.url.path)

    @app.exception_handler(Exception)
    async def on_bug(request: Request, error: Exception) -> JSONResponse:
        _logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
        problem = Problem(500, "internal", "this is a bug; the server's log says more")
        return problem.to_response(request.url.path)
