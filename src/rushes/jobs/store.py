"""The queue's SQL: one guarded statement per function, the same text on SQLite and PostgreSQL.

A change names all it relies on; a row that does not come back was not changed. The rows that did
change write their attempts and events in the same statement (see `Tx.change`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushes import events
from rushes.db.database import Tx
from rushes.jobs import limiting
from rushes.jobs.job import (
    Completed,
    Ended,
    Holding,
    Job,
    Priority,
    Renewal,
    Report,
    State,
    Take,
    decode,
)
from rushes.jobs.lifecycle import MAX_CLAIMS, Facts, Held, Loss, Lost, Settlement
from rushes.jobs.limit_store import HAS_PLACE, LIMITED
from rushes.jobs.policy import Look, Manner, Strand
from rushes.jobs.trail_store import BEFORE, SINCE, WAITING_ON_TRAILS
from rushes.jobs.trails import Mark
from rushes.protocol import Assignment, Claim
from rushes.records import Row, from_row

# coalesce keeps PostgreSQL from starting at the index of processing rows: it believes that there
# are next to none of them, and would compare each with each.
OWN = """jobs.id = given.id AND jobs.claim_id = given.claim_id
    AND coalesce(jobs.state, '') = 'processing'"""
# A lease lives on while the sweep may not judge it: after an outage, or a clock that jumped, and
# also in the moment before the sweep has noticed that (see `beat`).
LEASE_ALIVE = """(jobs.claim_expires_at > {now} OR EXISTS (SELECT 1 FROM service_beat
    WHERE grace_until > {now} OR {now} - beat_at > :lease_ms / 2))
    AND jobs.deadline_at > {now}"""
MEDIA_NOT_DELETED = "(SELECT deleted_at FROM media WHERE media.id = jobs.media_id) IS NULL"
BARE = "jobs.media_id IS NULL AND jobs.division IS NULL"
UNCLAIMED = """claim_id = NULL, claimed_by = NULL, claimed_at = NULL, claim_expires_at = NULL,
    deadline_at = NULL, heard_at = NULL, progressed_at = NULL, claim_boot = NULL,
    claim_request = NULL"""
LEASE_OVER = """(jobs.claim_expires_at IS NULL OR jobs.claim_expires_at <= {now}
    OR jobs.deadline_at IS NULL OR jobs.deadline_at <= {now})"""

# The divided job that a part belongs to; null for any other job.
WHOLE_ID = "CASE WHEN division IS NOT NULL THEN parent_id END AS whole_id"
HELD_FACTS = f"""kind, priority, claim_id, claimed_by, attempt, max_attempts, claims, losses,
    cancel_requested_at, {WHOLE_ID}"""

# Whose fault a loss is. An outage may have begun up to half a lease after the last beat: any later
# one would have been a beat (see `beat`). A worker that speaks on for half a lease, and has
# never spoken of the claim, has not heard of it.
LAST_WORD = "coalesce(jobs.heard_at, jobs.claimed_at)"
GOT_ON = """CASE WHEN progressed_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM passages WHERE job_id = jobs.id AND recorded_at >= jobs.claimed_at)
    OR EXISTS (SELECT 1 FROM versions JOIN artifacts ON artifacts.version_id = versions.id
        WHERE versions.job_id = CASE WHEN division IS NULL THEN jobs.id ELSE parent_id END
        AND artifacts.claim_id = jobs.claim_id AND recorded_at >= jobs.claimed_at)
    THEN 1 ELSE 0 END AS got_on"""
# A worker that went down with the job does not speak on: not as the process that held it.
SURVIVED = """CASE WHEN EXISTS (SELECT 1 FROM attempts JOIN workers
        ON workers.id = attempts.worker_id WHERE attempts.job_id = jobs.id
        AND attempts.outcome = 'lost' AND attempts.epoch >= jobs.claim_epoch - jobs.losses
        AND workers.last_seen_at > attempts.ended_at
        AND coalesce(workers.boot_at, 0) <= attempts.started_at)
    THEN 1 ELSE 0 END AS survived"""
GONE = f"{GOT_ON}, {SURVIVED}, 1 AS silent, 0 AS unheard_of, 0 AS outage, 0 AS stalled"
FAULT = f"""{GOT_ON}, {SURVIVED},
    CASE WHEN EXISTS (SELECT 1 FROM workers WHERE workers.id = claimed_by
        AND last_seen_at > {LAST_WORD}) THEN 0 ELSE 1 END AS silent,
    CASE WHEN heard_at IS NULL AND EXISTS (SELECT 1 FROM workers WHERE workers.id = claimed_by
        AND last_seen_at >= jobs.claimed_at + :lease_ms / 2
        AND coalesce(boot_at, 0) <= jobs.claimed_at) THEN 1 ELSE 0 END AS unheard_of,
    CASE WHEN EXISTS (SELECT 1 FROM service_beat
        WHERE away_since + :lease_ms / 2 >= {LAST_WORD}) THEN 1 ELSE 0 END AS outage"""

# Without the texts, which nobody needs any more.
ENDED_COLUMNS = (
    events.COLUMNS + ", jobs.parent_id, jobs.division, jobs.engine_id, jobs.engine_model"
)
ASSIGNMENT = """id, kind, media_id, user_id, args, claim_id, claim_epoch, attempt, max_attempts,
    checkpoint, priority, queued_at, trace, claimed_at, run_at"""
# How long an attempt took that has ended, and of whose claim the job knows no more.
RAN_MS = """coalesce({now} - (SELECT started_at FROM attempts
    WHERE job_id = {changed}.id AND epoch = {changed}.claim_epoch), 0) AS ran_ms"""


LANES = """
    WITH RECURSIVE lanes(lane) AS (
        SELECT (SELECT min(lane) FROM jobs WHERE state = 'queued')
        UNION ALL
        SELECT (SELECT min(lane) FROM jobs WHERE state = 'queued' AND lane > lanes.lane)
        FROM lanes WHERE lanes.lane IS NOT NULL
    )"""
WAITING_LANES = f"""{LANES}, head AS (
        SELECT (SELECT id FROM jobs
                WHERE state = 'queued' AND jobs.lane = lanes.lane AND run_at <= {{now}}
                ORDER BY jobs.lane, queued_at, id LIMIT 1) AS id
        FROM lanes WHERE lane IS NOT NULL
    )"""
WAITING_USERS = (
    LANES
    + """, strand(lane, user_id) AS (
        SELECT first.lane, first.user_id FROM lanes JOIN jobs AS first ON first.id = (
            SELECT id FROM jobs WHERE state = 'queued' AND jobs.lane = lanes.lane
            ORDER BY jobs.lane, jobs.user_id, queued_at, id LIMIT 1)
        WHERE first.kind IN (SELECT value FROM {each::kinds})
        AND first.priority <= :lowest_priority
        UNION ALL
        SELECT next.lane, next.user_id FROM strand JOIN jobs AS next ON next.id = (
            SELECT id FROM jobs WHERE state = 'queued' AND jobs.lane = strand.lane
            AND jobs.user_id > strand.user_id
            ORDER BY jobs.lane, jobs.user_id, queued_at, id LIMIT 1)
    ), head AS (
        SELECT (SELECT id FROM jobs
                WHERE state = 'queued' AND jobs.lane = strand.lane
                AND jobs.user_id = strand.user_id AND run_at <= {now}
                ORDER BY jobs.lane, jobs.user_id, queued_at, id LIMIT 1) AS id
        FROM strand
    )"""
)


# Not of a user who has as many of a kind under way as one may. No other index has this order.
HAS_ROOM = """ AND (jobs.user_id, jobs.kind) NOT IN (SELECT user_id, kind FROM jobs
    WHERE state = 'processing' GROUP BY kind, user_id HAVING count(*) >= :most_per_user)"""


# Who waits in a lane beside the user of its head: the next before and after. So no row of that
# user's own is stepped over.
USERS = [
    f"(SELECT {one}(user_id) FROM jobs AS other WHERE state = 'queued'"
    f" AND other.lane = jobs.lane AND other.user_id {side} jobs.user_id)"
    for one, side in (("max", "<"), ("min", ">"))
]


# What must be there is; what is preferred does not matter here.
IS_ABLE = """ AND NOT EXISTS (SELECT 1 FROM {each:jobs.needs} WHERE value = replace(value, '?', '')
    AND value NOT IN (SELECT value FROM {each::capabilities}))"""


BY_LANE = Manner()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a worker could take: kinds and capabilities as JSON lists. Without `able`, whatever a
    job needs. See `Claimant`."""

    able: str | None
    kinds: str
    manner: Manner = BY_LANE
    lowest_priority: int = Priority.LOW
    most_per_user: int | None = None
    worker_key: str = ""


