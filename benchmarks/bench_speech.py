"""Speech: what the whole job costs over its own library, how soon words show, and others.

Each figure is one line, `ratio NAME VALUE goal <=…`; the contestants take turns in one run, on the
same recording: sentences whose words are known, said again and again at other volumes, with other
pauses. Each is a fresh process that loads its model. CPU seconds steady what a shared machine's
clock does not; `error` is the share of words that came out wrong.

  speech_job           transcription asked for → completed, over faster-whisper called directly
  speech_first_words   the first words can be read, over the whole time
  speech_vs_…          the same against other libraries, with a model of the same size
  speech_memory        an hour against ten minutes (--long)
  corpus_…             wrong words over those of bare faster-whisper, recording by recording:
                       languages, mixes of them, music, channels, tracks (--only corpus); see
                       benchmarks/hearing.py and benchmarks/corpus.py
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from benchmarks import hearing
from benchmarks.contestants import speech_peers

import ffmpegs
import speech
from running import Process, events_of, settings_for
from rushes.engines.engine import BYTES_PER_SECOND, RATE
from rushes.tools import programs

LIBRARY = f"{ROOT}/benchmarks/contestants/transcribe.py"
MODEL = "whisper-base"
THREADS = len(os.sched_getaffinity(0))
LONG_MINUTES = 60
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`first`: seconds until some words could be read; `peaks`: memory in bytes."""

    wall: float
    cpu: float
    text: str
    peaks: dict[str, int]
    first: float = 0.0


@dataclass(frozen=True, slots=True)
class Recording:
    path: Path
    seconds: float
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a trial run; its figures mean little")
    parser.add_argument("--long", action="store_true", help="also the memory that an hour takes")
    names = [each.name for each in speech_peers.PEERS]
    parser.add_argument("--peers", default=",".join(names), help="separated by commas, or none")
    parser.add_argument("--only", choices=["corpus"], help="how well it hears, and nothing else")
    parser.add_argument("--kinds", default="", help="of the corpus, separated by commas")
    options = parser.parse_args()
    if options.only == "corpus":
        hearing.compare(MODEL, [each for each in options.kinds.split(",") if each])
        return
    minutes = 1.0 if options.quick else options.minutes
    with tempfile.TemporaryDirectory(prefix="rushes-bench-") as directory:
        ffmpegs.offer(Path(directory) / "ffmpegs")
        bench = Bench(Path(directory), minutes, options.rounds)
        bench.job()
        for peer in speech_peers.PEERS:
            if peer.name in options.peers.split(","):
                bench.against(peer)
        if options.long:
            bench.memory()


