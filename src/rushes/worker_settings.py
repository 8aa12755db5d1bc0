"""How a worker fits into its machine: its hours, how nice it is, how much it does at once, its
tags, and how much room it takes. Pure.

A worker brings its own, from flags and the environment; what an admin says at the server wins. All
of it is read, checked and written here, whoever says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from rushes import errors, kinds, units
from rushes.records import JsonObject
from rushes.settings import Settings

# The kinds that are not named for themselves, together.
OTHERS = "*"
MOST_AT_ONCE = 64
NICEST = 19
MOST_TAGS = 32
LEAST_BUDGET = 1_000_000
LONGEST_IDLE = 7 * units.DAY
TAG_PREFIX = "tag:"
FINISH, RELEASE = "finish", "release"
ALWAYS = "always"

_DAY, _WEEK = 24 * 60, 7 * 24 * 60
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MOST_WINDOWS = 20
_TAG = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z,\s-]+?)\s+)?(?P<begin>\d?\d:\d\d)\s*-\s*(?P<end>\d?\d:\d\d)"
)
_HOURS_HINT = "such as 22:00-06:00, or mon-fri 19:00-07:00; sat,sun 00:00-24:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """None: not said. `schedule`: when it takes work, in its local time; `rest`: what becomes of
    the work in hand when that is over. `nice`: of ffmpeg and the speech engine. `concurrency`: how
    many jobs of a kind at once, `*` for all others together. `scratch_budget`: bytes, 0 for no
    limit. `idle_unload`: after how many seconds speech models leave the memory, 0 for never."""

    schedule: str | None = None
    rest: str | None = None
    nice: int | None = None
    concurrency: Mapping[str, int] | None = None
    tags: Sequence[str] | None = None
    scratch_budget: int | None = None
    idle_unload: float | None = None


DEFAULTS = WorkerSettings(
    schedule=ALWAYS,
    rest=FINISH,
    nice=0,
    concurrency={OTHERS: 1},
    tags=(),
    scratch_budget=0,
    idle_unload=0.0,
)
NAMES = tuple(each.name for each in fields(WorkerSettings))


@dataclass(frozen=True, slots=True)
class Window:
    """In minutes of the week; one that goes over midnight, or over Sunday's, ends after it."""

    begin: int
    end: int

    def holds(self, minute: int) -> bool:
        return (minute - self.begin) % _WEEK < self.end - self.begin


@dataclass(frozen=True, slots=True)
class Schedule:
    """Without windows it is always open. It goes by the clock on the wall: an hour that is left out
    or comes twice when clocks change is left out or comes twice here, too."""

    windows: tuple[Window, ...] = ()

    def is_open(self, at: datetime) -> bool:
        minute = at.weekday() * _DAY + at.hour * 60 + at.minute
        return not self.windows or any(each.holds(minute) for each in self.windows)

    def next_change(self, at: datetime) -> datetime | None:
        """When it opens or closes next; None: never."""
        now = at.replace(second=0, microsecond=0)
        minute = now.weekday() * _DAY + now.hour * 60 + now.minute
        edges = {edge for each in self.windows for edge in (each.begin, each.end)}
        for ahead in sorted((edge - minute - 1) % _WEEK + 1 for edge in edges):
            then = now + timedelta(minutes=ahead)
            if self.is_open(then) is not self.is_open(at):
                return then
        return None


def schedule(text: str | None) -> Schedule:
    """BadField if it makes no sense."""
    if text is None or text == ALWAYS:
        return Schedule()
    parts = [part.strip() for part in text.lower().split(";") if part.strip()]
    if not parts or len(parts) > _MOST_WINDOWS or len(text) > 400:
        raise _bad("schedule", f"must be always, or times {_HOURS_HINT}")
    return Schedule(tuple(window for part in parts for window in _windows(part)))


def _windows(part: str) -> Iterable[Window]:
    found = _WINDOW.fullmatch(part)
    if found is None:
        raise _bad("schedule", f"{part[:40]!r} is no time: {_HOURS_HINT}")
    begin, end = _minute(found["begin"]), _minute(found["end"])
    if begin in (end, _DAY):
        raise _bad(
            "schedule", f"{part[:40]!r} ends as it begins: 00:00-24:00 is all day, always any time"
        )
    length = (end - begin) % _DAY or _DAY
    for day in _days(found["days"]):
        yield Window(day * _DAY + begin, day * _DAY + begin + length)


def _minute(text: str) -> int:
    hours, minutes = (int(each) for each in text.split(":"))
    if hours > 24 or minutes > 59 or (hours == 24 and minutes):
        raise _bad("schedule", f"{text} is no time of day")
    return hours * 60 + minutes


