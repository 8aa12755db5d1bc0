"""A stretch of a timeline, as ffmpeg is told of it and as the arguments of a job carry it. Pure."""

from __future__ import annotations

from dataclasses import astuple
from fractions import Fraction

from rushes.records import JsonObject
from rushes.tools import ffmpeg
from rushes.tools.timeline import HeldFrame, Segment, Timeline


def cut_of(times: Timeline, start: int, stop: int) -> ffmpeg.Cut:
    inside = [each for each in times.segments if start <= each.number < stop]
    after = next((each for each in times.segments if each.number == stop), None)
    return ffmpeg.Cut(
        time_base=times.time_base,
        zero_pts=times.zero_pts,
        start_pts=inside[0].start_pts,
        stop_pts=after.start_pts if after else times.end_pts,
        key_pts=times.key_before(inside[0].start_pts),
        key_times=[float((each.start_pts - times.zero_pts) * times.time_base) for each in inside],
        first_number=start,
        from_the_start=times.key_before(inside[0].start_pts) == times.first_key,
        hold=times.hold,
    )


def packed(times: Timeline, start: int, stop: int) -> JsonObject:
    """A part of a timeline, as the arguments of a job."""
    cut = cut_of(times, start, stop)
    return {
        "time_base": [times.time_base.numerator, times.time_base.denominator],
        "zero_pts": times.zero_pts,
        "stop_pts": cut.stop_pts,
        "key_pts": cut.key_pts,
        "hold": None if times.hold is None else astuple(times.hold),
        "rate": times.rate,
        "slow": times.slow,
        "segments": [
            [each.number, each.start_pts, each.seconds, each.frames]
            for each in times.segments[start:stop]
        ],
    }


def unpacked(plan: JsonObject) -> Timeline:
    return Timeline(
        time_base=Fraction(*plan["time_base"]),
        zero_pts=plan["zero_pts"],
        end_pts=plan["stop_pts"],
        segments=[Segment(*each) for each in plan["segments"]],
        keys=[] if plan["key_pts"] is None else [plan["key_pts"]],
        hold=HeldFrame(*plan["hold"]) if plan.get("hold") else None,
        rate=plan.get("rate", 25.0),
        slow=plan.get("slow", False),
    )
