"""The watch folder: what appears there comes in once and whole; nothing is deleted early."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

import world as worlds
from running import Process, Running, settings_for
from rushes import errors, inotify
from rushes.uploads import folder
from shell import until

MIB = 2**20
# Enough for any sniffer; what follows is never looked at.
MP4 = bytes.fromhex("0000001c667479706d703432000000006d70343269736f6d0000000000000000")

Start = Callable[..., Running]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    made = tmp_path / "inbox"
    made.mkdir()
    return made


@pytest.fixture
def start(tmp_path: Path, inbox: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(data: str = "data", **given: Any) -> Running:
            given = {"watch_dir": str(inbox), "watch_settle": 0.1, **given}
            given = {"data_dir": tmp_path / data, "transcode_workers": 0, **given}
            return stack.enter_context(Running(**given))

        yield start


def make(path: Path, size_bytes: int = 1000) -> Path:
    """A film of its own: no two have the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(film(path.name, size_bytes))
    return path


def film(name: str, size_bytes: int = 1000) -> bytes:
    return (MP4 + name.encode() * (size_bytes // len(name) + 1))[:size_bytes]


def titles(server: Running | Process) -> list[str]:
    with server.client() as admin:
        return sorted(each["title"] for each in admin.get("/media?limit=100").json()["items"])


def noted(server: Running) -> dict[str, str]:
    """What the server has decided about which file."""
    found: dict[str, str] = {}
    for notes in server.settings.data_dir.glob("watched-*.jsonl"):
        for line in notes.read_text().splitlines():
            name, *_, outcome = json.loads(line)
            found[name] = outcome
    return found


def until_noted(server: Running, **expected: str) -> None:
    wanted = {f"{name}.mp4": outcome for name, outcome in expected.items()}
    until(lambda: wanted.items() <= noted(server).items())


def test_files_are_taken_in_whether_they_were_there_before_or_come_later(
    start: Start, inbox: Path
) -> None:
    before = make(inbox / "before.mp4")
    server = start()
    later = make(inbox / "2026" / "May" / "later.mp4", 3 * MIB)
    until(lambda: titles(server) == ["before", "later"])
    with server.client() as admin:
        [media] = [each for each in admin.get("/media").json()["items"] if each["title"] == "later"]
        assert media["size_bytes"] == 3 * MIB
        assert media["origin"] == "watch"
        assert [each["name"] for each in media["collections"]] == ["2026/May"]
        assert [each["kind"] for each in media["jobs"]] == ["transcode", "transcribe"]
    assert before.exists()
    assert later.exists()


def test_where_nothing_tells_of_changes_they_are_looked_for(
    start: Start, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify, "open_watch", lambda: None)
    server = start()
    make(inbox / "sub" / "a.mp4")
    until(lambda: titles(server) == ["a"])


def test_a_file_that_is_being_written_is_waited_for(start: Start, inbox: Path) -> None:
    server = start()
    make(inbox / "first.mp4")
    until_noted(server, first="taken")
    content = film("slow.mp4", 2 * MIB)
    with (inbox / "slow.mp4").open("wb") as growing:
        growing.write(content[:MIB])
        growing.flush()
        make(inbox / "other.mp4")
        until_noted(server, other="taken")
        assert "slow.mp4" not in noted(server)
        growing.write(content[MIB:])
    until_noted(server, slow="taken")
    with server.client() as admin:
        items = admin.get("/media").json()["items"]
    assert {each["title"]: each["size_bytes"] for each in items}["slow"] == 2 * MIB
    assert titles(server) == ["first", "other", "slow"]


def test_what_is_hidden_temporary_or_behind_a_link_is_none_of_ours(
    start: Start, inbox: Path, tmp_path: Path
) -> None:
    secret = make(tmp_path / "elsewhere" / "secret.mp4")
    (inbox / "linked.mp4").symlink_to(secret)
    (inbox / "folder").symlink_to(secret.parent)
    os.mkfifo(inbox / "pipe.mp4")
    for name in (
        ".hidden.mp4",
        "a.mp4.part",
        "b.mp4.crdownload",
        "c.mp4~",
        "~$d.mp4",
        ".git/e.mp4",
    ):
        make(inbox / name)
    server = start()
    make(inbox / "seen.mp4")
    until_noted(server, seen="taken")
    (inbox / "a.mp4.part").rename(inbox / "a.mp4")
    until_noted(server, a="taken")
    assert titles(server) == ["a", "seen"]
    assert set(noted(server)) == {"a.mp4", "seen.mp4"}


def test_the_same_content_comes_in_once(start: Start, inbox: Path) -> None:
    server = start()
    make(inbox / "a.mp4")
    until_noted(server, a="taken")
    (inbox / "copy.mp4").write_bytes((inbox / "a.mp4").read_bytes())
    until_noted(server, copy="duplicate")
    assert titles(server) == ["a"]
    sources = server.settings.data_dir / "storage" / "sources"
    until(lambda: len([each for each in sources.iterdir() if each.is_file()]) == 1)


@pytest.mark.parametrize("after", ["move", "delete"])
def test_a_file_goes_away_after_it_was_taken_in_and_what_was_refused_never(
    start: Start, inbox: Path, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    (inbox / "notes.mp4").write_text("just some words, not a recording\n" * 300)
    server = start(watch_after=after)
    film = make(inbox / "sub" / "film.mp4")
    until(lambda: not film.exists())
    until(lambda: noted(server).get("notes.mp4") == "refused")
    assert titles(server) == ["film"]
    kept = inbox / ".done" / "sub" / "film.mp4"
    assert kept.exists() is (after == "move")
    # Again by the same name: another film.
    film.write_bytes(MP4 + b"another")
    until(lambda: len(titles(server)) == 2)
    until(lambda: not film.exists())
    assert (inbox / ".done" / "sub" / "film (2).mp4").exists() is (after == "move")
    assert (inbox / "notes.mp4").exists()
    told = [each for each in caplog.messages if each.startswith("notes.mp4")]
    assert len(told) == 1


def test_what_cannot_be_taken_now_is_tried_again_and_told_once(
    start: Start, inbox: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rushes.folders.FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("rushes.folders.LONGEST_RETRY_SECONDS", 0.05)
    caplog.set_level(logging.WARNING)
    film = make(inbox / "a.mp4", 5000)
    server = start(watch_after="delete", user_quota=2000)
    until(lambda: any("quota" in each for each in caplog.messages))
    make(inbox / "small.mp4")
    until(lambda: titles(server) == ["small"])
    assert film.exists()
    with server.client() as admin:
        me = admin.get("/session").json()
        changed = admin.patch(f"/users/{me['id']}", json={"quota_bytes": 10_000})
        assert changed.status_code == 200, changed.text
    until(lambda: titles(server) == ["a", "small"])
    assert len([each for each in caplog.messages if each.startswith("a.mp4")]) == 1


def test_a_restart_reads_nothing_again(start: Start, inbox: Path) -> None:
    make(inbox / "a.mp4")
    server = start()
    until_noted(server, a="taken")
    with server.client() as admin:
        [media] = admin.get("/media").json()["items"]
        assert admin.delete(f"/media/{media['id']}").status_code == 204
    server.stop()
    again = start()
    make(inbox / "b.mp4")
    until_noted(again, b="taken")
    assert titles(again) == ["b"], "what somebody deleted does not come back"


def test_without_its_notes_nothing_is_doubled(start: Start, inbox: Path) -> None:
    make(inbox / "a.mp4")
    server = start()
    until_noted(server, a="taken")
    server.stop()
    for each in server.settings.data_dir.glob("watched-*.jsonl"):
        each.unlink()
    again = start()
    until_noted(again, a="duplicate")
    assert titles(again) == ["a"]


def test_two_servers_on_one_folder(start: Start, inbox: Path) -> None:
    with worlds.postgres_database() as url:
        storage = (inbox.parent / "storage").as_uri()
        given = {"database_url": url, "storage_url": storage, "watch_after": "keep"}
        servers = [start(data, **given) for data in ("one", "two")]
        names = [f"film{number}" for number in range(4)]
        for each in names:
            make(inbox / f"{each}.mp4", MIB)
        until(lambda: all(len(noted(server)) == len(names) for server in servers))
        assert titles(servers[0]) == names
        outcomes = [outcome for server in servers for outcome in noted(server).values()]
        assert outcomes.count("taken") == len(names)
        for server in servers:
            server.stop()


def test_what_comes_in_is_its_users(start: Start, inbox: Path) -> None:
    make(inbox / "a.mp4")
    first = start(watch_dir="")
    with first.user("ada") as ada:
        token = ada.headers["authorization"].partition(" ")[2]
    first.stop()
    server = start(watch_user="ada")
    with server.client(token) as ada:
        until(lambda: [each["title"] for each in ada.get("/media").json()["items"]] == ["a"])
    nobody = msgspec.structs.replace(server.settings, watch_user="nobody")
    with pytest.raises(errors.BadSetting, match="RUSHES_WATCH_USER"):
        folder.watcher(nobody, server.services.receiver)


def test_a_folder_that_cannot_be_watched_stops_the_start(
    start: Start, inbox: Path, tmp_path: Path
) -> None:
    server = start(watch_dir="")
    for wrong in (tmp_path / "nowhere", tmp_path, tmp_path / "data" / "storage"):
        given = msgspec.structs.replace(server.settings, watch_dir=str(wrong))
        with pytest.raises(errors.BadSetting, match="RUSHES_WATCH_DIR"):
            folder.watcher(given, server.services.receiver)


@pytest.mark.thorough
def test_a_server_that_is_killed_in_the_middle_takes_it_in_when_it_is_back(
    tmp_path: Path, inbox: Path
) -> None:
    given = settings_for(
        data_dir=tmp_path / "data",
        watch_dir=str(inbox),
        watch_settle=0.1,
        watch_after="delete",
        transcode_workers=0,
        transcription_workers=0,
    )
    sources = tmp_path / "data" / "storage" / "sources"
    with Process(given) as server:
        big = make(inbox / "big.mp4", 400 * MIB)
        until(lambda: sources.exists() and any(sources.iterdir()))
        server.kill()
        assert big.exists()
        server.start()
        until(lambda: not big.exists())
        with server.client() as admin:
            [media] = admin.get("/media").json()["items"]
        assert (media["title"], media["size_bytes"]) == ("big", 400 * MIB)
