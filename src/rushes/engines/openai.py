"""Any server that speaks OpenAI's transcription API, as an engine.

A window goes there as a WAV file. What a server does not tell (times of words, how sure it is) is
not made up. It cannot tell speakers apart across windows; the local engine does that. Another
Rushes that stores what it is sent has the windows deleted again.
"""

from __future__ import annotations

import io
import re
import threading
import time
import wave
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx2
import msgspec

from rushes import errors, ids
from rushes.engines import catalog, vad
from rushes.engines.engine import (
    BYTES_PER_SECOND,
    RATE,
    Capabilities,
    EngineFailed,
    EngineModel,
    EngineUnavailable,
    EngineWord,
    ModelUnavailable,
    SpeakerRequest,
    SpeakerTurn,
    TranscribeRequest,
    TranscribeResult,
    Utterance,
    Watch,
)
from rushes.engines.host import Call, Host

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 300.0
LIST_SECONDS = 10.0
POLL_SECONDS = 0.1
TRIES = 4
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30.0
# So long a list of models is believed.
FRESH_SECONDS = 60.0
FORGET_SECONDS = 5.0
# How a Rushes names the media that a window has become.
MEDIA_ID, IS_ID = "Rushes-Media-Id", re.compile(r"[A-Za-z0-9_]{1,64}")
NO_WORDS = "the answer is no transcript: look whether RUSHES_ENGINE_URL names a speech server"
NO_URL = "RUSHES_ENGINE_URL is not set: it must name the server of the engine 'openai'"


class OpenAI:
    id = "openai"

    def __init__(self, url: str, api_key: str = "", *, model: str = "") -> None:
        """`model`: the one to use when nobody names one."""
        self._url = url.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx2.Client(
            headers=headers, timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        )
        self._host = Host()
        self._model_name = model
        self._listed: tuple[float, Capabilities] | None = None

    def use_model(self, name: str) -> None:
        self._model_name, self._listed = name, None

    def capabilities(self) -> Capabilities:
        now = time.monotonic()
        if self._listed is None or now - self._listed[0] > FRESH_SECONDS:
            self._listed = (now, self._list())
        return self._listed[1]

    def prepare(
        self, models: Sequence[str], progress: Callable[[float, str], None], watch: Watch
    ) -> None:
        """The server fetches what it needs by itself."""
        if not self._url:
            raise EngineUnavailable(NO_URL)
        progress(1.0, "")

    def speech(self, pcm: bytes, watch: Watch) -> Sequence[tuple[float, float]]:
        if vad.network() is None:
            return vad.not_silent(pcm)
        call = Call(
            what="speech", request=pcm, directory=None, device="cpu", threads=1, max_loaded=1
        )
        intervals: Sequence[tuple[float, float]] = self._host.ask(call, watch)
        return intervals

    def transcribe(self, request: TranscribeRequest, watch: Watch) -> TranscribeResult:
        if not self._url:
            raise EngineUnavailable(NO_URL)
        fields: dict[str, Any] = {
            "model": request.model,
            "response_format": "verbose_json",
            "temperature": f"{request.temperature:g}",
            "timestamp_granularities[]": ["word", "segment"],
        }
        if request.language and request.task == "transcribe":
            fields["language"] = request.language
        if request.prompt:
            fields["prompt"] = request.prompt
        noun = "translations" if request.task == "translate" else "transcriptions"
        said = self._post(f"{self._url}/v1/audio/{noun}", fields, _wav(request.sound), watch)
        return result_of(said, len(request.sound) / BYTES_PER_SECOND, request)

    def diarize(
        self, request: SpeakerRequest, progress: Callable[[float], None], watch: Watch
    ) -> Sequence[SpeakerTurn]:
        raise EngineUnavailable(
            "the engine 'openai' cannot tell speakers apart; use the local engine for speakers"
        )

    def close(self) -> None:
        self._client.close()
        self._host.close()

    def _post(self, url: str, fields: Mapping[str, Any], sound: bytes, watch: Watch) -> Any:
        wait = FIRST_WAIT_SECONDS
        # Who understands it does the work once, however often it is asked for.
        headers = {"Idempotency-Key": ids.new("win")}
        for number in range(TRIES):
            try:
                return _decoded(self._send(url, headers, fields, sound, watch))
            except _AskAgain as error:
                if number + 1 == TRIES:
                    raise error.outcome from error
                _pause(min(error.wait_seconds or wait, LONGEST_WAIT_SECONDS), watch)
                wait *= 2
        raise AssertionError("not reached")

    def _send(
        self,
        url: str,
        headers: Mapping[str, str],
        fields: Mapping[str, Any],
        sound: bytes,
        watch: Watch,
    ) -> httpx2.Response:
        """In a thread: a server that thinks for minutes keeps nobody from stopping us."""
        got: list[httpx2.Response | Exception] = []

        def send() -> None:
            try:
                files = {"file": ("window.wav", sound, "audio/wav")}
                answer = self._client.post(url, data=fields, files=files, headers=headers)
                self._forget(answer)
                got.append(answer)
            except httpx2.HTTPError as error:
                got.append(error)
            except RuntimeError as error:
                # The client was closed meanwhile.
                got.append(error)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            watch()
        if isinstance(got[0], Exception):
            raise _AskAgain(EngineFailed(_why_no_answer(got[0]))) from got[0]
        return got[0]

    def _forget(self, answer: httpx2.Response) -> None:
        """Nobody there wants to see every window among their media. If that fails, they do."""
        media_id = answer.headers.get(MEDIA_ID, "")
        if answer.is_success and IS_ID.fullmatch(media_id):
            with suppress(httpx2.HTTPError, RuntimeError):
                url = f"{self._url}/api/v1/media/{media_id}"
                self._client.delete(url, timeout=FORGET_SECONDS)

    def _list(self) -> Capabilities:
        models, reason = [], None if self._url else NO_URL
        try:
            if self._url:
                answer = self._client.get(f"{self._url}/v1/models", timeout=LIST_SECONDS)
                listed = _decoded(answer)
                models = [self._model(each["id"]) for each in listed["data"]]
        except (httpx2.HTTPError, _AskAgain):
            reason = "the server of the speech engine (RUSHES_ENGINE_URL) does not answer"
        except errors.JobOutcome as error:
            reason = error.message
        except (KeyError, TypeError):
            reason = "what answers at RUSHES_ENGINE_URL does not list models as OpenAI does"
        return Capabilities(provider=self.id, device="remote", models=models, reason=reason)

    def _model(self, name: str) -> EngineModel:
        return EngineModel(
            name=name,
            purpose="transcription",
            title=name,
            licence="",
            size_bytes=0,
            languages=(),
            capabilities=(),
            installed=True,
            default=name == self._model_name,
        )


