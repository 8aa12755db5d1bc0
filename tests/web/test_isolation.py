"""Two users on one server never meet, an admin sees both, and a repeated request works once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from running import Running, events_of
from web import library
from web.callers import FORM, TUS, Callers, routes

COLLECTIONS = ("/media", "/jobs", "/transcriptions", "/tokens", "/sessions", "/webhooks")


@dataclass
class Two:
    """Ada and Bob, each with a media, a waiting job and a failed one."""

    running: Running
    ada: httpx2.Client
    bob: httpx2.Client

    def __post_init__(self) -> None:
        self.ada_id, self.bob_id = library.user_id(self.ada), library.user_id(self.bob)
        self.media = {owner: library.add(self.running, owner) for owner in self.owners}
        self.waiting = {owner: self.add_job(owner, "waits") for owner in self.owners}
        self.failed = {owner: self.add_failed(owner) for owner in self.owners}

    @property
    def owners(self) -> tuple[str, str]:
        return self.ada_id, self.bob_id

    def add_job(self, owner: str, kind: str) -> str:
        return library.enqueue(self.running, owner, kind, media_id=self.media[owner])

    def add_failed(self, owner: str) -> str:
        job_id = self.add_job(owner, "fails")
        held = library.claim(self.running, "fails")
        self.running.rushes.dispatch.fail(held, "permanent", "corrupt", f"{owner} told so")
        return job_id

    def state(self, job_id: str) -> str:
        return str(self.running.rushes.job(job_id).state)


@pytest.fixture
def two(either_server: Running) -> Iterator[Two]:
    with either_server.user("ada") as ada, either_server.user("bob") as bob:
        yield Two(either_server, ada, bob)


def found(client: httpx2.Client, path: str, **params: str) -> list[str]:
    answer = client.get(path, params={"limit": "200", **params})
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["items"]]


# What is another's is not there


def test_every_id_in_an_address_is_worth_nothing_to_another_user(
    serve: Callable[..., Running],
) -> None:
    """As if it had never been: the answer to another's id is the one to an invented id."""
    different, callers = [], Callers(serve(transcode_workers=0, transcription_workers=0))
    for route in routes(callers.running):
        if route.role != "user" or "{" not in route.path:
            continue
        # These are everybody's.
        if "profiles/" in route.path or route.path.startswith("/v1/models/"):
            continue
        call = callers.resources.call(route)
        answers = [call.by(callers.clients[who]) for who in ("other", "admin's writer")]
        id = next(part for part in call.path.split("/") if "_" in part and len(part) > 20)
        invented = id[:4] + "0" * (len(id) - 4)
        strange = callers.clients["other"].request(
            call.method, call.path.replace(id, invented), **call.options
        )
        for answer in (*answers, strange):
            if answer.status_code != 404:
                different.append(f"{route} answers {answer.status_code}")
        if said(answers[0], id) != said(strange, invented):
            different.append(f"{route} says {answers[0].text}, and {strange.text} to invented ids")
    callers.close()
    assert not different, "\n".join(different)


def said(answer: httpx2.Response, id: str) -> str:
    if not answer.content:
        return ""
    return str({**answer.json(), "request_id": ""}).replace(id, "ID")


@pytest.mark.parametrize("path", COLLECTIONS)
def test_lists_show_ones_own(two: Two, path: str) -> None:
    for client in (two.ada, two.bob):
        if path == "/webhooks":
            client.post(path, json={"url": "https://hooks.example.org/x", "types": ["media.ready"]})
        if path == "/tokens":
            client.post(path, json={"name": "t"})
    ada, bob = found(two.ada, path), found(two.bob, path)
    assert not set(ada) & set(bob)
    if path not in ("/sessions",):
        assert ada
        assert bob
    with two.running.client() as admin:
        everything = found(admin, path)
    if path in ("/media", "/jobs", "/transcriptions"):
        assert {*ada, *bob} <= set(everything)
    else:
        assert not {*ada, *bob} & set(everything)


def test_asking_for_anothers_things_finds_nothing(two: Two) -> None:
    bobs = {"media_id": two.media[two.bob_id], "user_id": two.bob_id}
    assert found(two.ada, "/jobs", media_id=bobs["media_id"]) == []
    assert found(two.ada, "/transcriptions", media_id=bobs["media_id"]) == []
    # What was asked for is ignored, so these are Ada's own.
    assert set(found(two.ada, "/jobs", user_id=two.bob_id)) == set(found(two.ada, "/jobs"))
    assert found(two.ada, "/media", q="holiday") == [two.media[two.ada_id]]
    with two.running.client() as admin:
        assert two.waiting[two.bob_id] in found(admin, "/jobs", user_id=two.bob_id)
        assert two.waiting[two.ada_id] not in found(admin, "/jobs", user_id=two.bob_id)
        assert len(found(admin, "/media", q="holiday")) == 2
    body = {"media_id": bobs["media_id"]}
    assert two.ada.post("/transcriptions", json=body).status_code == 404