def waiting(tx: Tx, wanted: Wanted, trails: Mapping[str, Mark] | None = None) -> Look:
    """The strands this worker could take of, with the oldest due job of each. Its cost does not
    grow with the backlog: it hops over the index from strand to strand. `trails`: where to begin
    in these lanes; those that came back to one are another strand."""
    by_user = wanted.manner.by_user
    first, last = ("jobs.user_id", "jobs.user_id") if by_user else USERS
    hops = WAITING_USERS if by_user else WAITING_LANES
    rows = tx.all(
        (hops if trails is None else WAITING_ON_TRAILS)
        + f"""
        SELECT jobs.id, lane, kind, needs, priority, queued_at, jobs.user_id, limit_key,
            coalesce(turns.turn, 0) AS turn, {first} AS first, {last} AS last, {LIMITED} AS limited
        FROM jobs LEFT JOIN turns ON turns.user_id = jobs.user_id
        WHERE jobs.id IN (SELECT id FROM head) AND kind IN (SELECT value FROM {{each::kinds}})
        AND priority <= :lowest_priority
        AND NOT EXISTS (SELECT 1 FROM pauses WHERE pauses.kind IN ('*', jobs.kind))"""
        + ("" if wanted.able is None else IS_ABLE)
        + (HAS_ROOM if wanted.most_per_user else "")
        + (HAS_PLACE if wanted.manner.limited else ""),
        given=None if trails is None else _given(trails),
        kinds=wanted.kinds,
        capabilities=wanted.able,
        lowest_priority=wanted.lowest_priority,
        most_per_user=wanted.most_per_user,
        worker_key=wanted.worker_key,
    )
    strands = [
        Strand(
            lane=row["lane"],
            kind=row["kind"],
            needs=tuple(decode(row["needs"])),
            priority=row["priority"],
            queued_at=row["queued_at"],
            head_id=row["id"],
            user_id=row["user_id"] if by_user else None,
            turn=row["turn"],
            limit_key=row["limit_key"],
            users=tuple({row["user_id"], row["first"], row["last"]} - {None}),
        )
        for row in rows
    ]
    limited = max((row["limited"] for row in rows), default=0)
    return Look(strands=strands, limited=limited > 0, limits_users=limited > 1)


