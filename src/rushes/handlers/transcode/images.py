"""Pictures of a media: the one that stands for it, and small ones to find a moment by."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rushes.handlers.transcode.segments import Workspace, explained
from rushes.tools import ffmpeg, playlist, process, programs
from rushes.tools.ladder import fitted
from rushes.tools.probe import Chapter, Probe, VideoStream
from rushes.tools.timeline import Timeline

CANDIDATES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.02)
SIDE = 64
# Of the grey values: a picture with less is black, white or fog.
LIVELY = 25.0
LIMITS = process.Limits(wall_seconds=60, cpu_seconds=120, stall_seconds=60)
LONG = process.Limits(stall_seconds=600, file_bytes=64 * 1024 * 1024)
COLUMNS = ROWS = 10
STORYBOARD_SHORT_SIDE = 90
# Told to skip what is no key frame, their decoder ends well after the first one.
UNSKIPPABLE = ("theora", "vp3", "vp4")
# Where the smallest rung is kept meanwhile.
RUNG = "rung"
WAVE_RATE = 8_000
WAVE_POINTS = 2_000


def thumbnail(
    workspace: Workspace,
    source: Path,
    video: VideoStream,
    start: float,
    seconds: float,
    watch: process.Watch,
) -> None:
    """A lively frame, near the beginning if there is one. Never a reason to fail."""
    times = [start + share * seconds for share in CANDIDATES]
    # Some streams name no key frames, and not every decoder can skip the others.
    for keys_only in (True, False):
        with suppress(process.ToolFailed):
            if picture := _lively_picture(source, video, times, watch, keys_only=keys_only):
                workspace.artifacts.put("thumbnail.jpg", picture)
                return
    workspace.job.log("no picture could be taken for the thumbnail")


def _lively_picture(
    source: Path,
    video: VideoStream,
    times: Sequence[float],
    watch: process.Watch,
    *,
    keys_only: bool,
) -> bytes:
    """Empty when there is none."""
    shots: list[tuple[float, bytes]] = []
    for time in times:
        picture, grey = _shot(source, video, time, watch, keys_only=keys_only)
        if picture:
            shots.append((liveliness(grey), picture))
            if shots[-1][0] >= LIVELY:
                break
        elif keys_only:
            return b""
    if not shots:
        return _shot(source, video, 0.0, watch, keys_only=keys_only)[0]
    return max(shots, key=lambda shot: shot[0])[1]


def _shot(
    source: Path, video: VideoStream, time: float, watch: process.Watch, *, keys_only: bool
) -> tuple[bytes, bytes]:
    """A frame, and the same small and grey, from one decode. Empty when there is none."""
    [pipe] = process.pipes(1)
    argv = ffmpeg.picture_at(
        programs.ffmpeg(),
        source,
        video.index,
        time,
        fitted(video.shown, 720),
        hdr=video.hdr,
        keys_only=keys_only,
        grey=(pipe[1], SIDE),
    )
    picture, grey = bytearray(), bytearray()
    sinks = [picture.extend, grey.extend]
    with process.Running(argv, sinks, limits=LIMITS, more_fds=[pipe]) as running:
        running.wait(watch)
    return bytes(picture), bytes(grey)


def liveliness(grey: bytes) -> float:
    """How much the grey values differ; nothing for what is almost black or white."""
    if not grey or not 16 < sum(grey) / len(grey) < 240:
        return 0.0
    return statistics.pstdev(grey)


@dataclass(frozen=True, slots=True)
class Footage:
    """Where small pictures are taken from. `zero`: where it begins; `apart`: how many seconds are
    between key frames; `skips`: whether its decoder can leave out all others."""

    path: Path
    index: int
    zero: float
    apart: float
    hdr: bool
    skips: bool = True

    @classmethod
    def of(cls, source: Path, video: VideoStream, timeline: Timeline) -> Footage:
        zero, skips = timeline.zero_pts, video.codec not in UNSKIPPABLE
        if timeline.hold is not None and zero >= timeline.hold.last_pts:
            # There is nothing but the last frame.
            zero, skips = timeline.hold.last_pts, False
        apart = timeline.seconds / max(1, len(timeline.keys))
        at = float(zero * timeline.time_base)
        return cls(source, video.index, at, apart, video.hdr, skips)


def keep_rung(workspace: Workspace, name: str) -> None:
    """In the scratch directory, too: pictures of the smallest cost a tenth of the source's."""
    workspace.artifacts.copy(f"{name}/", workspace.job.scratch / RUNG)


def footage_of_rung(workspace: Workspace, name: str, timeline: Timeline) -> Footage | None:
    """None when a part of it was made elsewhere, or by an earlier attempt."""
    folder, known = workspace.job.scratch / RUNG, workspace.artifacts.files
    numbers = (playlist.segment_name(each.number) for each in timeline.segments)
    files = ["init.mp4", *numbers]
    for each in files:
        there, path = known.get(f"{name}/{each}"), folder / each
        if there is None or not path.is_file() or path.stat().st_size != there.size_bytes:
            return None
    whole = folder.with_suffix(".mp4")
    with whole.open("wb") as joined:
        for each in files:
            joined.write((folder / each).read_bytes())
    hdr = workspace.progress.rendition(name).range not in (None, "SDR")
    return Footage(whole, 0, 0.0, workspace.profile.segment_seconds, hdr)


