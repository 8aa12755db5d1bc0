"""What people change about a recording: where it begins and ends, and what is laid over it. Pure.

Times are those of the source, so an edit can be changed again and taken back whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from rushes import errors
from rushes.records import JsonObject

SHORTEST_SECONDS = 0.1
# Players and people round what they show: so much past the end still means the end.
TOLERANCE_SECONDS = 0.1

Corner = Literal["bottom-right", "bottom-left", "top-right", "top-left"]
Sound = Literal["main", "overlay", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The overlay's upper left corner, as shares of the picture's width and height."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Another media's picture in this one; `size` is its share of the width."""

    media_id: str
    position: Corner | Point = "bottom-right"
    size: float = 0.25
    sound: Sound = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An `end` of None is the source's."""

    start: float = 0.0
    end: float | None = None
    overlay: Overlay | None = None

    @property
    def cuts(self) -> bool:
        """Whether something of the source is not to be seen any more."""
        return self.start > 0 or self.end is not None


NOTHING = Edit()


def decode(text: str | None) -> Edit:
    """What cannot be read changes nothing."""
    try:
        return msgspec.json.decode(text, type=Edit | None) or NOTHING if text else NOTHING
    except msgspec.MsgspecError:
        return NOTHING


def read(value: Any) -> Edit:
    """From the arguments of a job."""
    try:
        return msgspec.convert(value, Edit) if value else NOTHING
    except msgspec.ValidationError:
        return NOTHING


def same_sound(one: Edit, other: Edit) -> bool:
    """Whether the same is heard, apart from where it begins and ends."""

    def heard(edit: Edit) -> tuple[str, str] | None:
        overlay = edit.overlay
        return (overlay.media_id, overlay.sound) if overlay and overlay.sound != "main" else None

    return heard(one) == heard(other)


def encode(edit: Edit) -> JsonObject:
    """As the arguments of a job carry it; empty when nothing is changed."""
    made: dict[str, Any] = {} if edit == NOTHING else msgspec.to_builtins(edit)
    if made.get("overlay") is None:
        made.pop("overlay", None)
    return made


def trimmed(edit: Edit, start: float, end: float | None, duration: float | None) -> Edit:
    """`start` and `end` as the viewer sees them now; `duration` is what the viewer sees, too."""
    if duration is not None and end is not None:
        if end > duration + TOLERANCE_SECONDS:
            raise errors.BadField("end", f"must not be after the end, at {duration:.3f} seconds")
        if end > duration - TOLERANCE_SECONDS:
            end = None
    last = duration if end is None else end
    if last is not None and last - start < SHORTEST_SECONDS:
        field = "start" if end is None else "end"
        raise errors.BadField(field, f"at least {SHORTEST_SECONDS} seconds must remain")
    if start == 0 and end is None:
        raise errors.BadField("start", "nothing would be cut off")
    return replace(
        edit,
        start=_tidy(edit.start + start),
        end=edit.end if end is None else _tidy(edit.start + end),
    )


def _tidy(seconds: float) -> float:
    """Without what binary fractions leave behind; a microsecond is less than any sample."""
    return round(seconds, 6)