def _given(trails: Mapping[str, Mark]) -> list[dict[str, Any]]:
    return [{"lane": lane, "at": at, "place": id} for lane, (at, id) in trails.items()]


PICK = """
    WITH picked AS MATERIALIZED (
        SELECT id FROM jobs
        WHERE state = 'queued' AND lane = :lane AND run_at <= {now} - :delay_ms
        AND claims < :max_claims
        AND EXISTS (SELECT 1 FROM workers WHERE id = :worker_id AND state = 'enabled')
        AND NOT EXISTS (SELECT 1 FROM pauses WHERE kind IN ('*', :kind))
        AND NOT EXISTS (SELECT 1 FROM users WHERE users.id = jobs.user_id
            AND users.disabled_at IS NOT NULL)
        AND """
PICK_FIFO = PICK + MEDIA_NOT_DELETED
# One who goes on in a lane without a look has not heard of limits that were set since.
UNLIMITED = " AND NOT EXISTS (SELECT 1 FROM limits)"
FIRST_OF_LANE = " ORDER BY lane, queued_at, id LIMIT :limit {skip_locked})"
PICK_OF_USER = PICK + MEDIA_NOT_DELETED + " AND {of_user}"
FIRST_OF_USER = " ORDER BY lane, user_id, queued_at, id LIMIT :limit {skip_locked})"
# A single claim has the fresh id itself; in a batch the jobs' ids make it one for each.
CLAIM = """
    UPDATE jobs SET state = 'processing',
        claim_id = :claim_id || CASE WHEN :limit = 1 THEN '' ELSE substr(jobs.id, 5) END,
        claim_epoch = claim_epoch + 1, attempt = attempt + 1, claims = claims + 1,
        claimed_by = :worker_id, claimed_at = {now}, claim_expires_at = {now} + :lease_ms,
        claim_boot = CAST(:boot_id AS text), claim_request = CAST(:request_id AS text),
        deadline_at = {now} + coalesce(timeout_ms, :timeout_ms),
        started_at = coalesce(started_at, {now}), stage = NULL, engine_id = NULL,
        engine_model = NULL, progress = CASE WHEN divided_progress IS NULL THEN 0 ELSE progress END,
        processed_by_worker_id = :worker_id, processed_by_worker_name = :worker_name
    FROM picked WHERE jobs.id = picked.id AND jobs.state = 'queued'"""
