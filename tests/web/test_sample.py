"""The clip that comes with Rushes: an upload like any other, one for each user."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from running import Running
from rushes.uploads import sample

LARGEST_BYTES = 300_000


def test_everybody_gets_it_once(serve: Callable[..., Running]) -> None:
    server = serve(transcode_workers=0, transcription_workers=0)
    clip = sample.CLIP.read_bytes()
    assert len(clip) <= LARGEST_BYTES
    with server.user("ada") as ada, server.user("bob") as bob:
        first = ada.post("/media/sample")
        assert first.status_code == 201, first.text
        made = first.json()
        assert (made["title"], made["kind"]) == ("A short sample", "video")
        assert [each["kind"] for each in made["jobs"]] == ["transcode", "transcribe"]
        source = ada.get(f"/media/{made['id']}/source").content
        assert hashlib.sha256(source).digest() == hashlib.sha256(clip).digest()
        again = ada.post("/media/sample")
        assert (again.status_code, again.json()["id"]) == (200, made["id"])
        assert len(ada.get("/media").json()["items"]) == 1
        assert bob.post("/media/sample").json()["id"] != made["id"]
        assert ada.delete(f"/media/{made['id']}").is_success
        anew = ada.post("/media/sample")
        assert (anew.status_code, anew.json()["id"] == made["id"]) == (201, False)


def test_limits_hold_for_it(serve: Callable[..., Running]) -> None:
    server = serve(user_quota=100_000)
    with server.user("ada") as ada:
        refused = ada.post("/media/sample")
        assert refused.status_code == 413, refused.text
        assert refused.json()["code"] == "too_large"
        assert ada.get("/media").json()["items"] == []
