"""Every order of events, breadth first, each step the shipped SQL on a real database.

A node is a database with all its rows, the claims that workers hold, stale ones too, and a ledger
of what anybody was told. Nodes that differ only in names, and in times of one class, are the same
node: so the search ends, and the first trace to a broken rule is a shortest one.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rushes import errors, events, ids
from rushes.db.database import Tx
from rushes.jobs import beat_store, invariants
from rushes.jobs import job as jobs
from rushes.jobs.job import ErrorClass, NewJob, State
from rushes.jobs.terms import Claimant
from rushes.media import library
from rushes.media import store as media_store
from rushes.media.media import NewMedia
from rushes.protocol import Beat, Claim, Part, Progress
from world import World

Row = dict[str, Any]
Rows = dict[str, list[Row]]
Key = tuple[Any, ...]

# In the order in which the rows may be inserted. The first four are what verbs decide on.
TABLES = {
    "media": "id",
    "jobs": "id",
    "versions": "id",
    "attempts": "job_id, epoch",
    "turns": "user_id",
    "events": "seq",
    "event_head": "id",
    "job_counts": "kind, user_id, state",
    "live_counts": "kind, user_id, state",
    "failure_counts": "kind, user_id, error_code",
    "service_beat": "id",
}
DECISIVE = ("media", "jobs", "versions", "attempts")
LOST_REPLY = " (reply lost)"
VERBS = (
    "heartbeat",
    "progress",
    "complete",
    "complete" + LOST_REPLY,
    "fail transient",
    "fail transient" + LOST_REPLY,
    "fail permanent",
    "fail permanent" + LOST_REPLY,
    "fail resource",
    "release",
    "release" + LOST_REPLY,
)
# What only people do. Without it, every job must still be able to end.
BY_PEOPLE = ("cancel", "delete", "next")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How large a world to search. `jobs`: their options, and `after`: the number of the parent.
    `slots`: how many claims a worker keeps, stale ones included. `parts`: into how many a job may
    be divided. `moves`: whether people put jobs before others."""

    jobs: Sequence[Mapping[str, Any]]
    workers: int = 2
    slots: int = 1
    media: bool = False
    failovers: int = 0
    parts: int = 0
    moves: bool = False
    verbs: Collection[str] = VERBS
    max_transitions: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Token:
    """One grant of a job. The number tells grants apart even where their claim ids would not."""

    number: int
    claim: Claim


@dataclass(frozen=True, slots=True)
class Ledger:
    """What this history of the database has promised: a commit that is lost takes it along."""

    granted: Mapping[str, int] = field(default_factory=dict)
    completed: Mapping[str, int] = field(default_factory=dict)
    canceled: frozenset[str] = frozenset()
    answers: Mapping[int, State] = field(default_factory=dict)


