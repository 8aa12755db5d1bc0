"""The SQL of webhooks, their deliveries and alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from rushes.db.database import Tx
from rushes.records import from_row
from rushes.webhooks.webhook import Delivery, Subscriber, Webhook

# How long a replaced secret still signs.
OLD_SECRET_MS = 86_400_000
COLUMNS = "id, user_id, url, types, created_at, disabled_at, failures, failing_since, rest_until"
DELIVERIES = """SELECT deliveries.*, jobs.state AS job_state
    FROM deliveries LEFT JOIN jobs ON jobs.id = deliveries.job_id"""


def insert(tx: Tx, id: str, *, user_id: str, url: str, types: str, secret: str) -> bool:
    """False when there is one with this id already."""
    row = tx.one(
        """
        INSERT INTO webhooks (id, user_id, url, types, secret, created_at)
        VALUES (:id, :user_id, :url, :types, :secret, {now})
        ON CONFLICT (id) DO NOTHING RETURNING id""",
        id=id,
        user_id=user_id,
        url=url,
        types=types,
        secret=secret,
    )
    return row is not None


def get(tx: Tx, id: str) -> Webhook | None:
    row = tx.one(f"SELECT {COLUMNS} FROM webhooks WHERE id = :id", id=id)
    return Webhook.from_row(row) if row else None


def of_user(tx: Tx, user_id: str) -> list[Webhook]:
    rows = tx.all(
        f"SELECT {COLUMNS} FROM webhooks WHERE user_id = :user_id ORDER BY id", user_id=user_id
    )
    return [Webhook.from_row(row) for row in rows]


def update(tx: Tx, id: str, *, url: str | None, types: str | None) -> None:
    tx.all(
        "UPDATE webhooks SET url = coalesce(:url, url), types = coalesce(:types, types)"
        " WHERE id = :id",
        id=id,
        url=url,
        types=types,
    )


def enable(tx: Tx, id: str) -> None:
    tx.all("UPDATE webhooks SET disabled_at = NULL WHERE id = :id", id=id)


def disable(tx: Tx, id: str) -> None:
    tx.all("UPDATE webhooks SET disabled_at = coalesce(disabled_at, {now}) WHERE id = :id", id=id)


def rotate(tx: Tx, id: str, secret: str, *, keep_old: bool) -> None:
    tx.all(
        """
        UPDATE webhooks SET secret = :secret, rotated_at = {now},
            old_secret = CASE WHEN :keep_old = 1 THEN secret END
        WHERE id = :id""",
        id=id,
        secret=secret,
        keep_old=int(keep_old),
    )


def delete(tx: Tx, id: str) -> list[str]:
    """Returns the jobs that still had something to deliver."""
    live = tx.all(
        DELIVERIES
        + " WHERE webhook_id = :id AND jobs.state IN ('blocked', 'queued', 'processing')",
        id=id,
    )
    tx.all("DELETE FROM deliveries WHERE webhook_id = :id", id=id)
    tx.all("DELETE FROM webhooks WHERE id = :id", id=id)
    return [row["job_id"] for row in live]


# Fan-out


@dataclass(frozen=True, slots=True)
class Head:
    """How far events have been told, how far they go, and what time it is."""

    pos: int
    last: int
    now: int


def lock_head(tx: Tx) -> Head | None:
    """None while another server is at it."""
    row = tx.one(
        "SELECT pos, {now} AS now, (SELECT pos FROM event_head) AS last"
        " FROM webhook_head WHERE id = 1 {skip_locked}"
    )
    return from_row(Head, row) if row else None


def move_head(tx: Tx, pos: int) -> None:
    tx.all("UPDATE webhook_head SET pos = :pos WHERE id = 1", pos=pos)


def listening(tx: Tx) -> list[Subscriber]:
    """Enabled webhooks of people who may sign in, and whether they may see everything."""
    rows = tx.all(
        """
        SELECT webhooks.id, webhooks.user_id, webhooks.types, webhooks.created_at,
            CASE users.role WHEN 'admin' THEN 1 ELSE 0 END AS is_admin
        FROM webhooks JOIN users ON users.id = webhooks.user_id
        WHERE webhooks.disabled_at IS NULL AND users.disabled_at IS NULL
        ORDER BY webhooks.id"""
    )
    return [
        from_row(
            Subscriber,
            row,
            types=frozenset(msgspec.json.decode(row["types"])),
            is_admin=bool(row["is_admin"]),
        )
        for row in rows
    ]


def titles(tx: Tx, media_ids: Iterable[str]) -> dict[str, str]:
    rows = tx.all(
        "WITH given AS ({given:id text}) SELECT media.id, title FROM media JOIN given"
        " ON given.id = media.id",
        given=[{"id": id} for id in media_ids],
    )
    return {row["id"]: row["title"] for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    id: str
    webhook_id: str
    type: str
    body: str
    job_id: str


def insert_deliveries(tx: Tx, rows: Sequence[DeliveryRow]) -> None:
    tx.all(
        """
        INSERT INTO deliveries (id, webhook_id, type, body, job_id, created_at)
        SELECT id, webhook_id, type, body, job_id, {now} FROM ({given:id text, webhook_id text,
            type text, body text, job_id text}) AS given""",
        given=rows,
    )


# Delivering


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSend:
    """A delivery with what it takes to sign it; `old_secret` only while it still counts."""

    id: str
    webhook_id: str
    user_id: str
    type: str
    body: str
    delivered_at: int | None
    url: str
    disabled_at: int | None
    failures: int
    secret: str = field(repr=False)
    old_secret: str | None = field(repr=False)


def to_send(tx: Tx, delivery_id: str) -> ToSend | None:
    row = tx.one(
        """
        SELECT deliveries.id, webhook_id, type, body, delivered_at, url, secret, disabled_at,
            user_id, failures,
            CASE WHEN rotated_at > {now} - :keep_ms THEN old_secret END AS old_secret
        FROM deliveries JOIN webhooks ON webhooks.id = deliveries.webhook_id
        WHERE deliveries.id = :id""",
        id=delivery_id,
        keep_ms=OLD_SECRET_MS,
    )
    return from_row(ToSend, row) if row else None


def record_try(
    tx: Tx, delivery_id: str, *, job_id: str, answer: int | None, error_code: str | None
) -> None:
    """What came of a try; a success stays, whatever a second worker says later."""
    tx.all(
        """
        UPDATE deliveries SET tries = tries + 1, tried_at = {now}, answer = :answer,
            error_code = :error_code, job_id = :job_id,
            delivered_at = CASE WHEN :delivered = 1 THEN {now} END
        WHERE id = :id AND delivered_at IS NULL""",
        id=delivery_id,
        job_id=job_id,
        answer=answer,
        error_code=error_code,
        delivered=int(error_code is None),
    )


# Receivers that keep failing


def take_turn(tx: Tx, id: str, hold_ms: int) -> bool:
    """Whether a receiver that rests may be tried now: by one, while the others wait."""
    row = tx.one(
        """
        UPDATE webhooks SET rest_until = {now} + :hold_ms
        WHERE id = :id AND (rest_until IS NULL OR rest_until <= {now}) RETURNING id""",
        id=id,
        hold_ms=hold_ms,
    )
    return row is not None


def note_failure(tx: Tx, id: str) -> int:
    """How many in a row it are now; 0 when the webhook was deleted meanwhile."""
    row = tx.one(
        "UPDATE webhooks SET failures = failures + 1, failing_since = coalesce(failing_since,"
        " {now}) WHERE id = :id RETURNING failures",
        id=id,
    )
    return int(row["failures"]) if row else 0


def rest(tx: Tx, id: str, rest_ms: int) -> None:
    """Send nothing for so long; 0: the next message is tried."""
    tx.all(
        "UPDATE webhooks SET rest_until = {now} + :rest_ms WHERE id = :id", id=id, rest_ms=rest_ms
    )


def forget_failures(tx: Tx, id: str) -> None:
    tx.all(
        "UPDATE webhooks SET failures = 0, failing_since = NULL, rest_until = NULL"
        " WHERE id = :id AND failures > 0",
        id=id,
    )


def hurry(tx: Tx, id: str) -> None:
    """The receiver is back: jobs that wait with a message for it are let off the rest of their
    pauses."""
    tx.all(
        "UPDATE jobs SET run_at = {now} WHERE state = 'queued' AND run_at > {now} AND id IN"
        " (SELECT job_id FROM deliveries WHERE webhook_id = :id AND delivered_at IS NULL)",
        id=id,
    )


def get_delivery(tx: Tx, id: str) -> Delivery | None:
    row = tx.one(DELIVERIES + " WHERE deliveries.id = :id", id=id)
    return Delivery.from_row(row) if row else None


def deliveries(tx: Tx, webhook_id: str, *, before: str | None, limit: int) -> list[Delivery]:
    rows = tx.all(
        DELIVERIES
        + " WHERE webhook_id = :webhook_id AND deliveries.id < :before"
        + " ORDER BY deliveries.id DESC LIMIT :limit",
        webhook_id=webhook_id,
        before=before or "~",
        limit=limit,
    )
    return [Delivery.from_row(row) for row in rows]


def reopen(tx: Tx, id: str, job_id: str) -> None:
    tx.all(
        "UPDATE deliveries SET job_id = :job_id, delivered_at = NULL, error_code = NULL,"
        " answer = NULL WHERE id = :id",
        id=id,
        job_id=job_id,
    )


def forget_deliveries(tx: Tx, *, keep_ms: int, limit: int = 1_000) -> int:
    """Old ones whose job has ended, oldest first; returns how many."""
    gone = tx.all(
        """
        WITH picked AS MATERIALIZED (
            SELECT id FROM deliveries WHERE created_at < {now} - :keep_ms
            AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = deliveries.job_id
                AND jobs.state IN ('blocked', 'queued', 'processing'))
            ORDER BY created_at LIMIT :limit)
        DELETE FROM deliveries WHERE id IN (SELECT id FROM picked) RETURNING id""",
        keep_ms=keep_ms,
        limit=limit,
    )
    return len(gone)


def any_enabled(tx: Tx) -> bool:
    return tx.one("SELECT id FROM webhooks WHERE disabled_at IS NULL LIMIT 1") is not None


# Alerts: what is held back of each type, and the facts that an event does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAlert:
    """When it was sent last, and what is held back since: how many incidents, since when, and the
    latest of them as JSON."""

    sent_at: int
    held: int
    held_since: int | None
    incidents: str


def held_alerts(tx: Tx) -> dict[str, HeldAlert]:
    """By type."""
    return {row["type"]: from_row(HeldAlert, row) for row in tx.all("SELECT * FROM alerts")}


def write_alert(
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
