"""New versions of what is there: encoded again, cut, with a video laid over; one at a time."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from running import Running
from rushes.db.database import Tx
from rushes.media import store as media_store
from web import library

FILES = {"master.m3u8": b"#EXTM3U\n"}


def ready(running: Running, client: httpx2.Client, seconds: float | None = 60.0) -> str:
    """A media that can be watched, and so many seconds long."""
    media_id = library.add(running, library.user_id(client))
    library.publish(running, media_id, FILES)
    know(running, media_id, duration=seconds)
    return media_id


def know(
    running: Running, media_id: str, *, kind: str | None = None, duration: float | None = None
) -> None:
    def set_facts(tx: Tx) -> None:
        media_store.set_facts(tx, media_id, kind=kind, duration=duration)

    running.rushes.db.run(set_facts)


def ask(client: httpx2.Client, media_id: str, what: str, **body: Any) -> Any:
    answer = client.post(f"/media/{media_id}/{what}", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


def done(running: Running, job: Any, seconds: float | None = None) -> None:
    """As a worker ends it."""
    held = library.claim(running, job["kind"])
    assert held.job_id == job["id"]
    library.put(running, held, FILES)
    result = None if seconds is None else {"kind": "video", "duration": seconds}
    library.finish(running, held, result)


def refused(client: httpx2.Client, media_id: str, what: str, **body: Any) -> str:
    answer = client.post(f"/media/{media_id}/{what}", json=body)
    assert answer.status_code == 422, answer.text
    return str(answer.json()["errors"][0]["field"])


# Encoding again


def test_chosen_qualities_are_made_again_in_the_ladders_order(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = ready(either_server, ada)
        job = ask(ada, media_id, "retranscode", qualities=["480p", "1080p", "480p"])
        assert job["args"]["qualities"] == ["1080p", "480p"]
        assert "drop_transcript" not in job["args"]
        answer = ada.post(f"/media/{media_id}/retranscode", json={"qualities": ["333p"]})
        assert answer.status_code == 422
        assert "known are 2160p, 1440p" in answer.json()["detail"]
        assert refused(ada, media_id, "retranscode", qualities=[]) == "qualities"


def test_the_profile_of_before_is_taken_again(either_server: Running) -> None:
    with either_server.client() as admin, either_server.user() as ada:
        admin.put("/profiles/small", json={"crf": 30})
        media_id = ready(either_server, ada)
        done(either_server, ask(ada, media_id, "retranscode", profile="small"))
        job = ask(ada, media_id, "retranscode")
        assert (job["args"]["profile"], job["args"]["settings"]["crf"]) == ("small", 30)
        ada.post(f"/jobs/{job['id']}/cancel")
        admin.delete("/profiles/small")
        assert ask(ada, media_id, "trim", start=1)["args"]["profile"] == "default"


def test_a_transcript_that_is_dropped_is_made_again_afterwards(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = ready(either_server, ada)
        [first] = transcriptions(ada, media_id)
        job = ask(ada, media_id, "retranscode", drop_transcript=True)
        assert transcriptions(ada, media_id) == [first]
        done(either_server, job)
        second, first = transcriptions(ada, media_id)
        assert (first["status"], second["status"]) == ("canceled", "queued")
        done(either_server, ask(ada, media_id, "retranscode"))
        assert len(transcriptions(ada, media_id)) == 2


def transcriptions(client: httpx2.Client, media_id: str) -> list[Any]:
    items: list[Any] = client.get("/transcriptions", params={"media_id": media_id}).json()["items"]
    return items


# Cutting


def test_cuts_are_made_in_what_is_seen_and_can_be_undone(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = ready(either_server, ada, 60)
        job = ask(ada, media_id, "trim", start=10, end=50)
        assert (job["kind"], job["args"]["edit"]) == ("trim", {"start": 10, "end": 50})
        assert ada.get(f"/media/{media_id}").json()["edit"] is None
        done(either_server, job, 40)
        item = ada.get(f"/media/{media_id}").json()
        assert item["edit"] == {"start": 10, "end": 50, "overlay": None}
        assert item["duration"] == 40
        assert refused(ada, media_id, "trim", start=0, end=41) == "end"
        job = ask(ada, media_id, "trim", start=5)
        assert job["args"]["edit"] == {"start": 15, "end": 50}
        done(either_server, job, 35)
        again = ask(ada, media_id, "retranscode")
        assert again["args"]["edit"] == {"start": 15, "end": 50}
        done(either_server, again)
        assert ada.get(f"/media/{media_id}").json()["edit"]["start"] == 15
        job = ask(ada, media_id, "trim", reset=True)
        assert job["args"]["edit"] == {}
        done(either_server, job, 60)
        assert ada.get(f"/media/{media_id}").json()["edit"] is None
        assert refused(ada, media_id, "trim", reset=True) == "reset"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "start"),
        ({"start": -1}, "start"),
        ({"start": 60}, "start"),
        ({"start": 10, "end": 10}, "end"),
        ({"end": 61}, "end"),
        ({"start": "soon"}, "start"),
        ({"stop": 5}, "stop"),
    ],
)
def test_a_cut_that_cannot_be_made_is_refused(server: Running, body: Any, field: str) -> None:
    with server.user() as ada:
        media_id = ready(server, ada, 60)
        assert refused(ada, media_id, "trim", **body) == field
        nan = ada.post(f"/media/{media_id}/trim", content='{"start": NaN}')
        assert nan.status_code == 422
        assert ada.get("/jobs", params={"kind": "trim"}).json()["items"] == []


def test_other_sound_is_transcribed_again_with_the_same_options(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = ready(either_server, ada)
        [first] = transcriptions(ada, media_id)
        ada.post(f"/transcriptions/{first['id']}/cancel")
        ada.post(f"/media/{media_id}/retranscribe", json={"language": "de", "diarize": True})
        # A worker listens to the old sound; what it hears must not become the transcript.
        held = library.claim(either_server, "transcribe")
        done(either_server, ask(ada, media_id, "trim", start=10), 50)
        newest, before, _ = transcriptions(ada, media_id)
        assert before["id"] == held.job_id
        assert before["cancel_requested_at"] is not None
        assert newest["status"] == "queued"
        assert newest["args"] == {
            "language": "de",
            "diarize": True,
            "edit": {"start": 10, "end": None},
        }
        asked = ada.post(f"/media/{media_id}/retranscribe", json={})
        assert asked.json()["id"] == newest["id"]
        done(either_server, ask(ada, media_id, "trim", reset=True), 60)
        assert "edit" not in transcriptions(ada, media_id)[0]["args"]


def test_what_is_transcribed_later_is_what_is_seen(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = ready(either_server, ada)
        done(either_server, ask(ada, media_id, "trim", start=10), 50)
        for each in transcriptions(ada, media_id):
            ada.post(f"/transcriptions/{each['id']}/cancel")
        job = ada.post("/transcriptions", json={"media_id": media_id}).json()
        assert job["args"] == {"edit": {"start": 10, "end": None}}


# Laying over


def test_a_video_is_laid_over_another_and_cutting_keeps_it(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id, webcam = ready(either_server, ada), ready(either_server, ada)
        job = ask(
            ada,
            media_id,
            "composite",
            overlay_media_id=webcam,
            position={"x": 0.5, "y": 0.25},
            size=0.4,
            sound="both",
        )
        overlay = {
            "media_id": webcam,
            "position": {"x": 0.5, "y": 0.25},
            "size": 0.4,
            "sound": "both",
        }
        assert job["kind"] == "composite"
        assert job["args"]["edit"] == {"start": 0, "end": None, "overlay": overlay}
        done(either_server, job, 60)
        assert ada.get(f"/media/{media_id}").json()["edit"]["overlay"] == overlay
        job = ask(ada, media_id, "trim", start=3)
        assert job["args"]["edit"] == {"start": 3, "end": None, "overlay": overlay}
        done(either_server, job, 57)
        job = ask(ada, media_id, "composite", overlay_media_id=webcam)
        assert job["args"]["edit"] == {
            "start": 3,
            "end": None,
            "overlay": {
                "media_id": webcam,
                "position": "bottom-right",
                "size": 0.25,
                "sound": "main",
            },
        }


def test_only_a_video_of_the_same_user_is_laid_over(either_server: Running) -> None:
    with either_server.user() as ada, either_server.user("bob") as bob:
        media_id, sound = ready(either_server, ada), ready(either_server, ada)
        know(either_server, sound, kind="audio")
        gone = ready(either_server, ada)
        ada.delete(f"/media/{gone}")
        theirs = ready(either_server, bob)
        for other in (media_id, sound, gone, theirs, "med_0"):
            field = refused(ada, media_id, "composite", overlay_media_id=other)
            assert field == "overlay_media_id"
        with either_server.client() as admin:
            field = refused(admin, media_id, "composite", overlay_media_id=theirs)
            assert field == "overlay_media_id"


@pytest.mark.parametrize(
    "body",
    [
        {"size": 0.01},
        {"size": 1.5},
        {"position": "middle"},
        {"position": {"x": 1.2, "y": 0}},
        {"position": {"x": 0}},
        {"sound": "none"},
    ],
)
def test_places_and_sizes_are_checked(server: Running, body: Any) -> None:
    with server.user() as ada:
        media_id, webcam = ready(server, ada), ready(server, ada)
        refused(ada, media_id, "composite", overlay_media_id=webcam, **body)


# One at a time


def test_the_same_request_gets_the_same_job_and_another_one_has_to_wait(
    either_server: Running,
) -> None:
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        first = ask(ada, media_id, "retranscode")
        assert (
            first["id"] == ada.get("/jobs", params={"kind": "transcode"}).json()["items"][0]["id"]
        )
        for what, body in (
            ("retranscode", {"qualities": ["720p"]}),
            ("retranscode", {"drop_transcript": True}),
            ("trim", {"start": 1}),
            ("composite", {"overlay_media_id": ready_beside(either_server, ada)}),
        ):
            answer = ada.post(f"/media/{media_id}/{what}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
            assert "wait for it or cancel it" in answer.json()["detail"]
        ada.post(f"/jobs/{first['id']}/cancel")
        cut = ask(ada, media_id, "trim", start=1)
        assert ask(ada, media_id, "trim", start=1)["id"] == cut["id"]
        assert ada.post(f"/media/{media_id}/trim", json={"start": 2}).status_code == 409


def ready_beside(running: Running, client: httpx2.Client) -> str:
    return library.add(running, library.user_id(client), content=b"webcam")


def test_whoever_is_being_canceled_is_not_joined(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = ready(either_server, ada)
        cut = ask(ada, media_id, "trim", start=1)
        held = library.claim(either_server, "trim")
        ada.post(f"/jobs/{cut['id']}/cancel")
        answer = ada.post(f"/media/{media_id}/trim", json={"start": 1})
        assert answer.status_code == 409
        assert "being canceled" in answer.json()["detail"]
        either_server.rushes.dispatch.release(held)
        assert ask(ada, media_id, "trim", start=1)["id"] != cut["id"]
        item = ada.get(f"/media/{media_id}").json()
        assert (item["status"], item["edit"]) == ("ready", None)


def test_the_same_key_cuts_once(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = ready(either_server, ada)
        key = {"Idempotency-Key": "one"}
        path, body = f"/media/{media_id}/trim", {"start": 10}
        first = ada.post(path, json=body, headers=key)
        done(either_server, first.json(), 50)
        again = ada.post(path, json=body, headers=key)
        assert again.json() == first.json()
        assert len(ada.get("/jobs", params={"kind": "trim"}).json()["items"]) == 1
