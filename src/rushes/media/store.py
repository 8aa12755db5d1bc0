"""The SQL of media, versions and artifacts. A version becomes current by a pointer's switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushes import events, kinds
from rushes.db.database import Tx
from rushes.jobs.job import BEGINNING, decode
from rushes.media.media import Media, NewMedia, Sizes, StoredFile, Twins
from rushes.media.pipeline import MAKES_VERSION, PURGE, TRANSCRIBE
from rushes.media.trash_store import TRASHED
from rushes.protocol import Artifact, Claim
from rushes.records import JsonObject, from_row
from rushes.text_match import folded


def has_job(which: str, states: str | None = None) -> str:
    """In any of these states; without, in any at all."""
    some = f" AND state IN ({states})" if states else ""
    return f"EXISTS (SELECT 1 FROM jobs WHERE jobs.media_id = media.id AND kind {which}{some})"


MAKING = "IN ({})".format(", ".join(f"'{kind}'" for kind in MAKES_VERSION))
SPEECH = f"= '{TRANSCRIBE}'"
_DIVIDED = f"""EXISTS (SELECT 1 FROM jobs WHERE jobs.media_id = media.id AND kind {MAKING}
    AND divided_at IS NOT NULL)"""
TRANSCRIPT_STATUS = f"""CASE
    WHEN {has_job(SPEECH, "'processing'")} THEN 'processing'
    WHEN {has_job(SPEECH, "'blocked','queued'")} THEN 'pending'
    WHEN EXISTS (SELECT 1 FROM transcripts WHERE transcripts.media_id = media.id
        AND transcripts.state = 'current') THEN 'ready'
    ELSE coalesce((SELECT CASE state WHEN 'completed' THEN 'ready' ELSE 'failed' END FROM jobs
        WHERE jobs.media_id = media.id AND kind {SPEECH} ORDER BY id DESC LIMIT 1), 'none') END"""
# Of a media that is only listened to, the transcription's.
STATUS = f"""CASE
    WHEN deleted_at IS NOT NULL THEN 'trashed'
    WHEN current_version_id IS NOT NULL THEN 'ready'
    WHEN {has_job(MAKING, "'processing'")} OR {_DIVIDED} THEN 'processing'
    WHEN {has_job(MAKING, "'blocked','queued'")} THEN 'pending'
    WHEN {has_job(MAKING, "'completed'")} THEN 'ready'
    WHEN {has_job(MAKING, "'failed','canceled'")} THEN 'failed'
    ELSE coalesce(nullif({TRANSCRIPT_STATUS}, 'none'), 'pending') END"""
WHOLE = f"media.*, {STATUS} AS status, {TRANSCRIPT_STATUS} AS transcript_status"


# Media


def insert(tx: Tx, id: str, new: NewMedia, slug: str) -> None:
    tx.all(
        """
        INSERT INTO media (id, user_id, title, title_folded, slug, kind, file_name, content_type,
            size_bytes, sha256, source_key, origin, forget_at, created_at, updated_at)
        VALUES (:id, :user_id, :title, :title_folded, :slug, :kind, :file_name, :content_type,
            :size_bytes, :sha256, :source_key, :origin, {now} + CAST(:forget_after_ms AS bigint),
            {now}, {now})""",
        id=id,
        user_id=new.user_id,
        title=new.title,
        title_folded=folded(new.title),
        slug=slug,
        kind=new.kind,
        file_name=new.file_name,
        content_type=new.content_type,
        size_bytes=new.size_bytes,
        sha256=new.sha256,
        source_key=new.source_key,
        forget_after_ms=new.forget_after_ms,
        origin=new.origin,
    )
    events.append(tx, "media.created", media_id=id, user_id=new.user_id)


def get(tx: Tx, id: str, user_id: str | None = None, *, or_trashed: bool = False) -> Media | None:
    """`user_id`: only if it is this user's."""
    seen = f"(deleted_at IS NULL OR {TRASHED})" if or_trashed else "deleted_at IS NULL"
    row = tx.one(
        f"SELECT {WHOLE} FROM media WHERE id = :id AND {seen}"
        " AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)",
        id=id,
        user_id=user_id,
    )
    return Media.from_row(row) if row else None


