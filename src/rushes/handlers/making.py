"""Running ffmpeg for a job: what comes out of it is cut into segments and put on the shelf."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

from rushes import errors, sanitize
from rushes.handlers.board import Board
from rushes.handlers.shelf import Shelf
from rushes.tools import boxes, ffmpeg, playlist, process, profile
from rushes.tools.profile import Profile
from rushes.tools.timeline import Timeline
from rushes.worker.context import JobContext

LIMITS = process.Limits()
EARLIEST_TICKS = 90

Place = Callable[[boxes.Fragment], tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Desk:
    """What every step of a job works with. `edit` is what people have changed about the source."""

    job: JobContext
    shelf: Shelf
    board: Board
    profile: Profile
    edit: Mapping[str, Any]
    warnings: list[str]

    @classmethod
    def of(cls, job: JobContext) -> Desk:
        wishes = profile.decode(job.args.get("settings") or {})
        return cls(job, Shelf(job), Board(job), wishes, job.args.get("edit") or {}, [])

    @property
    def begin(self) -> float:
        """Where people have cut the beginning off."""
        return float(self.edit.get("start") or 0.0)

    @property
    def overlay(self) -> Mapping[str, Any]:
        return self.edit.get("overlay") or {}

    def seconds_of(self, name: str) -> list[float]:
        """How long the segments of a rendition are, as far as they are there without a gap."""
        found: list[float] = []
        while (file := self.shelf.files.get(segment_of(name, len(found)))) is not None:
            found.append(file.seconds or 0.0)
        return found

    def is_finished(self, name: str) -> bool:
        return f"{name}/playlist.m3u8" in self.shelf.files

    def finish(self, name: str) -> None:
        """A rendition is whole: measure it, and write its playlist."""
        self.shelf.flush()
        row, seconds = self.board.row(name), self.seconds_of(name)
        sizes = [self.shelf.files[segment_of(name, n)].size_bytes for n in range(len(seconds))]
        row.total = row.done = len(seconds)
        row.status = "completed"
        target = playlist.target_duration(seconds, self.profile.segment_seconds)
        row.more["bandwidth"] = playlist.peak_rate(sizes, seconds, target)
        row.more["average_bandwidth"] = playlist.rate(sizes, seconds)
        text = playlist.media_playlist(
            seconds, target_seconds=self.profile.segment_seconds, growing=False
        )
        self.shelf.put(f"{name}/playlist.m3u8", text.encode())


def segment_of(rendition: str, number: int) -> str:
    return f"{rendition}/{playlist.segment_name(number)}"


class Track:
    """One rendition's bytes on their way from a pipe to the shelf. `place` tells a fragment's
    number and how long it plays; without it they are counted, and tell themselves."""

    def __init__(self, desk: Desk, name: str, place: Place | None = None) -> None:
        self._desk = desk
        self.name = name
        self._cutter = boxes.Cutter()
        self._place = place
        self._began = False
        self.made: set[int] = set()

    def feed(self, chunk: bytes) -> None:
        for fragment in self._cutter.feed(chunk):
            self.take(fragment)

    @property
    def init(self) -> boxes.Init:
        if self._cutter.init is None:
            raise errors.TransientFailure("the encoder wrote no header", code="bad_output")
        return self._cutter.init

    def take(self, fragment: boxes.Fragment) -> None:
        if self._place is None:
            self.put(len(self.made), fragment.data, fragment.ticks / self.init.timescale)
        else:
            number, seconds = self._place(fragment)
            self.put(number, fragment.data, seconds)

    def put(self, number: int, data: bytes, seconds: float) -> None:
        self._begin()
        if number in self.made:
            # Times of a damaged source may go back; what is on its way to the shelf stays.
            return
        self.made.add(number)
        name = segment_of(self.name, number)
        if name not in self._desk.shelf.files:
            self._desk.shelf.put(name, data, seconds)
            self._desk.board.finished_segment(self.name)

    def _begin(self) -> None:
        """The header first; it has to be the one that segments made elsewhere rely on."""
        if self._began:
            return
        self._began = True
        name = f"{self.name}/init.mp4"
        there = self._desk.shelf.files.get(name)
        if there is not None and there.sha256 != hashlib.sha256(self.init.data).hexdigest():
            raise Differs(self.name)
        self._desk.board.row(self.name).more["codecs"] = self.init.codecs
        self._desk.board.note(f"codecs {self.name}", self.init.codecs)
        self._desk.board.hurry()
        self._desk.shelf.put(name, self.init.data)


class Differs(errors.TransientFailure):
    """Another encoder has made the first part of this rendition."""

    def __init__(self, name: str) -> None:
        message = f"{name} was begun by another encoder, whose work cannot be continued here"
        super().__init__(message, code="encoder_differs")


class Copied(Track):
    """Fragments that begin wherever the source has key frames are joined until the next boundary
    of the grid."""

    def __init__(self, desk: Desk, name: str, segment_seconds: float) -> None:
        super().__init__(desk, name)
        self._grid = segment_seconds
        self._parts: list[boxes.Fragment] = []

    def take(self, fragment: boxes.Fragment) -> None:
        scale = self.init.timescale
        if self._parts:
            cell = int(self._parts[0].start / scale / self._grid + 1e-6) + 1
            if fragment.start / scale >= cell * self._grid - 1e-3:
                self._emit(fragment.start)
        self._parts.append(fragment)

    def finish(self) -> None:
        if self._parts:
            last = self._parts[-1]
            self._emit(last.start + last.ticks)

    def _emit(self, until: int) -> None:
        start, scale = self._parts[0].start, self.init.timescale
        data = b"".join(part.data for part in self._parts)
        self.put(len(self.made), data, (until - start) / scale)
        self._parts = []


def in_timeline(timeline: Timeline, margin_seconds: float = 0.0) -> Place:
    """Which segment a fragment is, by when it begins."""
    segments = timeline.segments
    starts = [
        round((segment.start_pts - timeline.zero_pts) * timeline.time_base * ffmpeg.TICKS)
        for segment in segments
    ]

    early = EARLIEST_TICKS + round(margin_seconds * ffmpeg.TICKS)

    def place(fragment: boxes.Fragment) -> tuple[int, float]:
        # A frame that could not be decoded makes a segment begin later, never earlier; those of a
        # new frame rate are next to where the old ones were.
        found = segments[max(0, bisect_right(starts, fragment.start + early) - 1)]
        return found.number, found.seconds

    return place


@contextmanager
def explained(job: JobContext, what: str) -> Iterator[None]:
    """What a tool said goes to the job's log, made safe; the failure gets a sentence."""
    try:
        yield
    except process.ToolFailed as error:
        for line in error.lines:
            job.log(sanitize.line(line))
        error.message = f"{what} {error.message}"
        if any("No space left" in line or "ENOSPC" in line for line in error.lines):
            raise errors.RetryLater("the disk is full", code="disk_full") from error
        if any("Cannot allocate memory" in line for line in error.lines):
            raise errors.RetryLater("there is not enough memory", code="out_of_memory") from error
        raise


