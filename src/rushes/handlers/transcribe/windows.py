"""How a recording is cut for an engine: windows of speech, at most 30 seconds each. Pure.

Windows begin and end in silence where there is any; long silences are left out of them, so a window
may consist of several clips, and times inside it are turned back into times of the recording.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

LONGEST = 30.0
# Silence up to this long stays in: it tells an engine where sentences end.
KEPT_SILENCE = 2.0
# Where speech goes on for longer than a window, it is cut at the quietest moment behind this.
CUT_AFTER = 20.0
# Speech that ends so close to the end of a stretch may go on behind it.
TOUCHING = 0.1
# What is left of a clip that was heard before, less the edges that others find a little elsewhere.
LEAST_REST = 0.3

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Window:
    """Clips of the recording, in order; times in seconds of the recording."""

    clips: tuple[Interval, ...]

    @property
    def start(self) -> float:
        return self.clips[0][0]

    @property
    def end(self) -> float:
        return self.clips[-1][1]

    @property
    def seconds(self) -> float:
        return sum(end - start for start, end in self.clips)

    def times(self, start: float, end: float) -> Interval:
        """Of a word that was heard inside the window: it lies in one clip, never across two."""
        begins = [0.0, *accumulate(end - start for start, end in self.clips)]
        middle = min(max((start + end) / 2, 0.0), begins[-1])
        number = min(bisect_right(begins, middle), len(self.clips)) - 1
        first, last = self.clips[number]
        shift = first - begins[number]
        return (
            min(max(start + shift, first), last),
            min(max(end + shift, first), last),
        )

    def after(self, moment: float) -> Window | None:
        """What of it is still to be heard when everything before `moment` has been."""
        if moment <= self.start:
            return self
        rest = tuple(
            (max(start, moment), end)
            for start, end in self.clips
            if start >= moment or end - moment > LEAST_REST
        )
        return Window(rest) if rest else None

    def part(self, start: float, end: float) -> Window:
        """What is heard between two times inside the window."""
        clips, at = [], 0.0
        for first, last in self.clips:
            low, high = max(first, first + start - at), min(last, first + end - at)
            if high > low:
                clips.append((low, high))
            at += last - first
        return Window(tuple(clips))

    def quietest(self, at: float, near: float, quietest: Callable[[float, float], float]) -> float:
        """The best moment to cut not far from a time inside the window: between two clips, or where
        it is quietest."""
        begins = [0.0, *accumulate(end - start for start, end in self.clips)]
        between = [each for each in begins[1:-1] if abs(each - at) <= near]
        if between:
            return min(between, key=lambda each: abs(each - at))
        number = min(max(bisect_right(begins, at) - 1, 0), len(self.clips) - 1)
        shift = self.clips[number][0] - begins[number]
        low, high = max(at - near, begins[number]), min(at + near, begins[number + 1])
        return quietest(low + shift, high + shift) - shift

    def halves(self, quietest: Callable[[float, float], float]) -> tuple[Window, Window]:
        """Cut in its middle third: between two clips if that is possible, else where it is
        quietest."""
        first, last = self.seconds / 3, self.seconds * 2 / 3
        at = 0.0
        for number, (start, end) in enumerate(self.clips):
            if first <= at <= last:
                return Window(self.clips[:number]), Window(self.clips[number:])
            if at + end - start > last:
                low, high = start + max(first - at, 0.0), start + last - at
                cut = min(max(quietest(low, high), low), high)
                break
            at += end - start
        before, after = self.clips[:number], self.clips[number + 1 :]
        return Window((*before, (start, cut))), Window(((cut, end), *after))


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """`next`: where planning goes on; None when the recording has come to its end."""

    windows: Sequence[Window]
    next: float | None


def plan(
    speech: Sequence[Interval],
    begin: float,
    end: float,
    *,
    is_last: bool,
    quietest: Callable[[float, float], float],
) -> WindowPlan:
    """Windows for the speech found between `begin` and `end`. Unless it is the last stretch of the
    recording, its last window is left for the next one, which may have more to put into it.
    `quietest`: the best moment to cut between two times."""
    windows = _pack(_short_enough(_inside(speech, begin, end), quietest))
    if is_last or not windows:
        return WindowPlan(windows, None if is_last else end)
    if len(windows) > 1:
        return WindowPlan(windows[:-1], windows[-1].start)
    *others, (start, stop) = windows[0].clips
    if stop >= end - TOUCHING and start > begin:
        return WindowPlan([Window(tuple(others))] if others else [], start)
    # Nothing is gained by waiting, and there must be an end to it.
    return WindowPlan(windows, end)


def _inside(speech: Sequence[Interval], begin: float, end: float) -> list[Interval]:
    """In order, without overlaps."""
    found: list[Interval] = []
    for start, stop in sorted(speech):
        start = max(start, begin, found[-1][1] if found else begin)
        stop = min(stop, end)
        if stop > start:
            found.append((start, stop))
    return found


def _short_enough(
    intervals: Sequence[Interval], quietest: Callable[[float, float], float]
) -> list[Interval]:
    short: list[Interval] = []
    for start, end in intervals:
        while end - start > LONGEST:
            cut = quietest(start + CUT_AFTER, start + LONGEST)
            cut = min(max(cut, start + CUT_AFTER), start + LONGEST)
            short.append((start, cut))
            start = cut
        short.append((start, end))
    return short


def _pack(intervals: Sequence[Interval]) -> list[Window]:
    windows: list[Window] = []
    for interval in intervals:
        longer = _with(windows[-1], interval) if windows else None
        if longer is not None and longer.seconds <= LONGEST:
            windows[-1] = longer
        else:
            windows.append(Window((interval,)))
    return windows


def _with(window: Window, interval: Interval) -> Window:
    *others, last = window.clips
    if interval[0] - last[1] <= KEPT_SILENCE:
        return Window((*others, (last[0], interval[1])))
    return Window((*window.clips, interval))
