"""What a job is, as plain frozen data, and what may be asked of the queue. No rules, no SQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from rushes import errors
from rushes.jobs import limiting
from rushes.jobs.trails import Mark
from rushes.records import JsonObject, Row, from_row

ARGS_LIMIT_BYTES = 64 * 1024
NEEDS_LIMIT = 32
WORD = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,63}")
NEED = re.compile(WORD.pattern + r"\??")
# PostgreSQL takes neither NUL nor half a surrogate pair.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class State(StrEnum):
    BLOCKED = "blocked"
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


LIVE = frozenset({State.BLOCKED, State.QUEUED, State.PROCESSING})
WAITING = frozenset({State.BLOCKED, State.QUEUED})
TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELED})


# The division of a part that is done while nobody has claimed its whole.
BEGINNING = 0


class Priority(IntEnum):
    """Stored as a number so that it sorts; people and the API say the word."""

    HIGH = 1
    NORMAL = 2
    LOW = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class ErrorClass(StrEnum):
    PERMANENT = "permanent"
    TRANSIENT = "transient"
    RESOURCE = "resource"


class Outcome(StrEnum):
    """How an attempt ended. `released`, `deferred` and `divided` give the attempt back."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    STALLED = "stalled"
    CANCELED = "canceled"
    RELEASED = "released"
    DEFERRED = "deferred"
    DIVIDED = "divided"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A request to enqueue. Checked whole before anything is written."""

    kind: str
    args: JsonObject = field(default_factory=dict)
    media_id: str | None = None
    user_id: str = ""
    priority: str = "normal"
    needs: Iterable[str] = ()
    dedupe_key: str | None = None
    parent_id: str | None = None
    run_at: int | None = None
    delay_seconds: float = 0
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    retry_of: str | None = None
    # With those that name the same, at most so many run at once as the limit of it says.
    limit_key: str | None = None


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """What many new jobs have in common: written once for all of them."""

    kind: str
    user_id: str
    priority: Priority
    lane: str
    needs: str
    max_attempts: int


class JobRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new job as it is written: checked, with its texts encoded, and without what is usual."""

    id: str
    args: str
    media_id: str | None = None
    state: State = State.QUEUED
    dedupe_key: str | None = None
    parent_id: str | None = None
    retry_of: str | None = None
    run_at: int = 0
    delay_ms: int = 0
    timeout_ms: int | None = None
    # Of a part: see `Job`, and the place of its whole in the queue.
    division: int | None = None
    queued_at: int | None = None
    limit_key: str | None = None
    # The trace of whoever asked for it; None: that of its parent.
    trace: str | None = None


class Entry(NamedTuple):
    """A new job, whole."""

    alike: Alike
    row: JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """Who claims, from which strand, on which terms."""

    lane: str
    kind: str
    user_id: str | None
    worker_id: str
    worker_name: str
    boot_id: str | None
    request_id: str | None
    delay_ms: int
    lease_ms: int
    timeout_ms: int
    most_per_user: int | None = None
    # Limits are to be kept to.
    limited: bool = False
    # See `Strand`.
    since: Mark | None = None
    before: Mark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a waiting job stands; one that waits for another has no place yet."""

    id: str
    user_id: str
    priority: Priority
    queued_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a waiting job is to stand; without `queued_at`, where its age puts it."""

    id: str
    priority: Priority
    queued_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A job that has got another place."""

    id: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker says of a job, as it is written."""

    id: str
    claim_id: str
    progress: float
    stage: str | None
    checkpoint: str | None
    engine_id: str | None
    engine_model: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """A claim that is held, and the divided job that its job is a part of."""

    claim_id: str
    cancel: bool
    whole_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The job of a claim that is held; `owner_id` is the job whose version it builds, and
    `lease_ms` how long the claim lasts if it is not renewed. `is_heard`: the worker has spoken of
    it, so it knows."""

    id: str
    kind: str
    media_id: str | None
    user_id: str
    division: int | None
    lease_ms: int
    owner_id: str
    is_heard: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that a change has ended, or flagged, the divided job that it is a part of, and whether
    others wait for it."""

    id: str
    state: State
    whole_id: str | None
    awaited: bool = True


