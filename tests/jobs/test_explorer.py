"""All orders of events in small worlds keep the queue's promises, and broken guards are found."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import world as worlds
from jobs.explorer import LOST_REPLY, VERBS, BrokenRule, Explorer, Setup
from rushes import events
from rushes.db import dialects
from rushes.jobs import invariants, lifecycle, read_store, relation_store, store
from rushes.jobs import job as jobs
from rushes.jobs.job import State
from rushes.jobs.lifecycle import Facts, Loss, Next
from world import World

MOST = tuple(verb for verb in VERBS if verb not in ("fail resource", f"fail permanent{LOST_REPLY}"))
SOME = ("heartbeat", "complete", f"complete{LOST_REPLY}", "fail transient", f"release{LOST_REPLY}")
FEW = ("heartbeat", "complete", f"complete{LOST_REPLY}", f"release{LOST_REPLY}")
DIVIDING = (
    "complete",
    f"complete{LOST_REPLY}",
    "fail permanent",
    "divide",
    f"divide{LOST_REPLY}",
)
ONCE = {"max_attempts": 1}
TWICE = {"max_attempts": 2}
TIMED = {"max_attempts": 2, "timeout_seconds": 45}


OpenWorld = Callable[[str, int], World]
Mutant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A world to search, how often its jobs may be claimed, and how much there is to see."""

    setup: Setup
    max_claims: int
    states: int
    transitions: int

    @property
    def verbs(self) -> set[str]:
        """What must have made a difference somewhere, or the search has seen too little."""
        always = {"claim", "crash", "cancel", "expire", "sweep", *self.setup.verbs}
        media = {"delete"} if self.setup.media else set()
        failover = {"failover"} if self.setup.failovers else set()
        return always | media | failover | ({"next"} if self.setup.moves else set())


CASES = {
    "sqlite two jobs": Case(Setup(jobs=[TWICE, ONCE], verbs=FEW), 2, 1_800, 19_000),
    "sqlite two jobs, a failover": Case(
        Setup(jobs=[ONCE, ONCE], failovers=1, verbs=FEW), 1, 780, 8_000
    ),
    "sqlite media, a failover": Case(Setup(jobs=[TWICE], media=True, failovers=1), 2, 410, 7_500),
    "sqlite stale claims": Case(
        Setup(jobs=[TWICE], slots=2, failovers=1, verbs=SOME), 2, 340, 4_400
    ),
    "sqlite parent and child": Case(
        Setup(jobs=[TWICE, {**ONCE, "after": 0}], verbs=MOST), 2, 350, 5_500
    ),
    "sqlite job in parts": Case(Setup(jobs=[ONCE], parts=2, verbs=DIVIDING), 2, 690, 8_400),
    "sqlite media in parts": Case(
        Setup(jobs=[ONCE], media=True, parts=2, verbs=DIVIDING[::2]), 2, 850, 9_000
    ),
    "sqlite job in parts, moved": Case(
        Setup(
            jobs=[ONCE, ONCE],
            workers=1,
            parts=2,
            moves=True,
            verbs=("complete", "divide"),
            max_transitions=1_500,
        ),
        2,
        100,
        1_500,
    ),
    "sqlite deadline": Case(Setup(jobs=[TIMED], verbs=MOST), 2, 130, 1_700),
    "postgres two jobs, a failover": Case(
        Setup(jobs=[ONCE, ONCE], failovers=1, verbs=MOST, max_transitions=1_500), 2, 300, 1_500
    ),
    "postgres job in parts": Case(
        Setup(jobs=[ONCE], parts=2, verbs=DIVIDING, max_transitions=1_500),
        2,
        260,
        1_500,
    ),
    "postgres media": Case(Setup(jobs=[TWICE], media=True, verbs=SOME), 2, 125, 1_300),
}


@pytest.fixture
def open_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorld]:
    """Few claims make a poison job soon, and keep the search finite; a backoff is one second."""
    opened: list[World] = []

    def open_one(database: str, max_claims: int) -> World:
        for module in (lifecycle, store, invariants):
            monkeypatch.setattr(module, "MAX_CLAIMS", max_claims)
        monkeypatch.setattr(lifecycle, "MAX_LOSSES", 2)
        monkeypatch.setattr(lifecycle, "backoff_ms", lambda n, uniform: 1_000)
        opened.append(
            worlds.open_sqlite(tmp_path) if database == "sqlite" else worlds.open_postgres()
        )
        return opened[-1]

    yield open_one
    for world in opened:
        world.close()


