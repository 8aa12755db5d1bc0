"""Real players in a real Chromium: one page hosts each of them, over plain HTTP."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

import npm

HERE = Path(__file__).parent / "browser"
SCRIPTS = {
    "hls": "hls.js/dist/hls.min.js",
    "shaka": "shaka-player/dist/shaka-player.compiled.js",
    "dash": "dashjs/dist/modern/umd/dash.all.min.js",
}
# A player, and which of the two playlists it gets.
PLAYERS = {
    "hls.js": ("hls", "master.m3u8"),
    "shaka": ("shaka", "manifest.mpd"),
    "shaka with HLS": ("shaka", "master.m3u8"),
    "dash.js": ("dash", "manifest.mpd"),
}


class Files(SimpleHTTPRequestHandler):
    extensions_map = {  # noqa: RUF012
        ".m3u8": "application/vnd.apple.mpegurl",
        ".mpd": "application/dash+xml",
        ".mp4": "video/mp4",
        ".m4s": "video/iso.segment",
        ".vtt": "text/vtt",
        "": "application/octet-stream",
    }

    def copyfile(self, source: Any, outputfile: Any) -> None:
        # Players stop loading what they do not need any more.
        with suppress(ConnectionError):
            super().copyfile(source, outputfile)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of its files."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Player:
    """Every step raises, with what the player said, when it does not come about in time."""

    page: Page
    about: dict[str, Any]

    @classmethod
    def open(cls, browser: Browser, name: str, address: str) -> Player:
        """`address`: of the folder that holds the version."""
        script, playlist = PLAYERS[name]
        path = npm.installed(HERE) / "node_modules" / SCRIPTS[script]
        page = browser.new_page()
        page.route(
            re.compile(r"/players\.html"), lambda route: route.fulfill(path=HERE / "players.html")
        )
        page.route(re.compile(r"/player\.js$"), lambda route: route.fulfill(path=path))
        page.goto(f"{address}/players.html?stream={playlist}")
        return cls(page, page.evaluate("(name) => start(name)", script))

    def look(self, seconds: float, *, bright: bool) -> None:
        self.page.evaluate("([at, bright]) => look(at, bright)", [seconds, bright])

    def seek(self, seconds: float) -> None:
        self.page.evaluate("(at) => seek(at)", seconds)

    def play(self, seconds: float) -> float:
        return float(self.page.evaluate("(seconds) => play(seconds)", seconds))

    def end(self) -> float:
        return float(self.page.evaluate("end()"))

    def pin(self, rung: int) -> None:
        self.page.evaluate("(rung) => pin(rung)", rung)

    def choose(self, sound: int) -> None:
        self.page.evaluate("(sound) => choose(sound)", sound)

    @property
    def sound(self) -> int:
        return int(self.page.evaluate("player.sound()"))

    def words(self, track: int) -> list[tuple[float, float, str]]:
        found = self.page.evaluate("(track) => words(track)", track)
        return [(begin, end, text) for begin, end, text in found]

    @property
    def fatal(self) -> list[str]:
        return list(self.page.evaluate("seen.fatal"))