OPEN_ATTEMPTS = """
    INSERT INTO attempts (job_id, epoch, number, claim_id, worker_id, worker_name, started_at)
    SELECT id, claim_epoch, attempt, claim_id, claimed_by,
        processed_by_worker_name, claimed_at
    FROM changed"""


def claim(tx: Tx, take: Take, claim_id: str, limit: int) -> list[Assignment]:
    """Take the oldest due jobs of a strand. Returned in the order of the queue."""
    place = take.before or take.since
    at, id = place or (None, None)
    rows = tx.change(
        _pick(take) + CLAIM,
        OPEN_ATTEMPTS,
        events.from_changed("'started'", was="'queued'"),
        returning=ASSIGNMENT,
        claim_id=claim_id,
        limit=limit,
        max_claims=MAX_CLAIMS,
        lane=take.lane,
        at=at,
        place=id,
        kind=take.kind,
        user_id=take.user_id,
        worker_id=take.worker_id,
        worker_name=take.worker_name,
        boot_id=take.boot_id,
        request_id=take.request_id,
        delay_ms=take.delay_ms,
        lease_ms=take.lease_ms,
        timeout_ms=take.timeout_ms,
        most_per_user=take.most_per_user,
        worker_key=limiting.worker_key(take.worker_name),
    )
    return assignments_from_rows(rows, take.lease_ms)


def _pick(take: Take) -> str:
    limits = HAS_PLACE if take.limited else ""
    if take.user_id is not None:
        room = HAS_ROOM if take.most_per_user else ""
        return PICK_OF_USER + room + limits + FIRST_OF_USER
    where = BEFORE if take.before else SINCE if take.since else ""
    return PICK_FIFO + (limits or UNLIMITED) + where + FIRST_OF_LANE


def renew_if_held(tx: Tx, claims: Sequence[Claim], lease_ms: int) -> list[Renewal]:
    rows = tx.all(
        "WITH given AS ({given:id text, claim_id text})"
        " UPDATE jobs SET claim_expires_at = {now} + :lease_ms, heard_at = {now} FROM given WHERE "
        + OWN
        + " AND "
        + LEASE_ALIVE
        + " RETURNING jobs.claim_id, jobs.cancel_requested_at",
        given=_claims(claims),
        lease_ms=lease_ms,
    )
    return [Renewal(row["claim_id"], row["cancel_requested_at"] is not None) for row in rows]


