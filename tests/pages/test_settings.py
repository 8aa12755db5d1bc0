"""Everything that can be set, as people set it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from engines import hub as hubs
from engines.hub import NAME, Hub
from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from running import Running
from rushes.db.database import Tx
from rushes.engines import catalog, fetching
from rushes.webhooks import store as webhook_store
from webhooks import receivers

PASSWORD = "correct horse battery"
NEWER = "a newer horse battery"
MARKUP = "<img src=x onerror=alert(1)>"
SECTIONS = {
    "account": "Account",
    "tokens": "Tokens",
    "webhooks": "Webhooks",
    "profiles": "Encoding profiles",
    "transcription": "Transcription profiles",
    "models": "Speech models",
    "limits": "Limits",
    "users": "Users",
    "security": "Security log",
    "health": "Storage and health",
    "server": "Server settings",
}


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(webhook_private_targets=True)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setitem(catalog.MODELS, NAME, hubs.entry(hubs.hub_source()))
    monkeypatch.setattr(fetching, "_away_until", {})
    with hubs.serving() as hub:
        yield hub


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("listitem").filter(has_text=text)


def about(page: Page, heading: str) -> Locator:
    title = page.get_by_role("heading", name=heading, exact=True)
    return page.get_by_role("listitem").filter(has=title)


def act(page: Page, name: str, choice: str) -> None:
    page.get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name=choice).click()


def answer(page: Page, button: str) -> None:
    page.get_by_role("dialog").last.get_by_role("button", name=button, exact=True).click()


def test_every_section_is_open_to_everybody_who_may_see_it(
    server: Running, visit: Visit, hub: Hub
) -> None:
    with server.client() as admin:
        admin.post("/users", json={"name": "ada"})
        admin.post("/tokens", json={"name": MARKUP, "scopes": ["admin"]})
        admin.post("/webhooks", json={"url": "http://127.0.0.1:1/hook", "types": ["media.*"]})
        admin.post("/transcription-profiles", json={"name": "talks", "language": "de"})
        admin.put("/limits/engine:openai", json={"most": 2})
    page = visit(server, "/settings")
    nav = page.get_by_role("navigation", name="Settings")
    for id, title in SECTIONS.items():
        nav.get_by_role("link", name=title).click()
        expect(page).to_have_url(f"{server.url}/settings/{id}")
        expect(page).to_have_title(re.compile(f"^{title}"))
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        expect(page.get_by_role("list").last).to_be_visible()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.wait_for_function("() => document.getAnimations().length === 0")
            assert not barriers(page), (id, scheme)
    page.go_back()
    expect(page.get_by_role("heading", name="Storage and health", level=1)).to_be_visible()
    page.goto(f"{server.url}/settings/nothing")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


def test_every_section_fits_a_phone(server: Running, visit: Visit) -> None:
    name = "a" * 64
    with server.client() as admin:
        admin.post("/users", json={"name": name})
        admin.post("/tokens", json={"name": "t" * 100, "scopes": ["read"]})
        admin.post("/profiles", json={"name": "p" * 64})
        terms = {"model": "m" * 100, "vocabulary": ["v" * 100]}
        admin.post("/transcription-profiles", json={"name": "t" * 64, **terms})
        url = f"http://127.0.0.1:1/{'x' * 300}"
        admin.post("/webhooks", json={"url": url, "types": ["*"]})
        admin.put(f"/limits/engine:{'k' * 60}", json={"most": 2}).raise_for_status()
    page = visit(server, "/settings", phone=True)
    for id, title in SECTIONS.items():
        page.goto(f"{server.url}/settings/{id}")
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        expect(page.get_by_role("list").last).to_be_visible()
        current = page.get_by_role("navigation", name="Settings").get_by_role("link", name=title)
        expect(current).to_be_in_viewport()
        assert not is_too_wide(page), id
    page.goto(f"{server.url}/settings/profiles")
    page.get_by_role("button", name="Edit default").click()
    expect(page.get_by_label("Height of size 1")).to_be_visible()
    assert not is_too_wide(page)
    page.goto(f"{server.url}/settings/transcription")
    page.get_by_role("button", name=re.compile("Edit t")).click()
    expect(page.get_by_label("Names and terms")).to_have_value("v" * 100)
    assert not is_too_wide(page)


def test_a_password_is_changed_and_other_devices_have_to_know_it(
    server: Running, visit: Visit
) -> None:
    with server.client() as admin:
        admin.post("/users", json={"name": "ada", "password": PASSWORD, "quota_bytes": 10**9})
    other = server.client(None)
    assert other.post("/session", json={"name": "ada", "password": PASSWORD}).status_code == 201
    page = visit(server, "/sign-in?to=/settings/account", link="")
    page.get_by_label("Name", exact=True).fill("ada")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("0 B of 1.0 GB used")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Space")).to_be_visible()
    sessions = page.get_by_role("list", name="Where you are signed in")
    expect(sessions.get_by_role("listitem")).to_have_count(2)
    old, new = page.get_by_label("Current password"), page.get_by_label("New password")
    change = page.get_by_role("button", name="Change password")
    expect(change).to_be_disabled()
    old.fill("not my password at all")
    new.fill(NEWER)
    change.click()
    expect(old).to_have_accessible_description("This is not your current password.")
    expect(old).to_be_focused()
    expect(new).to_have_value(NEWER)
    old.fill(PASSWORD)
    change.click()
    expect(page.get_by_text("Password changed.")).to_be_visible()
    expect(new).to_have_value("")
    expect(sessions.get_by_role("listitem")).to_have_count(1)
    assert other.get("/session").status_code == 401
    assert other.post("/session", json={"name": "ada", "password": NEWER}).status_code == 201
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(sessions.get_by_role("listitem")).to_have_count(2)
    page.get_by_role("button", name="End all others").click()
    answer(page, "End all others")
    expect(sessions.get_by_role("listitem")).to_have_count(1)
    assert other.get("/session").status_code == 401
    other.close()
    sessions.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{server.url}/sign-in")


def test_a_token_is_shown_once_and_works_until_it_is_revoked(server: Running, visit: Visit) -> None:
    page = visit(server, "/settings/tokens")
    expect(page.get_by_role("heading", name="No tokens yet")).to_be_visible()
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    name = dialog.get_by_label("Name")
    expect(name).to_be_focused()
    dialog.get_by_role("button", name="Create token").click()
    expect(name).to_have_accessible_description("This field is required.")
    name.fill(MARKUP)
    page.keyboard.press("Escape")
    answer(page, "Keep editing")
    expect(name).to_have_value(MARKUP)
    dialog.get_by_label("Read only").check()
    dialog.get_by_label("Valid").select_option("for 7 days")
    name.press("Enter")
    expect(page.get_by_role("heading", name=f"The token “{MARKUP}” is ready")).to_be_visible()
    secret = page.get_by_label("Token", exact=True).input_value()
    command = page.get_by_label("Example command").input_value()
    assert secret in command
    assert command.endswith(f"{server.url}/api/v1/media")
    with server.client(secret) as script:
        assert script.get("/media").status_code == 200
        assert script.post("/tokens", json={"name": "x"}).status_code == 403
        page.get_by_role("button", name="Done").click()
        listed = row(page, MARKUP)
        expect(listed).to_contain_text("Read only")
        page.reload()
        expect(listed).to_contain_text("Used")
        assert secret not in page.content()
        page.get_by_role("button", name=f"Revoke {MARKUP}").click()
        answer(page, "Revoke")
        expect(page.get_by_role("heading", name="No tokens yet")).to_be_visible()
        assert script.get("/media").status_code == 401


def test_the_security_log_tells_who_what_and_from_where(server: Running, visit: Visit) -> None:
    with server.client() as admin, server.client(None) as thief:
        admin.post("/users", json={"name": "ada", "password": PASSWORD})
        for _ in range(55):
            admin.post("/workers/invite", json={"name": MARKUP})
        thief.headers["X-Forwarded-For"] = "203.0.113.7"
        thief.post("/session", json={"name": "ada", "password": NEWER})
    page = visit(server, "/settings/security")
    failed = row(page, "Sign-in failed")
    expect(failed).to_contain_text("ada")
    expect(failed).to_contain_text("from 203.0.113.7")
    expect(row(page, MARKUP).first).to_contain_text("Worker invited")
    expect(row(page, "User added")).to_have_count(0)
    page.get_by_role("button", name="Show more").click()
    expect(row(page, "User added").first).to_contain_text("ada")
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_a_user_is_added_limited_kept_out_and_let_in(server: Running, visit: Visit) -> None:
    page = visit(server, "/settings/users")
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(MARKUP)
    dialog.get_by_label("Space in GB").fill("much")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_label("Space in GB")).to_have_accessible_description(re.compile("^Give a"))
    dialog.get_by_label("Space in GB").fill("2.5")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_label("Name")).to_have_accessible_description(re.compile("^Must be 1 to"))
    dialog.get_by_label("Name").fill("Ada")
    dialog.get_by_role("button", name="Add").click()
    link = page.get_by_label("Sign-in link").input_value()
    page.get_by_role("button", name="Done").click()
    ada = row(page, "ada")
    expect(ada).to_contain_text("2.5 GB of space")

    theirs = visit(server, "/settings", link=link)
    expect(theirs.get_by_text("0 B of 2.5 GB used")).to_be_visible()
    links = theirs.get_by_role("navigation", name="Settings").get_by_role("link")
    expect(links).to_have_text(["Account", "Tokens", "Webhooks"])
    theirs.goto(f"{server.url}/settings/users")
    expect(theirs.get_by_role("heading", name="This part is for admins")).to_be_visible()

    act(page, "ada", "Edit")
    dialog.get_by_label("Role").select_option("Admin")
    dialog.get_by_role("button", name="Save").click()
    expect(ada.get_by_text("Admin", exact=True)).to_be_visible()
    act(page, "ada", "New sign-in link")
    expect(page.get_by_label("Sign-in link")).not_to_have_value(link)
    act(page, "ada", "Disable")
    answer(page, "Disable")
    expect(ada.get_by_text("Disabled", exact=True)).to_be_visible()
    theirs.reload()
    expect(theirs.get_by_role("button", name="Sign in")).to_be_visible()
    act(page, "ada", "Enable")
    expect(ada.get_by_text("Disabled", exact=True)).not_to_be_visible()
    page.get_by_role("button", name="Actions for admin").click()
    expect(page.get_by_role("menuitem", name="Disable")).to_be_disabled()


def test_a_limit_is_set_refused_changed_and_removed(server: Running, visit: Visit) -> None:
    page = visit(server, "/settings/limits")
    expect(page.get_by_role("heading", name="No limits")).to_be_visible()
    page.get_by_role("button", name="New limit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What is limited").fill("everybody")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("must be such as user:*")).to_be_visible()
    dialog.get_by_label("What is limited").fill("User:*")
    dialog.get_by_label("Jobs at once").fill("3")
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "user:*")).to_contain_text("0 of 3 running")
    page.get_by_role("button", name="Change user:*").click()
    dialog.get_by_label("Jobs at once").fill("1")
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "user:*")).to_contain_text("0 of 1 running")
    assert barriers(page) == []
    page.get_by_role("button", name="Remove user:*").click()
    expect(page.get_by_role("heading", name="No limits")).to_be_visible()


def test_a_profile_is_edited_refused_at_its_fields_and_saved(server: Running, visit: Visit) -> None:
    page = visit(server, "/settings")
    page.get_by_role("link", name="Encoding profiles").click()
    expect(row(page, "default")).to_contain_text("Built-in")
    act(page, "default", "Duplicate")
    drawer = page.get_by_role("dialog", name="New profile")
    assert not barriers(page)
    name, quality = drawer.get_by_label("Name"), drawer.get_by_label("Quality")
    expect(name).to_have_value("default-copy")
    name.fill("Talks & more")
    quality.fill("99")
    drawer.get_by_label("Height of size 1").fill("9999")
    save = drawer.get_by_role("button", name="Save")
    save.click()
    expect(quality).to_have_accessible_description(re.compile("^Must be less than or equal to 51"))
    not_allowed = "This contains characters that are not allowed here."
    expect(name).to_have_accessible_description(not_allowed)
    expect(drawer.get_by_label("Height of size 1")).to_have_accessible_description(
        re.compile("4320")
    )
    name.fill("talks")
    quality.fill("")
    save.click()
    expect(quality).to_have_accessible_description("This field is required.")
    quality.fill("20")
    drawer.get_by_label("Height of size 1").fill("720")
    save.click()
    expect(drawer.get_by_text("Ladder must not name a height twice.")).to_be_visible()
    drawer.get_by_role("button", name="Remove size 1").click()
    drawer.get_by_role("button", name="Move size 1 down").click()
    drawer.get_by_role("button", name="Add a size").click()
    expect(drawer.get_by_label("Height of size 6")).to_be_focused()
    expect(drawer.get_by_label("Height of size 6")).to_have_value("240")
    drawer.get_by_label("AV1").check()
    drawer.get_by_label("Encoding speed").select_option("slow")
    save.click()
    expect(page.get_by_text("Profile “talks” saved.")).to_be_visible()
    with server.client() as admin:
        made = admin.get("/profiles/talks").json()
    assert [each["height"] for each in made["ladder"]] == [1080, 1440, 720, 480, 360, 240]
    assert (made["crf"], made["codecs"], made["preset"]) == (20, ["h264", "av1"], "slow")

    page.get_by_role("button", name="Edit talks").click()
    drawer = page.get_by_role("dialog", name="Profile “talks”")
    drawer.get_by_label("Quality").fill("28")
    page.go_back()
    expect(page.get_by_role("heading", name="Leave without saving?")).to_be_visible()
    answer(page, "Keep editing")
    expect(drawer.get_by_label("Quality")).to_have_value("28")
    drawer.get_by_role("button", name="Cancel").click()
    answer(page, "Leave")
    expect(drawer).not_to_be_visible()
    act(page, "talks", "Delete")
    answer(page, "Delete")
    expect(row(page, "talks")).not_to_be_visible()
    page.get_by_role("button", name="Actions for default").click()
    expect(page.get_by_role("menuitem", name="Reset")).to_be_disabled()


def test_a_transcription_profile_is_made_with_the_keyboard_refused_and_changed(
    server: Running, visit: Visit
) -> None:
    page = visit(server, "/settings/transcription")
    expect(page.get_by_role("heading", name="No transcription profiles yet")).to_be_visible()
    page.get_by_role("button", name="New profile").press("Enter")
    drawer = page.get_by_role("dialog", name="New transcription profile")
    name = drawer.get_by_label("Name", exact=True)
    expect(name).to_be_focused()
    page.keyboard.press("Enter")
    expect(name).to_have_accessible_description("This field is required.")
    page.keyboard.type("Team talks")
    drawer.get_by_label("Speakers", exact=True).select_option("range")
    drawer.get_by_label("At least").fill("4")
    drawer.get_by_label("At most").fill("2")
    save = drawer.get_by_role("button", name="Save")
    save.click()
    expect(drawer.get_by_label("At most")).to_have_accessible_description(
        "This must not be less than the minimum."
    )
    drawer.get_by_label("At most").fill("99")
    drawer.get_by_label("What it is about").fill("x" * 1001)
    drawer.get_by_label("Names and terms").fill("Ada\n" + "y" * 101)
    drawer.get_by_label("Audio track").fill("0")
    save.click()
    for label, said in (
        ("Name", "This contains characters that are not allowed here."),
        ("At most", "Must be less than or equal to 50."),
        ("What it is about", "Must have at most 1000 characters."),
        ("Names and terms", "Term 2: Must have at most 100 characters."),
        ("Audio track", "Must be greater than or equal to 1."),
    ):
        field = drawer.get_by_label(label, exact=True)
        expect(field).to_have_accessible_description(said)
    expect(name).to_be_focused()
    assert not barriers(page)
    name.fill("team-talks")
    drawer.get_by_label("At most").fill("6")
    drawer.get_by_label("What it is about").fill("The weekly meeting.")
    drawer.get_by_label("Names and terms").fill("Ada\nGrace")
    drawer.get_by_label("Audio track").fill("")
    drawer.get_by_label("Language", exact=True).select_option("de")
    save.press("Enter")
    expect(page.get_by_text("Transcription profile “team-talks” saved.")).to_be_visible()
    summary = "German · 4 to 6 speakers · with a prompt · 2 terms"
    expect(row(page, "team-talks")).to_contain_text(summary)
    expect(page.get_by_text("Name one “default”")).to_be_visible()
    with server.client() as admin:
        made = admin.get("/transcription-profiles/team-talks").json()
        given = {"language": "de", "diarize": True, "min_speakers": 4, "max_speakers": 6}
        assert given.items() <= made.items()
        assert (made["prompt"], made["vocabulary"]) == ("The weekly meeting.", ["Ada", "Grace"])
        assert made["model"] is made["speakers"] is made["track"] is made["task"] is None

        act(page, "team-talks", "Duplicate")
        drawer = page.get_by_role("dialog", name="New transcription profile")
        drawer.get_by_label("Name", exact=True).fill("team-talks")
        drawer.get_by_role("button", name="Save").click()
        expect(drawer.get_by_role("alert")).to_contain_text("already")
        drawer.get_by_label("Name", exact=True).fill("default")
        drawer.get_by_role("button", name="Save").click()
        expect(row(page, "default").get_by_text("Default", exact=True)).to_be_visible()

        page.get_by_role("button", name="Edit team-talks").click()
        drawer = page.get_by_role("dialog", name="Transcription profile “team-talks”")
        drawer.get_by_label("Speakers", exact=True).select_option("none")
        drawer.get_by_label("Translate into English").check()
        drawer.get_by_role("button", name="Save").click()
        expect(row(page, "team-talks")).to_contain_text("into English · speakers not told apart")
        made = admin.get("/transcription-profiles/team-talks").json()
        assert (made["diarize"], made["min_speakers"], made["task"]) == (False, None, "translate")
        act(page, "default", "Delete")
        answer(page, "Delete")
        expect(row(page, "default")).not_to_be_visible()
        listed = admin.get("/transcription-profiles").json()["items"]
    assert [each["name"] for each in listed] == ["team-talks"]


def test_a_webhook_whose_receiver_keeps_failing_says_so(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        made = admin.post(
            "/webhooks", json={"url": "http://127.0.0.1:1/hook", "types": ["media.*"]}
        )
    webhook_id = made.json()["id"]

    def fail(tx: Tx) -> None:
        webhook_store.note_failure(tx, webhook_id)
        webhook_store.rest(tx, webhook_id, 60_000)

    server.rushes.db.run(fail)
    page = visit(server, "/settings/webhooks")
    expect(page.get_by_text("Failing", exact=True)).to_be_visible()
    expect(page.get_by_text("Its receiver started failing")).to_be_visible()
    assert not barriers(page)


def test_a_webhook_is_added_tested_and_its_log_follows(server: Running, visit: Visit) -> None:
    with receivers.receiver(500) as receiver:
        page = visit(server, "/settings/webhooks")
        page.get_by_role("button", name="New webhook").click()
        drawer = page.get_by_role("dialog", name="New webhook")
        drawer.get_by_label("Address").fill("ftp://nowhere")
        drawer.get_by_label("Only what I choose").check()
        assert not barriers(page)
        drawer.get_by_label("All of Encoding").check()
        expect(drawer.get_by_label("transcode.failed")).to_be_disabled()
        drawer.get_by_role("button", name="Add webhook").click()
        expect(drawer.get_by_label("Address")).to_have_accessible_description(
            re.compile("^Must be an http or https URL")
        )
        drawer.get_by_label("Address").fill(receiver.url)
        drawer.get_by_role("button", name="Add webhook").click()
        expect(page.get_by_label("Secret", exact=True)).to_have_value(re.compile("^whsec_"))
        page.get_by_role("button", name="Done").click()
        hook = page.get_by_role("list", name="Webhooks").get_by_role("listitem").first
        # Kinds of one's own are among them.
        for chosen in ("media.ready", "transcode.*, transcription.failed, trim.failed"):
            expect(hook).to_contain_text(chosen)

        page.get_by_role("button", name=f"Send a test to {receiver.url}").click()
        log = page.get_by_role("list", name=f"Log of {receiver.url}")
        expect(log).to_contain_text("Responded with 500")
        expect(log).to_contain_text("tried once")
        receiver.respond = lambda request: receivers.answer(request, 204)
        page.get_by_role("button", name=f"Send a test to {receiver.url}").click()
        expect(log.get_by_role("listitem")).to_have_count(2)
        newest = log.get_by_role("listitem").first
        expect(newest).to_contain_text("Delivered")
        newest.get_by_role("button", name="Message").click()
        expect(newest).to_contain_text("This is a test from Rushes.")
        newest.get_by_role("button", name="Send again: webhook.test").click()
        expect(newest).to_contain_text("tried 2 times")
        assert not barriers(page)

        act(page, receiver.url, "New secret")
        page.get_by_role("dialog").get_by_role("button", name="Create a new secret").click()
        expect(page.get_by_label("Secret", exact=True)).to_have_value(re.compile("^whsec_"))
        act(page, receiver.url, "Turn off")
        expect(hook.get_by_text("Off", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("^Send a test"))).to_be_disabled()
        act(page, receiver.url, "Delete")
        answer(page, "Delete")
        expect(page.get_by_role("heading", name="No webhooks yet")).to_be_visible()


def test_a_model_is_fetched_with_progress_and_removed(
    hub: Hub, serve: Callable[..., Running], visit: Visit
) -> None:
    server = serve(engine_hub_url=hub.url, engine_model=NAME)
    page = visit(server, "/settings/models")
    toy = row(page, NAME)
    expect(toy).to_contain_text("Default")
    expect(toy).to_contain_text("English")
    expect(row(page, "whisper-base").first).to_contain_text("99 languages")
    hub.content, content = {}, hub.content
    page.get_by_role("button", name=f"Download {NAME}").click()
    expect(toy.get_by_role("alert")).to_contain_text("the hub answers 404")
    hub.content = content
    hub.hold, hub.drop_after = threading.Event(), 1_000_000
    page.get_by_role("button", name=f"Retry {NAME}").click()
    expect(toy.get_by_role("progressbar")).to_be_visible()
    expect(toy).to_contain_text("1.0 MB of 2.0 MB")
    hub.drop_after = None
    hub.hold.set()
    expect(toy).to_contain_text("Installed")
    expect(page.get_by_text(f"“{NAME}” is ready to use.")).to_be_visible()
    page.get_by_role("button", name=f"Remove {NAME}").click()
    answer(page, "Remove")
    expect(toy).to_contain_text("Not installed")


def test_a_model_that_is_not_listed_is_fetched_by_its_name(
    server: Running, visit: Visit, hub: Hub
) -> None:
    page = visit(server, "/settings/models", phone=True)
    name = page.get_by_role("textbox", name="Another model")
    name.press("Enter")
    expect(name).to_have_accessible_description("This field is required.")
    name.fill("a/b/c")
    name.press("Enter")
    expect(name).to_have_accessible_description(re.compile("^There is no such model"))
    assert not barriers(page)
    name.fill("toys/nowhere")
    name.press("Enter")
    expect(about(page, "toys/nowhere").get_by_role("alert")).to_contain_text("download failed")
    expect(name).to_have_value("")
    assert not is_too_wide(page)


def test_health_says_what_is_wrong_and_what_to_do(
    serve: Callable[..., Running], visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(min_free_space=10**9)
    storage = server.rushes.storage
    page = visit(server, "/settings/health")
    check = page.get_by_role("button", name="Check again")
    expect(about(page, "Database")).to_contain_text("SQLite is responding.")
    expect(about(page, "Redis")).to_contain_text("Not used")
    monkeypatch.setattr(storage, "free_bytes", lambda: 5 * 10**8)
    check.click()
    expect(page.get_by_role("heading", name="Something needs your attention")).to_be_visible()
    expect(about(page, "Storage")).to_contain_text("Uploads are refused now.")
    page.goto(f"{server.url}/settings/server")
    search = page.get_by_label("Search settings")
    search.fill("free space")
    expect(row(page, "RUSHES_MIN_FREE_SPACE")).to_contain_text("1 GB")
    expect(page.get_by_role("list", name="All settings").get_by_role("listitem")).to_have_count(1)
    search.fill(MARKUP)
    expect(page.get_by_role("heading", name=f"No setting matches “{MARKUP}”")).to_be_visible()


def test_a_setting_is_changed_while_the_server_runs(
    serve: Callable[..., Running], visit: Visit
) -> None:
    server = serve(webhook_private_targets=True, user_streams=30)
    page = visit(server, "/settings/server")
    expect(row(page, "Event streams per user")).to_contain_text("It is set by the program")
    expect(page.get_by_role("button", name="Change: Event streams per user")).to_have_count(0)

    page.get_by_role("button", name="Change: API tokens per user").click()
    value = page.get_by_role("dialog").get_by_label("Value", exact=True)
    expect(value).to_be_focused()
    value.fill("many")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Must be a whole number from 0 to 1000000")
    assert not barriers(page)
    # Another admin is quicker.
    with server.client() as admin:
        body = {"changes": [{"name": "user_tokens", "value": 7}]}
        assert admin.patch("/settings", json=body).is_success
    value.fill("1")
    answer(page, "Save")
    expect(page.get_by_role("dialog")).to_contain_text("was changed meanwhile by")
    expect(page.get_by_role("dialog")).to_contain_text("Now: 7")
    expect(value).to_have_value("1")
    page.keyboard.press("Escape")
    answer(page, "Keep editing")
    answer(page, "Save")
    expect(page.get_by_text("Saved. API tokens per user: 1")).to_be_visible()
    with server.user() as ada:
        refused = ada.post("/tokens", json={"name": "another", "scopes": ["read"]})
        assert refused.status_code == 429
    limits = page.get_by_role("list", name="Limits", exact=True)
    expect(limits.get_by_role("listitem").filter(has_text="API tokens")).to_contain_text("Changed")
    page.get_by_role("button", name="Change: API tokens per user").click()
    answer(page, "Use the default")
    expect(page.get_by_text("Saved. API tokens per user: 100")).to_be_visible()


def test_the_address_for_alerts_is_set_and_tried(server: Running, visit: Visit) -> None:
    page = visit(server, "/settings/server", phone=True)
    test = page.get_by_role("button", name="Send a test")
    expect(test).to_be_disabled()
    with receivers.receiver() as target:
        page.get_by_role("button", name="Change: Address for alerts").click()
        page.get_by_role("dialog").get_by_label("Value", exact=True).fill(target.url)
        answer(page, "Save")
        expect(row(page, "Address for alerts").first).to_contain_text("hidden")
        test.click()
        log = page.get_by_role("list", name="Messages sent to the address for alerts")
        expect(log).to_contain_text("Delivered")
    assert not is_too_wide(page)
    assert str(target.url) not in page.content()
