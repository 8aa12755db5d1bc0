"""From events to receivers: who is told what, and that nothing is lost or told twice."""

from __future__ import annotations

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from rushes import events
from rushes.db.database import Tx
from rushes.webhooks import fanout, store
from rushes.webhooks.webhook import wants
from webhooks.receivers import WebhookHarness, receiver
from world import World


def test_an_event_reaches_its_receiver_signed_and_in_shape(world: World) -> None:
    harness = WebhookHarness(world)
    user = harness.user("ada")
    media = harness.media(user, title="Käse & Brot")
    with receiver() as target:
        hook = harness.hook(user, target.url, "transcode.*")
        job = world.enqueue("transcode", user_id=user, media_id=media)
        assert harness.round() == {"completed": 1}
        [request] = target.received
    assert hook.secret is not None
    message = Verifier(hook.secret).verify(request.body, request.headers)
    assert message == {
        "type": "transcode.queued",
        "timestamp": "2027-01-15T08:00:00.000Z",
        "data": {
            "id": job,
            "job_id": job,
            "media_id": media,
            "user_id": user,
            "title": "Käse & Brot",
            "status": "queued",
            "position": message["data"]["position"],
            "attempt": 0,
            "progress": 0,
        },
    }
    [delivery] = harness.deliveries(hook.id)
    assert request.headers["webhook-id"] == delivery.id
    assert (delivery.status, delivery.answer, delivery.tries) == ("delivered", 204, 1)


def test_every_event_is_told_once_and_in_order(world: World) -> None:
    harness = WebhookHarness(world)
    admin = harness.user("admin", "admin")
    with receiver() as target:
        hook = harness.hook(admin, target.url, "noop.*")
        world.complete((world.enqueue(), world.claim())[1])
        for _ in range(3):
            harness.round()
        types = [each.type for each in reversed(harness.deliveries(hook.id))]
        positions = [each.message["data"]["position"] for each in target.received]
    assert types == ["noop.queued", "noop.started", "noop.completed"]
    assert len(set(positions)) == 3


def test_more_events_than_a_page_are_all_told(world: World) -> None:
    harness = WebhookHarness(world)
    admin = harness.user("admin", "admin")
    hook = harness.hook(admin, "http://127.0.0.1:9/", "noop.queued")
    count = fanout.PAGE + 7

    def tell(tx: Tx) -> None:
        for _ in range(count):
            events.append(tx, "noop.queued")

    world.run(tell)
    assert harness.fan_out() >= count
    [row] = world.rows(
        "SELECT count(*) AS count FROM deliveries WHERE webhook_id = :id", id=hook.id
    )
    assert row["count"] == count


def test_a_user_is_told_of_their_own_work_and_an_admin_of_all(world: World) -> None:
    harness = WebhookHarness(world)
    ada, bob, admin = harness.user("ada"), harness.user("bob"), harness.user("root", "admin")
    hooks = {
        user: harness.hook(user, "http://127.0.0.1:9/", "noop.queued") for user in (ada, bob, admin)
    }
    world.enqueue(user_id=ada)
    world.enqueue(user_id=ada)
    world.enqueue(user_id=bob)
    world.enqueue()
    harness.fan_out()
    counts = {user: len(harness.deliveries(hook.id)) for user, hook in hooks.items()}
    assert counts == {ada: 2, bob: 1, admin: 4}


def test_the_job_of_a_delivery_belongs_to_the_webhooks_owner(world: World) -> None:
    harness = WebhookHarness(world)
    user = harness.user("ada")
    hook = harness.hook(user, "http://127.0.0.1:9/", "*")
    world.enqueue(user_id=user)
    harness.fan_out()
    [delivery] = harness.deliveries(hook.id)
    assert delivery.job_id is not None
    job = world.job(delivery.job_id)
    assert (job.kind, job.user_id, job.max_attempts) == ("webhook", user, 8)
    assert job.args == {"delivery_id": delivery.id}


