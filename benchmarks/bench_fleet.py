"""A fleet that waits: what many remote workers cost one server on PostgreSQL, and whom they delay.

The workers are played by another process, over real connections: each waits for a job in a long
poll and sends heartbeats besides, as workers of protocol 1.0 do (1.1 needs none). One worker is
measured first, and all the others against it; each figure is one line, `ratio NAME VALUE goal <=…`:

  fleet_idle_tx_per_s          transactions a second while all of them wait
  fleet_extra_tx_per_job       transactions a job costs more than with one worker
  fleet_pickup_p50_vs_one      enqueued → in a worker's hands, over that of one worker
  fleet_pickup_p99_ms          the same, in milliseconds
  fleet_heartbeat_p99_ms       a heartbeat and its answer
  fleet_viewer_p50_vs_idle     a viewer's file meanwhile, over that without workers
  fleet_cpu_ms_per_job         of the server, beyond what waiting costs
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg

from running import Process, settings_for
from rushes.accounts import access
from rushes.app import Rushes
from rushes.jobs.job import NewJob
from rushes.kinds import Grant
from services import Postgres
from web import library

KIND = "tiny"
HEARTBEAT_SECONDS = 15.0
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--play", help=argparse.SUPPRESS)
    options = parser.parse_args()
    # A pause of whoever measures would be taken for one of the server.
    gc.disable()
    if options.play:
        asyncio.run(play(options.play))
        return
    with tempfile.TemporaryDirectory() as directory:
        # As root, PostgreSQL runs as somebody else.
        Path(directory).chmod(0o755)
        postgres = Postgres.start(Path(directory), durable=True)
        try:
            measure(postgres, Path(directory) / "server", options)
        finally:
            postgres.stop()


def measure(postgres: Postgres, place: Path, options: Any) -> None:
    given = settings_for(
        data_dir=place,
        database_url=postgres.create_database("fleet"),
        heartbeat_interval=HEARTBEAT_SECONDS,
        poll_interval=2.0,
        sweep_interval=10.0,
        # What is watched is published by hand.
        transcode_workers=0,
    )
    with Process(given) as server, Rushes(settings=given, migrate=False) as rushes:
        bench = Bench(server, rushes, postgres)
        viewer = Viewer(server, rushes)
        quiet = viewer.median(options.seconds / 4)
        one = bench.run(1, options.rate, options.seconds / 2, viewer)
        many = bench.run(options.workers, options.rate, options.seconds, viewer)
        print(f"figure fleet_idle_tx_per_s_of_one {one.idle_tx:.1f}")
        ratio("fleet_idle_tx_per_s", many.idle_tx, "<=10")
        print(f"figure fleet_tx_per_job {many.tx_per_job:.1f} against {one.tx_per_job:.1f}")
        ratio("fleet_extra_tx_per_job", many.tx_per_job - one.tx_per_job, "<=5")
        print(f"figure fleet_pickup_p50_ms {many.p50:.1f} against {one.p50:.1f}")
        ratio("fleet_pickup_p50_vs_one", many.p50 / one.p50, "<=2.0")
        ratio("fleet_pickup_p99_ms", many.p99, "<=100")
        ratio("fleet_heartbeat_p99_ms", many.heartbeat_p99, "<=100")
        print(f"figure fleet_viewer_p50_ms {many.viewer:.1f} against {quiet:.1f}")
        ratio("fleet_viewer_p50_vs_idle", many.viewer / quiet, "<=1.5")
        print(f"figure fleet_idle_cpu {many.idle_cpu:.3f} of a core, {one.idle_cpu:.3f} for one")
        ratio("fleet_cpu_ms_per_job", many.cpu_per_job, "<=20")


@dataclass
class Costs:
    idle_tx: float
    idle_cpu: float
    tx_per_job: float
    cpu_per_job: float
    p50: float
    p99: float
    heartbeat_p99: float
    viewer: float


class Bench:
    def __init__(self, server: Process, rushes: Rushes, postgres: Postgres) -> None:
        self._server = server
        self._rushes = rushes
        address = f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres"
        self._connection = psycopg.connect(address, autocommit=True)

    def run(self, workers: int, rate: float, seconds: float, viewer: Viewer) -> Costs:
        with self._fleet(workers) as fleet:
            idle = self._spent(seconds)
            began = self._totals()
            count = self._enqueue(rate, seconds)
            meanwhile = viewer.median(0.0, times=20)
            said = fleet.finish(count)
            busy = self._since(began)
        pickups, beats = sorted(said["pickups"]), sorted(said["heartbeats"])
        assert len(pickups) == count, f"{len(pickups)} of {count} jobs were done"
        return Costs(
            idle_tx=idle.tx / idle.seconds,
            idle_cpu=idle.cpu / idle.seconds,
            tx_per_job=(busy.tx - idle.tx / idle.seconds * busy.seconds) / count,
            cpu_per_job=(busy.cpu - idle.cpu / idle.seconds * busy.seconds) / count * 1000,
            p50=statistics.median(pickups) * 1000,
            p99=percentile(pickups) * 1000,
            heartbeat_p99=percentile(beats) * 1000,
            viewer=meanwhile,
        )

    @contextmanager
    def _fleet(self, workers: int) -> Iterator[Fleet]:
        def register(tx: Any) -> list[str]:
            made = (access.register_worker(tx, f"w{n}", Grant()) for n in range(workers))
            return [key.text for _, key in made]

        fleet = Fleet(self._server.port, self._rushes.db.run(register))
        try:
            fleet.wait_until_ready()
            yield fleet
        finally:
            fleet.close()

    def _enqueue(self, rate: float, seconds: float) -> int:
        count = int(rate * seconds)
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            self._rushes.enqueue_many([NewJob(kind=KIND, args={"at": time.time()})])
        return count

    def _spent(self, seconds: float) -> Totals:
        began = self._totals()
        time.sleep(seconds)
        return self._since(began)

    def _since(self, before: Totals) -> Totals:
        now = self._totals()
        return Totals(now.tx - before.tx, now.cpu - before.cpu, now.seconds - before.seconds)

    def _totals(self) -> Totals:
        self._connection.execute("SELECT pg_stat_clear_snapshot()")
        row = self._connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'fleet'"
        ).fetchone()
        assert row is not None
        fields = Path(f"/proc/{self._server.process.pid}/stat").read_text().rsplit(")", 1)[1]
        user, system = fields.split()[11:13]
        return Totals(float(row[0]), (int(user) + int(system)) / TICKS, time.monotonic())


@dataclass(frozen=True)
class Totals:
    tx: float
    cpu: float
    seconds: float


class Viewer:
    """Somebody who watches: one small segment after the other."""

    def __init__(self, server: Process, rushes: Rushes) -> None:
        self._server = server
        here: Any = SimpleNamespace(rushes=rushes)
        with server.client() as admin:
            media_id = library.add(here, library.user_id(admin))
        library.publish(here, media_id, {"seg.m4s": os.urandom(256 * 1024)})
        self._path = f"/media/{media_id}/stream/seg.m4s"

    def median(self, seconds: float, times: int = 50) -> float:
        """In milliseconds; the reads are spread over so many seconds."""
        spent = []
        with self._server.client() as client:
            for _ in range(times):
                began = time.perf_counter()
                assert client.get(self._path).is_success
                spent.append(time.perf_counter() - began)
                time.sleep(seconds / times)
        return statistics.median(spent) * 1000


class Fleet:
    """The process that plays the workers."""

    def __init__(self, port: int, keys: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--play", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say({"keys": keys})

    def wait_until_ready(self) -> None:
        assert self._hear() == {"ready": True}

    def finish(self, jobs: int) -> dict[str, list[float]]:
        """When so many jobs are done: what was measured."""
        self._say({"jobs": jobs})
        measured: dict[str, list[float]] = self._hear()
        return measured

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _say(self, what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


# The other process


@dataclass
class Play:
    port: int
    pickups: list[float] = field(default_factory=list)
    heartbeats: list[float] = field(default_factory=list)
    beats: list[asyncio.Task[None]] = field(default_factory=list)
    waiting: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


async def play(port: str) -> None:
    stage = Play(int(port))
    keys = json.loads(await asyncio.to_thread(sys.stdin.readline))["keys"]
    tasks = []
    for number, key in enumerate(keys):
        tasks.append(asyncio.create_task(work(stage, key, number)))
        tasks[-1].add_done_callback(end_if_failed)
        # Not all at once, as no fleet starts.
        await asyncio.sleep(0.01)
    await reached(stage, lambda: stage.waiting == len(keys))
    # Until every one has sent its first heartbeats.
    await asyncio.sleep(HEARTBEAT_SECONDS + 2)
    stage.heartbeats.clear()
    print(json.dumps({"ready": True}), flush=True)
    jobs = json.loads(await asyncio.to_thread(sys.stdin.readline))["jobs"]
    await reached(stage, lambda: len(stage.pickups) >= jobs)
    print(
        json.dumps({"pickups": stage.pickups, "heartbeats": stage.heartbeats or [0.0]}), flush=True
    )


def end_if_failed(task: asyncio.Task[None]) -> None:
    """A worker that is gone would be waited for without end."""
    if not task.cancelled() and (error := task.exception()):
        traceback.print_exception(error)
        os._exit(1)


async def reached(stage: Play, is_so: Any) -> None:
    while not is_so():
        stage.changed.clear()
        await stage.changed.wait()


async def work(stage: Play, key: str, number: int) -> None:
    boot_id = f"boot_{number:032x}"
    talk = await Talk.open(stage.port, key)
    await talk.call("hello", {"kinds": [KIND], "boot_id": boot_id})
    # Nobody else holds it, and a task that nobody holds may end at any time.
    stage.beats.append(asyncio.create_task(beat(stage, key, number)))
    stage.beats[-1].add_done_callback(end_if_failed)
    first = True
    asked = 0
    while True:
        if first:
            first = False
            stage.waiting += 1
            stage.changed.set()
        asked += 1
        request = f"req_{number:016x}{asked:016x}"
        body = {"wait_seconds": 30, "request_id": request, "boot_id": boot_id}
        for job in (await talk.call("claim", body))["jobs"]:
            stage.pickups.append(time.time() - job["args"]["at"])
            claim = {"job_id": job["job_id"], "claim_id": job["claim_id"]}
            await talk.call("complete", claim)
            stage.changed.set()


async def beat(stage: Play, key: str, number: int) -> None:
    await asyncio.sleep(HEARTBEAT_SECONDS * (number % 100) / 100)
    while True:
        began = time.perf_counter()
        # A server keeps no connection open for as long as heartbeats are apart.
        talk = await Talk.open(stage.port, key)
        await talk.call("heartbeat", {"claims": []})
        stage.heartbeats.append(time.perf_counter() - began)
        talk.close()
        await asyncio.sleep(HEARTBEAT_SECONDS)


class Talk:
    """Requests over one connection, with as little of a client as will do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str):
        self._reader, self._writer, self._key = reader, writer, key

    @classmethod
    async def open(cls, port: int, key: str) -> Talk:
        return cls(*await asyncio.open_connection("127.0.0.1", port), key)

    def close(self) -> None:
        self._writer.close()

    async def call(self, verb: str, body: Any) -> Any:
        content = json.dumps(body).encode()
        self._writer.write(
            f"POST /api/v1/worker/{verb} HTTP/1.1\r\nHost: fleet\r\n"
            f"Authorization: Bearer {self._key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        answer = await self._reader.readexactly(length)
        assert " 200 " in head.split("\r\n")[0] + " ", (verb, head, answer)
        return json.loads(answer)


def percentile(values: Sequence[float], share: float = 0.99) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def ratio(name: str, value: float, goal: str) -> None:
    print(f"ratio {name} {value:.2f} goal {goal}", flush=True)


if __name__ == "__main__":
    main()
