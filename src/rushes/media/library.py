"""Adding, publishing, sharing and deleting media, with the jobs that this starts or ends."""

from __future__ import annotations

import secrets
from typing import Any

from rushes import errors, ids
from rushes.db.database import Tx
from rushes.jobs import store as jobs
from rushes.jobs.job import State
from rushes.jobs.queue import Queue
from rushes.media import media, pipeline, store
from rushes.media.media import Media, NewMedia
from rushes.protocol import Claim


def add(tx: Tx, queue: Queue, new: NewMedia) -> str:
    """The media, its first jobs and the events of both, in the caller's transaction."""
    media_id = ids.new("med")
    store.insert(tx, media_id, new, media.slug_of(new.title, media_id))
    queue.enqueue_many(tx, pipeline.first_jobs(media_id, new.user_id, new.options))
    return media_id


def found(tx: Tx, media_id: str, user_id: str | None) -> Media:
    """NotFound also for what is somebody else's."""
    item = store.get(tx, media_id, user_id)
    if item is None:
        raise errors.NotFound(f"no media {media_id}")
    return item


def delete(tx: Tx, queue: Queue, media_id: str) -> None:
    """Cancel its work and unpublish it in one transaction; deleting twice is harmless."""
    if store.mark_deleted(tx, media_id):
        queue.cancel_many(tx, jobs.live_jobs_of_media(tx, media_id))


def share(tx: Tx, item: Media) -> str:
    """The token of the link; the same one while it is shared."""
    token = item.share_token or secrets.token_urlsafe(16)
    if item.share_token is None:
        store.set_share_token(tx, item.id, token)
    return token


def unshare(tx: Tx, item: Media) -> None:
    if item.share_token is not None:
        store.set_share_token(tx, item.id, None)


def start_version(tx: Tx, claim: Claim, media_id: str) -> str:
    """What an attempt builds, seen by nobody until its job completes."""
    held = jobs.lock_if_held(tx, claim)
    if held is None:
        raise errors.ClaimLost("the claim is not held any more")
    return store.open_version(
        tx, ids.new("ver"), media_id=media_id, job_id=claim.job_id, claim_id=claim.claim_id
    )


def complete(
    tx: Tx, queue: Queue, claim: Claim, result: Any = None, *, files: int | None = None
) -> State:
    """Complete the job and publish what it built: both, or neither. Call it in `Database.begin`.
    `files`: so many were found to be right, and there must not be any others."""
    # First, as deleting does: otherwise the two lock each other out and one has to start again.
    store.lock_media_of_job(tx, claim.job_id)
    if not queue.complete_many(tx, [(claim, result)]):
        return queue.complete(tx, claim, result)
    version_id = store.publish(tx, claim.claim_id)
    if files is not None and (version_id is None or store.count(tx, version_id) != files):
        raise errors.ManifestMismatch("the files have changed since they were looked at")
    job = jobs.get(tx, claim.job_id)
    assert job is not None
    queue.enqueue_many(tx, pipeline.follow_ups(job.kind, job.media_id, job.user_id))
    return State.COMPLETED
