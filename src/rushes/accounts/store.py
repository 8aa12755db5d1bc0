"""The SQL of users, sessions, tokens, links, worker keys, invites and failed sign-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushes import errors
from rushes.accounts.account import User
from rushes.db.database import Tx
from rushes.jobs.job import decode
from rushes.kinds import Grant
from rushes.records import Row, from_row

# Users


def add_user(tx: Tx, id: str, name: str, role: str, password_hash: str | None) -> None:
    row = tx.one(
        """
        INSERT INTO users (id, name, role, password_hash, created_at)
        VALUES (:id, :name, :role, :password_hash, {now})
        ON CONFLICT (name) DO NOTHING RETURNING id""",
        id=id,
        name=name,
        role=role,
        password_hash=password_hash,
    )
    if row is None:
        raise errors.AlreadyExists(f"there is a user {name} already")


def get_user(tx: Tx, id: str) -> User | None:
    row = tx.one("SELECT * FROM users WHERE id = :id", id=id)
    return User.from_row(row) if row else None


def user_by_name(tx: Tx, name: str) -> User | None:
    row = tx.one("SELECT * FROM users WHERE name = :name", name=name)
    return User.from_row(row) if row else None


def password_hash(tx: Tx, user_id: str) -> str | None:
    row = tx.one("SELECT password_hash FROM users WHERE id = :id", id=user_id)
    return row["password_hash"] if row else None


def all_users(tx: Tx) -> list[User]:
    return [User.from_row(row) for row in tx.all("SELECT * FROM users ORDER BY id")]


def first_admin(tx: Tx) -> User | None:
    row = tx.one(
        "SELECT * FROM users WHERE role = 'admin' AND disabled_at IS NULL ORDER BY id LIMIT 1"
    )
    return User.from_row(row) if row else None


def lock_admins(tx: Tx) -> None:
    """Of two changes at the same time, the second sees what the first has left of them."""
    tx.all("SELECT id FROM users WHERE role = 'admin' ORDER BY id {for_update}")


def change_user(tx: Tx, id: str, **values: Any) -> bool:
    """`values` are columns of ours: role, password_hash, quota_bytes."""
    assert set(values) <= {"role", "password_hash", "quota_bytes"}
    sets = ", ".join(f"{name} = :{name}" for name in values)
    return (
        tx.one(f"UPDATE users SET {sets} WHERE id = :id RETURNING id", id=id, **values) is not None
    )


def disable_user(tx: Tx, id: str, disabled: bool) -> bool:
    row = tx.one(
        "UPDATE users SET disabled_at = CASE WHEN :disabled = 1 THEN {now} END"
        " WHERE id = :id RETURNING id",
        id=id,
        disabled=int(disabled),
    )
    return row is not None


# Sessions


def add_session(
    tx: Tx, id: str, hash: str, user_id: str, label: str, *, lasts_ms: int, reset_ms: int | None
) -> None:
    """`reset_ms`: for how long it may set a password without the old one."""
    tx.all(
        """
        INSERT INTO sessions
            (id, hash, user_id, label, created_at, last_seen_at, expires_at, reset_until)
        VALUES (:id, :hash, :user_id, :label, {now}, {now}, {now} + :lasts_ms,
            {now} + CAST(:reset_ms AS bigint))""",
        id=id,
        hash=hash,
        user_id=user_id,
        label=label,
        lasts_ms=lasts_ms,
        reset_ms=reset_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """A session of an enabled user."""

    session_id: str
    last_seen_at: int
    reset_until: int | None
    now: int
    user: User


def session(tx: Tx, hash: str) -> LiveSession | None:
    row = tx.one(
        """
        SELECT sessions.id AS session_id, sessions.last_seen_at, sessions.reset_until,
            {now} AS now, users.*
        FROM sessions JOIN users ON users.id = sessions.user_id
        WHERE sessions.hash = :hash AND sessions.expires_at > {now}
          AND users.disabled_at IS NULL""",
        hash=hash,
    )
    return from_row(LiveSession, row, user=User.from_row(row)) if row else None


def touch_session(tx: Tx, id: str) -> None:
    tx.all("UPDATE sessions SET last_seen_at = {now} WHERE id = :id", id=id)


def use_reset(tx: Tx, id: str) -> bool:
    """Whether this live session might set a password without the old one; it no longer may."""
    row = tx.one(
        "UPDATE sessions SET reset_until = NULL"
        " WHERE id = :id AND reset_until > {now} AND expires_at > {now} RETURNING id",
        id=id,
    )
    return row is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """As its user sees it."""

    id: str
    label: str
    created_at: int
    last_seen_at: int
    expires_at: int


def sessions_of(tx: Tx, user_id: str) -> list[Session]:
    rows = tx.all(
        "SELECT id, label, created_at, last_seen_at, expires_at FROM sessions"
        " WHERE user_id = :user_id AND expires_at > {now} ORDER BY last_seen_at DESC",
        user_id=user_id,
    )
    return [from_row(Session, row) for row in rows]


def end_sessions(tx: Tx, user_id: str, *, only: str | None = None, besides: str = "") -> int:
    rows = tx.all(
        """
        DELETE FROM sessions WHERE user_id = :user_id AND id <> :besides
        AND (CAST(:only AS text) IS NULL OR id = :only) RETURNING id""",
        user_id=user_id,
        only=only,
        besides=besides,
    )
    return len(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds something open, and by what they came."""

    number: int
    user_id: str
    session_id: str | None
    token_id: str | None


