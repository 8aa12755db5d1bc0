"""What a job may be divided into. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rushes import errors, kinds
from rushes.jobs import job as jobs
from rushes.jobs.job import Job, NewJob
from rushes.jobs.lifecycle import Held
from rushes.protocol import PARTS_LIMIT, Part


def check_number(parts: Sequence[Part]) -> None:
    if not 1 <= len(parts) <= PARTS_LIMIT:
        raise errors.BadField("parts", f"must be between 1 and {PARTS_LIMIT}")


def check(job: Job, parts: Sequence[Part]) -> None:
    """They do a share of this job: of a kind it may be divided into, on media it works on."""
    for kind in sorted({part.kind for part in parts}):
        if not kinds.may_divide_into(job.kind, kind):
            raise errors.BadField("parts", f"a {job.kind} job has no parts of kind {kind!r}")
    known = {job.media_id, *jobs.media_in(job.args)}
    if any(jobs.media_in(part.args) - known for part in parts):
        raise errors.BadField("parts", "may only name media that the job itself works on")


def new_part(whole: Held, part: Part) -> NewJob:
    return NewJob(
        kind=part.kind,
        args=part.args,
        media_id=whole.media_id,
        user_id=whole.user_id,
        priority=whole.priority.word,
        needs=part.needs,
        max_attempts=whole.facts.max_attempts,
        timeout_seconds=whole.timeout_ms / 1000 if whole.timeout_ms else None,
        limit_key=whole.limit_key,
    )
