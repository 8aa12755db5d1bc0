"""The history of the queue is kept, and is what counting the jobs that ended would say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from rushes import errors, events, history_store, queue_report
from rushes.history_store import HALF_HOUR_MS, KEPT_MS, MINUTE_MS, HistoryFilter
from rushes.jobs.job import ErrorClass
from rushes.jobs.prune_store import Keep
from rushes.queue_report import Bucket, History
from rushes.retention import Pace, Retention
from world import World

STEPS = 120
FILTERS = (
    HistoryFilter(),
    HistoryFilter(user_id=""),
    HistoryFilter(user_id="ada"),
    HistoryFilter(kind="noop"),
    HistoryFilter(user_id="ada", not_kinds=["webhook", "other"]),
)
ENDED = """
    SELECT id, kind, user_id, state, coalesce(completed_at, failed_at, canceled_at) AS at,
        started_at - queued_at AS waited, completed_at - started_at AS ran
    FROM jobs WHERE state IN ('completed','failed','canceled')"""


def asked(world: World, wanted: HistoryFilter, hours: int) -> History:
    with world.db.read() as tx:
        return queue_report.history(tx, wanted, hours)


def fill(world: World) -> int:
    steps = 0
    while history_store.fill(world.db):
        steps += 1
    return steps


def since(world: World) -> int:
    return int(world.rows("SELECT history_since AS since FROM event_head")[0]["since"])


@contextmanager
def an_older_server() -> Iterator[None]:
    """It numbers, and knows nothing of the history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_store, "add_up", lambda tx, head: None)
        yield


