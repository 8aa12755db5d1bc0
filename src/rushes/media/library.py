"""Adding, publishing, sharing and deleting media, with the jobs that this starts or ends."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushes import errors, ids, kinds
from rushes.db.database import Tx
from rushes.jobs import lifecycle, passage_store, read_store, relation_store
from rushes.jobs import store as jobs
from rushes.jobs.job import PACE, Job, State, decode, encode
from rushes.jobs.queue import Queue
from rushes.media import edit as edits
from rushes.media import media, pipeline, requests, share_store, store, trash
from rushes.media.edit import Edit
from rushes.media.media import Media, NewMedia
from rushes.protocol import Claim
from rushes.renditions import stamped
from rushes.transcripts import archive, search
from rushes.transcripts.archive import Prepared, ToldApart

LONGEST_SECONDS = 1e9


def add(tx: Tx, queue: Queue, new: NewMedia) -> str:
    """The media, its first jobs and the events of both, in the caller's transaction."""
    media_id = ids.new("med")
    store.insert(tx, media_id, new, media.slug_of(new.title, media_id))
    search.keep_title(tx, media_id, new.user_id, new.title)
    first = requests.first_jobs(tx, media_id, new)
    for job, asked in zip(first, queue.enqueue_many(tx, first), strict=True):
        if kinds.begins_early(job.kind):
            queue.begin_early(tx, asked.id, pipeline.beginning(job))
    return media_id


def found(tx: Tx, media_id: str, user_id: str | None, *, or_trashed: bool = False) -> Media:
    """By its id or its slug. NotFound also for what is somebody else's."""
    id = media_id if media.is_id(media_id) else store.id_of_slug(tx, media_id, user_id)
    item = store.get(tx, id, user_id, or_trashed=or_trashed) if id else None
    if item is None:
        raise errors.NotFound(f"no media {media_id}")
    return item


def rename(tx: Tx, item: Media, title: str) -> None:
    """Found by its new title from now on."""
    store.rename(tx, item.id, title)
    search.keep_title(tx, item.id, item.user_id, title)


def delete(tx: Tx, queue: Queue, media_id: str) -> None:
    """Into the trash; deleting twice is harmless."""
    trash.put(tx, queue, [media_id])


def share(tx: Tx, item: Media) -> str:
    """The token of the link; the same one while it is shared."""
    token = item.share_token or secrets.token_urlsafe(16)
    if item.share_token is None:
        store.set_share_token(tx, item.id, token)
    return token


def unshare(tx: Tx, item: Media) -> None:
    if item.share_token is not None:
        store.set_share_token(tx, item.id, None)
        share_store.remove(tx, [item.id])


def start_version(tx: Tx, claim: Claim, media_id: str) -> str:
    """What the job of this claim builds, published by nobody but the attempt that completes."""
    held = jobs.lock_if_held(tx, claim)
    if held is None:
        raise errors.ClaimLost("the claim is not held any more")
    whole_id = held.whole_id
    whole = jobs.get(tx, whole_id) if whole_id is not None else None
    if whole is not None and whole.state is not _while_parts_run(held.kind):
        raise errors.CancelRequested("the job that this is a part of has ended")
    kind = whole.kind if whole else held.kind
    return store.open_version(
        tx,
        ids.new("ver"),
        media_id=media_id,
        slot=kinds.slot_of(kind, _key(tx, whole_id or held.id) if kinds.get(kind).keyed else None),
        job_id=whole_id or held.id,
        claim_id=claim.claim_id,
        is_part=whole_id is not None,
    )


def _while_parts_run(kind: str) -> State:
    """What state the job is in that such a part belongs to."""
    return State.QUEUED if kinds.is_quick(kind) else State.BLOCKED


def _key(tx: Tx, job_id: str) -> str | None:
    """Which of several outputs side by side a job makes."""
    job = jobs.get(tx, job_id)
    key = job.args.get("key") if job else None
    return key if isinstance(key, str) else None


@dataclass(frozen=True, slots=True)
class Completed:
    """`left_out`: keys of files that the published version does not have, and nothing else."""

    state: State
    left_out: Sequence[str] = ()


def complete(
    tx: Tx,
    queue: Queue,
    claim: Claim,
    result: Any = None,
    *,
    files: int | None = None,
    heard: Prepared | ToldApart | None = None,
) -> Completed:
    """Complete the job and publish what it built: both, or neither. Call it in `Database.begin`.
    `files`: so many of the claim were found to be right, and there must not be any others.
    `heard`: the transcript that the job has made, or the speakers of the one that is there."""
    # First, as deleting does: otherwise the two lock each other out and one has to start again.
    store.lock_media_of_job(tx, claim.job_id)
    relation_store.lock_whole(tx, claim.job_id)
    if not queue.complete_many(tx, [(claim, result)]):
        return Completed(queue.complete(tx, claim, result))
    job = jobs.get(tx, claim.job_id)
    assert job is not None
    before = _edit(tx, job)
    left_out: Sequence[str] = ()
    if job.division is not None:
        version = store.building_version(tx, job.parent_id or "")
        _check_files(tx, version, claim, files)
        if kinds.is_quick(job.kind):
            _note_found(tx, job)
    elif files != 0:
        published = store.publish(tx, claim, _temporary(job))
        _check_files(tx, published.version_id if published else None, claim, files)
        if published is not None:
            left_out = published.left_out
            if published.slot == kinds.WATCH:
                _note_facts(tx, job)
    if heard is not None and job.media_id is not None:
        _keep_heard(tx, job, job.media_id, heard)
        passage_store.forget(tx, [job.id])
        _note_length(tx, job)
    requests.follow_up(tx, queue, job, before)
    return Completed(State.COMPLETED, left_out)


