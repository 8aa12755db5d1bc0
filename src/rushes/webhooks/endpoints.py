"""What people do with webhooks: add, list, change, test, redeliver. Verbs for the API.

They do not ask who is asking; with an `owner`, `get` raises NotFound for what is not yours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rushes import errors, ids
from rushes.accounts import security_log
from rushes.accounts.security_log import Action
from rushes.db.database import Tx
from rushes.jobs import store as jobs
from rushes.jobs.job import State
from rushes.jobs.queue import Queue
from rushes.jobs.read_store import now
from rushes.webhooks import fanout, messages, signing, store, targets
from rushes.webhooks.webhook import ALERTS_ID, TEST, Delivery, Webhook, check_types

WEBHOOKS_LIMIT = 50
PAGE_LIMIT = 200


def create(
    tx: Tx, user_id: str, url: str, types: Sequence[str], *, allow_private: bool = False
) -> Webhook:
    """The answer holds the secret; it is not shown again."""
    targets.check(url, allow_private=allow_private)
    wanted = check_types(types)
    if len(store.of_user(tx, user_id)) >= WEBHOOKS_LIMIT:
        raise errors.Conflict(f"there are {WEBHOOKS_LIMIT} webhooks already: delete one first")
    id, secret = ids.new("whk"), signing.new_secret()
    store.insert(tx, id, user_id=user_id, url=url, types=_encode(wanted), secret=secret)
    _tell(tx, Action.WEBHOOK_MADE, get(tx, id))
    return _with_secret(get(tx, id), secret)


def list_webhooks(tx: Tx, user_id: str) -> list[Webhook]:
    return store.of_user(tx, user_id)


def get(tx: Tx, webhook_id: str, *, owner: str | None = None) -> Webhook:
    """NotFound also when it belongs to somebody else than `owner`, if one is named."""
    webhook = store.get(tx, webhook_id)
    if webhook is None or (owner is not None and webhook.user_id != owner):
        raise errors.NotFound(f"no webhook {webhook_id}")
    return webhook


def update(
    tx: Tx,
    webhook_id: str,
    *,
    url: str | None = None,
    types: Sequence[str] | None = None,
    enabled: bool | None = None,
    allow_private: bool = False,
) -> Webhook:
    """Change what is given. Messages that wait go to the new URL."""
    before = get(tx, webhook_id)
    _refuse_built_in(webhook_id)
    if url is not None:
        targets.check(url, allow_private=allow_private)
    wanted = None if types is None else _encode(check_types(types))
    store.update(tx, webhook_id, url=url, types=wanted)
    if enabled is not None:
        (store.enable if enabled else store.disable)(tx, webhook_id)
    if url is not None or enabled:
        store.forget_failures(tx, webhook_id)
    after = get(tx, webhook_id)
    if (after.url, after.types, after.disabled_at) != (
        before.url,
        before.types,
        before.disabled_at,
    ):
        _tell(tx, Action.WEBHOOK_CHANGED, after, enabled=after.disabled_at is None)
    return after


def rotate_secret(tx: Tx, webhook_id: str, *, keep_old: bool = True) -> Webhook:
    """A new secret, shown in the answer. The old one signs beside it for a day, unless it leaked
    and must not (`keep_old`)."""
    webhook, secret = get(tx, webhook_id), signing.new_secret()
    store.rotate(tx, webhook_id, secret, keep_old=keep_old)
    _tell(tx, Action.WEBHOOK_SECRET_CHANGED, webhook, keep_old=keep_old)
    return _with_secret(webhook, secret)


def delete(tx: Tx, queue: Queue, webhook_id: str) -> None:
    """With all its deliveries; those that wait are canceled."""
    webhook = get(tx, webhook_id)
    _refuse_built_in(webhook_id)
    _tell(tx, Action.WEBHOOK_REMOVED, webhook)
    queue.cancel_many(tx, store.delete(tx, webhook_id))


def deliveries(
    tx: Tx, webhook_id: str, before: str | None = None, limit: int = 50
) -> list[Delivery]:
    """Newest first; `before` is the last id of the page before."""
    return store.deliveries(tx, webhook_id, before=before, limit=min(limit, PAGE_LIMIT))


def get_delivery(tx: Tx, webhook_id: str, delivery_id: str) -> Delivery:
    delivery = store.get_delivery(tx, delivery_id)
    if delivery is None or delivery.webhook_id != webhook_id:
        raise errors.NotFound(f"no delivery {delivery_id}")
    return delivery


def redeliver(tx: Tx, queue: Queue, webhook_id: str, delivery_id: str) -> Delivery:
    """The same message again, now: under its old id, by a new job. One that is being sent at this
    moment is left alone."""
    webhook = _enabled(tx, webhook_id)
    delivery = get_delivery(tx, webhook_id, delivery_id)
    # Somebody thinks that it may work now.
    store.rest(tx, webhook_id, 0)
    before = jobs.get(tx, delivery.job_id) if delivery.job_id else None
    if before is not None and before.state is State.QUEUED:
        queue.cancel_many(tx, [before.id])
    job = queue.enqueue(tx, fanout.job_for(delivery_id, webhook.user_id, delivery.type))
    if job.created:
        store.reopen(tx, delivery_id, job.id)
    return get_delivery(tx, webhook_id, delivery_id)


def send_test(tx: Tx, queue: Queue, webhook_id: str) -> Delivery:
    """A message of type `webhook.test`, whatever types the webhook asks for."""
    webhook = _enabled(tx, webhook_id)
    data = {"message": "This is a test from Rushes.", "webhook_id": webhook_id}
    body = messages.render(TEST, now(tx), data)
    [id] = fanout.send(tx, queue, [fanout.NewDelivery(webhook_id, webhook.user_id, TEST, body)])
    return get_delivery(tx, webhook_id, id)


def _tell(tx: Tx, action: Action, webhook: Webhook, **detail: Any) -> None:
    security_log.record(tx, action, host_of(webhook.url), webhook_id=webhook.id, **detail)


def host_of(url: str) -> str:
    """What may be told of a receiver: the rest of a URL is often a secret, as Slack's are."""
    return urlsplit(url).hostname or "alerts"


def _enabled(tx: Tx, webhook_id: str) -> Webhook:
    webhook = get(tx, webhook_id)
    if webhook.disabled_at is not None:
        raise errors.WrongState("the webhook is disabled: enable it first")
    return webhook


def _refuse_built_in(webhook_id: str) -> None:
    if webhook_id == ALERTS_ID:
        raise errors.Conflict("this webhook is the setting RUSHES_ALERT_WEBHOOK_URL: change that")


def _with_secret(webhook: Webhook, secret: str) -> Webhook:
    return dataclasses.replace(webhook, secret=secret)


def _encode(types: Sequence[str]) -> str:
    return msgspec.json.encode(types).decode()
