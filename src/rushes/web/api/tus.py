"""The tus 1.0 protocol as functions on headers: what a request asks, what an answer says. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate

from rushes.media.media import Twins
from rushes.uploads.receiver import ALGORITHMS, Checksum
from rushes.uploads.upload import Concat, Metadata, Upload

VERSION = "1.0.0"
EXTENSIONS = (
    "creation,creation-with-upload,creation-defer-length,checksum,termination,expiration,"
    "concatenation"
)
CONTENT_TYPE = "application/offset+octet-stream"
MEDIA_ID = "Rushes-Media-Id"
DUPLICATE_OF, DUPLICATE_IN_TRASH = "Rushes-Duplicate-Of", "Rushes-Duplicate-In-Trash"
LARGEST = 2**53
METADATA_LIMIT = 32 * 1024
NUMBER = re.compile(r"[0-9]{1,16}")
NAME = re.compile(r"[!-+\--~]{1,100}")
UPLOAD_ID = re.compile(r"upl_[0-9a-f]{32}")
MOST_PARTS = 1_000

Headers = Mapping[str, str]


class Refused(Exception):
    """The request does not speak the protocol."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    length_bytes: int | None
    metadata: Metadata
    concat: Concat | None
    partial_ids: list[str]
    checksum: Checksum | None
    # Bytes come along; how many is None when the sender does not say.
    has_body: bool
    body_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    offset_bytes: int
    length_bytes: int | None
    body_bytes: int | None
    checksum: Checksum | None


# Requests


def check_version(headers: Headers) -> None:
    if headers.get("tus-resumable") != VERSION:
        raise Refused(412, "wrong_version", f"this server speaks tus {VERSION}")


def creation(headers: Headers) -> Creation:
    concat, partial_ids = _concat(headers.get("upload-concat"))
    length_bytes = _number(headers, "upload-length")
    deferred = headers.get("upload-defer-length")
    if deferred not in (None, "1"):
        raise _bad("Upload-Defer-Length can only be 1")
    if concat is Concat.FINAL:
        if length_bytes is not None or deferred:
            raise _bad("the length of a final upload is that of its parts")
    elif (length_bytes is None) == (deferred is None):
        raise _bad("either Upload-Length or Upload-Defer-Length: 1 is needed")
    body_bytes = _number(headers, "content-length")
    has_body = _is_bytes(headers) and body_bytes != 0
    if body_bytes and not has_body:
        raise Refused(415, "wrong_content_type", f"bytes have to come as {CONTENT_TYPE}")
    if has_body and concat is Concat.FINAL:
        raise _bad("a final upload takes no bytes of its own")
    return Creation(
        length_bytes=length_bytes,
        metadata=parse_metadata(headers.get("upload-metadata", "")),
        concat=concat,
        partial_ids=partial_ids,
        checksum=_checksum(headers.get("upload-checksum")),
        has_body=has_body,
        body_bytes=body_bytes,
    )


def append(headers: Headers) -> Append:
    if not _is_bytes(headers):
        raise Refused(415, "wrong_content_type", f"bytes have to come as {CONTENT_TYPE}")
    offset_bytes = _number(headers, "upload-offset")
    if offset_bytes is None:
        raise _bad("Upload-Offset is needed")
    return Append(
        offset_bytes=offset_bytes,
        length_bytes=_number(headers, "upload-length"),
        body_bytes=_number(headers, "content-length"),
        checksum=_checksum(headers.get("upload-checksum")),
    )


def _is_bytes(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == CONTENT_TYPE


def parse_metadata(text: str) -> Metadata:
    """Pairs of a name and base64; a name may stand alone."""
    if len(text) > METADATA_LIMIT:
        raise _bad("Upload-Metadata is too long")
    found: Metadata = {}
    for pair in text.split(",") if text.strip() else []:
        name, _, value = pair.strip().partition(" ")
        if not NAME.fullmatch(name) or name in found:
            raise _bad("Upload-Metadata has a name that is empty, unusual or there twice")
        found[name] = _base64(value.strip(), "Upload-Metadata") if value.strip() else None
    return found


def format_metadata(metadata: Metadata) -> str:
    return ",".join(
        f"{name} {base64.b64encode(value).decode()}" if value else name
        for name, value in metadata.items()
    )


def _concat(text: str | None) -> tuple[Concat | None, list[str]]:
    if text is None:
        return None, []
    if text == "partial":
        return Concat.PARTIAL, []
    word, _, urls = text.partition(";")
    # Whole addresses or paths; only the id at the end means anything here.
    ids = [url.rpartition("/")[2] for url in urls.split()]
    if word != "final" or not ids or len(ids) > MOST_PARTS:
        raise _bad("Upload-Concat must be partial, or final; and the uploads")
    if not all(UPLOAD_ID.fullmatch(id) for id in ids):
        raise _bad("Upload-Concat names something that is no upload")
    return Concat.FINAL, ids


def _checksum(text: str | None) -> Checksum | None:
    if text is None:
        return None
    algorithm, _, value = text.partition(" ")
    if algorithm not in ALGORITHMS:
        raise _bad(f"Upload-Checksum can be {', '.join(ALGORITHMS)}")
    return algorithm, _base64(value.strip(), "Upload-Checksum")


def _number(headers: Headers, name: str) -> int | None:
    text = headers.get(name)
    if text is None:
        return None
    if not NUMBER.fullmatch(text) or int(text) > LARGEST:
        raise _bad(f"{name.title()} must be a number of bytes")
    return int(text)


def _base64(text: str, header: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _bad(f"{header} has a value that is not base64") from None


def _bad(message: str) -> Refused:
    return Refused(400, "bad_header", message)


# Answers


def options(max_bytes: int) -> dict[str, str]:
    said = {
        "Tus-Resumable": VERSION,
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
    }
    return said | ({"Tus-Max-Size": str(max_bytes)} if max_bytes else {})


def status(item: Upload, twins: Twins | None = None) -> dict[str, str]:
    """Where the upload stands: what every answer about one says."""
    said = {"Tus-Resumable": VERSION, "Upload-Offset": str(item.offset_bytes)}
    if item.media_id is not None:
        said[MEDIA_ID] = item.media_id
    else:
        said["Upload-Expires"] = formatdate(item.expires_at / 1000, usegmt=True)
    return said | (duplicates(twins.seen, twins.trashed) if twins else {})


def duplicates(seen: Sequence[str], trashed: Sequence[str]) -> dict[str, str]:
    """The oldest that is there, and the one that was uploaded last of those in the trash."""
    said = {DUPLICATE_OF: seen[0]} if seen else {}
    return said | ({DUPLICATE_IN_TRASH: trashed[-1]} if trashed else {})


def description(item: Upload, metadata: Metadata, url: str) -> dict[str, str]:
    """What only HEAD says. `url` is that of the collection."""
    said = {"Cache-Control": "no-store"}
    if item.length_bytes is None:
        said["Upload-Defer-Length"] = "1"
    else:
        said["Upload-Length"] = str(item.length_bytes)
    if metadata:
        said["Upload-Metadata"] = format_metadata(metadata)
    if item.concat is Concat.PARTIAL:
        said["Upload-Concat"] = "partial"
    elif item.concat is Concat.FINAL:
        said["Upload-Concat"] = f"final;{' '.join(f'{url}/{id}' for id in item.partial_ids)}"
    return said
