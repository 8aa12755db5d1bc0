"""Whole worker processes are killed and paused at random, and nothing is lost or done twice.

RUSHES_TEST_CHAOS_JOBS, _SECONDS (of faults) and _SEED make a longer soak of it. A failed run prints
its seed and leaves the histories of all processes behind.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import services
from chaos import chaos_worker, history
from chaos.nemesis import Client, Crew, Nemesis
from rushes.app import Rushes
from rushes.jobs import invariants, replay

JOBS = int(os.environ.get("RUSHES_TEST_CHAOS_JOBS") or 0)
SECONDS = float(os.environ.get("RUSHES_TEST_CHAOS_SECONDS") or 0)
SEED = os.environ.get("RUSHES_TEST_CHAOS_SEED") or str(random.SystemRandom().randrange(10**9))
SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How hard a run is, and how much of it must have happened for the run to count. Within
    `quiet_seconds` of the last fault every job must have ended."""

    jobs: int
    seconds: float
    quiet_seconds: float = 90
    workers: int
    restarts: int = 0
    mutant: str = ""
    slow: float = 0
    at_least: dict[str, int]


POSTGRES = Plan(
    jobs=1000,
    seconds=16,
    workers=8,
    restarts=3,
    at_least={
        "kills": 12,
        "pauses": 12,
        "database restarts": 2,
        "attempts lost": 12,
        "stale reports refused": 5,
        "of them after a later claim": 2,
        "stale renewals refused": 2,
        "sweepers": 2,
        "twins refused": 5,
        "jobs canceled": 3,
        "audits": 2,
    },
)
SQLITE = Plan(
    jobs=700,
    seconds=16,
    workers=6,
    at_least={
        "kills": 12,
        "pauses": 12,
        "attempts lost": 12,
        "stale reports refused": 2,
        "sweepers": 2,
        "twins refused": 5,
        "jobs canceled": 3,
        "audits": 2,
    },
)
# So slow that a rude worker loses the last jobs of its batch before it comes to them.
UNFENCED = Plan(jobs=50, seconds=5, workers=6, mutant="no_fence", slow=0.5, at_least={})
TIMEOUT_SECONDS = 300 + 2 * SECONDS + 0.2 * JOBS


@pytest.mark.chaos
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_postgres_loses_nothing_and_completes_nothing_twice() -> None:
    # Not tmp_path: as root that lies below a 0700 directory, where PostgreSQL cannot go.
    with tempfile.TemporaryDirectory(prefix="rushes-chaos-pg-") as data:
        server = services.Postgres.start(Path(data), durable=True)
        try:
            _run_and_check(server.url(), POSTGRES, restart=lambda: _restart(server))
        finally:
            server.stop()


@pytest.mark.chaos
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_sqlite_loses_nothing_and_completes_nothing_twice(tmp_path: Path) -> None:
    _run_and_check(f"sqlite:///{tmp_path}/rushes.db", SQLITE)


@pytest.mark.chaos
def test_without_the_fence_jobs_complete_twice_and_the_checker_notices(tmp_path: Path) -> None:
    with _evidence() as directory:
        _, problems = _run(f"sqlite:///{tmp_path}/rushes.db", UNFENCED, directory)
        caught = [each for each in problems if "were told 'completed'" in each]
        sys.stdout.write(f"{len(caught)} jobs, {len(problems)} problems\n")
        assert caught, problems


def _run_and_check(url: str, plan: Plan, restart: Callable[[], None] | None = None) -> None:
    with _evidence() as directory:
        counted, problems = _run(url, _scaled(plan), directory, restart)
        lines = [f"{name}: {number}" for name, number in sorted(counted.items())]
        sys.stdout.write("\n".join(lines) + "\n")
        assert not problems, "\n".join([f"{len(problems)} problems:", *problems[:SHOWN]])
        missed = [name for name, number in plan.at_least.items() if counted[name] < number]
        assert not missed, f"too little happened for this run to prove anything: {missed}"
        assert counted["jobs completed"] > 0.8 * counted["jobs"]


def _scaled(plan: Plan) -> Plan:
    """More jobs, of the same trouble, for a soak."""
    jobs = JOBS or plan.jobs
    seconds = SECONDS or plan.seconds * jobs / plan.jobs
    return replace(
        plan,
        jobs=jobs,
        seconds=seconds,
        quiet_seconds=plan.quiet_seconds * max(1, jobs / plan.jobs),
        restarts=round(plan.restarts * max(1, seconds / plan.seconds)),
    )


def _run(
    url: str, plan: Plan, directory: Path, restart: Callable[[], None] | None = None
) -> tuple[Counter[str], list[str]]:
    Rushes(settings=chaos_worker.settings(url)).close()
    crew = Crew(url, directory, plan.workers, mutant=plan.mutant, slow=plan.slow)
    try:
        nemesis = Nemesis(crew, SEED, restart=restart, restarts=plan.restarts)
        client = Client(url, directory, SEED, jobs=plan.jobs, seconds=plan.seconds)
        begun_at = time.monotonic()
        client.start()
        nemesis.run(plan.seconds)
        quiet_at = time.monotonic()
        client.join(plan.quiet_seconds)
        with Rushes(settings=chaos_worker.settings(url), migrate=False) as app:
            _wait_until_quiet(app, quiet_at + plan.quiet_seconds)
            ended_at = time.monotonic()
            crew.look()
            crew.close()
            app.chores.number_events()
            record = history.Record(app.db, sorted(directory.glob("*.jsonl")))
            record.save(directory / "tables")
            with app.db.read() as tx:
                violations = invariants.check(tx)
                impossible = list(replay.impossible(tx, replay.Replay()))
    finally:
        crew.close()
    counted = history.count(record) + nemesis.faults
    counted["jobs"] = len(record.jobs)
    counted["audits"] = client.audits
    counted["seconds of faults"] = int(quiet_at - begun_at)
    counted["seconds until quiet"] = int(ended_at - quiet_at)
    problems = [
        *client.problems,
        *(["the client has not come to an end"] if client.is_alive() else []),
        *(f"a worker died by itself: {each}" for each in crew.deaths),
        *map(str, violations),
        *map(str, impossible),
        *history.check(record, lambda n, number: chaos_worker.fate(n, number).outcome),
    ]
    return counted, problems


def _wait_until_quiet(app: Rushes, deadline: float) -> None:
    """What is not over then, the checker reports."""
    while time.monotonic() < deadline:
        with app.db.read() as tx:
            row = tx.one(
                "SELECT count(*) AS live FROM jobs"
                " WHERE state IN ('blocked', 'queued', 'processing')"
            )
        if row == {"live": 0}:
            return
        time.sleep(0.1)


def _restart(server: services.Postgres) -> None:
    """Clients that hammer a closed port can connect to themselves, and so keep it busy."""
    for _ in range(3):
        try:
            server.restart()
        except services.StartFailed as error:
            failure = error
        else:
            return
    raise failure


@contextmanager
def _evidence() -> Iterator[Path]:
    """A directory for the histories; it stays when something is wrong."""
    directory = Path(tempfile.mkdtemp(prefix="rushes-chaos-"))
    sys.stdout.write(f"seed {SEED}, histories in {directory}\n")
    yield directory
    shutil.rmtree(directory)
