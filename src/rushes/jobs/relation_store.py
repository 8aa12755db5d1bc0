"""What the end of a job means for others: for those that wait for it, for its whole, its parts.

A divided job, the *whole*, waits while its *parts* run, and the last of them frees it.

Parts name the epoch of the claim that divided their whole, so those of an earlier division of the
same job are told apart from those it waits for. The *beginning* of a job that nobody has claimed
yet is a part of its epoch 0: the job does not wait for it, and whoever claims the job ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rushes import events
from rushes.db.database import Tx
from rushes.jobs import lifecycle, store
from rushes.jobs.job import BEGINNING, TERMINAL, State, decode
from rushes.jobs.lifecycle import PARTS_DONE
from rushes.protocol import Assignment
from rushes.records import from_row
from rushes.wakeup import Wakeup

OF_DIVISION = "part.parent_id = jobs.id AND part.division = jobs.claim_epoch"
PART_IS_LIVE = "part.division IS NOT NULL AND part.state IN ('blocked','queued','processing')"


class Relations:
    def __init__(self, bell: Wakeup) -> None:
        self._bell = bell

    def heal(self, tx: Tx) -> int:
        """Move on whatever waits for something that has ended; returns how many jobs."""
        return self.unblock(tx, None) + self.join_parts(tx, None) + self.cancel_parts(tx, None)

    def unblock(self, tx: Tx, parents: Sequence[str] | None) -> int:
        """Children first, then what waits for those that were canceled, and so on."""
        freed = 0
        while parents is None or parents:
            changed = _unblock(tx, parents)
            if State.QUEUED in changed.values():
                tx.wake_after_commit(self._bell.ring)
            freed += len(changed)
            parents = [id for id, state in changed.items() if state is State.CANCELED]
        return freed

    def join_parts(self, tx: Tx, wholes: Iterable[str] | None) -> int:
        """Move divided jobs on whose parts have ended: of `wholes`, or of all there are."""
        asked = None if wholes is None else sorted(wholes)
        divided = lock_divided(tx, asked) if asked != [] else []
        states = states_of_parts(tx, divided) if divided else {}
        decisions = [
            _decision(id, state, parts)
            for id, parts in states.items()
            if (state := lifecycle.after_parts(parts)) is not None
        ]
        moved = join_parts(tx, decisions) if decisions else {}
        if State.QUEUED in moved.values():
            tx.wake_after_commit(self._bell.ring)
        self.end(tx, [id for id, state in moved.items() if state in TERMINAL])
        return len(moved)

    def end(self, tx: Tx, ended: Sequence[str]) -> None:
        """What waits for jobs that did not complete, and what was to be a part of them, goes."""
        if ended:
            self.unblock(tx, ended)
            self.cancel_parts(tx, ended)

    def overtake(self, tx: Tx, taken: Sequence[Assignment]) -> list[Assignment]:
        """Jobs that were just claimed go on from what their beginnings have done, which end. Those
        lock their whole before themselves, too: no write of theirs comes after this."""
        fresh = [each.job_id for each in taken if each.epoch == 1]
        if not fresh:
            return list(taken)
        self.cancel_parts(tx, fresh)
        begun = take_checkpoints(tx, fresh)
        return [
            replace(each, checkpoint=decode(begun[each.job_id])) if each.job_id in begun else each
            for each in taken
        ]

    def fail_whole(self, tx: Tx, part_id: str) -> None:
        """What a beginning has found wrong for good with a job that waits is said of that job."""
        self.end(tx, fail_whole(tx, part_id))

    def cancel_parts(self, tx: Tx, wholes: Sequence[str] | None) -> int:
        parts = live_parts(tx, wholes)
        canceled = store.cancel(tx, parts) if parts else []
        self.unblock(tx, [each.id for each in canceled if each.state is State.CANCELED])
        return len(canceled)


@dataclass(frozen=True, slots=True)
class PartError:
    error_code: str | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a divided job goes, and of what, now that its parts have ended."""

    id: str
    state: State
    error_code: str | None = None
    last_error: str | None = None


def _decision(id: str, state: State, parts: Mapping[State, PartError]) -> Decision:
    """A whole fails of what its part has failed of."""
    if state is State.FAILED:
        return Decision(id, state, parts[state].error_code, parts[state].last_error)
    return Decision(id, state, "part_canceled" if state is State.CANCELED else None)


