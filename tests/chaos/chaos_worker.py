"""The worker processes of a chaos run: the shipped library, with a history of all it was told.

`python -m chaos.chaos_worker URL DIRECTORY` is a nursery: it imports everything once and forks one
worker for each line it reads, because starting Python for every kill would be most of the load. At
the end of its input it kills the workers that are left, so a killed test leaves none behind.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from chaos.history import History
from rushes import config, errors
from rushes.app import Rushes
from rushes.chores import Chores
from rushes.jobs import lifecycle, store
from rushes.jobs.job import State
from rushes.protocol import (
    Assignment,
    Beat,
    Claim,
    Completion,
    Coordinator,
    Hello,
    Progress,
    Pulse,
    Renewed,
    Standing,
    Terms,
)
from rushes.worker.context import JobContext

T = TypeVar("T")

KIND = "chaos"
LEASE_SECONDS = 1.0
HEARTBEAT_SECONDS = 0.25
SWEEP_SECONDS = 0.3
BACKOFF_FLOOR_MS, BACKOFF_BASE_MS = 20, 50
MUTANT = "RUSHES_TEST_CHAOS_MUTANT"
CRASHED = 70


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process. A rude one keeps working and reporting whatever it is told. `slow` is
    the least it takes for a job, in seconds."""

    name: str
    rude: bool
    batch: int
    chores: bool
    slow: float


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt does; the same wherever and whenever it runs."""

    seconds: float
    outcome: str
    reports_progress: bool


def settings(url: str) -> config.Settings:
    return config.Settings(
        database_url=url,
        claim_duration=LEASE_SECONDS,
        heartbeat_interval=HEARTBEAT_SECONDS,
        sweep_interval=SWEEP_SECONDS,
        poll_interval=0.2,
        max_attempts=8,
    )


def fate(n: int, attempt: int) -> Fate:
    """One in a hundred outlives its lease, so that renewing matters; one in six is slow enough to
    be still running when the worker that lost it wakes up."""
    of_job, of_attempt = random.Random(f"job {n}"), random.Random(f"attempt {n} {attempt}")
    length, luck = of_job.random(), of_attempt.random()
    if length < 0.01:
        seconds = 1.3 * LEASE_SECONDS
    elif length < 0.16:
        seconds = of_job.uniform(0.15, 0.4)
    else:
        seconds = of_job.uniform(0.003, 0.04)
    outcome = "transient" if luck < 0.1 else "success"
    if of_job.random() < 0.02:
        outcome = "permanent"
    return Fate(
        seconds=seconds, outcome=outcome, reports_progress=seconds > 0.1 or of_job.random() < 0.2
    )


def result_of(n: int, claim_id: str) -> dict[str, Any]:
    """Says who made it, so that the checker sees whose result was kept."""
    return {"n": n, "claim": claim_id}


class Recorder(Coordinator):
    """A coordinator that writes down every call before it is made and what was answered."""

    def __init__(self, coordinator: Coordinator, history: History) -> None:
        self._coordinator = coordinator
        self._history = history
        self._epochs: dict[str, int] = {}

    def hello(self, hello: Hello) -> Terms | None:
        return self._coordinator.hello(hello)

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
        with self._history.call("claim", limit=limit) as answer:
            assignments = self._coordinator.claim(
                limit, wait_seconds, request_id, boot_id, kinds, terms_etag, answered
            )
            self._epochs |= {each.claim_id: each.epoch for each in assignments}
            answer.claims = self._known([each.claim for each in assignments])
        return assignments

    def heartbeat(
        self,
        claims: Sequence[Claim] = (),
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
        standing: Standing | None = None,
    ) -> Pulse:
        if not claims:
            return self._coordinator.heartbeat(claims, stalled, answered, standing)
        with self._history.call("heartbeat", self._known(claims)) as answer:
            pulse = self._coordinator.heartbeat(claims, stalled, answered, standing)
            answer.answers = _held(claims, pulse.claims)
        return pulse

    def progress(self, report: Progress) -> Renewed:
        with self._history.call("progress", self._known([report.claim])) as answer:
            try:
                renewed = self._coordinator.progress(report)
            except errors.ClaimLost:
                answer.answers = _held([report.claim], {report.claim.claim_id: Beat(False)})
                raise
            answer.answers = _held([report.claim], {report.claim.claim_id: renewed})
        return renewed

    def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
        claims = self._known([each.claim for each in completions])
        with self._history.call("complete", claims) as answer:
            answers = self._coordinator.complete_all(completions)
            answer.answers = dict(answers)
        return answers

    def fail(
        self,
        claim: Claim,
        error_class: str = "transient",
        code: str = "failed",
        message: str = "",
    ) -> str:
        with self._history.call("fail", self._known([claim])) as answer:
            state = self._coordinator.fail(claim, error_class, code, message)
            answer.answers = {claim.job_id: state}
        return state

    def release(self, claim: Claim) -> str:
        with self._history.call("release", self._known([claim])) as answer:
            state = self._coordinator.release(claim)
            answer.answers = {claim.job_id: state}
        return state

    def interrupt(self) -> None:
        self._coordinator.interrupt()

    def _known(self, claims: Sequence[Claim]) -> list[tuple[str, str, int]]:
        return [(each.job_id, each.claim_id, self._epochs[each.claim_id]) for each in claims]


class RecordedChores(Chores):
    """Chores that write down which jobs each sweep took from their workers."""

    history: History

    def tick(self) -> dict[str, State]:
        with self.history.call("sweep") as answer:
            moved = super().tick()
            answer.answers = {id: str(state) for id, state in moved.items()}
        return moved


def handle(context: JobContext, slow: float) -> dict[str, Any]:
    """The handler of the shipped worker."""
    mine = fate(context.args["n"], context.attempt)
    seconds = max(mine.seconds, slow)
    context.wait(seconds / 2)
    if mine.reports_progress:
        context.progress(0.5, "half", checkpoint={"claim": context.claim.claim_id})
    context.wait(seconds / 2)
    if mine.outcome == "permanent":
        raise errors.PermanentFailure("cannot be done", code="permanent")
    if mine.outcome == "transient":
        raise RuntimeError("not this time")
    return result_of(context.args["n"], context.claim.claim_id)


class Rude:
    """Works without a fence of its own: after a pause it goes on as if nothing had happened, and
    only the database keeps it from doing harm."""

    def __init__(self, coordinator: Coordinator, spec: Spec) -> None:
        self._coordinator = coordinator
        self._batch = spec.batch
        self._slow = spec.slow

    def run(self) -> NoReturn:
        self._insist(lambda: self._coordinator.hello(Hello(kinds=[KIND])))
        while True:
            for assignment in self._insist(lambda: self._coordinator.claim(self._batch, 5.0)):
                self._work(assignment)

    def _work(self, assignment: Assignment) -> None:
        claim = assignment.claim
        mine = fate(assignment.args["n"], assignment.attempt)
        until = time.monotonic() + max(mine.seconds, self._slow)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.8 * HEARTBEAT_SECONDS))
            if mine.reports_progress:
                with suppress(errors.ClaimLost):
                    self._insist(lambda: self._coordinator.progress(Progress(claim=claim)))
            else:
                self._insist(lambda: self._coordinator.heartbeat([claim]))
        if mine.outcome == "success":
            result = result_of(assignment.args["n"], claim.claim_id)
            answers = self._insist(
                lambda: self._coordinator.complete_all([Completion(claim, result)])
            )
            if answers and answers[claim.job_id] == errors.CancelRequested.code:
                self._fail(claim, "transient", "canceled")
        else:
            self._fail(claim, mine.outcome, mine.outcome)

    def _fail(self, claim: Claim, error_class: str, code: str) -> None:
        with suppress(errors.Conflict):
            self._insist(lambda: self._coordinator.fail(claim, error_class, code, "rude"))

    def _insist(self, call: Callable[[], T]) -> T:
        while True:
            try:
                return call()
            except errors.Unavailable:
                time.sleep(0.1)


def work(url: str, directory: Path, spec: Spec) -> None:
    """The life of one worker process; it ends only by a signal or by a defect."""
    threading.excepthook = _crash
    history = History(directory / f"{spec.name}.jsonl", spec.name)
    app = _open(url)
    app.handler(KIND)(lambda context: handle(context, spec.slow))
    if spec.chores:
        chores = RecordedChores(app.db, app.queue, sweep_seconds=SWEEP_SECONDS)
        chores.history = history
        app.chores = chores
        threading.Thread(target=app.chores.run, daemon=True).start()
    worker = app.worker(spec.name, batch=spec.batch)
    # Between the shipped loop and the shipped dispatch, which the library wires up by itself.
    recorder = Recorder(worker.coordinator, history)
    worker.coordinator = recorder
    if spec.rude:
        Rude(recorder, spec).run()
    else:
        worker.run()


def shorten_backoff() -> None:
    """For tests only: up to 1 h of backoff would be most of a run's time."""
    lifecycle.BACKOFF_FLOOR_MS = BACKOFF_FLOOR_MS
    lifecycle.BACKOFF_BASE_MS = BACKOFF_BASE_MS
    assert lifecycle.backoff_ms(1) <= 2 * BACKOFF_BASE_MS, "somebody copied the constants"


