"""The queue for people: lists, counts, attempts, pauses, and the facts behind `why`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rushes import count_store, errors, events, kinds
from rushes.db.database import Tx
from rushes.jobs import store
from rushes.jobs.job import BEGINNING, Job, Outcome, State, decode, encode
from rushes.protocol import Claim
from rushes.records import Row, from_row
from rushes.text_match import folded, pattern

COLUMNS = {
    "state": "state",
    "kind": "kind",
    "user_id": "user_id",
    "media_id": "media_id",
    "worker_id": "processed_by_worker_id",
    "error_code": "error_code",
}
# The database makes both sides small, as far as it knows letters.
_PART = "LIKE lower(CAST(:part AS text)) ESCAPE '!'"
MENTIONS = f"""(id {_PART} OR lower(last_error) {_PART} OR lower(processed_by_worker_name) {_PART}
    OR media_id IN (SELECT id FROM media WHERE title_folded LIKE :title_part ESCAPE '!'))"""
LIVE = ("blocked", "queued", "processing")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; what is None does not matter."""

    state: str | None = None
    kind: str | None = None
    user_id: str | None = None
    media_id: str | None = None
    worker_id: str | None = None
    error_code: str | None = None
    ids: Sequence[str] | None = None
    not_kinds: Sequence[str] | None = None
    # A part of the id, the error, the worker's name or the media's title.
    q: str | None = None


def _guards(filter: JobFilter) -> tuple[str, dict[str, Any]]:
    """SQL text without anything of the caller's in it, and what it refers to."""
    given = {name: getattr(filter, name) for name in COLUMNS if getattr(filter, name) is not None}
    guards = [f"{COLUMNS[name]} = :{name}" for name in given]
    if filter.ids is not None:
        guards.append("id IN (SELECT value FROM {each:CAST(:ids AS text)})")
        given["ids"] = encode(list(filter.ids))
    if filter.not_kinds:
        guards.append("kind NOT IN (SELECT value FROM {each:CAST(:not_kinds AS text)})")
        given["not_kinds"] = encode(list(filter.not_kinds))
    if filter.q:
        guards.append(MENTIONS)
        given |= {"part": pattern(filter.q), "title_part": pattern(folded(filter.q))}
    return " AND ".join(guards) or "1 = 1", given


# A divided job runs, too: in its parts.
RUNNING = "(state = 'processing' OR (state = 'blocked' AND divided_at IS NOT NULL))"
# One by one, because each has an index of its own: few run, however many there are.
AMONG_RUNNING = """id IN (SELECT id FROM jobs WHERE state = 'processing'
    UNION ALL SELECT id FROM jobs WHERE divided_at IS NOT NULL AND state = 'blocked')"""


def list_jobs(
    tx: Tx,
    filter: JobFilter | None = None,
    *,
    before: str | None = None,
    limit: int = 50,
    running: bool | None = None,
) -> list[Job]:
    """Newest first; `before` is the last id of the page before (ids sort by time). `running`:
    only those, or only the others. Beginnings that nobody took up are listed to who asks for them
    alone: most are not needed, and that is nothing to tell."""
    filter = filter or JobFilter()
    where, given = _guards(filter)
    if filter.kind is None and filter.ids is None:
        where += f" AND (coalesce(division, 1) <> {BEGINNING} OR claims > 0)"
    if running is not None:
        where += f" AND {AMONG_RUNNING}" if running else f" AND NOT {RUNNING}"
    if before is not None:
        where += " AND id < :before"
        given["before"] = before
    rows = tx.all(
        f"SELECT * FROM jobs WHERE {where} ORDER BY id DESC LIMIT :limit", limit=limit, **given
    )
    return [Job.from_row(row) for row in rows]


def titles(tx: Tx, items: Iterable[Job]) -> dict[str, str]:
    """By media: what the recordings of these jobs are called. Deleted ones have no title."""
    media_ids = {each.media_id for each in items if each.media_id is not None}
    if not media_ids:
        return {}
    rows = tx.all(
        "SELECT id, title FROM media WHERE deleted_at IS NULL"
        " AND id IN (SELECT value FROM {each:CAST(:ids AS text)})",
        ids=encode(sorted(media_ids)),
    )
    return {row["id"]: row["title"] for row in rows}


