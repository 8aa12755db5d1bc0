"""What the two Rushes contestants share: the same library calls, another URL."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import msgspec
from benchmarks.contestants.tally import Latencies, Tally, send_paced, wait_for_go

from rushes import JobContext, NewJob, Rushes, config
from rushes.protocol import Assignment, Completion, Coordinator
from rushes.worker.loop import Worker

BATCH = 300
ENQUEUE_BATCH = 1_000
# In each process that only writes.
WRITERS = 4
DONE = "SELECT count(*) FROM jobs WHERE state = 'completed'"
LEFT = "SELECT count(*) FROM jobs WHERE state <> 'completed'"


def open_app(url: str) -> Rushes:
    # Events get their positions by the chores: often, so that they are paid for while measuring.
    return Rushes(address(url), settings=msgspec.structs.replace(config.load(), sweep_interval=0.5))


def in_mode(
    mode: str, call: Callable[..., None], redis_url: str | None = None
) -> Callable[..., None]:
    """The same in a process with RUSHES_QUEUE_MODE; without a URL, on the benchmark's Redis."""

    def run(*arguments: Any) -> None:
        os.environ["RUSHES_QUEUE_MODE"] = mode
        if redis_url is not None:
            os.environ["RUSHES_REDIS_URL"] = redis_url
        call(*arguments)

    return run


def address(url: str) -> str:
    return url if "://" in url else f"sqlite:///{url}"


def prepare(url: str) -> None:
    open_app(url).close()


def enqueue_one_by_one(url: str, jobs: int) -> float:
    with open_app(url) as app:
        app.workers()
        began = time.monotonic()
        for number in range(jobs):
            app.enqueue("noop", {"n": number})
        return time.monotonic() - began


def enqueue_in_batches(url: str, jobs: int) -> float:
    with open_app(url) as app:
        app.workers()
        began = time.monotonic()
        for first in range(0, jobs, ENQUEUE_BATCH):
            last = min(first + ENQUEUE_BATCH, jobs)
            app.enqueue_many([NewJob(kind="noop", args={"n": n}) for n in range(first, last)])
        return time.monotonic() - began


fill = enqueue_in_batches


def write(url: str, jobs: int) -> float:
    """So many jobs one by one, by several threads at once; returns when the last was in."""
    with open_app(url) as app:
        app.workers()
        wait_for_go()
        share = range(jobs // WRITERS)
        with ThreadPoolExecutor(WRITERS) as writers:
            for done in [
                writers.submit(lambda: [app.enqueue("noop", {"n": n}) for n in share])
                for _ in range(WRITERS)
            ]:
                done.result()
        return time.monotonic()


class UntilDrained:
    """The worker's own coordinator, but an empty queue ends the work, and completions are told."""

    def __init__(self, worker: Worker, tally: Tally) -> None:
        self._worker = worker
        self._coordinator = worker.coordinator
        self._tally = tally

    def claim(
        self, limit: int, wait_seconds: float = 0, request_id: str | None = None
    ) -> list[Assignment]:
        taken = [] if self._tally.enough else self._coordinator.claim(limit, request_id=request_id)
        if not taken:
            self._worker.stop()
        return taken

    def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
        answers = self._coordinator.complete_all(completions)
        self._tally.add(len(answers))
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)


def drain(url: str, tally: Tally) -> dict[str, Any]:
    with open_app(url) as app:
        app.handler("noop")(lambda job: None)
        worker = app.worker(batch=BATCH)
        worker.coordinator = cast(Coordinator, UntilDrained(worker, tally))
        app.workers()
        chores = threading.Thread(target=app.chores.run)
        tally.start()
        chores.start()
        worker.run()
        app.chores.stop()
        chores.join()
        app.chores.number_events()
        return {"settled_at": time.monotonic()}


def serve(url: str, latencies: Latencies) -> None:
    """With the settings that people have."""
    with Rushes(address(url), settings=config.load()) as app:

        @app.handler("noop")
        def noop(job: JobContext) -> None:
            latencies.heard(job.args["sent_at"])

        threading.Thread(target=app.chores.run, daemon=True).start()
        print("ready", flush=True)
        app.worker(batch=BATCH).run()


def send(url: str, samples: int) -> None:
    with open_app(url) as app:
        app.workers()
        send_paced(samples, lambda sent_at: app.enqueue("noop", {"sent_at": sent_at}))