def id_of_slug(tx: Tx, slug: str, user_id: str | None = None) -> str | None:
    """Of this user's. Should two have the same, the older one keeps it."""
    row = tx.one(
        "SELECT min(id) AS id FROM media WHERE slug = :slug"
        " AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)",
        slug=slug,
        user_id=user_id,
    )
    return row["id"] if row else None


def by_share_token(tx: Tx, token: str) -> Media | None:
    row = tx.one(
        f"SELECT {WHOLE} FROM media WHERE share_token = :token AND deleted_at IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM users"
        " WHERE users.id = media.user_id AND users.disabled_at IS NOT NULL)",
        token=token,
    )
    return Media.from_row(row) if row else None


def twins(tx: Tx, item: Media) -> Twins:
    rows = tx.all(
        "SELECT id, deleted_at FROM media WHERE sha256 = :sha256 AND user_id = :user_id"
        f" AND id <> :id AND (deleted_at IS NULL OR {TRASHED}) ORDER BY id",
        user_id=item.user_id,
        sha256=item.sha256,
        id=item.id,
    )
    return Twins(
        seen=[row["id"] for row in rows if row["deleted_at"] is None],
        trashed=[row["id"] for row in rows if row["deleted_at"] is not None],
    )


def same_content(tx: Tx, user_id: str, sha256: str) -> str | None:
    """The oldest that stays, and is not in the trash."""
    row = tx.one(
        "SELECT id FROM media WHERE sha256 = :sha256 AND user_id = :user_id"
        " AND deleted_at IS NULL AND forget_at IS NULL ORDER BY id LIMIT 1",
        sha256=sha256,
        user_id=user_id,
    )
    return row["id"] if row else None


def keep_on(tx: Tx, id: str, forget_after_ms: int) -> None:
    """Somebody still waits for what it was taken in for."""
    tx.all(
        "UPDATE media SET forget_at = {now} + :forget_after_ms"
        " WHERE id = :id AND forget_at IS NOT NULL AND deleted_at IS NULL",
        id=id,
        forget_after_ms=forget_after_ms,
    )


def used_bytes(tx: Tx, user_id: str) -> int:
    """Sources of a user and what was made of them, also in the trash, and what unfinished uploads
    have claimed. Versions that were replaced are not counted: they go by themselves."""
    row = tx.one(
        """
        SELECT (SELECT coalesce(sum(size_bytes), 0) FROM media
                WHERE user_id = :user_id AND purge_started_at IS NULL)
             + (SELECT coalesce(sum(versions.size_bytes), 0)
                FROM media JOIN versions ON versions.media_id = media.id
                WHERE media.user_id = :user_id AND purge_started_at IS NULL
                  AND versions.state = 'current')
             + (SELECT coalesce(sum(coalesce(length_bytes, offset_bytes)), 0) FROM uploads
                WHERE user_id = :user_id AND media_id IS NULL AND ended_at IS NULL
                  AND (concat IS NULL OR concat = 'partial')) AS used""",
        user_id=user_id,
    )
    return int(row["used"]) if row else 0


def rename(tx: Tx, id: str, title: str) -> None:
    _change(tx, id, "title = :title, title_folded = :folded", title=title, folded=folded(title))


def set_share_token(tx: Tx, id: str, token: str | None) -> None:
    _change(tx, id, "share_token = CAST(:token AS text)", token=token)


def set_facts(
    tx: Tx, id: str, *, kind: str | None, duration: float | None, recorded_at: int | None = None
) -> None:
    """What probing has found out. When it was recorded, people may know better."""
    _change(
        tx,
        id,
        "kind = coalesce(CAST(:kind AS text), kind),"
        " duration = coalesce(CAST(:duration AS double precision), duration),"
        " recorded_at = coalesce(recorded_at, CAST(:recorded_at AS bigint))",
        kind=kind,
        duration=duration,
        recorded_at=recorded_at,
    )


def set_edit(tx: Tx, id: str, edit: str | None) -> None:
    """What the current version leaves out of the source, or lays over it."""
    _change(tx, id, "edit = CAST(:edit AS text)", edit=edit)


