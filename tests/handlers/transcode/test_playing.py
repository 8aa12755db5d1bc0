"""What people see: hls.js in a real Chromium plays what a real server has made, and is making."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import ffmpegs
import npm
from running import Running
from web import library

HERE = Path(__file__).parent / "browser"
QUICK = {"preset": "superfast", "segment_seconds": 2}

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def player(browser: Browser) -> Iterator[Callable[[Running, str], Page]]:
    """Opens a page with hls.js, as if the server had it."""
    script = npm.installed(HERE) / "node_modules" / "hls.js" / "dist" / "hls.min.js"
    page = browser.new_page()
    page.route(re.compile(r"/player\.html"), lambda route: route.fulfill(path=HERE / "player.html"))
    page.route(re.compile(r"/hls\.js$"), lambda route: route.fulfill(path=script))

    def play(server: Running, stream: str) -> Page:
        page.goto(f"{server.url}/player.html?stream={stream}")
        return page

    yield play
    page.close()


def film(path: Path, seconds: int, size: str, *codec: str, rate: str = "25") -> Path:
    argv = [
        *(ffmpegs.known(), "-v", "error", "-y", "-f", "lavfi"),
        *("-i", f"testsrc2=s={size}:r={rate}:d={seconds}", "-f", "lavfi"),
        *("-i", f"sine=440:r=48000:d={seconds}", *codec, str(path)),
    ]
    subprocess.run(argv, check=True, timeout=60)
    return path


def upload(server: Running, path: Path, **profile: Any) -> tuple[str, str]:
    """Its id, and the address of its stream for whoever has the link."""
    with server.client() as admin:
        made = admin.post("/profiles", json={"name": "test", **profile})
        assert made.status_code == 201, made.text
        with path.open("rb") as file:
            data = {"transcribe": "false", "profile": "test"}
            added = admin.post("/media", files={"file": (path.name, file)}, data=data)
        assert added.status_code == 201, added.text
        media_id = added.json()["id"]
        link = admin.post(f"/media/{media_id}/share").json()["share_url"]
    return media_id, f"/s/{link.rsplit('/', 1)[-1]}/stream/master.m3u8"


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def status(server: Running, media_id: str) -> str:
    with server.client() as admin:
        found = admin.get(f"/media/{media_id}").json()
    assert found["status"] != "failed", found["error"]
    return str(found["status"])


def time_of(page: Page) -> float:
    return float(page.evaluate("video.currentTime"))


def reaches(page: Page, seconds: float) -> None:
    page.wait_for_function(f"video.currentTime >= {seconds}", timeout=30_000)
    assert page.evaluate("seen.fatal") == []


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(transcodes=True)


def test_a_finished_video_plays_seeks_and_changes_its_quality(
    server: Running, player: Callable[[Running, str], Page], tmp_path: Path
) -> None:
    source = film(tmp_path / "film.mp4", 8, "1280x720", "-c:v", "libx264", "-c:a", "aac")
    media_id, stream = upload(server, source, **QUICK)
    wait_until(lambda: status(server, media_id) == "ready")
    page = player(server, stream)
    reaches(page, 1)
    # Frames are reordered in there; if the header did not tell, they would come late.
    assert page.evaluate("seen.first") == pytest.approx(0, abs=0.02)
    assert page.evaluate("player.levels.length") >= 3
    assert page.evaluate("video.duration") == pytest.approx(8, abs=0.1)
    page.evaluate("player.nextLevel = player.levels.length - 1")
    reaches(page, 3)
    page.wait_for_function("seen.levels.at(-1) === player.levels.length - 1", timeout=20_000)
    page.evaluate("video.currentTime = 6.5")
    reaches(page, 7)
    assert page.evaluate("video.videoHeight") == 720
    assert page.evaluate("video.webkitAudioDecodedByteCount") > 0
    page.evaluate("player.nextLevel = 0; video.currentTime = 0.5; video.play()")
    page.wait_for_function("video.currentTime > 0.6 && video.currentTime < 5", timeout=20_000)
    page.wait_for_function("video.videoHeight === 360", timeout=20_000)
    assert page.evaluate("seen.fatal") == []
    captions_come_at_their_time(server, page, media_id)


def test_few_frames_a_second_have_the_right_length_and_can_be_sought(
    server: Running, player: Callable[[Running, str], Page], tmp_path: Path
) -> None:
    source = film(tmp_path / "slides.mp4", 14, "320x180", "-c:v", "libx264", rate="1")
    media_id, stream = upload(server, source, preset="veryfast", segment_seconds=4)
    wait_until(lambda: status(server, media_id) == "ready")
    page = player(server, stream)
    reaches(page, 1)
    assert page.evaluate("seen.first") == pytest.approx(0, abs=0.02)
    assert page.evaluate("video.duration") == pytest.approx(14, abs=0.1)
    assert page.evaluate("video.buffered.start(0)") == pytest.approx(0, abs=0.05)
    page.evaluate("video.currentTime = 12")
    reaches(page, 12.5)
    assert page.evaluate("seen.errors") == []


def captions_come_at_their_time(server: Running, page: Page, media_id: str) -> None:
    """Of a video that is being watched, on a page that is loaded again."""
    library.transcribe(server, media_id, "In the first second.", "In the second one.")
    page.reload()
    reaches(page, 0.2)
    assert page.evaluate("player.subtitleTracks.map((track) => track.lang)") == ["en"]
    page.evaluate("player.subtitleTrack = 0")
    page.wait_for_function("(video.textTracks[0]?.cues?.length ?? 0) === 2", timeout=20_000)
    cues = "[...video.textTracks[0].cues].map((cue) => [cue.startTime, cue.endTime, cue.text])"
    found = page.evaluate(cues)
    assert [(start, end) for start, end, _ in found] == [(0, 1), (1, 2)]
    assert found[0][2].endswith("In the first second.")
    page.evaluate("video.pause(); video.currentTime = 1.5")
    shown = "[...video.textTracks[0].activeCues].map((cue) => cue.text).join()"
    page.wait_for_function(f"{shown}.includes('In the second one.')", timeout=20_000)
    assert "first" not in page.evaluate(shown)
    assert page.evaluate("seen.fatal") == []


def test_a_video_plays_while_it_is_being_encoded(
    server: Running, player: Callable[[Running, str], Page], tmp_path: Path
) -> None:
    source = film(tmp_path / "film.avi", 24, "960x540", "-c:v", "mpeg4", "-q:v", "4")
    slow = {"preset": "slow", "segment_seconds": 2, "ladder": [{"height": 540, "bitrate": 2000}]}
    media_id, stream = upload(server, source, **slow)
    with server.client(base_url=server.url) as anybody:
        wait_until(lambda: anybody.get(stream, follow_redirects=True).status_code == 200)
        growing = anybody.get(stream, follow_redirects=True)
        assert growing.headers["cache-control"] == "no-cache"
    page = player(server, stream)
    reaches(page, 0.5)
    assert status(server, media_id) == "processing"
    wait_until(lambda: status(server, media_id) == "ready")
    reaches(page, 4)
    # What was an open end has become a video with a length, for the same page.
    page.wait_for_function("Math.abs(video.duration - 24) < 0.2", timeout=30_000)
    page.evaluate("video.currentTime = 22; video.play()")
    reaches(page, 23)


def test_what_browsers_play_is_there_before_anything_is_encoded(
    server: Running, player: Callable[[Running, str], Page], tmp_path: Path
) -> None:
    source = film(tmp_path / "film.mp4", 20, "960x540", "-c:v", "libx264", "-c:a", "aac")
    slow = {"preset": "slower", "segment_seconds": 2}
    media_id, stream = upload(server, source, **slow)
    with server.client(base_url=server.url) as anybody:
        wait_until(lambda: anybody.get(stream, follow_redirects=True).status_code == 200)
    page = player(server, stream)
    reaches(page, 2)
    assert status(server, media_id) == "processing"
    assert page.evaluate("video.videoHeight") == 540
    with server.client() as admin:
        (job,) = admin.get(f"/media/{media_id}").json()["jobs"]
        admin.post(f"/jobs/{job['id']}/cancel")
