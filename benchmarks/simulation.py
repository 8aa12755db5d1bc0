"""A fleet of thousands on a virtual clock: the real queue on a real database, and nobody who works.

Workers are rows and entries of a heap. Whatever a server would do to the database on their behalf
is done by the code that does it there (`dispatch`, `queue`, `chores`), each at its virtual moment;
encoding and hearing only take virtual time. Signs of life and progress are too many to make: of
them `--sample` are made as they are and timed, the rest is renewed together once a virtual second,
and counted.

Prints how long jobs waited, before, during and after a spike of three times the load, statements a
virtual second and a job, what they cost this machine, and what would be exhausted first. At the end
every job must have ended, each completed once, and every invariant must hold.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from statistics import quantiles
from typing import Any, TypeVar

import world as worlds
from rushes import dispatcher, ids
from rushes.db.database import Tx
from rushes.dispatch import Dispatch
from rushes.fleet import store as fleet
from rushes.jobs import invariants
from rushes.jobs.job import NewJob
from rushes.jobs.queue import Queue
from rushes.jobs.terms import Claimant
from rushes.protocol import Assignment, Claim, Completion, Hello, Progress

T = TypeVar("T")
HEARTBEAT_MS, POLL_MS, SWEEP_MS, SECOND_MS = 15_000, 2_000, 10_000, 1_000
# How often a busy worker tells how far it is.
PROGRESS_MS = 1_000
# A worker that crashes is back after this, or, one time in two, only after that.
BACK_MS, AWAY_MS = 20_000, 600_000
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class KindOfWork:
    """Its share of all jobs; how long it takes: a lognormal with this median and spread."""

    share: float
    median_seconds: float
    sigma: float

    @property
    def mean_seconds(self) -> float:
        return self.median_seconds * math.exp(self.sigma**2 / 2)


WORK = {
    "transcode": KindOfWork(0.35, 480, 1.0),
    "transcribe": KindOfWork(0.35, 180, 0.8),
    "span": KindOfWork(0.25, 90, 0.5),
    "trim": KindOfWork(0.05, 20, 0.5),
}
KINDS = tuple(WORK)
# The longest of all would keep the others' clock running for hours.
LONGEST_SECONDS = 2 * 3600
MEAN_SECONDS = sum(each.share * each.mean_seconds for each in WORK.values())
URGENT_SHARE = 0.05
FAILING_SHARE = 0.01


class Phase(StrEnum):
    BEFORE, SPIKE, AFTER, NORMAL = "before", "spike", "after", "normal again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    workers: int = 10_000
    hours: float = 0.25
    # Of what the workers can do.
    load: float = 0.6
    spike: float = 3.0
    # Jobs that wait when it begins.
    backlog: int = 0
    # No more arrive than this.
    jobs: int = 10_000_000
    crashes_per_day: float = 2.0
    # Whether all that is there is finished when nothing arrives any more.
    drains: bool = True
    # How much quicker than usual all work is.
    pace: float = 1.0
    # Of heartbeats and progress, so many are made as they are.
    sample: float = 0.01
    seed: int = 1

    @property
    def jobs_per_second(self) -> float:
        return self.workers * self.load / MEAN_SECONDS * self.pace

    @property
    def end_ms(self) -> int:
        return int(self.hours * 3_600_000)

    @property
    def spike_ms(self) -> tuple[int, int]:
        """A tenth of the time, after a third."""
        return self.end_ms // 3, self.end_ms // 3 + self.end_ms // 10

    def phase(self, at: int) -> Phase:
        begin, end = self.spike_ms
        if at < begin:
            return Phase.BEFORE
        if at < end:
            return Phase.SPIKE
        return Phase.AFTER if at < self.end_ms * 3 // 4 else Phase.NORMAL


@dataclass(slots=True)
class Cost:
    """Of a verb: how often a server would call it, how often it was called here, how long."""

    wanted: int = 0
    made: int = 0
    seconds: float = 0.0
    statements: int = 0

    @property
    def ms(self) -> float:
        return 1000 * self.seconds / self.made if self.made else 0.0

    @property
    def statements_each(self) -> float:
        return self.statements / self.made if self.made else 0.0


@dataclass(slots=True)
class Player:
    """A worker. `life` changes with a crash, so that what was due before it comes to nothing."""

    number: int
    claimant: Claimant
    life: int = 0
    claim: Claim | None = None
    is_away: bool = False


@dataclass(slots=True)
class Figures:
    waits: dict[Phase, list[float]] = field(default_factory=lambda: defaultdict(list))
    urgent: list[float] = field(default_factory=list)
    costs: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    arrived: int = 0
    completed: int = 0
    crashes: int = 0
    deepest: int = 0
    ended_ms: int = 0


class Simulation:
    def __init__(self, world: worlds.World, plan: Plan) -> None:
        self.plan = plan
        self.figures = Figures()
        self._world = world
        self._dispatch = Dispatch(world.db, world.queue)
        self._random = random.Random(plan.seed)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._begin = world.clock.at
        self._players: list[Player] = []
        self._idle: deque[Player] = deque()
        self._holders: dict[str, Player] = {}
        self._arrived_at: dict[str, int] = {}
        self._urgent: set[str] = set()
        # Neither held nor ended, as far as anybody here knows.
        self._waiting = 0
        self._is_over = False

    # Time

    @property
    def _now(self) -> int:
        return self._world.clock.at - self._begin

    @property
    def _is_draining(self) -> bool:
        """Nothing arrives any more, and nothing counts; what is there is finished."""
        return self._now > self.plan.end_ms

    def _later(self, after_ms: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self._now + int(after_ms), next(self._order), act))

    def run(self) -> Figures:
        self._hire()
        self._fill()
        self._later(0, self._arrive)
        for every, act in (
            (SWEEP_MS, self._tidy),
            (POLL_MS, self._look),
            (SECOND_MS, self._signs),
        ):
            self._every(every, act)
        while self._heap and not self._is_over:
            at, _, act = heapq.heappop(self._heap)
            self._go_to(at)
            act()
        self.figures.ended_ms = self._now
        return self.figures

    def _go_to(self, at: int) -> None:
        if self._begin + at > self._world.clock.at:
            self._world.clock.at = self._begin + at
            if self._world.db.dialect.name == "postgresql":
                self._world.advance(0)

    def _every(self, ms: int, act: Callable[[], None]) -> None:
        def again() -> None:
            act()
            self._later(ms, again)

        self._later(ms, again)

    # Before it begins

    def _hire(self) -> None:
        players = [
            Player(n, Claimant(id=ids.new("wrk"), name=f"w{n}", kinds=KINDS, boot_id="boot_0"))
            for n in range(self.plan.workers)
        ]
        for page in _pages(players):

            def join(tx: Tx, page: Sequence[Player] = page) -> None:
                for each in page:
                    fleet.register(tx, each.claimant.id, each.claimant.name)
                    fleet.hello(
                        tx,
                        each.claimant.id,
                        kinds=each.claimant.kinds,
                        capabilities=(),
                        metadata={},
                        boot_id="boot_0",
                    )

            self._world.db.run(join)
        self._players = players
        self._idle.extend(players)
        for each in players:
            self._plan_crash(each)

    def _fill(self) -> None:
        made = [self._new_job() for _ in range(self.plan.backlog)]
        for page in _pages(made):
            self._enqueue(page)
        if made:
            self._feed()

    def _new_job(self) -> NewJob:
        [kind] = self._random.choices(list(WORK), [each.share for each in WORK.values()])
        urgent = self._random.random() < URGENT_SHARE
        return NewJob(kind=kind, priority="high" if urgent else "normal")

    # Jobs arrive

    def _arrive(self) -> None:
        if self._now >= self.plan.end_ms or self.figures.arrived >= self.plan.jobs:
            return
        self._enqueue([self._new_job()])
        self._look()
        factor = self.plan.spike if self.plan.phase(self._now) is Phase.SPIKE else 1.0
        gap = self._random.expovariate(self.plan.jobs_per_second * factor)
        self._later(gap * 1000, self._arrive)

    def _enqueue(self, news: Sequence[NewJob]) -> None:
        queue = self._world.queue
        made = self._timed(
            "enqueue",
            lambda: self._world.db.run(lambda tx: queue.enqueue_many(tx, news)),
            len(news),
        )
        for new, each in zip(news, made, strict=True):
            self._arrived_at[each.id] = self._now
            if new.priority == "high":
                self._urgent.add(each.id)
        self.figures.arrived += len(made)
        self._waiting += len(made)
        self.figures.deepest = max(self.figures.deepest, self._waiting)

    # Workers are fed, as the dispatcher does it

    def _look(self) -> None:
        if self._idle and self._waiting:
            self._feed()

    def _feed(self) -> None:
        offers = self._timed("look", lambda: self._dispatch.offers(KINDS))
        tries = 0
        while offers.strands and tries < dispatcher.TRIES and self._idle:
            player = self._idle.popleft()
            if got := self._timed("claim", partial(self._dispatch.claim, player.claimant, 1)):
                self._begin_work(player, got[0])
            else:
                self._idle.append(player)
                tries += 1

    def _begin_work(self, player: Player, assignment: Assignment) -> None:
        claim = player.claim = assignment.claim
        self._holders[claim.job_id] = player
        self._waiting -= 1
        if (arrived := self._arrived_at.pop(claim.job_id, None)) is not None:
            waited = (self._now - arrived) / 1000
            if claim.job_id in self._urgent:
                self.figures.urgent.append(waited)
            else:
                self.figures.waits[self.plan.phase(arrived)].append(waited)
        work = WORK[assignment.kind]
        seconds = work.median_seconds * self._random.lognormvariate(0, work.sigma)
        seconds = min(seconds, LONGEST_SECONDS) / self.plan.pace
        life = player.life
        self._later(seconds * 1000, lambda: self._end_work(player, life, claim))

    def _end_work(self, player: Player, life: int, claim: Claim) -> None:
        if player.life != life:
            return
        player.claim = None
        self._holders.pop(claim.job_id, None)
        if self._random.random() < FAILING_SHARE:
            self._timed("fail", lambda: self._dispatch.fail(claim, "transient", "simulated", ""))
            self._waiting += self._is_live(claim.job_id)
        else:
            done = self._timed(
                "complete", lambda: self._dispatch.complete_plain([Completion(claim=claim)])
            )
            assert done == {claim.job_id}, "a live claim was not accepted"
            self.figures.completed += 1
        self._idle.append(player)
        self._look()

    def _is_live(self, job_id: str) -> bool:
        return self._world.state(job_id) not in ("failed", "canceled", "completed")

    # Workers crash, and come back

    def _plan_crash(self, player: Player) -> None:
        if self.plan.crashes_per_day and self._now < self.plan.end_ms:
            gap = self._random.expovariate(self.plan.crashes_per_day / 86_400_000)
            life = player.life
            self._later(gap, lambda: self._crash(player, life))

    def _crash(self, player: Player, life: int) -> None:
        if player.life != life or self._now >= self.plan.end_ms:
            return
        self.figures.crashes += 1
        player.life += 1
        player.is_away = True
        if player.claim is None:
            self._idle.remove(player)
        soon = self._random.random() < 0.5
        self._later(BACK_MS if soon else AWAY_MS, lambda: self._come_back(player))

    def _come_back(self, player: Player) -> None:
        """As a new process: what the last one held is freed, if the sweep has not been there."""
        boot = f"boot_{player.life}"
        hello = Hello(kinds=list(KINDS), boot_id=boot)
        self._timed("hello", lambda: self._dispatch.hello(player.claimant.id, hello))
        if player.claim is not None and self._holders.get(player.claim.job_id) is player:
            self._lost(player.claim.job_id)
        claimant = Claimant(
            id=player.claimant.id, name=player.claimant.name, kinds=KINDS, boot_id=boot
        )
        player.claimant, player.claim, player.is_away = claimant, None, False
        self._idle.append(player)
        self._plan_crash(player)
        self._look()

    def _lost(self, job_id: str) -> None:
        """It waits again, unless it was lost too often."""
        self._holders.pop(job_id, None)
        self._waiting += self._is_live(job_id)

    # What goes on all the time

    def _tidy(self) -> None:
        moved = self._timed("chores", self._world.chores.tick)
        for job_id in moved:
            player = self._holders.get(job_id)
            if player is not None and player.claim is not None:
                player.claim = None
                self._lost(job_id)
        is_done = not self._holders and not self._waiting
        if self._is_draining and (is_done or not self.plan.drains):
            self._is_over = True

    def _signs(self) -> None:
        """Once a second: a fifteenth of those who work are due with a heartbeat, and all of them
        with their progress. A few are made as they are, the rest in one go."""
        busy = [each for each in self._holders.values() if each.claim and not each.is_away]
        turns = HEARTBEAT_MS // SECOND_MS
        turn = self._now // SECOND_MS % turns
        due = [each for each in busy if each.number % turns == turn]
        if not self._is_draining:
            self.figures.costs["heartbeat"].wanted += len(due)
            self.figures.costs["progress"].wanted += len(busy) * SECOND_MS // PROGRESS_MS
        for each in self._some(due):
            beat = partial(self._dispatch.heartbeat, each.claimant.id, [_held(each)])
            self._timed("heartbeat", beat, 0)
        for each in self._some(busy):
            told = [Progress(claim=_held(each), progress=0.5)]
            self._timed("progress", partial(self._dispatch.progress, told), 0)
        queue = self._world.queue
        for page in _pages([_held(each) for each in due]):
            self._world.db.run_step(partial(_renew, queue, page))

    def _some(self, players: Sequence[Player]) -> list[Player]:
        return [each for each in players if self._random.random() < self.plan.sample]

    def _timed(self, name: str, act: Callable[[], T], wanted: int = 1) -> T:
        cost = self.figures.costs[name]
        before, began = _statements.count, time.perf_counter()
        result = act()
        if self._is_draining:
            return result
        cost.seconds += time.perf_counter() - began
        cost.statements += _statements.count - before
        cost.made += max(wanted, 1)
        cost.wanted += wanted
        return result


class _Statements:
    """Counts what is said to the database."""

    count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        execute = Tx._execute

        def counting(tx: Tx, sql: str, params: dict[str, Any]) -> list[dict[str, Any]]:
            self.count += 1
            return execute(tx, sql, params)

        setattr(Tx, "_execute", counting)  # noqa: B010  it is theirs, not ours to name
        try:
            yield
        finally:
            setattr(Tx, "_execute", execute)  # noqa: B010


_statements = _Statements()


def _renew(queue: Queue, page: Sequence[Claim], tx: Tx) -> None:
    queue.heartbeat(tx, page)


def _held(player: Player) -> Claim:
    assert player.claim is not None
    return player.claim


def _pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PAGE):
        yield items[start : start + PAGE]


def simulate(world: worlds.World, plan: Plan) -> Figures:
    with _statements.counted():
        return Simulation(world, plan).run()


def check(world: worlds.World, figures: Figures, *, drained: bool = True) -> None:
    """Nothing was lost, and nothing was completed twice."""
    rows = world.rows("SELECT state, count(*) AS n FROM jobs GROUP BY state")
    states = Counter({row["state"]: row["n"] for row in rows})
    assert not drained or set(states) <= {"completed", "failed"}, states
    assert states.total() == figures.arrived, (states, figures.arrived)
    assert states["completed"] == figures.completed, (states, figures.completed)
    [twice] = world.rows(
        "SELECT count(*) AS n FROM (SELECT job_id FROM attempts WHERE outcome = 'succeeded'"
        " GROUP BY job_id HAVING count(*) > 1) AS more"
    )
    assert twice["n"] == 0
    with world.db.begin() as tx:
        found = invariants.check(tx, lease_ms=world.terms.lease_ms, sweep_ms=SWEEP_MS)
    assert found == [], found


def percentiles(waits: Sequence[float]) -> tuple[float, float, float]:
    if len(waits) < 2:
        return (0.0, 0.0, 0.0)
    cuts = quantiles(waits, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98]


def report(plan: Plan, figures: Figures, took: float, database: str) -> None:
    virtual = plan.end_ms / 1000
    print(
        f"{plan.workers:,} workers, {figures.arrived:,} jobs in {plan.hours:g} virtual hours, the"
        f" last done after {figures.ended_ms / 3_600_000:.1f}; {figures.crashes:,} crashes, at most"
        f" {figures.deepest:,} waited. {database}, {took:.0f} s"
    )
    for phase in Phase:
        if waits := figures.waits.get(phase):
            said = " / ".join(f"{each:.1f}" for each in percentiles(waits))
            print(
                f"figure wait_{phase.replace(' ', '_')}_s p50/p95/p99 {said} ({len(waits):,} jobs)"
            )
    said = " / ".join(f"{each:.1f}" for each in percentiles(figures.urgent))
    print(f"figure wait_urgent_s p50/p95/p99 {said} ({len(figures.urgent):,} jobs)")
    busy = {name: cost.wanted * cost.ms / 1000 for name, cost in figures.costs.items()}
    statements = 0.0
    print("verb        a second    ms each   statements each   share of one connection")
    for name, cost in sorted(figures.costs.items(), key=lambda each: -busy[each[0]]):
        statements += cost.wanted * cost.statements_each
        print(
            f"{name:10} {cost.wanted / virtual:9.1f} {cost.ms:10.3f} {cost.statements_each:17.1f}"
            f" {busy[name] / virtual:14.3f}"
        )
    print(f"figure statements_per_s {statements / virtual:,.0f}")
    print(f"figure statements_per_job {statements / max(figures.arrived, 1):.1f}")
    print(f"figure connections_busy {sum(busy.values()) / virtual:.2f}")
    first = max(busy, key=lambda name: busy[name])
    own = busy[first] / sum(busy.values())
    print(f"exhausted first: the database's writers, {own:.0%} of them by {first}")
