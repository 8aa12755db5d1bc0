"""Signing in and being recognised: passwords, links, sessions, tokens, worker keys, invites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from rushes import errors, ids, limits, worker_settings
from rushes.accounts import account, keys, passwords, security_log, store, throttle
from rushes.accounts.account import Principal, Role, Scope, User
from rushes.accounts.security_log import Action
from rushes.accounts.store import Invite
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState, FleetWorker
from rushes.jobs.job import WORD
from rushes.kinds import Grant, is_remote
from rushes.records import JsonObject

if TYPE_CHECKING:
    from pwdlib import PasswordHash

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
LINK_MS = 24 * HOUR_MS
# How long after a sign-in by link a password can be set without the old one.
RESET_MS = 15 * MINUTE_MS
INVITE_MS = 24 * HOUR_MS
# How old "last seen" may be before it is written again.
TOUCH_MS = MINUTE_MS


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
        try:
            add_user(tx, "admin", Role.ADMIN)
        except errors.AlreadyExists:
            # Another server that started at the same time, unless the name is a mere user's.
            if store.first_admin(tx) is None:
                raise
        admin = store.first_admin(tx)
    assert admin is not None
    return admin


def add_user(tx: Tx, name: str, role: Role = Role.USER, password_hash: str | None = None) -> User:
    user_id = ids.new("usr")
    store.add_user(tx, user_id, account.tidy_name(name), role, password_hash)
    user = _found(store.get_user(tx, user_id), user_id)
    security_log.record(tx, Action.USER_ADDED, user.name, user_id=user_id, role=role)
    return user


def set_password(
    tx: Tx, user_id: str, password_hash: str, *, session_id: str = "", is_reset: bool = False
) -> None:
    """A new password ends every session but the one it was set in, and links to sign in.
    `is_reset`: the old one was not asked for. That is good once."""
    may_reset = store.use_reset(tx, session_id)
    if is_reset and not may_reset:
        raise errors.Unauthorized("too late for a password without the old one")
    if not store.change_user(tx, user_id, password_hash=password_hash):
        raise errors.NotFound(f"no user {user_id}")
    ended = _end_all(tx, user_id, besides=session_id)
    user = _found(store.get_user(tx, user_id), user_id)
    action = Action.PASSWORD_RESET if is_reset else Action.PASSWORD_CHANGED
    security_log.record(tx, action, user.name, sessions_ended=ended)


def _end_all(tx: Tx, user_id: str, *, besides: str = "") -> int:
    """How many sessions have ended. Links first: who is using one at this moment either finds it
    gone, or is waited for, and their session is among those."""
    store.end_links(tx, user_id)
    return store.end_sessions(tx, user_id, besides=besides)


def set_disabled(tx: Tx, user_id: str, disabled: bool) -> User:
    """Someone must be left to enable the others again."""
    store.lock_admins(tx)
    user = _found(store.get_user(tx, user_id), user_id)
    store.disable_user(tx, user_id, disabled)
    if disabled:
        _end_all(tx, user_id)
        if store.first_admin(tx) is None:
            raise errors.WrongState("this is the last admin")
    if disabled != (user.disabled_at is not None):
        action = Action.USER_DISABLED if disabled else Action.USER_ENABLED
        security_log.record(tx, action, user.name, user_id=user_id)
    return _found(store.get_user(tx, user_id), user.id)


def change_user(tx: Tx, user_id: str, **values: Any) -> User:
    store.lock_admins(tx)
    before = _found(store.get_user(tx, user_id), user_id)
    if values:
        store.change_user(tx, user_id, **values)
    if store.first_admin(tx) is None:
        raise errors.WrongState("this is the last admin")
    user = _found(store.get_user(tx, user_id), user_id)
    if user != before:
        security_log.record(
            tx,
            Action.USER_CHANGED,
            user.name,
            user_id=user_id,
            role=user.role,
            quota_bytes=user.quota_bytes,
        )
    return user


# Passwords: slow on purpose, so never inside a transaction


@cache
def _hasher() -> PasswordHash:
    from pwdlib import PasswordHash

    return PasswordHash.recommended()


@cache
def _nobody() -> str:
    return _hasher().hash("nobody's password")


def hash_password(password: str, name: str) -> str:
    """Of a password that the user of this name has chosen; BadField if it is easy to guess."""
    return _hasher().hash(passwords.check(password, name))


def _verify(password: str, hash: str | None) -> bool:
    """Takes as long for a user who does not exist as for one who does."""
    right = _hasher().verify(password, hash or _nobody())
    return right and hash is not None


# Passwords of share links: their sender tells them to others, so they may be short


LINK_PASSWORD_LENGTHS = (6, passwords.LENGTHS[1])


def hash_link_password(password: str) -> str:
    shortest, longest = LINK_PASSWORD_LENGTHS
    if not shortest <= len(password) <= longest:
        raise errors.BadField("password", f"must have {shortest} to {longest} characters")
    return _hasher().hash(password)


def check_link_password(
    db: Database, media_id: str, kept: str, password: str, address: str
) -> None:
    """Raises WrongPassword; TooMany after too many of those, of this link or from this address."""
    # No user has a colon in the name.
    name = f"share:{media_id}"
    with throttle.throttled(db, address, name, by=f"share {media_id}"):
        if not _verify(password[: LINK_PASSWORD_LENGTHS[1]], kept):
            raise errors.WrongPassword("this is not the password of this link")
    db.run(lambda tx: throttle.forgive(tx, address, name))


# Signing in


def sign_in(db: Database, name: str, password: str, address: str) -> str:
    """The user's id. Raises Unauthorized whatever is wrong, TooMany after too many failures."""
    name = account.folded_name(name)[:64]
    with throttle.throttled(db, address, name):
        with db.read() as tx:
            user = store.user_by_name(tx, name)
            kept = store.password_hash(tx, user.id if user else "")
        right = _verify(password[: passwords.LENGTHS[1]], kept)
        if user is None or not right or user.disabled_at is not None:
            raise errors.Unauthorized("the name or the password is wrong")
    user_id = user.id

    def enter(tx: Tx) -> None:
        throttle.forgive(tx, address, name)
        store.note_address(tx, user_id, throttle.network_of(address))

    db.run(enter)
    return user_id