class Bench:
    def __init__(self, place: Path, minutes: float, rounds: int) -> None:
        self.place = place
        self.rounds = rounds
        self.models = speech.cache_dir(MODEL, speech.SMALL)
        self.recording = make_recording(place / "recording.m4a", minutes)
        self._runs: list[Run] = []

    def job(self) -> None:
        ours, direct = self.turns(
            lambda: self.rushes(MODEL, self.recording),
            lambda: self.direct("faster_whisper", self.models / MODEL),
        )
        self._runs = ours
        self.show("rushes", ours)
        self.show("faster_whisper", direct)
        ratio("speech_job", ours, direct, "<=1.05", wall)
        ratio("speech_job_cpu", ours, direct, "<=1.05", cpu)
        shares = [each.first / each.wall for each in ours]
        print(f"figure speech_first_words_s {median(each.first for each in ours):.1f}")
        print(f"ratio speech_first_words {median(shares):.3f} goal <=0.1", flush=True)

    def against(self, peer: speech_peers.Peer) -> None:
        try:
            found = speech_peers.ready(peer, speech.KEPT)
        except speech_peers.Missing:
            print(f"figure speech_vs_{peer.name} left out: it could not be fetched", flush=True)
            return
        ours, theirs = self.turns(
            lambda: self.rushes(peer.ours, self.recording),
            lambda: self.direct(peer.name, found.model, found.python),
            known=self._runs if peer.ours == MODEL else None,
        )
        if peer.ours != MODEL:
            self.show(f"rushes_{peer.ours}", ours)
        self.show(peer.name, theirs)
        for way in peer.other_ways:
            self.show(way, [self.direct(way, found.model, found.python)])
        ratio(f"speech_vs_{peer.name}_time", ours, theirs, "<=1.0", wall)
        ratio(f"speech_vs_{peer.name}_cpu", ours, theirs, "<=1.0", cpu)

    def memory(self) -> None:
        """With the small model: what matters is how long the recording is."""
        short = self.rushes(speech.SMALL, self.recording)
        hour = make_recording(self.place / "hour.m4a", LONG_MINUTES)
        long = self.rushes(speech.SMALL, hour)
        for name, peak in long.peaks.items():
            before = short.peaks[name]
            print(f"figure speech_peak_{name}_mb {peak / 1e6:.0f} against {before / 1e6:.0f}")
            print(f"ratio speech_memory_{name} {peak / before:.2f} goal <=1.2", flush=True)

    def turns(
        self, ours: Callable[[], Run], theirs: Callable[[], Run], known: list[Run] | None = None
    ) -> tuple[list[Run], list[Run]]:
        mine, other = list(known or ()), []
        for _ in range(self.rounds):
            if known is None:
                mine.append(ours())
            other.append(theirs())
        return mine, other

    # Contestants

    def rushes(self, model: str, recording: Recording) -> Run:
        """A server of its own; the clock starts when the transcription is asked for."""
        with tempfile.TemporaryDirectory(dir=self.place) as directory:
            given = settings_for(
                data_dir=Path(directory),
                engine_cache_dir=self.models,
                engine_threads=THREADS,
                transcode_workers=0,
                poll_interval=2.0,
                sweep_interval=10.0,
            )
            with Process(given) as server, server.client() as admin:
                media_id = upload(admin, recording.path)
                return transcribed(server, admin, media_id, model)

    def direct(self, library: str, model: Path, python: Path | None = None) -> Run:
        command = [str(python or sys.executable), LIBRARY, library, str(model)]
        command += [str(self.recording.path), str(THREADS)]
        path = f"{Path(programs.ffmpeg()).parent}:{os.environ['PATH']}"
        began = time.perf_counter()
        run = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": path},
        )
        assert run.stdout is not None
        said = run.stdout.read()
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        assert run.returncode == 0, f"{library} failed"
        return Run(
            wall=time.perf_counter() - began,
            cpu=used.ru_utime + used.ru_stime,
            text=json.loads(said.splitlines()[-1]),
            peaks={"alone": used.ru_maxrss * 1024},
        )

    def show(self, name: str, runs: Sequence[Run]) -> None:
        seconds = self.recording.seconds
        errors = (wrong(self.recording.text, each.text) for each in runs)
        peaks = ", ".join(
            f"{part} {max(each.peaks[part] for each in runs) / 1e6:.0f} MB"
            for part in runs[0].peaks
        )
        print(
            f"figure speech_{name} {median(map(wall, runs)):.1f} s, "
            f"real time factor {median(map(wall, runs)) / seconds:.3f}, "
            f"CPU {median(map(cpu, runs)) / seconds:.3f}, "
            f"error {median(errors):.2%}, peak {peaks}",
        )
        words = len(speech.plain(self.recording.text).split())
        per_second = words / median(map(cpu, runs))
        print(f"figure speech_words_per_cpu_s_{name} {per_second:.2f}", flush=True)


# The server, from outside


def upload(admin: Any, path: Path) -> str:
    with path.open("rb") as file:
        added = admin.post(
            "/media", files={"file": (path.name, file)}, data={"transcribe": "false"}
        )
    assert added.status_code == 201, added.text
    return str(added.json()["id"])


