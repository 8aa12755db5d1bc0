"""The OpenAI-compatible API by OpenAI's own library; the engine says what it is told."""

from __future__ import annotations

import io
import itertools
import socket
import threading
import wave
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai.types.audio import (
    TranscriptionDiarized,
    TranscriptionLanguage,
    TranscriptionVerbose,
)
from openai.types.audio.transcription import UsageDuration

import spoken
import world as worlds
from running import Running
from rushes import errors
from rushes.engines.engine import EngineUnavailable
from rushes.transcripts import passages
from rushes.transcripts.transcript import Passage, Turn
from rushes.web.openai import following as openai_following
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler
from shell import until

FIRST, SECOND = "Good morning, everybody.", "Shall we begin <now>?"
TEXT = f"{FIRST} {SECOND}"


def sound(seconds: float = 0.1, rate: int = 8000) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(bytes(2 * int(seconds * rate)))
    return made.getvalue()


SOUND = sound()
STORED = {"store": "true"}


@dataclass
class Speaker:
    """What the engine of these tests says, one passage after the other; each waits for its turn if
    there is a `gate`."""

    said: Sequence[Passage] = ()
    turns: Sequence[Turn] = ()
    fails: Exception | None = None
    gate: threading.Semaphore | None = None
    orders: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, job: JobContext) -> dict[str, Any]:
        self.orders.append(dict(job.args))
        kept = len(job.passages())
        if self.fails is not None:
            raise self.fails
        for number, each in list(enumerate(self.said))[kept:]:
            self._wait(job)
            job.put_passage(number, passages.encode(each))
        self._wait(job)
        diarizes = bool(job.args.get("diarize"))
        if diarizes:
            job.put_passage(len(self.said), passages.encode_turns(self.turns))
        engine = {"provider": "local", "transcription_model": "whisper-base"}
        return {"language": "en", "duration": 12.3456, "engine": engine}

    def _wait(self, job: JobContext) -> None:
        while self.gate is not None and not self.gate.acquire(timeout=0.02):
            job.raise_if_stopped()


SPEAKER = Speaker()


@pytest.fixture
def speaker() -> Speaker:
    """As if nobody had spoken before."""
    first, second = spoken.said(FIRST, 0.5), spoken.said(SECOND, 8.0)
    SPEAKER.said = [spoken.passage(first), spoken.passage(second)]
    SPEAKER.turns = [spoken.turn(0.0, 4.0, 0), spoken.turn(7.0, 11.0, 1)]
    SPEAKER.fails = SPEAKER.gate = None
    SPEAKER.orders = []
    return SPEAKER


@pytest.fixture(scope="module")
def server_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    table, place = {"transcribe": Handler(SPEAKER)}, tmp_path_factory.mktemp("openai")
    with Running(table, data_dir=place, heartbeat_interval=0.2) as running:
        yield running


