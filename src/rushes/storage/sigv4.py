"""Signatures of S3's requests, version 4: of addresses that others may use, and of our own calls.

Pure. obstore signs addresses, too, but none that say how the answer is to be labelled, and has no
calls for what a bucket is set to.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    access_key: str
    secret_key: str
    region: str
    token: str | None = None

    def presigned(
        self, method: str, url: str, query: Mapping[str, str], at: datetime, expires_seconds: int
    ) -> str:
        """`url` has no query and is percent-encoded; `at` is in UTC."""
        told = {
            **query,
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": f"{self.access_key}/{self._scope(at)}",
            "X-Amz-Date": _stamp(at),
            "X-Amz-Expires": str(expires_seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if self.token:
            told["X-Amz-Security-Token"] = self.token
        parts = urlsplit(url)
        signature = self._signature(method, parts.path, told, {"host": parts.netloc}, UNSIGNED, at)
        return f"{url}?{canonical_query(told)}&X-Amz-Signature={signature}"

    def headers(
        self,
        method: str,
        url: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        at: datetime,
    ) -> dict[str, str]:
        """All that go with the request: those that are given, and those that prove it."""
        parts = urlsplit(url)
        digest = hashlib.sha256(body).hexdigest()
        told = {name.lower(): SPACES.sub(" ", value.strip()) for name, value in headers.items()}
        told |= {"host": parts.netloc, "x-amz-date": _stamp(at), "x-amz-content-sha256": digest}
        if self.token:
            told["x-amz-security-token"] = self.token
        signature = self._signature(method, parts.path, query, told, digest, at)
        told["authorization"] = (
            f"{ALGORITHM} Credential={self.access_key}/{self._scope(at)},"
            f" SignedHeaders={';'.join(sorted(told))}, Signature={signature}"
        )
        return told

    def _signature(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        payload: str,
        at: datetime,
    ) -> str:
        lines = [method, path or "/", canonical_query(query)]
        lines += [f"{name}:{value}" for name, value in sorted(headers.items())]
        lines += ["", ";".join(sorted(headers)), payload]
        request = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        text = "\n".join([ALGORITHM, _stamp(at), self._scope(at), request])
        key = f"AWS4{self.secret_key}".encode()
        for part in (f"{at:%Y%m%d}", self.region, "s3", "aws4_request", text):
            key = hmac.digest(key, part.encode(), "sha256")
        return key.hex()

    def _scope(self, at: datetime) -> str:
        return f"{at:%Y%m%d}/{self.region}/s3/aws4_request"


def canonical_query(query: Mapping[str, str]) -> str:
    coded = sorted((quote(name, safe="~"), quote(value, safe="~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in coded)


def _stamp(at: datetime) -> str:
    return f"{at:%Y%m%dT%H%M%SZ}"
