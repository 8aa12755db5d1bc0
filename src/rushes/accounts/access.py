"""Signing in and being recognised: passwords, links, sessions, tokens, worker keys, invites."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from rushes import errors, ids
from rushes.accounts import account, keys, store
from rushes.accounts.account import Principal, Role, Scope, User
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import Worker

if TYPE_CHECKING:
    from pwdlib import PasswordHash

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
LINK_MS = 24 * HOUR_MS
INVITE_MS = 24 * HOUR_MS
FAILURE_WINDOW_MS = 15 * MINUTE_MS
FAILURES_PER_NAME, FAILURES_PER_ADDRESS = 6, 30
# How old "last seen" may be before it is written again.
TOUCH_MS = MINUTE_MS
# argon2 takes 64 MB each time; a crowd at the door must not take all memory.
_hashing = threading.Semaphore(2)


@dataclass(frozen=True, slots=True)
class NewKey:
    """`text` is shown once and never again."""

    text: str
    prefix: str


# Users


def ensure_admin(tx: Tx) -> User:
    """The first admin; made when there is none, without a password."""
    admin = store.first_admin(tx)
    if admin is None:
        store.add_user(tx, ids.new("usr"), "admin", Role.ADMIN, None)
        admin = store.first_admin(tx)
    assert admin is not None
    return admin


def add_user(tx: Tx, name: str, role: Role = Role.USER, password_hash: str | None = None) -> User:
    user_id = ids.new("usr")
    store.add_user(tx, user_id, account.tidy_name(name), role, password_hash)
    return _found(store.get_user(tx, user_id), user_id)


def set_password(tx: Tx, user_id: str, password_hash: str, *, besides: str = "") -> None:
    """A new password ends every session but the one it was set in."""
    if not store.change_user(tx, user_id, password_hash=password_hash):
        raise errors.NotFound(f"no user {user_id}")
    store.end_sessions(tx, user_id, besides=besides)


def set_disabled(tx: Tx, user_id: str, disabled: bool) -> User:
    """Someone must be left to enable the others again."""
    store.lock_admins(tx)
    user = _found(store.get_user(tx, user_id), user_id)
    store.disable_user(tx, user_id, disabled)
    if disabled:
        store.end_sessions(tx, user_id)
        if store.first_admin(tx) is None:
            raise errors.WrongState("this is the last admin")
    return _found(store.get_user(tx, user_id), user.id)


def change_user(tx: Tx, user_id: str, **values: Any) -> User:
    store.lock_admins(tx)
    if values:
        store.change_user(tx, user_id, **values)
    if store.first_admin(tx) is None:
        raise errors.WrongState("this is the last admin")
    return _found(store.get_user(tx, user_id), user_id)


# Passwords: slow on purpose, so never inside a transaction


@cache
def _hasher() -> PasswordHash:
    from pwdlib import PasswordHash

    return PasswordHash.recommended()


@cache
def _nobody() -> str:
    return _hasher().hash("nobody's password")


def hash_password(password: str) -> str:
    with _hashing:
        return _hasher().hash(account.check_password(password))


def _verify(password: str, hash: str | None) -> bool:
    """Takes as long for a user who does not exist as for one who does."""
    with _hashing:
        right = _hasher().verify(password, hash or _nobody())
    return right and hash is not None


# Signing in


def sign_in(db: Database, name: str, password: str, address: str) -> str:
    """The user's id. Raises Unauthorized whatever is wrong, TooMany after too many failures."""
    name = account.folded_name(name)[:64]
    with throttled(db, address, name):
        with db.read() as tx:
            row = store.user_by_name(tx, name)
        kept = row["password_hash"] if row else None
        right = _verify(password[: account.PASSWORD_LENGTHS[1]], kept)
        if row is None or not right or row["disabled_at"] is not None:
            raise errors.Unauthorized("the name or the password is wrong")
    db.run(lambda tx: store.forget_failures(tx, f"name:{name}|{address}"))
    return str(row["id"])


@contextmanager
def throttled(db: Database, address: str, name: str | None = None) -> Iterator[None]:
    """Around a try to get in. Counted in the database, so that all servers agree; nobody is locked
    out for good."""
    # As a failure until it is none: many tries at the same time see each other.
    tries = db.run(lambda tx: [store.add_failure(tx, each) for each in _subjects(address, name)])
    has_failed = False
    try:
        _refuse_crowd(db, address, name)
        yield
    except errors.Unauthorized as error:
        has_failed = not isinstance(error, errors.TooMany)
        raise
    finally:
        if not has_failed:
            db.run(lambda tx: store.drop_failures(tx, tries))


def _refuse_crowd(db: Database, address: str, name: str | None) -> None:
    with db.read() as tx:
        for subject, limit in _subjects(address, name).items():
            if store.count_failures(tx, subject, FAILURE_WINDOW_MS) > limit:
                raise errors.TooMany("too many failed tries: wait a quarter of an hour")


def _subjects(address: str, name: str | None) -> dict[str, int]:
    subjects = {f"from:{address}": FAILURES_PER_ADDRESS}
    if name is not None:
        subjects[f"name:{name}|{address}"] = FAILURES_PER_NAME
    return subjects


