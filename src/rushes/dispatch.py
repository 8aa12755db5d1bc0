"""Where workers meet queue and library: claims go out, reports and artifacts come in.

`Dispatch` serves every worker; `Local` is one in-process worker's side of `protocol.Coordinator`,
and the HTTP routes are the other transport of the same `Dispatch`.
"""

from __future__ import annotations

import hashlib
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rushes import errors, ids, protocol, wakeup
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs import log_store
from rushes.jobs import store as jobs
from rushes.jobs.job import ErrorClass, State
from rushes.jobs.queue import Claimant, Queue
from rushes.media import library, media
from rushes.media import store as media_store
from rushes.media.storage import Storage
from rushes.protocol import Artifact, Assignment, Beat, Claim, Completion, Progress, Source

PRESIGN_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Presigned:
    """Where to PUT an artifact past the server, and what to name when it is there."""

    url: str
    ticket: str


class Dispatch:
    def __init__(
        self, db: Database, queue: Queue, open_storage: Callable[[], Storage] | None = None
    ) -> None:
        """`open_storage` is asked when the first artifact comes; queues without media need none."""
        self._db = db
        self._queue = queue
        self._open_storage = open_storage

    @property
    def storage(self) -> Storage:
        if self._open_storage is None:
            raise errors.StorageDown("no storage is set up")
        return self._open_storage()

    def hello(self, worker_id: str, hello: protocol.Hello) -> None:
        self._db.run(
            lambda tx: fleet.hello(
                tx,
                worker_id,
                kinds=hello.kinds,
                capabilities=hello.capabilities,
                metadata=hello.metadata,
            )
        )

    def claim(self, worker: Claimant, limit: int) -> list[Assignment]:
        """What there is now; waiting is for the transports."""
        return self._db.run_step(lambda tx: self._queue.claim(tx, worker, limit))

    def heartbeat(self, worker_id: str, claims: Sequence[Claim]) -> protocol.Pulse:
        def beat(tx: Tx) -> tuple[Mapping[str, Beat], AdminState]:
            state = fleet.seen(tx, worker_id)
            return (self._queue.heartbeat(tx, claims) if claims else {}), state

        beats, state = self._db.run_step(beat)
        return protocol.Pulse(beats, drain=state is not AdminState.ENABLED)

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        return self._db.run_step(lambda tx: self._queue.progress(tx, reports))

    def complete_plain(self, completions: Sequence[Completion]) -> set[str]:
        """Those without files, together; answers the ids that are now completed."""
        results = [(each.claim, each.result) for each in completions]
        return self._db.run_step(lambda tx: self._queue.complete_many(tx, results))

    def complete(self, completion: Completion) -> State:
        """Publish and complete; raises a Conflict when it is not this claim's to say."""
        files = self._verify(completion)
        claim, result = completion.claim, completion.result
        return self._db.run(
            lambda tx: library.complete(tx, self._queue, claim, result, files=files)
        )

    def fail(self, claim: Claim, error_class: str, code: str, message: str) -> State:
        kind = ErrorClass(error_class)
        return self._db.run(
            lambda tx: self._queue.fail(tx, claim, kind, code=code, message=message)
        )

    def release(self, claim: Claim) -> State:
        return self._db.run(lambda tx: self._queue.release(tx, claim))

    def log(self, worker_id: str, claim: Claim, lines: Sequence[str]) -> None:
        if not self._db.run(lambda tx: log_store.append(tx, claim, worker_id, lines)):
            raise errors.ClaimLost("the claim is not held any more")

    # Files

    def source(self, claim: Claim) -> tuple[str, Source]:
        """The storage key, and what may be said of it; only while the claim is held."""
        with self._db.read() as tx:
            job = _held(tx, claim)
            item = media_store.get(tx, job["media_id"]) if job["media_id"] else None
        if item is None or item.source_key is None:
            raise errors.NotFound("this job has no source")
        source = Source(
            file_name=item.file_name,
            size_bytes=item.size_bytes,
            sha256=item.sha256,
            path=self.storage.local_path(item.source_key),
        )
        return item.source_key, source

    def artifacts(self, claim: Claim) -> list[Artifact]:
        with self._db.read() as tx:
            _held(tx, claim)
            version = media_store.version_of_claim(tx, claim.claim_id)
            rows = media_store.artifacts(tx, version["id"]) if version else []
        return [_artifact(row) for row in rows]

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path | Iterable[bytes], sha256: str
    ) -> Artifact:
        """The bytes are checked against `sha256`; a name is written once per claim."""
        content_type = media.check_artifact_name(name)
        key, existing = self._place(claim, name)
        if existing is not None:
            return _same(existing, sha256)
        stored = self.storage.put(key, content)
        if stored.sha256 != sha256:
            self.storage.delete([key])
            raise errors.BadField("sha256", "does not match what has arrived")
        artifact = Artifact(
            name=name,
            size_bytes=stored.size_bytes,
            sha256=sha256,
            content_type=content_type,
        )
        return self._record(claim, key, artifact)

    def presign(self, claim: Claim, name: str) -> Presigned | None:
        """None when the storage cannot take files past the server."""
        media.check_artifact_name(name)
        self._place(claim, name)
        ticket = ids.new("put")
        url = self.storage.presign("PUT", f"staging/{claim.claim_id}/{ticket}", PRESIGN_SECONDS)
        return Presigned(url, ticket) if url else None

    def confirm(
        self, claim: Claim, name: str, ticket: str, *, size_bytes: int, sha256: str, md5: str
    ) -> Artifact:
        """A presigned file has arrived. Its URL may live on, so the file is taken out of reach
        before it counts."""
        content_type = media.check_artifact_name(name)
        key, existing = self._place(claim, name)
        staged = f"staging/{claim.claim_id}/{ticket}"
        if existing is not None:
            self._discard(staged)
            return _same(existing, sha256)
        if self.storage.size(staged) != size_bytes:
            raise errors.BadField("size_bytes", "does not match what has arrived")
        self.storage.copy(staged, key)
        if not self._is_intact(key, sha256, md5):
            self.storage.delete([key, staged])
            raise errors.BadField("sha256", "does not match what has arrived")
        artifact = Artifact(
            name=name, size_bytes=size_bytes, sha256=sha256, content_type=content_type
        )
        recorded = self._record(claim, key, artifact)
        self._discard(staged)
        return recorded

    def check_owner(self, worker_id: str, claim: Claim) -> None:
        """Another worker's claim is as good as none."""
        if not self.owned(worker_id, [claim]):
            raise errors.ClaimLost("the claim is not held any more")

    def owned(self, worker_id: str, claims: Iterable[Claim]) -> list[Claim]:
        with self._db.read() as tx:
            return [each for each in claims if jobs.was_claimed_by(tx, each, worker_id)]

    def _place(self, claim: Claim, name: str) -> tuple[str, dict[str, Any] | None]:
        """A fresh key for an artifact of this claim, and its row if it is there already. Fresh,
        because bytes that come late must not land on those that were recorded meanwhile."""

        def place(tx: Tx) -> tuple[str, dict[str, Any] | None]:
            job = _held(tx, claim)
            if job["media_id"] is None:
                raise errors.WrongState("a job without a media has no artifacts")
            version_id = library.start_version(tx, claim, job["media_id"])
            existing = media_store.artifact(tx, version_id, name)
            stem, _, suffix = name.rpartition(".")
            key = f"media/{job['media_id']}/{version_id}/{stem}-{secrets.token_hex(6)}.{suffix}"
            return key, existing

        return self._db.run(place)

    def _record(self, claim: Claim, key: str, artifact: Artifact) -> Artifact:
        """The first under a name stays; the bytes of those that come later are removed again."""
        version_id = key.split("/")[2]

        def record(tx: Tx) -> tuple[bool, dict[str, Any] | None]:
            added = media_store.add_artifact(tx, claim, version_id, key, artifact)
            return added, None if added else media_store.artifact(tx, version_id, artifact.name)

        added, row = self._db.run(record)
        if added:
            return artifact
        self._discard(key)
        if row is None:
            raise errors.ClaimLost("the claim is not held any more")
        return _same(row, artifact.sha256)

    def _discard(self, key: str) -> None:
        """What cannot be removed now, the search for orphans finds."""
        with suppress(errors.Unavailable):
            self.storage.delete([key])

    def _is_intact(self, key: str, sha256: str, md5: str) -> bool:
        """By the checksum the object store keeps, or else by reading it back."""
        tag = self.storage.etag(key)
        if tag is not None and len(tag) == 32:
            return tag == md5
        digest = hashlib.sha256()
        for chunk in self.storage.read(key):
            digest.update(chunk)
        return digest.hexdigest() == sha256

    def _verify(self, completion: Completion) -> int | None:
        """What is to be published is all there, and is what the worker says it made. Answers how
        many files that are; None when there is nothing to publish, or not any more."""
        with self._db.read() as tx:
            version = media_store.version_of_claim(tx, completion.claim.claim_id)
            if version is None or version["state"] != "building":
                if completion.manifest and version is None:
                    raise errors.ManifestMismatch("not one of the files has arrived")
                return None
            rows = media_store.artifacts(tx, version["id"])
        recorded = {row["name"]: row["sha256"] for row in rows}
        if completion.manifest is not None and recorded != dict(completion.manifest):
            raise errors.ManifestMismatch("the files that arrived are not those that were made")
        sizes = {row["key"]: row["size_bytes"] for row in rows}
        prefixes = {"/".join(key.split("/")[:3]) for key in sizes}
        present = {
            entry.key: entry.size_bytes
            for prefix in prefixes
            for entry in self.storage.list(prefix)
        }
        if any(present.get(key) != size for key, size in sizes.items()):
            raise errors.ManifestMismatch("a file is missing from the storage")
        return len(rows)


