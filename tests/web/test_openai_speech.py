"""OpenAI's own library against a real server with a real engine; and our engine that speaks to any
such server, against our own."""

from __future__ import annotations

import io
import itertools
import wave
from collections.abc import Callable, Iterator
from typing import Any

import jiwer
import openai
import pytest

import speech
from running import ADMIN_TOKEN, Process, Running, settings_for
from rushes.engines.engine import RATE
from rushes.transcripts import captions

MODEL = speech.SMALL


@pytest.fixture(scope="module")
def process_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    models = speech.cache_dir(MODEL, "diarization-default")
    given = settings_for(
        data_dir=tmp_path_factory.mktemp("speech"), engine_cache_dir=models, transcode_workers=0
    )
    with Process(given) as running:
        yield running


@pytest.fixture(scope="module")
def client(process_of_all: Process) -> Iterator[openai.OpenAI]:
    with connected(process_of_all) as made:
        yield made


def connected(running: Process | Running) -> openai.OpenAI:
    http = running.client(None, base_url=running.url)
    url = f"{running.url}/v1"
    return openai.OpenAI(base_url=url, api_key=ADMIN_TOKEN, http_client=http, timeout=120)


def wer(text: str) -> float:
    return float(jiwer.wer(speech.plain(speech.JFK_TEXT), speech.plain(text)))


def heard(client: openai.OpenAI, **options: Any) -> Any:
    with speech.recording("jfk").open("rb") as file:
        return client.audio.transcriptions.create(file=file, model=MODEL, **options)


def test_real_words_with_their_times(client: openai.OpenAI) -> None:
    found = heard(client, response_format="verbose_json", timestamp_granularities=["word"])
    assert wer(found.text) <= 0.1
    assert (found.language, round(found.duration)) == ("english", 11)
    times = [at for each in found.words for at in (each.start, each.end)]
    assert times == sorted(times)
    assert times[-1] <= found.duration
    assert wer(" ".join(each.word for each in found.words)) <= 0.1
    assert all(-1 < each.avg_logprob < 0 for each in found.segments)


def test_real_captions(client: openai.OpenAI) -> None:
    said = captions.parse(heard(client, response_format="srt"))
    assert wer(said.text) <= 0.1
    assert said.segments[-1].end <= 11.1


def test_two_real_people_as_a_stream(client: openai.OpenAI) -> None:
    sentences = [speech.pcm(each) for each in speech.SENTENCE_NAMES[:4]]
    events = list(
        client.audio.transcriptions.create(
            file=("two.wav", wav(b"".join(sentences))),
            model=MODEL,
            response_format="diarized_json",
            stream=True,
        )
    )
    text = "".join(each.delta for each in events if each.type == "transcript.text.delta")
    segments = [each for each in events if each.type == "transcript.text.segment"]
    assert [speaker for speaker, _ in itertools.groupby(each.speaker for each in segments)] == [
        *"ABAB"
    ]
    assert all(a.end <= b.start + 0.1 for a, b in itertools.pairwise(segments))
    assert events[-1].type == "transcript.text.done"
    assert speech.plain(text) == speech.plain(events[-1].text)


def test_our_engine_for_such_servers_with_our_own_server(
    process_of_all: Process, serve: Callable[..., Running]
) -> None:
    there = {"engine": "openai", "engine_url": process_of_all.url, "engine_api_key": ADMIN_TOKEN}
    here = serve(transcodes=True, transcode_workers=0, transcription_workers=1, **there)
    with process_of_all.client() as admin:
        before = admin.get("/media").json()["items"]
    with connected(here) as client:
        assert MODEL in [each.id for each in client.models.list()]
        found = heard(client, response_format="verbose_json", timestamp_granularities=["word"])
    assert wer(found.text) <= 0.1
    assert len(found.words) >= 20
    assert found.words[-1].end <= found.duration
    with process_of_all.client() as admin:
        assert admin.get("/media").json()["items"] == before, "windows are not kept there"


def wav(sound: bytes) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound)
    return made.getvalue()
