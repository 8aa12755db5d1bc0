"""How a worker is to work, said by itself or live by an admin: over both transports."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

import world as worlds
from running import Running
from rushes import ids, protocol, queue_report
from rushes.jobs.job import State
from rushes.protocol import Claim, Hello, Pulse, Standing
from rushes.worker.conduct import Conduct
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote
from rushes.worker_settings import WorkerSettings
from shell import until
from worker.harness import Harness, open_harness

Serve = Callable[..., Running]
Handlers = dict[str, Handler]


@pytest.fixture(params=["in-process sqlite", "http sqlite", "http postgresql"])
def lively(request: pytest.FixtureRequest, serve: Serve) -> Iterator[Harness]:
    """With quick heartbeats."""
    transport, database = request.param.split()
    if database == "sqlite":
        with open_harness(serve(heartbeat_interval=0.2), transport) as opened:
            yield opened
        return
    with worlds.postgres_database() as url:
        running = serve(heartbeat_interval=0.2, database_url=url)
        with open_harness(running, transport) as opened:
            yield opened
        running.stop()


def closed_now() -> str:
    """Hours that begin in two hours."""
    begin = datetime.now().astimezone() + timedelta(hours=2)
    return f"{begin:%H:%M}-{begin + timedelta(hours=1):%H:%M}"


class Crew:
    """A worker at work, and an admin who looks at it."""

    def __init__(self, harness: Harness, worker: Worker, name: str) -> None:
        self.harness, self.worker, self.name = harness, worker, name

    @property
    def shown(self) -> dict[str, Any]:
        with self.harness.running.client() as admin:
            found: list[dict[str, Any]] = admin.get("/workers").json()["items"]
        return next(each for each in found if each["name"] == self.name)

    def say(self, **settings: Any) -> httpx2.Response:
        with self.harness.running.client() as admin:
            return admin.patch(f"/workers/{self.shown['id']}", json=settings)

    def why(self, job_id: str) -> list[str]:
        rushes = self.harness.running.rushes
        with rushes.db.read() as tx:
            told = queue_report.why(
                tx, rushes.job(job_id), rushes.queue.terms, offline_after_ms=300_000
            )
        return [each.sentence for each in told.reasons]

    def state(self, job_id: str) -> State:
        return self.harness.running.rushes.job(job_id).state


@contextmanager
def working(
    harness: Harness,
    handlers: Handlers,
    own: WorkerSettings | None = None,
    **options: Any,
) -> Iterator[Crew]:
    options.setdefault("heartbeat_seconds", 0.2)
    name = "two" if "coordinator" in options else "one"
    worker = Worker(
        options.pop("coordinator", harness.worker),
        handlers,
        hello=Hello(kinds=sorted(handlers), capabilities=["cpu"], boot_id=ids.new("boot")),
        claim_wait_seconds=options.pop("claim_wait_seconds", 1),
        conduct=Conduct(own, scratch_root=options.pop("scratch_root", None)),
        **options,
    )
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield Crew(harness, worker, name)
    finally:
        worker.stop()
        thread.join(30)


DEMO: Handlers = {"demo": Handler(lambda job: None)}


def test_hours_are_set_live_shown_and_taken_back(lively: Harness) -> None:
    with working(lively, DEMO) as crew:
        first = lively.enqueue()
        until(lambda: crew.state(first) is State.COMPLETED)
        answer = crew.say(schedule=closed_now())
        assert answer.json()["settings"]["schedule"]["said_by"] == "server"
        until(lambda: crew.shown["resting_until"])
        # A claim that waits meanwhile is still answered.
        until(lambda: crew.worker._waiting == 0)
        job_id = lively.enqueue()
        assert any("rests until" in each for each in crew.why(job_id))
        assert crew.state(job_id) is State.QUEUED
        crew.say(schedule=None)
        until(lambda: crew.state(job_id) is State.COMPLETED)
        until(lambda: crew.shown["resting_until"] is None)
        assert crew.shown["settings"]["schedule"]["said_by"] == "default"


def test_work_in_hand_is_given_back_when_hours_end_if_that_is_wanted(lively: Harness) -> None:
    def run(job: JobContext) -> None:
        while True:
            job.wait(0.05)

    with working(lively, {"demo": Handler(run)}) as crew:
        job_id = lively.enqueue()
        until(lambda: crew.state(job_id) is State.PROCESSING)
        crew.say(schedule=closed_now(), rest="release")
        until(lambda: crew.state(job_id) is State.QUEUED)
        assert lively.running.rushes.job(job_id).attempt == 0


class Stage:
    """Jobs that begin, and end when they are told to."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.most: dict[str, int] = {}
        self.over = threading.Event()
        self._lock = threading.Lock()

    def run(self, job: JobContext) -> None:
        with self._lock:
            self.running.append(job.kind)
            now = self.running.count(job.kind)
            self.most[job.kind] = max(now, self.most.get(job.kind, 0))
        try:
            while not self.over.is_set():
                job.wait(0.02)
        finally:
            with self._lock:
                self.running.remove(job.kind)

    def counts(self) -> tuple[int, int]:
        return self.running.count("demo"), self.running.count("mix")


