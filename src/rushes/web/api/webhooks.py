"""Webhooks: who is told of events, and what became of each message."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from rushes import clock, errors
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.web import auth, models, views
from rushes.web.http import idempotency
from rushes.web.http.problems import documented
from rushes.web.models import SHOWN_ONCE, Body, Cursor, Limit, Time
from rushes.web.services import Here
from rushes.webhooks import endpoints, fanout, webhook

router = APIRouter(prefix="/webhooks", tags=["webhooks"], responses=documented(401, 404, 409, 422))

WebhookId = Annotated[str, Path(max_length=100)]
Types = Annotated[list[Annotated[str, Field(max_length=128)]], Field(min_length=1, max_length=50)]


class WebhookRequest(Body):
    url: str = Field(max_length=2000)
    types: Types = Field(default_factory=lambda: ["*"])


class WebhookChange(Body):
    url: str | None = Field(None, max_length=2000)
    types: Types | None = None
    enabled: bool | None = None


class Rotation(Body):
    keep_old: bool = Field(True, description="Sign with the old secret, too, for a day.")


class Webhook(BaseModel):
    id: str
    url: str
    types: list[str]
    enabled: bool
    created_at: Time
    disabled_at: Time
    failures: int = Field(description="Tries in a row that failed.")
    failing_since: Time
    rest_until: Time = Field(
        description="Set while the receiver keeps failing and is tried rarely: when it is next."
    )
    secret: Annotated[str | None, SHOWN_ONCE] = Field(
        None, description="Only when it was just made."
    )


class Delivery(BaseModel):
    id: str
    type: str
    status: str
    body: str
    job_id: str | None
    tries: int
    answer: int | None
    error_code: str | None
    created_at: Time
    tried_at: Time
    delivered_at: Time


@router.get("")
def list_webhooks(who: auth.User, services: Here) -> models.Page[Webhook]:
    with services.db.read() as tx:
        found = endpoints.list_webhooks(tx, who.user_id)
    return models.Page(items=[_shown(each) for each in found])


@router.post("", status_code=201)
def create(body: WebhookRequest, who: auth.User, services: Here, once: idempotency.Once) -> Webhook:
    """The secret in the answer is shown only now."""
    private = services.settings.webhook_private_targets

    def add(tx: Tx) -> Webhook:
        made = endpoints.create(tx, who.user_id, body.url, body.types, allow_private=private)
        return _shown(made)

    return once.run(services, who, body, Webhook, add)


@router.get("/{webhook_id}")
def get(webhook_id: WebhookId, who: auth.User, services: Here) -> Webhook:
    with services.db.read() as tx:
        return _shown(_mine(tx, webhook_id, who))


@router.patch("/{webhook_id}")
def change(webhook_id: WebhookId, body: WebhookChange, who: auth.User, services: Here) -> Webhook:
    private = services.settings.webhook_private_targets

    def update(tx: Tx) -> Webhook:
        _mine(tx, webhook_id, who)
        changed = endpoints.update(tx, webhook_id, **body.model_dump(), allow_private=private)
        return _shown(changed)

    return services.db.run(update)


@router.delete("/{webhook_id}", status_code=204)
def delete(webhook_id: WebhookId, who: auth.User, services: Here) -> None:
    """With its deliveries; those that wait are canceled."""

    def remove(tx: Tx) -> None:
        _mine(tx, webhook_id, who)
        endpoints.delete(tx, services.queue, webhook_id)

    services.db.run(remove)


@router.post("/{webhook_id}/secret", status_code=201)
def rotate(
    webhook_id: WebhookId, body: Rotation, who: auth.User, services: Here, once: idempotency.Once
) -> Webhook:
    """A new secret, shown only now."""

    def change(tx: Tx) -> Webhook:
        _ensure_alerts(tx, webhook_id, who)
        _mine(tx, webhook_id, who)
        return _shown(endpoints.rotate_secret(tx, webhook_id, keep_old=body.keep_old))

    return once.run(services, who, body, Webhook, change)


@router.post("/{webhook_id}/test", status_code=202)
def test(webhook_id: WebhookId, who: auth.User, services: Here) -> Delivery:
    """Send a message of type `webhook.test`."""

    def send(tx: Tx) -> Delivery:
        if _ensure_alerts(tx, webhook_id, who) and not services.settings.alert_webhook_url:
            raise errors.WrongState("RUSHES_ALERT_WEBHOOK_URL is not set: set it first")
        _mine(tx, webhook_id, who)
        return _delivery(endpoints.send_test(tx, services.queue, webhook_id))

    return services.db.run(send)


@router.get("/{webhook_id}/deliveries")
def deliveries(
    webhook_id: WebhookId, who: auth.User, services: Here, cursor: Cursor = None, limit: Limit = 50
) -> models.Page[Delivery]:
    """Newest first."""
    with services.db.read() as tx:
        _mine(tx, webhook_id, who)
        found = endpoints.deliveries(tx, webhook_id, before=cursor, limit=limit)
    more = len(found) == limit
    items = [_delivery(each) for each in found]
    return models.Page(items=items, next_cursor=found[-1].id if more else None)


@router.post("/{webhook_id}/deliveries/{delivery_id}/redeliver", status_code=202)
def redeliver(
    webhook_id: WebhookId,
    delivery_id: Annotated[str, Path(max_length=100)],
    who: auth.User,
    services: Here,
) -> Delivery:
    """The same message again, under its old id."""

    def send(tx: Tx) -> Delivery:
        _mine(tx, webhook_id, who)
        return _delivery(endpoints.redeliver(tx, services.queue, webhook_id, delivery_id))

    return services.db.run(send)


def _mine(tx: Tx, webhook_id: str, who: Principal) -> webhook.Webhook:
    """The one of the settings belongs to no user: to the admins."""
    built_in = _is_alerts(webhook_id, who)
    return endpoints.get(tx, webhook_id, owner=None if built_in else who.user_id)


def _is_alerts(webhook_id: str, who: Principal) -> bool:
    return webhook_id == webhook.ALERTS_ID and who.is_admin


def _ensure_alerts(tx: Tx, webhook_id: str, who: Principal) -> bool:
    """Its row is made by the first alert; whoever tries it or wants its secret comes earlier."""
    if is_alerts := _is_alerts(webhook_id, who):
        fanout.ensure_alerts_webhook(tx)
    return is_alerts


def _shown(item: webhook.Webhook) -> Webhook:
    return Webhook(
        id=item.id,
        url=item.url,
        types=item.types,
        enabled=item.disabled_at is None,
        created_at=clock.rfc3339(item.created_at),
        disabled_at=clock.rfc3339(item.disabled_at),
        failures=item.failures,
        failing_since=clock.rfc3339(item.failing_since),
        rest_until=clock.rfc3339(item.rest_until),
        secret=item.secret,
    )


def _delivery(item: webhook.Delivery) -> Delivery:
    names = set(Delivery.model_fields) - {"status"}
    values = {name: views.said(name, getattr(item, name)) for name in names}
    return Delivery(**values, status=item.status)
