"""The trash: what people delete waits there, whole, and can be taken back until it is purged.

Nothing here removes a byte; `purge.py` does, for what `trash_store.give_up` has marked or what has
been in the trash for long enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushes import errors
from rushes.db.database import Tx
from rushes.jobs import read_store
from rushes.jobs.queue import Queue
from rushes.media import label_store, requests, share_store, store, trash_store
from rushes.media.media import Media
from rushes.transcripts import archive


def put(tx: Tx, queue: Queue, ids: Sequence[str]) -> list[str]:
    """Unseen from now on, and their work is canceled; returns those that were not in it before."""
    trash_store.lock(tx, ids)
    moved = trash_store.put(tx, ids)
    for media_id in moved:
        archive.forget(tx, media_id)
    if moved:
        share_store.remove(tx, moved)
    if live := read_store.live_jobs_of(tx, moved):
        queue.cancel_many(tx, [job.id for job in live])
    return moved


def shared(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Those of them that have a share link, which ends when they are put into the trash."""
    return [row.id for row in trash_store.lock(tx, ids) if row.share_token is not None]


def take_back(tx: Tx, queue: Queue, ids: Sequence[str]) -> list[str]:
    """As they were, but not shared; the work that deleting has stopped goes on."""
    deleted_at = {row.id: row.deleted_at or 0 for row in trash_store.lock(tx, ids)}
    restored = trash_store.take_back(tx, ids)
    for media_id in restored:
        item = store.get(tx, media_id)
        assert item is not None
        archive.index_again(tx, media_id, item.user_id, item.title)
        requests.resume(tx, queue, item, since=deleted_at[media_id])
    return restored


def restore(tx: Tx, queue: Queue, media_id: str, user_id: str | None) -> Media:
    """NotFound for what is somebody else's; WrongState for what is not in the trash."""
    _found(tx, media_id, user_id)
    if not take_back(tx, queue, [media_id]):
        raise errors.WrongState(_why_not(trash_store.lock(tx, [media_id])[0].deleted_at))
    item = store.get(tx, media_id)
    assert item is not None
    return item


def purge(tx: Tx, media_id: str, user_id: str | None) -> None:
    """Its bytes go next; only out of the trash, so that no single request destroys anything."""
    row = _found(tx, media_id, user_id)
    if row.deleted_at is None:
        raise errors.WrongState(
            "only what is in the trash can be deleted for good: delete it first"
        )
    give_up(tx, [media_id])


def give_up(tx: Tx, ids: Sequence[str]) -> list[str]:
    """The same for many; what is not in the trash is left alone."""
    trash_store.lock(tx, ids)
    given_up = trash_store.give_up(tx, ids)
    label_store.forget(tx, given_up)
    return given_up


def forget(tx: Tx, queue: Queue, ids: Sequence[str]) -> list[str]:
    """What was only taken in to answer a request is never in the trash: its bytes go next, and its
    work is canceled. All else is left alone."""
    mine = trash_store.to_forget(tx, ids)
    put(tx, queue, mine)
    return give_up(tx, mine)


def forget_unanswered(tx: Tx, queue: Queue, limit: int) -> list[str]:
    """A chore: of those who hung up, and of servers that were killed."""
    return forget(tx, queue, trash_store.unanswered(tx, limit))


def _found(tx: Tx, media_id: str, user_id: str | None) -> trash_store.Locked:
    rows = trash_store.lock(tx, [media_id])
    if not rows or user_id not in (None, rows[0].user_id):
        raise errors.NotFound(f"no media {media_id}")
    return rows[0]


def _why_not(deleted_at: int | None) -> str:
    if deleted_at is None:
        return "this media is not in the trash"
    return "this media was deleted for good: nothing of it can be restored"