@pytest.mark.parametrize("name", CASES)
def test_no_order_of_events_breaks_a_rule(open_world: OpenWorld, name: str) -> None:
    case = CASES[name]
    report = Explorer(open_world(name.split()[0], case.max_claims), case.setup).run()
    assert report.states >= case.states
    assert report.transitions >= case.transitions
    assert {state for state, _ in report.ends} == jobs.TERMINAL
    assert case.verbs <= set(report.effective)
    # With fewer transitions than it may make, a search has seen everything there is.
    assert report.exhausted == (report.transitions < case.setup.max_transitions)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_without_the_fence_a_lost_claim_completes_the_job_of_another(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    explorer = Explorer(open_world(database, 2), Setup(jobs=[TWICE], verbs=["complete"]))
    no_fence(monkeypatch)
    with pytest.raises(BrokenRule) as broken:
        explorer.run()
    assert broken.value.problem == "a claim that is not the job's changed something"
    assert broken.value.trace == [
        "claim: w0",
        "expire: no heartbeat for jobs [0]",
        "sweep",
        "claim: w1",
        "complete: w0 of job 0, with a claim it has lost",
    ]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_counted_fence_does_not_survive_a_failover(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    setup = Setup(jobs=[TWICE], verbs=["complete"], failovers=1)
    explorer = Explorer(open_world(database, 2), setup)
    epoch_as_fence(monkeypatch)
    with pytest.raises(BrokenRule) as broken:
        explorer.run()
    assert broken.value.trace == [
        "claim: w0",
        "failover: that commit is lost",
        "claim: w1",
        "complete: w0 of job 0, with a claim it has lost",
    ]


def rewrite(monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, str]) -> None:
    """Change every statement that contains one of the texts, on both databases."""
    for dialect in (dialects.Sqlite, dialects.Postgres):
        whole = dialect.compile

        @functools.wraps(whole)
        def compile(self: Any, sql: str, whole: Any = whole) -> str:
            for old, new in changes:
                sql = sql.replace(old, new)
            return str(whole(self, sql))

        monkeypatch.setattr(dialect, "compile", compile)


def no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    unfenced = store.OWN.replace("AND jobs.claim_id = given.claim_id", "")
    assert unfenced != store.OWN
    monkeypatch.setattr(store, "OWN", unfenced)


def no_fence_for_fail_and_release(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(
        monkeypatch,
        ("AND claim_id = :claim_id AND state", "AND coalesce(:claim_id, '') <> '' AND state"),
        (" AND coalesce(jobs.claim_id, '') = coalesce(given.claim_id, '')", ""),
    )


def epoch_as_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = "claim_id = substr(:claim_id, 1, 4) || (claim_epoch + 1) || CASE"
    rewrite(monkeypatch, ("claim_id = :claim_id || CASE", numbered))


def complete_ignores_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, (" AND jobs.cancel_requested_at IS NULL", ""))


def claim_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, ("attempt = attempt + 1,", ""))


def claim_ignores_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, ("AND run_at <= {now}", "AND run_at <= {now} + 5000"))


def renewal_ignores_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEASE_ALIVE", "jobs.claim_expires_at > {now}")


def sweep_ignores_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEASE_OVER", "jobs.claim_expires_at <= {now}")


def sweep_resurrects_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    after_loss = lifecycle.after_loss

    def forgetful(job: Facts, loss: Loss) -> Next:
        return after_loss(replace(job, cancel_requested=False), loss)

    monkeypatch.setattr(lifecycle, "after_loss", forgetful)


def sweep_ignores_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    after_loss = lifecycle.after_loss

    def generous(job: Facts, loss: Loss) -> Next:
        return after_loss(replace(job, max_attempts=100), loss)

    monkeypatch.setattr(lifecycle, "after_loss", generous)


def release_is_not_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "MAX_CLAIMS", 100)


def repeated_complete_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_store, "closed_attempt", lambda tx, claim: None)


def no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "from_changed", lambda verb, **_: " SELECT 1 FROM changed")


def wholes_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_store, "lock_divided", lambda tx, ids: [])


def one_part_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    after_parts = lifecycle.after_parts
    monkeypatch.setattr(
        lifecycle,
        "after_parts",
        lambda parts: State.QUEUED if State.COMPLETED in parts else after_parts(parts),
    )


def parts_outlive_their_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_store, "live_parts", lambda tx, wholes: [])


def children_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_store, "_unblock", lambda tx, parents: {})


PAIR = Setup(jobs=[TWICE, TWICE])
IN_PARTS = Setup(jobs=[ONCE], parts=2, verbs=DIVIDING)
MUTANTS: dict[str, tuple[Mutant, Setup]] = {
    "no fence for fail and release": (no_fence_for_fail_and_release, PAIR),
    "complete ignores cancel": (complete_ignores_cancel, PAIR),
    "claim does not count": (claim_does_not_count, PAIR),
    "claim ignores backoff": (claim_ignores_backoff, PAIR),
    "renewal ignores deadline": (renewal_ignores_deadline, Setup(jobs=[TIMED])),
    "sweep ignores deadline": (sweep_ignores_deadline, Setup(jobs=[TIMED])),
    "sweep resurrects canceled": (sweep_resurrects_canceled, PAIR),
    "sweep ignores attempts": (sweep_ignores_attempts, Setup(jobs=[ONCE])),
    "release is not capped": (release_is_not_capped, PAIR),
    "repeated complete is refused": (repeated_complete_is_refused, PAIR),
    "no events": (no_events, PAIR),
    "wholes wait for ever": (wholes_wait_for_ever, IN_PARTS),
    "parts outlive their whole": (parts_outlive_their_whole, IN_PARTS),
    "one part is enough": (one_part_is_enough, IN_PARTS),
    "children wait for ever": (children_wait_for_ever, Setup(jobs=[ONCE, {**ONCE, "after": 0}])),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_guard_is_found(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mutate, setup = MUTANTS[name]
    explorer = Explorer(open_world("sqlite", 2), setup)
    mutate(monkeypatch)
    with pytest.raises(BrokenRule):
        explorer.run()
