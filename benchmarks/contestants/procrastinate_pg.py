"""Procrastinate on PostgreSQL with uvloop, many jobs at a time, and connections in autocommit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from benchmarks.contestants.tally import WARM_UP, Latencies, Tally, wait_for_go
from procrastinate import App, PsycopgConnector

TITLE = "Procrastinate"
DATABASE = "postgres"
# Of the jobs: it is slow, and its rate does not depend on how many there are.
SHARE = 0.25
DONE = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
# Measured: more jobs at a time only get in each other's way.
CONCURRENCY = 10
ENQUEUE_BATCH = 1_000


def prepare(url: str) -> None:
    async def apply(app: App) -> None:
        await app.schema_manager.apply_schema_async()

    run(url, apply)


def enqueue_one_by_one(url: str, jobs: int) -> float:
    async def enqueue(app: App) -> float:
        task = app.configure_task("noop", allow_unknown=True)
        began = time.monotonic()
        for number in range(jobs):
            await task.defer_async(n=number)
        return time.monotonic() - began

    return float(run(url, enqueue))


def enqueue_in_batches(url: str, jobs: int) -> float:
    async def enqueue(app: App) -> float:
        task = app.configure_task("noop", allow_unknown=True)
        began = time.monotonic()
        for first in range(0, jobs, ENQUEUE_BATCH):
            last = min(first + ENQUEUE_BATCH, jobs)
            await task.batch_defer_async(*({"n": n} for n in range(first, last)))
        return time.monotonic() - began

    return float(run(url, enqueue))


fill = enqueue_in_batches


def drain(url: str, tally: Tally) -> None:
    async def work(app: App) -> None:
        async def noop(n: int) -> None:
            pass

        app.task(name="noop")(noop)
        worker = app._worker(concurrency=CONCURRENCY, wait=False)
        finish = app.job_manager.finish_job

        async def counted(**arguments: Any) -> None:
            await finish(**arguments)
            tally.add(1)
            if tally.enough:
                worker.stop()

        app.job_manager.finish_job = counted
        tally.start()
        await worker.run()

    run(url, work)


def serve(url: str, latencies: Latencies) -> None:
    async def work(app: App) -> None:
        async def noop(sent_at: float) -> None:
            latencies.heard(sent_at)

        app.task(name="noop")(noop)
        print("ready", flush=True)
        await app.run_worker_async(concurrency=CONCURRENCY)

    run(url, work)


def send(url: str, samples: int) -> None:
    async def enqueue(app: App) -> None:
        task = app.configure_task("noop", allow_unknown=True)
        wait_for_go()
        for _ in range(samples + WARM_UP):
            await task.defer_async(sent_at=time.time())
            await asyncio.sleep(0.05)

    run(url, enqueue)


def run(url: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        pool = {"min_size": CONCURRENCY, "max_size": CONCURRENCY + 5, "configure": autocommit}
        app = App(connector=PsycopgConnector(conninfo=url, **pool))
        async with app.open_async():
            return await work(app)

    return uvloop.run(whole())


async def autocommit(connection: Any) -> None:
    """Each of its calls is one statement: BEGIN and COMMIT would be round trips for nothing."""
    await connection.set_autocommit(True)
