"""Share links in a browser: the dialog, what a stranger sees, and the player on other sites."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from handlers.transcode.test_playing import film
from pages.checks import barriers, is_too_wide
from pages.conftest import ENGLISH, Visit
from pages.test_player import reaches, ready
from running import Running
from web import library

SECRET = "open sesame"
TITLE = "Rehearsal <b>one</b>"

pytestmark = pytest.mark.timeout(240)


class Site:
    """Another site, with a page that shows whatever it is told."""

    def __init__(self) -> None:
        self.html = ""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = site.html.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def other_site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever)
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()


def test_a_link_from_the_dialog_to_a_strangers_screen_and_another_site(
    serve: Callable[..., Running], tmp_path: Path, visit: Visit, browser: Browser
) -> None:
    with other_site() as wiki, other_site() as stray:
        server = serve(transcodes=True, embed_origins=wiki.url)
        codec = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")
        media_id = ready(server, film(tmp_path / "film.mp4", 6, "320x180", *codec), title=TITLE)
        library.transcribe(server, media_id, "In the first second.", "A needle.", "In the third.")
        link = _say_terms(server, visit(server, f"/watch/{media_id}"))
        stranger = visit(server, link.removeprefix(server.url), link="")
        _open(stranger)
        _read(stranger)
        phone = visit(server, f"{link.removeprefix(server.url)}?t=-5", link="", phone=True)
        phone.get_by_label("Password", exact=True).fill(SECRET)
        phone.keyboard.press("Enter")
        expect(phone.get_by_role("heading", level=1)).to_have_text(TITLE)
        assert not is_too_wide(phone)
        assert barriers(phone) == []
        _frame(server, media_id, wiki, stray, browser)


def _say_terms(server: Running, page: Page) -> str:
    page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share")
    dialog.get_by_role("button", name="Create a link").click()
    link = dialog.get_by_label("Link").input_value()
    expect(dialog.get_by_text("This address works on this computer only.")).to_be_visible()
    dialog.get_by_label("Works until").select_option("7")
    expect(dialog.get_by_label("Works until")).to_have_value("kept")
    dialog.get_by_role("button", name="Set a password").click()
    dialog.get_by_label("New password").fill(SECRET)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("button", name="Change", exact=True)).to_be_visible()
    dialog.get_by_label("Allow downloads").click()
    expect(dialog.get_by_label("Allow downloads")).to_be_checked()
    dialog.get_by_text("Embed in a website").click()
    expect(dialog.get_by_label("Embed code")).to_have_value(re.compile("^<iframe src="))
    assert barriers(page) == []
    with server.client() as admin:
        [item] = admin.get("/media").json()["items"]
        terms = admin.get(f"/media/{item['id']}/share").json()
    assert (terms["has_password"], terms["allow_download"]) == (True, True)
    assert terms["expires_at"]
    return link


def _open(page: Page) -> None:
    expect(
        page.get_by_role("heading", name="This recording is protected by a password")
    ).to_be_visible()
    expect(page).to_have_title("Rushes")
    assert barriers(page) == []
    page.get_by_label("Password", exact=True).fill("open barley")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("Wrong password.")).to_be_visible()
    page.get_by_label("Password", exact=True).fill(SECRET)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
    expect(page).to_have_title(TITLE)


def _read(page: Page) -> None:
    """What is said, by whom; looked for, and gone to."""
    text = page.get_by_role("region", name="Transcript")
    expect(text.get_by_text("Speaker 1")).to_be_visible()
    text.get_by_role("button", name="Find in the transcript").click()
    text.get_by_role("searchbox").fill("needle")
    expect(text.locator("mark")).to_have_text("needle")
    expect(text.get_by_role("button", name="Replace")).to_have_count(0)
    page.keyboard.press("Escape")
    text.get_by_text("A needle.").click()
    reaches(page, 1.3)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download", exact=True).click()
    assert download.value.suggested_filename == "film.mp4"
    text.get_by_role("button", name="Download or copy").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="SRT captions").click()
    assert "A needle." in Path(download.value.path()).read_text()
    assert barriers(page) == []


def _frame(server: Running, media_id: str, wiki: Site, stray: Site, browser: Browser) -> None:
    """In frames of two origins: one may, and plays; for the other the browser shows nothing."""
    path = f"/media/{media_id}/share"
    with server.client() as admin:
        before = admin.get(path).json()["views"]
        html = admin.get(path).json()["embed_html"]
        wiki.html = stray.html = f"<!doctype html><title>Elsewhere</title>{html}"
        context = browser.new_context(locale=ENGLISH)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.goto(wiki.url)
        inside = page.frame_locator("iframe")
        # It has a password still: a frame keeps no cookie.
        expect(inside.get_by_role("link", name="Open in a new tab")).to_be_visible()
        admin.patch(path, json={"password": None})
        page.reload()
        expect(inside.get_by_role("link", name=TITLE)).to_be_visible()
        inside.get_by_role("button", name="Play", exact=True).click()
        inside.locator("video").evaluate(
            "video => new Promise(done => {"
            " const look = () => video.currentTime > 0.3 ? done(true) : setTimeout(look, 50);"
            " look(); })"
        )
        expect(inside.get_by_role("button", name="Pause")).to_be_visible()
        script = "url => fetch(url).then(answer => answer.status, () => 'refused')"
        file = f"{admin.get(path).json()['share_url']}/media"
        assert page.evaluate(script, file) == 200
        assert admin.get(path).json()["views"] == before + 1
        page.goto(stray.url)
        expect(page.frame_locator("iframe").locator("video")).to_have_count(0)
        assert page.frames[1].evaluate("document.getElementById('app')") is None
        assert page.evaluate(script, file) == "refused"
        context.close()


def test_a_link_to_a_part_plays_that_part_alone(
    serve: Callable[..., Running], tmp_path: Path, visit: Visit
) -> None:
    server = serve(transcodes=True)
    # Browsers do not play it, so that there is something encoded.
    source = film(tmp_path / "film.mkv", 14, "320x180", "-c:v", "mpeg4", "-c:a", "aac")
    media_id = ready(server, source, title=TITLE)
    library.transcribe(server, media_id, *(f"Second {n}." for n in range(14)))
    page = visit(server, f"/watch/{media_id}")
    page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share")
    dialog.get_by_role("button", name="Create a link").click()
    dialog.get_by_text("Share only a part").click()
    dialog.get_by_label("From").fill("0:05")
    dialog.get_by_label("To", exact=True).fill("0:07")
    dialog.get_by_role("button", name="Create a link to it").click()
    link = dialog.get_by_label("Link to the part").input_value()
    assert barriers(page) == []
    with server.client() as admin:
        wanted = {"start": 5, "end": 7}
        clip = admin.post(f"/media/{media_id}/share/clips", json=wanted).json()
    assert clip["share_url"] == link
    assert clip["start"] <= 5 < 7 <= clip["end"] < 14
    seconds = clip["end"] - clip["start"]
    stranger = visit(server, link.removeprefix(server.url), link="")
    expect(stranger.get_by_role("heading", level=1)).to_have_text(TITLE)
    text = stranger.get_by_role("region", name="Transcript")
    expect(text.get_by_text(f"Second {round(clip['start'])}.")).to_be_visible()
    expect(text.get_by_text("Second 13.")).to_have_count(0)
    stranger.get_by_role("button", name="Play", exact=True).click()
    reaches(stranger, seconds - 0.5)
    length = stranger.locator("video").evaluate("video => video.duration")
    assert length == pytest.approx(seconds, abs=0.3)
