"""The server's watch folder: its files come in as uploads of one user do."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from rushes import errors
from rushes.accounts import access
from rushes.accounts import store as accounts
from rushes.db.database import Database
from rushes.folders import Facts, FolderWatcher, Found, Notes, Outcome
from rushes.media.media import Origin
from rushes.media.pipeline import Cause, priority_for
from rushes.settings import Settings
from rushes.uploads.receiver import Receiver, Writer
from rushes.uploads.upload import Metadata

CHUNK_BYTES = 2**20


def watcher(settings: Settings, receiver: Receiver) -> FolderWatcher | None:
    """BadSetting when there is a folder that cannot be watched."""
    if not settings.watch_dir:
        return None
    root = Path(settings.watch_dir)
    _check(root, settings.data_dir)
    user_id = _owner(receiver.db, settings.watch_user)
    digest = hashlib.sha256(f"{root.absolute()}\0{user_id}".encode()).hexdigest()[:16]
    made: FolderWatcher
    made = FolderWatcher(
        root,
        lambda file: take(receiver, user_id, file, lambda: made.is_stopping),
        Notes(settings.data_dir / f"watched-{digest}.jsonl"),
        after=settings.watch_after,
        settle_seconds=settings.watch_settle,
    )
    return made


def _check(root: Path, data_dir: Path) -> None:
    if not root.is_dir():
        raise errors.BadSetting("RUSHES_WATCH_DIR: there is no such folder")
    real, data = root.resolve(), data_dir.resolve()
    if real.is_relative_to(data) or data.is_relative_to(real):
        raise errors.BadSetting(
            "RUSHES_WATCH_DIR: must be apart from RUSHES_DATA_DIR, neither in it nor around it"
        )


def _owner(db: Database, name: str) -> str:
    if not name:
        return access.as_admin(db).user_id
    with db.read() as tx:
        row = accounts.user_by_name(tx, name)
    if row is None:
        raise errors.BadSetting("RUSHES_WATCH_USER: there is no such user")
    return str(row.id)


def take(receiver: Receiver, user_id: str, file: Found, is_stopping: Callable[[], bool]) -> Outcome:
    """Unavailable when it changes meanwhile, or the server is about to stop."""
    # Whatever is there now must be the file that was found inside of the folder.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(file.path, flags)
    with open(descriptor, "rb", buffering=0) as source:
        _check_same(descriptor, file)
        metadata: Metadata = {
            "filename": file.path.name.encode("utf-8", "replace"),
            "skip_duplicates": b"true",
            "priority": priority_for(Cause.BULK).encode(),
            "origin": Origin.WATCH.encode(),
            "folder": file.folder.encode("utf-8", "replace"),
        }

        def fill(writer: Writer) -> None:
            _copy(source.read, writer, is_stopping)
            _check_same(descriptor, file)

        done = receiver.take(user_id, metadata, file.facts.size_bytes, fill)
    return Outcome.DUPLICATE if done.is_spare else Outcome.TAKEN


def _copy(
    read: Callable[[int], bytes | None], writer: Writer, is_stopping: Callable[[], bool]
) -> None:
    while chunk := read(CHUNK_BYTES):
        if is_stopping():
            raise errors.Unavailable("the server is stopping")
        writer.write(chunk)
        if writer.is_due:
            writer.flush()


def _check_same(descriptor: int, file: Found) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or Facts.of(found) != file.facts:
        raise errors.Unavailable("it has changed meanwhile")