def make_link(tx: Tx, user_id: str) -> str:
    """A newer link ends the one before."""
    user = _found(store.get_user(tx, user_id), user_id)
    if user.disabled_at is not None:
        raise errors.WrongState(f"{user.name} is disabled: a link would not sign them in")
    secret = keys.make_plain()
    store.end_links(tx, user_id)
    store.add_link(tx, secret.hash, user_id, LINK_MS)
    security_log.record(tx, Action.LINK_MADE, user.name, user_id=user_id)
    return secret.text


def sign_in_by_link(tx: Tx, text: str, label: str, lasts_ms: int) -> str:
    """The cookie's value. The link's one use and the session it opens are one transaction."""
    user_id = store.use_link(tx, keys.digest(text))
    if user_id is None:
        raise errors.Unauthorized(
            "this sign-in link was used or has expired: 'rushes users link NAME' makes a new one"
        )
    return open_session(tx, user_id, label, lasts_ms, Action.SIGNED_IN_BY_LINK)


def open_session(tx: Tx, user_id: str, label: str, lasts_ms: int, how: Action) -> str:
    """The cookie's value."""
    secret = keys.make_plain()
    session_id = ids.new("ses")
    store.add_session(
        tx,
        session_id,
        secret.hash,
        user_id,
        label[:200],
        lasts_ms=lasts_ms,
        reset_ms=RESET_MS if how is Action.SIGNED_IN_BY_LINK else None,
    )
    user = _found(store.get_user(tx, user_id), user_id)
    security_log.record(tx, how, by=user, session_id=session_id)
    return secret.text


def sign_out(tx: Tx, user_id: str, session_id: str) -> None:
    if store.end_sessions(tx, user_id, only=session_id):
        security_log.record(tx, Action.SIGNED_OUT, session_id=session_id)


def end_session(tx: Tx, user_id: str, session_id: str) -> None:
    if not store.end_sessions(tx, user_id, only=session_id):
        raise errors.NotFound("no such session")
    security_log.record(tx, Action.SESSION_ENDED, session_id)


# Being recognised


def by_session(db: Database, cookie: str) -> Principal | None:
    with db.read() as tx:
        live = store.session(tx, keys.digest(cookie))
    if live is None:
        return None
    if live.now - live.last_seen_at > TOUCH_MS:
        db.run(lambda tx: store.touch_session(tx, live.session_id))
    user = live.user
    scope = Scope.ADMIN if user.role is Role.ADMIN else Scope.WRITE
    return Principal(
        user_id=user.id,
        name=user.name,
        role=user.role,
        scope=scope,
        session_id=live.session_id,
        may_reset=live.reset_until is not None and live.reset_until > live.now,
    )


