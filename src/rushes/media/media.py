"""What a media is, as people see it. Pure: no database, no clock."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from rushes import errors
from rushes.media import edit as edits
from rushes.media.edit import Edit
from rushes.records import JsonObject, Row, from_row
from rushes.text_match import folded

TITLE_LIMIT = 300
DESCRIPTION_LIMIT = 5000
# So much of a title decides where it stands in a list; what is the same so far, by age.
TITLE_KEY_LENGTH = 100
RECORDED_FROM = int(datetime(1800, 1, 1, tzinfo=UTC).timestamp() * 1000)
RECORDED_TO = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1000)
# What an attempt may write, and how it is served; a worker's own word about types is not asked.
CONTENT_TYPES = {
    "m3u8": "application/vnd.apple.mpegurl",
    "mpd": "application/dash+xml",
    "m4s": "video/iso.segment",
    "mp4": "video/mp4",
    "m4a": "audio/mp4",
    "ts": "video/mp2t",
    "aac": "audio/aac",
    "mp3": "audio/mpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "vtt": "text/vtt; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "bin": "application/octet-stream",
}
ARTIFACT = re.compile(
    r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/){0,3}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
)


class Status(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"
    TRASHED = "trashed"


class TranscriptStatus(StrEnum):
    NONE = "none"
    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a version takes, in bytes: `copy` is the source's picture as it is, `rungs` all that
    was encoded."""

    whole: int
    copy: int
    rungs: int


@dataclass(frozen=True, slots=True)
class Twins:
    """Other media of the same user with the same bytes, oldest first; `trashed` can be restored."""

    seen: Sequence[str] = ()
    trashed: Sequence[str] = ()


class Origin(StrEnum):
    """How a media came into the library."""

    UPLOAD = "upload"
    WATCH = "watch"
    # A program sent it to have it answered, not to keep it in order.
    API = "api"


