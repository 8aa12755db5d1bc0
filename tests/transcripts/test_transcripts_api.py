"""Transcripts, search and models over HTTP: formats, corrections, conflicts, captions, whose."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx2
import pytest

from running import Running
from rushes.db.database import Tx
from rushes.transcripts import archive
from rushes.web.api import captioned
from speaking import said
from web import library

ADAS = count()
SRT = "1\n00:00:01,000 --> 00:00:02,500\nBrought along\n"


@dataclass
class Talk:
    """Ada's media, in which two people speak."""

    running: Running
    ada: httpx2.Client

    def __post_init__(self) -> None:
        self.owner = library.user_id(self.ada)
        self.media_id = library.add(self.running, self.owner, "Talk <1>")
        self.path = f"/media/{self.media_id}/transcript"
        self.hear("Good morning, Ada.", "Good <b>evening</b> & night, Bob.")

    def hear(self, *texts: str, job_id: str | None = None) -> None:
        heard = said(*texts, speakers=["SPEAKER_00", "SPEAKER_01"])

        def keep(tx: Tx) -> None:
            archive.add(
                tx,
                media_id=self.media_id,
                user_id=self.owner,
                job_id=job_id,
                transcript=heard,
            )

        self.running.rushes.db.run(keep)

    def correct(self, revision: int, text: str, id: str = "seg_000001") -> httpx2.Response:
        body = {"revision": revision, "segments": [{"id": id, "text": text}]}
        return self.ada.patch(self.path, json=body)

    def text(self) -> str:
        return str(self.ada.get(self.path, params={"format": "txt"}).text)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Nobody works here, so that jobs stay as the tests leave them."""
    directory = tmp_path_factory.mktemp("transcripts")
    with Running(data_dir=directory, transcode_workers=0, transcription_workers=0) as server:
        yield server


@pytest.fixture
def talk(running: Running) -> Iterator[Talk]:
    """Each with an Ada of its own."""
    with running.user(f"ada-{next(ADAS)}") as ada:
        yield Talk(running, ada)


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


# Reading


def test_the_document_is_canonical_and_the_files_have_names(talk: Talk) -> None:
    document = talk.ada.get(talk.path).json()
    assert list(document) == [
        "transcription_id",
        "text",
        "language",
        "segments",
        "words",
        "engine",
    ]
    assert document["segments"][0] == {
        "id": "seg_000001",
        "start": 0.0,
        "end": 10.0,
        "speaker": "SPEAKER_00",
        "text": "Good morning, Ada.",
    }
    assert list(document["words"][0]) == ["start", "end", "word", "speaker", "confidence"]
    names = {"names": {"SPEAKER_00": "Grace & <Co>"}}
    assert talk.ada.put(f"{talk.path}/speakers", json=names).status_code == 200
    assert talk.ada.get(talk.path).json() == document
    expected = {
        "txt": ("text/plain", "Grace & <Co>: Good morning, Ada."),
        "srt": ("application/x-subrip", "00:00:00,000 --> "),
        "vtt": ("text/vtt", "<v Grace &amp; &lt;Co&gt;>Good morning, Ada."),
        "md": ("text/markdown", "**0:00 Grace \\& \\<Co\\>** Good morning, Ada."),
        "csv": ("text/csv", '0.000,10.000,Grace & <Co>,"Good morning, Ada."'),
    }
    for format, (type, text) in expected.items():
        answer = talk.ada.get(talk.path, params={"format": format})
        assert answer.headers["content-type"] == f"{type}; charset=utf-8"
        assert text in answer.text, format
    assert "<b>" not in talk.ada.get(talk.path, params={"format": "vtt"}).text
    word = talk.ada.get(talk.path, params={"format": "docx"})
    assert word.headers["content-type"].endswith("wordprocessingml.document")
    with zipfile.ZipFile(io.BytesIO(word.content)) as package:
        assert "Grace &amp; &lt;Co&gt;" in package.read("word/document.xml").decode()
    again = {"If-None-Match": word.headers["etag"]}
    assert talk.ada.get(word.url, headers=again).status_code == 304
    assert talk.ada.get(talk.path, params={"format": "doc"}).status_code == 422


def test_who_has_it_already_is_told_so_until_it_changes(talk: Talk) -> None:
    tag = {"If-None-Match": talk.ada.get(talk.path).headers["etag"]}
    assert talk.ada.get(talk.path, headers=tag).status_code == 304
    talk.correct(0, "Good day, Ada.")
    assert talk.ada.get(talk.path, headers=tag).status_code == 200


def test_a_media_without_a_transcript_says_so(talk: Talk) -> None:
    bare = f"/media/{library.add(talk.running, talk.owner)}/transcript"
    paths = [bare, f"{bare}/info", f"{bare}/revisions", f"{bare}/candidate"]
    assert {code(talk.ada.get(path)) for path in paths} == {(404, "not_found")}


def test_a_transcription_is_read_when_it_has_completed_or_as_far_as_it_is(talk: Talk) -> None:
    job_id = library.enqueue(talk.running, talk.owner, "transcribe", media_id=talk.media_id)
    path = f"/transcriptions/{job_id}/transcript"
    assert code(talk.ada.get(path)) == (409, "wrong_state")
    so_far = talk.ada.get(path, params={"partial": "true"}).json()
    assert (so_far["text"], so_far["transcription_id"]) == ("", job_id)
    dispatch = talk.running.rushes.dispatch
    held = dispatch.claim(library.worker(talk.running, "transcribe"), 100)
    [claim] = [each.claim for each in held if each.job_id == job_id]
    passage = {"start": 0.0, "end": 2.0, "text": "So far.", "language": "en"}
    dispatch.put_passage(claim, 0, passage)
    assert talk.ada.get(path, params={"partial": "true"}).json()["text"] == "So far."
    so_far = talk.ada.get(path, params={"partial": "true", "format": "srt"})
    assert "00:00:00,000 --> 00:00:02,000\nSo far." in so_far.text
    talk.hear("As heard.", job_id=job_id)
    talk.correct(1, "As corrected.")
    assert talk.ada.get(path).json()["text"] == "As heard."
    assert talk.ada.get(talk.path).json()["text"] == "As corrected."
    other = library.enqueue(talk.running, talk.owner, "demo")
    assert talk.ada.get(f"/transcriptions/{other}/transcript").status_code == 404


# Correcting


def test_corrections_have_a_history_and_can_be_taken_back(talk: Talk) -> None:
    first = talk.correct(0, "Good day, Ada.")
    assert (first.status_code, first.json()["revision"], first.json()["edited"]) == (200, 1, True)
    assert talk.correct(1, "", id="seg_000002").json()["revision"] == 2
    assert talk.text().strip() == "SPEAKER_00: Good day, Ada."
    older = talk.ada.get(talk.path, params={"revision": 1}).json()
    assert [each["id"] for each in older["segments"]] == ["seg_000001", "seg_000002"]
    history = talk.ada.get(f"{talk.path}/revisions").json()["items"]
    assert [each["revision"] for each in history] == [2, 1]
    assert history[0]["user_id"] == talk.owner
    [change] = history[1]["changes"]
    assert (change["before"]["text"], change["after"]["text"]) == (
        "Good morning, Ada.",
        "Good day, Ada.",
    )
    body = {"revision": 2, "to": 0}
    assert talk.ada.post(f"{talk.path}/revert", json=body).json()["revision"] == 3
    assert "evening" in talk.text()
    assert talk.ada.get(talk.path, params={"revision": 9}).status_code == 404


def test_who_was_slower_is_told_the_newest_revision(talk: Talk) -> None:
    talk.correct(0, "Good day, Ada.")
    late = talk.correct(0, "Good night, Ada.")
    assert code(late) == (409, "edited_meanwhile")
    assert "revision 1" in late.json()["detail"]
    body = {"revision": 0, "to": 0}
    assert code(talk.ada.post(f"{talk.path}/revert", json=body)) == (409, "edited_meanwhile")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"revision": 0, "segments": []}, 422),
        ({"revision": 0, "segments": [{"id": "seg_000009", "text": "?"}]}, 404),
        ({"revision": 0, "segments": [{"id": "seg_000001", "text": "x" * 10_001}]}, 422),
        ({"revision": 0, "segments": [{"id": "seg_000001", "words": []}]}, 422),
        ({"segments": [{"id": "seg_000001", "text": "?"}]}, 422),
        ({"revision": 2**40, "segments": [{"id": "seg_000001", "text": "?"}]}, 422),
    ],
)
def test_a_correction_that_makes_no_sense_changes_nothing(
    talk: Talk, body: dict[str, Any], status: int
) -> None:
    assert talk.ada.patch(talk.path, json=body).status_code == status
    assert talk.ada.get(f"{talk.path}/info").json()["revision"] == 0


def test_speakers_are_named_in_the_facts(talk: Talk) -> None:
    facts = talk.ada.get(f"{talk.path}/info").json()
    assert facts["speakers"] == ["SPEAKER_00", "SPEAKER_01"]
    for names, status in ({"SPEAKER_01": "Bob"}, 200), ({"SPEAKER_09": "Eve"}, 422):
        answer = talk.ada.put(f"{talk.path}/speakers", json={"names": names})
        assert answer.status_code == status
    facts = talk.ada.get(f"{talk.path}/info").json()
    assert facts["speaker_names"] == {"SPEAKER_01": "Bob"}


def test_a_newer_transcript_waits_to_be_taken_or_left(talk: Talk) -> None:
    talk.correct(0, "Good day, Ada.")
    talk.hear("Heard anew.")
    assert talk.ada.get(f"{talk.path}/info").json()["candidate"] is not None
    there = f"{talk.path}/candidate"
    assert talk.ada.get(there, params={"format": "txt"}).text.strip().endswith("Heard anew.")
    assert talk.ada.delete(there).status_code == 204
    choice = {"id": "trn_gone", "revision": 1}
    assert talk.ada.post(f"{there}/accept", json=choice).status_code == 404
    talk.hear("Heard once more.")
    assert code(talk.ada.post(f"{there}/accept", json=choice)) == (409, "wrong_state")
    choice["id"] = talk.ada.get(f"{talk.path}/info").json()["candidate"]["id"]
    stale = {**choice, "revision": 0}
    assert code(talk.ada.post(f"{there}/accept", json=stale)) == (409, "edited_meanwhile")
    assert talk.ada.post(f"{there}/accept").status_code == 422
    choice["merge"] = False
    assert talk.ada.post(f"{there}/accept", json=choice).json()["candidate"] is None
    assert talk.ada.get(talk.path).json()["text"] == "Heard once more."


@pytest.mark.parametrize(("take", "expected"), [(None, "day"), ("ours", "day"), ("theirs", "noon")])
def test_accepting_keeps_corrections_and_lets_people_choose_in_conflicts(
    talk: Talk, take: str | None, expected: str
) -> None:
    talk.correct(0, "Good day, Ada!")
    talk.ada.put(f"{talk.path}/speakers", json={"names": {"SPEAKER_01": "Bob"}})
    talk.correct(1, "Good evening & good night, Bob.", "seg_000002")
    talk.hear("Good noon, Ada.", "Good <b>evening</b> & night, Bob. Bye.")
    there = f"{talk.path}/candidate"
    preview = talk.ada.get(f"{there}/merge").json()
    [conflict] = preview.pop("conflicts")
    choice = {"id": preview.pop("id"), "revision": preview["revision"]}
    assert preview == {
        "revision": 2,
        "corrections": 4,
        "kept": 3,
        "speaker_names": {"SPEAKER_01": "Bob"},
    }
    told = ("number", "base", "ours", "theirs")
    assert [conflict[name] for name in told] == [0, "morning,", "day,", "noon,"]
    choices = [{"conflict": 0, "take": take}] if take else []
    wrong = {**choice, "choices": [{"conflict": 7, "take": "ours"}]}
    assert talk.ada.post(f"{there}/accept", json=wrong).status_code == 422
    facts = talk.ada.post(f"{there}/accept", json={**choice, "choices": choices}).json()
    assert (facts["speaker_names"], facts["edited"]) == ({"SPEAKER_01": "Bob"}, True)
    assert talk.text().split("\n\n")[0].strip().endswith(f"Good {expected}, Ada!")
    assert "Bob: Good evening & good night, Bob. Bye." in talk.text()
    [revision] = talk.ada.get(f"{talk.path}/revisions").json()["items"]
    assert revision["reason"] == "merged"
    assert talk.ada.get(f"{there}/merge").status_code == 404


def test_what_was_replaced_is_listed_and_can_be_brought_back(talk: Talk) -> None:
    talk.correct(0, "Good day, Ada.")
    mine = talk.ada.get(f"{talk.path}/info").json()
    imported = talk.ada.post(
        f"{talk.path}/import?replace=true",
        content=SRT.encode(),
        headers={"Content-Type": "application/x-subrip"},
    ).json()
    listed = talk.ada.get(f"/media/{talk.media_id}/transcripts").json()["items"]
    told = {each["id"]: (each["state"], each["edited"], each["outdated"]) for each in listed}
    assert told == {
        imported["id"]: ("current", False, False),
        mine["id"]: ("retired", True, False),
    }
    body = {"id": mine["id"], "revision": imported["revision"]}
    back = talk.ada.post(f"{talk.path}/restore", json=body).json()
    assert (back["id"], back["revision"], back["edited"]) == (mine["id"], 1, True)
    assert "Good day, Ada." in talk.text()
    assert code(talk.ada.post(f"{talk.path}/restore", json=body)) == (409, "edited_meanwhile")


# Captions that people have


@pytest.mark.parametrize(
    "sent",
    [
        {"content": SRT.encode(), "headers": {"Content-Type": "application/x-subrip"}},
        {"content": SRT.encode("utf-16"), "headers": {"Content-Type": "text/plain"}},
        {"files": {"file": ("talk.srt", SRT.encode(), "application/x-subrip")}},
    ],
)
def test_captions_are_brought_along_as_body_or_form(talk: Talk, sent: dict[str, Any]) -> None:
    answer = talk.ada.post(f"{talk.path}/import", **sent)
    assert answer.status_code == 201, answer.text
    assert answer.json()["origin"] == "imported"
    document = talk.ada.get(talk.path).json()
    assert [each["text"] for each in document["segments"]] == ["Brought along"]
    assert document["words"] == []
    assert document["engine"] is None


OLD = {
    "text": "Hello there. Again.",
    "segments": [
        {"start": 0.5, "end": 2.0, "text": "Hello there."},
        {"start": 2.0, "end": 3.0, "text": "Again."},
    ],
}
PLAIN = "Hello there.\r\n\r\nAgain, für alle."


@pytest.mark.parametrize("as_form", [False, True])
def test_a_transcript_of_another_system_is_brought_along(talk: Talk, as_form: bool) -> None:
    def bring(name: str, type: str, content: str) -> Any:
        sent: dict[str, Any] = {"content": content.encode(), "headers": {"Content-Type": type}}
        if as_form:
            sent = {"files": {"file": (name, content.encode(), "application/octet-stream")}}
        answer = talk.ada.post(f"{talk.path}/import?replace=true", **sent)
        assert answer.status_code == 201, answer.text
        assert answer.json()["origin"] == "imported"
        return talk.ada.get(talk.path).json()

    words = [{"word": "Hi", "start": 1, "end": 2}, {"word": "you", "start": 2, "end": 3}]
    document = bring("talk.json", "application/json", json.dumps(OLD))
    assert [each["id"] for each in document["segments"]] == ["seg_000001", "seg_000002"]
    assert (document["words"], document["engine"]) == ([], None)
    document = bring("TALK.JSON", "application/json", json.dumps({"words": words}))
    assert [(each["start"], each["end"], each["text"]) for each in document["segments"]] == [
        (1, 3, "Hi you")
    ]
    document = bring("talk.txt", "text/plain", PLAIN)
    assert document["text"] == "Hello there.\n\nAgain, für alle."
    assert (document["segments"], document["words"]) == ([], [])
    document = bring("talk.txt", "text/plain", SRT)
    assert [each["text"] for each in document["segments"]] == ["Brought along"]


def test_transcripts_of_older_days_are_read(talk: Talk) -> None:
    def older(document: str) -> Any:
        """As a row that another version, or another system, has left."""
        talk.running.rushes.db.run(
            lambda tx: tx.all(
                "UPDATE transcripts SET document = :document WHERE media_id = :media_id",
                document=document,
                media_id=talk.media_id,
            )
        )
        answer = talk.ada.get(talk.path)
        assert answer.headers["content-type"] == "application/json"
        assert talk.ada.get(f"{talk.path}/info").status_code == 200
        return answer.json()

    def captions() -> str:
        # What is remembered of captions is of the text that was there.
        captioned._written._texts.clear()
        return talk.ada.get(f"/media/{talk.media_id}/captions.vtt").text

    for plain in (PLAIN, json.dumps(PLAIN)):
        document = older(plain)
        assert document["text"] == "Hello there.\n\nAgain, für alle."
        assert (document["segments"], document["words"], document["language"]) == ([], [], None)
        assert "transcription_id" in document
        # There are no times, so there is nothing to show at any.
        assert captions() == "WEBVTT\n"
        assert talk.ada.get(talk.path, params={"format": "srt"}).text == ""
        assert talk.text() == "Hello there.\n\nAgain, für alle.\n"
    document = older(json.dumps(OLD))
    assert (len(document["segments"]), document["words"]) == (2, [])
    assert "00:00:00.500 --> 00:00:02.000\nHello there." in captions()
    assert older("12")["text"] == "12"
    assert older("")["text"] == ""


def test_captions_of_an_old_machine_keep_their_letters(talk: Talk) -> None:
    content = SRT.replace("along", "für später").encode("cp1252")
    headers = {"Content-Type": "application/x-subrip"}
    talk.ada.post(f"{talk.path}/import", content=content, headers=headers)
    assert "Brought für später" in talk.text()


@pytest.mark.parametrize(
    ("content", "type", "status"),
    [
        (b"neither of the two", "text/vtt", 422),
        (b"", "text/vtt", 422),
        (b"{}", "application/json", 422),
        (b"{", "application/json", 422),
        (b"[" * 5000, "application/json", 422),
        (b" \r\n", "text/plain", 422),
        (b"%PDF", "application/pdf", 415),
        (b"x" * (10 * 2**20 + 1), "text/vtt", 413),
    ],
)
def test_what_are_no_captions_is_refused(
    talk: Talk, content: bytes, type: str, status: int
) -> None:
    headers = {"Content-Type": type}
    answer = talk.ada.post(f"{talk.path}/import", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert talk.ada.get(f"{talk.path}/info").json()["origin"] == "machine"


def test_captions_replace_corrections_only_if_told_and_a_repetition_works_once(
    talk: Talk,
) -> None:
    talk.correct(0, "Good day, Ada.")
    sent: dict[str, Any] = {"content": SRT, "headers": {"Content-Type": "text/vtt"}}
    assert code(talk.ada.post(f"{talk.path}/import", **sent)) == (409, "wrong_state")
    sent["headers"]["Idempotency-Key"] = "once"
    sent["params"] = {"replace": "true"}
    answers = [talk.ada.post(f"{talk.path}/import", **sent).json() for _ in range(2)]
    assert answers[0] == answers[1]


# Of which the words tell nothing.
VTT = "WEBVTT{header}\n\n00:00.000 --> 00:02.000\n{text}\n"
RUNNING = "We were running to the house, and it was late."


@pytest.mark.parametrize(
    ("query", "header", "text", "language"),
    [
        ("", "", RUNNING, "en"),
        ("", "\nLanguage: en-US", "Running", "en-us"),
        ("", "\nLanguage: klingon", RUNNING, "en"),
        ("&language=en", "\nLanguage: de", "Running", "en"),
        ("&language=English", "", "Running", "en"),
        ("&language=", "", "Running", None),
    ],
)
def test_imported_captions_are_found_in_any_form_of_their_words(
    talk: Talk, query: str, header: str, text: str, language: str | None
) -> None:
    sent: dict[str, Any] = {
        "content": VTT.format(header=header, text=text),
        "headers": {"Content-Type": "text/vtt"},
    }
    answer = talk.ada.post(f"{talk.path}/import?replace=true{query}", **sent)
    assert (answer.status_code, answer.json()["language"]) == (201, language)
    assert talk.ada.get(talk.path).json()["language"] == language
    hits = talk.ada.get("/search", params={"q": "run "}).json()["items"]
    assert [each["media_id"] for each in hits] == [talk.media_id] * (language is not None)


def test_a_transcript_in_json_says_its_language(talk: Talk) -> None:
    for name, language in (("english", "en"), ("de", "de"), (None, "en"), ("?", "en")):
        content = json.dumps({**OLD, "text": RUNNING, "language": name})
        headers = {"Content-Type": "application/json"}
        answer = talk.ada.post(f"{talk.path}/import?replace=true", content=content, headers=headers)
        assert answer.json()["language"] == language


@pytest.mark.parametrize("language", ["xx", "klingon", "de'--", "x" * 36])
def test_a_language_that_nobody_speaks_is_refused(talk: Talk, language: str) -> None:
    answer = talk.ada.post(
        f"{talk.path}/import",
        params={"language": language},
        content=SRT,
        headers={"Content-Type": "application/x-subrip"},
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "language"
    assert talk.ada.get(f"{talk.path}/info").json()["origin"] == "machine"


# Searching


def test_search_answers_the_second_with_plain_text_and_safe_markup(talk: Talk) -> None:
    talk.ada.put(f"{talk.path}/speakers", json={"names": {"SPEAKER_01": "Bob"}})
    [item] = talk.ada.get("/search", params={"q": "evening nig"}).json()["items"]
    assert item == {
        "media_id": talk.media_id,
        "title": "Talk <1>",
        "kind": "speech",
        "segment_id": "seg_000002",
        "start": 10.0,
        "end": 20.0,
        "speaker": "Bob",
        "snippet": "Good <b>evening</b> & night, Bob.",
        "marks": [[8, 15], [22, 27]],
        "html": "Good &lt;b&gt;<mark>evening</mark>&lt;/b&gt; &amp; <mark>night</mark>, Bob.",
    }
    [title] = talk.ada.get("/search", params={"q": "talk"}).json()["items"]
    assert (title["kind"], title["html"]) == ("title", "<mark>Talk</mark> &lt;1&gt;")


def test_search_says_what_it_looked_for_instead(talk: Talk) -> None:
    exact = talk.ada.get("/search", params={"q": "evening"}).json()
    assert exact["corrected"] is None
    page = talk.ada.get("/search", params={"q": "Good evneing"}).json()
    assert page["corrected"] == "Good evening"
    assert [each["segment_id"] for each in page["items"]] == ["seg_000002"]
    with talk.running.user("eve") as bob:
        other = bob.get("/search", params={"q": "evneing"}).json()
    assert (other["items"], other["corrected"]) == ([], None)


def test_search_goes_on_page_by_page(talk: Talk) -> None:
    talk.hear(*["The same again."] * 5)
    seen, cursor = [], None
    for _ in range(3):
        params = {"q": "same", "limit": "2", **({"cursor": cursor} if cursor else {})}
        page = talk.ada.get("/search", params=params).json()
        seen += [each["start"] for each in page["items"]]
        cursor = page["next_cursor"]
    assert (seen, cursor) == ([40.0, 30.0, 20.0, 10.0, 0.0], None)


@pytest.mark.parametrize(
    "params", [{}, {"q": ""}, {"q": "?!"}, {"q": "a", "cursor": "x"}, {"q": "a " * 40}]
)
def test_a_search_for_nothing_is_refused(talk: Talk, params: dict[str, str]) -> None:
    assert code(talk.ada.get("/search", params=params)) == (422, "bad_field")


def test_nobody_finds_or_reads_what_is_anothers(talk: Talk) -> None:
    with talk.running.user("bob") as bob, talk.running.client() as admin:
        assert bob.get("/search", params={"q": "evening"}).json()["items"] == []
        items = admin.get("/search", params={"q": "evening", "limit": "1"}).json()["items"]
        assert [each["media_id"] for each in items] == [talk.media_id]
        assert bob.get(talk.path).status_code == 404
        assert admin.get(talk.path).status_code == 200
    talk.ada.delete(f"/media/{talk.media_id}")
    assert talk.ada.get("/search", params={"q": "evening"}).json()["items"] == []
    assert talk.ada.get(talk.path).status_code == 404


def test_a_renamed_media_is_found_by_its_new_title(talk: Talk) -> None:
    talk.ada.patch(f"/media/{talk.media_id}", json={"title": "Lecture"})
    assert talk.ada.get("/search", params={"q": "talk"}).json()["items"] == []
    [item] = talk.ada.get("/search", params={"q": "lecture"}).json()["items"]
    assert item["title"] == "Lecture"


# Models


def test_models_are_listed_with_what_they_can_do(talk: Talk) -> None:
    items = talk.ada.get("/models/transcription").json()["items"]
    names = [each["id"] for each in items]
    assert "whisper-base" in names
    default = [each["id"] for each in items if each["default"]]
    assert default == ["whisper-base", "diarization-default"]
    for each in items:
        assert {"name", "installed", "capabilities", "languages", "size_bytes"} <= set(each)
