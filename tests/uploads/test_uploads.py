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
from rushes.media import library, trash
from rushes.media import store as media_store
from rushes.media.media import Media
from rushes.storage import storage
from rushes.storage.storage import Storage
from rushes.uploads import receiver as intakes
from rushes.uploads import upload, uploads
from rushes.uploads.receiver import Receiver, Writer
from rushes.uploads.upload import Concat, Upload
from rushes.uploads.uploads import UploadLimits
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


class UploadClient:
    """Short names for what a sender does."""

    def __init__(self, world: World, place: Storage, **limits: int) -> None:
        self.world = world
        self.place = place
        self.limits = UploadLimits(**limits)
        self.restart()

    def restart(self) -> None:
        """As a new process that knows nothing of what the last one had in memory."""
        self.receiver = Receiver(self.world.db, self.world.queue, self.place, self.limits)

    def create(self, length: int | None, user: str = ADA, **metadata: str) -> str:
        said: upload.Metadata = {name: value.encode() for name, value in metadata.items()}
        return self.receiver.create(user, length_bytes=length, metadata=said).id

    def partial(self, data: bytes, user: str = ADA) -> str:
        made = self.receiver.create(
            user, length_bytes=len(data), metadata={}, concat=Concat.PARTIAL
        )
        self.send(made.id, data, user=user)
        return made.id

    def open(self, id: str, offset: int = 0, user: str = ADA, **more: Any) -> Writer:
        return self.receiver.open(id, user, offset_bytes=offset, **more)

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
def client(world: World, place: Storage) -> UploadClient:
    return UploadClient(world, place)


def gone(error: str = "the connection is gone") -> ConnectionError:
    return ConnectionError(error)


# From the first byte to the media


def test_bytes_sent_in_several_requests_become_one_media_with_its_jobs(
    client: UploadClient,
) -> None:
    data = film(3 * MIB + 17)
    id = client.create(len(data), filename="My_Film.webm", language="de", diarize="yes")
    assert client.send(id, data[:MIB]).offset_bytes == MIB
    assert client.send(id, data[MIB : 2 * MIB], MIB).media_id is None
    finished = client.send(id, data[2 * MIB :], 2 * MIB)
    item = client.media(finished.media_id)
    assert client.source(finished.media_id) == data
    assert (item.title, item.file_name, item.kind) == ("My Film", "My_Film.webm", "video")
    assert (item.content_type, item.size_bytes) == ("video/webm", len(data))
    assert item.sha256 == hashlib.sha256(data).hexdigest()
    assert item.source_key == finished.key
    assert client.keys() == [finished.key]
    rows = client.world.rows("SELECT kind, args FROM jobs WHERE media_id = :id", id=item.id)
    args = {row["kind"]: json.loads(row["args"]) for row in rows}
    assert args["transcode"]["profile"] == "default"
    assert args["transcribe"] == {"diarize": True, "language": "de"}


def test_the_hash_is_right_when_nobody_could_follow_the_bytes(client: UploadClient) -> None:
    data = film(MIB)
    id = client.create(len(data))
    client.send(id, data[:1000])
    client.restart()
    finished = client.send(id, data[1000:], 1000)
    assert client.media(finished.media_id).sha256 == hashlib.sha256(data).hexdigest()


def test_a_large_upload_goes_through_in_several_parts(client: UploadClient) -> None:
    data = film(20 * MIB)
    id = client.create(len(data))
    writer = client.open(id)
    for start in range(0, len(data), MIB):
        writer.write(data[start : start + MIB])
        if start % (5 * MIB) == 0:
            writer.flush()
    finished = writer.complete()
    assert client.source(finished.media_id) == data
    assert client.keys() == [finished.key]


def test_the_length_may_be_said_with_the_last_request(client: UploadClient) -> None:
    data = film(5000)
    id = client.create(None)
    client.send(id, data[:3000])
    assert client.look(id).length_bytes is None
    finished = client.send(id, data[3000:], 3000, length_bytes=5000)
    assert client.source(finished.media_id) == data


def test_the_length_may_be_said_after_the_last_byte(client: UploadClient) -> None:
    data = film(5000)
    id = client.create(None)
    client.send(id, data)
    finished = client.send(id, b"", 5000, length_bytes=5000)
    assert client.source(finished.media_id) == data


