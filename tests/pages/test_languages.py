"""The pages in German: chosen by hand or by the browser, and never English for a moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from handlers.transcode.test_playing import film
from pages.checks import barriers, is_too_wide
from pages.conftest import ENGLISH, Visit, sign_in_link
from pages.test_player import ready
from running import Running
from rushes import kinds
from web import library

GERMAN = "de-DE"
TITLE = "Hafen am Morgen"
UI = Path(__file__).parents[2] / "ui" / "src"
CODEC = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")
# Keeps everything that was to be read at any time.
READER = """
window.read = new Set();
new MutationObserver(() => read.add(document.body?.innerText ?? "")).observe(document, {
    subtree: true, childList: true, characterData: true,
});
"""

pytestmark = pytest.mark.timeout(180)


def shown(page: Page) -> str:
    """All that the page has said since it was opened."""
    return "\n".join(page.evaluate("[...read]"))


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve()


def test_german_is_chosen_at_the_door_and_stays(
    serve: Callable[..., Running], tmp_path: Path, visit: Visit
) -> None:
    server = serve(transcodes=True)
    media_id = ready(server, film(tmp_path / "film.mp4", 3, "320x180", *CODEC), title=TITLE)
    library.transcribe(server, media_id, "In der ersten Sekunde.")
    page = visit(server, sign_in_link(server).removeprefix(server.url), link="")
    expect(page.locator("html")).to_have_attribute("lang", "en")
    page.get_by_label("Language").select_option("Deutsch")
    expect(page.get_by_role("heading", name="Anmelden")).to_be_visible()
    expect(page.get_by_label("Sprache")).to_have_value("de")
    page.get_by_role("button", name="Anmelden").click()
    _look_around(page, server, media_id)
    page.reload()
    expect(page.get_by_role("heading", name="Konto", exact=True)).to_be_visible()
    page.get_by_role("button", name="Konto: admin").click()
    page.get_by_role("menuitemradio", name="Sprache: English").click()
    expect(page.get_by_role("heading", name="Account", exact=True)).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "en")


def _look_around(page: Page, server: Running, media_id: str) -> None:
    nav = page.get_by_role("navigation", name="Hauptmenü")
    expect(nav.get_by_role("link", name="Mediathek")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "de")
    page.get_by_role("link", name=TITLE).first.click()
    expect(page.get_by_role("button", name="Teilen")).to_be_visible()
    expect(page.get_by_role("heading", name="Transkript")).to_be_visible()
    expect(page.get_by_text("In der ersten Sekunde.").first).to_be_visible()
    expect(page.get_by_role("button", name="Abspielen").first).to_be_attached()
    assert barriers(page) == []
    page.goto(f"{server.url}/queue?media_id={media_id}")
    # Kinds are called by the page's own words, states and lengths of time as well.
    row = page.get_by_role("link", name=re.compile("Einzelheiten: Umwandeln")).first
    expect(row).to_be_visible()
    expect(page.get_by_text("Fertig").first).to_be_visible()
    nav.get_by_role("link", name="Einstellungen").click()
    expect(page.get_by_role("heading", name="Konto", exact=True)).to_be_visible()


def test_a_german_browser_never_shows_english(server: Running, browser: Browser) -> None:
    context = browser.new_context(locale=GERMAN)
    context.add_init_script(READER)
    page = context.new_page()
    page.goto(f"{server.url}/sign-in")
    expect(page.get_by_role("heading", name="Anmelden")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "de")
    assert "Anmelden" in shown(page)
    assert "Sign in" not in shown(page)
    context.close()


def test_a_stranger_is_spoken_to_in_german(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), TITLE)
        path = f"/media/{media_id}/share"
        token = str(admin.post(path).json()["share_url"]).rpartition("/")[2]
        page = visit(server, f"/s/{token}", link="", locale=GERMAN)
        expect(page.get_by_text("Das wird noch vorbereitet")).to_be_visible()
        page.goto(f"{server.url}/embed/{token}")
        expect(page.get_by_text("Das wird noch vorbereitet")).to_be_visible()
        admin.patch(path, json={"password": "ein Geheimnis"})
        page.goto(f"{server.url}/s/{token}")
        expect(page.get_by_role("heading", name="durch ein Passwort geschützt")).to_be_visible()
        page.get_by_label("Passwort", exact=True).fill("ein anderes")
        page.get_by_role("button", name="Öffnen").click()
        expect(page.get_by_text("Falsches Passwort.")).to_be_visible()
        page.goto(f"{server.url}/s/nothing")
        expect(page.get_by_text("Dieser Link funktioniert nicht")).to_be_visible()


def test_long_words_fit_on_a_phone(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), TITLE)
    page = visit(server, "/", phone=True, locale=GERMAN)
    sections = re.findall(r'id: "(\w+)"', (UI / "settings" / "sections.ts").read_text())
    paths = [f"/settings/{each}" for each in sections]
    for path in ["/", f"/watch/{media_id}", "/queue", "/workers", "/trash", "/docs", *paths]:
        page.goto(f"{server.url}{path}")
        expect(page.get_by_role("heading").first).to_be_visible()
        assert not is_too_wide(page), path


def test_who_reads_english_fetches_no_german(server: Running, visit: Visit) -> None:
    asked: dict[str, list[str]] = {ENGLISH: [], GERMAN: []}
    for locale, urls in asked.items():
        page = visit(server, "/nowhere", locale=locale)
        page.on("request", partial(_note, urls))
        page.goto(f"{server.url}/queue")
        expect(page.get_by_role("navigation").first).to_be_visible()
    german = re.compile(r"/assets/de-[^/]+\.js$")
    assert [bool(list(filter(german.search, urls))) for urls in asked.values()] == [False, True]


def _note(urls: list[str], request: Request) -> None:
    urls.append(request.url)


def test_without_its_words_a_page_is_english(server: Running, visit: Visit) -> None:
    page = visit(server, "/", locale=GERMAN)
    page.route("**/assets/de-*.js", lambda route: route.abort())
    page.goto(f"{server.url}/queue")
    expect(page.get_by_role("heading", name="Queue").first).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_every_kind_of_rushes_own_has_a_german_name() -> None:
    words = (UI / "lib" / "texts.de.ts").read_text().partition("  kinds: {\n")[2].partition("}")[0]
    assert re.findall(r"(\w+): ", words) == list(kinds.TABLE)
