"""How a child process is told to start, what it counts, and when it has done enough."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

# With the first few, connections are opened and statements prepared.
WARM_UP = 5


class Tally:
    """Completions of one process. `add` is called after the commit that ended the jobs."""

    def __init__(self, limit_jobs: int, limit_seconds: float) -> None:
        self.jobs = 0
        self.last_at = 0.0
        self._limit_jobs = limit_jobs
        self._limit_seconds = limit_seconds
        self._until = 0.0
        self._cpu_at_start = 0.0
        self._cpu = 0.0

    def start(self) -> None:
        wait_for_go()
        self._until = time.monotonic() + self._limit_seconds
        self._cpu_at_start = time.process_time()

    def add(self, jobs: int) -> None:
        self.jobs += jobs
        self.last_at = time.monotonic()
        self._cpu = time.process_time()

    @property
    def enough(self) -> bool:
        return self.jobs >= self._limit_jobs or self.last_at > self._until

    def report(self) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "last_at": self.last_at,
            "cpu_seconds": self._cpu - self._cpu_at_start if self.jobs else 0.0,
        }


class Latencies:
    """Seconds from just before the enqueue to the first line of the handler."""

    def __init__(self, samples: int) -> None:
        self._wanted = samples + WARM_UP
        self._seconds: list[float] = []

    def heard(self, sent_at: float) -> None:
        self._seconds.append(time.time() - sent_at)
        if len(self._seconds) == self._wanted:
            say({"seconds": self._seconds[WARM_UP:]})


def send_paced(samples: int, enqueue: Callable[[float], object]) -> None:
    """One job every 50 ms, each with the time it was sent."""
    wait_for_go()
    for _ in range(samples + WARM_UP):
        enqueue(time.time())
        time.sleep(0.05)


def wait_for_go() -> None:
    print("ready", flush=True)
    if sys.stdin.readline() != "go\n":
        raise SystemExit("the benchmark is gone")


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)
