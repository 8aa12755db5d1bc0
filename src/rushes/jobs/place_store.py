"""Where a waiting job stands: its priority, its place in line, and its user's turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushes import events
from rushes.db.database import Tx
from rushes.jobs.job import Moved, Place, Priority, Standing, State
from rushes.jobs.store import LANES
from rushes.records import from_row


def lock(tx: Tx, ids: Iterable[str]) -> list[Standing]:
    """Those of these jobs that wait, in the order in which they do; a part stands for its whole."""
    rows = tx.all(
        """
        SELECT id, user_id, priority, queued_at FROM jobs WHERE id IN (
            SELECT CASE WHEN division IS NULL THEN id ELSE parent_id END FROM jobs
            WHERE id IN ({given:id text}))
        AND state IN ('blocked','queued') ORDER BY id {for_update}""",
        given=[{"id": id} for id in ids],
    )
    found = [from_row(Standing, row, priority=Priority(row["priority"])) for row in rows]
    return sorted(found, key=lambda each: (each.priority, each.queued_at or 0, each.id))


def first_place(tx: Tx, priority: Priority, user_id: str | None) -> int:
    """Since when the first in line has waited, of one user or of all; now, if nobody waits."""
    row = tx.one(
        LANES
        + """
        SELECT coalesce(min((SELECT queued_at FROM jobs
            WHERE state = 'queued' AND jobs.lane = lanes.lane"""
        + ("" if user_id is None else " AND jobs.user_id = :user_id")
        + " ORDER BY jobs.lane, "
        + ("" if user_id is None else "jobs.user_id, ")
        + """queued_at, id LIMIT 1)), {now}) AS queued_at
        FROM lanes WHERE substr(lane, 1, 1) = :priority""",
        priority=str(int(priority)),
        user_id=user_id,
    )
    assert row is not None
    return int(row["queued_at"])


# The parts of a divided job go with it, also those that run: one that is given back stands with
# the others. It is due later than it is queued, by which trails know who may be before them.
MOVE = """
    UPDATE jobs SET priority = given.priority,
        lane = CAST(given.priority AS text) || substr(jobs.lane, 2),
        queued_at = coalesce(given.queued_at, jobs.queued_at),
        run_at = CASE WHEN jobs.state <> 'processing'
            AND coalesce(given.queued_at, jobs.queued_at) BETWEEN run_at AND {now} - 1
            THEN coalesce(given.queued_at, jobs.queued_at) + 1 ELSE run_at END
    FROM given WHERE """
WAITS = "jobs.id = given.id AND jobs.state IN ('blocked','queued')"
IS_PART = """jobs.parent_id = given.id AND jobs.division IS NOT NULL
    AND jobs.state IN ('blocked','queued','processing')"""
WORD = "CASE priority WHEN 1 THEN 'high' WHEN 2 THEN 'normal' ELSE 'low' END"
TOLD = f"""'{{{{"priority":"' || {WORD} || '"}}}}'"""


def move(tx: Tx, places: Sequence[Place]) -> list[Moved]:
    """Jobs that wait, and their parts. Returns those it changed."""
    moved: list[Moved] = []
    for which in (WAITS, IS_PART):
        rows = tx.change(
            "WITH given AS ({given:id text, priority bigint, queued_at bigint})" + MOVE + which,
            events.from_changed("'moved'", data=TOLD),
            returning="id, state",
            given=places,
        )
        moved += [Moved(id=row["id"], state=State(row["state"])) for row in rows]
    return moved


def take_turn(tx: Tx, user_id: str) -> None:
    tx.all(
        """
        INSERT INTO turns (user_id, turn)
        VALUES (:user_id, (SELECT coalesce(max(turn), 0) + 1 FROM turns))
        ON CONFLICT (user_id) DO UPDATE SET turn = excluded.turn""",
        user_id=user_id,
    )


def give_turn(tx: Tx, user_id: str) -> None:
    """Before everybody else; who has had none yet counts as 0."""
    tx.all(
        """
        INSERT INTO turns (user_id, turn)
        VALUES (:user_id, (SELECT coalesce(min(turn), 0) - 1 FROM turns WHERE turn < 0))
        ON CONFLICT (user_id) DO UPDATE SET turn = excluded.turn""",
        user_id=user_id,
    )
