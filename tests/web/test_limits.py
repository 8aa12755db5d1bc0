"""How much one user may do at once, and that a user who is sent away does nothing any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from running import Running
from rushes import errors, limits, queue_report
from rushes.accounts import access
from rushes.db.database import Tx
from rushes.jobs import read_store
from rushes.limits import Hold, Holds, What
from web import library

TUS = {"Tus-Resumable": "1.0.0"}
OCTETS = TUS | {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}


def check_refused(answer: httpx2.Response) -> None:
    assert answer.status_code == 429, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "too_many_requests"
    assert int(answer.headers["retry-after"]) > 0


def until(said: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if said():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never became so")


@contextmanager
def stream(client: httpx2.Client, path: str = "/events") -> Iterator[Iterator[str]]:
    with client.stream("GET", path) as answer:
        assert answer.status_code == 200, answer.read()
        yield answer.iter_lines()


def create(client: httpx2.Client, length: int = 5_000) -> httpx2.Response:
    return client.post("/uploads", headers=TUS | {"Upload-Length": str(length)})


# How much


def test_one_users_streams_leave_room_for_others(serve: Callable[..., Running]) -> None:
    server = serve(user_streams=3)
    with server.user("ada") as ada, server.user("bob") as bob, ExitStack() as open_streams:
        for _ in range(3):
            open_streams.enter_context(stream(ada))
        check_refused(ada.get("/events"))
        with stream(bob) as lines:
            assert next(lines).startswith("retry")
        open_streams.close()
        until(lambda: not server.services.holds.all())
        with stream(ada) as lines:
            assert next(lines).startswith("retry")


def test_followed_logs_are_counted_and_plain_ones_are_not(serve: Callable[..., Running]) -> None:
    server = serve(user_streams=1)
    with server.user("ada") as ada:
        job = library.enqueue(server, library.user_id(ada))
        with ExitStack() as following:
            following.enter_context(stream(ada, f"/jobs/{job}/logs?follow=true"))
            check_refused(ada.get(f"/jobs/{job}/logs?follow=true"))
            assert ada.get(f"/jobs/{job}/logs").status_code == 200


def test_what_all_users_hold_together_leaves_a_reserve(caplog: pytest.LogCaptureFixture) -> None:
    holds = Holds({What.STREAMS: 2}, in_all=3)
    first = holds.enter(Hold(what=What.STREAMS, user_id="ada"))
    for user in ("ada", "bob"):
        holds.enter(Hold(what=What.STREAMS, user_id=user))
    with caplog.at_level(logging.WARNING, "rushes.limits"):
        for user in ("bob", "cleo"):
            with pytest.raises(errors.TooMany):
                holds.enter(Hold(what=What.STREAMS, user_id=user))
    assert len(caplog.records) == 1
    holds.leave(first)
    holds.leave(first)
    holds.enter(Hold(what=What.STREAMS, user_id="cleo"))
    assert limits.file_limit() - limits.RESERVED_FILES >= limits.FEWEST_STREAMS


def test_tokens_are_limited_and_those_that_have_ended_are_not_counted(
    serve: Callable[..., Running],
) -> None:
    server = serve(user_tokens=2)
    with server.user("ada") as ada:
        second = ada.post("/tokens", json={"name": "second"}).json()
        check_refused(ada.post("/tokens", json={"name": "third"}))
        ada.delete(f"/tokens/{second['id']}")
        assert ada.post("/tokens", json={"name": "third"}).status_code == 201


def test_unfinished_uploads_are_limited(serve: Callable[..., Running]) -> None:
    server = serve(user_uploads=2)
    with server.user("ada") as ada, server.user("bob") as bob:
        first, _ = create(ada), create(ada)
        check_refused(create(ada))
        assert create(bob).status_code == 201
        assert ada.delete(first.headers["location"], headers=TUS).status_code == 204
        assert create(ada).status_code == 201


def test_new_work_is_refused_while_too_much_waits(serve: Callable[..., Running]) -> None:
    server = serve(user_jobs=3, transcode_workers=0)
    with server.user("ada") as ada, server.user("bob") as bob:
        mine = library.user_id(ada)
        media_id = library.add(server, mine)
        library.enqueue(server, mine, "webhook")
        assert create(ada).status_code == 201
        library.enqueue(server, mine)
        for path in (f"/media/{media_id}/retranscode", f"/media/{media_id}/retranscribe"):
            check_refused(ada.post(path, json={}))
        check_refused(create(ada))
        check_refused(ada.post("/media", files={"file": ("a.wav", b"RIFF")}))
        assert create(bob).status_code == 201


# Sent away


@pytest.fixture(params=["here", "elsewhere"])
def disable(request: pytest.FixtureRequest) -> Callable[[Running, str], None]:
    """By a request to this server, or by one to another server on the same database."""

    def disable(server: Running, user_id: str) -> None:
        if request.param == "here":
            with server.client() as admin:
                assert admin.patch(f"/users/{user_id}", json={"disabled": True}).is_success
        else:
            server.rushes.db.run(lambda tx: access.set_disabled(tx, user_id, True))

    return disable


def test_a_disabled_users_streams_and_logs_end_at_once(
    server: Running, disable: Callable[[Running, str], None]
) -> None:
    with server.user("ada") as ada, server.user("bob") as bob:
        job, bobs = library.enqueue(server, library.user_id(ada)), library.user_id(bob)
        with (
            stream(ada) as events,
            stream(ada, f"/jobs/{job}/logs?follow=true") as log,
            stream(bob) as others,
        ):
            assert next(events).startswith("retry")
            disable(server, library.user_id(ada))
            # These end, or this would wait for ever.
            assert not [line for line in events if line.startswith("data")]
            assert not list(log)
            assert next(others).startswith("retry")
            until(lambda: {each.user_id for each in server.services.holds.all()} == {bobs})


def test_a_revoked_tokens_streams_end_and_other_tokens_go_on(server: Running) -> None:
    with server.user("ada") as ada:
        made = ada.post("/tokens", json={"name": "t"}).json()
        with server.client(made["token"]) as script, stream(script) as lines, stream(ada):
            assert next(lines).startswith("retry")
            assert ada.delete(f"/tokens/{made['id']}").status_code == 204
            assert not [line for line in lines if line.startswith("data")]
            until(lambda: len(server.services.holds.all()) == 1)


def test_a_disabled_users_upload_stops_and_becomes_no_media(
    server: Running, disable: Callable[[Running, str], None]
) -> None:
    with server.user("ada") as ada:
        user_id = library.user_id(ada)
        where = create(ada, 10_000).headers["location"]
        begun = threading.Event()

        def body() -> Iterator[bytes]:
            yield b"RIFF" + bytes(4_996)
            begun.set()
            until(lambda: bool(server.services.holds.all()))
            disable(server, user_id)
            until(lambda: not server.services.holds.all())
            yield bytes(5_000)

        answer = ada.patch(where, headers=OCTETS | {"Content-Length": "10000"}, content=body())
        assert answer.status_code == 401
    with server.rushes.db.read() as tx:
        assert not tx.all("SELECT id FROM media")


def test_a_whole_upload_of_a_disabled_user_is_not_taken(server: Running) -> None:
    """Though the line was too quick for whoever ends it."""
    with server.user("ada") as ada:
        user_id = library.user_id(ada)
        made = server.services.receiver.create(user_id, length_bytes=8, metadata={})
        writer = server.services.receiver.open(made.id, user_id, offset_bytes=0)
        writer.write(b"RIFF" + bytes(4))
        server.rushes.db.run(lambda tx: access.set_disabled(tx, user_id, True))
        with pytest.raises(errors.Unauthorized) as refused:
            writer.complete()
        writer.leave(refused.value)
    with server.rushes.db.read() as tx:
        assert not tx.all("SELECT id FROM media")


def test_a_disabled_users_share_links_are_closed_until_enabled(either_server: Running) -> None:
    with either_server.user("ada") as ada, either_server.client() as admin:
        user_id = library.user_id(ada)
        media_id = library.add(either_server, user_id)
        token = ada.post(f"/media/{media_id}/share").json()["share_url"].rpartition("/")[2]
        public = f"{either_server.url}/s/{token}/media"
        assert admin.get(public).status_code == 200
        admin.patch(f"/users/{user_id}", json={"disabled": True})
        assert admin.get(public).status_code == 404
        admin.patch(f"/users/{user_id}", json={"disabled": False})
        assert admin.get(public).status_code == 200


def test_a_disabled_users_jobs_wait_and_say_why(either_server: Running) -> None:
    with either_server.user("ada") as ada, either_server.client() as admin:
        user_id = library.user_id(ada)
        job = library.enqueue(either_server, user_id)
        admin.patch(f"/users/{user_id}", json={"disabled": True})
        worker = library.worker(either_server, "demo")
        assert not either_server.rushes.dispatch.claim(worker, 1)
        reasons = admin.get(f"/jobs/{job}/why").json()["reasons"]
        assert [each["code"] for each in reasons] == ["user_disabled"]
        admin.patch(f"/users/{user_id}", json={"disabled": False})
        assert either_server.rushes.dispatch.claim(worker, 1)


# What anybody may ask


def test_health_and_metrics_do_not_look_at_all_jobs_each_time(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    now, count = [0.0], read_store.totals

    def counted(tx: Tx) -> list[read_store.JobCount]:
        looks.append(tx)
        # As in a table that takes two seconds.
        now[0] += 2
        return count(tx)

    monkeypatch.setattr(read_store, "totals", counted)
    server.services.totals = queue_report.Totals(lambda: now[0])
    with server.client(base_url=server.url) as admin:
        library.enqueue(server, "ada")
        for path in ("/health", "/metrics", "/api/health") * 3:
            assert admin.get(path).status_code == 200
        assert len(looks) == 1
        library.enqueue(server, "ada")
        now[0] += 37
        assert admin.get("/health").json()["pending_jobs"] == 1
        now[0] += 2
        assert admin.get("/health").json()["pending_jobs"] == 2
    assert len(looks) == 2


def test_health_and_metrics_can_be_closed_to_strangers(serve: Callable[..., Running]) -> None:
    server = serve(public_health=False)
    with (
        server.client(None, base_url=server.url) as stranger,
        server.client(base_url=server.url) as admin,
        server.user("ada") as ada,
    ):
        for path in ("/health", "/metrics"):
            assert stranger.get(path).status_code == 401
            assert ada.get(f"{server.url}{path}").status_code == 403
            assert admin.get(path).status_code == 200
        assert stranger.get("/livez").status_code == 200
        assert stranger.get("/readyz").status_code == 200
