"""The claim walks its partial index on both databases, however long the backlog is."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest

import plans
from rushes import count_store, events, history_store, queue_report
from rushes.history_store import HistoryFilter
from rushes.jobs import limit_store, read_store
from rushes.jobs.job import ErrorClass, NewJob
from rushes.jobs.policy import Policy
from rushes.jobs.read_store import JobFilter
from rushes.protocol import Claim
from world import World

LIMITS = {"user:*": 1, "kind:noop": 500, "engine:*": 2}


@pytest.fixture(params=["auto", "fifo", "fair", "one_per_user", "limits"])
def claimed(
    world: World, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> list[tuple[str, str]]:
    """What the database means to do for each statement of one claim."""
    news = [NewJob(kind="noop", user_id=f"u{n % 7}") for n in range(3_000)]
    world.run(lambda tx: world.queue.enqueue_many(tx, news))
    if request.param in list(Policy):
        world.set_terms(replace(world.terms, policy=Policy(request.param)))
    for key, most in LIMITS.items() if request.param == "limits" else ():
        world.run(partial(limit_store.set_limit, key=key, most=most))
    with world.db.begin() as tx:
        tx.all("ANALYZE")
    most_per_user = 1 if request.param == "one_per_user" else None
    worker = replace(world.worker(), most_per_user=most_per_user)
    world.claim_all(worker)
    found = plans.collect(
        world, monkeypatch, lambda sql: "jobs" in sql and "INSERT" not in sql.split("(")[0]
    )
    assert world.claim_all(worker)
    return found


def test_looking_and_claiming_use_the_index_of_queued_jobs(
    claimed: list[tuple[str, str]],
) -> None:
    looking = [plan for sql, plan in claimed if "RECURSIVE" in sql]
    claiming = [plan for sql, plan in claimed if "picked" in sql]
    # The second time it is known how to look.
    assert len(looking) == len(claiming) == 1
    for plan in looking + claiming:
        assert "jobs_queued" in plan
        assert "Seq Scan on jobs" not in plan
        assert not re.search(r"SCAN jobs(?! USING INDEX jobs_processing)", plan)
        assert "jobs_by_user" not in plan


def test_claiming_does_not_sort_the_backlog(claimed: list[tuple[str, str]]) -> None:
    [text] = [plan for sql, plan in claimed if "picked" in sql]
    before_lock = text.split("LockRows")[-1].split("CTE")[0] if "LockRows" in text else ""
    # The few that are under way may be sorted.
    before_lock = before_lock.split("GroupAggregate")[0]
    assert "Sort" not in before_lock.split("->  Hash")[0].split("WindowAgg")[0]
    plan = text.splitlines()
    sorts = [n for n, line in enumerate(plan) if "TEMP B-TREE" in line]
    picks = [n for n, line in enumerate(plan) if "jobs_queued" in line]
    assert not sorts or min(picks) < min(sorts)


def test_numbering_events_does_not_walk_over_the_numbered_ones(
    postgres_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fresh figures the planner expects nothing to number, and would compare each with all."""
    world = postgres_world
    news = [NewJob(kind="noop")] * 2_000
    world.run(lambda tx: world.queue.enqueue_many(tx, news))
    world.run(events.assign_positions)
    with world.db.begin() as tx:
        tx.all("ANALYZE")
    world.run(lambda tx: world.queue.enqueue_many(tx, news))
    found = plans.collect(world, monkeypatch, lambda sql: "UPDATE events" in sql)
    assert len(world.run(events.assign_positions)) == 2_000
    [(_, plan)] = found
    assert "Seq Scan on events" not in plan
    assert "Join Filter" not in plan


def test_healing_and_gathering_do_not_walk_over_all_jobs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = world.enqueue()
    world.divide(world.claim(), 2)
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * 3_000))
    with world.db.begin() as tx:
        tx.all("ANALYZE")
    claims = [world.claim(), world.claim()]
    found = plans.collect(world, monkeypatch, lambda sql: "part." in sql or "divided_at" in sql)
    for claim in claims:
        world.run(world.queue.heal)
        world.complete(claim)
    monkeypatch.undo()
    assert world.job(job_id).divided_at is None
    assert len(found) >= 8
    for _, plan in found:
        assert "Seq Scan on jobs" not in plan
        assert not re.search(
            r"SCAN (jobs|part)(?! USING INDEX jobs_(divided|live_parts|blocked))", plan
        )


def test_the_history_reads_no_job_that_was_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.chores.tick()
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * 3_000))
    worker = world.worker()
    while claimed := world.claim_all(worker, limit=1_000):
        with world.db.begin() as tx:
            world.queue.complete_many(tx, [(each.claim, None) for each in claimed])
    world.chores.number_events()
    world.complete(_begun(world))
    with world.db.begin() as tx:
        tx.all("ANALYZE")
    found = plans.collect(world, monkeypatch, lambda sql: "ended_counts" in sql)
    for hours in (1, 24):
        for wanted in (HistoryFilter(), HistoryFilter(user_id="", kind="noop", not_kinds=["x"])):
            with world.db.read() as tx:
                told = queue_report.history(tx, wanted, hours)
            assert sum(each.completed for each in told.items) == 3_001
    monkeypatch.undo()
    # All 3,000 together: of one minute and half-hour, of everybody and of one user.
    assert len(world.rows("SELECT at FROM ended_counts")) == 4
    assert len(found) == 4
    for _, plan in found:
        assert "jobs_ended" not in plan
        assert "Seq Scan on jobs" not in plan
        assert "SCAN jobs" not in plan
        assert not re.search("Seq Scan on events|SCAN events(?! USING INDEX)", plan)