def test_a_length_cannot_be_changed_once_it_was_said(client: UploadClient) -> None:
    id = client.create(None)
    client.send(id, film(10), length_bytes=100)
    with pytest.raises(errors.BadField):
        client.open(id, 10, length_bytes=200)


def test_the_same_bytes_of_the_same_user_are_pointed_out_and_kept(client: UploadClient) -> None:
    data = film(5000)
    first = client.send(client.create(5000), data)
    other = client.send(client.create(5000, BOB), data, user=BOB)
    second = client.send(client.create(5000), data)
    with client.world.db.read() as tx:
        found = [uploads.older_twins(tx, each).seen for each in (first, other, second)]
    assert found == [[], [], [first.media_id]]
    assert client.source(first.media_id) == client.source(second.media_id) == data


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_what_is_no_media_is_refused_and_nothing_of_it_stays(
    client: UploadClient, in_one_piece: bool
) -> None:
    data = b"#EXTM3U\n" + b"file:///etc/passwd\n" * 1000
    id = client.create(len(data), filename="film.mp4", filetype="video/mp4")
    with pytest.raises(errors.UnsupportedMedia):
        if in_one_piece:
            client.send(id, data)
        else:
            client.send(id, data[:100])
            client.send(id, data[100:], 100)
    with pytest.raises(errors.Gone):
        client.look(id)
    assert client.keys() == []
    assert client.world.rows("SELECT id FROM media") == []


def test_a_playlist_is_refused_with_its_first_bytes(client: UploadClient) -> None:
    writer = client.open(client.create(10 * MIB))
    with pytest.raises(errors.UnsupportedMedia) as refused:
        writer.write(b"#EXTM3U\n" * 1000)
    writer.leave(refused.value)
    assert client.keys() == []


def test_an_empty_file_is_refused_at_once(client: UploadClient) -> None:
    with pytest.raises(errors.UnsupportedMedia):
        client.create(0)


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
    client = UploadClient(sqlite_world, files)
    finished = client.send(client.create(100, filename=name), film(100))
    item = client.media(finished.media_id)
    assert (item.title, item.file_name) == HOSTILE[name]
    assert client.keys() == [f"sources/{finished.id}"]


@pytest.mark.parametrize(
    "option",
    [
        {"title": "x" * 301},
        {"profile": "../secret"},
        {"language": "not a language"},
        {"transcribe": "perhaps"},
        {"diarize": "2"},
    ],
)
def test_an_option_that_makes_no_sense_is_refused_before_any_byte(
    sqlite_world: World, files: Storage, option: dict[str, str]
) -> None:
    with pytest.raises(errors.BadField) as refused:
        UploadClient(sqlite_world, files).create(100, **option)
    assert refused.value.field in option


# What a sender may count on


def test_bytes_are_promised_when_they_are_flushed(client: UploadClient) -> None:
    data = film(10 * MIB)
    id = client.create(len(data))
    writer = client.open(id)
    writer.write(data[: 9 * MIB])
    assert client.look(id).offset_bytes == 0
    writer.flush()
    assert client.look(id).offset_bytes == 9 * MIB
    writer.leave(gone())


def test_a_sender_who_leaves_keeps_what_was_received(client: UploadClient) -> None:
    data = film(5000)
    id = client.create(len(data))
    writer = client.open(id)
    writer.write(data[:3000])
    writer.leave(gone())
    assert client.look(id).offset_bytes == 3000
    finished = client.send(id, data[3000:], 3000)
    assert client.source(finished.media_id) == data


def test_after_a_crash_the_upload_goes_on_at_the_last_promise(client: UploadClient) -> None:
    data = film(12 * MIB)
    id = client.create(len(data))
    writer = client.open(id)
    writer.write(data[: 9 * MIB])
    writer.flush()
    writer.write(b"never promised" * 1000)
    crash(writer)
    client.restart()
    client.world.run(uploads.clear_writers)
    finished = client.send(id, data[9 * MIB :], 9 * MIB)
    assert client.source(finished.media_id) == data


def crash(writer: Writer) -> None:
    """The process is gone: its files are closed, its rows are as they were."""
    writer._sink.close()


