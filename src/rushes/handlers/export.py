"""Makes a file of what is watched: a rendition with its sound, the sound alone, or a part of it.

What the segments hold is copied where the format allows it. Captions that are burned in, and a
beginning to the very frame, have to be encoded.
"""

from __future__ import annotations

import math
import time
from typing import Any

from rushes import errors
from rushes.handlers.transcode.segments import FfmpegProgress, explained
from rushes.records import JsonObject
from rushes.tools import ffmpeg, process, programs
from rushes.tools.ffmpeg import ExportInput
from rushes.transcripts import captions, transcript
from rushes.worker.context import JobContext

LIMITS = process.Limits()
CAPTIONS = "captions.srt"
# Of the whole, by the time that the file is being made, and that it is handed in.
FETCHED, MADE = 0.3, 0.95
EVERY_SECONDS = 1.0


def export(job: JobContext) -> Any:
    args = job.args
    start, end = _seconds(args.get("start")) or 0.0, _seconds(args.get("end"))
    job.progress(0.0, "fetching")
    picture = _excerpt(job, args.get("picture"), start, end)
    sound = _excerpt(job, args.get("sound"), start, end)
    if picture is None and sound is None:
        raise errors.PermanentFailure("there is neither picture nor sound", code="nothing_to_do")
    is_burned = bool(args.get("burn_captions"))
    if is_burned:
        _write_captions(job, start, end)
    target = job.scratch / f"export.{args['format']}"
    # With its index in front it is there twice for a moment.
    job.check_room(2 * sum(each.path.stat().st_size for each in (picture, sound) if each))
    argv = ffmpeg.export(
        programs.ffmpeg(),
        target,
        picture=picture,
        sound=sound,
        seconds=None if end is None else end - start,
        encodes_picture=is_burned or bool(args.get("exact") and start),
        encodes_sound=_sound_codec(args),
        captions=CAPTIONS if is_burned else None,
    )
    _run(job, argv, _seconds(args.get("seconds")))
    job.progress(MADE, "saving")
    job.put(str(args["name"]), target)
    return {"name": args["name"], "size_bytes": target.stat().st_size}


def _excerpt(
    job: JobContext, rendition: Any, start: float, end: float | None
) -> ExportInput | None:
    """Its segments, and how far into them it begins."""
    if not isinstance(rendition, str):
        return None
    try:
        path = job.excerpt(rendition, start, end)
    except errors.NotFound:
        raise errors.PermanentFailure(
            "the version that was to be exported is not there any more: ask for it again",
            code="version_gone",
        ) from None
    with explained(job, "ffprobe"):
        said = process.run(ffmpeg.begin_of(programs.ffprobe(), path), watch=job.raise_if_stopped)
    begins = _seconds(said.decode(errors="replace").strip()) or 0.0
    return ExportInput(path=path, skip=max(0.0, start - begins) if start else 0.0)


def _sound_codec(args: JsonObject) -> str | None:
    """None: as it is."""
    if args["format"] == "mp3":
        return "mp3"
    return None if args.get("is_aac") else "aac"


def _write_captions(job: JobContext, start: float, end: float | None) -> None:
    """As they are read now, in times of the file; beside it, so that its name needs no quoting."""
    document = job.transcript()
    if document is None:
        raise errors.PermanentFailure("there is no transcript any more", code="no_transcript")
    spoken = transcript.decode(document)
    names = {str(label): str(name) for label, name in (document.get("speakers") or {}).items()}
    text = captions.srt(spoken, names=names, clip=(start, math.inf if end is None else end))
    (job.scratch / CAPTIONS).write_text(text, encoding="utf-8")


def _run(job: JobContext, argv: list[str], seconds: float | None) -> None:
    reached, began, told_at = 0.0, time.monotonic(), 0.0

    def reach(done: float) -> None:
        nonlocal reached
        reached = done

    def watch() -> None:
        nonlocal told_at
        job.raise_if_stopped()
        now = time.monotonic()
        if now - told_at < EVERY_SECONDS:
            return
        told_at = now
        share = min(1.0, reached / seconds) if seconds else 0.0
        speed = reached / (now - began) if reached and now > began else None
        left = (seconds - reached) / speed if seconds and speed else None
        job.progress(
            FETCHED + (MADE - FETCHED) * share,
            "exporting",
            speed=round(speed, 2) if speed else None,
            eta_seconds=None if left is None else round(max(0.0, left), 1),
        )

    heard = FfmpegProgress(reach)
    with (
        explained(job, "ffmpeg"),
        process.Running(argv, [heard.feed], limits=LIMITS, cwd=job.scratch, chatty=True) as running,
    ):
        heard.moved = running.alive
        running.wait(watch)


def _seconds(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
