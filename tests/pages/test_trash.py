"""The trash as people see it: nothing is lost by a click or a reload, and for ever is asked for."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from running import Running
from web import library


def fill(server: Running, *titles: str) -> list[str]:
    with server.client() as admin:
        owner = library.user_id(admin)
        return [library.add(server, owner, title) for title in titles]


def test_a_reload_after_deleting_loses_nothing(server: Running, visit: Visit) -> None:
    fill(server, "Zoo", "Wedding", "Exam")
    page, other = visit(server), visit(server, "/trash")
    expect(other.get_by_role("heading", name="The trash is empty")).to_be_visible()
    page.get_by_role("link", name="Zoo", exact=True).focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Move to trash").click()
    expect(page.get_by_text("3 recordings are in the trash.")).to_be_visible()
    page.reload()
    page.get_by_role("link", name="Trash", exact=True).click()
    for each in (page, other):
        expect(each.get_by_text("3 recordings · 51 B")).to_be_visible()
        expect(each.get_by_text("30 days left")).to_have_count(3)

    page.get_by_role("button", name="Restore “Wedding”").click()
    expect(page.get_by_text("“Wedding” is back in the library.")).to_be_visible()
    for each in (page, other):
        expect(each.get_by_text("2 recordings · 34 B")).to_be_visible()
    other.get_by_role("button", name="Restore all").click()
    expect(other.get_by_role("heading", name="The trash is empty")).to_be_visible()
    other.goto(server.url)
    expect(other.locator("a.title")).to_have_text(["Exam", "Wedding", "Zoo"])


def test_for_ever_is_asked_for(server: Running, visit: Visit) -> None:
    ids = fill(server, "Zoo", "Wedding", "Exam")
    with server.client() as admin:
        admin.post("/media/actions", json={"action": "delete", "filter": {"ids": ids}})
        page = visit(server, "/trash")
        page.get_by_role("button", name="Delete “Zoo” permanently").click()
        asked = page.get_by_role("dialog", name="Delete “Zoo” permanently?")
        asked.get_by_role("button", name="Cancel").click()
        expect(page.locator("li[data-id]")).to_have_count(3)
        page.get_by_role("button", name="Delete “Zoo” permanently").click()
        asked.get_by_role("button", name="Delete permanently").click()
        expect(page.locator("li[data-id] h2")).to_have_text(["Exam", "Wedding"])

        def be_quicker(route: Route) -> None:
            admin.delete(f"/media/{ids[1]}?permanently=true")
            route.continue_()

        page.route("**/api/v1/media/actions", be_quicker)
        page.get_by_role("button", name="Restore “Wedding”").click()
        expect(page.get_by_text("It is no longer in the trash.")).to_be_visible()
        page.unroute("**/api/v1/media/actions")
        expect(page.locator("li[data-id] h2")).to_have_text(["Exam"])

        page.get_by_role("button", name="Empty trash").click()
        asked = page.get_by_role("dialog", name="Delete 1 recording permanently?")
        asked.get_by_role("button", name="Empty trash").click()
        expect(page.get_by_role("heading", name="The trash is empty")).to_be_visible()
        assert admin.get("/media/trash").json()["items"] == 0


def test_what_was_watched_when_it_was_deleted_is_in_the_trash(
    server: Running, visit: Visit
) -> None:
    [media_id] = fill(server, "Zoo")
    page = visit(server, f"/watch/{media_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Zoo")
    with server.client() as admin:
        admin.delete(f"/media/{media_id}")
        expect(page.get_by_role("heading", name="This is no longer here")).to_be_visible()
        admin.post(f"/media/{media_id}/restore")
        expect(page.get_by_role("heading", level=1)).to_have_text("Zoo")


def test_what_happens_before_the_page_listens_is_not_missed(server: Running, visit: Visit) -> None:
    [media_id] = fill(server, "Zoo")
    page = visit(server, "/")
    held: list[Route] = []
    page.route("**/api/v1/events", lambda route: held.append(route))
    page.goto(f"{server.url}/watch/{media_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Zoo")
    with server.client() as admin:
        admin.delete(f"/media/{media_id}")
    for each in held:
        each.continue_()
    expect(page.get_by_role("heading", name="This is no longer here")).to_be_visible()


def test_the_trash_fits_a_phone_and_everybody(server: Running, visit: Visit) -> None:
    ids = fill(server, "x" * 300, "Wedding")
    with server.client() as admin:
        admin.post("/media/actions", json={"action": "delete", "filter": {"ids": ids}})
    for phone in (False, True):
        page = visit(server, "/trash", phone=phone, dark=phone)
        expect(page.locator("li[data-id]")).to_have_count(2)
        assert not is_too_wide(page)
        assert barriers(page) == []
