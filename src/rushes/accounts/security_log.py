"""Who has got in, who has tried to, and what was changed about who may: for admins to read.

Written in the transaction of what it tells, so that neither is there without the other. What was
typed is never kept: it may be a password in the wrong field.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec

from rushes import ids, sanitize
from rushes.accounts import security_store
from rushes.accounts.account import Principal, User
from rushes.db.database import Database, Tx

log = logging.getLogger("rushes.security")

# What strangers can bring about as often as they like is told once in so long.
SELDOM_MS = 15 * 60_000


class Action(StrEnum):
    SIGNED_IN = "signin.password"
    SIGNED_IN_BY_LINK = "signin.link"
    SIGN_IN_FAILED = "signin.failed"
    SIGN_IN_THROTTLED = "signin.throttled"
    SIGNED_OUT = "signout"
    SESSION_ENDED = "session.ended"
    PASSWORD_CHANGED = "password.changed"
    PASSWORD_RESET = "password.reset"
    LINK_MADE = "link.made"
    USER_ADDED = "user.added"
    USER_CHANGED = "user.changed"
    USER_DISABLED = "user.disabled"
    USER_ENABLED = "user.enabled"
    TOKEN_MADE = "token.made"
    TOKEN_REVOKED = "token.revoked"
    KEY_REFUSED = "key.refused"
    KEY_THROTTLED = "key.throttled"
    WORKER_REGISTERED = "worker.registered"
    WORKER_JOINED = "worker.joined"
    WORKER_KEY_MADE = "worker_key.made"
    WORKER_KEY_REVOKED = "worker_key.revoked"
    WORKER_DISABLED = "worker.disabled"
    WORKER_ENABLED = "worker.enabled"
    WORKER_DRAINED = "worker.drained"
    WORKER_CHANGED = "worker.changed"
    WORKER_FORGOTTEN = "worker.forgotten"
    INVITE_MADE = "invite.made"
    SHARE_MADE = "share.made"
    SHARE_CHANGED = "share.changed"
    SHARE_REMOVED = "share.removed"
    WEBHOOK_MADE = "webhook.made"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_REMOVED = "webhook.removed"
    WEBHOOK_SECRET_CHANGED = "webhook.secret_changed"
    SETTING_CHANGED = "setting.changed"
    ACCESS_DENIED = "access.denied"


ALARMING = {
    Action.SIGN_IN_FAILED,
    Action.SIGN_IN_THROTTLED,
    Action.KEY_REFUSED,
    Action.KEY_THROTTLED,
    Action.ACCESS_DENIED,
}


@dataclass(slots=True)
class Visit:
    """The request that is being answered, and who was recognised in it. One object for all threads
    that work on it: what a thread sets in its own context, the others do not see."""

    address: str | None = None
    request_id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    token_id: str | None = None

    def is_by(self, who: Principal) -> None:
        self.user_id, self.user_name, self.token_id = who.user_id, who.name, who.token_id


# Set for each request by `guard`; without one, it is the server itself that acts.
visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def record(
    tx: Tx, action: Action, subject: str = "", *, by: User | None = None, **detail: Any
) -> None:
    """`subject` is what it is about, by name; `by` is who, when the request has not shown it."""
    here = visit.get() or Visit()
    user_id, user_name = (by.id, by.name) if by else (here.user_id, here.user_name)
    if here.token_id and by is None:
        detail["token_id"] = here.token_id
    subject = sanitize.word(subject) or ""
    security_store.add(
        tx,
        ids.new("sec"),
        type=action,
        user_id=user_id,
        user_name=user_name,
        address=here.address,
        request_id=here.request_id,
        subject=subject,
        detail=msgspec.json.encode(sanitize.tree(detail)).decode(),
    )
    level = logging.WARNING if action in ALARMING else logging.INFO
    line = f"{action} by {user_name or 'nobody'} from {here.address or 'here'}: {subject or '-'}"
    tx.wake_after_commit(partial(log.log, level, "%s (%s)", line, here.request_id))


def record_seldom(
    db: Database, action: Action, subject: str = "", *, by: User | None = None
) -> None:
    """In a transaction of its own, since what it tells has changed nothing; once in a while for
    the same subject, person and address."""
    here = visit.get() or Visit()
    with db.read() as tx:
        is_told = security_store.is_told(
            tx,
            type=action,
            user_id=by.id if by else here.user_id,
            address=here.address,
            subject=sanitize.word(subject) or "",
            within_ms=SELDOM_MS,
        )
    if not is_told:
        db.run(lambda tx: record(tx, action, subject, by=by))
