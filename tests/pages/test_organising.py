"""A library put in order on the pages: tags, collections, lists, and going on where one stopped."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from pages.test_library import MARKUP, publish
from running import Running
from rushes.media import library as media_library
from rushes.media.media import NewMedia, Origin, ProcessingOptions
from web import library


def add(server: Running, owner: str, *titles: str) -> list[str]:
    return [library.add(server, owner, title, title.encode()) for title in titles]


def pick(page: Page, label: str, *names: str) -> None:
    """Into a field that takes several."""
    field = page.get_by_label(label, exact=True)
    for name in names:
        field.fill(name)
        field.press("Enter")


def test_many_are_tagged_and_collected_and_found_again(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
        first, second, third = add(server, owner, "One", "Two", "Three")
        page = visit(server)
        expect(page.locator("a.title")).to_have_count(3)
        page.keyboard.press("Control+a")
        page.get_by_label("Select “Three”").uncheck()
        page.get_by_role("button", name="Tag", exact=True).click()
        pick(page, "Add tags", "Summer", "summer", MARKUP)
        assert barriers(page) == []
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("2 recordings changed.")).to_be_visible()
        assert admin.get(f"/media/{first}").json()["tags"] == [MARKUP, "Summer"]

        page.get_by_label("Select “One”").check()
        page.get_by_role("button", name="Collection", exact=True).click()
        pick(page, "Add to collections", "2020/Summer")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("combobox", name="Collection", exact=True)).to_be_visible()
        page.get_by_role("combobox", name="Collection", exact=True).select_option("2020/Summer (1)")
        expect(page.get_by_role("heading", name="2020/Summer")).to_be_visible()
        expect(page.locator("a.title")).to_have_text(["One"])
        # What comes in elsewhere is there at once.
        admin.patch(f"/media/{third}", json={"collections": ["2020/SUMMER"]})
        expect(page.locator("a.title")).to_have_text(["Three", "One"])

        page.get_by_role("button", name="Actions for this collection").click()
        page.get_by_role("menuitem", name="Rename the collection").click()
        page.get_by_label("Name", exact=True).fill("Beach")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="Beach")).to_be_visible()

        # A filter is kept, and found on another device.
        page.get_by_role("button", name="My filters").click()
        page.get_by_role("menuitem", name="Save this filter").click()
        page.get_by_label("Name", exact=True).fill("At the sea")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("The filter is saved.")).to_be_visible()
        phone = visit(server, phone=True)
        phone.get_by_role("button", name="My filters").tap()
        phone.get_by_role("menuitem", name="At the sea").tap()
        expect(phone.get_by_role("heading", name="Beach")).to_be_visible()
        assert not is_too_wide(phone)
        assert barriers(phone) == []

        page.get_by_role("button", name="Actions for this collection").click()
        page.get_by_role("menuitem", name="Remove the collection").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        expect(page.locator("a.title")).to_have_count(3)
        page.get_by_role("combobox", name="Tag", exact=True).select_option("Summer (2)")
        expect(page.locator("a.title")).to_have_text(["Two", "One"])
        expect(page).to_have_url(re.compile(r"\?tag=Summer$"))
        assert second in [each["id"] for each in admin.get("/media?tag=summer").json()["items"]]


def test_the_list_is_remembered_and_programs_stay_apart(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
        [media_id] = add(server, owner, "Mine")
        admin.patch(f"/media/{media_id}", json={"tags": ["holiday"]})
        quiet = ProcessingOptions(transcode=False, transcribe=False)
        new = NewMedia(user_id=owner, title="Asked", options=quiet, origin=Origin.API)
        server.rushes.db.run(lambda tx: media_library.add(tx, server.rushes.queue, new))
        page = visit(server)
        expect(page.locator("a.title")).to_have_text(["Mine"])
        page.get_by_role("button", name="Show as a list").click()
        row = page.get_by_role("listitem").filter(has_text="Mine")
        expect(row.get_by_text("holiday")).to_be_visible()
        box = row.bounding_box()
        assert box is not None
        assert box["height"] < 90 < box["width"]
        assert barriers(page) == []
        page.reload()
        expect(row.get_by_text("holiday")).to_be_visible()
        page.get_by_role("combobox", name="Collection", exact=True).select_option(
            "Made by API calls"
        )
        expect(page.locator("a.title")).to_have_text(["Asked"])
        expect(page).to_have_url(re.compile(r"\?origin=api$"))


def test_details_are_edited_where_it_is_watched(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        [media_id] = add(server, library.user_id(admin), "One")
        page = visit(server, f"/watch/{media_id}")
        page.get_by_role("button", name="Add tags and details").click()
        pick(page, "Tags", "Interview")
        pick(page, "Collections", "Films/2024")
        page.get_by_label("Date recorded").fill("2019-07-01T18:30")
        page.get_by_label("Description").fill(f"{MARKUP}\nSecond line")
        # What was typed and not added counts, too.
        page.get_by_label("Tags", exact=True).fill("late")
        assert barriers(page) == []
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("link", name="Interview")).to_be_visible()
        expect(page.get_by_text("Second line")).to_be_visible()
        expect(page.get_by_text(re.compile("Recorded .*2019"))).to_be_visible()
        said = admin.get(f"/media/{media_id}").json()
        assert said["tags"] == ["Interview", "late"]
        assert said["description"] == f"{MARKUP}\nSecond line"
        page.get_by_role("link", name="Films/2024").click()
        expect(page.get_by_role("heading", name="Films/2024")).to_be_visible()
        expect(page.locator("a.title")).to_have_text(["One"])


def test_who_stopped_goes_on_from_the_library(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        first, second = add(server, library.user_id(admin), "One", "Two")
        publish(server, first, duration=100.0)
        publish(server, second, duration=100.0)
        admin.put(f"/media/{first}/position", json={"seconds": 42})
        admin.put(f"/media/{second}/position", json={"seconds": 99})
        page = visit(server)
        row = page.get_by_role("region", name="Continue watching")
        expect(row.get_by_role("link")).to_have_count(1)
        assert barriers(page) == []
        row.get_by_role("link", name=re.compile("^Continue One 0:42")).click()
        expect(page).to_have_url(re.compile(first))
        page.go_back()
        row.get_by_role("link").hover()
        row.get_by_role("button", name="Remove “One” from this list").click()
        expect(row).to_have_count(0)
        assert admin.get("/watching").json()["items"] == []


def test_what_was_removed_is_not_brought_back_by_an_older_reading(
    server: Running, visit: Visit
) -> None:
    with server.client() as admin:
        [media_id] = add(server, library.user_id(admin), "One")
        publish(server, media_id, duration=100.0)
        admin.put(f"/media/{media_id}/position", json={"seconds": 42})
        page = visit(server)
        row = page.get_by_role("region", name="Continue watching")
        row.get_by_role("link").click()
        expect(page).to_have_url(re.compile(media_id))
        held: list[Route] = []
        address = "**/api/v1/watching*"
        page.route(address, lambda route: route.continue_() if held else held.append(route))
        page.go_back()
        while not held:
            page.evaluate("0")
        answer = held[0].fetch()
        row.get_by_role("link").hover()
        row.get_by_role("button", name="Remove “One” from this list").click()
        expect(row).to_have_count(0)
        # Was read before the removal, and comes after it.
        with page.expect_response(address):
            held[0].fulfill(response=answer)
        page.evaluate("new Promise(requestAnimationFrame)")
        expect(row).to_have_count(0)


def test_the_palette_leads_everywhere(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        [media_id] = add(server, library.user_id(admin), "Foxes at night")
        admin.post("/collections", json={"name": "Field work"})
        page = visit(server, "/queue")
        expect(page.get_by_label("Search titles and spoken words")).to_be_visible()
        expect(page.get_by_role("button", name="Upload", exact=True)).to_be_visible()
        page.keyboard.press("Control+k")
        asked = page.get_by_role("combobox", name="Type a command, a page or a title")
        expect(asked).to_be_focused()
        assert barriers(page) == []
        asked.fill("foxes")
        option = page.get_by_role("option", name=re.compile("Foxes at night Recordings"))
        expect(option).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(media_id))
        page.keyboard.press("Control+k")
        asked.fill("transcribe ag")
        # The page offers it as soon as it knows what it shows.
        again = page.get_by_role("option", name=re.compile("^Transcribe again"))
        expect(again).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Transcribe again")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("Control+k")
        asked.fill("field")
        page.get_by_role("option", name=re.compile("^Field work")).click()
        expect(page.get_by_role("heading", name="Field work")).to_be_visible()
        page.goto(f"{server.url}/settings")
        search = page.get_by_label("Search titles and spoken words")
        expect(search).to_be_visible()
        page.keyboard.press("/")
        expect(search).to_be_focused()
        page.keyboard.type("foxes")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"/\?q=foxes$"))
        page.keyboard.press("Control+k")
        expect(asked).to_be_focused()
        page.keyboard.press("Escape")
        expect(asked).to_have_count(0)
