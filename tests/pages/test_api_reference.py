"""The API reference, as somebody finds their way around in it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from running import Running


def test_a_route_is_found_read_and_tried(server: Running, visit: Visit) -> None:
    page = visit(server, "/")
    page.get_by_role("button", name=re.compile("^Account")).click()
    page.get_by_role("menuitem", name="API reference").click()
    expect(page).to_have_url(f"{server.url}/docs")
    expect(page.get_by_role("heading", name="API reference", level=1)).to_be_visible()
    expect(page.get_by_role("heading", name="Webhooks", level=2)).to_be_visible()
    assert not barriers(page)
    page.get_by_label("Find a route").fill("trim")
    expect(page.get_by_role("status").filter(has_text="1 route")).to_be_visible()
    page.get_by_text("Cut off a media's beginning or end").click()
    expect(page).to_have_url(re.compile("#post_media_media_id_trim$"))
    expect(page.get_by_text("Undo all edits instead.")).to_be_visible()
    command = page.get_by_label("curl")
    expect(command).to_contain_text(f"{server.url}/api/v1/media/MEDIA_ID/trim")
    assert not barriers(page)
    page.get_by_label("Find a route").fill("xyzzy")
    expect(page.get_by_text("No route matches")).to_be_visible()


def test_it_opens_at_a_route_also_for_strangers_with_a_phone(server: Running, visit: Visit) -> None:
    page = visit(server, "/docs#get_search", link="", phone=True)
    expect(page.get_by_label("curl")).to_contain_text("/api/v1/search?q=Q")
    expect(page.get_by_text("Search in titles and in what was said")).to_be_in_viewport()
    expect(page.get_by_role("navigation", name="Main")).to_have_count(0)
    assert not barriers(page)
    assert not is_too_wide(page)