def test_nobody_hears_that_all_is_there_before_the_media_is(client: UploadClient) -> None:
    data = film(2 * MIB)
    id = client.create(len(data))
    writer = client.open(id)
    writer.write(data)
    writer.flush()
    assert client.look(id).offset_bytes < len(data)
    writer.leave(gone("after the last byte"))
    offset = client.look(id).offset_bytes
    assert offset < len(data)
    finished = client.send(id, data[offset:], offset)
    assert client.source(finished.media_id) == data
    assert client.look(id).offset_bytes == len(data)


def test_an_upload_that_is_ended_while_it_is_finished_becomes_no_media(
    client: UploadClient,
) -> None:
    data = film(5000)
    id = client.create(len(data))
    writer = client.open(id)
    writer.write(data)
    received = writer.seal()
    client.receiver.terminate(id, ADA)
    with pytest.raises(errors.UploadBusy) as lost:
        client.world.run(lambda tx: writer.commit(tx, received))
    writer.leave(lost.value)
    assert client.world.rows("SELECT id FROM media") == []
    assert client.world.rows("SELECT id FROM jobs") == []


def test_a_finished_upload_takes_nothing_more(client: UploadClient) -> None:
    data = film(5000)
    finished = client.send(client.create(5000), data)
    with pytest.raises(errors.WrongState):
        client.open(finished.id, 5000)
    with pytest.raises(errors.WrongOffset) as wrong:
        client.open(finished.id, 4000)
    assert wrong.value.offset_bytes == 5000
    with pytest.raises(errors.WrongState):
        client.receiver.terminate(finished.id, ADA)
    assert client.source(finished.media_id) == data


@pytest.mark.parametrize("offset", [0, 1, 999, 1001, 5000, 2**62])
def test_a_wrong_offset_is_refused_and_the_right_one_told(
    client: UploadClient, offset: int
) -> None:
    id = client.create(5000)
    client.send(id, film(1000))
    with pytest.raises(errors.WrongOffset) as wrong:
        client.open(id, offset)
    assert wrong.value.offset_bytes == 1000


def test_a_body_that_is_too_long_is_refused_before_it_is_written(client: UploadClient) -> None:
    id = client.create(1)
    with pytest.raises(errors.TooLarge):
        client.open(id, body_bytes=MIB)
    assert client.keys() == []
    writer = client.open(id)
    with pytest.raises(errors.TooLarge) as refused:
        writer.write(film(MIB))
    writer.leave(refused.value)
    assert client.look(id).offset_bytes == 0


def test_nothing_is_kept_of_a_body_that_turns_out_too_long(client: UploadClient) -> None:
    data = film(20 * MIB)
    id = client.create(11 * MIB)
    client.send(id, data[:MIB])
    writer = client.open(id, MIB)
    writer.write(data[MIB : 10 * MIB])
    writer.flush()
    with pytest.raises(errors.TooLarge) as refused:
        writer.write(data[10 * MIB :])
    writer.leave(refused.value)
    assert client.look(id).offset_bytes == MIB
    finished = client.send(id, data[MIB : 11 * MIB], MIB)
    assert client.source(finished.media_id) == data[: 11 * MIB]


@pytest.mark.parametrize("algorithm", intakes.ALGORITHMS)
def test_bytes_that_do_not_match_their_checksum_are_not_kept(
    client: UploadClient, algorithm: str
) -> None:
    data = film(5000)
    id = client.create(len(data))
    right = (algorithm, hashlib.new(algorithm, data).digest())
    with pytest.raises(errors.WrongChecksum):
        client.send(id, data[::-1], checksum=right)
    assert client.look(id).offset_bytes == 0
    finished = client.send(id, data, checksum=right)
    assert client.source(finished.media_id) == data


def test_bytes_with_a_checksum_are_not_kept_until_all_have_come(client: UploadClient) -> None:
    id = client.create(20 * MIB)
    writer = client.open(id, checksum=("sha1", bytes(20)))
    writer.write(film(9 * MIB))
    writer.flush()
    writer.leave(gone())
    assert client.look(id).offset_bytes == 0


# One writer at a time