def test_several_jobs_run_at_once_by_kind_and_as_many_as_is_said_live(lively: Harness) -> None:
    stage = Stage()
    handlers = {"demo": Handler(stage.run), "mix": Handler(stage.run)}
    own = WorkerSettings(concurrency={"demo": 2})
    with working(lively, handlers, own) as crew:
        first = [lively.enqueue(kind) for kind in ("demo", "demo", "demo", "mix")]
        until(lambda: stage.counts() == (2, 1))
        assert (stage.most, crew.shown["holds"]) == ({"demo": 2, "mix": 1}, 3)
        crew.say(concurrency="demo=3")
        until(lambda: stage.counts() == (3, 1))
        # Fewer than run: what has begun is finished, and one at a time follows.
        crew.say(concurrency=1)
        until(lambda: crew.worker._conduct.now.concurrency == {"*": 1})
        stage.over.set()
        until(lambda: all(crew.state(each) is State.COMPLETED for each in first))
        until(lambda: crew.worker._waiting <= 1)
        stage.over.clear()
        stage.most.clear()
        then = [lively.enqueue("demo") for _ in range(2)]
        until(lambda: stage.counts() == (1, 0))
        stage.over.set()
        until(lambda: all(crew.state(each) is State.COMPLETED for each in then))
        assert stage.most == {"demo": 1}


def test_a_kind_of_which_none_is_to_run_is_left_to_others(lively: Harness) -> None:
    handlers = {"demo": Handler(lambda job: None), "mix": Handler(lambda job: None)}
    with working(lively, handlers, WorkerSettings(concurrency={"demo": 0})) as crew:
        left, taken = lively.enqueue("demo"), lively.enqueue("mix")
        until(lambda: crew.state(taken) is State.COMPLETED)
        until(lambda: "demo" in crew.shown["declined"])
        assert crew.state(left) is State.QUEUED
        assert any("set to take none of it" in each for each in crew.why(left))


def test_jobs_that_need_a_tag_go_where_it_is(lively: Harness) -> None:
    with working(lively, DEMO, WorkerSettings(tags=["night"])) as crew:
        own, other = lively.enqueue(needs=["tag:night"]), lively.enqueue(needs=["tag:studio"])
        until(lambda: crew.state(own) is State.COMPLETED)
        assert crew.state(other) is State.QUEUED
        assert "tag:studio" in crew.why(other)[0]
        crew.say(tags="studio")
        until(lambda: crew.state(other) is State.COMPLETED)
        assert {"tag:night", "tag:studio"} & set(crew.shown["capabilities"]) == {"tag:studio"}
        crew.say(tags=None)
        assert "tag:night" in crew.shown["capabilities"]


def test_what_does_not_fit_into_the_budget_is_put_off_and_counts_for_nothing(
    lively: Harness, tmp_path: Path
) -> None:
    own = WorkerSettings(scratch_budget=1_000_000)
    handlers = {"demo": Handler(lambda job: None, scratch_share=1.0)}
    with working(lively, handlers, own, scratch_root=tmp_path / "scratch") as crew:
        job_id = lively.enqueue()
        until(lambda: lively.running.rushes.job(job_id).error_code == "scratch_full")
        job = lively.running.rushes.job(job_id)
        assert (job.state, job.attempt) == (State.QUEUED, 0)
        assert any("the worker may use 1.0 MB" in each for each in crew.why(job_id))
        crew.say(scratch_budget="1GB")
        until(lambda: crew.worker._conduct.now.scratch_budget == 10**9)
        lively.running.rushes.db.run(lambda tx: tx.all("UPDATE jobs SET run_at = 0"))
        until(lambda: crew.state(job_id) is State.COMPLETED)


