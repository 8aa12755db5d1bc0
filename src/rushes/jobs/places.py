"""The places of waiting jobs, as people change them: their priority, and who is next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushes import errors
from rushes.db.database import Tx
from rushes.jobs import place_store, store
from rushes.jobs.job import TERMINAL, Place, Priority, Standing, State
from rushes.wakeup import Wakeup


class Places:
    def __init__(self, bell: Wakeup) -> None:
        self._bell = bell

    def prioritize(self, tx: Tx, job_ids: Iterable[str], priority: Priority) -> set[str]:
        """Those of these jobs that wait; returns their ids. Each keeps the age that it has."""
        waiting = place_store.lock(tx, job_ids)
        return self._move(tx, [Place(id=each.id, priority=priority) for each in waiting])

    def put_first(self, tx: Tx, job_ids: Iterable[str], user_id: str | None) -> set[str]:
        """Those of these jobs that wait come before all others of this user, or of everybody
        (None), in the order in which they stand; returns their ids."""
        waiting = place_store.lock(tx, job_ids)
        if user_id is None:
            for user in sorted({each.user_id for each in waiting}):
                place_store.give_turn(tx, user)
            return self._line_up(tx, waiting, Priority.HIGH, None)
        moved: set[str] = set()
        for priority in (Priority.HIGH, Priority.NORMAL):
            those = [each for each in waiting if _best_of_ones_own(each) is priority]
            moved |= self._line_up(tx, those, priority, user_id)
        return moved

    def check(self, tx: Tx, job_id: str, moved: Iterable[str]) -> None:
        """Why a job was not moved, as an error, if it was not."""
        job = store.get(tx, job_id)
        if job is None:
            raise errors.NotFound(f"no job {job_id}")
        named = job.parent_id if job.division is not None else job.id
        if named in set(moved):
            return
        if job.state in TERMINAL:
            raise errors.WrongState(f"the job is {job.state}: only one that waits has a place")
        raise errors.WrongState("the job is being worked on: only one that waits has a place")

    def _line_up(
        self, tx: Tx, waiting: Sequence[Standing], priority: Priority, user_id: str | None
    ) -> set[str]:
        if not waiting:
            return set()
        first = place_store.first_place(tx, priority, user_id) - len(waiting)
        places = [
            Place(id=each.id, priority=priority, queued_at=first + n)
            for n, each in enumerate(waiting)
        ]
        return self._move(tx, places)

    def _move(self, tx: Tx, places: Sequence[Place]) -> set[str]:
        moved = place_store.move(tx, places) if places else []
        if any(each.state is State.QUEUED for each in moved):
            tx.wake_after_commit(self._bell.ring)
        return {each.id for each in moved}


def _best_of_ones_own(job: Standing) -> Priority:
    """`high` is an admin's to give; what has it keeps it."""
    return min(job.priority, Priority.NORMAL)
