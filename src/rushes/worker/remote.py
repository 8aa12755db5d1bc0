"""The protocol over HTTP: the other transport of `protocol.Coordinator`, for workers anywhere.

Answers have three meanings: 2xx done, 409 the claim is gone (stop, never repeat), and anything that
says nothing about the claim (5xx, no connection, no answer in time) is Unavailable: repeat.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec

from rushes import errors, protocol
from rushes.protocol import Artifact, Assignment, Beat, Claim, Completion, Part, Progress, Source

log = logging.getLogger("rushes.worker")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
# A file may take as long as it takes; silence may not.
FILE_SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024
# One CopyObject takes no more; larger files go through the server.
PRESIGN_LIMIT_BYTES = 4 * 2**30
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


class Remote:
    """One worker's connection to a server."""

    def __init__(self, server: str, key: str, *, transport: httpx2.BaseTransport | None = None):
        self._http = httpx2.Client(
            base_url=f"{server.rstrip('/')}/api/v1/worker",
            headers={"Authorization": f"Bearer {key}", "User-Agent": "rushes-worker"},
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            transport=transport,
        )
        self._transport = transport
        self._interrupted = threading.Event()
        self._boot_id: str | None = None

    @cached_property
    def _plain(self) -> httpx2.Client:
        """For a storage's presigned addresses, which must not see the key."""
        timeout = httpx2.Timeout(FILE_SECONDS, connect=CONNECT_SECONDS)
        return httpx2.Client(timeout=timeout, transport=self._transport)

    def hello(self, hello: protocol.Hello) -> float:
        answer = self._post("/hello", msgspec.to_builtins(hello))
        if left_out := sorted(set(hello.kinds) - set(answer.get("kinds", hello.kinds))):
            log.warning("this worker's key is not for %s", ", ".join(left_out))
        self._boot_id = hello.boot_id
        return float(answer["heartbeat_seconds"])

    def claim(
        self, limit: int, wait_seconds: float = 0, request_id: str | None = None
    ) -> list[Assignment]:
        if self._interrupted.is_set():
            return []
        asked = {"limit": limit, "wait_seconds": wait_seconds, "request_id": request_id}
        asked["boot_id"] = self._boot_id
        answer = self._post("/claim", asked, seconds=wait_seconds + ANSWER_SECONDS)
        return msgspec.convert(answer["jobs"], list[Assignment])

    def heartbeat(
        self, claims: Sequence[Claim], roll: protocol.Roll | None = None
    ) -> protocol.Pulse:
        said: dict[str, Any] = {"claims": [_name(claim) for claim in claims]}
        if roll is not None:
            said["answered"] = list(roll.answered)
            said["stalled"] = [_name(claim) for claim in roll.stalled]
        answer = self._post("/heartbeat", said)
        beats = {id: msgspec.convert(beat, Beat) for id, beat in answer["claims"].items()}
        return protocol.Pulse(beats, answer["drain"])

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        beats = {}
        for report in reports:
            said = msgspec.to_builtins(report)
            body = {**_name(report.claim), **{k: v for k, v in said.items() if k != "claim"}}
            try:
                answer = self._post("/progress", body)
                beats[report.claim.claim_id] = Beat(True, answer["cancel"])
            except errors.ClaimLost:
                beats[report.claim.claim_id] = Beat(False)
        return beats

    def complete(self, completions: Sequence[Completion]) -> Mapping[str, str]:
        answers = {}
        for each in completions:
            body = {**_name(each.claim), "result": each.result, "manifest": each.manifest}
            try:
                # Publishing looks at every file once more.
                answer = self._post("/complete", body, seconds=FILE_SECONDS)
                answers[each.claim.job_id] = str(answer["state"])
            except (errors.Conflict, errors.Invalid) as error:
                answers[each.claim.job_id] = error.code
        return answers

    def fail(self, claim: Claim, error_class: str, code: str, message: str) -> str:
        said = {"error_class": error_class, "code": code, "message": message}
        return str(self._post("/fail", {**_name(claim), **said})["state"])

    def release(self, claim: Claim) -> str:
        return str(self._post("/release", _name(claim))["state"])

    def divide(self, claim: Claim, parts: Sequence[Part], checkpoint: Any = None) -> str:
        body = {"parts": [msgspec.to_builtins(each) for each in parts], "checkpoint": checkpoint}
        answer = self._post("/divide", {**_name(claim), **body}, seconds=FILE_SECONDS)
        return str(answer["state"])

    def put_passage(self, claim: Claim, number: int, content: Any) -> None:
        self._post("/passages", {**_name(claim), "number": number, "content": content})

    def passages(self, claim: Claim) -> Sequence[Any]:
        path = f"/passages/{claim.job_id}"
        answer = self._send("GET", path, headers=_proof(claim), seconds=FILE_SECONDS).json()
        return list(answer["items"])

    def log(self, claim: Claim, lines: Sequence[str]) -> None:
        self._post("/logs", {**_name(claim), "lines": list(lines)})

    # Files

    def source(self, claim: Claim, media_id: str | None = None) -> Source:
        asked = _job(claim, media_id)
        answer = self._send("HEAD", "/source", params=asked, headers=_proof(claim))
        return Source(
            file_name="",
            size_bytes=int(answer.headers["rushes-source-size"]),
            sha256=answer.headers.get("rushes-source-sha256"),
        )

    def read_source(self, claim: Claim, start: int, media_id: str | None = None) -> Iterator[bytes]:
        asked = _job(claim, media_id)
        headers = {**_proof(claim), "Range": f"bytes={start}-"}
        with (
            _renamed(),
            self._http.stream(
                "GET", "/source", params=asked, headers=headers, timeout=FILE_SECONDS
            ) as answer,
        ):
            if not answer.has_redirect_location:
                yield from _chunks(answer)
                return
            address = answer.headers["location"]
        ranged = {"Range": headers["Range"]}
        with _renamed(), self._plain.stream("GET", address, headers=ranged) as answer:
            if answer.status_code == 403:
                # It is good for no longer than the lease was when it was asked for.
                raise errors.Unavailable("the storage's address is too old: ask for a new one")
            yield from _chunks(answer)

    def transcript(self, claim: Claim) -> dict[str, Any] | None:
        path = f"/transcript/{claim.job_id}"
        answer = self._send("GET", path, headers=_proof(claim), seconds=FILE_SECONDS).json()
        found: dict[str, Any] | None = answer["transcript"]
        return found

    def artifacts(self, claim: Claim) -> Sequence[Artifact]:
        answer = self._send("GET", f"/artifacts/{claim.job_id}", headers=_proof(claim))
        return msgspec.convert(answer.json()["items"], list[Artifact])

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        size, sha256, md5 = _digests(content)
        if size <= PRESIGN_LIMIT_BYTES and (past := self._presigned(claim, name)):
            self._put_past_the_server(past["url"], content, size)
            body = {"name": name, "ticket": past["ticket"], "size_bytes": size, "seconds": seconds}
            sums = {"sha256": sha256, "md5": md5}
            answer = self._post(
                f"/artifacts/{claim.job_id}/confirm",
                {**body, **sums},
                headers=_proof(claim),
                seconds=FILE_SECONDS,
            )
            return msgspec.convert(answer, Artifact)
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

    def adopt(self, claim: Claim, names: Sequence[str]) -> Sequence[Artifact]:
        path = f"/artifacts/{claim.job_id}/adopt"
        # The server reads every file once more.
        answer = self._post(
            path, {"names": list(names)}, headers=_proof(claim), seconds=FILE_SECONDS
        )
        return msgspec.convert(answer["items"], list[Artifact])

    def discard(self, claim: Claim, names: Sequence[str]) -> None:
        path = f"/artifacts/{claim.job_id}/discard"
        self._post(path, {"names": list(names)}, headers=_proof(claim), seconds=FILE_SECONDS)

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        self._http.close()
        if "_plain" in self.__dict__:
            self._plain.close()

    def _presigned(self, claim: Claim, name: str) -> Any:
        path = f"/artifacts/{claim.job_id}/presign"
        answer = self._post(path, {"name": name}, headers=_proof(claim))
        return answer if answer["url"] else None

    def _put_past_the_server(self, url: str, content: bytes | Path, size: int) -> None:
        with _renamed():
            headers = {"Content-Length": str(size)}
            answer = self._plain.put(url, content=_stream(content), headers=headers)
        if not answer.is_success:
            raise errors.StorageDown("the storage did not take a file", detail=answer.text[:500])

    def _post(
        self,
        path: str,
        body: Any,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Any:
        encoded = msgspec.json.encode(body)
        given = {"Content-Type": "application/json", **(headers or {})}
        answer = self._send("POST", path, content=encoded, headers=given, seconds=seconds)
        try:
            return answer.json()
        except ValueError:
            raise errors.Unavailable(STRANGER) from None

    def _send(
        self, method: str, path: str, *, seconds: float = ANSWER_SECONDS, **options: Any
    ) -> httpx2.Response:
        timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
        with _renamed():
            answer = self._http.request(method, path, timeout=timeout, **options)
        _check_sender(answer)
        _check(answer)
        return answer


def join(server: str, code: str, name: str) -> tuple[str, str]:
    """Use a join code up: the worker's id and its key."""
    with _renamed():
        answer = httpx2.post(
            f"{server.rstrip('/')}/api/v1/worker/join",
            json={"code": code, "name": name},
            timeout=ANSWER_SECONDS,
        )
    _check_sender(answer)
    _check(answer)
    said = answer.json()
    return said["worker_id"], said["key"]


class _renamed:
    """The client library's errors leave in our words."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
            raise errors.Unavailable("the server cannot be reached", detail=str(error)) from error


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


def _name(claim: Claim) -> dict[str, str]:
    return {"job_id": claim.job_id, "claim_id": claim.claim_id}


def _job(claim: Claim, media_id: str | None) -> dict[str, str]:
    return {"job_id": claim.job_id, **({"media_id": media_id} if media_id else {})}


def _proof(claim: Claim) -> dict[str, str]:
    """In a header, since addresses end up in logs."""
    return {"Rushes-Claim": claim.claim_id}


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
