"""The verbs of uploads: an upload is a row that counts durable bytes, and in the end a media.

One writer at a time holds it, by a token and a short lease; whatever a writer changes is guarded by
its token. The bytes themselves are `receiver`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from rushes import errors, ids
from rushes.db.database import Database, Tx
from rushes.jobs.queue import Queue
from rushes.limits import refuse_beyond
from rushes.media import labels, library, profiles, speech_profiles
from rushes.media import store as media_store
from rushes.media.media import NewMedia, Twins
from rushes.settings import Settings
from rushes.storage.storage import Storage
from rushes.uploads import sniff, upload
from rushes.uploads import store as upload_store
from rushes.uploads.upload import Concat, Durable, Metadata, Upload, UploadOptions

# Longer than a pause of the machine, shorter than people wait before they try again.
LEASE_MS = 10_000
# For so long somebody who missed the answer can still ask how it ended.
REMEMBERED_MS = 7 * 86_400_000
PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """0 means no limit."""

    max_bytes: int = 0
    quota_bytes: int = 0
    min_free_bytes: int = 0
    unfinished: int = 0
    lasts_ms: int = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """All the bytes of an upload, durable under its key."""

    size_bytes: int
    sha256: str | None = None
    found: sniff.Found = sniff.UNKNOWN


def limits_of(settings: Settings) -> UploadLimits:
    return UploadLimits(
        max_bytes=settings.max_upload_size,
        quota_bytes=settings.user_quota,
        min_free_bytes=settings.min_free_space,
        unfinished=settings.user_uploads,
        lasts_ms=int(settings.upload_expiry * 1000),
    )


def create(
    tx: Tx,
    limits: UploadLimits,
    user_id: str,
    *,
    length_bytes: int | None,
    metadata: Metadata,
    concat: Concat | None = None,
) -> Upload:
    check_size(limits, length_bytes or 0)
    if concat is None:
        _check_options(tx, metadata)
    unfinished = upload_store.count_unfinished(tx, user_id, limits.unfinished)
    refuse_beyond(unfinished + 1, limits.unfinished, "unfinished uploads")
    created = _insert(tx, limits, user_id, length_bytes, metadata, concat=concat)
    check_quota(tx, limits, user_id)
    return created


def create_final(
    tx: Tx,
    limits: UploadLimits,
    user_id: str,
    partial_ids: list[str],
    metadata: Metadata,
    writer: str,
) -> tuple[Upload, list[Upload]]:
    """An upload to be made of partial ones, and these; if it was made before, it is finished."""
    parts = msgspec.json.encode(partial_ids).decode()
    if made := upload_store.made_of(tx, parts, user_id):
        return made, []
    if len(set(partial_ids)) != len(partial_ids):
        raise errors.BadField("Upload-Concat", "names an upload twice")
    found = upload_store.get_many(tx, partial_ids, user_id)
    partials = [found[id] for id in partial_ids if id in found]
    if len(partials) < len(partial_ids) or any(each.concat is None for each in partials):
        raise errors.BadField("Upload-Concat", "names an upload that is not a partial one of yours")
    if any(each.finished_at is None for each in partials):
        raise errors.WrongState("a partial upload is not finished yet")
    length_bytes = sum(each.offset_bytes for each in partials)
    check_size(limits, length_bytes)
    _check_options(tx, metadata)
    final = _insert(
        tx,
        limits,
        user_id,
        length_bytes,
        metadata,
        concat=Concat.FINAL,
        parts=parts,
        writer=writer,
    )
    return final, partials


def _insert(
    tx: Tx,
    limits: UploadLimits,
    user_id: str,
    length_bytes: int | None,
    metadata: Metadata,
    *,
    concat: Concat | None,
    parts: str | None = None,
    writer: str | None = None,
) -> Upload:
    id = ids.new("upl")
    new = Upload(
        id=id,
        user_id=user_id,
        key=f"sources/{id}",
        length_bytes=length_bytes,
        metadata=upload.encode_metadata(metadata),
        concat=concat,
        parts=parts,
        writer=writer,
    )
    return upload_store.insert(tx, new, limits.lasts_ms)


def _check_options(tx: Tx, metadata: Metadata) -> None:
    asked = upload.options_of(metadata).processing
    profiles.resolve(tx, asked.profile)
    speech_profiles.options(tx, asked.transcription_profile, field="transcription_profile")


def check_size(limits: UploadLimits, size_bytes: int) -> None:
    if limits.max_bytes and size_bytes > limits.max_bytes:
        raise errors.TooLarge(f"a file may have at most {limits.max_bytes} bytes")


def check_quota(tx: Tx, limits: UploadLimits, user_id: str) -> None:
    """After the change that it is about; raising undoes that. Those who count take turns, and each
    sees what was committed before it, so together they cannot exceed the quota either."""
    own = upload_store.lock_user(tx, user_id)
    quota = limits.quota_bytes if own is None else own
    if quota and media_store.used_bytes(tx, user_id) > quota:
        raise errors.TooLarge("there is not enough room left in your quota")


def found(tx: Tx, id: str, user_id: str | None) -> Upload:
    """NotFound also for what is somebody else's; Gone for what was terminated or has expired."""
    item = upload_store.get(tx, id, user_id)
    if item is None:
        raise errors.NotFound("no such upload")
    if item.is_over:
        raise errors.Gone("this upload was terminated or has expired")
    return item