class Completed(NamedTuple):
    """As `Ended`; there are many of them. Its last attempt took so long."""

    id: str
    kind: str
    whole_id: str | None
    awaited: bool
    ran_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One row of `jobs`, as the API shows it."""

    id: str
    kind: str
    media_id: str | None
    user_id: str
    state: State
    priority: Priority
    args: JsonObject
    needs: list[str]
    dedupe_key: str | None
    parent_id: str | None
    retry_of: str | None
    created_at: int
    queued_at: int | None
    run_at: int
    started_at: int | None
    completed_at: int | None
    failed_at: int | None
    canceled_at: int | None
    progress: float
    stage: str | None
    attempt: int
    max_attempts: int
    claims: int
    losses: int
    claim_id: str | None
    claim_epoch: int
    claimed_by: str | None
    claimed_at: int | None
    claim_expires_at: int | None
    timeout_ms: int | None
    deadline_at: int | None
    cancel_requested_at: int | None
    checkpoint: Any
    detail: Any
    result: Any
    engine_id: str | None
    engine_model: str | None
    processed_by_worker_id: str | None
    processed_by_worker_name: str | None
    error_code: str | None
    last_error: str | None
    # Since when it waits for its parts, and how far it was when it was divided.
    divided_at: int | None
    divided_progress: float | None
    # Of a part: the epoch of the claim that divided its parent, or BEGINNING.
    division: int | None
    limit_key: str | None

    @classmethod
    def from_row(cls, row: Row) -> Job:
        texts = ("args", "needs", "checkpoint", "detail", "result")
        made = {name: decode(row[name]) for name in texts}
        state, priority = State(row["state"]), Priority(row["priority"])
        return from_row(cls, row, state=state, priority=priority, **made)


def again(old: Job, args: JsonObject) -> NewJob:
    """What takes the place of a job that has ended."""
    return NewJob(
        kind=old.kind,
        args=args,
        media_id=old.media_id,
        user_id=old.user_id,
        priority=old.priority.word,
        needs=old.needs,
        dedupe_key=old.dedupe_key,
        max_attempts=old.max_attempts,
        timeout_seconds=old.timeout_ms / 1000 if old.timeout_ms else None,
        retry_of=old.id,
        limit_key=old.limit_key,
    )


def decode(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


# What a report says of its stage alone.
PACE = ("speed", "eta_seconds")


def told_in(detail: JsonObject | None, stage: str | None) -> str | None:
    """A report's detail as it is stored, with the stage that it is about."""
    return None if detail is None else encode({**detail, "stage": stage})


def without_old_pace(detail: Any, stage: str | None) -> JsonObject:
    """Speed and time left belong to the stage they were told in: the next one does not inherit
    them, and what is left of it is unknown until it says so."""
    if not isinstance(detail, dict):
        return {}
    if detail.get("stage") == stage:
        return detail
    return {name: value for name, value in detail.items() if name not in PACE}


_sorted = msgspec.json.Encoder(order="sorted").encode


def encode(value: Any) -> str:
    return _sorted(value).decode()


def lane_of(
    priority: Priority, kind: str, needs: Iterable[str], limit_key: str | None = None
) -> str:
    """Jobs of one lane are alike to the scheduler: only their age tells them apart. It begins with
    the priority's digit."""
    lane = f"{priority} {kind} {' '.join(sorted(needs))}".rstrip()
    return f"{lane} @{limit_key}" if limit_key else lane


# Most enqueue few kinds of jobs, over and over.
@lru_cache(maxsize=1_000)
def alike(
    kind: str,
    user_id: str,
    priority: str,
    needs: tuple[str, ...],
    max_attempts: int,
    limit_key: str | None,
) -> Alike:
    """Raises BadField for the first value that can never work."""
    if not WORD.fullmatch(kind):
        raise errors.BadField("kind", "must be a word of a-z, 0-9, _ . : - (at most 64)")
    _check_needs(needs)
    if priority.upper() not in Priority.__members__:
        raise errors.BadField("priority", "must be high, normal or low")
    _check_text("user_id", user_id)
    number = Priority[priority.upper()]
    words = sorted(set(needs))
    return Alike(
        kind=kind,
        user_id=user_id,
        priority=number,
        lane=lane_of(number, kind, words, limit_key),
        needs=encode(words),
        max_attempts=max_attempts,
    )


