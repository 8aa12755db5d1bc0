"""Running ffmpeg for a job: what comes out of it is cut into segments and kept."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event

from rushes import correlation, errors, kinds, sanitize
from rushes.handlers.transcode.artifact_writer import ArtifactWriter
from rushes.handlers.transcode.progress import ProgressReporter
from rushes.protocol import Rendition
from rushes.records import JsonObject
from rushes.tools import boxes, ffmpeg, playlist, process, profile
from rushes.tools.profile import Profile
from rushes.tools.timeline import Segment, Timeline
from rushes.worker.context import JobContext

LIMITS = process.Limits()
EARLIEST_TICKS = 90


@dataclass(frozen=True, slots=True)
class Workspace:
    """What every step of a job works with. `edit` is what people have changed about the source;
    `qualities` are those to be made, all if there are none; `kept` the renditions that are taken
    over from the version before."""

    job: JobContext
    artifacts: ArtifactWriter
    progress: ProgressReporter
    profile: Profile
    edit: JsonObject
    qualities: list[str] = field(default_factory=list)
    kept: dict[str, Rendition] = field(default_factory=dict)

    @classmethod
    def of(cls, job: JobContext) -> Workspace:
        asked_for = profile.decode(job.args.get("settings") or {})
        return cls(
            job,
            ArtifactWriter(job),
            ProgressReporter(job),
            asked_for,
            job.args.get("edit") or {},
            list(job.args.get("qualities") or []),
        )

    @property
    def is_beginning(self) -> bool:
        """Another job goes on with what this one makes."""
        return self.job.kind == kinds.PREPARE.name

    @property
    def begin(self) -> float:
        """Where people have cut the beginning off."""
        return float(self.edit.get("start") or 0.0)

    @property
    def overlay(self) -> JsonObject:
        return self.edit.get("overlay") or {}

    @property
    def warnings(self) -> list[str]:
        return [each["message"] for each in self.progress.warnings]

    def warn(self, code: str, sentence: str) -> None:
        """What people should know about what was made."""
        self.progress.warnings.append({"code": code, "message": sentence})
        self.job.log(sentence)

    def seconds_of(self, name: str) -> list[float]:
        """How long the segments of a rendition are, as far as they are there without a gap."""
        found: list[float] = []
        while (file := self.artifacts.files.get(segment_of(name, len(found)))) is not None:
            found.append(file.seconds or 0.0)
        return found

    def is_finished(self, name: str) -> bool:
        return f"{name}/playlist.m3u8" in self.artifacts.files

    def finish(self, name: str) -> None:
        """A rendition is whole: measure it, and write its playlist."""
        self.artifacts.flush()
        seconds = self.seconds_of(name)
        sizes = [self.artifacts.files[segment_of(name, n)].size_bytes for n in range(len(seconds))]
        # The same as while it grew: players hold on to what they were told first.
        told = self.progress.rendition(name).target_seconds or 0
        planned = max(self.profile.segment_seconds, told)
        target = playlist.target_duration(seconds, planned)
        self.progress.change(
            name,
            status="completed",
            segments_total=len(seconds),
            segments_completed=len(seconds),
            bandwidth=playlist.peak_rate(sizes, seconds, target),
            average_bandwidth=playlist.rate(sizes, seconds),
        )
        text = playlist.media_playlist(seconds, target_seconds=planned, growing=False)
        self.artifacts.put(f"{name}/playlist.m3u8", text.encode())


def segment_of(rendition: str, number: int) -> str:
    return f"{rendition}/{playlist.segment_name(number)}"


class Track:
    """One rendition's bytes on their way from a pipe to storage: each fragment is a segment."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        self.name = name
        self._cutter = boxes.Cutter()
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

    @property
    def header(self) -> bytes:
        return self.init.data

    def take(self, fragment: boxes.Fragment) -> None:
        self.put(len(self.made), fragment.data, fragment.ticks / self.init.timescale)

    def put(self, number: int, data: bytes, seconds: float) -> None:
        self._begin()
        self.made.add(number)
        name = segment_of(self.name, number)
        if name not in self._workspace.artifacts.files:
            self._workspace.artifacts.put(name, data, seconds)
            self._workspace.progress.finished_segment(self.name)

    def _begin(self) -> None:
        """The header first; it has to be the one that segments made elsewhere rely on."""
        if self._began:
            return
        self._began = True
        name = f"{self.name}/init.mp4"
        there = self._workspace.artifacts.files.get(name)
        if there is not None and there.sha256 != hashlib.sha256(self.header).hexdigest():
            raise Differs(self.name)
        self._workspace.progress.change(self.name, codecs=self.init.codecs)
        self._workspace.progress.note(f"codecs {self.name}", self.init.codecs)
        self._workspace.progress.flush_notes()
        self._workspace.artifacts.put(name, self.header)


