"""Random histories on both databases: after every step the rows are what a small model says."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from rushes import errors
from rushes.db.database import Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs import invariants, lifecycle, limit_store, read_store, store
from rushes.jobs import job as jobs
from rushes.jobs import queue as queue_module
from rushes.jobs.job import ErrorClass, NewJob, Outcome, Priority, State
from rushes.jobs.policy import Policy
from rushes.jobs.queue import Enqueued
from rushes.jobs.terms import QueueTerms
from rushes.media import library
from rushes.protocol import Assignment, Beat, Claim
from world import EPOCH, World, open_postgres, open_sqlite

PHASES = (Phase.generate, Phase.shrink)
MAX_CLAIMS = 4
MAX_LOSSES = 2
LEASE_MS = 60_000
TIMEOUT_MS = 6 * 3_600_000
KINDS = ("cut", "mix")
# Kinds and capabilities of the workers.
WORKERS = ((KINDS, ()), (KINDS, ("gpu",)), (("cut",), ("gpu",)))
REPORTED = (
    Outcome.FAILED,
    Outcome.DEFERRED,
    Outcome.RELEASED,
    Outcome.DIVIDED,
    Outcome.CANCELED,
)
# A run that has not seen all of these has not tested much.
COVERED = {
    *(f"job {state}" for state in State),
    *(f"attempt {outcome}" for outcome in Outcome),
    "a twin is answered",
    "a claim is refused",
    "a report is repeated",
    "a cancel is asked for",
    "a parent is gone",
    "the media is gone",
    "a child is freed",
    "a child is canceled",
    "a whole goes on",
    "a whole fails",
    "a whole is canceled",
    "a part is canceled",
    "nothing to claim",
    "three at once",
    "poison",
    "too many claims",
    "a grace",
    "an outage is excused",
    "progress went back",
    "a retry",
    "a job is moved",
    "a whole is moved",
    "a job cannot be moved",
    "users have turns by themselves",
    "a limit is kept to",
}


OPTIONS = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS), "max_attempts": st.sampled_from([1, 3, 9])},
    optional={
        "user_id": st.sampled_from(["ann", "bob"]),
        "priority": st.sampled_from(["high", "low"]),
        "needs": st.just(("gpu",)),
        "dedupe_key": st.sampled_from(["k1", "k2"]),
        "delay_seconds": st.sampled_from([0, 5, 40]),
        "timeout_seconds": st.just(50),
        "limit_key": st.just("engine:far"),
    },
)
LIMITS = {"user:*": 2, "user:ann": 1, "kind:cut": 3, "engine:*": 1}


AGE = st.integers(0, 7)
MEANWHILE = st.sampled_from([*["nothing"] * 4, "cancel", "child", "silence", "forge"])
WORKER = st.sampled_from([1, 0, 2])
SPOKEN = st.lists(
    st.sampled_from(
        [
            "heartbeat",
            "progress 0.5 0.25",
            "checkpoint",
            "complete",
            "fail transient",
            "fail permanent",
            "fail resource",
            "release",
            "divide",
        ]
    ),
    min_size=1,
    max_size=4,
)


def backoff_ms(n: int, uniform: object = None) -> int:
    return 5_000 * n


@dataclass(kw_only=True)
class Modeled:
    """A job as the model knows it; `claim` is that of the open attempt."""

    id: str
    new: NewJob
    state: State
    queued_at: int | None
    run_at: int
    attempt: int = 0
    claims: int = 0
    losses: int = 0
    claim: str | None = None
    lease: int = 0
    last_word: int = 0
    got_on: bool = False
    deadline: int = 0
    flagged: bool = False
    progress: float = 0.0
    checkpoint: Any = None
    is_divided: bool = False
    was_divided: bool = False
    # Of a part: the job it belongs to, and that job's claims when it was divided.
    whole: str | None = None
    division: int = 0

    @property
    def is_live(self) -> bool:
        return self.state in jobs.LIVE

    @property
    def max_attempts(self) -> int:
        return self.new.max_attempts or 3

    @property
    def lane(self) -> str:
        return jobs.lane_of(self.priority, self.new.kind, self.new.needs, self.new.limit_key)

    @property
    def priority(self) -> Priority:
        return Priority[self.new.priority.upper()]

    def row(self) -> tuple[Any, ...]:
        return (
            self.state,
            self.queued_at,
            self.attempt,
            self.claims,
            self.losses,
            self.claim,
            self.flagged,
            self.progress,
            self.checkpoint,
            self.run_at if self.is_live else None,
            self.priority,
            self.lane,
        )


@dataclass(kw_only=True)
class Try:
    job: Modeled
    outcome: Outcome | None = None
    job_state: State | None = None
    version_id: str | None = None


@dataclass
class Model:
    """What the queue should be, without SQL. Verbs answer a value, or the error that is due."""

    seen: Counter[str]
    policy: Policy = Policy.FIFO
    now: int = EPOCH
    beat_at: int = EPOCH
    grace_until: int = 0
    away_since: int = 0
    jobs: dict[str, Modeled] = field(default_factory=dict)
    tries: dict[str, Try] = field(default_factory=dict)
    media: dict[str, str | None] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    disabled: set[int] = field(default_factory=set)
    turns: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    # While a sweep decides, what follows from its decisions waits.
    ended: list[Modeled] | None = None

    # Into the queue

    def refusal(self, new: NewJob) -> type[errors.RushesError] | None:
        if new.media_id in self.deleted:
            self.seen["the media is gone"] += 1
            return errors.BadField
        if new.parent_id is not None and self.jobs[new.parent_id].state in (
            State.FAILED,
            State.CANCELED,
        ):
            self.seen["a parent is gone"] += 1
            return errors.WrongState
        return None

    def twin(self, new: NewJob) -> str | None:
        for job in self.jobs.values():
            same_key = new.dedupe_key is not None and job.new.dedupe_key == new.dedupe_key
            same_retry = new.retry_of is not None and job.new.retry_of == new.retry_of
            if job.is_live and (same_key or same_retry):
                self.seen["a twin is answered"] += 1
                return job.id
        return None

    def add(self, id: str, new: NewJob) -> None:
        parent = self.jobs.get(new.parent_id or "")
        waits = parent is not None and parent.is_live
        self.jobs[id] = Modeled(
            id=id,
            new=new,
            state=State.BLOCKED if waits else State.QUEUED,
            queued_at=None if waits else self.now,
            run_at=self.now + int(new.delay_seconds * 1000),
        )

    # Held by a worker

    @property
    def has_work(self) -> bool:
        queued = [job for job in self.jobs.values() if job.state is State.QUEUED]
        return any(job.run_at <= self.now for job in queued)

    def claimable(self, worker: int, limit: int) -> list[str]:
        """The jobs that a claim must answer, in order; a fair claim takes turns."""
        strands = self._strands(worker)
        users = {strand[0].new.user_id for strand in strands} | {
            job.new.user_id for strand in strands for job in strand
        }
        fair = self.policy is Policy.FAIR or (self.policy is Policy.AUTO and len(users) > 1)
        if fair or any(key.startswith("user:") for key in self.limits):
            strands = self._by_user(strands)
        self.seen["users have turns by themselves"] += fair and self.policy is Policy.AUTO
        share = max(1, math.ceil(limit / max(1, len(strands)))) if fair else limit
        taken: list[Modeled] = []
        for strand in sorted(strands, key=partial(self._place, fair)):
            most = 1 if any(map(self._limit, _keys(strand[0]))) else share
            part = strand[: min(most, limit - len(taken))]
            if self._is_full(part[:1], taken):
                self.seen["a limit is kept to"] += 1
                continue
            if part and fair:
                self.turns[strand[0].new.user_id] = max(self.turns.values(), default=0) + 1
            taken += part
        return [job.id for job in taken]

    def _limit(self, key: str) -> int:
        """0: there is none."""
        return self.limits.get(key, self.limits.get(f"{key.partition(':')[0]}:*", 0))

    def _is_full(self, asked: Sequence[Modeled], taken: Sequence[Modeled]) -> bool:
        running = [job for job in self.jobs.values() if job.state is State.PROCESSING]
        held = Counter(key for job in (*running, *taken) for key in _keys(job))
        return any(0 < self._limit(key) <= held[key] for job in asked for key in _keys(job))

    def _by_user(self, strands: Sequence[Sequence[Modeled]]) -> list[list[Modeled]]:
        found: dict[tuple[str, str], list[Modeled]] = {}
        for job in [job for strand in strands for job in strand]:
            found.setdefault((job.lane, job.new.user_id), []).append(job)
        return list(found.values())

    def _strands(self, worker: int) -> list[list[Modeled]]:
        kinds, capabilities = WORKERS[worker]
        strands: dict[str, list[Modeled]] = {}
        if worker in self.disabled or "*" in self.paused:
            return []
        due = [j for j in self.jobs.values() if j.state is State.QUEUED and j.run_at <= self.now]
        for job in sorted(due, key=lambda job: (job.queued_at or 0, job.id)):
            able = job.new.kind in kinds and set(job.new.needs) <= set(capabilities)
            if able and job.new.kind not in self.paused and not self._is_full([job], []):
                strands.setdefault(job.lane, []).append(job)
        return list(strands.values())

    def _place(self, fair: bool, strand: Sequence[Modeled]) -> tuple[int, int, int, str]:
        head = strand[0]
        turn = self.turns.get(head.new.user_id, 0) if fair else 0
        return (head.priority, turn, head.queued_at or 0, head.id)

    def claimed(self, job: Modeled, claim_id: str) -> None:
        job.state = State.PROCESSING
        job.claim = claim_id
        job.attempt += 1
        job.claims += 1
        job.lease = self.now + LEASE_MS
        job.last_word, job.got_on = self.now, False
        timeout = job.new.timeout_seconds
        job.deadline = self.now + (TIMEOUT_MS if timeout is None else int(timeout * 1000))
        job.progress = job.progress if job.was_divided else 0.0
        self.tries[claim_id] = Try(job=job)

    def holds(self, claim_id: str) -> bool:
        return self.tries[claim_id].job.claim == claim_id

    def renew(self, claim_id: str) -> Beat:
        job = self.tries[claim_id].job
        away = self.now < self.grace_until or self.now - self.beat_at > LEASE_MS // 2
        alive = away or job.lease > self.now
        if not self.holds(claim_id) or not alive or job.deadline <= self.now:
            self.seen["a claim is refused"] += 1
            return Beat(False)
        job.lease = self.now + LEASE_MS
        job.last_word = self.now
        return Beat(True, job.flagged)

    def complete(self, claim_id: str) -> State | type[errors.RushesError]:
        its = self.tries[claim_id]
        if not self.holds(claim_id):
            return self._repeated(its, (Outcome.SUCCEEDED,))
        if its.job.flagged:
            self.seen["a cancel is asked for"] += 1
            return errors.CancelRequested
        its.job.progress = 1.0
        if its.version_id is not None and its.job.whole is None:
            self.media[its.job.new.media_id or ""] = its.version_id
        self._close(its, Outcome.SUCCEEDED, State.COMPLETED)
        return State.COMPLETED

    def fail(self, claim_id: str, error: ErrorClass) -> State | type[errors.RushesError]:
        its = self.tries[claim_id]
        if not self.holds(claim_id):
            return self._repeated(its, REPORTED)
        if its.job.flagged:
            return self._cancel_held(its, Outcome.CANCELED)
        if error is ErrorClass.RESOURCE:
            return self._give_back(its, Outcome.DEFERRED, backoff_ms(its.job.claims))
        if error is ErrorClass.PERMANENT or its.job.attempt >= its.job.max_attempts:
            return self._close(its, Outcome.FAILED, State.FAILED)
        return self._again(its, Outcome.FAILED, backoff_ms(its.job.attempt))

    def release(self, claim_id: str) -> State | type[errors.RushesError]:
        its = self.tries[claim_id]
        if not self.holds(claim_id):
            return self._repeated(its, REPORTED)
        if its.job.flagged:
            return self._cancel_held(its, Outcome.CANCELED)
        return self._give_back(its, Outcome.RELEASED, 0)

    def divide(self, claim_id: str) -> State | type[errors.RushesError]:
        its = self.tries[claim_id]
        if self.holds(claim_id) and its.job.whole is not None:
            return errors.WrongState
        if not self.holds(claim_id) or its.job.flagged or its.job.claims >= MAX_CLAIMS:
            return self.release(claim_id)
        its.job.attempt -= 1
        its.job.run_at = self.now
        its.job.is_divided = its.job.was_divided = True
        return self._close(its, Outcome.DIVIDED, State.BLOCKED)

    def add_part(self, whole: Modeled, part_id: str) -> None:
        new = NewJob(
            kind="cut",
            media_id=whole.new.media_id,
            user_id=whole.new.user_id,
            priority=whole.new.priority,
            max_attempts=whole.max_attempts,
            timeout_seconds=whole.new.timeout_seconds,
            limit_key=whole.new.limit_key,
        )
        self.jobs[part_id] = Modeled(
            id=part_id,
            new=new,
            state=State.QUEUED,
            queued_at=whole.queued_at,
            run_at=self.now,
            whole=whole.id,
            division=whole.claims,
        )

    # By people, and by itself

    def cancel(self, ids: Iterable[str]) -> None:
        live = [self.jobs[id] for id in ids if self.jobs[id].is_live]
        waiting = [job for job in live if job.state is not State.PROCESSING]
        for job in live:
            job.flagged = True
        for job in waiting:
            job.state, job.is_divided = State.CANCELED, False
        for job in waiting:
            self._ended(job)

    def move(self, id: str, priority: Priority | None) -> bool:
        """To another priority, or, without, before everybody else."""
        job = self.jobs[self.jobs[id].whole or id]
        if job.state not in (State.QUEUED, State.BLOCKED):
            self.seen["a job cannot be moved"] += 1
            return False
        queued_at = None
        if priority is None:
            priority = Priority.HIGH
            self.turns[job.new.user_id] = min([0, *self.turns.values()]) - 1
            first = [
                each.queued_at
                for each in self.jobs.values()
                if each.state is State.QUEUED and each.priority is priority and each.queued_at
            ]
            queued_at = min(first, default=self.now) - 1
        parts = [each for each in self.jobs.values() if each.whole == job.id and each.is_live]
        for each in (job, *parts):
            each.new = replace(each.new, priority=priority.word)
            each.queued_at = queued_at or each.queued_at
        self.seen["a whole is moved" if parts else "a job is moved"] += 1
        return True

    def tick(self) -> dict[str, State]:
        if self.now - self.beat_at > LEASE_MS // 2:
            self.grace_until, self.away_since = self.now + LEASE_MS, self.beat_at
            self.seen["a grace"] += 1
        self.beat_at = self.now
        if self.now < self.grace_until:
            return {}
        over = [
            each
            for claim_id, each in self.tries.items()
            if self.holds(claim_id) and min(each.job.lease, each.job.deadline) <= self.now
        ]
        self.ended = []
        moved = {each.job.id: self._lose(each) for each in over}
        ended, self.ended = self.ended, None
        for job in ended:
            self._ended(job)
        return moved

    def _lose(self, its: Try) -> State:
        job = its.job
        outcome = Outcome.STALLED if job.deadline <= self.now else Outcome.LOST
        if job.flagged:
            return self._cancel_held(its, outcome)
        if outcome is Outcome.LOST and job.last_word <= self.away_since + LEASE_MS // 2:
            self.seen["an outage is excused"] += 1
            job.attempt -= 1
            return self._again(its, Outcome.RELEASED, 0, losses=job.losses)
        # In this world a worker whose lease runs out is never heard of again.
        losses = 0 if job.got_on or outcome is Outcome.STALLED else job.losses + 1
        poison = losses >= MAX_LOSSES
        if poison or job.attempt >= job.max_attempts or job.claims >= MAX_CLAIMS:
            self.seen["poison"] += poison
            return self._close(its, outcome, State.FAILED, losses=losses)
        job.run_at = self.now
        return self._close(its, outcome, State.QUEUED, losses=losses)

    # How attempts end

    def _repeated(self, its: Try, said: Sequence[Outcome]) -> State | type[errors.RushesError]:
        if its.outcome in said and its.job_state is not None:
            self.seen["a report is repeated"] += 1
            return its.job_state
        self.seen["a claim is refused"] += 1
        return errors.ClaimLost

    def _give_back(self, its: Try, outcome: Outcome, delay_ms: int) -> State:
        its.job.attempt -= 1
        return self._again(its, outcome, delay_ms)

    def _again(self, its: Try, outcome: Outcome, delay_ms: int, *, losses: int = 0) -> State:
        if its.job.claims >= MAX_CLAIMS:
            self.seen["too many claims"] += 1
            return self._close(its, outcome, State.FAILED, losses=losses)
        its.job.run_at = self.now + delay_ms
        return self._close(its, outcome, State.QUEUED, losses=losses)

    def _cancel_held(self, its: Try, outcome: Outcome) -> State:
        return self._close(its, outcome, State.CANCELED, losses=its.job.losses)

    def _close(self, its: Try, outcome: Outcome, state: State, *, losses: int = 0) -> State:
        its.outcome, its.job_state = outcome, state
        its.job.claim, its.job.state, its.job.losses = None, state, losses
        self.seen[f"attempt {outcome}"] += 1
        if state in jobs.TERMINAL:
            self._ended(its.job)
        return state

    def _ended(self, job: Modeled) -> None:
        if self.ended is not None:
            self.ended.append(job)
            return
        if job.state is not State.COMPLETED:
            for part in [each for each in self.jobs.values() if each.whole == job.id]:
                self._cancel_part(part)
        if job.whole is not None and self.jobs[job.whole].is_divided:
            self._gather(self.jobs[job.whole])
        for child in self.jobs.values():
            waits = child.state is State.BLOCKED and not child.is_divided
            if child.new.parent_id == job.id and waits:
                if job.state is State.COMPLETED:
                    child.state, child.queued_at = State.QUEUED, child.queued_at or self.now
                    self.seen["a child is freed"] += 1
                else:
                    child.state = State.CANCELED
                    self.seen["a child is canceled"] += 1
                    self._ended(child)

    def _cancel_part(self, part: Modeled) -> None:
        if not part.is_live:
            return
        part.flagged = True
        self.seen["a part is canceled"] += 1
        if part.state is not State.PROCESSING:
            part.state = State.CANCELED
            self._ended(part)

    def _gather(self, whole: Modeled) -> None:
        parts = [each for each in self.jobs.values() if each.whole == whole.id]
        states = {each.state for each in parts if each.division == whole.claims}
        if State.FAILED in states:
            whole.state, whole.is_divided = State.FAILED, False
            self.seen["a whole fails"] += 1
            self._ended(whole)
        elif State.CANCELED in states:
            whole.state, whole.is_divided = State.CANCELED, False
            self.seen["a whole is canceled"] += 1
            self._ended(whole)
        elif states == {State.COMPLETED}:
            whole.state, whole.is_divided, whole.run_at = State.QUEUED, False, self.now
            whole.progress = max(whole.progress, lifecycle.PARTS_DONE)
            self.seen["a whole goes on"] += 1


def answer_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except errors.RushesError as error:
        return type(error)


class Machine(RuleBasedStateMachine):
    """Rules name jobs, claims and media by their age, the youngest first: lost claims stay."""

    def __init__(self, world: World, seen: Counter[str]) -> None:
        super().__init__()
        self.world = world
        self.model = Model(seen)
        self.steps = 0
        # The invariants are a score of statements, each of them a round trip to PostgreSQL.
        self.check_every = 1 if world.db.dialect.name == "sqlite" else 5
        self.workers = [world.worker(kinds=k, capabilities=c, name="w") for k, c in WORKERS]

    @initialize(policy=st.sampled_from(Policy), options=OPTIONS)
    def begin(self, policy: Policy, options: dict[str, Any]) -> None:
        self.world.set_terms(QueueTerms(policy=policy))
        self.model.policy = policy
        self._add_media()
        self._enqueue([NewJob(kind="cut"), NewJob(**options)])

    # Into the queue

    @rule(options=OPTIONS, count=st.integers(1, 3))
    def enqueue(self, options: dict[str, Any], count: int) -> None:
        self._enqueue([NewJob(**options)] * count)

    @rule(options=OPTIONS, age=AGE)
    def enqueue_child(self, options: dict[str, Any], age: int) -> None:
        self._enqueue([NewJob(parent_id=_youngest(self.model.jobs, age), **options)])

    @rule(options=OPTIONS, age=AGE, new=st.booleans())
    def enqueue_for_media(self, options: dict[str, Any], age: int, new: bool) -> None:
        if new:
            self._add_media()
        self._enqueue([NewJob(media_id=_youngest(self.model.media, age), **options)])

    @rule(age=AGE)
    def retry(self, age: int) -> None:
        asked = self.model.jobs[_youngest(self.model.jobs, age)]
        answer = answer_of(lambda: self.world.run(lambda tx: self.world.queue.retry(tx, asked.id)))
        old = self.model.jobs[asked.whole] if asked.whole else asked
        if old.is_live:
            assert answer is errors.WrongState
        else:
            self.model.seen["a retry"] += 1
            new = replace(old.new, parent_id=None, delay_seconds=0, retry_of=old.id)
            self._compare([new], [answer] if isinstance(answer, Enqueued) else answer)

    def _enqueue(self, news: list[NewJob]) -> None:
        verb = self.world.queue.enqueue_many
        self._compare(news, answer_of(lambda: self.world.run(lambda tx: verb(tx, news))))

    def _compare(self, news: list[NewJob], answers: Any) -> None:
        refusal = self.model.refusal(news[0])
        if refusal is not None:
            assert answers is refusal
            return
        for new, answer in zip(news, answers, strict=True):
            twin = self.model.twin(new)
            assert answer == Enqueued(twin or answer.id, twin is None)
            if twin is None:
                self.model.add(answer.id, new)

    def _add_media(self) -> None:
        self.model.media[self.world.add_media()] = None

    # Held by a worker

    @rule(worker=WORKER, limit=st.integers(1, 3))
    def claim(self, worker: int, limit: int) -> None:
        self._claim(worker, limit)

    @rule(
        worker=WORKER,
        limit=st.integers(1, 3),
        rounds=st.lists(st.tuples(MEANWHILE, SPOKEN), min_size=1, max_size=5),
    )
    def work(self, worker: int, limit: int, rounds: list[tuple[str, list[str]]]) -> None:
        for meanwhile, verbs in rounds:
            if not self.model.has_work:
                self._enqueue([NewJob(kind=kind) for kind in KINDS])
            for claim in self._claim(worker, limit):
                self._speak(claim, meanwhile, verbs)

    @rule(age=AGE, meanwhile=MEANWHILE, verbs=SPOKEN)
    def speak(self, age: int, meanwhile: str, verbs: list[str]) -> None:
        if self.model.tries:
            claim_id = _youngest(self.model.tries, age)
            claim = Claim(self.model.tries[claim_id].job.id, claim_id)
            self._speak(claim, meanwhile, verbs)

    def _claim(self, worker: int, limit: int) -> list[Claim]:
        expected = self.model.claimable(worker, limit)
        taken = self.world.claim_all(self.workers[worker], limit)
        assert [each.job_id for each in taken] == expected
        self.model.seen["nothing to claim"] += not taken
        self.model.seen["three at once"] += len(taken) == 3
        for assignment in taken:
            self._start(assignment)
        return [each.claim for each in taken]

    def _speak(self, claim: Claim, meanwhile: str, verbs: list[str]) -> None:
        match meanwhile:
            case "cancel":
                self._cancel(claim.job_id)
            case "child":
                self._enqueue([NewJob(kind="cut", parent_id=claim.job_id)])
            case "silence":
                self.live(60)
            case "forge":
                self._forge(claim)
            case _:
                pass
        for verb in verbs:
            self._say(claim, *verb.split())

    def _start(self, assignment: Assignment) -> None:
        job = self.model.jobs[assignment.job_id]
        self.model.claimed(job, assignment.claim_id)
        assert (assignment.attempt, assignment.epoch) == (job.attempt, job.claims)
        assert assignment.checkpoint == job.checkpoint
        media_id = assignment.media_id
        assert media_id == job.new.media_id
        if media_id is not None:
            version_id = self.world.run(
                lambda tx: library.start_version(tx, assignment.claim, media_id)
            )
            self.model.tries[assignment.claim_id].version_id = version_id

    def _say(self, claim: Claim, verb: str, *facts: str) -> None:
        id = claim.claim_id
        match verb:
            case "heartbeat":
                assert self.world.heartbeat(claim) == self.model.renew(id)
            case "progress":
                for fact in facts:
                    self._progress(claim, float(fact))
            case "checkpoint":
                answer = self.world.progress(claim, 0.0, checkpoint={"by": id})
                assert answer == self.model.renew(id)
                if answer.held:
                    self.model.tries[id].job.checkpoint = {"by": id}
                    self.model.tries[id].job.got_on = True
            case "complete":
                answer = answer_of(lambda: self.world.complete(claim, {"by": id}))
                assert answer is self.model.complete(id)
            case "fail":
                error = ErrorClass(facts[0])
                answer = answer_of(lambda: self.world.fail(claim, error))
                assert answer is self.model.fail(id, error)
            case "release":
                assert answer_of(lambda: self.world.release(claim)) is self.model.release(id)
            case "divide":
                answer = answer_of(lambda: self.world.divide(claim, kind="cut"))
                assert answer is self.model.divide(id)
                self._add_parts(claim.job_id)
            case _:
                raise ValueError(verb)

    def _add_parts(self, job_id: str) -> None:
        for part in self.world.parts(job_id):
            if part.id not in self.model.jobs:
                self.model.add_part(self.model.jobs[job_id], part.id)

    def _progress(self, claim: Claim, value: float) -> None:
        answer = self.world.progress(claim, value)
        assert answer == self.model.renew(claim.claim_id)
        if answer.held:
            job = self.model.jobs[claim.job_id]
            self.model.seen["progress went back"] += value < job.progress
            job.got_on |= value > job.progress
            job.progress = max(job.progress, value)

    def _forge(self, claim: Claim) -> None:
        """A claim id that nobody was given is worth nothing, whatever the job."""
        forged = Claim(claim.job_id, "clm_forged")
        assert self.world.heartbeat(forged) == self.world.progress(forged) == Beat(False)
        for verb in (
            self.world.complete,
            self.world.fail,
            self.world.release,
            self.world.divide,
        ):
            assert answer_of(partial(verb, forged)) is errors.ClaimLost

    # By people

    @rule(age=AGE)
    def cancel(self, age: int) -> None:
        self._cancel(_youngest(self.model.jobs, age))

    @rule(age=AGE)
    def delete_media(self, age: int) -> None:
        media_id = _youngest(self.model.media, age)
        self.world.run(lambda tx: library.delete(tx, self.world.queue, media_id))
        if media_id not in self.model.deleted:
            self.model.deleted.add(media_id)
            self.model.media[media_id] = None
            its = [job.id for job in self.model.jobs.values() if job.new.media_id == media_id]
            self.model.cancel(its)

    def _cancel(self, job_id: str) -> None:
        job = self.model.jobs[job_id]
        answer = answer_of(lambda: self.world.cancel(job_id))
        if job.state in (State.COMPLETED, State.FAILED, State.CANCELED):
            assert answer is errors.WrongState
        else:
            self.model.cancel([job_id])
            assert answer is job.state

    @rule(age=AGE, priority=st.sampled_from([None, *Priority]))
    def move(self, age: int, priority: Priority | None) -> None:
        job_id = _youngest(self.model.jobs, age)
        places = self.world.queue.places

        def work(tx: Tx) -> set[str]:
            if priority is None:
                return places.put_first(tx, [job_id], None)
            return places.prioritize(tx, [job_id], priority)

        assert bool(self.world.run(work)) is self.model.move(job_id, priority)

    @rule(key=st.sampled_from(sorted(LIMITS)))
    def limit_or_not(self, key: str) -> None:
        """At most two at a time: with more of them hardly anything would be claimed."""
        if key in self.model.limits or len(self.model.limits) > 1:
            key = key if key in self.model.limits else next(iter(self.model.limits))
            del self.model.limits[key]
            self.world.run(lambda tx: limit_store.remove(tx, key))
        else:
            self.model.limits[key] = LIMITS[key]
            self.world.run(lambda tx: limit_store.set_limit(tx, key, LIMITS[key]))

    @rule(kind=st.sampled_from(["*", *KINDS]))
    def pause_or_resume(self, kind: str) -> None:
        """One pause at a time: with more of them hardly anything would be claimed."""
        if self.model.paused:
            paused = self.model.paused.pop()
            self.world.run(lambda tx: read_store.resume(tx, paused))
        else:
            self.model.paused.add(kind)
            self.world.run(lambda tx: read_store.pause(tx, kind))

    @rule(worker=WORKER, state=st.sampled_from([AdminState.DISABLED, AdminState.DRAINING]))
    def disable_or_enable(self, worker: int, state: AdminState) -> None:
        if self.model.disabled:
            worker, state = self.model.disabled.pop(), AdminState.ENABLED
        else:
            self.model.disabled.add(worker)
        self.world.run(lambda tx: fleet.set_state(tx, self.workers[worker].id, state))

    # Time, which the chores follow more or less closely

    @rule(seconds=st.sampled_from([1, 5, 9]))
    def advance(self, seconds: int) -> None:
        """Between two sweeps: I22 would complain of much more."""
        if self.model.now - self.model.beat_at > 9_000:
            self._tick()
        self._advance(seconds)

    @rule(seconds=st.sampled_from([10, 20, 60, 130]))
    def live(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self._advance(10)
            self._tick()

    @rule(seconds=st.sampled_from([0, 31, 90, 4_000]))
    def outage(self, seconds: int) -> None:
        self._advance(seconds)
        self._tick()

    def _advance(self, seconds: int) -> None:
        self.world.advance(seconds)
        self.model.now += seconds * 1000

    def _tick(self) -> None:
        assert self.world.chores.tick() == self.model.tick()

    # What must hold

    @invariant()
    def rows_are_as_modeled(self) -> None:
        rows = self.world.rows("SELECT * FROM jobs")
        found = {row["id"]: _as_modeled(row) for row in rows}
        assert found == {job.id: job.row() for job in self.model.jobs.values()}
        attempts = self.world.rows("SELECT claim_id, outcome FROM attempts")
        outcomes = {row["claim_id"]: row["outcome"] for row in attempts}
        assert outcomes == {id: each.outcome for id, each in self.model.tries.items()}
        media = self.world.rows("SELECT id, current_version_id FROM media")
        assert {row["id"]: row["current_version_id"] for row in media} == self.model.media

    @invariant()
    def invariants_hold(self) -> None:
        self.steps += 1
        if self.steps % self.check_every == 0:
            self.world.check()

    def teardown(self) -> None:
        try:
            self.world.check()
            self.model.seen.update(f"job {job.state}" for job in self.model.jobs.values())
        finally:
            self.world.close()


def _youngest(made: Iterable[str], age: int) -> str:
    ids = list(made)
    return ids[-1 - age % len(ids)]


def _as_modeled(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["state"],
        row["queued_at"],
        row["attempt"],
        row["claims"],
        row["losses"],
        row["claim_id"],
        row["cancel_requested_at"] is not None,
        row["progress"],
        jobs.decode(row["checkpoint"]),
        row["run_at"] if row["state"] in jobs.LIVE else None,
        row["priority"],
        row["lane"],
    )


def _keys(job: Modeled) -> list[str]:
    keys = [f"kind:{job.new.kind}", job.new.limit_key or ""]
    return [*filter(None, keys), *([f"user:{job.new.user_id}"] if job.new.user_id else [])]


def run(
    open_world: Callable[[], World], *, examples: int, steps: int, phases: Sequence[Phase] = PHASES
) -> Counter[str]:
    seen: Counter[str] = Counter()

    class Opened(Machine):
        def __init__(self) -> None:
            super().__init__(open_world(), seen)

    run_state_machine_as_test(
        Opened,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            # The same histories each time: a red run is never luck.
            derandomize=True,
            database=None,
            deadline=None,
            print_blob=True,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return seen


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lifecycle, store, invariants):
        monkeypatch.setattr(module, "MAX_CLAIMS", MAX_CLAIMS)
    monkeypatch.setattr(lifecycle, "MAX_LOSSES", MAX_LOSSES)
    monkeypatch.setattr(lifecycle, "backoff_ms", backoff_ms)


@pytest.fixture
def fresh_sqlite(tmp_path: Path) -> Callable[[], World]:
    """Migrating takes longer than a history does: each gets a copy of one new database."""
    template = tmp_path / "template"
    template.mkdir()
    open_sqlite(template).close()
    made = iter(range(1_000_000))

    def copy() -> World:
        directory = tmp_path / str(next(made))
        shutil.copytree(template, directory)
        return open_sqlite(directory)

    return copy


@pytest.fixture(autouse=True)
def always_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model knows the exact order, which a worker that goes on in its lane does not keep."""
    monkeypatch.setattr(queue_module, "LOOK_AFTER", 0)


def test_random_histories_on_sqlite(fresh_sqlite: Callable[[], World]) -> None:
    seen = run(fresh_sqlite, examples=60, steps=40)
    assert COVERED - set(+seen) == set()


def test_random_histories_on_postgres() -> None:
    seen = run(open_postgres, examples=22, steps=30)
    assert {"job completed", "job failed", "job canceled", "attempt lost"} <= set(+seen)


def test_without_the_fence_a_history_goes_wrong(
    fresh_sqlite: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    unfenced = store.OWN.replace("AND jobs.claim_id = given.claim_id", "")
    assert unfenced != store.OWN
    monkeypatch.setattr(store, "OWN", unfenced)
    with pytest.raises(AssertionError):
        run(fresh_sqlite, examples=60, steps=40, phases=[Phase.generate])
