"""Pictures of every page for the documentation: `make screenshots` puts them into docs/images.

The films are drawn by ffmpeg, the words are really said and really heard.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser, Page, expect

import ffmpegs
import speech
from chromium import launched
from pages.conftest import ENGLISH, sign_in_link, use_link
from running import Running
from web import library

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SHADES = "gradients=s=1280x720:speed=0.01:n="
FRACTAL = "mandelbrot=s=1280x720:"
FILMS = {
    "Harbour at first light": f"{SHADES}2:c0=0x16324f:c1=0xf4a259:x0=0:y0=720:x1=0:y1=0",
    "Choir rehearsal, second evening": f"{SHADES}3:c0=0x3d1f47:c1=0xd96c75:c2=0xf2c57c",
    "Workshop: soldering a connector": f"{SHADES}2:c0=0x0b3d3a:c1=0x66c3a8",
    "Garden in May": f"{SHADES}3:c0=0x1f4d2b:c1=0xc8d96f:c2=0xf7f1d0",
    "Team meeting, week 20": f"{SHADES}2:c0=0x22223b:c1=0x9a8c98",
    "Night train": f"{FRACTAL}start_scale=0.003:end_scale=0.002:start_x=-0.745:start_y=0.11",
    "Lecture 7: fractals": f"{FRACTAL}start_scale=0.05:end_scale=0.02",
    "Drone test flight": f"{SHADES}3:c0=0x0f4c81:c1=0xa7d8f0:c2=0xffffff",
}
UPRIGHT = "gradients=s=720x1280:speed=0.01:n=3:c0=0x203a43:c1=0xf2c57c:c2=0xd96c75"
SECTIONS = (
    *("account", "profiles", "transcription", "models"),
    *("users", "tokens", "webhooks", "health"),
)
CALL = "Telephone call, two voices"


@dataclass(frozen=True)
class Shot:
    name: str
    path: str
    prepare: Callable[[Page], object] = lambda page: None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=IMAGES)
    options.add_argument("--only", default="", help="names that contain this")
    options.add_argument("--locale", default=ENGLISH, help="such as de-DE")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with launched() as browser, tempfile.TemporaryDirectory() as folder:
        ffmpegs.offer(Path(folder) / "ffmpegs")
        with _server(Path(folder) / "empty") as server:
            _take(
                browser, server, [Shot("library-empty", "/"), Shot("queue-empty", "/queue")], chosen
            )
            _take(browser, server, [Shot("welcome", "/welcome")], chosen)
        with _server(Path(folder) / "full") as server:
            call, sound = _fill(server, Path(folder))
            _take(browser, server, list(_shots(server, call, sound)), chosen)


@contextmanager
def _server(place: Path) -> Iterator[Running]:
    place.mkdir()
    with Running(
        transcodes=True,
        data_dir=place,
        transcription_workers=1,
        engine_model=speech.SMALL,
        engine_cache_dir=speech.cache_dir(),
    ) as server:
        yield server


def _fill(server: Running, folder: Path) -> tuple[str, str]:
    """Films, a call as video and as sound that are transcribed, and work in every state; the ids of
    the calls."""
    with server.client() as admin:
        admin.post("/profiles", json={"name": "quick", "preset": "ultrafast"})
        calls = {"name": "calls", "language": "en", "speakers": 2, "vocabulary": ["Chicago"]}
        meetings = {"name": "meetings", "language": "de", "diarize": True, "prompt": "Woche 20."}
        for profile in (calls, meetings):
            admin.post("/transcription-profiles", json=profile)
    for number, (title, picture) in enumerate(FILMS.items()):
        film = _film(folder / f"{number}.mp4", picture, seconds=5 + number)
        _upload(server, film, title, transcribe="false")
    spoken = folder / "call.mp4"
    _run(
        "-f",
        "lavfi",
        "-i",
        "gradients=s=1280x720:c0=0x2b2d42:c1=0xef8354:n=2:speed=0.01",
        "-i",
        str(speech.recording("call")),
        "-shortest",
        *("-pix_fmt", "yuv420p"),
        str(spoken),
    )
    upright = _film(folder / "upright.mp4", UPRIGHT, seconds=6)
    _upload(server, upright, "Balcony, from the phone", transcribe="false")
    call = _upload(server, spoken, CALL, diarize="true", language="en")
    listen = _upload(
        server, speech.recording("call"), "The same call, to listen to", diarize="true"
    )
    for media_id in (call, listen):
        _wait(server, media_id)
    with server.client() as admin:
        for media_id in (call, listen):
            admin.put(
                f"/media/{media_id}/transcript/speakers",
                json={"names": {"SPEAKER_00": "Caller", "SPEAKER_01": "Agent"}},
            )
        broken = admin.post(
            "/media", files={"file": ("Old tape.mp4", spoken.read_bytes()[:40_000])}
        )
        assert broken.status_code == 201
        owner = library.user_id(admin)
        admin.post("/queue/pause", json={"kind": "transcribe"})
    waiting = _upload(server, spoken, "Interview, raw", language="en")
    library.enqueue(server, owner, "transcode", media_id=waiting, needs=["nvenc"])
    return call, listen


def _film(path: Path, picture: str, seconds: int) -> Path:
    # Rough enough that the still looks like a picture.
    _run(
        "-f",
        "lavfi",
        "-i",
        f"{picture}",
        "-f",
        "lavfi",
        "-i",
        "sine=220:r=48000",
        "-t",
        str(seconds),
        "-vf",
        "noise=alls=6:allf=t,vignette",
        "-pix_fmt",
        "yuv420p",
        str(path),
    )
    return path


def _run(*arguments: str) -> None:
    subprocess.run([ffmpegs.known(), "-v", "error", "-y", *arguments], check=True, timeout=120)


def _upload(server: Running, path: Path, title: str, **options: str) -> str:
    with server.client() as admin, path.open("rb") as file:
        data = {"title": title, "profile": "quick", **options}
        made = admin.post("/media", files={"file": (path.name, file)}, data=data)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def _wait(server: Running, media_id: str) -> None:
    with server.client() as admin, admin.stream("GET", "/events", timeout=300) as events:
        for _ in events.iter_lines():
            with server.client() as other:
                item: dict[str, Any] = other.get(f"/media/{media_id}").json()
            if item["status"] == "ready" and item["transcript_status"] in ("ready", "failed"):
                return


def _shots(server: Running, call: str, sound: str) -> Iterator[Shot]:
    with server.client() as admin:
        failed = admin.get("/jobs", params={"state": "failed"}).json()["items"]
        share = admin.post(f"/media/{call}/share").json()["share_url"].rpartition("/s/")[2]
        admin.post("/workers/invite", json={"name": "attic"})
    yield Shot("library", "/")
    yield Shot("search", "/?q=chicago")
    yield Shot("watch", f"/watch/{call}?t=8", _playing)
    yield Shot("listen", f"/watch/{sound}?t=8")
    yield Shot("share", f"/s/{share}")
    yield Shot("queue", "/queue")
    if failed:
        yield Shot("job", f"/queue/{failed[0]['id']}")
    yield Shot("workers", "/workers")
    for section in SECTIONS:
        yield Shot(f"settings-{section}", f"/settings/{section}")
    yield Shot("sign-in", "/sign-in")


def _playing(page: Page) -> None:
    expect(page.locator("video")).to_have_js_property("readyState", 4, timeout=20_000)


def _take(browser: Browser, server: Running, shots: list[Shot], chosen: Any) -> None:
    for size, scheme in product(SIZES, SCHEMES):
        context = browser.new_context(
            viewport={"width": SIZES[size][0], "height": SIZES[size][1]},
            color_scheme=scheme,
            reduced_motion="reduce",
            locale=chosen.locale,
            is_mobile=size == "phone",
            has_touch=size == "phone",
            device_scale_factor=1 if size == "desktop" else 2,
        )
        context.add_init_script("localStorage.setItem('rushes.welcomed', '1')")
        page = context.new_page()
        use_link(page, server, sign_in_link(server))
        for shot in shots:
            if chosen.only not in shot.name:
                continue
            if shot.name == "sign-in":
                context.clear_cookies()
            page.goto(f"{server.url}{shot.path}")
            page.wait_for_load_state("load")
            page.locator("h1, h2").first.wait_for()
            # Pictures and charts come a moment after the words.
            page.wait_for_timeout(900)
            shot.prepare(page)
            page.screenshot(
                path=chosen.out / f"{shot.name}-{size}-{scheme}.jpg", type="jpeg", quality=85
            )
        context.close()


if __name__ == "__main__":
    main()
