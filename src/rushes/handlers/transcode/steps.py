"""The jobs that make a version to watch: `transcode`, `trim`, `composite`, `span`, a share of one
of them, and `prepare`, the beginning of a transcode that still waits for its turn.

What is playable as it is, is published first; then one process decodes once for all rungs. Every
finished segment is where it stays, so whoever goes on after a crash makes only what is missing.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Sequence

import msgspec

from rushes import errors, renditions
from rushes.handlers import job_log
from rushes.handlers.transcode import audio, images, kept, subtitles
from rushes.handlers.transcode.kept import MADE_ANEW, ORIGINAL
from rushes.handlers.transcode.segments import Background, Differs, Workspace, segment_of
from rushes.handlers.transcode.source import Source, what_is_missing
from rushes.handlers.transcode.source_copy import SourceCopy
from rushes.handlers.transcode.video import DIVIDED, Picture
from rushes.protocol import Rendition
from rushes.records import JsonObject
from rushes.tools import ffmpeg, playlist, process
from rushes.tools.probe import refused
from rushes.tools.timeline import OUTLASTS_SECONDS, Timeline
from rushes.worker.context import JobContext

# All else waits no longer for something to play: it may never come.
FIRST_PLAY_SECONDS = 2.0
# Sound of so many seconds is encoded within a few; longer would keep others from being watchable.
QUICK_SECONDS = 900.0
ENDED = ("completed", "failed")


def transcode(job: JobContext, *, keep: bool = True) -> JsonObject:
    """A new version of the job's media. `keep`: go on with what an earlier attempt has made."""
    workspace = Workspace.of(job)
    began_at = time.monotonic()
    try:
        keep = _on_same_terms(workspace) and keep
        source = _look_into(workspace)
        if source.found.video is not None:
            kept.take_over(workspace, source)
        if keep or workspace.progress.notes.get(DIVIDED):
            _adopt(workspace)
        make = _video if source.found.video else _sound
        result = make(workspace, source)
        job.log(job_log.made(result, time.monotonic() - began_at))
        return result
    finally:
        workspace.artifacts.close()


def prepare(job: JobContext) -> JsonObject:
    """What makes a recording watchable, in the version that the parent makes: its poster, and a
    copy of what browsers play. Whether it can be read at all is found out here. The parent goes on
    with it, from the same notes."""
    workspace = Workspace.of(job)
    try:
        keep = _on_same_terms(workspace)
        source = _look_into(workspace)
        if keep:
            _adopt(workspace)
        begin = _begin_video if source.found.video else _begin_sound
        begin(workspace, source)
        workspace.artifacts.flush()
        workspace.progress.step("finalize")
        kind = "video" if source.found.video else "audio"
        return {"kind": kind, "duration": source.found.duration}
    finally:
        workspace.artifacts.close()


def _begin_video(workspace: Workspace, source: Source) -> None:
    progress, copy = workspace.progress, SourceCopy(workspace, source)
    with Background(workspace.job) as background:
        # Neither is of use without the other: nobody is to watch it silent.
        if _is_short(source) or audio.is_copied(workspace, source):
            copy.start(background)
        if ORIGINAL in progress.pictures:
            audio.start(workspace, background, source)
        progress.step("thumbnail")
        _wait_for_first_play(workspace)
        _thumbnail(workspace, source, progress.watch)
        background.join(progress.watch)


def _begin_sound(workspace: Workspace, source: Source) -> None:
    if _is_short(source):
        workspace.progress.step("transcode")
        _hear(workspace, source)


def _is_short(source: Source) -> bool:
    return 0 < (source.found.duration or 0.0) <= QUICK_SECONDS


def _on_same_terms(workspace: Workspace) -> bool:
    """Whether there is something that was made as it is asked for now."""
    terms = _terms(workspace.job)
    is_same = workspace.progress.notes.get("terms") == terms
    workspace.progress.note("terms", terms)
    return bool(is_same)


def _look_into(workspace: Workspace) -> Source:
    workspace.progress.step("probe")
    source = Source(workspace)
    if source.found.video is not None:
        source.look()
    _tell_of(workspace, source)
    return source


def _tell_of(workspace: Workspace, source: Source) -> None:
    if workspace.progress.notes.get(DIVIDED):
        workspace.job.log("all spans are made: putting them together")
        return
    video = source.video if source.found.video else None
    for line in [*job_log.found(source.found, video), *job_log.edits(workspace.edit)]:
        workspace.job.log(line)