class Person:
    """Somebody with a token, by their own library and as curl would."""

    def __init__(self, running: Running, api: httpx2.Client) -> None:
        self.running = running
        self.api = api
        self.token = api.headers["authorization"].partition(" ")[2]

    def library(self, **options: Any) -> openai.OpenAI:
        # Ours looks at every answer for what must not be seen.
        http = self.running.client(None, base_url=self.running.url)
        url = f"{self.running.url}/v1"
        return openai.OpenAI(base_url=url, api_key=self.token, http_client=http, **options)

    def post(
        self,
        fields: dict[str, Any],
        *,
        headers: dict[str, str] | None = None,
        timeout: float = 30,
        file_name: str = "meeting.wav",
    ) -> httpx2.Response:
        return self.api.post(
            f"{self.running.url}/v1/audio/transcriptions",
            data=fields,
            files={"file": (file_name, SOUND)},
            headers=headers or {},
            timeout=timeout,
        )

    def items(self, what: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get(f"/{what}").json()["items"]
        return found


_names = itertools.count()


@pytest.fixture
def ada(server_of_all: Running, speaker: Speaker) -> Iterator[Person]:
    """New each time, on the server that these tests share."""
    with server_of_all.user(f"ada{next(_names)}") as api:
        yield Person(server_of_all, api)


@pytest.fixture
def client(ada: Person) -> Iterator[openai.OpenAI]:
    with ada.library() as made:
        yield made


@pytest.fixture
def alone(tmp_path: Path, speaker: Speaker) -> Iterator[Callable[..., Person]]:
    """The admin of a server of one's own."""
    with ExitStack() as stack:

        def start(**given: Any) -> Person:
            running = Running({"transcribe": Handler(speaker)}, data_dir=tmp_path, **given)
            stack.enter_context(running)
            return Person(running, stack.enter_context(running.client()))

        yield start


def transcribe(client: openai.OpenAI, **options: Any) -> Any:
    given = {"model": "whisper-1", "file": ("meeting.wav", SOUND), **options}
    return client.audio.transcriptions.create(**given)


# Formats


def test_a_file_becomes_text_and_a_media_of_its_sender(
    ada: Person, client: openai.OpenAI, speaker: Speaker
) -> None:
    answer = client.audio.transcriptions.with_raw_response.create(
        model="whisper-1",
        file=("Monday meeting.wav", SOUND),
        language="en",
        prompt="  A\nmeeting ",
        extra_body=STORED,
    )
    found = answer.parse()
    assert found.text == TEXT
    assert found.usage == UsageDuration(type="duration", seconds=13)
    assert found.languages == [TranscriptionLanguage(code="en")]
    [order] = speaker.orders
    assert order == {"model": "whisper-base", "language": "en", "prompt": "A meeting"}
    media = ada.api.get(f"/media/{answer.headers['rushes-media-id']}").json()
    assert (media["title"], media["status"]) == ("Monday meeting", "ready")
    assert media["transcript_status"] == "ready"
    job = ada.api.get(f"/transcriptions/{answer.headers['rushes-transcription-id']}").json()
    assert (job["status"], job["media_id"]) == ("completed", media["id"])
    assert [each["kind"] for each in ada.items("jobs")] == ["transcribe"]
    assert ada.items("jobs")[0]["priority"] == "high"


def test_plain_formats(client: openai.OpenAI) -> None:
    assert transcribe(client, response_format="text") == f"{TEXT}\n"
    srt = transcribe(client, response_format="srt")
    assert srt.startswith("1\n00:00:00,500 --> ")
    assert FIRST in srt
    vtt = transcribe(client, response_format="vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:00.500 --> ")
    assert "Shall we begin &lt;now&gt;?" in vtt


def test_verbose_json_has_all_that_programs_look_for(client: openai.OpenAI) -> None:
    found = transcribe(client, response_format="verbose_json")
    assert isinstance(found, TranscriptionVerbose)
    assert (found.language, found.duration, found.text) == ("english", 12.346, TEXT)
    assert found.words is None
    assert found.segments is not None
    assert [each.text for each in found.segments] == [FIRST, SECOND]
    assert [each.id for each in found.segments] == [0, 1]
    first = found.segments[0]
    assert (first.start, first.seek, first.tokens, first.temperature) == (0.5, 50, [], 0.0)
    assert first.avg_logprob == pytest.approx(-0.105, abs=0.001)
    assert 0 < first.compression_ratio < 2
    assert first.no_speech_prob == 0.0


@pytest.mark.parametrize("name", ["timestamp_granularities[]", "timestamp_granularities"])
def test_words_come_when_they_are_asked_for_in_either_spelling(ada: Person, name: str) -> None:
    fields = {"response_format": "verbose_json", name: ["segment", "word"]}
    found = ada.post(fields).json()
    assert [each["word"] for each in found["words"]] == TEXT.split()
    assert found["words"][0] == {"word": "Good", "start": 0.5, "end": 0.74}
    assert len(found["segments"]) == 2


def test_diarized_json_tells_speakers_apart(client: openai.OpenAI, speaker: Speaker) -> None:
    found = transcribe(client, model="gpt-4o-transcribe-diarize", response_format="diarized_json")
    assert isinstance(found, TranscriptionDiarized)
    assert [(each.speaker, each.text) for each in found.segments] == [("A", FIRST), ("B", SECOND)]
    assert (found.task, found.text, found.segments[0].type) == (
        "transcribe",
        TEXT,
        "transcript.text.segment",
    )
    assert speaker.orders == [{"model": "whisper-base", "diarize": True}]


def test_nothing_that_was_said_is_an_empty_transcript(
    client: openai.OpenAI, speaker: Speaker
) -> None:
    speaker.said = speaker.turns = ()
    assert transcribe(client).text == ""
    assert transcribe(client, response_format="text") == "\n"
    verbose = transcribe(client, response_format="verbose_json")
    assert (verbose.language, verbose.segments) == ("unknown", [])
    assert transcribe(client, response_format="diarized_json").segments == []
    assert [each.type for each in transcribe(client, stream=True)] == ["transcript.text.done"]


@pytest.mark.filterwarnings("ignore:deprecated")
def test_translations(client: openai.OpenAI, speaker: Speaker) -> None:
    said = client.audio.translations.create(
        model="base", file=("gespräch.wav", SOUND), response_format="verbose_json"
    )
    assert (said.language, said.text) == ("english", TEXT)
    assert speaker.orders == [{"model": "whisper-base", "task": "translate"}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.translations.create(model="whisper-tiny.en", file=("a.wav", SOUND))
    assert refused.value.param == "model"


# As it comes


def test_text_streams_while_the_job_still_runs(client: openai.OpenAI, speaker: Speaker) -> None:
    speaker.gate = threading.Semaphore(1)
    with transcribe(client, stream=True) as stream:
        first = next(stream)
        assert (first.type, first.delta) == ("transcript.text.delta", FIRST)
        speaker.gate.release(2)
        second, last = list(stream)
    assert second.delta == f" {SECOND}"
    assert (last.type, last.text) == ("transcript.text.done", TEXT)


def test_a_stream_ends_with_who_said_what_if_asked(client: openai.OpenAI) -> None:
    events = list(transcribe(client, stream=True, response_format="diarized_json"))
    assert "".join(each.delta for each in events if each.type.endswith(".delta")) == TEXT
    segments = [each for each in events if each.type == "transcript.text.segment"]
    assert [(each.speaker, each.text) for each in segments] == [("A", FIRST), ("B", SECOND)]
    assert events[-1].type == "transcript.text.done"


def test_the_wire_of_a_stream(ada: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_following, "LOOK_SECONDS", 0.05)
    answer = ada.post({"stream": "true"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["rushes-transcription-id"].startswith("job_")
    frames = answer.text.split("\n\n")
    assert frames.pop() == ""
    assert frames[-1] == "data: [DONE]"
    assert {each.partition(" ")[0] for each in frames} <= {"data:", ":"}


def test_words_come_even_if_nobody_tells_of_them(
    alone: Callable[..., Person], speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_following, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(openai_following, "RETRY_SECONDS", 0.02)
    admin = alone()
    admin.running.services.relay.close()
    speaker.gate = threading.Semaphore(1)
    with admin.library() as client:
        with transcribe(client, stream=True) as stream:
            assert next(stream).delta == FIRST
            speaker.gate.release(2)
            rest = list(stream)
        assert "".join(each.delta for each in rest[:-1]) == f" {SECOND}"
        assert rest[-1].text == TEXT
        speaker.gate = None
        assert transcribe(client).text == TEXT


def test_a_server_on_postgres(alone: Callable[..., Person], speaker: Speaker) -> None:
    with worlds.postgres_database() as url:
        admin = alone(database_url=url)
        speaker.gate = threading.Semaphore(1)
        stored = {"stream": True, "extra_body": STORED}
        with admin.library() as client, transcribe(client, **stored) as stream:
            assert next(stream).delta == FIRST
            speaker.gate.release(2)
            assert list(stream)[-1].text == TEXT
        # As their library would after a time-out.
        again = admin.post({"model": "whisper-1"}, headers={"x-stainless-retry-count": "1"})
        assert again.json()["text"] == TEXT
        assert [each["status"] for each in admin.items("media")] == ["ready"]
        speaker.gate = None
        with admin.library() as client:
            assert transcribe(client, file=("other.wav", sound(0.2))).text == TEXT
        assert len(admin.items("media")) == 1
        admin.running.stop()


# Models


def test_models_are_listed_and_found_by_any_name(client: openai.OpenAI) -> None:
    names = {each.id for each in client.models.list()}
    assert {"whisper-1", "whisper-base", "whisper-tiny.en"} <= names
    assert not any(each.startswith("diarization") for each in names)
    for name in ("whisper-base", "whisper-1", "tiny", "gpt-4o-mini-transcribe"):
        assert client.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("org/nothing")
    assert missing.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("tiny.en", "whisper-tiny.en"), ("gpt-4o-transcribe", "whisper-base"), ("", "whisper-base")],
)
def test_a_model_by_another_name(ada: Person, speaker: Speaker, given: str, meant: str) -> None:
    assert ada.post({"model": given}).status_code == 200
    assert [each["model"] for each in speaker.orders] == [meant]


# Errors


@pytest.mark.parametrize(
    ("options", "status", "param"),
    [
        ({"response_format": "xml"}, 400, "response_format"),
        ({"timestamp_granularities": ["letter"]}, 400, "timestamp_granularities"),
        ({"language": "klingon"}, 400, "language"),
        ({"model": "whisper-tiny.en", "language": "fr"}, 400, "language"),
        ({"extra_body": {"stream": "perhaps"}}, 400, "stream"),
        ({"extra_body": {"store": "perhaps"}}, 400, "store"),
        ({"file": ("notes.txt", b"just some words, not a recording" * 200)}, 400, None),
        ({"file": ("empty.wav", b"")}, 400, None),
        ({"model": "whisper-9000"}, 404, None),
    ],
)
def test_what_cannot_be_done_is_said_in_their_words(
    ada: Person, options: dict[str, Any], status: int, param: str | None
) -> None:
    with ada.library() as client, pytest.raises(openai.APIStatusError) as refused:
        transcribe(client, **options)
    error = refused.value
    assert (error.status_code, error.param, error.type) == (status, param, "invalid_request_error")
    assert error.code
    assert ada.items("media") == []


def test_every_error_below_v1_has_their_shape(ada: Person) -> None:
    bad = {"Authorization": "Bearer nobody"}
    with ada.running.client(ada.token, base_url=ada.running.url) as admin:
        answers = {
            "invalid_api_key": admin.get("/v1/models", headers=bad),
            "not_found": admin.post("/v1/chat/completions", json={}),
            "method_not_allowed": admin.put("/v1/models"),
            "unsupported_media": admin.post("/v1/audio/transcriptions", json={"file": "x"}),
            "bad_field": admin.post("/v1/audio/transcriptions", files={"other": b"x"}),
            "invalid": admin.post(
                "/v1/audio/transcriptions",
                content=b"--x\r\nnonsense",
                headers={"Content-Type": "multipart/form-data; boundary=x"},
            ),
        }
        outside = admin.get("/api/v1/nothing")
    statuses = {code: each.status_code for code, each in answers.items()}
    assert statuses == {
        "invalid_api_key": 401,
        "not_found": 404,
        "method_not_allowed": 405,
        "unsupported_media": 400,
        "bad_field": 400,
        "invalid": 400,
    }
    for code, answer in answers.items():
        assert answer.headers["content-type"] == "application/json"
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == code
    assert answers["bad_field"].json()["error"]["param"] == "file"
    assert outside.json()["code"] == "not_found"


def test_who_may_only_read_cannot_transcribe(ada: Person) -> None:
    made = ada.api.post("/tokens", json={"name": "eyes", "scopes": ["read"]})
    ada.token = made.json()["token"]
    with ada.library() as client:
        assert client.models.list().data
        with pytest.raises(openai.PermissionDeniedError):
            transcribe(client)


def test_too_large_a_file_is_refused(alone: Callable[..., Person]) -> None:
    admin = alone(max_upload_size=500)
    with admin.library() as client, pytest.raises(openai.APIStatusError) as refused:
        transcribe(client)
    assert (refused.value.status_code, refused.value.code) == (413, "too_large")


# What becomes of the job


@pytest.mark.parametrize(
    ("fails", "status", "code"),
    [
        (EngineUnavailable("the speech engine is not installed"), 503, "engine_unavailable"),
        (errors.PermanentFailure("there is no sound in it", code="damaged"), 400, "damaged"),
        (errors.PermanentFailure("it broke", code="odd"), 500, "odd"),
    ],
)
def test_a_failed_job_is_told_once_and_kept_if_asked(
    ada: Person, speaker: Speaker, fails: Exception, status: int, code: str
) -> None:
    speaker.fails = fails
    with ada.library(max_retries=2) as client:
        with pytest.raises(openai.APIStatusError) as refused:
            transcribe(client, extra_body=STORED)
        assert (refused.value.status_code, refused.value.code) == (status, code)
        assert str(fails) in refused.value.message
        job_id = refused.value.response.headers["rushes-transcription-id"]
        with pytest.raises(openai.APIError) as streamed:
            list(transcribe(client, stream=True, extra_body=STORED))
        assert streamed.value.code == code
        with pytest.raises(openai.APIStatusError) as forgotten:
            transcribe(client)
        assert (forgotten.value.status_code, forgotten.value.code) == (status, code)
    assert ada.api.get(f"/transcriptions/{job_id}").json()["error_code"] == code
    items = ada.items("media")
    assert [each["status"] for each in items] == ["failed", "failed"]
    assert {each["error"] for each in items} == {str(fails)}


def test_a_canceled_job_ends_the_waiting(
    ada: Person, client: openai.OpenAI, speaker: Speaker
) -> None:
    speaker.gate = threading.Semaphore(1)
    with transcribe(client, stream=True) as stream:
        next(stream)
        [job] = ada.items("transcriptions")
        ada.api.post(f"/transcriptions/{job['id']}/cancel")
        with pytest.raises(openai.APIError, match="canceled"):
            next(stream)


def test_who_waits_too_long_is_told_where_to_look(alone: Callable[..., Person]) -> None:
    ada = alone(transcription_wait=0.05, transcription_workers=0)
    answer = ada.post(STORED, headers={"Idempotency-Key": "once"})
    job_id = answer.headers["rushes-transcription-id"]
    assert (answer.status_code, answer.headers["x-should-retry"]) == (504, "true")
    assert answer.json()["error"]["code"] == "not_finished"
    assert job_id in answer.json()["error"]["message"]
    again = ada.post(STORED, headers={"Idempotency-Key": "once"})
    assert again.headers["rushes-transcription-id"] == job_id
    other = ada.post(STORED)
    assert (other.headers["x-should-retry"], other.status_code) == ("false", 504)
    [_, first] = ada.items("transcriptions")
    assert (first["id"], first["status"]) == (job_id, "queued")


def test_who_leaves_does_not_stop_the_job(
    ada: Person, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_following, "LOOK_SECONDS", 0.02)
    speaker.gate = threading.Semaphore(0)
    url = f"{ada.running.url}/v1/audio/transcriptions"
    files = {"file": ("a.wav", SOUND)}
    with sent(ada.api.build_request("POST", url, data=STORED, files=files)):
        until(lambda: len(ada.items("transcriptions")) == 1)
    file, fields = ("b.wav", sound(0.2)), {"stream": "true", **STORED}
    with ada.api.stream("POST", url, data=fields, files={"file": file}) as answer:
        left = answer.headers["rushes-transcription-id"]
    until(lambda: ada.running.services.relay.subscribers == 0)
    speaker.gate.release(6)
    states = ["completed", "completed"]
    until(lambda: [each["status"] for each in ada.items("transcriptions")] == states)
    assert left in [each["id"] for each in ada.items("transcriptions")]


@contextmanager
def sent(request: httpx2.Request) -> Iterator[None]:
    """On a line that is cut in the end."""
    host, port = request.url.host, request.url.port
    head = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1"]
    head += [f"{name}: {value}" for name, value in request.headers.items()]
    with socket.create_connection((host, port)) as line:
        line.sendall("\r\n".join([*head, "", ""]).encode() + request.read())
        yield


def test_a_stopping_server_lets_nobody_wait(alone: Callable[..., Person], speaker: Speaker) -> None:
    speaker.gate = threading.Semaphore(1)
    admin = alone()
    with admin.library() as client, transcribe(client, stream=True) as stream:
        next(stream)
        admin.running.stop()
        with pytest.raises(openai.APIError, match="the server is stopping"):
            list(stream)


def test_repeating_with_a_key_does_it_once(client: openai.OpenAI, speaker: Speaker) -> None:
    same: dict[str, Any] = {"extra_headers": {"Idempotency-Key": "monday"}, "extra_body": STORED}
    assert transcribe(client, **same).text == TEXT
    assert transcribe(client, **same).text == TEXT
    with pytest.raises(openai.BadRequestError) as refused:
        transcribe(client, **same, timestamp_granularities=["word"])
    assert refused.value.param == "Idempotency-Key"
    assert len(speaker.orders) == 1


def test_what_their_library_repeats_by_itself_is_done_once(ada: Person, speaker: Speaker) -> None:
    english, german = {"language": "en", **STORED}, {"language": "de", **STORED}
    first = ada.post(english, headers={"x-stainless-retry-count": "0"})
    again = ada.post(english, headers={"x-stainless-retry-count": "1"})
    assert again.headers["rushes-media-id"] == first.headers["rushes-media-id"]
    assert again.json() == first.json()
    other = ada.post(german, headers={"x-stainless-retry-count": "1"})
    anew = ada.post(english)
    assert len(speaker.orders) == 3
    made = {each.headers["rushes-media-id"] for each in (first, other, anew)}
    assert {each["id"] for each in ada.items("media")} == made
    assert len(made) == 3


def test_each_user_has_their_own(ada: Person) -> None:
    with ada.running.user(f"bob{next(_names)}") as api:
        bob = Person(ada.running, api)
        answer = ada.post(STORED)
        job = f"/transcriptions/{answer.headers['rushes-transcription-id']}"
        media = f"/media/{answer.headers['rushes-media-id']}"
        assert (ada.api.get(job).status_code, bob.api.get(job).status_code) == (200, 404)
        assert (ada.api.get(media).status_code, bob.api.get(media).status_code) == (200, 404)
        # The same file, sent again: but it was somebody else who had sent it before.
        other = bob.post(STORED, headers={"x-stainless-retry-count": "1"})
        assert [each["id"] for each in bob.items("media")] == [other.headers["rushes-media-id"]]
        assert len(ada.items("media")) == 1


# Odd input


def test_fields_that_mean_nothing_here_are_ignored(client: openai.OpenAI, speaker: Speaker) -> None:
    found = transcribe(
        client,
        temperature=0.4,
        chunking_strategy={"type": "server_vad", "threshold": 0.3},
        include=["logprobs"],
        extra_body={
            "known_speaker_names": ["Ann", "Bob"],
            "known_speaker_references": ["data:audio/wav;base64," + "A" * 100_000],
            "keywords": ["Rushes", " ", "FFmpeg\0"],
            "hotwords": "x",
        },
    )
    assert found.text == TEXT
    assert speaker.orders == [{"model": "whisper-base", "vocabulary": ["Rushes", "FFmpeg"]}]


def test_hostile_forms_are_refused_and_leave_nothing(ada: Person) -> None:
    many = {f"field{n}": "x" for n in range(400)}
    assert ada.post(many).status_code == 413
    assert ada.post({"ignored": "x" * (17 * 2**20)}).status_code == 413
    assert ada.post({"prompt": "x" * 70_000}).json()["error"]["param"] == "prompt"
    assert ada.post({"model": ["base", "tiny"]}).json()["error"]["param"] == "model"
    assert ada.items("media") == []


def test_odd_text_in_fields_and_names_is_harmless(ada: Person, speaker: Speaker) -> None:
    fields = {**STORED, "prompt": "a\0b‮ " + "x" * 5000, "language": "EN-us"}
    answer = ada.post(fields, file_name="../../etc/pass\u202ewd.wav")
    assert answer.status_code == 200
    [order] = speaker.orders
    assert len(order["prompt"]) == 1000
    assert order["language"] == "en"
    media = ada.api.get(f"/media/{answer.headers['rushes-media-id']}").json()
    assert media["title"] == "passwd"