def _days(text: str | None) -> list[int]:
    if text is None:
        return list(range(7))
    found: set[int] = set()
    for part in (each.strip() for each in text.split(",")):
        ends = [each.strip() for each in part.split("-")]
        if len(ends) > 2 or any(each not in _DAYS for each in ends):
            raise _bad("schedule", f"{part[:20]!r} is no day: there are {', '.join(_DAYS)}")
        first, last = _DAYS.index(ends[0]), _DAYS.index(ends[-1])
        found |= {(first + n) % 7 for n in range((last - first) % 7 + 1)}
    return sorted(found)


# What is said, as a text or as JSON has it


def of_settings(settings: Settings) -> JsonObject:
    """Those of a process, as far as they are set there."""
    return {name: value for name in NAMES if (value := getattr(settings, f"worker_{name}"))}


def inside_server(settings: Settings) -> WorkerSettings:
    """Of those in a server. How many there are, and what its process does for all of them, is not
    theirs to say."""
    own = understood(of_settings(settings))
    return replace(own, nice=None, idle_unload=None, concurrency=None)


def understood(said: JsonObject) -> WorkerSettings:
    """Raises BadField for what makes no sense. None and an empty text: not said."""
    for name in said:
        if name not in NAMES:
            raise _bad(str(name)[:40], f"is no setting; there are {', '.join(NAMES)}")
    given = {name: value for name, value in said.items() if value is not None and value != ""}
    return WorkerSettings(**{name: _READERS[name](value) for name, value in given.items()})


def believed(said: JsonObject) -> WorkerSettings:
    """As `understood`, of what is better left out than refused: a newer worker may say more."""
    with suppress(errors.BadField):
        return understood(said)
    kept = {}
    for name, value in said.items():
        try:
            understood({name: value})
        except errors.BadField:
            continue
        kept[name] = value
    return understood(kept)


def changed(before: WorkerSettings, said: JsonObject) -> WorkerSettings:
    """With what is said in its place; None there: no longer said."""
    new = understood(said)
    return replace(before, **{name: getattr(new, name) for name in said})


def plain(settings: WorkerSettings) -> JsonObject:
    """What is said, for JSON."""
    told = {name: getattr(settings, name) for name in NAMES}
    return {name: _json(value) for name, value in told.items() if value is not None}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _read_schedule(value: Any) -> str:
    text = " ".join(_text("schedule", value).lower().split())
    schedule(text)
    return text


def _read_rest(value: Any) -> str:
    text = _text("rest", value).strip().lower()
    if text not in (FINISH, RELEASE):
        raise _bad("rest", f"must be {FINISH} or {RELEASE}")
    return text


def _read_nice(value: Any) -> int:
    return _whole("nice", value, 0, NICEST)


def _read_concurrency(value: Any) -> dict[str, int]:
    if isinstance(value, Mapping):
        pairs = [(str(name), each) for name, each in value.items()]
    elif isinstance(value, int) and not isinstance(value, bool):
        pairs = [(OTHERS, value)]
    else:
        words = [word.strip() for word in _text("concurrency", value).split(",")]
        pairs = [_pair(word) for word in words if word]
    found: dict[str, int] = {}
    for name, each in pairs:
        if name != OTHERS and not kinds.NAME.fullmatch(name):
            raise _bad("concurrency", f"{name[:40]!r} is no kind")
        if name in found:
            raise _bad("concurrency", f"names {name} twice")
        found[name] = _whole("concurrency", each, 0, MOST_AT_ONCE)
    if len(found) > MOST_AT_ONCE:
        raise _bad("concurrency", f"must name {MOST_AT_ONCE} kinds at most")
    total = sum(found.values()) + (0 if OTHERS in found else 1)
    if not 1 <= total <= MOST_AT_ONCE:
        raise _bad(
            "concurrency",
            f"must be from 1 to {MOST_AT_ONCE} in all; for none at all drain the worker",
        )
    return found


def _pair(word: str) -> tuple[str, str]:
    name, equals, number = (each.strip() for each in word.partition("="))
    return (name, number) if equals else (OTHERS, name)


def _read_tags(value: Any) -> list[str]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        words = [_text("tags", each) for each in value]
    else:
        words = _text("tags", value).split(",")
    found = sorted({word.strip().removeprefix(TAG_PREFIX) for word in words} - {""})
    for word in found:
        if not _TAG.fullmatch(word):
            raise _bad("tags", f"{word[:40]!r} must be of a-z 0-9 _ . -, 32 characters at most")
    if len(found) > MOST_TAGS:
        raise _bad("tags", f"must be {MOST_TAGS} at most")
    return found


def _read_budget(value: Any) -> int:
    if isinstance(value, str):
        size = 0 if value.strip().lower() in ("0", "none") else units.parse_bytes(value)
    else:
        size = value if isinstance(value, int) and not isinstance(value, bool) else None
    if size is None or not (size == 0 or LEAST_BUDGET <= size <= 2**53):
        raise _bad("scratch_budget", "must be none, or a size of at least 1MB, such as 50GB")
    return size


