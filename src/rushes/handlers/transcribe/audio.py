"""The sound of a job as engines want it: one channel of plain samples, in a file of its own.

Each track or channel that is listened to is extracted once, whatever the container; it is read in
stretches, so that ten hours take no more memory than ten minutes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rushes.engines.engine import BYTES_PER_SECOND, RATE
from rushes.handlers.transcode.audio import begin
from rushes.handlers.transcode.segments import explained
from rushes.handlers.transcode.source import LIMITS, SLACK_BYTES
from rushes.handlers.transcribe import channels
from rushes.handlers.transcribe.channels import Layout
from rushes.handlers.transcribe.windows import Interval, Window
from rushes.records import JsonObject
from rushes.tools import ffmpeg, process, programs
from rushes.tools.probe import AudioStream, Probe, probe
from rushes.worker.context import JobContext

# How finely the quietest moment is looked for.
STEP_SECONDS = 0.05
UNREADABLE = "the sound could not be read to its end: what comes after is missing"

Input = tuple[Path, int, float]


@dataclass(frozen=True, slots=True)
class Feed:
    """What is listened to by itself: a track of the file (counted from 0), or a channel of it."""

    track: int
    channel: int | None = None

    def __str__(self) -> str:
        side = "" if self.channel is None else f", {('left', 'right')[self.channel]} channel"
        return f"track {self.track + 1}{side}"


class Recording:
    """Samples in a file; times in seconds."""

    def __init__(self, path: Path, feed: Feed) -> None:
        self.path = path
        self.feed = feed
        self._file = path.open("rb")
        # In samples.
        self._muted: list[tuple[int, int]] = []
        self.seconds = path.stat().st_size // 2 * 2 / BYTES_PER_SECOND

    def read(self, start: float, end: float) -> bytes:
        first, last = round(start * RATE), round(end * RATE)
        self._file.seek(2 * first)
        samples = self._file.read(2 * max(0, last - first))
        for muted_from, until in self._muted:
            low, high = max(first, muted_from), min(first + len(samples) // 2, until)
            if high > low:
                head, tail = samples[: 2 * (low - first)], samples[2 * (high - first) :]
                samples = head + bytes(2 * (high - low)) + tail
        return samples

    def mute(self, interval: Interval) -> None:
        """From now on it is silent there."""
        self._muted.append((round(interval[0] * RATE), round(interval[1] * RATE)))

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


class Sound:
    """What is heard of a media as people have cut and mixed it. `tracks` is empty when nothing is;
    `warnings` are for people."""

    def __init__(self, job: JobContext) -> None:
        self._job = job
        edit = job.args.get("edit") or {}
        self._start = float(edit.get("start") or 0.0)
        end = edit.get("end")
        self._seconds = None if end is None else float(end) - self._start
        self._inputs: list[Input] = []
        self.tracks: Sequence[AudioStream] = ()
        self.default = 0
        self.warnings: list[str] = []
        self._open(edit.get("overlay") or {})

    def _open(self, overlay: JsonObject) -> None:
        path = self._job.source()
        main = probe(path, _watch(self._job))
        self._expected = main.duration
        sound = overlay.get("sound", "main")
        if not overlay or (sound == "main" and main.audios):
            self._take(path, main)
            return
        other = self._job.source(str(overlay["media_id"]))
        second = probe(other, _watch(self._job))
        if not main.audios or (sound == "overlay" and second.audios):
            self._take(other, second)
            return
        self._take(path, main)
        if second.audios:
            self._take_mix(second, other)

    def _take(self, path: Path, found: Probe) -> None:
        if found.default_audio is not None:
            self.tracks = found.audios
            self.default = list(found.audios).index(found.default_audio)
            self._path, self._zero = path, begin(found) + self._start
            self._inputs = [(path, found.default_audio.index, self._zero)]

    def _take_mix(self, found: Probe, path: Path) -> None:
        """People have made one sound of two files: there is nothing to choose."""
        assert found.default_audio is not None
        self._inputs.append((path, found.default_audio.index, begin(found) + self._start))
        self.tracks, self.default = [self.tracks[self.default]], 0

    @property
    def is_mix(self) -> bool:
        return len(self._inputs) > 1

    def extract(
        self, feeds: Sequence[Feed], *, is_measured: bool = False
    ) -> tuple[list[Recording], dict[int, Layout]]:
        """In one go; with `is_measured`, also how the channels of each track are laid out."""
        size = int((self._seconds or self._expected or 0.0) * BYTES_PER_SECOND)
        self._job.check_room(len(feeds) * size + SLACK_BYTES)
        scratch = self._job.scratch
        targets = [
            scratch / f"speech-{each.track}-{'mix' if each.channel is None else each.channel}.pcm"
            for each in feeds
        ]
        stereo = [
            each.track
            for each in feeds
            if is_measured and not self.is_mix and self.tracks[each.track].channels == 2
        ]
        try:
            self._run(self._argv(feeds, targets, stereo), scratch)
        except process.ToolFailed as error:
            whole = all(each.exists() and each.stat().st_size for each in targets)
            if not error.gave_up or not whole:
                raise
            if UNREADABLE not in self.warnings:
                self.warnings.append(UNREADABLE)
        layouts = {track: self._layout(track) for track in stereo}
        return [Recording(*each) for each in zip(targets, feeds, strict=True)], layouts

    def _argv(
        self, feeds: Sequence[Feed], targets: Sequence[Path], stereo: Sequence[int]
    ) -> list[str]:
        program = programs.ffmpeg()
        if self.is_mix:
            [target] = targets
            return ffmpeg.speech(program, self._inputs, target, rate=RATE, seconds=self._seconds)
        outputs = [
            ffmpeg.SpeechOutput(
                index=self.tracks[feed.track].index, channel=feed.channel, target=target
            )
            for feed, target in zip(feeds, targets, strict=True)
        ]
        return ffmpeg.speech_tracks(
            program,
            self._path,
            outputs,
            measured=[self.tracks[each].index for each in stereo],
            zero=self._zero,
            rate=RATE,
            seconds=self._seconds,
        )

    def _run(self, argv: Sequence[str], scratch: Path) -> None:
        limits = replace(LIMITS, wall_seconds=6 * 3600.0)
        with explained(self._job, "reading the sound"):
            process.run(argv, limits=limits, watch=_watch(self._job), cwd=scratch)

    def _layout(self, track: int) -> Layout:
        path = self._job.scratch / ffmpeg.levels_file(self.tracks[track].index)
        return channels.layout(channels.read(path.read_bytes() if path.exists() else b""))


def _watch(job: JobContext) -> process.Watch:
    def watch() -> None:
        job.listen()
        job.alive()

    return watch


def intervals_at(intervals: Sequence[Interval], begin: float) -> list[Interval]:
    """Found in a stretch that begins there, as times of the recording."""
    return [(start + begin, end + begin) for start, end in intervals]
