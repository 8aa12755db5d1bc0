"""Answering with a file or a part of it: one range, ETags, and few large reads.

Several ranges at once are answered with the whole file, as the standard allows: nobody plays media
like that, and servers that assemble them can be made to work very hard.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Content, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rushes.storage.storage import Storage
from rushes.web.http import problems
from rushes.web.http.executors import READS, in_thread
from rushes.web.http.storage_links import StorageLinks

CHUNK_BYTES = 512 * 1024
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LONGEST_NAME = 600
RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


def from_storage(
    request: Request,
    storage: Storage,
    key: str,
    size: int,
    *,
    content_type: str = "application/octet-stream",
    etag: str | None = None,
    headers: Mapping[str, str] | None = None,
    links: StorageLinks | None = None,
) -> Response:
    """`etag` without quotes. Raises NotFound if the object is not there. With `links` the storage
    sends what it may; HEAD is answered here, since a link is good for GET alone."""
    given = {**(headers or {}), "Accept-Ranges": "bytes", "Content-Type": content_type}
    if etag is not None:
        given["ETag"] = f'"{etag}"'
        if _matches(request.headers.get("if-none-match"), etag):
            return Response(status_code=304, headers=given)
    if links and request.method == "GET" and (sent := links.redirect(key, content_type, given)):
        return sent
    start, end, status = 0, size, 200
    asked = request.headers.get("range")
    if asked is not None and request.method == "GET" and _may_range(request, etag):
        part = _parse(asked, size)
        if part == (0, 0):
            there = {"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"}
            said = "the file has no such part"
            return problems.answer(request, 416, "bad_range", said, headers=there)
        if part is not None:
            (start, end), status = part, 206
            given["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    given["Content-Length"] = str(end - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=given)
    if path := storage.local_path(key):
        return _FileResponse(path, start, end, status, given)
    return _StoredResponse(storage.aread(key, start, end), status, given)


def from_several(
    request: Request,
    storage: Storage,
    objects: Sequence[tuple[str, int]],
    *,
    size_header: str,
) -> Response:
    """Objects of these keys and sizes, one after the other as one file."""
    size = sum(each for _, each in objects)
    given = {size_header: str(size), "Content-Type": "application/octet-stream"}
    if request.method == "HEAD":
        return Response(headers=given)
    start, end, status = 0, size, 200
    part = _parse(request.headers.get("range", ""), size)
    if part == (0, 0):
        return problems.answer(request, 416, "bad_range", "the file has no such part")
    if part is not None:
        (start, end), status = part, 206
        given["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    given["Content-Length"] = str(end - start)
    return _StoredResponse(_joined(storage, objects, start, end), status, given)


async def _joined(
    storage: Storage, objects: Sequence[tuple[str, int]], start: int, end: int
) -> AsyncIterator[bytes]:
    begin = 0
    for key, size in objects:
        first, last = max(start - begin, 0), min(end - begin, size)
        if first < last:
            async for chunk in storage.aread(key, first, last):
                yield chunk
        begin += size


def from_text(request: Request, text: str | bytes, headers: Mapping[str, str]) -> Response:
    """What is written anew for each request: too short for parts, but often still the same."""
    content = text if isinstance(text, bytes) else text.encode()
    etag = hashlib.sha256(content).hexdigest()
    given = {**headers, "ETag": f'"{etag}"'}
    if _matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=given)
    given["Content-Length"] = str(len(content))
    return Response(None if request.method == "HEAD" else content, headers=given)


class _StoredResponse(StreamingResponse):
    """A part of an object. The first bytes are there before the answer begins, so that a storage
    in trouble, too, is an error and not half an answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chunks = aiter(self.body_iterator)
        first = await anext(chunks, b"")
        self.body_iterator = _after(first, chunks)
        await super().__call__(scope, receive, send)


async def _after(first: Content, rest: AsyncIterator[Content]) -> AsyncIterator[Content]:
    yield first
    async for chunk in rest:
        yield chunk


class _FileResponse(StreamingResponse):
    """A part of a file. It is opened before the answer begins, so that a missing one is an error
    and not half an answer, and closed however early the client leaves."""

    def __init__(
        self, path: Path, start: int, end: int, status: int, headers: Mapping[str, str]
    ) -> None:
        self._file = os.open(path, READ)
        super().__init__(self._chunks(start, end), status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._file)

    async def _chunks(self, start: int, end: int) -> AsyncIterator[bytes]:
        while start < end:
            size = min(CHUNK_BYTES, end - start)
            chunk = await in_thread(READS, os.pread, self._file, size, start)
            if not chunk:
                return
            start += len(chunk)
            yield chunk


def _parse(header: str, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; (0, 0) for a part that is not there, None for a
    header that asks for something else."""
    match = RANGE.fullmatch(header.replace(" ", ""))
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        start, end = max(0, size - int(match[2])), size
    else:
        start, end = int(match[1]), int(match[2]) + 1 if match[2] else size
    end = min(end, size)
    return (start, end) if start < end else (0, 0)


def _may_range(request: Request, etag: str | None) -> bool:
    """`If-Range`: a part only if it is a part of the same file."""
    condition = request.headers.get("if-range")
    return condition is None or (etag is not None and condition == f'"{etag}"')


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    tags = {each.strip().removeprefix("W/") for each in header.split(",")}
    return "*" in tags or f'"{etag}"' in tags


def attachment(name: str) -> str:
    """`Content-Disposition` for a name that may be anything at all."""
    plain = "".join(
        char if (char.isascii() and char.isalnum()) or char in "._- " else "_" for char in name
    )
    exact = ""
    for char in name:
        coded = quote(char, safe="", errors="replace") if char.isprintable() else "_"
        if len(exact) + len(coded) > LONGEST_NAME:
            break
        exact += coded
    return f"attachment; filename=\"{plain[:150]}\"; filename*=UTF-8''{exact}"
