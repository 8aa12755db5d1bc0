"""Looking along trails, as is done while dead rows are in the way, finds what there is."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import events
from rushes.chores import Unnumbered
from rushes.jobs import trails
from rushes.jobs.job import NewJob, State
from rushes.jobs.trails import Pace, Trail
from world import World


@pytest.fixture
def on_trails(postgres_world: World) -> Iterator[World]:
    """Every look after the first follows trails, for as long as the test takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trails, "SLOW_SECONDS", -1.0)
        patch.setattr(trails, "IN_A_ROW", 1)
        patch.setattr(trails, "SELDOM", 1e9)
        yield postgres_world


@given(st.integers(1, 500), st.integers(1, 500))
def test_what_comes_late_is_found_after_about_as_many_looks(before: int, late: int) -> None:
    trail = Trail(0)
    for number in range(1, before + 1):
        trail.begin()
        trail.end(number)
    place, looks = max(0, before - late), 1
    while trail.begin() > place:
        trail.end(before + looks)
        looks += 1
        assert looks <= 2 * late


def test_a_look_steps_over_little_on_average() -> None:
    trail, looks, steps = Trail(0), 1 << 14, 0
    for number in range(1, looks + 1):
        steps += number - trail.begin()
        trail.end(number)
    assert steps / looks < 20


def test_trails_are_followed_when_one_look_after_the_other_is_slow() -> None:
    pace = Pace()
    assert [pace.note(0.0, took) for took in (0.1, 0.1, 0.001, 0.1, 0.1)] == [False] * 5
    assert pace.is_due(5.0)
    assert pace.note(5.0, 5.1)
    assert not pace.is_due(10.0)
    assert pace.is_due(10.2)
    assert pace.note(10.2, 10.3)
    assert not pace.note(20.0, 20.001)
    assert pace.is_due(20.001)


def test_jobs_come_in_their_order_whatever_has_come_back(on_trails: World) -> None:
    world, worker = on_trails, on_trails.worker()
    first, second = world.enqueue(), world.enqueue()
    delayed = world.enqueue(delay_seconds=5)
    claim = world.claim(worker)
    assert (claim.job_id, world.claim(worker).job_id) == (first, second)
    world.advance(1)
    third = world.enqueue()
    assert world.claim(worker).job_id == third
    world.release(claim)
    world.advance(10)
    last = world.enqueue()
    assert [world.claim(worker).job_id for _ in range(3)] == [first, delayed, last]
    assert world.claim_all(worker) == []


@pytest.mark.parametrize("looks", [20, 21])
def test_a_job_that_was_delayed_is_found_however_far_the_looks_have_come(
    on_trails: World, looks: int
) -> None:
    world, worker = on_trails, on_trails.worker()
    delayed = world.enqueue(delay_seconds=5)
    for _ in range(looks):
        world.advance(0.1)
        job_id = world.enqueue()
        assert world.claim(worker).job_id == job_id
    world.advance(10)
    world.enqueue()
    assert world.claim(worker).job_id == delayed


def test_many_at_once_come_in_their_order(on_trails: World) -> None:
    world, worker = on_trails, on_trails.worker()
    ids = [world.enqueue() for _ in range(9)]
    taken = world.claim_all(worker, 3)
    for each in taken[:2]:
        world.release(each.claim)
    rest = [job.job_id for _ in range(4) for job in world.claim_all(worker, 3)]
    assert sorted(rest) == sorted([*ids[:2], *ids[3:]])
    assert rest.index(ids[0]) < rest.index(ids[1])


def test_a_lane_that_is_new_is_found_at_once(on_trails: World) -> None:
    world, worker = on_trails, on_trails.worker(capabilities=["gpu"])
    usual = [world.enqueue() for _ in range(4)]
    assert world.claim(worker).job_id == usual[0]
    low, high = world.enqueue(priority="low"), world.enqueue(priority="high")
    needy = world.enqueue(needs=["gpu"])
    found = [world.claim(worker).job_id for _ in range(6)]
    assert found == [high, *usual[1:], needy, low]


def test_the_parts_of_a_divided_job_have_its_place(on_trails: World) -> None:
    world, worker = on_trails, on_trails.worker()
    whole, other = world.enqueue(), world.enqueue()
    claim = world.claim(worker)
    assert world.claim(worker).job_id == other
    world.advance(1)
    later = world.enqueue()
    assert world.divide(claim) is State.BLOCKED
    parts = [each.id for each in world.parts(whole)]
    found = [world.claim(worker).job_id for _ in range(3)]
    assert found == [*parts, later]


def test_a_job_that_is_committed_late_is_found(on_trails: World) -> None:
    world, worker = on_trails, on_trails.worker()
    engine = world.db.engine
    world.enqueue()
    world.claim(worker)
    with engine.begin() as connection:
        tx = world.db.join(connection)
        late = world.queue.enqueue(tx, NewJob(kind="noop")).id
        world.advance(1)
        newer = world.enqueue()
        assert world.claim(worker).job_id == newer
    found = [job.job_id for _ in range(8) for job in world.claim_all(worker)]
    assert found == [late]


def test_a_claim_costs_no_more_while_the_dead_cannot_be_removed(on_trails: World) -> None:
    """Somebody has a transaction open since before the jobs."""
    world, worker = on_trails, on_trails.worker()
    with psycopg.connect(world.db.conninfo) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        for _ in range(4):
            news = [NewJob(kind="noop") for _ in range(500)]
            world.run(lambda tx, news=news: world.queue.enqueue_many(tx, news))  # type: ignore[misc]
            while taken := world.claim_all(worker, 100):
                results = [(each.claim, None) for each in taken]
                world.run(lambda tx, done=results: world.queue.complete_many(tx, done))  # type: ignore[misc]
        touched = _blocks(world)
        for _ in range(4):
            world.enqueue()
            assert len(world.claim_all(worker)) == 1
        # At most one of them goes back to the first; each of them would step over all three times.
        assert _blocks(world) - touched < 8_000


def test_events_are_numbered_from_where_they_begin(on_trails: World) -> None:
    world, unnumbered = on_trails, Unnumbered()
    for number in range(1, 6):
        world.enqueue()
        since = unnumbered.begin(world.db)
        assert len(world.run(lambda tx, since=since: events.assign_positions(tx, since))) == 1  # type: ignore[misc]
        assert world.run(events.head) == number


def _blocks(world: World) -> int:
    world.rows("SELECT pg_stat_force_next_flush()")
    [row] = world.rows(
        "SELECT sum(idx_blks_hit + heap_blks_hit) AS blocks FROM pg_statio_user_tables"
        " WHERE relname = 'jobs'"
    )
    return int(row["blocks"])
