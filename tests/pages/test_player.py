"""The player: it really plays, by mouse and keys, while a film is made and while it is remade."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Request, expect

from handlers.transcode.test_playing import film, wait_until
from pages.checks import barriers
from pages.conftest import Visit
from running import Clients, Process, Running
from rushes.storage import bucket_setup, s3
from rushes.storage.bucket_rules import Wanted
from services import Seaweed
from web import library

SMALL = [{"height": 360, "bitrate": 600}, {"height": 180, "bitrate": 200}]
QUICK = {"preset": "ultrafast", "segment_seconds": 2, "ladder": SMALL, "original": False}
TIME = "document.querySelector('video')?.currentTime"
BUFFERED = "document.querySelector('video').buffered"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(transcodes=True)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("films") / "short.mp4"
    return film(path, 30, "640x360", "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")


def add(server: Clients, path: Path, profile: dict[str, Any], **more: str) -> str:
    with server.client() as admin:
        admin.post("/profiles", json={"name": "test", **profile})
        with path.open("rb") as file:
            data = {"transcribe": "false", "profile": "test", **more}
            added = admin.post("/media", files={"file": (path.name, file)}, data=data)
        assert added.status_code == 201, added.text
    return str(added.json()["id"])


def ready(server: Clients, path: Path, **more: str) -> str:
    media_id = add(server, path, QUICK, **more)
    wait_until(lambda: _status(server, media_id) == "ready")
    return media_id


def _status(server: Clients, media_id: str) -> str:
    with server.client() as admin:
        found = admin.get(f"/media/{media_id}").json()
    assert found["status"] != "failed", found["error"]
    return str(found["status"])


def reaches(page: Page, seconds: float) -> None:
    page.wait_for_function(f"() => {TIME} >= {seconds}")


def settled(page: Page, seconds: float) -> None:
    """It is there, give or take a frame, and shows it."""
    is_there = f"Math.abs({TIME} - {seconds}) < 0.3"
    page.wait_for_function(f"() => {is_there} && document.querySelector('video').readyState >= 2")


def choose(page: Page, group: str, choice: str) -> None:
    page.get_by_role("button", name="Playback settings").click()
    page.get_by_role("menuitem", name=re.compile(f"^{group}")).click()
    page.get_by_role("menuitemradio", name=choice, exact=True).click()


def test_a_film_plays_by_mouse_and_keys(server: Running, short: Path, visit: Visit) -> None:
    media_id = ready(server, short)
    said = [f"Caption <b>{number}</b>" for number in range(1, 30)]
    library.transcribe(server, media_id, *said)
    page = visit(server, f"/watch/{media_id}")
    page.get_by_role("button", name="Play", exact=True).click()
    reaches(page, 0.5)
    assert barriers(page) == []
    _keys(page)
    _captions(page)
    _preview(page)
    _quality(page)
    _remembered(page, server, media_id)


def test_a_film_plays_from_the_storage_past_the_server(
    serve: Callable[..., Running], seaweed: Seaweed, short: Path, visit: Visit
) -> None:
    opened = s3.from_url(seaweed.url(prefix="films", bucket=f"films-{uuid.uuid4().hex[:8]}"))
    url = seaweed.url(prefix="films", bucket=opened.address.bucket)
    assert opened.calls is not None
    opened.calls.create_bucket("us-east-1")
    server = serve(transcodes=True, storage_url=url, storage_playback="redirect")
    wanted = Wanted(prefix="films", abort_days=2, origins=[server.url])
    done = bucket_setup.set_up(
        opened.calls, wanted, region="us-east-1", create=False, dry_run=False
    )
    assert [each.state for each in done] == ["already", "done", "done"]
    media_id = ready(server, short)
    sent: Counter[str] = Counter()
    page = visit(server, "/")
    page.on("requestfinished", lambda request: _count(request, sent))
    page.goto(f"{server.url}/watch/{media_id}")
    page.get_by_role("button", name="Play", exact=True).click()
    reaches(page, 0.5)
    # It would play on past where the preview leads, and hide what is not used.
    page.locator("h1").click()
    page.keyboard.press("k")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    _preview(page)
    # What was skipped may be missing: then there are two ranges, and only the last one grows.
    page.wait_for_function(f"() => {BUFFERED}.end({BUFFERED}.length - 1) >= 20")
    storage = f"127.0.0.1:{seaweed.port}"
    own = urlsplit(server.url).netloc
    # Segments and pictures; of the server, playlists and the words to be sent on.
    assert sent[f"{storage} m4s"] > 10 * sent[f"{own} m4s"]
    assert sent[f"{storage} jpg"] > 10 * sent[f"{own} jpg"]
    assert sent[f"{own} m3u8"] > 0
    assert not sent[f"{storage} m3u8"]
    page.goto(server.url)
    page.wait_for_function("() => document.querySelector('img')?.naturalWidth > 0")


def _count(request: Request, sent: Counter[str]) -> None:
    place = urlsplit(request.url)
    suffix = place.path.rpartition(".")[2]
    sent[f"{place.netloc} {suffix}"] += request.sizes()["responseBodySize"]


def _keys(page: Page) -> None:
    page.locator("h1").click()
    page.keyboard.press("k")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    page.keyboard.press("5")
    settled(page, 15)
    page.keyboard.press("l")
    settled(page, 25)
    page.keyboard.press("j")
    settled(page, 15)
    page.keyboard.press("ArrowRight")
    settled(page, 20)
    page.keyboard.press("Home")
    settled(page, 0)
    page.keyboard.press(".")
    page.wait_for_function(f"() => {TIME} > 0.03 && {TIME} < 0.05")
    page.keyboard.press(">")
    page.wait_for_function("() => document.querySelector('video').playbackRate === 1.25")
    page.keyboard.press("<")
    page.keyboard.press("m")
    page.wait_for_function("() => document.querySelector('video').muted")
    expect(page.get_by_role("button", name="Unmute")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("k")
    assert page.evaluate("document.querySelector('video').paused")
    page.keyboard.press("Escape")
    slider = page.get_by_role("slider", name="Seek")
    slider.focus()
    page.keyboard.press("PageUp")
    settled(page, 10)
    expect(slider).to_have_attribute("aria-valuetext", re.compile("0:10 of 0:30"))


def _captions(page: Page) -> None:
    expect(page.locator("[data-captions]")).to_have_count(0)
    page.keyboard.press("c")
    page.keyboard.press("Home")
    expect(page.locator("[data-captions]")).to_contain_text("Caption <b>1</b>")
    settled(page, 0)
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-captions]")).to_contain_text("Caption <b>6</b>")
    expect(page.get_by_role("button", name="Captions")).to_have_attribute("aria-pressed", "true")


def _preview(page: Page) -> None:
    box = page.get_by_role("slider", name="Seek").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    preview = page.locator("[data-preview]")
    expect(preview).to_contain_text("0:1")
    picture = preview.locator(".picture")
    expect(picture).to_have_css("background-image", re.compile(r"ver_\w+/storyboard-0\.jpg"))
    expect(picture).not_to_have_css("background-position", "0px 0px")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    settled(page, 15)


def _quality(page: Page) -> None:
    page.keyboard.press("k")
    page.keyboard.press("Home")
    choose(page, "Quality", "180p")
    page.wait_for_function("() => document.querySelector('video').videoHeight === 180")
    page.keyboard.press("Home")
    page.get_by_role("button", name="Playback settings").click()
    expect(page.get_by_role("menuitem", name=re.compile("Quality"))).to_contain_text("180p")
    page.keyboard.press("Escape")
    choose(page, "Quality", "360p")
    page.wait_for_function("() => document.querySelector('video').videoHeight === 360")
    choose(page, "Speed", "1.5×")
    page.wait_for_function("() => document.querySelector('video').playbackRate === 1.5")


def _remembered(page: Page, server: Running, media_id: str) -> None:
    """Where we were, and how; an address with a time in it comes first."""
    page.evaluate("document.querySelector('video').pause()")
    page.keyboard.press("4")
    settled(page, 12)
    page.reload()
    expect(page.get_by_text("Resumed at 0:12")).to_be_visible()
    settled(page, 12)
    assert page.evaluate("document.querySelector('video').playbackRate") == 1.5
    assert page.evaluate("document.querySelector('video').muted")
    page.get_by_role("button", name="Start over").click()
    page.wait_for_function(f"() => {TIME} < 5 && {TIME} > 0")
    page.goto(f"{server.url}/watch/{media_id}?t=8.4")
    settled(page, 8.4)


def test_it_plays_while_it_is_made_and_on_while_it_is_remade(
    server: Running, tmp_path: Path, visit: Visit
) -> None:
    source = film(tmp_path / "film.avi", 24, "960x540", "-c:v", "mpeg4", "-q:v", "4")
    ladder = [{"height": 540, "bitrate": 2000}]
    media_id = add(server, source, {"preset": "slow", "segment_seconds": 2, "ladder": ladder})
    page = visit(server, f"/watch/{media_id}")
    expect(page.get_by_text("Still encoding")).to_be_visible(timeout=60_000)
    page.evaluate("document.querySelector('video').muted = true")
    page.get_by_role("button", name="Play", exact=True).click()
    reaches(page, 0.5)
    # It begins at the beginning, not at the end of what is there.
    assert page.evaluate(TIME) < 5
    assert _status(server, media_id) == "processing"
    watch_for_jumps(page)
    whole = "() => Math.abs(document.querySelector('video').duration - 24) < 0.2"
    page.wait_for_function(whole, timeout=90_000)
    expect(page.get_by_text("Still encoding")).to_have_count(0)
    assert page.evaluate("window.jumps") == []
    wait_until(lambda: _status(server, media_id) == "ready")
    page.keyboard.press("Home")
    page.wait_for_function(f"() => {TIME} > 0.5 && {TIME} < 5")
    page.evaluate("window.jumps.length = 0")
    with server.client() as admin:
        admin.post("/profiles", json={"name": "quick", **QUICK})
        again = admin.post(f"/media/{media_id}/retranscode", json={"profile": "quick"})
        assert again.status_code == 202, again.text
    expect(page.get_by_text("A new version is ready")).to_be_visible(timeout=60_000)
    before = page.evaluate(TIME)
    reaches(page, before + 0.3)
    assert page.evaluate("window.jumps") == []
    page.get_by_role("button", name="Switch").click()
    expect(page.get_by_text("A new version is ready")).to_have_count(0)
    page.wait_for_function(f"() => {TIME} >= {before}")
    assert page.evaluate("document.querySelector('video').paused") is False


def watch_for_jumps(page: Page) -> None:
    """Notes whenever the time goes back, or the film stands still for want of a stream."""
    page.evaluate(
        """() => {
            const video = document.querySelector('video');
            let last = video.currentTime;
            window.jumps = [];
            video.addEventListener('timeupdate', () => {
                if (video.currentTime < last - 0.1) window.jumps.push([last, video.currentTime]);
                last = video.currentTime;
            });
            video.addEventListener('emptied', () => window.jumps.push('emptied'));
        }"""
    )


def test_sound_without_a_picture_has_its_waveform(
    server: Running, tmp_path: Path, visit: Visit
) -> None:
    source = film(tmp_path / "sound.m4a", 12, "64x64", "-vn", "-c:a", "aac")
    media_id = ready(server, source)
    page = visit(server, f"/watch/{media_id}")
    expect(page.locator(".wave path").first).to_be_visible()
    page.get_by_role("button", name="Play", exact=True).click()
    reaches(page, 0.5)
    expect(page.get_by_role("button", name="Full screen")).to_have_count(0)
    assert barriers(page) == []
    # The card has the same, in the page's colours.
    page.goto(f"{server.url}/")
    expect(page.locator("li .wave path").first).to_be_visible()
    expect(page.locator("li img")).to_have_count(0)


def test_a_server_that_is_away_is_waited_for(
    process: Callable[..., Process], tmp_path: Path, visit: Visit
) -> None:
    server = process(transcription_workers=0)
    # Longer than what is fetched in advance.
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")
    media_id = ready(server, film(tmp_path / "long.mp4", 120, "320x180", *codec))
    page = visit(server, f"/watch/{media_id}")
    page.get_by_role("button", name="Play", exact=True).click()
    reaches(page, 0.5)
    server.kill()
    page.keyboard.press("9")
    words = re.compile("cannot be reached|connection is lost. Reconnecting")
    expect(page.get_by_label("Player:").get_by_text(words)).to_be_visible()
    server.start()
    reaches(page, 108.5)
    expect(page.get_by_label("Player:").get_by_text(words)).to_have_count(0)
