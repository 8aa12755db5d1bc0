"""What tests of live events do: tell of something, listen, and hear all of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from rushes.jobs.job import NewJob
from rushes.live import EventFilter, Message, Relay, Subscription
from world import World

PATIENCE_SECONDS = 30
ADMIN = EventFilter(None)
TELL = """INSERT INTO events (at, type, media_id, job_id, worker_id, user_id, state, progress, data)
VALUES (:at, :type, :media_id, :job_id, :worker_id, :user_id, :state, :progress, :data)"""


def tell(world: World, type: str = "media.updated", **facts: Any) -> None:
    """One event of any kind, in a transaction of its own."""
    names = ("media_id", "job_id", "worker_id", "user_id", "state", "progress", "data")
    row = dict.fromkeys(names) | {"at": world.clock.at, "type": type} | facts
    world.run(lambda tx: tx.all(TELL, **row))


def tell_many(world: World, count: int) -> None:
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * count))


@contextmanager
def relaying(world: World) -> Iterator[Relay]:
    relay = Relay(world.db, world.chores.number_events)
    try:
        yield relay
    finally:
        relay.close()


def run(world: World, scenario: Callable[[Relay], Coroutine[Any, Any, None]]) -> None:
    with relaying(world) as relay:
        asyncio.run(asyncio.wait_for(scenario(relay), PATIENCE_SECONDS))


@asynccontextmanager
async def listening(
    relay: Relay, since: int | None = None, want: EventFilter = ADMIN
) -> AsyncIterator[Subscription]:
    """Whatever commits inside is heard of."""
    subscription = relay.subscribe(since, want)
    try:
        await subscription.opened()
        yield subscription
    finally:
        subscription.close()


async def hear(subscription: Subscription, count: int) -> list[Message]:
    heard: list[Message] = []
    while len(heard) < count:
        batch = await subscription.take()
        assert batch is not None, f"it ended after {len(heard)} of {count}"
        heard += batch
    return heard


async def hear_until(subscription: Subscription, type: str) -> list[Message]:
    heard: list[Message] = []
    while not heard or heard[-1].type != type:
        heard += await hear(subscription, 1)
    return heard


def body(message: Message) -> dict[str, Any]:
    id, event, data, *rest = message.frame.decode().split("\n")
    assert (id, event, rest) == (f"id: {message.position}", f"event: {message.type}", ["", ""])
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))
    return found


def positions(messages: list[Message]) -> list[int]:
    return [message.position for message in messages]