def older_twins(tx: Tx, item: Upload) -> Twins:
    """What the same user had of the same bytes."""
    media = media_store.get(tx, item.media_id) if item.media_id else None
    if media is None:
        return Twins()
    if media.source_key != item.key:
        # It came to nothing but this.
        return Twins(seen=[media.id])
    found = media_store.twins(tx, media)
    return Twins(
        seen=[twin for twin in found.seen if twin < media.id],
        trashed=[twin for twin in found.trashed if twin < media.id],
    )


# Writing


def take(
    tx: Tx,
    limits: UploadLimits,
    id: str,
    user_id: str,
    *,
    writer: str,
    offset_bytes: int,
    length_bytes: int | None = None,
    body_bytes: int | None = None,
) -> Upload:
    """The right to append. Raises before anything is written if `body_bytes` would be too much."""
    # A length that is reached already is for `finish` to write down.
    later = length_bytes is not None and length_bytes <= offset_bytes
    taken = upload_store.take(
        tx,
        id,
        user_id,
        offset_bytes=offset_bytes,
        length_bytes=None if later else length_bytes,
        writer=writer,
        lease_ms=LEASE_MS,
    )
    if taken is None:
        raise _why_not(found(tx, id, user_id), offset_bytes)
    if length_bytes is not None:
        if taken.length_bytes not in (None, length_bytes) or length_bytes < offset_bytes:
            raise errors.BadField("Upload-Length", "does not fit what was said or sent before")
        check_size(limits, length_bytes)
        check_quota(tx, limits, user_id)
        taken = replace(taken, length_bytes=length_bytes)
    end = offset_bytes + (body_bytes or 0)
    check_size(limits, end)
    if taken.length_bytes is not None and end > taken.length_bytes:
        raise errors.TooLarge("this is more than the upload's length")
    return taken


def _why_not(item: Upload, offset_bytes: int) -> errors.RushesError:
    if not item.held and item.offset_bytes != offset_bytes:
        return errors.WrongOffset(item.offset_bytes)
    if item.concat is Concat.FINAL or item.finished_at is not None:
        return errors.WrongState("this upload takes no bytes")
    return errors.UploadBusy("another connection is writing to this upload")


def advance(
    tx: Tx,
    limits: UploadLimits,
    item: Upload,
    writer: str,
    durable: Durable,
    lease_ms: int = LEASE_MS,
) -> None:
    held = upload_store.advance(
        tx,
        item.id,
        writer,
        offset_bytes=durable.offset_bytes,
        lease_ms=lease_ms,
        lasts_ms=limits.lasts_ms,
    )
    _require(held)
    if durable.parts:
        upload_store.add_parts(tx, item.id, durable.parts)
    if item.length_bytes is None:
        check_quota(tx, limits, item.user_id)


def go_back(tx: Tx, limits: UploadLimits, item: Upload, writer: str) -> None:
    """To where this writer began."""
    upload_store.drop_parts(tx, item.id, item.offset_bytes)
    held = upload_store.advance(
        tx,
        item.id,
        writer,
        offset_bytes=item.offset_bytes,
        lease_ms=0,
        lasts_ms=limits.lasts_ms,
    )
    _require(held)


def renew(tx: Tx, item: Upload, writer: str) -> None:
    _require(upload_store.renew(tx, item.id, writer, LEASE_MS))


