"""One trace from an upload through a worker elsewhere to what is published; or none at all."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

import otlp
from running import Running, free_port
from rushes import JobContext, correlation, tracing
from rushes.protocol import Hello, Part
from rushes.tools import process
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote
from web import library

TRACE = "0123456789abcdef0123456789abcdef"
FROM_OUTSIDE = f"00-{TRACE}-00000000000000aa-01"
CLIP = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(2000)
TITLE = "a-title-that-nobody-may-see"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[otlp.Receiver]:
    with otlp.receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        tracing.configure("rushes")
        yield received
        tracing.close()


def work_elsewhere(server: Running, run: Callable[[JobContext], object], kind: str) -> int:
    """One job, by a worker over HTTP."""
    with closing(Remote(server.url, server.worker_key())) as coordinator:
        return Worker(coordinator, {kind: Handler(run)}, hello=Hello(kinds=[kind])).step()


def transcode(job: JobContext) -> None:
    job.progress(0.1, "look")
    process.run([sys.executable, "-c", "print(1)"])
    job.progress(0.5, "encode")
    job.put("secret-name.txt", b"made")


def test_one_trace_goes_from_the_upload_through_a_worker_to_what_is_published(
    serve: Callable[..., Running], spans: otlp.Receiver
) -> None:
    server = serve(transcode_workers=0)
    with server.client() as admin:
        admin.headers["traceparent"] = FROM_OUTSIDE
        files = {"file": (f"{TITLE}.wav", CLIP)}
        answer = admin.post("/media", files=files, data={"title": TITLE})
        assert answer.status_code == 201, answer.text
    assert work_elsewhere(server, transcode, "transcode") == 1
    tracing.close()
    assert {each.trace_id for each in spans.spans if each.name != "POST"} >= {TRACE}
    ours = {each.span_id: each for each in spans.spans if each.trace_id == TRACE}

    def path(span: otlp.ReceivedSpan) -> list[str]:
        """Down from the first one."""
        above = ours.get(span.parent_id)
        return [*(path(above) if above else []), span.name]

    upload = spans.only("POST /api/v1/media")
    assert upload.parent_id == "00000000000000aa"
    run = ["POST /api/v1/media", "enqueue", "wait", "run transcode"]
    program = f"tool {sys.executable.rpartition('/')[2]}"
    paths = [path(each) for each in ours.values()]
    assert run in paths
    for step in ("stage look", "stage encode", "put artifact", program):
        assert [*run, step] in paths, (step, paths)
    put = [*run, "put artifact", "PUT /api/v1/worker/artifacts/{job_id}/{name:path}"]
    assert put in paths
    assert [*run, "POST /api/v1/worker/complete", "publish"] in paths
    told = repr(spans.spans)
    for secret in (TITLE, "secret-name", str(server.settings.data_dir), "/usr", "rushes_wrk_"):
        assert secret not in told
    assert not any(each.failed for each in ours.values())


def test_what_goes_wrong_is_marked_without_its_words(
    serve: Callable[..., Running], spans: otlp.Receiver
) -> None:
    server = serve(transcode_workers=0)

    def fail(job: JobContext) -> None:
        raise ValueError("the words of a stranger")

    job_id = library.enqueue(server, "ada", max_attempts=1)
    assert work_elsewhere(server, fail, "demo") == 1
    assert server.rushes.job(job_id).state == "failed"
    tracing.close()
    run = spans.only("run demo")
    assert run.failed
    assert "words of a stranger" not in repr(spans.spans)


def test_a_trace_goes_through_servers_and_workers_that_record_none(server: Running) -> None:
    seen: list[str | None] = []

    def look(job: JobContext) -> None:
        seen.append(correlation.trace())

    with server.client() as admin:
        admin.headers["traceparent"] = FROM_OUTSIDE
        asked = admin.post("/media", files={"file": ("a.wav", CLIP)})
        assert asked.status_code == 201, asked.text
    assert work_elsewhere(server, look, "transcode") == 1
    assert seen == [FROM_OUTSIDE]
    assert correlation.trace() is None


def test_parts_belong_to_the_trace_of_their_whole(server: Running) -> None:
    me = library.worker(server, "transcode", "span")
    with correlation.bound(trace=FROM_OUTSIDE):
        library.enqueue(server, "ada", "transcode")
    [held] = server.rushes.dispatch.claim(me, 1)
    assert held.trace == FROM_OUTSIDE
    server.rushes.dispatch.divide(held.claim, [Part(kind="span")])
    [part] = server.rushes.dispatch.claim(me, 1)
    assert (part.kind, part.trace) == ("span", FROM_OUTSIDE)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_recorded_unless_it_is_asked_for(
    said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    tracing.configure("rushes")
    assert not tracing.is_on()
    with tracing.span("nothing") as span:
        assert span is None
        assert correlation.trace() is None


def test_a_collector_that_is_away_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused at once, and would be tried again and again."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setattr(tracing, "CLOSE_SECONDS", 0.1)
    tracing.configure("rushes")
    with tracing.span("something"):
        pass
    began = time.monotonic()
    tracing.close()
    assert time.monotonic() - began < 5


def test_without_it_opentelemetry_is_not_even_imported() -> None:
    loads = "import rushes.worker.loop, rushes.worker.remote, sys; from rushes import tracing;"
    asked = "tracing.configure('x'); sys.exit(any('opentelemetry' in each for each in sys.modules))"
    subprocess.run([sys.executable, "-c", loads + asked], check=True)