def run_tracks(
    desk: Desk,
    argv_for: Callable[[Sequence[int]], Sequence[str]],
    tracks: Sequence[Track],
    *,
    watch: process.Watch | None = None,
    progress: Callable[[float], None] = lambda seconds: None,
) -> list[str]:
    """`argv_for` gets a descriptor for each track; what the tool says of its progress is heard.
    Answers what it complained about."""
    pipes = process.pipes(len(tracks))
    argv = argv_for([write for _, write in pipes])
    listener = _Progress(progress)
    sinks = [listener.feed, *(track.feed for track in tracks)]
    with process.Running(argv, sinks, limits=LIMITS, more_fds=pipes, chatty=True) as running:
        listener.moved = running.alive
        running.wait(watch or desk.board.watch)
    return list(running.lines)


class _Progress:
    """ffmpeg's own report of how far it is."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._rest = b""
        self._last = b""
        self.moved: Callable[[], None] = lambda: None

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b"=")
            if name == b"out_time_us" and value != self._last:
                self._last = value
                self.moved()
                if value.strip().isdigit():
                    self._tell(int(value) / 1_000_000)


class Aside:
    """Steps that run beside the main one. When one of them fails, all end."""

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._stop = Event()
        self._hands = ThreadPoolExecutor(4, "rushes-aside")
        self._steps: list[Future[None]] = []

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._stop.set()
        self._hands.shutdown(wait=True, cancel_futures=True)

    def start(self, step: Callable[[], None]) -> None:
        self._steps.append(self._hands.submit(step))

    def watch(self) -> None:
        """For the tools that are run aside."""
        if self._stop.is_set():
            raise errors.Stopped("the main step has ended")
        self._job.raise_if_stopped()

    def check(self) -> None:
        for step in self._steps:
            if step.done():
                step.result()

    def join(self, watch: process.Watch) -> None:
        while not all(step.done() for step in self._steps):
            wait(self._steps, timeout=0.1, return_when=FIRST_EXCEPTION)
            watch()
            self.check()
        self.check()
