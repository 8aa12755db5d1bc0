"""What a claim of one job costs Rushes while few or very many are waiting. Nothing is taken."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.contestants import rushes_any

from rushes import Rushes
from rushes.db.database import Tx
from rushes.jobs.terms import Claimant

CLAIMS = 300
PAGE = 100_000
ME = Claimant(id="wrk_claims", name="claims", kinds=("noop",))
# Copies of the one job that was enqueued, each with an id and a place of its own.
COPY = """
    INSERT INTO jobs (id, kind, user_id, state, priority, lane, args, needs, created_at,
        queued_at, run_at, max_attempts)
    SELECT 'job_copy_' || (10000000 + n), kind, user_id, state, priority, lane, args, needs,
        created_at, queued_at + n / 100, run_at, max_attempts
    FROM jobs AS original, NUMBERS WHERE original.id = :id"""
NUMBERS = {
    "postgresql": "generate_series(CAST(:first AS bigint), :last) AS numbers(n)",
    "sqlite": """(WITH RECURSIVE numbers(n) AS (SELECT :first UNION ALL
        SELECT n + 1 FROM numbers WHERE n < :last) SELECT n FROM numbers) AS numbers""",
}


class Undone(Exception):
    pass


def medians(url: str, backlogs: Sequence[int]) -> dict[int, float]:
    """Seconds of a claim with so many jobs waiting, from few to many."""
    with rushes_any.open_app(url) as app:
        app.handler("noop")(lambda job: None)
        app.worker("claims", worker_id=ME.id).step()
        original = app.enqueue("noop").id
        found, waiting = {}, 1
        for backlog in backlogs:
            _copy(app, original, waiting, backlog - 1)
            waiting = backlog
            found[backlog] = _median(app)
        return found


def _copy(app: Rushes, id: str, first: int, last: int) -> None:
    text = COPY.replace("NUMBERS", NUMBERS[app.db.dialect.name])
    # A page at a time, because a statement has a time limit.
    for begin in range(first, last + 1, PAGE):
        numbers = {"first": begin, "last": min(begin + PAGE - 1, last)}
        app.db.run(lambda tx, numbers=numbers: tx.all(text, id=id, **numbers))  # type: ignore[misc]
    # As autovacuum would; nothing analyzes an SQLite file by itself.
    if app.db.dialect.name == "postgresql":
        with app.db.read() as tx:
            tx.all("VACUUM ANALYZE")


def _median(app: Rushes) -> float:
    return statistics.median([_claim(app) for _ in range(CLAIMS)])


def _claim(app: Rushes) -> float:
    seconds = 0.0

    def claim(tx: Tx) -> None:
        nonlocal seconds
        began = time.perf_counter()
        taken = app.queue.claim(tx, ME, 1)
        seconds = time.perf_counter() - began
        if len(taken) != 1:
            raise RuntimeError("nothing to claim")
        raise Undone

    with suppress(Undone):
        app.db.run(claim)
    return seconds