# coalesce keeps SQLite from walking over all jobs that have a parent.
UNBLOCK = """
    UPDATE jobs SET
        state = CASE parent.state WHEN 'completed' THEN 'queued' ELSE 'canceled' END,
        queued_at = CASE parent.state WHEN 'completed' THEN coalesce(jobs.queued_at, {now})
            ELSE jobs.queued_at END,
        canceled_at = CASE parent.state WHEN 'completed' THEN NULL ELSE {now} END,
        error_code = CASE parent.state WHEN 'completed' THEN NULL
            ELSE 'parent_' || parent.state END
    FROM jobs AS parent
    WHERE parent.id = coalesce(jobs.parent_id, '') AND jobs.state = 'blocked'
    AND jobs.divided_at IS NULL AND parent.state IN ('completed', 'failed', 'canceled')"""


def _unblock(tx: Tx, parents: Iterable[str] | None) -> dict[str, State]:
    """Queue what waits for a completed parent, cancel what waits for a failed or canceled one.
    Without `parents`, for every parent: the sweep heals what a crash or a race left behind."""
    of_parents = " AND parent.id IN (SELECT id FROM ({given:id text}) AS given)"
    rows = tx.change(
        UNBLOCK if parents is None else UNBLOCK + of_parents,
        events.from_changed("state", was="'blocked'"),
        returning="id, state",
        given=None if parents is None else [{"id": id} for id in parents],
    )
    return {row["id"]: State(row["state"]) for row in rows}


def lock_whole(tx: Tx, part_id: str) -> None:
    """Before the part itself is locked, as whoever ends all parts of a whole does."""
    tx.all(
        "SELECT id FROM jobs WHERE id = (SELECT parent_id FROM jobs WHERE id = :id"
        " AND division IS NOT NULL) {for_update}",
        id=part_id,
    )


def lock_divided(tx: Tx, ids: Iterable[str] | None) -> list[str]:
    """Those of these jobs that wait for parts; without `ids`, all whose parts have ended.

    The lock comes first, in a statement of its own: of two parts that end at the same moment, one
    waits here for the other, and then sees that it was the last.
    """
    which = (
        f"NOT EXISTS (SELECT 1 FROM jobs AS part WHERE part.parent_id = jobs.id AND {PART_IS_LIVE})"
        if ids is None
        else "id IN ({given:id text})"
    )
    rows = tx.all(
        f"SELECT id FROM jobs WHERE divided_at IS NOT NULL AND {which} ORDER BY id {{for_update}}",
        given=None if ids is None else [{"id": id} for id in ids],
    )
    return [row["id"] for row in rows]


def states_of_parts(tx: Tx, ids: Iterable[str]) -> dict[str, dict[State, PartError]]:
    """For each whole the states its parts are in, each with the first part's error."""
    rows = tx.all(
        f"""
        WITH given AS ({{given:id text}})
        SELECT jobs.id, part.state, min(part.id) AS first FROM given
        JOIN jobs ON jobs.id = given.id JOIN jobs AS part ON {OF_DIVISION}
        GROUP BY jobs.id, part.state""",
        given=[{"id": id} for id in ids],
    )
    ended = [{"id": row["first"]} for row in rows if row["state"] == State.FAILED]
    reasons = {
        row["id"]: PartError(row["error_code"], row["last_error"])
        for row in tx.all(
            "SELECT id, error_code, last_error FROM jobs WHERE id IN ({given:id text})",
            given=ended,
        )
    }
    states: dict[str, dict[State, PartError]] = {row["id"]: {} for row in rows}
    for row in rows:
        states[row["id"]][State(row["state"])] = reasons.get(row["first"], PartError())
    return states


def join_parts(tx: Tx, decisions: Sequence[Decision]) -> dict[str, State]:
    """Free or end jobs that wait for parts; returns those it changed."""
    rows = tx.change(
        """
        WITH given AS ({given:id text, state text, error_code text, last_error text})
        UPDATE jobs SET state = given.state, divided_at = NULL, run_at = {now},
            failed_at = CASE given.state WHEN 'failed' THEN {now} END,
            canceled_at = CASE given.state WHEN 'canceled' THEN {now} END,
            error_code = given.error_code, last_error = given.last_error,
            progress = CASE WHEN given.state = 'queued' AND progress < :parts_done
                THEN :parts_done ELSE progress END
        FROM given WHERE jobs.id = given.id AND jobs.state = 'blocked'
        AND jobs.divided_at IS NOT NULL""",
        events.from_changed("state", was="'blocked'"),
        returning="id, state",
        given=decisions,
        parts_done=PARTS_DONE,
    )
    return {row["id"]: State(row["state"]) for row in rows}


