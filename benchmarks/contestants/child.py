"""A process of the benchmark: one contestant, one measurement, one line of JSON as the answer."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

from benchmarks.contestants.tally import Latencies, Tally, say


def main(name: str, action: str, url: str, jobs: int, seconds: float) -> None:
    contestant: Any = importlib.import_module(f"benchmarks.contestants.{name}")
    match action:
        case "prepare":
            contestant.prepare(url)
            say({})
        case "fill" | "enqueue_one_by_one" | "enqueue_in_batches":
            began = time.monotonic()
            spent = getattr(contestant, action)(url, jobs)
            say({"seconds": spent or time.monotonic() - began})
        case "write":
            say({"last_at": contestant.write(url, jobs)})
        case "drain":
            tally = Tally(jobs, seconds)
            extra = contestant.drain(url, tally)
            say(tally.report() | (extra or {}))
        case "serve":
            contestant.serve(url, Latencies(jobs))
        case "send":
            contestant.send(url, jobs)
            say({})
        case _:
            raise SystemExit(f"unknown action {action}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
