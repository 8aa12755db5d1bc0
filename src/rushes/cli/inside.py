"""The API without a server: the same routes, run in this process on the configured database."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any

import httpx2

from rushes import app, config, serving
from rushes.web.server import create_app

LEAVE_SECONDS = 5.0

Message = MutableMapping[str, Any]


class Inside(httpx2.BaseTransport):
    """An HTTP client's transport that ends in this process. Answers arrive as they are made."""

    def __init__(self, settings: config.Settings) -> None:
        _say_only_errors()
        self._rushes = app.open(settings)
        self._services = serving.services(self._rushes)
        self._app = create_app(self._services)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def token(self) -> str:
        return self._services.local_token

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = _Exchange(self._loop, request.read())
        running = self._app(_scope(request), exchange.receive, exchange.send)
        return exchange.start(asyncio.run_coroutine_threadsafe(running, self._loop))

    def close(self) -> None:
        """Called by the client; what is open here is closed by `__exit__`."""

    def __enter__(self) -> Inside:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._services.stopping.set()
        self._services.relay.close()
        self._services.dispatcher.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LEAVE_SECONDS)
        self._rushes.close()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


class _Exchange(httpx2.SyncByteStream):
    """One request and its answer, between this thread and the event loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, body: bytes) -> None:
        self._loop = loop
        self._body: bytes | None = body
        self._left = asyncio.Event()
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._running: Future[None] | None = None

    def start(self, running: Future[None]) -> httpx2.Response:
        self._running = running
        running.add_done_callback(lambda _: self._messages.put(None))
        first = self._messages.get()
        if first is None:
            running.result()
            raise RuntimeError("the request was not answered")
        return httpx2.Response(first["status"], headers=first["headers"], stream=self)

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self._messages.put(message)

    def __iter__(self) -> Iterator[bytes]:
        while (message := self._messages.get()) is not None:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return

    def close(self) -> None:
        """Whoever has stopped reading has left; a log that is being followed ends."""
        self._loop.call_soon_threadsafe(self._left.set)
        if self._running is not None:
            # Its error, if any, was answered already.
            with suppress(Exception):
                self._running.result(LEAVE_SECONDS)


def _scope(request: httpx2.Request) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "root_path": "",
        "query_string": request.url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
    }


def _say_only_errors() -> None:
    """What a server would write into its log is not for whoever types a command."""
    if logging.lastResort is not None:
        logging.lastResort.setLevel(logging.ERROR)