class Sort(StrEnum):
    """In which order media are listed."""

    NEWEST = "newest"
    OLDEST = "oldest"
    TITLE = "title"
    LONGEST = "longest"
    LARGEST = "largest"
    # What was recorded last comes first; where that is not known, when it came.
    RECORDED = "recorded"
    # Of the trash alone: what was deleted last comes first.
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingOptions:
    """What the uploader asked for; `speech` is what else a transcription may be told.
    `is_interactive`: somebody waits for the words, so they come before bulk."""

    profile: str | None = None
    transcription_profile: str | None = None
    transcode: bool = True
    transcribe: bool = True
    language: str | None = None
    diarize: bool | None = None
    speech: JsonObject = field(default_factory=dict)
    is_interactive: bool = False
    # As somebody named it; without, `pipeline` decides.
    priority: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMedia:
    """A source that has arrived whole. `forget_after_ms`: it was only taken in to answer a request,
    and is forgotten so long after nobody has waited for that."""

    user_id: str
    title: str
    file_name: str = ""
    kind: str | None = None
    content_type: str | None = None
    size_bytes: int = 0
    sha256: str | None = None
    source_key: str | None = None
    options: ProcessingOptions = field(default_factory=ProcessingOptions)
    forget_after_ms: int | None = None
    origin: Origin = Origin.UPLOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """One row, with what is derived from its jobs."""

    id: str
    user_id: str
    title: str
    slug: str
    kind: str | None
    file_name: str
    content_type: str | None
    size_bytes: int
    sha256: str | None
    source_key: str | None
    duration: float | None
    share_token: str | None
    current_version_id: str | None
    edit: Edit
    description: str | None
    # Milliseconds; before 1970 they are negative.
    recorded_at: int | None
    origin: Origin
    created_at: int
    updated_at: int | None
    deleted_at: int | None
    # None: it is here to stay.
    forget_at: int | None
    status: Status
    transcript_status: TranscriptStatus

    @classmethod
    def from_row(cls, row: Row) -> Media:
        return from_row(
            cls,
            row,
            edit=edits.decode(row["edit"]),
            origin=Origin(row["origin"]),
            status=Status(row["status"]),
            transcript_status=TranscriptStatus(row["transcript_status"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An artifact, and where its bytes are. `claim_id`: whose it is, while its version is made."""

    version_id: str
    name: str
    key: str
    size_bytes: int
    sha256: str
    content_type: str
    seconds: float | None
    claim_id: str | None
    # Since when it is no part of its version any more.
    retired_at: int | None


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Where a media stands in a list: `key` as it was when the list was read."""

    key: str | float | int
    id: str


def list_position(item: Media, sort: Sort) -> ListPosition:
    match sort:
        case Sort.NEWEST | Sort.OLDEST:
            return ListPosition(item.id, item.id)
        case Sort.TITLE:
            return ListPosition(folded(item.title)[:TITLE_KEY_LENGTH], item.id)
        case Sort.LONGEST:
            return ListPosition(-1.0 if item.duration is None else item.duration, item.id)
        case Sort.LARGEST:
            return ListPosition(item.size_bytes, item.id)
        case Sort.RECORDED:
            when = item.created_at if item.recorded_at is None else item.recorded_at
            return ListPosition(when, item.id)
        case Sort.DELETED:
            return ListPosition(item.deleted_at or 0, item.id)


def one_line(text: str) -> str:
    """Without what only a terminal or a font would obey."""
    return re.sub(" +", " ", re.sub(r"\s", " ", _readable(text))).strip()


def _readable(text: str) -> str:
    return "".join(
        char
        for char in unicodedata.normalize("NFC", text)
        if char.isspace() or unicodedata.category(char) not in ("Cc", "Cs", "Cf", "Co", "Cn")
    )


def check_title(title: str) -> str:
    tidy = one_line(title)
    if not tidy:
        raise errors.BadField("title", "must not be empty")
    if len(tidy) > TITLE_LIMIT:
        raise errors.BadField("title", f"must have at most {TITLE_LIMIT} characters")
    return tidy


def check_description(text: str) -> str | None:
    """Plain text in lines; None when there is nothing in it."""
    tidy = _readable(text.replace("\r\n", "\n")).strip()
    if len(tidy) > DESCRIPTION_LIMIT:
        raise errors.BadField("description", f"must have at most {DESCRIPTION_LIMIT} characters")
    return tidy or None


def check_recorded(text: str) -> int:
    """A date or a time as RFC 3339 has them; one without a zone is UTC."""
    try:
        when = datetime.fromisoformat(text.strip())
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        milliseconds = round(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise errors.BadField(
            "recorded_at", "must be a time such as 2024-07-01T18:30:00Z, or a date"
        ) from None
    if not RECORDED_FROM <= milliseconds < RECORDED_TO:
        raise errors.BadField("recorded_at", "must be between the years 1800 and 2200")
    return milliseconds


def title_of(file_name: str) -> str:
    """A title from a file's name, which may be anything at all."""
    last = re.split(r"[/\\]", file_name)[-1]
    stem = last.rsplit(".", 1)[0] if "." in last.strip(".") else last
    words = re.sub(r"[_\s]+", " ", stem)[:TITLE_LIMIT]
    try:
        return check_title(words)
    except errors.BadField:
        return "Untitled"


def is_id(reference: str) -> bool:
    """Slugs have no such character."""
    return "_" in reference


def slug_of(title: str, media_id: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-")
    return f"{words}-{media_id[-6:]}" if words else media_id[-6:]


def check_artifact_name(name: str) -> str:
    """The content type it will be served as; BadField for a name that is none of ours."""
    if not ARTIFACT.fullmatch(name) or ".." in name:
        raise errors.BadField("name", "must be like 720p/seg_00001.m4s, of A-Z a-z 0-9 . _ -")
    suffix = name.rsplit(".", 1)[-1].lower() if "." in name else ""
    if suffix not in CONTENT_TYPES:
        raise errors.BadField("name", f"must end in one of {', '.join(sorted(CONTENT_TYPES))}")
    return CONTENT_TYPES[suffix]