def test_deliveries_do_not_make_deliveries(world: World) -> None:
    harness = WebhookHarness(world)
    admin = harness.user("admin", "admin")
    with receiver(500) as target:
        hook = harness.hook(admin, target.url, "*", "webhook.*", "webhook.queued", "purge.*")
        world.enqueue("purge")
        world.enqueue("noop")
        for _ in range(4):
            harness.round()
        types = {each.type for each in harness.deliveries(hook.id)}
    assert "noop.queued" in types
    assert not {each for each in types if each.startswith(("webhook.", "purge."))}


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (["transcode.completed"], ["transcode.completed"]),
        (["transcode.*"], ["transcode.queued", "transcode.completed"]),
        (["*"], ["transcode.queued", "transcode.completed", "media.ready"]),
        (["transcode.progress"], ["transcode.progress"]),
        (["*", "transcode.progress"], None),
        (["trans.*"], []),
        (["transcod.completed", "media"], []),
    ],
)
def test_patterns(types: list[str], told: list[str] | None) -> None:
    known = ["transcode.queued", "transcode.progress", "transcode.completed", "media.ready"]
    expected = known if told is None else told
    assert [each for each in known if wants(types, each)] == expected


def test_a_webhook_is_not_told_what_was_before_it(world: World) -> None:
    harness = WebhookHarness(world)
    admin = harness.user("admin", "admin")
    world.enqueue()
    world.advance(1)
    hook = harness.hook(admin, "http://127.0.0.1:9/", "noop.*")
    world.enqueue()
    harness.fan_out()
    assert len(harness.deliveries(hook.id)) == 1


def test_disabled_webhooks_and_disabled_people_are_told_nothing(world: World) -> None:
    harness = WebhookHarness(world)
    ada, bob = harness.user("ada", "admin"), harness.user("bob", "admin")
    hooks = [harness.hook(each, "http://127.0.0.1:9/", "*") for each in (ada, bob)]
    world.run(lambda tx: store.disable(tx, hooks[0].id))
    world.run(lambda tx: tx.all("UPDATE users SET disabled_at = 1 WHERE id = :id", id=bob))
    world.enqueue()
    harness.fan_out()
    assert [harness.deliveries(each.id) for each in hooks] == [[], []]


def test_without_receivers_events_are_passed_over(world: World) -> None:
    harness = WebhookHarness(world)
    world.enqueue()
    harness.fan_out()
    [head] = world.rows(
        "SELECT webhook_head.pos, event_head.pos AS last FROM webhook_head, event_head"
    )
    assert head["pos"] == head["last"] > 0
    assert world.rows("SELECT id FROM deliveries") == []


def test_a_crash_in_the_middle_of_telling_loses_nothing_and_repeats_nothing(world: World) -> None:
    harness = WebhookHarness(world)
    admin = harness.user("admin", "admin")
    hook = harness.hook(admin, "http://127.0.0.1:9/", "noop.*")
    world.enqueue()
    world.chores.number_events()
    with pytest.raises(_CrashError), world.db.begin() as tx:
        assert fanout.fan_out(tx, world.queue, harness.settings) > 0
        raise _CrashError
    assert harness.deliveries(hook.id) == []
    assert world.rows("SELECT id FROM jobs WHERE kind = 'webhook'") == []
    harness.fan_out()
    harness.fan_out()
    assert len(harness.deliveries(hook.id)) == 1


def test_two_servers_do_not_tell_twice(postgres_world: World) -> None:
    world = postgres_world
    harness = WebhookHarness(world)
    admin = harness.user("admin", "admin")
    hook = harness.hook(admin, "http://127.0.0.1:9/", "noop.*")
    world.enqueue()
    world.chores.number_events()
    with world.db.begin() as first:
        assert fanout.fan_out(first, world.queue, harness.settings) > 0
        # The second does not wait for the first, and does nothing.
        assert world.run(lambda tx: fanout.fan_out(tx, world.queue, harness.settings)) == 0
    assert harness.fan_out() >= 0
    assert len(harness.deliveries(hook.id)) == 1


def test_what_a_change_added_to_its_event_is_told(world: World) -> None:
    harness = WebhookHarness(world)
    user = harness.user("ada")
    with receiver() as target:
        harness.hook(user, target.url, "media.*")
        world.run(
            lambda tx: events.append(
                tx, "media.updated", user_id=user, media_id="med_1", data='{"language":"de"}'
            )
        )
        harness.round()
        [request] = target.received
    assert request.message["data"]["language"] == "de"
    assert request.message["data"]["id"] == "med_1"


class _CrashError(Exception):
    pass
