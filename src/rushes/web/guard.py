"""What every request passes: an id, limits on bodies and their pace, and security headers.

Plain ASGI: a class of Starlette's that wraps requests would cancel work when a client leaves.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rushes import ids

log = logging.getLogger("rushes.http")

BODY_LIMIT_BYTES = 1024 * 1024
# A long video's manifest and checkpoint name tens of thousands of files.
REPORT_LIMIT_BYTES = 32 * 1024 * 1024
REPORTS = {"/api/v1/worker/complete", "/api/v1/worker/progress"}
# These take files and count for themselves.
STREAMING = re.compile(r"/api/v1/(uploads|media|transcriptions/submit|worker/artifacts/.*)(/.*)?")
# Silence this long in the middle of a body ends the request ...
SILENCE_SECONDS = 30.0
# ... and so does a pace below this, looked at as often.
SLOWEST_BYTES_PER_SECOND = 1024
VERSIONED = re.compile(r"/api/(?!v\d+(/|$)|health$)")
CSP = (
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; style-src 'self';"
    " script-src 'self'; connect-src 'self'; worker-src 'self' blob:; object-src 'none';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class BodyRefused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Guard:
    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self.app = app
        headers = dict(HEADERS)
        if https:
            headers["strict-transport-security"] = "max-age=31536000"
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["request_id"] = ids.new("req")
        scope["path"] = VERSIONED.sub("/api/v1/", scope["path"], count=1)
        limit = _limit(scope["path"])
        body = _Body(receive, limit)
        answered = _Answer(send, self._headers, scope)
        try:
            await self.app(scope, body.receive, answered.send)
        except BodyRefused as refused:
            if not answered.started:
                await _refuse(answered.send, scope, refused)
        finally:
            answered.log()


def _limit(path: str) -> int | None:
    if STREAMING.fullmatch(path):
        return None
    return REPORT_LIMIT_BYTES if path in REPORTS else BODY_LIMIT_BYTES


class _Body:
    def __init__(self, receive: Receive, limit: int | None) -> None:
        self._receive = receive
        self._limit = limit
        self._size = 0
        self._ended = False
        self._since = time.monotonic()
        self._since_size = 0

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
            self._check()
        return message

    def _check(self) -> None:
        if self._limit is not None and self._size > self._limit:
            raise BodyRefused(413, "too_large", "the request's body is too large")
        now = time.monotonic()
        if now - self._since > SILENCE_SECONDS:
            pace = (self._size - self._since_size) / (now - self._since)
            if pace < SLOWEST_BYTES_PER_SECOND and not self._ended:
                raise BodyRefused(408, "too_slow", "the request's body comes too slowly")
            self._since, self._since_size = now, self._size


class _Answer:
    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]], scope: Scope) -> None:
        self._send = send
        self._headers = headers
        self._scope = scope
        self._at = time.monotonic()
        self.started = False
        self._status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._status = message["status"]
            message["headers"] = self._with_ours(message["headers"])
        await self._send(message)

    def _with_ours(self, headers: Any) -> list[tuple[bytes, bytes]]:
        given = list(headers)
        names = {name.lower() for name, _ in given}
        given += [(name, value) for name, value in self._headers if name not in names]
        if b"cache-control" not in names:
            given.append((b"cache-control", b"no-store"))
        given.append((b"x-request-id", self._scope["request_id"].encode()))
        return given

    def log(self) -> None:
        seconds = time.monotonic() - self._at
        # The path only: a query may hold a sign-in link's secret.
        path = self._scope.get("route_path") or self._scope["path"]
        log.debug("%s %s %s %.3fs", self._scope["method"], path, self._status, seconds)


async def _refuse(send: Send, scope: Scope, refused: BodyRefused) -> None:
    import json

    body = json.dumps(
        {
            "type": "about:blank",
            "title": refused.message,
            "status": refused.status,
            "code": refused.code,
            "detail": refused.message,
            "errors": [],
            "request_id": scope["request_id"],
        }
    ).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
