"""How a worker is to work: what is understood, what is refused, and what follows of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rushes import errors, worker_settings
from rushes.protocol import Standing
from rushes.worker.conduct import Conduct, is_news
from rushes.worker.scratch import ScratchSpace
from rushes.worker_settings import WorkerSettings

BERLIN = ZoneInfo("Europe/Berlin")
# A Monday.
MONDAY = datetime(2026, 1, 5)  # noqa: DTZ001  the clock on a wall has no zone


def hours(text: str, *, day: int = 0) -> list[int]:
    """The hours of a day at which it is open, half past each."""
    schedule = worker_settings.schedule(text)
    times = [MONDAY + timedelta(days=day, hours=hour, minutes=30) for hour in range(24)]
    return [each.hour for each in times if schedule.is_open(each)]


def test_hours_may_go_over_midnight_and_over_the_end_of_the_week() -> None:
    assert hours("22:00-06:00") == [0, 1, 2, 3, 4, 5, 22, 23]
    assert hours("always") == list(range(24))
    assert hours("00:00-24:00") == list(range(24))
    weekdays = "mon-fri 19:00-07:00; sat,sun 00:00-24:00"
    # Sunday ends at midnight, and Monday's hours begin in the evening.
    assert hours(weekdays) == list(range(19, 24))
    assert hours(weekdays, day=1) == [*range(7), *range(19, 24)]
    assert hours(weekdays, day=5) == list(range(24))
    assert hours("sun 22:00-02:00") == [0, 1]
    assert hours("sat-mon 10:00-11:00") == [10]
    assert hours("sat-mon 10:00-11:00", day=2) == []


def test_the_next_change_is_when_it_really_opens_or_closes() -> None:
    schedule = worker_settings.schedule("22:00-06:00; 05:00-07:00")
    assert schedule.next_change(MONDAY.replace(hour=3)) == MONDAY.replace(hour=7)
    assert schedule.next_change(MONDAY.replace(hour=22)) == MONDAY + timedelta(days=1, hours=7)
    at = MONDAY.replace(hour=21, minute=59, second=59)
    assert schedule.next_change(at) == MONDAY.replace(hour=22)
    assert worker_settings.schedule("always").next_change(MONDAY) is None
    assert worker_settings.schedule("00:00-12:00; 12:00-24:00").next_change(MONDAY) is None


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        ";",
        "25:00-06:00",
        "22:60-06:00",
        "24:00-06:00",
        "22:00",
        "22:00-22:00",
        "22-06",
        "funday 22:00-06:00",
        "mon-tue-wed 22:00-06:00",
        "-1:00-06:00",
        "<b>22:00-06:00</b>",
        "22:00-06:00;" * 100,
    ],
)
def test_nonsense_is_no_schedule(text: str) -> None:
    with pytest.raises(errors.BadField) as refused:
        worker_settings.understood({"schedule": text})
    assert refused.value.field == "schedule"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nice", -1),
        ("nice", 20),
        ("nice", "1.5"),
        ("nice", True),
        ("rest", "stop"),
        ("concurrency", 10_000),
        ("concurrency", "transcode=65"),
        ("concurrency", "transcode=-1"),
        ("concurrency", "transcode=0,*=0"),
        ("concurrency", 0),
        ("concurrency", "transcode=1,transcode=2"),
        ("concurrency", "transcode=40,trim=40"),
        ("concurrency", "<b>=1"),
        ("concurrency", {f"k{n}": 0 for n in range(65)}),
        ("concurrency", {"transcode": "many"}),
        ("tags", "<script>alert(1)</script>"),
        ("tags", ["studio", 3]),
        ("tags", "x" * 33),
        ("tags", [f"t{n}" for n in range(33)]),
        ("scratch_budget", "much"),
        ("scratch_budget", -1),
        ("scratch_budget", 1),
        ("idle_unload", "soon"),
        ("idle_unload", float("nan")),
        ("idle_unload", 30 * 86400),
        ("colour", "red"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(errors.BadField) as refused:
        worker_settings.understood({name: value})
    assert refused.value.field == name
    # What a worker tells of itself is no reason to refuse it.
    assert worker_settings.believed({name: value, "nice": 3}).nice in (3, None)


def test_texts_and_json_mean_the_same() -> None:
    as_text = worker_settings.understood(
        {
            "schedule": "Mon-Fri  22:00-06:00",
            "nice": "10",
            "concurrency": "transcode=1, transcribe=2",
            "tags": "studio, tag:night,studio",
            "scratch_budget": "50GB",
            "idle_unload": "10min",
            "rest": "Release",
        }
    )
    as_json = WorkerSettings(
        schedule="mon-fri 22:00-06:00",
        nice=10,
        concurrency={"transcode": 1, "transcribe": 2},
        tags=["night", "studio"],
        scratch_budget=50 * 10**9,
        idle_unload=600.0,
        rest="release",
    )
    assert as_text == as_json
    assert worker_settings.understood(worker_settings.plain(as_json)) == as_json
    shown = {each.name: each.text for each in worker_settings.in_effect(as_json, WorkerSettings())}
    assert (shown["scratch_budget"], shown["idle_unload"]) == ("50GB", "10min")
    assert worker_settings.understood(shown) == as_json


def test_the_server_wins_and_it_is_told_who_said_it() -> None:
    own = worker_settings.understood({"nice": 5, "schedule": "22:00-06:00", "tags": "own"})
    told = worker_settings.understood({"schedule": "always", "concurrency": 3})
    said = {each.name: (each.text, each.said_by) for each in worker_settings.in_effect(own, told)}
    assert said == {
        "schedule": ("always", "server"),
        "rest": ("finish", "default"),
        "nice": ("5", "worker"),
        "concurrency": ("3", "server"),
        "tags": ("own", "worker"),
        "scratch_budget": ("none", "default"),
        "idle_unload": ("never", "default"),
    }
    assert worker_settings.changed(told, {"schedule": None, "nice": "7"}) == WorkerSettings(
        nice=7, concurrency={"*": 3}
    )


def test_a_kind_brings_its_parts_with_it_and_others_share_the_rest() -> None:
    offered = ["transcode", "span", "trim", "transcribe"]
    found = worker_settings.groups({"transcode": 2, "transcribe": 1}, offered)
    assert {name: (group.kinds, group.count) for name, group in found.items()} == {
        "transcode": (("span", "transcode"), 2),
        "transcribe": (("transcribe",), 1),
        "*": (("trim",), 1),
    }
    assert worker_settings.groups({"span": 3, "transcode": 1}, offered)["transcode"].kinds == (
        "transcode",
    )
    assert worker_settings.slots(WorkerSettings(), offered) is None
    assert worker_settings.slots(WorkerSettings(concurrency={"*": 2}), offered) == ["*", "*"]


def clocked(text: str, at: datetime) -> Conduct:
    return Conduct(WorkerSettings(schedule=text), clock=lambda: at)


def test_a_rest_lasts_as_long_as_it_really_takes_when_clocks_change() -> None:
    """Clocks go forward on 29 March 2026 at two, and back on 25 October at three."""
    spring = clocked("06:00-07:00", datetime(2026, 3, 29, 1, 0, tzinfo=BERLIN))
    assert (spring.is_resting, spring.seconds_left) == (True, 4 * 3600)
    autumn = clocked("06:00-07:00", datetime(2026, 10, 25, 1, 0, tzinfo=BERLIN))
    assert (autumn.is_resting, autumn.seconds_left) == (True, 6 * 3600)
    # An hour that comes twice is open twice.
    for fold in (0, 1):
        twice = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=BERLIN)
        assert not clocked("02:00-03:00", twice).is_resting


def test_a_rest_is_told_once_and_again_when_a_clock_was_set() -> None:
    resting = Standing(resting_seconds=3600)
    assert is_news(Standing(), resting, 0)
    assert not is_news(resting, Standing(resting_seconds=3000), 600)
    assert is_news(resting, Standing(resting_seconds=60), 600)
    assert is_news(resting, Standing(), 3600)
    assert is_news(Standing(), Standing(declined={"noop": "full"}), 0)


def test_a_schedule_is_obeyed_live_and_taken_back() -> None:
    conduct = clocked("22:00-06:00", datetime(2026, 1, 5, 12, 0, tzinfo=BERLIN))
    always = WorkerSettings(schedule="always")
    seen = [conduct.is_resting]
    for told, is_new in ((always, True), (always, False), (None, True)):
        assert conduct.obey(told) is is_new
        seen.append(conduct.is_resting)
    assert seen == [True, False, False, True]


def test_room_is_kept_and_given_back_and_a_larger_budget_counts_at_once(tmp_path: Path) -> None:
    space = ScratchSpace(tmp_path / "scratch", 10_000_000)
    space.reserve("one", 6_000_000)
    with pytest.raises(errors.RetryLater, match=r"needs 5.0 MB .* 10.0 MB, of which 6.0 MB are in"):
        space.reserve("two", 5_000_000)
    assert "is in use" in (space.trouble() or "")
    space.set_budget(20_000_000)
    assert space.trouble() is None
    space.reserve("two", 5_000_000)
    space.set_budget(5_000_000)
    with pytest.raises(errors.RetryLater):
        space.reserve("three", 1)
    space.release("one")
    space.release("two")
    # What could never fit is no reason to take nothing else.
    with pytest.raises(errors.RetryLater, match=r"may use 5.0 MB$") as refused:
        space.reserve("three", 6_000_000)
    assert refused.value.code == "scratch_full"
    assert space.trouble() is None