def progress_if_held(tx: Tx, reports: Sequence[Report], lease_ms: int) -> list[Renewal]:
    """Note progress, stage and checkpoint, and renew. Returns the held claims."""
    rows = tx.change(
        "WITH given AS ({given:id text, claim_id text, progress double precision, stage text,"
        " checkpoint text, engine_id text, engine_model text, detail text})"
        " UPDATE jobs SET claim_expires_at = {now} + :lease_ms, heard_at = {now},"
        " progressed_at = CASE WHEN given.progress > jobs.progress"
        " OR given.checkpoint IS NOT NULL THEN {now} ELSE jobs.progressed_at END,"
        " progress = CASE WHEN given.progress > jobs.progress THEN given.progress"
        " ELSE jobs.progress END,"
        " stage = coalesce(given.stage, jobs.stage), detail = coalesce(given.detail, jobs.detail),"
        " checkpoint = coalesce(given.checkpoint, jobs.checkpoint),"
        " engine_id = coalesce(given.engine_id, jobs.engine_id),"
        " engine_model = coalesce(given.engine_model, jobs.engine_model)"
        " FROM given WHERE " + OWN + " AND " + LEASE_ALIVE,
        events.from_changed("'progress'", data="detail"),
        returning=f"id, claim_id, cancel_requested_at, {WHOLE_ID}",
        given=reports,
        lease_ms=lease_ms,
    )
    return [
        Renewal(row["claim_id"], row["cancel_requested_at"] is not None, row["whole_id"])
        for row in rows
    ]


def complete_if_held(
    tx: Tx, results: Sequence[tuple[Claim, str | None]], *, bare: bool = False
) -> list[Completed]:
    """With their results, encoded. A lease that is over but not swept does not matter: nobody else
    has the job. `bare`: only those without media that are no parts."""
    rows = tx.change(
        "WITH given AS ({given:id text, claim_id text, result text})"
        " UPDATE jobs SET state = 'completed', completed_at = {now}, progress = 1,"
        " stage = 'completed', losses = 0, error_code = NULL, last_error = NULL,"
        " result = given.result, "
        + UNCLAIMED
        + " FROM given WHERE "
        + OWN
        + " AND jobs.cancel_requested_at IS NULL AND "
        + (BARE if bare else MEDIA_NOT_DELETED),
        """
        UPDATE attempts SET ended_at = {now}, outcome = 'succeeded', job_state = changed.state,
            engine_id = changed.engine_id, engine_model = changed.engine_model FROM changed
        WHERE attempts.job_id = changed.id AND attempts.epoch = changed.claim_epoch""",
        events.from_changed("state", was="'processing'"),
        returning=f"""id, kind, {WHOLE_ID}, {RAN_MS}, EXISTS (SELECT 1 FROM jobs AS child
            WHERE child.parent_id = {{changed}}.id AND child.state = 'blocked') AS awaited""",
        of=ENDED_COLUMNS,
        given=[
            {"id": claim.job_id, "claim_id": claim.claim_id, "result": result}
            for claim, result in results
        ],
    )
    return [
        Completed(row["id"], row["kind"], row["whole_id"], bool(row["awaited"]), row["ran_ms"])
        for row in rows
    ]


def lock_if_held(tx: Tx, claim: Claim) -> Held | None:
    row = tx.one(
        f"SELECT id, {HELD_FACTS}, claim_epoch, media_id, user_id, queued_at, timeout_ms, limit_key"
        " FROM jobs WHERE id = :id AND claim_id = :claim_id AND state = 'processing' {for_update}",
        id=claim.job_id,
        claim_id=claim.claim_id,
    )
    if row is None:
        return None
    return from_row(Held, row, facts=_facts(row), priority=Priority(row["priority"]))


def held(tx: Tx, claim: Claim) -> Holding | None:
    row = tx.one(
        "SELECT id, kind, media_id, user_id, division, claim_expires_at - {now} AS lease_ms,"
        " CASE WHEN division IS NULL THEN id ELSE parent_id END AS owner_id,"
        " heard_at IS NOT NULL AS is_heard FROM jobs"
        " WHERE id = :id AND claim_id = :claim_id AND state = 'processing'",
        id=claim.job_id,
        claim_id=claim.claim_id,
    )
    return from_row(Holding, row, is_heard=bool(row["is_heard"])) if row else None


def note_heard(tx: Tx, claim: Claim) -> None:
    """The worker knows that it has the job; its lease stays as it is."""
    tx.all(
        "UPDATE jobs SET heard_at = {now} WHERE id = :id AND claim_id = :claim_id"
        " AND state = 'processing' AND heard_at IS NULL",
        id=claim.job_id,
        claim_id=claim.claim_id,
    )


