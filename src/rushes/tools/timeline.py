"""When frames are shown, and where segments begin. Pure.

Times of a source are integers, in its own time base, and are never rounded before they are cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil

from rushes import errors

# Decoding times that step back by so much are a break in the recording.
BREAK_SECONDS = 0.5
# While there is only sound, the last frame is shown again so often. A stream of few frames a second
# would be decoded seconds ahead of what it shows, which players do not expect.
HELD_SECONDS = 0.2
# Sound that outlasts the picture by less is the end of its last packet.
OUTLASTS_SECONDS = 0.1
# With fewer frames a second, on average, each is shown for long.
SLOW = 10.0
# Nothing moves for so long: a pause. And so much of a recording is pauses if it has some.
PAUSE_SECONDS, PAUSES = 0.25, 0.02


@dataclass(frozen=True, slots=True)
class Segment:
    """`start_pts` is that of its first frame; `seconds` until the next segment's."""

    number: int
    start_pts: int
    seconds: float
    frames: int


@dataclass(frozen=True, slots=True)
class HeldFrame:
    """The frame at `last_pts` is shown again `count` times, from `first_pts` on until `stop_pts`,
    because the sound goes on."""

    last_pts: int
    first_pts: int
    stop_pts: int
    count: int

    @property
    def pts(self) -> list[int]:
        length = self.stop_pts - self.first_pts
        return [self.first_pts + number * length // self.count for number in range(self.count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """`zero_pts` is where the result begins; what is shown at `end_pts` does not belong to it."""

    time_base: Fraction
    zero_pts: int
    end_pts: int
    segments: Sequence[Segment]
    keys: Sequence[int]
    # Of the whole source; a part of a timeline may not reach back to it.
    first_key: int | None = None
    hold: HeldFrame | None = None
    # Of the whole source, too: frames a second, as most are, and whether there are but few, or
    # pauses. Frames that are decoded out of order cannot tell how long they are shown, and Chromium
    # then shows the wrong one when it is sent into a pause.
    rate: float = 25.0
    slow: bool = False

    @property
    def seconds(self) -> float:
        return float((self.end_pts - self.zero_pts) * self.time_base)

    @property
    def frames(self) -> int:
        return sum(segment.frames for segment in self.segments)

    def key_before(self, pts: int) -> int | None:
        """The key frame to decode from; None when there is none before it."""
        found = bisect_right(self.keys, pts) - 1
        return self.keys[found] if found >= 0 else None

    def stop_pts(self, after: int) -> int:
        """Where segment `after` begins, or all ends."""
        last = after >= len(self.segments)
        return self.end_pts if last else self.segments[after].start_pts


@dataclass(frozen=True, slots=True)
class Packets:
    """Of the picture, in the order of the file."""

    pts: Sequence[int]
    keys: Sequence[int]
    missing: int = 0
    # When they are decoded, as far as the file tells.
    dts: Sequence[int] = ()


def read_packets(csv: str) -> Packets:
    """From ffprobe's lines of pts, dts and flags. Some containers make it write empty ones, too."""
    lines = (line.split(",", 2) for line in csv.splitlines())
    return packets((line[0], line[1], line[2]) for line in lines if len(line) == 3 and line[2])


def packets(rows: Iterable[tuple[str, str, str]]) -> Packets:
    """From pts, dts and flags of each. What is to be thrown away when decoded does not count, nor
    what comes before the first key frame, as in a stream that was joined late."""
    pts: list[int] = []
    dts: list[int] = []
    keys: list[int] = []
    missing = undecodable = 0
    decodable = False
    for shown, decoded, flags in rows:
        if flags.startswith("K") and not decodable:
            decodable, undecodable = True, len(pts)
        if "D" in flags:
            continue
        if _is_time(decoded):
            dts.append(int(decoded))
        if not _is_time(shown):
            missing += 1
            continue
        pts.append(int(shown))
        if flags.startswith("K"):
            keys.append(pts[-1])
    return Packets(pts[undecodable:], keys, missing, dts)


def read_sound_end(csv: str, indexes: Collection[int]) -> float | None:
    """The end of the last packet of these streams, from lines of ffprobe's stream, time and
    length. None where there is no packet."""
    ends = []
    for line in csv.splitlines():
        index, *times = line.rstrip(",").split(",")
        with suppress(ValueError):
            if int(index) in indexes:
                ends.append(sum(float(time) for time in times if time != "N/A"))
    return max(ends, default=None)


def read_frame_times(crc: str) -> list[int]:
    """When frames are shown, as ffmpeg's framecrc tells: its second time of every line."""
    lines = [line.split(",") for line in crc.splitlines() if not line.startswith("#")]
    return [int(each[2]) for each in lines if len(each) > 2 and _is_time(each[2].strip())]


def _is_time(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def is_regular(packets: Packets, time_base: Fraction) -> bool:
    """Whether every frame has a time, and time goes on."""
    if packets.missing or not packets.pts:
        return False
    limit = BREAK_SECONDS / time_base
    return all(later - earlier > -limit for earlier, later in pairwise(packets.dts))


def build(
    packets: Packets,
    time_base: Fraction,
    segment_seconds: float,
    *,
    start: float = 0.0,
    end: float | None = None,
    frame_seconds: float = 0.04,
    sound_end: float | None = None,
    frames_each: int = 1,
) -> Timeline:
    """On a grid of `segment_seconds`; `start` and `end` are where people cut. A single frame is
    shown for `frame_seconds`. `sound_end`: when the sound ends, in seconds of the source.
    `frames_each`: how many are made of one."""
    shown = sorted(set(packets.pts))
    if not shown:
        raise errors.PermanentFailure("there is not one frame in this video", code="damaged")
    step = _frame_ticks(shown) or max(1, round(Fraction(frame_seconds) / time_base))
    hold = _hold(shown[-1], shown[-1] + step, time_base, sound_end)
    origin, stop = shown[0], hold.stop_pts if hold else shown[-1] + step
    shown += hold.pts if hold else []
    if end is not None:
        stop = min(stop, origin + ceil(_exactly(end) / time_base))
    first = bisect_left(shown, origin + ceil(_exactly(start) / time_base))
    kept = shown[first : bisect_left(shown, stop)]
    if not kept:
        raise errors.PermanentFailure("nothing is left between these times", code="empty_trim")
    zero = kept[0]
    shown_seconds = float((shown[-1] + step - shown[0]) * time_base)
    return Timeline(
        time_base=time_base,
        zero_pts=zero,
        end_pts=stop,
        segments=[
            replace(each, frames=each.frames * frames_each)
            for each in _segments(
                kept, zero, stop, _exactly(segment_seconds) / time_base, time_base
            )
        ],
        keys=sorted(packets.keys),
        first_key=min(packets.keys, default=None),
        hold=hold,
        rate=rate(packets.pts, time_base) or 25.0,
        slow=len(shown) < SLOW * shown_seconds
        or _pauses(shown, time_base) > PAUSES * shown_seconds,
    )


def _pauses(shown: Sequence[int], time_base: Fraction) -> float:
    steps = (float((later - at) * time_base) for at, later in pairwise(shown))
    return sum(step for step in steps if step > PAUSE_SECONDS)


def _hold(last: int, stop: int, time_base: Fraction, sound_end: float | None) -> HeldFrame | None:
    if sound_end is None:
        return None
    until = round(_exactly(sound_end) / time_base)
    seconds = float((until - stop) * time_base)
    if seconds <= OUTLASTS_SECONDS:
        return None
    return HeldFrame(last, stop, until, min(until - stop, max(1, int(seconds / HELD_SECONDS))))


def rate(pts: Sequence[int], time_base: Fraction) -> float | None:
    """Frames a second, as most of them are: neither pauses nor times that are rounded to
    milliseconds count. None when there is but one."""
    shown = sorted(set(pts))
    steps = sorted(later - earlier for earlier, later in pairwise(shown))
    usual = steps[len(steps) // 4 : len(steps) - len(steps) // 4]
    return float(len(usual) / (sum(usual) * time_base)) if usual else None


def _exactly(seconds: float) -> Fraction:
    """What people have written: 1.6 is not the float a little above it."""
    return Fraction(round(seconds * 1_000_000), 1_000_000)


def _segments(
    kept: Sequence[int], zero: int, stop: int, cell: Fraction, time_base: Fraction
) -> list[Segment]:
    """Cells of the grid in which nothing is shown have no segment."""
    starts = [0]
    while True:
        number = int((kept[starts[-1]] - zero) / cell) + 1
        after = bisect_left(kept, zero + ceil(number * cell))
        if after >= len(kept):
            break
        starts.append(after)
    bounds = [*starts, len(kept)]
    times = [*(kept[at] for at in starts), stop]
    return [
        Segment(
            number=number,
            start_pts=times[number],
            seconds=float((times[number + 1] - times[number]) * time_base),
            frames=bounds[number + 1] - bounds[number],
        )
        for number in range(len(starts))
    ]


def _frame_ticks(shown: Sequence[int]) -> int:
    """How long the last frame is shown: as long as most are. 0 when there is no other."""
    if len(shown) < 2:
        return 0
    steps = sorted(later - earlier for earlier, later in pairwise(shown[-1000:]))
    return steps[len(steps) // 2]


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours together: [1, 2, 5] is [(1, 3), (5, 6)]."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found
