"""The SQL of taking over: what the new version of a media has of the one that is current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushes.db.database import Tx
from rushes.jobs.job import decode
from rushes.protocol import Claim
from rushes.tools import playlist


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A version that others may be made of. `told`: what its job has told of it last. `args`: that
    job's, None when it is forgotten."""

    id: str
    told: Any
    args: Any


def base(tx: Tx, media_id: str, slot: str) -> Base | None:
    """The version that is current now. It is locked, so that it stays current, and is not purged,
    until the transaction ends."""
    version = tx.one(
        "SELECT id, job_id, renditions FROM versions WHERE media_id = :media_id AND slot = :slot"
        " AND state = 'current' {for_update}",
        media_id=media_id,
        slot=slot,
    )
    if version is None:
        return None
    job = tx.one("SELECT args FROM jobs WHERE id = :id", id=version["job_id"])
    return Base(
        id=version["id"],
        told=decode(version["renditions"]),
        args=decode(job["args"]) if job else None,
    )


def take_over(
    tx: Tx, claim: Claim, *, version_id: str, base_id: str, renditions: Sequence[str]
) -> None:
    """Rows for the same objects: those of these renditions, and all that belongs to none. They are
    nobody's until they are adopted, and what the claim has adopted or put already stays. In a
    transaction that has locked the base."""
    tx.all(
        """
        WITH given AS ({given:prefix text})
        INSERT INTO artifacts (version_id, name, key, size_bytes, sha256, content_type, seconds,
            recorded_at)
        SELECT :version_id, name, key, size_bytes, sha256, content_type, seconds, {now}
        FROM artifacts WHERE version_id = :base_id AND retired_at IS NULL
          AND name NOT IN (:master, :manifest)
          AND (name NOT LIKE :in_folder OR EXISTS (SELECT 1 FROM given
            WHERE substr(artifacts.name, 1, length(given.prefix)) = given.prefix))
        ON CONFLICT (version_id, name) DO UPDATE SET key = excluded.key,
            size_bytes = excluded.size_bytes, sha256 = excluded.sha256,
            content_type = excluded.content_type, seconds = excluded.seconds,
            claim_id = NULL, recorded_at = excluded.recorded_at
        WHERE coalesce(artifacts.claim_id, '') <> :claim_id AND artifacts.key <> excluded.key""",
        given=[{"prefix": f"{name}/"} for name in renditions],
        version_id=version_id,
        base_id=base_id,
        claim_id=claim.claim_id,
        master=playlist.MASTER,
        manifest=playlist.MANIFEST,
        in_folder="%/%",
    )


def short_side(tx: Tx, version_id: str) -> int | None:
    """Of the picture that a version was made of, as the job that made it has found it."""
    row = tx.one(
        "SELECT jobs.result FROM versions JOIN jobs ON jobs.id = versions.job_id"
        " WHERE versions.id = :id",
        id=version_id,
    )
    found = decode(row["result"]) if row else None
    # A worker's words.
    sides = [found.get(name) for name in ("width", "height")] if isinstance(found, dict) else []
    known = [each for each in sides if isinstance(each, int) and each > 0]
    return min(known) if len(known) == 2 else None
