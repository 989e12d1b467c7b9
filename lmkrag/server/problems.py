"""Errors as RFC 9457 problem details, and in the shapes that OpenAI's and Dify's clients expect."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from lmkrag import errors

_STATUSES = {
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

    def to_openai(self) -> dict[str, Any]:
        """Return it as OpenAI's API describes an error."""
        return {
            "error": {"message": self.detail, "type": self.kind, "param": None, "code": self.kind}
        }

    def to_response(self, path: str) -> JSONResponse:
        """Return it as a response, in the shape that clients of ``path`` expect."""
        body, media_type = self.body, "application/problem+json"
        if path.startswith("/v1/"):
            body, media_type = self.to_openai(), "application/json"
        elif path == "/retrieval":
            code = {401: 1002, 403: 1002, 404: 2001}.get(self.status_code, self.status_code)
            body, media_type = {"error_code": code, "error_msg": self.detail}, "application/json"
        return JSONResponse(body, self.status_code, self.headers, media_type)


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
        shown = errors.DocumentNotFound(error.doc_id, index, error.near)
        return Problem(status, name, str(shown), doc_id=error.doc_id, index=index, near=error.near)
    headers = {"Retry-After": "5"} if status in (409, 503) else {}
    place = re.escape(path)
    if not path.startswith("/"):  # it may be "."
        place = rf"(?<![\w./-]){place}(?=[:/])"
    message = _FOLDERS.sub("", re.sub(place, lambda _: index, str(error)))
    return Problem(status, name, message, headers=headers)


def from_invalid(errors: Sequence[Any], media_type: str) -> Problem:
    """Convert the errors of a request that pydantic has refused, with a body of some type."""
    details = [
        {"loc": list(map(str, item["loc"])), "msg": item["msg"].removeprefix("Value error, ")}
        for item in errors
    ]
    detail = "; ".join(
        f"{'.'.join(item['loc'][1:]) or 'body'}: {item['msg']}" for item in details[:5]
    )
    if any(item["loc"] == ["body"] for item in details) and "json" not in media_type:
        wanted = "send the body as JSON with the header Content-Type: application/json"
        detail = f"{wanted}, not {media_type}"
    status = 400 if any(item["type"] == "json_invalid" for item in errors) else 422
    return Problem(status, "invalid", detail, errors=details[:20])