class Local:
    """The in-process transport of one worker."""

    def __init__(
        self,
        dispatch: Dispatch,
        db: Database,
        bell: wakeup.Wakeup,
        *,
        worker_id: str,
        worker_name: str,
        poll_seconds: float = 2.0,
    ) -> None:
        self._dispatch = dispatch
        self._db = db
        self._bell = bell
        self._poll_seconds = poll_seconds
        self._me = Claimant(id=worker_id, name=worker_name, kinds=())
        self._interrupted = False

    def hello(self, hello: protocol.Hello) -> None:
        self._me = Claimant(
            id=self._me.id,
            name=self._me.name,
            kinds=tuple(hello.kinds),
            capabilities=tuple(hello.capabilities),
        )
        self._db.run(lambda tx: fleet.register(tx, self._me.id, self._me.name))
        self._dispatch.hello(self._me.id, hello)

    def claim(self, limit: int, wait_seconds: float = 0) -> list[Assignment]:
        until = time.monotonic() + wait_seconds
        while True:
            mark = self._bell.mark()
            assignments = self._dispatch.claim(self._me, limit)
            left = until - time.monotonic()
            if assignments or left <= 0 or self._interrupted:
                return assignments
            # Jittered, so that workers that started together do not poll together.
            self._bell.wait(mark, min(left, self._poll_seconds * random.uniform(0.75, 1.25)))

    def heartbeat(self, claims: Sequence[Claim]) -> protocol.Pulse:
        return self._dispatch.heartbeat(self._me.id, claims)

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        return self._dispatch.progress(reports)

    def complete(self, completions: Sequence[Completion]) -> Mapping[str, str]:
        plain = [each for each in completions if each.manifest is None]
        done = self._dispatch.complete_plain(plain) if plain else set()
        answers = dict.fromkeys(done, str(State.COMPLETED))
        for each in completions:
            if each.claim.job_id not in done:
                answers[each.claim.job_id] = self._complete_one(each)
        return answers

    def fail(self, claim: Claim, error_class: str, code: str, message: str) -> str:
        return self._dispatch.fail(claim, error_class, code, message)

    def release(self, claim: Claim) -> str:
        return self._dispatch.release(claim)

    def source(self, claim: Claim) -> Source:
        return self._dispatch.source(claim)[1]

    def read_source(self, claim: Claim, start: int) -> Iterator[bytes]:
        key, _ = self._dispatch.source(claim)
        return self._dispatch.storage.read(key, start)

    def artifacts(self, claim: Claim) -> Sequence[Artifact]:
        return self._dispatch.artifacts(claim)

    def put_artifact(self, claim: Claim, name: str, content: bytes | Path) -> Artifact:
        return self._dispatch.put_artifact(claim, name, content, sha256_of(content))

    def log(self, claim: Claim, lines: Sequence[str]) -> None:
        self._dispatch.log(self._me.id, claim, lines)

    def interrupt(self) -> None:
        self._interrupted = True
        self._bell.ring()

    def _complete_one(self, completion: Completion) -> str:
        try:
            return self._dispatch.complete(completion)
        except errors.Conflict as error:
            return error.code


def sha256_of(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _held(tx: Tx, claim: Claim) -> dict[str, Any]:
    row = jobs.held(tx, claim)
    if row is None:
        raise errors.ClaimLost("the claim is not held any more")
    return row


def _same(row: Mapping[str, Any], sha256: str) -> Artifact:
    if row["sha256"] != sha256:
        raise errors.AlreadyExists(f"{row['name']} was put before with other content")
    return _artifact(row)


def _artifact(row: Mapping[str, Any]) -> Artifact:
    return Artifact(
        name=row["name"],
        size_bytes=row["size_bytes"],
        sha256=row["sha256"],
        content_type=row["content_type"],
    )
