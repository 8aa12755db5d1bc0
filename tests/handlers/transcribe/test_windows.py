"""However speech is spread, every moment of it is in one window, and times come back right."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes.handlers.transcribe.windows import LONGEST, Interval, Window, plan


def halfway(start: float, end: float) -> float:
    return (start + end) / 2


def windows_of(*speech: Interval, end: float = 300.0) -> list[Window]:
    return list(plan(speech, 0.0, end, is_last=True, quietest=halfway).windows)


@st.composite
def recordings(draw: st.DrawFn) -> list[Interval]:
    at, intervals = 0.0, []
    for _ in range(draw(st.integers(0, 30))):
        at += draw(st.floats(0.1, 20))
        length = draw(st.floats(0.1, 90))
        intervals.append((at, at + length))
        at += length
    return intervals


@given(recordings())
def test_all_speech_is_heard_once_and_no_window_is_too_long(speech: list[Interval]) -> None:
    end = speech[-1][1] if speech else 10.0
    windows = windows_of(*speech, end=end)
    clips = [clip for window in windows for clip in window.clips]
    assert all(window.seconds <= LONGEST + 1e-6 for window in windows)
    assert clips == sorted(clips)
    assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(clips))
    for start, stop in speech:
        heard = sum(max(0.0, min(stop, b) - max(start, a)) for a, b in clips)
        assert heard == pytest.approx(stop - start, abs=1e-6)


@given(recordings(), st.floats(5, 400))
def test_planned_in_stretches_nothing_is_lost_or_heard_twice(
    speech: list[Interval], stretch: float
) -> None:
    end = speech[-1][1] if speech else 10.0
    begin: float | None = 0.0
    clips: list[Interval] = []
    rounds = 0
    while begin is not None and begin < end:
        stop = min(begin + stretch, end)
        step = plan(speech, begin, stop, is_last=stop >= end, quietest=halfway)
        clips += [clip for window in step.windows for clip in window.clips]
        assert step.next is None or step.next > begin
        begin = step.next
        rounds += 1
        assert rounds < 10_000
    for start, stop in speech:
        heard = sum(max(0.0, min(stop, b) - max(start, a)) for a, b in clips)
        assert heard == pytest.approx(stop - start, abs=1e-6)


def test_speech_at_the_end_of_a_stretch_is_not_cut_there() -> None:
    """Somebody speaks on when the stretch ends: the next one begins where that speech does."""
    step = plan([(290, 300)], 0.0, 300.0, is_last=False, quietest=halfway)
    assert (list(step.windows), step.next) == ([], 290)
    step = plan([(10, 15), (290, 300)], 0.0, 300.0, is_last=False, quietest=halfway)
    assert (list(step.windows), step.next) == ([Window(((10, 15),))], 290)
    step = plan([(10, 15), (200, 210)], 0.0, 300.0, is_last=False, quietest=halfway)
    assert (list(step.windows), step.next) == ([Window(((10, 15), (200, 210)))], 300)


@given(recordings(), st.floats(5, 400))
def test_a_stretch_ends_in_silence_where_there_is_any(
    speech: list[Interval], stretch: float
) -> None:
    end = speech[-1][1] if speech else 10.0
    step = plan(speech, 0.0, min(stretch, end), is_last=stretch >= end, quietest=halfway)
    cut = [start for start, stop in speech if start < (step.next or 0) < stop]
    assert all(stretch - start > LONGEST for start in cut)


def test_short_silences_stay_and_long_ones_are_left_out() -> None:
    assert windows_of((1, 3), (4, 6)) == [Window(((1, 6),))]
    assert windows_of((1, 3), (10, 12)) == [Window(((1, 3), (10, 12)))]


def test_a_long_speech_is_cut_where_it_is_quiet() -> None:
    first, second = windows_of((0, 40))
    assert first == Window(((0, 25),))
    assert second == Window(((25, 40),))


@pytest.mark.parametrize(
    ("heard", "meant"),
    [((0, 1), (1, 2)), ((1.5, 2), (2.5, 3)), ((2, 2.5), (10, 10.5)), ((3.9, 4.4), (11.9, 12))],
)
def test_times_inside_a_window_come_back_as_times_of_the_recording(
    heard: Interval, meant: Interval
) -> None:
    assert Window(((1, 3), (10, 12))).times(*heard) == pytest.approx(meant)


@given(recordings(), st.integers(0, 100))
def test_the_halves_of_a_window_are_all_of_it(speech: list[Interval], place: int) -> None:
    for window in windows_of(*speech, end=speech[-1][1] if speech else 1.0):

        def quietest(start: float, end: float) -> float:
            return start + (end - start) * place / 100

        first, second = window.halves(quietest)
        assert first.seconds + second.seconds == pytest.approx(window.seconds)
        assert min(first.seconds, second.seconds) >= window.seconds / 3 - 1e-6
        assert (first.start, second.end) == (window.start, window.end)
        assert first.end <= second.start


def test_a_window_is_halved_in_a_pause_or_where_it_is_quiet() -> None:
    assert Window(((0, 10), (20, 30))).halves(halfway) == (Window(((0, 10),)), Window(((20, 30),)))
    first, second = Window(((0, 2), (5, 15))).halves(lambda start, end: 8.5)
    assert (first, second) == (Window(((0, 2), (5, 8.5))), Window(((8.5, 15),)))


def test_what_was_heard_before_is_left_out() -> None:
    window = Window(((1, 3), (10, 12)))
    assert window.after(0.5) is window
    assert window.after(2) == Window(((2, 3), (10, 12)))
    assert window.after(5) == Window(((10, 12),))
    assert window.after(11.9) is None
    assert Window(((1, 3), (10, 10.2))).after(2.9) == Window(((10, 10.2),))
    assert window.after(50) is None


@pytest.mark.parametrize(
    ("between", "clips"),
    [
        ((0, 1), ((1, 2),)),
        ((1, 3), ((2, 3), (10, 11))),
        ((2.5, 9), ((10.5, 12),)),
        ((0, 4), ((1, 3), (10, 12))),
    ],
)
def test_a_part_of_a_window_is_what_is_heard_between(between: Interval, clips: object) -> None:
    assert Window(((1, 3), (10, 12))).part(*between).clips == clips


def test_a_word_never_lies_across_a_silence_that_was_left_out() -> None:
    start, end = Window(((1, 3), (10, 12))).times(1.8, 2.4)
    assert (start, end) == pytest.approx((10, 10.4))
