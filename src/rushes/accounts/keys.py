"""Secrets that are shown once: made here, kept only as a SHA-256 and a short prefix. Pure.

A key is `rushes_KIND_` + 43 random characters + a checksum of 6, so that scanners for leaked
secrets recognise it and a typing error is noticed without looking anything up.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib
from dataclasses import dataclass
from enum import StrEnum

PREFIX_LENGTH = 8
KEY = re.compile(r"rushes_(tok|wrk)_([A-Za-z0-9_-]{43})([0-9a-z]{6})")
# Without letters that are taken for digits; 16 of them are 80 bits, for one use within hours.
CODE_LETTERS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class KeyKind(StrEnum):
    TOKEN = "tok"
    WORKER = "wrk"


@dataclass(frozen=True, slots=True)
class Secret:
    """`text` is for its owner's eyes, now; the rest is for the database."""

    text: str
    prefix: str
    hash: str


def make(kind: KeyKind) -> Secret:
    body = secrets.token_urlsafe(32)
    text = f"rushes_{kind}_{body}{_checksum(kind, body)}"
    return Secret(text, body[:PREFIX_LENGTH], digest(text))


def prefix_of(kind: KeyKind, text: str) -> str | None:
    """What to look a key up by; None when it cannot be one of ours."""
    match = KEY.fullmatch(text)
    if match is None or match[1] != kind or match[3] != _checksum(kind, match[2]):
        return None
    return match[2][:PREFIX_LENGTH]


def make_plain() -> Secret:
    """For cookies and links, which nobody types."""
    text = secrets.token_urlsafe(32)
    return Secret(text, text[:PREFIX_LENGTH], digest(text))


def make_code() -> Secret:
    """For people to read aloud or type."""
    letters = "".join(secrets.choice(CODE_LETTERS) for _ in range(16))
    text = "-".join(letters[at : at + 4] for at in range(0, 16, 4))
    return Secret(text, letters[:4], digest(tidy_code(text)))


def tidy_code(text: str) -> str:
    return re.sub(r"[\s-]", "", text).upper()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def matches(text: str, hash: str) -> bool:
    return hmac.compare_digest(digest(text), hash)


def same(given: str, secret: str) -> bool:
    """Compares two secrets in constant time; an empty one matches nothing."""
    return bool(secret) and hmac.compare_digest(digest(given), digest(secret))


def _checksum(kind: str, body: str) -> str:
    number = zlib.crc32(f"{kind}{body}".encode())
    letters = ""
    for _ in range(6):
        number, rest = divmod(number, 36)
        letters += DIGITS[rest]
    return letters