def ended(tx: Tx, holders: Sequence[Holder]) -> set[int]:
    """Which of them may not go on: the user is disabled, or the session or token has ended."""
    rows = tx.all(
        """
        WITH given AS ({given:number bigint, user_id text, session_id text, token_id text})
        SELECT number FROM given
        WHERE EXISTS (SELECT 1 FROM users WHERE users.id = given.user_id
                AND disabled_at IS NOT NULL)
        OR (given.session_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sessions
            WHERE sessions.id = given.session_id AND expires_at > {now}))
        OR (given.token_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tokens
            WHERE tokens.id = given.token_id AND revoked_at IS NULL
            AND (expires_at IS NULL OR expires_at > {now})))""",
        given=holders,
    )
    return {int(row["number"]) for row in rows}


# Tokens


def add_token(
    tx: Tx,
    id: str,
    *,
    user_id: str,
    name: str,
    prefix: str,
    hash: str,
    scopes: str,
    lasts_ms: int | None,
) -> None:
    tx.all(
        """
        INSERT INTO tokens (id, user_id, name, prefix, hash, scopes, created_at, expires_at)
        VALUES (:id, :user_id, :name, :prefix, :hash, :scopes, {now},
                {now} + CAST(:lasts_ms AS bigint))""",
        id=id,
        user_id=user_id,
        name=name,
        prefix=prefix,
        hash=hash,
        scopes=scopes,
        lasts_ms=lasts_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveToken:
    """A token of an enabled user."""

    token_id: str
    hash: str
    scopes: list[str]
    last_used_at: int | None
    expires_at: int | None
    now: int
    user: User


def token(tx: Tx, prefix: str) -> LiveToken | None:
    row = tx.one(
        """
        SELECT tokens.id AS token_id, tokens.hash, tokens.scopes, tokens.last_used_at,
            tokens.expires_at, {now} AS now, users.*
        FROM tokens JOIN users ON users.id = tokens.user_id
        WHERE tokens.prefix = :prefix AND tokens.revoked_at IS NULL
          AND (tokens.expires_at IS NULL OR tokens.expires_at > {now})
          AND users.disabled_at IS NULL""",
        prefix=prefix,
    )
    if row is None:
        return None
    return from_row(LiveToken, row, user=User.from_row(row), scopes=decode(row["scopes"]))


def touch_token(tx: Tx, id: str) -> None:
    tx.all("UPDATE tokens SET last_used_at = {now} WHERE id = :id", id=id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """As its user sees it."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: int
    expires_at: int | None
    last_used_at: int | None


def tokens_of(tx: Tx, user_id: str) -> list[Token]:
    rows = tx.all(
        "SELECT id, name, prefix, scopes, created_at, expires_at, last_used_at FROM tokens"
        " WHERE user_id = :user_id AND revoked_at IS NULL ORDER BY id DESC",
        user_id=user_id,
    )
    return [from_row(Token, row, scopes=decode(row["scopes"])) for row in rows]


def count_tokens(tx: Tx, user_id: str) -> int:
    row = tx.one(
        "SELECT count(*) AS live FROM tokens WHERE user_id = :user_id AND revoked_at IS NULL"
        " AND (expires_at IS NULL OR expires_at > {now})",
        user_id=user_id,
    )
    return int(row["live"]) if row else 0


def revoke_token(tx: Tx, id: str, user_id: str) -> str | None:
    """The name of what was revoked; None when there was none."""
    row = tx.one(
        "UPDATE tokens SET revoked_at = {now}"
        " WHERE id = :id AND user_id = :user_id AND revoked_at IS NULL RETURNING name",
        id=id,
        user_id=user_id,
    )
    return row["name"] if row else None


# Links that sign in once


def add_link(tx: Tx, hash: str, user_id: str, lasts_ms: int) -> None:
    tx.all(
        "INSERT INTO signin_links (hash, user_id, expires_at)"
        " VALUES (:hash, :user_id, {now} + :lasts_ms)",
        hash=hash,
        user_id=user_id,
        lasts_ms=lasts_ms,
    )


def end_links(tx: Tx, user_id: str) -> None:
    tx.all("DELETE FROM signin_links WHERE user_id = :user_id AND used_at IS NULL", user_id=user_id)


def anybody_was_here(tx: Tx) -> bool:
    """Whether somebody has ever signed in, as far as that is remembered."""
    row = tx.one(
        """
        SELECT 1 AS found WHERE EXISTS (SELECT 1 FROM users WHERE password_hash IS NOT NULL)
        OR EXISTS (SELECT 1 FROM sessions) OR EXISTS (SELECT 1 FROM signin_links
            WHERE used_at IS NOT NULL) OR EXISTS (SELECT 1 FROM known_addresses)"""
    )
    return row is not None


def use_link(tx: Tx, hash: str) -> str | None:
    """The user whose link it is; None for all but the first caller."""
    row = tx.one(
        """
        UPDATE signin_links SET used_at = {now}
        WHERE hash = :hash AND used_at IS NULL AND expires_at > {now}
          AND user_id IN (SELECT id FROM users WHERE disabled_at IS NULL)
        RETURNING user_id""",
        hash=hash,
    )
    return row["user_id"] if row else None


# Failed sign-ins


def count_failures(tx: Tx, subject: str, within_ms: int) -> int:
    row = tx.one(
        "SELECT count(*) AS failures FROM signin_failures"
        " WHERE subject = :subject AND at > {now} - :within_ms",
        subject=subject,
        within_ms=within_ms,
    )
    return int(row["failures"]) if row else 0


@dataclass(frozen=True, slots=True)
class Failures:
    """How many, when the last was, and what time it is."""

    count: int
    last_at: int | None
    now: int


def failures(tx: Tx, subject: str, within_ms: int, *, besides: list[int]) -> Failures:
    row = tx.one(
        """
        SELECT count(*) AS count, max(at) AS last_at, {now} AS now FROM signin_failures
        WHERE subject = :subject AND at > {now} - :within_ms
        AND seq NOT IN ({given:seq bigint})""",
        subject=subject,
        within_ms=within_ms,
        given=[{"seq": number} for number in besides],
    )
    assert row is not None
    return from_row(Failures, row)


def note_address(tx: Tx, user_id: str, network: str) -> None:
    """This user has got in from there."""
    tx.all(
        """
        INSERT INTO known_addresses (user_id, network, seen_at) VALUES (:user_id, :network, {now})
        ON CONFLICT (user_id, network) DO UPDATE SET seen_at = excluded.seen_at""",
        user_id=user_id,
        network=network,
    )


def is_known_at(tx: Tx, name: str, network: str, within_ms: int) -> bool:
    row = tx.one(
        """
        SELECT 1 AS known FROM known_addresses JOIN users ON users.id = known_addresses.user_id
        WHERE users.name = :name AND network = :network AND seen_at > {now} - :within_ms""",
        name=name,
        network=network,
        within_ms=within_ms,
    )
    return row is not None


def add_failure(tx: Tx, subject: str) -> int:
    """Its number, to take it back by."""
    row = tx.one(
        "INSERT INTO signin_failures (subject, at) VALUES (:subject, {now}) RETURNING seq",
        subject=subject,
    )
    assert row is not None
    return int(row["seq"])


def drop_failures(tx: Tx, numbers: list[int]) -> None:
    given = [{"seq": number} for number in numbers]
    tx.all("DELETE FROM signin_failures WHERE seq IN ({given:seq bigint})", given=given)


def forget_failures(tx: Tx, subject: str) -> None:
    tx.all("DELETE FROM signin_failures WHERE subject = :subject", subject=subject)


# Worker keys and invites


def add_worker_key(tx: Tx, prefix: str, worker_id: str, hash: str, kinds: str | None) -> None:
    """`kinds`: what it is for, as JSON; None: all that may leave the server."""
    tx.all(
        "INSERT INTO worker_keys (prefix, worker_id, hash, kinds, created_at)"
        " VALUES (:prefix, :worker_id, :hash, :kinds, {now})",
        prefix=prefix,
        worker_id=worker_id,
        hash=hash,
        kinds=kinds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKey:
    prefix: str
    worker_id: str
    hash: str
    grant: Grant
    created_at: int


def worker_key(tx: Tx, prefix: str) -> WorkerKey | None:
    row = tx.one(
        "SELECT * FROM worker_keys WHERE prefix = :prefix AND revoked_at IS NULL", prefix=prefix
    )
    return _worker_key(row) if row else None


def newest_worker_key(tx: Tx, worker_id: str) -> WorkerKey | None:
    """Even if it is revoked."""
    row = tx.one(
        "SELECT * FROM worker_keys WHERE worker_id = :worker_id ORDER BY created_at DESC LIMIT 1",
        worker_id=worker_id,
    )
    return _worker_key(row) if row else None


def worker_keys(tx: Tx) -> list[WorkerKey]:
    rows = tx.all("SELECT * FROM worker_keys WHERE revoked_at IS NULL ORDER BY created_at")
    return [_worker_key(row) for row in rows]


def _worker_key(row: Row) -> WorkerKey:
    return from_row(WorkerKey, row, grant=_grant(row["kinds"]))


def _grant(kinds: str | None) -> Grant:
    return Grant() if kinds is None else Grant(tuple(decode(kinds)))


def remove_worker_keys(tx: Tx, worker_id: str) -> None:
    tx.all("DELETE FROM worker_keys WHERE worker_id = :worker_id", worker_id=worker_id)


def revoke_worker_key(tx: Tx, worker_id: str, prefix: str) -> bool:
    row = tx.one(
        "UPDATE worker_keys SET revoked_at = {now} WHERE worker_id = :worker_id"
        " AND prefix = :prefix AND revoked_at IS NULL RETURNING prefix",
        worker_id=worker_id,
        prefix=prefix,
    )
    return row is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invite:
    id: str
    name: str
    grant: Grant
    created_at: int
    expires_at: int


def add_invite(
    tx: Tx,
    id: str,
    hash: str,
    *,
    name: str,
    kinds: str | None,
    created_by: str,
    lasts_ms: int,
) -> Invite:
    row = tx.one(
        """
        INSERT INTO invites (id, hash, name, kinds, created_by, created_at, expires_at)
        VALUES (:id, :hash, :name, :kinds, :created_by, {now}, {now} + :lasts_ms)
        RETURNING *""",
        id=id,
        hash=hash,
        name=name,
        kinds=kinds,
        created_by=created_by,
        lasts_ms=lasts_ms,
    )
    assert row is not None
    return from_row(Invite, row, grant=_grant(row["kinds"]))


def use_invite(tx: Tx, hash: str, worker_id: str) -> Invite | None:
    """None when it was used, has expired or never was."""
    row = tx.one(
        """
        UPDATE invites SET used_at = {now}, worker_id = :worker_id
        WHERE hash = :hash AND used_at IS NULL AND expires_at > {now}
        RETURNING *""",
        hash=hash,
        worker_id=worker_id,
    )
    return from_row(Invite, row, grant=_grant(row["kinds"])) if row else None


def forget_expired(tx: Tx, *, keep_ms: int, known_ms: int) -> None:
    """Sessions, links, invites and failures that mean nothing any more."""
    tx.all("DELETE FROM known_addresses WHERE seen_at < {now} - :keep_ms", keep_ms=known_ms)
    for table, column in (
        ("sessions", "expires_at"),
        ("signin_links", "expires_at"),
        ("invites", "expires_at"),
        ("signin_failures", "at"),
        ("idempotency_keys", "created_at"),
    ):
        tx.all(f"DELETE FROM {table} WHERE {column} < {{now}} - :keep_ms", keep_ms=keep_ms)


# Idempotency keys: what was answered to a request that may come again


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """`fingerprint`: of the request. `body`: JSON."""

    fingerprint: str
    body: str


def kept_answer(tx: Tx, owner: str, key: str) -> KeptAnswer | None:
    row = tx.one(
        "SELECT fingerprint, body FROM idempotency_keys WHERE owner = :owner AND key = :key",
        owner=owner,
        key=key,
    )
    return from_row(KeptAnswer, row) if row else None


def forget_answer(tx: Tx, owner: str, key: str) -> None:
    tx.all("DELETE FROM idempotency_keys WHERE owner = :owner AND key = :key", owner=owner, key=key)


def keep_answer(tx: Tx, owner: str, key: str, fingerprint: str, body: str) -> bool:
    """False when the key is there already."""
    row = tx.one(
        """
        INSERT INTO idempotency_keys (owner, key, fingerprint, body, created_at)
        VALUES (:owner, :key, :fingerprint, :body, {now})
        ON CONFLICT (owner, key) DO NOTHING RETURNING key""",
        owner=owner,
        key=key,
        fingerprint=fingerprint,
        body=body,
    )
    return row is not None
