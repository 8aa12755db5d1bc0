"""What a million jobs cost those who ask for figures, and what deleting them costs those who claim.

Prints `ratio NAME VALUE goal <=2.0`: /health, /metrics, /queue/stats and /queue/history with a
million jobs, queued or ended, against a thousand; and claims while old jobs are deleted against
claims while they are not, in turns. On SQLite and on PostgreSQL, both as safe as they are by
default.
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contestants import rushes_any
from benchmarks.contestants.claim_cost import NUMBERS

import services
from running import Running
from rushes import Rushes, count_store, history_store, queue_report
from rushes.db.database import Database, Tx
from rushes.jobs.prune_store import Keep
from rushes.jobs.terms import Claimant
from rushes.retention import Retention

DATABASES = ("sqlite", "postgres")
PATHS = {
    "health": "/health",
    "metrics": "/metrics",
    "stats": "/api/v1/queue/stats",
    "history": "/api/v1/queue/history?hours=168",
}
PAGE = 50_000
LONG_AGO_MS = 100 * 86_400_000
CLAIMERS = 4
# A folder, and the URL of a database.
Place = tuple[Path, str]
# Each with an id and a place of its own; one in ten of those that have ended has failed.
QUEUED = """
    INSERT INTO jobs (id, kind, user_id, state, priority, lane, args, needs, created_at,
        queued_at, run_at, max_attempts)
    SELECT 'job_2' || (10000000 + n), kind, user_id, state, priority, lane, args, needs,
        created_at, queued_at + n / 100, run_at, max_attempts
    FROM jobs AS original, NUMBERS WHERE original.id = :id"""
ENDED = """
    INSERT INTO jobs (id, kind, user_id, state, priority, lane, args, needs, created_at,
        queued_at, run_at, started_at, completed_at, failed_at, error_code, attempt, claims,
        claim_epoch, max_attempts)
    SELECT 'job_1' || (10000000 + n), kind, user_id,
        CASE WHEN n - n / 10 * 10 = 0 THEN 'failed' ELSE 'completed' END,
        priority, lane, args, needs,
        created_at - :age, queued_at - :age, run_at - :age, run_at - :age,
        CASE WHEN n - n / 10 * 10 > 0 THEN run_at - :age + n / 100 END,
        CASE WHEN n - n / 10 * 10 = 0 THEN run_at - :age + n / 100 END,
        CASE WHEN n - n / 10 * 10 = 0 THEN 'broken' END, 1, 1, 1, max_attempts
    FROM jobs AS original, NUMBERS WHERE original.id = :id"""
ATTEMPTS = """
    INSERT INTO attempts (job_id, epoch, number, claim_id, worker_id, worker_name, started_at,
        ended_at, outcome, job_state)
    SELECT id, 1, 1, 'clm_' || id, 'wrk_gone', 'gone', started_at, started_at,
        CASE state WHEN 'failed' THEN 'failed' ELSE 'succeeded' END, state
    FROM jobs WHERE id > :first AND id <= :last"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long a turn is")
    parser.add_argument("--only", choices=["figures", "claims"])
    parser.add_argument("--database", choices=DATABASES)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="rushes-bench-", ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        directory.chmod(0o755)
        (directory / "server").mkdir()
        server = services.Postgres.start(directory / "server", durable=True)
        try:
            for name in DATABASES if options.database is None else (options.database,):
                if options.only != "claims":
                    for state in ("queued", "ended"):
                        with (
                            database(name, directory, server, f"few_{state}") as few,
                            database(name, directory, server, state) as many,
                        ):
                            figures(name, state, few, many, options.jobs)
                if options.only != "figures":
                    with database(name, directory, server, "claims") as (_, url):
                        claims(name, url, options.jobs, options.rounds, options.seconds)
        finally:
            server.stop()


@contextmanager
def database(name: str, directory: Path, server: services.Postgres, what: str) -> Iterator[Place]:
    folder = directory / f"{name}_{what}"
    folder.mkdir()
    if name == "sqlite":
        yield folder, f"sqlite:///{folder}/rushes.db"
    else:
        yield folder, server.create_database(f"bench_{what}")
        server.drop_database(f"bench_{what}")


def fill(db: Database, text: str, id: str, first: int, last: int, **params: int) -> None:
    """A page at a time, because a statement has a time limit."""
    text = text.replace("NUMBERS", NUMBERS[db.dialect.name])
    for begin in range(first, last + 1, PAGE):

        def page(tx: Tx, begin: int = begin) -> None:
            end = min(begin + PAGE - 1, last)
            tx.all(text, id=id, first=begin, last=end, **params)
            ids = {"first": f"job_1{10_000_000 + begin - 1}", "last": f"job_1{10_000_000 + end}"}
            tx.all(ATTEMPTS, **ids)

        db.run(page)
    count_store.repair(db)
    db.run(history_store.want_refill)
    while history_store.fill(db):
        pass
    # As autovacuum would; nothing analyzes an SQLite file by itself.
    if db.dialect.name == "postgresql":
        with db.read() as tx:
            tx.all("VACUUM ANALYZE")