def test_a_second_sender_is_told_at_once_that_somebody_is_writing(client: UploadClient) -> None:
    id = client.create(5000)
    writer = client.open(id)
    for offset in (0, 7):
        with pytest.raises(errors.UploadBusy):
            client.open(id, offset)
    writer.leave(gone())
    client.open(id).leave(gone())


def test_a_writer_that_flushes_keeps_its_upload(client: UploadClient) -> None:
    id = client.create(50 * MIB)
    writer = client.open(id)
    for _ in range(5):
        client.world.advance(9)
        writer.write(film(MIB))
        writer.flush()
        with pytest.raises(errors.UploadBusy):
            client.open(id, 0)
    writer.leave(gone())


def test_a_silent_sender_can_be_replaced_and_changes_nothing_afterwards(
    client: UploadClient,
) -> None:
    data = film(5000)
    id = client.create(len(data))
    silent = client.open(id)
    silent.write(data[:1000])
    silent.pause()
    finished = client.send(id, data[1000:], 1000)
    with pytest.raises(errors.UploadBusy) as lost:
        silent.resume()
    silent.leave(lost.value)
    assert client.source(finished.media_id) == data


def test_a_silent_sender_goes_on_if_nobody_took_its_place(client: UploadClient) -> None:
    data = film(5000)
    id = client.create(len(data))
    writer = client.open(id)
    writer.write(data[:1000])
    writer.pause()
    assert client.look(id).offset_bytes == 1000
    client.world.advance(60)
    writer.resume()
    writer.write(data[1000:])
    assert client.source(writer.complete().media_id) == data


def test_a_frozen_writer_cannot_spoil_what_its_successor_wrote(client: UploadClient) -> None:
    data = film(30 * MIB)
    id = client.create(len(data))
    frozen = client.open(id)
    frozen.write(data[: 9 * MIB])
    frozen.flush()
    client.world.advance(11)
    try:
        successor = client.open(id, 9 * MIB)
    except errors.UploadBusy:
        # Its file is still locked: nobody else writes until it has gone.
        crash(frozen)
        client.world.advance(11)
        successor = client.open(id, 9 * MIB)
    successor.write(data[9 * MIB : 18 * MIB])
    successor.flush()
    with pytest.raises((errors.UploadBusy, errors.StorageDown)):
        frozen.write(b"late" * (3 * MIB))
        frozen.flush()
    frozen.leave(gone())
    successor.write(data[18 * MIB :])
    assert client.source(successor.complete().media_id) == data


def test_a_server_that_starts_alone_lets_every_sender_in(client: UploadClient) -> None:
    id = client.create(5000)
    crash(client.open(id))
    client.world.run(uploads.clear_writers)
    client.open(id).leave(gone())


# Room


def test_twenty_at_once_cannot_exceed_a_quota_together(world: World, files: Storage) -> None:
    client = UploadClient(world, files, quota_bytes=5 * MIB)
    ada = world.run(lambda tx: access.add_user(tx, "ada")).id

    def attempt(_: int) -> bool:
        try:
            client.create(MIB, ada)
        except errors.TooLarge:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(attempt, range(20))) == 5
    with world.db.read() as tx:
        assert media_store.used_bytes(tx, ada) == 5 * MIB


def test_what_was_made_of_a_source_counts_towards_the_quota(world: World, files: Storage) -> None:
    client = UploadClient(world, files, quota_bytes=1000)
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
    client.create(400, "ada")
    with pytest.raises(errors.TooLarge):
        client.create(200, "ada")
    # It takes room until it is gone for good.
    world.run(lambda tx: tx.all("UPDATE media SET deleted_at = {now}"))
    with pytest.raises(errors.TooLarge):
        client.create(200, "ada")
    world.run(lambda tx: tx.all("UPDATE media SET purge_started_at = {now}"))
    client.create(200, "ada")


def test_a_quota_of_ones_own_goes_before_the_common_one(world: World, files: Storage) -> None:
    client = UploadClient(world, files, quota_bytes=100)
    world.run(access.ensure_admin)
    ada = world.run(lambda tx: access.add_user(tx, "ada")).id
    world.run(lambda tx: access.change_user(tx, ada, quota_bytes=1000))
    client.create(900, ada)
    with pytest.raises(errors.TooLarge):
        client.create(200, ada)
    with pytest.raises(errors.TooLarge):
        client.create(200, BOB)


