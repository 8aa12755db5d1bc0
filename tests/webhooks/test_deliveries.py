"""What happens to a message on its way: retries, crashes, refusals, chats, and doing it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from rushes import errors
from rushes.jobs.job import State
from rushes.webhooks import endpoints, messages, store
from rushes.webhooks.deliver import Deliver
from rushes.webhooks.targets import DeliveryOutcome, WebhookSender
from rushes.webhooks.webhook import Webhook
from webhooks.receivers import Receiver, WebhookHarness, answer, names_lead_to, receiver
from world import World


def tell_one(harness: WebhookHarness, url: str) -> Webhook:
    """One message on its way to `url`."""
    user = harness.user("ada")
    hook = harness.hook(user, url, "noop.queued")
    harness.world.enqueue(user_id=user)
    harness.fan_out()
    return hook


def test_a_receiver_that_fails_is_asked_again_later(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(500) as target:
        hook = tell_one(harness, target.url)
        assert harness.work() == {"queued": 1}
        assert harness.work() == {"queued": 1}
        assert len(target.received) == 1
        [delivery] = harness.deliveries(hook.id)
        assert (delivery.status, delivery.error_code, delivery.answer) == (
            "pending",
            "http_500",
            500,
        )
        target.respond = lambda request: answer(request, 200)
        world.advance(3600)
        assert harness.work() == {"completed": 1}
        [delivery] = harness.deliveries(hook.id)
    assert (delivery.status, delivery.error_code, delivery.tries) == ("delivered", None, 2)
    first, second = target.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_after_eight_tries_it_has_failed_for_all_to_see(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(503) as target:
        hook = tell_one(harness, target.url)
        for _ in range(10):
            harness.work()
            world.advance(3600)
        [delivery] = harness.deliveries(hook.id)
        assert len(target.received) == 8
    assert (delivery.status, delivery.error_code, delivery.tries) == ("failed", "http_503", 8)
    assert delivery.job_id is not None
    job = world.job(delivery.job_id)
    assert (job.state, job.error_code) == (State.FAILED, "http_503")
    assert job.last_error == "the receiver answered 503"


def test_a_receiver_that_is_gone_is_not_asked_again(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(410) as target:
        hook = tell_one(harness, target.url)
        assert harness.work() == {"failed": 1}
        assert harness.get(hook.id).disabled_at is not None
        world.enqueue(user_id=hook.user_id)
        assert harness.round() == {"failed": 1}
        assert len(target.received) == 1


def test_a_disabled_webhook_keeps_what_waits_and_sends_nothing(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        hook = tell_one(harness, target.url)
        world.run(lambda tx: endpoints.update(tx, hook.id, enabled=False))
        assert harness.work() == {"failed": 1}
        assert target.received == []
        [delivery] = harness.deliveries(hook.id)
        assert (delivery.status, delivery.error_code) == ("failed", "webhook_disabled")


def test_a_target_that_has_become_private_is_refused_for_good(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        url = f"http://moved.example:{target.port}/"
        hook = tell_one(harness, url)
        harness.use(names_lead_to({"moved.example": ["127.0.0.1"]}, allow_private=False))
        assert harness.work() == {"failed": 1}
        assert target.received == []
    [delivery] = harness.deliveries(hook.id)
    assert delivery.error_code == "target_refused"
    assert delivery.job_id is not None
    assert "127.0.0.1" not in str(world.job(delivery.job_id))


def test_a_server_that_dies_before_sending_loses_nothing(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        tell_one(harness, target.url)
        world.claim(world.worker(kinds=["webhook"]))
        world.live(100)
        again = WebhookHarness(world)
        assert again.work() == {"completed": 1}
        assert len(target.received) == 1


def test_a_server_that_dies_after_sending_sends_again_under_the_same_id(world: World) -> None:
    """At least once: the receiver has it, but nobody noted that."""
    harness = WebhookHarness(world)
    with receiver() as target:
        hook = tell_one(harness, target.url)
        harness.use(DyingSender(timeout_seconds=5, allow_private=True))
        with pytest.raises(SystemExit):
            harness.work()
        world.live(100)
        assert WebhookHarness(world).work() == {"completed": 1}
        [delivery] = harness.deliveries(hook.id)
        assert [each.headers["webhook-id"] for each in target.received] == [delivery.id] * 2


class DyingSender(WebhookSender):
    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryOutcome:
        super().post(url, headers, body)
        raise SystemExit


def test_what_was_noted_as_delivered_is_not_sent_again_by_the_same_job(world: World) -> None:
    """The server died between the note and the end of the job."""
    harness = WebhookHarness(world)
    with receiver() as target:
        hook = tell_one(harness, target.url)
        [delivery] = harness.deliveries(hook.id)
        world.run(
            lambda tx: store.record_try(
                tx, delivery.id, job_id=delivery.job_id or "", answer=200, error_code=None
            )
        )
        assert harness.work() == {"completed": 1}
        assert target.received == []


def test_a_late_failure_does_not_undo_a_success(world: World) -> None:
    harness = WebhookHarness(world)
    hook = tell_one(harness, "http://127.0.0.1:9/")
    [delivery] = harness.deliveries(hook.id)
    for code in (None, "timeout"):
        world.run(
            lambda tx: store.record_try(
                tx,
                delivery.id,
                job_id="job_1",
                answer=None,
                error_code=code,  # noqa: B023
            )
        )
    [delivery] = harness.deliveries(hook.id)
    assert delivery.delivered_at is not None
    assert delivery.error_code is None


def test_a_delivery_can_be_repeated(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        hook = tell_one(harness, target.url)
        harness.work()
        [before] = harness.deliveries(hook.id)
        again = world.run(lambda tx: endpoints.redeliver(tx, world.queue, hook.id, before.id))
        assert again.status == "pending"
        assert again.job_id != before.job_id
        assert harness.work() == {"completed": 2}
        [after] = harness.deliveries(hook.id)
    first, second = target.received
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
    assert (after.status, after.tries) == ("delivered", 2)


def test_repeating_one_that_waits_makes_it_due_now(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(500) as target:
        hook = tell_one(harness, target.url)
        harness.work()
        [waiting] = harness.deliveries(hook.id)
        world.run(lambda tx: endpoints.redeliver(tx, world.queue, hook.id, waiting.id))
        assert harness.work() == {"canceled": 1, "queued": 1}
        assert len(target.received) == 2


def test_an_operators_retry_of_the_job_delivers_too(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(410) as target:
        hook = tell_one(harness, target.url)
        harness.work()
        target.respond = lambda request: answer(request, 200)
        world.run(lambda tx: endpoints.update(tx, hook.id, enabled=True))
        [failed] = harness.deliveries(hook.id)
        assert failed.job_id is not None
        world.retry(failed.job_id)
        harness.work()
        [delivery] = harness.deliveries(hook.id)
    assert delivery.status == "delivered"


def test_a_deleted_webhook_is_sent_nothing_more(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        hook = tell_one(harness, target.url)
        world.run(lambda tx: endpoints.delete(tx, world.queue, hook.id))
        assert harness.work() == {"canceled": 1}
        assert target.received == []
    assert world.rows("SELECT id FROM deliveries") == []


def test_a_test_message_says_so(world: World) -> None:
    harness = WebhookHarness(world)
    user = harness.user("ada")
    with receiver() as target:
        hook = harness.hook(user, target.url, "media.ready")
        delivery = world.run(lambda tx: endpoints.send_test(tx, world.queue, hook.id))
        assert delivery.type == "webhook.test"
        harness.work()
        [request] = target.received
    assert request.message["type"] == "webhook.test"
    assert request.message["data"]["webhook_id"] == hook.id


def test_a_secret_can_be_changed_without_a_gap(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        hook = tell_one(harness, target.url)
        changed = world.run(lambda tx: endpoints.rotate_secret(tx, hook.id))
        harness.work()
        world.advance(86_400 + 1)
        world.run(lambda tx: endpoints.send_test(tx, world.queue, hook.id))
        harness.work()
        during, after = target.received
    assert hook.secret is not None
    assert changed.secret is not None
    assert changed.secret != hook.secret
    for secret in (hook.secret, changed.secret):
        Verifier(secret).verify(during.body, during.headers)
    assert " " not in after.headers["webhook-signature"]
    Verifier(changed.secret).verify(after.body, after.headers)


def test_a_leaked_secret_stops_signing_at_once(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as target:
        hook = tell_one(harness, target.url)
        changed = world.run(lambda tx: endpoints.rotate_secret(tx, hook.id, keep_old=False))
        harness.work()
        [request] = target.received
    assert " " not in request.headers["webhook-signature"]
    Verifier(changed.secret or "").verify(request.body, request.headers)


def test_messages_that_wait_go_to_the_new_url(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver() as old, receiver() as new:
        hook = tell_one(harness, old.url)
        world.run(lambda tx: endpoints.update(tx, hook.id, url=new.url, allow_private=True))
        harness.work()
        assert (len(old.received), len(new.received)) == (0, 1)


def test_old_deliveries_are_forgotten_but_none_that_waits(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(500) as target:
        hook = tell_one(harness, target.url)
        harness.work()
        target.respond = lambda request: answer(request, 200)
        world.run(lambda tx: endpoints.send_test(tx, world.queue, hook.id))
        harness.work()
        world.advance(3600)
        forgotten = world.run(lambda tx: store.forget_deliveries(tx, keep_ms=60_000))
    assert forgotten == 1
    [left] = harness.deliveries(hook.id)
    assert left.status == "pending"


# Chats

ALERT = messages.render(
    "alert.job_failed_pattern", 0, {"message": "<!channel> *bold* & [a](http://b) @everyone"}
)


def test_slack_gets_text_without_its_markup() -> None:
    said = json.loads(messages.shaped_for("https://hooks.slack.com/services/T/B/x", ALERT))
    assert said == {
        "text": "&lt;!channel&gt; *bold* &amp; [a](http://b) @everyone",
        "mrkdwn": False,
    }


@pytest.mark.parametrize(
    "url",
    [
        "https://discord.com/api/webhooks/1/token",
        "https://discordapp.com/api/webhooks/1/token",
        "https://ptb.discord.com/api/v10/webhooks/1/token",
    ],
)
def test_discord_gets_content_without_its_markup_and_calls_nobody(url: str) -> None:
    said = json.loads(messages.shaped_for(url, ALERT))
    assert said["content"] == (r"\<!channel\> \*bold\* & \[a\]\(http\://b\) \@everyone")
    assert said["allowed_mentions"] == {"parse": []}


def test_chats_get_short_single_lines() -> None:
    body = messages.render("media.ready", 0, {"title": "a\n\nb" + "*" * 5000})
    said = json.loads(messages.shaped_for("https://discord.com/api/webhooks/1/t", body))
    assert said["content"].startswith(r"media.ready “a b\*")
    assert len(said["content"]) < 2000


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.slack.com.example.org/services/T/B/x",
        "https://example.org/hooks.slack.com/services/",
        "https://discord.com/channels/1",
    ],
)
def test_others_get_the_plain_message(url: str) -> None:
    assert messages.shaped_for(url, ALERT) == ALERT.encode()


def test_a_shared_receiver_answers_each_message_by_itself(world: World) -> None:
    """One message that fails does not hold up its neighbours."""
    harness = WebhookHarness(world)
    user = harness.user("ada")
    with receiver() as target:
        harness.hook(user, target.url, "noop.*", "other.*")
        fail_on(target, "noop.queued")
        world.enqueue("noop", user_id=user)
        world.enqueue("other", user_id=user)
        assert harness.round() == {"queued": 1, "completed": 1}


def fail_on(target: Receiver, type: str) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        failed = target.received[-1].message["type"] == type
        answer(request, 500 if failed else 204)

    target.respond = respond


def test_the_handler_needs_a_real_delivery(world: World) -> None:
    harness = WebhookHarness(world)
    world.enqueue("webhook", args={"delivery_id": "dlv_none"})
    assert harness.work() == {"completed": 1}


def test_no_secret_and_no_url_is_in_what_is_printed(world: World) -> None:
    harness = WebhookHarness(world, alert_webhook_url="http://127.0.0.1:9/token")
    hook = harness.hook(harness.user("ada"), "http://127.0.0.1:9/", "*")
    assert hook.secret is not None
    assert hook.secret not in repr(hook)
    assert harness.get(hook.id).secret is None
    assert "token" not in repr(Deliver(world.db, harness.settings))
    assert issubclass(errors.TransientFailure, errors.JobOutcome)
