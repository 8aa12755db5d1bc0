"""The transcript beside the player: followed, searched, corrected, shared between windows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

import speech
from pages.checks import barriers
from pages.conftest import Visit
from running import Process, Running
from rushes.media import library as media_library
from rushes.media.media import NewMedia, ProcessingOptions
from rushes.transcripts import archive
from rushes.transcripts.transcript import Transcript, TranscriptEngine, TranscriptSegment, Word
from shell import until
from web import library

ENGINE = TranscriptEngine(provider="local", transcription_model="whisper-tiny.en")
SOURCE = "sources/recording"
ADA, BOB = "SPEAKER_00", "SPEAKER_01"
TALK = (
    (ADA, "Good morning everybody."),
    (ADA, "Today we <b>talk</b> about the harbour."),
    (BOB, "The harbour was built in the last century."),
    (ADA, "And the harbour is still there."),
)


def said(*turns: tuple[str | None, str], seconds: float = 5) -> Transcript:
    """So many seconds for each line and one for each word; words of "harbour" are doubtful."""
    segments, words = [], []
    for number, (speaker, text) in enumerate(turns):
        start = number * seconds
        id = f"seg_{number + 1:06d}"
        end = start + seconds
        segments.append(TranscriptSegment(id=id, start=start, end=end, text=text, speaker=speaker))
        each = text.split()
        step = min(1.0, seconds / max(1, len(each)))
        words += [
            Word(
                start=round(start + at * step, 3),
                end=round(start + (at + 0.8) * step, 3),
                word=word,
                speaker=speaker,
                confidence=0.31 if word.startswith("harbour") else 0.95,
            )
            for at, word in enumerate(each)
        ]
    text = " ".join(text for _, text in turns)
    return Transcript(text=text, language="en", segments=segments, words=words, engine=ENGINE)


THE_TALK = said(*TALK)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Nobody works here, so that jobs stay as the tests leave them."""
    place = tmp_path_factory.mktemp("transcript-pages")
    with Running(data_dir=place, transcode_workers=0, transcription_workers=0) as running:
        running.rushes.storage.put(SOURCE, b"the recording itself")
        yield running


@pytest.fixture
def talk(server: Running) -> Callable[..., str]:
    """A media in which this is said; nothing at all when it is None."""

    def make(heard: Transcript | None = THE_TALK, owner: str | None = None, **how: Any) -> str:
        with server.client() as admin:
            owner = owner or library.user_id(admin)
        new = NewMedia(
            user_id=owner,
            title="Harbour",
            file_name="harbour.mov",
            source_key=SOURCE,
            options=ProcessingOptions(transcode=False, **{"transcribe": False, **how}),
        )
        db, queue = server.rushes.db, server.rushes.queue
        media_id = db.run(lambda tx: media_library.add(tx, queue, new))
        if heard is not None:
            hear(server, media_id, heard)
        return media_id

    return make


def hear(server: Running, media_id: str, heard: Transcript) -> None:
    def keep(tx: Any) -> None:
        owner = media_library.found(tx, media_id, None).user_id
        archive.add(tx, media_id=media_id, user_id=owner, job_id=None, transcript=heard)

    server.rushes.db.run(keep)


def texts(server: Running, media_id: str) -> list[str]:
    with server.client() as admin:
        found = admin.get(f"/media/{media_id}/transcript").json()["segments"]
    return [each["text"] for each in found]


def panel(page: Page) -> Locator:
    return page.get_by_role("region", name="Transcript", exact=True)


def segment(page: Page, number: int) -> Locator:
    return panel(page).locator(f"li[data-segment='{number}']")


def word(page: Page, text: str) -> Locator:
    return panel(page).locator("[data-word]", has_text=re.compile(f"^{re.escape(text)}$")).first


def edit(page: Page, number: int) -> Locator:
    segment(page, number).locator("p").dblclick()
    return segment(page, number).get_by_label("Text of this passage")


def choose(page: Page, menu: str, item: str) -> None:
    panel(page).get_by_role("button", name=menu, exact=True).click()
    page.locator("[role^=menuitem]", has_text=item).click()


