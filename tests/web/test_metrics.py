"""What `/metrics` tells: true figures, few labels, right sums when several servers are asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

import world as worlds
from running import Running
from rushes import errors, metrics, queue_report
from rushes.db.database import Tx
from rushes.fleet import store as fleet
from rushes.jobs.job import NewJob
from rushes.storage import local as local_storage
from rushes.web.api import metrics as exposition
from web import library

GUIDE = Path(__file__).parents[2] / "docs" / "metrics.md"


def told(server: Running) -> str:
    """As a scraper gets it, with the figures of now."""
    server.services.totals = queue_report.Totals()
    server.services.ready = queue_report.ReadyJobs()
    with server.client(None, base_url=server.url) as scraper:
        answer = scraper.get("/metrics")
    assert answer.status_code == 200
    return answer.text


def families(server: Running) -> dict[str, Metric]:
    return {each.name: each for each in text_string_to_metric_families(told(server))}


def value(server: Running, name: str, **labels: str) -> float:
    """Of all samples with at least these labels."""
    return sum(
        sample.value
        for family in families(server).values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def test_waits_runs_losses_and_poison_are_counted_once_committed(either_server: Running) -> None:
    rushes = either_server.rushes
    library.enqueue(either_server, "ada")
    rushes.dispatch.complete_plain([library.done(library.claim(either_server, "demo"))])
    job_id = library.enqueue(either_server, "ada", max_attempts=5)
    for _ in range(3):
        assert library.claim(either_server, "demo").job_id == job_id
        rushes.db.run(lambda tx: rushes.queue.fail_lost_of(tx, ""))

    def undone(tx: Tx) -> None:
        rushes.queue.enqueue(tx, NewJob(kind="demo"))
        assert rushes.queue.claim(tx, library.worker(either_server, "demo"), 1)
        raise errors.Invalid("on second thoughts")

    if rushes.db.dialect.name == "postgresql":
        with pytest.raises(errors.Invalid):
            rushes.db.run(undone)

    def ask(name: str, **labels: str) -> float:
        return value(either_server, name, kind="demo", **labels)

    assert ask("rushes_job_wait_seconds_count") == 4
    assert ask("rushes_job_duration_seconds_count", outcome="succeeded") == 1
    assert ask("rushes_job_duration_seconds_count", outcome="lost") == 3
    assert ask("rushes_lease_losses_total", cause="silence") == 3
    assert ask("rushes_jobs_poisoned_total") == 1
    assert value(either_server, "rushes_claim_duration_seconds_count", outcome="jobs") == 4
    assert value(either_server, "rushes_sweep_duration_seconds_count") >= 1


def test_a_job_that_was_put_off_has_not_waited_before_it_could_run(
    sqlite_world: worlds.World,
) -> None:
    world = sqlite_world
    world.enqueue(delay_seconds=100)
    world.advance(103)
    [held] = world.claim_all()
    assert held.waited_seconds == 3


def test_what_the_database_knows_is_said_alike_and_what_a_process_saw_adds_up(
    serve: Callable[..., Running],
) -> None:
    with worlds.postgres_database() as url:
        one, two = serve(database_url=url), serve(database_url=url)
        for _ in range(3):
            library.enqueue(one, "ada")
        for server in (one, two):
            held = library.claim(server, "demo")
            # Whoever has claimed it, another may be told of its end.
            one.rushes.dispatch.complete_plain([library.done(held)])
        one.rushes.chores.number_events()
        for server in (one, two):
            assert value(server, "rushes_queue_depth", kind="demo", state="queued") == 1
            assert value(server, "rushes_queue_ready_jobs", kind="demo") == 1
            assert value(server, "rushes_jobs_finished_total", kind="demo") == 2
        each = [value(s, "rushes_job_wait_seconds_count", kind="demo") for s in (one, two)]
        assert each == [1, 1]
        ran = [value(s, "rushes_job_duration_seconds_count", kind="demo") for s in (one, two)]
        assert ran == [2, 0]
        one.stop()
        two.stop()


def test_an_autoscaler_sees_what_could_run_now_and_what_it_needs(either_server: Running) -> None:
    needs = ("cuda", "av1?")
    library.enqueue(either_server, "ada", needs=needs)
    library.enqueue(either_server, "ada", needs=needs, priority="high")
    library.enqueue(either_server, "ada", needs=needs, delay_seconds=3600)
    library.enqueue(either_server, "ada", "mix")
    library.enqueue(either_server, "ada", "mix", needs=["cuda"])
    either_server.rushes.pause("mix")
    assert value(either_server, "rushes_queue_ready_jobs", kind="demo", needs="cuda") == 2
    assert value(either_server, "rushes_queue_ready_jobs") == 2
    assert value(either_server, "rushes_queue_ready_age_seconds", needs="cuda") >= 0
    either_server.rushes.resume("mix")
    assert value(either_server, "rushes_queue_ready_jobs", kind="mix", needs="") == 1
    assert value(either_server, "rushes_queue_ready_jobs", needs="cuda") == 3
    assert value(either_server, "rushes_workers_online", kind="demo") == 0
    library.worker(either_server, "demo")
    either_server.rushes.dispatch.heartbeat(either_server.rushes.workers()[-1].id, ())
    assert value(either_server, "rushes_workers_online", kind="demo") == 1


def test_requests_are_told_apart_by_route_and_never_by_address(server: Running) -> None:
    with server.client(base_url=server.url) as admin:
        for number in range(20):
            admin.get(f"/api/v1/media/med_{number}")
            admin.get(f"/{number}/nowhere")
            admin.request(f"ODD{number}", "/api/v1/jobs")
        admin.get("/api/v1/jobs")
    family = families(server)["rushes_http_request_duration_seconds"]
    labels = {
        (each.labels["method"], each.labels["route"], each.labels["status"])
        for each in family.samples
    }
    assert ("GET", "/api/v1/media/{media_id}", "4xx") in labels
    assert ("GET", "/api/v1/jobs", "2xx") in labels
    assert {method for method, _, _ in labels} <= metrics.METHODS | {"other"}
    assert not any(re.search(r"/\d+/|med_\d", route) for _, route, _ in labels)
    asked = {"method": "GET", "route": "/api/v1/media/{media_id}"}
    assert value(server, "rushes_http_request_duration_seconds_count", **asked) == 20
    # The one that asks.
    assert value(server, "rushes_http_requests_in_progress") == 1


def test_kinds_that_somebody_makes_up_do_not_become_labels_for_ever(server: Running) -> None:
    for number in range(metrics.MOST_KINDS + 20):
        server.services.metrics.jobs_claimed(f"kind{number}", [1.0])
    kinds = {each.labels["kind"] for each in families(server)["rushes_job_wait_seconds"].samples}
    assert len(kinds) == metrics.MOST_KINDS + 1
    assert "other" in kinds
    tally = exposition._Tally(GaugeMetricFamily, "x", "", "kind", most=2)
    for number in range(5):
        tally.add(1, f"kind{number}")
    assert {each.labels["kind"]: each.value for each in tally.family().samples} == {
        "kind0": 1,
        "kind1": 1,
        "other": 3,
    }


def test_files_are_counted_both_ways_and_so_are_failures_of_their_storage(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = value(server, "rushes_storage_bytes_total", direction="written")
    server.rushes.storage.put("a/b", b"x" * 1000)
    assert b"".join(server.rushes.storage.read("a/b", 200)) == b"x" * 800
    with pytest.raises(errors.NotFound):
        server.rushes.storage.read("a/c")
    monkeypatch.setattr(local_storage, "_write", _full)
    with pytest.raises(errors.DiskFull):
        server.rushes.storage.put("a/d", b"y")
    assert value(server, "rushes_storage_bytes_total", direction="written") - before == 1000
    assert value(server, "rushes_storage_bytes_total", direction="read") >= 800
    put = value(server, "rushes_storage_operation_duration_seconds_count", operation="put")
    assert put >= 2
    failed = {"operation": "put", "error": errors.DiskFull.code}
    assert value(server, "rushes_storage_errors_total", **failed) == 1
    assert value(server, "rushes_storage_errors_total") == 1
    assert value(server, "rushes_storage_free_bytes") > 0


def _full(file: int, chunk: bytes) -> None:
    raise OSError(28, "No space left on device")


def test_an_upload_is_counted_by_what_came_of_it(server: Running) -> None:
    clip = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(2000)
    with server.client() as admin:
        good = admin.post("/media", files={"file": ("a.wav", clip)})
        assert good.status_code == 201, good.text
        bad = admin.post("/media", files={"file": ("a.wav", b"MZ" + bytes(8000))})
        assert bad.status_code == 415
    assert value(server, "rushes_upload_bytes_total") >= len(clip)
    for outcome in ("finished", "refused"):
        asked = value(server, "rushes_upload_duration_seconds_count", outcome=outcome)
        assert asked == 1, outcome


def test_a_database_that_is_away_takes_only_its_own_figures_with_it(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert value(server, "rushes_database_up") == 1

    def away(*_: Any) -> Iterator[None]:
        raise errors.DatabaseDown("the database cannot be reached")

    with monkeypatch.context() as outage:
        outage.setattr(fleet, "all_workers", away)
        found = families(server)
        assert found["rushes_database_up"].samples[0].value == 0
        assert "rushes_queue_depth" not in found
        assert "rushes_http_request_duration_seconds" in found
    assert value(server, "rushes_database_up") == 1


# How they are named


@pytest.fixture
def busy(server: Running) -> Running:
    """A server that has something to tell of everything."""
    seen = server.services.metrics
    seen.request_answered("GET", "/livez", 200, 0.1)
    seen.webhook_tried(0.0, "delivered")
    seen.upload_ended(0.0, "finished")
    seen.storage_failed("put", errors.DiskFull(""))
    seen.attempts_ended("demo", "succeeded", [1])
    seen.lease_lost("demo", "silence", poison=True)
    seen.heartbeat_answered(0.0, "memory")
    library.enqueue(server, "ada")
    library.claim(server, "demo")
    library.enqueue(server, "ada")
    return server


def test_names_units_and_descriptions_keep_to_the_rules(busy: Running) -> None:
    ends = (metrics.OF_PROCESS, exposition.OF_DATABASE, "take the lowest.")
    for family in families(busy).values():
        if not family.name.startswith("process_"):
            assert re.fullmatch(r"rushes(_[a-z]+)+", family.name)
            assert family.documentation.endswith(ends), family.name
        if family.type == "counter":
            assert all(each.name.endswith("_total") for each in family.samples), family.name
        assert not family.name.endswith(("_count", "_sum", "_bucket", "_info_total"))
        assert not re.search(r"_(ms|milliseconds|minutes|kilobytes|counter|gauge)$", family.name)
        for sample in family.samples:
            assert all(re.fullmatch(r"[a-z_]+", each) for each in sample.labels)
            assert "\n" not in family.documentation
    lines = [line for line in told(busy).splitlines() if not line.startswith("#")]
    series = [line.rpartition(" ")[0] for line in lines]
    assert len(series) == len(set(series))
    assert not any("_created" in each for each in series)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on this machine")
def test_promtool_has_nothing_to_say(busy: Running) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=told(busy), capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_guide_tells_of_every_metric_and_of_no_other(busy: Running) -> None:
    rows = re.findall(r"^\| `(rushes_\w+)` \| (\w+) \|([^|]*)\|", GUIDE.read_text(), re.M)
    documented = {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows
    }
    # Without Redis there is nothing to tell of it.
    documented = {name: each for name, each in documented.items() if "_redis_" not in name}
    found = {
        each.name + ("_total" if each.type == "counter" else ""): each
        for each in families(busy).values()
        if each.name.startswith("rushes")
    }
    assert {name: kind for name, (kind, _) in documented.items()} == {
        name: each.type for name, each in found.items()
    }
    for name, family in found.items():
        labels = {label for each in family.samples for label in each.labels} - {"le"}
        assert labels == documented[name][1] or not family.samples, name
