"""Transcribing on a real server: live, searchable, resumed, canceled, and mended by a retry."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jiwer
import pytest

import ffmpegs
import speech
from handlers.transcribe.faulty import Only, Scripted, recording
from running import Clients, Process, Running, events_of
from rushes import protocol
from rushes.engines.engine import SpeakerTurn
from rushes.handlers.transcribe.steps import transcribe
from rushes.transcripts import passages
from rushes.transcripts.transcript import Passage
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote
from shell import until
from web import library

ENGLISH = {"model": speech.SMALL, "language": "en"}


def upload(server: Clients, path: Path, **options: str) -> str:
    with server.client() as admin, path.open("rb") as file:
        data = {"transcribe": "false", **options}
        answer = admin.post("/media", files={"file": (path.name, file)}, data=data)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def ask(server: Clients, media_id: str, **options: Any) -> dict[str, Any]:
    with server.client() as admin:
        answer = admin.post("/transcriptions", json={"media_id": media_id, **options})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ended(server: Clients, job_id: str) -> dict[str, Any]:
    """The job when it has come to its end."""
    found: dict[str, Any] = {}

    def has_ended() -> bool:
        with server.client() as admin:
            found.update(admin.get(f"/transcriptions/{job_id}").json())
        return found["status"] in ("completed", "failed", "canceled")

    until(has_ended)
    return found


@pytest.fixture
def listening_server(serve: Callable[..., Running]) -> Running:
    """Real speech, and nothing else."""
    place = speech.cache_dir(speech.SMALL)
    return serve(
        transcodes=True, transcode_workers=0, transcription_workers=1, engine_cache_dir=place
    )


def test_what_is_said_is_told_live_captioned_and_found(listening_server: Running) -> None:
    server = listening_server
    media_id = upload(server, speech.recording("jfk"))
    with server.client() as admin:
        with admin.stream("GET", "/events", params={"media_id": media_id}) as stream:
            events = events_of(stream)
            job = ask(server, media_id, **ENGLISH)
            heard = list(_until_completed(events))
        assert ended(server, job["id"])["status"] == "completed"
        document = admin.get(f"/transcriptions/{job['id']}/transcript").json()
        assert jiwer.wer(speech.plain(speech.JFK_TEXT), speech.plain(document["text"])) <= 0.1
        live = " ".join(data["text"] for type, data in heard if type == "transcription.passage")
        assert live.split() == document["text"].split()
        stages = [data["stage"] for type, data in heard if type == "transcription.progress"]
        assert (stages[0], stages[-1]) == ("preparing", "saving")
        [hit] = admin.get("/search", params={"q": "fellow ameri"}).json()["items"]
        assert hit["media_id"] == media_id
        assert 0 <= hit["start"] <= hit["end"] <= 11.1
        captions = admin.get(f"/media/{media_id}/captions.vtt", follow_redirects=True).text
        assert captions.startswith("WEBVTT")
        assert "country" in captions
        assert admin.get(f"/media/{media_id}").json()["transcript_status"] == "ready"
        [attempt] = admin.get(f"/transcriptions/{job['id']}/executions").json()["items"]
        assert attempt["outcome"] == "succeeded"


def _until_completed(events: Iterator[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for _, type, data in events:
        yield type, data
        if type == "transcription.completed":
            return


def test_a_server_that_is_killed_goes_on_where_it_was(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    long = tmp_path / "long.wav"
    loop = [
        ffmpegs.known(),
        "-v",
        "error",
        "-stream_loop",
        "1",
        "-i",
        str(speech.recording("call")),
    ]
    subprocess.run([*loop, "-c", "copy", str(long)], check=True)
    server = process(
        transcode_workers=0,
        transcription_workers=1,
        engine_cache_dir=speech.cache_dir(speech.SMALL),
        poll_interval=0.2,
    )
    media_id = upload(server, long)
    job = ask(server, media_id, **ENGLISH)
    partial = f"/transcriptions/{job['id']}/transcript?partial=true"

    def has_begun() -> bool:
        with server.client() as admin:
            answer = admin.get(partial)
        return answer.status_code == 200 and bool(answer.json()["text"])

    until(has_begun)
    with server.client() as admin:
        before = admin.get(partial).json()
    server.kill()
    server.start()
    assert ended(server, job["id"])["status"] == "completed"
    with server.client() as admin:
        document = admin.get(f"/media/{media_id}/transcript").json()
        log = admin.get(f"/transcriptions/{job['id']}/logs").text
    assert "going on behind" in log
    known = before["words"][:-1]
    assert document["words"][: len(known)] == known
    starts = [word["start"] for word in document["words"]]
    assert starts == sorted(starts)
    assert starts[-1] > 50


def test_a_missing_model_is_said_and_a_retry_works_once_it_is_there(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    cache = tmp_path / "models"
    server = serve(
        transcodes=True,
        transcode_workers=0,
        transcription_workers=1,
        engine_cache_dir=cache,
        engine_auto_download=False,
    )
    media_id = upload(server, speech.recording("jfk"))
    failed = ended(server, ask(server, media_id, **ENGLISH)["id"])
    assert (failed["status"], failed["error_code"]) == ("failed", "model_unavailable")
    assert "rushes models pull whisper-tiny.en" in failed["error"]
    assert failed["attempt"] == 1
    with server.client() as admin:
        assert admin.get(f"/media/{media_id}").json()["transcript_status"] == "failed"
        shutil.copytree(speech.cache_dir(speech.SMALL) / speech.SMALL, cache / speech.SMALL)
        again = admin.post(f"/transcriptions/{failed['id']}/retry").json()
    assert ended(server, again["id"])["status"] == "completed"


def test_an_engine_that_is_not_there_fails_once_and_says_which_there_are(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    server = serve(transcodes=True, transcode_workers=0, transcription_workers=1, engine="parrot")
    media_id = upload(server, recording(tmp_path / "short.wav", [1, 2]))
    failed = ended(server, ask(server, media_id)["id"])
    assert (failed["error_code"], failed["attempt"]) == ("engine_unavailable", 1)
    assert "local" in failed["error"]


def test_what_cannot_be_heard_here_is_left_to_a_worker_that_can(
    serve: Callable[..., Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(transcodes=True, transcode_workers=0, transcription_workers=2, engine="parrot")
    looks, why_not = [], server.services.engines.why_not

    def counted() -> str | None:
        looks.append(threading.current_thread().name)
        return why_not()

    monkeypatch.setattr(server.services.engines, "why_not", counted)
    able = library.worker(server, "transcribe")
    media_id = upload(server, recording(tmp_path / "short.wav", [1, 2]))
    with server.client() as admin:
        for each in admin.get("/workers").json()["items"]:
            is_ours = each["kinds"] == ["transcribe"] and each["id"] != able.id
            assert ("unable" in each["metadata"]) == is_ours
        job = ask(server, media_id)
        looks.clear()
        until(lambda: len(looks) > 5)
        assert admin.get(f"/jobs/{job['id']}").json()["state"] == "queued"
        [held] = server.rushes.dispatch.claim(able, 1)
        assert held.job_id == job["id"]
        server.rushes.dispatch.release(held.claim)
        admin.post(f"/workers/{able.id}/disable")
    assert ended(server, job["id"])["error_code"] == "engine_unavailable"


class Patient:
    """A handler that keeps one passage, and then waits until it has to stop."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()

    def __call__(self, job: JobContext) -> Any:
        job.passages()
        text = f"{job.args.get('language')} is spoken."
        job.put_passage(0, passages.encode(Passage(start=0, end=1, text=text)))
        self.began.release()
        while not self.may_end.is_set():
            job.wait(0.02)
        return {}


