"""Huey on SQLite, in WAL mode and with every commit synced, as Rushes has it."""

from __future__ import annotations

import threading
import time
from typing import Any

from benchmarks.contestants.tally import Latencies, Tally, send_paced
from huey import SqliteHuey
from huey.consumer import Consumer, Worker

TITLE = "Huey (SQLite)"
DATABASE = "sqlite"
# Of the jobs: it is slow, and its rate does not depend on how many there are.
SHARE = 0.25
# A task is gone once it was taken, so only the workers know how many were run.
DONE = None
LEFT = "SELECT count(*) FROM task"
# Measured: 1 and 4 are no faster; all threads share one connection.
THREADS = 2


def open_huey(url: str) -> Any:
    # `fsync=True` is PRAGMA synchronous=FULL; nobody asks for results.
    huey = SqliteHuey(filename=url, fsync=True, journal_mode="wal", results=False, timeout=30)
    huey.storage.queue_size()
    return huey


def prepare(url: str) -> None:
    open_huey(url).storage.close()


def enqueue_one_by_one(url: str, jobs: int) -> float:
    noop = task(open_huey(url), lambda n: None)
    began = time.monotonic()
    for number in range(jobs):
        noop(number)
    return time.monotonic() - began


def fill(url: str, jobs: int) -> float:
    """Huey has no batches: this writes its table as it would, in one transaction."""
    huey = open_huey(url)
    noop = task(huey, lambda n: None)
    began = time.monotonic()
    rows = ((huey.name, huey.serialize_task(noop.s(number)), 0) for number in range(jobs))
    with huey.storage.db(commit=True) as cursor:
        cursor.executemany("insert into task (queue, data, priority) values (?, ?, ?)", rows)
    return time.monotonic() - began


def drain(url: str, tally: Tally) -> None:
    huey = open_huey(url)
    task(huey, lambda n: None)
    over = threading.Event()

    class CountingWorker(Worker):  # type: ignore[misc]
        def loop(self, now: Any = None) -> None:
            before = self.task_count
            super().loop(now)
            if self.task_count > before:
                tally.add(1)
            if tally.enough:
                over.set()

        def sleep(self) -> None:
            over.set()
            super().sleep()

    consumer = open_consumer(huey, CountingWorker)
    tally.start()
    consumer.start()
    over.wait()
    consumer.stop(graceful=True)


def serve(url: str, latencies: Latencies) -> None:
    huey = open_huey(url)
    task(huey, latencies.heard)
    print("ready", flush=True)
    open_consumer(huey, Worker).run()


def send(url: str, samples: int) -> None:
    noop = task(open_huey(url), lambda n: None)
    send_paced(samples, noop)


def task(huey: Any, run: Any) -> Any:
    # Huey finds a task by the module and the name of its function.
    def noop(n: float) -> None:
        run(n)

    return huey.task()(noop)


def open_consumer(huey: Any, worker_class: Any) -> Any:
    """Polls a hundred times a second; nothing else tells it of work."""

    class OurConsumer(Consumer):  # type: ignore[misc]
        pass

    OurConsumer.worker_class = worker_class
    return OurConsumer(
        huey, workers=THREADS, periodic=False, initial_delay=0.01, max_delay=0.01, backoff=1.0
    )
