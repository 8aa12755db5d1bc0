"""The handler of jobs of kind `webhook`: sign, send, note what came of it.

It runs inside the server and, unlike other handlers, has the database; no transaction is open
while the receiver is asked.
"""

from __future__ import annotations

import time

import msgspec

from rushes import clock as clocks
from rushes import errors, events
from rushes.db.database import Database, Tx
from rushes.metrics import Metrics
from rushes.records import JsonObject
from rushes.settings import Settings
from rushes.webhooks import endpoints, messages, signing, store
from rushes.webhooks.store import ToSend
from rushes.webhooks.targets import DeliveryOutcome, WebhookSender
from rushes.webhooks.webhook import ALERTS_ID, FAILING, RESTS_AFTER, TEST, rest_ms
from rushes.worker.context import JobContext

GONE = 410
# Longer than a try takes; who has taken the turn and died gives it up by then.
TURN_MS = 60_000
SENTENCES = {
    "target_refused": "the receiver's address is not allowed",
    "webhook_disabled": "the webhook is disabled",
    "timeout": "the receiver did not answer in time",
    "tls_failed": "there is no trusted TLS connection to the receiver",
    "bad_answer": "the receiver did not answer in HTTP",
    "connection_failed": "the receiver cannot be reached",
}


class Deliver:
    """Call it with a `JobContext` whose arguments name a delivery."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        *,
        sender: WebhookSender | None = None,
        clock: clocks.Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._db = db
        self._metrics = metrics or Metrics()
        self._clock = clock or clocks.SystemClock()
        self._given_sender = sender
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """From the next message on."""
        self._alerts_url = settings.alert_webhook_url
        self._sender = self._given_sender or WebhookSender(
            timeout_seconds=settings.alert_webhook_timeout,
            allow_private=settings.webhook_private_targets,
        )

    def __call__(self, context: JobContext) -> JsonObject:
        delivery_id = str(context.args["delivery_id"])
        with self._db.read() as tx:
            delivery = store.to_send(tx, delivery_id)
        if delivery is None:
            return {"skipped": "the webhook or the delivery was deleted"}
        if delivery.delivered_at is not None:
            return {"skipped": "delivered before"}
        self._refuse_resting(delivery)
        began = time.monotonic()
        answer = self._send(delivery)
        self._metrics.webhook_tried(began, _outcome(answer))
        self._record(context.job_id, delivery, answer)
        if not answer.is_delivered:
            raise _failure(answer)
        return {"answer": answer.status}

    def _refuse_resting(self, delivery: ToSend) -> None:
        """A receiver that keeps failing is tried by one message at a time, and rarely; the others
        wait, and it costs them no attempt. A test is sent: somebody wants to know now."""
        if delivery.failures < RESTS_AFTER or delivery.type == TEST:
            return
        webhook_id = delivery.webhook_id
        if not self._db.run(lambda tx: store.take_turn(tx, webhook_id, TURN_MS)):
            raise errors.RetryLater(
                "the receiver keeps failing and is tried rarely", code="receiver_resting"
            )

    def _send(self, delivery: ToSend) -> DeliveryOutcome:
        if delivery.disabled_at is not None:
            return DeliveryOutcome(error_code="webhook_disabled")
        url = self._alerts_url if delivery.webhook_id == ALERTS_ID else delivery.url
        body = messages.shaped_for(url, delivery.body)
        secrets = [each for each in (delivery.secret, delivery.old_secret) if each]
        headers = signing.headers(delivery.id, self._clock.now(), body, secrets)
        return self._sender.post(url, headers, body)

    def _record(self, job_id: str, delivery: ToSend, answer: DeliveryOutcome) -> None:
        def record(tx: Tx) -> None:
            store.record_try(
                tx,
                delivery.id,
                job_id=job_id,
                answer=answer.status,
                error_code=answer.error_code,
            )
            if answer.is_delivered:
                _recovered(tx, delivery)
            else:
                _failed(tx, delivery, answer)
            # The address of the alerts is the operator's word; a receiver cannot take it back.
            if answer.status == GONE and delivery.webhook_id != ALERTS_ID:
                endpoints.update(tx, delivery.webhook_id, enabled=False)

        self._db.run(record)


def _recovered(tx: Tx, delivery: ToSend) -> None:
    store.forget_failures(tx, delivery.webhook_id)
    if delivery.failures >= RESTS_AFTER:
        store.hurry(tx, delivery.webhook_id)


def _failed(tx: Tx, delivery: ToSend, answer: DeliveryOutcome) -> None:
    webhook_id = delivery.webhook_id
    if answer.error_code == "webhook_disabled":
        return
    failures = store.note_failure(tx, webhook_id)
    if failures >= RESTS_AFTER:
        store.rest(tx, webhook_id, rest_ms(failures))
    # The alerts' own receiver would be told of itself.
    if failures == RESTS_AFTER and webhook_id != ALERTS_ID:
        host = endpoints.host_of(delivery.url)
        data = {"webhook_id": webhook_id, "host": host, "error_code": answer.error_code}
        told = msgspec.json.encode(data).decode()
        events.append(tx, FAILING, user_id=delivery.user_id, data=told)


def _outcome(answer: DeliveryOutcome) -> str:
    """One of few words, whatever receivers answer."""
    if answer.is_delivered:
        return "delivered"
    if answer.error_code in SENTENCES:
        return answer.error_code
    return f"answered_{(answer.status or 0) // 100}xx"


def _failure(answer: DeliveryOutcome) -> errors.JobOutcome:
    code = answer.error_code or ""
    sentence = SENTENCES.get(code, f"the receiver answered {answer.status}")
    if answer.status == GONE or code in ("target_refused", "webhook_disabled"):
        return errors.PermanentFailure(sentence, code=code)
    return errors.TransientFailure(sentence, code=code)
