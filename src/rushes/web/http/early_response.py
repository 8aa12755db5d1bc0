"""Answers that come before a body has ended.

Such an answer is said at once and the line closed a little later: closing it at once would throw
the answer away together with the bytes that are still on their way.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import Request, Response
from starlette.types import Message, Receive, Scope, Send

from rushes.web.http.guard import BodyRefused

# What a sender may go on sending while it finds out that it was refused.
LINGER_BYTES = 64 * 2**20
LINGER_SECONDS = 2.0


class RequestBody:
    """A request's body that knows whether it has ended."""

    def __init__(self, request: Request) -> None:
        headers = request.headers
        self._receive = request.receive
        self._ended = headers.get("content-length", "0") == "0"
        self._ended = self._ended and "transfer-encoding" not in headers
        self.request = Request(request.scope, self.receive)

    async def receive(self) -> Message:
        message = await self._receive()
        self._ended = not message.get("more_body", False)
        return message

    def respond_early(self, response: Response) -> Response:
        return response if self._ended else _EarlyResponse(self, response)

    async def discard(self) -> None:
        size_bytes = 0
        with suppress(TimeoutError, BodyRefused):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._ended and size_bytes < LINGER_BYTES:
                    message = await self.receive()
                    size_bytes += len(message.get("body", b""))


class _EarlyResponse(Response):
    def __init__(self, body: RequestBody, response: Response) -> None:
        super().__init__(response.body, response.status_code, media_type=response.media_type)
        self.raw_headers = [*response.raw_headers, (b"connection", b"close")]
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await self._body.discard()
        await send({"type": "http.response.body", "body": b""})
