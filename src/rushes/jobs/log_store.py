"""What jobs say while they run: sanitized lines, numbered without gaps, the newest kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes import sanitize
from rushes.db.database import Tx
from rushes.protocol import Claim

KEPT_LINES = 2_000

HELD = """jobs.id = :job_id AND jobs.claim_id = :claim_id AND jobs.claimed_by = :worker_id
    AND jobs.state = 'processing'"""


@dataclass(frozen=True, slots=True)
class LogLine:
    number: int
    epoch: int
    at: int
    line: str


def append(tx: Tx, claim: Claim, worker_id: str, lines: Sequence[str]) -> bool:
    """False when the claim is not held, or by another worker; then nothing was written.

    Needs a transaction: two reports of one claim are numbered one after the other.
    """
    whose = {"job_id": claim.job_id, "claim_id": claim.claim_id, "worker_id": worker_id}
    # The lock comes first, in a statement of its own: on PostgreSQL a statement that waited for
    # it would still see the log as it was before the wait, and use the same numbers again.
    if tx.one("SELECT id FROM jobs WHERE " + HELD + " {for_update}", **whose) is None:
        return False
    shown = [clean for each in lines for clean in sanitize.lines(each)]
    numbered = list(enumerate(shown, 1))[-KEPT_LINES:]
    rows = tx.all(
        """
        WITH given AS ({given:n bigint, line text})
        INSERT INTO job_logs (job_id, number, epoch, at, line)
        SELECT jobs.id, given.n + (SELECT coalesce(max(number), 0) FROM job_logs
                                   WHERE job_id = :job_id), jobs.claim_epoch, {now}, given.line
        FROM jobs CROSS JOIN given WHERE """
        + HELD
        + " RETURNING number",
        given=[{"n": n, "line": line} for n, line in numbered],
        **whose,
    )
    _drop_oldest(tx, claim.job_id, max((row["number"] for row in rows), default=0) - KEPT_LINES)
    return True


def read(tx: Tx, job_id: str, after: int = 0, limit: int = 500) -> list[LogLine]:
    """The lines behind number `after`, oldest first; ask again with the last number to go on.
    Where lines were dropped in between, the first one says how many."""
    rows = tx.all(
        "SELECT number, epoch, at, line FROM job_logs"
        " WHERE job_id = :job_id AND number > :after ORDER BY number LIMIT :limit",
        job_id=job_id,
        after=after,
        limit=limit,
    )
    found = [LogLine(**row) for row in rows]
    dropped = found[0].number - after - 1 if found else 0
    return [_notice(dropped, found[0]), *found] if dropped > 0 else found


def _notice(dropped: int, first: LogLine) -> LogLine:
    said = "1 earlier line was" if dropped == 1 else f"{dropped} earlier lines were"
    return LogLine(first.number - 1, first.epoch, first.at, f"… {said} dropped")


def _drop_oldest(tx: Tx, job_id: str, number: int) -> None:
    if number > 0:
        tx.all(
            "DELETE FROM job_logs WHERE job_id = :job_id AND number <= :number",
            job_id=job_id,
            number=number,
        )
