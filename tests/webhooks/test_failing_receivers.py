"""A receiver that keeps failing is tried rarely, by one message at a time, until it is back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from running import Running
from rushes.db.database import Tx
from rushes.webhooks import endpoints, store
from rushes.webhooks.webhook import (
    FIRST_REST_MS,
    LONGEST_REST_MS,
    RESTS_AFTER,
    Webhook,
    rest_ms,
)
from webhooks.receivers import Receiver, WebhookHarness, answer, receiver
from world import World

MESSAGES = 6
HOUR = 3600


def test_rests_grow_to_a_limit() -> None:
    assert rest_ms(RESTS_AFTER - 1) == 0
    rests = [rest_ms(RESTS_AFTER + more) for more in range(30)]
    assert rests[:3] == [FIRST_REST_MS, 2 * FIRST_REST_MS, 4 * FIRST_REST_MS]
    assert set(rests[6:]) == {LONGEST_REST_MS}


def failing(harness: WebhookHarness, target: Receiver) -> Webhook:
    """A webhook that has failed so often that it rests, with some messages that wait."""
    user = harness.user("ada", role="admin")
    hook = harness.hook(user, target.url, "noop.queued")
    for _ in range(MESSAGES):
        harness.world.enqueue(user_id=user)
    harness.round()
    assert len(target.received) == RESTS_AFTER
    return hook


def recovers(target: Receiver) -> None:
    target.respond = lambda request: answer(request, 204)


def statuses(harness: WebhookHarness, hook: Webhook) -> list[str]:
    return [each.status for each in harness.deliveries(hook.id)]


def test_it_is_left_alone_then_tried_by_one_message(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(503) as target:
        hook = failing(harness, target)
        shown = harness.get(hook.id)
        assert (shown.failures, shown.failing_since) == (RESTS_AFTER, world.clock.now())
        assert shown.rest_until == world.clock.now() + FIRST_REST_MS
        for _ in range(11):
            world.advance(5)
            harness.work()
        assert len(target.received) == RESTS_AFTER
        tries = sum(each.tries for each in harness.deliveries(hook.id))
        assert tries == RESTS_AFTER
        for seen in range(1, 5):
            world.advance(HOUR)
            harness.work()
            assert len(target.received) == RESTS_AFTER + seen
        assert statuses(harness, hook) == ["pending"] * MESSAGES


def test_when_it_answers_again_all_that_waits_is_sent_at_once(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(503) as target:
        hook = failing(harness, target)
        recovers(target)
        world.advance(HOUR)
        harness.work()
        # The others need not sit out the rest of their pauses.
        harness.work()
        assert statuses(harness, hook) == ["delivered"] * MESSAGES
    after = harness.get(hook.id)
    assert (after.failures, after.failing_since, after.rest_until) == (0, None, None)


def test_no_message_is_given_up_with_fewer_tries_than_before(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(503) as target:
        hook = failing(harness, target)
        for _ in range(60):
            world.advance(60)
            harness.work()
        ended = [each for each in harness.deliveries(hook.id) if each.status == "failed"]
        assert {each.tries for each in ended} <= {8}


def test_a_good_receiver_forgets_its_failures(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(500) as target:
        user = harness.user("ada")
        hook = harness.hook(user, target.url, "noop.queued")
        world.enqueue(user_id=user)
        harness.round()
        assert harness.get(hook.id).failures == 1
        assert harness.get(hook.id).rest_until is None
        recovers(target)
        world.advance(HOUR)
        harness.work()
    assert (harness.get(hook.id).failures, harness.get(hook.id).failing_since) == (0, None)


def test_the_users_other_webhooks_do_not_wait(world: World) -> None:
    harness = WebhookHarness(world)
    with receiver(503) as target, receiver() as good:
        hook = failing(harness, target)
        harness.hook(hook.user_id, good.url, "noop.queued")
        world.enqueue(user_id=hook.user_id)
        harness.round()
        assert len(good.received) == 1
        assert len(target.received) == RESTS_AFTER


@pytest.mark.parametrize("how", ["test", "again", "address", "enabled"])
def test_whoever_thinks_that_it_works_now_need_not_wait(world: World, how: str) -> None:
    harness = WebhookHarness(world)
    with receiver(503) as target:
        hook = failing(harness, target)
        recovers(target)
        first = harness.deliveries(hook.id)[0].id
        verbs: dict[str, Callable[..., object]] = {
            "test": lambda tx: endpoints.send_test(tx, world.queue, hook.id),
            "again": lambda tx: endpoints.redeliver(tx, world.queue, hook.id, first),
            "address": lambda tx: endpoints.update(
                tx, hook.id, url=f"{target.url}/new", allow_private=True
            ),
            "enabled": lambda tx: endpoints.update(tx, hook.id, enabled=True),
        }
        world.run(verbs[how])
        if how in ("address", "enabled"):
            world.enqueue(user_id=hook.user_id)
        harness.round()
        assert len(target.received) > RESTS_AFTER
        assert harness.get(hook.id).failures == 0


def test_an_alert_tells_of_it_once(world: World) -> None:
    harness = WebhookHarness(world, alert_rate_limit=0)
    with receiver(503) as target, receiver() as operator:
        hook = failing(harness, target)
        harness.hook(hook.user_id, operator.url, "alert.webhook_failing")
        for _ in range(5):
            harness.round()
            world.advance(HOUR)
    assert operator.types == ["alert.webhook_failing"]
    [told] = [each.message["data"] for each in operator.received]
    assert "receiver at 127.0.0.1 keeps failing: http_503" in told["message"]
    assert target.url not in str(told)
    assert told["incidents"][0]["webhook_id"] == hook.id


def test_the_api_shows_it(serve: Callable[..., Running]) -> None:
    server = serve(webhook_private_targets=True)
    with server.user() as ada, receiver(503) as target:
        path = f"/webhooks/{ada.post('/webhooks', json={'url': target.url}).json()['id']}"
        before = ada.get(path).json()
        assert (before["failures"], before["failing_since"], before["rest_until"]) == (
            0,
            None,
            None,
        )

        def fail(tx: Tx) -> None:
            store.note_failure(tx, before["id"])
            store.rest(tx, before["id"], FIRST_REST_MS)

        server.rushes.db.run(fail)
        after = ada.get(path).json()
    assert after["failures"] == 1
    assert after["failing_since"] < after["rest_until"]