def lock_expired(tx: Tx, limit: int, *, lease_ms: int) -> list[Lost]:
    """Processing jobs whose lease or deadline is over, or missing (rows of an older schema)."""
    return lost(
        tx,
        f"SELECT id, {HELD_FACTS}, {FAULT},"
        " CASE WHEN deadline_at <= {now} THEN 1 ELSE 0 END AS stalled"
        " FROM jobs WHERE state = 'processing' AND "
        + LEASE_OVER
        + " ORDER BY claim_expires_at LIMIT :limit {skip_locked}",
        limit=limit,
        lease_ms=lease_ms,
    )


def lock_held_by(tx: Tx, workers: str, limit: int) -> list[Lost]:
    """Of workers that are gone."""
    return lost(
        tx,
        f"SELECT id, {HELD_FACTS}, {GONE} FROM jobs WHERE state = 'processing'"
        " AND substr(claimed_by, 1, :length) = :workers ORDER BY id LIMIT :limit {skip_locked}",
        workers=workers,
        length=len(workers),
        limit=limit,
    )


def note_lost(tx: Tx, workers: Iterable[str]) -> None:
    """They have lost a job by their silence."""
    tx.all(
        "WITH given AS ({given:id text})"
        " UPDATE workers SET lost_at = {now} WHERE id IN (SELECT id FROM given)",
        given=[{"id": id} for id in workers],
    )


def lock_of_other_boots(tx: Tx, worker_id: str, boot_id: str, limit: int) -> list[Lost]:
    return lost(
        tx,
        f"SELECT id, {HELD_FACTS}, {GONE} FROM jobs WHERE state = 'processing'"
        " AND claimed_by = :worker_id AND coalesce(claim_boot, '') <> :boot_id"
        " ORDER BY id LIMIT :limit {skip_locked}",
        worker_id=worker_id,
        boot_id=boot_id,
        limit=limit,
    )


SETTLE = (
    "WITH given AS ({given:id text, claim_id text, state text, delay_ms bigint, attempt bigint,"
    " losses bigint, error_code text, last_error text, outcome text, checkpoint text})"
    " UPDATE jobs SET state = given.state, run_at = {now} + given.delay_ms,"
    " attempt = given.attempt, losses = given.losses, queued_at = coalesce(queued_at, {now}),"
    " checkpoint = coalesce(given.checkpoint, jobs.checkpoint),"
    " divided_at = CASE given.state WHEN 'blocked' THEN {now} END,"
    " divided_progress = CASE given.state WHEN 'blocked' THEN progress ELSE divided_progress END,"
    " failed_at = CASE given.state WHEN 'failed' THEN {now} END,"
    " canceled_at = CASE given.state WHEN 'canceled' THEN {now} END,"
    " error_code = coalesce(given.error_code, jobs.error_code),"
    " last_error = coalesce(given.last_error, jobs.last_error), "
    + UNCLAIMED
    + " FROM given WHERE jobs.id = given.id AND jobs.state = 'processing'"
    # Rows of an older schema may lack the claim id; the sweep still has to free them.
    " AND coalesce(jobs.claim_id, '') = coalesce(given.claim_id, '')"
)
CLOSE_ATTEMPTS = (
    " UPDATE attempts SET ended_at = {now}, outcome = given.outcome, job_state = given.state,"
    " error_code = given.error_code, error = given.last_error,"
    " engine_id = changed.engine_id, engine_model = changed.engine_model"
    " FROM changed JOIN ({given:id text, state text, error_code text, last_error text,"
    " outcome text}) AS given ON given.id = changed.id"
    " WHERE attempts.job_id = changed.id AND attempts.epoch = changed.claim_epoch"
    " AND attempts.outcome IS NULL"
)