def _require(held: bool) -> None:
    if not held:
        raise errors.UploadBusy("another connection went on with this upload, or it was ended")


def clear_writers(tx: Tx) -> None:
    """When the only server starts: whoever wrote before is gone."""
    upload_store.clear_writers(tx)


# The end


def finish(
    tx: Tx,
    queue: Queue,
    limits: UploadLimits,
    item: Upload,
    writer: str,
    received: Received,
    options: UploadOptions | None = None,
) -> Upload:
    """The media with its first jobs, and the upload's end, in the caller's transaction."""
    media_id = twin_id = None
    if upload_store.is_disabled(tx, item.user_id):
        raise errors.Unauthorized("this account is disabled")
    if item.concat is not Concat.PARTIAL:
        options = options or _accepted_options(tx, item)
        twin_id = _twin(tx, item, received) if options.skip_duplicates else None
        media_id = twin_id or library.add(tx, queue, _media(item, received, options))
        labels.put_in_folder(tx, item.user_id, media_id, options.folder)
    finished = upload_store.finish(
        tx,
        item.id,
        writer,
        length_bytes=received.size_bytes,
        media_id=media_id,
        lasts_ms=limits.lasts_ms,
    )
    _require(finished is not None)
    assert finished is not None
    if item.concat is Concat.FINAL:
        if len(upload_store.end(tx, item.partial_ids)) < len(item.partial_ids):
            raise errors.WrongState("a partial upload was used or ended in the meantime")
    elif item.length_bytes is None:
        check_quota(tx, limits, item.user_id)
    return replace(finished, is_spare=twin_id is not None)


def _twin(tx: Tx, item: Upload, received: Received) -> str | None:
    """Those who ask take turns: of two that come at once, the second finds the first."""
    upload_store.lock_user(tx, item.user_id)
    if received.sha256 is None:
        return None
    return media_store.same_content(tx, item.user_id, received.sha256)


def _accepted_options(tx: Tx, item: Upload) -> UploadOptions:
    """They were right when the upload began. A profile that was removed since must not cost
    anybody an upload that has arrived whole."""
    options = upload.options_of(upload.decode_metadata(item.metadata))
    asked = options.processing
    if profiles.get(tx, asked.profile or profiles.DEFAULT) is None:
        asked = replace(asked, profile=None)
    if asked.transcription_profile and not speech_profiles.get(tx, asked.transcription_profile):
        asked = replace(asked, transcription_profile=None)
    return replace(options, processing=asked)


def _media(item: Upload, received: Received, options: UploadOptions) -> NewMedia:
    return NewMedia(
        user_id=item.user_id,
        title=options.title,
        file_name=options.file_name,
        kind=received.found.kind,
        content_type=received.found.content_type,
        size_bytes=received.size_bytes,
        sha256=received.sha256,
        source_key=item.key,
        options=options.processing,
        forget_after_ms=options.forget_after_ms,
        origin=options.origin,
    )


def terminate(tx: Tx, id: str, user_id: str | None) -> Upload:
    """Whoever writes to it is fenced off."""
    item = found(tx, id, user_id)
    if not upload_store.end(tx, [id]):
        raise errors.WrongState("this upload has become a media: delete that instead")
    return item


def expire(db: Database, storage: Storage) -> int:
    """A chore: end what is overdue, then remove the bytes of all that is over. Bytes go before the
    note that they are gone, so a crash in between only means that it is done again."""
    ended = db.run(lambda tx: upload_store.end(tx, upload_store.overdue(tx, PAGE)))
    with db.read() as tx:
        over = upload_store.to_remove(tx, PAGE)
        assembled = upload_store.with_leftovers(tx, PAGE)
    for row in over:
        remove(db, storage, row.id, row.key)
    for row in assembled:
        remove_parts(db, storage, row.id, row.key)
    db.run(lambda tx: upload_store.forget(tx, REMEMBERED_MS))
    return len(ended)


def remove(db: Database, storage: Storage, id: str, key: str) -> None:
    """Only of an upload that was ended: then these bytes are nobody's source."""
    storage.delete([key])
    remove_parts(db, storage, id, key)
    db.run(lambda tx: upload_store.mark_removed(tx, id))


def remove_parts(db: Database, storage: Storage, id: str, key: str) -> None:
    storage.delete([entry.key for entry in storage.list(f"{key}.parts")])
    db.run(lambda tx: upload_store.forget_parts(tx, id))