def _change(tx: Tx, id: str, sets: str, **values: Any) -> None:
    row = tx.one(
        f"UPDATE media SET {sets}, updated_at = {{now}}"
        " WHERE id = :id AND deleted_at IS NULL RETURNING user_id",
        id=id,
        **values,
    )
    if row is not None:
        events.append(tx, "media.updated", media_id=id, user_id=row["user_id"])


def lock_media_of_job(tx: Tx, job_id: str) -> None:
    tx.all(
        "SELECT id FROM media WHERE id = (SELECT media_id FROM jobs WHERE id = :job_id)"
        " {for_update}",
        job_id=job_id,
    )


# Versions


def open_version(
    tx: Tx, id: str, *, media_id: str, slot: str, job_id: str, claim_id: str, is_part: bool = False
) -> str:
    """The version that this job builds, whichever of its attempts has begun it."""
    version = version_to_build(tx, job_id)
    if version is None:
        tx.all(
            "INSERT INTO versions (id, media_id, slot, job_id, claim_id, state, created_at)"
            " VALUES (:id, :media_id, :slot, :job_id, :claim_id, 'building', {now})"
            " ON CONFLICT DO NOTHING",
            id=id,
            media_id=media_id,
            slot=slot,
            job_id=job_id,
            claim_id=claim_id,
        )
        version = building_version(tx, job_id)
    elif not is_part:
        tx.all(
            "UPDATE versions SET claim_id = :claim_id"
            " WHERE id = :id AND coalesce(claim_id, '') <> :claim_id",
            claim_id=claim_id,
            id=version,
        )
    assert version is not None
    return version


def version_to_build(tx: Tx, job_id: str) -> str | None:
    """As `building_version`; the retry of a job that did not complete takes over what that one
    has left. Only under a claim of the job."""
    version = building_version(tx, job_id)
    if version is None and (left := _left_behind(tx, job_id)):
        tx.all(
            "UPDATE versions SET job_id = :job_id, state = 'building', retired_at = NULL"
            " WHERE id = :id AND state IN ('building','abandoned')",
            id=left,
            job_id=job_id,
        )
        version = building_version(tx, job_id)
    return version


def building_version(tx: Tx, job_id: str) -> str | None:
    row = tx.one(
        "SELECT id FROM versions WHERE job_id = :job_id AND state = 'building'", job_id=job_id
    )
    return row["id"] if row else None


def _left_behind(tx: Tx, job_id: str) -> str | None:
    """The version of the job that this one retries, locked; never one that is being purged."""
    found = tx.one(
        """
        WITH RECURSIVE tried(id, retry_of) AS (
          SELECT id, retry_of FROM jobs WHERE id = :job_id
          UNION ALL
          SELECT jobs.id, jobs.retry_of FROM tried JOIN jobs ON jobs.id = tried.retry_of
        )
        SELECT versions.id FROM tried JOIN versions ON versions.job_id = tried.id
        WHERE versions.state IN ('building','abandoned') ORDER BY versions.id DESC LIMIT 1""",
        job_id=job_id,
    )
    # Purging locks the version, too, and is a job: one that was quicker is seen after the wait.
    if (
        found is None
        or tx.one("SELECT id FROM versions WHERE id = :id {for_update}", **found) is None
    ):
        return None
    purging = tx.one(
        "SELECT id FROM jobs WHERE dedupe_key = :key"
        " AND state IN ('blocked','queued','processing')",
        key=f"{PURGE}:{found['id']}",
    )
    return None if purging else str(found["id"])


def declare(tx: Tx, version_id: str, declared: str) -> bool:
    """Note which renditions a version under way will have; whether that is news."""
    row = tx.one(
        "UPDATE versions SET declared = :declared WHERE id = :id AND state = 'building'"
        " AND coalesce(declared, '') <> :declared RETURNING id",
        id=version_id,
        declared=declared,
    )
    return row is not None


@dataclass(frozen=True, slots=True)
class Published:
    """`left_out`: the keys of files that are no part of it."""

    version_id: str
    slot: str
    left_out: Sequence[str]