def settle(tx: Tx, settlements: Sequence[Settlement], *, expired: bool = False) -> dict[str, int]:
    """End attempts without success, under the guard of the decision; how many ms each had taken."""
    rows = tx.change(
        SETTLE + (" AND " + LEASE_OVER if expired else ""),
        CLOSE_ATTEMPTS,
        # Only a division makes a held job wait.
        events.from_changed(
            "CASE state WHEN 'blocked' THEN 'divided' ELSE state END", was="'processing'"
        ),
        returning=f"id, {RAN_MS}",
        given=[
            {
                "id": each.id,
                "claim_id": each.claim_id,
                "state": each.next.state,
                "delay_ms": each.next.delay_ms,
                "attempt": each.next.attempt,
                "losses": each.next.losses,
                "error_code": each.next.error_code,
                "last_error": each.error,
                "outcome": each.next.outcome,
                "checkpoint": each.checkpoint,
            }
            for each in settlements
        ],
    )
    return {row["id"]: row["ran_ms"] for row in rows}


END_AT_ONCE = "state = 'canceled', canceled_at = {now}, divided_at = NULL,"
CANCEL = {"blocked": END_AT_ONCE, "queued": END_AT_ONCE, "processing": ""}


def cancel(tx: Tx, ids: Iterable[str]) -> list[Ended]:
    """Waiting jobs end at once; processing ones are flagged. Returns those it changed."""
    # Locked first: their events tell what they were.
    rows = tx.all(
        "SELECT id, state FROM jobs WHERE id IN ({given:id text})"
        " AND (state IN ('blocked','queued')"
        " OR (state = 'processing' AND cancel_requested_at IS NULL)) ORDER BY id {for_update}",
        given=[{"id": id} for id in ids],
    )
    canceled: list[Ended] = []
    for was in sorted({row["state"] for row in rows}):
        changed = tx.change(
            f"""
            WITH given AS ({{given:id text}})
            UPDATE jobs SET {CANCEL[was]}
                cancel_requested_at = coalesce(cancel_requested_at, {{now}})
            FROM given WHERE jobs.id = given.id AND jobs.state = :was""",
            events.from_changed(
                "CASE state WHEN 'processing' THEN 'canceling' ELSE state END", was=f"'{was}'"
            ),
            returning=f"id, state, {WHOLE_ID}",
            given=[row for row in rows if row["state"] == was],
            was=was,
        )
        canceled += [Ended(row["id"], State(row["state"]), row["whole_id"]) for row in changed]
    return canceled


def get(tx: Tx, id: str) -> Job | None:
    row = tx.one("SELECT * FROM jobs WHERE id = :id", id=id)
    return Job.from_row(row) if row else None


def assignments_from_rows(rows: Iterable[Row], lease_ms: int) -> list[Assignment]:
    """In the order of the queue."""
    lease_seconds = lease_ms / 1000
    # Written out: every job that is claimed comes along here.
    return [
        Assignment(
            job_id=row["id"],
            claim_id=row["claim_id"],
            kind=row["kind"],
            args=decode(row["args"]),
            media_id=row["media_id"],
            user_id=row["user_id"],
            epoch=row["claim_epoch"],
            attempt=row["attempt"],
            max_attempts=row["max_attempts"],
            checkpoint=decode(row["checkpoint"]),
            lease_seconds=lease_seconds,
            waited_seconds=(row["claimed_at"] - max(row["queued_at"], row["run_at"])) / 1000,
            trace=row["trace"],
        )
        for row in sorted(rows, key=lambda row: (row["queued_at"], row["id"]))
    ]


def lost(tx: Tx, sql: str, **params: Any) -> list[Lost]:
    names = Loss.__dataclass_fields__
    return [
        from_row(
            Lost,
            row,
            facts=_facts(row),
            priority=Priority(row["priority"]),
            loss=Loss(**{name: bool(row[name]) for name in names}),
        )
        for row in tx.all(sql, **params)
    ]


def _facts(row: Row) -> Facts:
    return from_row(Facts, row, cancel_requested=row["cancel_requested_at"] is not None)


def _claims(claims: Sequence[Claim]) -> list[dict[str, str]]:
    return [{"id": claim.job_id, "claim_id": claim.claim_id} for claim in claims]
