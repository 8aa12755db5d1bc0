"""Subtitles that a source brings along: those of text become tracks, all others are named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rushes import sanitize
from rushes.handlers.transcode.segments import Workspace
from rushes.handlers.transcode.source import Source
from rushes.tools import ffmpeg, playlist, process, programs, subtitles
from rushes.tools.probe import Subtitle
from rushes.tools.subtitles import MOST_TRACKS, TEXT_CODECS

LIMITS = process.Limits(stall_seconds=600, file_bytes=32 * 1024 * 1024)
FILE = "captions.vtt"


def make(
    workspace: Workspace, source: Source, *, zero: float, seconds: float
) -> list[playlist.Text]:
    """Never a reason to fail; `zero` is the result's beginning, in seconds of the source."""
    _name_pictures(workspace, source.found.subtitles)
    texts = [each for each in source.found.subtitles if each.codec in TEXT_CODECS]
    if texts and source.in_order:
        workspace.warn(
            "subtitles_left_out", "its subtitles were left out: their times make no sense"
        )
        return []
    if len(texts) > MOST_TRACKS:
        workspace.warn(
            "subtitles_left_out", f"only {MOST_TRACKS} of its {len(texts)} subtitles were kept"
        )
    made: list[playlist.Text] = []
    for number, stream in enumerate(texts[:MOST_TRACKS]):
        found = subtitles.written(
            _extracted(workspace, source.path, texts[:MOST_TRACKS], number),
            zero=zero,
            seconds=seconds,
        )
        if found.cut:
            sentence = f"of subtitles {_name(stream)} only the first {found.cues} lines were kept"
            workspace.warn("subtitles_cut", sentence)
        if not found.cues:
            workspace.job.log(f"there is nothing in subtitles {_name(stream)}")
            continue
        made.append(_text(stream, made))
        workspace.artifacts.put(f"{made[-1].name}/{FILE}", found.text.encode())
        listed = playlist.captions(FILE, seconds)
        workspace.artifacts.put(f"{made[-1].name}/playlist.m3u8", listed.encode())
    return made


def _name_pictures(workspace: Workspace, streams: Sequence[Subtitle]) -> None:
    pictures = [each for each in streams if each.codec not in TEXT_CODECS]
    if pictures:
        names = ", ".join(_name(each) for each in pictures[:MOST_TRACKS])
        sentence = f"subtitles that are pictures, not text, were left out: {names}"
        workspace.warn("picture_subtitles", sentence)


def _name(stream: Subtitle) -> str:
    about = [each for each in (stream.language, stream.title, stream.codec or "unknown") if each]
    return sanitize.line(" ".join(about))[:100]


def _extracted(workspace: Workspace, path: Path, streams: Sequence[Subtitle], number: int) -> str:
    """As ffmpeg writes it. All at once, because the whole file is read for it; one that breaks
    must not take the others along."""
    file = workspace.job.scratch / f"subtitles-{number}.vtt"
    if number == 0 and not _extract(workspace, path, dict(enumerate(streams))) and len(streams) > 1:
        for each, stream in enumerate(streams):
            _extract(workspace, path, {each: stream})
    if not file.exists():
        workspace.warn("subtitles_unreadable", f"subtitles {_name(streams[number])} cannot be read")
        return ""
    return file.read_bytes().decode(errors="replace")


def _extract(workspace: Workspace, path: Path, streams: dict[int, Subtitle]) -> bool:
    indexes = {number: stream.index for number, stream in streams.items()}
    argv = ffmpeg.subtitles(programs.ffmpeg(), path, indexes)
    try:
        process.run(argv, limits=LIMITS, watch=workspace.progress.watch, cwd=workspace.job.scratch)
    except process.ToolFailed as error:
        for line in error.lines:
            workspace.job.log(sanitize.line(line))
        return False
    return True


def _text(stream: Subtitle, before: Sequence[playlist.Text]) -> playlist.Text:
    title = stream.title or stream.language or "Subtitles"
    if title in [each.title for each in before]:
        title = f"{title} {len(before) + 1}"
    return playlist.Text(
        name="subtitles" if not before else f"subtitles-{len(before)}",
        language=stream.language,
        title=title,
        default=stream.default and not any(each.default for each in before),
        forced=stream.forced,
    )
