"""The log: which request, worker, job and media a line is about, and who is told what."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from running import Process, Running
from rushes import JobContext, Rushes, correlation, logs
from rushes.correlation import Correlation
from rushes.protocol import Hello
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote

log = logging.getLogger("rushes.test")


class Lines(logging.Handler):
    """As they would be written, in JSON."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logs._Json())
        self.written: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(json.loads(self.format(record)))

    def about(self, message: str) -> dict[str, Any]:
        [found] = [each for each in self.written if message in each["message"]]
        return found


@pytest.fixture
def lines() -> Iterator[Lines]:
    watched, handler = logging.getLogger("rushes"), Lines()
    watched.addHandler(handler)
    yield handler
    watched.removeHandler(handler)


def test_a_line_tells_what_it_is_about_and_forgets_it_afterwards(lines: Lines) -> None:
    with correlation.bound(job_id="job_1", worker_id="wrk_2", media_id=None):
        with correlation.bound(media_id="med_3", job_id=None):
            log.info("inside")
        log.info("outside")
    log.info("nowhere")
    inside, outside, nowhere = lines.written
    assert (inside["job_id"], inside["worker_id"], inside["media_id"]) == (
        "job_1",
        "wrk_2",
        "med_3",
    )
    assert outside["job_id"] == "job_1"
    assert "media_id" not in outside
    assert set(nowhere) == {"at", "level", "logger", "message"}


def test_people_see_the_end_of_each_id() -> None:
    record = logging.LogRecord("rushes", logging.INFO, "", 0, "it goes on", (), None)
    with correlation.bound(job_id="job_01jabcdef7k2p9x", trace=f"00-{'a' * 32}-{'b' * 16}-01"):
        shown = logs._Human().format(record)
    assert shown.endswith("it goes on [job …7k2p9x]")
    assert logs._Human().format(record).endswith("it goes on")


def test_an_id_that_is_a_key_is_not_written() -> None:
    record = logging.LogRecord("rushes", logging.INFO, "", 0, "hello", (), None)
    key = "rushes_tok_" + "a1B2" * 12 + "x"
    with correlation.bound(request_id=key):
        assert key not in logs._Json().format(record)


def test_whatever_a_handler_says_is_about_its_job_in_its_threads_too(
    lines: Lines, tmp_path: Any
) -> None:
    with Rushes(f"sqlite:///{tmp_path}/rushes.db") as rushes:

        @rushes.handler("talk")
        def talk(job: JobContext) -> None:
            log.info("in the handler")
            aside = threading.Thread(target=correlation.carried(log.info), args=["in its thread"])
            aside.start()
            aside.join()

        job_id = rushes.enqueue("talk").id
        assert rushes.run_once()
    log.info("after it")
    for place in ("in the handler", "in its thread"):
        assert lines.about(place)["job_id"] == job_id
        assert lines.about(place)["worker_id"] == "wrk_run_once_"
    assert "job_id" not in lines.about("after it")


def test_a_worker_elsewhere_says_who_it_is(server: Running, lines: Lines) -> None:
    coordinator = Remote(server.url, server.worker_key())
    table = {"demo": Handler(lambda job: log.info("far away"))}
    worker = Worker(coordinator, table, hello=Hello(kinds=["demo"]))
    job_id = server.rushes.enqueue("demo").id
    assert worker.step() == 1
    coordinator.close()
    said = lines.about("far away")
    assert said["job_id"] == job_id
    [registered] = [each for each in server.rushes.workers() if "demo" in each.kinds]
    assert said["worker_id"] == registered.id


def test_a_request_keeps_the_id_that_it_came_with(server: Running, lines: Lines) -> None:
    with server.client() as admin:
        answer = admin.get("/session", headers={"X-Request-ID": "edge-7.a:b_c"})
        assert answer.headers["x-request-id"] == "edge-7.a:b_c"
        assert lines.about("GET /api/v1/session")["request_id"] == "edge-7.a:b_c"
        made = admin.get("/session").headers["x-request-id"]
        assert made.startswith("req_")
        refused = admin.get("/media/med_none", headers={"X-Request-ID": "edge-8"})
        assert refused.json()["request_id"] == "edge-8"


ODD = ("", "x" * 65, "a b", "a\tb", "ü", "<script>", "../../etc", "a,b", "rushes_tok_" + "Ab1" * 16)


def test_an_id_that_is_none_is_replaced(server: Running) -> None:
    with server.client() as admin:
        for odd in ODD:
            answer = admin.get("/session", headers={b"X-Request-ID": odd.encode("latin-1")})
            assert answer.status_code == 200
            assert answer.headers["x-request-id"].startswith("req_"), odd


def test_a_json_log_has_nothing_else_in_it(process: Callable[..., Process]) -> None:
    server = process(log_format="json")
    written = server.log.read_text().splitlines()
    said = [json.loads(line)["message"] for line in written]
    assert f"Rushes is running at {server.url}" in said
    # Whoever starts it can sign in, and others cannot read it.
    assert any("/sign-in?token=" in each for each in said)


def test_without_it_the_lines_for_people_stay_as_they_are() -> None:
    printed: list[str] = []
    logs.announcer("auto", printed.append)("Rushes is running")
    logs.announcer("json", printed.append)("one\n\ntwo")
    assert printed[0] == "Rushes is running"
    assert [json.loads(line)["message"] for line in printed[1:]] == ["one", "two"]


@pytest.mark.parametrize(
    ("header", "good"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", True),
        (f"00-{'0' * 32}-{'b' * 16}-01", False),
        (f"00-{'a' * 32}-{'0' * 16}-01", False),
        (f"ff-{'a' * 32}-{'b' * 16}-01", False),
        (f"00-{'A' * 32}-{'b' * 16}-01", False),
        (f"00-{'a' * 32}-{'b' * 16}-01-more", False),
        ("", False),
        (None, False),
    ],
)
def test_a_trace_of_a_stranger_is_one_or_nothing(header: str | None, good: bool) -> None:
    assert (correlation.traceparent(header) == header) == (good or header is None)
    assert Correlation(trace=correlation.traceparent(header)).trace_id == (
        "a" * 32 if good else None
    )
