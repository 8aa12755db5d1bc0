"""An engine that does what real ones do only now and then: break, loop, invent, hang.

The sound it hears is made so that each word can be told from its loudness, so nothing of it has to
be guessed: word number n is spoken from second n on, for 0.8 seconds.
"""

from __future__ import annotations

import subprocess
import wave
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ffmpegs
from rushes.engines.engine import (
    RATE,
    Capabilities,
    Engine,
    EngineWord,
    SpeakerRequest,
    SpeakerTurn,
    TranscribeRequest,
    TranscribeResult,
    Watch,
)
from rushes.engines.pace import Pace
from rushes.handlers.transcribe.steps import transcribe
from rushes.protocol import Progress
from rushes.records import JsonObject
from rushes.transcripts import passages
from rushes.transcripts.transcript import Transcript
from rushes.worker.context import JobContext
from rushes.worker.folder import CLAIM, Folder

SPOKEN = 0.8
QUIET, STEP = 1000, 40
PAD = 0.09


class Broken(Exception):
    """As if the process had been killed there."""


def recording(path: Path, words: Sequence[int | None]) -> Path:
    """A second for each: the number of its word, or None for silence."""
    samples = samples_of(words)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return path


def samples_of(words: Sequence[int | None]) -> array[int]:
    samples = array("h")
    for word in words:
        loud = 0 if word is None else QUIET + STEP * word
        samples.extend([loud] * int(SPOKEN * RATE) + [0] * (RATE - int(SPOKEN * RATE)))
    return samples


def tracks(path: Path, *recordings: Path, default: int = 0, languages: Sequence[str] = ()) -> Path:
    """Recordings as the tracks of one file."""
    argv = [ffmpegs.known(), "-v", "error"]
    argv += [word for each in recordings for word in ("-i", str(each))]
    for number in range(len(recordings)):
        argv += ["-map", f"{number}", f"-disposition:a:{number}"]
        argv += ["default" if number == default else "0"]
    for number, language in enumerate(languages):
        argv += [f"-metadata:s:a:{number}", f"language={language}"]
    subprocess.run([*argv, "-c:a", "flac", str(path)], check=True)
    return path


def second_default(path: Path, *recordings: Path) -> Path:
    """Of two tracks the file calls the second its default."""
    return tracks(path, *recordings, default=1)


def channels(path: Path, left: Sequence[int | None], right: Sequence[int | None]) -> Path:
    """Two recordings as the channels of one."""
    sides = [samples_of(each) for each in (left, right)]
    length = max(map(len, sides))
    for side in sides:
        side.extend([0] * (length - len(side)))
    together = array("h", (each for pair in zip(*sides, strict=True) for each in pair))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(together.tobytes())
    return path


def hear(sound: bytes) -> list[EngineWord]:
    samples = array("h", sound)
    words = []
    for start, end in _loud(samples):
        middle = sorted(samples[start:end])[(end - start) // 2]
        number = round((middle - QUIET) / STEP)
        words.append(
            EngineWord(start=start / RATE, end=end / RATE, word=f"w{number}.", confidence=0.9)
        )
    return words


def _loud(samples: array[int]) -> list[tuple[int, int]]:
    step, found = 160, []
    start = None
    for at in range(0, len(samples) + step, step):
        loud = at + step <= len(samples) and abs(samples[at + step // 2]) > QUIET // 2
        if loud and start is None:
            start = at
        elif not loud and start is not None:
            found.append((start, at))
            start = None
    return found


@dataclass
class Scripted:
    """Hears all words, unless `script` says otherwise: it gets the number of the call and the true
    answer."""

    script: Callable[[int, TranscribeRequest, TranscribeResult], TranscribeResult] = (
        lambda number, request, answer: answer
    )
    turns: Sequence[SpeakerTurn] = ()
    unavailable: Exception | None = None
    id: str = "scripted"
    asked: list[TranscribeRequest] = field(default_factory=list)
    diarized: list[SpeakerRequest] = field(default_factory=list)
    stretches: int = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(provider=self.id, device="cpu", models=())

    def prepare(
        self, models: Sequence[str], progress: Callable[[float, str], None], watch: Watch
    ) -> None:
        if self.unavailable is not None:
            raise self.unavailable

    def speech(self, sound: bytes, watch: Watch) -> Sequence[tuple[float, float]]:
        self.stretches += 1
        loud = _loud(array("h", sound))
        return [(max(0.0, start / RATE - PAD), end / RATE + PAD) for start, end in loud]

    def transcribe(self, request: TranscribeRequest, watch: Watch) -> TranscribeResult:
        watch()
        self.asked.append(request)
        words = hear(request.sound)
        answer = TranscribeResult(
            text=" ".join(word.word for word in words),
            language="en",
            language_probability=0.9,
            words=words,
            no_speech_probability=0.01,
            average_logprob=-0.2,
            compression_ratio=1.2,
        )
        return self.script(len(self.asked) - 1, request, answer)

    def diarize(
        self, request: SpeakerRequest, progress: Callable[[float], None], watch: Watch
    ) -> Sequence[SpeakerTurn]:
        watch()
        self.diarized.append(request)
        progress(1.0)
        return self.turns

    def close(self) -> None:
        pass


@dataclass
class Only:
    """A registry with one engine."""

    engine: Engine
    pace: Pace = field(default_factory=Pace)

    def get(self, id: str | None = None) -> Engine:
        return self.engine

    def speakers(self, id: str | None = None) -> Engine:
        return self.engine

    def model(self, engine: Engine) -> str:
        return "its-own-choice"

    def close(self) -> None:
        pass


class Run:
    """Attempts of one job, without a server; each begins with what the others have kept."""

    def __init__(self, place: Path, source: Path, **args: Any) -> None:
        self.folder = Folder(source, place)
        self._place = place
        self._args = args
        self.reports: list[Progress] = []
        self.result: JsonObject = {}
        self.job: JobContext | None = None

    def attempt(self, engine: Engine, pace: Pace | None = None) -> Transcript:
        assignment = self.folder.assignment("transcribe", self._args)
        self.job = JobContext(
            assignment, self.reports.append, coordinator=self.folder, scratch_root=self._place
        )
        try:
            self.result = transcribe(self.job, Only(engine, pace or Pace()))  # type: ignore[arg-type]
        finally:
            self.job.close()
        return passages.made_of(self.kept(), passages.engine_of(self.result))

    def kept(self) -> list[Any]:
        return list(self.folder.passages(CLAIM))
