"""The library as people see it: live, searchable, quick with thousands, with a way back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from running import Running
from rushes.db.database import Tx
from rushes.media import library as media_library
from rushes.media.media import NewMedia, ProcessingOptions
from web import library

MARKUP = "<img src=x onerror=alert(1)> & <b>bold</b>"
# The smallest picture that a browser takes for one.
JPEG = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300"
    + "08" * 64
    + "ffc0000b080001000101011100ffc40014000100000000000000000000000000000009"
    + "ffc40014100100000000000000000000000000000000ffda0008010100003f0054df"
    + "ffd9"
)


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("listitem").filter(has=page.get_by_role("link", name=title, exact=True))


def titles(page: Page) -> list[str]:
    return page.locator("a.title").all_inner_texts()


def add_many(running: Running, owner: str, count: int) -> None:
    """Without work, in one transaction."""
    quiet = ProcessingOptions(transcode=False, transcribe=False)

    def put(tx: Tx) -> None:
        for number in range(count):
            new = NewMedia(
                user_id=owner,
                title=f"Recording {number:04d}",
                kind="audio" if number % 2 else "video",
                size_bytes=number,
                sha256=hashlib.sha256(str(number).encode()).hexdigest(),
                source_key=f"sources/{number}",
                options=quiet,
            )
            media_library.add(tx, running.rushes.queue, new)

    running.rushes.db.run(put)


def publish(running: Running, media_id: str, duration: float = 61.0) -> None:
    files = {"master.m3u8": b"#EXTM3U\n", "thumbnail.jpg": JPEG}
    library.publish(running, media_id, files, {"duration": duration})


def fail(running: Running, kind: str) -> None:
    running.rushes.dispatch.fail(
        library.claim(running, kind), "permanent", "corrupt", "the file is damaged"
    )


def test_what_changes_before_the_stream_is_open_is_seen(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), "Before")
        page = visit(server, "/docs")
        held: list[Route] = []
        page.route("**/api/v1/events", lambda route: held.append(route))
        with page.expect_request("**/api/v1/events"):
            page.goto(server.url)
        expect(card(page, "Before")).to_be_visible()
        assert admin.patch(f"/media/{media_id}", json={"title": "After"}).is_success
        held[-1].continue_()
        expect(card(page, "After")).to_be_visible()


def test_what_happens_is_seen_as_it_happens(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
        page = visit(server)
        expect(page.get_by_text("Drop your recordings here")).to_be_visible()
        expect(page.get_by_text("rushes upload recording.mp4 --wait")).to_be_visible()
        assert barriers(page) == []

        # New ones come to the top, with what they are doing.
        first = library.add(server, owner, MARKUP)
        old = card(page, MARKUP)
        expect(old.get_by_text("Waiting to be encoded…")).to_be_visible()
        expect(old.get_by_text("Pending transcription…")).to_be_visible()
        second = library.add(server, owner, "Second")
        expect(page.locator("a.title").first).to_have_text("Second")
        assert titles(page) == ["Second", MARKUP]
        expect(page.locator("a.title img, a.title b")).to_have_count(0)

        held = library.claim(server, "transcode")
        renditions = [{"name": "720p", "status": "in_progress", "progress": 0.42}]
        library.tell(server, held, 0.42, {"renditions": renditions, "speed": 3.1})
        expect(old.get_by_text(re.compile(r"^Encoding 720p 42 % · 3\.1×"))).to_be_visible()
        library.put(server, held, {"master.m3u8": b"#EXTM3U\n", "thumbnail.jpg": JPEG})
        library.finish(server, held, {"duration": 61})
        expect(old.locator("img.whole")).to_have_js_property("complete", True)
        expect(old.get_by_text("Encoding")).to_have_count(0)

        # What failed can be tried again where it is seen.
        fail(server, "transcribe")
        retry = old.get_by_role("button", name="Retry transcript")
        retry.click()
        expect(old.get_by_text("Pending transcription…")).to_be_visible()
        fail(server, "transcode")
        new = card(page, "Second")
        new.get_by_role("button", name=re.compile("Could not be encoded")).click()
        expect(new.get_by_text("Waiting to be encoded…")).to_be_visible()

        admin.patch(f"/media/{second}", json={"title": "Renamed elsewhere"})
        expect(page.get_by_role("link", name="Renamed elsewhere")).to_be_visible()
        admin.delete(f"/media/{first}")
        expect(page.locator("a.title")).to_have_count(1)


def test_what_is_wrong_with_a_recording_is_said_once(server: Running, visit: Visit) -> None:
    reason = "the file is damaged: its streams cannot be read"
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), "Torn")
    for kind in ("transcribe", "transcode"):
        held = library.claim(server, kind)
        server.rushes.dispatch.fail(held, "permanent", "damaged", reason)
    page = visit(server)
    torn = card(page, "Torn")
    expect(torn.get_by_text("The file is damaged")).to_have_count(1)
    expect(torn.get_by_role("button", name=re.compile("Retry|again|encoded"))).to_have_count(0)
    page.goto(f"{server.url}/watch/{media_id}")
    expect(page.get_by_text(re.compile("the file is damaged", re.I))).to_have_count(1)
    expect(page.get_by_role("heading", name="It could not be transcribed")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Retry"))).to_have_count(0)


def test_the_length_is_known_before_there_is_anything_to_play(
    server: Running, visit: Visit
) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), "Long")
    library.publish(server, media_id, {"master.m3u8": b"#EXTM3U\n"}, {"duration": 173.0})
    page = visit(server, "/queue")
    page.route("**/stream/**", lambda route: None)
    page.goto(f"{server.url}/watch/{media_id}")
    expect(page.locator(".time")).to_have_text("0:00 / 2:53")
    page.unroute_all(behavior="ignoreErrors")


def test_filters_and_orders_are_in_the_address(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
        for title, size in (("Banana", 3), ("apple", 9), ("Cherry", 5)):
            library.add(server, owner, title, b"x" * size)
        publish(server, admin.get("/media?q=Banana").json()["items"][0]["id"], duration=5)
        fail(server, "transcode")
        page = visit(server)
        expect(page.locator("a.title")).to_have_text(["Cherry", "apple", "Banana"])

        page.get_by_label("Sort by").select_option("title")
        expect(page.locator("a.title")).to_have_text(["apple", "Banana", "Cherry"])
        page.get_by_label("Sort by").select_option("largest")
        expect(page.locator("a.title")).to_have_text(["apple", "Cherry", "Banana"])
        page.get_by_role("button", name="Failed").click()
        expect(page.locator("a.title")).to_have_text(["apple"])
        expect(page).to_have_url(re.compile(r"\?sort=largest&status=failed$"))
        page.reload()
        expect(page.locator("a.title")).to_have_text(["apple"])
        page.get_by_role("button", name="Ready").click()
        expect(page.locator("a.title")).to_have_text(["Banana"])
        page.get_by_role("button", name="In progress").click()
        # What is ready may still be transcribed.
        expect(page.locator("a.title")).to_have_text(["apple", "Cherry", "Banana"])
        page.get_by_label("Kind").select_option("audio")
        expect(page.get_by_text("No recording matches these filters.")).to_be_visible()
        page.get_by_role("button", name="Show everything").click()
        expect(page.locator("a.title")).to_have_count(3)


def test_words_and_titles_are_found_while_they_are_typed(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
        talk = library.add(server, owner, "A talk 😀")
        library.transcribe(server, talk, "nothing here", "😀 the quick brown fox", MARKUP)
        library.add(server, owner, "Foxes at night")
        page = visit(server)
        expect(page.locator("a.title")).to_have_count(2)
        page.keyboard.press("/")
        page.keyboard.type("fox", delay=20)
        moment = page.get_by_role("link", name=re.compile("quick brown fox"))
        expect(moment.locator("mark")).to_have_text("fox")
        expect(page.get_by_role("link", name="Foxes at night")).to_be_visible()
        expect(page).to_have_url(re.compile(r"\?q=fox$"))
        assert barriers(page) == []

        page.keyboard.press("Escape")
        expect(page.locator("a.title")).to_have_count(2)
        page.keyboard.type("bold")
        expect(page.get_by_role("link", name="<b>bold</b>")).to_be_visible()
        page.keyboard.press("Control+a")
        page.keyboard.type("zebra")
        expect(page.get_by_text("Nothing found for “zebra”")).to_be_visible()

        page.keyboard.press("Control+a")
        page.keyboard.type("bronw")
        expect(page.get_by_text("Showing results for “brown”")).to_be_visible()
        expect(moment.locator("mark")).to_have_text("brown")
        assert barriers(page) == []
        page.keyboard.press("Control+a")
        page.keyboard.type("brown")
        expect(page.get_by_text("Showing results for")).to_have_count(0)
        expect(moment).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(rf"/watch/{talk}\?t=1$"))
        page.go_back()
        expect(page.get_by_label("Search titles and spoken words")).to_have_value("brown")
        expect(moment).to_be_visible()


def test_many_are_chosen_deleted_and_taken_back(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
        for number in range(6):
            library.add(server, owner, f"Item {number}")
        page = visit(server)
        other = visit(server)
        expect(page.locator("a.title")).to_have_count(6)

        # By mouse: a range, and undo.
        page.get_by_role("checkbox", name="Select “Item 5”").click(force=True)
        page.get_by_role("link", name="Item 3", exact=True).click(modifiers=["Shift"])
        expect(page.get_by_text("3 selected")).to_be_visible()
        expect(page.get_by_role("checkbox", checked=True)).to_have_count(3)
        page.get_by_role("button", name="Delete", exact=True).click()
        asked = page.get_by_role("dialog", name="Move 3 recordings to the trash?")
        asked.get_by_role("button", name="Cancel").click()
        expect(page.locator("a.title")).to_have_count(6)
        page.get_by_role("button", name="Delete", exact=True).click()
        asked.get_by_role("button", name="Move to trash").click()
        for each in (page, other):
            expect(each.locator("a.title")).to_have_text(["Item 2", "Item 1", "Item 0"])
        page.get_by_role("button", name="Undo").click()
        expect(other.locator("a.title")).to_have_count(6)
        expect(page.locator("a.title")).to_have_count(6)
        assert len(admin.get("/media").json()["items"]) == 6

        # By keys.
        page.get_by_role("link", name="Item 5", exact=True).focus()
        for key in ("ArrowRight", "Space", "ArrowDown", "Space"):
            page.keyboard.press(key)
        expect(page.get_by_text("2 selected")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_text("selected")).to_have_count(0)
        page.keyboard.press("Control+a")
        expect(page.get_by_text("6 selected")).to_be_visible()
        page.get_by_role("button", name="More actions for the selection").click()
        page.get_by_role("menuitem", name="Transcribe again").click()
        expect(page.get_by_text("Transcribing 6 recordings again.")).to_be_visible()
        page.get_by_role("link", name="Item 4", exact=True).focus()
        page.keyboard.press("Delete")
        expect(page.locator("a.title")).to_have_count(5)
        expect(page.get_by_role("link", name="Item 3", exact=True)).to_be_focused()

        # One item's own menu; the other window sees what it does.
        page.get_by_role("button", name="Actions for “Item 0”").click()
        page.get_by_role("menuitem", name="Rename").click()
        page.get_by_label("Title", exact=True).fill("  ")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("This field is required.")).to_be_visible()
        page.get_by_label("Title", exact=True).fill("A better name")
        page.keyboard.press("Enter")
        for each in (page, other):
            expect(each.get_by_role("link", name="A better name")).to_be_visible()
        page.get_by_role("button", name="Actions for “A better name”").click()
        expect(page.get_by_role("menuitem", name="Download original")).to_have_attribute(
            "href", re.compile(r"^/api/v1/media/med_\w+/source$")
        )
        page.get_by_role("menuitem", name="Copy share link").click()
        expect(page.get_by_text("Link copied. Anyone who has it can watch.")).to_be_visible()
        assert admin.get("/media?q=better").json()["items"][0]["share_url"]


def test_thousands_are_as_quick_as_a_few(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        add_many(server, library.user_id(admin), 2000)
    page = visit(server)
    expect(page.get_by_role("link", name="Recording 1999")).to_be_visible()
    assert page.locator("a.title").count() < 60
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_function(
        """() => {
            window.scrollTo(0, document.documentElement.scrollHeight);
            window.most = Math.max(window.most ?? 0, document.querySelectorAll("a.title").length);
            return [...document.querySelectorAll("a.title")].some((each) =>
                each.textContent === "Recording 0000");
        }""",
        polling=30,
    )
    assert page.evaluate("window.most") < 80
    assert len([url for url in asked if "/api/v1/media?" in url]) == 19

    # Whoever comes back finds the place again.
    page.evaluate("window.scrollTo(0, 20000)")
    page.wait_for_function("scrollY === 20000")
    seen = page.locator("a.title").nth(page.locator("a.title").count() // 2)
    title = seen.inner_text()
    seen.click()
    expect(page).to_have_url(re.compile("/watch/"))
    page.go_back()
    expect(page.get_by_role("link", name=title)).to_be_in_viewport()
    assert abs(page.evaluate("scrollY") - 20000) < 300

    page.get_by_role("link", name=title).focus()
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="Recording 0000")).to_be_focused()
    expect(page.get_by_role("link", name="Recording 0000")).to_be_in_viewport()


def test_a_phone_has_all_of_it(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
        library.add(server, owner, "A title without any end " * 12)
        library.add(server, owner, "x" * 300)
    page = visit(server, phone=True)
    expect(page.locator("a.title")).to_have_count(2)
    assert not is_too_wide(page)
    assert barriers(page) == []
    page.get_by_role("button", name="Select", exact=True).click()
    page.locator("a.title").first.click()
    expect(page.get_by_text("1 selected")).to_be_visible()
    assert not is_too_wide(page)
    page.get_by_role("button", name="Stop selecting").click()
    page.get_by_label("Search titles and spoken words").fill("title")
    expect(page.get_by_role("link", name=re.compile("^A title"))).to_be_visible()
    assert not is_too_wide(page)


def test_a_server_that_is_away_is_said_and_asked_again(
    serve: Callable[..., Any], visit: Visit
) -> None:
    running = serve()
    with running.client() as admin:
        library.add(running, library.user_id(admin), "Here")
    page = visit(running, "/settings")
    page.route("**/api/v1/media?*", lambda route: route.abort())
    page.get_by_role("link", name="Library").click()
    expect(page.get_by_text("Your library could not be loaded")).to_be_visible()
    retry = page.get_by_role("button", name="Retry")
    with page.expect_request("**/api/v1/media?*"):
        retry.click()
    expect(retry).to_be_visible()
    page.unroute("**/api/v1/media?*")
    # Unless the page was quicker: it asks by itself when its stream of events opens.
    retry.evaluate_all("found => found.forEach(button => button.click())")
    expect(page.locator("a.title")).to_have_text(["Here"])
