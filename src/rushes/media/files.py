"""The files of jobs: what they work on, and what they make, adopt and hand in.

A version belongs to a job: all its attempts, and all parts of a divided one, put their files there.
A file counts for the claim that has put or adopted it, and rows change only under a held claim.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rushes import errors, ids, kinds, renditions
from rushes.db.database import Database, Tx
from rushes.jobs import store as jobs
from rushes.jobs.job import Holding
from rushes.media import edit as edits
from rushes.media import export_store, inherit_store, library, media, playlist_check, purge_store
from rushes.media import store as media_store
from rushes.media.media import StoredFile
from rushes.protocol import (
    ADOPT_LIMIT,
    Artifact,
    Claim,
    Completion,
    Excerpt,
    Inherited,
    Presigned,
    Rendition,
    Source,
)
from rushes.records import JsonObject
from rushes.storage.storage import Feed, Method, Storage
from rushes.tools import profile as profile_tools

# Said of sound that is not all there: whoever takes it over could not say so again.
INCOMPLETE_SOUND = "sound_unreadable"


class Files:
    def __init__(self, db: Database, open_storage: Callable[[], Storage] | None = None) -> None:
        """`open_storage` is asked when the first artifact comes; queues without media need none."""
        self._db = db
        self._open_storage = open_storage

    @property
    def storage(self) -> Storage:
        if self._open_storage is None:
            raise errors.StorageDown("no storage is set up")
        return self._open_storage()

    def source(self, claim: Claim, media_id: str | None = None) -> tuple[str, Source]:
        """The storage key, and what may be said of it; only while the claim is held. `media_id`:
        of the media that the job lays over its own."""
        with self._db.read() as tx:
            job = _held(tx, claim)
            if media_id is None or media_id == job.media_id:
                item = media_store.get(tx, job.media_id) if job.media_id else None
            else:
                item = _overlay(tx, job, media_id)
        if not job.is_heard:
            # Otherwise, if it is lost soon, it would be taken for one whose reply was lost.
            self._db.run(lambda tx: jobs.note_heard(tx, claim))
        if item is None or item.source_key is None:
            raise errors.NotFound("this job has no such source")
        source = Source(
            file_name=item.file_name,
            size_bytes=item.size_bytes,
            sha256=item.sha256,
            path=self.storage.local_path(item.source_key),
        )
        return item.source_key, source

    def excerpt(self, claim: Claim, wanted: Excerpt) -> list[StoredFile]:
        """What makes one file of a part of a rendition: how all its segments begin, and those that
        play between these seconds. Of the version that the job names, or of what is watched."""
        with self._db.read() as tx:
            held = _held(tx, claim)
            job, item = jobs.get(tx, held.id), media_store.get(tx, held.media_id or "")
            named = job.args.get("version_id") if job else None
            version = named if isinstance(named, str) else item and item.current_version_id
            rows = (
                export_store.rendition_files(tx, item.id, version, wanted.rendition)
                if item and version
                else []
            )
        found = _playing(rows, wanted.start, wanted.end)
        if not found:
            raise errors.NotFound("what this job is to work on is not there any more")
        return found

    def read_excerpt(self, claim: Claim, wanted: Excerpt, start: int) -> Iterator[bytes]:
        for each in self.excerpt(claim, wanted):
            if start < each.size_bytes:
                yield from self.storage.read(each.key, max(start, 0))
            start -= each.size_bytes

    def artifacts(self, claim: Claim) -> list[Artifact]:
        """All files of the version that the claim's job builds."""

        def read(tx: Tx) -> list[StoredFile]:
            version = media_store.version_to_build(tx, _locked(tx, claim).owner_id)
            return media_store.artifacts(tx, version) if version else []

        return [_artifact(row, claim) for row in self._db.run(read)]

    def put_artifact(
        self,
        claim: Claim,
        name: str,
        content: bytes | Path | Iterable[bytes],
        sha256: str | None = None,
        seconds: float | None = None,
    ) -> Artifact:
        """A name is written once per claim. Bytes that came over a wire are checked against
        `sha256`; those of this process are hashed once, on their way to the storage."""
        content_type = media.check_artifact_name(name)
        key, existing = self._place(claim, name)
        if existing is not None:
            return _same(existing, sha256 or _sha256_of(content), claim)
        stored = self.storage.put(key, content)
        if sha256 not in (None, stored.sha256):
            self.storage.delete([key])
            raise errors.BadField("sha256", "does not match what has arrived")
        self._check_text(name, key, stored.size_bytes)
        artifact = Artifact(
            name=name,
            size_bytes=stored.size_bytes,
            sha256=stored.sha256,
            content_type=content_type,
            seconds=seconds,
        )
        return self._record(claim, key, artifact)

    def presign(self, claim: Claim, name: str) -> Presigned:
        media.check_artifact_name(name)
        self._place(claim, name)
        ticket = ids.new("put")
        url = self._address(claim, "PUT", f"staging/{claim.claim_id}/{ticket}")
        return Presigned(url, ticket) if url else Presigned()

    def source_address(self, claim: Claim, key: str) -> str | None:
        """Where to read a source past the server; None when the storage has no such addresses."""
        return self._address(claim, "GET", key)

    def _address(self, claim: Claim, method: Method, key: str) -> str | None:
        """It is good for as long as the claim is now; who has renewed the claim asks again."""
        with self._db.read() as tx:
            lease_ms = _held(tx, claim).lease_ms or 0
        return self.storage.presign(method, key, max(1, lease_ms // 1000))

    def confirm(
        self,
        claim: Claim,
        name: str,
        ticket: str,
        size_bytes: int,
        sha256: str,
        md5: str,
        seconds: float | None = None,
    ) -> Artifact:
        """A presigned file has arrived. Its URL may live on, so the file is taken out of reach
        before it counts."""
        artifact = Artifact(
            name=name,
            size_bytes=size_bytes,
            sha256=sha256,
            content_type=media.check_artifact_name(name),
            seconds=seconds,
        )
        key, existing = self._place(claim, artifact.name)
        staged = f"staging/{claim.claim_id}/{ticket}"
        if existing is not None:
            self._discard([staged])
            return _same(existing, artifact.sha256, claim)
        if self.storage.size(staged) != artifact.size_bytes:
            raise errors.BadField("size_bytes", "does not match what has arrived")
        self.storage.copy(staged, key)
        if not self._is_intact(key, artifact.sha256, md5):
            self.storage.delete([key, staged])
            raise errors.BadField("sha256", "does not match what has arrived")
        self._check_text(artifact.name, key, artifact.size_bytes)
        recorded = self._record(claim, key, artifact)
        self._discard([staged])
        return recorded

    def adopt(self, claim: Claim, names: Sequence[str]) -> list[Artifact]:
        """Make files of the version this claim's own, if they are what they were when they were
        put; those that are not are removed. Returns the adopted ones, in the order of `names`."""
        version_id, rows = self._db.run(lambda tx: _rows(tx, claim, names))
        intact = self._intact(rows) if rows else set()
        damaged = [row for row in rows if row.key not in intact]

        def take(tx: Tx) -> set[str]:
            version = media_store.building_version(tx, _locked(tx, claim).owner_id)
            if version is None or version != version_id:
                return set()
            media_store.drop_artifacts(tx, version_id, damaged)
            whole = [row for row in rows if row.key in intact]
            return media_store.adopt_artifacts(tx, claim, version_id, whole)

        adopted = self._db.run(take) if rows else set()
        self._discard_unused([row.key for row in damaged])
        by_name = {row.name: row for row in rows if row.name in adopted}
        mine = [by_name[name] for name in names if name in by_name]
        return [_artifact(replace(each, claim_id=claim.claim_id), claim) for each in mine]

    def discard(self, claim: Claim, names: Sequence[str]) -> list[Artifact]:
        """Remove files that are this claim's; others are left alone. Returns what is left."""

        def drop(tx: Tx) -> list[StoredFile]:
            version_id, rows = _rows(tx, claim, names)
            mine = [row for row in rows if row.claim_id == claim.claim_id]
            media_store.drop_artifacts(tx, version_id, mine)
            return mine

        self._discard_unused([row.key for row in self._db.run(drop)])
        return self.artifacts(claim)

    def inherit(self, claim: Claim, besides: Sequence[str] = ()) -> Inherited:
        """Rows for the same objects, which are purged with the last version that has them."""

        def take(tx: Tx) -> Inherited:
            job = _locked(tx, claim)
            if kinds.output_of(job.kind) != kinds.WATCH or job.division is not None:
                raise errors.WrongState("this job makes no version that could take anything over")
            if job.media_id is None:
                return Inherited()
            base = inherit_store.base(tx, job.media_id, kinds.WATCH)
            if base is None:
                return Inherited()
            kept = [each for each in _whole(base.told) if each.name not in besides]
            asked = jobs.get(tx, job.id)
            if asked and (why_not := _why_not_mixed(base.args, asked.args)):
                return Inherited(renditions=kept, why_not=why_not)
            inherit_store.take_over(
                tx,
                claim,
                version_id=library.start_version(tx, claim, job.media_id),
                base_id=base.id,
                renditions=[each.name for each in kept],
            )
            return Inherited(renditions=kept)

        return self._db.run(take)

    def _place(self, claim: Claim, name: str) -> tuple[str, StoredFile | None]:
        """A fresh key for an artifact of this claim, and its row if it is there already. Fresh,
        because bytes that come late must not land on those that were recorded meanwhile."""

        def place(tx: Tx) -> tuple[str, StoredFile | None]:
            job = _held(tx, claim)
            if job.media_id is None:
                raise errors.WrongState("a job without a media has no artifacts")
            version_id = library.start_version(tx, claim, job.media_id)
            row = media_store.artifact(tx, version_id, name)
            stem, _, suffix = name.rpartition(".")
            key = f"media/{job.media_id}/{version_id}/{stem}-{secrets.token_hex(6)}.{suffix}"
            return key, row if row and row.claim_id == claim.claim_id else None

        return self._db.run(place)

    def _record(self, claim: Claim, key: str, artifact: Artifact) -> Artifact:
        """The first of a claim under a name stays; the bytes of those that come later, and what
        another claim has put there before, are removed."""
        version_id = key.split("/")[2]

        def record(tx: Tx) -> tuple[bool, StoredFile | None]:
            before = media_store.artifact(tx, version_id, artifact.name)
            added = media_store.add_artifact(tx, claim, version_id, key, artifact)
            if added:
                self._recorded(tx, version_id, artifact.name)
            return added, before

        added, before = self._db.run(record)
        if added:
            self._discard_unused([before.key] if before else [])
            return artifact
        self._discard([key])
        with self._db.read() as tx:
            row = media_store.artifact(tx, version_id, artifact.name)
            if row is None or row.claim_id != claim.claim_id:
                _held(tx, claim)
                raise errors.CancelRequested("its version is not being made any more")
        return _same(row, artifact.sha256, claim)

    def _recorded(self, tx: Tx, version_id: str, name: str) -> None:
        """A file counts from now on; in the transaction that says so."""

    def _discard(self, keys: Sequence[str]) -> None:
        """What cannot be removed now, the search for orphans finds."""
        with suppress(errors.Unavailable):
            if keys:
                self.storage.delete(keys)

    def _discard_unused(self, keys: Sequence[str]) -> None:
        """As `_discard`, of files whose rows are gone: other versions may have the same."""
        if keys:
            with self._db.read() as tx:
                used = purge_store.known_keys(tx, keys)
            self._discard([key for key in keys if key not in used])

    def _is_intact(self, key: str, sha256: str, md5: str) -> bool:
        """By the checksum the object store keeps, or else by reading it back."""
        tag = self.storage.etag(key)
        if tag is not None and len(tag) == 32:
            return tag == md5
        return self._digest(key) == sha256

    def _digest(self, key: str) -> str:
        digest = hashlib.sha256()
        for chunk in self.storage.read(key):
            digest.update(chunk)
        return digest.hexdigest()

    def _verify(self, completion: Completion) -> int:
        """What the claim hands in is all there, and is what the worker says it made. Returns how
        many files that are."""
        claim, manifest = completion.claim, completion.manifest
        with self._db.read() as tx:
            job = jobs.held(tx, claim)
            if job is None:
                return 0
            version = media_store.building_version(tx, job.owner_id)
            rows = media_store.artifacts(tx, version) if version else []
        mine = [row for row in rows if row.claim_id == claim.claim_id]
        if manifest is not None and {row.name: row.sha256 for row in mine} != dict(manifest):
            raise errors.ManifestMismatch("the files that arrived are not those that were made")
        if len(self._present(mine)) != len(mine):
            raise errors.ManifestMismatch("a file is missing from the storage")
        if job.division is None:
            self._check_references(mine)
        return len(mine)

    def _check_references(self, rows: Sequence[StoredFile]) -> None:
        """What is published names nothing but what is published with it."""
        names = {row.name for row in rows} | playlist_check.SERVED
        for row in rows:
            if row.name.endswith(playlist_check.CHECKED):
                missing = self._references(row.name, row.key, row.size_bytes) - names
                if missing:
                    raise errors.ManifestMismatch(f"{row.name} names {min(missing)}: not there")

    def _check_text(self, name: str, key: str, size_bytes: int) -> None:
        """Before it counts: a version is watched while it is made."""
        if not name.endswith(playlist_check.CHECKED):
            return
        try:
            self._references(name, key, size_bytes)
        except errors.BadField:
            self._discard([key])
            raise

    def _references(self, name: str, key: str, size_bytes: int) -> set[str]:
        """By the bytes that lie in the storage, whichever way they came there."""
        if size_bytes > playlist_check.LIMIT_BYTES:
            raise errors.BadField("content", f"{name} is too long")
        return playlist_check.references(name, b"".join(self.storage.read(key)))

    def _present(self, rows: Sequence[StoredFile]) -> set[str]:
        """The keys of those that are in the storage with their size."""
        sizes = {row.key: row.size_bytes for row in rows}
        # One list of each folder costs less than one question for each file.
        folders = {key.rpartition("/")[0] for key in sizes}
        found = (entry for folder in folders for entry in self.storage.list(folder))
        return {entry.key for entry in found if sizes.get(entry.key) == entry.size_bytes}

    def _intact(self, rows: Sequence[StoredFile]) -> set[str]:
        """As `_present`; what this process can read is read."""
        present = self._present(rows)
        return {row.key for row in rows if row.key in present and self._is_same(row)}

    def _is_same(self, row: StoredFile) -> bool:
        try:
            if self.storage.local_path(row.key) is None:
                return True
            return bool(self._digest(row.key) == row.sha256)
        except errors.NotFound:
            return False


def joined(files: Sequence[StoredFile]) -> Source:
    """Several that are read as one."""
    return Source(file_name="", size_bytes=sum(each.size_bytes for each in files), sha256=None)


def _playing(files: Sequence[StoredFile], start: float, end: float | None) -> list[StoredFile]:
    """The first is how all begin; nothing at all if no segment plays then."""
    if not files or not files[0].name.endswith("/init.mp4"):
        return []
    chosen, begins = [], 0.0
    for each in files[1:]:
        ends = begins + (each.seconds or 0.0)
        if ends > start and (end is None or begins < end):
            chosen.append(each)
        begins = ends
    return [files[0], *chosen] if chosen else []


def _sha256_of(content: bytes | Path | Iterable[bytes]) -> str:
    feed = Feed(content)
    for _ in feed:
        pass
    return feed.stored().sha256


def _held(tx: Tx, claim: Claim) -> Holding:
    held = jobs.held(tx, claim)
    if held is None:
        raise errors.ClaimLost("the claim is not held any more")
    return held


def _locked(tx: Tx, claim: Claim) -> Holding:
    """As `_held`, and it stays held until the transaction ends."""
    if jobs.lock_if_held(tx, claim) is None:
        raise errors.ClaimLost("the claim is not held any more")
    return _held(tx, claim)


def _rows(tx: Tx, claim: Claim, names: Sequence[str]) -> tuple[str, list[StoredFile]]:
    if len(names) > ADOPT_LIMIT:
        raise errors.BadField("names", f"must be at most {ADOPT_LIMIT}")
    version = media_store.version_to_build(tx, _locked(tx, claim).owner_id)
    if version is None:
        return "", []
    return version, media_store.named_artifacts(tx, version, names)


def _whole(told: Any) -> list[Rendition]:
    """Of what the job that made a version has told of it: what others may go on playing."""
    said = told.get("warnings") if isinstance(told, dict) else None
    codes = {each.get("code") for each in said or [] if isinstance(each, dict)}
    return [
        each
        for each in renditions.read(told)
        if each.status == "completed" and not (each.kind == "audio" and INCOMPLETE_SOUND in codes)
    ]


def _why_not_mixed(made: Any, asked: JsonObject) -> str | None:
    """Why renditions made with these arguments do not go together with those that are asked for.
    A player may change from one to the other at any segment."""
    if not isinstance(made, Mapping):
        return "it is not known how the version before was made"
    if edits.read(made.get("edit")) != edits.read(asked.get("edit")):
        return "what is cut or laid over has changed"
    if _segment_seconds(made) != _segment_seconds(asked):
        return "segments have another length now"
    return None


def _segment_seconds(args: JsonObject) -> float | None:
    try:
        return profile_tools.decode(args.get("settings") or {}).segment_seconds
    except errors.BadField:
        return None


def _overlay(tx: Tx, job: Holding, media_id: str) -> media.Media | None:
    """Another media of the same user, if the job was asked to use it. A part is given what its
    whole was asked for, whatever the part's own arguments say."""
    owner = jobs.get(tx, job.owner_id)
    edit = owner.args.get("edit") if owner else None
    overlay = edit.get("overlay") if isinstance(edit, Mapping) else None
    named = overlay.get("media_id") if isinstance(overlay, Mapping) else None
    return media_store.get(tx, media_id, job.user_id) if named == media_id else None


def _same(row: StoredFile, sha256: str, claim: Claim) -> Artifact:
    if row.sha256 != sha256:
        raise errors.AlreadyExists(f"{row.name} was put before with other content")
    return _artifact(row, claim)


def _artifact(row: StoredFile, claim: Claim) -> Artifact:
    return Artifact(
        name=row.name,
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        content_type=row.content_type,
        seconds=row.seconds,
        claimed=row.claim_id == claim.claim_id,
    )