def _read_idle(value: Any) -> float:
    if isinstance(value, str):
        seconds = 0.0 if value.strip().lower() in ("0", "never") else units.parse_seconds(value)
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        seconds = float(value) if is_number else None
    if seconds is None or not (seconds == 0 or 1 <= seconds <= LONGEST_IDLE):
        raise _bad("idle_unload", "must be never, or a duration from 1s to 7d, such as 10min")
    return seconds


_READERS: dict[str, Callable[[Any], Any]] = {
    "schedule": _read_schedule,
    "rest": _read_rest,
    "nice": _read_nice,
    "concurrency": _read_concurrency,
    "tags": _read_tags,
    "scratch_budget": _read_budget,
    "idle_unload": _read_idle,
}


def _whole(name: str, value: Any, lowest: int, highest: int) -> int:
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and re.fullmatch(r"-?\d{1,9}", text):
        text = int(text)
    if not isinstance(text, int) or isinstance(text, bool) or not lowest <= text <= highest:
        raise _bad(name, f"must be a whole number from {lowest} to {highest}")
    return text


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 4_000:
        raise _bad(name, "must be a text")
    return value


def _bad(name: str, message: str) -> errors.BadField:
    return errors.BadField(name, message)


# What is in effect


SaidBy = Literal["server", "worker", "default"]


@dataclass(frozen=True, slots=True)
class InEffect:
    """`said_by`: server, worker or default. `text`: as it could be said again."""

    name: str
    value: Any
    text: str
    said_by: SaidBy


def merged(own: WorkerSettings, told: WorkerSettings) -> WorkerSettings:
    """All of them: what the server says, else the worker, else what is usual."""
    return WorkerSettings(**{each.name: each.value for each in in_effect(own, told)})


def in_effect(own: WorkerSettings, told: WorkerSettings) -> list[InEffect]:
    found = []
    by: tuple[tuple[SaidBy, WorkerSettings], ...]
    by = (("server", told), ("worker", own), ("default", DEFAULTS))
    for name in NAMES:
        for said_by, settings in by:
            value = getattr(settings, name)
            if value is not None:
                found.append(InEffect(name, _json(value), text_of(name, value), said_by))
                break
    return found


def text_of(name: str, value: Any) -> str:
    match name:
        case "concurrency":
            only_others = list(value) == [OTHERS]
            named = (f"{kind}={count}" for kind, count in value.items())
            return str(value[OTHERS]) if only_others else ",".join(named)
        case "tags":
            return ",".join(value)
        case "scratch_budget":
            return _size_text(value) if value else "none"
        case "idle_unload":
            return units.format_seconds(value) if value else "never"
        case _:
            return str(value)


def _size_text(size: int) -> str:
    """As disks are sold, unless that leaves a fraction."""
    for unit, each in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size % each == 0:
            return f"{size // each}{unit}"
    return units.format_bytes(size)


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs of these kinds run so many at a time."""

    kinds: tuple[str, ...]
    count: int


def groups(concurrency: Mapping[str, int], offered: Collection[str]) -> dict[str, Group]:
    """By name, of the kinds that a worker offers. A kind brings its parts with it, unless they are
    named themselves. What is quick has one slot beside all others, unless it is named."""
    found: dict[str, Group] = {}
    left = set(offered)
    if not all(map(kinds.is_quick, left)):
        aside = {kind: 1 for kind in sorted(left) if kinds.is_quick(kind)}
        concurrency = {**aside, **concurrency}
    for name, count in concurrency.items():
        if name in offered:
            parts = {part for part in kinds.get(name).parts if part not in concurrency}
            mine = ({name} | parts) & left
            left -= mine
            found[name] = Group(tuple(sorted(mine)), count)
    found[OTHERS] = Group(tuple(sorted(left)), concurrency.get(OTHERS, 1))
    return found


def slots(settings: WorkerSettings, offered: Collection[str]) -> list[str] | None:
    """One word for each job that may run: its kind, or `*`. None: one job, of whatever kind."""
    concurrency = settings.concurrency or {OTHERS: 1}
    found = groups(concurrency, offered)
    if dict(concurrency) == {OTHERS: 1} and len(found) == 1:
        return None
    named = [
        kind
        for name, group in found.items()
        if name != OTHERS
        for kind in group.kinds
        for _ in range(group.count)
    ]
    return [*named, *[OTHERS] * found[OTHERS].count]


def own_tags(capabilities: Iterable[str]) -> list[str]:
    """Those that a worker has said as words that jobs may need."""
    words = [word.removeprefix(TAG_PREFIX) for word in capabilities if word.startswith(TAG_PREFIX)]
    return [word for word in words if _TAG.fullmatch(word)][:MOST_TAGS]


def with_tags(capabilities: Iterable[str], tags: Iterable[str]) -> list[str]:
    """The words that jobs may need, with these tags and no others."""
    words = [word for word in capabilities if not word.startswith(TAG_PREFIX)]
    return [*words, *(f"{TAG_PREFIX}{tag}" for tag in tags)]
