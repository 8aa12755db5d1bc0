"""The workers' page: who works, what an admin says about it, and how another one joins."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from pages import checks
from pages.conftest import Visit
from running import Running
from rushes.jobs.terms import Claimant
from rushes.protocol import Hello, Standing
from web import library

MARKUP = "<img src=x onerror=\"document.title='broken'\">"


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def joined(server: Running, name: str) -> str:
    """A worker with a key, which has said what it can do."""
    with server.client() as admin:
        made = admin.post("/worker/register", json={"name": name}).json()
    said = {"version": "9.9", "host": "attic", "cores": 8}
    hello = Hello(kinds=["demo"], capabilities=["cpu", "gpu", "nvenc"], metadata=said)
    server.rushes.dispatch.hello(made["worker_id"], hello)
    return str(made["worker_id"])


def test_a_worker_is_watched_at_work_and_told_to_stop(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    worker_id = joined(server, f"attic {MARKUP}")
    page = visit(server, "/workers")
    attic = card(page, f"attic {MARKUP}")
    expect(attic).to_contain_text("Idle")
    overview = page.get_by_role("region", name="Overview")
    expect(overview.get_by_role("listitem").filter(has_text="demo")).to_contain_text("1 worker")
    for word in ("demo", "CPU", "GPU", "NVENC", "Rushes 9.9", "8 cores"):
        expect(attic).to_contain_text(word)

    media_id = library.add(server, owner, title="Homecoming")
    library.enqueue(server, owner, media_id=media_id)
    me = Claimant(id=worker_id, name="attic", kinds=("demo",))
    [assignment] = server.rushes.dispatch.claim(me, 1)
    expect(attic).to_contain_text("Working")
    expect(attic.get_by_role("link", name="demo · Homecoming")).to_be_visible()
    expect(attic.get_by_text(re.compile(r"lease (\d+ s|1 min)"))).to_be_visible()
    library.tell(server, assignment.claim, 0.5, {"speed": 4.0})
    expect(attic).to_contain_text("50 % · 4.0×")
    library.finish(server, assignment.claim)
    expect(attic).to_contain_text("Nothing at the moment")
    attic.get_by_text("Recent jobs").click()
    expect(attic.get_by_text("Done")).to_be_visible()

    attic.get_by_role("button", name="Manage").click()
    page.get_by_role("radio", name="Draining").check()
    expect(attic).to_contain_text("Draining")
    page.get_by_role("radio", name="Disabled").check()
    expect(attic).to_contain_text("It gets no jobs until you enable it")
    assert checks.barriers(page) == []
    page.keyboard.press("Escape")
    attic.get_by_role("button", name="Enable").click()
    expect(attic).to_contain_text("Idle")
    page.get_by_role("button", name="Undo").click()
    expect(attic).to_contain_text("Disabled")
    with server.client() as admin:
        admin.post(f"/workers/{worker_id}/enable")
    expect(attic).to_contain_text("Idle")
    assert page.title() == "Workers · Rushes"
    assert checks.barriers(page) == []


def test_how_a_worker_works_is_said_live(server: Running, visit: Visit) -> None:
    worker_id = joined(server, "attic")
    page = visit(server, "/workers")
    attic = card(page, "attic")
    attic.get_by_role("button", name="Manage").click()
    dialog = page.get_by_role("dialog", name="attic")
    dialog.get_by_label("Hours", exact=True).fill("22:00-06:00")
    dialog.get_by_label("Tags").fill(MARKUP)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_contain_text("must be of a-z 0-9 _ . -, 32 characters at most")
    dialog.get_by_label("Tags").fill("studio")
    dialog.get_by_label("When its hours end").select_option("Give them back")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_contain_text("Saved.")
    assert checks.barriers(page) == []
    page.keyboard.press("Escape")
    expect(attic).to_contain_text("Hours: 22:00-06:00 (set here)")
    expect(attic).to_contain_text("tag:studio")

    declined = {"demo": f"its disk is nearly full {MARKUP}"}
    standing = Standing(resting_seconds=3600, declined=declined)
    server.rushes.dispatch.heartbeat(worker_id, [], standing=standing)
    expect(attic).to_contain_text(re.compile(r"Resting until \d+:\d\d"))
    expect(attic).to_contain_text("its disk is nearly full")
    server.rushes.dispatch.hello(worker_id, Hello(kinds=["demo"], protocol="0.9"))
    expect(attic).to_contain_text("Too old: upgrade")
    expect(attic).to_contain_text("too old: it speaks 0.9; upgrade it to 1.0 or newer")
    assert page.title() == "Workers · Rushes"
    assert not checks.is_too_wide(page)
    assert checks.barriers(page) == []


def test_keys_are_added_and_revoked(server: Running, visit: Visit) -> None:
    joined(server, "attic")
    page = visit(server, "/workers")
    card(page, "attic").get_by_role("button", name="Manage").click()
    dialog = page.get_by_role("dialog", name="attic")
    expect(dialog.get_by_role("button", name=re.compile("Revoke the key"))).to_have_count(1)
    dialog.get_by_role("button", name="Add a key").click()
    expect(dialog.get_by_label("The new key. It is shown only once.")).to_have_value(
        re.compile(".")
    )
    expect(dialog.get_by_role("button", name=re.compile("Revoke the key"))).to_have_count(2)
    dialog.get_by_role("button", name=re.compile("Revoke the key")).first.click()
    page.get_by_role("dialog", name="Revoke this key?").get_by_role("button", name="Revoke").click()
    expect(dialog).to_contain_text("The key no longer works.")
    expect(dialog.get_by_role("button", name=re.compile("Revoke the key"))).to_have_count(1)


def test_a_worker_is_invited_from_a_phone_and_joins(server: Running, visit: Visit) -> None:
    page = visit(server, "/workers", phone=True)
    expect(page.get_by_role("heading", name="No workers yet")).to_be_visible()
    page.get_by_role("button", name="Invite a worker").click()
    dialog = page.get_by_role("dialog", name="Invite a worker")
    dialog.get_by_label("Name").fill("attic")
    dialog.get_by_label("Name").press("Enter")
    command = dialog.get_by_label("Run this on the other machine")
    expect(command).to_have_value(re.compile(rf"^rushes worker --server {server.url} --join \S+$"))
    expect(dialog).to_contain_text("It works once, within 1 d.")
    code = command.input_value().split()[-1]
    with server.client(None) as machine:
        made = machine.post("/worker/join", json={"code": code}).json()
    server.rushes.dispatch.hello(made["worker_id"], Hello(kinds=["demo"]))
    expect(dialog).to_contain_text("has joined.")
    dialog.get_by_role("button", name="Close").last.click()
    expect(card(page, "attic")).to_contain_text("Idle")
    assert not checks.is_too_wide(page)
    assert checks.barriers(page) == []


def test_the_page_is_for_admins(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        made = admin.post("/users", json={"name": "ada"}).json()
    page = visit(server, "/workers", link=made["signin_url"])
    expect(page.get_by_role("heading", name="This page is for admins")).to_be_visible()