Held = tuple[tuple[Token, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    rows: Rows
    at: int
    held: Held
    ledger: Ledger
    failovers: int
    index: int
    parent: Node | None = None
    steps: tuple[str, ...] = ()

    @property
    def jobs(self) -> list[Row]:
        return self.rows["jobs"]

    def job(self, id: str) -> Row:
        return next(row for row in self.jobs if row["id"] == id)

    def is_current(self, token: Token) -> bool:
        """By the ledger, not by the claim id: that is what is being tested."""
        id = token.claim.job_id
        granted = self.ledger.granted.get(id) == token.number
        return granted and self.job(id)["state"] == State.PROCESSING

    def is_canceled(self, id: str) -> bool:
        """By somebody, or together with the job that it is a part of."""
        row = self.job(id)
        if row["division"] is not None and self.job(row["parent_id"])["state"] in jobs.TERMINAL:
            return True
        return id in self.ledger.canceled

    def trace(self) -> list[str]:
        return [*(self.parent.trace() if self.parent else []), *self.steps]


@dataclass(slots=True)
class After:
    """What an action left behind, besides the rows, and what is wrong with its answer."""

    held: Held
    ledger: Ledger
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    run: Callable[[Tx, Node], After]
    by: Token | None = None

    @property
    def verb(self) -> str:
        return self.name.partition(":")[0]


@dataclass(slots=True)
class Report:
    """What the search saw. `effective` counts, for each verb, how often it changed something."""

    states: int = 0
    transitions: int = 0
    exhausted: bool = True
    ends: set[tuple[str, str | None]] = field(default_factory=set)
    effective: Counter[str] = field(default_factory=Counter)
    edges: dict[int, set[int]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)


class BrokenRule(AssertionError):
    def __init__(self, problem: str, trace: Sequence[str]) -> None:
        super().__init__("\n".join([problem, *(f"  {n}. {s}" for n, s in enumerate(trace, 1))]))
        self.problem = problem
        self.trace = list(trace)


class Wrong(Exception):
    """A rule is broken by what is happening now; the search adds how it came to it."""


class Undo(Exception):
    """Leaves a transaction without a commit."""


class Explorer:
    def __init__(self, world: World, setup: Setup) -> None:
        self.world = world
        self.setup = setup
        self.queue = world.queue
        self.workers = [world.worker(name=f"w{n}") for n in range(setup.workers)]
        # Past the grace after the start, and until I22 may judge.
        world.live(3 * world.terms.lease_ms / 1000)
        self._numbers = itertools.count(1)
        self._seen: dict[Key, int] = {}
        self._nodes: list[Node] = []
        self._frontier: deque[Node] = deque()
        self.report = Report()

    def run(self) -> Report:
        """Raises BrokenRule with a shortest trace, or tells how much there was to see."""
        with self._undone() as tx:
            self._add(self._first(tx))
        while self._frontier:
            if self.report.transitions >= self.setup.max_transitions:
                self.report.exhausted = False
                break
            self._expand(self._frontier.popleft())
        self.report.states = len(self._nodes)
        if self.report.exhausted:
            self._check_that_all_can_end()
        return self.report

    # Searching

    def _first(self, tx: Tx) -> Node:
        media_id = None
        if self.setup.media:
            media_id = ids.new("med")
            media_store.insert(tx, media_id, NewMedia(user_id="", title="rushes"), media_id)
        made: list[str] = []
        for given in self.setup.jobs:
            options = dict(given)
            parent_id = made[options.pop("after")] if "after" in options else None
            new = NewJob(kind="noop", media_id=media_id, parent_id=parent_id, **options)
            made.append(self.queue.enqueue(tx, new).id)
        return Node(
            rows=self._dump(tx, TABLES),
            at=self.world.clock.at,
            held=((),) * self.setup.workers,
            ledger=Ledger(),
            failovers=self.setup.failovers,
            index=0,
        )

    def _expand(self, node: Node) -> None:
        with self._undone() as tx:
            self._load(tx, node)
            for action in self._actions(node):
                tx.all("SAVEPOINT node")
                self._try(tx, node, action)
                self._set_clock(tx, node.at)
                tx.all("ROLLBACK TO node")

    def _try(self, tx: Tx, node: Node, action: Action) -> None:
        self.report.transitions += 1
        try:
            after = action.run(tx, node)
            rows = self._dump(tx, DECISIVE)
            if self._is_changed(tx, node, rows):
                self._check_step(node, action, rows, after.ledger)
                self._check_invariants(tx)
            if after.problem is not None:
                raise Wrong(after.problem)
        except Exception as error:
            raise BrokenRule(str(error), [*node.trace(), action.name]) from error
        self._reach(tx, node, action, rows, after)
        if node.failovers and after.held != node.held:
            self._fail_over(node, action, after.held)

    def _is_changed(self, tx: Tx, node: Node, rows: Rows) -> bool:
        last = tx.one("SELECT max(seq) AS seq FROM events")
        return (
            self.world.clock.at != node.at
            or last != {"seq": node.rows["events"][-1]["seq"]}
            or any(rows[name] != node.rows[name] for name in DECISIVE)
        )

    def _reach(self, tx: Tx, node: Node, action: Action, rows: Rows, after: After) -> None:
        reached = replace(
            node,
            rows=rows,
            at=self.world.clock.at,
            held=after.held,
            ledger=after.ledger,
            parent=node,
            steps=(action.name,),
        )
        index = self._seen.get(self._key(reached))
        if index is None:
            rows = rows | self._dump(tx, [name for name in TABLES if name not in DECISIVE])
            index = self._add(replace(reached, rows=rows))
        if index != node.index:
            self.report.effective[action.verb] += 1
        if action.verb not in BY_PEOPLE:
            self.report.edges.setdefault(index, set()).add(node.index)

    def _fail_over(self, node: Node, action: Action, held: Held) -> None:
        """The commit of the action is lost with the primary; what workers were given is not."""
        reached = replace(
            node,
            held=held,
            failovers=node.failovers - 1,
            parent=node,
            steps=(action.name, "failover: that commit is lost"),
        )
        # Whoever has more failovers left can reach all that this one can.
        more = replace(reached, failovers=node.failovers)
        if self._key(reached) not in self._seen and self._key(more) not in self._seen:
            self.report.effective["failover"] += 1
            self._add(reached)

    def _add(self, node: Node) -> int:
        index = len(self._nodes)
        self._seen[self._key(node)] = index
        self._nodes.append(replace(node, index=index))
        self._frontier.append(self._nodes[index])
        states = {row["state"] for row in node.jobs}
        if states <= jobs.TERMINAL:
            self.report.ended.add(index)
        self.report.ends |= {
            (row["state"], row["error_code"]) for row in node.jobs if row["state"] in jobs.TERMINAL
        }
        return index

    # What may happen

    def _actions(self, node: Node) -> Iterator[Action]:
        for n, worker in enumerate(self.workers):
            yield from self._actions_of(node, n, worker)
        for number, row in enumerate(node.jobs):
            yield Action(f"cancel: job {number}", self._cancel(row["id"]))
            if self.setup.moves:
                yield Action(f"next: job {number}", self._next(row["id"]))
        if self.setup.media:
            yield Action("delete: the media", self._delete)
        yield Action("sweep", self._sweep)
        if any(_waits(row, node.at) for row in node.jobs):
            yield Action("wait: until the backoff is over", self._wait)
        for silent in self._silences(node):
            numbers = [n for n, row in enumerate(node.jobs) if row["id"] in silent]
            yield Action(f"expire: no heartbeat for jobs {numbers}", self._expire(silent))

    def _actions_of(self, node: Node, n: int, worker: Claimant) -> Iterator[Action]:
        tokens = node.held[n]
        if len(tokens) < self.setup.slots:
            yield Action(f"claim: {worker.name}", self._claim(n))
        for token in tokens:
            for verb in self.setup.verbs:
                name = f"{verb}: {worker.name} of job {self._number(node, token)}"
                if not node.is_current(token):
                    name += ", with a claim it has lost"
                yield Action(name, self._say(n, token, verb), by=token)
        if tokens:
            yield Action(f"crash: {worker.name}", self._crash(n))

    def _claim(self, n: int) -> Callable[[Tx, Node], After]:
        def run(tx: Tx, node: Node) -> After:
            due = [row for row in node.jobs if row["state"] == State.QUEUED]
            due = [row for row in due if not _waits(row, node.at)]
            due.sort(key=_place)
            taken = self.queue.claim(tx, self.workers[n])
            if [each.job_id for each in taken] != [row["id"] for row in due[:1]]:
                raise Wrong("the claim is not the oldest job that is due")
            held, ledger = node.held, node.ledger
            for assignment in taken:
                if assignment.media_id is not None:
                    library.start_version(tx, assignment.claim, assignment.media_id)
                token = Token(next(self._numbers), assignment.claim)
                held = _with(held, n, (*held[n], token))
                granted = {**ledger.granted, assignment.job_id: token.number}
                ledger = replace(ledger, granted=granted)
            return After(held, ledger)

        return run

    def _say(self, n: int, token: Token, verb: str) -> Callable[[Tx, Node], After]:
        """A worker speaks. It forgets the claim when it hears the answer; it may not hear it."""
        said = verb.removesuffix(LOST_REPLY)

        def run(tx: Tx, node: Node) -> After:
            answer = self._call(tx, said, token.claim)
            expected = self._expected(node, said, token)
            right = answer in expected
            ledger, held = node.ledger, node.held
            if isinstance(answer, State):
                ledger = _told(ledger, said, token, answer)
            done = isinstance(answer, State) or answer in (errors.ClaimLost.code, Beat(False))
            if done and not verb.endswith(LOST_REPLY):
                held = _without(held, n, token)
            return After(held, ledger, None if right else f"answered {answer}, not {expected}")

        return run

    def _call(self, tx: Tx, verb: str, claim: Claim) -> State | Beat | str:
        try:
            match verb.split():
                case ["heartbeat"]:
                    return self.queue.heartbeat(tx, [claim])[claim.claim_id]
                case ["progress"]:
                    report = Progress(claim=claim, progress=0.5, checkpoint={"at": 1})
                    return self.queue.progress(tx, [report])[claim.claim_id]
                case ["complete"]:
                    return library.complete(tx, self.queue, claim).state
                case ["fail", word]:
                    return self.queue.fail(tx, claim, ErrorClass(word), code="boom")
                case ["release"]:
                    return self.queue.release(tx, claim)
                case ["divide"]:
                    parts = [Part(kind="noop")] * self.setup.parts
                    return self.queue.divide(tx, claim, parts)
                case _:
                    raise ValueError(verb)
        except errors.Conflict as error:
            return error.code

    def _expected(self, node: Node, verb: str, token: Token) -> list[State | Beat | str]:
        """The answers that would be right, from the ledger alone."""
        row = node.job(token.claim.job_id)
        current = node.is_current(token)
        canceled = node.is_canceled(row["id"])
        told = node.ledger.answers.get(token.number)
        if verb in ("heartbeat", "progress"):
            alive = current and not _is_over(row, node.at)
            return [Beat(True, canceled) if alive else Beat(False)]
        if current and verb == "complete":
            return [errors.CancelRequested.code if canceled else State.COMPLETED]
        if current and verb == "divide" and row["division"] is not None:
            return [errors.WrongState.code]
        if current and canceled:
            return [State.CANCELED]
        if current and verb == "divide":
            return [State.BLOCKED, State.FAILED]
        if current:
            return [State.FAILED] if verb == "fail permanent" else [State.QUEUED, State.FAILED]
        if told is None or (verb == "complete") != (told is State.COMPLETED):
            return [errors.ClaimLost.code]
        return [told]

    def _crash(self, n: int) -> Callable[[Tx, Node], After]:
        return lambda tx, node: After(_with(node.held, n, ()), node.ledger)

    def _cancel(self, job_id: str) -> Callable[[Tx, Node], After]:
        def run(tx: Tx, node: Node) -> After:
            try:
                self.queue.cancel(tx, job_id)
            except errors.WrongState:
                return After(node.held, node.ledger)
            canceled = node.ledger.canceled | {job_id}
            return After(node.held, replace(node.ledger, canceled=canceled))

        return run

    def _next(self, job_id: str) -> Callable[[Tx, Node], After]:
        def run(tx: Tx, node: Node) -> After:
            row = node.job(job_id)
            whole = row if row["division"] is None else node.job(row["parent_id"])
            moved = self.queue.places.put_first(tx, [job_id], None)
            if (whole["id"] in moved) != (whole["state"] in jobs.WAITING):
                raise Wrong("what waits is moved, and only that")
            return After(node.held, node.ledger)

        return run

    def _delete(self, tx: Tx, node: Node) -> After:
        library.delete(tx, self.queue, node.rows["media"][0]["id"])
        live = {row["id"] for row in node.jobs if row["state"] in jobs.LIVE}
        canceled = node.ledger.canceled | live
        return After(node.held, replace(node.ledger, canceled=canceled))

    def _sweep(self, tx: Tx, node: Node) -> After:
        """As the chores do it. Time has passed in small steps, so that there is no grace."""
        if not self._beat(tx):
            raise Wrong("the sweep does not judge")
        over = {row["id"] for row in node.jobs if _is_over(row, node.at)}
        if set(self.queue.sweep(tx)) != over:
            raise Wrong("the sweep ended others than those whose lease or deadline is over")
        if self.queue.heal(tx):
            raise Wrong("a job waited for a parent that had ended")
        return After(node.held, node.ledger)

    def _wait(self, tx: Tx, node: Node) -> After:
        self._set_clock(tx, max(row["run_at"] for row in node.jobs))
        self._beat(tx)
        return After(node.held, node.ledger)

    def _silences(self, node: Node) -> Iterator[frozenset[str]]:
        """Which jobs may go without a heartbeat for a whole lease. Not while another one waits for
        the sweep: that runs six times within a lease."""
        running = [row for row in node.jobs if row["state"] == State.PROCESSING]
        if any(_is_over(row, node.at) for row in running):
            return
        held = {t.claim.job_id for tokens in node.held for t in tokens if node.is_current(t)}
        forgotten = {row["id"] for row in running} - held
        # With every lease renewed, time changes nothing unless there is a deadline.
        timed = any(row["timeout_ms"] is not None for row in running)
        for size in range(len(held) + 1):
            for chosen in itertools.combinations(sorted(held), size):
                if forgotten or chosen or timed:
                    yield frozenset(forgotten.union(chosen))

    def _expire(self, silent: frozenset[str]) -> Callable[[Tx, Node], After]:
        def run(tx: Tx, node: Node) -> After:
            tokens = [token for tokens in node.held for token in tokens if node.is_current(token)]
            kept = [token.claim for token in tokens if token.claim.job_id not in silent]
            for _ in range(2):
                self.queue.heartbeat(tx, kept)
                self._set_clock(tx, self.world.clock.at + self.queue.terms.lease_ms // 2)
                self._beat(tx)
            return After(node.held, node.ledger)

        return run

    def _beat(self, tx: Tx) -> bool:
        beat_store.shorten_leases(tx, lease_ms=self.queue.terms.lease_ms)
        return beat_store.beat(tx, lease_ms=self.queue.terms.lease_ms)

    # What must hold

    def _check_step(self, node: Node, action: Action, rows: Rows, ledger: Ledger) -> None:
        if action.by is not None and not node.is_current(action.by):
            raise Wrong("a claim that is not the job's changed something")
        # Parts of a divided job come behind those that were there.
        for before, after in zip(node.jobs, rows["jobs"], strict=False):
            problem = _problem_of_job(before, after, ledger)
            if problem:
                raise Wrong(problem)
        closed = [row for row in node.rows["attempts"] if row["outcome"] is not None]
        if any(row not in rows["attempts"] for row in closed):
            raise Wrong("an attempt that had ended was changed")

    def _check_invariants(self, tx: Tx) -> None:
        events.assign_positions(tx)
        for found in invariants.check(tx, lease_ms=self.queue.terms.lease_ms):
            raise Wrong(f"{found.invariant}: {found.sentence}: {found.rows}")

    def _check_that_all_can_end(self) -> None:
        """From every node the jobs can end without anybody canceling them."""
        reached = set(self.report.ended)
        todo = list(reached)
        while todo:
            for before in self.report.edges.get(todo.pop(), ()):
                if before not in reached:
                    reached.add(before)
                    todo.append(before)
        for node in self._nodes:
            if node.index not in reached:
                raise BrokenRule("from here the jobs can never end", node.trace())

    # Names and times do not matter

    def _key(self, node: Node) -> Key:
        attempts = {row["claim_id"]: row for row in node.rows["attempts"]}
        numbers = {row["id"]: n for n, row in enumerate(node.jobs)}

        def token_class(token: Token) -> Key:
            attempt = attempts.get(token.claim.claim_id, {})
            return (
                numbers[token.claim.job_id],
                node.is_current(token),
                bool(attempt),
                attempt.get("outcome") or "",
                attempt.get("job_state") or "",
                node.ledger.answers.get(token.number, ""),
            )

        workers = sorted(tuple(sorted(map(token_class, tokens))) for tokens in node.held)
        media = [
            (row["deleted_at"] is None, row["current_version_id"] is None)
            for row in node.rows["media"]
        ]
        line = sorted((row for row in node.jobs if row["queued_at"] is not None), key=_place)
        return (
            tuple(_class_of_job(row, node) for row in node.jobs),
            tuple(numbers[row["id"]] for row in line) if self.setup.moves else (),
            tuple(workers),
            tuple(media),
            node.failovers,
        )

    def _number(self, node: Node, token: Token) -> int:
        return [row["id"] for row in node.jobs].index(token.claim.job_id)

    # Rows in and out

    @contextmanager
    def _undone(self) -> Iterator[Tx]:
        at = self.world.clock.at
        try:
            with self.world.db.begin() as tx:
                yield tx
                raise Undo
        except Undo:
            self.world.clock.at = at

    def _dump(self, tx: Tx, tables: Collection[str]) -> Rows:
        return {name: tx.all(f"SELECT * FROM {name} ORDER BY {TABLES[name]}") for name in tables}

    def _load(self, tx: Tx, node: Node) -> None:
        for name in reversed(TABLES):
            tx.all(f"DELETE FROM {name}")
        for name in TABLES:
            for row in node.rows[name]:
                values = ", ".join(f":{column}" for column in row)
                tx.all(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({values})", **row)
        self._set_clock(tx, node.at)

    def _set_clock(self, tx: Tx, at: int) -> None:
        if at != self.world.clock.at:
            self.world.clock.at = at
            if tx.dialect.name == "postgresql":
                tx.all("UPDATE test_clock SET now = :at", at=at)


def _problem_of_job(before: Row, after: Row, ledger: Ledger) -> str | None:
    if before["id"] != after["id"]:
        return "a job is gone"
    if before["state"] in jobs.TERMINAL and before != after:
        return "a job that had ended was changed"
    if after["state"] == State.COMPLETED and after["id"] in ledger.canceled:
        return "a job that was canceled is completed"
    if after["id"] in ledger.canceled and after["cancel_requested_at"] is None:
        return "a cancel was forgotten"
    if after["state"] in (State.BLOCKED, State.QUEUED) and after["id"] in ledger.canceled:
        return "a job that was canceled waits to run again"
    if after["state"] == State.COMPLETED and after["id"] not in ledger.completed:
        return "a job is completed and nobody completed it"
    if after["claim_epoch"] < before["claim_epoch"]:
        return "the epoch went back"
    if after["claim_id"] == before["claim_id"] and after["progress"] < before["progress"]:
        return "the progress went back within an attempt"
    return None


def _class_of_job(row: Row, node: Node) -> Key:
    promised = (row["id"] in node.ledger.completed, row["id"] in node.ledger.canceled)
    if row["state"] in jobs.TERMINAL:
        return (row["state"], *promised)
    lease = row["claim_expires_at"]
    deadline = row["deadline_at"]
    return (
        row["state"],
        *promised,
        row["attempt"],
        row["claims"],
        row["losses"],
        row["progressed_at"] is not None,
        row["cancel_requested_at"] is not None,
        row["divided_at"] is not None,
        row["division"] is not None,
        lease is not None and lease <= node.at,
        deadline is not None and deadline <= node.at,
        _waits(row, node.at),
    )


def _place(row: Row) -> tuple[int, int, str]:
    return (row["priority"], row["queued_at"], row["id"])


def _waits(row: Row, at: int) -> bool:
    return bool(row["state"] == State.QUEUED and row["run_at"] > at)


def _is_over(row: Row, at: int) -> bool:
    running = row["state"] == State.PROCESSING
    return running and bool(row["claim_expires_at"] <= at or row["deadline_at"] <= at)


def _told(ledger: Ledger, verb: str, token: Token, answer: State) -> Ledger:
    ledger = replace(ledger, answers={token.number: answer, **ledger.answers})
    if verb != "complete":
        return ledger
    id = token.claim.job_id
    completed = {id: token.number, **ledger.completed}
    if completed[id] != token.number:
        raise Wrong("two claims were told that they completed the job")
    return replace(ledger, completed=completed)


def _with(held: Held, n: int, tokens: tuple[Token, ...]) -> Held:
    return (*held[:n], tokens, *held[n + 1 :])


def _without(held: Held, n: int, token: Token) -> Held:
    return _with(held, n, tuple(each for each in held[n] if each != token))
