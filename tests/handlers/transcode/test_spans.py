"""Long videos are cut into spans that any worker may encode; the result has no seam."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ffmpegs
from handlers.transcode.test_resume import film, media, upload, wait_until
from running import Running

pytestmark = pytest.mark.timeout(240)

DIVIDED = {"preset": "ultrafast", "divide_after": 5, "span_seconds": 4}


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(transcodes=True, transcode_workers=2)


def jobs(server: Running, **wanted: Any) -> list[dict[str, Any]]:
    with server.client() as admin:
        found: list[dict[str, Any]] = admin.get("/jobs", params=wanted).json()["items"]
    return found


def decoded_frames(server: Running, media_id: str, rendition: str) -> int:
    """By ffmpeg, from the address people play."""
    with server.client() as admin:
        link = admin.post(f"/media/{media_id}/share").json()["share_url"]
    stream = f"{server.url}/s/{link.rsplit('/', 1)[-1]}/stream/master.m3u8"
    with server.client(base_url=server.url) as anybody:
        version = str(anybody.get(stream).headers["location"]).rsplit("/", 1)[0]
    argv = [
        *(ffmpegs.known("ffprobe"), "-v", "error", "-count_frames", "-select_streams", "v:0"),
        *("-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"),
        f"{stream.rsplit('/', 1)[0]}/{version}/{rendition}/playlist.m3u8",
    ]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert said.stderr == ""
    return int(said.stdout.split()[0])


def test_a_long_video_is_made_of_spans_without_a_seam(server: Running, tmp_path: Path) -> None:
    source = film(tmp_path / "film.avi", 15)
    media_id = upload(server, source, **DIVIDED)
    wait_until(lambda: media(server, media_id)["status"] == "ready")
    (parent,) = jobs(server, kind="transcode")
    spans = jobs(server, kind="span")
    assert [(each["status"], each["attempt"]) for each in spans] == [("completed", 1)] * 3
    assert {each["parent_id"] for each in spans} == {parent["id"]}
    assert parent["status"] == "completed"
    assert decoded_frames(server, media_id, "180p") == 15 * 25
    found = media(server, media_id)
    (rung,) = [each for each in found["renditions"] if each["name"] == "180p"]
    assert (rung["segments_completed"], rung["segments_total"]) == (15, 15)
    assert found["duration"] == pytest.approx(15, abs=0.05)
    with server.client() as admin:
        whole = admin.get(f"/jobs/{parent['id']}/logs").text
        part = admin.get(f"/jobs/{spans[0]['id']}/logs").text
    assert whole.count("source: avi, 15 s") == 1
    assert "the rest is divided into 3 spans" in whole
    assert "all spans are made: putting them together" in whole
    assert re.search(r"segments \d+ to \d+ are made", part)


def test_spans_make_what_one_process_makes(serve: Callable[..., Running], tmp_path: Path) -> None:
    source = film(tmp_path / "film.avi", 9)
    lists = []
    for profile in ({"preset": "ultrafast"}, DIVIDED):
        server = serve(transcodes=True)
        media_id = upload(server, source, **profile)
        wait_until(lambda server=server, id=media_id: media(server, id)["status"] == "ready")  # type: ignore[misc]
        with server.client() as admin:
            address = f"/media/{media_id}/stream/180p/playlist.m3u8"
            lists.append(admin.get(address, follow_redirects=True).text)
        assert decoded_frames(server, media_id, "180p") == 9 * 25
        server.stop()
    assert lists[0] == lists[1]


def test_frames_that_a_span_cannot_decode_are_told_of_the_whole(
    server: Running, tmp_path: Path
) -> None:
    source = film(tmp_path / "film.avi", 9, "160x90", "-c:v", "mjpeg", "-an")
    data = bytearray(source.read_bytes())
    # Pictures in the seventh second, without what they consist of.
    starts = [each.start() for each in re.finditer(b"00dc", data)][155:158]
    for at in starts:
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        data[at + 16 : at + 8 + size] = bytes(size - 8)
    source.write_bytes(data)
    media_id = upload(server, source, **DIVIDED)
    wait_until(lambda: media(server, media_id)["status"] == "ready")
    (parent,) = jobs(server, kind="transcode")
    with server.client() as admin:
        result = admin.get(f"/jobs/{parent['id']}").json()["result"]
    assert result["warnings"] == ["3 frames of the picture could not be decoded"]
    assert len(jobs(server, kind="span")) == 2


def test_canceling_the_whole_ends_its_spans(server: Running, tmp_path: Path) -> None:
    source = film(tmp_path / "film.avi", 20)
    media_id = upload(server, source, **{**DIVIDED, "preset": "slower"})
    wait_until(lambda: any(each["status"] == "processing" for each in jobs(server, kind="span")))
    (parent,) = jobs(server, kind="transcode")
    with server.client() as admin:
        assert admin.post(f"/jobs/{parent['id']}/cancel").status_code == 200
        wait_until(
            lambda: (
                {each["status"] for each in jobs(server, kind="span")} <= {"canceled", "completed"}
            )
        )
        assert admin.get(f"/jobs/{parent['id']}").json()["status"] == "canceled"
        assert admin.get(f"/media/{media_id}").json()["status"] == "failed"