def publish(tx: Tx, claim: Claim, temporary: Sequence[str] = ()) -> Published | None:
    """Make the version that this claim's job built the current one of its slot, with the files
    that the claim has put or adopted; other slots of the media are left alone. Only in the
    transaction that completes the job; None when the claim built none. `temporary`: renditions
    that are no part of it; whoever watches them may go on until they are purged."""
    row = tx.one(
        """
        SELECT id, media_id, slot FROM versions WHERE job_id = :job_id AND state = 'building'
        AND (claim_id = :claim_id OR EXISTS (SELECT 1 FROM artifacts
            WHERE version_id = versions.id AND artifacts.claim_id = :claim_id))
        AND (SELECT deleted_at FROM media WHERE media.id = versions.media_id) IS NULL""",
        job_id=claim.job_id,
        claim_id=claim.claim_id,
    )
    if row is None:
        return None
    left_out = tx.all(
        "DELETE FROM artifacts WHERE version_id = :id AND coalesce(claim_id, '') <> :claim_id"
        " RETURNING key",
        id=row["id"],
        claim_id=claim.claim_id,
    )
    for rendition in temporary:
        _retire_files(tx, row["id"], f"{rendition}/")
    tx.all(
        "UPDATE versions SET state = 'retired', retired_at = {now}"
        " WHERE media_id = :media_id AND slot = :slot AND state = 'current'",
        media_id=row["media_id"],
        slot=row["slot"],
    )
    kept = "SELECT coalesce(sum(size_bytes), 0) FROM artifacts"
    kept += " WHERE version_id = versions.id AND retired_at IS NULL"
    tx.all(
        f"""
        UPDATE versions SET state = 'current', published_at = {{now}}, claim_id = :claim_id,
            renditions = (SELECT detail FROM jobs WHERE jobs.id = versions.job_id),
            size_bytes = ({kept}), copy_bytes = ({kept} AND name LIKE :copied),
            rungs_bytes = ({kept} AND name LIKE :in_folder AND name NOT LIKE :copied)
        WHERE id = :id""",
        copied="original/%",
        in_folder="%/%",
        id=row["id"],
        claim_id=claim.claim_id,
    )
    _show(tx, **row)
    return Published(row["id"], row["slot"], [each["key"] for each in left_out])


def _show(tx: Tx, *, id: str, media_id: str, slot: str) -> None:
    """What is watched is the media's own; others are found by their slot."""
    is_watched = slot == kinds.WATCH
    shown = "current_version_id = :id, " if is_watched else ""
    media = tx.one(
        f"UPDATE media SET {shown}updated_at = {{now}} WHERE id = :media_id RETURNING user_id",
        **({"id": id} if is_watched else {}),
        media_id=media_id,
    )
    owner = media["user_id"] if media else None
    event = "media.ready" if is_watched else "media.updated"
    events.append(tx, event, media_id=media_id, user_id=owner)


def _retire_files(tx: Tx, version_id: str, prefix: str) -> None:
    tx.all(
        "UPDATE artifacts SET retired_at = {now} WHERE version_id = :version_id"
        " AND substr(name, 1, :length) = :prefix",
        version_id=version_id,
        length=len(prefix),
        prefix=prefix,
    )


# Artifacts


