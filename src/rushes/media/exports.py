"""What of a recording is taken along as a file: which renditions make it, and its name. Pure.

What is exported is what is watched: with the edits that people have made, of the version that is
current when they ask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rushes import errors, kinds
from rushes.jobs.job import NewJob, encode
from rushes.media.media import Media
from rushes.protocol import Rendition
from rushes.records import JsonObject

Format = Literal["mp4", "m4a", "mp3"]
SHORTEST_SECONDS = 0.1
# Lengths are told in milliseconds, and not always rounded down.
TOLERANCE_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`rendition`: of the picture, or for sound alone of the sound; the best if it is not said.
    `exact`: begin with the very frame, which has to be encoded, not with the key frame before."""

    format: Format
    rendition: str | None = None
    start: float = 0.0
    end: float | None = None
    burn_captions: bool = False
    exact: bool = False


def plan(
    item: Media, wanted: Wanted, found: Sequence[Rendition], *, has_transcript: bool
) -> NewJob:
    """The job that makes it; `found` are the renditions of the current version that are whole.
    BadField or WrongState when it cannot be."""
    if item.current_version_id is None:
        raise errors.WrongState("there is nothing to export yet: wait until it can be watched")
    end = _end(wanted, item.duration)
    picture, sound = _chosen(wanted, found)
    if wanted.burn_captions and not has_transcript:
        raise errors.WrongState("there is no transcript to burn in: have it transcribed first")
    named = picture or sound
    rendition = named.name if named else ""
    asked = {**asdict(wanted), "rendition": rendition, "end": end}
    args: JsonObject = {
        **asked,
        "picture": picture.name if picture else None,
        "sound": sound.name if sound else None,
        "is_aac": bool(sound and (sound.codecs or "").startswith("mp4a")),
        "version_id": item.current_version_id,
        "seconds": _length(wanted.start, end if end is not None else item.duration),
        # The same asked for again takes the place of the one before; others stay beside it.
        "key": hashlib.sha256(encode(asked).encode()).hexdigest()[:16],
        "name": file_name(item.slug, wanted, rendition, end),
    }
    return NewJob(
        kind=kinds.EXPORT.name,
        media_id=item.id,
        user_id=item.user_id,
        args={name: value for name, value in args.items() if value is not None},
        dedupe_key=f"{kinds.EXPORT.name}:{item.id}:{args['key']}",
    )


def file_name(slug: str, wanted: Wanted, rendition: str, end: float | None) -> str:
    words = [slug[:100]]
    if wanted.format == "mp4":
        words.append(rendition)
    if wanted.start or end is not None:
        words.append("-".join([_clock(wanted.start), "end" if end is None else _clock(end)]))
    if wanted.burn_captions:
        words.append("captions")
    return f"{'_'.join(words)}.{wanted.format}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{int(minutes)}m{rest:06.3f}s".replace(".000", "")


def _end(wanted: Wanted, duration: float | None) -> float | None:
    """None for the end of the recording."""
    start, end = wanted.start, wanted.end
    if end is not None and end - start < SHORTEST_SECONDS:
        raise errors.BadField("end", f"must be {SHORTEST_SECONDS} seconds after start, or more")
    if duration is None:
        return end
    if start > duration - SHORTEST_SECONDS:
        raise errors.BadField("start", f"must be before the end, at {duration:.3f} seconds")
    if end is not None and end > duration + TOLERANCE_SECONDS:
        raise errors.BadField("end", f"must not be after the end, at {duration:.3f} seconds")
    return None if end is None or end > duration - TOLERANCE_SECONDS else end


def _length(start: float, end: float | None) -> float | None:
    return None if end is None else round(end - start, 3)


def _chosen(
    wanted: Wanted, found: Sequence[Rendition]
) -> tuple[Rendition | None, Rendition | None]:
    """The picture and the sound."""
    pictures = [each for each in found if each.kind == "video"]
    sounds = [each for each in found if each.kind == "audio"]
    if wanted.format != "mp4":
        if wanted.burn_captions:
            raise errors.BadField("burn_captions", "needs a picture: choose the format mp4")
        if not sounds:
            raise errors.BadField("format", "this recording has no sound: choose mp4")
        return None, _named(wanted.rendition, sounds) or _best_sound(sounds)
    if not pictures:
        raise errors.BadField("format", "this recording has no picture: choose m4a or mp3")
    best = max(pictures, key=lambda each: (each.height or 0, each.bandwidth or 0))
    return _named(wanted.rendition, pictures) or best, _best_sound(sounds) if sounds else None


def _named(name: str | None, among: Sequence[Rendition]) -> Rendition | None:
    if name is None:
        return None
    for each in among:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in among)
    raise errors.BadField("rendition", f"there is no {name} of it; known are {known}")


def _best_sound(sounds: Sequence[Rendition]) -> Rendition:
    """Of the track that is heard unless another is chosen; AAC can be copied into every MP4."""
    return max(
        sounds,
        key=lambda each: (
            each.default is not False,
            (each.codecs or "").startswith("mp4a"),
            each.bandwidth or 0,
        ),
    )