class Differs(errors.TransientFailure):
    """Another encoder has made the first part of this rendition."""

    def __init__(self, name: str) -> None:
        message = f"{name} was begun by another encoder, whose work cannot be continued here"
        super().__init__(message, code="encoder_differs")


class Unfit(errors.TransientFailure):
    """What came out of a tool cannot be played as it is."""

    def __init__(self, why: str) -> None:
        super().__init__(why, code="bad_output")


class Pictures(Track):
    """Fragments that begin with a key frame and are joined to segments. Their times are written
    anew, so that headers are the same whatever an encoder's first frames were."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace, name)
        self._parts: list[boxes.Fragment] = []

    @property
    def header(self) -> bytes:
        return boxes.without_edits(self.init.data)

    def joined(self, end: int) -> bytes:
        """All that has come of a segment; the next begins at `end`."""
        ends = [*(part.shown[0] for part in self._parts[1:]), end]
        parts = zip(self._parts, ends, strict=True)
        data = b"".join([piece for part, at in parts for piece in boxes.retimed(part, at)])
        self._parts = []
        return data


@dataclass(frozen=True, slots=True)
class Plan:
    """Which segment a fragment belongs to, by when it is shown, and how many frames that one has.
    `starts` has one more than there are segments: the end."""

    segments: Sequence[Segment]
    starts: Sequence[int]
    early: int
    frames: Sequence[int]
    rate: float | None = None

    @classmethod
    def of(cls, times: Timeline, cut: ffmpeg.Cut) -> Plan:
        at = [*(segment.start_pts for segment in times.segments), times.end_pts]
        starts = [round((pts - times.zero_pts) * times.time_base * ffmpeg.TICKS) for pts in at]
        frames = [segment.frames for segment in times.segments]
        if cut.rate is not None:
            # On a grid of its own, which may have one less in a segment.
            frames = [max(1, int(each.seconds * cut.rate) - 1) for each in times.segments]
        early = EARLIEST_TICKS + round(cut.margin_seconds * ffmpeg.TICKS)
        return cls(times.segments, starts, early, frames, cut.rate)

    def place(self, shown: int) -> int:
        """A frame that could not be decoded makes a segment begin later, never earlier; those of a
        new frame rate are next to where the old ones were."""
        found = bisect_right(self.starts, shown + self.early) - 1
        return min(max(0, found), len(self.segments) - 1)

    def lacks(self, counts: Mapping[int, int]) -> int:
        """How many frames are missing in these segments, each with so many."""
        planned = zip(self.segments, self.frames, strict=True)
        each = ((frames, counts.get(segment.number)) for segment, frames in planned)
        missing = sum(max(0, frames - found) for frames, found in each if found is not None)
        if self.rate is None:
            return missing
        # Where a segment may have one less, another has it.
        inside = [each.seconds for each in self.segments if each.number in counts]
        return max(missing, int(sum(inside) * self.rate + 0.001) - sum(counts.values()))

    def count(self, shown: Iterable[int]) -> dict[int, int]:
        """How many of these frames belong to each segment."""
        return dict(Counter(self.segments[self.place(at)].number for at in shown))


class Encoded(Pictures):
    """Of an encoder, whose key frames are where segments begin. `counts` tells how many frames
    each segment has got; `beyond` those that came when theirs was already whole."""

    def __init__(self, workspace: Workspace, name: str, plan: Plan) -> None:
        super().__init__(workspace, name)
        self._plan = plan
        self._place = 0
        self.counts: dict[int, int] = {}
        self.beyond = 0

    def take(self, fragment: boxes.Fragment) -> None:
        if not fragment.samples:
            return
        if not fragment.begins_by_itself:
            raise Unfit(f"{self.name}: a segment does not begin with a key frame")
        place = self._plan.place(fragment.shown[0])
        if self._parts and place != self._place:
            self._emit()
        if self._plan.segments[place].number in self.made:
            self.beyond += fragment.frames
            return
        self._place = place
        self._parts.append(fragment)
        # Nothing waits for the next key frame when it is whole.
        if sum(part.frames for part in self._parts) >= self._plan.frames[place]:
            self._emit()

    def finish(self) -> None:
        if self._parts:
            self._emit()

    def _emit(self) -> None:
        segment = self._plan.segments[self._place]
        self.counts[segment.number] = sum(part.frames for part in self._parts)
        data = self.joined(self._plan.starts[self._place + 1])
        self.put(segment.number, data, segment.seconds)


class Copied(Pictures):
    """Of a source that browsers play: fragments begin wherever it has key frames, and are joined
    until the next boundary of the grid. Raises Unfit when players would stumble over them."""

    def __init__(
        self, workspace: Workspace, name: str, segment_seconds: float, longest: float
    ) -> None:
        super().__init__(workspace, name)
        self._grid = segment_seconds
        self._longest = longest
        self._last: int | None = None
        self.frames = 0

    def take(self, fragment: boxes.Fragment) -> None:
        if not fragment.samples:
            return
        self._check(fragment)
        begin = fragment.shown[0]
        if self._parts:
            first = self._parts[0].shown[0] / self.init.timescale
            cell = int(first / self._grid + 1e-6) + 1
            if begin / self.init.timescale >= cell * self._grid - 1e-3:
                self._emit(begin)
        self._parts.append(fragment)
        self._last = max(fragment.shown)
        self.frames += fragment.frames

    def finish(self) -> None:
        if self._parts:
            shown = sorted(at for part in self._parts for at in part.shown)
            steps = sorted(later - at for at, later in pairwise(shown)) or [self._parts[0].ticks]
            self._emit(shown[-1] + max(1, steps[len(steps) // 2]))

    def _check(self, fragment: boxes.Fragment) -> None:
        begin = fragment.shown[0]
        if self._last is None and abs(begin) > EARLIEST_TICKS:
            raise Unfit("it has frames that are not to be shown")
        if not fragment.begins_by_itself or (self._last is not None and begin <= self._last):
            raise Unfit("frames are shown before the key frame that they need")
        units = boxes.first_units(fragment, self.init.data)
        if not any(boxes.kind_of(unit) == boxes.IDR for unit in units):
            raise Unfit("not every key frame can be decoded by itself")
        told = boxes.parameters(self.init.data)
        if any(boxes.kind_of(unit) == boxes.SPS and unit not in told for unit in units):
            raise Unfit("the picture changes its shape")

    def _emit(self, until: int) -> None:
        seconds = (until - self._parts[0].shown[0]) / self.init.timescale
        if not 0 < seconds < self._longest + 0.5:
            raise Unfit("its key frames are too far apart")
        self.put(len(self.made), self.joined(until), seconds)


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
    workspace: Workspace,
    argv_for: Callable[[Sequence[int]], Sequence[str]],
    tracks: Sequence[Track],
    *,
    watch: process.Watch | None = None,
    progress: Callable[[float], None] = lambda seconds: None,
) -> list[str]:
    """`argv_for` gets a descriptor for each track; what the tool says of its progress is heard.
    Returns what it complained about."""
    pipes = process.pipes(len(tracks))
    argv = argv_for([write for _, write in pipes])
    listener = FfmpegProgress(progress)
    sinks = [listener.feed, *(track.feed for track in tracks)]
    with process.Running(argv, sinks, limits=LIMITS, more_fds=pipes, chatty=True) as running:
        listener.moved = running.alive
        running.wait(watch or workspace.progress.watch)
    return list(running.lines)


class FfmpegProgress:
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


class Background:
    """Steps that run beside the main one. When one of them fails, all end."""

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._stop = Event()
        self._hands = ThreadPoolExecutor(4, "rushes-background")
        self._steps: list[Future[None]] = []

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._stop.set()
        self._hands.shutdown(wait=True, cancel_futures=True)

    def start(self, step: Callable[[], None]) -> None:
        self._steps.append(self._hands.submit(correlation.carried(step)))

    def watch(self) -> None:
        """For the tools that run in the background."""
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