def add_artifact(tx: Tx, claim: Claim, version_id: str, key: str, artifact: Artifact) -> bool:
    """Only while the claim is held and its job builds this version; false when not, or when the
    claim itself has put the name before. Locks the job, so that nothing comes in while its version
    is published; the beginning of a job puts nothing once somebody has that job."""
    row = tx.one(
        """
        INSERT INTO artifacts (version_id, name, key, size_bytes, sha256, content_type, seconds,
            claim_id, recorded_at)
        SELECT :version_id, :name, :key, :size_bytes, :sha256, :content_type,
            CAST(:seconds AS double precision), :claim_id, {now}
        FROM jobs WHERE jobs.id = :job_id AND jobs.state = 'processing'
          AND jobs.claim_id = :claim_id
          AND (coalesce(jobs.division, 1) <> :beginning OR (jobs.cancel_requested_at IS NULL
            AND EXISTS (SELECT 1 FROM jobs AS whole
              WHERE whole.id = jobs.parent_id AND whole.state = 'queued')))
          AND EXISTS (SELECT 1 FROM versions
            WHERE versions.id = :version_id AND versions.state = 'building' AND versions.job_id =
              CASE WHEN jobs.division IS NULL THEN jobs.id ELSE jobs.parent_id END)
        {for_update}
        ON CONFLICT (version_id, name) DO UPDATE SET key = excluded.key,
            size_bytes = excluded.size_bytes, sha256 = excluded.sha256,
            content_type = excluded.content_type, seconds = excluded.seconds,
            claim_id = excluded.claim_id, recorded_at = excluded.recorded_at
        WHERE coalesce(artifacts.claim_id, '') <> excluded.claim_id
        RETURNING name""",
        version_id=version_id,
        key=key,
        name=artifact.name,
        size_bytes=artifact.size_bytes,
        sha256=artifact.sha256,
        content_type=artifact.content_type,
        seconds=artifact.seconds,
        job_id=claim.job_id,
        claim_id=claim.claim_id,
        beginning=BEGINNING,
    )
    return row is not None


def adopt_artifacts(tx: Tx, claim: Claim, version_id: str, files: Sequence[StoredFile]) -> set[str]:
    """Those of these that have not changed since are now the claim's; returns their names.
    In a transaction that has locked the claim's job."""
    adopted = tx.all(
        """
        WITH given AS ({given:name text, key text})
        UPDATE artifacts SET claim_id = :claim_id FROM given
        WHERE version_id = :version_id AND artifacts.name = given.name
        AND artifacts.key = given.key RETURNING artifacts.name""",
        given=[{"name": each.name, "key": each.key} for each in files],
        version_id=version_id,
        claim_id=claim.claim_id,
    )
    return {row["name"] for row in adopted}


def drop_artifacts(tx: Tx, version_id: str, files: Sequence[StoredFile]) -> None:
    """As `adopt_artifacts`, for what turned out to be damaged."""
    tx.all(
        "DELETE FROM artifacts WHERE version_id = :version_id"
        " AND (name, key) IN ({given:name text, key text})",
        given=[{"name": each.name, "key": each.key} for each in files],
        version_id=version_id,
    )


def named_artifacts(tx: Tx, version_id: str, names: Sequence[str]) -> list[StoredFile]:
    rows = tx.all(
        "SELECT * FROM artifacts WHERE version_id = :version_id AND name IN ({given:name text})",
        given=[{"name": name} for name in names],
        version_id=version_id,
    )
    return [from_row(StoredFile, row) for row in rows]


def segments(tx: Tx, version_id: str) -> dict[str, int]:
    """How many segments of each rendition are there."""
    rows = tx.all(
        """
        SELECT substr(name, 1, length(name) - 14) AS rendition, count(*) AS segments
        FROM artifacts WHERE version_id = :version_id AND name LIKE :segment ESCAPE '!'
        GROUP BY 1""",
        version_id=version_id,
        segment="%/seg!______.m4s",
    )
    return {row["rendition"]: row["segments"] for row in rows}


def artifact(tx: Tx, version_id: str, name: str) -> StoredFile | None:
    row = tx.one(
        "SELECT * FROM artifacts WHERE version_id = :version_id AND name = :name",
        version_id=version_id,
        name=name,
    )
    return from_row(StoredFile, row) if row else None


def count(tx: Tx, version_id: str, claim_id: str) -> int:
    """How many files of a version are this claim's."""
    row = tx.one(
        "SELECT count(*) AS files FROM artifacts WHERE version_id = :id AND claim_id = :claim_id",
        id=version_id,
        claim_id=claim_id,
    )
    return int(row["files"]) if row else 0


def published_artifact(tx: Tx, media_id: str, version_id: str, name: str) -> StoredFile | None:
    """Of what is watched; also of a version that was replaced: whoever watches it may go on until
    it is purged."""
    row = tx.one(
        """
        SELECT artifacts.* FROM artifacts JOIN versions ON versions.id = version_id
        WHERE version_id = :version_id AND name = :name AND media_id = :media_id
        AND slot = :slot AND state IN ('current','retired')""",
        version_id=version_id,
        name=name,
        media_id=media_id,
        slot=kinds.WATCH,
    )
    return from_row(StoredFile, row) if row else None