def test_asking_again_takes_the_place_of_what_is_running(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    patient = Patient()
    server = serve(
        handlers_table={"transcribe": Handler(patient)},
        transcription_workers=2,
        heartbeat_interval=1,
    )
    media_id = upload(server, recording(tmp_path / "short.wav", [1, 2]))
    first = ask(server, media_id, language="de")
    assert patient.began.acquire(timeout=30)
    assert ask(server, media_id, language="de")["id"] == first["id"]
    with server.client() as admin:
        second = admin.post(f"/media/{media_id}/retranscribe", json={"language": "fr"}).json()
    assert second["id"] != first["id"]
    assert ended(server, first["id"])["status"] == "canceled"
    assert patient.began.acquire(timeout=30)
    patient.may_end.set()
    assert ended(server, second["id"])["status"] == "completed"
    with server.client() as admin:
        assert admin.get(f"/media/{media_id}/transcript").json()["text"] == "fr is spoken."
        jobs = admin.get("/transcriptions", params={"media_id": media_id}).json()["items"]
    assert sorted(job["status"] for job in jobs) == ["canceled", "completed"]


def test_a_canceled_transcription_stops_and_publishes_nothing(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    patient = Patient()
    server = serve(handlers_table={"transcribe": Handler(patient)}, heartbeat_interval=1)
    media_id = upload(server, recording(tmp_path / "short.wav", [1, 2]))
    job = ask(server, media_id)
    assert patient.began.acquire(timeout=30)
    with server.client() as admin:
        admin.post(f"/transcriptions/{job['id']}/cancel")
        assert ended(server, job["id"])["status"] == "canceled"
        assert admin.get(f"/media/{media_id}/transcript").status_code == 404
        assert admin.get(f"/media/{media_id}").json()["transcript_status"] == "failed"


def test_a_worker_elsewhere_needs_nothing_but_http(either_server: Running, tmp_path: Path) -> None:
    server = either_server
    media_id = upload(server, recording(tmp_path / "talk.wav", list(range(40))))
    job = ask(server, media_id, speakers=1)
    engine = Scripted(turns=[SpeakerTurn(start=0, end=40, speaker=0)])
    table = {"transcribe": Handler(lambda job: transcribe(job, Only(engine)))}  # type: ignore[arg-type]
    coordinator = Remote(server.url, server.worker_key())
    worker = Worker(
        coordinator,
        table,
        hello=protocol.Hello(kinds=["transcribe"], capabilities=["cpu"]),
        scratch_root=tmp_path / "scratch",
    )
    assert worker.step() == 1
    coordinator.close()
    assert ended(server, job["id"])["status"] == "completed"
    with server.client() as admin:
        document = admin.get(f"/media/{media_id}/transcript").json()
        log = admin.get(f"/jobs/{job['id']}/logs").text
    assert [word["word"] for word in document["words"]] == [f"w{n}." for n in range(40)]
    assert {word["speaker"] for word in document["words"]} == {"SPEAKER_00"}
    for said in (
        "engine scripted on cpu, model its-own-choice; language to be detected",
        "listening to track 1 of 1 track of sound, 40 s",
        "from 0.0 s on, en is spoken",
        "heard 2 windows: en (",
        "told 1 speaker apart with diarization-default; it took ",
    ):
        assert said in log
    assert len(log.splitlines()) == 5
    assert list((tmp_path / "scratch").iterdir()) == []


def test_speakers_are_told_apart_without_hearing_the_words_again(
    either_server: Running, tmp_path: Path
) -> None:
    server = either_server
    media_id = upload(server, recording(tmp_path / "talk.wav", list(range(12))))
    engine = Scripted()
    table = {"transcribe": Handler(lambda job: transcribe(job, Only(engine)))}  # type: ignore[arg-type]
    coordinator = Remote(server.url, server.worker_key())
    hello = protocol.Hello(kinds=["transcribe"], capabilities=["cpu"])
    worker = Worker(coordinator, table, hello=hello, scratch_root=tmp_path / "scratch")
    there = f"/media/{media_id}/transcript"
    with server.client() as admin:
        assert admin.post(f"{there}/speakers").status_code == 404
        first = ask(server, media_id, language="en")
        assert admin.post(f"{there}/speakers").status_code == 404
        assert worker.step() == 1
        heard = admin.get(there).json()
        edit = {"revision": 0, "segments": [{"id": "seg_000001", "text": "Corrected, w0."}]}
        assert admin.patch(there, json=edit).status_code == 200
        text = admin.get(there).json()["text"]
        for turns in ([(0, 4, 0), (4, 12, 1)], [(0, 6, 1), (6, 12, 0)]):
            engine.turns = [SpeakerTurn(start=a, end=b, speaker=who) for a, b, who in turns]
            asked = len(engine.asked)
            job = admin.post(f"{there}/speakers", json={"speakers": 2}).json()
            assert admin.post(f"{there}/speakers", json={"speakers": 2}).json()["id"] == job["id"]
            assert admin.post(f"{there}/speakers").status_code == 409
            assert worker.step() == 1
            assert ended(server, job["id"])["status"] == "completed"
            assert (len(engine.asked), engine.diarized[-1].speakers) == (asked, 2)
            document, info = admin.get(there).json(), admin.get(f"{there}/info").json()
            assert document["text"] == text
            said = {each["word"]: each["speaker"] for each in document["words"]}
            # Whoever spoke most of the time keeps the label, and with it the name.
            assert (said["w3."], said["w11."]) == ("SPEAKER_00", "SPEAKER_01")
            admin.put(f"{there}/speakers", json={"names": {"SPEAKER_01": "Ada"}})
        assert said["w5."] == "SPEAKER_00"
        assert document["engine"]["transcription_model"] == heard["engine"]["transcription_model"]
        assert document["engine"]["diarization_model"] == "diarization-default"
        assert info["speaker_names"] == {"SPEAKER_01": "Ada"}
        found = admin.get(f"{there}/revisions").json()["items"]
        assert [each["reason"] for each in found] == ["diarized", "diarized", "edited"]
        assert admin.get(f"/transcriptions/{job['id']}/transcript").status_code == 404
        again = admin.post(f"/media/{media_id}/retranscribe").json()
    coordinator.close()
    assert server.rushes.job(again["id"]).args == server.rushes.job(first["id"]).args


def test_a_track_is_asked_for(either_server: Running, tmp_path: Path) -> None:
    media_id = upload(either_server, recording(tmp_path / "short.wav", [1]))
    assert either_server.rushes.job(ask(either_server, media_id, track=2)["id"]).args["track"] == 2
    with either_server.client() as admin:
        address = f"/media/{media_id}/retranscribe"
        assert admin.post(address, json={"track": 0}).status_code == 422
        again = admin.post(address, json={"track": 1}).json()
    assert either_server.rushes.job(again["id"]).args["track"] == 1


def test_who_has_a_graphics_card_is_preferred(either_server: Running, tmp_path: Path) -> None:
    media_id = upload(either_server, recording(tmp_path / "short.wav", [1]))
    job = either_server.rushes.job(ask(either_server, media_id)["id"])
    assert job.needs == ["gpu?"]
