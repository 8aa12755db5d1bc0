"""Which work comes first, as people say it over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import pytest

from running import Running
from web import library
from web.callers import FORM, TUS


def priority_of(client: httpx2.Client, media_id: str, kind: str) -> str:
    query = {"media_id": media_id, "kind": kind}
    return str(client.get("/jobs", params=query).json()["items"][0]["priority"])


def metadata(**given: str) -> dict[str, str]:
    pairs = (f"{name} {base64.b64encode(text.encode()).decode()}" for name, text in given.items())
    return {**TUS, "Upload-Length": "300", "Upload-Metadata": ",".join(pairs)}


def test_new_uploads_come_before_what_is_made_again(server: Running) -> None:
    with server.user() as ada:
        media_id = library.add(server, library.user_id(ada))
        assert priority_of(ada, media_id, "transcode") == "normal"
        assert priority_of(ada, media_id, "transcribe") == "normal"
        for job in ada.get("/jobs", params={"media_id": media_id}).json()["items"]:
            ada.post(f"/jobs/{job['id']}/cancel")
        for route in ("retranscode", "retranscribe"):
            made = ada.post(f"/media/{media_id}/{route}")
            assert (made.status_code, made.json()["priority"]) == (202, "low"), made.text
            # Somebody waits for the one that they try again.
            ada.post(f"/jobs/{made.json()['id']}/cancel")
            again = ada.post(f"/jobs/{made.json()['id']}/retry").json()
            assert again["priority"] == "normal"
            ada.post(f"/jobs/{again['id']}/cancel")
        body = {"action": "retry", "filter": {"kind": "transcode", "ids": [again["id"]]}}
        assert ada.post("/jobs/actions", json=body).json()["changed"] == 0
        body["filter"] = {"ids": [again["id"]]}
        [many] = ada.post("/jobs/actions", json=body).json()["ids"]
        assert ada.get(f"/jobs/{many}").json()["priority"] == "low"


REQUESTS: dict[str, dict[str, Any]] = {
    "/media/{id}/retranscode": {},
    "/media/{id}/trim": {"start": 1},
    "/media/{id}/retranscribe": {},
    "/transcriptions": {"media_id": "{id}", "language": "de"},
    "/jobs": {"kind": "demo"},
    "/media/{id}/jobs": {"kind": "demo"},
}


@pytest.mark.parametrize("path", REQUESTS)
def test_whoever_asks_for_work_may_say_how_soon(server: Running, path: str) -> None:
    with server.user() as ada, server.client() as admin:
        media_id = library.add(server, library.user_id(ada))
        for job in ada.get("/jobs", params={"media_id": media_id}).json()["items"]:
            ada.post(f"/jobs/{job['id']}/cancel")
        body = {
            name: media_id if name == "media_id" else value
            for name, value in REQUESTS[path].items()
        }
        library.worker(server, "demo")
        address = path.replace("{id}", media_id)
        refused = ada.post(address, json={**body, "priority": "high"})
        assert (refused.status_code, refused.json()["code"]) == (403, "denied")
        assert "admin" in refused.json()["detail"]
        assert ada.post(address, json={**body, "priority": "soon"}).status_code == 422
        made = ada.post(address, json={**body, "priority": "low"})
        assert (made.status_code, made.json()["priority"]) == (202, "low"), made.text
        ada.post(f"/jobs/{made.json()['id']}/cancel")
        urgent = admin.post(address, json={**body, "priority": "high"})
        assert (urgent.status_code, urgent.json()["priority"]) == (202, "high"), urgent.text


def test_an_upload_may_say_how_soon_it_is_wanted(server: Running) -> None:
    with server.user() as ada:
        made = ada.post("/media", data={"priority": "low"}, files=FORM)
        assert made.status_code == 201, made.text
        assert priority_of(ada, made.json()["id"], "transcode") == "low"
        refused = ada.post("/media", data={"priority": "high"}, files=FORM)
        assert refused.status_code == 403, refused.text
        assert ada.post("/uploads", headers=metadata(priority="high")).status_code == 403
        assert ada.post("/uploads", headers=metadata(priority="soon")).status_code == 422
        begun = ada.post("/uploads", headers=metadata(priority="low", filename="talk.mp4"))
        headers = {**TUS, "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        content = FORM["file"][1] + bytes(300 - len(FORM["file"][1]))
        sent = ada.patch(begun.headers["location"], headers=headers, content=content)
        media_id = sent.headers["rushes-media-id"]
        assert priority_of(ada, media_id, "transcribe") == "low"


def test_a_waiting_job_is_moved(either_server: Running) -> None:
    with either_server.user() as ada, either_server.client() as admin:
        user_id = library.user_id(ada)
        first, second, third = (library.enqueue(either_server, user_id) for _ in range(3))
        moved = ada.patch(f"/jobs/{first}", json={"priority": "low"})
        assert (moved.status_code, moved.json()["priority"]) == (200, "low")
        refused = ada.patch(f"/jobs/{first}", json={"priority": "high"})
        assert (refused.status_code, refused.json()["code"]) == (403, "denied")
        assert ada.post(f"/jobs/{third}/next").json()["priority"] == "normal"
        assert admin.post(f"/jobs/{second}/next").json()["priority"] == "high"
        taken = [library.claim(either_server, "demo").job_id for _ in range(3)]
        assert taken == [second, third, first]
        for answer in (
            ada.post(f"/jobs/{first}/next"),
            ada.patch(f"/jobs/{first}", json={"priority": "normal"}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
            assert "worked on" in answer.json()["detail"]


def test_many_are_moved_by_a_filter(either_server: Running) -> None:
    with either_server.user() as ada, either_server.user("bob") as bob:
        mine = [library.enqueue(either_server, library.user_id(ada)) for _ in range(2)]
        [his] = [library.enqueue(either_server, library.user_id(bob))]
        body = {"action": "priority", "priority": "low", "filter": {"kind": "demo"}}
        assert ada.post("/jobs/actions", json={**body, "dry_run": True}).json()["matched"] == 2
        assert ada.post("/jobs/actions", json=body).json()["ids"] == mine
        assert bob.get(f"/jobs/{his}").json()["priority"] == "normal"
        assert ada.post("/jobs/actions", json={**body, "priority": "high"}).status_code == 403
        assert ada.post("/jobs/actions", json={**body, "priority": None}).status_code == 422
        stray = {**body, "action": "cancel"}
        assert ada.post("/jobs/actions", json=stray).status_code == 422
        next = {"action": "next", "filter": {"ids": [mine[1]]}}
        assert ada.post("/jobs/actions", json=next).json()["ids"] == [mine[1]]
        assert ada.get(f"/jobs/{mine[1]}").json()["priority"] == "normal"


def test_somebody_elses_job_is_not_there_to_be_moved(server: Running) -> None:
    with server.user() as ada, server.user("bob") as bob:
        job_id = library.enqueue(server, library.user_id(ada))
        assert bob.post(f"/jobs/{job_id}/next").status_code == 404
        assert bob.patch(f"/jobs/{job_id}", json={"priority": "low"}).status_code == 404
        assert ada.get(f"/jobs/{job_id}").json()["priority"] == "normal"


def test_limits_are_set_by_an_admin_and_a_job_says_that_it_waits_for_one(
    either_server: Running,
) -> None:
    with either_server.user() as ada, either_server.client() as admin:
        user_id = library.user_id(ada)
        name = ada.get("/session").json()["name"]
        assert ada.put("/limits/user:*", json={"most": 1}).status_code == 403
        assert ada.get("/limits").status_code == 403
        assert admin.put("/limits/user:*", json={"most": 1}).json()["most"] == 1
        own = admin.put(f"/limits/user:{name}", json={"most": 2}).json()
        assert (own["key"], own["name"]) == (f"user:{user_id}", name)
        jobs = [library.enqueue(either_server, user_id) for _ in range(3)]
        for _ in range(2):
            library.claim(either_server, "demo")
        shown = {each["key"]: each["running"] for each in admin.get("/limits").json()["items"]}
        assert shown == {"user:*": 0, f"user:{user_id}": 2}
        reasons = ada.get(f"/jobs/{jobs[2]}/why").json()["reasons"]
        told = [each["sentence"] for each in reasons if each["code"] == "limit"]
        assert told == [f"It waits for a free place: the limit user:{user_id} of 2 is reached."]
        assert admin.delete(f"/limits/user:{name}").status_code == 204
        assert admin.delete(f"/limits/user:{name}").status_code == 404
        assert admin.delete("/limits/user:*").status_code == 204
        assert library.claim(either_server, "demo").job_id == jobs[2]


@pytest.mark.parametrize(
    ("key", "most", "status"),
    [
        ("user:nobody", 1, 404),
        ("engine", 1, 422),
        ("engine:a b", 1, 422),
        ("*", 1, 422),
        ("engine:openai", 0, 422),
        ("engine:openai", 10**9, 422),
        ("engine:" + "x" * 90, 1, 422),
    ],
)
def test_what_cannot_be_a_limit_is_refused(
    server: Running, key: str, most: int, status: int
) -> None:
    with server.client() as admin:
        assert admin.put(f"/limits/{key}", json={"most": most}).status_code == status
        assert admin.get("/limits").json()["items"] == []


def test_only_an_admin_names_a_limit_key(server: Running) -> None:
    library.worker(server, "demo")
    with server.user() as ada, server.client() as admin:
        body = {"kind": "demo", "limit_key": "engine:far"}
        assert ada.post("/jobs", json=body).status_code == 403
        assert admin.post("/jobs", json=body).json()["limit_key"] == "engine:far"
        assert admin.post("/jobs", json={**body, "limit_key": "user:x"}).status_code == 422
