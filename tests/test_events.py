"""The event log: positions without gaps, readers that miss nothing, forgetting in order."""

from __future__ import annotations

import psycopg

from rushes import events
from rushes.db.database import Tx
from rushes.jobs import invariants, read_store
from world import World


def read(world: World, since: int) -> list[int]:
    world.run(events.assign_positions)
    with world.db.read() as tx:
        return [row.pos for row in events.read_since(tx, since)]


def test_an_event_that_commits_late_is_not_skipped(postgres_world: World) -> None:
    """It was written first and committed last: a cursor over a sequence would never see it."""
    world = postgres_world
    with psycopg.connect(world.db.conninfo) as late:
        late.execute("INSERT INTO events (at, type) VALUES (1, 'late')")
        world.enqueue()
        assert read(world, 0) == [1]
        late.commit()
    assert read(world, 1) == [2]
    world.check()


def test_a_reader_gets_pages_in_order(world: World) -> None:
    for _ in range(5):
        world.enqueue()
    world.run(events.assign_positions)
    with world.db.read() as tx:
        first = events.read_since(tx, 0, limit=3)
        second = events.read_since(tx, first[-1].pos, limit=3)
        assert events.head(tx) == 5
    assert [row.pos for row in first + second] == [1, 2, 3, 4, 5]


def test_old_events_are_forgotten_in_order_and_the_rest_stays_gapless(world: World) -> None:
    world.complete((world.enqueue(), world.claim())[1])
    assert len(read(world, 0)) == 4
    world.advance(3_600)
    recent = world.enqueue()
    world.run(events.assign_positions)
    assert world.run(lambda tx: events.prune(tx, keep_ms=60_000)) == 4
    assert read(world, 0) == [5]
    assert world.event_types(recent) == ["noop.queued"]
    assert world.run(lambda tx: events.prune(tx, keep_ms=60_000)) == 0
    world.check()


def test_everything_may_be_forgotten_and_positions_go_on(world: World) -> None:
    world.enqueue()
    assert read(world, 0) == [1]
    world.advance(3_600)
    assert world.run(lambda tx: events.prune(tx, keep_ms=1_000)) == 1
    world.enqueue()
    assert read(world, 1) == [2]
    world.check()


def test_the_chores_number(world: World) -> None:
    world.enqueue()
    world.chores.tick()
    with world.db.read() as tx:
        assert events.head(tx) == 1
    world.check()


def test_the_invariants_see_what_is_wrong(world: World) -> None:
    """Each is broken on purpose; a checker that sees nothing would prove nothing."""
    done, waiting = world.enqueue(), world.enqueue()
    world.complete(world.claim())
    world.run(events.assign_positions)
    breaks = {
        "I2": "UPDATE jobs SET claim_epoch = 7 WHERE id = :done",
        "I3": "UPDATE attempts SET outcome = NULL, ended_at = NULL, job_state = NULL",
        "I4": "UPDATE jobs SET claims = 5 WHERE id = :done",
        "I5": "UPDATE jobs SET claims = 25 WHERE id = :waiting",
        "I6": "INSERT INTO events (at, type, job_id, state) VALUES (1, 'x', :done, 'queued')",
        "I7": "DELETE FROM events WHERE state = 'completed'",
        "I8": "UPDATE attempts SET outcome = 'failed'",
        "I23a": "UPDATE events SET attempt = 9 WHERE state = 'completed'",
        "I23b": "UPDATE events SET pos = 99 WHERE pos = 1",
        "I23c": "DELETE FROM events WHERE job_id = :waiting",
    }
    for name, sql in breaks.items():
        used = {key: value for key, value in (("done", done), ("waiting", waiting)) if key in sql}
        try:
            with world.db.begin() as tx:
                tx.all(sql, **{key: value for key, value in used.items() if f":{key}" in sql})
                found = {each.invariant for each in invariants.check(tx)}
                raise _UndoError
        except _UndoError:
            assert name in found
    world.check()


class _UndoError(Exception):
    pass


def test_what_an_older_server_has_numbered_is_counted_by_the_next(world: World) -> None:
    world.enqueue()
    world.complete(world.claim())

    def number(tx: Tx) -> None:
        """As before there were counts."""
        tx.all("UPDATE events SET pos = seq WHERE pos IS NULL")
        tx.all("UPDATE event_head SET pos = (SELECT max(pos) FROM events)")

    world.run(number)
    for expected in (1, 2):
        with world.db.read() as tx:
            [row] = read_store.totals(tx)
        assert (row.state, row.count) == ("completed", expected)
        world.enqueue()
        world.complete(world.claim())
        world.run(events.assign_positions)
    with world.db.read() as tx:
        assert tx.all("SELECT count FROM job_counts") == [{"count": 3}]