def test_without_a_place_for_temporary_files_nothing_that_needs_it_is_begun(
    lively: Harness, tmp_path: Path
) -> None:
    place = tmp_path / "disk"
    place.write_text("not mounted")
    handlers = {
        "demo": Handler(lambda job: str(job.scratch), scratch_share=0.0),
        "mix": Handler(lambda job: None),
    }
    with working(lively, handlers, scratch_root=place / "scratch") as crew:
        left, other = lively.enqueue(), lively.enqueue("mix")
        until(lambda: crew.state(other) is State.COMPLETED)
        until(lambda: "demo" in crew.shown["declined"])
        assert any("no place for temporary files" in each for each in crew.why(left))
        assert crew.state(left) is State.QUEUED
        place.unlink()
        until(lambda: crew.state(left) is State.COMPLETED)
        until(lambda: crew.shown["declined"] == {})


class Counted(Remote):
    """Counts what it asks."""

    beats = claims = 0

    def heartbeat(self, *given: Any, **named: Any) -> Pulse:
        self.beats += 1
        return super().heartbeat(*given, **named)

    def claim(self, *given: Any, **named: Any) -> list[protocol.Assignment]:
        self.claims += 1
        return super().claim(*given, **named)


def test_a_worker_that_waits_is_seen_and_hears_of_everything_without_heartbeats(
    serve: Serve,
) -> None:
    server = serve(heartbeat_interval=0.2)
    with open_harness(server, "http") as harness:
        remote = Counted(server.url, server.worker_key("two"))
        with working(harness, DEMO, coordinator=remote, claim_wait_seconds=30) as crew:
            until(lambda: crew.shown["last_seen_at"])
            before = remote.beats
            for _ in range(2):
                seen = crew.shown["last_seen_at"]
                until(lambda seen=seen: crew.shown["last_seen_at"] > seen)  # type: ignore[misc]
            assert (remote.beats - before, remote.claims) == (0, 1)
            with server.client() as admin:
                admin.post(f"/workers/{crew.shown['id']}/drain")
            until(lambda: crew.worker._drained)
            with server.client() as admin:
                admin.post(f"/workers/{crew.shown['id']}/enable")
            until(lambda: not crew.worker._drained)
            assert remote.beats > before
            # It is not asked in circles.
            assert remote.claims <= 3
            crew.worker.stop()
            with server.client() as admin:
                admin.post(f"/workers/{crew.shown['id']}/disable")
        remote.close()


def test_a_claim_is_for_the_kinds_that_it_names(harness: Harness) -> None:
    harness.enqueue("mix")
    harness.worker.hello(Hello(kinds=["demo", "mix"]))
    assert harness.worker.claim(1, kinds=["demo"]) == []
    # What hello has not named is not to be had.
    assert harness.worker.claim(1, kinds=["purge", "demo"]) == []
    [job] = harness.worker.claim(1, kinds=["mix"])
    assert job.kind == "mix"


def test_a_claim_on_other_terms_is_answered_at_once(remote_harness: Harness) -> None:
    harness = remote_harness
    terms = harness.worker.hello(Hello(kinds=["demo"], boot_id="one"))
    assert terms is not None
    with harness.running.client() as admin:
        admin.patch(f"/workers/{terms.worker_id}", json={"nice": 3})
    began = time.monotonic()
    assert harness.worker.claim(1, 30, "first", terms_etag=terms.terms_etag) == []
    assert time.monotonic() - began < 20
    pulse = harness.worker.heartbeat()
    assert (pulse.settings, pulse.drain) == (WorkerSettings(nice=3), False)
    harness.enqueue()
    assert harness.worker.claim(1, 30, "second", terms_etag=pulse.terms_etag)


def test_an_idle_worker_tells_with_its_claim_which_answers_it_has_got(
    remote_harness: Harness,
) -> None:
    """What was claimed for it, and it does not hold, is free again."""
    harness = remote_harness
    job_id = harness.enqueue()
    harness.worker.hello(Hello(kinds=["demo"], boot_id="one"))
    assert harness.worker.claim(1, 0, "lost")
    until(lambda: harness.worker.claim(1, 0, "next", answered=["lost"]) != [])
    assert harness.running.rushes.job(job_id).attempt == 1


