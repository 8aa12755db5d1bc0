"""The trash on each database: what a restore brings back, and that no purge takes what is seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from resilience.breakpoints import until
from rushes import Rushes, errors, ids
from rushes.db.database import Database, Tx
from rushes.jobs import enqueue_store, invariants
from rushes.jobs.job import NewJob, State
from rushes.media import (
    label_store,
    labels,
    library,
    position_store,
    purge,
    purge_store,
    requests,
    trash,
)
from rushes.media import store as media_store
from rushes.media.media import Media, NewMedia, ProcessingOptions
from rushes.protocol import Artifact, Claim
from rushes.storage import storage as storages
from rushes.storage.storage import Storage
from world import World, postgres_database

DAY = 86_400.0
TRASH_MS = int(30 * DAY * 1000)
KINDS = ("transcode", "transcribe")


@dataclass
class Job:
    """A purge job as its handler sees it."""

    args: dict[str, Any]

    def alive(self) -> None: ...

    def raise_if_stopped(self) -> None: ...


class MediaHarness:
    """Media with real files."""

    def __init__(self, world: World, storage: Storage) -> None:
        self.world = world
        self.storage = storage
        self.number = 0

    def add(self, **options: Any) -> str:
        self.number += 1
        key = f"sources/upl_{self.number}"
        self.storage.put(key, b"source")
        new = NewMedia(
            user_id="ada",
            title="Wedding",
            source_key=key,
            size_bytes=6,
            options=ProcessingOptions(**options),
        )
        return self.world.run(lambda tx: library.add(tx, self.world.queue, new))

    def publish(self, media_id: str) -> None:
        """By the transcode job that waits first."""
        claim = self.world.claim(self.world.worker(kinds=["transcode"]))
        self.put(claim, media_id)
        self.world.run(lambda tx: library.complete(tx, self.world.queue, claim, files=1))

    def put(self, claim: Claim, media_id: str) -> None:
        key = f"media/{claim.claim_id}"
        self.storage.put(key, b"picture")
        file = Artifact(name="a.mp4", size_bytes=7, sha256="", content_type="video/mp4")
        version = self.world.run(lambda tx: library.start_version(tx, claim, media_id))
        assert self.world.run(lambda tx: media_store.add_artifact(tx, claim, version, key, file))

    def delete(self, media_id: str) -> None:
        self.world.run(lambda tx: library.delete(tx, self.world.queue, media_id))

    def restore(self, media_id: str) -> Media:
        return self.world.run(lambda tx: trash.restore(tx, self.world.queue, media_id, "ada"))

    def purge(self, media_id: str) -> dict[str, int]:
        remover = purge.Purge(self.world.db, self.storage, grace_ms=0, trash_ms=TRASH_MS)
        return remover(Job({"media_id": media_id}))

    def plan(self) -> int:
        return self.world.run(
            lambda tx: purge.plan(
                tx, self.world.queue, grace_ms=0, trash_ms=TRASH_MS, cleanup_partial=True
            )
        )

    def get(self, media_id: str) -> Media | None:
        with self.world.db.read() as tx:
            return media_store.get(tx, media_id)

    def files(self) -> int:
        return sum(1 for folder in purge.FOLDERS for _ in self.storage.list(folder))

    def jobs(self, media_id: str) -> list[tuple[str, str]]:
        rows = self.world.rows(
            "SELECT kind, state FROM jobs WHERE media_id = :id ORDER BY id", id=media_id
        )
        return [(row["kind"], row["state"]) for row in rows]


@pytest.fixture
def harness(world: World, tmp_path: Path) -> Iterator[MediaHarness]:
    yield MediaHarness(world, storages.open((tmp_path / "files").as_uri()))
    world.check()


def test_a_restore_brings_the_version_back_without_its_link(harness: MediaHarness) -> None:
    media_id = harness.add(transcribe=False)
    harness.publish(media_id)
    before = harness.get(media_id)
    assert before is not None
    harness.world.run(lambda tx: library.share(tx, before))
    harness.delete(media_id)
    assert harness.get(media_id) is None
    harness.world.advance(29 * DAY)
    assert harness.plan() == 0
    after = harness.restore(media_id)
    assert (after.status, after.current_version_id) == ("ready", before.current_version_id)
    assert (after.share_token, after.deleted_at) == (None, None)
    rows = harness.world.rows("SELECT type FROM events ORDER BY seq")
    assert [row["type"] for row in rows][-2:] == ["media.deleted", "media.updated"]


def test_work_that_was_waiting_goes_on_after_a_restore(harness: MediaHarness) -> None:
    media_id = harness.add()
    harness.world.advance(1)
    harness.delete(media_id)
    assert harness.jobs(media_id) == [("transcode", "canceled"), ("transcribe", "canceled")]
    item = harness.restore(media_id)
    assert (item.status, item.transcript_status) == ("pending", "pending")
    for _ in range(2):
        harness.world.advance(1)
        harness.delete(media_id)
        harness.restore(media_id)
    states = [state for _, state in harness.jobs(media_id)]
    assert sorted(states) == ["canceled"] * 6 + ["queued"] * 2


def test_what_was_canceled_before_stays_canceled(harness: MediaHarness) -> None:
    media_id = harness.add(transcode=False)
    [row] = harness.world.rows("SELECT id FROM jobs")
    harness.world.cancel(row["id"])
    harness.world.advance(1)
    harness.delete(media_id)
    assert harness.restore(media_id).transcript_status == "failed"
    assert harness.jobs(media_id) == [("transcribe", "canceled")]


def test_a_job_waits_again_for_the_one_it_waited_for(harness: MediaHarness) -> None:
    world, media_id = harness.world, harness.add(transcribe=False)
    [first] = world.rows("SELECT id FROM jobs")
    child = NewJob(kind="custom", media_id=media_id, parent_id=first["id"])
    world.run(lambda tx: world.queue.enqueue(tx, child))
    harness.delete(media_id)
    harness.restore(media_id)
    assert harness.jobs(media_id)[2:] == [("transcode", "queued"), ("custom", "blocked")]
    harness.publish(media_id)
    assert harness.jobs(media_id)[2:] == [("transcode", "completed"), ("custom", "queued")]


def test_work_goes_on_though_its_worker_has_yet_to_stop(harness: MediaHarness) -> None:
    """It takes over what the other has put, and the other can neither add to it nor complete."""
    world, media_id = harness.world, harness.add(transcribe=False)
    slow = world.claim(world.worker(kinds=["transcode"]))
    harness.put(slow, media_id)
    harness.delete(media_id)
    assert world.heartbeat(slow).cancel
    assert harness.restore(media_id).status == "processing"
    quick = world.claim(world.worker(kinds=["transcode"]))
    assert world.job(quick.job_id).retry_of == slow.job_id
    version = world.run(lambda tx: library.start_version(tx, quick, media_id))
    late = Artifact(name="late.mp4", size_bytes=7, sha256="", content_type="video/mp4")
    assert not world.run(lambda tx: media_store.add_artifact(tx, slow, version, "late", late))
    with pytest.raises(errors.CancelRequested):
        world.complete(slow)
    assert world.fail(slow) is State.CANCELED
    harness.put(quick, media_id)
    done = world.run(lambda tx: library.complete(tx, world.queue, quick, files=1))
    assert done.state == "completed"
    item = harness.get(media_id)
    assert item is not None
    assert item.current_version_id == version


def test_there_is_still_one_new_version_at_a_time(harness: MediaHarness) -> None:
    world, media_id = harness.world, harness.add(transcribe=False)
    world.claim(world.worker(kinds=["transcode"]))
    harness.delete(media_id)
    item = harness.restore(media_id)
    [_, resumed] = world.rows("SELECT id FROM jobs ORDER BY id")
    assert world.run(lambda tx: requests.retranscode(tx, world.queue, item)) == resumed["id"]
    with pytest.raises(errors.WrongState):
        world.run(lambda tx: requests.trim(tx, world.queue, item, 1, 2))


def test_a_purge_takes_only_what_is_due_whoever_asks_for_it(harness: MediaHarness) -> None:
    seen, young, old = (harness.add(transcribe=False) for _ in range(3))
    for media_id in (seen, young, old):
        harness.publish(media_id)
    harness.delete(old)
    harness.world.advance(30 * DAY)
    harness.delete(young)
    assert [harness.purge(each)["objects"] for each in (seen, young)] == [0, 0]
    assert harness.files() == 6
    assert harness.plan() == 1
    assert harness.purge(old)["objects"] == 2
    assert harness.files() == 4
    assert harness.restore(young).status == "ready"
    with pytest.raises(errors.WrongState, match="deleted for good"):
        harness.restore(old)
    with pytest.raises(errors.WrongState, match="not in the trash"):
        harness.restore(seen)


def test_what_is_overdue_can_be_restored_until_its_purge_begins(harness: MediaHarness) -> None:
    media_id = harness.add(transcribe=False)
    harness.publish(media_id)
    harness.delete(media_id)
    harness.world.advance(40 * DAY)
    assert harness.plan() == 1
    assert harness.restore(media_id).status == "ready"
    # The job that was planned finds nothing to do.
    assert harness.purge(media_id)["objects"] == 0
    assert harness.files() == 2


def test_what_was_given_up_goes_at_once(harness: MediaHarness) -> None:
    media_id = harness.add(transcribe=False)
    harness.publish(media_id)
    with pytest.raises(errors.WrongState, match="trash"):
        harness.world.run(lambda tx: trash.purge(tx, media_id, "ada"))
    harness.delete(media_id)
    with pytest.raises(errors.NotFound):
        harness.world.run(lambda tx: trash.purge(tx, media_id, "bob"))
    harness.world.run(lambda tx: trash.purge(tx, media_id, "ada"))
    with pytest.raises(errors.WrongState):
        harness.restore(media_id)
    assert harness.plan() == 1
    assert harness.purge(media_id)["objects"] == 2
    assert harness.files() == 0


def test_what_people_said_of_a_media_goes_with_it(harness: MediaHarness) -> None:
    media_id = harness.add(transcribe=False)

    def say(tx: Tx) -> None:
        labels.put_in_folder(tx, "ada", media_id, "Private")
        label_store.describe(tx, media_id, "private")
        position_store.keep(tx, "ada", media_id, 9.0, finished=False)

    harness.world.run(say)
    harness.publish(media_id)
    harness.delete(media_id)
    harness.world.run(lambda tx: trash.purge(tx, media_id, "ada"))
    harness.purge(media_id)
    with harness.world.db.read() as tx:
        assert label_store.of_media(tx, [media_id]) == {}
        assert position_store.get(tx, "ada", media_id) is None
        [row] = tx.all("SELECT description FROM media WHERE id = :id", id=media_id)
        assert row["description"] is None


def test_a_purge_waits_for_the_worker(harness: MediaHarness) -> None:
    media_id = harness.add(transcribe=False)
    claim = harness.world.claim(harness.world.worker(kinds=["transcode"]))
    harness.delete(media_id)
    harness.world.run(lambda tx: trash.purge(tx, media_id, "ada"))
    assert (harness.plan(), harness.purge(media_id)["objects"]) == (0, 0)
    harness.world.fail(claim)
    assert (harness.plan(), harness.purge(media_id)["objects"]) == (1, 1)


def test_a_purge_that_died_is_finished_and_cannot_be_taken_back(
    harness: MediaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    media_id = harness.add(transcribe=False)
    harness.publish(media_id)
    harness.delete(media_id)
    harness.world.advance(31 * DAY)

    def die(keys: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as dying, pytest.raises(RuntimeError):
        dying.setattr(harness.storage, "delete", die)
        harness.purge(media_id)
    assert harness.files() == 2
    with pytest.raises(errors.WrongState, match="deleted for good"):
        harness.restore(media_id)
    harness.world.check()
    assert harness.plan() >= 1
    assert harness.purge(media_id)["objects"] == 2
    assert harness.purge(media_id)["objects"] == 0
    assert harness.files() == 0


def test_a_restore_and_a_purge_at_once_leave_all_or_nothing(harness: MediaHarness) -> None:
    world = harness.world
    items = [harness.add(transcribe=False) for _ in range(6)]
    for media_id in items:
        harness.publish(media_id)
    world.run(lambda tx: trash.put(tx, world.queue, items))
    world.advance(31 * DAY)
    restored: set[str] = set()

    def restore(media_id: str, start: threading.Barrier) -> None:
        start.wait()
        try:
            harness.restore(media_id)
            restored.add(media_id)
        except errors.WrongState:
            pass

    def remove(media_id: str, start: threading.Barrier) -> None:
        start.wait()
        harness.purge(media_id)

    for media_id in items:
        start = threading.Barrier(2)
        both = [threading.Thread(target=verb, args=[media_id, start]) for verb in (restore, remove)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
    for media_id in items:
        assert (harness.get(media_id) is not None) == (media_id in restored)
    assert harness.files() == 2 * len(restored)


@pytest.mark.parametrize("first", ["restore", "purge"])
def test_the_second_of_the_two_waits_and_sees_what_the_first_has_done(
    postgres_world: World, tmp_path: Path, first: str
) -> None:
    """Where both can be under way: the first has its transaction open when the second begins."""
    harness = MediaHarness(postgres_world, storages.open((tmp_path / "files").as_uri()))
    world, media_id = harness.world, harness.add(transcribe=False)
    harness.publish(media_id)
    harness.delete(media_id)
    world.advance(31 * DAY)
    seen: list[Any] = []

    def second() -> None:
        try:
            seen.append(
                harness.purge(media_id) if first == "restore" else harness.restore(media_id)
            )
        except errors.WrongState as error:
            seen.append(error)

    with world.db.begin() as tx:
        if first == "restore":
            trash.restore(tx, world.queue, media_id, "ada")
        else:
            purge_store.start_media(tx, media_id, trash_ms=TRASH_MS)
        other = threading.Thread(target=second)
        other.start()
        while not _is_waiting(world.db):
            pass
    other.join()
    [answer] = seen
    if first == "restore":
        assert (answer, harness.files()) == ({"objects": 0}, 2)
        assert harness.get(media_id) is not None
    else:
        assert isinstance(answer, errors.WrongState)
        assert harness.get(media_id) is None
    world.check()


@pytest.mark.parametrize("first", ["enqueue", "delete"])
def test_no_job_is_left_on_a_media_that_is_deleted_meanwhile(
    postgres_world: World, first: str
) -> None:
    """The first has its transaction open when the second begins."""
    world = postgres_world
    media_id = world.add_media()
    refused: list[errors.BadField] = []

    def enqueue(tx: Tx) -> None:
        world.queue.enqueue(tx, NewJob(kind="noop", media_id=media_id))

    def delete(tx: Tx) -> None:
        trash.put(tx, world.queue, [media_id])

    begin, then = (enqueue, delete) if first == "enqueue" else (delete, enqueue)

    def second() -> None:
        try:
            world.run(then)
        except errors.BadField as error:
            refused.append(error)

    with world.db.begin() as tx:
        begin(tx)
        other = threading.Thread(target=second)
        other.start()
        until(lambda: _is_waiting(world.db) or not other.is_alive())
    other.join()
    left = world.rows("SELECT id FROM jobs WHERE state IN ('blocked','queued','processing')")
    assert left == []
    assert bool(refused) == (first == "delete")
    world.check()


def test_the_library_cannot_leave_a_job_on_a_deleted_media_either() -> None:
    """Between the look whether the media is there and the insert, somebody deletes it."""
    with postgres_database() as url, Rushes(url) as rushes:
        media_id = ids.new("med")
        new = NewMedia(user_id="", title="Wedding")
        rushes.db.run(lambda tx: media_store.insert(tx, media_id, new, media_id))
        looked, deleted = threading.Event(), threading.Event()
        real = enqueue_store.insert

        def insert(*args: Any, **named: Any) -> set[str]:
            looked.set()
            until(lambda: deleted.is_set() or _is_waiting(rushes.db))
            return real(*args, **named)

        def delete() -> None:
            assert looked.wait(30)
            rushes.db.run(lambda tx: trash.put(tx, rushes.queue, [media_id]))
            deleted.set()

        deleting = threading.Thread(target=delete)
        deleting.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(enqueue_store, "insert", insert)
            job_id = rushes.enqueue("noop", media_id=media_id).id
        deleting.join()
        assert rushes.job(job_id).state is State.CANCELED


def _is_waiting(db: Database) -> bool:
    with db.read() as tx:
        rows = tx.all(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        )
    return bool(rows)


def test_the_doctor_sees_a_media_whose_bytes_were_purged(harness: MediaHarness) -> None:
    world, media_id = harness.world, harness.add(transcribe=False)
    harness.publish(media_id)
    world.run(lambda tx: tx.all("UPDATE versions SET state = 'purged'"))
    with world.db.read() as tx:
        broken = [each.invariant for each in invariants.check(tx)]
    assert "I31" in broken
    world.run(lambda tx: tx.all("UPDATE versions SET state = 'current'"))
