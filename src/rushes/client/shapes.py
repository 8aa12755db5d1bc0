"""What the API answers, typed. What a newer server says besides is left out; what an older one does
not say has a default. `docs/openapi.json` has all of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

Document = dict[str, Any]
# Of a media's `status` and `transcript_status`: there is work yet.
OPEN = ("pending", "processing")


class Rendition(msgspec.Struct, kw_only=True):
    """One quality, such as 720p."""

    name: str
    status: str = "pending"
    width: int | None = None
    height: int | None = None
    bandwidth: int | None = None
    progress: float = 0.0
    error_message: str | None = None


class Job(msgspec.Struct, kw_only=True):
    """One piece of work; `state`: blocked, queued, processing, completed, failed or canceled."""

    id: str
    kind: str
    state: str
    media_id: str | None = None
    media_title: str | None = None
    user_id: str = ""
    priority: str = "normal"
    progress: float = 0.0
    stage: str | None = None
    speed: float | None = None
    eta_seconds: float | None = None
    attempt: int = 0
    max_attempts: int = 0
    worker_name: str | None = None
    error: str | None = None
    error_code: str | None = None
    can_retry: bool = False
    result: Any = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    canceled_at: datetime | None = None


class Media(msgspec.Struct, kw_only=True):
    """One recording; `status` and `transcript_status`: pending, processing, ready or failed (and
    `none`, where nobody asked for a transcript)."""

    id: str
    title: str
    status: str
    transcript_status: str = "none"
    kind: str | None = None
    slug: str = ""
    progress: float = 0.0
    duration: float | None = None
    width: int | None = None
    height: int | None = None
    size_bytes: int = 0
    file_name: str = ""
    content_type: str | None = None
    user_id: str = ""
    renditions: list[Rendition] = []
    jobs: list[Job] = []
    stream_url: str | None = None
    thumbnail_url: str | None = None
    share_url: str | None = None
    error: str | None = None
    transcript_error: str | None = None
    can_retry: bool = False
    can_retry_transcript: bool = False
    duplicate_of: list[str] = []
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def is_watchable(self) -> bool:
        """Also while its first version is still being made."""
        return self.stream_url is not None

    @property
    def is_done(self) -> bool:
        """Nothing is left to do, whether it went well or not."""
        return self.status not in OPEN and self.transcript_status not in OPEN

    @property
    def has_failed(self) -> bool:
        return "failed" in (self.status, self.transcript_status)


class Word(msgspec.Struct, kw_only=True):
    start: float
    end: float
    word: str
    speaker: str | None = None
    confidence: float | None = None


class Segment(msgspec.Struct, kw_only=True):
    """A sentence or so."""

    id: str
    start: float
    end: float
    text: str
    speaker: str | None = None
    language: str | None = None


class Transcript(msgspec.Struct, kw_only=True):
    """What was said, with times in seconds."""

    text: str
    segments: list[Segment]
    words: list[Word] = []
    language: str | None = None


class Moment(msgspec.Struct, kw_only=True):
    """Where something is said, or a title that has it (which begins at second 0)."""

    media_id: str
    title: str
    kind: str
    start: float
    end: float
    snippet: str
    speaker: str | None = None
    segment_id: str | None = None


class Reason(msgspec.Struct, kw_only=True):
    """Why a job waits."""

    code: str
    sentence: str


class Event(msgspec.Struct, kw_only=True):
    """A change. `position` is where to go on after it; `reset`: some were missed, read anew."""

    type: str
    position: str | None = None
    media_id: str | None = None
    data: Document = {}