# Versions


def test_a_worker_that_is_too_old_is_told_so_and_given_nothing(remote_harness: Harness) -> None:
    harness = remote_harness
    harness.enqueue()
    terms = harness.worker.hello(Hello(kinds=["demo"], protocol="0.9"))
    assert terms is not None
    assert (terms.kinds, terms.protocol) == ([], protocol.version_text(protocol.VERSION))
    assert "too old: it speaks 0.9; upgrade it to 1.0" in (terms.upgrade or "")
    assert harness.worker.claim(1) == []
    assert harness.worker.heartbeat().drain
    with harness.running.client() as admin:
        [shown] = [each for each in admin.get("/workers").json()["items"] if each["name"] == "one"]
    assert shown["upgrade"] == terms.upgrade
    # Once it is upgraded it works.
    terms = harness.worker.hello(Hello(kinds=["demo"], protocol="1.0"))
    assert terms is not None
    assert terms.upgrade is None
    assert harness.worker.claim(1)


@pytest.mark.parametrize(
    ("spoken", "works"), [(None, True), ("1.0", True), ("1.99", True), ("2.0", False)]
)
def test_newer_workers_work_within_a_major_version(
    remote_harness: Harness, spoken: str | None, works: bool
) -> None:
    terms = remote_harness.worker.hello(Hello(kinds=["demo"], protocol=spoken))
    assert terms is not None
    assert (terms.upgrade is None, list(terms.kinds) == ["demo"]) == (works, works)


def test_a_worker_that_is_not_spoken_to_says_so_in_its_log_and_claims_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(protocol, "OLDEST", (1, 7))
    server = serve(heartbeat_interval=0.2)
    with open_harness(server, "http") as harness:
        remote = Counted(server.url, server.worker_key("two"))
        with working(harness, DEMO, coordinator=remote) as crew:
            until(lambda: remote.beats > 1)
            assert remote.claims == 0
            assert "upgrade it to 1.7 or newer" in caplog.text
            assert "too old" in crew.shown["upgrade"]
        remote.close()


KNOWN = {
    "hello": {"kinds", "capabilities", "metadata", "boot_id"},
    "claim": {"limit", "wait_seconds", "request_id", "boot_id"},
    "heartbeat": {"claims", "stalled", "answered"},
}
NEW = ("protocol", "upgrade", "settings", "terms_etag")


class FirstVersion(httpx2.BaseTransport):
    """A server from before there were versions: it refuses what it does not know."""

    def __init__(self) -> None:
        self._inner = httpx2.HTTPTransport()
        self.refused: list[str] = []

    def close(self) -> None:
        self._inner.close()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        verb = request.url.path.rpartition("/")[2]
        if verb not in KNOWN:
            return self._inner.handle_request(request)
        if unknown := set(json.loads(request.read())) - KNOWN[verb]:
            self.refused.append(verb)
            problem = {"code": "invalid", "detail": f"{sorted(unknown)} are not known"}
            headers = {"Content-Type": "application/problem+json"}
            return httpx2.Response(422, json=problem, headers=headers, request=request)
        answer = self._inner.handle_request(request)
        said = {k: v for k, v in json.loads(answer.read()).items() if k not in NEW}
        return httpx2.Response(answer.status_code, json=said, request=request)


def test_a_worker_works_for_a_server_from_before_there_were_versions(serve: Serve) -> None:
    server = serve(heartbeat_interval=0.2)
    old = FirstVersion()
    with open_harness(server, "http") as harness:
        remote = Counted(server.url, server.worker_key("two"), transport=old)
        own = WorkerSettings(concurrency={"demo": 2}, tags=["night"])
        with working(harness, DEMO, own, coordinator=remote) as crew:
            job_id = harness.enqueue()
            until(lambda: crew.state(job_id) is State.COMPLETED)
            # It beats, since nobody would know otherwise that it is alive.
            before = remote.beats
            until(lambda: remote.beats > before + 1)
        assert old.refused == ["hello"]
        remote.close()


class Upgrading(FirstVersion):
    """Two servers behind one address: the older one answers while `is_old`."""

    is_old = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        newer = self._inner.handle_request
        return super().handle_request(request) if self.is_old else newer(request)