def span(job: JobContext) -> JsonObject:
    """Some segments of the version that the parent makes."""
    workspace = Workspace.of(job)
    try:
        workspace.progress.step("probe")
        source = Source(workspace)
        source.rate_is(job.args.get("frame_rate"))
        workspace.progress.step("transcode")
        began_at = time.monotonic()
        segments = Picture(workspace, source).encode_span()
        spent = job_log.length(time.monotonic() - began_at)
        job.log(f"segments {segments[0] + 1} to {segments[-1] + 1} are made; it took {spent}")
        return {"segments": segments}
    except Differs as error:
        # Whoever has the encoder that began it may go on with it.
        raise errors.RetryLater(error.message, code=error.code) from error
    finally:
        workspace.artifacts.close()


def _terms(job: JobContext) -> str:
    """What was made on other terms cannot be continued."""
    named = ("settings", "edit", "qualities", "keep_others")
    asked = {name: value for name in named if (value := job.args.get(name)) is not None}
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()[:16]


def _adopt(workspace: Workspace) -> None:
    """What can be continued: a rendition only if it is known what it is."""
    notes = workspace.progress.notes

    def wanted(name: str) -> bool:
        rendition, _, file = name.partition("/")
        if name in (playlist.MASTER, playlist.MANIFEST):
            return False
        return not file or rendition.startswith("audio") or f"codecs {rendition}" in notes

    workspace.artifacts.adopt(wanted)
    segments = sum("/seg_" in name for name in workspace.artifacts.files)
    if segments and not notes.get(DIVIDED):
        workspace.job.log(f"going on with {job_log.count(segments, 'segment')} that are there")


def _video(workspace: Workspace, source: Source) -> JsonObject:
    try:
        return _pictures(workspace, source)
    except OutOfOrder:
        # Sound and copy were begun from the source as it was.
        workspace.artifacts.discard((f"{ORIGINAL}/", "audio"))
        workspace.progress.pictures.clear()
        workspace.progress.sounds.clear()
        said = workspace.progress.warnings
        said[:] = [each for each in said if each["code"] == MADE_ANEW]
        return _pictures(workspace, source)


class OutOfOrder(Exception):
    """The times of a source turned out to be broken after the work had begun."""


def _pictures(workspace: Workspace, source: Source) -> JsonObject:
    progress = workspace.progress
    picture, copy = Picture(workspace, source), SourceCopy(workspace, source)
    encoded = threading.Event()
    with Background(workspace.job) as background:
        copy.start(background)
        audio.start(workspace, background, source)
        progress.step("thumbnail")
        # What nobody can watch yet comes first: all that only helps to find it waits for that.
        _wait_for_first_play(workspace)
        background.start(lambda: _thumbnail_later(workspace, source, background, encoded))
        if source.index():
            raise OutOfOrder
        progress.step("transcode")
        if not picture.divides(source.timeline()):
            images.keep_rung(workspace, picture.smallest)
        try:
            times = picture.encode(background)
        except errors.Divided:
            _thumbnail(workspace, source, progress.watch)
            raise
        encoded.set()
        background.join(progress.watch)
    copy.check(times)
    for each in picture.made:
        workspace.finish(each.name)
    is_listed = copy.is_listed(times, damaged=picture.damaged)
    return _finish(workspace, source, picture, times, lists_copy=is_listed)


def _wait_for_first_play(workspace: Workspace) -> None:
    """Of what is copied, which takes a moment. Programs that run beside it make it longer."""
    progress, names = workspace.progress, [ORIGINAL, *workspace.progress.sounds]
    if ORIGINAL not in progress.pictures:
        return
    until = time.monotonic() + FIRST_PLAY_SECONDS
    while time.monotonic() < until and any(
        segment_of(name, 0) not in workspace.artifacts.files
        and progress.rendition(name).status not in ENDED
        for name in names
    ):
        progress.watch()
        workspace.job.wait(0.02)


def _thumbnail(workspace: Workspace, source: Source, watch: process.Watch) -> None:
    if "thumbnail.jpg" not in workspace.artifacts.files:
        begin, end = workspace.begin, workspace.edit.get("end") or source.found.duration or 0.0
        images.thumbnail(workspace, source.path, source.video, begin, max(0.0, end - begin), watch)


def _thumbnail_later(
    workspace: Workspace, source: Source, background: Background, encoded: threading.Event
) -> None:
    _wait_for_first_segment(workspace, background, encoded, workspace.progress.pictures)
    _thumbnail(workspace, source, background.watch)


def _storyboard(
    workspace: Workspace, source: Source, picture: Picture, times: Timeline, watch: process.Watch
) -> None:
    if "storyboard.vtt" not in workspace.artifacts.files:
        footage = images.footage_of_rung(workspace, picture.smallest, times)
        footage = footage or images.Footage.of(source.path, source.video, times)
        images.storyboard(workspace, footage, source.video.shown, times.seconds, watch)


