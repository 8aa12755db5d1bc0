"""Transcripts as files for other programs: what the database has, after any crash."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handlers.transcribe.faulty import Only, Scripted, recording
from handlers.transcribe.test_server import ask, upload
from running import Running
from rushes import ids, protocol
from rushes.db.database import Tx
from rushes.handlers.transcribe.steps import transcribe
from rushes.media import library as media_library
from rushes.transcripts import archive, transcript
from rushes.transcripts.on_disk import LEFT_SECONDS, TranscriptFolder
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote
from shell import files_below, until
from web import library
from world import World


def heard(running: Running, media_id: str, text: str = "Hello there.") -> str:
    """A transcript of a job of its own; returns the job's id."""
    job_id = ids.new("job")
    document = transcript.Transcript(text=text, language="en", segments=[], words=[])

    def keep(tx: Tx) -> None:
        owner = media_library.found(tx, media_id, None).user_id
        archive.add(tx, media_id=media_id, user_id=owner, job_id=job_id, transcript=document)

    running.rushes.db.run(keep)
    return job_id


def files(folder: Path) -> dict[str, Any]:
    return {
        each.parent.name: json.loads(each.read_text())["text"]
        for each in files_below(folder)
        if each.name == "transcript.json"
    }


def test_a_completed_transcription_is_a_file_until_its_media_is_purged(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    folder = tmp_path / "for" / "others"
    server = serve(transcripts_dir=str(folder), sweep_interval=0.1)
    media_id = upload(server, recording(tmp_path / "talk.wav", list(range(5))))
    job = ask(server, media_id)
    coordinator = Remote(server.url, server.worker_key())
    table = {"transcribe": Handler(lambda job: transcribe(job, Only(Scripted())))}  # type: ignore[arg-type]
    hello = protocol.Hello(kinds=["transcribe"], capabilities=["cpu"])
    worker = Worker(coordinator, table, hello=hello, scratch_root=tmp_path / "scratch")
    assert worker.step() == 1
    coordinator.close()
    path = folder / job["id"] / "transcript.json"
    until(path.exists)
    document = json.loads(path.read_text())
    with server.client() as admin:
        told = admin.get(f"/transcriptions/{job['id']}/transcript").json()
        assert document["words"]
        assert {name: told[name] for name in document} == document
        admin.delete(f"/media/{media_id}")
        admin.delete(f"/media/{media_id}", params={"permanently": True})
    until(lambda: not list(folder.glob("job_*")))


def test_what_was_missed_is_written_and_what_is_gone_is_removed(
    either_server: Running, tmp_path: Path
) -> None:
    server = either_server
    folder = TranscriptFolder(server.rushes.db, tmp_path)
    with server.client() as admin:
        first, second = (library.add(server, library.user_id(admin)) for _ in range(2))
    one, other = heard(server, first, "One."), heard(server, second, "Other.")
    # Another program's, what a server was writing when it was killed, and what is under way.
    (tmp_path / "notes").mkdir()
    left, fresh = tmp_path / f".{one}.0a1b2c3d", tmp_path / f".{one}.ffffffff"
    for each in (left, fresh):
        each.mkdir()
    os.utime(left, (0, left.stat().st_mtime - LEFT_SECONDS - 1))
    folder.update()
    assert files(tmp_path) == {one: "One.", other: "Other."}
    assert not left.exists()
    again = heard(server, first, "One, heard again.")
    server.rushes.db.run(lambda tx: archive.purge(tx, second))
    folder.update()
    assert files(tmp_path) == {one: "One.", again: "One, heard again."}
    assert (tmp_path / "notes").is_dir()
    assert fresh.is_dir()


def test_what_is_to_be_forgotten_is_never_written(server: Running, tmp_path: Path) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
    heard(server, media_id)
    with server.rushes.db.begin() as tx:
        tx.all("UPDATE media SET forget_at = 1 WHERE id = :id", id=media_id)
    place = tmp_path / "place"
    TranscriptFolder(server.rushes.db, place).update()
    assert not files(place)


def test_a_folder_that_cannot_be_written_is_said_once_and_tried_again(
    server: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client() as admin:
        job_id = heard(server, library.add(server, library.user_id(admin)))
    place = tmp_path / "place"
    place.write_text("no folder")
    folder = TranscriptFolder(server.rushes.db, place)
    for number in range(3):
        folder.tick(number)
    said = [each for each in caplog.records if "RUSHES_TRANSCRIPTS_DIR" in each.getMessage()]
    assert len(said) == 1
    place.unlink()
    folder.tick(3)
    assert set(files(place)) == {job_id}


def test_what_another_installation_has_written_is_left_alone(
    server: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client() as admin:
        heard(server, library.add(server, library.user_id(admin)))
    theirs = tmp_path / ids.new("job") / "transcript.json"
    theirs.parent.mkdir()
    theirs.write_text('{"text": "Theirs."}')
    (tmp_path / ".rushes").write_text("usr_somebody_else")
    folder = TranscriptFolder(server.rushes.db, tmp_path)
    for number in range(2):
        folder.tick(number)
    assert files(tmp_path) == {theirs.parent.name: "Theirs."}
    said = [each for each in caplog.records if "another installation" in each.getMessage()]
    assert len(said) == 1


def test_a_server_without_users_takes_no_folder(world: World, tmp_path: Path) -> None:
    TranscriptFolder(world.db, tmp_path / "place").update()
    assert not (tmp_path / "place").exists()


@pytest.mark.parametrize("left", ["", "None"])
def test_a_folder_that_is_nobodys_is_taken(server: Running, tmp_path: Path, left: str) -> None:
    (tmp_path / ".rushes").write_text(left)
    with server.client() as admin:
        job_id = heard(server, library.add(server, library.user_id(admin)))
    TranscriptFolder(server.rushes.db, tmp_path).update()
    assert set(files(tmp_path)) == {job_id}
