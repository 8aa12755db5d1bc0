"""The engine that asks another server, against a real one that answers as it is told."""

from __future__ import annotations

import io
import json
import threading
import wave
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rushes import errors
from rushes.engines import openai, vad
from rushes.engines.engine import (
    BYTES_PER_SECOND,
    EngineFailed,
    EngineUnavailable,
    ModelUnavailable,
    SpeakerRequest,
    TranscribeRequest,
)
from rushes.engines.openai import OpenAI
from rushes.engines.registry import Options, Registry

SOUND = b"\x00\x01" * (BYTES_PER_SECOND // 2) * 3
VERBOSE = {
    "task": "transcribe",
    "language": "english",
    "duration": 3.0,
    "text": " Good morning. ",
    "segments": [
        {
            "id": 0,
            "start": 0.1,
            "end": 1.5,
            "text": " Good morning.",
            "avg_logprob": -0.2,
            "no_speech_prob": 0.01,
            "compression_ratio": 0.9,
        }
    ],
    "words": [
        {"word": " Good", "start": 0.1, "end": 0.4},
        {"word": "morning.", "start": 0.5, "end": 99},
    ],
}


@dataclass
class Server:
    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, list[Any]]]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    once: list[str | None] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    hold: threading.Event | None = None


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.asked.append((self.path, _form(self.headers["Content-Type"], body)))
            server.keys.append(self.headers.get("Authorization"))
            server.once.append(self.headers.get("Idempotency-Key"))
            if server.hold is not None:
                server.hold.wait(60)
            self._answer()

        def do_GET(self) -> None:
            server.asked.append((self.path, {}))
            self._answer()

        def do_DELETE(self) -> None:
            server.deleted.append(self.path)
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _answer(self) -> None:
            status, value = server.answers.pop(0)
            if value is None:
                self.close_connection = True
                return
            said = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            for name, each in server.headers.items():
                self.send_header(name, each)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *said: Any) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield server
    if server.hold is not None:
        server.hold.set()
    http.shutdown()
    http.server_close()
    thread.join()


def _form(kind: str, body: bytes) -> dict[str, list[Any]]:
    made: EmailMessage = BytesParser(EmailMessage).parsebytes(
        f"Content-Type: {kind}\r\n\r\n".encode() + body
    )
    fields: dict[str, list[Any]] = {}
    for part in made.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        fields.setdefault(name, []).append(data if name == "file" else data.decode())
    return fields