def by_token(db: Database, text: str) -> Principal | None:
    prefix = keys.prefix_of(keys.KeyKind.TOKEN, text)
    if prefix is None:
        return None
    with db.read() as tx:
        live = store.token(tx, prefix)
    if not keys.matches(text, live.hash if live else "0" * 64) or live is None:
        return None
    if live.last_used_at is None or live.now - live.last_used_at > TOUCH_MS:
        db.run(lambda tx: store.touch_token(tx, live.token_id))
    user = live.user
    scope = account.check_scopes(live.scopes, Role.ADMIN)
    if scope is Scope.ADMIN and user.role is not Role.ADMIN:
        scope = Scope.WRITE
    return Principal(
        user_id=user.id,
        name=user.name,
        role=user.role,
        scope=scope,
        token_id=live.token_id,
        expires_at=live.expires_at,
    )


def as_admin(db: Database) -> Principal:
    """For the tokens that come from the settings or from this machine: the first admin."""
    with db.read() as tx:
        admin = store.first_admin(tx)
    if admin is None:
        admin = db.run(ensure_admin)
    return Principal(user_id=admin.id, name=admin.name, role=Role.ADMIN, scope=Scope.ADMIN)


def make_token(
    tx: Tx,
    user: User,
    name: str,
    scopes: list[str],
    lasts_seconds: float | None,
    *,
    most: int = 0,
) -> tuple[str, NewKey]:
    """`most`: how many a user may have."""
    account.check_scopes(scopes, user.role)
    limits.refuse_beyond(store.count_tokens(tx, user.id) + 1, most, "API tokens")
    secret = keys.make(keys.KeyKind.TOKEN)
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
    security_log.record(tx, Action.TOKEN_MADE, name, token=token_id, scopes=scopes)
    return token_id, NewKey(secret.text, secret.prefix)


def revoke_token(tx: Tx, token_id: str, user_id: str) -> None:
    name = store.revoke_token(tx, token_id, user_id)
    if name is None:
        raise errors.NotFound("no such token")
    security_log.record(tx, Action.TOKEN_REVOKED, name, token=token_id)


# Workers


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """A worker that has shown a key; what it may do depends on both."""

    worker: FleetWorker
    grant: Grant

    @property
    def id(self) -> str:
        return self.worker.id

    @property
    def name(self) -> str:
        return self.worker.name

    @property
    def kinds(self) -> list[str]:
        """Those that it has announced and that the key is for."""
        return [kind for kind in self.worker.kinds if self.grant.covers(kind)]


def register_worker(
    tx: Tx,
    name: str,
    grant: Grant,
    *,
    capabilities: Sequence[str] = (),
    metadata: JsonObject | None = None,
) -> tuple[str, NewKey]:
    worker_id = ids.new("wrk")
    fleet.register(tx, worker_id, name, capabilities=capabilities, metadata=metadata)
    security_log.record(tx, Action.WORKER_REGISTERED, name, worker_id=worker_id, kinds=grant.kinds)
    return worker_id, _new_worker_key(tx, worker_id, grant)


def add_worker_key(tx: Tx, worker_id: str, grant: Grant | None = None) -> NewKey:
    """For the kinds of the worker's newest key, if it is not said for which."""
    if grant is None:
        newest = store.newest_worker_key(tx, worker_id)
        grant = newest.grant if newest else Grant()
    security_log.record(
        tx, Action.WORKER_KEY_MADE, _worker_name(tx, worker_id), worker_id=worker_id
    )
    return _new_worker_key(tx, worker_id, grant)


def revoke_worker_key(tx: Tx, worker_id: str, prefix: str) -> None:
    if not store.revoke_worker_key(tx, worker_id, prefix):
        raise errors.NotFound("no such key")
    fleet.note_change(tx, worker_id)
    security_log.record(
        tx,
        Action.WORKER_KEY_REVOKED,
        _worker_name(tx, worker_id),
        worker_id=worker_id,
        prefix=prefix,
    )


STATE_ACTIONS = {
    AdminState.DISABLED: Action.WORKER_DISABLED,
    AdminState.ENABLED: Action.WORKER_ENABLED,
    AdminState.DRAINING: Action.WORKER_DRAINED,
}


def set_worker_state(tx: Tx, worker_id: str, state: AdminState) -> None:
    before = fleet.get(tx, worker_id)
    fleet.set_state(tx, worker_id, state)
    if before is not None and before.state is not state:
        security_log.record(tx, STATE_ACTIONS[state], before.name, worker_id=worker_id)


