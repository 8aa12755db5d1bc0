"""`rushes upload` over a line that breaks, to servers that die, and what it says in the end."""

from __future__ import annotations

import json
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from running import ADMIN_TOKEN, Process, Running
from rushes import errors
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler
from shell import Command, Shell
from wire import Wire

MIB = 2**20
# Enough for any sniffer; what follows is never looked at.
MP4 = bytes.fromhex("0000001c667479706d703432000000006d70343269736f6d0000000000000000")


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    folder = tmp_path / "clips"
    folder.mkdir()
    return folder


def make(path: Path, size_bytes: int = 1000) -> Path:
    """A film of its own: no two have the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = str(path).encode() * (size_bytes // len(str(path).encode()) + 1)
    path.write_bytes((MP4 + body)[:size_bytes])
    return path


def stored(server: Running, media_id: str) -> bytes:
    return b"".join(server.rushes.storage.read(source_key(server, media_id)))


def source_key(server: Running, media_id: str) -> str:
    with server.rushes.db.read() as tx:
        row = tx.one("SELECT source_key FROM media WHERE id = :id", id=media_id)
    assert row is not None
    return str(row["source_key"])


@pytest.fixture
def at(shell: Shell, server: Running) -> Shell:
    """A shell that speaks to the server."""
    shell.set(server=server.url, token=ADMIN_TOKEN)
    return shell


@pytest.fixture
def wire(server: Running) -> Iterator[Wire]:
    with Wire(server.settings.port) as line:
        yield line


def media_of(server: Running | Process) -> list[Any]:
    with server.client() as admin:
        return list(admin.get("/media").json()["items"])


# What is sent, and what is said of it


def test_a_file_arrives_as_it_is_and_its_media_is_told(
    at: Shell, server: Running, clips: Path
) -> None:
    film = make(clips / "holiday in ulm.mp4", 17 * MIB + 5)
    [result] = at.json("upload", film)
    assert result["status"] == "sent"
    assert result["duplicate_of"] is None
    assert stored(server, result["media_id"]) == film.read_bytes()
    [media] = media_of(server)
    assert (media["id"], media["title"]) == (result["media_id"], "holiday in ulm")
    assert [job["kind"] for job in media["jobs"]] == ["transcode", "transcribe"]


def test_options_go_along(at: Shell, server: Running, clips: Path) -> None:
    film = make(clips / "a.mp4")
    at.text("profiles", "set", "small", '{"crf": 30}')
    at.text(
        *("upload", film, "--title", "Zoë’s day", "--profile", "small"),
        *("--language", "pt-BR", "--diarize"),
    )
    [media] = media_of(server)
    jobs = {job["kind"]: job["args"] for job in media["jobs"]}
    assert media["title"] == "Zoë’s day"
    assert jobs["transcode"]["profile"] == "small"
    assert jobs["transcode"]["settings"]["crf"] == 30
    assert jobs["transcribe"] == {"language": "pt-BR", "diarize": True}
    with server.client() as admin:
        admin.post("/transcription-profiles", json={"name": "talks", "model": "whisper-tiny"})
    at.text("media", "retranscribe", media["id"], "--profile", "talks", "--language", "fr")
    [live] = [job for job in media_of(server)[0]["jobs"] if job["kind"] == "transcribe"]
    assert live["args"] == {"model": "whisper-tiny", "language": "fr", "profile": "talks"}
    at.text("upload", make(clips / "c.mp4"), "--transcription-profile", "talks")
    jobs = {job["kind"]: job["args"] for job in media_of(server)[0]["jobs"]}
    assert jobs["transcribe"] == {"model": "whisper-tiny", "profile": "talks"}
    at.text("upload", make(clips / "b.mp4"), "--no-transcribe")
    assert [job["kind"] for job in media_of(server)[0]["jobs"]] == ["transcode"]


def test_a_title_is_for_one_file(at: Shell, clips: Path) -> None:
    assert at.run("upload", make(clips / "a.mp4"), make(clips / "b.mp4"), "--title", "Both") == 2
    assert at.err == "rushes: --title is for one file, and these are 2\n"


def test_the_same_file_again_is_named(at: Shell, server: Running, clips: Path) -> None:
    film = make(clips / "a.mp4")
    [first] = at.json("upload", film)
    said = at.text("upload", film)
    assert f"the same file is already there as {first['media_id']}" in said
    assert len(media_of(server)) == 2
    for media in media_of(server):
        at.run("media", "rm", media["id"], "--yes")
    said = at.text("upload", film)
    assert "the same file is in the trash: rushes media restore med_" in said


def test_a_folder_is_sent_without_what_is_hidden_or_no_media(
    at: Shell, server: Running, clips: Path
) -> None:
    for name in ("b.mp4", "a/c.mp4", ".hidden.mp4", ".cache/d.mp4"):
        make(clips / name)
    (clips / "notes.txt").write_text("to do: everything\n" * 1000)
    assert at.run("upload", clips) == 2
    assert "say --recursive" in at.err
    results = at.json("upload", clips, clips / "b.mp4", "--recursive")
    assert "left out hidden files and folders: 2\n" in at.err
    told = {Path(each["path"]).name: each["status"] for each in results}
    assert told == {"b.mp4": "sent", "c.mp4": "sent", "notes.txt": "skipped"}
    lay_in = {each["title"]: [c["name"] for c in each["collections"]] for each in media_of(server)}
    assert lay_in == {"b": [clips.name], "c": [f"{clips.name}/a"]}


def test_one_bad_file_does_not_keep_the_others_from_arriving(
    at: Shell, server: Running, clips: Path
) -> None:
    (clips / "notes.txt").write_text("to do: everything\n" * 100_000)
    (clips / "empty.mp4").touch()
    film = make(clips / "z.mp4")
    assert at.run("upload", clips / "notes.txt", clips / "empty.mp4", film) == 1
    rows = [line.split(maxsplit=3) for line in at.out.splitlines()[1:]]
    assert [row[1] for row in rows] == ["failed", "failed", "sent"]
    assert "text" in rows[0][3]
    assert len(media_of(server)) == 1


def test_a_missing_file_is_noticed_before_anything_is_sent(
    at: Shell, server: Running, clips: Path
) -> None:
    assert at.run("upload", make(clips / "a.mp4"), clips / "b.mp4") == 2
    assert at.err == f"rushes: no such file: {clips / 'b.mp4'}\n"
    assert media_of(server) == []


def test_names_cannot_command_the_terminal(at: Shell, clips: Path) -> None:
    film = make(clips / "\033[2J[red]x.mp4")
    assert at.run("upload", film) == 0
    assert "\033" not in at.out + at.err


def test_without_a_server_it_says_how_to_start_one(shell: Shell, clips: Path) -> None:
    assert shell.run("upload", make(clips / "a.mp4")) == 3
    assert "rushes serve" in shell.err


def test_a_limit_of_the_server_is_told(
    shell: Shell, serve: Callable[..., Running], clips: Path
) -> None:
    server = serve(max_upload_size=1000)
    shell.set(server=server.url, token=ADMIN_TOKEN)
    assert shell.run("upload", make(clips / "a.mp4", 1001)) == 1
    assert "failed" in shell.out
    assert media_of(server) == []


def test_a_full_disk_is_told_at_once(
    shell: Shell, serve: Callable[..., Running], clips: Path
) -> None:
    server = serve(min_free_space=2**60)
    shell.set(server=server.url, token=ADMIN_TOKEN)
    assert shell.run("upload", make(clips / "a.mp4")) == 3
    assert "rushes: there is not enough room on the server's disk; the same command" in shell.err


# A line that breaks


def test_a_broken_line_is_picked_up_in_the_same_run(
    shell: Shell, server: Running, wire: Wire, clips: Path
) -> None:
    film = make(clips / "a.mp4", 20 * MIB)
    shell.set(server=wire.url, token=ADMIN_TOKEN)
    wire.cut_after(9 * MIB)
    [result] = shell.json("upload", film)
    assert wire.was_cut.is_set()
    assert shell.err.count("trying again") == 1
    assert stored(server, result["media_id"]) == film.read_bytes()


def test_a_lost_last_answer_makes_no_second_media(
    shell: Shell, server: Running, wire: Wire, clips: Path
) -> None:
    shell.set(server=wire.url, token=ADMIN_TOKEN)
    wire.cut_before_answer(b"rushes-media-id")
    [result] = shell.json("upload", make(clips / "a.mp4"))
    assert wire.was_cut.is_set()
    assert [media["id"] for media in media_of(server)] == [result["media_id"]]
    assert result["duplicate_of"] is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_ended_is_continued_by_the_next(
    number: signal.Signals,
    server: Running,
    wire: Wire,
    clips: Path,
    tmp_path: Path,
    command: Callable[..., Command],
) -> None:
    film = make(clips / "a.mp4", 40 * MIB)
    wire.hold_after(30 * MIB)
    first = command("upload", film, server=wire.url, token=ADMIN_TOKEN)
    assert wire.held.wait(60), first.err
    kept = tmp_path / "cache" / "rushes" / "uploads.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    first.signal(number)
    assert first.wait() == (130 if number is signal.SIGINT else -9)
    assert ("goes on where this one was" in first.err) == (number is signal.SIGINT)
    wire.release()
    before = wire.passed_bytes
    second = command("upload", film, "--json", server=wire.url, token=ADMIN_TOKEN)
    assert second.wait() == 0, second.err
    [result] = json.loads(second.out)
    assert stored(server, result["media_id"]) == film.read_bytes()
    assert wire.passed_bytes - before < 30 * MIB
    assert json.loads(kept.read_text()) == {}
    assert len(media_of(server)) == 1


def test_a_server_that_is_killed_and_started_again_gets_the_rest(
    process: Callable[..., Process], clips: Path, command: Callable[..., Command]
) -> None:
    server = process()
    film = make(clips / "a.mp4", 40 * MIB)
    with Wire(server.port) as wire:
        wire.hold_after(20 * MIB)
        sending = command("upload", film, "--json", server=wire.url, token=ADMIN_TOKEN)
        assert wire.held.wait(60), sending.err
        server.kill()
        wire.release()
        sending.wait_for("trying again")
        server.start()
        assert sending.wait() == 0, sending.err
        [media] = media_of(server)
    assert json.loads(sending.out)[0]["media_id"] == media["id"]
    assert media["size_bytes"] == 40 * MIB
    [source] = (server.data_dir / "storage" / "sources").iterdir()
    assert source.read_bytes() == film.read_bytes()


def test_a_changed_file_is_another_one(
    server: Running, wire: Wire, clips: Path, command: Callable[..., Command]
) -> None:
    film = make(clips / "a.mp4", 40 * MIB)
    wire.hold_after(20 * MIB)
    first = command("upload", film, server=wire.url, token=ADMIN_TOKEN)
    assert wire.held.wait(60), first.err
    make(film, 20 * MIB)
    wire.release()
    assert first.wait() == 1
    assert "it changed while it was sent" in first.out
    second = command("upload", film, "--json", server=wire.url, token=ADMIN_TOKEN)
    assert second.wait() == 0, second.err
    [result] = json.loads(second.out)
    assert stored(server, result["media_id"]) == film.read_bytes()


def test_an_upload_that_the_server_has_forgotten_begins_anew(
    server: Running, wire: Wire, clips: Path, tmp_path: Path, command: Callable[..., Command]
) -> None:
    film = make(clips / "a.mp4", 20 * MIB)
    wire.hold_after(10 * MIB)
    first = command("upload", film, server=wire.url, token=ADMIN_TOKEN)
    assert wire.held.wait(60), first.err
    first.signal(signal.SIGKILL)
    first.wait()
    wire.release()
    kept = json.loads((tmp_path / "cache" / "rushes" / "uploads.json").read_text())
    [entry] = kept.values()
    with server.client() as admin:
        gone = admin.delete(f"/uploads/{entry['upload_id']}", headers={"Tus-Resumable": "1.0.0"})
        assert gone.status_code == 204
    second = command("upload", film, server=wire.url, token=ADMIN_TOKEN)
    assert second.wait() == 0, second.err
    assert len(media_of(server)) == 1


# Waiting


def make_film(job: JobContext) -> None:
    job.progress(0.5, "transcode")


def refuse(job: JobContext) -> None:
    raise errors.PermanentFailure("nobody speaks in it", code="no_speech")


def test_waiting_ends_when_all_is_ready(
    shell: Shell, serve: Callable[..., Running], clips: Path
) -> None:
    table = {"transcode": Handler(make_film), "transcribe": Handler(make_film)}
    server = serve(handlers_table=table)
    shell.set(server=server.url, token=ADMIN_TOKEN)
    results = shell.json("upload", make(clips / "a.mp4"), make(clips / "b.mp4"), "--wait")
    assert [(each["status"], each["transcript_status"]) for each in results] == [
        ("ready", "ready")
    ] * 2


def test_waiting_tells_what_failed(
    shell: Shell, serve: Callable[..., Running], clips: Path
) -> None:
    server = serve(handlers_table={"transcode": Handler(make_film), "transcribe": Handler(refuse)})
    shell.set(server=server.url, token=ADMIN_TOKEN)
    assert shell.run("upload", make(clips / "a.mp4"), "--wait") == 1
    assert "ready, transcript failed" in shell.out
    assert "transcribe: nobody speaks in it" in shell.out


def test_waiting_goes_on_by_looking_when_there_are_no_events(
    shell: Shell, serve: Callable[..., Running], clips: Path
) -> None:
    go_on = threading.Event()

    def wait(job: JobContext) -> None:
        while not go_on.is_set():
            job.wait(0.02)

    server = serve(handlers_table={"transcode": Handler(wait)})
    with Wire(server.settings.port) as wire:
        wire.refuse(b"/events")
        threading.Timer(1, go_on.set).start()
        shell.set(server=wire.url, token=ADMIN_TOKEN)
        [result] = shell.json("upload", make(clips / "a.mp4"), "--no-transcribe", "--wait")
    assert result["status"] == "ready"


def test_whoever_waits_in_vain_is_told_why(
    server: Running, clips: Path, command: Callable[..., Command]
) -> None:
    film = make(clips / "a.mp4")
    waiting = command(
        "upload", film, "--no-transcribe", "--wait", server=server.url, token=ADMIN_TOKEN
    )
    waiting.wait_for("a.mp4: transcode waits. No worker is online that can do transcode.")
    with server.client() as admin:
        done = admin.post("/jobs/actions", json={"action": "cancel", "filter": {"state": "queued"}})
        assert done.json()["changed"] == 1
    assert waiting.wait() == 1
    assert "failed" in waiting.out
