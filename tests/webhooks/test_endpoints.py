"""What people do with webhooks, and what they are refused."""

from __future__ import annotations

import pytest

from rushes import errors
from rushes.webhooks import endpoints, fanout
from rushes.webhooks.webhook import ALERTS_ID, Webhook
from webhooks.receivers import WebhookHarness
from world import World

URL = "https://example.com/hook"


def create(world: World, user: str, url: str = URL, types: tuple[str, ...] = ("*",)) -> Webhook:
    return world.run(lambda tx: endpoints.create(tx, user, url, types))


def test_a_secret_is_shown_once(world: World) -> None:
    user = WebhookHarness(world).user("ada")
    made = create(world, user, types=("media.ready", "transcode.*", "media.ready"))
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    assert made.types == ["media.ready", "transcode.*"]
    with world.db.read() as tx:
        [listed] = endpoints.list_webhooks(tx, user)
        assert listed.secret is None
        assert listed == endpoints.get(tx, made.id)
        assert (listed.url, listed.types) == (URL, made.types)


def test_others_do_not_see_it(world: World) -> None:
    harness = WebhookHarness(world)
    ada, bob = harness.user("ada"), harness.user("bob")
    made = create(world, ada)
    with world.db.read() as tx:
        assert endpoints.list_webhooks(tx, bob) == []
        assert endpoints.get(tx, made.id, owner=ada) == endpoints.get(tx, made.id)
        with pytest.raises(errors.NotFound):
            endpoints.get(tx, made.id, owner=bob)


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "ftp://example.com/", "http://u:p@h/", ""])
def test_a_url_that_can_never_work_is_refused_at_once(world: World, url: str) -> None:
    with pytest.raises(errors.BadField, match="url"):
        create(world, "usr_1", url)
    made = create(world, "usr_1")
    with pytest.raises(errors.BadField, match="url"):
        world.run(lambda tx: endpoints.update(tx, made.id, url=url))


@pytest.mark.parametrize(
    "types",
    [(), ("",), ("media ready",), ("*.ready",), ("media.**",), ("Media.ready",), ("a",) * 51],
)
def test_types_that_can_never_match_are_refused(world: World, types: tuple[str, ...]) -> None:
    with pytest.raises(errors.BadField, match="types"):
        create(world, "usr_1", types=types)


def test_one_can_change_a_webhook(world: World) -> None:
    made = create(world, "usr_1")
    changed = world.run(
        lambda tx: endpoints.update(tx, made.id, url=URL + "/2", types=["media.*"], enabled=False)
    )
    assert (changed.url, changed.types) == (URL + "/2", ["media.*"])
    assert changed.disabled_at is not None
    again = world.run(lambda tx: endpoints.update(tx, made.id, enabled=True))
    assert (again.url, again.disabled_at) == (URL + "/2", None)


def test_a_disabled_webhook_is_not_tested(world: World) -> None:
    made = create(world, "usr_1")
    world.run(lambda tx: endpoints.update(tx, made.id, enabled=False))
    with pytest.raises(errors.WrongState):
        world.run(lambda tx: endpoints.send_test(tx, world.queue, made.id))


def test_deliveries_come_in_pages_newest_first(world: World) -> None:
    made = create(world, "usr_1")
    sent = [world.run(lambda tx: endpoints.send_test(tx, world.queue, made.id)) for _ in range(5)]
    with world.db.read() as tx:
        first = endpoints.deliveries(tx, made.id, limit=3)
        second = endpoints.deliveries(tx, made.id, before=first[-1].id, limit=3)
    assert [each.id for each in first + second] == [each.id for each in reversed(sent)]
    assert {each.status for each in first} == {"pending"}


def test_a_delivery_of_another_webhook_cannot_be_repeated(world: World) -> None:
    mine, theirs = create(world, "usr_1"), create(world, "usr_2")
    sent = world.run(lambda tx: endpoints.send_test(tx, world.queue, theirs.id))
    with pytest.raises(errors.NotFound):
        world.run(lambda tx: endpoints.redeliver(tx, world.queue, mine.id, sent.id))


def test_there_is_a_limit_for_each_user(world: World) -> None:
    for _ in range(endpoints.WEBHOOKS_LIMIT):
        create(world, "usr_1")
    with pytest.raises(errors.Conflict):
        create(world, "usr_1")
    create(world, "usr_2")


def test_what_is_not_there_is_not_found(world: World) -> None:
    def rotate() -> None:
        world.run(lambda tx: endpoints.rotate_secret(tx, "whk_none"))

    def update() -> None:
        world.run(lambda tx: endpoints.update(tx, "whk_none", enabled=True))

    def delete() -> None:
        world.run(lambda tx: endpoints.delete(tx, world.queue, "whk_none"))

    def send_test() -> None:
        world.run(lambda tx: endpoints.send_test(tx, world.queue, "whk_none"))

    for verb in (rotate, update, delete, send_test):
        with pytest.raises(errors.NotFound):
            verb()


def test_the_operators_address_is_changed_by_its_setting_only(world: World) -> None:
    world.run(fanout.ensure_alerts_webhook)
    world.run(lambda tx: endpoints.send_test(tx, world.queue, ALERTS_ID))
    with pytest.raises(errors.Conflict, match="RUSHES_ALERT_WEBHOOK_URL"):
        world.run(lambda tx: endpoints.update(tx, ALERTS_ID, url=URL))
    with pytest.raises(errors.Conflict):
        world.run(lambda tx: endpoints.delete(tx, world.queue, ALERTS_ID))