def matching(tx: Tx, filter: JobFilter, states: Iterable[str], limit: int) -> list[str]:
    """The ids of the jobs in one of these states that the filter finds, oldest first."""
    where, given = _guards(filter)
    rows = tx.all(
        f"SELECT id FROM jobs WHERE {where}"
        " AND state IN (SELECT value FROM {each:CAST(:states AS text)}) ORDER BY id LIMIT :limit",
        states=encode(list(states)),
        limit=limit,
        **given,
    )
    return [row["id"] for row in rows]


def live_jobs_of(tx: Tx, media_ids: Sequence[str]) -> list[Job]:
    rows = tx.all(
        "SELECT * FROM jobs WHERE state IN ('blocked','queued','processing')"
        " AND media_id IN (SELECT value FROM {each:CAST(:ids AS text)}) ORDER BY id",
        ids=encode(list(media_ids)),
    )
    return [Job.from_row(row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failed jobs with the same reason."""

    kind: str
    error_code: str | None
    count: int
    last_failed_at: int | None
    example: str | None

    @property
    def can_retry(self) -> bool:
        return self.error_code not in errors.OF_THE_SOURCE


def failure_groups(tx: Tx, user_id: str | None, limit: int = 50) -> list[FailureGroup]:
    """Failed jobs by what they failed of, most frequent first; of one user, or of all (None). What
    a beginning fails of, its whole does, too, and is told of that."""
    rows = tx.all(
        f"""
        SELECT grouped.kind, nullif(grouped.error_code, '') AS error_code, number AS count,
            last_failed_at, jobs.last_error AS example
        FROM (SELECT kind, error_code, CAST(sum(number) AS bigint) AS number,
                max(failed_at) AS last_failed_at, max(job_id) AS job_id
              FROM ({" UNION ALL ".join(_failed(tx))}) AS failed
              {_of(user_id)}
              GROUP BY kind, error_code HAVING sum(number) > 0 AND kind <> '{kinds.PREPARE.name}'
              ORDER BY 3 DESC, kind, error_code LIMIT :limit) AS grouped
        LEFT JOIN jobs ON jobs.id = grouped.job_id
        ORDER BY number DESC, grouped.kind, grouped.error_code""",
        user_id=user_id,
        limit=limit,
    )
    return [from_row(FailureGroup, row) for row in rows]


def _failed(tx: Tx) -> list[str]:
    if not count_store.is_kept(tx):
        return [
            """SELECT kind, user_id, coalesce(error_code, '') AS error_code, 1 AS number, failed_at,
            id AS job_id FROM jobs WHERE state = 'failed'"""
        ]
    return [
        """SELECT kind, user_id, error_code, count AS number, last_failed_at AS failed_at,
        last_job_id AS job_id FROM failure_counts""",
        *map(count_store.failures, count_store.UNMOVED),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`id` is without the claim id in it, which is a worker's proof. `outcome` is None while it
    runs; `provider` and `model` are the engine that it worked with."""

    id: str
    job_id: str
    kind: str
    number: int
    epoch: int
    worker_id: str
    worker_name: str
    started_at: int
    ended_at: int | None
    outcome: Outcome | None
    error_code: str | None
    error: str | None
    provider: str | None
    model: str | None


def attempts(tx: Tx, job_id: str) -> list[Attempt]:
    """Every try of a job, oldest first; the API calls them executions."""
    rows = tx.all(
        """
        SELECT attempts.*, kind,
            CASE WHEN outcome IS NULL THEN jobs.engine_id ELSE attempts.engine_id END AS provider,
            CASE WHEN outcome IS NULL THEN jobs.engine_model ELSE attempts.engine_model END AS model
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE job_id = :job_id ORDER BY epoch""",
        job_id=job_id,
    )
    return [
        from_row(
            Attempt,
            row,
            id=_execution_id(row["claim_id"]),
            outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class ClosedAttempt:
    """How it ended, and where its job went then."""

    outcome: str
    job_state: State


def closed_attempt(tx: Tx, claim: Claim) -> ClosedAttempt | None:
    row = tx.one(
        "SELECT outcome, job_state FROM attempts"
        " WHERE job_id = :job_id AND claim_id = :claim_id AND outcome IS NOT NULL",
        job_id=claim.job_id,
        claim_id=claim.claim_id,
    )
    return ClosedAttempt(row["outcome"], State(row["job_state"])) if row else None


def kind_claimed_by(tx: Tx, claim: Claim, worker_id: str) -> str | None:
    """The job's kind, if this worker has had the claim. Even when the claim is over: repeating a
    report must return the same."""
    row = tx.one(
        "SELECT jobs.kind FROM attempts JOIN jobs ON jobs.id = attempts.job_id"
        " WHERE attempts.claim_id = :claim_id AND attempts.job_id = :job_id"
        " AND attempts.worker_id = :worker_id",
        claim_id=claim.claim_id,
        job_id=claim.job_id,
        worker_id=worker_id,
    )
    return row["kind"] if row else None


def _execution_id(claim_id: str) -> str:
    return f"exe_{hashlib.sha256(claim_id.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """How many jobs of a kind are in a state, and how long they waited and ran on average, which is
    told of those that have ended."""

    kind: str
    # None: of all users together.
    user_id: str | None
    state: State
    count: int
    oldest_queued_at: int | None
    wait_ms: float | None
    run_ms: float | None


def stats(tx: Tx, user_id: str | None = None) -> list[JobCount]:
    """How many jobs each user (or this one) has, or has had, of each kind in each state, and how
    long those that ended have waited and run. It does not grow with the number of jobs."""
    rows = tx.all(
        f"""
        SELECT kind, user_id, state, {_SUMS} FROM ({_counted(tx)}) AS counted
        {_of(user_id)}
        GROUP BY kind, user_id, state HAVING sum(count) <> 0 ORDER BY kind, user_id, state""",
        user_id=user_id,
    )
    if user_id is None:
        oldest = tx.all(f"{_STRANDS} SELECT kind, user_id, queued_at FROM strand")
    else:
        oldest = tx.all(
            f"{store.LANES} SELECT kind, user_id, queued_at FROM lanes JOIN jobs ON id = ("
            " SELECT id FROM jobs WHERE state = 'queued' AND jobs.lane = lanes.lane"
            " AND jobs.user_id = :user_id ORDER BY jobs.lane, jobs.user_id, queued_at, id LIMIT 1)",
            user_id=user_id,
        )
    return _job_counts(rows, oldest, ("kind", "user_id"))


def _of(user_id: str | None) -> str:
    return "" if user_id is None else "WHERE user_id = :user_id"


def totals(tx: Tx) -> list[JobCount]:
    """As `stats`, for all users together."""
    rows = tx.all(
        f"""
        SELECT kind, NULL AS user_id, state, {_SUMS} FROM ({_counted(tx)}) AS counted
        GROUP BY kind, state HAVING sum(count) <> 0 ORDER BY kind, state"""
    )
    oldest = tx.all(
        f"{store.LANES} SELECT kind, queued_at FROM lanes JOIN jobs ON id = (SELECT id FROM jobs"
        " WHERE state = 'queued' AND jobs.lane = lanes.lane"
        " ORDER BY jobs.lane, queued_at, id LIMIT 1)"
    )
    return _job_counts(rows, oldest, ("kind",))


def _float(value: float | Decimal | None) -> float | None:
    """PostgreSQL's averages of integers are decimals."""
    return None if value is None else float(value)


_SUMS = """CAST(sum(count) AS bigint) AS count, sum(wait_ms) / nullif(sum(waited), 0) AS wait_ms,
    sum(run_ms) / nullif(sum(ran), 0) AS run_ms"""
_ENDED = "SELECT kind, user_id, state, count, waited, wait_ms, ran, run_ms FROM job_counts"
_UNCOUNTED = [
    f"""SELECT kind, user_id, state, count(*), {count_store.JOB_TIMES} FROM (
        SELECT kind, events.user_id, jobs.state, started_at, queued_at, completed_at
        FROM events JOIN jobs ON jobs.id = events.job_id
        WHERE {each} AND events.state IN ({count_store.ENDED})) AS uncounted
        GROUP BY kind, user_id, state"""
    for each in count_store.UNCOUNTED
]
_LIVE = [
    "SELECT kind, user_id, state, count, 0, 0, 0, 0 FROM live_counts",
    *(
        f"SELECT kind, user_id, state, number, 0, 0, 0, 0 FROM ({count_store.moves(each)}) AS moved"
        for each in count_store.UNMOVED
    ),
]
# One by one, because each has an index of its own.
_LIVE_ONE_BY_ONE = [
    f"""SELECT kind, user_id, state, count(*), 0, 0, 0, 0 FROM jobs WHERE state = '{each}'
        GROUP BY kind, user_id, state"""
    for each in LIVE
]


def _counted(tx: Tx) -> str:
    """Of all jobs, as rows that are to be added up."""
    live = _LIVE if count_store.is_kept(tx) else _LIVE_ONE_BY_ONE
    return " UNION ALL ".join((_ENDED, *_UNCOUNTED, *live))


_STRANDS = (
    store.LANES
    + """, strand(lane, user_id, kind, queued_at) AS (
        SELECT first.lane, first.user_id, first.kind, first.queued_at FROM lanes
        JOIN jobs AS first ON first.id = (
            SELECT id FROM jobs WHERE state = 'queued' AND jobs.lane = lanes.lane
            ORDER BY jobs.lane, jobs.user_id, queued_at, id LIMIT 1)
        UNION ALL
        SELECT next.lane, next.user_id, next.kind, next.queued_at FROM strand
        JOIN jobs AS next ON next.id = (
            SELECT id FROM jobs WHERE state = 'queued' AND jobs.lane = strand.lane
            AND jobs.user_id > strand.user_id
            ORDER BY jobs.lane, jobs.user_id, queued_at, id LIMIT 1)
    )"""
)


def _job_counts(rows: Iterable[Row], heads: Iterable[Row], key: tuple[str, ...]) -> list[JobCount]:
    """`heads`: the first jobs of the lines that jobs wait in."""
    oldest: dict[tuple[str, ...], int] = {}
    for head in heads:
        of = tuple(head[name] for name in key)
        oldest[of] = min(head["queued_at"], oldest.get(of, head["queued_at"]))
    return [
        from_row(
            JobCount,
            row,
            state=State(row["state"]),
            oldest_queued_at=oldest.get(tuple(row[name] for name in key))
            if row["state"] == State.QUEUED
            else None,
            wait_ms=_float(row["wait_ms"]),
            run_ms=_float(row["run_ms"]),
        )
        for row in rows
    ]


def pause(tx: Tx, kind: str) -> None:
    tx.all(
        "INSERT INTO pauses (kind, paused_at) VALUES (:kind, {now}) ON CONFLICT DO NOTHING",
        kind=kind,
    )
    events.append(tx, "queue.paused", data=encode({"kind": kind}))


def resume(tx: Tx, kind: str) -> None:
    tx.all("DELETE FROM pauses WHERE kind = :kind", kind=kind)
    events.append(tx, "queue.resumed", data=encode({"kind": kind}))


def pauses(tx: Tx) -> list[str]:
    return [row["kind"] for row in tx.all("SELECT kind FROM pauses ORDER BY kind")]


def is_user_disabled(tx: Tx, user_id: str) -> bool:
    row = tx.one("SELECT disabled_at FROM users WHERE id = :id", id=user_id)
    return row is not None and row["disabled_at"] is not None


def waiting_of(tx: Tx, user_id: str, most: int) -> int:
    """How many jobs of a user are queued, up to `most`: found lane by lane in the index that the
    claims use."""
    row = tx.one(
        store.LANES
        + """
        SELECT sum((SELECT count(*) FROM (
            SELECT 1 FROM jobs WHERE state = 'queued' AND jobs.lane = lanes.lane
            AND jobs.user_id = :user_id AND kind NOT IN ('webhook', 'purge', 'prepare')
            LIMIT :most) AS few
        )) AS waiting FROM lanes WHERE lane IS NOT NULL""",
        user_id=user_id,
        most=most,
    )
    return int(row["waiting"] or 0) if row else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Jobs that could be claimed now by whoever offers what they need: how many, up to a limit,
    and since when the first of them could."""

    kind: str
    needs: list[str]
    count: int
    since: int


def ready(tx: Tx, most: int) -> list[Ready]:
    """Up to `most` of each lane, found in the index that the claims use; none of kinds that are
    paused."""
    rows = tx.all(
        f"""{store.LANES}, head AS (
            SELECT (SELECT id FROM jobs WHERE state = 'queued' AND jobs.lane = lanes.lane
                    AND run_at <= {{now}} ORDER BY jobs.lane, queued_at, id LIMIT 1) AS id,
                (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'queued'
                    AND jobs.lane = lanes.lane AND run_at <= {{now}} LIMIT :most) AS few) AS count
            FROM lanes WHERE lane IS NOT NULL)
        SELECT kind, needs, count,
            CASE WHEN queued_at > run_at THEN queued_at ELSE run_at END AS since
        FROM head JOIN jobs ON jobs.id = head.id
        WHERE NOT EXISTS (SELECT 1 FROM pauses WHERE pauses.kind IN ('*', jobs.kind))""",
        most=most,
    )
    return [from_row(Ready, row, needs=decode(row["needs"])) for row in rows]


def now(tx: Tx) -> int:
    row = tx.one("SELECT {now} AS now")
    assert row is not None
    return int(row["now"])


# A kind that has slots of its own goes by those, the others share the rest; without any slots one
# job is all.
HAS_A_FREE_SLOT = """
    CASE WHEN workers.slots IS NULL THEN NOT EXISTS (
        SELECT 1 FROM jobs WHERE state = 'processing' AND claimed_by = workers.id)
    WHEN :kind IN (SELECT value FROM {each:coalesce(workers.slots, '[]')}) THEN (
        SELECT count(*) FROM {each:coalesce(workers.slots, '[]')} WHERE value = :kind) > (
        SELECT count(*) FROM jobs
        WHERE state = 'processing' AND claimed_by = workers.id AND kind = :kind)
    ELSE (SELECT count(*) FROM {each:coalesce(workers.slots, '[]')} WHERE value = '*') > (
        SELECT count(*) FROM jobs WHERE state = 'processing' AND claimed_by = workers.id
        AND kind NOT IN (SELECT value FROM {each:coalesce(workers.slots, '[]')})) END"""


def idle_worker_exists(
    tx: Tx, kind: str, needs: Sequence[str], *, seen_within_ms: int, besides: str, urgent: bool
) -> bool:
    """Is there another worker, seen lately, that could take such a job at once? Not one that is
    full, rests, or takes none of this kind now. Those that are kept for what is urgent count for
    that alone."""
    row = tx.one(
        """
        SELECT 1 AS found FROM workers WHERE id <> :besides AND state = 'enabled'
        AND last_seen_at > {now} - :seen_within_ms
        AND (resting_until IS NULL OR resting_until <= {now})
        AND :kind IN (SELECT value FROM {each:workers.kinds})
        AND :kind NOT IN (SELECT value FROM {each:coalesce(workers.declines, '[]')})
        AND NOT EXISTS (SELECT 1 FROM {each::needs}
            WHERE value NOT IN (SELECT value FROM {each:workers.capabilities}))
        AND (:urgent = 1 OR workers.for_urgent = 0)
        AND """
        + HAS_A_FREE_SLOT
        + " LIMIT 1",
        kind=kind,
        needs=encode(list(needs)),
        seen_within_ms=seen_within_ms,
        besides=besides,
        urgent=int(urgent),
    )
    return row is not None


def is_offered(tx: Tx, kind: str, *, seen_within_ms: int) -> bool:
    """Whether a worker that was seen lately takes such jobs, now or when it has time."""
    row = tx.one(
        """
        SELECT 1 AS found FROM workers WHERE state = 'enabled'
        AND last_seen_at > {now} - :seen_within_ms
        AND :kind IN (SELECT value FROM {each:workers.kinds}) LIMIT 1""",
        kind=kind,
        seen_within_ms=seen_within_ms,
    )
    return row is not None


def may_have_to_wait(tx: Tx, job_id: str, media_id: str | None) -> bool:
    """Whether a job may not be claimed at once: something is paused, or other jobs wait or run,
    those of the same media aside."""
    other = "id <> :job_id AND coalesce(media_id, id) <> :media_id"
    row = tx.one(
        f"""
        SELECT 1 AS found
        WHERE EXISTS (SELECT 1 FROM jobs WHERE state = 'processing' AND {other})
        OR EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND {other})
        OR EXISTS (SELECT 1 FROM pauses)""",
        job_id=job_id,
        media_id=media_id or "",
    )
    return row is not None


def position(tx: Tx, job: Job) -> int:
    """Where this one stands among all that are queued, whatever they need."""
    return ahead(tx, job) + 1


def ahead(tx: Tx, job: Job, kind: str | None = None) -> int:
    """How many queued jobs stand before this one; of one kind if given."""
    row = tx.one(
        """
        SELECT count(*) AS ahead FROM jobs WHERE state = 'queued'
        AND (CAST(:kind AS text) IS NULL OR kind = :kind)
        AND (priority, queued_at, id) < (:priority, :queued_at, :id)""",
        kind=kind,
        priority=int(job.priority),
        queued_at=job.queued_at,
        id=job.id,
    )
    assert row is not None
    return int(row["ahead"])
