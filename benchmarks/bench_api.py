"""The HTTP edge: what a remote job costs, and how fast files go out.

Prints `figure remote_job_…` lines (claim, three progress reports, complete, over HTTP on SQLite)
and `ratio download_… VALUE goal >=0.9` against Starlette's own static files on the same server.
Both take turns; figures are medians.
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import hashlib
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx2
from starlette.staticfiles import StaticFiles

from running import ADMIN_TOKEN, Running
from rushes.jobs.job import NewJob
from rushes.protocol import Completion, Hello, Progress
from rushes.worker.remote import Remote
from web import library

MB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large-mb", type=int, default=256)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        Running(data_dir=Path(directory), poll_interval=2.0, sweep_interval=10.0) as server,
    ):
        remote_jobs(server, options.jobs)
        downloads(server, options.rounds, options.large_mb)


def remote_jobs(server: Running, count: int) -> None:
    """Client and server share this process, so the CPU figure is that of both."""
    with closing(Remote(server.url, server.worker_key())) as worker:
        worker.hello(Hello(kinds=["tiny"]))
        news = [NewJob(kind="tiny") for _ in range(count + 20)]
        server.rushes.enqueue_many(news)
        times: list[float] = []
        for number in range(count + 20):
            if number == 20:
                cpu = cpu_seconds()
            began = time.perf_counter()
            one_job(worker)
            times.append(time.perf_counter() - began)
        spent = cpu_seconds() - cpu
    times = sorted(times[20:])
    print(f"figure remote_job_p50_ms {statistics.median(times) * 1000:.2f}")
    print(f"figure remote_job_p99_ms {times[int(len(times) * 0.99)] * 1000:.2f}")
    print(f"figure remote_job_cpu_ms {spent / count * 1000:.2f}")


def one_job(worker: Remote) -> None:
    [job] = worker.claim(1)
    for progress in (0.25, 0.5, 0.75):
        worker.progress(Progress(claim=job.claim, progress=progress, stage="working"))
    worker.complete_all([Completion(job.claim)])


def downloads(server: Running, rounds: int, large_mb: int) -> None:
    owner = library.user_id(server.client())
    media_id = library.add(server, owner)
    large = os.urandom(MB) * large_mb
    segment = os.urandom(2 * MB)
    library.publish(server, media_id, {"large.bin": large, "seg.m4s": segment})
    static = server.settings.data_dir / "static"
    static.mkdir()
    (static / "large.bin").write_bytes(large)
    (static / "seg.m4s").write_bytes(segment)
    assert server.server.http is not None
    app = server.server.http.config.loaded_app
    mount(app, static)
    ours, peer = f"/api/v1/media/{media_id}/stream", "/static"
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    with httpx2.Client(base_url=server.url, headers=headers, timeout=60) as client:
        whole = hashlib.sha256(large).digest()
        assert hashlib.sha256(client.get(f"{ours}/large.bin").content).digest() == whole

        def ranges(base: str) -> Callable[[], None]:
            def run() -> None:
                for start in range(0, len(large), 8 * MB):
                    fetch(client, f"{base}/large.bin", start, start + 8 * MB - 1)

            return run

        def segments(base: str) -> Callable[[], None]:
            def run() -> None:
                for _ in range(60):
                    fetch(client, f"{base}/seg.m4s")

            return run

        def one(base: str) -> Callable[[], None]:
            return lambda: fetch(client, f"{base}/large.bin")

        for name, work in (("whole", one), ("ranges", ranges), ("segments", segments)):
            mine, theirs = turns(work(ours), work(peer), rounds)
            print(f"ratio download_{name} {theirs / mine:.2f} goal >=0.9")


def mount(app: object, directory: Path) -> None:
    """Beside our routes, on the same server, without the guard in between."""
    inner = app
    while not hasattr(inner, "mount"):
        inner = inner.app  # type: ignore[attr-defined]
    inner.mount("/static", StaticFiles(directory=directory))


def fetch(client: httpx2.Client, path: str, start: int | None = None, end: int = 0) -> None:
    headers = {} if start is None else {"Range": f"bytes={start}-{end}"}
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.is_success, answer.status_code
        for _ in answer.iter_raw(MB):
            pass


def turns(mine: Callable[[], None], theirs: Callable[[], None], rounds: int) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    mine()
    theirs()
    for _ in range(rounds):
        for spent, work in zip(times, (mine, theirs), strict=True):
            began = time.perf_counter()
            work()
            spent.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
