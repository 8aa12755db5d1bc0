"""The SQL of passages: results that grow while a job runs, each kept as soon as it is finished.

A crash loses the passage that was being made and no other: the next attempt reads what is there
and goes on behind it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rushes import events
from rushes.db.database import Tx
from rushes.jobs import job as jobs
from rushes.protocol import Claim


def put(tx: Tx, claim: Claim, number: int, content: Any, told: Any = None) -> bool:
    """False when the claim is not held. Repeating it is harmless. `told`: what listeners hear."""
    row = tx.one(
        """
        INSERT INTO passages (job_id, number, content, recorded_at)
        SELECT jobs.id, :number, :content, {now} FROM jobs
        WHERE jobs.id = :job_id AND jobs.claim_id = :claim_id AND jobs.state = 'processing'
        {for_update}
        ON CONFLICT (job_id, number) DO UPDATE
          SET content = excluded.content, recorded_at = excluded.recorded_at
        RETURNING number""",
        job_id=claim.job_id,
        claim_id=claim.claim_id,
        number=number,
        content=jobs.encode(content),
    )
    if row is None:
        return False
    if told is not None:
        tx.all(
            "WITH changed AS (SELECT * FROM jobs WHERE id = :job_id) "
            + events.from_changed("'passage'", data="CAST(:told AS text)"),
            job_id=claim.job_id,
            told=jobs.encode(told),
        )
    return True


def read(tx: Tx, job_id: str) -> list[Any]:
    """In order."""
    rows = tx.all(
        "SELECT content FROM passages WHERE job_id = :job_id ORDER BY number", job_id=job_id
    )
    return [jobs.decode(row["content"]) for row in rows]


def read_after(tx: Tx, job_id: str, number: int) -> list[tuple[int, Any]]:
    """Those that follow, each with its number."""
    rows = tx.all(
        "SELECT number, content FROM passages WHERE job_id = :job_id AND number > :number"
        " ORDER BY number",
        job_id=job_id,
        number=number,
    )
    return [(row["number"], jobs.decode(row["content"])) for row in rows]


def copy(tx: Tx, old: str, new: str) -> None:
    """For a job that takes another's place."""
    tx.all(
        "INSERT INTO passages (job_id, number, content, recorded_at)"
        " SELECT :new, number, content, recorded_at FROM passages WHERE job_id = :old"
        " ON CONFLICT (job_id, number) DO NOTHING",
        old=old,
        new=new,
    )


def forget(tx: Tx, job_ids: Collection[str]) -> None:
    tx.all(
        "WITH given AS ({given:id text})"
        " DELETE FROM passages WHERE job_id IN (SELECT id FROM given)",
        given=[{"id": id} for id in job_ids],
    )