def test_a_worker_gets_on_with_servers_of_two_versions_behind_one_address(serve: Serve) -> None:
    """As while they are upgraded one after the other. What an admin said is not forgotten."""
    server = serve(heartbeat_interval=0.2)
    servers = Upgrading()
    with open_harness(server, "http") as harness:
        remote = Counted(server.url, server.worker_key("two"), transport=servers)
        with working(harness, DEMO, coordinator=remote) as crew:
            until(lambda: crew.shown["kinds"])
            crew.say(nice=3)
            until(lambda: crew.worker._conduct.now.nice == 3)
            servers.is_old = True
            until(lambda: not remote.is_understood)
            before = remote.beats
            until(lambda: remote.beats > before + 1)
            job_id = harness.enqueue()
            until(lambda: crew.state(job_id) is State.COMPLETED)
            assert crew.worker._conduct.now.nice == 3
            # Later all of them are new.
            servers.is_old = False
            remote._plain_until = 0
            crew.say(nice=4)
            until(lambda: crew.worker._conduct.now.nice == 4)
        assert set(servers.refused) <= {"claim", "heartbeat"}
        remote.close()


# What an admin may say


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"schedule": "all day long"}, "schedule"),
        ({"nice": 40}, "nice"),
        ({"concurrency": 10_000}, "concurrency"),
        ({"tags": "<b>studio</b>"}, "tags"),
        ({"nice": 3, "scratch_budget": "lots"}, "scratch_budget"),
    ],
)
def test_an_admin_hears_what_makes_no_sense_and_nothing_is_changed(
    remote_harness: Harness, said: dict[str, Any], field: str
) -> None:
    terms = remote_harness.worker.hello(Hello(kinds=["demo"]))
    assert terms is not None
    with remote_harness.running.client() as admin:
        answer = admin.patch(f"/workers/{terms.worker_id}", json=said)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
        assert admin.patch("/workers/wrk_none", json={"nice": 3}).status_code == 404
        shown = admin.get(f"/workers/{terms.worker_id}").json()
    assert {each["said_by"] for each in shown["settings"].values()} == {"default"}


def shown(admin: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admin.get("/workers").json()["items"]
    return found


def test_a_worker_in_the_server_is_told_what_is_not_its_own_to_say(serve: Serve) -> None:
    server = serve(handlers_table=DEMO, transcode_workers=1)
    with server.client() as admin:
        mine: list[dict[str, Any]] = []
        his: list[dict[str, Any]] = []

        def are_there() -> bool:
            mine[:] = [each for each in shown(admin) if "demo" in each["kinds"]]
            his[:] = [each for each in shown(admin) if each["kinds"] == ["purge"]]
            return bool(mine and his)

        until(are_there)
        [inside], [house] = mine, his
        refused = admin.patch(f"/workers/{inside['id']}", json={"nice": 5})
        assert "RUSHES_WORKER_NICE" in refused.json()["detail"]
        assert admin.patch(f"/workers/{inside['id']}", json={"tags": "home"}).status_code == 200
        assert admin.patch(f"/workers/{house['id']}", json={"tags": "home"}).status_code == 422


def test_what_a_worker_tells_of_itself_is_cleaned_and_bounded(remote_harness: Harness) -> None:
    harness = remote_harness
    settings = {"nice": "<b>", "colour": "red", "tags": ["fine", "<i>"], "concurrency": 2}
    terms = harness.worker.hello(Hello(kinds=["demo"], settings=settings))
    assert terms is not None
    evil = Standing(
        resting_seconds=1e6, declined={"demo": "\x1b[31mfull\x00"}, notes=["at /srv/keys/id\x07"]
    )
    harness.worker.heartbeat(standing=evil)
    with harness.running.client() as admin:
        shown = admin.get(f"/workers/{terms.worker_id}").json()
    assert shown["settings"]["concurrency"] == {"value": {"*": 2}, "text": "2", "said_by": "worker"}
    assert shown["settings"]["tags"]["said_by"] == "default"
    told = "".join([*shown["declined"].values(), *shown["notes"]])
    assert not any(ord(each) < 32 for each in told)
    claim = Claim("job_none", "clm_none")
    # A worker that rests for a million seconds still beats, and is shown as resting.
    assert harness.worker.heartbeat([claim]).claims[claim.claim_id].held is False
    assert shown["resting_until"]
