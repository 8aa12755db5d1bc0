"""Fresh databases and child processes for the benchmark; all of them are gone when it ends."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

import services

ROOT = Path(__file__).resolve().parents[2]
# The longest any child may take; what it measures is far shorter.
CHILD_SECONDS = 120.0
# A sender's first job must find the worker waiting.
SETTLE_SECONDS = 1.0
IDLE_SECONDS = 5.0


class Failed(RuntimeError):
    pass


class Child:
    """One process of a contestant; killed when it takes too long, or when the block ends."""

    def __init__(self, name: str, action: str, url: str, jobs: int, seconds: float = 0) -> None:
        self.label = f"{name} {action}"
        command = [sys.executable, "-m", "benchmarks.contestants.child"]
        self._process = subprocess.Popen(
            [*command, name, action, url, str(jobs), str(seconds)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._watchdog = threading.Timer(CHILD_SECONDS, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.communicate()

    def wait_until_ready(self) -> None:
        if (said := self._line()) != "ready\n":
            raise Failed(f"{self.label}: said {said!r} instead of ready")

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    @property
    def cpu_seconds(self) -> float:
        """Of all its threads, as the kernel counts them."""
        after_name = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")

    def answer(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._line() or "null")
        if said is None:
            raise Failed(f"{self.label}: no answer, exit code {self._process.wait()}")
        return said

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class Contestant:
    """One of the modules beside this one, as the benchmark sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Any = importlib.import_module(f"benchmarks.contestants.{name}")

    @property
    def title(self) -> str:
        return str(self.module.TITLE)

    def can(self, action: str) -> bool:
        return hasattr(self.module, action)

    def jobs(self, jobs: int) -> int:
        return max(1, int(jobs * self.module.SHARE))


class Arena:
    """The databases of a run, below one directory; empty ones are copies of a prepared one."""

    def __init__(self, directory: Path, server: services.Postgres, redis: services.Redis) -> None:
        self._directory = directory
        self._server = server
        self._redis = redis
        self._numbers = count(1)
        self._prepared: set[str] = set()

    @contextmanager
    def database(self, contestant: Contestant) -> Iterator[str]:
        """The URL, or the path, of an empty database with the contestant's tables."""
        if contestant.module.DATABASE == "redis":
            yield self._redis.url
            return
        self._prepare(contestant)
        name = f"{contestant.name}_{next(self._numbers)}"
        if contestant.module.DATABASE == "postgres":
            self._server.create_database(name, template=contestant.name)
            yield self._url(name)
            self._server.drop_database(name)
        else:
            folder = self._directory / name
            shutil.copytree(self._directory / contestant.name, folder)
            yield str(folder / "queue.db")
            shutil.rmtree(folder)

    def _prepare(self, contestant: Contestant) -> None:
        name = contestant.name
        if name in self._prepared:
            return
        if contestant.module.DATABASE == "postgres":
            self._server.create_database(name)
            url = self._url(name)
        else:
            (self._directory / name).mkdir()
            url = str(self._directory / name / "queue.db")
        ask(name, "prepare", url)
        self._prepared.add(name)

    def _url(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._server.port}/{name}"


def ask(name: str, action: str, url: str, jobs: int = 0) -> dict[str, Any]:
    with Child(name, action, url, jobs) as child:
        return child.answer()


def settle(url: str) -> None:
    """Leave nothing of the filling to be done in the background while measuring."""
    if "://" in url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
    else:
        connection_ = sqlite3.connect(url)
        connection_.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection_.close()


@contextmanager
def pinned(url: str) -> Iterator[None]:
    """Somebody has a transaction open: whatever dies meanwhile cannot be removed."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        yield


def read(url: str, query: str) -> int:
    if "://" in url:
        with psycopg.connect(url) as connection:
            row = connection.execute(query.encode()).fetchone()
            assert row is not None
            return int(row[0])
    connection_ = sqlite3.connect(url)
    try:
        return int(connection_.execute(query).fetchone()[0])
    finally:
        connection_.close()


def race(
    contestant: Contestant, url: str, jobs: int, seconds: float, processes: int
) -> tuple[float, Sequence[dict[str, Any]]]:
    """All processes are connected and wait; answers when they started and what they said."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child(contestant.name, "drain", url, jobs, seconds))
            for _ in range(processes)
        ]
        for child in children:
            child.wait_until_ready()
        began = time.monotonic()
        for child in children:
            child.go()
        return began, [child.answer() for child in children]


def write(contestant: Contestant, url: str, jobs: int, processes: int) -> float:
    """Seconds in which several processes together have enqueued so many jobs."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child(contestant.name, "write", url, jobs // processes))
            for _ in range(processes)
        ]
        for child in children:
            child.wait_until_ready()
        began = time.monotonic()
        for child in children:
            child.go()
        return max(float(child.answer()["last_at"]) for child in children) - began


def pickup(contestant: Contestant, url: str, samples: int) -> list[float]:
    """Seconds from enqueue to handler, the worker being idle in another process."""
    with Child(contestant.name, "serve", url, samples) as worker:
        worker.wait_until_ready()
        with Child(contestant.name, "send", url, samples) as sender:
            sender.wait_until_ready()
            time.sleep(SETTLE_SECONDS)
            sender.go()
            return list(worker.answer()["seconds"])


def idle(contestant: Contestant, url: str) -> float:
    """Percent of a core that a worker takes which has nothing to do."""
    with Child(contestant.name, "serve", url, 1) as worker:
        worker.wait_until_ready()
        time.sleep(SETTLE_SECONDS)
        before, began = worker.cpu_seconds, time.monotonic()
        time.sleep(IDLE_SECONDS)
        return 100 * (worker.cpu_seconds - before) / (time.monotonic() - began)
