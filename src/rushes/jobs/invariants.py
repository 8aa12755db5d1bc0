"""What must hold in every database at every moment, as SQL that returns nothing.

Shared by `rushes doctor` and the tests. Each statement returns the rows that break it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushes import count_store
from rushes.db.database import Tx
from rushes.jobs.lifecycle import MAX_CLAIMS

SHOWN = 20

# What follows from the end of another job may take a sweep, if a server died in between.
ENDED_LONG_AGO = """(coalesce(other.completed_at, other.failed_at, other.canceled_at)
    < {now} - 2 * :sweep_ms AND {now} > grace_until + 2 * :sweep_ms)"""

INVARIANTS: dict[str, tuple[str, str]] = {
    "I1": (
        "a job has a claim, a worker, a lease and a deadline exactly while it is processing",
        """
        SELECT id, state FROM jobs WHERE (state = 'processing') <> (claim_id IS NOT NULL)
        OR (state = 'processing') <> (claimed_by IS NOT NULL)
        OR (state = 'processing') <> (claim_expires_at IS NOT NULL)
        OR (state = 'processing') <> (deadline_at IS NOT NULL)""",
    ),
    "I2": (
        "the epochs of a job count its claims without a gap, and no claim id is used twice",
        """
        SELECT jobs.id FROM jobs LEFT JOIN attempts ON attempts.job_id = jobs.id
        GROUP BY jobs.id, jobs.claim_epoch
        HAVING count(attempts.epoch) <> claim_epoch
            OR coalesce(max(attempts.epoch), 0) <> claim_epoch
        UNION ALL
        SELECT claim_id FROM attempts GROUP BY claim_id HAVING count(*) > 1""",
    ),
    "I3": (
        "a processing job has one open attempt, under its own claim, and any other job has none",
        """
        SELECT jobs.id, jobs.state FROM jobs
        LEFT JOIN attempts ON attempts.job_id = jobs.id AND attempts.outcome IS NULL
        GROUP BY jobs.id, jobs.state, jobs.claim_id
        HAVING count(attempts.epoch) <> CASE jobs.state WHEN 'processing' THEN 1 ELSE 0 END
            OR coalesce(max(attempts.claim_id), '') <> coalesce(jobs.claim_id, '')""",
    ),
    "I4": (
        "the counters of a job agree with its attempts; those that were given back do not count",
        """
        SELECT jobs.id, jobs.attempt, jobs.claims FROM jobs
        LEFT JOIN attempts ON attempts.job_id = jobs.id
        GROUP BY jobs.id, jobs.attempt, jobs.claims
        HAVING count(attempts.epoch) <> jobs.claims
            OR coalesce(sum(CASE WHEN attempts.epoch IS NULL
                OR attempts.outcome IN ('released', 'deferred', 'divided') THEN 0 ELSE 1 END), 0)
                <> jobs.attempt""",
    ),
    "I5": (
        "no job has more attempts than allowed, and every queued job may still be claimed",
        """
        SELECT id, attempt, max_attempts, claims FROM jobs WHERE attempt > max_attempts
        OR (state = 'queued' AND (attempt >= max_attempts OR claims >= :max_claims))""",
    ),
    "I6": (
        "nothing happens to a job after it has ended",
        """
        SELECT job_id FROM events WHERE job_id IS NOT NULL GROUP BY job_id
        HAVING max(seq) > min(CASE WHEN state IN ('completed', 'failed', 'canceled')
            THEN seq END)""",
    ),
    "I7": (
        "a job that has ended has one event that says so, and any other job has none",
        """
        SELECT jobs.id, jobs.state FROM jobs CROSS JOIN event_head
        LEFT JOIN events ON events.job_id = jobs.id
            AND events.state IN ('completed', 'failed', 'canceled')
        WHERE coalesce(completed_at, failed_at, canceled_at, created_at) >= pruned_before
        GROUP BY jobs.id, jobs.state
        HAVING count(events.seq) <> CASE WHEN jobs.state IN ('completed', 'failed', 'canceled')
            THEN 1 ELSE 0 END""",
    ),
    "I8": (
        "a completed job has exactly one successful attempt, and any other job has none",
        """
        SELECT jobs.id, jobs.state FROM jobs
        LEFT JOIN attempts ON attempts.job_id = jobs.id AND attempts.outcome = 'succeeded'
        GROUP BY jobs.id, jobs.state
        HAVING count(attempts.epoch) <> CASE jobs.state WHEN 'completed' THEN 1 ELSE 0 END""",
    ),
    "I9": (
        "a published version belongs to the claim whose attempt succeeded",
        """
        SELECT versions.id FROM versions WHERE state IN ('current', 'retired')
        AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.job_id = versions.job_id
            AND attempts.claim_id = versions.claim_id AND outcome = 'succeeded')""",
    ),
    "I10": (
        "a media item points at the one current version that is watched, or has none",
        """
        SELECT media.id FROM media LEFT JOIN versions ON versions.media_id = media.id
            AND versions.state = 'current' AND versions.slot = 'watch'
        GROUP BY media.id, media.current_version_id
        HAVING count(versions.id) > 1
            OR coalesce(max(versions.id), '') <> coalesce(media.current_version_id, '')""",
    ),
    "I17": (
        "at most one live job has a given dedupe key",
        """
        SELECT dedupe_key FROM jobs
        WHERE dedupe_key IS NOT NULL AND state IN ('blocked', 'queued', 'processing')
        GROUP BY dedupe_key HAVING count(*) > 1""",
    ),
    "I21": (
        "no job is claimed before its time or before its parent has completed",
        """
        SELECT id FROM jobs WHERE state = 'processing' AND claimed_at < run_at
        UNION ALL
        SELECT jobs.id FROM jobs JOIN jobs AS parent ON parent.id = jobs.parent_id
        WHERE jobs.claims > 0 AND jobs.division IS NULL AND (parent.state <> 'completed'
            OR parent.completed_at > jobs.started_at)""",
    ),
    "I22": (
        "no lease or deadline is over for longer than the sweep takes",
        """
        SELECT jobs.id, claim_expires_at, deadline_at FROM jobs CROSS JOIN service_beat
        WHERE state = 'processing' AND {now} > grace_until + 2 * :sweep_ms
        AND (claim_expires_at < {now} - :lease_ms - 2 * :sweep_ms
            OR deadline_at < {now} - :lease_ms - 2 * :sweep_ms)""",
    ),
    "I23a": (
        "the last event of a job tells its state, attempt and epoch",
        """
        SELECT jobs.id, jobs.state FROM jobs
        JOIN (SELECT job_id, max(seq) AS seq FROM events WHERE job_id IS NOT NULL
              GROUP BY job_id) AS last ON last.job_id = jobs.id
        JOIN events ON events.seq = last.seq
        WHERE events.state <> jobs.state OR events.attempt <> jobs.attempt
        OR events.epoch <> jobs.claim_epoch""",
    ),
    "I23b": (
        "event positions have no gap and end at the head",
        """
        SELECT event_head.pos AS head, count(events.pos) AS events FROM event_head
        LEFT JOIN events ON events.pos IS NOT NULL
        GROUP BY event_head.pos, pruned_pos
        HAVING count(events.pos) <> event_head.pos - pruned_pos
            OR coalesce(max(events.pos), pruned_pos) <> event_head.pos
            OR coalesce(min(events.pos), pruned_pos + 1) <> pruned_pos + 1""",
    ),
    "I23c": (
        "every job has told of itself",
        """
        SELECT jobs.id FROM jobs CROSS JOIN event_head WHERE created_at >= pruned_before
        AND NOT EXISTS (SELECT 1 FROM events WHERE events.job_id = jobs.id)""",
    ),
    "I24": (
        "a job is divided exactly while it waits for parts of its own",
        """
        SELECT id, state FROM jobs WHERE divided_at IS NOT NULL AND (state <> 'blocked'
            OR NOT EXISTS (SELECT 1 FROM jobs AS part
                WHERE part.parent_id = jobs.id AND part.division = jobs.claim_epoch))""",
    ),
    "I25": (
        "a job that is blocked, and not divided, waits for a parent that has yet to end",
        f"""
        SELECT jobs.id FROM jobs CROSS JOIN service_beat
        LEFT JOIN jobs AS other ON other.id = jobs.parent_id
        WHERE jobs.state = 'blocked' AND jobs.divided_at IS NULL
        AND (other.id IS NULL OR {ENDED_LONG_AGO})""",
    ),
    "I26": (
        "the parts of a job that has ended have ended, too, or have been told to",
        f"""
        SELECT jobs.id, jobs.state FROM jobs CROSS JOIN service_beat
        JOIN jobs AS other ON other.id = jobs.parent_id
        WHERE jobs.division IS NOT NULL AND jobs.state IN ('blocked', 'queued', 'processing')
        AND jobs.cancel_requested_at IS NULL AND {ENDED_LONG_AGO}""",
    ),
    "I27": (
        "a divided job goes on when its parts have ended",
        f"""
        SELECT jobs.id FROM jobs CROSS JOIN service_beat
        WHERE jobs.divided_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs AS other
            WHERE other.parent_id = jobs.id AND other.division = jobs.claim_epoch
            AND NOT coalesce({ENDED_LONG_AGO}, false))""",
    ),
    "I28": (
        "the counts of ended jobs, and those that are yet to be counted, are all ended jobs",
        count_store.ENDED_OFF,
    ),
    "I29": (
        "the counts of live and failed jobs, with what is yet to be added, are those of the rows",
        f"{count_store.LIVE_OFF} UNION ALL {count_store.FAILED_OFF}",
    ),
    "I30": (
        "no worker holds a job that it may not or cannot do; what changed since does not count",
        """
        SELECT jobs.id, workers.id AS worker_id FROM jobs
        LEFT JOIN workers ON workers.id = jobs.claimed_by
        WHERE jobs.state = 'processing' AND (workers.id IS NULL
            OR (workers.state <> 'enabled' AND workers.state_changed_at < jobs.claimed_at)
            OR (coalesce(workers.changed_at, 0) <= jobs.claimed_at
                AND EXISTS (SELECT 1 FROM {each:jobs.needs} WHERE value = replace(value, '?', '')
                AND value NOT IN (SELECT value FROM {each:workers.capabilities}))))""",
    ),
    "I31": (
        "what is purged, or about to be, is not shown: it was deleted and has no version or link",
        """
        SELECT id FROM media WHERE (purge_started_at IS NOT NULL OR purged_at IS NOT NULL)
        AND (deleted_at IS NULL OR share_token IS NOT NULL)
        UNION ALL
        SELECT id FROM media WHERE purged_at IS NOT NULL
        AND (purge_started_at IS NULL OR source_key IS NOT NULL OR current_version_id IS NOT NULL)
        UNION ALL
        SELECT media.id FROM media JOIN versions ON versions.id = media.current_version_id
        WHERE versions.state = 'purged'""",
    ),
}


@dataclass(frozen=True, slots=True)
class Violation:
    invariant: str
    sentence: str
    rows: list[dict[str, Any]]


def check(tx: Tx, *, lease_ms: int = 60_000, sweep_ms: int = 10_000) -> list[Violation]:
    """The invariants that do not hold, each with the first rows that break it."""
    limits = {"max_claims": MAX_CLAIMS, "lease_ms": lease_ms, "sweep_ms": sweep_ms}
    violations = []
    for name, (sentence, sql) in INVARIANTS.items():
        used = {key: value for key, value in limits.items() if f":{key}" in sql}
        rows = tx.all(sql, **used)
        if rows:
            violations.append(Violation(name, sentence, rows[:SHOWN]))
    return violations
