"""From the download menu to a file, with a real server that makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from handlers.transcode.test_playing import film
from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from pages.test_player import ready
from pages.test_watch import menu
from running import Running
from web import library

pytestmark = pytest.mark.timeout(180)


def test_a_clip_is_asked_for_and_downloaded(
    serve: Callable[..., Running], tmp_path: Path, visit: Visit
) -> None:
    server = serve(transcodes=True)
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")
    media_id = ready(server, film(tmp_path / "film.mp4", 8, "160x90", *codec), title="A film")
    library.transcribe(server, media_id, "In the first second.", "In the second one.")
    page = visit(server, f"/watch/{media_id}", phone=True)
    menu(page, "Download", "Video, audio or clip…")
    dialog = page.get_by_role("dialog", name="Export")
    dialog.get_by_label("Burn the captions into the picture").check()
    dialog.get_by_label("Only part of it").check()
    dialog.get_by_role("textbox", name="From").fill("0:05")
    dialog.get_by_role("textbox", name="To").fill("0:04")
    expect(dialog.get_by_text("Must be after the start.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Export")).to_be_disabled()
    dialog.get_by_role("textbox", name="From").fill("0:01.5")
    assert barriers(page) == []
    assert not is_too_wide(page)
    dialog.get_by_role("button", name="Export").click()
    expect(dialog).to_have_count(0)
    made = page.get_by_role("region", name="Exports").get_by_role("link")
    expect(made).to_have_count(1, timeout=60_000)
    with page.expect_download() as download:
        made.click()
    assert download.value.suggested_filename.endswith("_0m01.500s-0m04s_captions.mp4")
    assert download.value.path().read_bytes()[4:8] == b"ftyp"
    assert barriers(page) == []
    assert not is_too_wide(page)
    page.get_by_role("button", name="Delete a-film").click()
    expect(page.get_by_role("region", name="Exports")).to_have_count(0)