def break_on_purpose(mutant: str) -> None:
    """Remove a guard, to see that the checker notices."""
    if mutant == "no_fence":
        fenced = store.OWN
        store.OWN = fenced.replace("AND jobs.claim_id = given.claim_id", "")
        assert fenced != store.OWN
    elif mutant:
        raise SystemExit(f"no mutant {mutant!r}")


def main(url: str, directory: Path) -> None:
    shorten_backoff()
    break_on_purpose(os.environ.get(MUTANT, ""))
    children: set[int] = set()
    for line in sys.stdin:
        ended = _reap(children)
        pid = None
        if line.strip():
            spec = msgspec.json.decode(line, type=Spec)
            pid = os.fork()
            if pid == 0:
                _be_a_worker(url, directory, spec)
            children.add(pid)
        sys.stdout.write(msgspec.json.encode({"pid": pid, "ended": ended}).decode() + "\n")
        sys.stdout.flush()
    for child in children:
        os.kill(child, signal.SIGCONT)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _reap(children: set[int]) -> list[tuple[int, int]]:
    ended = []
    for child in sorted(children):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            children.remove(child)
            ended.append((child, status))
    return ended


def _be_a_worker(url: str, directory: Path, spec: Spec) -> NoReturn:
    log = os.open(directory / f"{spec.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
        work(url, directory, spec)
    except BaseException:  # noqa: BLE001  nothing may return into the nursery's loop
        traceback.print_exc()
    os._exit(CRASHED)


def _crash(args: threading.ExceptHookArgs) -> None:
    """A process must not go on with half of its threads: the test would not notice."""
    threading.__excepthook__(args)
    sys.stderr.flush()
    os._exit(CRASHED)


def _open(url: str) -> Rushes:
    while True:
        try:
            return Rushes(settings=settings(url), migrate=False)
        except errors.Unavailable:
            time.sleep(0.1)


def _held(claims: Sequence[Claim], beats: Mapping[str, Beat]) -> dict[str, str]:
    return {each.job_id: "held" if beats[each.claim_id].held else "lost" for each in claims}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