def fail_whole(tx: Tx, part_id: str) -> list[str]:
    """The job that this is the beginning of, if nobody has claimed it yet."""
    rows = tx.change(
        """
        UPDATE jobs SET state = 'failed', failed_at = {now}, error_code = part.error_code,
            last_error = part.last_error
        FROM jobs AS part WHERE part.id = :part_id AND part.division = :beginning
        AND part.state = 'failed' AND jobs.id = part.parent_id AND jobs.state = 'queued'
        AND jobs.claims = 0""",
        events.from_changed("state", was="'queued'"),
        returning="id",
        part_id=part_id,
        beginning=BEGINNING,
    )
    return [row["id"] for row in rows]


def hand_on(tx: Tx, part_id: str) -> None:
    """What a beginning has told is true of the job that it belongs to, until that says more."""
    tx.all(
        """
        UPDATE jobs SET detail = part.detail, checkpoint = part.checkpoint FROM jobs AS part
        WHERE part.id = :part_id AND part.division = :beginning AND jobs.id = part.parent_id
        AND jobs.claims = 0""",
        part_id=part_id,
        beginning=BEGINNING,
    )


def take_checkpoints(tx: Tx, wholes: Sequence[str]) -> dict[str, str]:
    """By job, as it is stored: where its beginning has got to, which is where it goes on."""
    rows = tx.all(
        """
        WITH given AS ({given:id text})
        UPDATE jobs SET checkpoint = part.checkpoint FROM given JOIN jobs AS part
            ON part.parent_id = given.id AND part.division = :beginning
        WHERE jobs.id = given.id AND jobs.checkpoint IS NULL AND part.checkpoint IS NOT NULL
        RETURNING jobs.id, jobs.checkpoint""",
        given=[{"id": id} for id in wholes],
        beginning=BEGINNING,
    )
    return {row["id"]: row["checkpoint"] for row in rows}


def live_parts(tx: Tx, wholes: Iterable[str] | None) -> list[str]:
    """The parts of these jobs that have yet to end; without `wholes`, of all that have ended."""
    which = (
        "EXISTS (SELECT 1 FROM jobs WHERE jobs.id = part.parent_id"
        " AND jobs.state IN ('completed','failed','canceled'))"
        " AND part.cancel_requested_at IS NULL"
        if wholes is None
        else "part.parent_id IN ({given:id text})"
    )
    rows = tx.all(
        f"SELECT part.id FROM jobs AS part WHERE {PART_IS_LIVE} AND {which} ORDER BY part.id",
        given=None if wholes is None else [{"id": id} for id in wholes],
    )
    return [row["id"] for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCounts:
    """How many parts a divided job has, how many have completed, and how far all of them are; with
    its own detail as it is stored, and how far it was when it was divided."""

    parts: int
    completed: int
    progress: float
    detail: str | None
    divided_progress: float


def counts(tx: Tx, whole_id: str) -> PartCounts | None:
    row = tx.one(
        f"""
        SELECT jobs.detail, jobs.divided_progress, count(part.id) AS parts,
            count(part.completed_at) AS completed, avg(part.progress) AS progress
        FROM jobs JOIN jobs AS part ON {OF_DIVISION}
        WHERE jobs.id = :id AND jobs.divided_at IS NOT NULL
        GROUP BY jobs.id, jobs.detail, jobs.divided_progress""",
        id=whole_id,
    )
    return from_row(PartCounts, row) if row else None


def note_progress(tx: Tx, whole_id: str, progress: float, detail: str | None) -> None:
    """How far the parts of a divided job have brought it; never back."""
    tx.change(
        """
        UPDATE jobs SET detail = coalesce(CAST(:detail AS text), detail),
            progress = CASE WHEN :progress > progress THEN :progress ELSE progress END
        WHERE id = :id AND state = 'blocked' AND divided_at IS NOT NULL""",
        events.from_changed("'progress'", data="detail"),
        id=whole_id,
        progress=progress,
        detail=detail,
    )


def copy_checkpoint(tx: Tx, old: str, new: str) -> None:
    tx.all(
        "UPDATE jobs SET checkpoint = (SELECT checkpoint FROM jobs WHERE id = :old)"
        " WHERE id = :new AND claims = 0",
        old=old,
        new=new,
    )
