"""Reading a job's source: what is in it, and when every frame is shown."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rushes.handlers.transcode.segments import Workspace, explained
from rushes.tools import boxes, ffmpeg, ladder, process, programs, timeline
from rushes.tools.probe import LONGEST_SECONDS, TOO_LONG, Probe, VideoStream, probe, refused
from rushes.tools.timeline import Packets, Timeline

FIRST_PACKETS = 64
LIMITS = process.Limits(wall_seconds=3600, stall_seconds=600)
SLACK_BYTES = 64 * 1024 * 1024
# Some ten million packets; their index is kept in memory.
INDEX = replace(LIMITS, output_bytes=256 * 1024 * 1024)
# Times in milliseconds tell a rate no better than that.
NEAR = 0.05
KNOW_THEIR_LENGTH = ("mov", "matroska", "avi", "asf", "wav")
SHORT_SECONDS, SHORT_SHARE = 1.0, 0.02
NO_TIMES = "the file is damaged: its frames have no times"


def what_is_missing(found: Probe, seconds: float) -> str | None:
    """A sentence if so many seconds are fewer than the file says. Other containers only guess."""
    claimed = found.claimed_seconds
    if claimed is None or not any(each in found.container for each in KNOW_THEIR_LENGTH):
        return None
    if claimed - seconds <= max(SHORT_SECONDS, SHORT_SHARE * claimed):
        return None
    return f"the end is missing: the file claims {claimed:.1f} s and holds {seconds:.1f} s"


def _changes(path: Path) -> bool:
    with path.open("rb") as file:
        return boxes.most_descriptions(file) > 1


class Source:
    """`path` is what is decoded: the source, or a copy of it whose times are in order."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.path: Path = workspace.job.source()
        self.found: Probe = probe(self.path, workspace.progress.watch, with_packets=True)
        self.in_order = False
        # Its header describes picture or sound in several ways: copied, only one would be told.
        self.changes = "mov" in self.found.container and _changes(self.path)
        self._packets: Packets | None = None
        self._first_pts = 0
        self._sound_end: float | None = None
        self._video = self.found.video

    @property
    def video(self) -> VideoStream:
        if self._video is None:
            raise refused("there is no picture in this file", "no_picture")
        return self._video

    @property
    def zero(self) -> float:
        """When the first frame that is kept is shown, in seconds of the source."""
        if self._packets is not None:
            return float(self.timeline().zero_pts * self.video.time_base)
        return float(self._first_pts * self.video.time_base)

    def look(self) -> None:
        """Enough to start with: the first packets, or all of them when those are not enough."""
        first = self._first_packets()
        self._first_pts = min(first.pts, default=self.video.start_pts)
        self.rate_is(timeline.rate(first.pts, self.video.time_base))
        enough = first.keys and timeline.is_regular(first, self.video.time_base)
        if self._workspace.edit or not enough:
            self.index()

    def _first_packets(self) -> Packets:
        known = self._known()
        if self.found.is_whole or len(known.pts) >= FIRST_PACKETS:
            return known
        # Those of other streams come first.
        argv = ffmpeg.packets(programs.ffprobe(), self.path, self.video.index)
        argv[1:1] = ["-read_intervals", f"%+#{FIRST_PACKETS}"]
        try:
            said = process.run(argv, watch=self._workspace.progress.watch)
        except process.ToolFailed:
            return Packets([], [])
        return timeline.read_packets(said.decode(errors="replace"))

    def _known(self) -> Packets:
        """What was read of the picture when the file was looked into."""
        return self.found.packets.get(self.video.index, Packets([], []))

    def index(self) -> bool:
        """When every frame is shown. A source whose times make no sense is put in order first:
        then it returns True, as nothing holds that was found out before."""
        if self._packets is None:
            self._packets = self._known() if self.found.is_whole else self._read(self.path)
            if not timeline.is_regular(self._packets, self.video.time_base):
                self._put_in_order()
                self._sound_end = self._find_sound_end(self._packets)
                return True
            self._sound_end = self._find_sound_end(self._packets)
        return False

    def rate_is(self, rate: float | None) -> None:
        """Frames a second as their times tell, which a file may not know: some claim to have a
        thousand."""
        stated = self.video.frame_rate
        if rate is not None and abs(rate - stated) > NEAR * stated:
            self._video = replace(self.video, frame_rate=rate)

    def timeline(self) -> Timeline:
        assert self._packets is not None
        times = timeline.build(
            self._packets,
            self.video.time_base,
            self._workspace.profile.segment_seconds,
            start=self._workspace.begin,
            end=self._workspace.edit.get("end"),
            frame_seconds=1 / self.video.frame_rate,
            sound_end=self._sound_end,
            frames_each=2 if ladder.doubles(self.video) else 1,
        )
        if times.seconds > LONGEST_SECONDS:
            raise refused(TOO_LONG, "damaged")
        return times

    def _put_in_order(self) -> None:
        self._workspace.job.log("the source's times are broken: it is put in order first")
        size = self.path.stat().st_size
        self._workspace.job.check_room(size)
        target = self._workspace.job.scratch / "in-order.mkv"
        again = self._packets is None or self._packets.missing > len(self._packets.pts)
        again = again or self.changes
        limits = replace(LIMITS, file_bytes=(10 if again else 2) * size + SLACK_BYTES)
        argv = ffmpeg.normalize(programs.ffmpeg(), self.path, target, again=again)
        try:
            with explained(self._workspace.job, "putting the source in order"):
                process.run(argv, limits=limits, watch=self._workspace.progress.watch)
        except process.ToolFailed as error:
            if not error.gave_up:
                raise
            raise refused(NO_TIMES, "damaged") from error
        old, made = self.video, probe(target, self._workspace.progress.watch)
        if made.video is None:
            raise refused(NO_TIMES, "damaged")
        self.path, self.in_order = target, True
        # Its streams are numbered anew.
        self.found = replace(self.found, audios=made.audios, packets={}, is_whole=False)
        self._video = replace(
            made.video, sample_aspect=old.sample_aspect, interlaced=old.interlaced
        )
        self._packets = self._read(target)
        if not self._packets.pts:
            raise refused(NO_TIMES, "damaged")

    @property
    def missing(self) -> str | None:
        """What is said of a file that ends before it should."""
        if self.in_order or self._packets is None or not self._packets.pts:
            return None
        base, begin = self.video.time_base, float(min(self._packets.pts) * self.video.time_base)
        end = float(max(self._packets.pts) * base) + 1 / self.video.frame_rate
        return what_is_missing(self.found, max(end, self._sound_end or end) - begin)

    def _find_sound_end(self, packets: Packets) -> float | None:
        """In seconds of the source. Asked of the packets, because a file may claim anything; but
        only where it may be that the sound outlasts the picture."""
        if not self.found.audios or not packets.pts:
            return None
        base = self.video.time_base
        last = float(max(packets.pts) * base)
        starts = [each.start_seconds for each in self.found.audios]
        begin = min(float(min(packets.pts) * base), *(each or 0.0 for each in starts))
        claimed = self.found.duration
        if claimed is not None and begin + claimed <= last + timeline.OUTLASTS_SECONDS:
            return None
        end = self.found.sound_end if self.found.is_whole else self._read_sound_end(last)
        if end is None or claimed is None:
            return end if end is None or end - begin <= LONGEST_SECONDS else None
        # A packet whose time is nonsense must not hold the picture for hours.
        return min(end, begin + claimed + timeline.OUTLASTS_SECONDS)

    def _read_sound_end(self, after: float) -> float | None:
        indexes = {each.index for each in self.found.audios}
        # Not every file can be read from its middle on.
        for begin in (after, None):
            argv = ffmpeg.sound_ends(programs.ffprobe(), self.path, after=begin)
            with suppress(process.ToolFailed):
                said = process.run(argv, limits=INDEX, watch=self._workspace.progress.watch)
                return timeline.read_sound_end(said.decode(errors="replace"), indexes)
        return None

    def _read(self, path: Path) -> Packets:
        argv = ffmpeg.packets(programs.ffprobe(), path, self.video.index)
        try:
            with explained(self._workspace.job, "reading the source"):
                said = process.run(argv, limits=INDEX, watch=self._workspace.progress.watch)
        except process.ToolFailed as error:
            if not error.gave_up:
                raise
            raise refused("the file is damaged: it cannot be read", "damaged") from error
        return timeline.read_packets(said.decode(errors="replace"))
