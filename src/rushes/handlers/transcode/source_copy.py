"""The source as it is: what browsers play already is published before anything is encoded."""

from __future__ import annotations

from dataclasses import replace

from rushes import errors
from rushes.handlers.transcode.kept import ORIGINAL, fits
from rushes.handlers.transcode.segments import Background, Copied, Differs, Workspace, explained
from rushes.handlers.transcode.source import LIMITS, Source
from rushes.protocol import Rendition
from rushes.tools import ffmpeg, ladder, process, programs
from rushes.tools.probe import VideoStream
from rushes.tools.timeline import Timeline

# How many frames were copied, which the next attempt has to know.
COPIED = "copied frames"
# H.264 as every browser plays it.
PLAYABLE_PROFILES = ("Constrained Baseline", "Baseline", "Main", "High")
PLAYABLE_FORMATS = ("yuv420p", "yuvj420p")
HIGHEST_LEVEL = 52
# Before anything is measured, a rendition may need so much more than its cap.
PEAK = 1.1
GUESSED_BIT_RATE = 5_000_000
LONGEST_COPIED = 12.0


class SourceCopy:
    def __init__(self, workspace: Workspace, source: Source) -> None:
        self._workspace = workspace
        self._source = source
        self._video = source.video

    def start(self, background: Background) -> None:
        """Unless browsers would not play it, or it is to be changed."""
        workspace = self._workspace
        if (kept := workspace.kept.get(ORIGINAL)) is not None:
            workspace.progress.list(kept)
            return
        if why_not := self._why_not():
            workspace.job.log(f"the source is not copied: {why_not}")
            return
        workspace.job.log("copying the picture as it is, to be watched at once")
        width, height = self._video.shown
        rate = self._video.bit_rate or self._source.found.bit_rate or GUESSED_BIT_RATE
        segment = workspace.profile.segment_seconds
        copied = replace(
            planned_picture(ORIGINAL, width, height, self._video, rate),
            status="in_progress",
            # Key frames are where they are; players want to know the longest wait in advance.
            target_seconds=max(LONGEST_COPIED, segment),
            codecs=workspace.progress.notes.get(f"codecs {ORIGINAL}"),
            segments_total=int((self._source.found.duration or 0) / segment) + 1,
        )
        workspace.progress.list(copied)
        background.start(lambda: self._copy(background))

    def _why_not(self) -> str | None:
        if self._workspace.edit:
            return "it is edited"
        if not self._workspace.profile.original:
            return "the profile does not ask for it"
        if not is_playable(self._video):
            return "browsers may not play it as it is"
        if self._source.changes:
            return "the way it is coded changes"
        # It would end while there is still something to hear.
        return "its sound is longer than its picture" if self._source.found.outlasted else None

    def _copy(self, background: Background) -> None:
        """Never a reason to fail: all else is made anyway."""
        workspace = self._workspace
        try:
            try:
                if not workspace.is_finished(ORIGINAL):
                    self._run_copy(background)
            except Differs:
                # Another ffmpeg has begun it.
                workspace.artifacts.discard((f"{ORIGINAL}/",))
                self._run_copy(background)
        except (errors.PermanentFailure, errors.TransientFailure) as error:
            workspace.job.log(f"the source cannot be copied: {error.message}")
            workspace.artifacts.discard((f"{ORIGINAL}/",))
        if workspace.seconds_of(ORIGINAL):
            workspace.finish(ORIGINAL)
        else:
            workspace.progress.change(ORIGINAL, status="failed")

    def _run_copy(self, background: Background) -> None:
        longest = self._workspace.progress.rendition(ORIGINAL).target_seconds or LONGEST_COPIED
        track = Copied(self._workspace, ORIGINAL, self._workspace.profile.segment_seconds, longest)
        argv = ffmpeg.copy_picture(
            programs.ffmpeg(), self._source.path, self._video.index, self._source.zero
        )
        with explained(self._workspace.job, "copying the source"):
            with process.Running(argv, [track.feed], limits=LIMITS) as running:
                running.wait(background.watch)
            track.finish()
        self._workspace.progress.note(COPIED, track.frames)
        self._workspace.artifacts.flush()

    def check(self, times: Timeline) -> None:
        """What was copied has to be what the source shows, no frame more or less."""
        row = self._workspace.progress.pictures.get(ORIGINAL)
        if row is None or row.status != "completed" or ORIGINAL in self._workspace.kept:
            return
        if self._workspace.progress.notes.get(COPIED) != times.frames:
            self._workspace.job.log("the source cannot be copied: it has frames that are not shown")
            self._workspace.artifacts.discard((f"{ORIGINAL}/",))
            self._workspace.progress.change(ORIGINAL, status="failed")

    def _fits(self, times: Timeline) -> bool:
        row = self._workspace.progress.pictures.get(ORIGINAL)
        if row is None or row.status != "completed":
            return False
        return fits(self._workspace, ORIGINAL, times)

    def is_listed(self, times: Timeline, *, damaged: bool) -> bool:
        """Whether it is worth choosing, now that the ladder is there. `damaged`: some of the source
        could not be decoded; what is copied has the same faults."""
        if damaged or not self._fits(times):
            return False
        needed = self._workspace.progress.pictures[ORIGINAL].average_bandwidth or 0
        return bool(needed <= ladder.most_copied(self._workspace.profile, self._video))


def is_playable(video: VideoStream) -> bool:
    return (
        video.codec == "h264"
        and video.profile in PLAYABLE_PROFILES
        and video.pixel_format in PLAYABLE_FORMATS
        and video.level <= HIGHEST_LEVEL
        and not (video.rotation or video.interlaced or video.hdr)
        and video.sample_aspect == 1
    )


def planned_picture(
    name: str, width: int, height: int, video: VideoStream, bandwidth: int
) -> Rendition:
    return Rendition(
        name=name,
        kind="video",
        width=width,
        height=height,
        frame_rate=round(ladder.frame_rate(video), 3),
        bandwidth=round(bandwidth * PEAK),
        average_bandwidth=bandwidth,
    )
