"""A library that is small, and has one of everything that a backup must hold."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rushes import ids
from rushes.backups import make
from rushes.backups.make import Made
from rushes.db.database import Tx
from rushes.storage.local import LocalStorage
from rushes.storage.storage import Storage
from rushes.transcripts import search
from world import World

SOURCE = b"a recording" * 50
FILES = {"poster.jpg": b"a picture", "720p/0.m4s": b"a segment" * 30, "empty.vtt": b""}
UNFINISHED = b"half of what"
TITLE = "An evening at the harbour"


def silent(stage: str, done: int, total: int) -> None:
    pass


def local(path: Path) -> LocalStorage:
    return LocalStorage(path)


def fill(world: World, storage: Storage) -> str:
    """One media with a source and a version, and an upload that is not complete."""
    media_id = world.add_media(TITLE)
    job_id = world.enqueue(media_id=media_id)
    claim = world.claim(world.worker())
    world.complete(claim)
    version_id = ids.new("ver")
    source = f"sources/{media_id}"
    storage.put(source, SOURCE)
    storage.put("staging/upl_1", UNFINISHED + b" and what was never promised")

    def write(tx: Tx) -> None:
        tx.all(
            "UPDATE media SET source_key = :key, size_bytes = :size, sha256 = :sha256"
            " WHERE id = :id",
            key=source,
            size=len(SOURCE),
            sha256=hashlib.sha256(SOURCE).hexdigest(),
            id=media_id,
        )
        tx.all(
            "INSERT INTO versions (id, media_id, job_id, claim_id, state, slot, created_at)"
            " VALUES (:id, :media_id, :job_id, :claim_id, 'current', 'noop', {now})",
            claim_id=claim.claim_id,
            id=version_id,
            media_id=media_id,
            job_id=job_id,
        )
        tx.all(
            "INSERT INTO uploads (id, user_id, length_bytes, offset_bytes, metadata, key,"
            " created_at, expires_at)"
            " VALUES ('upl_1', '', 1000, :offset, '{{}}', 'staging/upl_1', {now}, {now} + 1000)",
            offset=len(UNFINISHED),
        )
        search.keep_title(tx, media_id, "", TITLE)
        for name, content in FILES.items():
            key = f"media/{version_id}/{name}"
            storage.put(key, content)
            tx.all(
                "INSERT INTO artifacts (version_id, name, key, size_bytes, sha256, content_type,"
                " recorded_at) VALUES (:version_id, :name, :key, :size, :sha256, 'x/y', {now})",
                version_id=version_id,
                name=name,
                key=key,
                size=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
            )

    world.run(write)
    return media_id


def back_up(world: World, storage: Storage, directory: Path) -> Made:
    return make.make(world.db, storage, directory, silent)
