"""Threads of a server that break down are started again, and known to be down meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from resilience.breakpoints import until
from running import Running
from rushes import threads
from rushes.threads import Supervised
from rushes.worker.loop import Handler


class Panic(BaseException):
    """As a library in Rust raises it."""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "FIRST_PAUSE_SECONDS", 0.01)


@pytest.mark.parametrize("trouble", [Panic(), ValueError("never expected"), SystemExit(1), None])
def test_one_that_ends_too_soon_is_started_again(
    hurried: None, trouble: BaseException | None
) -> None:
    stopping, again = threading.Event(), threading.Event()
    ends = iter([trouble])

    def work() -> None:
        for each in ends:
            if each is not None:
                raise each
            return
        again.set()
        stopping.wait(30)

    thread = Supervised(work, "example", stopping)
    thread.start()
    assert again.wait(30)
    stopping.set()
    thread.join(30)
    assert not thread.is_alive()


def test_one_that_broke_down_is_down_until_it_has_worked_for_a_while(
    hurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "TRUST_SECONDS", 3600)
    stopping, again, ends = threading.Event(), threading.Event(), iter([Panic()])

    def work() -> None:
        for each in ends:
            raise each
        again.set()
        stopping.wait(30)

    thread = Supervised(work, "example", stopping)
    thread.start()
    assert again.wait(30)
    said = [thread.is_down]
    monkeypatch.setattr(threads, "TRUST_SECONDS", 0)
    assert [*said, thread.is_down] == [True, False]
    stopping.set()
    thread.join(30)


def test_a_server_that_leaves_tells_all_but_the_chores(server: Running) -> None:
    """Whom it does not tell it would wait for, as long as it waits for anybody."""
    server.server.leave()
    others = [each for each in server.services.threads if each.name != "chores"]
    for thread in others:
        thread.join(30)
    assert "retention" in {each.name for each in others}
    assert not [each.name for each in others if each.is_alive()]


@pytest.mark.parametrize("part", ["chores", "fan-out", "transcode-1"])
def test_a_server_part_of_which_breaks_down_says_so_and_works_on(
    serve: Callable[..., Running], hurried: None, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(threads, "TRUST_SECONDS", 3600)
    server = serve(handlers_table={"noop": Handler(lambda job: None)})
    with server.client(base_url=server.url) as client:
        assert client.get("/readyz").json()["threads"] is True
        worked_again = _break_once(server, part, monkeypatch)
        server.rushes.enqueue("noop")
        until(lambda: client.get("/readyz").status_code == 503)
        assert client.get("/readyz").json()["threads"] is False
        assert worked_again.wait(30)
        monkeypatch.setattr(threads, "TRUST_SECONDS", 0)
        assert client.get("/readyz").status_code == 200
        done = server.rushes.enqueue("noop").id
        until(lambda: server.rushes.job(done).state == "completed")


def _break_once(server: Running, part: str, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The next time that part does what it is there for; returns when it does so once more."""
    crew = {each.name: each for each in server.services.threads}
    owner: Any
    match part:
        case "chores":
            owner, name = server.rushes.chores, "tick"
        case "fan-out":
            owner, name = server.rushes.chores, "attempt"
        case _:
            [owner] = [
                each.coordinator for each in server.server._crew if each.run == crew[part]._work
            ]
            name = "claim"
    return _break_when_called(owner, name, crew[part], monkeypatch)


def _break_when_called(
    owner: Any, name: str, thread: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> threading.Event:
    original, troubles, again = getattr(owner, name), iter([Panic()]), threading.Event()

    def call(*args: Any, **named: Any) -> Any:
        if threading.current_thread() is thread:
            for each in troubles:
                raise each
            again.set()
        return original(*args, **named)

    monkeypatch.setattr(owner, name, call)
    return again