def storyboard(
    workspace: Workspace,
    footage: Footage,
    shown: tuple[int, int],
    seconds: float,
    watch: process.Watch,
) -> None:
    """Sheets of small pictures, and a track that tells which is when. Never a reason to fail."""
    interval = max(2.0, min(10.0, seconds / 100))
    count = max(1, int(seconds / interval))
    size = fitted(shown, STORYBOARD_SHORT_SIDE)
    keys_only = footage.skips and (footage.apart <= interval or seconds > 600)
    for old in workspace.job.scratch.glob("storyboard-*.jpg"):
        old.unlink()
    # Not every decoder can skip frames.
    for skipping in [True, False] if keys_only else [False]:
        argv = ffmpeg.storyboard(
            programs.ffmpeg(),
            footage.path,
            footage.index,
            zero=footage.zero,
            interval=interval,
            size=size,
            columns=COLUMNS,
            rows=ROWS,
            count=count,
            keys_only=skipping,
            hdr=footage.hdr,
        )
        with suppress(process.ToolFailed), explained(workspace.job, "making the storyboard"):
            process.run(argv, limits=LONG, watch=watch, cwd=workspace.job.scratch)
            break
    else:
        return
    sheets = sorted(workspace.job.scratch.glob("storyboard-*.jpg"), key=lambda path: len(path.name))
    for sheet in sheets:
        workspace.artifacts.put(sheet.name, sheet.read_bytes())
    if sheets:
        count = min(count, len(sheets) * COLUMNS * ROWS)
        track = storyboard_track(count, interval, seconds, size)
        workspace.artifacts.put("storyboard.vtt", track.encode())


def storyboard_track(count: int, interval: float, seconds: float, size: tuple[int, int]) -> str:
    lines = ["WEBVTT", ""]
    for number in range(count):
        sheet, place = divmod(number, COLUMNS * ROWS)
        row, column = divmod(place, COLUMNS)
        until = seconds if number == count - 1 else (number + 1) * interval
        x, y = column * size[0], row * size[1]
        lines += [
            f"{clock(number * interval)} --> {clock(until)}",
            f"storyboard-{sheet}.jpg#xywh={x},{y},{size[0]},{size[1]}",
            "",
        ]
    return "\n".join(lines)


def chapters(workspace: Workspace, probe: Probe, zero: float, seconds: float) -> None:
    """Those of the source, if it has any; `zero`: where what is watched begins in it."""
    if probe.chapters:
        track = chapters_track(probe.chapters, zero, seconds)
        workspace.artifacts.put("chapters.vtt", track.encode())


def chapters_track(chapters: Sequence[Chapter], zero: float, seconds: float) -> str:
    lines = ["WEBVTT", ""]
    for chapter in chapters:
        start, end = max(0.0, chapter.start - zero), min(seconds, chapter.end - zero)
        if end > start:
            title = chapter.title.replace("-->", "→").replace("&", "&amp;").replace("<", "&lt;")
            lines += [f"{clock(start)} --> {clock(end)}", " ".join(title.split()), ""]
    return "\n".join(lines)


def clock(seconds: float) -> str:
    """As WebVTT writes times."""
    whole = round(seconds * 1000)
    minutes, milliseconds = divmod(whole, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{milliseconds / 1000:06.3f}"


def waveform(workspace: Workspace, source: Path, probe: Probe, seconds: float) -> None:
    """Peaks of the sound, and a picture of them (or the cover) to stand for it."""
    wave = Wave(max(1, int(seconds * WAVE_RATE / WAVE_POINTS)))
    assert probe.default_audio is not None
    index = probe.default_audio.index
    part = {"start": workspace.begin, "seconds": seconds}
    argv = ffmpeg.samples(programs.ffmpeg(), source, index, WAVE_RATE, **part)
    with explained(workspace.job, "reading the sound"):
        running = process.Running(argv, [wave.feed], limits=LONG)
        with running:
            running.wait(workspace.progress.watch)
    peaks = wave.finish()
    about = {"version": 1, "seconds": round(seconds, 3), "peaks": peaks}
    workspace.artifacts.put("waveform.json", msgspec.json.encode(about))
    try:
        if probe.cover is not None:
            argv = ffmpeg.picture_at(
                programs.ffmpeg(), source, probe.cover, 0.0, (720, -2), hdr=False
            )
        else:
            argv = ffmpeg.wave_picture(programs.ffmpeg(), source, index, **part)
        picture = process.run(argv, limits=LONG, watch=workspace.progress.watch)
    except process.ToolFailed:
        picture = b""
    if picture:
        workspace.artifacts.put("thumbnail.jpg", picture)


class Wave:
    """The loudest of every so many samples, between 0 and 1."""

    def __init__(self, samples_a_point: int) -> None:
        self._step = samples_a_point * 2
        self._rest = b""
        self._peaks: list[float] = []

    def feed(self, chunk: bytes) -> None:
        data = self._rest + chunk
        whole = len(data) // self._step * self._step
        for at in range(0, whole, self._step):
            self._note(data[at : at + self._step])
        self._rest = data[whole:]

    def finish(self) -> list[float]:
        if len(self._rest) >= 2:
            self._note(self._rest[: len(self._rest) // 2 * 2])
        return self._peaks

    def _note(self, data: bytes) -> None:
        samples = array("h", data)
        self._peaks.append(round(min(1.0, max(max(samples), -min(samples)) / 32767), 4))