@pytest.fixture
def engine(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    monkeypatch.setattr(openai, "FIRST_WAIT_SECONDS", 0.01)
    engine = OpenAI(server.url, "sk-remote")
    yield engine
    engine.close()


def ask(engine: OpenAI, **more: Any) -> Any:
    return engine.transcribe(
        TranscribeRequest(sound=SOUND, model="whisper-large", **more), lambda: None
    )


def test_words_times_and_trust_are_read(server: Server, engine: OpenAI) -> None:
    server.answers = [(200, VERBOSE)]
    answer = ask(engine, language="en", prompt="Names: Ada", temperature=0.4)
    assert answer.text == "Good morning."
    assert answer.language == "en"
    assert [(each.word, each.start, each.end) for each in answer.words] == [
        ("Good", 0.1, 0.4),
        ("morning.", 0.5, 3.0),
    ]
    assert answer.average_logprob == -0.2
    assert answer.no_speech_probability == 0.01
    [(path, form)] = server.asked
    assert path == "/v1/audio/transcriptions"
    assert form["model"] == ["whisper-large"]
    assert form["language"] == ["en"]
    assert form["prompt"] == ["Names: Ada"]
    assert form["temperature"] == ["0.4"]
    assert form["response_format"] == ["verbose_json"]
    assert form["timestamp_granularities[]"] == ["word", "segment"]
    assert server.keys == ["Bearer sk-remote"]
    with wave.open(io.BytesIO(form["file"][0])) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
        assert sound.readframes(10**9) == SOUND


def test_translation_is_asked_for_elsewhere(server: Server, engine: OpenAI) -> None:
    server.answers = [(200, VERBOSE)]
    ask(engine, language="de", task="translate")
    [(path, form)] = server.asked
    assert path == "/v1/audio/translations"
    assert "language" not in form


def test_without_words_segments_serve_and_without_those_the_text(
    server: Server, engine: OpenAI
) -> None:
    segments = {key: value for key, value in VERBOSE.items() if key != "words"}
    server.answers = [(200, segments), (200, {"text": "Hello"}), (200, "Just text\n")]
    answer = ask(engine)
    assert answer.words == []
    assert [(each.start, each.end, each.text) for each in answer.utterances] == [
        (0.1, 1.5, "Good morning.")
    ]
    plain = ask(engine)
    assert (plain.text, plain.words, plain.utterances) == ("Hello", [], [])
    assert plain.average_logprob is None
    assert ask(engine).text == "Just text"


def test_it_is_asked_again_when_it_stumbles(server: Server, engine: OpenAI) -> None:
    server.answers = [(500, "oops"), (200, None), (429, "slow down"), (200, VERBOSE)]
    assert ask(engine).text == "Good morning."
    assert len(server.asked) == 4
    server.answers = [(200, VERBOSE)]
    ask(engine)
    *tries, other = server.once
    assert len(set(tries)) == 1, "who remembers keys does the work once"
    assert None not in tries
    assert other not in tries


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        ("text/html; charset=utf-8", "<!doctype html><title>Sign in</title>"),
        ("text/plain", "<html><body>Bad gateway</body></html>"),
        ("application/json", '{"text": "Good mor'),
        ("text/plain", '{"text": "Good mor'),
    ],
)
def test_a_page_of_somebody_else_is_no_transcript(
    server: Server, engine: OpenAI, kind: str, page: str
) -> None:
    server.headers = {"Content-Type": kind}
    server.answers = [(200, page)] * openai.TRIES
    with pytest.raises(EngineFailed, match="RUSHES_ENGINE_URL"):
        ask(engine)
    server.answers = [(200, page), (200, VERBOSE)]
    assert ask(engine).text == "Good morning."


def test_nothing_stays_with_a_server_that_keeps_what_it_hears(
    server: Server, engine: OpenAI
) -> None:
    server.headers = {"Rushes-Media-Id": "med_0123"}
    server.answers = [(200, VERBOSE)]
    assert ask(engine).text == "Good morning.", "whether it can be deleted or not"
    assert server.deleted == ["/api/v1/media/med_0123"]
    server.headers = {"Rushes-Media-Id": "../users/1"}
    server.answers = [(200, VERBOSE)]
    ask(engine)
    assert len(server.deleted) == 1


@pytest.mark.parametrize(
    ("status", "outcome", "said"),
    [
        (401, EngineUnavailable, "RUSHES_ENGINE_API_KEY"),
        (403, EngineUnavailable, "RUSHES_ENGINE_API_KEY"),
        (404, ModelUnavailable, "no such model"),
        (413, EngineUnavailable, "size"),
        (422, EngineUnavailable, "422"),
    ],
)
def test_a_refusal_is_not_repeated(
    server: Server,
    engine: OpenAI,
    status: int,
    outcome: type[errors.JobOutcome],
    said: str,
) -> None:
    server.answers = [(status, {"error": {"message": "sk-remote is wrong in /srv/secret"}})]
    with pytest.raises(outcome, match=said) as caught:
        ask(engine)
    assert "secret" not in caught.value.message
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(429, errors.RetryLater), (503, errors.RetryLater), (500, EngineFailed)],
)
def test_one_that_stays_away_is_left_for_later(
    server: Server, engine: OpenAI, status: int, outcome: type[errors.JobOutcome]
) -> None:
    server.answers = [(status, "no")] * openai.TRIES
    with pytest.raises(outcome):
        ask(engine)
    assert len(server.asked) == openai.TRIES


