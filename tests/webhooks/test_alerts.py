"""Alerts: which incidents raise one, how often, and to whom they go."""

from __future__ import annotations

from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from rushes import events
from rushes.jobs.job import ErrorClass
from rushes.webhooks import endpoints, fanout
from rushes.webhooks.webhook import ALERTS_ID
from webhooks.receivers import Receiver, WebhookHarness, receiver
from world import World


def alerts(target: Receiver, name: str) -> list[dict[str, Any]]:
    """The data of what has arrived of one type."""
    return [
        each.message["data"] for each in target.received if each.message["type"] == f"alert.{name}"
    ]


def lose(world: World, job_id: str) -> None:
    """A worker takes the job and is never heard of again."""
    world.claim(world.worker(name="render-3"))
    world.live(80)
    assert world.job(job_id).error_code == "worker_lost"


def fail_for_good(world: World, media: str, code: str = "corrupt") -> str:
    job = world.enqueue(media_id=media)
    world.fail(world.claim(), ErrorClass.PERMANENT, code)
    return job


def test_a_job_taken_back_from_a_dead_worker_raises_an_alert(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        media = harness.media("", title="A talk")
        job = world.enqueue(media_id=media)
        lose(world, job)
        harness.round()
        [alert] = alerts(target, "stale_job_recovered")
    assert alert["count"] == 1
    assert "“A talk”" in alert["message"]
    [incident] = alert["incidents"]
    assert incident["job_id"] == job
    assert incident["worker"] == "render-3"
    assert (incident["attempt"], incident["max_attempts"]) == (1, 3)


def test_a_job_that_is_given_back_after_a_loss_raises_no_second_alert(world: World) -> None:
    """The code of the loss is still on the job then."""
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url, alert_rate_limit=0.0)
        job = world.enqueue()
        lose(world, job)
        world.advance(3600)
        world.release(world.claim())
        assert world.job(job).error_code == "worker_lost"
        harness.round()
        [alert] = alerts(target, "stale_job_recovered")
    assert alert["count"] == 1


