"""The jobs that make a version to watch: `transcode`, `trim`, `composite`, and `span`, a share of
one of them.

What is playable as it is, is published first; then one process decodes once for all rungs. Every
finished segment is where it stays, so whoever goes on after a crash makes only what is missing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from rushes import errors
from rushes.handlers import sound, stills, subtitles
from rushes.handlers.board import Row
from rushes.handlers.making import Aside, Desk, Differs
from rushes.handlers.picture import DIVIDED, ORIGINAL, Picture
from rushes.handlers.reading import Source, what_is_missing
from rushes.tools import ffmpeg, playlist, process
from rushes.tools.probe import refused
from rushes.tools.timeline import OUTLASTS_SECONDS, Timeline
from rushes.worker.context import JobContext


def transcode(job: JobContext, *, keep: bool = True) -> dict[str, Any]:
    """A new version of the job's media. `keep`: go on with what an earlier attempt has made."""
    desk = Desk.of(job)
    try:
        terms = _terms(job)
        keep = keep and desk.board.notes.get("terms") == terms
        desk.board.note("terms", terms)
        desk.board.step("probe")
        source = Source(desk)
        if keep or desk.board.notes.get(DIVIDED):
            _adopt(desk)
        return _video(desk, source) if source.found.video else _sound(desk, source)
    finally:
        desk.shelf.close()


def span(job: JobContext) -> dict[str, Any]:
    """Some segments of the version that the parent makes."""
    desk = Desk.of(job)
    try:
        desk.board.step("probe")
        source = Source(desk)
        source.rate_is(job.args.get("frame_rate"))
        desk.board.step("transcode")
        return {"segments": Picture(desk, source).encode_span()}
    except Differs as error:
        # Whoever has the encoder that began it may go on with it.
        raise errors.RetryLater(error.message, code=error.code) from error
    finally:
        desk.shelf.close()


def _terms(job: JobContext) -> str:
    """What was made on other terms cannot be continued."""
    asked = {name: job.args.get(name) for name in ("settings", "edit", "qualities")}
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()[:16]


def _adopt(desk: Desk) -> None:
    """What can be continued: a rendition only if it is known what it is."""
    notes = desk.board.notes

    def wanted(name: str) -> bool:
        rendition, _, file = name.partition("/")
        if name in (playlist.MASTER, playlist.MANIFEST):
            return False
        return not file or rendition.startswith("audio") or f"codecs {rendition}" in notes

    desk.shelf.adopt(wanted)


def _video(desk: Desk, source: Source) -> dict[str, Any]:
    source.look()
    try:
        return _pictures(desk, source)
    except OutOfOrder:
        # Sound and copy were begun from the source as it was.
        desk.shelf.discard((f"{ORIGINAL}/", "audio"))
        desk.board.pictures.clear()
        desk.board.sounds.clear()
        desk.board.warnings.clear()
        return _pictures(desk, source)


class OutOfOrder(Exception):
    """The times of a source turned out to be broken after the work had begun."""


def _pictures(desk: Desk, source: Source) -> dict[str, Any]:
    board = desk.board
    picture = Picture(desk, source)
    encoded = threading.Event()
    with Aside(desk.job) as aside:
        picture.start_copy(aside)
        sound.start(desk, aside, source)
        board.step("thumbnail")
        # What nobody can watch yet comes first: then the picture of it waits for its beginning.
        is_playable = ORIGINAL in board.pictures
        if is_playable:
            _thumbnail(desk, source, board.watch)
        else:
            aside.start(lambda: _thumbnail_later(desk, source, aside, encoded))
        if source.index():
            raise OutOfOrder
        board.step("transcode")
        try:
            times = picture.encode(aside)
        except errors.Divided:
            _thumbnail(desk, source, board.watch)
            raise
        encoded.set()
        aside.join(board.watch)
    picture.check_copy(times)
    for each in picture.made:
        desk.finish(each.name)
    return _finish(desk, source, picture, times)


def _thumbnail(desk: Desk, source: Source, watch: process.Watch) -> None:
    if "thumbnail.jpg" not in desk.shelf.files:
        begin, end = desk.begin, desk.edit.get("end") or source.found.duration or 0.0
        stills.thumbnail(desk, source.path, source.video, begin, max(0.0, end - begin), watch)


