"""Random histories of jobs that come, end, are retried and deleted: the kept counts are right after
every step, whoever has numbered, recounted or written as an older server meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from rushes import count_store, errors, events
from rushes.jobs import invariants, read_store
from rushes.jobs.job import ErrorClass
from rushes.jobs.prune_store import Keep
from rushes.protocol import Claim
from rushes.retention import Pace, Retention
from world import World

T = TypeVar("T")
STEPS = 200
KEEP = Keep(jobs_ms=3_600_000, housekeeping_ms=600_000)
# A run that has not seen all of these has not tested much.
SEEN = {"cancel", "complete", "deleted", "divide", "fail", "recounted", "release", "retry"}
REAL = """
    SELECT state, CAST(sum(number) AS bigint) AS number FROM (
      SELECT state, 1 AS number FROM jobs
      UNION ALL SELECT state, pruned FROM job_counts) AS every
    GROUP BY state HAVING sum(number) > 0"""


class History:
    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.jobs = [world.enqueue()]
        self.held: list[Claim] = []
        self.worker = world.worker(kinds=("noop", "webhook"))

    def step(self) -> None:
        rules = [self.enqueue] * 4 + [self.claim] * 2 + [self.report] * 5 + [self.by_people] * 3
        rules += [self.wait, self.number, self.older_server, self.recount, self.forget, self.forget]
        self.random.choice(rules)()

    def enqueue(self) -> None:
        parent = self.random.choice([None, None, *self.jobs[-3:]])
        with suppress(errors.RushesError):
            kind, user = self.random.choice(["noop", "webhook"]), self.random.choice("ab")
            self.jobs.append(self.world.enqueue(kind, user_id=user, parent_id=parent))

    def claim(self) -> None:
        limit = self.random.randint(1, 3)
        self.held += [each.claim for each in self.world.claim_all(self.worker, limit=limit)]

    def report(self) -> None:
        if not self.held:
            self.claim()
        if not self.held:
            return
        claim = self.held.pop(self.random.randrange(len(self.held)))
        reports: dict[str, Callable[[Claim], object]] = {
            "complete": self.world.complete,
            "fail": lambda held: self.world.fail(held, ErrorClass.PERMANENT, "broken"),
            "again": lambda held: self.world.fail(held, ErrorClass.TRANSIENT, "busy"),
            "release": self.world.release,
            "divide": self.world.divide,
        }
        self._try(self.random.choice(["complete", *reports]), claim, reports)

    def by_people(self) -> None:
        verbs: dict[str, Callable[[str], object]] = {
            "cancel": self.world.cancel,
            "retry": lambda job_id: self.jobs.append(self.world.retry(job_id)),
        }
        self._try(self.random.choice([*verbs]), self.random.choice(self.jobs[-8:]), verbs)

    def _try(self, name: str, of: T, verbs: dict[str, Callable[[T], object]]) -> None:
        with suppress(errors.RushesError):
            verbs[name](of)
            self.seen[name] += 1

    def wait(self) -> None:
        self.world.advance(self.random.choice([60, 1_200]))
        self.world.chores.tick()

    def number(self) -> None:
        self.world.run(events.assign_positions)

    def older_server(self) -> None:
        untold = "UPDATE events SET job_kind = NULL, job_was = NULL WHERE pos IS NULL"
        self.world.run(lambda tx: tx.all(untold))
        self.number()

    def recount(self) -> None:
        self.seen["recounted"] += count_store.recount_if_due(self.world.db)

    def forget(self) -> None:
        self.world.advance(self.random.choice([0, 7_200]))
        if self.random.random() < 0.7:
            self.number()
            self.recount()
        keeping = Retention(self.world.db, KEEP, event_ms=7_200_000, pace=Pace(batch=50, rest=0))
        self.seen["deleted"] += keeping.run_once()

    def check(self) -> None:
        with self.world.db.read() as tx:
            for name in ("I2", "I28", "I29"):
                assert tx.all(invariants.INVARIANTS[name][1]) == []
            told: Counter[str] = Counter()
            for row in read_store.totals(tx):
                told[row.state] += row.count
            assert told == {row["state"]: row["number"] for row in tx.all(REAL)}


@pytest.mark.parametrize("seed", range(2))
def test_kept_counts_are_those_of_the_rows(world: World, seed: int) -> None:
    history = History(world, seed)
    for _ in range(STEPS):
        history.step()
        history.check()
    assert {name for name in SEEN if not history.seen[name]} == set(), history.seen
    world.live(300)
    world.check()