def set_worker_settings(tx: Tx, worker_id: str, said: JsonObject) -> None:
    """In place of what was said before; None: no longer. BadField for what makes no sense."""
    before = fleet.get(tx, worker_id)
    if before is None:
        raise errors.NotFound(f"no worker {worker_id}")
    before.check_settable(said)
    settings = worker_settings.changed(before.settings, said)
    fleet.set_settings(tx, worker_id, settings)
    if settings != before.settings:
        told = {name: worker_settings.plain(settings).get(name) for name in said}
        security_log.record(
            tx, Action.WORKER_CHANGED, before.name, worker_id=worker_id, settings=told
        )


def forget_workers(tx: Tx, *, unheard_ms: int, limit: int) -> int:
    """Those that are gone for good, with their keys; returns how many. Jobs and attempts still tell
    their names."""
    gone = fleet.gone(tx, unheard_ms=unheard_ms, limit=limit)
    for worker_id, name in gone.items():
        store.remove_worker_keys(tx, worker_id)
        fleet.remove(tx, worker_id)
        security_log.record(tx, Action.WORKER_FORGOTTEN, name, worker_id=worker_id)
    return len(gone)


def _worker_name(tx: Tx, worker_id: str) -> str:
    worker = fleet.get(tx, worker_id)
    return worker.name if worker else worker_id


def _new_worker_key(tx: Tx, worker_id: str, grant: Grant) -> NewKey:
    secret = keys.make(keys.KeyKind.WORKER)
    store.add_worker_key(tx, secret.prefix, worker_id, secret.hash, _granted(grant))
    return NewKey(secret.text, secret.prefix)


def grant_of(kinds: Sequence[str] | None) -> Grant:
    """Of the kinds that an admin has named; None: all that may leave the server."""
    if kinds is None:
        return Grant()
    for kind in kinds:
        if not WORD.fullmatch(kind):
            raise errors.BadField("kinds", f"{kind!r} is not the name of a kind")
        if not is_remote(kind):
            raise errors.BadField("kinds", f"jobs of the kind {kind!r} are run by the server alone")
    if not kinds:
        raise errors.BadField("kinds", "must name at least one kind")
    return Grant(tuple(sorted(set(kinds))))


def _granted(grant: Grant) -> str | None:
    return None if grant.kinds is None else msgspec.json.encode(grant.kinds).decode()


def by_worker_key(db: Database, text: str) -> KeyHolder | None:
    prefix = keys.prefix_of(keys.KeyKind.WORKER, text)
    if prefix is None:
        return None
    with db.read() as tx:
        key = store.worker_key(tx, prefix)
        if not keys.matches(text, key.hash if key else "0" * 64) or key is None:
            return None
        worker = fleet.get(tx, key.worker_id)
    return KeyHolder(worker, key.grant) if worker else None


def key_holders(tx: Tx) -> dict[str, KeyHolder]:
    """Of all keys that are good, by their digests."""
    workers = {each.id: each for each in fleet.all_workers(tx)}
    return {
        key.hash: KeyHolder(workers[key.worker_id], key.grant)
        for key in store.worker_keys(tx)
        if key.worker_id in workers
    }


def invite(tx: Tx, name: str, grant: Grant, created_by: str) -> tuple[Invite, str]:
    """The invite, and the code to use it by."""
    secret = keys.make_code()
    made = store.add_invite(
        tx,
        ids.new("inv"),
        secret.hash,
        name=name,
        kinds=_granted(grant),
        created_by=created_by,
        lasts_ms=INVITE_MS,
    )
    security_log.record(tx, Action.INVITE_MADE, name, invite_id=made.id, kinds=grant.kinds)
    return made, secret.text


def join(tx: Tx, code: str, name: str) -> tuple[str, str, Grant, NewKey]:
    """A code's one use: the worker's id, its name, what its key is for, and the key."""
    worker_id = ids.new("wrk")
    given = store.use_invite(tx, keys.digest(keys.tidy_code(code)), worker_id)
    if given is None:
        raise errors.Unauthorized("this join code was used, has expired or never was")
    name, grant = given.name or name, given.grant
    fleet.register(tx, worker_id, name)
    security_log.record(tx, Action.WORKER_JOINED, name, worker_id=worker_id, kinds=grant.kinds)
    return worker_id, name, grant, _new_worker_key(tx, worker_id, grant)


def _found(user: User | None, user_id: str) -> User:
    if user is None:
        raise errors.NotFound(f"no user {user_id}")
    return user
