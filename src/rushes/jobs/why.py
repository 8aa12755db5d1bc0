"""Why is it waiting? Plain sentences about one job, from facts that were read before. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rushes import clock
from rushes.jobs.job import Job, Priority, State
from rushes.jobs.limiting import Limit

# So many workers are called by their names.
NAMED = 3


class Able(Protocol):
    """What a worker must tell of itself to be counted."""

    @property
    def name(self) -> str: ...

    @property
    def has_room(self) -> bool: ...

    def could_take(self, kind: str, needs: list[str], *, urgent: bool) -> bool: ...

    def not_now(self, kind: str, now: int) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`online` are the enabled workers seen lately; `preferred_idle` says a better one is free."""

    now: int
    position: int | None
    # How many jobs of its kind stand before it.
    ahead: int
    paused: Sequence[str]
    online: Sequence[Able]
    preferred_idle: bool
    prefer_wait_ms: int
    parent: State | None
    # Of a divided job: how many parts it has, and how many of them have completed.
    parts: int = 0
    parts_completed: int = 0
    is_user_disabled: bool = False
    limits_reached: Sequence[Limit] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`reasons` is empty when the job is next in line and a worker for it is free."""

    job_id: str
    state: State
    position: int | None
    reasons: list[Reason]
    workers_that_could: list[str]


def explain(job: Job, facts: Situation) -> Explanation:
    return Explanation(
        job_id=job.id,
        state=job.state,
        position=facts.position if job.state is State.QUEUED else None,
        reasons=[Reason(code, sentence) for code, sentence in _reasons(job, facts)],
        workers_that_could=[worker.name for worker in _able(job, facts)],
    )


def _reasons(job: Job, facts: Situation) -> list[tuple[str, str]]:
    if job.state is State.BLOCKED and job.divided_at is not None:
        left = facts.parts - facts.parts_completed
        return [("parts", f"It waits for {left} of {facts.parts} parts.")]
    if job.state is State.BLOCKED:
        return [("parent", f"It waits for job {job.parent_id}, which is {facts.parent}.")]
    if job.state is State.PROCESSING:
        if job.cancel_requested_at is not None:
            return [("canceling", "It was canceled; its worker has yet to stop.")]
        return [("processing", f"{job.processed_by_worker_name} is working on it.")]
    if job.state is not State.QUEUED:
        return [("ended", f"It is {job.state} and will not run again.")]
    return _why_queued(job, facts)


def _able(job: Job, facts: Situation) -> list[Able]:
    urgent = job.priority is Priority.HIGH
    return [
        worker for worker in facts.online if worker.could_take(job.kind, job.needs, urgent=urgent)
    ]


def _not_now(job: Job, facts: Situation, able: Sequence[Able]) -> list[tuple[str, str]]:
    """When all who could do it take none of it at the moment."""
    whys = [(worker.name, worker.not_now(job.kind, facts.now)) for worker in able]
    if not whys or not all(why for _, why in whys):
        return []
    said = "; ".join(f"{name}: {why}" for name, why in whys[:NAMED])
    more = f"; and {len(whys) - NAMED} more" if len(whys) > NAMED else ""
    return [("not_now", f"Every worker that could do it takes none of it now. {said}{more}.")]


def _why_queued(job: Job, facts: Situation) -> list[tuple[str, str]]:
    reasons = []
    if "*" in facts.paused or job.kind in facts.paused:
        reasons.append(("paused", "The queue is paused."))
    if facts.is_user_disabled:
        reasons.append(("user_disabled", "Its user is disabled."))
    if job.run_at > facts.now:
        when = clock.rfc3339(job.run_at)
        reason = f"after {job.last_error or job.error_code}" if job.error_code else "as asked"
        reasons.append(("backoff", f"It may not start before {when}, {reason}."))
    for each in facts.limits_reached:
        sentence = f"It waits for a free place: the limit {each.key} of {each.most} is reached."
        reasons.append(("limit", sentence))
    able = _able(job, facts)
    if not able:
        wants = " and ".join(need for need in job.needs if not need.endswith("?"))
        for_what = f"{job.kind} with {wants}" if wants else job.kind
        reasons.append(("no_capable_worker", f"No worker is online that can do {for_what}."))
    reasons += _not_now(job, facts, able)
    if facts.preferred_idle and facts.now < job.run_at + facts.prefer_wait_ms:
        preferred = " and ".join(need.removesuffix("?") for need in job.needs if need.endswith("?"))
        reasons.append(("prefers", f"It is kept for an idle worker with {preferred} for a moment."))
    return reasons or _behind_others(facts, able)


def _behind_others(facts: Situation, able: Sequence[Able]) -> list[tuple[str, str]]:
    """Nothing is wrong: it is not its turn yet."""
    if any(worker.has_room for worker in able):
        return []
    names = ", ".join(worker.name for worker in able[:NAMED])
    more = f" and {len(able) - NAMED} more" if len(able) > NAMED else ""
    reasons = [("busy", f"Every worker that could do it is at work: {names}{more}.")]
    if facts.ahead:
        jobs = "1 job of its kind is" if facts.ahead == 1 else f"{facts.ahead} jobs of its kind are"
        reasons.append(("behind", f"{jobs} before it in the queue."))
    return reasons
