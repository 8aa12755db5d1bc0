"""Receiving the bytes of uploads: what one request may write, when it is durable, what it becomes.

Plain functions for threads. A byte is promised (the row's offset) only after it is durable, and the
whole (offset = length) only together with the media.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rushes import errors
from rushes.db.database import Database, Tx
from rushes.jobs.queue import Queue
from rushes.metrics import Metrics
from rushes.storage import storage as storages
from rushes.storage.storage import Storage
from rushes.uploads import sink, sniff, uploads
from rushes.uploads import store as upload_store
from rushes.uploads.sink import Sink
from rushes.uploads.upload import Concat, Durable, Metadata, Upload, UploadOptions, UploadPart
from rushes.uploads.uploads import Received, UploadLimits

if TYPE_CHECKING:
    from hashlib import _Hash

ALGORITHMS = ("sha1", "sha256", "sha512", "md5")
# How much, or how long, may be lost when the server is killed in the middle of a request.
FLUSH_BYTES = 64 * 2**20
FLUSH_SECONDS = 1.0
RENEW_SECONDS = 3.0
# So much of the beginning says that something is surely no media.
ENOUGH_TO_REFUSE_BYTES = 4096
DIGESTS_KEPT = 1_000

log = logging.getLogger("rushes.uploads")

Checksum = tuple[str, bytes]


class Receiver:
    def __init__(
        self,
        db: Database,
        queue: Queue,
        storage: Storage,
        limits: UploadLimits,
        *,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.db = db
        self.queue = queue
        self.storage = storage
        self.limits = limits
        self._digests: OrderedDict[str, tuple[int, _Hash]] = OrderedDict()
        self._lock = threading.Lock()

    def create(
        self,
        user_id: str,
        *,
        length_bytes: int | None,
        metadata: Metadata,
        concat: Concat | None = None,
        expected_bytes: int = 0,
    ) -> Upload:
        """`expected_bytes`: about how much will come when the length is not known yet."""
        if length_bytes == 0 and concat is None:
            raise errors.UnsupportedMedia("the file is empty")
        self.check_space(length_bytes or expected_bytes)
        return self.db.run(
            lambda tx: uploads.create(
                tx,
                self.limits,
                user_id,
                length_bytes=length_bytes,
                metadata=metadata,
                concat=concat,
            )
        )

    def open(
        self,
        id: str,
        user_id: str,
        *,
        offset_bytes: int,
        length_bytes: int | None = None,
        body_bytes: int | None = None,
        checksum: Checksum | None = None,
    ) -> Writer:
        """Whoever opens a writer ends it: by `complete`, or by `leave`."""
        self.check_space(body_bytes or 0)
        token = secrets.token_hex(16)
        taken = self.db.run(
            lambda tx: uploads.take(
                tx,
                self.limits,
                id,
                user_id,
                writer=token,
                offset_bytes=offset_bytes,
                length_bytes=length_bytes,
                body_bytes=body_bytes,
            )
        )
        try:
            opened = sink.open(self.storage, taken, token, self._digest(taken))
        except BaseException:
            self.db.run_step(lambda tx: upload_store.release(tx, taken.id, token))
            raise
        return Writer(self, taken, token, opened, checksum)

    def take(
        self, user_id: str, metadata: Metadata, size_bytes: int, fill: Callable[[Writer], None]
    ) -> Upload:
        """One that this server sends to itself, in one go: `fill` writes it. Of what is not whole
        then, or fails, nothing stays."""
        made = self.create(user_id, length_bytes=size_bytes, metadata=metadata)
        try:
            writer = self.open(made.id, user_id, offset_bytes=0, body_bytes=size_bytes)
            try:
                fill(writer)
                done = writer.complete()
            except BaseException as error:
                writer.leave(error)
                raise
            if done.media_id is None:
                raise errors.Unavailable("it has become shorter meanwhile")
        except BaseException:
            self.drop(made.id)
            raise
        return done

    def concatenate(self, user_id: str, partial_ids: list[str], metadata: Metadata) -> Upload:
        """Finished when it returns; asking again for the same returns the same."""
        token = secrets.token_hex(16)
        final, partials = self.db.run(
            lambda tx: uploads.create_final(tx, self.limits, user_id, partial_ids, metadata, token)
        )
        if final.media_id is not None:
            return final
        try:
            self.check_space(final.length_bytes or 0)
            parts = [part for each in partials for part in self.parts_of(each)]
            received = self.assemble(final, parts, lambda: None)
            made = self.db.run(
                lambda tx: uploads.finish(tx, self.queue, self.limits, final, token, received)
            )
        except (errors.WrongState, errors.NotFound):
            # Whoever was quicker has removed the parts already.
            self.drop(final.id)
            return self._made_meanwhile(final)
        except BaseException:
            self.drop(final.id)
            raise
        for each in partials:
            uploads.remove(self.db, self.storage, each.id, each.key)
        self.remove_spare(made)
        return made

    def _made_meanwhile(self, final: Upload) -> Upload:
        with self.db.read() as tx:
            made = upload_store.made_of(tx, final.parts or "", final.user_id)
        if made is None:
            raise errors.WrongState("a partial upload was used or ended in the meantime")
        return made

    def remove_spare(self, finished: Upload) -> None:
        """The bytes of an upload that was not needed. What is missed here is found as an orphan."""
        if finished.is_spare:
            with suppress(errors.Unavailable):
                self.storage.delete([finished.key])

    def drop(self, id: str, user_id: str | None = None) -> None:
        """End an upload and remove its bytes; harmless when it has become a media."""
        with suppress(errors.NotFound, errors.WrongState):
            self.terminate(id, user_id)

    def terminate(self, id: str, user_id: str | None) -> None:
        ended = self.db.run(lambda tx: uploads.terminate(tx, id, user_id))
        self.remember(ended.id, 0, None)
        uploads.remove(self.db, self.storage, ended.id, ended.key)

    def check_space(self, more_bytes: int) -> None:
        least = self.limits.min_free_bytes
        free = self.storage.free_bytes() if least else None
        if free is not None and free - more_bytes < least:
            raise errors.DiskFull("there is not enough room on the server's disk")

    def parts_of(self, item: Upload, new: Sequence[UploadPart] = ()) -> list[UploadPart]:
        """The objects that hold its bytes; one alone where uploads are files."""
        with self.db.read() as tx:
            parts = upload_store.parts_of(tx, item.id)
        if parts or new:
            return [*parts, *new]
        return [UploadPart(0, item.offset_bytes, item.key)] if item.offset_bytes else []

    def assemble(
        self,
        item: Upload,
        parts: Sequence[UploadPart],
        tick: Callable[[], None],
        digest: _Hash | None = None,
    ) -> Received:
        """All parts as the one object that becomes the source; joined by the storage itself where
        it can. `digest`: of all of them, if somebody has followed them."""
        size_bytes = sum(part.size_bytes for part in parts)
        found = sniff.identify(_head(sink.chunks(self.storage, parts, tick)))
        joined = [storages.Part(part.key, part.size_bytes) for part in parts]
        if self.storage.join(joined, item.key, tick):
            if digest is None:
                digest = _digest_of(sink.chunks(self.storage, parts, tick))
            stored_bytes, sha256 = self.storage.size(item.key), digest.hexdigest()
        else:
            stored = self.storage.put(
                item.key, sink.chunks(self.storage, parts, tick), size_bytes=size_bytes
            )
            stored_bytes, sha256 = stored.size_bytes, stored.sha256
        if stored_bytes != size_bytes:
            raise errors.StorageDown(storages.DOWN, detail=f"{item.key}: a part is not whole")
        return Received(size_bytes=size_bytes, sha256=sha256, found=found)

    def remember(self, id: str, offset_bytes: int, digest: _Hash | None) -> None:
        """So that the next request can go on counting where this one stops."""
        with self._lock:
            self._digests.pop(id, None)
            if digest is not None:
                self._digests[id] = (offset_bytes, digest)
            if len(self._digests) > DIGESTS_KEPT:
                self._digests.popitem(last=False)

    def _digest(self, item: Upload) -> _Hash | None:
        with self._lock:
            offset_bytes, digest = self._digests.pop(item.id, (0, None))
        return digest if offset_bytes == item.offset_bytes else None


class Writer:
    """One request's right to append. `write` and `flush` may run at the same time, each in one
    thread; everything else runs alone."""

    def __init__(
        self, receiver: Receiver, item: Upload, token: str, opened: Sink, checksum: Checksum | None
    ) -> None:
        self.upload = item
        self.received_bytes = 0
        self._intake = receiver
        self._token = token
        self._sink = opened
        self._checksum = checksum
        self._summed = hashlib.new(checksum[0], usedforsecurity=False) if checksum else None
        self._flushed_bytes = 0
        self._began = self._flushed_at = self._renewed_at = time.monotonic()
        # Durable, but not yet in the row.
        self._unpromised: list[UploadPart] = []

    @property
    def end_bytes(self) -> int:
        return self.upload.offset_bytes + self.received_bytes

    @property
    def is_whole(self) -> bool:
        return self.end_bytes == self.upload.length_bytes

    @property
    def is_due(self) -> bool:
        """Whether it is time to flush."""
        waiting = self.received_bytes - self._flushed_bytes
        late = time.monotonic() - self._flushed_at >= FLUSH_SECONDS
        return waiting >= FLUSH_BYTES or (waiting > 0 and late)

    def write(self, data: bytes) -> None:
        """Refuses what is too much before any of it is written."""
        self.check_room(self.received_bytes + len(data))
        first = self.end_bytes == 0 and self.upload.concat is None
        if first and len(data) >= ENOUGH_TO_REFUSE_BYTES:
            sniff.identify(data)
        if self._summed is not None:
            self._summed.update(data)
        self._sink.write(data)
        self.received_bytes += len(data)
        self._intake.metrics.uploaded.inc(len(data))

    def check_room(self, received_bytes: int) -> None:
        end = self.upload.offset_bytes + received_bytes
        uploads.check_size(self._intake.limits, end)
        if self.upload.length_bytes is not None and end > self.upload.length_bytes:
            raise errors.TooLarge("this is more than the upload's length")

    def flush(self) -> None:
        """Make durable and promise what was written; keeps the lease alive."""
        self._flushed_bytes, self._flushed_at = self.received_bytes, time.monotonic()
        if self._checksum is not None:
            self._renew()
        else:
            self._promise(self._sink.sync())
        self._intake.check_space(0)

    def pause(self) -> None:
        """The sender is silent: whoever asks may go on in its place."""
        if self._checksum is None:
            self._sink.settle()
            self._promise(self._sink.sync(), lease_ms=0)
            self._sink.pause()

    def resume(self) -> None:
        """Raises UploadBusy if somebody did."""
        if self._checksum is None:
            self._renew()
            self._sink.resume()

    # The end

    def complete(self) -> Upload:
        """The request has brought all it had: promise it, and finish the upload if it is whole."""
        if self._checksum is not None and self._summed is not None:
            if self._summed.digest() != self._checksum[1]:
                raise errors.WrongChecksum("the bytes do not match their checksum")
            self._checksum = None
        if not self.is_whole:
            kept = self._keep()
            self._ended("partial")
            return kept
        received = self.seal()
        finished = self._intake.db.run(lambda tx: self.commit(tx, received))
        self.close()
        self._intake.remove_spare(finished)
        return finished

    def seal(self) -> Received:
        """All of `complete` that needs no transaction; then come `commit` and `close`."""
        self._sink.settle()
        durable = self._sink.sync()
        self._unpromised += durable.parts
        if self.upload.concat is Concat.PARTIAL:
            return Received(size_bytes=durable.offset_bytes)
        if not self._sink.in_parts:
            return self._inspect(durable.offset_bytes, self._sink.digest)
        parts = self._intake.parts_of(self.upload, self._unpromised)
        return self._intake.assemble(self.upload, parts, self._stay, self._sink.digest)

    def commit(self, tx: Tx, received: Received, options: UploadOptions | None = None) -> Upload:
        receiver = self._intake
        if self._unpromised:
            upload_store.add_parts(tx, self.upload.id, self._unpromised)
        return uploads.finish(
            tx, receiver.queue, receiver.limits, self.upload, self._token, received, options
        )

    def close(self) -> None:
        """After `commit` was committed: nothing here can fail it any more."""
        self._sink.close()
        self._ended("finished")
        if self.upload.concat is None and self._sink.in_parts:
            receiver = self._intake
            with suppress(errors.Unavailable):
                uploads.remove_parts(receiver.db, receiver.storage, self.upload.id, self.upload.key)

    def leave(self, error: BaseException) -> None:
        """The request ends in an error or before its time: what it brought is kept if it may be."""
        try:
            match error:
                case errors.UnsupportedMedia():
                    self._intake.drop(self.upload.id)
                case errors.TooLarge() | errors.WrongChecksum():
                    self._go_back()
                case errors.UploadBusy():
                    pass
                case _ if self._checksum is not None:
                    self._go_back()
                case _:
                    self._keep()
        except errors.RushesError as second:
            # The first one is what the sender hears.
            log.info("an upload was left without a goodbye: %s", second.message)
            self._sink.close()
            # So that the sender need not wait for the end of the lease, which comes by itself.
            with suppress(errors.RushesError):
                self._intake.db.run_step(
                    lambda tx: upload_store.release(tx, self.upload.id, self._token)
                )
        finally:
            self._sink.close()
            self._ended("refused" if isinstance(error, errors.Invalid) else "broken_off")

    def _ended(self, outcome: str) -> None:
        self._intake.metrics.upload_ended(self._began, outcome)

    def _keep(self) -> Upload:
        receiver = self._intake
        self._sink.settle()
        durable = self._held_back(self._sink.sync())
        digest = self._sink.digest
        # Before the row lets go: the next writer has to find the file unlocked.
        self._sink.close()

        def let_go(tx: Tx) -> Upload:
            uploads.advance(tx, receiver.limits, self.upload, self._token, durable)
            upload_store.release(tx, self.upload.id, self._token)
            return uploads.found(tx, self.upload.id, self.upload.user_id)

        kept = receiver.db.run(let_go)
        if durable.offset_bytes == self.end_bytes:
            receiver.remember(kept.id, durable.offset_bytes, digest)
        return kept

    def _go_back(self) -> None:
        """Nothing of this request is kept. The row first: it must never promise what is cut off."""
        limits = self._intake.limits
        self._intake.db.run(lambda tx: uploads.go_back(tx, limits, self.upload, self._token))
        self._sink.cut(self.upload.offset_bytes)

    def _promise(self, durable: Durable, lease_ms: int = uploads.LEASE_MS) -> None:
        limits = self._intake.limits
        durable = self._held_back(durable)
        # One statement unless there is more to write or to count.
        simple = self.upload.length_bytes is not None and not durable.parts
        run = self._intake.db.run_step if simple else self._intake.db.run
        run(lambda tx: uploads.advance(tx, limits, self.upload, self._token, durable, lease_ms))
        self._renewed_at = time.monotonic()

    def _held_back(self, durable: Durable) -> Durable:
        """Whoever hears that all bytes are here takes the upload for finished, so the last of them
        is promised by `commit` alone."""
        parts = [*self._unpromised, *durable.parts]
        self._unpromised = []
        if durable.offset_bytes != self.upload.length_bytes or not self.received_bytes:
            return Durable(durable.offset_bytes, tuple(parts))
        if parts:
            self._unpromised = [parts.pop()]
            return Durable(self._unpromised[0].offset_bytes, tuple(parts))
        return Durable(durable.offset_bytes - 1)

    def _inspect(self, size_bytes: int, digest: _Hash | None) -> Received:
        """A file that is there in one piece: what it is, and its hash if nobody has followed it."""
        part = UploadPart(0, size_bytes, self.upload.key)
        found = sniff.identify(_head(sink.chunks(self._intake.storage, [part], self._stay)))
        if digest is None:
            digest = _digest_of(sink.chunks(self._intake.storage, [part], self._stay))
        return Received(size_bytes=size_bytes, sha256=digest.hexdigest(), found=found)

    def _renew(self) -> None:
        self._intake.db.run_step(lambda tx: uploads.renew(tx, self.upload, self._token))
        self._renewed_at = time.monotonic()

    def _stay(self) -> None:
        if time.monotonic() - self._renewed_at > RENEW_SECONDS:
            self._renew()


def _digest_of(chunks: Iterator[bytes]) -> _Hash:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest


def _head(chunks: Iterator[bytes]) -> bytes:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= sniff.HEAD_BYTES:
            break
    return head
