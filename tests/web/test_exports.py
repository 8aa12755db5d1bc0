"""Exports over HTTP: what may be asked for, side by side, replaced, removed and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from running import Running
from rushes.media import export_store
from web import library

TOLD = {
    "renditions": [
        {"name": "720p", "kind": "video", "status": "completed", "height": 720, "codecs": "avc1"},
        {"name": "360p", "kind": "video", "status": "completed", "height": 360, "codecs": "avc1"},
        {"name": "240p", "kind": "video", "status": "completed", "height": 240, "codecs": "avc1"},
    ],
    "audio": [{"name": "audio", "kind": "audio", "status": "completed", "codecs": "mp4a.40.2"}],
}
FILES: dict[str, Any] = {
    f"{name}/{file}": content
    for name in ("720p", "360p", "audio")
    for file, content in (
        ("init.mp4", b"(init)"),
        ("seg_00000.m4s", (b"[first]", 4.0)),
        ("seg_00001.m4s", (b"[second]", 4.0)),
        ("seg_00002.m4s", (b"[third]", 4.0)),
    )
}


@pytest.fixture
def ada(server: Running) -> Iterator[httpx2.Client]:
    with server.user("ada") as ada:
        yield ada


def ready(server: Running, ada: httpx2.Client) -> str:
    """A media with a version; of 240p there are no files any more."""
    media_id = library.add(server, library.user_id(ada))
    held = library.claim(server, "transcode")
    library.put(server, held, FILES)
    library.tell(server, held, 0.9, TOLD)
    library.finish(server, held, {"kind": "video", "duration": 12.0})
    return media_id


def ask(ada: httpx2.Client, media_id: str, **wanted: Any) -> Any:
    answer = ada.post(f"/media/{media_id}/exports", json={"format": "mp4", **wanted})
    assert answer.status_code == 202, answer.text
    return answer.json()


def make(server: Running, content: bytes) -> None:
    """As a worker does with the next export that waits."""
    me = library.worker(server, "export")
    [job] = server.rushes.dispatch.claim(me, 1)
    library.put(server, job.claim, {job.args["name"]: content})
    library.finish(server, job.claim)


def listed(ada: httpx2.Client, media_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = ada.get(f"/media/{media_id}/exports").json()["items"]
    return items


def test_exports_are_side_by_side_and_the_same_is_replaced(
    server: Running, ada: httpx2.Client
) -> None:
    media_id = ready(server, ada)
    assert listed(ada, media_id) == []
    first = ask(ada, media_id)
    assert (first["kind"], first["args"]["picture"]) == ("export", "720p")
    assert ask(ada, media_id, rendition="720p")["id"] == first["id"]
    [waiting] = listed(ada, media_id)
    assert (waiting["status"], waiting["url"], waiting["size_bytes"]) == ("pending", None, None)
    make(server, b"a whole film")
    ask(ada, media_id, start=2, end=5, rendition="360p")
    make(server, b"a clip")
    clip, film = listed(ada, media_id)
    assert [clip["status"], film["status"]] == ["ready", "ready"]
    assert (clip["start"], clip["end"], clip["rendition"]) == (2, 5, "360p")
    assert clip["expires_at"] > clip["created_at"]
    assert ada.get(f"{server.url}{film['url']}").content == b"a whole film"
    assert ada.get(f"{server.url}{clip['url']}").content == b"a clip"
    # They are no outputs of kinds of one's own, and nothing of what is watched has changed.
    seen = ada.get(f"/media/{media_id}").json()
    assert (seen["outputs"], seen["status"]) == ([], "ready")
    ask(ada, media_id)
    make(server, b"a better film")
    assert [each["size_bytes"] for each in listed(ada, media_id)] == [13, 6]
    removed = ada.delete(f"/media/{media_id}/exports/{clip['id']}")
    assert removed.status_code == 204
    assert [each["rendition"] for each in listed(ada, media_id)] == ["720p"]
    assert ada.get(f"{server.url}{clip['url']}").status_code == 404
    assert ada.delete(f"/media/{media_id}/exports/{clip['id']}").status_code == 409
    assert ada.delete(f"/media/{media_id}/exports/job_{'0' * 32}").status_code == 404
    server.rushes.db.run(lambda tx: export_store.expire(tx, keep_ms=0, limit=10))
    assert listed(ada, media_id) == []


def test_exports_are_their_owners_alone(server: Running, ada: httpx2.Client) -> None:
    media_id = ready(server, ada)
    ask(ada, media_id)
    make(server, b"private")
    [export] = listed(ada, media_id)
    shared = ada.post(f"/media/{media_id}/share").json()["share_url"]
    with server.user("eve") as eve, server.client(None) as nobody:
        assert eve.get(f"/media/{media_id}/exports").status_code == 404
        assert eve.post(f"/media/{media_id}/exports", json={"format": "mp4"}).status_code == 404
        assert eve.delete(f"/media/{media_id}/exports/{export['id']}").status_code == 404
        assert eve.get(f"{server.url}{export['url']}").status_code == 404
        under = export["url"].partition("/outputs/")[2]
        assert nobody.get(f"{shared}/outputs/{under}").status_code == 404
        assert nobody.get(f"{shared}/outputs").json()["items"] == []


def test_one_that_failed_is_told_until_it_is_asked_for_again(
    server: Running, ada: httpx2.Client
) -> None:
    media_id = ready(server, ada)
    ask(ada, media_id, format="mp3")
    held = library.claim(server, "export")
    server.rushes.dispatch.fail(held, "permanent", "version_gone", "it is gone")
    [failed] = listed(ada, media_id)
    assert (failed["status"], failed["error"]) == ("failed", "it is gone")
    assert ada.delete(f"/media/{media_id}/exports/{failed['id']}").status_code == 409
    ask(ada, media_id, format="mp3")
    [again] = listed(ada, media_id)
    assert again["status"] == "pending"
    assert ada.post(f"/jobs/{again['id']}/cancel").status_code == 200
    assert listed(ada, media_id) == []


REFUSED: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (422, "format", {"format": "avi"}),
    (422, "end", {"start": 5, "end": 4}),
    (422, "end", {"end": 13}),
    (422, "start", {"start": 12.5}),
    (422, "rendition", {"rendition": "1080p"}),
    (422, "rendition", {"rendition": "240p"}),
    (422, "burn_captions", {"format": "m4a", "burn_captions": True}),
    (409, "no transcript", {"burn_captions": True}),
)


def test_what_cannot_be_exported_is_refused_with_its_field(
    server: Running, ada: httpx2.Client
) -> None:
    media_id = ready(server, ada)
    for status, said, wanted in REFUSED:
        answer = ada.post(f"/media/{media_id}/exports", json={"format": "mp4", **wanted})
        assert answer.status_code == status, wanted
        assert said in answer.text
    assert listed(ada, media_id) == []
    library.transcribe(server, media_id, "Hello.")
    assert ask(ada, media_id, burn_captions=True)["args"]["burn_captions"] is True
    early = library.add(server, library.user_id(ada))
    answer = ada.post(f"/media/{early}/exports", json={"format": "mp4"})
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")


def test_a_worker_elsewhere_gets_the_segments_that_it_needs_as_one_file(
    server: Running, ada: httpx2.Client
) -> None:
    media_id = ready(server, ada)
    with server.client() as admin:
        made = admin.post("/worker/register", json={"name": "far"}).json()
    with server.client(made["key"]) as worker:
        worker.post("/worker/hello", json={"kinds": ["export"]})
        ask(ada, media_id, start=5, end=12)
        [job] = worker.post("/worker/claim", json={}).json()["jobs"]
        asked = {"job_id": job["job_id"], "rendition": "720p", "from_seconds": 5, "to_seconds": 12}
        proof = {"Rushes-Claim": job["claim_id"]}
        head = worker.head("/worker/source", params=asked, headers=proof)
        whole = worker.get("/worker/source", params=asked, headers=proof)
        assert whole.content == b"(init)[second][third]"
        assert int(head.headers["rushes-source-size"]) == len(whole.content)
        for start in range(len(whole.content)):
            part = {**proof, "Range": f"bytes={start}-"}
            answer = worker.get("/worker/source", params=asked, headers=part)
            assert (answer.status_code, answer.content) == (206, whole.content[start:])
        # What was watched when it was asked for, whatever was published since.
        library.publish(server, media_id, {"720p/init.mp4": b"(other)"})
        assert worker.get("/worker/source", params=asked, headers=proof).content == whole.content
        for bad in ({"rendition": "1080p"}, {"rendition": "%"}, {"from_seconds": 12}):
            missing = worker.get("/worker/source", params={**asked, **bad}, headers=proof)
            assert missing.status_code == 404, bad
        stranger = {"Rushes-Claim": "clm_0"}
        assert worker.get("/worker/source", params=asked, headers=stranger).status_code == 409
