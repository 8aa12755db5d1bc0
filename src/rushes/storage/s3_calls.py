"""The calls of S3 that obstore has none for: of a bucket as a whole, and of parts that are copied.

Each is one signed request, repeated a few times when the server is in trouble, never redirected.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote
from xml.etree import ElementTree

import httpx2

from rushes import errors
from rushes.storage import s3_errors, storage
from rushes.storage.sigv4 import Signer, canonical_query

TIMEOUT = httpx2.Timeout(120.0, connect=5.0)
ATTEMPTS = 4
BACKOFF_SECONDS = 0.2
# How servers say it that know parts, but not copied ones.
COPIES_NOT = re.compile(r"<Code>(InvalidRequest|InvalidArgument|UnsupportedOperation)</Code>")


class S3Calls:
    """Many threads may call it at once."""

    def __init__(self, base: str, signer: Signer) -> None:
        """`base`: the bucket's address."""
        self._base = base
        self._signer = signer
        # Nothing is open between calls, so nobody has to close it.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._http = httpx2.Client(timeout=TIMEOUT, limits=limits)

    @property
    def region(self) -> str:
        return self._signer.region

    # Of a bucket

    def create_bucket(self, region: str) -> None:
        body = b""
        # That region is the one that must not be named.
        if region != "us-east-1":
            place = f"<LocationConstraint>{region}</LocationConstraint>"
            body = f"<CreateBucketConfiguration>{place}</CreateBucketConfiguration>".encode()
        self.call("PUT", body=body)

    def configuration(self, name: str) -> bytes | None:
        """Such as `cors`; None when there is none."""
        try:
            return self.call("GET", query={name: ""})
        except errors.NotFound:
            return None

    def configure(self, name: str, body: bytes) -> None:
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        headers = {"content-md5": base64.b64encode(digest).decode()}
        self.call("PUT", query={name: ""}, headers=headers, body=body)

    # Of parts

    def begin_parts(self, key: str) -> str:
        return _word(self.call("POST", key, {"uploads": ""}), "UploadId")

    def copy_part(self, key: str, upload: str, number: int, source: str) -> str:
        """`source`: with the bucket's name before it. Returns the part's ETag."""
        query = {"partNumber": str(number), "uploadId": upload}
        headers = {"x-amz-copy-source": quote(source)}
        try:
            return _word(self.call("PUT", key, query, headers=headers), "ETag")
        except errors.StorageDown as error:
            if COPIES_NOT.search(error.detail):
                raise errors.NotSupported("the storage copies no parts") from error
            raise

    def put_part(self, key: str, upload: str, number: int, content: bytes) -> str:
        query = {"partNumber": str(number), "uploadId": upload}
        return self._send("PUT", key, query, {}, content).headers["etag"]

    def end_parts(self, key: str, upload: str, tags: Iterable[str]) -> None:
        root = ElementTree.Element("CompleteMultipartUpload")
        for number, tag in enumerate(tags, 1):
            part = ElementTree.SubElement(root, "Part")
            ElementTree.SubElement(part, "PartNumber").text = str(number)
            ElementTree.SubElement(part, "ETag").text = tag
        answer = self.call("POST", key, {"uploadId": upload}, body=ElementTree.tostring(root))
        # It begins with 200 before it knows how it ends.
        if b"<Error>" in answer:
            raise s3_errors.named(_text(answer), key, is_missing=False)

    def abort_parts(self, key: str, upload: str) -> None:
        self.call("DELETE", key, {"uploadId": upload})

    def call(
        self,
        method: str,
        key: str = "",
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> bytes:
        return self._send(method, key, query or {}, headers or {}, body).content

    def _send(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> httpx2.Response:
        for left in range(ATTEMPTS - 1, -1, -1):
            try:
                answer = self._once(method, key, query, headers, body)
            except httpx2.HTTPError as error:
                if not left:
                    raise _no_answer(error, key) from error
            else:
                if answer.is_success:
                    return answer
                if answer.status_code < 500 or answer.status_code == 501 or not left:
                    raise _refusal(answer, key)
            time.sleep(BACKOFF_SECONDS * 2 ** (ATTEMPTS - 1 - left))
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> httpx2.Response:
        url = f"{self._base}/{quote(key)}" if key else self._base
        signed = self._signer.headers(method, url, query, headers, body, datetime.now(UTC))
        full = f"{url}?{canonical_query(query)}" if query else url
        return self._http.request(method, full, headers=signed, content=body)


def _no_answer(error: httpx2.HTTPError, key: str) -> errors.RushesError:
    text = f"{type(error).__name__} {error}"
    silent = isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout)
    report = "kind: Timeout" if silent else "kind: Connect"
    return s3_errors.named(text, key, is_missing=False, report=report)


def _refusal(answer: httpx2.Response, key: str) -> errors.RushesError:
    text = f"{answer.status_code} {answer.reason_phrase} {_text(answer.content)}"
    unknown = "<Code>NotImplemented</Code>" in text or "<Code>MethodNotAllowed</Code>" in text
    if answer.status_code == 501 or unknown:
        return errors.NotSupported("the storage does not know this call", detail=text)
    if answer.is_redirect or answer.has_redirect_location:
        return errors.StorageDown(storage.DOWN, detail=text, hint=s3_errors.REGION)
    return s3_errors.named(text, key, is_missing=answer.status_code == 404)


def _word(answer: bytes, name: str) -> str:
    """Of an element, whatever its namespace is."""
    try:
        root = ElementTree.fromstring(answer)
    except ElementTree.ParseError:
        root = ElementTree.Element("none")
    found = next((each.text for each in root.iter() if each.tag.endswith(name)), None)
    if not found:
        raise s3_errors.named(_text(answer), "", is_missing=False)
    return found


def _text(answer: bytes) -> str:
    return answer[:2_000].decode(errors="replace")
