"""Whether Rushes hears as well as the engine that it uses does by itself, recording by recording.

Wrong words of ours over those of bare faster-whisper with the same model on the same sound, and the
CPU seconds of the engine, one thread each. Bare is heard twice, with its defaults and with its own
voice filter; whichever has fewer wrong words is what counts. Where it cannot hear at all (one of
several tracks, antiphase) it is given the clean voices. Where neither has a wrong word the ratio
is 1; where only we have some, it is their number.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jiwer
from benchmarks.corpus import Maker, Said, Sample

import ffmpegs
import speech
from handlers.transcribe.faulty import Run
from rushes.engines.engine import TranscribeRequest
from rushes.engines.local import LocalEngine
from rushes.transcripts.transcript import Transcript

BARE = str(Path(__file__).parent / "contestants" / "bare.py")
SPEAKER = "SPEAKER_{:02d}"
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Score:
    wrong: int
    cpu: float

    def __add__(self, other: Score) -> Score:
        return Score(self.wrong + other.wrong, self.cpu + other.cpu)


def compare(model: str, kinds: Sequence[str]) -> None:
    """A line for each recording, and for each kind of them; all `kinds` unless some are named."""
    totals: dict[str, tuple[Score, Score]] = {}
    with tempfile.TemporaryDirectory(prefix="rushes-bench-") as directory:
        place = Path(directory)
        ffmpegs.offer(place / "ffmpegs")
        maker = Maker(place)
        models = speech.cache_dir(model, "diarization-default")
        with bare(models / model) as theirs, ours() as engine:
            for sample in maker.all():
                if kinds and sample.kind not in kinds:
                    continue
                scores = engine.score(sample, model), theirs.score(sample, maker)
                before = totals.get(sample.kind, (Score(0, 0.0), Score(0, 0.0)))
                totals[sample.kind] = (before[0] + scores[0], before[1] + scores[1])
                show(f"{sample.kind}_{sample.name}", *scores, of=words(sample))
    for kind, scores in totals.items():
        show(f"all_{kind}", *scores)
    for which, name in enumerate(("ours", "bare")):
        total = sum(scores[which].wrong for scores in totals.values())
        print(f"figure corpus_wrong_words_{name} {total}")


def show(name: str, mine: Score, theirs: Score, of: int = 0) -> None:
    among = f" of {of}" if of else ""
    print(f"figure corpus_{name} wrong words {mine.wrong} against {theirs.wrong}{among}")
    share = mine.wrong / theirs.wrong if theirs.wrong else max(1.0, mine.wrong)
    print(f"ratio corpus_{name} {share:.2f} goal <=1.0")
    print(f"ratio corpus_{name}_cpu {mine.cpu / max(theirs.cpu, 0.01):.2f} goal <=1.1", flush=True)


def words(sample: Sample) -> int:
    return sum(len(plain(each.text).split()) for each in sample.voices)


# Contestants


class Ours:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    def score(self, sample: Sample, model: str) -> Score:
        pid = self._engine.pid
        assert pid is not None
        spent = cpu_of(pid)
        with tempfile.TemporaryDirectory() as directory:
            run = Run(Path(directory), sample.path, model=model, diarize=sample.tells)
            heard = run.attempt(self._engine)
        return Score(self._wrong(sample, heard), cpu_of(pid) - spent)

    def _wrong(self, sample: Sample, heard: Transcript) -> int:
        if not sample.tells:
            return wrong(" ".join(each.text for each in sample.voices), heard.text)
        return sum(
            wrong(voice.text, " ".join(each.word for each in heard.words if each.speaker == name))
            for number, voice in enumerate(sample.voices)
            for name in [SPEAKER.format(number)]
        )


@contextmanager
def ours() -> Iterator[Ours]:
    engine = speech.engine(threads=1)
    try:
        # So that the model is loaded before anything is measured.
        engine.transcribe(TranscribeRequest(sound=speech.silence(1.0), language="en"), lambda: None)
        yield Ours(engine)
    finally:
        engine.close()


class Bare:
    """One process for all recordings."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._known: dict[str, Score] = {}

    def score(self, sample: Sample, maker: Maker) -> Score:
        if not sample.is_hidden:
            text = " ".join(each.text for each in sample.voices)
            return self._heard(sample.path, text, several=sample.kind == "mixed")
        scores = [self._clean(each, maker) for each in sample.voices]
        return sum(scores[1:], scores[0])

    def _clean(self, voice: Said, maker: Maker) -> Score:
        if voice.text not in self._known:
            path = maker.file(f"clean-{len(self._known)}", voice.sound)
            self._known[voice.text] = self._heard(path, voice.text, several=False)
        return self._known[voice.text]

    def _heard(self, path: Path, text: str, *, several: bool) -> Score:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"file": str(path), "several": several}), file=self._process.stdin)
        self._process.stdin.flush()
        found = [json.loads(self._process.stdout.readline()) for _ in range(2)]
        return min(
            (Score(wrong(text, each["text"]), each["cpu"]) for each in found),
            key=lambda each: each.wrong,
        )


@contextmanager
def bare(model: Path) -> Iterator[Bare]:
    command = [sys.executable, BARE, str(model)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Bare(process)
        assert process.stdin is not None
        process.stdin.close()


# What is wrong


def wrong(truth: str, said: str) -> int:
    """Words that are missing, too many, or others."""
    one, other = plain(truth), plain(said)
    if not one or not other:
        return len((one or other).split())
    found = jiwer.process_words(one, other)
    return int(found.substitutions + found.deletions + found.insertions)


def plain(text: str) -> str:
    return speech.plain(text.replace("’", "'"))


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICK
