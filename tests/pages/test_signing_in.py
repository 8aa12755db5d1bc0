"""The first visit, signing in and out, and what happens when a session ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import Page, expect

from pages.checks import barriers, is_too_wide
from pages.conftest import Visit, sign_in_link
from running import Running
from rushes.web.http import sse
from web.test_accounts import QUARTER_HOUR, pass_time

PASSWORD = "correct horse battery"
WRONG = "incorrect horse battery"
NEWER = "a newer horse battery"
DROP = """() => {
  const data = new DataTransfer();
  data.items.add(new File(["RIFF"], "tape.wav", {type: "audio/wav"}));
  dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}));
}"""


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(event_keep_alive=0.1)


@pytest.fixture
def quick_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """They notice soon that their session has ended."""
    monkeypatch.setattr(sse, "stream", partial(sse.stream, check_seconds=0.1))


def add_user(server: Running, name: str = "ada") -> str:
    with server.client() as admin:
        made = admin.post("/users", json={"name": name, "password": PASSWORD})
        assert made.status_code == 201, made.text
        assert made.json()["signin_url"] is None
        return str(admin.post(f"/users/{made.json()['id']}/link").json()["signin_url"])


def sign_in(page: Page, name: str = "ada", password: str = PASSWORD) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()


def path_of(server: Running, path: str) -> str:
    return f"{server.url}{path}"


def test_the_link_the_server_prints_leads_to_a_password_and_the_library(
    server: Running, visit: Visit
) -> None:
    printed = re.search(r"http\S+token=\S+", "\n".join(server.server.greeting()))
    assert printed
    page = visit(server, printed[0].removeprefix(server.url), link="", welcomed=False)
    expect(page.get_by_text("This link signs you in once.")).to_be_visible()
    assert not barriers(page)
    enter = page.get_by_role("button", name="Sign in")
    expect(enter).to_be_focused()
    enter.click()
    expect(page.get_by_role("heading", name="Welcome, admin")).to_be_visible()
    expect(page.get_by_text("1 of 2")).to_be_visible()
    assert not barriers(page)
    password = page.get_by_label("Choose a password")
    set_it = page.get_by_role("button", name="Set password")
    password.fill("short")
    set_it.click()
    expect(password).to_be_focused()
    expect(password).to_have_accessible_description("Use at least 12 characters.")
    password.fill("passwordpassword")
    set_it.click()
    expect(password).to_have_accessible_description(re.compile("^Is too easy to guess: "))
    expect(password).to_have_value("passwordpassword")
    password.fill(PASSWORD)
    password.press("Enter")
    expect(page.get_by_role("heading", name="Add your first recording")).to_be_focused()
    expect(page.get_by_text("2 of 2")).to_be_visible()
    page.get_by_role("button", name="Go to the library").click()
    expect(page).to_have_url(path_of(server, "/"))
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.reload()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    expect(page).to_have_url(path_of(server, "/"))
    with server.client(None) as browser:
        answer = browser.post("/session", json={"name": "admin", "password": PASSWORD})
        assert answer.status_code == 201


def test_a_password_can_wait_and_a_recording_need_not(server: Running, visit: Visit) -> None:
    page = visit(server, "/", welcomed=False, phone=True)
    assert not is_too_wide(page)
    page.get_by_role("button", name="Skip for now").click()
    expect(page.get_by_text("2 of 2")).to_be_visible()
    assert not is_too_wide(page)
    assert not barriers(page)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a file").click()
    assert chooser.value.is_multiple()
    page.evaluate(DROP)
    expect(page.get_by_text("tape.wav").first).to_be_visible()
    page.goto(path_of(server, "/"))
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    expect(page).to_have_url(path_of(server, "/"))


def test_who_has_no_recording_tries_it_with_a_sample(server: Running, visit: Visit) -> None:
    page = visit(server, "/", welcomed=False)
    page.get_by_role("button", name="Skip for now").click()
    page.get_by_role("button", name="Try it with a sample").click()
    expect(page).to_have_url(path_of(server, "/"))
    expect(page.get_by_role("link", name="A short sample")).to_be_visible()
    with server.client() as admin:
        [made] = admin.get("/media").json()["items"]
        assert admin.delete(f"/media/{made['id']}").is_success
    # With nothing there, the library offers it, too.
    page.get_by_role("button", name="Try it with a sample").click()
    expect(page.get_by_role("link", name="A short sample")).to_be_visible()


def test_signing_in_leads_to_where_somebody_wanted_to_go(server: Running, visit: Visit) -> None:
    add_user(server)
    page = visit(server, "/settings/tokens?x=1", link="")
    expect(page).to_have_url(re.compile(r"/sign-in\?to=%2Fsettings%2Ftokens%3Fx%3D1$"))
    expect(page.get_by_text("Sign in to continue where you left off.")).to_be_visible()
    assert not barriers(page)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("Enter your name and password.")
    sign_in(page, password=WRONG)
    expect(page.get_by_role("alert")).to_have_text("Wrong name or password.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("ada")
    sign_in(page)
    expect(page).to_have_url(path_of(server, "/settings/tokens?x=1"))
    expect(page.get_by_role("heading", name="Tokens", level=1)).to_be_visible()
    page.goto(path_of(server, "/sign-in?to=/settings/webhooks"))
    expect(page).to_have_url(path_of(server, "/settings/webhooks"))
    page.get_by_role("button", name="Account: ada").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page).to_have_url(path_of(server, "/sign-in"))
    page.go_back()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_nobody_is_led_elsewhere(server: Running, visit: Visit) -> None:
    add_user(server)
    page = visit(server, "/sign-in", link="")
    for to in ("//evil.example/x", "/\\evil.example", "https://evil.example"):
        page.goto(path_of(server, f"/sign-in?to={to}"))
        sign_in(page)
        expect(page).to_have_url(path_of(server, "/"))
        expect(page.get_by_role("navigation", name="Main")).to_be_visible()
        page.context.clear_cookies()


def test_a_used_link_says_so_and_how_to_get_another(server: Running, visit: Visit) -> None:
    link = add_user(server)
    first = visit(server, "/", link=link)
    expect(first.get_by_role("navigation", name="Main")).to_be_visible()
    late = visit(server, link.removeprefix(server.url), link="", phone=True)
    assert not is_too_wide(late)
    late.get_by_role("button", name="Sign in").click()
    expect(late.get_by_role("alert")).to_contain_text("This link no longer works")
    command = late.get_by_label("Command that creates a new link")
    expect(command).to_have_value("rushes users link NAME")
    expect(command).to_be_visible()
    assert not is_too_wide(late)
    assert not barriers(late)
    sign_in(late)
    expect(late).to_have_url(path_of(server, "/"))
    first.goto(link)
    expect(first.get_by_text("you are signed in already")).to_be_visible()
    expect(first).to_have_url(path_of(server, "/"))


def test_a_forgotten_password_is_replaced_after_a_sign_in_by_link(
    server: Running, visit: Visit
) -> None:
    link = add_user(server)
    page = visit(server, link.removeprefix(server.url), link="", phone=True)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(path_of(server, "/settings/account"))
    expect(page.get_by_role("heading", name="Set a new password")).to_be_visible()
    expect(page.get_by_label("Current password")).to_have_count(0)
    assert not is_too_wide(page)
    assert not barriers(page)
    page.get_by_label("New password").fill(NEWER)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_text("Password changed.")).to_be_visible()
    # From now on it is as for everybody.
    expect(page.get_by_label("Current password")).to_be_visible()
    other = visit(server, "/sign-in", link="")
    sign_in(other)
    expect(other.get_by_role("alert")).to_have_text("Wrong name or password.")
    sign_in(other, password=NEWER)
    expect(other).to_have_url(path_of(server, "/"))


def test_who_waits_too_long_after_a_sign_in_by_link_needs_the_old_password(
    server: Running, visit: Visit
) -> None:
    page = visit(server, "/settings/account", link=add_user(server))
    page.get_by_label("New password").fill(NEWER)
    pass_time(server, QUARTER_HOUR + 1)
    page.get_by_role("button", name="Set password").click()
    old = page.get_by_label("Current password")
    expect(old).to_have_accessible_description(
        re.compile("^You signed in with a link more than 15 minutes ago")
    )
    expect(old).to_be_focused()
    expect(page.get_by_label("New password")).to_have_value(NEWER)
    old.fill(PASSWORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Password changed.")).to_be_visible()


def test_guessing_is_told_to_wait(server: Running, visit: Visit) -> None:
    add_user(server)
    with server.client(None) as guesser:
        for _ in range(6):
            guesser.post("/session", json={"name": "ada", "password": WRONG})
    page = visit(server, "/sign-in", link="")
    sign_in(page)
    expect(page.get_by_role("alert")).to_contain_text("Wait 15 minutes")


@pytest.mark.usefixtures("quick_streams")
def test_a_session_that_ends_leads_to_signing_in_and_back(server: Running, visit: Visit) -> None:
    add_user(server)
    here = visit(server, "/sign-in?to=/settings/account", link="")
    sign_in(here)
    there = visit(server, "/sign-in?to=/settings/tokens", link="")
    sign_in(there)
    expect(there.get_by_role("heading", name="Tokens", level=1)).to_be_visible()
    sessions = here.get_by_role("list", name="Where you are signed in")
    expect(sessions.get_by_text("This device")).to_have_count(1)
    here.evaluate("dispatchEvent(new Event('focus'))")
    expect(sessions.get_by_role("listitem")).to_have_count(2)
    here.get_by_role("button", name=re.compile("End the session on Chrome")).click()
    expect(here.get_by_text("Session ended.")).to_be_visible()
    expect(sessions.get_by_role("listitem")).to_have_count(1)
    expect(there).to_have_url(re.compile(r"/sign-in\?to=%2Fsettings%2Ftokens$"))
    sign_in(there)
    expect(there.get_by_role("heading", name="Tokens", level=1)).to_be_visible()
    expect(here.get_by_role("heading", name="Account", level=1)).to_be_visible()


def test_a_window_that_waits_at_the_door_follows_another(server: Running, visit: Visit) -> None:
    page = visit(server, "/settings/health", link="")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    other = visit(server, "/", link=sign_in_link(server), context=page.context)
    expect(other.get_by_role("navigation", name="Main")).to_be_visible()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page).to_have_url(path_of(server, "/settings/health"))
