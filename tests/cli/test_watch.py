"""`rushes watch`: real files, a real server, and a command that is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from running import ADMIN_TOKEN, Running
from shell import Command, Shell, until

MP4 = bytes.fromhex("0000001c667479706d703432000000006d70343269736f6d0000000000000000")


def make(path: Path, size_bytes: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((MP4 + path.name.encode() * size_bytes)[:size_bytes])
    return path


def titles(server: Running) -> list[str]:
    with server.client() as admin:
        return sorted(each["title"] for each in admin.get("/media").json()["items"])


def test_files_that_appear_are_sent_once_also_after_it_was_killed(
    server: Running, tmp_path: Path, command: Callable[..., Command]
) -> None:
    inbox = tmp_path / "inbox"

    def watch(*more: str) -> Command:
        given = {"server": server.url, "token": ADMIN_TOKEN}
        return command("watch", inbox, "--settle", "0.1", *more, **given)

    first = make(inbox / "before.mp4")
    watching = watch()
    until(lambda: titles(server) == ["before"])
    make(inbox / "sub" / "later.mp4", 2**20)
    until(lambda: titles(server) == ["before", "later"])
    watching.signal(signal.SIGKILL)
    watching.wait()
    (inbox / "copy.mp4").write_bytes(first.read_bytes())
    make(inbox / "last.mp4")
    (inbox / "words.mp4").write_text("no recording at all\n" * 500)
    watching = watch("--after", "delete")
    until(lambda: [each.name for each in inbox.rglob("*.mp4")] == ["words.mp4"])
    assert titles(server) == ["before", "last", "later"]
    watching.wait_for("words.mp4 is left alone")
    watching.signal(signal.SIGINT)
    assert watching.wait() == 130
    assert watching.err.count("words.mp4 is left alone") == 1


@pytest.mark.parametrize("arguments", [["nowhere"], [".", "--settle", "0"]])
def test_what_cannot_be_watched_is_said(shell: Shell, arguments: list[str]) -> None:
    assert shell.run("watch", *arguments) == 2
