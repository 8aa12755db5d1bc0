"""What every request passes: an id, limits on bodies and their pace, and security headers.

Plain ASGI: a class of Starlette's that wraps requests would cancel work when a client leaves.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rushes import correlation, ids, sanitize, tracing
from rushes.accounts import security_log
from rushes.correlation import Correlation
from rushes.metrics import Metrics
from rushes.web.http import addresses, problems
from rushes.web.http.embedding import FRAMED, Embedding

log = logging.getLogger("rushes.http")

BODY_LIMIT_BYTES = 1024 * 1024
# A long video's manifest and checkpoint name tens of thousands of files.
REPORT_LIMIT_BYTES = 32 * 1024 * 1024
REPORTS = {f"/api/v1/worker/{verb}" for verb in ("complete", "progress", "divide")}
# These take files and count for themselves.
STREAMING = re.compile(
    r"(POST|PATCH) /api/v1/uploads(/[^/]*)?|POST /api/v1/(media|transcriptions/submit)"
    r"|POST /api/v1/media/[^/]*/transcript/import|PUT /api/v1/worker/artifacts/.*"
    r"|POST /v1/audio/(transcriptions|translations)"
)
# Silence this long in the middle of a body ends the request ...
SILENCE_SECONDS = 30.0
# ... and so does a pace below this, looked at as often.
SLOWEST_BYTES_PER_SECOND = 1024
# So much, and so long, a sender may go on while it finds out that it was refused.
LINGER_BYTES = 64 * 2**20
LINGER_SECONDS = 2.0
# Asked all the time, and of no request of anybody's.
UNTRACED = frozenset(
    {
        "/livez",
        "/healthz",
        "/readyz",
        "/health",
        "/metrics",
        "/api/v1/events",
        "/api/v1/worker/claim",
        "/api/v1/worker/heartbeat",
    }
)
UNMATCHED = "unmatched"
API = "/api/v1/"
SHARED = re.compile(r"^/(s|embed)/[^/]+")
VERSIONED = re.compile(r"/api/(?!v\d+(/|$)|health$)")
HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class BodyRefused(HTTPException):
    """The rest of the body is not wanted, and the connection is of no more use."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message, {"Connection": "close"})
        self.code = code


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        https: bool,
        is_worker: Callable[[str], bool],
        metrics: Callable[[], Metrics],
        storage_origin: str | None = None,
        embedding: Embedding | None = None,
    ) -> None:
        """`is_worker` is asked, in a thread, when a key comes with a body that only a worker may
        send. `storage_origin`: where pages may load pictures and media from, too. `embedding`:
        which other sites may show what is shared."""
        self.app = app
        self._is_worker = is_worker
        self._metrics = metrics
        self._embedding = embedding or Embedding("")
        headers = {"content-security-policy": security_policy(storage_origin), **HEADERS}
        if https:
            headers["strict-transport-security"] = "max-age=31536000"
        self._headers = {name.encode(): value.encode() for name, value in headers.items()}
        ancestors = self._embedding.frame_ancestors
        framed = {b"content-security-policy": security_policy(storage_origin, ancestors).encode()}
        self._framed = {**self._headers, **framed}
        del self._framed[b"x-frame-options"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scope["request_id"] = _request_id(headers)
        trace = correlation.traceparent(headers.get("traceparent"))
        correlation.begin(Correlation(request_id=scope["request_id"], trace=trace))
        client = Request(scope).client
        here = security_log.Visit(client.host if client else None, scope["request_id"])
        security_log.visit.set(here)
        addresses.used.set(str(Request(scope).base_url).rstrip("/"))
        scope["path"] = VERSIONED.sub("/api/v1/", scope["path"], count=1)
        body = _Body(receive, scope, self._is_worker)
        answered = _Answer(send, self._headers_for(scope, headers), scope, body)
        metrics = self._metrics()
        metrics.requests.inc()
        try:
            if scope["path"] in UNTRACED:
                await self._answer(scope, body, answered)
            else:
                with tracing.span(scope["method"], edge=True) as span:
                    await self._answer(scope, body, answered)
                    if span is not None:
                        span.describe(*answered.described())
        finally:
            metrics.requests.dec()
            answered.count(metrics)
            answered.log()

    async def _answer(self, scope: Scope, body: _Body, answered: _Answer) -> None:
        try:
            if answer := _odd_address(scope) or self._preflight(scope):
                await answer(scope, body.receive, answered.send)
            else:
                await self.app(scope, body.receive, answered.send)
        except Exception as error:
            if answered.started:
                raise
            unexpected = problems.unexpected(Request(scope), error)
            await unexpected(scope, body.receive, answered.send)

    def _headers_for(self, scope: Scope, asked: Headers) -> dict[bytes, bytes]:
        if FRAMED.fullmatch(scope["path"]):
            return self._framed
        added = self._embedding.headers(scope["path"], asked.get("origin"))
        return {**self._headers, **added} if added else self._headers

    def _preflight(self, scope: Scope) -> Response | None:
        if scope["method"] != "OPTIONS":
            return None
        origin = Headers(scope=scope).get("origin")
        return Response(status_code=204) if self._embedding.may_ask(scope["path"], origin) else None


def _request_id(headers: Headers) -> str:
    """As the sender calls it, if that is a plain word and no key: it goes into answers and logs."""
    given = correlation.request_id(headers.get("x-request-id"))
    return given if given and sanitize.secrets(given) == given else ids.new("req")


def security_policy(storage_origin: str | None = None, ancestors: str = "'none'") -> str:
    own = f"'self' {storage_origin}" if storage_origin else "'self'"
    return (
        f"default-src 'self'; img-src {own} data: blob:; media-src {own} blob:; style-src 'self';"
        f" script-src 'self'; connect-src {own}; worker-src 'self' blob:; object-src 'none';"
        f" base-uri 'none'; form-action 'self'; frame-ancestors {ancestors}"
    )


def _odd_address(scope: Scope) -> Response | None:
    """No name or word of ours has a NUL in it, and not every database can even look for one."""
    if "\0" in scope["path"]:
        return problems.answer(Request(scope), 404, "not_found", "there is nothing here")
    if b"%00" in scope["query_string"]:
        said = "the address has a NUL character"
        return problems.answer(Request(scope), 422, "bad_field", said)
    return None


class _Body:
    def __init__(self, receive: Receive, scope: Scope, is_worker: Callable[[str], bool]) -> None:
        self._receive = receive
        self._scope = scope
        self._is_worker = is_worker
        self._streams = bool(STREAMING.fullmatch(f"{scope['method']} {scope['path']}"))
        self._limit = BODY_LIMIT_BYTES
        self._size = 0
        self._ended = False
        self._since = time.monotonic()
        self._since_size = 0
        self.was_too_large = False

    async def receive(self) -> Message:
        if self._ended:
            # Waits for the client to leave, however long the answer takes.
            return await self._receive()
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                message = await self._receive()
        except TimeoutError:
            raise BodyRefused(408, "too_slow", "the request's body stopped coming") from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._ended = not message.get("more_body", False)
            self._check_pace()
            await self._check_size()
        return message

    async def discard(self) -> None:
        """What still comes, for a moment: a line that is closed at once swallows the answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._ended and self._size < LINGER_BYTES:
                    message = await self._receive()
                    self._size += len(message.get("body", b""))
                    self._ended = not message.get("more_body", False)

    async def _check_size(self) -> None:
        if self._streams or self._size <= self._limit:
            return
        is_report = self._scope["path"] in REPORTS and self._limit == BODY_LIMIT_BYTES
        if is_report and await asyncio.to_thread(self._is_worker, _key(self._scope)):
            self._limit = REPORT_LIMIT_BYTES
        if self._size > self._limit:
            self.was_too_large = True
            raise BodyRefused(413, "too_large", "the request's body is too large")

    def _check_pace(self) -> None:
        now = time.monotonic()
        if now - self._since > SILENCE_SECONDS:
            pace = (self._size - self._since_size) / (now - self._since)
            if pace < SLOWEST_BYTES_PER_SECOND and not self._ended:
                raise BodyRefused(408, "too_slow", "the request's body comes too slowly")
            self._since, self._since_size = now, self._size


def _key(scope: Scope) -> str:
    headers = Headers(scope=scope)
    return headers.get("authorization", "").partition(" ")[2] or headers.get("x-api-key", "")


class _Answer:
    def __init__(
        self, send: Send, headers: Mapping[bytes, bytes], scope: Scope, body: _Body
    ) -> None:
        self._send = send
        self._body = body
        self._headers = headers
        self._scope = scope
        self._at = time.monotonic()
        # Until the first line of the answer: what comes then is as quick as whoever reads it.
        self._seconds: float | None = None
        self.started = False
        self._status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._seconds = time.monotonic() - self._at
            self._status = message["status"]
            message["headers"] = self._with_ours(message["headers"])
        elif self._body.was_too_large and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._body.discard()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _with_ours(self, headers: Any) -> list[tuple[bytes, bytes]]:
        given = list(headers)
        names = {name.lower() for name, _ in given}
        given += [(name, value) for name, value in self._headers.items() if name not in names]
        if b"cache-control" not in names:
            given.append((b"cache-control", b"no-store"))
        given.append((b"x-request-id", self._scope["request_id"].encode()))
        return given

    def count(self, metrics: Metrics) -> None:
        seconds = time.monotonic() - self._at if self._seconds is None else self._seconds
        metrics.request_answered(self._scope["method"], self._route(), self._status, seconds)

    def described(self) -> tuple[str, Mapping[str, Any]]:
        """For a trace: what was asked for, as it is declared, and what came of it."""
        method, route = self._scope["method"], self._route()
        facts = {
            "http__request__method": method,
            "http__route": route,
            "http__response__status_code": self._status,
        }
        return f"{method} {route}", facts

    def _route(self) -> str:
        """As it is declared: of these there are only so many."""
        declared = getattr(self._scope.get("route"), "path", None)
        if declared is None:
            return UNMATCHED
        # FastAPI has it without the prefix of the router around it.
        is_inner = self._scope["path"].startswith(API) and not declared.startswith(API)
        return f"{API.rstrip('/')}{declared}" if is_inner else declared

    def log(self) -> None:
        seconds = time.monotonic() - self._at
        # The path only: a query may hold a sign-in link's secret, and so may a shared address.
        path = SHARED.sub(r"/\1/…", self._scope["path"], count=1)
        log.debug("%s %s %s %.3fs", self._scope["method"], path, self._status, seconds)
