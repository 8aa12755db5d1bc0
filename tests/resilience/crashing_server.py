"""Where a server may be held and killed: the steps of handing out a job, keeping an artifact,
dividing, adopting and publishing. The functions are the shipped ones; `install` only marks the way
through them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from resilience import breakpoints
from resilience.demo_handlers import KIND
from rushes.db.database import Database
from rushes.dispatch import Dispatch
from rushes.jobs import lifecycle
from rushes.jobs import store as jobs
from rushes.jobs.queue import Queue
from rushes.jobs.relation_store import Relations
from rushes.media import library
from rushes.media import store as media_store
from rushes.storage import local as local_storage
from rushes.storage import s3 as s3_storage
from rushes.storage.storage import Storage

CLAIMED = "claim: committed"
PUT_STEPS = ("put: nothing written", "put: half written", "put: written", "put: recorded")
UNCOMMITTED = (
    "complete: verified",
    "complete: job completed",
    "complete: pointer switched",
    "complete: before the commit",
)
COMMITTED = "complete: after the commit"
COPIED = "put: copied"
ANSWER_LOST = "complete: the commit's answer is lost"
DIVIDE_STEPS = ("divide: before the commit", "divide: after the commit")
GATHER_STEPS = ("gather: before the commit", "gather: after the commit")
ADOPT_STEPS = ("adopt: files read", "adopt: after the commit")

_publishing = threading.local()


def install() -> None:
    breakpoints.mark(Dispatch, "claim", after=CLAIMED, when=_hands_out_a_demo)
    breakpoints.mark(Storage, "put", before=PUT_STEPS[0], after=PUT_STEPS[2])
    breakpoints.mark(local_storage, "_write", after=PUT_STEPS[1])
    breakpoints.mark(s3_storage.S3Storage, "copy", after=COPIED)
    breakpoints.mark(Dispatch, "_record", after=PUT_STEPS[3])
    breakpoints.mark(Dispatch, "_verify", after=UNCOMMITTED[0])
    breakpoints.mark(Queue, "complete_many", after=UNCOMMITTED[1], when=_is_publishing)
    breakpoints.mark(media_store, "publish", after=UNCOMMITTED[2])
    breakpoints.mark(Queue, "divide", after=DIVIDE_STEPS[0])
    breakpoints.mark(Dispatch, "divide", after=DIVIDE_STEPS[1])
    breakpoints.mark(Relations, "join_parts", after=GATHER_STEPS[0], when=_moved_any)
    breakpoints.mark(Dispatch, "complete", after=GATHER_STEPS[1], when=_completed_a_part)
    breakpoints.mark(Dispatch, "_intact", after=ADOPT_STEPS[0])
    breakpoints.mark(Dispatch, "adopt", after=ADOPT_STEPS[1])
    _mark_publishing()
    _mark_commit()


def hurry() -> None:
    """What failed is tried again at once."""
    lifecycle.BACKOFF_FLOOR_MS, lifecycle.BACKOFF_BASE_MS = 10, 10


def _hands_out_a_demo(*facts: Any) -> bool:
    return isinstance(facts[-1], list) and any(job.kind == KIND for job in facts[-1])


def _moved_any(*facts: Any) -> bool:
    return isinstance(facts[-1], int) and facts[-1] > 0


def _completed_a_part(*facts: Any) -> bool:
    dispatch, completion = facts[:2]
    job = dispatch._db.run(lambda tx: jobs.get(tx, completion.claim.job_id))
    return job is not None and job.division is not None


def _is_publishing(*facts: Any) -> bool:
    return getattr(_publishing, "now", False)


def _mark_publishing() -> None:
    """The commit comes later, in the same thread."""
    original = library.complete

    @wraps(original)
    def complete(*args: Any, **named: Any) -> Any:
        _publishing.now = True
        try:
            return original(*args, **named)
        except BaseException:
            _publishing.now = False
            raise

    library.complete = complete


def _mark_commit() -> None:
    original: Callable[[Database, Any], None] = Database._commit

    @wraps(original)
    def commit(self: Database, connection: Any) -> None:
        if not _is_publishing():
            original(self, connection)
            return
        breakpoints.reach(UNCOMMITTED[3])
        original(self, connection)
        _publishing.now = False
        breakpoints.reach(COMMITTED)
        breakpoints.reach(ANSWER_LOST)
        if self.dialect.name == "postgresql":
            # What the driver says if the server died before it could answer.
            connection.driver_connection.execute("SELECT 1")

    Database._commit = commit  # type: ignore[method-assign]
