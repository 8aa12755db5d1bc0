"""A receiver that does not answer holds up its owner's messages, and nobody else's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2

from running import Running
from rushes import ids, limits, serving
from rushes.db.database import Tx
from rushes.dispatch import Dispatch
from rushes.fleet import store as fleet
from rushes.jobs.terms import Claimant
from webhooks.receivers import Receiver, answer, receiver
from world import World

PATIENCE = 30
GIVEN: dict[str, Any] = {
    "full_crew": True,
    "webhook_private_targets": True,
    "alert_webhook_timeout": 2.0 * PATIENCE,
}


class Tarpit:
    """Takes requests and answers none of them before the end of the test."""

    def __init__(self, target: Receiver) -> None:
        self.target = target
        self.over = threading.Event()
        self._taken = threading.Semaphore(0)
        target.respond = self._hold

    def _hold(self, request: BaseHTTPRequestHandler) -> None:
        self._taken.release()
        self.over.wait(2 * PATIENCE)

    def wait_for(self, requests: int) -> None:
        for _ in range(requests):
            assert self._taken.acquire(timeout=PATIENCE)


@contextmanager
def tarpit() -> Iterator[Tarpit]:
    with receiver() as target:
        pit = Tarpit(target)
        try:
            yield pit
        finally:
            pit.over.set()


def arrival_of(type: str, target: Receiver) -> threading.Event:
    arrived = threading.Event()

    def respond(request: BaseHTTPRequestHandler) -> None:
        answer(request, 204)
        if type in target.types:
            arrived.set()

    target.respond = respond
    return arrived


def tell(user: httpx2.Client, url: str, messages: int = 1) -> None:
    hook = user.post("/webhooks", json={"url": url, "types": ["media.ready"]})
    assert hook.status_code == 201, hook.text
    for _ in range(messages):
        assert user.post(f"/webhooks/{hook.json()['id']}/test").is_success


def test_one_users_slow_receiver_leaves_the_messages_of_others_alone(
    serve: Callable[..., Running], database_url: str
) -> None:
    with tarpit() as pit, receiver() as target:
        arrived = arrival_of("webhook.test", target)
        server = serve(database_url=database_url, **GIVEN)
        with server.user("ada") as ada, server.user("bob") as bob:
            tell(ada, pit.target.url, 20)
            pit.wait_for(1)
            tell(bob, target.url)
        assert arrived.wait(PATIENCE)
        assert len(pit.target.received) == limits.MOST_DELIVERIES
        pit.over.set()
        server.stop()


def test_alerts_do_not_wait_behind_the_messages_of_any_number_of_users(
    serve: Callable[..., Running], database_url: str
) -> None:
    with tarpit() as pit, receiver() as target:
        arrived = arrival_of("alert.worker_shutdown", target)
        alerts = {"alert_webhook_url": target.url, "alert_rate_limit": 0.0}
        server = serve(database_url=database_url, **GIVEN, **alerts)
        for number in range(serving.MESSENGERS + 2):
            with server.user(f"ada-{number}") as user:
                tell(user, pit.target.url, 3)
        pit.wait_for(serving.MESSENGERS)
        server.rushes.db.run(go_offline)
        assert arrived.wait(PATIENCE)
        pit.over.set()
        server.stop()


def test_messengers_that_look_at_the_same_moment_take_one_message_of_a_user(world: World) -> None:
    for _ in range(8):
        world.enqueue(user_id="ada")
    dispatch = Dispatch(world.db, world.queue)
    messengers = [replace(world.worker(), most_per_user=1) for _ in range(4)]
    together = threading.Barrier(len(messengers))

    def claim(messenger: Claimant) -> int:
        together.wait(PATIENCE)
        return len(dispatch.claim(messenger, 1))

    with ThreadPoolExecutor(len(messengers)) as pool:
        assert sum(pool.map(claim, messengers)) == 1


def go_offline(tx: Tx) -> None:
    worker_id = ids.new("wrk")
    fleet.register(tx, worker_id, "render-3")
    fleet.announce(tx, worker_id, "offline")