class Machine:
    """Jobs that come and end, and every one that ever did, whether it is there or not."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.ended: dict[str, dict[str, Any]] = {}
        self.worker = world.worker(kinds=("noop", "webhook"))
        self.seen: Counter[str] = Counter()
        fill(world)

    def step(self) -> None:
        rules: list[Callable[[], None]] = [self.end] * 8 + [self.wait] * 2 + [self.number] * 3
        rules += [self.number_as_older, self.fill_again, self.forget]
        rule = self.random.choice(rules)
        rule()
        self.seen[rule.__name__] += 1
        self.ended |= {row["id"]: row for row in self.world.rows(ENDED)}

    def end(self) -> None:
        kind, user_id = self.random.choice(["noop", "webhook"]), self.random.choice(["", "ada"])
        job_id = self.world.enqueue(kind, user_id=user_id)
        if self.random.random() < 0.3:
            self.world.cancel(job_id)
            return
        self.world.advance(self.random.choice([0, 0.5, 20]))
        for each in self.world.claim_all(self.worker):
            self.world.advance(self.random.choice([0, 1.7]))
            with suppress(errors.Conflict):
                if self.random.random() < 0.3:
                    self.world.fail(each.claim, ErrorClass.PERMANENT, "broken")
                else:
                    self.world.complete(each.claim)

    def wait(self) -> None:
        self.world.live(self.random.choice([5, 50]))
        self.world.advance(self.random.choice([0, 700, 9_000, 90_000]))

    def number(self) -> None:
        self.world.run(events.assign_positions)

    def number_as_older(self) -> None:
        with an_older_server():
            self.number()

    def fill_again(self) -> None:
        # What is not there any more is not filled in.
        self.ended = {row["id"]: row for row in self.world.rows(ENDED)}
        self.world.run(history_store.want_refill)
        self.check()
        fill(self.world)

    def forget(self) -> None:
        keep = Keep(jobs_ms=86_400_000, housekeeping_ms=3_600_000)
        pace = Pace(batch=50, rest=0)
        gone = Retention(self.world.db, keep, event_ms=10**12, pace=pace).run_once()
        self.seen["gone"] += gone

    def check(self) -> None:
        for wanted in FILTERS:
            for hours in (1, 15, 24, 168):
                told = asked(self.world, wanted, hours)
                assert told.items == self.counted(wanted, told), (wanted, hours)

    def counted(self, wanted: HistoryFilter, told: History) -> list[Bucket]:
        """Job by job."""
        width = told.bucket_seconds * 1000
        rows = [
            row
            for row in self.ended.values()
            if wanted.user_id in (None, row["user_id"])
            and wanted.kind in (None, row["kind"])
            and row["kind"] not in wanted.not_kinds
        ]
        return [
            bucket(each.at, [row for row in rows if each.at <= row["at"] < each.at + width])
            for each in told.items
        ]


def bucket(at: int, rows: list[dict[str, Any]]) -> Bucket:
    states = Counter(row["state"] for row in rows)
    return Bucket(
        at=at,
        completed=states["completed"],
        failed=states["failed"],
        canceled=states["canceled"],
        wait_seconds=mean([row["waited"] for row in rows]),
        run_seconds=mean([row["ran"] for row in rows]),
    )


def mean(times: list[int | None]) -> float | None:
    known = [each for each in times if each is not None]
    return round(sum(known) / len(known) / 1000, 3) if known else None


@pytest.mark.parametrize("seed", range(3))
def test_the_history_is_that_of_a_plain_count(world: World, seed: int) -> None:
    machine = Machine(world, seed)
    for step in range(STEPS):
        machine.step()
        if step % 5 == 0:
            machine.check()
    machine.check()
    assert all(machine.seen[name] for name in ("number_as_older", "fill_again", "gone"))
    world.live(60)
    world.check()


def end_one(world: World, **options: Any) -> str:
    job_id = world.enqueue(**options)
    world.complete(world.claim())
    return job_id


def completed(world: World, hours: int = 168) -> int:
    return sum(each.completed for each in asked(world, HistoryFilter(), hours).items)


def test_history_from_before_is_shown_and_filled_in_step_by_step(world: World) -> None:
    """As right after the migration."""
    for _ in range(3):
        end_one(world)
        world.advance(2 * 86_400)
    world.run(events.assign_positions)
    world.run(lambda tx: tx.all("DELETE FROM ended_counts"))
    world.run(history_store.want_refill)
    before = asked(world, HistoryFilter(), 168)
    assert sum(each.completed for each in before.items) == 3
    begins = [since(world)]
    while history_store.fill(world.db):
        begins.append(since(world))
        assert asked(world, HistoryFilter(), 168) == before
    # A step for each half-hour in which a job ended, and one for all before.
    assert len(begins) == 5
    assert begins == sorted(begins, reverse=True)
    world.run(lambda tx: tx.all("UPDATE jobs SET completed_at = 1"))
    assert asked(world, HistoryFilter(), 168) == before


def test_filling_in_is_of_one_moment(world: World) -> None:
    world.run(history_store.want_refill)
    end_one(world)
    world.run(events.assign_positions)
    end_one(world)
    with world.db.read() as tx:
        step = history_store._next_step(tx)
        assert step is not None
        begin, end = step
        found = tx.all(history_store._FOUND, begin=begin, end=end)
    # Between the count and its being written down.
    world.run(events.assign_positions)
    end_one(world)
    world.run(events.assign_positions)
    end_one(world)
    assert world.run(lambda tx: history_store._replace(tx, begin, end, found))
    assert completed(world) == 4
    # Another server's, that comes too late.
    assert not world.run(lambda tx: history_store._replace(tx, begin, end, found))
    world.run(events.assign_positions)
    fill(world)
    assert completed(world) == 4


def test_what_older_servers_have_numbered_and_forgotten_is_filled_in_again(world: World) -> None:
    world.chores.tick()
    end_one(world)
    with an_older_server():
        world.run(events.assign_positions)
    assert completed(world) == 1
    world.advance(3_600)
    world.run(lambda tx: events.prune(tx, keep_ms=1))
    world.run(events.assign_positions)
    assert since(world) == history_store.NEVER
    assert completed(world) == 1
    world.chores.tick()
    assert since(world) < history_store.NEVER
    assert completed(world) == 1


def test_a_job_stays_until_its_end_is_in_the_history(world: World) -> None:
    world.chores.tick()
    end_one(world)
    world.advance(2 * 86_400)
    soon = Keep(jobs_ms=1, housekeeping_ms=1)
    keeping = Retention(world.db, soon, event_ms=10**12, pace=Pace(batch=50, rest=0))
    with an_older_server():
        world.run(events.assign_positions)
    assert keeping.run_once() == 0
    world.run(events.assign_positions)
    assert keeping.run_once() == 1
    assert completed(world) == 1


def test_what_anybody_may_ask_for_is_kept() -> None:
    for hours in range(1, queue_report.LONGEST_HOURS + 1):
        width, count = queue_report._buckets(hours)
        base = history_store.base_of(width)
        assert width % base == 0
        assert width * count <= KEPT_MS[base]


def test_counts_that_nobody_can_ask_for_are_forgotten(world: World) -> None:
    world.chores.tick()
    for user_id in ("ada", "bob"):
        end_one(world, user_id=user_id)
    world.run(events.assign_positions)

    def kept() -> Counter[int]:
        Retention(world.db, Keep(), event_ms=10**12, pace=Pace(batch=1, rest=0)).run_once()
        return Counter(row["width"] for row in world.rows("SELECT width FROM ended_counts"))

    world.advance(15 * 3_600)
    assert kept() == {MINUTE_MS: 3, HALF_HOUR_MS: 3}
    world.advance(2 * 3_600)
    assert kept() == {HALF_HOUR_MS: 3}
    world.advance(145 * 3_600)
    assert completed(world) == 2
    assert kept() == {HALF_HOUR_MS: 3}
    world.advance(12 * 3_600)
    assert kept() == {}