def transcribed(server: Process, admin: Any, media_id: str, model: str) -> Run:
    """Listens to what the server tells, so that asking costs it nothing."""
    pid = server.process.pid
    with server.client() as listener:
        listener.timeout = None
        with listener.stream("GET", "/events", params={"media_id": media_id}) as stream:
            spent = cpu_of(pid)
            began = time.perf_counter()
            asked = admin.post("/transcriptions", json={"media_id": media_id, "model": model})
            assert asked.status_code == 202, asked.text
            first, done = moments(events_of(stream))
            spent = cpu_of(pid) - spent
    (engine,) = below(pid)
    peaks = {"server": peak(pid), "engine": peak(engine)}
    text = admin.get(f"/media/{media_id}/transcript", params={"format": "txt"}).text
    return Run(wall=done - began, cpu=spent, text=text, peaks=peaks, first=first - began)


def moments(events: Any) -> tuple[float, float]:
    """Of the first words, and of the end."""
    first = None
    for _, kind, data in events:
        if kind == "transcription.passage":
            first = first or time.perf_counter()
        elif kind == "transcription.completed":
            assert first is not None
            return first, time.perf_counter()
        assert kind != "transcription.failed", data
    raise AssertionError("the server has ended the stream")


def cpu_of(pid: int) -> float:
    """Seconds, with all programs below it, those that have ended, too."""
    ticks = 0
    for each in (pid, *below(pid)):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICK


def below(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for thread in threads for each in thread.read_text().split()]


def peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


# What is said


def make_recording(path: Path, minutes: float) -> Recording:
    """Read sentences, a speech and a telephone call, over a little noise."""
    chance = random.Random(minutes)
    noise = np.random.default_rng(0)
    sounds: list[np.ndarray[Any, np.dtype[np.float32]]] = []
    texts, samples = [], 0
    for sound, text in cycle(clips()):
        if samples >= minutes * 60 * RATE:
            break
        pause = np.zeros(round(chance.uniform(0.3, 2.5) * RATE), np.float32)
        said = np.frombuffer(sound, "<i2").astype(np.float32) * chance.uniform(0.35, 1.0)
        sounds += [pause, said]
        samples += len(pause) + len(said)
        texts.append(text)
    whole = np.concatenate(sounds)
    whole += noise.normal(0, 8, len(whole)).astype(np.float32)
    encode(np.clip(whole, -32768, 32767).astype("<i2").tobytes(), path)
    return Recording(path, len(whole) * 2 / BYTES_PER_SECOND, " ".join(texts))


def clips() -> list[tuple[bytes, str]]:
    read = [(each.sound, each.text) for each in speech.librivox()]
    lines = [
        line.split(maxsplit=5) for line in speech.recording("call.stm").read_text().split("\n")
    ]
    call = " ".join(line[5] for line in lines if len(line) == 6)
    return [*read, (speech.pcm("jfk"), speech.JFK_TEXT), (speech.pcm("call"), call)]


def encode(pcm: bytes, path: Path) -> None:
    command = [programs.ffmpeg(), "-v", "error", "-f", "s16le", "-ar", str(RATE), "-ac", "1"]
    command += ["-i", "-", "-c:a", "aac", "-b:a", "96k", str(path)]
    subprocess.run(command, input=pcm, check=True)


def wrong(truth: str, said: str) -> float:
    return float(jiwer.wer(speech.plain(truth), speech.plain(said)))


def wall(run: Run) -> float:
    return run.wall


def cpu(run: Run) -> float:
    return run.cpu


median = statistics.median


def ratio(
    name: str, ours: Sequence[Run], theirs: Sequence[Run], goal: str, of: Callable[[Run], float]
) -> None:
    mine, other = median(map(of, ours)), median(map(of, theirs))
    print(f"figure {name}_s {mine:.1f} against {other:.1f}")
    print(f"ratio {name} {mine / other:.3f} goal {goal}", flush=True)


if __name__ == "__main__":
    main()
