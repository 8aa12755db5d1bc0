"""The statements that a Rushes worker runs, as texts and parameters, for the raw loops to repeat.

They are recorded once, on the prepared database itself, and kept in a table of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest import mock

from benchmarks.contestants import rushes_any

from rushes import events
from rushes.db.database import Tx
from rushes.jobs.terms import Claimant
from rushes.protocol import Claim

Statement = tuple[str, dict[str, Any]]

TABLE = "CREATE TABLE recorded (verb text, sql text, params text)"
READ = "SELECT verb, sql, params FROM recorded"
NUMBER_EVERY_SECONDS = 0.5


def record(url: str) -> list[tuple[str, str, str]]:
    """One job through the queue's verbs; the rows of the table `recorded`."""
    with rushes_any.open_app(url) as app:
        app.handler("noop")(lambda job: None)
        app.worker("raw", worker_id="wrk_raw", batch=rushes_any.BATCH).step()
        me = Claimant(id="wrk_raw", name="raw", kinds=("noop",))
        app.enqueue("noop", {"n": 0})
        with _recording("claim") as claim:
            taken = app.db.run_step(lambda tx: app.queue.claim(tx, me, rushes_any.BATCH))
        results = [(Claim(each.job_id, each.claim_id), None) for each in taken]
        with _recording("complete") as complete:
            app.db.run_step(lambda tx: app.queue.complete_many(tx, results))
        with _recording("number") as number:
            app.db.run(events.assign_positions)

        def clear(tx: Tx) -> None:
            for table in ("attempts", "jobs", "events"):
                tx.all(f"DELETE FROM {table}")

        app.db.run(clear)
    return [*claim, *complete, *number]


def by_verb(rows: list[tuple[str, str, str]]) -> dict[str, list[Statement]]:
    statements: dict[str, list[Statement]] = {}
    for verb, sql, params in rows:
        statements.setdefault(verb, []).append((sql, json.loads(params)))
    return statements


def claim_ids(pid: int) -> Iterator[str]:
    """Growing, as those of Rushes, which matters to the index."""
    return (f"clm_{time.time_ns():016x}{pid:08x}{n:08x}" for n in count())


@contextmanager
def _recording(verb: str) -> Iterator[list[tuple[str, str, str]]]:
    rows: list[tuple[str, str, str]] = []
    execute = Tx._execute

    def note(tx: Tx, sql: str, params: dict[str, Any]) -> Any:
        rows.append((verb, tx.dialect.compile(sql), json.dumps(params)))
        return execute(tx, sql, params)

    with mock.patch.object(Tx, "_execute", note):
        yield rows
