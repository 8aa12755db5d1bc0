"""Live events: nothing missed, nothing twice, and nobody else's."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import psycopg
import pytest

from listeners import (
    ADMIN,
    PATIENCE_SECONDS,
    body,
    hear,
    hear_until,
    listening,
    positions,
    relaying,
    run,
    tell,
    tell_many,
)
from rushes import events, live
from rushes.db.database import Database
from rushes.live import EventFilter, Relay
from world import World

# What is said


def test_a_jobs_event_tells_what_changed_and_leaves_out_what_is_unknown(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        async with listening(relay) as client:
            job_id = world.enqueue("transcribe", user_id="ann")
            (heard,) = await hear(client, 1)
            assert body(heard) == {
                "id": job_id,
                "type": "transcription.queued",
                "status": "queued",
                "progress": 0.0,
                "job_id": job_id,
                "attempt": 0,
                "at": "2027-01-15T08:00:00.000Z",
            }

    run(world, scenario)


def test_what_a_worker_knows_is_added_and_never_replaces_the_facts(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        async with listening(relay) as client:
            data = '{"speed": 2.5, "eta_seconds": null, "id": "job_other", "renditions": [1]}'
            tell(world, "transcode.progress", job_id="job_1", media_id="med_1", data=data)
            tell(world, "media.ready", media_id="med_1", data="[1]")
            tell(world, "worker.idle", worker_id="wrk_1", data="not JSON")
            heard = [body(each) for each in await hear(client, 3)]
            at = {"at": "2027-01-15T08:00:00.000Z"}
            of_media = {"media_id": "med_1", **at}
            assert heard == [
                {"id": "job_1", "type": "transcode.progress", "job_id": "job_1", **of_media}
                | {"speed": 2.5, "renditions": [1]},
                {"id": "med_1", "type": "media.ready", **of_media},
                {"id": "wrk_1", "type": "worker.idle", **at},
            ]

    run(world, scenario)


def test_a_stage_does_not_inherit_the_time_that_was_left_of_the_one_before(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        async with listening(relay) as client:
            world.enqueue("transcribe", user_id="ann")
            claim = world.claim(world.worker(kinds=["transcribe"]))
            detail = {"eta_seconds": 0.4, "speed": 1.9, "renditions": []}
            world.progress(claim, 0.69, stage="transcribing", detail=detail)
            before = body((await hear_until(client, "transcription.progress"))[-1])
            world.progress(claim, 0.7, stage="diarizing")
            after = body((await hear_until(client, "transcription.progress"))[-1])
            assert (before["eta_seconds"], before["speed"]) == (0.4, 1.9)
            assert after["stage"] == "diarizing"
            assert not {"eta_seconds", "speed"} & set(after)

    run(world, scenario)


# Who hears what


@pytest.mark.parametrize("since", [None, 0], ids=["live", "from the database"])
@pytest.mark.parametrize(
    ("want", "heard"),
    [
        (EventFilter(None), "abcdefg"),
        (EventFilter("ann"), "abcd"),
        (EventFilter("bob"), "e"),
        (EventFilter("nobody"), ""),
        (EventFilter("ann", media_id="med_1"), "abc"),
        (EventFilter("ann", job_id="job_1"), "bc"),
        (EventFilter("bob", media_id="med_1"), ""),
        (EventFilter(None, media_id="med_1", types=frozenset({"transcode.*"})), "bc"),
        (EventFilter("ann", types=frozenset({"media.created", "transcode.failed"})), "ad"),
    ],
)
def test_everybody_hears_what_they_may_and_want(
    world: World, since: int | None, want: EventFilter, heard: str
) -> None:
    told: dict[str, tuple[str, dict[str, Any]]] = {
        "a": ("media.created", {"user_id": "ann", "media_id": "med_1"}),
        "b": ("transcode.queued", {"user_id": "ann", "media_id": "med_1", "job_id": "job_1"}),
        "c": ("transcode.completed", {"user_id": "ann", "media_id": "med_1", "job_id": "job_1"}),
        "d": ("transcode.failed", {"user_id": "ann", "media_id": "med_2", "job_id": "job_2"}),
        "e": ("media.created", {"user_id": "bob", "media_id": "med_3"}),
        "f": ("worker.online", {"user_id": "ann", "worker_id": "wrk_1"}),
        "g": ("media.deleted", {"media_id": "med_4"}),
    }

    def tell_all() -> None:
        for type, facts in told.values():
            tell(world, type, **facts)

    async def scenario(relay: Relay) -> None:
        if since is not None:
            tell_all()
            world.run(events.assign_positions)
        async with listening(relay, since, want) as client, listening(relay, since) as admin:
            if since is None:
                tell_all()
            assert len(await hear(admin, 7)) == 7
            expected = [n for n, name in enumerate(told, 1) if name in heard]
            assert positions(await hear(client, len(expected))) == expected
            assert await client.take(0) == []

    run(world, scenario)


# No gap, no duplicate


def test_an_event_that_commits_late_is_heard_late(postgres_world: World) -> None:
    """It was written first: a cursor over a sequence would never see it."""
    world = postgres_world

    async def scenario(relay: Relay) -> None:
        with psycopg.connect(world.db.conninfo) as late:
            late.execute("INSERT INTO events (at, type) VALUES (1, 'media.late')")
            async with listening(relay) as client:
                tell(world, "media.early")
                (early,) = await hear(client, 1)
                late.commit()
                (heard,) = await hear(client, 1)
                assert (early.type, early.position) == ("media.early", 1)
                assert (heard.type, heard.position) == ("media.late", 2)

    run(world, scenario)


def test_clients_that_come_and_go_in_a_rush_hear_everything_once_and_in_order(
    world: World,
) -> None:
    """Four writers whose transactions overlap; clients leave after a few events and come back."""
    count = 4 * 60

    def write(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(60):
            with world.db.step() if chance.random() < 0.5 else world.db.begin() as tx:
                tx.all("INSERT INTO events (at, type) VALUES (1, 'media.updated')")

    async def follow(relay: Relay, seed: int) -> list[int]:
        chance = random.Random(seed)
        seen: list[int] = []
        while len(seen) < count:
            async with listening(relay, seen[-1] if seen else 0) as client:
                few = min(chance.randint(1, 40), count - len(seen))
                seen += positions(await hear(client, few))
        return seen

    async def scenario(relay: Relay) -> None:
        writers = [asyncio.to_thread(write, seed) for seed in range(4)]
        clients = [asyncio.create_task(follow(relay, seed)) for seed in range(8)]
        await asyncio.gather(*writers)
        for client in clients:
            assert await client == list(range(1, count + 1))

    run(world, scenario)
    world.check()


def test_a_client_without_a_position_hears_only_what_happens_from_now_on(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        tell(world, "media.before")
        async with listening(relay) as client:
            assert client.position == 1
            tell(world, "media.after")
            (heard,) = await hear(client, 1)
            assert (heard.type, heard.position) == ("media.after", 2)

    run(world, scenario)


def test_a_client_resumes_in_the_middle(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        tell_many(world, 5_000)
        async with listening(relay, 1_234) as client:
            tell_many(world, 10)
            assert positions(await hear(client, 3_776)) == list(range(1_235, 5_011))

    run(world, scenario)


def test_commits_of_other_processes_are_heard_too(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        other = Database(world.db.url.render_as_string(hide_password=False), world.clock)
        try:
            async with listening(relay) as client:
                with other.begin() as tx:
                    tx.all("INSERT INTO events (at, type) VALUES (1, 'media.updated')")
                assert positions(await hear(client, 1)) == [1]
        finally:
            other.close()

    run(world, scenario)


def test_clients_of_several_event_loops_are_served(world: World) -> None:
    """And one whose loop is gone without a word does not disturb the others."""
    heard: list[int] = []

    async def other(relay: Relay, ready: threading.Event) -> None:
        relay.subscribe(None, ADMIN)
        async with listening(relay) as client:
            ready.set()
            heard.extend(positions(await hear(client, 1)))

    async def scenario(relay: Relay) -> None:
        ready = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(other(relay, ready)))
        thread.start()
        async with listening(relay) as client:
            await asyncio.to_thread(ready.wait, PATIENCE_SECONDS)
            tell(world)
            assert positions(await hear(client, 1)) == [1]
            await asyncio.to_thread(thread.join, PATIENCE_SECONDS)
            assert heard == [1]
            tell(world)
            assert positions(await hear(client, 1)) == [2]

    run(world, scenario)


def test_an_outage_of_the_database_loses_nothing(postgres_world: World) -> None:
    world = postgres_world

    async def scenario(relay: Relay) -> None:
        async with listening(relay) as client:
            with psycopg.connect(world.db.conninfo, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                for _ in range(3):
                    admin.execute("INSERT INTO events (at, type) VALUES (1, 'media.updated')")
            assert positions(await hear(client, 3)) == [1, 2, 3]

    run(world, scenario)


# Slow clients


def test_a_slow_client_catches_up_and_holds_up_nobody(world: World) -> None:
    """More than its buffer holds: the rest waits for it in the database."""
    count = 2 * live.BUFFER + 7

    async def scenario(relay: Relay) -> None:
        async with listening(relay) as slow, listening(relay) as quick:
            tell_many(world, 1)
            assert positions(await hear(slow, 1)) == [1]
            reader = asyncio.create_task(hear(quick, count))
            await asyncio.to_thread(tell_many, world, count - 1)
            assert positions(await reader) == list(range(1, count + 1))
            assert len(slow._buffer) <= live.BUFFER
            tell_many(world, 1)
            assert positions(await hear(slow, count)) == list(range(2, count + 2))
            tell(world)
            assert positions(await hear(slow, 1)) == [count + 2]

    run(world, scenario)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "from the database"])
def test_of_a_backlog_only_the_newest_progress_of_each_job_is_sent(
    world: World, is_live: bool
) -> None:
    def tell_all() -> None:
        for number in range(20):
            for job_id in ("job_1", "job_2"):
                tell(world, "transcode.progress", job_id=job_id, progress=number / 20)
        tell(world, "transcode.completed", job_id="job_1", state="completed")
        tell(world, "transcode.failed", job_id="job_2", state="failed")

    async def scenario(relay: Relay) -> None:
        if not is_live:
            tell_all()
        async with listening(relay, None if is_live else 0) as client, listening(relay) as quick:
            if is_live:
                tell_all()
                await hear_until(quick, "transcode.failed")
            heard = await hear_until(client, "transcode.failed")
            assert positions(heard) == [39, 40, 41, 42]
            assert [body(each).get("progress") for each in heard] == [0.95, 0.95, None, None]

    run(world, scenario)


# Forgotten events


def test_who_was_away_for_too_long_is_told_to_begin_anew(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        tell_many(world, 3)
        world.run(events.assign_positions)
        world.advance(3_600)
        tell_many(world, 2)
        world.run(events.assign_positions)
        assert world.run(lambda tx: events.prune(tx, keep_ms=60_000)) == 3
        async with listening(relay, 2) as late, listening(relay, 3) as in_time:
            (reset,) = await hear(late, 1)
            assert reset.frame == b'id: 5\nevent: reset\ndata: {"type":"reset"}\n\n'
            assert positions(await hear(in_time, 2)) == [4, 5]
            tell(world)
            assert positions(await hear(late, 1)) == [6]
            assert positions(await hear(in_time, 1)) == [6]

    run(world, scenario)


@pytest.mark.parametrize("since", [-1, 7, 10**18])
def test_a_position_that_is_not_of_this_log_begins_anew(world: World, since: int) -> None:
    async def scenario(relay: Relay) -> None:
        tell_many(world, 3)
        async with listening(relay, since) as client:
            (reset,) = await hear(client, 1)
            assert (reset.type, reset.position) == ("reset", 3)
            tell(world)
            assert positions(await hear(client, 1)) == [4]

    run(world, scenario)


def test_a_log_that_was_set_back_to_a_backup_makes_clients_begin_anew(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        async with listening(relay) as client:
            tell_many(world, 5)
            await hear(client, 5)
            world.run(lambda tx: tx.all("DELETE FROM events WHERE pos > 3"))
            world.run(lambda tx: tx.all("UPDATE event_head SET pos = 3"))
            assert await client.take() is None
            async with listening(relay, client.position) as again:
                (reset,) = await hear(again, 1)
                assert (reset.type, reset.position) == ("reset", 3)

    run(world, scenario)


def test_a_relay_that_slept_through_the_forgetting_makes_clients_begin_anew(world: World) -> None:
    def vanish(tx: Any) -> None:
        tx.all("DELETE FROM events")
        tx.all("UPDATE event_head SET pos = 9, pruned_pos = 7")
        for pos in (8, 9):
            tx.all("INSERT INTO events (pos, at, type) VALUES (:pos, 1, 'media.updated')", pos=pos)

    async def scenario(relay: Relay) -> None:
        async with listening(relay) as client:
            world.run(vanish)
            assert await client.take() is None
            async with listening(relay, client.position) as again:
                assert [each.type for each in await hear(again, 1)] == ["reset"]

    run(world, scenario)


# Rest and end


def test_nothing_is_done_while_nobody_listens(world: World) -> None:
    with relaying(world) as relay:
        tell(world)
        with world.db.read() as tx:
            assert events.news(tx) == (0, True)
        assert relay.subscribers == 0


def test_closing_ends_every_subscription_after_what_it_has(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        async with listening(relay) as one, listening(relay) as two:
            tell_many(world, 3)
            assert len(await hear(two, 3)) == 3
            assert relay.subscribers == 2
            await asyncio.to_thread(relay.close)
            assert len(await hear(one, 3)) == 3
            assert await one.take() is None
            assert await two.take() is None
        async with listening(relay) as late:
            assert await late.take() is None
        assert relay.subscribers == 0

    run(world, scenario)


def test_closing_inside_the_event_loop_ends_what_waits(world: World) -> None:
    async def scenario(relay: Relay) -> None:
        async with listening(relay) as client:
            waiting = asyncio.create_task(client.take())
            await asyncio.sleep(0)
            relay.close()
            assert await waiting is None

    run(world, scenario)


def test_listeners_hear_of_commits_only_and_cannot_spoil_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    world.db.on_commit += [lambda: heard.append("one"), lambda: [][0], lambda: heard.append("two")]
    with world.db.step() as tx:
        tx.all("INSERT INTO pauses (kind, paused_at) VALUES ('a', 1)")
    assert heard == ["one", "two"]
    with pytest.raises(ZeroDivisionError), world.db.begin():
        _ = 1 / 0
    world.rows("SELECT 1 AS one")
    assert heard == ["one", "two"]
    assert "a listener to commits failed" in caplog.text
