"""Sending a file by tus 1.0: in chunks, patiently, going on where an earlier run had to stop."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import httpx2

from rushes import errors
from rushes.client.api import Api
from rushes.client.patience import Patience
from rushes.client.unfinished import Unfinished

VERSION = {"Tus-Resumable": "1.0.0"}
MEDIA_ID, OFFSET = "Rushes-Media-Id", "Upload-Offset"
DUPLICATE_OF, DUPLICATE_IN_TRASH = "Rushes-Duplicate-Of", "Rushes-Duplicate-In-Trash"
# The first bytes alone: what the server will not have is refused before much of it was sent.
FIRST_BYTES = 64 * 1024
CHUNK_BYTES = 16 * 2**20
PIECE_BYTES = 256 * 1024
# How long nothing may get through before it is given up; the next run can still go on.
PATIENCE_SECONDS = 600.0


class Progress(Protocol):
    """Who hears how many bytes are through, and of trouble that may pass."""

    def at(self, done: float) -> None: ...

    def say(self, line: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Sent:
    """The duplicates are other media of the same user with the same bytes."""

    media_id: str
    duplicate_of: str | None
    duplicate_in_trash: str | None


class Uploader:
    def __init__(
        self,
        api: Api,
        unfinished: Unfinished,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._unfinished = unfinished
        self._patience_seconds = patience_seconds
        self._sleep = sleep

    def send(self, path: Path, options: Mapping[str, str], task: Progress) -> Sent:
        """Raises Invalid when the server will never take it; OSError when it cannot be read."""
        with path.open("rb") as file:
            source = _Source(file)
            key = self._unfinished.key(
                self._api.where, path, source.size_bytes, source.changed_ns, options
            )
            try:
                sent = self._send(source, key, {"filename": path.name, **options}, task)
            except errors.Invalid:
                self._unfinished.forget(key)
                raise
        self._unfinished.forget(key)
        return sent

    def _send(self, source: _Source, key: str, metadata: Mapping[str, str], task: Progress) -> Sent:
        if known := self._unfinished.find(key):
            try:
                return self._send_rest(source, known, None, task)
            except errors.NotFound:
                # It has expired, or somebody else has signed in.
                pass
        upload_id = self._create(source.size_bytes, metadata, task)
        self._unfinished.note(key, upload_id)
        return self._send_rest(source, upload_id, 0, task)

    def _create(self, size_bytes: int, metadata: Mapping[str, str], task: Progress) -> str:
        headers = {
            **VERSION,
            "Upload-Length": str(size_bytes),
            "Upload-Metadata": _encode(metadata),
        }
        patience = self._patience(task)
        while True:
            try:
                made = self._api.send("POST", "/uploads", headers=headers)
                # The id alone: whoever answered, the token is not for other addresses.
                return str(made.headers["Location"]).rpartition("/")[2]
            except errors.Unavailable as error:
                patience.wait(error)

    def _send_rest(
        self, source: _Source, upload_id: str, offset: int | None, task: Progress
    ) -> Sent:
        """`offset` None: the server knows."""
        patience = self._patience(task)
        while True:
            try:
                if offset is None:
                    answer = self._api.send("HEAD", f"/uploads/{upload_id}", headers=VERSION)
                else:
                    answer = self._append(source, upload_id, offset, task)
                if MEDIA_ID in answer.headers:
                    told = answer.headers
                    return Sent(
                        told[MEDIA_ID], told.get(DUPLICATE_OF), told.get(DUPLICATE_IN_TRASH)
                    )
                before, offset = offset, int(answer.headers[OFFSET])
                if before is not None and offset <= before:
                    raise errors.Unavailable(f"{self._api.where} took none of it")
                task.at(offset)
                patience.got_to(offset)
            except (errors.Conflict, errors.Unavailable, errors.TooMany) as error:
                offset = None
                patience.wait(error)

    def _append(
        self, source: _Source, upload_id: str, offset: int, task: Progress
    ) -> httpx2.Response:
        most = CHUNK_BYTES if offset else FIRST_BYTES
        end = min(source.size_bytes, offset + most)
        headers = {
            **VERSION,
            OFFSET: str(offset),
            "Content-Type": "application/offset+octet-stream",
            "Content-Length": str(end - offset),
        }
        return self._api.send(
            "PATCH",
            f"/uploads/{upload_id}",
            headers=headers,
            content=source.pieces(offset, end, task),
        )

    def _patience(self, task: Progress) -> Patience:
        return Patience(self._patience_seconds, self._sleep, task.say)


class _Source:
    """A file that must stay as it is while it is sent."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        facts = os.fstat(file.fileno())
        self.size_bytes, self.changed_ns = facts.st_size, facts.st_mtime_ns

    def pieces(self, start: int, end: int, task: Progress) -> Iterator[bytes]:
        self._file.seek(start)
        while start < end:
            piece = self._file.read(min(PIECE_BYTES, end - start))
            facts = os.fstat(self._file.fileno())
            if not piece or (facts.st_size, facts.st_mtime_ns) != (
                self.size_bytes,
                self.changed_ns,
            ):
                raise errors.Invalid("it changed while it was sent: try again when it is finished")
            yield piece
            start += len(piece)
            task.at(start)


def _encode(metadata: Mapping[str, str]) -> str:
    # A name of a file may hold bytes that are no text.
    pairs = {name: value.encode("utf-8", "replace") for name, value in metadata.items()}
    return ",".join(f"{name} {base64.b64encode(v).decode()}" for name, v in pairs.items() if v)
