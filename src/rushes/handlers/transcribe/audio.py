"""The sound of a job as engines want it: one channel of plain samples, in a file of its own.

Extracted once, whatever the container; read in stretches, so that ten hours take no more memory
than ten minutes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rushes.engines.engine import BYTES_PER_SECOND, RATE
from rushes.handlers.transcode.audio import begin
from rushes.handlers.transcode.segments import explained
from rushes.handlers.transcode.source import LIMITS, SLACK_BYTES
from rushes.handlers.transcribe.windows import Interval, Window
from rushes.tools import ffmpeg, process, programs
from rushes.tools.probe import Probe, probe
from rushes.worker.context import JobContext

# How finely the quietest moment is looked for.
STEP_SECONDS = 0.05
UNREADABLE = "the sound could not be read to its end: what comes after is missing"

Input = tuple[Path, int, float]


class Recording:
    """Samples in a file; times in seconds."""

    def __init__(self, path: Path, warnings: Sequence[str] = ()) -> None:
        self.path = path
        self.warnings = warnings
        self._file = path.open("rb")
        self.seconds = path.stat().st_size // 2 * 2 / BYTES_PER_SECOND

    def read(self, start: float, end: float) -> bytes:
        first, last = round(start * RATE), round(end * RATE)
        self._file.seek(2 * first)
        return self._file.read(2 * max(0, last - first))

    def sound(self, window: Window) -> bytes:
        return b"".join(self.read(*clip) for clip in window.clips)

    def quietest(self, start: float, end: float) -> float:
        """The middle of the quietest moment between the two."""
        samples = array("h", self.read(start, end))
        step = round(STEP_SECONDS * RATE)
        loud = [
            (sum(map(abs, samples[at : at + step])), at)
            for at in range(0, max(1, len(samples) - step), step)
        ]
        return start + (min(loud)[1] + step / 2) / RATE

    def close(self) -> None:
        self._file.close()


def extract(job: JobContext) -> Recording | None:
    """What is heard of the media as people have cut and mixed it; None when it has no sound."""
    edit = job.args.get("edit") or {}
    inputs, expected = _inputs(job, edit)
    if not inputs:
        return None
    start, end = float(edit.get("start") or 0.0), edit.get("end")
    seconds = None if end is None else float(end) - start
    target = job.scratch / "speech.pcm"
    size = int((seconds or expected or 0.0) * BYTES_PER_SECOND)
    job.check_room(size + SLACK_BYTES)
    argv = ffmpeg.speech(programs.ffmpeg(), inputs, target, rate=RATE, seconds=seconds)
    limits = replace(LIMITS, wall_seconds=6 * 3600.0)
    warnings = []
    try:
        with explained(job, "reading the sound"):
            process.run(argv, limits=limits, watch=_watch(job))
    except process.ToolFailed as error:
        if not error.gave_up or not target.exists() or not target.stat().st_size:
            raise
        warnings.append(UNREADABLE)
    return Recording(target, warnings)


def _watch(job: JobContext) -> process.Watch:
    def watch() -> None:
        job.listen()
        job.alive()

    return watch


def _inputs(job: JobContext, edit: dict[str, Any]) -> tuple[list[Input], float | None]:
    """The streams to listen to, each with the moment of its own time that the result begins at."""
    start = float(edit.get("start") or 0.0)
    path = job.source()
    found = probe(path, _watch(job))
    overlay = edit.get("overlay") or {}
    main = _heard(path, found, start)
    if not overlay:
        return main, found.duration
    sound = overlay.get("sound", "main")
    if sound == "main" and main:
        return main, found.duration
    other = job.source(str(overlay["media_id"]))
    second = _heard(other, probe(other, _watch(job)), start)
    return (second if sound == "overlay" and second else main + second), found.duration


def _heard(path: Path, found: Probe, start: float) -> list[Input]:
    audio = found.default_audio
    return [] if audio is None else [(path, audio.index, begin(found) + start)]


def intervals_at(intervals: Sequence[Interval], begin: float) -> list[Interval]:
    """Found in a stretch that begins there, as times of the recording."""
    return [(start + begin, end + begin) for start, end in intervals]