def _thumbnail_later(desk: Desk, source: Source, aside: Aside, encoded: threading.Event) -> None:
    names = [f"{name}/{playlist.segment_name(0)}" for name in desk.board.pictures]
    while not encoded.is_set() and not any(name in desk.shelf.files for name in names):
        aside.watch()
        desk.job.wait(0.1)
    _thumbnail(desk, source, aside.watch)


def _finish(desk: Desk, source: Source, picture: Picture, times: Timeline) -> dict[str, Any]:
    board, video = desk.board, source.video
    if said := source.missing:
        desk.warn("end_missing", said)
    board.step("master_playlist")
    if "storyboard.vtt" not in desk.shelf.files:
        stills.storyboard(desk, source.path, video, times)
    if source.found.chapters:
        zero = float(times.zero_pts * times.time_base)
        track = stills.chapters_track(source.found.chapters, zero, times.seconds)
        desk.shelf.put("chapters.vtt", track.encode())
    names = [each.name for each in picture.made]
    temporary: list[str] = []
    if picture.lists_copy(times):
        names.insert(0, ORIGINAL)
    elif ORIGINAL in board.pictures and not desk.profile.keep_original:
        # It has done its work; whoever watches it may go on for a while.
        temporary = [ORIGINAL]
        board.pictures[ORIGINAL].status = "skipped"
    videos = [_video_of(board.pictures[name]) for name in names]
    sounds = _sounds(desk)
    heard = max((sum(desk.seconds_of(each.name)) for each in sounds), default=0.0)
    seconds = heard if heard > times.seconds + OUTLASTS_SECONDS else times.seconds
    zero = float(times.zero_pts * times.time_base)
    texts = subtitles.make(desk, source, zero=zero, seconds=seconds)
    _publish(desk, videos, sounds, texts, seconds)
    width, height = video.shown
    return {
        "kind": "video",
        "duration": round(seconds, 3),
        "width": width,
        "height": height,
        "frames": times.frames,
        "segments": len(times.segments),
        "renditions": [row.name for row in board.pictures.values() if row.status == "completed"],
        "temporary": temporary,
        "subtitles": [each.name for each in texts],
        "chapters": len(source.found.chapters),
        "warnings": desk.warnings,
    }


def _sound(desk: Desk, source: Source) -> dict[str, Any]:
    desk.board.step("transcode")
    seconds = sound.make_alone(desk, source)
    if not seconds:
        raise refused("there is no sound in this file that could be read", "damaged")
    if not desk.edit and (said := what_is_missing(source.found, seconds)):
        desk.warn("end_missing", said)
    desk.board.step("thumbnail")
    stills.waveform(desk, source.path, source.found, seconds)
    desk.board.step("master_playlist")
    zero = sound.begin(source.found) + desk.begin
    texts = subtitles.make(desk, source, zero=zero, seconds=seconds)
    _publish(desk, [], _sounds(desk), texts, seconds)
    return {
        "kind": "audio",
        "duration": round(seconds, 3),
        "renditions": [row.name for row in desk.board.sounds.values()],
        "subtitles": [each.name for each in texts],
        "warnings": desk.warnings,
    }


def _publish(
    desk: Desk,
    videos: Sequence[playlist.Video],
    sounds: Sequence[playlist.Audio],
    texts: Sequence[playlist.Text],
    seconds: float,
) -> None:
    desk.shelf.put(playlist.MASTER, playlist.master(videos, sounds, texts).encode())
    listed: list[playlist.Video | playlist.Audio] = [*videos, *sounds]
    tracks = [playlist.Track(each, desk.seconds_of(each.name), ffmpeg.TICKS) for each in listed]
    desk.shelf.put(playlist.MANIFEST, playlist.manifest(tracks, seconds, texts).encode())
    desk.board.step("finalize")
    desk.shelf.flush()


def _video_of(row: Row) -> playlist.Video:
    about = row.more
    return playlist.Video(
        name=row.name,
        width=about["width"],
        height=about["height"],
        bandwidth=about["bandwidth"],
        average_bandwidth=about["average_bandwidth"],
        codecs=about["codecs"],
        frame_rate=about["frame_rate"],
    )


def _sounds(desk: Desk) -> list[playlist.Audio]:
    return [
        playlist.Audio(
            name=row.name,
            codecs=row.more["codecs"],
            bandwidth=row.more["bandwidth"],
            channels=row.more["channels"],
            language=row.more["language"],
            title=row.more["title"],
            default=row.more["default"],
            group=row.more["group"],
            track=row.more["track"],
        )
        for row in desk.board.sounds.values()
        if row.status == "completed"
    ]
