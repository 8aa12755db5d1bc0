"""How many jobs there are is kept, and is what counting them would say."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from rushes import count_store, errors, events
from rushes.db.database import Tx
from rushes.jobs import invariants, read_store
from rushes.jobs.job import ErrorClass
from rushes.protocol import Claim
from world import World


def found(world: World) -> dict[str, int]:
    """By state, as everybody is told."""
    with world.db.read() as tx:
        return {row.state: row.count for row in read_store.totals(tx)}


def is_kept(world: World) -> bool:
    with world.db.read() as tx:
        return count_store.is_kept(tx)


def as_an_older_server(tx: Tx) -> None:
    """It does not tell what a job was, and numbers without adding up."""
    tx.all("UPDATE events SET job_kind = NULL, job_was = NULL WHERE pos IS NULL")


def test_every_way_through_the_queue_is_counted(world: World) -> None:
    parent = world.enqueue()
    child = world.enqueue(parent_id=parent)
    world.enqueue(user_id="ada")
    assert found(world) == {"blocked": 1, "queued": 2}
    claim = world.claim()
    world.run(events.assign_positions)
    assert found(world) == {"blocked": 1, "queued": 1, "processing": 1}
    world.complete(claim)
    assert found(world) == {"queued": 2, "completed": 1}
    world.run(lambda tx: world.queue.cancel(tx, child))
    world.fail(world.claim(), ErrorClass.PERMANENT, "broken")
    assert found(world) == {"completed": 1, "canceled": 1, "failed": 1}
    world.check()
    assert found(world) == {"completed": 1, "canceled": 1, "failed": 1}
    assert is_kept(world)


def test_what_an_older_server_wrote_is_counted_again(world: World) -> None:
    for _ in range(3):
        world.enqueue()
    world.run(events.assign_positions)
    world.fail(world.claim(), ErrorClass.PERMANENT, "broken")
    world.claim()
    world.run(as_an_older_server)
    world.run(events.assign_positions)
    assert not is_kept(world)
    expected = {"queued": 1, "processing": 1, "failed": 1}
    assert found(world) == expected
    # What comes in between is added to what was counted, whenever that is.
    world.enqueue()
    world.chores.tick()
    assert is_kept(world)
    assert found(world) == expected | {"queued": 2}
    world.enqueue()
    assert found(world) == expected | {"queued": 3}
    world.check()


def test_a_recount_is_of_one_moment(world: World) -> None:
    world.enqueue()
    world.run(events.assign_positions)
    world.run(count_store.want_recount)
    with world.db.read() as tx:
        counted = tx.all(count_store._COUNTED)
    # Between the count and its being written down.
    world.claim()
    world.enqueue()
    world.run(events.assign_positions)
    assert world.run(lambda tx: count_store._replace(tx, counted))
    world.check()
    assert found(world) == {"processing": 1, "queued": 1}
    # Another server's, that comes too late.
    assert not world.run(lambda tx: count_store._replace(tx, counted))
    world.check()


def test_repair_makes_the_counts_those_of_the_rows(world: World) -> None:
    world.enqueue()
    world.complete(world.claim())
    world.enqueue()
    world.enqueue()
    world.fail(world.claim(), ErrorClass.PERMANENT, "broken")
    world.check()

    def spoil(tx: Tx) -> None:
        for table in ("job_counts", "live_counts", "failure_counts"):
            tx.all(f"UPDATE {table} SET count = count + 7")

    world.run(spoil)
    with world.db.read() as tx:
        assert {each.invariant for each in invariants.check(tx)} == {"I28", "I29"}
    count_store.repair(world.db)
    world.check()
    assert found(world) == {"completed": 1, "failed": 1, "queued": 1}


def test_the_oldest_queued_job_is_known_by_kind_and_user(world: World) -> None:
    world.enqueue(user_id="ada")
    world.advance(5)
    world.enqueue(user_id="bob", priority="high")
    world.enqueue("other", user_id="bob")
    with world.db.read() as tx:
        start = read_store.now(tx) - 5_000
        of_all = {(row.kind, row.user_id): row for row in read_store.stats(tx)}
        [noop, other] = read_store.totals(tx)
        [of_ada] = read_store.stats(tx, "ada")
    assert of_all["noop", "ada"].oldest_queued_at == start
    assert of_all["noop", "bob"].oldest_queued_at == start + 5_000
    assert (noop.oldest_queued_at, other.oldest_queued_at) == (start, start + 5_000)
    assert of_ada.oldest_queued_at == start


def test_failures_are_grouped_by_what_they_failed_of(world: World) -> None:
    for code in ("broken", "broken", "missing"):
        world.enqueue(user_id="ada")
        world.fail(world.claim(), ErrorClass.PERMANENT, code)
    for _ in range(2):
        with world.db.read() as tx:
            groups = read_store.failure_groups(tx, "ada")
            assert read_store.failure_groups(tx, "bob") == []
        assert [(row.error_code, row.count) for row in groups] == [
            ("broken", 2),
            ("missing", 1),
        ]
        assert {row.example for row in groups} == {"boom"}
        world.run(events.assign_positions)


def end(world: World, claim: Claim, *, well: bool) -> None:
    if well:
        world.complete(claim)
    else:
        world.fail(claim, ErrorClass.PERMANENT, "broken")


@pytest.mark.parametrize("seed", range(2))
def test_counts_are_exact_whoever_else_is_at_it(world: World, seed: int) -> None:
    """Servers that number, recount, enqueue, work and cancel at once."""

    def produce(n: int) -> None:
        for _ in range(15):
            made = [world.enqueue(user_id=f"u{n}") for _ in range(3)]
            world.run(partial(world.queue.cancel_many, job_ids=made[:1]))

    def work(n: int) -> None:
        worker = world.worker(name=f"w{n}")
        for turn in range(25):
            for each in world.claim_all(worker):
                with suppress(errors.Conflict):
                    end(world, each.claim, well=turn % 5 != seed)

    def number(n: int) -> None:
        for turn in range(20):
            world.run(events.assign_positions)
            if turn % 5 == seed:
                world.run(count_store.want_recount)
                count_store.recount_if_due(world.db)

    tasks = [produce, produce, work, work, number, number]
    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(task, n) for n, task in enumerate(tasks)]:
            future.result()
    count_store.recount_if_due(world.db)
    world.check()
    with world.db.read() as tx:
        states = Counter(row["state"] for row in tx.all("SELECT state FROM jobs"))
    assert found(world) == dict(states)


def test_a_recount_that_takes_too_long_keeps_no_chore_from_its_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.enqueue()
    world.run(count_store.want_recount)

    def slow(db: object) -> bool:
        raise errors.DatabaseBusy("the database did not answer in time")

    monkeypatch.setattr(count_store, "recount_if_due", slow)
    world.chores.tick()
    with world.db.read() as tx:
        assert events.head(tx) == 1
    assert found(world) == {"queued": 1}
