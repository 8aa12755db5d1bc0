"""The watch page and the share page: what is known of an item, and everything done with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import ffmpegs
from handlers.transcode.test_playing import film
from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from pages.test_player import reaches, ready, settled
from running import Running
from rushes import kinds
from rushes.kinds import Kind
from web import library

MARKUP = "<img src=x onerror=alert(1)> & <b>bold</b>"

pytestmark = pytest.mark.timeout(180)


def jobs(server: Running, media_id: str, kind: str) -> list[dict[str, Any]]:
    with server.client() as admin:
        found = admin.get("/jobs", params={"media_id": media_id, "kind": kind}).json()["items"]
    return list(found)


def menu(page: Page, name: str, item: str) -> None:
    page.get_by_role("group", name="Actions").get_by_role("button", name=name).click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def test_share_trim_and_encode_again(
    serve: Callable[..., Running], tmp_path: Path, visit: Visit
) -> None:
    server = serve(transcodes=True)
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")
    media_id = ready(server, film(tmp_path / "film.mp4", 20, "640x360", *codec), title=MARKUP)
    library.transcribe(server, media_id, "In the <i>first</i> second.", "In the second one.")
    with server.client() as admin:
        admin.post("/queue/pause", json={"kind": "*"})
    page = visit(server, f"/watch/{media_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text(MARKUP)
    expect(page).to_have_title(f"{MARKUP} – Rushes")
    _share(server, page, visit)
    _trim(server, page, media_id)
    _encode_again(server, page, media_id)


def _share(server: Running, page: Page, visit: Visit) -> None:
    page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share")
    dialog.get_by_role("button", name="Create a link").click()
    link = dialog.get_by_label("Link").input_value()
    stranger = visit(server, link.removeprefix(server.url), link="")
    expect(stranger.get_by_role("heading", level=1)).to_have_text(MARKUP)
    expect(stranger).to_have_title(MARKUP)
    expect(stranger.get_by_role("navigation")).to_have_count(0)
    stranger.get_by_text("In the second one").click()
    reaches(stranger, 1.3)
    stranger.keyboard.press("c")
    expect(stranger.get_by_text("In the <i>first</i> second.")).to_be_visible()
    assert barriers(stranger) == []
    dialog.get_by_role("button", name="Turn off").click()
    expect(dialog.get_by_role("button", name="Create a link")).to_be_visible()
    page.keyboard.press("Escape")
    stranger.reload()
    expect(stranger.get_by_role("heading", name="This link does not work")).to_be_visible()


def _trim(server: Running, page: Page, media_id: str) -> None:
    page.wait_for_function("() => document.querySelector('video')?.duration > 19")
    menu(page, "Edit", "Trim")
    bar = page.get_by_role("region", name="Trim")
    expect(bar.get_by_role("button", name="Trim", exact=True)).to_be_disabled()
    page.get_by_role("slider", name="Seek").focus()
    page.keyboard.press("ArrowRight")
    settled(page, 5)
    page.keyboard.press("i")
    expect(bar.get_by_label("Starts")).to_have_value("0:05.0")
    bar.get_by_label("Ends").fill("0:12.5")
    page.keyboard.press("Enter")
    expect(bar.get_by_text("Keeps 0:07.5 of 0:20.0")).to_be_visible()
    page.get_by_role("slider", name="Start of the part").press("ArrowRight")
    expect(bar.get_by_label("Starts")).to_have_value("0:05.1")
    assert barriers(page) == []
    bar.get_by_role("button", name="Trim", exact=True).click()
    expect(bar).to_have_count(0)
    work = page.get_by_role("region", name="In progress")
    expect(work.get_by_text("The queue is paused.")).to_be_visible()
    [job] = jobs(server, media_id, "trim")
    assert job["args"]["edit"]["start"] == pytest.approx(5.1)
    assert job["args"]["edit"]["end"] == pytest.approx(12.5)
    menu(page, "Edit", "Trim")
    expect(page.get_by_text("A new version is already being made")).to_be_visible()
    work.get_by_role("button", name="Cancel").click()
    expect(work).to_have_count(0)


def _encode_again(server: Running, page: Page, media_id: str) -> None:
    menu(page, "More actions", "Encode again")
    dialog = page.get_by_role("dialog", name="Encode again")
    dialog.get_by_label("360p").uncheck()
    dialog.get_by_label("Transcribe again afterwards").check()
    dialog.get_by_role("button", name="Encode again").click()
    expect(dialog).to_have_count(0)
    job = jobs(server, media_id, "transcode")[0]
    assert job["args"]["qualities"] == ["180p"]
    assert job["args"]["drop_transcript"] is True
    menu(page, "More actions", "Transcribe again")
    dialog = page.get_by_role("dialog", name="Transcribe again")
    dialog.get_by_label("Language").select_option("de")
    dialog.get_by_label("Speakers", exact=True).select_option("number")
    dialog.get_by_label("Number of speakers").fill("3")
    dialog.get_by_label("Names and terms").fill("Ada\nGrace")
    assert barriers(page) == []
    dialog.get_by_role("button", name="Transcribe again").click()
    expect(dialog).to_have_count(0)
    [job] = jobs(server, media_id, "transcribe")
    options = {"language": "de", "diarize": True, "speakers": 3, "vocabulary": ["Ada", "Grace"]}
    assert {name: job["args"][name] for name in options} == options
    with server.client() as admin:
        profile = {"name": "talks", "language": "fr", "prompt": "A talk.", "task": "translate"}
        assert admin.post("/transcription-profiles", json=profile).status_code == 201
    menu(page, "More actions", "Transcribe again")
    dialog.get_by_label("Transcription profile").select_option("talks")
    expect(dialog.get_by_label("Translate into English")).to_be_checked()
    expect(dialog.get_by_label("Language")).to_have_value("")
    dialog.get_by_label("Speakers", exact=True).select_option("find")
    assert barriers(page) == []
    dialog.get_by_role("button", name="Transcribe again").click()
    expect(dialog).to_have_count(0)
    job = jobs(server, media_id, "transcribe")[0]
    assert {name: job["args"][name] for name in ("language", "prompt", "task", "diarize")} == {
        **{name: profile[name] for name in ("language", "prompt", "task")},
        "diarize": True,
    }


def test_what_is_going_on_is_told_as_it_happens(
    serve: Callable[..., Running], visit: Visit
) -> None:
    server = serve()
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), "Holiday")
    page = visit(server, f"/watch/{media_id}")
    expect(page.get_by_role("heading", name="Waiting to be encoded")).to_be_visible()
    work = page.get_by_role("region", name="In progress")
    expect(work.get_by_text("No worker is online that can do transcode")).to_be_visible()
    assert barriers(page) == []
    held = library.claim(server, "transcode")
    rungs = [
        {"name": name, "status": "in_progress", "segments_total": 4, "segments_completed": done}
        for name, done in (("720p", 1), ("360p", 3))
    ]
    early = {"code": "sound_before_picture", "message": "2.0 s of <b>sound are left out"}
    told = {"renditions": rungs, "speed": 2.5, "eta_seconds": 90, "warnings": [early]}
    library.tell(server, held, 0.42, told)
    expect(page.get_by_role("heading", name="Getting the first part ready")).to_be_visible()
    expect(work.get_by_text("42 %")).to_be_visible()
    expect(work.get_by_text("2 min left")).to_be_visible()
    bar = work.get_by_role("progressbar", name="360p: progress")
    expect(bar).to_have_attribute("aria-valuenow", "75")
    page.reload()
    warnings = page.get_by_role("list", name="Good to know")
    expect(warnings.get_by_text("2.0 s of <b>sound are left out")).to_be_visible()
    assert barriers(page) == []
    server.rushes.dispatch.fail(held, "permanent", "corrupt", "the file is <b>damaged</b>")
    expect(page.get_by_role("heading", name="This could not be encoded")).to_be_visible()
    expect(page.get_by_text("The file is <b>damaged")).to_be_visible()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", name="Waiting to be encoded")).to_be_visible()
    _rename(server, page, media_id)
    _delete(server, page, visit)


def _rename(server: Running, page: Page, media_id: str) -> None:
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title", exact=True).fill("x" * 300)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("x" * 300)
    with server.client() as admin:
        assert admin.get(f"/media/{media_id}").json()["title"] == "x" * 300
        admin.patch(f"/media/{media_id}", json={"title": MARKUP})
    expect(page.get_by_role("heading", level=1)).to_have_text(MARKUP)
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title", exact=True).fill("never mind")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text(MARKUP)


def _delete(server: Running, page: Page, visit: Visit) -> None:
    """With a way back; and somebody else sees that it is gone."""
    address = page.url
    menu(page, "More actions", "Delete")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    expect(page).to_have_url(f"{server.url}/")
    page.get_by_role("button", name="Undo").click()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text(MARKUP)
    media_id = address.rpartition("/")[2]
    with server.client() as admin:
        assert admin.delete(f"/media/{media_id}").status_code == 204
    expect(page.get_by_role("heading", name="This is no longer here")).to_be_visible()


def test_on_a_phone_everything_fits(
    serve: Callable[..., Running], tmp_path: Path, visit: Visit
) -> None:
    server = serve(transcodes=True)
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")
    media_id = ready(server, film(tmp_path / "film.mp4", 30, "640x360", *codec), title="y" * 300)
    library.transcribe(server, media_id, "One.", "Two.")
    page = visit(server, f"/watch/{media_id}", phone=True, dark=True)
    video = page.locator("video")
    expect(video).to_be_visible()
    page.wait_for_function("() => document.querySelector('video')?.readyState >= 2")
    assert not is_too_wide(page)
    box = video.bounding_box()
    assert box
    middle, right = box["x"] + box["width"] / 2, box["x"] + box["width"] * 0.85
    height = box["y"] + box["height"] / 3
    page.touchscreen.tap(middle, height)
    reaches(page, 0.3)
    page.touchscreen.tap(right, height)
    page.touchscreen.tap(right, height)
    reaches(page, 10)
    page.touchscreen.tap(middle, height)
    page.get_by_role("button", name="Playback settings").tap()
    expect(page.get_by_role("menu")).to_be_in_viewport(ratio=0.9)
    assert barriers(page) == []


def test_work_of_ones_own_kind_is_started_seen_and_downloaded(
    server: Running, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Kind(name="summarize", label="Summary", output="summary")
    monkeypatch.setitem(kinds._declared, kind.name, kind)
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), title="Harbour")
    page = visit(server, f"/watch/{media_id}")
    menu(page, "More", "Run: Summary")
    work = page.get_by_role("region", name="In progress")
    expect(work.get_by_role("link", name="Summary")).to_be_visible()
    held = library.claim(server, "summarize")
    library.put(server, held, {"summary.md": b"# Summary\n"})
    library.finish(server, held)
    made = page.get_by_role("region", name="Made from this")
    expect(made).to_contain_text("Summary")
    with page.expect_download() as download:
        made.get_by_role("link", name="summary.md").click()
    assert download.value.path().read_bytes() == b"# Summary\n"
    assert barriers(page) == []

    menu(page, "More", "Run: Summary")
    expect(work.get_by_role("link", name="Summary")).to_be_visible()
    held = library.claim(server, "summarize")
    server.rushes.dispatch.fail(held, "permanent", "no_words", "nothing was said")
    expect(made).to_contain_text("Nothing was said")
    expect(made.get_by_role("link", name="summary.md")).to_be_visible()
    page.goto(f"{server.url}/")
    page.get_by_role("button", name="Summary failed").click()
    expect(page.get_by_role("button", name="Summary failed")).to_have_count(0)
    assert [each["state"] for each in jobs(server, media_id, "summarize")] == [
        "queued",
        "failed",
        "completed",
    ]


def test_sound_has_its_speakers_and_chapters_beside_it(
    serve: Callable[..., Running], tmp_path: Path, visit: Visit
) -> None:
    server = serve(transcodes=True)
    about = tmp_path / "chapters.txt"
    about.write_text(";FFMETADATA1\n" + _chapter(0, 4, "Hello") + _chapter(4, 12, "<b>Goodbye"))
    plain = film(tmp_path / "plain.m4a", 12, "64x64", "-vn", "-c:a", "aac")
    sound = tmp_path / "sound.m4a"
    argv = [ffmpegs.known(), "-v", "error", "-i", str(plain), "-i", str(about), "-map", "0:a"]
    subprocess.run([*argv, "-map_metadata", "1", "-c", "copy", sound], check=True, timeout=60)
    media_id = ready(server, sound)
    order = ("SPEAKER_00", "SPEAKER_00", "SPEAKER_00", "SPEAKER_01")
    library.transcribe(server, media_id, "One.", "Two.", "Three.", "Four.", speakers=order)
    with server.client() as admin:
        names = {"names": {"SPEAKER_00": "Ada"}}
        assert admin.put(f"/media/{media_id}/transcript/speakers", json=names).is_success
    for phone in (False, True):
        page = visit(server, f"/watch/{media_id}", phone=phone, dark=phone)
        speaking = page.get_by_role("region", name="Speaking time")
        expect(speaking.get_by_role("button")).to_have_text(
            ["Ada 75 % · 3 s", "Speaker 2 25 % · 1 s"]
        )
        speaking.get_by_role("button").nth(1).click()
        settled(page, 3)
        chapters = page.get_by_role("region", name="Chapters")
        chapters.get_by_role("button", name="Play from 0:04: <b>Goodbye").click()
        settled(page, 4)
        expect(chapters.locator("[aria-current]")).to_contain_text("<b>Goodbye")
        assert barriers(page) == []
        assert not is_too_wide(page)


def _chapter(start: int, end: int, title: str) -> str:
    return f"[CHAPTER]\nTIMEBASE=1/1\nSTART={start}\nEND={end}\ntitle={title}\n"
