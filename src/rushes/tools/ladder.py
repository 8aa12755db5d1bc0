"""Which renditions a source gets, and how large. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rushes.tools.probe import AudioStream, VideoStream
from rushes.tools.profile import Codec, Profile, Rung, rendition_name, sorted_codecs

FASTEST = 60.0
# Beyond this, a picture needs more bits for the same quality.
CALM = 30.5
FAST_FACTOR = 1.5
# What was uploaded may need so much more than a rung of its size before it is left out.
COPY_FACTOR = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRung:
    name: str
    width: int
    height: int
    bitrate: int
    codec: Codec
    skipped: bool = False


def doubles(video: VideoStream) -> bool:
    """Whether both halves of an interlaced frame become frames: each shows a moment of its own."""
    return video.interlaced and video.frame_rate <= CALM


def frame_rate(video: VideoStream) -> float:
    return min(video.frame_rate * (2 if doubles(video) else 1), FASTEST)


def renditions(
    profile: Profile, video: VideoStream, qualities: Sequence[str] | None = None
) -> list[PlannedRung]:
    """Largest first. What is above the source, or not asked for, is there as skipped; there is
    always one that is made."""
    short = min(video.shown)
    rungs = _rungs(profile, short)
    made = [
        _rendition(rung, codec, video, skipped=rung.height > short)
        for codec in sorted_codecs(profile)
        for rung in rungs
    ]
    wanted = {each.name for each in made if not each.skipped} & set(qualities or [])
    if not wanted:
        return made
    return [replace(each, skipped=each.skipped or each.name not in wanted) for each in made]


def names(profile: Profile, short: int) -> list[str]:
    """Of what can be made of a picture whose short side this is, in the order of `renditions`."""
    rungs = [rung for rung in _rungs(profile, short) if rung.height <= short]
    return [rendition_name(rung, codec) for codec in sorted_codecs(profile) for rung in rungs]


def _rungs(profile: Profile, short: int) -> list[Rung]:
    """Largest first."""
    rungs = sorted(profile.ladder, key=lambda rung: -rung.height)
    if all(rung.height > short for rung in rungs):
        # Below the whole ladder: as it is, with the bits of the smallest.
        rungs.append(Rung(height=short, bitrate=rungs[-1].bitrate))
    return rungs


def _rendition(rung: Rung, codec: Codec, video: VideoStream, *, skipped: bool) -> PlannedRung:
    width, height = fitted(video.shown, rung.height)
    factor = FAST_FACTOR if frame_rate(video) > CALM else 1
    return PlannedRung(
        name=rendition_name(rung, codec),
        width=width,
        height=height,
        bitrate=round(rung.bitrate * factor),
        codec=codec,
        skipped=skipped,
    )


def most_copied(profile: Profile, video: VideoStream) -> int:
    """In bits a second: what is copied and needs more is not offered beside the ladder."""
    if profile.original_bitrate is not None:
        return profile.original_bitrate * 1000
    rungs = sorted(profile.ladder, key=lambda rung: rung.height)
    short = min(video.shown)
    rung = next((each for each in rungs if each.height >= short), rungs[-1])
    factor = FAST_FACTOR if frame_rate(video) > CALM else 1
    return round(rung.bitrate * factor * COPY_FACTOR * 1000)


def fitted(shown: tuple[int, int], short: int) -> tuple[int, int]:
    """The short side becomes `short`, but never larger than it is; both become even."""
    width, height = shown
    factor = min(1.0, short / min(width, height))
    return max(2, round(width * factor / 2) * 2), max(2, round(height * factor / 2) * 2)


def audio_names(audios: Sequence[AudioStream]) -> list[str]:
    return ["audio" if n == 0 else f"audio-{n}" for n in range(len(audios))]