class _AskAgain(Exception):
    """It may be better in a moment; if not, that is the `outcome`."""

    def __init__(self, outcome: errors.JobOutcome, wait_seconds: float | None = None) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
        self.wait_seconds = wait_seconds


def _decoded(answer: httpx2.Response) -> Any:
    status = answer.status_code
    if status in (429, 503):
        busy = errors.RetryLater("the speech server is busy", code="engine_busy")
        raise _AskAgain(busy, _retry_after(answer))
    if status >= 500:
        raise _AskAgain(EngineFailed(f"the speech server answers with an error ({status})"))
    if status >= 300:
        raise _refusal(status)
    try:
        return msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        if not _is_text(answer):
            raise _AskAgain(EngineFailed(NO_WORDS)) from None
        return {"text": answer.text}


def _is_text(answer: httpx2.Response) -> bool:
    """Some send plain text whatever is asked for; the page of a proxy is none, nor is JSON that
    breaks off."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in ("", "text/plain") and not answer.text.lstrip().startswith(("<", "{"))


def _refusal(status: int) -> errors.JobOutcome:
    match status:
        case 401 | 403:
            return EngineUnavailable("the speech server refuses the key (RUSHES_ENGINE_API_KEY)")
        case 404:
            return ModelUnavailable(
                "the speech server has no such model, or RUSHES_ENGINE_URL is not its address"
            )
        case 413:
            return EngineUnavailable("the speech server takes no files of this size")
        case _:
            return EngineUnavailable(f"the speech server refuses the request ({status})")


def _retry_after(answer: httpx2.Response) -> float | None:
    said = answer.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _why_no_answer(error: Exception) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "the speech server did not answer in time"
    return "the speech server cannot be reached"


def _pause(seconds: float, watch: Watch) -> None:
    waiting, until = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < until:
        watch()
        waiting.wait(POLL_SECONDS)


def _wav(pcm: bytes) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(pcm)
    return made.getvalue()


def result_of(said: Any, duration: float, request: TranscribeRequest) -> TranscribeResult:
    """From what a server said, whichever part of OpenAI's verbose shape it fills."""
    if not isinstance(said, Mapping):
        raise EngineFailed("the speech server's answer is not what it should be")
    segments = [each for each in said.get("segments") or [] if isinstance(each, Mapping)]
    words = [each for each in said.get("words") or [] if isinstance(each, Mapping)]
    words = words or [word for each in segments for word in each.get("words") or []]
    logprobs = [
        each["avg_logprob"] for each in segments if isinstance(each.get("avg_logprob"), int | float)
    ]
    return TranscribeResult(
        text=str(said.get("text") or "").strip(),
        language=_language(said.get("language")) or request.language,
        words=_words(words, duration),
        utterances=_utterances(segments, duration),
        no_speech_probability=_largest(segments, "no_speech_prob"),
        average_logprob=sum(logprobs) / len(logprobs) if logprobs else None,
        compression_ratio=_largest(segments, "compression_ratio"),
    )


def _words(said: Sequence[Mapping[str, Any]], duration: float) -> list[EngineWord]:
    words = []
    for each in said:
        text = str(each.get("word") or each.get("text") or "").strip()
        if times := _times(each, duration) if text else None:
            sure = each.get("probability", each.get("confidence"))
            confidence = float(sure) if isinstance(sure, int | float) else None
            words.append(EngineWord(start=times[0], end=times[1], word=text, confidence=confidence))
    return sorted(words, key=lambda word: word.start)


def _utterances(said: Sequence[Mapping[str, Any]], duration: float) -> list[Utterance]:
    utterances = []
    for each in said:
        text = str(each.get("text") or "").strip()
        if times := _times(each, duration) if text else None:
            utterances.append(Utterance(start=times[0], end=times[1], text=text))
    return utterances


def _times(said: Mapping[str, Any], duration: float) -> tuple[float, float] | None:
    start, end = said.get("start"), said.get("end")
    if not isinstance(start, int | float) or not isinstance(end, int | float):
        return None
    first = min(max(float(start), 0.0), duration)
    return first, min(max(float(end), first), duration)


def _largest(said: Sequence[Mapping[str, Any]], name: str) -> float | None:
    numbers = [each[name] for each in said if isinstance(each.get(name), int | float)]
    return float(max(numbers)) if numbers else None


def _language(said: Any) -> str | None:
    """Some send a code, some the English name."""
    if not isinstance(said, str) or not said.strip():
        return None
    word = said.strip().lower()
    return catalog.CODES.get(word, word if len(word) <= 3 else None)
