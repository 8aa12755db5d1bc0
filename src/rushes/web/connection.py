"""uvicorn's HTTP/1.1 protocol with two limits it lacks: on the time and on the size of headers.

Without them a client that sends a byte now and then holds a connection for ever, and one that
never ends its headers fills the memory.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
HEADER_BYTES = 32 * 1024
TOO_SLOW = (408, "Request Timeout", "the request's headers took too long")
TOO_LARGE = (431, "Request Header Fields Too Large", "the request's headers are too large")


class Connection(HttpToolsProtocol):
    header_seconds = HEADER_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._in_headers = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_are_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > HEADER_BYTES:
            self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        self._expect_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._headers_are_there()
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        self._headers_are_there()
        self._in_headers = True
        self._header_bytes = 0
        self._deadline = self.loop.call_later(self.header_seconds, self._refuse, TOO_SLOW)

    def _headers_are_there(self) -> None:
        self._in_headers = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, answer: tuple[int, str, str]) -> None:
        if self.transport.is_closing():
            return
        status, phrase, message = answer
        body = f'{{"title":"{phrase}","status":{status},"detail":"{message}"}}'
        self.transport.write(
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
        )
        self.transport.close()
