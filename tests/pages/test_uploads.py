"""Uploads from the page: dropped or chosen, paused, reloaded, cut off, refused."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

from playwright.sync_api import CDPSession, Locator, Page, Request, expect

import ffmpegs
from pages.checks import barriers, is_too_wide
from pages.conftest import Visit
from running import Process, Running

SLOW = 600_000
lines: WeakKeyDictionary[Page, CDPSession] = WeakKeyDictionary()


def film(path: Path, seconds: int = 2, size: str = "320x180") -> Path:
    argv = [
        *(ffmpegs.known(), "-v", "error", "-y", "-f", "lavfi"),
        *("-i", f"testsrc2=s={size}:r=25:d={seconds}", "-f", "lavfi"),
        *("-i", f"sine=440:r=48000:d={seconds}"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"),
        str(path),
    ]
    subprocess.run(argv, check=True, timeout=60)
    return path


def large(folder: Path, name: str, size: int = 2_500_000) -> Path:
    """A film with much behind it, to be sent and not to be seen."""
    path = film(folder / name)
    with path.open("ab") as file:
        file.truncate(size)
    return path


def choose(page: Page, *paths: Path) -> None:
    page.locator("input[type=file]:not([webkitdirectory])").set_input_files(paths)


def drop(page: Page, *paths: Path) -> None:
    files = [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in paths]
    data = page.evaluate_handle(
        """(files) => {
            const data = new DataTransfer();
            for (const [name, content] of files) {
                const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
                data.items.add(new File([bytes], name));
            }
            return data;
        }""",
        files,
    )
    page.dispatch_event("body", "dragenter", {"dataTransfer": data})
    page.dispatch_event("body", "dragover", {"dataTransfer": data})
    expect(page.get_by_text("Drop to upload")).to_be_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": data})
    expect(page.get_by_text("Drop to upload")).to_have_count(0)


def slowly(page: Page, throughput: int = SLOW) -> None:
    """A limit holds for the session that has set it, so that is kept to lift it again."""
    line = lines.get(page) or page.context.new_cdp_session(page)
    lines[page] = line
    line.send("Network.enable")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1}
    line.send("Network.emulateNetworkConditions", {**limits, "uploadThroughput": throughput})


def tray(page: Page) -> Locator:
    return page.get_by_role("region", name="Uploads")


def row(page: Page, name: str) -> Locator:
    return tray(page).get_by_role("listitem").filter(has_text=name)


def offsets(page: Page) -> list[int]:
    """Where each request with bytes has begun, from now on."""
    found: list[int] = []

    def note(request: Request) -> None:
        if request.method == "PATCH" and "/api/v1/uploads/" in request.url:
            found.append(int(request.headers["upload-offset"]))

    page.on("request", note)
    return found


def some_is_there(page: Page, name: str) -> None:
    bar = page.get_by_role("progressbar", name=f"Upload of {name}")
    expect(bar).to_have_attribute("aria-valuenow", re.compile(r"^[2-8]\d$"))


def titles_of(server: Running | Process) -> list[str]:
    with server.client() as admin:
        return [each["title"] for each in admin.get("/media").json()["items"]]


def test_what_is_dropped_can_be_watched(
    serve: Callable[..., Running], visit: Visit, tmp_path: Path
) -> None:
    server = serve(transcodes=True)
    page = visit(server)
    one, two = film(tmp_path / "harbour_at_dawn.mp4"), film(tmp_path / "second.mp4", 3)
    wrong = tmp_path / "notes.pdf"
    wrong.write_bytes(b"%PDF-1.7\n" + b"x" * 9000)
    # The other qualities only once it was seen that it can be watched before.
    server.rushes.pause("transcode")
    drop(page, one, two, wrong)
    expect(row(page, "notes.pdf")).to_contain_text("not a video or audio file.")
    expect(tray(page).get_by_role("heading")).to_have_text("2 uploads complete")
    assert barriers(page) == []

    card = page.get_by_role("listitem").filter(
        has=page.get_by_role("link", name="harbour at dawn", exact=True)
    )
    expect(card).to_be_visible()
    expect(card.get_by_text("Ready to watch · other qualities later")).to_be_visible()
    server.rushes.resume("transcode")
    expect(card.locator("img")).to_have_js_property("naturalWidth", 320, timeout=60_000)
    expect(card.get_by_text("0:02")).to_be_visible()
    ready = row(page, one.name).get_by_role("link", name="Ready to watch")
    expect(ready).to_have_attribute("href", re.compile("^/watch/med_"), timeout=60_000)

    # The same once more, on another page, with other options.
    ready.click()
    expect(page).to_have_url(re.compile("/watch/med_"))
    tray(page).get_by_role("button", name="Clear list").click()
    expect(tray(page)).to_have_count(0)
    page.get_by_role("link", name="Library", exact=True).first.click()
    page.get_by_role("button", name="More ways to upload").click()
    page.get_by_role("menuitem", name="Upload options").click()
    page.get_by_label("Transcribe").uncheck()
    expect(page.get_by_label("Language")).to_be_disabled()
    page.get_by_label("Encoding profile").select_option("default")
    page.keyboard.press("Escape")
    page.goto(f"{server.url}/queue")
    choose(page, one)
    expect(row(page, one.name)).to_contain_text("You already had this file")
    link = row(page, one.name).get_by_role("link").first.get_attribute("href") or ""
    with server.client() as admin:
        media = admin.get(f"/media/{link.rpartition('/')[2]}").json()
    assert media["transcript_status"] == "none"
    assert len(media["duplicate_of"]) == 1
    _offers_what_is_in_the_trash(server, page, one)


def test_a_transcription_profile_is_chosen_for_the_next_uploads(
    serve: Callable[..., Running], visit: Visit, tmp_path: Path
) -> None:
    server = serve()
    with server.client() as admin:
        for name in ("default", "talks"):
            admin.post("/transcription-profiles", json={"name": name, "prompt": f"{name}."})
    page = visit(server, "/")
    page.get_by_role("button", name="More ways to upload").click()
    page.get_by_role("menuitem", name="Upload options").click()
    profile = page.get_by_label("Transcription profile")
    expect(profile.get_by_role("option")).to_have_text(["Default", "talks"])
    expect(page.get_by_label("Language").get_by_role("option").first).to_have_text(
        "As in the profile"
    )
    assert not barriers(page)
    profile.select_option("talks")
    page.keyboard.press("Escape")
    file = tmp_path / "talk.wav"
    file.write_bytes(b"RIFF\0\0\0\0WAVE")
    choose(page, file)
    expect(row(page, file.name)).to_contain_text("Uploaded")
    with server.client() as admin:
        [job] = admin.get("/jobs", params={"kind": "transcribe"}).json()["items"]
    assert job["args"]["prompt"] == "talks."


def _offers_what_is_in_the_trash(server: Running, page: Page, file: Path) -> None:
    with server.client() as admin:
        admin.post("/media/actions", json={"action": "delete", "filter": {}})
        tray(page).get_by_role("button", name="Clear list").click()
        choose(page, file)
        uploaded = row(page, file.name)
        expect(uploaded).to_contain_text("You deleted this file before.")
        uploaded.get_by_role("link").first.click()
        expect(page.get_by_role("link", name="Same file as one in the trash")).to_be_visible()
        uploaded.get_by_role("button", name="Restore").click()
        older = uploaded.get_by_role("link", name="the older one")
        href = older.get_attribute("href") or ""
        assert admin.get(f"/media/{href.rpartition('/')[2]}").status_code == 200


def test_an_upload_is_paused_reloaded_and_goes_on_where_it_was(
    server: Running, visit: Visit, tmp_path: Path
) -> None:
    page = visit(server)
    page.on("dialog", lambda dialog: dialog.accept())
    slowly(page)
    sent = offsets(page)
    path = large(tmp_path, "interview.mp4")
    choose(page, path)
    some_is_there(page, path.name)
    expect(row(page, path.name)).to_contain_text(re.compile(r"% of 2\.5 MB · .*/s"))
    page.get_by_role("button", name=f"Pause {path.name}").click()
    expect(row(page, path.name)).to_contain_text(re.compile(r"Paused at \d\d %"))
    page.get_by_role("button", name=f"Resume {path.name}").click()
    expect(row(page, path.name)).to_contain_text(re.compile(r"% of 2\.5 MB · .*/s"))
    assert sent[0] == 0
    assert sent[-1] > 0

    # Given up, and taken back.
    page.get_by_role("button", name=f"Cancel {path.name}").click()
    expect(tray(page)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    some_is_there(page, path.name)

    page.reload()
    slowly(page, -1)
    left = row(page, path.name)
    expect(left).to_contain_text(re.compile(r"\d+ % is already here. Choose or drop the same file"))
    assert titles_of(server) == []
    # A stranger to it does not change that.
    choose(page, film(tmp_path / "other.mp4"))
    expect(row(page, "other.mp4")).to_contain_text("Uploaded")
    expect(left).to_contain_text("is already here")
    del sent[:]
    choose(page, path)
    expect(left).to_contain_text("Uploaded Open")
    assert len(sent) == 1
    assert sent[0] > 100_000
    assert titles_of(server) == ["interview", "other"]
    page.reload()
    expect(page.get_by_role("link", name="interview")).to_be_visible()
    expect(tray(page)).to_have_count(0)


def test_an_upload_goes_on_by_itself_where_the_browser_lets_it(
    server: Running, visit: Visit, tmp_path: Path
) -> None:
    page = visit(server)
    page.on("dialog", lambda dialog: dialog.accept())
    path = large(tmp_path, "walk.mp4")
    # Files of the browser's own are those it gives a way back to without asking anybody.
    page.evaluate(
        """async (content) => {
            const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
            const root = await navigator.storage.getDirectory();
            const handle = await root.getFileHandle("walk.mp4", { create: true });
            const file = await handle.createWritable();
            await file.write(bytes);
            await file.close();
            DataTransferItem.prototype.getAsFileSystemHandle = async () => handle;
        }""",
        base64.b64encode(path.read_bytes()).decode(),
    )
    slowly(page)
    drop(page, path)
    some_is_there(page, path.name)
    sent = offsets(page)
    page.reload()
    slowly(page, -1)
    expect(row(page, path.name)).to_contain_text("Uploaded Open")
    assert sent[0] > 100_000
    assert titles_of(server) == ["walk"]


def test_an_upload_outlives_the_server(
    process: Callable[..., Process], visit: Visit, tmp_path: Path
) -> None:
    server = process()
    page = visit(server)
    slowly(page)
    sent = offsets(page)
    path = large(tmp_path, "concert.mp4", 6_000_000)
    choose(page, path)
    some_is_there(page, path.name)
    # A server that is killed keeps what it has promised to keep, once a second.
    page.wait_for_function(
        """async () => {
            const key = Object.keys(localStorage).find((each) => each.startsWith("tus::"));
            const url = JSON.parse(localStorage[key]).uploadUrl;
            const headers = { "Tus-Resumable": "1.0.0" };
            const answer = await fetch(url, { method: "HEAD", headers });
            return Number(answer.headers.get("Upload-Offset")) > 0;
        }""",
        polling=100,
    )
    server.kill()
    expect(row(page, path.name)).to_contain_text("Waiting for the connection…")
    slowly(page, -1)
    server.start()
    expect(row(page, path.name)).to_contain_text("Uploaded Open", timeout=40_000)
    assert sent[-1] > 0
    assert titles_of(server) == ["concert"]


def test_three_go_at_once_and_the_rest_wait_on_a_phone(
    server: Running, visit: Visit, tmp_path: Path
) -> None:
    page = visit(server, phone=True)
    folder = tmp_path / "folder" / "inner"
    folder.mkdir(parents=True)
    for number in range(5):
        large(folder, f"part {number} {'x' * 150}.mp4", 400_000)
    (folder / "notes.txt").write_text("not meant")
    slowly(page)
    page.locator("input[webkitdirectory]").set_input_files(tmp_path / "folder")
    expect(page.get_by_text("Skipped 1 file without video or audio.")).to_be_visible()
    expect(tray(page).get_by_text("· waiting")).to_have_count(2)
    assert not is_too_wide(page)
    assert barriers(page) == []
    page.get_by_role("button", name="Pause all").click()
    expect(tray(page).get_by_role("heading")).to_have_text("Uploads are paused")
    slowly(page, -1)
    page.get_by_role("button", name="Resume all").click()
    expect(tray(page).get_by_role("heading")).to_have_text("5 uploads complete")
    assert len(titles_of(server)) == 5


def test_whoever_is_signed_out_hears_of_it_and_goes_on_later(
    server: Running, visit: Visit, tmp_path: Path
) -> None:
    page = visit(server)
    slowly(page)
    path = large(tmp_path, "lecture.mp4")
    choose(page, path)
    some_is_there(page, path.name)
    page.context.clear_cookies()
    page.get_by_role("button", name=f"Pause {path.name}").click()
    page.get_by_role("button", name=f"Resume {path.name}").click()
    expect(page.get_by_text("You are signed out. Sign in again")).to_be_visible()
    expect(page).to_have_url(re.compile("/sign-in"))
