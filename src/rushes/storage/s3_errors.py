"""What S3's servers answer when they refuse, in our words: what it means, and what to do about it.

Pure. The words name no bucket, key or address.
"""

from __future__ import annotations

import re

from rushes import errors
from rushes.storage import storage

CODE = re.compile(r"<Code>(\w+)</Code>")
FORBIDDEN = re.compile(r"\b403 Forbidden\b|lacked the necessary (privileges|authentication)")
# What the servers that have limits say when one is reached.
FULL = re.compile(r"507 Insufficient Storage|XMinioStorageFull|QuotaExceeded|InsufficientStorage")
# obstore's word about an answer that leads elsewhere: to the region of the bucket.
ELSEWHERE = re.compile(r"redirect without LOCATION|incorrectly configured region")
# As obstore's own report of an error has it, and so ours.
SILENT = re.compile(r"kind: Timeout\b")
UNREACHABLE = re.compile(r"kind: Connect\b")

KEYS = "it refuses the keys: check those of RUSHES_STORAGE_URL, or AWS_*"
RIGHTS = "it does not allow this: give its key the rights that docs/operating.md lists"
EXPIRED = "the session token has expired: get new keys"
BUCKET = "its bucket does not exist: 'rushes storage setup --create' makes it"
CLOCK = "its clock and this machine's differ too much: set the clock, best by NTP"
REGION = "its bucket is in another region: say which by ?region= in RUSHES_STORAGE_URL"
BUSY = "it asks for fewer requests at a time"
REFUSED = "it refuses us: check the keys, their rights and this machine's clock"
SILENCE = "it does not answer in time"
NOBODY = "nobody answers there: check its address, and whether it runs"

HINTS = {
    "SignatureDoesNotMatch": KEYS,
    "InvalidAccessKeyId": KEYS,
    "InvalidToken": KEYS,
    "AccessDenied": RIGHTS,
    "AllAccessDisabled": RIGHTS,
    "ExpiredToken": EXPIRED,
    "NoSuchBucket": BUCKET,
    "RequestTimeTooSkewed": CLOCK,
    "RequestExpired": CLOCK,
    "PermanentRedirect": REGION,
    "AuthorizationHeaderMalformed": REGION,
    "IllegalLocationConstraintException": REGION,
    "SlowDown": BUSY,
    "ServiceUnavailable": BUSY,
}


def named(text: str, key: str, *, is_missing: bool, report: str = "") -> errors.RushesError:
    """`text`: what was said; `report`: more, for us only; `is_missing`: of an object that need not
    be there."""
    detail = f"{key}: {text}"
    if FULL.search(text):
        return errors.DiskFull(storage.FULL, detail=detail)
    if is_missing and "NoSuchBucket" not in text:
        return errors.NotFound(storage.MISSING, detail=detail)
    return errors.StorageDown(storage.DOWN, detail=detail, hint=hint(text + report))


def hint(text: str) -> str:
    code = CODE.search(text)
    if code and code[1] in HINTS:
        return HINTS[code[1]]
    found = ((ELSEWHERE, REGION), (FORBIDDEN, REFUSED), (UNREACHABLE, NOBODY), (SILENT, SILENCE))
    return next((said for pattern, said in found if pattern.search(text)), "")
