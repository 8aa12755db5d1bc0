"""Old jobs and workers are forgotten, and nothing that anybody is shown."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from running import Running
from rushes import errors, events
from rushes.accounts import access
from rushes.db.database import Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs import prune_store, read_store
from rushes.jobs.job import ErrorClass, NewJob, State
from rushes.jobs.prune_store import Keep, PrunedCount
from rushes.kinds import Grant
from rushes.media import library as media_library
from rushes.media import store as media_store
from rushes.protocol import Claim
from rushes.retention import Pace, Retention
from rushes.webhooks import endpoints
from web import library
from webhooks.receivers import WebhookHarness, receiver
from world import World

DAY = 86_400
KEEP = Keep(jobs_ms=90 * DAY * 1000, housekeeping_ms=7 * DAY * 1000)


def retention(world: World, keep: Keep = KEEP, batch: int = 50) -> Retention:
    return Retention(world.db, keep, event_ms=7 * DAY * 1000, pace=Pace(batch=batch, rest=0))


def forget(world: World, keep: Keep = KEEP, batch: int = 50) -> int:
    world.run(events.assign_positions)
    gone = retention(world, keep, batch).run_once()
    world.check()
    return gone


def ended(world: World, kind: str = "noop", **options: Any) -> str:
    job_id = world.enqueue(kind, **options)
    claim = world.claim(world.worker(kinds=(kind,)))
    assert claim.job_id == job_id
    world.complete(claim)
    return job_id


def failed(world: World, kind: str = "noop", **options: Any) -> str:
    job_id = world.enqueue(kind, **options)
    world.fail(world.claim(world.worker(kinds=(kind,))), ErrorClass.PERMANENT, "broken")
    return job_id


def left(world: World) -> set[str]:
    return {row["id"] for row in world.rows("SELECT id FROM jobs")}


def test_ended_jobs_go_with_their_attempts_when_their_time_is_over(world: World) -> None:
    old, waiting = ended(world), world.enqueue(run_at=2**42)
    housekeeping = ended(world, "webhook")
    world.advance(8 * DAY)
    young = ended(world)
    assert forget(world) == 1
    assert left(world) == {old, waiting, young}
    world.advance(83 * DAY)
    assert forget(world) == 1
    assert left(world) == {waiting, young}
    assert housekeeping not in left(world)
    attempts = world.rows("SELECT job_id FROM attempts")
    assert {row["job_id"] for row in attempts} == {young}
    assert forget(world) == 0


def test_what_is_to_be_kept_for_ever_is_kept(world: World) -> None:
    kept, housekeeping = ended(world), ended(world, "purge")
    world.advance(5_000 * DAY)
    assert forget(world, Keep()) == 0
    assert forget(world, Keep(housekeeping_ms=DAY * 1000)) == 1
    assert left(world) == {kept}
    assert housekeeping not in left(world)


def test_counters_go_on_counting_what_was_deleted(world: World) -> None:
    ended(world)
    failed(world)
    world.advance(91 * DAY)
    failed(world)
    assert forget(world) == 2
    with world.db.read() as tx:
        assert {row.state: row.count for row in read_store.totals(tx)} == {
            "completed": 1,
            "failed": 2,
        }
        # What can be tried again is what is there.
        [group] = read_store.failure_groups(tx, None)
        assert (group.count, group.example) == (1, "boom")
        assert prune_store.pruned(tx) == [PrunedCount(kind="noop", count=2)]


def test_whoever_is_killed_between_two_batches_has_lost_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rushes.retention.PAGE", 5)
    for _ in range(12):
        ended(world)
    world.run(events.assign_positions)
    world.advance(91 * DAY)
    delete, batches = prune_store.delete, []

    def killed(tx: Tx, keep: Keep, ids: list[str]) -> int:
        gone = delete(tx, keep, ids)
        batches.append(gone)
        if len(batches) == 3:
            raise KeyboardInterrupt
        return gone

    monkeypatch.setattr(prune_store, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        retention(world, batch=2).run_once()
    assert len(left(world)) == 8
    world.check()
    assert forget(world) == 8
    assert left(world) == set()


def test_a_job_stays_until_its_end_was_counted(world: World) -> None:
    ended(world)
    world.advance(91 * DAY)
    assert retention(world).run_once() == 0
    assert forget(world) == 1


def test_nothing_is_deleted_while_jobs_are_counted_again(world: World) -> None:
    failed(world)
    world.advance(91 * DAY)
    world.run(events.assign_positions)
    world.run(lambda tx: tx.all("UPDATE event_head SET recount_due = 1"))
    assert retention(world).run_once() == 0
    world.chores.tick()
    assert forget(world) == 1


def test_a_parent_stays_as_long_as_its_children_and_parts_as_long_as_their_whole(
    world: World,
) -> None:
    parent = ended(world)
    child = world.enqueue(parent_id=parent, run_at=2**42)
    whole = world.enqueue()
    world.divide(world.claim(), 2)
    world.complete(world.claim())
    world.advance(91 * DAY)
    assert forget(world) == 0
    world.complete(world.claim())
    world.complete(world.claim())
    world.cancel(child)
    world.advance(91 * DAY)
    assert forget(world) > 0
    # Children go first, and what they refer to in the next pass.
    forget(world)
    assert left(world) == set()
    assert whole not in left(world)


def test_a_living_media_keeps_what_it_shows(world: World) -> None:
    media_id, trashed = world.add_media(), world.add_media()
    worker = world.worker(kinds=("transcode",))
    older, newer = (failed(world, "transcode", media_id=media_id) for _ in range(2))
    heard = [ended(world, "transcribe", media_id=media_id) for _ in range(2)]
    in_trash = [failed(world, "transcode", media_id=trashed) for _ in range(2)]
    part = ended(world, "span", media_id=media_id)
    world.run(lambda tx: tx.all("UPDATE media SET deleted_at = 1 WHERE id = :id", id=trashed))
    world.advance(91 * DAY)
    assert forget(world) == 3
    assert left(world) == {newer, heard[1], *in_trash}
    assert {older, part} & left(world) == set()
    with world.db.read() as tx:
        item = media_store.get(tx, media_id)
    assert item is not None
    assert (item.status, item.transcript_status) == ("failed", "ready")
    again = world.retry(newer)
    claim = world.claim(worker)
    assert claim.job_id == again
    world.run(lambda tx: media_library.start_version(tx, claim, media_id))
    world.complete(claim)
    made = [ended(world, "transcode", media_id=media_id) for _ in range(2)]
    world.advance(91 * DAY)
    forget(world)
    # The one that made the version, the one it was a retry of, and the newest.
    assert {newer, again, made[1]} <= left(world)
    assert made[0] not in left(world)
    purged = "purge_started_at = 1, purged_at = 1, source_key = NULL, share_token = NULL"
    world.run(lambda tx: tx.all(f"UPDATE media SET {purged} WHERE id = :id", id=trashed))
    forget(world)
    assert not left(world) & set(in_trash)


def test_a_delivery_outlives_its_job_and_can_be_repeated(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        user = harness.user("ada")
        hook = harness.hook(user, target.url, "noop.queued")
        world.enqueue(user_id=user)
        harness.fan_out()
        harness.work()
        [before] = harness.deliveries(hook.id)
        world.advance(8 * DAY)
        assert forget(world) == 1
        [after] = harness.deliveries(hook.id)
        assert (after.id, after.status, after.answer) == (before.id, "delivered", before.answer)
        world.run(lambda tx: endpoints.redeliver(tx, world.queue, hook.id, before.id))
        harness.work()
    assert len(target.received) == 2


def test_events_are_forgotten_in_batches(world: World) -> None:
    for _ in range(3):
        ended(world)
    world.advance(8 * DAY)
    last = world.enqueue()
    forget(world, Keep(), batch=2)
    assert world.rows("SELECT job_id FROM events") == [{"job_id": last}]


def test_whoever_retries_a_job_that_goes_is_told_that_it_is_gone(world: World) -> None:
    old = ended(world)
    world.run(events.assign_positions)
    world.advance(91 * DAY)
    if world.db.dialect.name == "sqlite":
        forget(world)
        with pytest.raises(errors.NotFound):
            world.retry(old)
        return
    # It has read the job already.
    again = NewJob(kind="noop", retry_of=old)
    with pytest.raises(errors.NotFound), world.db.begin() as late:
        assert forget(world) == 1
        world.queue.enqueue(late, again)


def end(world: World, claim: Claim, *, well: bool) -> None:
    if well:
        world.complete(claim)
    else:
        world.fail(claim, ErrorClass.PERMANENT, "broken")


def test_counts_are_exact_while_jobs_are_deleted(world: World) -> None:
    """Enqueue, claim, complete, fail, cancel, retry and delete at once."""
    soon = Keep(jobs_ms=-1, housekeeping_ms=-1)

    def produce(n: int) -> None:
        for _ in range(15):
            made = [world.enqueue(user_id=f"u{n}") for _ in range(3)]
            world.run(partial(world.queue.cancel_many, job_ids=made[:1]))
            with suppress(errors.NotFound, errors.Conflict):
                world.retry(made[0])

    def work(n: int) -> None:
        worker = world.worker(name=f"w{n}")
        for turn in range(30):
            for each in world.claim_all(worker):
                with suppress(errors.Conflict):
                    end(world, each.claim, well=turn % 4 > 0)

    def delete(n: int) -> None:
        for _ in range(8):
            world.run(events.assign_positions)
            retention(world, soon).run_once()

    tasks: list[Callable[[int], None]] = [produce, produce, work, work, delete, delete]
    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(task, n) for n, task in enumerate(tasks)]:
            future.result()
    forget(world, soon)
    forget(world, soon)
    states = {State(row["state"]) for row in world.rows("SELECT DISTINCT state FROM jobs")}
    assert states <= {State.QUEUED, State.PROCESSING, State.CANCELED, State.COMPLETED, State.FAILED}
    with world.db.read() as tx:
        told = {row.state: row.count for row in read_store.totals(tx)}
    assert sum(told.values()) == len(left(world)) + sum(
        row["pruned"] for row in world.rows("SELECT pruned FROM job_counts")
    )


def test_people_see_the_same_of_their_media_and_a_404_of_a_job_that_is_gone(
    either_server: Running,
) -> None:
    rushes = either_server.rushes
    with either_server.user() as ada:
        owner = library.user_id(ada)
        media_id = library.add(either_server, owner)
        library.publish(either_server, media_id, {"master.m3u8": b"#EXTM3U\n"})
        gone = library.enqueue(either_server, owner)
        held = library.claim(either_server, "demo")
        library.finish(either_server, held)
        paths = [f"/media/{media_id}", "/media", f"/jobs?media_id={media_id}"]
        before = [ada.get(path).json() for path in paths]
        job = ada.get(f"/jobs/{gone}")
        assert job.status_code == 200
        rushes.chores.number_events()
        soon = Retention(
            rushes.db,
            Keep(jobs_ms=-1, housekeeping_ms=-1),
            event_ms=10**12,
            pace=Pace(batch=50, rest=0),
        )
        assert soon.run_once() >= 1
        assert [ada.get(path).json() for path in paths] == before
        for path in ("", "/why", "/executions", "/logs"):
            assert ada.get(f"/jobs/{gone}{path}").status_code == 404
        for verb in ("cancel", "retry"):
            assert ada.post(f"/jobs/{gone}/{verb}").status_code == 404
    with either_server.client(base_url=either_server.url) as admin:
        assert 'rushes_jobs_pruned_total{kind="demo"} 1.0' in admin.get("/metrics").text


MONTH = 30 * DAY


def let_workers_reach_a_server(world: World) -> None:
    world.chores.tick()
    world.pass_time(3700)


def forget_workers(world: World, after_seconds: int = MONTH) -> set[str]:
    """Returns those that are left."""
    Retention(
        world.db,
        Keep(),
        event_ms=7 * DAY * 1000,
        worker_ms=after_seconds * 1000,
        pace=Pace(batch=2, rest=0),
    ).run_once()
    world.check()
    return {row["id"] for row in world.rows("SELECT id FROM workers")}


def test_workers_that_are_gone_for_good_are_forgotten_with_their_keys(world: World) -> None:
    gone = [world.run(lambda tx: access.register_worker(tx, "pod", Grant())) for _ in range(5)]
    silent = world.worker(name="attic")
    done = world.enqueue()
    world.complete(world.claim(silent))
    world.advance(29 * DAY)
    young = world.worker()
    let_workers_reach_a_server(world)
    assert len(forget_workers(world)) == 7
    world.advance(DAY)
    let_workers_reach_a_server(world)
    assert forget_workers(world) == {young.id}
    assert world.rows("SELECT prefix FROM worker_keys") == []
    assert access.by_worker_key(world.db, gone[0][1].text) is None
    told = world.rows("SELECT subject FROM security_log WHERE type = 'worker.forgotten'")
    assert sorted(row["subject"] for row in told) == ["attic"] + 5 * ["pod"]
    with world.db.read() as tx:
        [attempt] = read_store.attempts(tx, done)
    assert attempt.worker_name == world.job(done).processed_by_worker_name == "attic"


def test_workers_that_hold_a_job_are_disabled_or_were_heard_of_are_not_forgotten(
    world: World,
) -> None:
    holder, disabled, heard, drained = (world.worker(name=f"w{n}") for n in range(4))
    world.run(lambda tx: access.set_worker_state(tx, disabled.id, AdminState.DISABLED))
    world.run(lambda tx: access.set_worker_state(tx, drained.id, AdminState.DRAINING))
    world.advance(31 * DAY)
    world.hear(heard)
    let_workers_reach_a_server(world)
    world.enqueue()
    claim = world.claim(holder)
    assert forget_workers(world) == {holder.id, disabled.id, heard.id}
    world.complete(claim)
    assert forget_workers(world) == {disabled.id, heard.id}


def test_workers_that_could_not_reach_any_server_are_not_gone(world: World) -> None:
    waiting = world.worker()
    world.advance(100 * DAY)
    assert forget_workers(world) == {waiting.id}
    world.chores.tick()
    assert forget_workers(world) == {waiting.id}
    world.pass_time(600)
    world.hear(waiting)
    world.pass_time(3600)
    assert forget_workers(world) == {waiting.id}


def test_workers_are_kept_for_ever_if_that_is_wanted(world: World) -> None:
    worker = world.worker()
    world.advance(5_000 * DAY)
    let_workers_reach_a_server(world)
    forget(world, Keep())
    assert world.rows("SELECT id FROM workers") == [{"id": worker.id}]


def test_a_worker_that_says_hello_meanwhile_is_not_forgotten(postgres_world: World) -> None:
    world = postgres_world
    worker = world.worker()
    world.advance(31 * DAY)
    let_workers_reach_a_server(world)
    with world.db.begin() as tx:
        fleet.seen(tx, worker.id)
        assert forget_workers(world) == {worker.id}
    assert forget_workers(world) == {worker.id}


def test_a_worker_that_comes_back_too_late_is_told_to_register_again(
    either_server: Running,
) -> None:
    rushes = either_server.rushes
    key = either_server.worker_key("pod")
    with either_server.client(key) as worker:
        for change in (
            "service_beat SET grace_until = 0, beat_at = {now}",
            "workers SET registered_at = 1 WHERE name = 'pod'",
        ):
            with rushes.db.begin() as tx:
                tx.all(f"UPDATE {change}")
        Retention(rushes.db, Keep(), event_ms=10**12, worker_ms=MONTH * 1000).run_once()
        refused = worker.post("/worker/hello", json={"kinds": ["demo"]})
        assert refused.status_code == 401
        assert "has to be registered again" in refused.json()["detail"]
    with either_server.client() as admin:
        names = {each["name"] for each in admin.get("/workers").json()["items"]}
    assert names
    assert "pod" not in names
