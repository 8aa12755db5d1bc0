"""Redis may be absent, flushed, wrong or down at any moment: the outcomes are the same (P8).

One scenario with many jobs, workers, failures, cancels and retries runs as it is, and beside a
Redis that something is done to all the time. What became of the jobs must not differ.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis as client_library

import services
import world as worlds
from proxy import Proxy
from resilience.breakpoints import until
from rushes import JobContext, NewJob, Rushes, breaker, config, redis_link, redis_wakeup
from rushes.errors import PermanentFailure, TransientFailure
from rushes.jobs import invariants, lifecycle
from rushes.jobs.job import TERMINAL, Job, State
from rushes.redis_link import RedisLink
from rushes.threads import Supervised
from rushes.worker.loop import Worker

KINDS = ("cut", "mix", "flaky", "broken", "parent")
GATED = "gated"
PRIORITIES = ("high", "normal", "low")
SEED = 20_261_117
BURSTS, BURST = 6, 20
SERVERS, WORKERS = 2, 2


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (breaker, "FIRST_PAUSE_SECONDS", 0.05),
        (breaker, "LONGEST_PAUSE_SECONDS", 0.2),
        (redis_wakeup, "LISTEN_SECONDS", 0.1),
        (redis_wakeup, "RETRY_SECONDS", 0.05),
        (redis_wakeup, "RECLAIM_SECONDS", 0.3),
        (redis_link, "STUCK_MS", 200),
        (redis_link, "ANSWER_SECONDS", 0.3),
        (redis_link, "CONNECT_SECONDS", 0.3),
        (lifecycle, "BACKOFF_FLOOR_MS", 10),
        (lifecycle, "BACKOFF_BASE_MS", 10),
    ):
        monkeypatch.setattr(module, name, value)


@dataclass
class Trouble:
    """What is done to Redis, again and again, while the scenario runs."""

    server: services.Redis
    proxy: Proxy
    do: Callable[[Trouble, random.Random], None]
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def client(self) -> Any:
        return client_library.Redis.from_url(self.server.url, socket_timeout=1)

    def run(self) -> None:
        dice = random.Random(SEED)
        while not self.stopping.wait(0.05):
            with suppress(client_library.RedisError):
                self.do(self, dice)


def nothing(trouble: Trouble, dice: random.Random) -> None:
    pass


def killed(trouble: Trouble, dice: random.Random) -> None:
    """Once, in the middle; it does not come back."""
    with trouble.client as client:
        if client.xlen("rushes:jobs:normal") > 2:
            trouble.server.crash()


def flushed(trouble: Trouble, dice: random.Random) -> None:
    with trouble.client as client:
        client.flushall()


def restarted(trouble: Trouble, dice: random.Random) -> None:
    trouble.server.crash()
    trouble.stopping.wait(0.1)
    trouble.server.recover()
    trouble.stopping.wait(0.3)


def silent(trouble: Trouble, dice: random.Random) -> None:
    trouble.proxy.silence()
    trouble.stopping.wait(0.5)
    trouble.proxy.speak()
    trouble.stopping.wait(0.3)


def slow(trouble: Trouble, dice: random.Random) -> None:
    """For longer than it is waited for, and not so long, in turns."""
    with trouble.client as client:
        client.client_pause(dice.choice([50, 200, 500]))


def lying(trouble: Trouble, dice: random.Random) -> None:
    """Ids of nobody, entries twice, of others, huge and nonsensical; messages that mean nothing."""
    with trouble.client as client:
        for priority in PRIORITIES:
            stream = f"rushes:jobs:{priority}"
            for id, entry in client.xrevrange(stream, count=3):
                client.xadd(stream, {**entry, "job": f"job_{dice.getrandbits(60)}"})
                client.xack(stream, redis_link.GROUP, id)
            client.xadd(stream, {"kind": "\\0nonsense", "jobs": str(dice.randint(-9, 10**12))})
            client.xadd(stream, {"x": b"\\xff" * 100_000})
            client.xreadgroup(redis_link.GROUP, "thief", {stream: ">"}, count=5)
        client.publish("rushes:look", b"\\xff")
        client.publish("rushes:events", "999999999999")


def wrong_types(trouble: Trouble, dice: random.Random) -> None:
    with trouble.client as client:
        for priority in PRIORITIES:
            client.delete(f"rushes:jobs:{priority}")
            if dice.random() < 0.7:
                client.set(f"rushes:jobs:{priority}", "mine")


TROUBLES = {
    each.__name__: each
    for each in (nothing, killed, flushed, restarted, silent, slow, lying, wrong_types)
}


def scenario(rushes: Rushes, gate: threading.Event) -> list[str]:
    """Returns the ids of all jobs that were made, in the same order every time."""
    dice = random.Random(SEED)
    made: list[str] = []
    for burst in range(BURSTS):
        news = [
            NewJob(
                kind=dice.choice(KINDS),
                args={"n": len(made) + n},
                priority=dice.choice(PRIORITIES),
                user_id=f"user_{dice.randint(1, 3)}",
            )
            for n in range(BURST)
        ]
        made += [each.id for each in rushes.enqueue_many(news)]
        pairs = zip(made[-BURST:], news, strict=True)
        parents = [id for id, new in pairs if new.kind == "parent"]
        made += [
            rushes.enqueue("mix", {"n": len(made) + n}, parent_id=id, priority="low").id
            for n, id in enumerate(parents)
        ]
        if burst == BURSTS // 2:
            made += canceled_and_retried(rushes)
    gate.set()
    return made


def canceled_and_retried(rushes: Rushes) -> list[str]:
    """Of jobs that wait for a parent that runs until the gate opens: nothing can be quicker."""
    gated = rushes.enqueue(GATED, {"n": -1}, priority="high").id
    children = [rushes.enqueue("cut", {"n": -2 - n}, parent_id=gated).id for n in range(6)]
    for id in children[:3]:
        assert rushes.cancel(id) is State.CANCELED
    again = [rushes.retry(id).id for id in children[:2]]
    return [gated, *children, *again]


def any_live(rushes: Rushes) -> bool:
    """In one look: a job may go from one state to another between two."""
    live = "SELECT count(*) AS live FROM jobs WHERE state IN ('blocked', 'queued', 'processing')"
    with rushes.db.read() as tx:
        row = tx.one(live)
    return bool(row and row["live"])


@dataclass(frozen=True)
class Outcome:
    """What became of one job, without what no two runs have in common."""

    kind: str
    state: State
    attempts: int
    error: str | None
    result: Any

    @classmethod
    def of(cls, job: Job) -> Outcome:
        return cls(job.kind, job.state, job.attempt, job.error_code, str(job.result))


@dataclass(frozen=True)
class Played:
    outcomes: list[Outcome]
    links: list[RedisLink]


Play = Callable[..., Played]


class Fleet:
    """Some servers in this process, each with workers; all on one database."""

    def __init__(self, stack: ExitStack, settings: config.Settings) -> None:
        self.gate = threading.Event()
        self.runs: Counter[tuple[int, int]] = Counter()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.servers = [stack.enter_context(Rushes(settings=settings)) for _ in range(SERVERS)]
        self._crew: list[Worker] = []
        self._threads: list[Supervised] = []
        for server in self.servers:
            for kind in (*KINDS, GATED):
                server.handler(kind)(self._handler(kind))
            self._crew += [server.worker(f"w{n}") for n in range(WORKERS)]
            self._thread(server.chores.run, "fleet-chores")
        for number, worker in enumerate(self._crew):
            self._thread(worker.run, f"fleet-{number}")

    def _thread(self, work: Callable[[], None], name: str) -> None:
        thread = Supervised(work, name, self._stopping)
        self._threads.append(thread)
        thread.start()

    def _handler(self, kind: str) -> Callable[[JobContext], Any]:
        def run(job: JobContext) -> Any:
            number = job.args["n"]
            with self._lock:
                self.runs[number, job.attempt] += 1
            if kind == GATED:
                assert self.gate.wait(60)
            if kind == "broken":
                raise PermanentFailure("it cannot be done")
            if kind == "flaky" and job.attempt == 1:
                raise TransientFailure("once more")
            return {"n": number}

        return run

    def stop(self) -> None:
        self._stopping.set()
        for worker in self._crew:
            worker.stop()
        for server in self.servers:
            server.chores.stop()
        for thread in self._threads:
            thread.join(20)


# Of each database, without Redis; the same for all.
_expected: dict[str, Played] = {}


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """On a database of its own; returns what became of the jobs."""
    with ExitStack() as stack:

        def start(mode: str, redis_url: str = "", database: str = "postgres") -> Played:
            if database == "postgres":
                url = stack.enter_context(worlds.postgres_database())
            else:
                url = f"sqlite:///{tmp_path}/{mode}.db"
            settings = config.Settings(
                data_dir=tmp_path,
                database_url=url,
                queue_mode=mode,  # type: ignore[arg-type]
                redis_url=redis_url,
                poll_interval=0.3,
                sweep_interval=1.0,
            )
            return play_once(stack, settings)

        yield start


def play_once(stack: ExitStack, settings: config.Settings) -> Played:
    fleet = Fleet(stack, settings)
    try:
        sender = fleet.servers[0]
        made = scenario(sender, fleet.gate)
        until(lambda: not any_live(sender))
    finally:
        fleet.gate.set()
        fleet.stop()
    assert set(fleet.runs.values()) == {1}, "an attempt was run twice"
    with sender.db.begin() as tx:
        assert invariants.check(tx, lease_ms=60_000, sweep_ms=10_000) == []
    links = [each.redis for each in fleet.servers if each.redis is not None]
    return Played([Outcome.of(sender.job(id)) for id in made], links)


@pytest.mark.parametrize(
    ("name", "mode", "database"),
    [
        *((name, "hybrid", "postgres") for name in TROUBLES),
        *((name, "redis", "postgres") for name in ("nothing", "killed", "silent", "lying")),
        ("killed", "hybrid", "sqlite"),
        ("lying", "redis", "sqlite"),
    ],
)
def test_whatever_redis_does_the_same_becomes_of_the_jobs(
    redis_server: services.Redis, play: Play, name: str, mode: str, database: str
) -> None:
    if database not in _expected:
        _expected[database] = play("database", database=database)
    expected = _expected[database]
    assert {each.state for each in expected.outcomes} == TERMINAL
    with Proxy(redis_server.port) as proxy:
        proxy.open()
        trouble = Trouble(redis_server, proxy, TROUBLES[name])
        making_trouble = threading.Thread(target=trouble.run)
        making_trouble.start()
        url = f"redis://127.0.0.1:{proxy.port}/0" if name == "silent" else redis_server.url
        try:
            played = play(mode, url, database)
        finally:
            trouble.stopping.set()
            making_trouble.join(20)
    assert played.outcomes == expected.outcomes
    failures = sum(each.breaker.failures for each in played.links)
    if name in ("killed", "silent", "restarted", "wrong_types"):
        assert failures > 0, "it was not noticed"
    elif name in ("nothing", "lying"):
        assert failures == 0
        assert sum(each.fallbacks for each in played.links) == 0
