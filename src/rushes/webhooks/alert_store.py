"""The SQL of alerts: what is held back of each type, and the facts that an event does not tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rushes.db.database import Tx
from rushes.records import from_row


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAlert:
    """When it was sent last, and what is held back since: how many incidents, since when, and the
    latest of them as JSON."""

    sent_at: int
    held: int
    held_since: int | None
    incidents: str


def held(tx: Tx) -> dict[str, HeldAlert]:
    """By type."""
    return {row["type"]: from_row(HeldAlert, row) for row in tx.all("SELECT * FROM alerts")}


def write(
    tx: Tx, type: str, *, sent_at: int, held: int, held_since: int | None, incidents: str
) -> None:
    tx.all(
        """
        INSERT INTO alerts (type, sent_at, held, held_since, incidents)
        VALUES (:type, :sent_at, :held, :held_since, :incidents)
        ON CONFLICT (type) DO UPDATE SET sent_at = excluded.sent_at, held = excluded.held,
            held_since = excluded.held_since, incidents = excluded.incidents""",
        type=type,
        sent_at=sent_at,
        held=held,
        held_since=held_since,
        incidents=incidents,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An attempt that came to grief, and how far back to look for others."""

    job_id: str
    epoch: int
    at: int
    window_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """How an attempt ended, what its job is, and how many jobs of its media had failed within
    `window_ms` before."""

    kind: str
    max_attempts: int
    claims: int
    outcome: str | None
    worker_name: str
    title: str | None
    failures: int


def job_facts(tx: Tx, troubles: Sequence[Trouble]) -> dict[tuple[str, int], JobFacts]:
    """By job and epoch."""
    rows = tx.all(
        """
        WITH given AS ({given:job_id text, epoch bigint, at bigint, window_ms bigint})
        SELECT jobs.id, attempts.epoch, jobs.kind, jobs.max_attempts, jobs.claims,
            attempts.outcome, attempts.worker_name, media.title,
            (SELECT count(*) FROM jobs AS other WHERE other.media_id = jobs.media_id
                AND other.division IS NULL
                AND other.failed_at <= given.at AND other.failed_at > given.at - given.window_ms
            ) AS failures
        FROM given JOIN jobs ON jobs.id = given.job_id
        JOIN attempts ON attempts.job_id = jobs.id AND attempts.epoch = given.epoch
        LEFT JOIN media ON media.id = jobs.media_id""",
        given=troubles,
    )
    return {(row["id"], row["epoch"]): from_row(JobFacts, row) for row in rows}


def worker_names(tx: Tx, ids: Iterable[str]) -> dict[str, str]:
    rows = tx.all(
        "WITH given AS ({given:id text}) SELECT workers.id, name FROM workers JOIN given"
        " ON given.id = workers.id",
        given=[{"id": id} for id in ids],
    )
    return {row["id"]: row["name"] for row in rows}