def artifacts(tx: Tx, version_id: str) -> list[StoredFile]:
    rows = tx.all(
        "SELECT * FROM artifacts WHERE version_id = :version_id ORDER BY name",
        version_id=version_id,
    )
    return [from_row(StoredFile, row) for row in rows]


def well_known(tx: Tx, version_ids: list[str], names: Sequence[str]) -> set[tuple[str, str]]:
    """Which of these versions have which of these artifacts."""
    rows = tx.all(
        """
        SELECT version_id, name FROM artifacts
        WHERE (version_id, name) IN ({given:version_id text, name text})""",
        given=[{"version_id": id, "name": name} for id in version_ids for name in names],
    )
    return {(row["version_id"], row["name"]) for row in rows}


def sizes(tx: Tx, version_ids: list[str]) -> dict[str, Sizes]:
    """In bytes, of what was published."""
    rows = tx.all(
        "SELECT id, size_bytes, copy_bytes, rungs_bytes FROM versions"
        " WHERE copy_bytes IS NOT NULL AND id IN ({given:id text})",
        given=[{"id": id} for id in version_ids],
    )
    return {
        row["id"]: Sizes(row["size_bytes"], row["copy_bytes"], row["rungs_bytes"]) for row in rows
    }


def facts(tx: Tx, version_ids: list[str]) -> dict[str, JsonObject]:
    """What the job that made a version told of it last: its renditions, and what people should
    know. Older workers name warnings in their result alone."""
    rows = tx.all(
        """
        SELECT versions.id, renditions,
            CASE WHEN coalesce(renditions, '') NOT LIKE :told THEN jobs.result END AS result
        FROM versions LEFT JOIN jobs ON jobs.id = versions.job_id
        WHERE versions.id IN ({given:id text})""",
        told='%"warnings":%',
        given=[{"id": id} for id in version_ids],
    )
    return {row["id"]: _facts(decode(row["renditions"]), decode(row["result"])) for row in rows}


def _facts(told: Any, result: Any) -> JsonObject:
    """Workers' words: either may be anything."""
    known = told if isinstance(told, dict) else {}
    said = result.get("warnings") if isinstance(result, dict) else None
    plain = [each for each in said if isinstance(each, str)] if isinstance(said, list) else []
    warnings = [{"code": "other", "message": each} for each in plain]
    return ({"warnings": warnings} if warnings else {}) | known


# What was asked for before


def lock_for_request(tx: Tx, media_id: str) -> None:
    """Whoever else asks for work on this media waits, and then sees what was asked here."""
    tx.all("SELECT id FROM media WHERE id = :id {for_update}", id=media_id)


def stopped_jobs(tx: Tx, media_id: str, *, since: int, besides: Sequence[str]) -> list[str]:
    """Jobs that were canceled then or later, or will be when their worker stops, and that nobody
    has tried again; oldest first."""
    rows = tx.all(
        """
        SELECT id FROM jobs WHERE media_id = :media_id AND division IS NULL
        AND cancel_requested_at >= :since AND state IN ('processing','canceled')
        AND kind NOT IN ({given:kind text})
        AND NOT EXISTS (SELECT 1 FROM jobs AS again WHERE again.retry_of = jobs.id)
        ORDER BY id""",
        given=[{"kind": kind} for kind in besides],
        media_id=media_id,
        since=since,
    )
    return [row["id"] for row in rows]


def recent_args(tx: Tx, media_id: str, kinds: Sequence[str], limit: int = 20) -> list[str]:
    """The arguments of the newest jobs of these kinds for a media, newest first."""
    rows = tx.all(
        "SELECT args FROM jobs WHERE media_id = :media_id AND kind IN ({given:kind text})"
        " ORDER BY id DESC LIMIT :limit",
        given=[{"kind": kind} for kind in kinds],
        media_id=media_id,
        limit=limit,
    )
    return [row["args"] for row in rows]
