"""The picture of a version: all rungs of the ladder from one decode.

A long video is cut into spans: the first is encoded here and now, the others by whoever is free.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, NoReturn

from rushes import errors, sanitize
from rushes.handlers import job_log
from rushes.handlers.transcode.audio import begin
from rushes.handlers.transcode.kept import ORIGINAL
from rushes.handlers.transcode.segments import (
    Background,
    Differs,
    Encoded,
    Plan,
    Unfit,
    Workspace,
    explained,
    run_tracks,
    segment_of,
)
from rushes.handlers.transcode.source import INDEX, LIMITS, NEAR, Source
from rushes.handlers.transcode.source_copy import planned_picture
from rushes.handlers.transcode.spans import cut_of, packed, unpacked
from rushes.protocol import Part, Rendition
from rushes.tools import encoders, ffmpeg, ladder, playlist, process, programs, timeline
from rushes.tools.encoders import Encoder
from rushes.tools.ladder import PlannedRung
from rushes.tools.probe import VideoStream, probe, refused
from rushes.tools.timeline import Timeline

SPAN = "span"
DIVIDED = "divided"
# What the next attempt has to know: how many frames could not be decoded.
LOST = "lost frames"
# How a span tells its parent; as it is not adopted, it goes when the version is whole.
LOST_IN_SPAN = re.compile(r"lost/\d+-(\d+)\.json")
FAILED_IN_SPAN = re.compile(r"failed/\d+-(.+)\.json")
FAILED, QUALITY_FAILED = "failed", "quality_failed"
MARGIN = 0.025
CORNERS = {
    "top-left": (f"W*{MARGIN}", f"W*{MARGIN}"),
    "top-right": (f"W-w-W*{MARGIN}", f"W*{MARGIN}"),
    "bottom-left": (f"W*{MARGIN}", f"H-h-W*{MARGIN}"),
    "bottom-right": (f"W-w-W*{MARGIN}", f"H-h-W*{MARGIN}"),
}
MOST_SPANS, SPAN_SEGMENTS = 1_000, 1_000


class Picture:
    def __init__(self, workspace: Workspace, source: Source) -> None:
        self._workspace = workspace
        self._source = source
        self._video = source.video
        self.renditions = ladder.renditions(workspace.profile, source.video, workspace.qualities)
        wanted = [each for each in self.renditions if not each.skipped]
        self.made = [each for each in wanted if each.name not in workspace.kept]
        if not self.made:
            raise errors.PermanentFailure(
                "the picture is smaller than all qualities that were asked for", code="too_small"
            )
        # Some of it could not be decoded.
        self.damaged = False
        self._has_started_over = False
        for each in self.renditions:
            workspace.progress.list(workspace.kept.get(each.name) or self._planned(each))
        for kept in workspace.kept.values():
            # Also those that the profile does not have any more.
            if kept.kind == "video" and kept.name != ORIGINAL:
                workspace.progress.list(kept)
        self._overlay = self._find_overlay()
        for rung in list(self.made):
            if said := workspace.progress.notes.get(f"{FAILED} {rung.name}"):
                self._leave_out(rung, said)

    def _planned(self, rung: PlannedRung) -> Rendition:
        notes, begun = self._workspace.progress.notes, f"{rung.name}/seg_"
        return replace(
            planned_picture(rung.name, rung.width, rung.height, self._video, rung.bitrate * 1000),
            status="skipped" if rung.skipped else "pending",
            segments_completed=sum(
                name.startswith(begun) for name in self._workspace.artifacts.files
            ),
            codecs=notes.get(f"codecs {rung.name}"),
            target_seconds=notes.get(f"target_seconds {rung.name}"),
        )

    @property
    def names(self) -> list[str]:
        """Of the whole ladder, with what is taken over; largest first."""
        made = [each.name for each in self.made]
        listed = self._workspace.progress.pictures
        whole = {*made, *self._workspace.kept} - {ORIGINAL}
        return [name for name in listed if name in whole]

    # The ladder

    def encode(self, background: Background) -> Timeline:
        """What is missing of it; returns the timeline of what there is in the end."""
        times = self._source.timeline()
        workspace, encoder = self._workspace, self._encoder()
        self._leave_out_what_spans_could_not_make()
        if not workspace.progress.notes.get(DIVIDED):
            rungs = workspace.progress.pictures.values()
            workspace.job.log(job_log.ladder(rungs, workspace.kept))
        self._expect(times, self._missing(times))
        size, divides = self._span_size(len(times.segments)), self.divides(times)
        encoder = self._encode_missing(background, times, size if divides else None, encoder)
        if divides:
            background.join(workspace.progress.watch)
            workspace.progress.note(DIVIDED, True)
            workspace.progress.tell()
            parts = self._parts(times, self._missing(times), size, encoder)
            workspace.job.log(f"the rest is divided into {job_log.count(len(parts), 'span')}")
            raise errors.Divided(parts, checkpoint=workspace.progress.notes)
        times = self._without_lost_end(times)
        if lost := self._lost():
            frames = "1 frame" if lost == 1 else f"{lost} frames"
            workspace.warn("frames_lost", f"{frames} of the picture could not be decoded")
        return times

    def divides(self, times: Timeline) -> bool:
        """Whether others help to make what is missing."""
        long = times.seconds > self._workspace.profile.divide_after and not self._source.in_order
        size = self._span_size(len(times.segments))
        return long and any(number >= size for number in self._missing(times))

    @property
    def smallest(self) -> str:
        return min(self.made, key=lambda each: each.width * each.height).name

    def _lost(self) -> int:
        """Frames that could not be decoded, here or by spans."""
        workspace = self._workspace
        names = (
            [each.name for each in workspace.job.artifacts()]
            if workspace.progress.notes.get(DIVIDED)
            else []
        )
        told = [found for name in names if (found := LOST_IN_SPAN.fullmatch(name))]
        return int(workspace.progress.notes.get(LOST, 0)) + sum(int(each[1]) for each in told)

    def _span_size(self, segments: int) -> int:
        """In segments; few enough spans, and none larger than a job's arguments may be."""
        profile = self._workspace.profile
        preferred = round(profile.span_seconds / profile.segment_seconds)
        return min(SPAN_SEGMENTS, max(1, preferred, ceil(segments / MOST_SPANS)))

    def encode_span(self) -> list[int]:
        """A share of the ladder, as the parent has planned it."""
        args, workspace = self._workspace.job.args, self._workspace
        times = unpacked(args["timeline"])
        share = {segment_of(r.name, each.number) for r in self.made for each in times.segments}
        # Only what an earlier attempt of this very share has left: all else belongs to others.
        workspace.artifacts.adopt(share.__contains__)
        workspace.artifacts.look_up(lambda name: name.endswith("/init.mp4"))
        self._expect(times, self._missing(times))
        encoder = encoders.BY_NAME[args["encoder"]]
        self._encode_share(times, encoder)
        if lost := workspace.progress.notes.get(LOST):
            workspace.artifacts.put(f"lost/{times.segments[0].number:05d}-{lost}.json", b"{}")
        workspace.artifacts.flush()
        if missing := self._missing(times):
            what = f"{len(missing)} segments were not made"
            raise errors.TransientFailure(what, code="bad_output")
        return [segment.number for segment in times.segments]

    def _encode_share(self, times: Timeline, encoder: Encoder) -> None:
        """Whoever has another encoder may try again; then what fails is left to the parent."""
        try:
            self._encode_runs(None, times, None, encoder)
        except process.ToolFailed as error:
            if not self._is_last_attempt:
                raise
            before = list(self.made)
            self._encode_one_by_one(None, times, None, encoder, error)
            number = times.segments[0].number
            for rung in before:
                if rung not in self.made:
                    self._workspace.artifacts.put(f"failed/{number:05d}-{rung.name}.json", b"{}")

    def _expect(self, times: Timeline, missing: Sequence[int]) -> None:
        left = sum(each.seconds for each in times.segments if each.number in set(missing))
        whole = sum(each.seconds for each in times.segments)
        self._workspace.progress.expect(whole, whole - left)
        target = playlist.target_duration(
            [each.seconds for each in times.segments], self._workspace.profile.segment_seconds
        )
        rate = round(self._told_rate(times), 3)
        if times.hold is not None:
            rate = max(rate, 1 / timeline.HELD_SECONDS)
        for each in self.made:
            self._workspace.progress.note(f"target_seconds {each.name}", target)
            names = (segment_of(each.name, segment.number) for segment in times.segments)
            self._workspace.progress.change(
                each.name,
                segments_total=len(times.segments),
                segments_completed=sum(name in self._workspace.artifacts.files for name in names),
                target_seconds=target,
                frame_rate=rate,
            )

    def _told_rate(self, times: Timeline) -> float:
        """Frames a second; as most are if the first were fewer."""
        told = ladder.frame_rate(self._video)
        found = ladder.frame_rate(replace(self._video, frame_rate=times.rate))
        return max(told, found) if abs(found - told) > NEAR * told else told

    def _missing(self, times: Timeline) -> list[int]:
        files = self._workspace.artifacts.files
        return [
            segment.number
            for segment in times.segments
            if not all(segment_of(each.name, segment.number) in files for each in self.made)
        ]

    def _without_lost_end(self, times: Timeline) -> Timeline:
        """A recording whose end cannot be decoded ends earlier."""
        missing = self._missing(times)
        if not missing:
            return times
        first = missing[0]
        if first == 0 or missing != list(range(first, len(times.segments))):
            raise refused("the file is damaged: parts of the picture cannot be decoded", "damaged")
        self._workspace.warn("end_unreadable", "the end of the picture cannot be decoded")
        stop = times.segments[first].start_pts
        return replace(times, segments=times.segments[:first], end_pts=stop)

    # Encoders

    def _encoder(self) -> Encoder:
        """The one that an earlier attempt has begun with, if it works here."""
        workspace = self._workspace
        requested = workspace.progress.notes.get("encoder", workspace.profile.encoder)
        encoder = encoders.choose(requested, sorted({each.codec for each in self.made}))
        if requested not in ("auto", encoder.name) and "encoder" in workspace.progress.notes:
            self._start_over()
        self._note(encoder)
        return encoder

    def _note(self, encoder: Encoder) -> None:
        self._workspace.progress.note("encoder", encoder.name)
        for each in self.made:
            self._workspace.progress.change(each.name, encoder=encoder.codecs[each.codec])

    def _start_over(self) -> None:
        """What another encoder has made cannot be continued."""
        self._workspace.artifacts.discard(tuple(f"{each.name}/" for each in self.made))
        for each in self.made:
            self._workspace.progress.change(each.name, segments_completed=0)

    def _encode_missing(
        self, background: Background, times: Timeline, below: int | None, encoder: Encoder
    ) -> Encoder:
        """A device that fails is replaced by software, what another encoder has begun is made anew,
        and a rung that cannot be encoded is left out, all in the same attempt. Returns the encoder
        that has done it."""
        while True:
            try:
                self._encode_runs(background, times, below, encoder)
                return encoder
            except (process.ToolFailed, Differs, Unfit) as error:
                if not self._is_final(encoder, error):
                    encoder = self._start_in_software(encoder, error)
                elif isinstance(error, process.ToolFailed) and self._leave_out_refused(
                    times, encoder, error
                ):
                    continue
                elif isinstance(error, process.ToolFailed) and self._is_last_attempt:
                    self._encode_one_by_one(background, times, below, encoder, error)
                else:
                    self._give_up(error)

    def _encode_runs(
        self, background: Background | None, times: Timeline, below: int | None, encoder: Encoder
    ) -> None:
        missing = self._missing(times)
        for run in timeline.runs([n for n in missing if below is None or n < below]):
            self._encode_run(times, run, encoder, background)
        self._workspace.artifacts.flush()

    @property
    def _is_last_attempt(self) -> bool:
        return self._workspace.job.attempt >= self._workspace.job.max_attempts

    def _is_final(self, encoder: Encoder, error: errors.TransientFailure) -> bool:
        """Whether starting over in software could not help."""
        if encoder.name != encoders.SOFTWARE:
            return False
        return self._has_started_over or not isinstance(error, Differs)

    def _give_up(self, error: errors.TransientFailure) -> NoReturn:
        if isinstance(error, process.ToolFailed) and error.gave_up:
            self._refuse_undecodable()
        raise error

    def _start_in_software(self, encoder: Encoder, error: errors.TransientFailure) -> Encoder:
        self._has_started_over = True
        self._workspace.job.log(f"{encoder.name}: {error.message}; starting over in software")
        self._start_over()
        encoder = encoders.BY_NAME[encoders.SOFTWARE]
        self._note(encoder)
        return encoder

    # Rungs that fail alone

    def _leave_out_refused(
        self, times: Timeline, encoder: Encoder, error: process.ToolFailed
    ) -> bool:
        """Whether there are rungs that cannot be encoded even by themselves, and others that can,
        as one segment of each shows. Then those are left out."""
        missing = self._missing(times)
        if error.code != process.ToolFailed.CODE or len(self.made) < 2 or not missing:
            return False
        refused = {
            rung: said
            for rung in self.made
            if (said := self._try(rung, times, encoder, missing[0]))
        }
        if len(refused) == len(self.made):
            return False
        for rung, said in refused.items():
            self._leave_out(rung, said)
        return bool(refused)

    def _try(self, rung: PlannedRung, times: Timeline, encoder: Encoder, number: int) -> str | None:
        """What is wrong with it, if anything."""
        cut = replace(cut_of(times, number, number + 1), rate=capped(times))
        [pipe] = process.pipes(1)
        argv = self._command(cut, [rung], encoder, [pipe[1]], slow=times.slow)
        sinks: list[process.Sink] = [lambda chunk: None, lambda chunk: None]
        try:
            with (
                explained(self._workspace.job, "its encoder"),
                process.Running(argv, sinks, limits=LIMITS, more_fds=[pipe]) as running,
            ):
                running.wait(self._workspace.progress.watch)
        except process.ToolFailed as error:
            return error.message
        return None

    def _encode_one_by_one(
        self,
        background: Background | None,
        times: Timeline,
        below: int | None,
        encoder: Encoder,
        error: process.ToolFailed,
    ) -> None:
        """Each rung in a process of its own, and without those that fail: the last resort, as the
        source is decoded for each. Raises `error` when all do."""
        wanted, failed = self.made, {}
        notes = self._workspace.progress.notes
        before, lost = notes.get(LOST, 0), notes.get(LOST, 0)
        try:
            for rung in wanted:
                self.made = [rung]
                self._workspace.progress.note(LOST, before)
                try:
                    self._encode_runs(background, times, below, encoder)
                except process.ToolFailed as alone:
                    failed[rung.name] = alone.message
                lost = max(lost, notes.get(LOST, 0))
        finally:
            self.made = wanted
            # The same frames are missing in each.
            self._workspace.progress.note(LOST, lost)
        if len(failed) == len(wanted):
            self._give_up(error)
        for rung in wanted:
            if rung.name in failed:
                self._leave_out(rung, failed[rung.name])

    def _leave_out_what_spans_could_not_make(self) -> None:
        if not self._workspace.progress.notes.get(DIVIDED):
            return
        names = [each.name for each in self._workspace.job.artifacts()]
        failed = {found[1] for name in names if (found := FAILED_IN_SPAN.fullmatch(name))}
        left = [each for each in self.made if each.name in failed]
        if left and len(left) == len(self.made):
            raise errors.PermanentFailure("no quality could be encoded whole", code="tool_failed")
        for rung in left:
            self._leave_out(rung, "a part of it could not be encoded")

    def _leave_out(self, rung: PlannedRung, why: str) -> None:
        workspace = self._workspace
        self.made = [each for each in self.made if each is not rung]
        workspace.artifacts.discard((f"{rung.name}/",))
        workspace.progress.change(
            rung.name, status="failed", segments_completed=0, error_message=why
        )
        workspace.progress.note(f"{FAILED} {rung.name}", why)
        workspace.warn(QUALITY_FAILED, f"{rung.name} could not be made: {why}")

    def _refuse_undecodable(self) -> None:
        """Whose fault was it? Where not one frame can be had, trying again cannot help."""
        argv = ffmpeg.small_frame(programs.ffmpeg(), self._source.path, self._video.index, 16)
        try:
            frame = process.run(argv, watch=self._workspace.progress.watch)
        except process.ToolFailed:
            frame = b""
        if not frame:
            raise refused("the file is damaged: its picture cannot be decoded", "damaged")

    def _encode_run(
        self,
        times: Timeline,
        run: tuple[int, int],
        encoder: Encoder,
        background: Background | None = None,
    ) -> None:
        """Neighbouring segments of all rungs, in one process."""
        workspace, progress = self._workspace, self._workspace.progress
        cut = replace(cut_of(times, *run), rate=capped(times))
        plan = Plan.of(times, cut)
        tracks = [Encoded(workspace, each.name, plan) for each in self.made]
        before = sum(each.seconds for each in times.segments if each.number < run[0])
        begin_at = float((cut.start_pts - cut.zero_pts) * cut.time_base)

        def command(fds: Sequence[int]) -> list[str]:
            return self._command(cut, self.made, encoder, fds, slow=times.slow)

        def watch() -> None:
            if background is not None:
                background.check()
            progress.watch()

        def reached(at: float) -> None:
            progress.reached(before + max(0.0, at - begin_at))

        progress.begin(each.name for each in self.made)
        with explained(workspace.job, "encoding the picture"):
            complaints = run_tracks(workspace, command, tracks, watch=watch, progress=reached)
        for track in tracks:
            track.finish()
        for line in complaints:
            self.damaged = True
            workspace.job.log(sanitize.line(line))
        self._add_up(times, cut, tracks, bool(complaints))

    def _add_up(
        self, times: Timeline, cut: ffmpeg.Cut, tracks: Sequence[Encoded], complained: bool
    ) -> None:
        """Every frame of the source is in every rung, or it is known why not."""
        counts, plan = tracks[0].counts, Plan.of(times, cut)
        if any(track.counts != counts or track.beyond for track in tracks[1:]):
            self._throw_away(counts)
        lost = plan.lacks(counts) + tracks[0].beyond
        if complained:
            # What a new rate shows again in place of lost frames does not count.
            lost = lost if cut.rate is None else self._undecoded(times, cut, counts)
            self._workspace.progress.note(LOST, lost + self._workspace.progress.notes.get(LOST, 0))
        elif lost:
            # Not every packet has a frame: some of VP8 and MPEG-4 only help to decode others.
            shown = self._decoded(cut, plan)
            if tracks[0].beyond or any(counts[each] < shown.get(each, 0) for each in counts):
                self._throw_away(counts)
            self._workspace.job.log(f"{lost} packets of the picture hold no frame")

    def _undecoded(self, times: Timeline, cut: ffmpeg.Cut, numbers: Iterable[int]) -> int:
        """Frames of the source, in these segments, that a decoder does not show."""
        plan = Plan.of(times, replace(cut, rate=None))
        found = self._decoded(replace(cut, rate=None), plan)
        return plan.lacks({number: found.get(number, 0) for number in numbers})

    def _throw_away(self, numbers: Iterable[int]) -> None:
        names = [segment_of(each.name, number) for each in self.made for number in numbers]
        self._workspace.artifacts.discard(tuple(names))
        raise Unfit("frames of the picture were lost while it was encoded")

    def _decoded(self, cut: ffmpeg.Cut, plan: Plan) -> dict[int, int]:
        """How many frames of each segment a decoder shows."""
        argv = ffmpeg.frame_times(
            programs.ffmpeg(), self._source.path, self._video.index, cut, prepared(self._video)
        )
        with explained(self._workspace.job, "counting frames"):
            said = process.run(argv, limits=INDEX, watch=self._workspace.progress.watch)
        return plan.count(timeline.read_frame_times(said.decode(errors="replace")))

    def _command(
        self,
        cut: ffmpeg.Cut,
        rungs: Sequence[PlannedRung],
        encoder: Encoder,
        fds: Sequence[int],
        *,
        slow: bool,
    ) -> list[str]:
        outputs = [
            self._output(each, encoder, fd, slow=slow) for each, fd in zip(rungs, fds, strict=True)
        ]
        return ffmpeg.encode_span(
            programs.ffmpeg(),
            self._source.path,
            self._video.index,
            cut,
            outputs,
            prepare=prepared(self._video),
            device=encoder.device,
            overlay=self._overlay,
        )

    def _output(
        self, rendition: PlannedRung, encoder: Encoder, fd: int, *, slow: bool
    ) -> ffmpeg.VideoOutput:
        profile = self._workspace.profile
        return ffmpeg.VideoOutput(
            width=rendition.width,
            height=rendition.height,
            encode=encoder.arguments(
                rendition.codec,
                bitrate=rendition.bitrate,
                crf=profile.crf,
                preset=profile.preset,
                reorder=not slow,
            ),
            fd=fd,
            tail=encoder.tail,
        )

    # Spans

    def _parts(
        self, times: Timeline, left: Sequence[int], size: int, encoder: Encoder
    ) -> list[Part]:
        given = self._workspace.job.args
        shared: dict[str, Any] = {
            **{name: given[name] for name in ("settings", "edit") if name in given},
            "qualities": [each.name for each in self.made],
            "encoder": encoder.name,
            "frame_rate": self._video.frame_rate,
        }
        needs = [] if encoder.name == encoders.SOFTWARE else [encoder.name]
        groups: dict[int, list[int]] = {}
        for number in left:
            groups.setdefault(number // size, []).append(number)
        return [
            Part(
                kind=SPAN,
                args={**shared, "timeline": packed(times, numbers[0], numbers[-1] + 1)},
                needs=needs,
            )
            for numbers in groups.values()
        ]

    # Overlay

    def _find_overlay(self) -> ffmpeg.OverlayInput | None:
        overlay = self._workspace.overlay
        if not overlay:
            return None
        path = self._workspace.job.source(str(overlay["media_id"]))
        found = probe(path, self._workspace.progress.watch)
        if found.video is None:
            raise refused("the overlay has no picture", "no_picture")
        position = overlay.get("position", "bottom-right")
        if isinstance(position, Mapping):
            x, y = f"W*{float(position['x']):.4f}", f"H*{float(position['y']):.4f}"
        else:
            x, y = CORNERS[str(position)]
        return ffmpeg.OverlayInput(
            path=path,
            index=found.video.index,
            zero=begin(found) + self._workspace.begin,
            begin=self._workspace.begin,
            x=x,
            y=y,
            size=float(overlay.get("size", 0.25)),
            prepare=prepared(found.video),
        )


def capped(times: Timeline) -> float | None:
    """The frame rate to come down to, if any. Rates that vary are kept, whatever a file claims."""
    return ladder.FASTEST if times.rate > ladder.FASTEST + 0.5 else None


def prepared(video: VideoStream) -> list[str]:
    """What is done once, before the picture is split."""
    steps = []
    if video.interlaced:
        steps.append(f"bwdif=mode={'send_field' if ladder.doubles(video) else 'send_frame'}")
    if video.hdr:
        steps.append(ffmpeg.TONE_MAP)
    return steps
