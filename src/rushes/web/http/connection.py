"""uvicorn with what it lacks: a protocol that limits the time and the size of headers and what is
around a body, and a server that gives jobs back before it leaves.

Without limits a client that sends a byte now and then holds a connection for ever, and one that
never ends its headers, a chunk's extension or its trailers fills the memory.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
HEADER_BYTES = 32 * 1024
# A line that is closed at once swallows the answer: so long, and so much, it is left open.
LINGER_SECONDS = 1.0
LINGER_BYTES = 256 * 1024
Refusal = tuple[int, str, str, str]
BAD_REQUEST = (400, "Bad Request", "bad_request", "the request cannot be understood")
TOO_SLOW = (408, "Request Timeout", "too_slow", "the request's headers took too long")
TOO_LARGE = (
    431,
    "Request Header Fields Too Large",
    "headers_too_large",
    "the request's headers are too large",
)


class Connection(HttpToolsProtocol):
    header_seconds = HEADER_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_headers = True
        # What came since the last byte of a body or the end of a request.
        self._around_bytes = 0
        self._refusal: Refusal = BAD_REQUEST
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(TOO_SLOW)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._around_bytes += len(data)
        if self._is_refused:
            if self._around_bytes > LINGER_BYTES:
                self.transport.close()
            return
        super().data_received(data)
        if self._around_bytes > HEADER_BYTES:
            self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        self._in_headers = True
        self._expect(TOO_SLOW)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come too late to mean anything, and past whatever has looked at the headers.
        if self._in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._expect(None)
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEADER_BYTES:
            self._refusal = TOO_LARGE
            raise ValueError("headers too large")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._around_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._around_bytes = 0
        self._expect(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body:
            # It was answered before it had ended: what is left may come, but not for ever.
            self._expect(TOO_SLOW)

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal)

    def _expect(self, otherwise: Refusal | None) -> None:
        """Something has to come before the deadline; None: nothing has to."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if otherwise is not None:
            self._deadline = self.loop.call_later(self.header_seconds, self._refuse, otherwise)

    def _refuse(self, refusal: Refusal) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        cycle: Any = self.cycle
        is_between = self._in_headers and (cycle is None or cycle.response_complete)
        if is_between or cycle is None or not cycle.response_started:
            self.transport.write(_answer(*refusal))
            self.transport.write_eof()
            self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)
        else:
            self.transport.close()


def _answer(status: int, phrase: str, code: str, detail: str) -> bytes:
    said = {"type": "about:blank", "title": phrase, "status": status, "code": code}
    body = json.dumps({**said, "detail": detail, "errors": []})
    return (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
        f"cache-control: no-store\r\nx-content-type-options: nosniff\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
    ).encode()


class HttpServer(uvicorn.Server):
    """uvicorn, but signals first give the jobs back, and do not end the process by themselves."""

    def __init__(self, options: uvicorn.Config, leave: Callable[[], None]) -> None:
        super().__init__(options)
        self._leave = leave

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            each: signal.signal(each, self._asked) for each in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _asked(self, number: int, frame: Any) -> None:
        threading.Thread(target=self._leave, name="leave", daemon=True).start()
        self.handle_exit(number, frame)
