"""Live events to a thousand clients of one server process: how late they arrive, and what it costs.

A real uvicorn around the relay on a temporary SQLite database, written to one event at a time and
then many in one transaction. Prints `ratio sse_delivered` (arrived / expected) and
`figure sse_p99_ms` (from the commit of an event to its arrival, over all clients).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from rushes import Rushes, events
from rushes.db.database import Tx
from rushes.live import EventFilter, Relay
from rushes.web.http import sse

FRAME = re.compile(rb"id: (\d+)\nevent: ")
# After this long without anything new, what has not arrived never will.
SILENCE_SECONDS = 10.0
CONNECT_AT_ONCE = 50


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=200, help="one by one")
    parser.add_argument("--per-second", type=float, default=10.0)
    parser.add_argument("--rush", type=int, default=500, help="more, in one transaction")
    options = parser.parse_args()
    # Asked to stop: still end the server and remove its files.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="rushes-bench-") as folder, server(folder) as port:
        asyncio.run(measure(port, options))


# The clients


@dataclass(slots=True)
class Client(asyncio.Protocol):
    """Notes when each position arrived."""

    port: int
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    rest: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        whole, end, self.rest = (self.rest + data).rpartition(b"\n\n")
        if end:
            self.opened.set()
        self.arrivals += [(int(found), now) for found in FRAME.findall(whole)]


async def measure(port: int, options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    clients = [Client(port) for _ in range(options.clients)]
    before = await asyncio.to_thread(ask, port, "/figures")
    for at in range(0, len(clients), CONNECT_AT_ONCE):
        some = clients[at : at + CONNECT_AT_ONCE]
        for client in some:
            await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]
        await asyncio.gather(*(client.opened.wait() for client in some))
    opened = await asyncio.to_thread(ask, port, "/figures")
    paced = f"/write?events={options.events}&per_second={options.per_second}"
    committed = await asyncio.to_thread(ask, port, paced)
    await arrive(clients, options.events)
    after = await asyncio.to_thread(ask, port, "/figures")
    delays = [
        (at - committed[position - 1]) * 1000
        for client in clients
        for position, at in client.arrivals
    ]
    committed = await asyncio.to_thread(ask, port, f"/write?events={options.rush}&per_second=0")
    await arrive(clients, options.events + options.rush)
    rush = max(at for client in clients for _, at in client.arrivals) - committed[-1]
    show(options, delays, rush, before, opened, after)
    expected = list(range(1, options.events + options.rush + 1))
    in_order = [client for client in clients if [each for each, _ in client.arrivals] == expected]
    print(f"{len(in_order):,} of {len(clients):,} clients heard everything once and in order")
    arrived = sum(len({position for position, _ in client.arrivals}) for client in clients)
    print(f"ratio sse_delivered {arrived / len(clients) / len(expected):.4f} goal >=1.0")
    print(f"figure sse_p99_ms {percentile(delays, 99):.1f}")


async def arrive(clients: list[Client], count: int) -> None:
    """Until every client has so many, or nothing new comes any more."""
    seen, quiet_since = -1, time.monotonic()
    while any(len(client.arrivals) < count for client in clients):
        now = sum(len(client.arrivals) for client in clients)
        if now != seen:
            seen, quiet_since = now, time.monotonic()
        elif time.monotonic() - quiet_since > SILENCE_SECONDS:
            return
        await asyncio.sleep(0.05)


def show(
    options: argparse.Namespace,
    delays: list[float],
    rush: float,
    before: dict[str, float],
    opened: dict[str, float],
    after: dict[str, float],
) -> None:
    cpu = (after["cpu_seconds"] - opened["cpu_seconds"]) * 1e6 / max(len(delays), 1)
    grown = (after["memory_bytes"] - before["memory_bytes"]) / options.clients / 1024
    print(
        f"SQLite; {os.cpu_count()} cores; {options.clients:,} clients,"
        f" {options.events} events at {options.per_second:g} per second\n"
        f"commit to arrival: p50 {percentile(delays, 50):.1f} ms, p99 {percentile(delays, 99):.1f},"
        f" max {max(delays, default=0):.1f}\n"
        f"server: {after['memory_bytes'] / 2**20:.0f} MiB ({grown:.0f} KiB per client),"
        f" {cpu:.0f} µs of CPU per event and client\n"
        f"{options.rush} events in one transaction: {rush * 1000:.0f} ms until the last arrived"
    )


def percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values) or [0.0]
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def ask(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as answer:
        return json.load(answer)


# The server


@contextmanager
def server(folder: str) -> Iterator[int]:
    command = [sys.executable, __file__, "serve", f"sqlite:///{folder}/rushes.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def serve(url: str) -> None:
    """Says its port, then serves until it is killed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    rushes = Rushes(url)
    relay = Relay(rushes.db, rushes.chores.number_events)

    async def stream(request: Request) -> StreamingResponse:
        body = sse.stream(
            relay.subscribe(None, EventFilter(None)),
            still_allowed=lambda: True,
            keep_alive_seconds=15,
            retry_seconds=2,
        )
        return StreamingResponse(body, media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)

    async def write_events(request: Request) -> JSONResponse:
        count = int(request.query_params["events"])
        per_second = float(request.query_params["per_second"])
        return JSONResponse(await run_in_threadpool(write, rushes, count, per_second))

    async def figures(request: Request) -> JSONResponse:
        return JSONResponse({"memory_bytes": memory_bytes(), "cpu_seconds": time.process_time()})

    routes = [Route("/events", stream), Route("/write", write_events), Route("/figures", figures)]
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(Starlette(routes=routes), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


def write(rushes: Rushes, count: int, per_second: float) -> list[float]:
    """When each event was committed; without a pace all of them are, in one transaction."""
    committed: list[float] = []

    def tell(tx: Tx) -> None:
        for _ in range(1 if per_second else count):
            events.append(tx, "media.updated", media_id="med_1", user_id="ann")
        tx.wake_after_commit(note)

    def note() -> None:
        committed.append(time.monotonic())

    pause = threading.Event()
    for _ in range(count if per_second else 1):
        rushes.db.run(tell)
        if per_second:
            pause.wait(1 / per_second)
    return committed


def memory_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