def entry(
    new: NewJob,
    id: str,
    *,
    kinds: Collection[str] | None,
    max_attempts: int,
    limit_key: str | None = None,
    trace: str | None = None,
) -> Entry:
    """As it is written; see `check`. `max_attempts`, `limit_key`: unless it says another."""
    limit_key = new.limit_key or limit_key
    shared = alike(
        new.kind,
        new.user_id,
        new.priority,
        words(new.needs),
        max_attempts if new.max_attempts is None else new.max_attempts,
        limit_key,
    )
    check(new, kinds=kinds)
    row = JobRow(
        id=id,
        args=encode_args(new.args),
        media_id=new.media_id,
        dedupe_key=new.dedupe_key,
        parent_id=new.parent_id,
        retry_of=new.retry_of,
        run_at=new.run_at or 0,
        delay_ms=int(new.delay_seconds * 1000),
        timeout_ms=None if new.timeout_seconds is None else int(new.timeout_seconds * 1000),
        limit_key=limit_key,
        trace=trace,
    )
    return Entry(shared, row)


def behind_parent(row: JobRow, states: Mapping[str, State]) -> JobRow:
    """Blocked until its parent has completed; `states`: of the parents there are."""
    if row.parent_id is None:
        return row
    match states.get(row.parent_id):
        case None:
            raise errors.BadField("parent_id", f"no job {row.parent_id}")
        case State.FAILED | State.CANCELED as state:
            raise errors.WrongState(f"the parent job is {state}")
        case State.COMPLETED:
            return row
        case _:
            return msgspec.structs.replace(row, state=State.BLOCKED)


def words(needs: Iterable[str]) -> tuple[str, ...]:
    if isinstance(needs, str):
        raise errors.BadField("needs", f"must be a list of at most {NEEDS_LIMIT} words")
    return tuple(needs)


def check(new: NewJob, *, kinds: Collection[str] | None = None) -> None:
    """Raise BadField for the first value that can never work. `kinds`: the known ones, if known."""
    if kinds is not None and new.kind not in kinds:
        known = ", ".join(sorted(kinds)) or "none"
        raise errors.BadField("kind", f"no handler for {new.kind!r}; known kinds: {known}")
    if new.limit_key is not None:
        limiting.check_own(new.limit_key)
    _check_text("dedupe_key", new.dedupe_key)
    _check_text("media_id", new.media_id)
    _check_text("parent_id", new.parent_id)
    if new.run_at is not None and new.run_at < 0:
        raise errors.BadField("run_at", "must not be negative")
    if not 0 <= new.delay_seconds <= 10 * 365 * 86400:
        raise errors.BadField("delay_seconds", "must be between 0 and ten years")
    if new.max_attempts is not None and not 1 <= new.max_attempts <= 100:
        raise errors.BadField("max_attempts", "must be between 1 and 100")
    if new.timeout_seconds is not None and not 0 < new.timeout_seconds <= 7 * 86400:
        raise errors.BadField("timeout_seconds", "must be more than 0 and at most seven days")


def is_storable(text: str) -> bool:
    return UNSTORABLE.search(text) is None


def storable(text: str | None, limit: int) -> str | None:
    """For words of handlers, which must not be refused: what fits, without what does not."""
    if text is None:
        return None
    return "".join(char for char in text[:limit] if is_storable(char))


def encode_args(args: JsonObject) -> str:
    """The arguments as JSON text; BadField when they are none, or larger than 64 KB."""
    try:
        text = _sorted(args if type(args) is dict else dict(args))
    except (TypeError, ValueError) as error:
        raise errors.BadField("args", f"must be JSON: {error}") from None
    if len(text) > ARGS_LIMIT_BYTES:
        raise errors.BadField("args", "must be at most 64 KB of JSON")
    if b"\\u0000" in text:
        raise errors.BadField("args", "must not contain NUL characters")
    return text.decode()


def media_in(args: Any, *, named: bool = False) -> set[str]:
    """All that a job's arguments name as a `media_id`, however deep."""
    if isinstance(args, Mapping):
        found = [
            media_in(value, named=named or str(name).endswith("media_id"))
            for name, value in args.items()
        ]
        return set().union(*found)
    if isinstance(args, list | tuple):
        return set().union(*(media_in(each, named=named) for each in args))
    return {str(args)} if named and args is not None else set()


def _check_text(name: str, value: str | None) -> None:
    if value is not None and (len(value) > 512 or not is_storable(value)):
        raise errors.BadField(name, "must be text of at most 512 characters")


def _check_needs(needs: Sequence[str]) -> None:
    if len(needs) > NEEDS_LIMIT:
        raise errors.BadField("needs", f"must be a list of at most {NEEDS_LIMIT} words")
    for word in needs:
        if not NEED.fullmatch(word):
            raise errors.BadField("needs", f"{word!r} is not a word of a-z, 0-9, _ . : -")