def make_link(tx: Tx, user_id: str) -> str:
    secret = keys.make_plain()
    store.add_link(tx, secret.hash, user_id, LINK_MS)
    return secret.text


def use_link(tx: Tx, text: str) -> str:
    user_id = store.use_link(tx, keys.digest(text))
    if user_id is None:
        raise errors.Unauthorized(
            "this sign-in link was used or has expired: 'rushes users link NAME' makes a new one"
        )
    return user_id


def open_session(tx: Tx, user_id: str, label: str, lasts_ms: int) -> str:
    """The cookie's value."""
    secret = keys.make_plain()
    store.add_session(tx, ids.new("ses"), secret.hash, user_id, label[:200], lasts_ms)
    return secret.text


# Being recognised


def by_session(db: Database, cookie: str) -> Principal | None:
    with db.read() as tx:
        row = store.session(tx, keys.digest(cookie))
    if row is None:
        return None
    if row["now"] - row["last_seen_at"] > TOUCH_MS:
        db.run(lambda tx: store.touch_session(tx, row["session_id"]))
    role = Role(row["role"])
    scope = Scope.ADMIN if role is Role.ADMIN else Scope.WRITE
    return Principal(
        user_id=row["id"], name=row["name"], role=role, scope=scope, session_id=row["session_id"]
    )


def by_token(db: Database, text: str) -> Principal | None:
    prefix = keys.prefix_of(keys.Kind.TOKEN, text)
    if prefix is None:
        return None
    with db.read() as tx:
        row = store.token(tx, prefix)
    if not keys.matches(text, row["hash"] if row else "0" * 64) or row is None:
        return None
    if row["last_used_at"] is None or row["now"] - row["last_used_at"] > TOUCH_MS:
        db.run(lambda tx: store.touch_token(tx, row["token_id"]))
    role = Role(row["role"])
    scope = account.check_scopes(msgspec.json.decode(row["scopes"]), Role.ADMIN)
    if scope is Scope.ADMIN and role is not Role.ADMIN:
        scope = Scope.WRITE
    return Principal(
        user_id=row["id"],
        name=row["name"],
        role=role,
        scope=scope,
        token_id=row["token_id"],
        expires_at=row["expires_at"],
    )


def as_admin(db: Database) -> Principal:
    """For the tokens that come from the settings or from this machine: the first admin."""
    with db.read() as tx:
        admin = store.first_admin(tx)
    if admin is None:
        admin = db.run(ensure_admin)
    return Principal(user_id=admin.id, name=admin.name, role=Role.ADMIN, scope=Scope.ADMIN)


def make_token(
    tx: Tx, user: User, name: str, scopes: list[str], lasts_seconds: float | None
) -> tuple[str, NewKey]:
    account.check_scopes(scopes, user.role)
    secret = keys.make(keys.Kind.TOKEN)
    token_id = ids.new("tok")
    store.add_token(
        tx,
        token_id,
        user_id=user.id,
        name=name,
        prefix=secret.prefix,
        hash=secret.hash,
        scopes=msgspec.json.encode(scopes).decode(),
        lasts_ms=None if lasts_seconds is None else int(lasts_seconds * 1000),
    )
    return token_id, NewKey(secret.text, secret.prefix)


# Workers


def register_worker(tx: Tx, name: str) -> tuple[str, NewKey]:
    worker_id = ids.new("wrk")
    fleet.register(tx, worker_id, name)
    return worker_id, add_worker_key(tx, worker_id)


def add_worker_key(tx: Tx, worker_id: str) -> NewKey:
    secret = keys.make(keys.Kind.WORKER)
    store.add_worker_key(tx, secret.prefix, worker_id, secret.hash)
    return NewKey(secret.text, secret.prefix)


def by_worker_key(db: Database, text: str) -> Worker | None:
    prefix = keys.prefix_of(keys.Kind.WORKER, text)
    if prefix is None:
        return None
    with db.read() as tx:
        row = store.worker_key(tx, prefix)
        if not keys.matches(text, row["hash"] if row else "0" * 64) or row is None:
            return None
        return fleet.get(tx, row["worker_id"])


def invite(tx: Tx, name: str, created_by: str) -> tuple[dict[str, Any], str]:
    secret = keys.make_code()
    row = store.add_invite(tx, ids.new("inv"), secret.hash, name, created_by, INVITE_MS)
    return row, secret.text


def join(tx: Tx, code: str, name: str) -> tuple[str, str, NewKey]:
    """A code's one use: the worker's id, its name and its key."""
    worker_id = ids.new("wrk")
    given = store.use_invite(tx, keys.digest(keys.tidy_code(code)), worker_id)
    if given is None:
        raise errors.Unauthorized("this join code was used, has expired or never was")
    fleet.register(tx, worker_id, given or name)
    return worker_id, given or name, add_worker_key(tx, worker_id)


def _found(user: User | None, user_id: str) -> User:
    if user is None:
        raise errors.NotFound(f"no user {user_id}")
    return user