def test_a_quota_counts_what_has_become_media_and_forgets_what_was_ended(
    world: World, files: Storage
) -> None:
    client = UploadClient(world, files, quota_bytes=1000)
    finished = client.send(client.create(600), film(600))
    id = client.create(400)
    with pytest.raises(errors.TooLarge):
        client.create(1)
    client.receiver.terminate(id, ADA)
    client.create(400)
    deleted = str(finished.media_id)
    world.run(lambda tx: library.delete(tx, world.queue, deleted))
    # What is in the trash can come back, so it still counts.
    with pytest.raises(errors.TooLarge):
        client.create(1)
    world.run(lambda tx: trash.give_up(tx, [deleted]))
    client.create(600)


def test_a_quota_holds_for_a_length_that_was_not_said(client: UploadClient) -> None:
    client.limits = UploadLimits(quota_bytes=10 * MIB)
    client.restart()
    id = client.create(None)
    client.send(id, film(4 * MIB))
    writer = client.open(id, 4 * MIB)
    writer.write(film(9 * MIB, seed=1))
    with pytest.raises(errors.TooLarge) as refused:
        writer.flush()
    writer.leave(refused.value)
    assert client.look(id).offset_bytes == 4 * MIB
    with pytest.raises(errors.TooLarge):
        client.send(id, b"", 4 * MIB, length_bytes=11 * MIB)


def test_a_file_above_the_limit_is_refused_however_it_comes(client: UploadClient) -> None:
    client.limits = UploadLimits(max_bytes=MIB)
    client.restart()
    with pytest.raises(errors.TooLarge):
        client.create(MIB + 1)
    id = client.create(None)
    with pytest.raises(errors.TooLarge):
        client.open(id, body_bytes=MIB + 1)
    with pytest.raises(errors.TooLarge):
        client.send(id, film(2 * MIB))
    with pytest.raises(errors.TooLarge):
        client.open(id, length_bytes=MIB + 1)
    halves = [client.partial(film(MIB)), client.partial(film(MIB, seed=1))]
    with pytest.raises(errors.TooLarge):
        client.receiver.concatenate(ADA, halves, {})


def test_an_upload_that_would_fill_the_disk_is_refused(world: World, files: Storage) -> None:
    free = files.free_bytes()
    assert free is not None
    client = UploadClient(world, files, min_free_bytes=free // 2)
    client.create(MIB)
    with pytest.raises(errors.DiskFull):
        client.create(free)
    with pytest.raises(errors.DiskFull):
        client.open(client.create(None), body_bytes=free)


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
    client = UploadClient(world, place)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * MIB))
    data = film(6 * MIB)
    id = client.create(len(data))
    with pytest.raises(errors.DiskFull):
        client.send(id, data)
    offset = client.look(id).offset_bytes
    assert 2 * MIB < offset < 6 * MIB
    ballast.unlink()
    finished = client.send(id, data[offset:], offset)
    assert client.source(finished.media_id) == data


# The end


def test_an_unfinished_upload_expires_and_its_bytes_go(client: UploadClient) -> None:
    id = client.create(50 * MIB)
    client.send(id, film(9 * MIB))
    client.world.advance(86_400 - 1)
    assert client.expire() == 0
    client.world.advance(2)
    with pytest.raises(errors.Gone):
        client.look(id)
    with pytest.raises(errors.Gone):
        client.open(id, 9 * MIB)
    assert client.expire() == 1
    assert client.keys() == []
    assert client.expire() == 0


def test_every_byte_that_comes_postpones_the_end(client: UploadClient) -> None:
    id = client.create(5000)
    client.world.advance(80_000)
    client.send(id, film(1000))
    client.world.advance(80_000)
    client.send(id, film(1000), 1000)
    assert client.expire() == 0


def test_a_finished_upload_is_forgotten_one_day_but_its_source_stays(client: UploadClient) -> None:
    data = film(9 * MIB)
    finished = client.send(client.create(len(data)), data)
    client.world.advance(3 * 86_400)
    client.expire()
    assert client.look(finished.id).media_id == finished.media_id
    client.world.advance(5 * 86_400)
    client.expire()
    with pytest.raises(errors.NotFound):
        client.look(finished.id)
    assert client.source(finished.media_id) == data


