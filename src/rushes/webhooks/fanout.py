"""From events to deliveries: each event is offered to every webhook once, in the order of events.

Deliveries, their jobs and the position reached are one transaction, so a crash repeats or loses
nothing. Any number of servers may run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rushes import events, ids
from rushes.db.database import Tx
from rushes.events import Event
from rushes.jobs.job import NewJob
from rushes.jobs.queue import Queue
from rushes.settings import Settings
from rushes.webhooks import alerts, messages, signing, store
from rushes.webhooks.webhook import ALERTS_ID, KIND, Subscriber, wants

PAGE = 500
MAX_ATTEMPTS = 8
# Far more than the longest time limit of a receiver.
ATTEMPT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A message to one webhook, before it has an id and a job."""

    webhook_id: str
    user_id: str
    type: str
    body: str


def fan_out(tx: Tx, queue: Queue, settings: Settings) -> int:
    """Tell of one page of events; returns how many that were, so that one can go on after PAGE."""
    head = store.lock_head(tx)
    if head is None:
        return 0
    # Before the webhooks: one that was there before an event must not miss it.
    page = events.read_since(tx, head.pos, PAGE)
    receivers = store.listening(tx)
    criers = _alert_receivers(tx, receivers, settings)
    if not receivers and not criers:
        store.move_head(tx, head.last)
        return 0
    drafts = _of_events(tx, page, receivers)
    if criers:
        cooldown_ms = int(settings.alert_rate_limit * 1000)
        found = alerts.find(tx, page)
        for type, body in alerts.due(tx, found, now=head.now, cooldown_ms=cooldown_ms):
            getting = [each for each in criers if wants(each.types, type)]
            drafts += [NewDelivery(each.id, each.user_id, type, body) for each in getting]
    send(tx, queue, drafts)
    if page:
        store.move_head(tx, page[-1].pos)
    return len(page)


def send(tx: Tx, queue: Queue, drafts: Sequence[NewDelivery]) -> list[str]:
    """Each draft becomes a delivery and a job that makes it; returns the deliveries' ids."""
    if not drafts:
        return []
    named = [(ids.new("dlv"), draft) for draft in drafts]
    queued = queue.enqueue_many(tx, [job_for(id, draft.user_id, draft.type) for id, draft in named])
    rows = [
        store.DeliveryRow(
            id=id,
            webhook_id=draft.webhook_id,
            type=draft.type,
            body=draft.body,
            job_id=job.id,
        )
        for (id, draft), job in zip(named, queued, strict=True)
    ]
    store.insert_deliveries(tx, rows)
    return [id for id, _ in named]


def job_for(delivery_id: str, user_id: str, type: str) -> NewJob:
    """Alerts, and all else that is for the operator's own address, have a lane of their own."""
    is_urgent = not user_id or type.startswith(alerts.PREFIX)
    return NewJob(
        kind=KIND,
        args={"delivery_id": delivery_id},
        user_id=user_id,
        priority="high" if is_urgent else "normal",
        dedupe_key=f"{KIND}:{delivery_id}",
        max_attempts=MAX_ATTEMPTS,
        timeout_seconds=ATTEMPT_SECONDS,
    )


def ensure_alerts_webhook(tx: Tx) -> None:
    """The row behind the setting; made once, with a secret of its own."""
    if store.get(tx, ALERTS_ID) is None:
        secret = signing.new_secret()
        store.insert(tx, ALERTS_ID, user_id="", url="", types='["alert.*"]', secret=secret)


def _alert_receivers(
    tx: Tx, receivers: Iterable[Subscriber], settings: Settings
) -> list[Subscriber]:
    """Alerts speak of everybody's work and of the fleet: for admins and the operator's address."""
    known = {alert.type for alert in alerts.Alert}
    criers = [
        each
        for each in receivers
        if each.is_admin and any(wants(each.types, type) for type in known)
    ]
    if settings.alert_webhook_url:
        ensure_alerts_webhook(tx)
        criers.append(
            Subscriber(
                id=ALERTS_ID, user_id="", types=frozenset({"alert.*"}), created_at=0, is_admin=True
            )
        )
    return criers


def _of_events(tx: Tx, page: Sequence[Event], receivers: Sequence[Subscriber]) -> list[NewDelivery]:
    told = [(event, [each for each in receivers if each.gets(event)]) for event in page]
    told = [(event, getting) for event, getting in told if getting]
    titles = store.titles(tx, {event.media_id for event, _ in told if event.media_id})
    drafts = []
    for event, getting in told:
        body = messages.of_event(event, titles.get(event.media_id or ""))
        drafts += [NewDelivery(each.id, each.user_id, event.type, body) for each in getting]
    return drafts
