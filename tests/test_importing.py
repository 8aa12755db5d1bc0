"""Imports from URLs: real servers on this machine that redirect, break off, never end or lie."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from running import Running
from rushes import errors
from rushes.importing import Import
from rushes.webhooks import targets
from shell import until

FILM = (
    bytes.fromhex("0000001c667479706d703432000000006d70343269736f6d0000000000000000")
    + bytes(range(256)) * 800
)
Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Site:
    """Answers by path; remembers what was asked."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            # Who has seen enough leaves early.
            with suppress(BrokenPipeError, ConnectionResetError):
                made.answers[self.path](self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def plain(at: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    at.send_response(status)
    for name, value in {"Content_Length": str(len(body)), **headers}.items():
        at.send_header(name.replace("_", "-"), value)
    at.end_headers()
    at.wfile.write(body)


def film(at: BaseHTTPRequestHandler) -> None:
    """With parts, as long as it is the same."""
    begin = 0
    if at.headers.get("If-Range") == '"one"' and at.headers.get("Range"):
        begin = int(at.headers["Range"].removeprefix("bytes=").rstrip("-"))
    part = {"Content_Range": f"bytes {begin}-{len(FILM) - 1}/{len(FILM)}"} if begin else {}
    plain(at, 206 if begin else 200, FILM[begin:], ETag='"one"', **part)


def broken(at: BaseHTTPRequestHandler) -> None:
    """Half of it."""
    at.send_response(200)
    at.send_header("Content-Length", str(len(FILM)))
    at.send_header("ETag", '"one"')
    at.end_headers()
    at.wfile.write(FILM[: len(FILM) // 2])


def endless(at: BaseHTTPRequestHandler) -> None:
    at.send_response(200)
    at.end_headers()
    at.wfile.write(FILM)
    while True:
        at.wfile.write(bytes(65536))


def _wait(event: threading.Event) -> None:
    event.wait(30)


class Attempted:
    """All that the handler asks of a job's context."""

    def __init__(self, url: str, user_id: str, checkpoint: Any = None, **options: str) -> None:
        self.args = {"url": url, "options": options}
        self.user_id = user_id
        self.checkpoint = checkpoint
        self.shares: list[float] = []

    def progress(self, share: float, stage: str, *, checkpoint: Any = None) -> None:
        self.shares.append(share)
        self.checkpoint = checkpoint or self.checkpoint

    def raise_if_stopped(self) -> None:
        pass


def attempt(*given: Any, **options: Any) -> Any:
    return Attempted(*given, **options)


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(import_private_sources=True, max_upload_size=2 * len(FILM), transcode_workers=0)


def test_a_url_becomes_a_media_of_who_asked(server: Running, site: Site) -> None:
    site.answers |= {
        "/a": lambda at: plain(at, 302, b"", Location="/b/the%20film.mp4?token=secret"),
        "/b/the%20film.mp4?token=secret": film,
    }
    with server.user("ada") as ada:
        asked = ada.post("/media/import", json={"url": site.url("/a"), "title": "My film"})
        assert asked.status_code == 202, asked.text
        job_id = asked.json()["id"]
        assert asked.json()["kind"] == "import"
        until(lambda: ada.get(f"/jobs/{job_id}").json()["state"] == "completed")
        media_id = ada.get(f"/jobs/{job_id}").json()["result"]["media_id"]
        found = ada.get(f"/media/{media_id}").json()
        assert (found["title"], found["size_bytes"]) == ("My film", len(FILM))
        assert ada.get(f"/media/{media_id}/source").content == FILM
        with server.user("eve") as eve:
            assert eve.get(f"/jobs/{job_id}").status_code == 404
        for url in ("ftp://example.org/x", "http://user:pw@example.org/", "file:///etc/passwd"):
            refused = ada.post("/media/import", json={"url": url})
            assert (refused.status_code, "url" in refused.text) == (422, True)


def test_what_broke_off_goes_on_where_it_was(server: Running, site: Site) -> None:
    importer = Import(server.services.receiver, server.settings)
    with server.user("ada") as ada:
        owner = ada.get("/session").json()["id"]
        site.answers["/film.mp4"] = broken
        first = attempt(site.url("/film.mp4"), owner)
        with pytest.raises(errors.TransientFailure):
            importer(first)
        site.answers["/film.mp4"] = film
        second = attempt(site.url("/film.mp4"), owner, first.checkpoint)
        media_id = importer(second)["media_id"]
        half = len(FILM) // 2
        assert site.asked[-1][1]["range"] == f"bytes={half}-"
        assert ada.get(f"/media/{media_id}/source").content == FILM
        assert ada.get(f"/media/{media_id}").json()["title"] == "film"
        # Another file by now: from its beginning.
        site.answers["/film.mp4"] = broken
        third = attempt(site.url("/film.mp4"), owner)
        with pytest.raises(errors.TransientFailure):
            importer(third)
        site.answers["/film.mp4"] = lambda at: plain(at, 200, FILM[:5000], ETag='"two"')
        other = importer(attempt(site.url("/film.mp4"), owner, third.checkpoint))["media_id"]
        assert ada.get(f"/media/{other}/source").content == FILM[:5000]


def test_what_can_never_be_taken_in_is_told_and_leaves_nothing(server: Running, site: Site) -> None:
    importer = Import(server.services.receiver, server.settings)
    site.answers |= {
        "/endless": endless,
        "/large": lambda at: plain(at, 200, b"", Content_Length=str(10**9)),
        "/page": lambda at: plain(at, 200, b"<!doctype html><p>Sign in" + b" " * 5000),
        "/gone": lambda at: plain(at, 410, b"secret inside"),
        "/round": lambda at: plain(at, 301, b"", Location="/round"),
        "/inside": lambda at: plain(at, 302, b"", Location="http://169.254.169.254/latest/"),
        "/file": lambda at: plain(at, 302, b"", Location="file:///etc/passwd"),
        "/zip": lambda at: plain(at, 200, FILM, Content_Encoding="gzip"),
    }
    codes = {}
    for path in site.answers:
        with pytest.raises(errors.PermanentFailure) as refused:
            importer(attempt(site.url(path), ""))
        codes[path] = refused.value.code
        assert "secret" not in refused.value.message
    assert codes == {
        "/endless": "too_large",
        "/large": "too_large",
        "/page": "unsupported_media",
        "/gone": "http_410",
        "/round": "too_many_redirects",
        "/inside": "target_refused",
        "/file": "target_refused",
        "/zip": "bad_answer",
    }
    with server.rushes.db.read() as tx:
        left = tx.all("SELECT id FROM uploads WHERE ended_at IS NULL AND media_id IS NULL")
    assert left == []
    site.answers["/busy"] = lambda at: plain(at, 503, b"")
    with pytest.raises(errors.TransientFailure, match="HTTP 503"):
        importer(attempt(site.url("/busy"), ""))


def test_private_addresses_are_refused_whatever_they_are_called(site: Site) -> None:
    for resolve in (lambda *_: ["127.0.0.1"], lambda *_: ["93.184.216.34", "10.0.0.1"]):
        fetcher = targets.Fetcher(seconds=5, resolve=resolve)
        url = f"http://films.example:{site.port}/film.mp4"
        with pytest.raises(targets.FetchFailed) as refused, fetcher.get(url, {}):
            pass
        assert (refused.value.code, refused.value.is_final) == ("target_refused", True)
    assert site.asked == []


def test_a_silent_address_is_not_waited_for_for_ever(site: Site) -> None:
    going = threading.Event()
    site.answers["/silent"] = lambda at: _wait(going)
    fetcher = targets.Fetcher(seconds=0.2, allow_private=True)
    with pytest.raises(targets.FetchFailed) as late, fetcher.get(site.url("/silent"), {}):
        pass
    going.set()
    assert late.value.code == "timeout"
