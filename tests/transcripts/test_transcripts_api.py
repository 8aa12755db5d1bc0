"""Transcripts, search and models over HTTP: formats, corrections, conflicts, captions, whose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx2
import pytest

from running import Running
from rushes.db.database import Tx
from rushes.transcripts import archive
from speaking import said
from web import library

ADAS = count()
SRT = "1\n00:00:01,000 --> 00:00:02,500\nBrought along\n"


@dataclass
class Stage:
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
def stage(running: Running) -> Iterator[Stage]:
    """Each with an Ada of its own."""
    with running.user(f"ada-{next(ADAS)}") as ada:
        yield Stage(running, ada)


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


# Reading


def test_the_document_is_canonical_and_the_files_have_names(stage: Stage) -> None:
    document = stage.ada.get(stage.path).json()
    assert list(document) == ["text", "language", "segments", "words", "engine"]
    assert document["segments"][0] == {
        "id": "seg_000001",
        "start": 0.0,
        "end": 10.0,
        "speaker": "SPEAKER_00",
        "text": "Good morning, Ada.",
    }
    assert list(document["words"][0]) == ["start", "end", "word", "speaker", "confidence"]
    names = {"names": {"SPEAKER_00": "Grace & <Co>"}}
    assert stage.ada.put(f"{stage.path}/speakers", json=names).status_code == 200
    assert stage.ada.get(stage.path).json() == document
    expected = {
        "txt": ("text/plain", "Grace & <Co>: Good morning, Ada."),
        "srt": ("application/x-subrip", "00:00:00,000 --> "),
        "vtt": ("text/vtt", "<v Grace &amp; &lt;Co&gt;>Good morning, Ada."),
    }
    for format, (type, text) in expected.items():
        answer = stage.ada.get(stage.path, params={"format": format})
        assert answer.headers["content-type"] == f"{type}; charset=utf-8"
        assert text in answer.text, format
    assert "<b>" not in stage.ada.get(stage.path, params={"format": "vtt"}).text
    assert stage.ada.get(stage.path, params={"format": "doc"}).status_code == 422


def test_who_has_it_already_is_told_so_until_it_changes(stage: Stage) -> None:
    tag = {"If-None-Match": stage.ada.get(stage.path).headers["etag"]}
    assert stage.ada.get(stage.path, headers=tag).status_code == 304
    stage.correct(0, "Good day, Ada.")
    assert stage.ada.get(stage.path, headers=tag).status_code == 200


def test_a_media_without_a_transcript_says_so(stage: Stage) -> None:
    bare = f"/media/{library.add(stage.running, stage.owner)}/transcript"
    paths = [bare, f"{bare}/info", f"{bare}/revisions", f"{bare}/candidate"]
    assert {code(stage.ada.get(path)) for path in paths} == {(404, "not_found")}


def test_a_transcription_is_read_when_it_has_completed_or_as_far_as_it_is(stage: Stage) -> None:
    job_id = library.enqueue(stage.running, stage.owner, "transcribe", media_id=stage.media_id)
    path = f"/transcriptions/{job_id}/transcript"
    assert code(stage.ada.get(path)) == (409, "wrong_state")
    assert stage.ada.get(path, params={"partial": "true"}).json()["text"] == ""
    dispatch = stage.running.rushes.dispatch
    held = dispatch.claim(library.worker(stage.running, "transcribe"), 100)
    [claim] = [each.claim for each in held if each.job_id == job_id]
    passage = {"start": 0.0, "end": 2.0, "text": "So far.", "language": "en"}
    dispatch.put_passage(claim, 0, passage)
    assert stage.ada.get(path, params={"partial": "true"}).json()["text"] == "So far."
    so_far = stage.ada.get(path, params={"partial": "true", "format": "srt"})
    assert "00:00:00,000 --> 00:00:02,000\nSo far." in so_far.text
    stage.hear("As heard.", job_id=job_id)
    stage.correct(1, "As corrected.")
    assert stage.ada.get(path).json()["text"] == "As heard."
    assert stage.ada.get(stage.path).json()["text"] == "As corrected."
    other = library.enqueue(stage.running, stage.owner, "demo")
    assert stage.ada.get(f"/transcriptions/{other}/transcript").status_code == 404


# Correcting


def test_corrections_have_a_history_and_can_be_taken_back(stage: Stage) -> None:
    first = stage.correct(0, "Good day, Ada.")
    assert (first.status_code, first.json()["revision"], first.json()["edited"]) == (200, 1, True)
    assert stage.correct(1, "", id="seg_000002").json()["revision"] == 2
    assert stage.text().strip() == "SPEAKER_00: Good day, Ada."
    older = stage.ada.get(stage.path, params={"revision": 1}).json()
    assert [each["id"] for each in older["segments"]] == ["seg_000001", "seg_000002"]
    history = stage.ada.get(f"{stage.path}/revisions").json()["items"]
    assert [each["revision"] for each in history] == [2, 1]
    assert history[0]["user_id"] == stage.owner
    [change] = history[1]["changes"]
    assert (change["before"]["text"], change["after"]["text"]) == (
        "Good morning, Ada.",
        "Good day, Ada.",
    )
    body = {"revision": 2, "to": 0}
    assert stage.ada.post(f"{stage.path}/revert", json=body).json()["revision"] == 3
    assert "evening" in stage.text()
    assert stage.ada.get(stage.path, params={"revision": 9}).status_code == 404


def test_who_was_slower_is_told_the_newest_revision(stage: Stage) -> None:
    stage.correct(0, "Good day, Ada.")
    late = stage.correct(0, "Good night, Ada.")
    assert code(late) == (409, "edited_meanwhile")
    assert "revision 1" in late.json()["detail"]
    body = {"revision": 0, "to": 0}
    assert code(stage.ada.post(f"{stage.path}/revert", json=body)) == (409, "edited_meanwhile")


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
    stage: Stage, body: dict[str, Any], status: int
) -> None:
    assert stage.ada.patch(stage.path, json=body).status_code == status
    assert stage.ada.get(f"{stage.path}/info").json()["revision"] == 0


def test_speakers_are_named_in_the_facts(stage: Stage) -> None:
    facts = stage.ada.get(f"{stage.path}/info").json()
    assert facts["speakers"] == ["SPEAKER_00", "SPEAKER_01"]
    for names, status in ({"SPEAKER_01": "Bob"}, 200), ({"SPEAKER_09": "Eve"}, 422):
        answer = stage.ada.put(f"{stage.path}/speakers", json={"names": names})
        assert answer.status_code == status
    facts = stage.ada.get(f"{stage.path}/info").json()
    assert facts["speaker_names"] == {"SPEAKER_01": "Bob"}


def test_a_newer_transcript_waits_to_be_taken_or_left(stage: Stage) -> None:
    stage.correct(0, "Good day, Ada.")
    stage.hear("Heard anew.")
    assert stage.ada.get(f"{stage.path}/info").json()["candidate"] is not None
    there = f"{stage.path}/candidate"
    assert stage.ada.get(there, params={"format": "txt"}).text.strip().endswith("Heard anew.")
    assert stage.ada.delete(there).status_code == 204
    choice = {"id": "trn_gone", "revision": 1}
    assert stage.ada.post(f"{there}/accept", json=choice).status_code == 404
    stage.hear("Heard once more.")
    assert code(stage.ada.post(f"{there}/accept", json=choice)) == (409, "wrong_state")
    choice["id"] = stage.ada.get(f"{stage.path}/info").json()["candidate"]["id"]
    stale = {**choice, "revision": 0}
    assert code(stage.ada.post(f"{there}/accept", json=stale)) == (409, "edited_meanwhile")
    assert stage.ada.post(f"{there}/accept").status_code == 422
    assert stage.ada.post(f"{there}/accept", json=choice).json()["candidate"] is None
    assert stage.ada.get(stage.path).json()["text"] == "Heard once more."


def test_what_was_replaced_is_listed_and_can_be_brought_back(stage: Stage) -> None:
    stage.correct(0, "Good day, Ada.")
    mine = stage.ada.get(f"{stage.path}/info").json()
    imported = stage.ada.post(
        f"{stage.path}/import?replace=true",
        content=SRT.encode(),
        headers={"Content-Type": "application/x-subrip"},
    ).json()
    listed = stage.ada.get(f"/media/{stage.media_id}/transcripts").json()["items"]
    told = {each["id"]: (each["state"], each["edited"], each["outdated"]) for each in listed}
    assert told == {
        imported["id"]: ("current", False, False),
        mine["id"]: ("retired", True, False),
    }
    body = {"id": mine["id"], "revision": imported["revision"]}
    back = stage.ada.post(f"{stage.path}/restore", json=body).json()
    assert (back["id"], back["revision"], back["edited"]) == (mine["id"], 1, True)
    assert "Good day, Ada." in stage.text()
    assert code(stage.ada.post(f"{stage.path}/restore", json=body)) == (409, "edited_meanwhile")


# Captions that people have


@pytest.mark.parametrize(
    "sent",
    [
        {"content": SRT.encode(), "headers": {"Content-Type": "application/x-subrip"}},
        {"content": SRT.encode("utf-16"), "headers": {"Content-Type": "text/plain"}},
        {"files": {"file": ("talk.srt", SRT.encode(), "application/x-subrip")}},
    ],
)
def test_captions_are_brought_along_as_body_or_form(stage: Stage, sent: dict[str, Any]) -> None:
    answer = stage.ada.post(f"{stage.path}/import", **sent)
    assert answer.status_code == 201, answer.text
    assert answer.json()["origin"] == "imported"
    document = stage.ada.get(stage.path).json()
    assert [each["text"] for each in document["segments"]] == ["Brought along"]
    assert document["words"] == []
    assert document["engine"] is None


def test_captions_of_an_old_machine_keep_their_letters(stage: Stage) -> None:
    content = SRT.replace("along", "für später").encode("cp1252")
    headers = {"Content-Type": "application/x-subrip"}
    stage.ada.post(f"{stage.path}/import", content=content, headers=headers)
    assert "Brought für später" in stage.text()


@pytest.mark.parametrize(
    ("content", "type", "status"),
    [
        (b"neither of the two", "text/vtt", 422),
        (b"", "text/vtt", 422),
        (b"{}", "application/json", 415),
        (b"x" * (10 * 2**20 + 1), "text/vtt", 413),
    ],
)
def test_what_are_no_captions_is_refused(
    stage: Stage, content: bytes, type: str, status: int
) -> None:
    headers = {"Content-Type": type}
    answer = stage.ada.post(f"{stage.path}/import", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert stage.ada.get(f"{stage.path}/info").json()["origin"] == "machine"


def test_captions_replace_corrections_only_if_told_and_a_repetition_works_once(
    stage: Stage,
) -> None:
    stage.correct(0, "Good day, Ada.")
    sent: dict[str, Any] = {"content": SRT, "headers": {"Content-Type": "text/vtt"}}
    assert code(stage.ada.post(f"{stage.path}/import", **sent)) == (409, "wrong_state")
    sent["headers"]["Idempotency-Key"] = "once"
    sent["params"] = {"replace": "true"}
    answers = [stage.ada.post(f"{stage.path}/import", **sent).json() for _ in range(2)]
    assert answers[0] == answers[1]


# Searching


def test_search_answers_the_second_with_plain_text_and_safe_markup(stage: Stage) -> None:
    stage.ada.put(f"{stage.path}/speakers", json={"names": {"SPEAKER_01": "Bob"}})
    [item] = stage.ada.get("/search", params={"q": "evening nig"}).json()["items"]
    assert item == {
        "media_id": stage.media_id,
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
    [title] = stage.ada.get("/search", params={"q": "talk"}).json()["items"]
    assert (title["kind"], title["html"]) == ("title", "<mark>Talk</mark> &lt;1&gt;")


def test_search_goes_on_page_by_page(stage: Stage) -> None:
    stage.hear(*["The same again."] * 5)
    seen, cursor = [], None
    for _ in range(3):
        params = {"q": "same", "limit": "2", **({"cursor": cursor} if cursor else {})}
        page = stage.ada.get("/search", params=params).json()
        seen += [each["start"] for each in page["items"]]
        cursor = page["next_cursor"]
    assert (seen, cursor) == ([40.0, 30.0, 20.0, 10.0, 0.0], None)


@pytest.mark.parametrize(
    "params", [{}, {"q": ""}, {"q": "?!"}, {"q": "a", "cursor": "x"}, {"q": "a " * 40}]
)
def test_a_search_for_nothing_is_refused(stage: Stage, params: dict[str, str]) -> None:
    assert code(stage.ada.get("/search", params=params)) == (422, "bad_field")


def test_nobody_finds_or_reads_what_is_anothers(stage: Stage) -> None:
    with stage.running.user("bob") as bob, stage.running.client() as admin:
        assert bob.get("/search", params={"q": "evening"}).json()["items"] == []
        items = admin.get("/search", params={"q": "evening", "limit": "1"}).json()["items"]
        assert [each["media_id"] for each in items] == [stage.media_id]
        assert bob.get(stage.path).status_code == 404
        assert admin.get(stage.path).status_code == 200
    stage.ada.delete(f"/media/{stage.media_id}")
    assert stage.ada.get("/search", params={"q": "evening"}).json()["items"] == []
    assert stage.ada.get(stage.path).status_code == 404


def test_a_renamed_media_is_found_by_its_new_title(stage: Stage) -> None:
    stage.ada.patch(f"/media/{stage.media_id}", json={"title": "Lecture"})
    assert stage.ada.get("/search", params={"q": "talk"}).json()["items"] == []
    [item] = stage.ada.get("/search", params={"q": "lecture"}).json()["items"]
    assert item["title"] == "Lecture"


# Models


def test_models_are_listed_with_what_they_can_do(stage: Stage) -> None:
    items = stage.ada.get("/models/transcription").json()["items"]
    names = [each["id"] for each in items]
    assert "whisper-base" in names
    assert [each["id"] for each in items if each["default"]] == ["whisper-base"]
    for each in items:
        assert {"name", "installed", "capabilities", "languages", "size_bytes"} <= set(each)
    assert "diarization-default" not in json.dumps(names)
