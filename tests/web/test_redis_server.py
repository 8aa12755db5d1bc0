"""Servers with Redis: how they start and stop, what they say of it, and events between them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as client_library

import services
import world as worlds
from proxy import Proxy
from resilience.breakpoints import until
from running import Process, Running, events_of, settings_for
from rushes import breaker, errors, events, live, redis_link, redis_wakeup
from rushes.serving import Server
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler
from scanner import scanner

FOREVER = 3_600.0


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
def redis(redis_server: services.Redis) -> services.Redis:
    return redis_server


@pytest.fixture
def database_url() -> Iterator[str]:
    with worlds.postgres_database() as url:
        yield url


def health(server: Running) -> tuple[int, Any, Any]:
    with server.client(base_url=server.url) as client:
        answer = client.get("/health")
    return answer.status_code, answer.json()["status"], answer.json()["redis"]


def metrics(server: Running) -> dict[str, float]:
    with server.client(base_url=server.url) as client:
        lines = client.get("/metrics").text.splitlines()
    found = [line.rpartition(" ") for line in lines if line.startswith("rushes_redis")]
    return {name: float(value) for name, _, value in found}


def test_health_and_metrics_tell_of_an_outage_and_readiness_does_not(
    serve: Callable[..., Running], redis: services.Redis
) -> None:
    server = serve(queue_mode="hybrid", redis_url=redis.url)
    assert health(server) == (200, "ok", True)
    before = metrics(server)
    assert before['rushes_redis_breaker_state{state="closed"}'] == 1
    assert before["rushes_redis_failures_total"] == 0
    assert before["rushes_redis_pending_entries"] == 0
    redis.crash()
    until(lambda: health(server) == (200, "degraded", False))
    with server.client(base_url=server.url) as client:
        assert client.get("/readyz").status_code == 200
    server.rushes.enqueue("purge")
    meanwhile = metrics(server)
    assert meanwhile['rushes_redis_breaker_state{state="closed"}'] == 0
    assert meanwhile["rushes_redis_failures_total"] > 0
    assert meanwhile["rushes_redis_openings_total"] == 1
    assert "rushes_redis_pending_entries" not in meanwhile
    redis.recover()
    until(lambda: health(server) == (200, "ok", True))
    assert metrics(server)["rushes_redis_lag_entries"] >= 0


def test_without_redis_nothing_is_said_of_it(server: Running) -> None:
    assert health(server) == (200, "ok", None)
    assert metrics(server) == {}


def test_hybrid_starts_without_redis_and_uses_it_when_it_is_there(
    serve: Callable[..., Running], redis: services.Redis
) -> None:
    redis.crash()
    server = serve(queue_mode="hybrid", redis_url=redis.url)
    assert health(server) == (200, "degraded", False)
    redis.recover()
    until(lambda: health(server) == (200, "ok", True))


def test_a_server_that_insists_on_redis_does_not_start_without_it(
    tmp_path: Path, redis: services.Redis
) -> None:
    redis.crash()
    server = Server(settings_for(data_dir=tmp_path, queue_mode="redis", redis_url=redis.url))
    with pytest.raises(errors.RedisDown, match="Redis cannot be reached: see to RUSHES_REDIS_URL"):
        server.start()
    server.stop()


@pytest.mark.parametrize("mode", ["redis", "hybrid"])
def test_a_server_whose_redis_is_silent_ends_when_it_is_asked_to(
    process: Callable[..., Process], redis: services.Redis, mode: str
) -> None:
    """With the patience that it has by default."""
    with Proxy(redis.port) as proxy:
        proxy.open()
        server = process(queue_mode=mode, redis_url=f"redis://127.0.0.1:{proxy.port}/0")
        with server.client(base_url=server.url) as client:
            assert client.get("/health").json()["redis"] is True
            proxy.silence()
            assert client.get("/metrics").status_code == 200
        assert server.stop(15) == 0


def test_a_remote_worker_hears_of_a_job_of_another_server(
    serve: Callable[..., Running], redis: services.Redis, database_url: str
) -> None:
    given = {"queue_mode": "redis", "redis_url": redis.url, "database_url": database_url}
    here, there = (serve(**given, poll_interval=FOREVER) for _ in range(2))
    with here.client(here.worker_key()) as worker:
        assert worker.post("/worker/hello", json={"kinds": ["demo"]}).is_success
        claimed: list[Any] = []
        body = {"limit": 1, "wait_seconds": 30}
        thread = threading.Thread(
            target=lambda: claimed.append(worker.post("/worker/claim", json=body).json())
        )
        thread.start()
        dispatcher = here.services.dispatcher
        until(lambda: any("demo" in each.claimant.kinds for each in dispatcher._waiting))
        job = there.rushes.enqueue("demo")
        thread.join(40)
    assert [each["job_id"] for each in claimed[0]["jobs"]] == [job.id]
    here.stop()
    there.stop()


def transcode(job: JobContext) -> None:
    job.progress(0.5, "transcode", speed=2.0, eta_seconds=3.0)


def test_other_programs_hear_what_the_stream_of_events_says(
    serve: Callable[..., Running], redis: services.Redis, database_url: str
) -> None:
    with client_library.Redis.from_url(redis.url) as client:
        program: Any = client.pubsub(ignore_subscribe_messages=True)
        program.psubscribe("ours:*")
        program.get_message(timeout=5)
        given = {"queue_mode": "redis", "redis_url": redis.url, "database_url": database_url}
        server = serve(
            handlers_table={"transcode": Handler(transcode)}, redis_prefix="ours", **given
        )
        heard: dict[str, list[Any]] = {}
        with server.client() as admin:
            # All that happens from now on, however late the stream begins.
            since = admin.get("/session").json()["event_position"]
        of_all = {"since": since}
        with server.client() as admin, admin.stream("GET", "/events", params=of_all) as stream:
            frames = events_of(stream)
            media_id = server.rushes.db.run(_add_media)
            server.rushes.enqueue("transcode", media_id=media_id)
            told: list[Any] = []
            while not told or told[-1]["type"] != "transcode.completed":
                told.append(next(frames)[2])
        complete = f"ours:transcode_complete:{media_id}"
        until(lambda: _hear(program, heard) and complete in heard)
        program.close()
    assert heard[complete] == [each for each in told if each["type"] == "transcode.completed"]
    [progress] = heard[f"ours:transcode_progress:{media_id}"]
    assert progress in told
    assert (progress["progress"], progress["stage"], progress["speed"]) == (0.5, "transcode", 2.0)
    assert {each["type"] for each in heard["ours:worker_status"]} >= {"worker.online"}
    assert "ours:events" in heard
    scanner.check("Redis", json.dumps(heard))
    server.stop()


def _hear(program: Any, heard: dict[str, list[Any]]) -> bool:
    while (message := program.get_message(timeout=0.05)) is not None:
        channel = message["channel"].decode()
        said = message["data"]
        is_ours = channel.rpartition(":")[2] in ("events", "look")
        heard.setdefault(channel, []).append(said.decode() if is_ours else json.loads(said))
    return True


def _add_media(tx: Any) -> str:
    tx.all("INSERT INTO media (id, title, user_id, slug, created_at) VALUES ('med_1','x','','x',0)")
    return "med_1"


def test_the_streams_of_another_server_hear_at_once(
    serve: Callable[..., Running],
    redis: services.Redis,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not by looking now and then, nor when something else is committed there."""
    monkeypatch.setattr(live, "POLL_SECONDS", FOREVER)
    rarely = dict.fromkeys(("poll_interval", "sweep_interval", "heartbeat_interval"), FOREVER)
    given = {"queue_mode": "redis", "redis_url": redis.url, "database_url": database_url}
    here, there = (serve(**given, **rarely) for _ in range(2))
    with here.client() as admin, admin.stream("GET", "/events?types=media.*") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry:"), "from here on everything is heard"
        there.rushes.db.run(lambda tx: events.append(tx, "media.updated", media_id="med_1"))
        told = next(line for line in lines if line.startswith("data: "))
        assert json.loads(told.removeprefix("data: "))["media_id"] == "med_1"
    here.stop()
    there.stop()
