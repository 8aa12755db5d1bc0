"""Uploads on each database and each storage, without HTTP."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rushes import errors
from rushes.accounts import access
from rushes.db.database import Tx
from rushes.media import intake as intakes
from rushes.media import library, storage, trash, upload, uploads
from rushes.media import store as media_store
from rushes.media.intake import Intake, Writer
from rushes.media.media import Media
from rushes.media.storage import Storage
from rushes.media.upload import Concat, Upload
from rushes.media.uploads import Limits
from world import World

MIB = 2**20
ADA, BOB = "usr_ada", "usr_bob"


def film(size: int, seed: int = 0) -> bytes:
    """Bytes that look like a WebM, and are different for each seed."""
    head = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm"
    return (head + random.Random(seed).randbytes(size))[:size]


@pytest.fixture
def place(storage_url: str) -> Iterator[Storage]:
    opened = storage.open(storage_url)
    yield opened
    opened.close()


@pytest.fixture
def files(tmp_path: Path) -> Storage:
    return storage.open((tmp_path / "files").as_uri())


class Desk:
    """Short names for what a sender does."""

    def __init__(self, world: World, place: Storage, **limits: int) -> None:
        self.world = world
        self.place = place
        self.limits = Limits(**limits)
        self.restart()

    def restart(self) -> None:
        """As a new process that knows nothing of what the last one had in memory."""
        self.intake = Intake(self.world.db, self.world.queue, self.place, self.limits)

    def create(self, length: int | None, user: str = ADA, **metadata: str) -> str:
        said: upload.Metadata = {name: value.encode() for name, value in metadata.items()}
        return self.intake.create(user, length_bytes=length, metadata=said).id

    def partial(self, data: bytes, user: str = ADA) -> str:
        made = self.intake.create(user, length_bytes=len(data), metadata={}, concat=Concat.PARTIAL)
        self.send(made.id, data, user=user)
        return made.id

    def open(self, id: str, offset: int = 0, user: str = ADA, **more: Any) -> Writer:
        return self.intake.open(id, user, offset_bytes=offset, **more)

    def send(self, id: str, data: bytes, offset: int = 0, user: str = ADA, **more: Any) -> Upload:
        """One request with all of `data`, in pieces as they come from a network."""
        writer = self.open(id, offset, user, **more)
        try:
            for start in range(0, len(data), 256 * 1024):
                writer.write(data[start : start + 256 * 1024])
            return writer.complete()
        except BaseException as error:
            writer.leave(error)
            raise

    def look(self, id: str, user: str | None = ADA) -> Upload:
        with self.world.db.read() as tx:
            return uploads.found(tx, id, user)

    def media(self, id: str | None) -> Media:
        assert id is not None
        with self.world.db.read() as tx:
            return library.found(tx, id, None)

    def source(self, id: str | None) -> bytes:
        key = self.media(id).source_key
        assert key is not None
        return b"".join(self.place.read(key))

    def keys(self) -> list[str]:
        return [entry.key for entry in self.place.list("sources")]

    def expire(self) -> int:
        return uploads.expire(self.world.db, self.place)


@pytest.fixture
def desk(world: World, place: Storage) -> Desk:
    return Desk(world, place)


def gone(error: str = "the connection is gone") -> ConnectionError:
    return ConnectionError(error)


# From the first byte to the media


def test_bytes_sent_in_several_requests_become_one_media_with_its_jobs(desk: Desk) -> None:
    data = film(3 * MIB + 17)
    id = desk.create(len(data), filename="My_Film.webm", language="de", diarize="yes")
    assert desk.send(id, data[:MIB]).offset_bytes == MIB
    assert desk.send(id, data[MIB : 2 * MIB], MIB).media_id is None
    finished = desk.send(id, data[2 * MIB :], 2 * MIB)
    item = desk.media(finished.media_id)
    assert desk.source(finished.media_id) == data
    assert (item.title, item.file_name, item.kind) == ("My Film", "My_Film.webm", "video")
    assert (item.content_type, item.size_bytes) == ("video/webm", len(data))
    assert item.sha256 == hashlib.sha256(data).hexdigest()
    assert item.source_key == finished.key
    assert desk.keys() == [finished.key]
    rows = desk.world.rows("SELECT kind, args FROM jobs WHERE media_id = :id", id=item.id)
    args = {row["kind"]: json.loads(row["args"]) for row in rows}
    assert args["transcode"]["profile"] == "default"
    assert args["transcribe"] == {"diarize": True, "language": "de"}


def test_the_hash_is_right_when_nobody_could_follow_the_bytes(desk: Desk) -> None:
    data = film(MIB)
    id = desk.create(len(data))
    desk.send(id, data[:1000])
    desk.restart()
    finished = desk.send(id, data[1000:], 1000)
    assert desk.media(finished.media_id).sha256 == hashlib.sha256(data).hexdigest()


def test_a_large_upload_goes_through_in_several_parts(desk: Desk) -> None:
    data = film(20 * MIB)
    id = desk.create(len(data))
    writer = desk.open(id)
    for start in range(0, len(data), MIB):
        writer.write(data[start : start + MIB])
        if start % (5 * MIB) == 0:
            writer.flush()
    finished = writer.complete()
    assert desk.source(finished.media_id) == data
    assert desk.keys() == [finished.key]


def test_the_length_may_be_said_with_the_last_request(desk: Desk) -> None:
    data = film(5000)
    id = desk.create(None)
    desk.send(id, data[:3000])
    assert desk.look(id).length_bytes is None
    finished = desk.send(id, data[3000:], 3000, length_bytes=5000)
    assert desk.source(finished.media_id) == data


def test_the_length_may_be_said_after_the_last_byte(desk: Desk) -> None:
    data = film(5000)
    id = desk.create(None)
    desk.send(id, data)
    finished = desk.send(id, b"", 5000, length_bytes=5000)
    assert desk.source(finished.media_id) == data


def test_a_length_cannot_be_changed_once_it_was_said(desk: Desk) -> None:
    id = desk.create(None)
    desk.send(id, film(10), length_bytes=100)
    with pytest.raises(errors.BadField):
        desk.open(id, 10, length_bytes=200)


def test_the_same_bytes_of_the_same_user_are_pointed_out_and_kept(desk: Desk) -> None:
    data = film(5000)
    first = desk.send(desk.create(5000), data)
    other = desk.send(desk.create(5000, BOB), data, user=BOB)
    second = desk.send(desk.create(5000), data)
    with desk.world.db.read() as tx:
        found = [uploads.older_twins(tx, each).seen for each in (first, other, second)]
    assert found == [[], [], [first.media_id]]
    assert desk.source(first.media_id) == desk.source(second.media_id) == data


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_what_is_no_media_is_refused_and_nothing_of_it_stays(
    desk: Desk, in_one_piece: bool
) -> None:
    data = b"#EXTM3U\n" + b"file:///etc/passwd\n" * 1000
    id = desk.create(len(data), filename="film.mp4", filetype="video/mp4")
    with pytest.raises(errors.UnsupportedMedia):
        if in_one_piece:
            desk.send(id, data)
        else:
            desk.send(id, data[:100])
            desk.send(id, data[100:], 100)
    with pytest.raises(errors.Gone):
        desk.look(id)
    assert desk.keys() == []
    assert desk.world.rows("SELECT id FROM media") == []


def test_a_playlist_is_refused_with_its_first_bytes(desk: Desk) -> None:
    writer = desk.open(desk.create(10 * MIB))
    with pytest.raises(errors.UnsupportedMedia) as refused:
        writer.write(b"#EXTM3U\n" * 1000)
    writer.leave(refused.value)
    assert desk.keys() == []


def test_an_empty_file_is_refused_at_once(desk: Desk) -> None:
    with pytest.raises(errors.UnsupportedMedia):
        desk.create(0)


HOSTILE = {
    "../../etc/passwd": ("passwd", "passwd"),
    "..\\..\\boot.ini": ("boot", "boot.ini"),
    "/etc/shadow": ("shadow", "shadow"),
    "a\x00b.mp4": ("ab", "ab.mp4"),
    "evil\r\nSet-Cookie: x=1.mp4": ("evil Set-Cookie: x=1", "evilSet-Cookie: x=1.mp4"),
    "\u202egpj.mp4": ("gpj", "gpj.mp4"),
    "..": ("..", ".."),
    "": ("Untitled", ""),
    "\x00\x01": ("Untitled", ""),
    "x" * 10_000: ("x" * 300, "x" * 255),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_name_is_only_ever_a_name(sqlite_world: World, files: Storage, name: str) -> None:
    desk = Desk(sqlite_world, files)
    finished = desk.send(desk.create(100, filename=name), film(100))
    item = desk.media(finished.media_id)
    assert (item.title, item.file_name) == HOSTILE[name]
    assert desk.keys() == [f"sources/{finished.id}"]


@pytest.mark.parametrize(
    "wish",
    [
        {"title": "x" * 301},
        {"profile": "../secret"},
        {"language": "not a language"},
        {"transcribe": "perhaps"},
        {"diarize": "2"},
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_before_any_byte(
    sqlite_world: World, files: Storage, wish: dict[str, str]
) -> None:
    with pytest.raises(errors.BadField) as refused:
        Desk(sqlite_world, files).create(100, **wish)
    assert refused.value.field in wish


# What a sender may count on


def test_bytes_are_promised_when_they_are_flushed(desk: Desk) -> None:
    data = film(10 * MIB)
    id = desk.create(len(data))
    writer = desk.open(id)
    writer.write(data[: 9 * MIB])
    assert desk.look(id).offset_bytes == 0
    writer.flush()
    assert desk.look(id).offset_bytes == 9 * MIB
    writer.leave(gone())


def test_a_sender_who_leaves_keeps_what_was_received(desk: Desk) -> None:
    data = film(5000)
    id = desk.create(len(data))
    writer = desk.open(id)
    writer.write(data[:3000])
    writer.leave(gone())
    assert desk.look(id).offset_bytes == 3000
    finished = desk.send(id, data[3000:], 3000)
    assert desk.source(finished.media_id) == data


def test_after_a_crash_the_upload_goes_on_at_the_last_promise(desk: Desk) -> None:
    data = film(12 * MIB)
    id = desk.create(len(data))
    writer = desk.open(id)
    writer.write(data[: 9 * MIB])
    writer.flush()
    writer.write(b"never promised" * 1000)
    crash(writer)
    desk.restart()
    desk.world.run(uploads.clear_writers)
    finished = desk.send(id, data[9 * MIB :], 9 * MIB)
    assert desk.source(finished.media_id) == data


def crash(writer: Writer) -> None:
    """The process is gone: its files are closed, its rows are as they were."""
    writer._sink.close()


def test_nobody_hears_that_all_is_there_before_the_media_is(desk: Desk) -> None:
    data = film(2 * MIB)
    id = desk.create(len(data))
    writer = desk.open(id)
    writer.write(data)
    writer.flush()
    assert desk.look(id).offset_bytes < len(data)
    writer.leave(gone("after the last byte"))
    offset = desk.look(id).offset_bytes
    assert offset < len(data)
    finished = desk.send(id, data[offset:], offset)
    assert desk.source(finished.media_id) == data
    assert desk.look(id).offset_bytes == len(data)


def test_an_upload_that_is_ended_while_it_is_finished_becomes_no_media(desk: Desk) -> None:
    data = film(5000)
    id = desk.create(len(data))
    writer = desk.open(id)
    writer.write(data)
    received = writer.seal()
    desk.intake.terminate(id, ADA)
    with pytest.raises(errors.UploadBusy) as lost:
        desk.world.run(lambda tx: writer.commit(tx, received))
    writer.leave(lost.value)
    assert desk.world.rows("SELECT id FROM media") == []
    assert desk.world.rows("SELECT id FROM jobs") == []


def test_a_finished_upload_takes_nothing_more(desk: Desk) -> None:
    data = film(5000)
    finished = desk.send(desk.create(5000), data)
    with pytest.raises(errors.WrongState):
        desk.open(finished.id, 5000)
    with pytest.raises(errors.WrongOffset) as wrong:
        desk.open(finished.id, 4000)
    assert wrong.value.offset_bytes == 5000
    with pytest.raises(errors.WrongState):
        desk.intake.terminate(finished.id, ADA)
    assert desk.source(finished.media_id) == data


@pytest.mark.parametrize("offset", [0, 1, 999, 1001, 5000, 2**62])
def test_a_wrong_offset_is_refused_and_the_right_one_told(desk: Desk, offset: int) -> None:
    id = desk.create(5000)
    desk.send(id, film(1000))
    with pytest.raises(errors.WrongOffset) as wrong:
        desk.open(id, offset)
    assert wrong.value.offset_bytes == 1000


def test_a_body_that_is_too_long_is_refused_before_it_is_written(desk: Desk) -> None:
    id = desk.create(1)
    with pytest.raises(errors.TooLarge):
        desk.open(id, body_bytes=MIB)
    assert desk.keys() == []
    writer = desk.open(id)
    with pytest.raises(errors.TooLarge) as refused:
        writer.write(film(MIB))
    writer.leave(refused.value)
    assert desk.look(id).offset_bytes == 0


def test_nothing_is_kept_of_a_body_that_turns_out_too_long(desk: Desk) -> None:
    data = film(20 * MIB)
    id = desk.create(11 * MIB)
    desk.send(id, data[:MIB])
    writer = desk.open(id, MIB)
    writer.write(data[MIB : 10 * MIB])
    writer.flush()
    with pytest.raises(errors.TooLarge) as refused:
        writer.write(data[10 * MIB :])
    writer.leave(refused.value)
    assert desk.look(id).offset_bytes == MIB
    finished = desk.send(id, data[MIB : 11 * MIB], MIB)
    assert desk.source(finished.media_id) == data[: 11 * MIB]


@pytest.mark.parametrize("algorithm", intakes.ALGORITHMS)
def test_bytes_that_do_not_match_their_checksum_are_not_kept(desk: Desk, algorithm: str) -> None:
    data = film(5000)
    id = desk.create(len(data))
    right = (algorithm, hashlib.new(algorithm, data).digest())
    with pytest.raises(errors.WrongChecksum):
        desk.send(id, data[::-1], checksum=right)
    assert desk.look(id).offset_bytes == 0
    finished = desk.send(id, data, checksum=right)
    assert desk.source(finished.media_id) == data


def test_bytes_with_a_checksum_are_not_kept_until_all_have_come(desk: Desk) -> None:
    id = desk.create(20 * MIB)
    writer = desk.open(id, checksum=("sha1", bytes(20)))
    writer.write(film(9 * MIB))
    writer.flush()
    writer.leave(gone())
    assert desk.look(id).offset_bytes == 0


# One writer at a time


def test_a_second_sender_is_told_at_once_that_somebody_is_writing(desk: Desk) -> None:
    id = desk.create(5000)
    writer = desk.open(id)
    for offset in (0, 7):
        with pytest.raises(errors.UploadBusy):
            desk.open(id, offset)
    writer.leave(gone())
    desk.open(id).leave(gone())


def test_a_writer_that_flushes_keeps_its_upload(desk: Desk) -> None:
    id = desk.create(50 * MIB)
    writer = desk.open(id)
    for _ in range(5):
        desk.world.advance(9)
        writer.write(film(MIB))
        writer.flush()
        with pytest.raises(errors.UploadBusy):
            desk.open(id, 0)
    writer.leave(gone())


def test_a_silent_sender_can_be_replaced_and_changes_nothing_afterwards(desk: Desk) -> None:
    data = film(5000)
    id = desk.create(len(data))
    silent = desk.open(id)
    silent.write(data[:1000])
    silent.pause()
    finished = desk.send(id, data[1000:], 1000)
    with pytest.raises(errors.UploadBusy) as lost:
        silent.resume()
    silent.leave(lost.value)
    assert desk.source(finished.media_id) == data


def test_a_silent_sender_goes_on_if_nobody_took_its_place(desk: Desk) -> None:
    data = film(5000)
    id = desk.create(len(data))
    writer = desk.open(id)
    writer.write(data[:1000])
    writer.pause()
    assert desk.look(id).offset_bytes == 1000
    desk.world.advance(60)
    writer.resume()
    writer.write(data[1000:])
    assert desk.source(writer.complete().media_id) == data


def test_a_frozen_writer_cannot_spoil_what_its_successor_wrote(desk: Desk) -> None:
    data = film(30 * MIB)
    id = desk.create(len(data))
    frozen = desk.open(id)
    frozen.write(data[: 9 * MIB])
    frozen.flush()
    desk.world.advance(11)
    try:
        successor = desk.open(id, 9 * MIB)
    except errors.UploadBusy:
        # Its file is still locked: nobody else writes until it has gone.
        crash(frozen)
        desk.world.advance(11)
        successor = desk.open(id, 9 * MIB)
    successor.write(data[9 * MIB : 18 * MIB])
    successor.flush()
    with pytest.raises((errors.UploadBusy, errors.StorageDown)):
        frozen.write(b"late" * (3 * MIB))
        frozen.flush()
    frozen.leave(gone())
    successor.write(data[18 * MIB :])
    assert desk.source(successor.complete().media_id) == data


def test_a_server_that_starts_alone_lets_every_sender_in(desk: Desk) -> None:
    id = desk.create(5000)
    crash(desk.open(id))
    desk.world.run(uploads.clear_writers)
    desk.open(id).leave(gone())


# Room


def test_twenty_at_once_cannot_exceed_a_quota_together(world: World, files: Storage) -> None:
    desk = Desk(world, files, quota_bytes=5 * MIB)
    ada = world.run(lambda tx: access.add_user(tx, "ada")).id

    def attempt(_: int) -> bool:
        try:
            desk.create(MIB, ada)
        except errors.TooLarge:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(attempt, range(20))) == 5
    with world.db.read() as tx:
        assert media_store.used_bytes(tx, ada) == 5 * MIB


def test_what_was_made_of_a_source_counts_towards_the_quota(world: World, files: Storage) -> None:
    desk = Desk(world, files, quota_bytes=1000)
    media_id = world.add_media(user_id="ada")
    versions = {"current": 500, "retired": 300}

    def make(tx: Tx) -> None:
        for state, size_bytes in versions.items():
            tx.all(
                "INSERT INTO versions (id, media_id, job_id, claim_id, state, size_bytes,"
                " created_at) VALUES (:id, :media_id, :id, :id, :state, :size_bytes, {now})",
                id=f"ver_{state}",
                media_id=media_id,
                state=state,
                size_bytes=size_bytes,
            )

    world.run(make)
    desk.create(400, "ada")
    with pytest.raises(errors.TooLarge):
        desk.create(200, "ada")
    # It takes room until it is gone for good.
    world.run(lambda tx: tx.all("UPDATE media SET deleted_at = {now}"))
    with pytest.raises(errors.TooLarge):
        desk.create(200, "ada")
    world.run(lambda tx: tx.all("UPDATE media SET purge_started_at = {now}"))
    desk.create(200, "ada")


def test_a_quota_of_ones_own_goes_before_the_common_one(world: World, files: Storage) -> None:
    desk = Desk(world, files, quota_bytes=100)
    world.run(access.ensure_admin)
    ada = world.run(lambda tx: access.add_user(tx, "ada")).id
    world.run(lambda tx: access.change_user(tx, ada, quota_bytes=1000))
    desk.create(900, ada)
    with pytest.raises(errors.TooLarge):
        desk.create(200, ada)
    with pytest.raises(errors.TooLarge):
        desk.create(200, BOB)


def test_a_quota_counts_what_has_become_media_and_forgets_what_was_ended(
    world: World, files: Storage
) -> None:
    desk = Desk(world, files, quota_bytes=1000)
    finished = desk.send(desk.create(600), film(600))
    id = desk.create(400)
    with pytest.raises(errors.TooLarge):
        desk.create(1)
    desk.intake.terminate(id, ADA)
    desk.create(400)
    deleted = str(finished.media_id)
    world.run(lambda tx: library.delete(tx, world.queue, deleted))
    # What is in the trash can come back, so it still counts.
    with pytest.raises(errors.TooLarge):
        desk.create(1)
    world.run(lambda tx: trash.give_up(tx, [deleted]))
    desk.create(600)


def test_a_quota_holds_for_a_length_that_was_not_said(desk: Desk) -> None:
    desk.limits = Limits(quota_bytes=10 * MIB)
    desk.restart()
    id = desk.create(None)
    desk.send(id, film(4 * MIB))
    writer = desk.open(id, 4 * MIB)
    writer.write(film(9 * MIB, seed=1))
    with pytest.raises(errors.TooLarge) as refused:
        writer.flush()
    writer.leave(refused.value)
    assert desk.look(id).offset_bytes == 4 * MIB
    with pytest.raises(errors.TooLarge):
        desk.send(id, b"", 4 * MIB, length_bytes=11 * MIB)


def test_a_file_above_the_limit_is_refused_however_it_comes(desk: Desk) -> None:
    desk.limits = Limits(max_bytes=MIB)
    desk.restart()
    with pytest.raises(errors.TooLarge):
        desk.create(MIB + 1)
    id = desk.create(None)
    with pytest.raises(errors.TooLarge):
        desk.open(id, body_bytes=MIB + 1)
    with pytest.raises(errors.TooLarge):
        desk.send(id, film(2 * MIB))
    with pytest.raises(errors.TooLarge):
        desk.open(id, length_bytes=MIB + 1)
    halves = [desk.partial(film(MIB)), desk.partial(film(MIB, seed=1))]
    with pytest.raises(errors.TooLarge):
        desk.intake.concatenate(ADA, halves, {})


def test_an_upload_that_would_fill_the_disk_is_refused(world: World, files: Storage) -> None:
    free = files.free_bytes()
    assert free is not None
    desk = Desk(world, files, min_free_bytes=free // 2)
    desk.create(MIB)
    with pytest.raises(errors.DiskFull):
        desk.create(free)
    with pytest.raises(errors.DiskFull):
        desk.open(desk.create(None), body_bytes=free)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "rushes-test", path], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    yield path
    subprocess.run(["umount", path], check=True)


def test_a_full_disk_keeps_what_is_durable_and_the_upload_goes_on_later(
    world: World, small_disk: Path
) -> None:
    place = storage.open((small_disk / "storage").as_uri())
    desk = Desk(world, place)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * MIB))
    data = film(6 * MIB)
    id = desk.create(len(data))
    with pytest.raises(errors.DiskFull):
        desk.send(id, data)
    offset = desk.look(id).offset_bytes
    assert 2 * MIB < offset < 6 * MIB
    ballast.unlink()
    finished = desk.send(id, data[offset:], offset)
    assert desk.source(finished.media_id) == data


# The end


def test_an_unfinished_upload_expires_and_its_bytes_go(desk: Desk) -> None:
    id = desk.create(50 * MIB)
    desk.send(id, film(9 * MIB))
    desk.world.advance(86_400 - 1)
    assert desk.expire() == 0
    desk.world.advance(2)
    with pytest.raises(errors.Gone):
        desk.look(id)
    with pytest.raises(errors.Gone):
        desk.open(id, 9 * MIB)
    assert desk.expire() == 1
    assert desk.keys() == []
    assert desk.expire() == 0


def test_every_byte_that_comes_postpones_the_end(desk: Desk) -> None:
    id = desk.create(5000)
    desk.world.advance(80_000)
    desk.send(id, film(1000))
    desk.world.advance(80_000)
    desk.send(id, film(1000), 1000)
    assert desk.expire() == 0


def test_a_finished_upload_is_forgotten_one_day_but_its_source_stays(desk: Desk) -> None:
    data = film(9 * MIB)
    finished = desk.send(desk.create(len(data)), data)
    desk.world.advance(3 * 86_400)
    desk.expire()
    assert desk.look(finished.id).media_id == finished.media_id
    desk.world.advance(5 * 86_400)
    desk.expire()
    with pytest.raises(errors.NotFound):
        desk.look(finished.id)
    assert desk.source(finished.media_id) == data


def test_a_crash_before_the_bytes_were_removed_is_made_good(desk: Desk) -> None:
    id = desk.create(50 * MIB)
    desk.send(id, film(9 * MIB))
    desk.world.run(lambda tx: uploads.terminate(tx, id, ADA))
    assert desk.keys() != []
    desk.expire()
    assert desk.keys() == []


def test_a_terminated_upload_is_gone_with_its_bytes(desk: Desk) -> None:
    id = desk.create(50 * MIB)
    desk.send(id, film(9 * MIB))
    desk.intake.terminate(id, ADA)
    assert desk.keys() == []
    for again in (lambda: desk.look(id), lambda: desk.intake.terminate(id, ADA)):
        with pytest.raises(errors.Gone):
            again()


def test_terminating_stops_whoever_is_writing(desk: Desk) -> None:
    id = desk.create(50 * MIB)
    writer = desk.open(id)
    writer.write(film(9 * MIB))
    desk.intake.terminate(id, None)
    with pytest.raises(errors.UploadBusy) as lost:
        writer.flush()
    writer.leave(lost.value)
    with pytest.raises(errors.Gone):
        desk.look(id)


def test_an_upload_is_its_owners_alone(desk: Desk) -> None:
    id = desk.create(5000)
    attempts: list[Callable[[], object]] = [
        lambda: desk.look(id, BOB),
        lambda: desk.open(id, user=BOB),
        lambda: desk.intake.terminate(id, BOB),
    ]
    for attempt in attempts:
        with pytest.raises(errors.NotFound) as refused:
            attempt()
        assert refused.value.code == "not_found"


# Parts that are put together


def test_partial_uploads_become_one_media_in_the_order_given(desk: Desk) -> None:
    data = film(25 * MIB)
    thirds = [data[: 9 * MIB], data[9 * MIB : 10 * MIB], data[10 * MIB :]]
    ids = [desk.partial(third) for third in reversed(thirds)][::-1]
    assert desk.world.rows("SELECT id FROM media") == []
    final = desk.intake.concatenate(ADA, ids, {"filename": b"film.webm"})
    assert desk.source(final.media_id) == data
    assert desk.media(final.media_id).title == "film"
    assert desk.media(final.media_id).sha256 == hashlib.sha256(data).hexdigest()
    assert desk.keys() == [final.key]


def test_asking_again_to_put_the_same_together_answers_the_same(desk: Desk) -> None:
    ids = [desk.partial(film(1000)), desk.partial(film(1000, seed=1))]
    first = desk.intake.concatenate(ADA, ids, {})
    assert desk.intake.concatenate(ADA, ids, {}).media_id == first.media_id
    assert len(desk.world.rows("SELECT id FROM media")) == 1


def test_two_who_ask_at_once_get_one_media(desk: Desk) -> None:
    ids = [desk.partial(film(3 * MIB)), desk.partial(film(3 * MIB, seed=1))]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: desk.intake.concatenate(ADA, ids, {}).media_id, range(4)))
    assert len(set(made)) == 1
    assert desk.source(made[0]) == film(3 * MIB) + film(3 * MIB, seed=1)
    assert len(desk.keys()) == 1


def test_only_whole_partial_uploads_of_ones_own_can_be_put_together(desk: Desk) -> None:
    whole = desk.partial(film(1000))
    plain = desk.create(1000)
    others = desk.partial(film(1000), user=BOB)
    begun = desk.intake.create(ADA, length_bytes=10, metadata={}, concat=Concat.PARTIAL).id
    for ids in ([whole, plain], [whole, others], [whole, "upl_none"], [whole, whole]):
        with pytest.raises(errors.BadField):
            desk.intake.concatenate(ADA, ids, {})
    with pytest.raises(errors.WrongState):
        desk.intake.concatenate(ADA, [whole, begun], {})


def test_what_is_put_together_is_looked_at_as_well(desk: Desk) -> None:
    halves = [desk.partial(b"#EXT"), desk.partial(b"M3U\nfile:///etc/passwd\n")]
    with pytest.raises(errors.UnsupportedMedia):
        desk.intake.concatenate(ADA, halves, {})
    assert desk.world.rows("SELECT id FROM media") == []