def test_the_queues_figures_are_ones_own(two: Two) -> None:
    stats = two.ada.get("/queue/stats").json()
    assert set(stats["users"]) == {two.ada_id}
    assert stats["kinds"]["fails"]["failed"] == 1
    assert [group["count"] for group in stats["failures"]] == [1]
    assert two.bob_id not in json.dumps(stats)
    why = two.ada.get(f"/jobs/{two.waiting[two.ada_id]}/why").json()
    assert two.bob_id not in json.dumps(why)
    with two.running.client() as admin:
        stats = admin.get("/queue/stats").json()
        assert {two.ada_id, two.bob_id} <= set(stats["users"])
        assert stats["kinds"]["fails"]["failed"] == 2


def test_events_are_ones_own(two: Two) -> None:
    with (
        two.running.client() as admin,
        two.ada.stream("GET", "/events?since=0") as hers,
        admin.stream("GET", "/events?since=0") as all_of_them,
        two.ada.stream(
            "GET",
            f"/events?since=0&media_id={two.media[two.bob_id]}&job_id={two.waiting[two.bob_id]}",
        ) as not_hers,
    ):
        two.bob.delete(f"/media/{two.media[two.bob_id]}")
        two.ada.delete(f"/media/{two.media[two.ada_id]}")
        last = "media.deleted", two.media[two.ada_id]
        ada_heard = list(until(hers, *last))
        admin_heard = list(until(all_of_them, *last))
        assert next(not_hers.iter_lines()).startswith("retry")
    assert not [each for each in ada_heard if two.bob_id in each or two.media[two.bob_id] in each]
    assert not [each for each in ada_heard if "worker." in each]
    assert [each for each in admin_heard if two.media[two.bob_id] in each]
    assert [each for each in admin_heard if "worker." in each]


def until(stream: httpx2.Response, type: str, id: str) -> Iterator[str]:
    for _, kind, data in events_of(stream):
        yield f"{kind} {json.dumps(data)}"
        if (kind, data.get("media_id")) == (type, id):
            return


def test_parts_of_anothers_upload_cannot_be_put_together(server: Running) -> None:
    with server.user("ada") as ada, server.user("bob") as bob:
        content = FORM["file"][1]
        headers = {**TUS, "Upload-Length": str(len(content)), "Upload-Concat": "partial"}
        bytes_too = {**headers, "Content-Type": "application/offset+octet-stream"}
        part = bob.post("/uploads", headers=bytes_too, content=content).headers["location"]
        final = {**TUS, "Upload-Concat": f"final;{part}"}
        invented = {**TUS, "Upload-Concat": f"final;{part[:-8]}00000000"}
        refused = [ada.post("/uploads", headers=each) for each in (final, invented)]
        assert {each.status_code for each in refused} == {422}
        assert said(refused[0], part[-36:]) == said(refused[1], invented["Upload-Concat"][-36:])
        assert bob.post("/uploads", headers=final).status_code == 201


def test_the_same_bytes_of_somebody_else_are_nobodys_business(server: Running) -> None:
    with server.user("ada") as ada, server.user("bob") as bob:
        hers = ada.post("/media", files=FORM)
        his = bob.post("/media", files=FORM)
        assert (hers.json()["duplicate_of"], his.json()["duplicate_of"]) == ([], [])
        assert "rushes-duplicate-of" not in his.headers
        again = ada.post("/media", files=FORM)
        assert again.json()["duplicate_of"] == [hers.json()["id"]]
        ada.delete(f"/media/{hers.json()['id']}")
        assert bob.post("/media", files=FORM).json()["duplicate_in_trash"] == []


def test_a_share_link_shows_its_media_and_nothing_else(server: Running) -> None:
    with server.user("ada") as ada, server.client(None, base_url=server.url) as anybody:
        owner = library.user_id(ada)
        shared, private = library.add(server, owner, "Shown"), library.add(server, owner, "Hidden")
        url = ada.post(f"/media/{shared}/share").json()["share_url"]
        token = url.rpartition("/")[2]
        item = anybody.get(f"/s/{token}/media").json()
        assert item["title"] == "Shown"
        assert not [each for each in (owner, shared, private, "Hidden") if each in str(item)]
        with server.client(token) as thief:
            assert thief.get(f"/media/{shared}").status_code == 401
        ada.delete(f"/media/{shared}/share")
        assert anybody.get(f"/s/{token}/media").status_code == 404
        assert anybody.get(f"/s/{token}").status_code == 404


# Many at once


