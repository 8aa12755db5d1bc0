"""Cutting a recording again and again, always in seconds of what is seen."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rushes import errors
from rushes.media import edit
from rushes.media.edit import NOTHING, Edit, Overlay, Point

WEBCAM = Overlay(media_id="med_2", position="top-left", size=0.3, sound="both")


def test_what_is_cut_off_is_counted_in_seconds_of_the_source() -> None:
    once = edit.trimmed(NOTHING, 10, 50, 60)
    assert once == Edit(start=10, end=50)
    assert edit.trimmed(once, 5, None, 40) == Edit(start=15, end=50)
    assert edit.trimmed(once, 0, 20, 40) == Edit(start=10, end=30)
    assert edit.trimmed(once, 1.1, 2.2, 40) == Edit(start=11.1, end=12.2)


def test_an_overlay_stays_when_something_is_cut_off() -> None:
    assert edit.trimmed(Edit(overlay=WEBCAM), 3, None, 60).overlay == WEBCAM


def test_an_end_at_the_end_is_no_cut() -> None:
    assert edit.trimmed(NOTHING, 2, 60, 60) == Edit(start=2)
    assert edit.trimmed(NOTHING, 2, 60.05, 60) == Edit(start=2)
    assert edit.trimmed(Edit(end=60), 2, 59.95, 60) == Edit(start=2, end=60)


@pytest.mark.parametrize(
    ("start", "end", "duration", "field"),
    [
        (0, None, 60, "start"),
        (0, 60, 60, "start"),
        (60, None, 60, "start"),
        (59.95, None, 60, "start"),
        (99, None, 60, "start"),
        (10, 10.05, 60, "end"),
        (10, 5, 60, "end"),
        (10, 5, None, "end"),
        (0, 61, 60, "end"),
        (0, 0, None, "end"),
    ],
)
def test_a_cut_that_leaves_nothing_names_what_is_wrong(
    start: float, end: float | None, duration: float | None, field: str
) -> None:
    with pytest.raises(errors.BadField) as error:
        edit.trimmed(NOTHING, start, end, duration)
    assert error.value.field == field


def test_what_is_not_known_yet_is_not_checked() -> None:
    assert edit.trimmed(NOTHING, 3600, 7200, None) == Edit(start=3600, end=7200)


seconds = st.floats(0, 1000).map(lambda value: round(value, 3))


@given(length=st.floats(1, 1000), cuts=st.lists(st.tuples(seconds, seconds), max_size=6))
def test_cuts_only_ever_narrow_what_is_left(length: float, cuts: list[tuple[float, float]]) -> None:
    now, duration = NOTHING, length
    for start, end in cuts:
        try:
            after = edit.trimmed(now, start, end, duration)
        except errors.BadField:
            continue
        last, before = after.end or length, now.end or length
        assert now.start <= after.start < last <= before + 1e-6
        assert last - after.start >= edit.SHORTEST_SECONDS - edit.TOLERANCE_SECONDS
        now, duration = after, last - after.start


@given(start=seconds, end=seconds | st.none(), point=st.tuples(seconds, seconds) | st.none())
def test_what_is_written_down_can_be_read_again(
    start: float, end: float | None, point: tuple[float, float] | None
) -> None:
    assume(end is None or end > start)
    overlay = replace(WEBCAM, position=Point(x=point[0], y=point[1])) if point else WEBCAM
    for each in (Edit(start=start, end=end), Edit(start=start, end=end, overlay=overlay)):
        assert edit.decode(msgspec.json.encode(edit.encode(each)).decode()) == each


@pytest.mark.parametrize("text", [None, "", "null", "[]", "{", '{"start": "soon"}', "3"])
def test_what_cannot_be_read_changes_nothing(text: str | None) -> None:
    assert edit.decode(text) == NOTHING