def test_it_is_followed_word_by_word_and_read_with_the_keyboard(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    page = visit(server, f"/watch/{talk()}")
    now = panel(page).locator("li[aria-current=true]")
    speaking = panel(page).locator(".speaking")
    expect(segment(page, 1)).to_contain_text("Today we <b>talk</b> about the harbour.")
    expect(speaking).to_have_count(0)
    word(page, "built").click()
    expect(speaking).to_have_text("built")
    expect(now).to_contain_text("The harbour was built")
    panel(page).get_by_role("button", name="Play from 0:00").click()
    expect(speaking).to_have_text("Good")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(speaking).to_have_text("The")
    doubtful = word(page, "harbour")
    expect(doubtful).to_have_class(re.compile("unsure"))
    expect(doubtful).to_have_attribute("title", re.compile("31 %"))
    assert barriers(page) == []
    choose(page, "More", "Mark uncertain words")
    expect(doubtful).not_to_have_class(re.compile("unsure"))
    page.reload()
    expect(doubtful).not_to_have_class(re.compile("unsure"))


def test_it_is_in_the_language_that_is_spoken(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    """For screen readers, spelling and hyphens; a page in English is about any language."""
    mixed = said((ADA, "Guten Morgen zusammen."), (BOB, "\u05e9\u05dc\u05d5\u05dd"))
    first, second = mixed.segments
    mixed = replace(mixed, language="de", segments=[first, replace(second, language="he")])
    page = visit(server, f"/watch/{talk(mixed)}")
    german, hebrew = segment(page, 0).locator(".text"), segment(page, 1).locator(".text")
    expect(german).to_have_attribute("lang", "de")
    expect(hebrew).to_have_attribute("lang", "he")
    expect(german).to_have_css("direction", "ltr")
    expect(hebrew).to_have_css("direction", "rtl")
    assert page.evaluate("document.documentElement.lang") == "en"
    expect(edit(page, 1)).to_have_attribute("lang", "he")


def test_words_are_found_and_replaced_as_one_change(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk()
    page = visit(server, f"/watch/{media_id}")
    word(page, "Good").click()
    page.keyboard.press("Control+f")
    field = panel(page).get_by_role("searchbox", name="Find in the transcript")
    expect(field).to_be_focused()
    field.fill("HARBOUR")
    count = panel(page).get_by_role("search").get_by_role("status")
    expect(count).to_have_text("1 of 3")
    expect(panel(page).locator("mark")).to_have_count(3)
    field.press("Enter")
    expect(count).to_have_text("2 of 3")
    expect(segment(page, 2).locator("mark.current")).to_have_text("harbour")
    field.press("Shift+Enter")
    field.press("Shift+Enter")
    expect(count).to_have_text("3 of 3")
    panel(page).get_by_role("button", name="Replace", exact=True).click()
    panel(page).get_by_label("Replace with").fill("<i>port</i>")
    panel(page).get_by_role("button", name="Replace all 3").click()
    expect(segment(page, 3)).to_contain_text("And the <i>port</i> is still there.")
    assert sum("<i>port</i>" in each for each in texts(server, media_id)) == 3
    panel(page).get_by_role("button", name="Undo the last change").click()
    expect(segment(page, 3)).to_contain_text("And the harbour is still there.")
    assert texts(server, media_id) == [text for _, text in TALK]
    panel(page).get_by_role("button", name="Redo the last change").click()
    expect(segment(page, 3)).to_contain_text("<i>port</i>")
    field.press("Escape")
    expect(field).to_have_count(0)


def test_speakers_are_renamed_everywhere_and_told_apart_better(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk()
    page = visit(server, f"/watch/{media_id}")
    other = visit(server, f"/watch/{media_id}")
    chips = panel(other).locator(".chip")
    expect(chips).to_have_text(["Speaker 1", "Speaker 2", "Speaker 1"])
    panel(page).get_by_role("button", name="Speaker 1").first.click()
    dialog = page.get_by_role("dialog")
    assert barriers(page) == []
    dialog.get_by_label("Name").fill("Ada <script>")
    dialog.get_by_role("button", name="Rename").click()
    expect(panel(page).locator(".chip")).to_have_text(["Ada <script>", "Speaker 2", "Ada <script>"])
    expect(chips).to_have_text(["Ada <script>", "Speaker 2", "Ada <script>"])
    panel(page).get_by_role("button", name="Speaker 2").click()
    dialog.get_by_role("button", name="Ada <script>").click()
    expect(chips).to_have_text(["Ada <script>"])
    page.get_by_role("status").get_by_role("button", name="Undo").last.click()
    expect(chips).to_have_text(["Ada <script>", "Speaker 2", "Ada <script>"])


def test_speakers_are_told_apart_later(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk()
    page = visit(server, f"/watch/{media_id}")
    choose(page, "More", "Tell speakers apart")
    dialog = page.get_by_role("dialog", name="Tell speakers apart")
    count = dialog.get_by_label("Number of speakers")
    count.fill("51")
    expect(count).to_have_accessible_description(
        "Enter a whole number from 1 to 50, or leave empty."
    )
    expect(dialog.get_by_role("button", name="Tell speakers apart")).to_be_disabled()
    count.fill("3")
    assert barriers(page) == []
    count.press("Enter")
    expect(dialog).to_have_count(0)
    expect(panel(page).get_by_text("Telling the speakers apart is queued.")).to_be_visible()
    panel(page).get_by_role("button", name="More", exact=True).click()
    item = page.get_by_role("menuitem", name="Tell speakers apart")
    expect(item).to_be_disabled()
    with server.client() as admin:
        [job] = admin.get("/jobs", params={"media_id": media_id}).json()["items"]
        # Others on this server claim the next one in line.
        admin.post(f"/jobs/{job['id']}/cancel")
    assert (job["kind"], job["args"]["speakers"], job["args"]["only"]) == (
        "transcribe",
        3,
        "speakers",
    )


def test_what_was_saved_while_the_page_was_left_is_no_conflict(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk()
    page = visit(server, f"/watch/{media_id}")

    def swallow(route: Route) -> None:
        if route.request.method == "PATCH":
            # The server gets it, and its answer gets lost.
            route.fetch()
        else:
            route.continue_()

    page.route("**/transcript", swallow)
    edit(page, 0).fill("Good evening everybody.")
    page.keyboard.press("Enter")
    until(lambda: texts(server, media_id)[0] == "Good evening everybody.")
    page.unroute_all()
    page.reload()
    expect(word(page, "everybody.")).to_be_visible()
    expect(segment(page, 0)).to_contain_text("Good evening everybody.")
    expect(segment(page, 0).get_by_label("Text of this passage")).to_have_count(0)
    assert page.evaluate(f"localStorage.getItem('rushes.draft.{media_id}')") is None


def test_text_is_corrected_in_place_kept_and_taken_back(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk()
    page = visit(server, f"/watch/{media_id}")
    edit(page, 0).fill("never mind")
    page.keyboard.press("Escape")
    expect(segment(page, 0)).to_contain_text("Good morning everybody.")
    edit(page, 0).fill("Good evening everybody.")
    page.keyboard.press("Tab")
    expect(segment(page, 1).get_by_label("Text of this passage")).to_be_focused()
    page.keyboard.press("Escape")
    # The server gives the new words their times.
    until(lambda: texts(server, media_id)[0] == "Good evening everybody.")
    page.reload()
    expect(segment(page, 0)).to_contain_text("Good evening everybody.")
    word(page, "everybody.").click()
    expect(panel(page).locator(".speaking")).to_have_text("everybody.")
    edit(page, 3).fill("")
    page.keyboard.press("Enter")
    expect(segment(page, 3)).to_have_count(0)
    page.keyboard.press("Control+z")
    page.get_by_role("status").get_by_role("button", name="Undo").click()
    expect(segment(page, 3)).to_contain_text("And the harbour is still there.")
    choose(page, "More", "History")
    history = page.get_by_role("dialog", name="History")
    expect(history.locator("del").first).to_be_visible()
    expect(history.get_by_text("morning", exact=True)).to_be_visible()
    assert barriers(page) == []
    history.get_by_role("button", name="Restore this version").last.click()
    expect(segment(page, 0)).to_contain_text("Good morning everybody.")
    assert texts(server, media_id) == [text for _, text in TALK]


def test_who_is_slower_loses_nothing(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk()
    page = visit(server, f"/watch/{media_id}")
    other = visit(server, f"/watch/{media_id}")
    mine, theirs = edit(page, 0), edit(other, 0)
    mine.fill("Good morning, mine.")
    theirs.fill("Good morning, theirs.")
    theirs.press("Enter")
    edit(other, 3).fill("And it is still there.")
    other.keyboard.press("Enter")
    expect(segment(page, 3)).to_contain_text("And it is still there.")
    expect(mine).to_have_value("Good morning, mine.")
    mine.press("Enter")
    expect(segment(page, 0).get_by_role("alert")).to_contain_text("Good morning, theirs.")
    expect(mine).to_have_value("Good morning, mine.")
    assert texts(server, media_id)[0] == "Good morning, theirs."
    segment(page, 0).get_by_role("button", name="Save mine").click()
    expect(segment(other, 0)).to_contain_text("Good morning, mine.")
    edit(page, 1).fill("Another passage.")
    edit(other, 2).fill("At the same time.")
    page.keyboard.press("Enter")
    other.keyboard.press("Enter")
    for each in (page, other):
        expect(segment(each, 1)).to_contain_text("Another passage.")
        expect(segment(each, 2)).to_contain_text("At the same time.")
    panel(page).get_by_role("button", name="Undo the last change").click()
    expect(segment(other, 1)).to_contain_text("Today we <b>talk</b>")
    expect(segment(other, 2)).to_contain_text("At the same time.")


def test_what_was_written_survives_a_lost_connection_and_a_reload(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk()
    page = visit(server, f"/watch/{media_id}")
    page.on("dialog", lambda dialog: dialog.accept())
    expect(segment(page, 0)).to_be_visible()
    cut(page.context)
    edit(page, 0).fill("Written on a train.")
    page.keyboard.press("Enter")
    expect(segment(page, 0).get_by_role("alert")).to_contain_text("Not saved yet")
    expect(segment(page, 0).get_by_label("Text of this passage")).to_have_value(
        "Written on a train."
    )
    page.context.unroute_all()
    page.reload()
    expect(segment(page, 0).get_by_label("Text of this passage")).to_have_value(
        "Written on a train."
    )
    expect(panel(page).get_by_text("1 passage is not saved yet.")).to_be_visible()
    held: list[Route] = []
    page.context.route("**/api/v1/media/*/transcript", hold_changes(held))
    with page.expect_request(lambda request: request.method == "PATCH"):
        segment(page, 0).get_by_role("button", name="Save again").click()
    expect(segment(page, 0).locator("p.text")).to_have_text("Written on a train.")
    # The server has not got it yet, whatever the page shows already.
    expect(panel(page).get_by_text("1 passage is not saved yet.")).to_be_visible()
    held.pop().continue_()
    expect(panel(page).get_by_text("not saved yet")).to_have_count(0)
    assert texts(server, media_id)[0] == "Written on a train."


def hold_changes(held: list[Route]) -> Callable[[Route], None]:
    def hold(route: Route) -> None:
        if route.request.method == "PATCH":
            held.append(route)
        else:
            route.continue_()

    return hold


def cut(context: BrowserContext) -> None:
    context.route(
        "**/api/v1/media/*/transcript",
        lambda route: route.abort() if route.request.method == "PATCH" else route.continue_(),
    )


CAPTIONS = "WEBVTT\n\n00:01.000 --> 00:02.500\nBrought along\n"


def test_what_was_written_is_saved_by_itself_when_the_server_is_back(
    process: Callable[..., Process], visit: Visit
) -> None:
    server = process(transcode_workers=0, transcription_workers=0)
    with server.client() as admin:
        files = {"file": ("talk.wav", b"RIFF" + bytes(600))}
        media_id = admin.post("/media", files=files, data={"transcribe": "false"}).json()["id"]
        path = f"/media/{media_id}/transcript"
        vtt = {"Content-Type": "text/vtt"}
        assert admin.post(f"{path}/import", content=CAPTIONS, headers=vtt).status_code == 201
    page = visit(server, f"/watch/{media_id}")
    field = edit(page, 0)
    server.kill()
    field.fill("Written meanwhile")
    page.keyboard.press("Enter")
    expect(segment(page, 0).get_by_role("alert")).to_contain_text("Not saved yet")
    server.start()
    with page.expect_response(lambda said: said.request.method == "PATCH" and said.ok):
        page.evaluate("dispatchEvent(new Event('online'))")
    expect(segment(page, 0).locator("p.text")).to_have_text("Written meanwhile")
    with server.client() as admin:
        assert admin.get(path).json()["text"] == "Written meanwhile"


def test_a_newer_one_is_compared_and_taken_and_the_older_comes_back(
    server: Running, talk: Callable[..., str], visit: Visit, tmp_path: Path
) -> None:
    media_id = talk()
    library.correct(server, media_id, "Good evening everybody.")
    page = visit(server, f"/watch/{media_id}")
    expect(segment(page, 0)).to_contain_text("Good evening")
    hear(server, media_id, said((None, "Good heavens everybody."), *TALK[1:]))
    panel(page).get_by_role("button", name="Compare").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("1 of 4 passages differ.")).to_be_visible()
    expect(dialog.locator("ol ins")).to_have_text("heavens")
    expect(dialog.get_by_text("Using it keeps 0 of your 1 correction")).to_be_visible()
    expect(dialog.get_by_role("radio", name="evening")).to_be_checked()
    dialog.get_by_role("radio", name="heavens").check()
    dialog.get_by_role("button", name="Use the new one").click()
    expect(segment(page, 0)).to_contain_text("Good heavens")
    choose(page, "More", "History")
    page.get_by_role("button", name="Restore", exact=True).click()
    page.get_by_role("dialog", name="Restore this transcript?").get_by_role(
        "button", name="Restore"
    ).click()
    expect(segment(page, 0)).to_contain_text("Good evening")
    page.keyboard.press("Escape")
    captions = tmp_path / "brought.srt"
    captions.write_text("1\n00:00:01,000 --> 00:00:02,500\nBrought along\n")
    choose(page, "More", "Import captions")
    with page.expect_file_chooser() as chosen:
        page.get_by_role("button", name="Choose a file").click()
    chosen.value.set_files(captions)
    expect(segment(page, 0)).to_contain_text("Brought along")
    panel(page).get_by_role("button", name="Download or copy").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="SRT captions").click()
    assert download.value.suggested_filename == "harbour.srt"
    assert "Brought along" in Path(download.value.path()).read_text()


def test_every_state_says_what_to_do(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    media_id = talk(None)
    page = visit(server, f"/watch/{media_id}")
    expect(panel(page)).to_contain_text("No transcript yet")
    panel(page).get_by_role("button", name="Transcribe", exact=True).click()
    expect(panel(page)).to_contain_text("Transcription queued")
    expect(panel(page)).to_contain_text("No worker is online that can do transcribe.")
    held = library.claim(server, "transcribe")
    server.rushes.dispatch.put_passage(
        held, 0, {"start": 0, "end": 4, "text": "The <first> words.", "next": None}
    )
    expect(panel(page)).to_contain_text("The <first> words.")
    server.rushes.dispatch.put_passage(
        held, 1, {"start": 4, "end": 9, "text": "And some more.", "next": None}
    )
    expect(panel(page)).to_contain_text("And some more.")
    assert barriers(page) == []
    server.rushes.dispatch.fail(held, "permanent", "engine_failed", "The engine is out of breath.")
    expect(panel(page)).to_contain_text("The engine is out of breath.")
    panel(page).get_by_role("button", name="Retry").click()
    expect(panel(page)).to_contain_text("Transcription queued")
    library.finish(server, library.claim(server, "transcribe"), {})
    hear(server, media_id, said())
    expect(panel(page)).to_contain_text("No speech was found")


LONG = 8000


def test_a_day_of_talk_stays_light(server: Running, talk: Callable[..., str], visit: Visit) -> None:
    sentences = ["So we went on with it"] * LONG
    sentences[7000] = "Here is the needle that somebody looks for"
    turns: Sequence[tuple[str, str]] = [
        ((ADA, BOB)[at // 3 % 2], f"{text} {at}.") for at, text in enumerate(sentences)
    ]
    media_id = talk(said(*turns))
    page = visit(server, f"/watch/{media_id}")
    expect(segment(page, 0)).to_be_visible()
    count = "document.querySelectorAll('*').length"
    assert page.evaluate(count) < 4000
    page.keyboard.press("Tab")
    panel(page).get_by_role("button", name="Find in the transcript").click()
    page.keyboard.type("needle")
    expect(panel(page).locator("mark.current")).to_be_in_viewport()
    expect(segment(page, 7000)).to_contain_text("Here is the needle")
    assert page.evaluate(count) < 4000
    word(page, "needle").click()
    expect(panel(page).locator(".speaking")).to_have_text("needle")
    text = panel(page).get_by_role("region", name="Text of the transcript")
    text.evaluate("(node) => node.scrollTo(0, node.scrollHeight)")
    expect(segment(page, LONG - 1)).to_be_visible()
    text.hover()
    page.mouse.wheel(0, -4000)
    panel(page).get_by_role("button", name="Back to the current passage").click()
    expect(segment(page, 7000)).to_be_in_viewport()
    assert page.evaluate(count) < 4000


def fits(page: Page) -> bool:
    """Whether nothing of it is beside a narrow screen."""
    box = panel(page).bounding_box()
    assert box is not None
    wide = panel(page).evaluate("(node) => node.scrollWidth > node.clientWidth")
    return not wide and box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_a_phone_and_a_user_who_is_no_admin(
    server: Running, talk: Callable[..., str], visit: Visit
) -> None:
    with server.client() as admin:
        made = admin.post("/users", json={"name": "grace"}).json()
    page = visit(server, "/", link=made["signin_url"], phone=True)
    media_id = talk(said(*TALK, (None, "x" * 300)), owner=made["id"])
    page.goto(f"{server.url}/watch/{media_id}")
    expect(segment(page, 0)).to_be_visible()
    assert fits(page)
    panel(page).get_by_role("button", name="Edit the text").click()
    segment(page, 0).locator("p").click()
    segment(page, 0).get_by_label("Text of this passage").fill("From a phone.")
    segment(page, 0).get_by_role("button", name="Save").click()
    expect(segment(page, 0).locator("p.text")).to_have_text("From a phone.")
    assert barriers(page) == []
    assert fits(page)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Running]:
    """Real speech, and something to play."""
    models = speech.cache_dir(speech.SMALL)
    with Running(
        transcodes=True, transcription_workers=1, engine_cache_dir=models, data_dir=tmp_path
    ) as running:
        yield running


def test_speech_is_read_while_it_is_heard_and_followed_while_it_plays(
    listening: Running, visit: Visit
) -> None:
    server = listening
    with server.client() as admin, speech.recording("jfk").open("rb") as file:
        data = {"transcribe": "false"}
        made = admin.post("/media", files={"file": ("jfk.wav", file)}, data=data)
        media_id = made.json()["id"]
        page = visit(server, f"/watch/{media_id}")
        expect(panel(page)).to_contain_text("No transcript yet")
        options = {"media_id": media_id, "model": speech.SMALL, "language": "en"}
        assert admin.post("/transcriptions", json=options).status_code == 202
    expect(panel(page).get_by_role("progressbar")).to_be_visible()
    expect(panel(page)).to_contain_text("fellow Americans", timeout=60_000)
    expect(panel(page).get_by_role("toolbar")).to_be_visible(timeout=60_000)
    page.wait_for_function("() => document.querySelector('video, audio')?.readyState >= 1")
    page.evaluate("document.querySelector('video, audio').currentTime = 8.5")
    speaking = panel(page).locator(".speaking")
    expect(speaking).to_have_count(1)
    before = speaking.text_content()
    page.evaluate("document.querySelector('video, audio').play()")
    expect(speaking).not_to_have_text(before or "", timeout=10_000)
