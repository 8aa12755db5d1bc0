"""The stream of events one client gets, and a real server that sends it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from listeners import ADMIN, hear, listening, run, tell
from running import Running, events_of
from rushes.live import EventFilter, Relay
from rushes.web.http import sse
from world import World

USUAL = {"keep_alive_seconds": 15.0, "retry_seconds": 2.0}
OFTEN = {"keep_alive_seconds": 0.01, "retry_seconds": 2.0}


async def chunks(stream: AsyncIterator[bytes], count: int) -> list[bytes]:
    return [await anext(stream) for _ in range(count)]


def test_a_stream_says_where_it_begins_then_sends_frames(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        tell(world)
        stream = sse.stream(relay.subscribe(None, ADMIN), still_allowed=lambda: True, **USUAL)
        assert await anext(stream) == b"retry: 2000\nid: 1\n\n"
        tell(world, "media.ready", media_id="med_1")
        assert (await anext(stream)).startswith(b"id: 2\nevent: media.ready\ndata: {")
        again = sse.stream(
            relay.subscribe(sse.since("1"), ADMIN), still_allowed=lambda: True, **USUAL
        )
        begin, replayed = await chunks(again, 2)
        assert begin == b"retry: 2000\nid: 1\n\n"
        assert replayed.startswith(b"id: 2\nevent: media.ready\n")
        relay.close()
        assert [each async for each in stream] == []

    run(world, scenario)


def test_an_idle_stream_is_kept_alive_and_moves_on_past_others_events(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        subscription = relay.subscribe(None, EventFilter("ann"))
        stream = sse.stream(subscription, still_allowed=lambda: True, **OFTEN)
        assert await chunks(stream, 2) == [b"retry: 2000\nid: 0\n\n", b": keep-alive\n\n"]
        async with listening(relay) as admin:
            tell(world, user_id="bob")
            await hear(admin, 1)
        seen = await chunks(stream, 2)
        assert b": keep-alive\nid: 1\n\n" in seen
        assert await anext(stream) == b": keep-alive\n\n"

    run(world, scenario)


def test_a_stream_ends_when_its_session_was_revoked_and_sends_nothing_more(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        allowed = [True, True, False]
        stream = sse.stream(
            relay.subscribe(None, ADMIN),
            still_allowed=lambda: allowed.pop(0),
            **OFTEN,
            check_seconds=0,
        )
        assert len(await chunks(stream, 3)) == 3
        tell(world)
        assert [each async for each in stream] == []
        assert allowed == []
        assert relay.subscribers == 0

    run(world, scenario)


def test_how_often_a_stream_says_that_it_is_alive_and_when_to_come_back_can_be_set(
    serve: Callable[..., Running],
) -> None:
    running = serve(event_keep_alive=0.1, event_retry=7.5)
    with running.client() as client, client.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 7500"
        # Comes, or this would wait for ever.
        assert ": keep-alive" in lines


@pytest.mark.parametrize(
    ("given", "position"),
    [(None, None), ("", None), ("0", 0), ("42", 42), ("-3", -1), ("abc", -1), ("٣", -1)],
)
def test_a_last_event_id_is_a_position_or_no_reason_to_trust_it(
    given: str | None, position: int | None
) -> None:
    assert sse.since(given) == position


@asynccontextmanager
async def serving(relay: Relay) -> AsyncIterator[int]:
    """A real server around the relay; returns its port."""

    async def events_of_all(request: Request) -> StreamingResponse:
        since = sse.since(request.headers.get("last-event-id"))
        stream = sse.stream(relay.subscribe(since, ADMIN), still_allowed=lambda: True, **USUAL)
        return StreamingResponse(stream, media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)

    app = Starlette(routes=[Route("/events", events_of_all)])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    listener = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server._serve([listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def connected(port: int, headers: str = "") -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET /events HTTP/1.1\r\nhost: x\r\n{headers}\r\n".encode())
        await reader.readuntil(b"retry: 2000\n")
        yield reader
    finally:
        writer.close()
        await writer.wait_closed()


async def becomes(is_true: Callable[[], bool], pause: Callable[[], Awaitable[None]]) -> None:
    while not is_true():
        await pause()


def test_a_real_server_streams_resumes_notices_who_left_and_ends_in_order(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        async with serving(relay) as port:
            async with connected(port) as reader:
                tell(world, "media.created", media_id="med_1")
                await reader.readuntil(b"id: 1\nevent: media.created\n")
            await becomes(lambda: relay.subscribers == 0, lambda: asyncio.sleep(0.01))
            tell(world, "media.updated", media_id="med_1")
            async with connected(port, "last-event-id: 1\r\n") as reader:
                await reader.readuntil(b"id: 2\nevent: media.updated\n")
                await asyncio.to_thread(relay.close)
                await reader.readuntil(b"\r\n0\r\n\r\n")

    run(world, scenario)


def test_what_is_done_once_a_stream_has_answered_is_heard(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    acted = threading.Event()
    look = Relay._look

    def late(relay: Relay) -> None:
        # A relay as slow as it takes for the client to act; nobody acts before the answer.
        acted.wait(0.3)
        look(relay)

    monkeypatch.setattr(Relay, "_look", late)
    with server.client() as admin, admin.stream("GET", "/events", timeout=10) as stream:
        job_id = server.rushes.enqueue("transcode").id
        acted.set()
        assert any(data.get("job_id") == job_id for _, _, data in events_of(stream))