def _keep_heard(tx: Tx, job: Job, media_id: str, heard: Prepared | ToldApart) -> None:
    if isinstance(heard, ToldApart):
        archive.tell_apart(tx, media_id, job.user_id, heard)
    else:
        archive.add(tx, media_id=media_id, user_id=job.user_id, job_id=job.id, transcript=heard)


def _edit(tx: Tx, job: Job) -> Edit:
    """Of the version that a new one takes the place of."""
    if job.media_id is None or job.kind not in pipeline.MAKES_VERSION:
        return edits.NOTHING
    item = store.get(tx, job.media_id)
    return item.edit if item else edits.NOTHING


def _temporary(job: Job) -> list[str]:
    """Renditions that were of use only until all others were there."""
    found = job.result if isinstance(job.result, Mapping) else {}
    names = found.get("temporary")
    return [each for each in names if isinstance(each, str)] if isinstance(names, list) else []


def _check_files(tx: Tx, version_id: str | None, claim: Claim, files: int | None) -> None:
    there = store.count(tx, version_id, claim.claim_id) if version_id else 0
    if files is not None and there != files:
        raise errors.ManifestMismatch("the files have changed since they were looked at")


def _note_length(tx: Tx, job: Job) -> None:
    """Of a media that is only listened to, or has yet to be encoded."""
    assert job.media_id is not None
    item = store.get(tx, job.media_id)
    found = job.result if isinstance(job.result, Mapping) else {}
    if item is not None and item.duration is None and (seconds := _seconds(found.get("duration"))):
        store.set_facts(tx, job.media_id, kind=None, duration=seconds)


def _note_found(tx: Tx, job: Job) -> None:
    """Until all is encoded, and known for certain. Whoever looks at it hears that it has a picture
    now."""
    relation_store.hand_on(tx, job.id)
    item = store.get(tx, job.media_id) if job.media_id else None
    if item is not None:
        found = job.result if isinstance(job.result, Mapping) else {}
        seconds = _seconds(found.get("duration")) if item.duration is None else None
        store.set_facts(tx, item.id, kind=_kind(found), duration=seconds)


def _kind(found: Mapping[str, Any]) -> str | None:
    kind = found.get("kind")
    return kind if kind in ("video", "audio") else None


def _note_facts(tx: Tx, job: Job) -> None:
    """What the job that made the current version has found out, and what it was asked to leave
    out or lay over."""
    if job.media_id is None:
        return
    found = job.result if isinstance(job.result, Mapping) else {}
    kind = _kind(found)
    duration = _seconds(found.get("duration"))
    recorded_at = _recorded(found.get("recorded_at"))
    if kind is not None or duration is not None:
        store.set_facts(tx, job.media_id, kind=kind, duration=duration, recorded_at=recorded_at)
    edit = job.args.get("edit")
    store.set_edit(tx, job.media_id, encode(edit) if isinstance(edit, Mapping) else None)


def _seconds(value: Any) -> float | None:
    """Whatever else a handler may say is no duration."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= LONGEST_SECONDS else None


def _recorded(value: Any) -> int | None:
    try:
        return media.check_recorded(value) if isinstance(value, str) else None
    except errors.BadField:
        return None


def follow_parts(tx: Tx, whole_id: str) -> None:
    """Show how far a divided job is by its parts, and by the segments they have put."""
    counted = relation_store.counts(tx, whole_id)
    if counted is None:
        return
    detail = decode(counted.detail)
    version = store.building_version(tx, whole_id)
    if isinstance(detail, dict) and version is not None:
        segments = store.segments(tx, version)
        for rendition in (*_dicts(detail.get("renditions")), *_dicts(detail.get("audio"))):
            _count_segments(rendition, segments)
        # Was told by the worker that divided it; the parts have a pace of their own.
        for name in PACE:
            detail.pop(name, None)
        detail = stamped(detail, detail, read_store.now(tx))
    progress = lifecycle.progress_by_parts(counted.divided_progress, counted.progress)
    known = None if detail is None else encode(detail)
    relation_store.note_progress(tx, whole_id, progress, known)


def _count_segments(rendition: dict[str, Any], segments: Mapping[str, int]) -> None:
    total = rendition.get("segments_total")
    done = segments.get(str(rendition.get("name")), 0)
    if not isinstance(total, int) or total <= 0 or rendition.get("status") in ("skipped", "failed"):
        return
    rendition["segments_completed"] = min(done, total)
    rendition["progress"] = min(done / total, 1.0)
    if done and "status" in rendition:
        rendition["status"] = "completed" if done >= total else "in_progress"


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
