"""What the end of a job means for others: for those that wait for it, for its whole, its parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rushes.db.database import Tx
from rushes.jobs import lifecycle, part_store, store
from rushes.jobs.job import TERMINAL, State
from rushes.wakeup import Wakeup


class Family:
    def __init__(self, bell: Wakeup) -> None:
        self._bell = bell

    def heal(self, tx: Tx) -> int:
        """Move on whatever waits for something that has ended; answers how many jobs."""
        return self.unblock(tx, None) + self.gather(tx, None) + self.cancel_parts(tx, None)

    def unblock(self, tx: Tx, parents: Sequence[str] | None) -> int:
        """Children first, then what waits for those that were canceled, and so on."""
        freed = 0
        while parents is None or parents:
            changed = store.unblock(tx, parents)
            if State.QUEUED in changed.values():
                tx.wake_after_commit(self._bell.ring)
            freed += len(changed)
            parents = [id for id, state in changed.items() if state is State.CANCELED]
        return freed

    def gather(self, tx: Tx, wholes: Iterable[str] | None) -> int:
        """Move divided jobs on whose parts have ended: of `wholes`, or of all there are."""
        asked = None if wholes is None else sorted(wholes)
        divided = part_store.lock_divided(tx, asked) if asked != [] else []
        states = part_store.states_of_parts(tx, divided) if divided else {}
        decisions = [
            {"id": id, "state": state, **_reason(parts, state)}
            for id, parts in states.items()
            if (state := lifecycle.after_parts(parts)) is not None
        ]
        moved = part_store.gather(tx, decisions) if decisions else {}
        if State.QUEUED in moved.values():
            tx.wake_after_commit(self._bell.ring)
        self.end(tx, [id for id, state in moved.items() if state in TERMINAL])
        return len(moved)

    def end(self, tx: Tx, ended: Sequence[str]) -> None:
        """What waits for jobs that did not complete, and what was to be a part of them, goes."""
        if ended:
            self.unblock(tx, ended)
            self.cancel_parts(tx, ended)

    def cancel_parts(self, tx: Tx, wholes: Sequence[str] | None) -> int:
        parts = part_store.live_parts(tx, wholes)
        canceled = store.cancel(tx, parts) if parts else []
        self.unblock(tx, [row["id"] for row in canceled if row["state"] == State.CANCELED])
        return len(canceled)


def _reason(parts: dict[State, dict[str, Any]], state: State) -> dict[str, Any]:
    """A whole fails of what its part has failed of."""
    if state is State.FAILED:
        return {name: parts[state].get(name) for name in ("error_code", "last_error")}
    if state is State.CANCELED:
        return {"error_code": "part_canceled"}
    return {}