def act(client: httpx2.Client, action: str, dry_run: bool = False, **wanted: object) -> Any:
    body = {"action": action, "filter": wanted, "dry_run": dry_run}
    answer = client.post("/jobs/actions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_bulk_actions_touch_ones_own_jobs_only(two: Two) -> None:
    before = {id: two.state(id) for id in (*two.waiting.values(), *two.failed.values())}
    dry = act(two.ada, "cancel", dry_run=True, kind="waits")
    assert dry == {"matched": 1, "changed": 0, "dry_run": True, "ids": []}
    assert {id: two.state(id) for id in before} == before
    mine, his = two.waiting[two.ada_id], two.waiting[two.bob_id]
    assert act(two.ada, "cancel", ids=[his]) == {**dry, "matched": 0, "dry_run": False}
    assert act(two.ada, "cancel", media_id=two.media[two.bob_id])["matched"] == 0
    assert act(two.ada, "cancel", ids=[mine, his])["ids"] == [mine]
    assert (two.state(mine), two.state(his)) == ("canceled", "queued")
    retried = act(two.ada, "retry", error_code="corrupt")
    assert retried["changed"] == 1
    assert two.running.rushes.job(retried["ids"][0]).user_id == two.ada_id
    act(two.ada, "cancel")
    assert two.state(his) == "queued"
    with two.running.client() as admin:
        assert act(admin, "cancel", kind="waits")["ids"] == [his]


def test_an_action_that_asks_for_another_user_is_refused(two: Two) -> None:
    body = {"action": "cancel", "filter": {"user_id": two.bob_id}}
    assert two.ada.post("/jobs/actions", json=body).status_code == 422
    assert two.state(two.waiting[two.bob_id]) == "queued"


# Once


def test_a_request_with_the_same_key_works_once(two: Two) -> None:
    path, key = f"/media/{two.media[two.ada_id]}/retranscode", {"Idempotency-Key": "first"}
    for client in (two.ada, two.bob):
        for job in client.get("/jobs", params={"kind": "transcode"}).json()["items"]:
            two.running.rushes.cancel(job["id"])
    with two.running.client() as admin:
        for name in ("small", "large"):
            assert admin.put(f"/profiles/{name}", json={}).status_code == 200
    first = two.ada.post(path, json={"profile": "small"}, headers=key)
    two.running.rushes.cancel(first.json()["id"])
    again = two.ada.post(path, json={"profile": "small"}, headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    other = two.ada.post(path, json={"profile": "large"}, headers=key)
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "Idempotency-Key")
    elsewhere = two.ada.post(path.replace("transcode", "transcribe"), json={}, headers=key)
    assert elsewhere.status_code == 422
    theirs = two.bob.post(
        f"/media/{two.media[two.bob_id]}/retranscode", json={"profile": "small"}, headers=key
    )
    assert theirs.json()["media_id"] == two.media[two.bob_id]
    fresh = two.ada.post(path, json={"profile": "small"}, headers={"Idempotency-Key": "second"})
    assert fresh.json()["id"] != first.json()["id"]
    for bad in ("", "x" * 256):
        answer = two.ada.post(path, json={}, headers={"Idempotency-Key": bad})
        assert answer.status_code == 422


def test_twenty_requests_with_one_key_at_the_same_time_make_one_job(either_server: Running) -> None:
    with either_server.user("ada") as ada:
        owner = library.user_id(ada)
        failed = library.enqueue(either_server, owner, "demo")
        either_server.rushes.cancel(failed)
        token = ada.headers["authorization"].partition(" ")[2]
    at_once = threading.Barrier(20)

    def ask(_: int) -> tuple[int, str]:
        with either_server.client(token) as client:
            at_once.wait()
            body = {"action": "retry", "filter": {"ids": [failed]}}
            answer = client.post("/jobs/actions", json=body, headers={"Idempotency-Key": "k"})
            return answer.status_code, answer.text

    with ThreadPoolExecutor(20) as crowd:
        answers = set(crowd.map(ask, range(20)))
    assert len(answers) == 1
    [(status, text)] = answers
    assert (status, json.loads(text)["changed"]) == (200, 1)
    made = [job for job in either_server.rushes.jobs(kind="demo") if job.retry_of == failed]
    assert [job.id for job in made] == json.loads(text)["ids"]


def test_twenty_uploads_of_one_form_with_one_key_make_one_media(either_server: Running) -> None:
    with either_server.user("ada") as ada:
        token = ada.headers["authorization"].partition(" ")[2]
        at_once = threading.Barrier(20)

        def send(_: int) -> tuple[int, str]:
            with either_server.client(token) as client:
                at_once.wait()
                answer = client.post("/media", files=FORM, headers={"Idempotency-Key": "k"})
                return answer.status_code, answer.json().get("id", answer.text)

        with ThreadPoolExecutor(20) as crowd:
            answers = set(crowd.map(send, range(20)))
        assert {status for status, _ in answers} == {201}
        assert found(ada, "/media") == [id for _, id in answers]
