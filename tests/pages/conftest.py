"""A real Chromium in front of a real server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from running import Clients
from rushes.web import pages

# The browser's own words about an answer that was an error; what matters of those is on the page.
EXPECTED = re.compile(r"Failed to load resource|net::ERR_")

# Whatever language the machine is set to.
ENGLISH = "en-US"

# Opens a page of its own for a visitor: `visit(server, "/queue")`.
Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens `path` as an admin, or as whoever `link` signs in, or as nobody (`link=""`). Fails the
    test if anything on the page breaks or is stopped by the content security policy."""
    assert (pages.BUILT / "index.html").exists(), "the pages are not built: make pages"
    broken: list[str] = []
    with ExitStack() as stack:

        def open_page(
            server: Clients,
            path: str = "/",
            *,
            link: str | None = None,
            phone: bool = False,
            dark: bool = False,
            welcomed: bool = True,
            locale: str = ENGLISH,
            context: BrowserContext | None = None,
        ) -> Page:
            if context is None:
                context = browser.new_context(
                    viewport={"width": 390, "height": 844}
                    if phone
                    else {"width": 1280, "height": 800},
                    has_touch=phone,
                    color_scheme="dark" if dark else "light",
                    reduced_motion="reduce",
                    locale=locale,
                )
                stack.callback(context.close)
            if welcomed:
                context.add_init_script("localStorage.setItem('rushes.welcomed', '1')")
            page = context.new_page()
            page.set_default_timeout(20_000)
            page.on("pageerror", lambda error: broken.append(str(error)))
            page.on("console", lambda message: _note(message, broken))
            if link != "":
                use_link(page, server, link or sign_in_link(server))
            page.goto(f"{server.url}{path}")
            return page

        yield open_page
    assert not broken, "\n".join(broken)


def _note(message: ConsoleMessage, broken: list[str]) -> None:
    if message.type == "error" and not EXPECTED.search(message.text):
        broken.append(message.text)


def use_link(page: Page, server: Clients, link: str) -> None:
    """What its button does."""
    body = {"token": link.partition("token=")[2]}
    answer = page.request.post(f"{server.url}/api/v1/session/link", data=body)
    assert answer.status == 201, answer.text()


def sign_in_link(server: Clients) -> str:
    with server.client() as admin:
        me = admin.get("/session").json()["id"]
        return str(admin.post(f"/users/{me}/link").json()["signin_url"])
