"""Adding, publishing and deleting media, together with the jobs that this starts or ends."""

from __future__ import annotations

from typing import Any

from rushes import errors, ids
from rushes.db.database import Tx
from rushes.jobs import store as jobs
from rushes.jobs.job import State
from rushes.jobs.queue import Queue
from rushes.media import store
from rushes.protocol import Claim


def add(tx: Tx, *, user_id: str = "", title: str = "") -> str:
    media_id = ids.new("med")
    store.insert(tx, media_id, user_id=user_id, title=title)
    return media_id


def delete(tx: Tx, queue: Queue, media_id: str) -> None:
    """Cancel its work and unpublish it in one transaction; deleting twice is harmless."""
    if store.mark_deleted(tx, media_id):
        queue.cancel_many(tx, jobs.live_jobs_of_media(tx, media_id))


def start_version(tx: Tx, claim: Claim, media_id: str) -> str:
    """What an attempt builds, seen by nobody until its job completes."""
    held = jobs.lock_if_held(tx, claim)
    if held is None:
        raise errors.ClaimLost("the claim is not held any more")
    version_id = ids.new("ver")
    store.open_version(
        tx, version_id, media_id=media_id, job_id=claim.job_id, claim_id=claim.claim_id
    )
    return version_id


def complete(tx: Tx, queue: Queue, claim: Claim, result: Any = None) -> State:
    """Complete the job and publish what it built: both, or neither. Call it in `Database.begin`."""
    # First, as deleting does: otherwise the two lock each other out and one has to start again.
    store.lock_media_of_job(tx, claim.job_id)
    state = queue.complete(tx, claim, result)
    store.publish(tx, claim.claim_id)
    return state
