"""PGQueuer on PostgreSQL with uvloop, and with asyncpg, its faster driver, where installed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import uvloop
from benchmarks.contestants.tally import WARM_UP, Latencies, Tally, wait_for_go
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.types import QueueExecutionMode

try:
    import asyncpg
except ModuleNotFoundError:
    asyncpg = None

DRIVER = "psycopg" if asyncpg is None else "asyncpg"
TITLE = f"PGQueuer ({DRIVER})"
DATABASE = "postgres"
SHARE = 1.0
DONE = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"
LEFT = "SELECT count(*) FROM pgqueuer"
# Measured: the best of 10, 50, 100, 300, 500 and 1000.
BATCH = 500
ENQUEUE_BATCH = 1_000


class CountingQueries(Queries):  # type: ignore[misc]
    """Notes what was written as done, after the write."""

    done: Callable[[int], None]

    async def log_jobs(self, job_status: Any) -> None:
        await super().log_jobs(job_status)
        self.done(len(job_status))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[CountingQueries]:
    if asyncpg is not None:
        connection = await asyncpg.connect(url)
        driver: Any = AsyncpgDriver(connection)
    else:
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        driver = PsycopgDriver(connection)
    queries = CountingQueries(driver)
    queries.done = lambda jobs: None
    try:
        yield queries
    finally:
        await connection.close()


def prepare(url: str) -> None:
    run(url, lambda queries: queries.install())


def enqueue_one_by_one(url: str, jobs: int) -> float:
    async def enqueue(queries: CountingQueries) -> float:
        began = time.monotonic()
        for number in range(jobs):
            await queries.enqueue("noop", b'{"n": %d}' % number)
        return time.monotonic() - began

    return float(run(url, enqueue))


def enqueue_in_batches(url: str, jobs: int) -> float:
    async def enqueue(queries: CountingQueries) -> float:
        began = time.monotonic()
        for first in range(0, jobs, ENQUEUE_BATCH):
            payloads = [b'{"n": %d}' % n for n in range(first, min(first + ENQUEUE_BATCH, jobs))]
            await queries.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads))
        return time.monotonic() - began

    return float(run(url, enqueue))


fill = enqueue_in_batches


def drain(url: str, tally: Tally) -> None:
    async def work(queries: CountingQueries) -> None:
        manager = QueueManager(queries)

        async def noop(job: Any) -> None:
            pass

        def done(jobs: int) -> None:
            tally.add(jobs)
            if tally.enough:
                manager.shutdown.set()

        manager.entrypoint("noop")(noop)
        queries.done = done
        tally.start()
        await manager.run(batch_size=BATCH, mode=QueueExecutionMode.drain)

    run(url, work)


def serve(url: str, latencies: Latencies) -> None:
    async def work(queries: CountingQueries) -> None:
        manager = QueueManager(queries)

        async def noop(job: Any) -> None:
            latencies.heard(json.loads(job.payload)["sent_at"])

        manager.entrypoint("noop")(noop)
        print("ready", flush=True)
        await manager.run(batch_size=BATCH)

    run(url, work)


def send(url: str, samples: int) -> None:
    async def enqueue(queries: CountingQueries) -> None:
        wait_for_go()
        for _ in range(samples + WARM_UP):
            await queries.enqueue("noop", json.dumps({"sent_at": time.time()}).encode())
            await asyncio.sleep(0.05)

    run(url, enqueue)


def run(url: str, work: Callable[[CountingQueries], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with opened(url) as queries:
            return await work(queries)

    return uvloop.run(whole())
