"""The worker's loop against a scripted coordinator: lost leases, cancels, stops, crashes."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rushes import errors
from rushes.protocol import (
    Artifact,
    Assignment,
    Beat,
    Claim,
    Completion,
    Coordinator,
    Excerpt,
    Hello,
    Part,
    Progress,
    Pulse,
    Renewed,
    Source,
    Standing,
    Terms,
)
from rushes.sanitize import sanitize
from rushes.worker import context, loop
from rushes.worker.context import JobContext, Stop
from rushes.worker.loop import Handler, Worker
from rushes.worker_settings import WorkerSettings


class Panic(BaseException):
    """As a library in Rust raises it."""


class Script(Coordinator):
    """A coordinator that says what the test wants and remembers what it was told."""

    def __init__(self, *assignments: Assignment) -> None:
        self.assignments = list(assignments)
        self.told: list[tuple[str, ...]] = []
        self.beats: dict[str, Beat] = {}
        self.answers: dict[str, str] = {}
        self.outages = 0
        self.drain = False
        self.requests: list[str | None] = []
        self.rolls: list[tuple[Sequence[Claim], Sequence[str]]] = []

    def hello(self, hello: Hello) -> None:
        self.told.append(("hello", *hello.kinds))

    def claim(
        self,
        limit: int = 1,
        wait_seconds: float = 0,
        request_id: str | None = None,
        boot_id: str | None = None,
        *newer: Any,
        **named: Any,
    ) -> list[Assignment]:
        self.requests.append(request_id)
        taken, self.assignments = self.assignments[:limit], self.assignments[limit:]
        return taken

    def heartbeat(
        self,
        claims: Sequence[Claim] = (),
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
        standing: Standing | None = None,
    ) -> Pulse:
        self._outage()
        beats = {each.claim_id: self.beats.get(each.job_id, Beat(True)) for each in claims}
        self.told.append(("heartbeat", *[each.job_id for each in claims]))
        self.rolls.append((stalled, answered))
        return Pulse(beats, self.drain)

    def progress(self, report: Progress) -> Renewed:
        self._outage()
        id = report.claim.job_id
        self.told.append(("progress", id, str(report.progress)))
        beat = self.beats.get(id, Beat(True))
        if not beat.held:
            raise errors.ClaimLost("the claim is not held any more")
        return Renewed(True, beat.cancel)

    def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
        self._outage()
        ids = [each.claim.job_id for each in completions]
        self.told.append(("complete", *ids))
        return {id: self.answers.get(id, "completed") for id in ids}

    def fail(
        self,
        claim: Claim,
        error_class: str = "transient",
        code: str = "failed",
        message: str = "",
    ) -> str:
        self._outage()
        self.told.append(("fail", claim.job_id, error_class, code, message))
        return "queued"

    def release(self, claim: Claim) -> str:
        self._outage()
        self.told.append(("release", claim.job_id))
        return "queued"

    def divide(self, claim: Claim, parts: Sequence[Part], checkpoint: Any = None) -> str:
        self._outage()
        self.told.append(("divide", claim.job_id, *[each.kind for each in parts], str(checkpoint)))
        if not parts:
            raise errors.BadField("parts", "must be more than none")
        return "blocked"

    def source(
        self, claim: Claim, media_id: str | None = None, excerpt: Excerpt | None = None
    ) -> Source:
        raise errors.NotFound("no source")

    def read_source(
        self,
        claim: Claim,
        start: int,
        media_id: str | None = None,
        excerpt: Excerpt | None = None,
    ) -> Iterator[bytes]:
        raise errors.NotFound("no source")

    def artifacts(self, claim: Claim) -> list[Artifact]:
        return []

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        raise errors.DiskFull("the storage is full")

    def adopt(self, claim: Claim, names: Sequence[str]) -> list[Artifact]:
        self.told.append(("adopt", claim.job_id, str(len(names))))
        return [
            Artifact(name=name, size_bytes=1, sha256="", content_type="")
            for name in names
            if name != "damaged.txt"
        ]

    def discard(self, claim: Claim, names: Sequence[str]) -> list[Artifact]:
        self.told.append(("discard", claim.job_id, *names))
        return []

    def put_passage(self, claim: Claim, number: int, content: Any) -> int:
        self.told.append(("passage", claim.job_id, str(number)))
        return number

    def transcript(self, claim: Claim) -> dict[str, Any] | None:
        return None

    def passages(self, claim: Claim) -> list[Any]:
        return []

    def log(self, claim: Claim, lines: Sequence[str]) -> int:
        self._outage()
        self.told.append(("log", claim.job_id, *lines))
        return len(lines)

    def interrupt(self) -> None:
        self.told.append(("interrupt",))

    def _outage(self) -> None:
        if self.outages:
            self.outages -= 1
            raise errors.DatabaseDown("away")


def job(id: str = "job_1", *, kind: str = "noop", lease: float = 60) -> Assignment:
    return Assignment(
        job_id=id,
        claim_id=f"clm_{id}",
        kind=kind,
        args={},
        media_id=None,
        user_id="",
        epoch=1,
        attempt=1,
        max_attempts=3,
        checkpoint=None,
        lease_seconds=lease,
    )


def worker(script: Script, run: Callable[[JobContext], Any], **options: Any) -> Worker:
    stall = options.pop("stall_seconds", None)
    return Worker(script, {"noop": Handler(run, stall)}, hello=Hello(kinds=["noop"]), **options)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(context, "LISTEN_SECONDS", 0.001)


def test_a_job_is_run_and_completed() -> None:
    script = Script(job())
    assert worker(script, lambda job: {"done": True}).step() == 1
    assert script.told == [("hello", "noop"), ("complete", "job_1")]


def test_a_batch_is_completed_together() -> None:
    script = Script(job("a"), job("b"), job("c"))
    assert worker(script, lambda job: None, batch=3).step() == 3
    assert script.told[1:] == [("complete", "a", "b", "c")]


def test_the_worker_says_hello_once() -> None:
    script = Script(job("a"), job("b"))
    crew = worker(script, lambda job: None)
    while crew.step():
        pass
    assert script.told.count(("hello", "noop")) == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.PermanentFailure("corrupt", code="bad_source"), ("permanent", "bad_source")),
        (errors.RetryLater("engine busy"), ("resource", "resource")),
        (MemoryError(), ("resource", "out_of_memory")),
        (OSError(errno.ENOSPC, "No space left"), ("resource", "disk_full")),
        (ValueError("cannot open /srv/media/secret/a.mp4"), ("transient", "handler_error")),
    ],
)
def test_what_a_handler_raises_decides_how_the_attempt_ends(
    error: Exception, told: tuple[str, str]
) -> None:
    def raises(job: JobContext) -> None:
        raise error

    script = Script(job())
    worker(script, raises).step()
    [report] = [each for each in script.told if each[0] == "fail"]
    assert report[2:4] == told
    assert "/srv" not in report[4]


def test_a_failure_does_not_keep_its_neighbours_from_completing() -> None:
    def run(job: JobContext) -> None:
        if job.job_id == "b":
            raise RuntimeError

    script = Script(job("a"), job("b"), job("c"))
    worker(script, run, batch=3).step()
    assert script.told[1][:2] == ("fail", "b")
    assert script.told[2] == ("complete", "a", "c")


def test_a_kind_without_handler_fails_for_good() -> None:
    script = Script(job(kind="unknown"))
    worker(script, lambda job: None).step()
    assert script.told[1][:4] == ("fail", "job_1", "permanent", "no_handler")


def test_a_result_that_is_not_json_fails_alone() -> None:
    script = Script(job("a"), job("b"))
    worker(script, lambda job: object() if job.job_id == "a" else 1, batch=2).step()
    assert script.told[1][:4] == ("fail", "a", "permanent", "bad_result")
    assert script.told[2] == ("complete", "b")


def test_progress_is_reported_and_a_lost_claim_stops_the_handler() -> None:
    reached: list[str] = []

    def run(job: JobContext) -> None:
        job.progress(0.2, "probe")
        script.beats["job_1"] = Beat(False)
        job.progress(0.4)
        reached.append("the end")

    script = Script(job())
    worker(script, run).step()
    assert reached == []
    assert [each[0] for each in script.told] == ["hello", "progress", "progress"]


def test_a_cancel_heard_with_progress_is_acknowledged() -> None:
    script = Script(job())
    script.beats["job_1"] = Beat(True, cancel=True)
    worker(script, lambda job: job.progress(0.5)).step()
    assert script.told[-1][:4] == ("fail", "job_1", "transient", "canceled")


def test_a_cancel_that_came_while_completing_is_acknowledged() -> None:
    script = Script(job())
    script.answers["job_1"] = "cancel_requested"
    worker(script, lambda job: None).step()
    assert [each[0] for each in script.told] == ["hello", "complete", "fail"]


def test_a_heartbeat_renews_and_tells_of_cancel_loss_and_drain() -> None:
    heard: list[Stop | None] = []

    def run(job: JobContext) -> None:
        crew.beat()
        heard.append(job.stop_reason)
        script.beats[job.job_id] = Beat(True, cancel=True)
        crew.beat()
        heard.append(job.stop_reason)
        script.beats[job.job_id] = Beat(False)
        crew.beat()
        heard.append(job.stop_reason)

    script = Script(job())
    crew = worker(script, run)
    crew.step()
    assert heard == [None, Stop.CANCELED, Stop.CLAIM_LOST]
    assert not [each for each in script.told if each[0] in ("complete", "fail", "release")]


@pytest.mark.parametrize("held", [True, False])
def test_a_worker_that_cannot_renew_in_time_halts_until_the_server_says_whose_the_job_is(
    held: bool,
) -> None:
    def run(job: JobContext) -> None:
        script.outages = 10**9
        while not job.suspended:
            crew.beat()
        assert not job.stopping
        script.outages = 3
        script.beats[job.job_id] = Beat(held)
        job.progress(0.5)

    script = Script(job(lease=0.05))
    crew = worker(script, run)
    crew.step()
    said = [each[0] for each in script.told]
    assert said == ["hello", "heartbeat", *(["progress", "complete"] if held else [])]


def test_a_stop_is_heard_while_the_handler_is_held_up() -> None:
    def run(job: JobContext) -> None:
        job.suspend()
        threading.Timer(0.02, crew.stop).start()
        script.outages = 10**9
        try:
            job.wait(60)
        finally:
            script.outages = 0

    script = Script(job())
    crew = worker(script, run)
    crew.run()
    assert ("release", "job_1") in script.told


def test_time_that_a_handler_is_held_up_is_not_taken_for_a_stall() -> None:
    def run(job: JobContext) -> None:
        job.suspend()
        job._alive_at -= 3600
        assert not job.stalled
        crew.beat()
        assert not job.stalled

    script = Script(job())
    crew = worker(script, run, stall_seconds=600)
    crew.step()
    assert ("heartbeat", "job_1") in script.told


@pytest.mark.parametrize("held", [True, False])
def test_before_a_late_result_is_reported_the_server_is_asked(held: bool) -> None:
    script = Script(job(lease=0.001))
    script.beats["job_1"] = Beat(held)
    worker(script, lambda job: time.sleep(0.01)).step()
    said = [each[0] for each in script.told]
    assert said == ["hello", "heartbeat", *(["complete"] if held else [])]


# Claim requests


def test_a_claim_without_an_answer_is_repeated_as_the_same_request() -> None:
    class Away(Script):
        def claim(
            self,
            limit: int = 1,
            wait_seconds: float = 0,
            request_id: str | None = None,
            boot_id: str | None = None,
            *newer: Any,
            **named: Any,
        ) -> list[Assignment]:
            taken = super().claim(limit, wait_seconds, request_id)
            self._outage()
            return taken

    script = Away(job("a"), job("b"))
    crew = worker(script, lambda job: crew.stop() if job.job_id == "b" else None)
    script.outages = 1
    script.assignments.insert(0, job("lost"))
    crew.run()
    first, again, second, *_ = script.requests
    assert first == again != second


class Newer(Script):
    """Of a version in which claims are signs of life."""

    def __init__(self, *assignments: Assignment) -> None:
        super().__init__(*assignments)
        self.answered: list[tuple[str, ...]] = []

    def hello(self, hello: Hello) -> Terms:  # type: ignore[override]
        return Terms(
            worker_id="wrk_1",
            name="one",
            kinds=hello.kinds,
            heartbeat_seconds=30,
            lease_seconds=60,
            protocol="1.1",
            settings=WorkerSettings(),
            terms_etag="as it was",
        )

    def claim(
        self,
        limit: int = 1,
        wait_seconds: float = 0,
        request_id: str | None = None,
        boot_id: str | None = None,
        kinds: Sequence[str] | None = None,
        terms_etag: str | None = None,
        answered: Sequence[str] = (),
    ) -> list[Assignment]:
        assert terms_etag == "as it was"
        self.answered.append(tuple(answered))
        return super().claim(limit, wait_seconds, request_id)


def test_a_worker_tells_with_its_claim_what_was_answered_only_while_it_holds_nothing() -> None:
    script = Newer(job("a"))
    crew = worker(script, lambda job: crew.step() and None)
    crew.step()
    crew.step()
    crew.step()
    first, second, third, _ = script.requests
    assert script.answered == [(), (), (first, second), (third,)]


def test_a_heartbeat_tells_each_answered_request_until_it_got_through() -> None:
    def run(job: JobContext) -> None:
        script.outages = 1
        crew.beat()
        crew.beat()
        crew.beat()

    script = Script(job("a"), job("b"))
    crew = worker(script, run)
    crew.step()
    crew.step()
    a, b = script.requests
    assert [answered for _, answered in script.rolls] == [(a,), (), (b,), ()]


def test_a_heartbeat_does_not_tell_of_an_answer_that_is_on_its_way() -> None:
    """Else the server would free what the worker is about to run."""

    class Racing(Script):
        def claim(
            self,
            limit: int = 1,
            wait_seconds: float = 0,
            request_id: str | None = None,
            boot_id: str | None = None,
            *newer: Any,
            **named: Any,
        ) -> list[Assignment]:
            taken = super().claim(limit, wait_seconds, request_id)
            crew.beat()
            return taken

    script = Racing(job())
    crew = worker(script, lambda job: crew.beat())
    crew.step()
    assert [answered for _, answered in script.rolls] == [(), tuple(script.requests)]
    assert script.told[1:3] == [("heartbeat",), ("heartbeat", "job_1")]


def test_a_stalled_job_is_left_out_of_the_heartbeat() -> None:
    def run(job: JobContext) -> None:
        crew.beat()
        job.wait(0.02)
        crew.beat()
        job.alive()
        crew.beat()

    script = Script(job())
    crew = worker(script, run, stall_seconds=0.01)
    crew.step()
    beats = [each for each in script.told if each[0] == "heartbeat"]
    assert beats == [("heartbeat", "job_1"), ("heartbeat",), ("heartbeat", "job_1")]
    # Yet it says that it holds it.
    assert [len(stalled) for stalled, _ in script.rolls] == [0, 1, 0]


def test_reports_are_repeated_until_there_is_an_answer() -> None:
    script = Script(job())
    crew = worker(script, lambda job: setattr(script, "outages", 3))
    crew.step()
    assert script.told[-1] == ("complete", "job_1")


def test_a_refused_report_is_not_repeated() -> None:
    calls = []

    class Refusing(Script):
        def fail(
            self,
            claim: Claim,
            error_class: str = "transient",
            code: str = "failed",
            message: str = "",
        ) -> str:
            calls.append(claim.job_id)
            raise errors.ClaimLost("gone")

    def run(job: JobContext) -> None:
        raise RuntimeError

    worker(Refusing(job()), run).step()
    assert calls == ["job_1"]


def test_a_gentle_stop_gives_back_what_runs_and_what_was_not_started() -> None:
    def run(job: JobContext) -> None:
        crew.stop()
        job.wait(60)

    script = Script(job("a"), job("b"))
    crew = worker(script, run, batch=2)
    crew.run()
    assert ("release", "a") in script.told
    assert ("release", "b") in script.told
    assert not [each for each in script.told if each[0] == "fail"]


def test_a_handler_that_does_not_listen_loses_its_job_and_its_result_is_dropped() -> None:
    def run(job: JobContext) -> None:
        crew.stop()
        crew.abandon()

    script = Script(job())
    crew = worker(script, run)
    crew.run()
    assert ("release", "job_1") in script.told
    assert not [each for each in script.told if each[0] == "complete"]


def test_a_job_that_comes_back_while_its_old_report_is_on_its_way_is_kept() -> None:
    """The reporter must drop the claim it reported, not the new one of the same job."""
    again = replace(job("a"), claim_id="clm_again")
    back = threading.Event()
    reported = threading.Event()

    class Slow(Script):
        def claim(
            self,
            limit: int = 1,
            wait_seconds: float = 0,
            request_id: str | None = None,
            boot_id: str | None = None,
            *newer: Any,
            **named: Any,
        ) -> list[Assignment]:
            taken = super().claim(2 if back.is_set() else 1)
            back.set()
            return taken

        def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
            if completions[0].claim.claim_id == "clm_a":
                self.answers["a"] = "claim_lost"
                assert started.wait(10)
                answer = super().complete_all(completions)
                self.answers.clear()
                threading.Timer(0.01, reported.set).start()
                return answer
            return super().complete_all(completions)

    started = threading.Event()

    def run(context: JobContext) -> None:
        if context.claim.claim_id == "clm_b":
            started.set()
            assert reported.wait(10)
        elif context.claim.claim_id == "clm_again":
            crew.beat()
            crew.stop()

    script = Slow(job("a"), job("b"), again)
    crew = worker(script, run, batch=2)
    crew.run()
    assert ("heartbeat", "b", "a") in script.told
    assert script.told[-1] == ("complete", "b", "a")


def test_a_drained_worker_claims_nothing_until_it_is_enabled_again() -> None:
    class Drained(Script):
        def heartbeat(self, claims: Sequence[Claim] = (), *more: Any) -> Pulse:
            if not claims:
                waiting.append([each.job_id for each in self.assignments])
                self.drain = False
            return super().heartbeat(claims, *more)

    def run(job: JobContext) -> None:
        crew.beat()
        if job.job_id == "b":
            crew.stop()

    waiting: list[list[str]] = []
    script = Drained(job("a"), job("b"))
    script.drain = True
    crew = worker(script, run, heartbeat_seconds=0.02)
    crew.run()
    assert waiting[0] == ["b"]
    assert ("complete", "a") in script.told
    assert ("release", "b") in script.told or ("complete", "b") in script.told


def test_the_loop_survives_an_outage_of_the_queue() -> None:
    class Away(Script):
        def claim(
            self,
            limit: int = 1,
            wait_seconds: float = 0,
            request_id: str | None = None,
            boot_id: str | None = None,
            *newer: Any,
            **named: Any,
        ) -> list[Assignment]:
            if self.outages:
                self.outages -= 1
                raise errors.DatabaseDown("away")
            return super().claim(limit, wait_seconds, request_id)

    script = Away(job())
    script.outages = 2
    crew = worker(script, lambda job: crew.stop())
    crew.run()
    assert ("complete", "job_1") in script.told


def test_a_waiting_claim_is_interrupted_by_stop() -> None:
    waiting = threading.Event()
    freed = threading.Event()

    class Waiting(Script):
        def claim(
            self,
            limit: int = 1,
            wait_seconds: float = 0,
            request_id: str | None = None,
            boot_id: str | None = None,
            *newer: Any,
            **named: Any,
        ) -> list[Assignment]:
            waiting.set()
            assert freed.wait(10)
            return []

        def interrupt(self) -> None:
            freed.set()

    crew = worker(Waiting(), lambda job: None)
    thread = threading.Thread(target=crew.run)
    thread.start()
    assert waiting.wait(10)
    crew.stop()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read /var/lib/rushes/a.mp4: gone", "cannot read …: gone"),
        (r"no C:\Users\me\a.mp4", "no …"),
        ("first line\nTraceback /etc/passwd", "first line"),
        ("1/2 done and/or not", "1/2 done and/or not"),
        ("", ""),
    ],
)
def test_messages_for_strangers_have_no_paths_and_one_line(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_a_result_that_is_too_large_fails_the_job_and_not_the_worker() -> None:
    script = Script(job())
    assert worker(script, lambda job: "x" * 2_000_000).step() == 1
    assert script.told[-1][:4] == ("fail", "job_1", "permanent", "bad_result")


def test_a_report_that_is_refused_is_not_repeated_for_ever() -> None:
    class Strict(Script):
        def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
            self.told.append(("refused",))
            raise errors.Invalid("too large")

    script = Strict(job())
    assert worker(script, lambda job: None).step() == 1
    assert script.told.count(("refused",)) == 1


def test_a_full_storage_gives_the_job_back_for_later() -> None:
    script = Script(job())
    worker(script, lambda job: job.put("a.txt", b"a")).step()
    assert script.told[-1][:4] == ("fail", "job_1", "resource", "disk_full")


# Parts, adoption, several threads


def test_a_division_is_reported_with_its_checkpoint() -> None:
    script = Script(job())

    def divide(job: JobContext) -> None:
        raise errors.Divided([Part(kind="a"), Part(kind="b")], checkpoint={"at": 1})

    worker(script, divide).step()
    assert script.told[-1] == ("divide", "job_1", "a", "b", "{'at': 1}")


def test_a_division_is_repeated_until_there_is_an_answer() -> None:
    script = Script(job())
    script.outages = 0

    def divide(job: JobContext) -> None:
        script.outages = 2
        raise errors.Divided([Part(kind="a")])

    worker(script, divide).step()
    assert script.told[-1][:2] == ("divide", "job_1")


def test_a_division_that_is_refused_is_a_failure() -> None:
    script = Script(job())

    def divide(job: JobContext) -> None:
        raise errors.Divided([])

    worker(script, divide).step()
    assert script.told[-1][:4] == ("fail", "job_1", "permanent", "bad_division")


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (Stop.CANCELED, ("fail", "job_1", "transient", "canceled")),
        (Stop.SHUTDOWN, ("divide", "job_1", "a", "None")),
    ],
)
def test_a_division_by_a_job_that_was_told_to_stop(reason: Stop, told: tuple[str, ...]) -> None:
    script = Script(job())

    def divide(job: JobContext) -> None:
        job.stop(reason)
        raise errors.Divided([Part(kind="a")])

    worker(script, divide).step()
    assert script.told[-1][:4] == told


def test_a_lost_claim_divides_nothing() -> None:
    script = Script(job())

    def divide(job: JobContext) -> None:
        job.stop(Stop.CLAIM_LOST)
        raise errors.Divided([Part(kind="a")])

    worker(script, divide).step()
    assert not [each for each in script.told if each[0] in ("divide", "fail")]


def test_files_are_adopted_in_pages_and_are_in_the_manifest() -> None:
    script = Script(job())
    names = [f"{n}.txt" for n in range(1100)] + ["damaged.txt"]
    found: list[object] = []

    def adopt(job: JobContext) -> None:
        found.append([each.name for each in job.adopt(names)])
        found.append(job.manifest)

    worker(script, adopt).step()
    assert [each for each in script.told if each[0] == "adopt"] == [
        ("adopt", "job_1", "500"),
        ("adopt", "job_1", "500"),
        ("adopt", "job_1", "101"),
    ]
    assert found == [names[:-1], dict.fromkeys(names[:-1], "")]


def test_threads_of_a_handler_may_all_speak() -> None:
    script = Script(job())
    names = [f"{n}.txt" for n in range(40)]

    def busy(job: JobContext) -> None:
        def one(part: list[str]) -> None:
            for name in part:
                job.adopt([name])
                job.log(name)
                job.progress(0.5, checkpoint={"name": name})

        threads = [threading.Thread(target=one, args=[names[n::4]]) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(job.manifest or ()) == set(names)

    worker(script, busy).step()
    assert script.told[-1] == ("complete", "job_1")
    said = [line for each in script.told if each[0] == "log" for line in each[2:]]
    assert sorted(said) == sorted(names)


@pytest.mark.parametrize("trouble", [SystemExit(3), Panic("called unwrap on nothing")])
def test_a_handler_that_exits_or_panics_ends_its_attempt_only(trouble: BaseException) -> None:
    script = Script(job("job_1"), job("job_2"))
    ended = threading.Event()

    def run(context: JobContext) -> None:
        if context.job_id == "job_1":
            raise trouble
        ended.set()

    mine = worker(script, run)
    thread = threading.Thread(target=mine.run, daemon=True)
    thread.start()
    assert ended.wait(30)
    mine.stop()
    thread.join(30)
    [failed] = [each for each in script.told if each[0] == "fail"]
    assert failed[:4] == ("fail", "job_1", "transient", "handler_error")


def test_in_the_main_thread_an_exit_is_for_the_process() -> None:
    def run(context: JobContext) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker(Script(job("job_1")), run).step()


def test_a_worker_that_breaks_down_renews_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, beaten = Script(job("job_1")), threading.Event()
    mine = worker(script, lambda context: beaten.wait(30), heartbeat_seconds=0.01)

    def heartbeat(claims: Sequence[Claim], *more: Any) -> Pulse:
        beaten.set()
        return Pulse({each.claim_id: Beat(True) for each in claims}, False)

    def complete_all(completions: Sequence[Completion]) -> dict[str, str]:
        raise Panic

    monkeypatch.setattr(script, "heartbeat", heartbeat)
    monkeypatch.setattr(script, "complete_all", complete_all)
    before = set(threading.enumerate())
    with pytest.raises(Panic):
        mine.run()
    for each in set(threading.enumerate()) - before:
        each.join(30)
        assert not each.is_alive()


def test_a_heartbeat_that_is_not_answered_does_not_keep_a_job_from_being_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A network that is silent: nothing fails, nothing comes."""
    script, held_up, was_held_up = Script(job(lease=0.2)), threading.Event(), []

    def heartbeat(claims: Sequence[Claim], *more: Any) -> Pulse:
        held_up.wait(30)
        return Pulse({each.claim_id: Beat(True) for each in claims}, False)

    def run(context: JobContext) -> None:
        deadline = time.monotonic() + 10
        while not context.suspended and time.monotonic() < deadline:
            held_up.wait(0.005)
        was_held_up.append(context.suspended)
        held_up.set()
        context.raise_if_stopped()
        mine.stop()

    monkeypatch.setattr(script, "heartbeat", heartbeat)
    mine = worker(script, run, heartbeat_seconds=0.02)
    mine.run()
    assert was_held_up == [True]
