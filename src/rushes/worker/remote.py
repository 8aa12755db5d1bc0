"""The protocol over HTTP: the other transport of `protocol.Coordinator`, for workers anywhere.

Answers have three meanings: 2xx done, 409 the claim is gone (stop, never repeat), and anything that
says nothing about the claim (5xx, no connection, no answer in time) is Unavailable: repeat.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec

from rushes import correlation, errors
from rushes.protocol import (
    VERBS,
    Artifact,
    Assignment,
    Claim,
    Coordinator,
    Excerpt,
    Hello,
    Presigned,
    Source,
    Terms,
)
from rushes.records import JsonObject
from rushes.verbs import Verb

log = logging.getLogger("rushes.worker")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
# A file may take as long as it takes; silence may not.
FILE_SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024
# One CopyObject takes no more; larger files go through the server.
PRESIGN_LIMIT_BYTES = 4 * 2**30
# What the first version of the protocol knew, and for how long no more than that is said to a
# server that knows no more.
FIRST_VERSION = {
    "hello": ("kinds", "capabilities", "metadata", "boot_id"),
    "claim": ("limit", "wait_seconds", "request_id", "boot_id"),
    "heartbeat": ("claims", "stalled", "answered"),
}
PLAIN_SECONDS = 600.0
CLAIM_HEADER = "Rushes-Claim"
STRANGER = "what answers there is not a Rushes server"

CONFLICTS: dict[str, type[errors.Conflict]] = {
    each.code: each
    for each in (
        errors.ClaimLost,
        errors.CancelRequested,
        errors.ManifestMismatch,
        errors.WrongState,
        errors.AlreadyExists,
    )
}


def servers_in(text: str) -> list[str]:
    """The addresses of servers that share a database, separated by commas."""
    return [each.strip().rstrip("/") for each in text.split(",") if each.strip()]


class Remote(Coordinator):
    """One worker's connection to a server, or to several that share a database: another one is
    asked when one cannot be reached, or says that it cannot do it now."""

    def __init__(self, server: str, key: str, *, transport: httpx2.BaseTransport | None = None):
        """`server`: one address, or several separated by commas."""
        self._servers = servers_in(server)
        self._number = 0
        self._http = httpx2.Client(
            headers={"Authorization": f"Bearer {key}", "User-Agent": "rushes-worker"},
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            transport=transport,
        )
        self._transport = transport
        self._interrupted = threading.Event()
        self._boot_id: str | None = None
        self._plain_until = 0.0

    @cached_property
    def _plain(self) -> httpx2.Client:
        """For a storage's presigned addresses, which must not see the key."""
        timeout = httpx2.Timeout(FILE_SECONDS, connect=CONNECT_SECONDS)
        return httpx2.Client(timeout=timeout, transport=self._transport)

    def call(self, verb: Verb, arguments: JsonObject, seconds: float = 0) -> Any:
        """`seconds`: how much longer than usual the answer may take. A server from before versions
        were told, which may stand beside a newer one, refuses what it does not know: then that is
        left out, for a while."""
        # What is as if it were not said is not.
        given = {
            name: value
            for name, value in arguments.items()
            if verb.parameters[name].is_required or value != verb.parameters[name].default
        }
        said = verb.told(given)
        first = {name: said[name] for name in FIRST_VERSION.get(verb.name, said) if name in said}
        if first == said or not self.is_understood:
            return self._say(verb, first, seconds)
        try:
            return self._say(verb, said, seconds)
        except errors.Invalid:
            answer = self._say(verb, first, seconds)
            self._plain_until = time.monotonic() + PLAIN_SECONDS
            return answer

    @property
    def is_understood(self) -> bool:
        return time.monotonic() >= self._plain_until

    def _say(self, verb: Verb, told: JsonObject, seconds: float) -> Any:
        said = dict(told)
        path, headers = verb.path, {}
        if verb.by_header:
            path = path.replace("{job_id}", said.pop("job_id"))
            headers = {CLAIM_HEADER: said.pop("claim_id")}
        seconds += FILE_SECONDS if verb.slow else ANSWER_SECONDS
        if verb.method == "POST":
            headers["Content-Type"] = "application/json"
            content = msgspec.json.encode(said)
            answer = self._send("POST", path, content=content, headers=headers, seconds=seconds)
        else:
            answer = self._send(verb.method, path, headers=headers, seconds=seconds)
        try:
            reply = answer.json()
            return msgspec.convert(reply[verb.reply] if verb.reply else reply, verb.returns)
        except (ValueError, KeyError, TypeError) as error:
            raise errors.Unavailable(STRANGER, detail=f"{STRANGER}: {error}") from None

    def hello(self, hello: Hello) -> Terms | None:
        terms = super().hello(hello)
        if (
            terms
            and not terms.upgrade
            and (left_out := sorted(set(hello.kinds) - set(terms.kinds)))
        ):
            log.warning("this worker's key is not for %s", ", ".join(left_out))
        self._boot_id = hello.boot_id
        self.worker_id = terms.worker_id if terms else None
        return terms

    def claim(
        self,
        limit: int = 1,
        wait_seconds: float = 0,
        request_id: str | None = None,
        boot_id: str | None = None,
        kinds: Sequence[str] | None = None,
        terms_etag: str | None = None,
        answered: Sequence[str] = (),
    ) -> list[Assignment]:
        if self._interrupted.is_set():
            return []
        asked: dict[str, Any] = {
            "limit": limit,
            "wait_seconds": wait_seconds,
            "request_id": request_id,
        }
        asked["boot_id"] = boot_id or self._boot_id
        asked |= {"kinds": kinds, "terms_etag": terms_etag, "answered": answered}
        found: list[Assignment] = self.call(VERBS["claim"], asked, seconds=wait_seconds)
        return found

    # Files

    def source(
        self, claim: Claim, media_id: str | None = None, excerpt: Excerpt | None = None
    ) -> Source:
        asked = _job(claim, media_id, excerpt)
        answer = self._send("HEAD", "/source", params=asked, headers=_proof(claim))
        return Source(
            file_name="",
            size_bytes=int(answer.headers["rushes-source-size"]),
            sha256=answer.headers.get("rushes-source-sha256"),
        )

    def read_source(
        self,
        claim: Claim,
        start: int,
        media_id: str | None = None,
        excerpt: Excerpt | None = None,
    ) -> Iterator[bytes]:
        asked = _job(claim, media_id, excerpt)
        headers = {**_proof(claim), **_trace(), "Range": f"bytes={start}-"}
        with (
            self._failing_over(),
            _renamed(),
            self._http.stream(
                "GET", self._url("/source"), params=asked, headers=headers, timeout=FILE_SECONDS
            ) as answer,
        ):
            if not answer.has_redirect_location:
                yield from _chunks(answer)
                return
            address = answer.headers["location"]
        ranged = {"Range": headers["Range"]}
        with _storage_renamed(), self._plain.stream("GET", address, headers=ranged) as answer:
            yield from _chunks_of_storage(answer, start)

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        size, sha256, md5 = _digests(content)
        past = self.presign(claim, name) if size <= PRESIGN_LIMIT_BYTES else Presigned()
        if past.url and past.ticket:
            self._put_past_the_server(past.url, content, size)
            return self.confirm(claim, name, past.ticket, size, sha256, md5, seconds)
        headers = {**_proof(claim), "Rushes-SHA256": sha256, "Content-Length": str(size)}
        answer = self._send(
            "PUT",
            f"/artifacts/{claim.job_id}/{quote(name)}",
            params={} if seconds is None else {"seconds": seconds},
            headers=headers,
            content=_stream(content),
            seconds=FILE_SECONDS,
        ).json()
        return msgspec.convert(answer, Artifact)

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        self._http.close()
        if "_plain" in self.__dict__:
            self._plain.close()

    def _put_past_the_server(self, url: str, content: bytes | Path, size: int) -> None:
        with _storage_renamed():
            headers = {"Content-Length": str(size)}
            answer = self._plain.put(url, content=_stream(content), headers=headers)
        _check_storage(answer)

    def _send(
        self, method: str, path: str, *, seconds: float = ANSWER_SECONDS, **options: Any
    ) -> httpx2.Response:
        timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
        options["headers"] = {**options.get("headers", {}), **_trace()}
        with self._failing_over():
            answer = self._reached(method, path, timeout=timeout, **options)
            _check_sender(answer)
            _check(answer)
            return answer

    def _reached(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """From the first server that can be reached at all: it has not heard a word before."""
        with _renamed():
            for _ in self._servers[1:]:
                try:
                    return self._http.request(method, self._url(path), **options)
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    self._turn_to_next()
            return self._http.request(method, self._url(path), **options)

    @contextmanager
    def _failing_over(self) -> Iterator[None]:
        """Whoever asks again asks another server."""
        number = self._number
        try:
            yield
        except errors.Unavailable:
            if self._number == number:
                self._turn_to_next()
            raise

    def _turn_to_next(self) -> None:
        if len(self._servers) > 1:
            self._number = (self._number + 1) % len(self._servers)
            log.info("turning to %s", self._servers[self._number])

    def _url(self, path: str) -> str:
        return f"{self._servers[self._number]}/api/v1/worker{path}"


def join(server: str, code: str, name: str) -> tuple[str, str]:
    """Use a join code up: the worker's id and its key. `server` as of `Remote`."""
    return _enter(servers_in(server), "join", {"code": code, "name": name}, {})


def register(server: str, admin_secret: str, name: str) -> tuple[str, str]:
    """The same for whoever knows the admin secret of the server's settings."""
    return _enter(servers_in(server), "register", {"name": name}, {"X-Admin-Secret": admin_secret})


def _enter(
    servers: list[str], verb: str, said: dict[str, str], headers: dict[str, str]
) -> tuple[str, str]:
    first, *others = servers
    try:
        with _renamed():
            answer = httpx2.post(
                f"{first}/api/v1/worker/{verb}", json=said, headers=headers, timeout=ANSWER_SECONDS
            )
    except errors.Unavailable as error:
        # What has got no connection has not used a code up.
        if others and isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
            return _enter(others, verb, said, headers)
        raise
    _check_sender(answer)
    _check(answer)
    made = answer.json()
    return made["worker_id"], made["key"]


class _renamed:
    """The client library's errors leave in our words."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
            raise errors.Unavailable("the server cannot be reached", detail=str(error)) from error


class _storage_renamed:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
            raise errors.StorageDown(
                "the storage cannot be reached from this worker", detail=str(error)
            ) from error


def _check_sender(answer: httpx2.Response) -> None:
    """What stands in between, such as a proxy, knows nothing of claims."""
    if answer.has_redirect_location:
        there = answer.headers["location"].partition("?")[0]
        raise errors.Invalid(f"the server's address leads elsewhere, to {there}")
    ours = answer.headers.get("content-type", "") == "application/problem+json"
    if answer.is_error and not ours and answer.request.method != "HEAD":
        raise errors.Unavailable(STRANGER, detail=f"{STRANGER} (HTTP {answer.status_code})")


def _check(answer: httpx2.Response) -> None:
    if answer.is_success:
        return
    try:
        said = answer.json() if answer.read() else {}
    except ValueError:
        said = {}
    code, message = said.get("code", ""), said.get("detail", f"HTTP {answer.status_code}")
    match answer.status_code:
        case 409:
            # An answer to HEAD has no body to say more.
            raise CONFLICTS.get(code, errors.Conflict if code else errors.ClaimLost)(message)
        case 404:
            raise errors.NotFound(message)
        case 401:
            raise errors.Unauthorized(message)
        case 403:
            raise errors.Denied(message)
        case 507:
            raise errors.DiskFull(message)
        case 503 if code == errors.StorageDown.code:
            raise errors.StorageDown(message)
        case status if status >= 500 or status in (408, 429):
            raise errors.Unavailable(message)
        case _:
            raise errors.Invalid(message)


def _chunks(answer: httpx2.Response) -> Iterator[bytes]:
    if answer.status_code == 416:
        return
    _check(answer)
    yield from answer.iter_bytes(CHUNK_BYTES)


def _chunks_of_storage(answer: httpx2.Response, start: int) -> Iterator[bytes]:
    if answer.status_code == 416:
        return
    _check_storage(answer)
    begins = re.match(r"bytes (\d+)-", answer.headers.get("content-range", ""))
    if (int(begins[1]) if begins else 0) != start:
        raise errors.StorageDown("the storage gave another part of the source than was asked for")
    yield from answer.iter_bytes(CHUNK_BYTES)


def _check_storage(answer: httpx2.Response) -> None:
    """Whatever a storage answers, it says nothing about the claim."""
    if answer.is_success:
        return
    answer.read()
    detail = f"HTTP {answer.status_code} {answer.text[:500]}"
    match answer.status_code:
        case 403:
            # A link is good for no longer than the lease was when it was asked for.
            said = "the storage refuses a link: it is too old, or the server's clock is wrong"
        case 404 if "NoSuchKey" in answer.text:
            raise errors.NotFound("the storage has no such file", detail=detail)
        case status if answer.has_redirect_location:
            said = f"the storage leads elsewhere (HTTP {status}), which is not followed"
        case status:
            said = f"the storage is in trouble (HTTP {status})"
    raise errors.StorageDown(said, detail=detail)


def _job(claim: Claim, media_id: str | None, excerpt: Excerpt | None) -> dict[str, str]:
    asked = {"job_id": claim.job_id, "media_id": media_id}
    if excerpt is not None:
        asked |= {"rendition": excerpt.rendition, "from_seconds": str(excerpt.start)}
        asked |= {"to_seconds": None if excerpt.end is None else str(excerpt.end)}
    return {name: value for name, value in asked.items() if value is not None}


def _proof(claim: Claim) -> dict[str, str]:
    """In a header, since addresses end up in logs."""
    return {CLAIM_HEADER: claim.claim_id}


def _trace() -> dict[str, str]:
    """So that what the server does is part of the trace that the job belongs to."""
    trace = correlation.trace()
    return {"traceparent": trace} if trace else {}


def _digests(content: bytes | Path) -> tuple[int, str, str]:
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    for chunk in _stream(content):
        sha256.update(chunk)
        md5.update(chunk)
        size += len(chunk)
    return size, sha256.hexdigest(), md5.hexdigest()


def _stream(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