def test_a_job_whose_tries_are_used_up_raises_an_alert(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        job = world.enqueue(max_attempts=2)
        for _ in range(2):
            world.fail(world.claim(), code="http_500")
            world.advance(3600)
        harness.round()
        [alert] = alerts(target, "job_max_retries_exceeded")
    assert alert["incidents"][0]["job_id"] == job
    assert alert["incidents"][0]["error_code"] == "http_500"


def test_a_job_that_takes_its_workers_down_raises_an_alert(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        world.enqueue(max_attempts=10)
        for _ in range(3):
            world.claim()
            world.live(160)
            world.advance(3600)
        harness.round()
        [alert] = alerts(target, "job_max_retries_exceeded")
    assert alert["incidents"][0]["error_code"] == "poison"


def test_a_corrupt_file_has_not_used_up_its_tries(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        fail_for_good(world, harness.media(""))
        harness.round()
        assert alerts(target, "job_max_retries_exceeded") == []


def test_a_media_that_keeps_failing_raises_an_alert(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        media, other = harness.media("", title="Broken"), harness.media("")
        for _ in range(2):
            fail_for_good(world, media)
            fail_for_good(world, other)
        harness.round()
        assert alerts(target, "job_failed_pattern") == []
        fail_for_good(world, media)
        harness.round()
        [alert] = alerts(target, "job_failed_pattern")
    assert alert["incidents"][0]["media_id"] == media
    assert "“Broken”" in alert["message"]


def test_failures_more_than_a_day_apart_are_no_pattern(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        media = harness.media("")
        for _ in range(4):
            fail_for_good(world, media)
            world.advance(13 * 3600)
        harness.round()
        assert alerts(target, "job_failed_pattern") == []


def test_workers_that_come_and_go_are_told(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        worker = world.worker(name="render-3")
        world.run(lambda tx: events.append(tx, "worker.offline", worker_id=worker.id))
        harness.round()
        [up] = alerts(target, "worker_startup")
        [down] = alerts(target, "worker_shutdown")
    assert up["message"] == "worker render-3 came online"
    assert down["message"] == "worker render-3 went offline"


def test_what_happens_together_is_one_alert(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        jobs = [world.enqueue() for _ in range(3)]
        for _ in jobs:
            world.claim()
        world.live(80)
        harness.round()
        [alert] = alerts(target, "stale_job_recovered")
    assert alert["count"] == 3
    assert {each["job_id"] for each in alert["incidents"]} == set(jobs)
    assert alert["message"].startswith("3 times since ")


def test_incidents_while_a_type_cools_down_are_held_and_then_told_together(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        media = harness.media("")

        def incident() -> str:
            job = world.enqueue(media_id=media, max_attempts=1)
            world.fail(world.claim())
            return job

        def sent() -> list[dict[str, Any]]:
            harness.round()
            return alerts(target, "job_max_retries_exceeded")

        first = incident()
        assert [each["count"] for each in sent()] == [1]
        world.advance(100)
        since = world.clock.at
        held = [incident()]
        assert len(sent()) == 1
        world.advance(100)
        held.append(incident())
        assert len(sent()) == 1
        world.advance(99)
        assert len(sent()) == 1
        world.advance(1)
        alert = sent()[1]
        assert alert["count"] == 2
        assert [each["job_id"] for each in alert["incidents"]] == held
        assert alert["since"] == alert["incidents"][0]["at"]
        assert first not in str(alert)
        assert since == world.clock.at - 200_000
        world.advance(3600)
        assert len(sent()) == 2
        incident()
        assert len(sent()) == 3


def test_types_cool_down_by_themselves(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        world.worker()
        harness.round()
        world.enqueue(max_attempts=1)
        world.fail(world.claim())
        harness.round()
        assert len(alerts(target, "worker_startup")) == 1
        assert len(alerts(target, "job_max_retries_exceeded")) == 1


def test_a_flood_is_counted_but_not_told_one_by_one(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        for _ in range(50):
            world.worker()
        harness.round()
        [alert] = alerts(target, "worker_startup")
    assert alert["count"] >= 50
    assert len(alert["incidents"]) == 20


def test_alerts_go_to_the_operators_address_and_to_admins_who_ask(world: World) -> None:
    with receiver() as operator, receiver() as admin, receiver() as user:
        harness = WebhookHarness(world, alert_webhook_url=operator.url)
        ada = harness.user("ada")
        harness.hook(harness.user("root", "admin"), admin.url, "alert.*")
        harness.hook(ada, user.url, "alert.*", "*")
        world.enqueue(max_attempts=1, user_id=ada)
        world.fail(world.claim())
        harness.round()
        assert len(alerts(operator, "job_max_retries_exceeded")) == 1
        assert len(alerts(admin, "job_max_retries_exceeded")) == 1
        assert "alert.job_max_retries_exceeded" not in user.types
        assert "noop.failed" in user.types
        assert {each.split(".")[0] for each in operator.types + admin.types} == {"alert"}


def test_without_an_address_admins_are_told_all_the_same(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world)
        harness.hook(harness.user("root", "admin"), target.url, "alert.worker_startup")
        world.worker()
        harness.round()
        assert target.types == ["alert.worker_startup"]


def test_who_asks_for_one_alert_gets_that_one(world: World) -> None:
    with receiver() as ups, receiver() as downs:
        harness = WebhookHarness(world)
        admin = harness.user("root", "admin")
        harness.hook(admin, ups.url, "alert.worker_startup")
        harness.hook(admin, downs.url, "alert.worker_shutdown")
        worker = world.worker()
        world.run(lambda tx: events.append(tx, "worker.offline", worker_id=worker.id))
        harness.round()
    assert (ups.types, downs.types) == (["alert.worker_startup"], ["alert.worker_shutdown"])


def test_an_alert_that_cannot_be_delivered_raises_no_other(world: World) -> None:
    with receiver(500) as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url, alert_rate_limit=0.0)
        for _ in range(2):
            harness.round()
        before = len(harness.deliveries(ALERTS_ID))
        assert before
        for _ in range(12):
            world.advance(3600)
            harness.round()
        assert len(harness.deliveries(ALERTS_ID)) == before
        assert {each.status for each in harness.deliveries(ALERTS_ID)} == {"failed"}


def test_alerts_are_signed_with_a_secret_that_the_operator_can_ask_for(world: World) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        world.run(fanout.ensure_alerts_webhook)
        world.run(lambda tx: endpoints.send_test(tx, world.queue, ALERTS_ID))
        secret = world.run(lambda tx: endpoints.rotate_secret(tx, ALERTS_ID)).secret
        assert harness.work() == {"completed": 1}
        [request] = target.received
    assert secret is not None
    assert Verifier(secret).verify(request.body, request.headers)["type"] == "webhook.test"


def test_a_receiver_cannot_take_back_the_operators_address(world: World) -> None:
    with receiver(410) as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        world.run(fanout.ensure_alerts_webhook)
        world.run(lambda tx: endpoints.send_test(tx, world.queue, ALERTS_ID))
        assert harness.work() == {"failed": 1}
    assert harness.get(ALERTS_ID).disabled_at is None


@pytest.mark.parametrize("title", ["<!channel>", "/srv/media/secret.mp4"])
def test_titles_are_told_as_they_are_in_json(world: World, title: str) -> None:
    with receiver() as target:
        harness = WebhookHarness(world, alert_webhook_url=target.url)
        world.enqueue(max_attempts=1, media_id=harness.media("", title=title))
        world.fail(world.claim())
        harness.round()
        [alert] = alerts(target, "job_max_retries_exceeded")
    assert alert["incidents"][0]["title"] == title