def test_a_crash_before_the_bytes_were_removed_is_made_good(client: UploadClient) -> None:
    id = client.create(50 * MIB)
    client.send(id, film(9 * MIB))
    client.world.run(lambda tx: uploads.terminate(tx, id, ADA))
    assert client.keys() != []
    client.expire()
    assert client.keys() == []


def test_a_terminated_upload_is_gone_with_its_bytes(client: UploadClient) -> None:
    id = client.create(50 * MIB)
    client.send(id, film(9 * MIB))
    client.receiver.terminate(id, ADA)
    assert client.keys() == []
    for again in (lambda: client.look(id), lambda: client.receiver.terminate(id, ADA)):
        with pytest.raises(errors.Gone):
            again()


def test_terminating_stops_whoever_is_writing(client: UploadClient) -> None:
    id = client.create(50 * MIB)
    writer = client.open(id)
    writer.write(film(9 * MIB))
    client.receiver.terminate(id, None)
    with pytest.raises(errors.UploadBusy) as lost:
        writer.flush()
    writer.leave(lost.value)
    with pytest.raises(errors.Gone):
        client.look(id)


def test_an_upload_is_its_owners_alone(client: UploadClient) -> None:
    id = client.create(5000)
    attempts: list[Callable[[], object]] = [
        lambda: client.look(id, BOB),
        lambda: client.open(id, user=BOB),
        lambda: client.receiver.terminate(id, BOB),
    ]
    for attempt in attempts:
        with pytest.raises(errors.NotFound) as refused:
            attempt()
        assert refused.value.code == "not_found"


# Parts that are put together


def test_partial_uploads_become_one_media_in_the_order_given(client: UploadClient) -> None:
    data = film(25 * MIB)
    thirds = [data[: 9 * MIB], data[9 * MIB : 10 * MIB], data[10 * MIB :]]
    ids = [client.partial(third) for third in reversed(thirds)][::-1]
    assert client.world.rows("SELECT id FROM media") == []
    final = client.receiver.concatenate(ADA, ids, {"filename": b"film.webm"})
    assert client.source(final.media_id) == data
    assert client.media(final.media_id).title == "film"
    assert client.media(final.media_id).sha256 == hashlib.sha256(data).hexdigest()
    assert client.keys() == [final.key]


def test_asking_again_to_put_the_same_together_answers_the_same(client: UploadClient) -> None:
    ids = [client.partial(film(1000)), client.partial(film(1000, seed=1))]
    first = client.receiver.concatenate(ADA, ids, {})
    assert client.receiver.concatenate(ADA, ids, {}).media_id == first.media_id
    assert len(client.world.rows("SELECT id FROM media")) == 1


def test_two_who_ask_at_once_get_one_media(client: UploadClient) -> None:
    ids = [client.partial(film(3 * MIB)), client.partial(film(3 * MIB, seed=1))]
    with ThreadPoolExecutor(4) as pool:
        made = list(
            pool.map(lambda _: client.receiver.concatenate(ADA, ids, {}).media_id, range(4))
        )
    assert len(set(made)) == 1
    assert client.source(made[0]) == film(3 * MIB) + film(3 * MIB, seed=1)
    assert len(client.keys()) == 1


def test_only_whole_partial_uploads_of_ones_own_can_be_put_together(client: UploadClient) -> None:
    whole = client.partial(film(1000))
    plain = client.create(1000)
    others = client.partial(film(1000), user=BOB)
    begun = client.receiver.create(ADA, length_bytes=10, metadata={}, concat=Concat.PARTIAL).id
    for ids in ([whole, plain], [whole, others], [whole, "upl_none"], [whole, whole]):
        with pytest.raises(errors.BadField):
            client.receiver.concatenate(ADA, ids, {})
    with pytest.raises(errors.WrongState):
        client.receiver.concatenate(ADA, [whole, begun], {})


def test_what_is_put_together_is_looked_at_as_well(client: UploadClient) -> None:
    halves = [client.partial(b"#EXT"), client.partial(b"M3U\nfile:///etc/passwd\n")]
    with pytest.raises(errors.UnsupportedMedia):
        client.receiver.concatenate(ADA, halves, {})
    assert client.world.rows("SELECT id FROM media") == []