def _wait_for_first_segment(
    workspace: Workspace,
    background: Background,
    encoded: threading.Event,
    names: Iterable[str],
) -> None:
    first = [segment_of(name, 0) for name in names]
    while not encoded.is_set() and not any(name in workspace.artifacts.files for name in first):
        background.watch()
        workspace.job.wait(0.1)


def _finish(
    workspace: Workspace, source: Source, picture: Picture, times: Timeline, *, lists_copy: bool
) -> JsonObject:
    progress, video = workspace.progress, source.video
    if said := source.missing:
        workspace.warn("end_missing", said)
    progress.step("master_playlist")
    _storyboard(workspace, source, picture, times, progress.watch)
    images.chapters(workspace, source.found, float(times.zero_pts * times.time_base), times.seconds)
    names = picture.names
    temporary: list[str] = []
    if lists_copy:
        names.insert(0, ORIGINAL)
    elif ORIGINAL in progress.pictures and not workspace.profile.keep_original:
        # It has done its work; whoever watches it may go on for a while.
        temporary = [ORIGINAL]
        progress.change(ORIGINAL, status="skipped")
    videos = [_video_of(progress.pictures[name]) for name in names]
    sounds = _sounds(workspace)
    heard = max((sum(workspace.seconds_of(each.name)) for each in sounds), default=0.0)
    seconds = heard if heard > times.seconds + OUTLASTS_SECONDS else times.seconds
    zero = float(times.zero_pts * times.time_base)
    texts = subtitles.make(workspace, source, zero=zero, seconds=seconds)
    _publish(workspace, videos, sounds, texts, seconds)
    width, height = video.shown
    return {
        "kind": "video",
        "duration": round(seconds, 3),
        "width": width,
        "height": height,
        "frames": times.frames,
        "segments": len(times.segments),
        "renditions": [row.name for row in progress.pictures.values() if row.status == "completed"],
        "temporary": temporary,
        "subtitles": [each.name for each in texts],
        "chapters": len(source.found.chapters),
        "recorded_at": source.found.recorded_at,
        "warnings": workspace.warnings,
    }


def _sound(workspace: Workspace, source: Source) -> JsonObject:
    workspace.progress.step("transcode")
    seconds = _hear(workspace, source)
    if not workspace.edit and (said := what_is_missing(source.found, seconds)):
        workspace.warn("end_missing", said)
    workspace.progress.step("master_playlist")
    zero = audio.begin(source.found) + workspace.begin
    images.chapters(workspace, source.found, zero, seconds)
    texts = subtitles.make(workspace, source, zero=zero, seconds=seconds)
    _publish(workspace, [], _sounds(workspace), texts, seconds)
    return {
        "kind": "audio",
        "duration": round(seconds, 3),
        "renditions": [row.name for row in workspace.progress.sounds.values()],
        "subtitles": [each.name for each in texts],
        "chapters": len(source.found.chapters),
        "recorded_at": source.found.recorded_at,
        "warnings": workspace.warnings,
    }


def _hear(workspace: Workspace, source: Source) -> float:
    """The sound of a media without a picture, and a picture of it; returns how long it is."""
    seconds = audio.make_alone(workspace, source)
    if not seconds:
        raise refused("there is no sound in this file that could be read", "damaged")
    workspace.progress.step("thumbnail")
    images.waveform(workspace, source.path, source.found, seconds)
    return seconds


def _publish(
    workspace: Workspace,
    videos: Sequence[playlist.Video],
    sounds: Sequence[playlist.Audio],
    texts: Sequence[playlist.Text],
    seconds: float,
) -> None:
    workspace.artifacts.put(playlist.MASTER, playlist.master(videos, sounds, texts).encode())
    listed: list[playlist.Video | playlist.Audio] = [*videos, *sounds]
    tracks = [
        playlist.DashTrack(each, workspace.seconds_of(each.name), ffmpeg.TICKS) for each in listed
    ]
    workspace.artifacts.put(playlist.MANIFEST, playlist.manifest(tracks, seconds, texts).encode())
    workspace.progress.step("finalize")
    workspace.artifacts.flush()


def _video_of(rendition: Rendition) -> playlist.Video:
    video = renditions.video(rendition)
    assert video is not None, f"{rendition.name} is not known well enough"
    return video


def _sounds(workspace: Workspace) -> list[playlist.Audio]:
    made = workspace.progress.sounds.values()
    listed = [renditions.audio(each) for each in made if each.status == "completed"]
    return [each for each in listed if each is not None]
