"""From an upload to something to watch, through a real server: new versions, edits, failures."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handlers.transcode.test_resume import film, media, upload, wait_until
from running import Running
from rushes import handlers, protocol
from rushes.worker.loop import Worker
from rushes.worker.remote import Remote

pytestmark = pytest.mark.timeout(240)

QUICK = {"preset": "ultrafast"}
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-c:a", "aac")


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(transcodes=True)


def ready(server: Running, media_id: str) -> dict[str, Any]:
    wait_until(lambda: media(server, media_id)["status"] == "ready")
    # Nobody transcribes here.
    wait_until(lambda: {job["kind"] for job in media(server, media_id)["jobs"]} <= {"transcribe"})
    return media(server, media_id)


def current(server: Running, media_id: str) -> str | None:
    with server.rushes.db.read() as tx:
        row = tx.one("SELECT current_version_id AS id FROM media WHERE id = :id", id=media_id)
    return row["id"] if row else None


def test_an_upload_becomes_ready_with_all_its_parts(server: Running, tmp_path: Path) -> None:
    # What is kept is listed, however many bits it needs.
    profile = {**QUICK, "original_bitrate": 100_000}
    media_id = upload(server, film(tmp_path / "film.mp4", 6, "640x360", *H264), **profile)
    found = ready(server, media_id)
    assert (found["kind"], found["width"], found["height"]) == ("video", 640, 360)
    assert found["duration"] == pytest.approx(6, abs=0.05)
    states = {each["name"]: each["status"] for each in found["renditions"]}
    assert states["360p"] == states["original"] == "completed"
    assert states["1080p"] == "skipped"
    with server.client() as admin:
        for name in ("master.m3u8", "manifest.mpd", "original/playlist.m3u8", "audio/init.mp4"):
            answer = admin.get(f"/media/{media_id}/stream/{name}", follow_redirects=True)
            assert answer.status_code == 200, name
        # Its key frames fall on the grid, so players may switch to it.
        master = admin.get(f"/media/{media_id}/stream/master.m3u8", follow_redirects=True).text
        assert "original/playlist.m3u8" in master
        for address in ("thumbnail.jpg", "storyboard.vtt"):
            answer = admin.get(f"/media/{media_id}/{address}", follow_redirects=True)
            assert answer.status_code == 200, address


def log_of(server: Running, job_id: str) -> list[str]:
    """Without the times at which it was said."""
    with server.client() as admin:
        text = admin.get(f"/jobs/{job_id}/logs").text
    return [line.split(" ", 1)[1] for line in text.splitlines()]


def job_of(server: Running, media_id: str) -> str:
    with server.client() as admin:
        params = {"kind": "transcode", "media_id": media_id}
        [job] = admin.get("/jobs", params=params).json()["items"]
    return str(job["id"])


def test_the_log_of_a_job_tells_what_was_found_and_what_was_made_of_it(
    server: Running, tmp_path: Path
) -> None:
    source = film(tmp_path / "secret-name.mp4", 3, "640x360", *H264)
    media_id = upload(server, source, **QUICK)
    ready(server, media_id)
    said = log_of(server, job_of(server, media_id))
    assert said[0].startswith("source: mov/mp4, 3.0 s, ")
    assert said[1:3] == [
        "picture: h264, 640 × 360, 25 frames a second",
        "sound: aac, 1 channel, 48 kHz",
    ]
    assert "copying the picture as it is, to be watched at once" in said
    [ladder] = [line for line in said if line.startswith("encoding 360p")]
    assert ladder.startswith("encoding 360p with libx264; not made: ")
    assert "1080p" in ladder
    assert said[-1].startswith("done: 360p, 3.0 s; this attempt took ")
    assert len(said) <= 15
    assert not [line for line in said if "secret" in line or "/tmp" in line]


def test_a_media_tells_that_its_file_was_cut_off(server: Running, tmp_path: Path) -> None:
    whole = film(tmp_path / "film.mp4", 6, "160x90", *H264, "-movflags", "+faststart")
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    found = ready(server, upload(server, cut, **QUICK))
    said = {each["code"]: each["message"] for each in found["warnings"]}
    assert said["end_missing"].startswith("the end is missing: the file claims 6.0 s and holds ")


def test_progress_is_told_step_by_step_and_at_most_once_a_second(
    server: Running, tmp_path: Path
) -> None:
    began = time.monotonic()
    media_id = upload(server, film(tmp_path / "film.avi", 8), preset="slow")
    ready(server, media_id)
    with server.rushes.db.read() as tx:
        rows = tx.all("SELECT * FROM events WHERE media_id = :id ORDER BY seq", id=media_id)
    stages = [row["stage"] for row in rows if row["type"] == "transcode.progress"]
    order = ["probe", "thumbnail", "transcode", "master_playlist", "finalize"]
    assert [stage for stage, _ in itertools.groupby(stages)] == order
    # Each step is told when it begins; beyond that, once a second.
    assert len(stages) <= len(order) + 4 + (time.monotonic() - began)


def test_a_new_version_replaces_the_old_one_only_when_it_is_whole(
    server: Running, tmp_path: Path
) -> None:
    media_id = upload(server, film(tmp_path / "film.avi", 8), **QUICK)
    ready(server, media_id)
    old = current(server, media_id)
    with server.client() as admin:
        assert admin.post("/profiles", json={"name": "slow", "preset": "slower"}).is_success
        job = admin.post(f"/media/{media_id}/retranscode", json={"profile": "slow"}).json()
        wait_until(lambda: admin.get(f"/jobs/{job['id']}").json()["stage"] == "transcode")
        # It stays ready, and plays what it played before, while the new one is being made.
        assert media(server, media_id)["status"] == "ready"
        assert current(server, media_id) == old
        admin.post(f"/jobs/{job['id']}/cancel")
        wait_until(lambda: admin.get(f"/jobs/{job['id']}").json()["status"] == "canceled")
        assert current(server, media_id) == old
        again = {"profile": "test", "qualities": ["180p"]}
        refused = admin.post(f"/media/{media_id}/retranscode", json={"qualities": ["7p"]})
        assert refused.status_code == 422
        admin.post(f"/media/{media_id}/retranscode", json=again)
    wait_until(lambda: current(server, media_id) != old)
    assert media(server, media_id)["status"] == "ready"


def test_trimming_and_undoing_it(server: Running, tmp_path: Path) -> None:
    media_id = upload(server, film(tmp_path / "film.mp4", 6, "320x180", *H264), **QUICK)
    ready(server, media_id)
    with server.client() as admin:
        assert admin.post(f"/media/{media_id}/trim", json={"start": 1, "end": 4}).status_code == 202
        assert ready(server, media_id)["duration"] == pytest.approx(3, abs=0.05)
        admin.post(f"/media/{media_id}/trim", json={"start": 1})
        assert ready(server, media_id)["duration"] == pytest.approx(2, abs=0.05)
        kinds = [job["kind"] for job in admin.get("/jobs").json()["items"]]
        # The words have changed with the sound.
        assert "transcribe" in kinds
        assert admin.post(f"/media/{media_id}/trim", json={"reset": True}).status_code == 202
        assert ready(server, media_id)["duration"] == pytest.approx(6, abs=0.05)


def test_a_webcam_is_laid_over_a_screen(server: Running, tmp_path: Path) -> None:
    media_id = upload(server, film(tmp_path / "screen.mp4", 4, "320x180", *H264), **QUICK)
    webcam = film(tmp_path / "webcam.mp4", 3, "160x120", *H264)
    with server.client() as admin, webcam.open("rb") as file:
        data = {"transcribe": "false", "profile": "test"}
        other = admin.post("/media", files={"file": ("webcam.mp4", file)}, data=data).json()["id"]
        ready(server, media_id)
        overlay = {"overlay_media_id": other, "position": "top-left", "size": 0.3, "sound": "both"}
        assert admin.post(f"/media/{media_id}/composite", json=overlay).status_code == 202
        found = ready(server, media_id)
    assert found["duration"] == pytest.approx(4, abs=0.05)
    assert found["edit"]["overlay"]["media_id"] == other


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm" + b"\0" * 5000, "damaged"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + b"\0" * 5000, "incomplete"),
    ],
)
def test_a_damaged_file_fails_with_a_sentence_and_is_not_tried_again(
    server: Running, tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(content)
    media_id = upload(server, path)
    with server.client() as admin:
        wait_until(lambda: admin.get(f"/media/{media_id}").json()["status"] == "failed")
        found = admin.get(f"/media/{media_id}").json()
        (job,) = admin.get("/jobs", params={"kind": "transcode"}).json()["items"]
    assert sentence in found["error"]
    assert job["attempt"] == 1


@contextmanager
def remote_worker(server: Running, scratch: Path) -> Iterator[Worker]:
    table = handlers.table()
    coordinator = Remote(server.url, server.worker_key())
    hello = protocol.Hello(kinds=sorted(table), capabilities=["cpu"])
    worker = Worker(coordinator, table, hello=hello, scratch_root=scratch, claim_wait_seconds=0.5)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    yield worker
    worker.stop()
    thread.join(20)
    coordinator.close()


def test_remote_workers_share_a_long_video_over_http(
    serve: Callable[..., Running], tmp_path: Path, storage_url: str
) -> None:
    """Over files and over S3: neither worker sees the storage."""
    server = serve(storage_url=storage_url)
    options = {**QUICK, "divide_after": 3, "span_seconds": 2}
    with remote_worker(server, tmp_path / "one"), remote_worker(server, tmp_path / "two"):
        media_id = upload(server, film(tmp_path / "film.avi", 8), **options)
        found = ready(server, media_id)
    (rung,) = [each for each in found["renditions"] if each["status"] == "completed"]
    assert rung["segments_completed"] == 8
    assert list((tmp_path / "one").iterdir()) == list((tmp_path / "two").iterdir()) == []
    with server.client() as admin:
        address = f"/media/{media_id}/stream/180p/seg_00007.m4s"
        assert admin.get(address, follow_redirects=True).status_code == 200