def test_history_that_is_not_filled_in_yet_looks_at_nothing_that_ended_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * 3_000))
    worker = world.worker()
    while claimed := world.claim_all(worker, limit=1_000):
        with world.db.begin() as tx:
            world.queue.complete_many(tx, [(each.claim, None) for each in claimed])
    world.advance(2 * 86_400)
    world.complete(_begun(world))
    world.chores.number_events()
    with world.db.begin() as tx:
        tx.all("ANALYZE")
    world.run(history_store.want_refill)
    found = plans.collect(world, monkeypatch, lambda sql: "FROM jobs" in sql)
    for _ in range(2):
        with world.db.read() as tx:
            told = queue_report.history(tx, HistoryFilter(), 24)
        assert sum(each.completed for each in told.items) == 1
        assert history_store.fill(world.db)
    monkeypatch.undo()
    # What is asked for, and two for each step: where it begins, and what there is.
    assert len(found) == 6
    for _, plan in found:
        assert "jobs_ended" in plan
        assert "Seq Scan on jobs" not in plan
        assert "SCAN jobs" not in plan


def _begun(world: World) -> Claim:
    """A job that waited for half a minute and ran for ten seconds."""
    world.enqueue()
    world.advance(30)
    claim = world.claim()
    world.advance(10)
    return claim


def test_waiting_and_running_are_told_where_the_job_ended(world: World) -> None:
    world.complete(_begun(world))
    world.fail(_begun(world), ErrorClass.PERMANENT)
    world.pass_time(120)
    world.complete(_begun(world))
    with world.db.read() as tx:
        told = queue_report.history(tx, HistoryFilter(), 1)
    buckets = [each for each in told.items if each.completed or each.failed]
    assert {each.wait_seconds for each in buckets} == {30.0}
    assert {each.run_seconds for each in buckets} <= {10.0, None}
    assert sum(each.completed for each in buckets) == 2
    assert sum(each.failed for each in buckets) == 1
    assert buckets[-1] is told.items[-1]
    assert buckets[0].at < buckets[-1].at


def test_figures_read_no_job_but_the_first_of_each_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = [NewJob(kind="noop", user_id="ada" if n % 500 == 0 else "bob") for n in range(3_000)]
    world.run(lambda tx: world.queue.enqueue_many(tx, news))
    claims = [each.claim for _ in range(19) for each in world.claim_all(limit=100)]
    world.run(lambda tx: world.queue.complete_many(tx, [(each, None) for each in claims[:900]]))
    world.fail(claims[900], ErrorClass.PERMANENT, "boom")

    def figures() -> list[object]:
        with world.db.read() as tx:
            of = [read_store.stats(tx), read_store.stats(tx, "ada"), read_store.totals(tx)]
            return [*of, read_store.failure_groups(tx, None), read_store.failure_groups(tx, "bob")]

    unnumbered = figures()
    assert len(world.run(events.assign_positions)) > 0
    with world.db.begin() as tx:
        tx.all("ANALYZE")
    found = plans.collect(world, monkeypatch, lambda sql: "FROM" in sql)
    assert figures() == unnumbered
    monkeypatch.undo()
    assert len(found) > 5
    for _, plan in found:
        assert "Seq Scan on jobs" not in plan
        assert not re.search(r"SCAN (jobs|first|next)\b", plan)
        assert not re.search(r"jobs_(ended|by_user|blocked|processing)\b", plan)
    world.run(count_store.want_recount)
    assert figures() == unnumbered


def test_lists_of_what_runs_and_what_failed_do_not_walk_over_what_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = world.enqueue()
    world.fail(world.claim(), ErrorClass.PERMANENT)
    whole = world.enqueue()
    world.divide(world.claim())
    running = world.claim().job_id
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * 3_000))
    with world.db.begin() as tx:
        tx.all("ANALYZE")
    found = plans.collect(world, monkeypatch, lambda sql: "FROM jobs" in sql)
    with world.db.read() as tx:
        assert [each.id for each in read_store.list_jobs(tx, running=True)] == [running, whole]
        of_failed = read_store.list_jobs(tx, JobFilter(state="failed"))
    assert [each.id for each in of_failed] == [failed]
    [(_, runs), (_, has_failed)] = found
    assert "jobs_processing" in runs
    assert re.search("jobs_divided|jobs_blocked", runs)
    assert "jobs_failed" in has_failed
    for plan in (runs, has_failed):
        assert "Seq Scan on jobs" not in plan
        assert not re.search(r"SCAN jobs USING INDEX sqlite_autoindex", plan)