def test_nobody_there_is_a_failure_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai, "FIRST_WAIT_SECONDS", 0.01)
    engine = OpenAI("http://127.0.0.1:9")
    with pytest.raises(EngineFailed, match="cannot be reached"):
        ask(engine)
    assert "does not answer" in str(engine.capabilities().reason)
    engine.close()


def test_whoever_watches_is_let_go_while_the_server_thinks(server: Server, engine: OpenAI) -> None:
    server.hold = threading.Event()
    server.answers = [(200, VERBOSE)]

    def watch() -> None:
        if server.asked:
            raise errors.Canceled("enough")

    with pytest.raises(errors.Canceled):
        engine.transcribe(TranscribeRequest(sound=SOUND), watch)


def test_models_are_those_of_the_server(server: Server, engine: OpenAI) -> None:
    server.answers = [(200, {"object": "list", "data": [{"id": "whisper-large"}]})]
    can = engine.capabilities()
    assert [each.name for each in can.models] == ["whisper-large"]
    assert can.reason is None
    engine.capabilities()
    assert len(server.asked) == 1, "the list is believed for a while"


@pytest.mark.parametrize(
    ("status", "value"), [(200, {"models": []}), (200, ["x"]), (401, "no"), (500, "oops")]
)
def test_a_server_that_lists_nothing_is_a_reason(
    server: Server, engine: OpenAI, status: int, value: Any
) -> None:
    server.answers = [(status, value)]
    can = engine.capabilities()
    assert can.reason
    assert can.models == []


@pytest.mark.parametrize(
    ("listed", "setting", "meant"),
    [
        (["Systran/faster-whisper-small"], "", "Systran/faster-whisper-small"),
        (["tts-1", "whisper-1", "whisper-2"], "", "whisper-1"),
        (["tts-1", "large", "small"], "small", "small"),
        (["tts-1"], "secret-one", "secret-one"),
        (None, "", "whisper-1"),
    ],
)
def test_who_names_no_model_gets_the_servers(
    server: Server, tmp_path: Path, listed: list[str] | None, setting: str, meant: str
) -> None:
    models = {"data": [{"id": each} for each in listed or []]}
    server.answers = [(200, models) if listed else (404, "nothing here")]
    options = Options(cache_dir=tmp_path, engine="openai", url=server.url, model=setting)
    registry = Registry(options)
    assert registry.model(registry.get()) == meant
    assert registry.model(registry.get("local")) == "whisper-base"
    registry.close()


def test_speakers_are_told_apart_by_the_local_engine(server: Server, tmp_path: Any) -> None:
    server.answers = [(200, {"data": [{"id": "whisper-large"}]})]
    registry = Registry(Options(cache_dir=tmp_path, engine="openai", url=server.url))
    remote = registry.get()
    assert remote.id == "openai"
    assert registry.speakers().id == "local"
    with pytest.raises(EngineUnavailable, match="local engine"):
        remote.diarize(SpeakerRequest(path=tmp_path), lambda share: None, lambda: None)
    registry.close()


def test_without_an_address_it_says_so() -> None:
    engine = OpenAI("")
    assert "RUSHES_ENGINE_URL" in str(engine.capabilities().reason)
    with pytest.raises(EngineUnavailable, match="RUSHES_ENGINE_URL"):
        ask(engine)
    with pytest.raises(EngineUnavailable, match="RUSHES_ENGINE_URL"):
        engine.prepare(["whisper-1"], lambda share, what: None, lambda: None)
    engine.close()


def test_without_the_speech_extra_only_silence_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vad, "network", lambda: None)
    engine = OpenAI("http://127.0.0.1:9")
    silence = bytes(BYTES_PER_SECOND)
    assert engine.speech(silence + SOUND + silence, lambda: None) == [(1.0, 4.0)]
    engine.close()
