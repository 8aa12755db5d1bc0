"""What to make of a source: ladder, codecs, quality. Pure; people edit it as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rushes import errors
from rushes.records import JsonObject

Codec = Literal["h264", "hevc", "av1"]
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower")
Encoder = Literal["auto", "software", "nvenc", "qsv", "vaapi", "videotoolbox"]


class Rung(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`height` is the short side of the picture; `bitrate` a cap in kbit/s at up to 30 fps."""

    height: Annotated[int, Meta(ge=64, le=4320)]
    bitrate: Annotated[int, Meta(ge=50, le=200_000)]

    @property
    def name(self) -> str:
        return f"{self.height}p"


LADDER = tuple(
    Rung(height=height, bitrate=bitrate)
    for height, bitrate in (
        (2160, 15_000),
        (1440, 8_000),
        (1080, 5_000),
        (720, 2_500),
        (480, 1_000),
        (360, 600),
    )
)


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ladder: Annotated[tuple[Rung, ...], Meta(min_length=1, max_length=12)] = LADDER
    # The first is made for every rung; others are additional renditions of the same ladder.
    codecs: Annotated[tuple[Codec, ...], Meta(min_length=1, max_length=3)] = ("h264",)
    preset: Literal[PRESETS] = "veryfast"  # type: ignore[valid-type]
    crf: Annotated[int, Meta(ge=0, le=51)] = 23
    segment_seconds: Annotated[float, Meta(ge=1, le=20)] = 4.0
    audio_bitrate: Annotated[int, Meta(ge=32, le=512)] = 128
    # Publish what browsers play already as it is, before anything is encoded.
    original: bool = True
    # In kbit/s; what is copied and needs more is not listed once the ladder is there. Without, the
    # ladder's own cap decides.
    original_bitrate: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    # Whether its files stay even though they are not listed.
    keep_original: bool = False
    encoder: Encoder = "auto"
    # Longer videos are cut into spans that several workers may encode at once.
    divide_after: Annotated[float, Meta(ge=1, le=1e9)] = 600.0
    span_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0


DEFAULT = Profile()


def decode(settings: JsonObject) -> Profile:
    """BadField names what is wrong."""
    try:
        profile = msgspec.convert(dict(settings), Profile)
    except msgspec.ValidationError as error:
        raise errors.BadField("profile", str(error)) from None
    if "h264" not in profile.codecs:
        raise errors.BadField("profile", "codecs must contain h264, which plays everywhere")
    for name in ("codecs", "ladder"):
        values = getattr(profile, name)
        if len({str(value) for value in values}) != len(values):
            raise errors.BadField("profile", f"{name} must not name anything twice")
    heights = [rung.height for rung in profile.ladder]
    if len(set(heights)) != len(heights):
        raise errors.BadField("profile", "ladder must not name a height twice")
    return profile


def encode(profile: Profile) -> JsonObject:
    made: JsonObject = msgspec.to_builtins(profile)
    return made


def names(profile: Profile) -> list[str]:
    """Of the renditions it may make, the baseline codec's first."""
    return [
        rendition_name(rung, codec) for codec in sorted_codecs(profile) for rung in profile.ladder
    ]


def sorted_codecs(profile: Profile) -> list[Codec]:
    return sorted(profile.codecs, key=("h264", "hevc", "av1").index)


def rendition_name(rung: Rung, codec: Codec) -> str:
    return rung.name if codec == "h264" else f"{rung.name}-{codec}"