# Figures


def figures(name: str, state: str, few: Place, many: Place, jobs: int) -> None:
    with serving(few, state, 1_000) as small, serving(many, state, jobs) as large:
        for what, path in PATHS.items():
            times = ask(small, large, path)
            print(f"figure {what}_{state}_{name}_ms {times[0] * 1000:.2f} {times[1] * 1000:.2f}")
            print(f"ratio {what}_{state}_{name} {times[1] / times[0]:.2f} goal <=2.0", flush=True)


@contextmanager
def serving(place: Place, state: str, jobs: int) -> Iterator[Running]:
    folder, url = place
    with Running(data_dir=folder, database_url=url, sweep_interval=10.0) as server:
        original = server.rushes.enqueue("noop").id
        server.rushes.chores.number_events()
        text, params = (QUEUED, {}) if state == "queued" else (ENDED, {"age": 0})
        fill(server.rushes.db, text, original, 1, jobs - 1, **params)
        yield server


def ask(small: Running, large: Running, path: str) -> tuple[float, float]:
    """In turns, so that whatever else the machine does is the same for both."""
    times: tuple[list[float], list[float]] = ([], [])
    with (
        small.client(base_url=small.url) as first,
        large.client(base_url=large.url) as second,
    ):
        for _ in range(100):
            for server, client, spent in (
                (small, first, times[0]),
                (large, second, times[1]),
            ):
                # Otherwise the answer of a moment ago is given again.
                server.services.totals = queue_report.Totals()
                began = time.perf_counter()
                assert client.get(path).status_code == 200
                spent.append(time.perf_counter() - began)
    return statistics.median(times[0][10:]), statistics.median(times[1][10:])


# Claims


@dataclass
class Turns:
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def percentile(self, percent: int) -> float:
        return sorted(self.latencies)[len(self.latencies) * percent // 100]

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds


def claims(name: str, url: str, jobs: int, rounds: int, seconds: float) -> None:
    keep = Keep(jobs_ms=90 * 86_400_000, housekeeping_ms=7 * 86_400_000)
    with rushes_any.open_app(url) as app:
        app.handler("noop")(lambda job: None)
        original = app.enqueue("noop").id
        app.chores.number_events()
        fill(app.db, QUEUED, original, 1, 200_000)
        fill(app.db, ENDED, original, 1, jobs, age=LONG_AGO_MS)
        alone, beside = Turns(), Turns()
        turn(app, Turns(), seconds / 4)
        gone = 0
        for _ in range(rounds):
            turn(app, alone, seconds)
            retention = Retention(app.db, keep, event_ms=10**12)
            deleted: list[int] = []
            thread = threading.Thread(
                target=lambda to=deleted, run=retention.run_once: to.append(run())
            )
            thread.start()
            turn(app, beside, seconds)
            retention.stop()
            thread.join()
            gone += sum(deleted)
    for what, of in (("alone", alone), ("while_deleting", beside)):
        print(
            f"figure claims_{what}_{name} p50 {of.percentile(50) * 1000:.2f} ms"
            f" p99 {of.percentile(99) * 1000:.2f} ms {of.per_second:.0f}/s"
        )
    pace = gone / beside.seconds
    print(f"figure deleted_{name} {gone} jobs, {pace:.0f}/s; {jobs} in {jobs / pace / 60:.0f} min")
    for percent in (50, 99):
        ratio = beside.percentile(percent) / alone.percentile(percent)
        print(f"ratio prune_claim_p{percent}_{name} {ratio:.2f} goal <=2.0")
    ratio = beside.per_second / alone.per_second
    print(f"ratio prune_claims_per_second_{name} {ratio:.2f} goal >=0.8", flush=True)


def turn(app: Rushes, into: Turns, seconds: float) -> None:
    """Several workers that take one job after the other, while events are numbered."""
    until = time.monotonic() + seconds
    found: list[list[float]] = []

    def work(number: int) -> None:
        me = Claimant(id=f"wrk_{number}", name="bench", kinds=("noop",))
        app.worker("bench", worker_id=me.id).step()
        mine: list[float] = []
        while time.monotonic() < until:
            began = time.perf_counter()
            [job] = app.db.run_step(lambda tx: app.queue.claim(tx, me, 1))
            mine.append(time.perf_counter() - began)
            done = [(job.claim, None)]
            app.db.run_step(lambda tx, done=done: app.queue.complete_many(tx, done))  # type: ignore[misc]
        found.append(mine)

    def number() -> None:
        while time.monotonic() < until:
            app.chores.number_events()
            time.sleep(0.5)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(CLAIMERS)]
    threads.append(threading.Thread(target=number))
    began = time.monotonic()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    into.seconds += time.monotonic() - began
    into.latencies += [each for mine in found for each in mine]


if __name__ == "__main__":
    main()
