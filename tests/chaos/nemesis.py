"""Who makes trouble in a chaos run: a crew of worker processes, the nemesis that kills and pauses
them, and a client that enqueues and cancels meanwhile. All choices come from one seed.
"""

from __future__ import annotations

import heapq
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from chaos import chaos_worker
from chaos.chaos_worker import KIND, LEASE_SECONDS, Spec
from chaos.history import History
from rushes import errors
from rushes.app import Rushes
from rushes.jobs import invariants
from rushes.jobs.job import NewJob

TESTS = Path(__file__).parent.parent
KILL_EVERY_SECONDS = 0.5
PAUSE_EVERY_SECONDS = 0.3
PAUSE_LEASES = (1.2, 2.5)
AUDIT_EVERY_SECONDS = 4.0
# Leases may be over for longer while the sweepers are held up; the rest holds at every moment.
NOT_DURING_FAULTS = "I22"


class Reply(msgspec.Struct):
    pid: int | None
    ended: list[tuple[int, int]]


class Member:
    def __init__(self, pid: int, rude: bool) -> None:
        self.pid = pid
        self.rude = rude
        self.paused = False


class Crew:
    """A fixed number of worker processes; who is killed is replaced. Only signals processes that
    its nursery has not reaped, so never a stranger with a used process id."""

    def __init__(
        self, url: str, directory: Path, size: int, *, mutant: str = "", slow: float = 0
    ) -> None:
        self.deaths: list[str] = []
        self._directory = directory
        self._slow = slow
        self._born = 0
        self._killed: set[int] = set()
        self._specs: dict[int, Spec] = {}
        with (directory / "nursery.log").open("wb") as log:
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", "chaos.chaos_worker", url, str(directory)],
                cwd=TESTS,
                env={**os.environ, **({chaos_worker.MUTANT: mutant} if mutant else {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.members: list[Member] = []
        try:
            for slot in range(size):
                self.members.append(self._start(slot))
        except BaseException:
            self.close()
            raise

    def kill(self, slot: int) -> None:
        """Kill -9, and start another in its place."""
        member = self.members[slot]
        self._killed.add(member.pid)
        os.kill(member.pid, signal.SIGKILL)
        self.members[slot] = self._start(slot)

    def pause(self, slot: int) -> None:
        self.members[slot].paused = True
        os.kill(self.members[slot].pid, signal.SIGSTOP)

    def resume(self, slot: int) -> None:
        self.members[slot].paused = False
        os.kill(self.members[slot].pid, signal.SIGCONT)

    def look(self) -> None:
        """Note who died by itself, which nobody should."""
        self._ask(None)

    def close(self) -> None:
        """The nursery kills who is left."""
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        with suppress(BrokenPipeError):
            self._nursery.stdin.close()
        try:
            self._nursery.wait(30)
        finally:
            self._nursery.kill()
            self._nursery.wait()
            self._nursery.stdout.close()

    def _start(self, slot: int) -> Member:
        """Half of them are rude; three in four sweep, because most of them are paused or starting
        at any time, and a gap in the sweeps gives everybody a lease of grace."""
        self._born += 1
        rude = slot % 2 == 1
        spec = Spec(
            name=f"w{slot}-{self._born}",
            rude=rude,
            batch=4 if rude else (1, 4)[slot // 2 % 2],
            chores=slot % 4 != 3,
            slow=self._slow,
        )
        pid = self._ask(spec).pid
        assert pid is not None
        self._specs[pid] = spec
        return Member(pid, rude)

    def _ask(self, spec: Spec | None) -> Reply:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write((msgspec.json.encode(spec) if spec else b"") + b"\n")
        self._nursery.stdin.flush()
        line = self._nursery.stdout.readline()
        if not line:
            raise RuntimeError((self._directory / "nursery.log").read_text())
        reply = msgspec.json.decode(line, type=Reply)
        for pid, status in reply.ended:
            if pid not in self._killed or os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                self._mourn(pid, status)
            self._killed.discard(pid)
        return reply

    def _mourn(self, pid: int, status: int) -> None:
        spec = self._specs[pid]
        log = (self._directory / f"{spec.name}.log").read_text()[-3000:]
        self.deaths.append(f"{spec} ended with status {status}:\n{log}")
        for slot, member in enumerate(self.members):
            if member.pid == pid:
                self.members[slot] = self._start(slot)


class Nemesis:
    """Call from the thread that started the database: a server that it restarts ends with it."""

    def __init__(
        self, crew: Crew, seed: str, *, restart: Callable[[], None] | None = None, restarts: int = 0
    ) -> None:
        self.faults: Counter[str] = Counter()
        self._crew = crew
        self._random = random.Random(f"nemesis {seed}")
        self._restart = restart
        self._restarts = restarts
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0

    def run(self, seconds: float) -> None:
        begun_at = time.monotonic()
        for number in range(self._restarts if self._restart else 0):
            share = (number + self._random.uniform(0.4, 0.9)) / self._restarts
            self._in(share * seconds, self._crash_database)
        self._in(0.3, self._kill)
        self._in(0.3, self._pause)
        while self._due and self._due[0][0] < begun_at + seconds:
            at, _, act = heapq.heappop(self._due)
            time.sleep(max(0.0, at - time.monotonic()))
            self._crew.look()
            act()
        for slot, member in enumerate(self._crew.members):
            if member.paused:
                self._crew.resume(slot)

    def _in(self, seconds: float, act: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._due, (time.monotonic() + seconds, self._order, act))

    def _kill(self) -> None:
        """Mostly one that runs: who is killed while paused never makes its late report."""
        paused = self._random.random() < 0.15
        if (slot := self._choose(lambda member: member.paused is paused)) is not None:
            self.faults["kills"] += 1
            self._crew.kill(slot)
        self._in(self._random.uniform(0.5, 1.5) * KILL_EVERY_SECONDS, self._kill)

    def _pause(self) -> None:
        """Never more than half of the crew, or nobody is left to take over. Mostly rude ones: only
        they always make their late reports."""
        paused = sum(member.paused for member in self._crew.members)
        rude = self._random.random() < 0.7
        slot = self._choose(lambda member: not member.paused and member.rude is rude)
        if slot is not None and paused < len(self._crew.members) / 2:
            self.faults["pauses"] += 1
            self._crew.pause(slot)
            pid = self._crew.members[slot].pid
            length = self._random.uniform(*PAUSE_LEASES) * LEASE_SECONDS
            self._in(length, lambda: self._resume(slot, pid))
        self._in(self._random.uniform(0.5, 1.5) * PAUSE_EVERY_SECONDS, self._pause)

    def _resume(self, slot: int, pid: int) -> None:
        if self._crew.members[slot].pid == pid:
            self._crew.resume(slot)

    def _crash_database(self) -> None:
        assert self._restart is not None
        self.faults["database restarts"] += 1
        self._restart()

    def _choose(self, fits: Callable[[Member], bool]) -> int | None:
        slots = [slot for slot, member in enumerate(self._crew.members) if fits(member)]
        return self._random.choice(slots) if slots else None


class Client(threading.Thread):
    """Enqueues `jobs` jobs: a third at once, the rest during `seconds`. One in ten has a key, and
    may be enqueued again; one in fifty is canceled. Every few seconds the invariants must hold."""

    def __init__(self, url: str, directory: Path, seed: str, *, jobs: int, seconds: float) -> None:
        super().__init__(name="chaos client", daemon=True)
        self.problems: list[str] = []
        self.audits = 0
        self._url = url
        self._history = History(directory / "client.jsonl", "client")
        self._random = random.Random(f"client {seed}")
        self._jobs = jobs
        self._seconds = seconds
        self._acknowledged: list[str] = []
        self._keys: list[str] = []
        self._twins = 0

    def run(self) -> None:
        try:
            with Rushes(settings=chaos_worker.settings(self._url), migrate=False) as app:
                self._run(app)
        except BaseException as error:
            self.problems.append(f"the client failed: {error!r}")
            raise
        finally:
            self._history.close()

    def _run(self, app: Rushes) -> None:
        begun_at = audited_at = time.monotonic()
        done = 0
        while done < self._jobs:
            elapsed = time.monotonic() - begun_at
            due = int(self._jobs * min(1, 1 / 3 + elapsed / self._seconds))
            for first in range(done, due, 50):
                self._enqueue(app, [self._new(n) for n in range(first, min(first + 50, due))])
            for _ in range(done, due):
                self._interfere(app)
            done = due
            if time.monotonic() - audited_at > AUDIT_EVERY_SECONDS:
                self._audit(app)
                audited_at = time.monotonic()
            time.sleep(0.1)

    def _new(self, n: int) -> NewJob:
        key = f"key {n}" if n % 10 == 3 else None
        if key is not None:
            self._keys.append(key)
        return NewJob(kind=KIND, args={"n": n}, dedupe_key=key)

    def _interfere(self, app: Rushes) -> None:
        if self._random.random() < 0.05 and self._keys:
            self._twins += 1
            # The latest are likely to be still alive, the others to have ended.
            key = self._random.choice(self._random.choice((self._keys[-50:], self._keys)))
            n = self._jobs + self._twins
            self._enqueue(app, [NewJob(kind=KIND, args={"n": n}, dedupe_key=key)])
        if self._random.random() < 0.02:
            with suppress(errors.Unavailable, errors.WrongState):
                self._cancel(app)

    def _enqueue(self, app: Rushes, news: list[NewJob]) -> None:
        """Until it is acknowledged; a try whose answer got lost may have added jobs, too."""
        ns, keys = [new.args["n"] for new in news], [new.dedupe_key for new in news]
        while True:
            try:
                with self._history.call("enqueue", ns=ns, keys=keys) as answer:
                    done = app.enqueue_many(news)
                    ids = [each.id for each in done]
                    answer.answers = {"ids": ids, "created": [each.created for each in done]}
            except errors.Unavailable:
                time.sleep(0.1)
            else:
                self._acknowledged += ids
                return

    def _cancel(self, app: Rushes) -> None:
        held = [job.id for job in app.jobs(state="processing")]
        choice = self._random.choice((held or self._acknowledged, self._acknowledged))
        job_id = self._random.choice(choice)
        with self._history.call("cancel", id=job_id) as answer:
            answer.answers = {"state": app.cancel(job_id)}

    def _audit(self, app: Rushes) -> None:
        with suppress(errors.Unavailable), app.db.read() as tx:
            self.problems += [
                f"during the faults: {each}"
                for each in invariants.check(tx)
                if each.invariant != NOT_DURING_FAULTS
            ]
            self.audits += 1
