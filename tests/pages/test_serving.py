"""How the application reaches the browser: what is kept, compressed, refused."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from pages.conftest import Visit
from running import Process, Running
from rushes.web import pages as served

WAV = b"RIFF" + (36).to_bytes(4, "little") + b"WAVEfmt " + bytes(600)


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve()


def script_of(html: str) -> str:
    found = re.search(r'src="(/assets/[^"]+\.js)"', html)
    assert found
    return found[1]


def test_every_address_of_the_application_is_the_application(server: Running) -> None:
    with server.client(None, base_url=server.url) as anybody:
        for path in served.KNOWN:
            answer = anybody.get(path.format(id="x", section="x"))
            assert answer.status_code == 200
            assert '<div id="app">' in answer.text
            assert answer.headers["cache-control"] == "no-store"
            assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert anybody.get("/no/such/page").status_code == 404


def test_assets_are_kept_for_ever_and_sent_small(server: Running) -> None:
    with server.client(None, base_url=server.url) as anybody:
        path = script_of(anybody.get("/").text)
        small = anybody.get(path)
        assert small.headers["content-encoding"] == "gzip"
        assert "immutable" in small.headers["cache-control"]
        plain = anybody.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == small.content
        again = anybody.get(path, headers={"If-None-Match": plain.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_nothing_but_assets_is_served(server: Running) -> None:
    with server.client(None, base_url=server.url) as anybody:
        for name in ("..%2f..%2fpages.py", "%2e%2e/index.html", "nothing.js", "..%5cpages.py"):
            assert anybody.get(f"/assets/{name}").status_code == 404


def test_the_first_page_is_small() -> None:
    """Everything the library loads at once; the player comes with the watch page."""
    html = (served.BUILT / "index.html").read_text()
    first = (served.BUILT / script_of(html).lstrip("/")).read_bytes()
    preloaded = re.findall(r'rel="modulepreload"[^>]*href="/([^"]+)"', html)
    rest = [(served.BUILT / name).read_bytes() for name in preloaded]
    assert sum(len(gzip.compress(each)) for each in [first, *rest]) <= 120_000


def test_the_font_is_served_by_us(server: Running, visit: Visit) -> None:
    """As it is: it would not become smaller. The policy allows it: `visit` sees what it refuses."""
    page = visit(server, "/")
    # Waited for as it is: a promise would be taken for a yes before it is kept.
    page.wait_for_function(
        "() => [...document.fonts].some("
        "(each) => each.status === 'loaded' && each.family.includes('Figtree'))"
    )
    [font] = served.BUILT.glob("assets/figtree-latin-wght-normal-*.woff2")
    with server.client(None, base_url=server.url) as anybody:
        answer = anybody.get(f"/assets/{font.name}")
        assert answer.headers["content-type"] == "font/woff2"
        assert "content-encoding" not in answer.headers
        assert "immutable" in answer.headers["cache-control"]
        assert "SIL OPEN FONT LICENSE" in anybody.get("/assets/figtree-licence.txt").text


def test_a_page_heals_when_the_server_was_away(
    process: Callable[..., Process], visit: Visit
) -> None:
    """Events that were missed are heard of afterwards, and nothing is to be reloaded."""
    server = process()
    page = visit(server, "/")
    lost = page.get_by_text("The connection is lost")
    expect(page.get_by_role("navigation")).to_be_visible()
    server.kill()
    expect(lost).to_be_visible()
    server.start()
    with server.client() as admin:
        made = admin.post("/media", files={"file": ("Homecoming.wav", WAV)})
        assert made.status_code == 201
    expect(lost).not_to_be_visible()
    expect(page.get_by_text("Homecoming").first).to_be_visible()


def test_an_unknown_address_says_so(server: Running, visit: Visit) -> None:
    page = visit(server, "/nowhere/at/all")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    page.get_by_role("link", name="Go to the library").click()
    expect(page).to_have_url(f"{server.url}/")
