"""How errors are said over HTTP: RFC 9457 `application/problem+json`, from one table; below `/v1`,
where programs expect another service's, in that one's shape.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from rushes import errors

log = logging.getLogger("rushes.http")

# The first family that fits says the status.
STATUSES: tuple[tuple[type[errors.RushesError], int], ...] = (
    (errors.TooLarge, 413),
    (errors.UnsupportedMedia, 415),
    (errors.WrongChecksum, 460),
    (errors.Invalid, 422),
    (errors.Gone, 410),
    (errors.NotFound, 404),
    (errors.TooMany, 429),
    (errors.Unauthorized, 401),
    (errors.Denied, 403),
    (errors.UploadBusy, 423),
    (errors.Conflict, 409),
    (errors.DiskFull, 507),
    (errors.Unavailable, 503),
)
CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
RETRY_AFTER = {429: "60", 503: "2", 507: "60"}
MEDIA_TYPE = "application/problem+json"
# Whatever is wrong with a request has one status there.
OPENAI_STATUSES = {415: 400, 422: 400, 423: 409}
OPENAI_CODES = {"unauthorized": "invalid_api_key", "too_many_requests": "rate_limit_exceeded"}
# A body can be wrong in a hundred thousand places.
MOST_FIELDS = 20


class FieldError(BaseModel):
    field: str
    message: str


class Problem(BaseModel):
    """What went wrong, in words (`detail`) and for programs (`code`)."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldError] = Field(default_factory=list)
    request_id: str | None = None


class OpenAIError(BaseModel):
    """What went wrong (`message`, `code`), and with which field (`param`)."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAIProblem(BaseModel):
    """As OpenAI's API says it."""

    error: OpenAIError


class ProblemResponse(JSONResponse):
    media_type = MEDIA_TYPE


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses=`: the problems a route may answer with."""
    return _documented(statuses, MEDIA_TYPE, "Problem")


def documented_openai(*statuses: int) -> dict[int | str, dict[str, Any]]:
    there = (OPENAI_STATUSES.get(status, status) for status in statuses)
    return _documented(there, "application/json", "OpenAIProblem")


def _documented(
    statuses: Iterable[int], media_type: str, schema: str
) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {status: {"description": phrase(status), "content": content} for status in statuses}


def is_openai(path: str) -> bool:
    return path == "/v1" or path.startswith("/v1/")


def answer(
    request: Request,
    status: int,
    code: str,
    detail: str,
    fields: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    headers = dict(headers or {})
    if status in RETRY_AFTER:
        headers.setdefault("Retry-After", RETRY_AFTER[status])
    if status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    if is_openai(request.scope["path"]):
        status, body = openai(status, code, detail, fields[0].field if fields else None)
        return JSONResponse(body, status, headers)
    problem = Problem(
        title=phrase(status),
        status=status,
        code=code,
        detail=detail,
        errors=fields or [],
        request_id=request.scope.get("request_id"),
    )
    return ProblemResponse(problem.model_dump(exclude_none=True), status, headers)


def openai(
    status: int, code: str, message: str, param: str | None = None
) -> tuple[int, dict[str, Any]]:
    """The status and body that OpenAI's libraries understand."""
    status = OPENAI_STATUSES.get(status, status)
    error = OpenAIError(
        message=message,
        type=_openai_type(status),
        param=param,
        code=OPENAI_CODES.get(code, code),
    )
    return status, OpenAIProblem(error=error).model_dump()


def _openai_type(status: int) -> str:
    if status >= 500:
        return "server_error"
    return {403: "permission_error", 429: "rate_limit_error"}.get(status, "invalid_request_error")


def phrase(status: int) -> str:
    # 460 is the upload protocol's own.
    return "Checksum Mismatch" if status == 460 else HTTPStatus(status).phrase


def status_of(error: errors.RushesError) -> int:
    return next((status for family, status in STATUSES if isinstance(error, family)), 500)


def install(app: FastAPI, missing_page: Callable[[], Response]) -> None:
    """`missing_page`: for a person who has mistyped an address."""

    def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and _is_person(request):
            return missing_page()
        return _plain(request, error)

    app.add_exception_handler(errors.RushesError, of_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, plain)


def _is_person(request: Request) -> bool:
    """A browser that opens a page asks for HTML; scripts and libraries do not."""
    path = request.scope["path"]
    return (
        request.method in ("GET", "HEAD")
        and "text/html" in request.headers.get("accept", "")
        and not path.startswith("/api/")
        and not is_openai(path)
    )


def of_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.RushesError)
    status = status_of(error)
    if status >= 500 or error.detail:
        log.warning("%s %s", error.code, error.detail or error.message)
    fields = None
    if isinstance(error, errors.BadField):
        fields = [FieldError(field=error.field, message=error.message)]
    headers = None
    if isinstance(error, errors.TooMany):
        headers = {"Retry-After": str(error.retry_seconds)}
    return answer(request, status, error.code, error.message, fields, headers)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    fields = [
        FieldError(field=_name(each["loc"]), message=each["msg"].removeprefix("Value error, "))
        for each in error.errors()[:MOST_FIELDS]
    ]
    said = "; ".join(f"{each.field}: {each.message}" for each in fields[:5])
    return answer(request, 422, "bad_field", said, fields)


def _plain(request: Request, error: HTTPException) -> JSONResponse:
    code = getattr(error, "code", CODES.get(error.status_code, "error"))
    headers = dict(error.headers) if error.headers else None
    return answer(request, error.status_code, code, str(error.detail), headers=headers)


def unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("unexpected error in %s", request.scope.get("request_id"), exc_info=error)
    return answer(request, 500, "internal_error", "something went wrong; the log knows more")


def _name(location: tuple[int | str, ...]) -> str:
    parts = [str(part) for part in location if part not in ("body", "query", "path", "header")]
    return ".".join(parts) or "body"
