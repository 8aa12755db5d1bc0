"""Why is it waiting? Plain sentences about one job, from facts that were read before. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rushes import clock
from rushes.jobs.job import Job, State


class Able(Protocol):
    """What a worker must tell of itself to be counted."""

    @property
    def name(self) -> str: ...

    def could_take(self, kind: str, needs: list[str]) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`online` are the enabled workers seen lately; `preferred_idle` says a better one is free."""

    now: int
    position: int | None
    paused: Sequence[str]
    online: Sequence[Able]
    preferred_idle: bool
    prefer_wait_ms: int
    parent: State | None
    # Of a divided job: how many parts it has, and how many of them have completed.
    parts: int = 0
    parts_completed: int = 0
    is_user_disabled: bool = False


def explain(job: Job, facts: Situation) -> dict[str, Any]:
    """`reasons` is empty when the job is simply next in line."""
    reasons = list(_reasons(job, facts))
    able = [worker.name for worker in facts.online if worker.could_take(job.kind, job.needs)]
    return {
        "job_id": job.id,
        "state": str(job.state),
        "position": facts.position if job.state is State.QUEUED else None,
        "reasons": [{"code": code, "sentence": sentence} for code, sentence in reasons],
        "workers_that_could": able,
    }


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
    if not any(worker.could_take(job.kind, job.needs) for worker in facts.online):
        wants = " and ".join(need for need in job.needs if not need.endswith("?"))
        for_what = f"{job.kind} with {wants}" if wants else job.kind
        reasons.append(("no_capable_worker", f"No worker is online that can do {for_what}."))
    if facts.preferred_idle and facts.now < job.run_at + facts.prefer_wait_ms:
        preferred = " and ".join(need.removesuffix("?") for need in job.needs if need.endswith("?"))
        reasons.append(("prefers", f"It is kept for an idle worker with {preferred} for a moment."))
    return reasons
