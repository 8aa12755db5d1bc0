"""The shapes of answers, as the API documents them. Names are those of the domain."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rushes.media.edit import Corner, Sound

T = TypeVar("T")

# Deeper than anything we or a handler would say, and nothing on the way to a reader minds.
DEEPEST = 64

Limit = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[
    str | None,
    Query(max_length=100, pattern=r"^[a-z]+_[0-9a-f]{32}$", description="`next_cursor` of a page."),
]
Time = Annotated[str | None, Field(description="RFC 3339, UTC.")]


class ShownOnce:
    """Marks a field of an answer that holds a secret: it is in the first answer, and nowhere else.
    What is kept of answers (`idempotency`) leaves it out."""


SHOWN_ONCE = ShownOnce()


class Body(BaseModel):
    """A request: what is not known is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")
    takes_nul: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _refuse_odd(cls, value: Any) -> Any:
        refuse_odd(value, takes_nul=cls.takes_nul)
        return value


def refuse_odd(value: Any, *, takes_nul: bool = False) -> None:
    """JSON that cannot be kept and given back: too deep, half characters, huge numbers."""
    left = [(value, 0)]
    while left:
        each, depth = left.pop()
        if isinstance(each, str):
            _refuse_odd_text(each, takes_nul)
        elif isinstance(each, int) and each.bit_length() > 63:
            raise ValueError("has a number that is too large")
        elif isinstance(each, dict | list):
            if depth == DEEPEST:
                raise ValueError("is nested too deeply")
            inner = [*each, *each.values()] if isinstance(each, dict) else each
            left += [(item, depth + 1) for item in inner]


def _refuse_odd_text(text: str, takes_nul: bool) -> None:
    if not takes_nul and "\0" in text:
        raise ValueError("has a NUL character")
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise ValueError("has half a character") from None


class Page(BaseModel, Generic[T]):
    items: list[T]
    next_cursor: str | None = None


class Rendition(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str
    status: str = "pending"
    width: int | None = None
    height: int | None = None
    bandwidth: int | None = None
    codecs: str | None = None
    segments_total: int | None = None
    segments_completed: int | None = None
    progress: float = 0.0
    started_at: Time | None = Field(None, description="When its first segment was begun.")
    completed_at: Time | None = Field(
        None, description="When it was whole; what a version takes over keeps the time."
    )
    error_message: str | None = Field(
        None, description="Why it has `failed`; the others are made all the same."
    )


Priority = Literal["high", "normal", "low"]


class Job(BaseModel):
    id: str
    kind: str
    status: str
    state: str
    media_id: str | None
    media_title: str | None = Field(None, description="Null when the recording was deleted.")
    user_id: str
    priority: str
    args: dict[str, Any]
    needs: list[str]
    progress: float
    stage: str | None
    progress_stage: str | None = Field(None, description="The same as `stage`.")
    renditions: list[Rendition] = []
    speed: float | None = None
    eta_seconds: float | None = None
    attempt: int
    max_attempts: int
    claims: int
    claimed_by: str | None
    worker_name: str | None
    parent_id: str | None
    retry_of: str | None
    limit_key: str | None = Field(None, description="How many with it may run at once is limited.")
    engine_id: str | None
    engine_model: str | None = None
    error: str | None
    error_code: str | None
    can_retry: bool = Field(
        False, description="It has ended without a result, and trying again may help."
    )
    result: Any = None
    created_at: Time
    queued_at: Time
    run_at: Time
    started_at: Time
    completed_at: Time
    failed_at: Time
    canceled_at: Time
    claimed_at: Time
    claim_expires_at: Time
    cancel_requested_at: Time
    divided_at: Time = Field(None, description="Since when its parts are being worked on.")


class Execution(BaseModel):
    """One attempt of a job."""

    id: str
    job_id: str
    transcription_id: str | None = Field(description="The same, if the job is a transcription.")
    number: int
    status: str = Field(
        description="processing, completed, failed (also lost and stalled) or canceled; otherwise"
        " as `outcome`."
    )
    provider: str | None = Field(description="The engine that it worked with.")
    model: str | None = Field(description="Of that engine.")
    worker_id: str
    worker_name: str
    started_at: Time
    ended_at: Time
    completed_at: Time
    failed_at: Time
    processing_duration_ms: int | None = Field(description="Null while it runs.")
    outcome: str | None
    error_code: str | None
    error: str | None


class Point(BaseModel):
    """The upper left corner, as shares of the picture's width and height."""

    model_config = ConfigDict(extra="forbid")

    x: float = Field(ge=0, lt=1, allow_inf_nan=False)
    y: float = Field(ge=0, lt=1, allow_inf_nan=False)


class Overlay(BaseModel):
    """Another media's picture in this one."""

    media_id: str
    position: Corner | Point
    size: float = Field(description="Its share of the width.")
    sound: Sound


class Edit(BaseModel):
    """What was changed about the source; in its seconds."""

    start: float
    end: float | None = Field(description="None: to the end.")
    overlay: Overlay | None = None


class StorageUse(BaseModel):
    """What a media takes, in bytes. What was deleted or replaced is not counted, though it may be
    there for a while."""

    source_bytes: int = Field(description="The file as it was uploaded.")
    copy_bytes: int = Field(description="Its picture as it is, cut into segments.")
    rungs_bytes: int = Field(description="All that was encoded: pictures and sound.")
    other_bytes: int = Field(description="Thumbnails, playlists and the like.")


class MediaWarning(BaseModel):
    """What people should know about what was made of a source, though it can be watched."""

    code: str = Field(description="Such as end_missing; see the page about transcoding.")
    message: str


class OutputFile(BaseModel):
    name: str
    size_bytes: int
    content_type: str
    url: str


class Output(BaseModel):
    """What a job of one's own kind has made of a media, is making, or could not make."""

    slot: str
    kind: str
    label: str = Field(description="Of the kind, for people.")
    status: str = Field(description="pending, processing, ready or failed.")
    progress: float
    error: str | None = Field(None, description="Why the last job of the kind has failed.")
    can_retry: bool = False
    job_id: str = Field(description="The last job of the kind.")
    published_at: Time | None = Field(None, description="Of the files; null while there are none.")
    size_bytes: int = 0
    files: list[OutputFile] = Field([], description="The first hundred, by name.")


class CollectionName(BaseModel):
    id: str
    name: str


class Export(BaseModel):
    """A file of what was watched when it was asked for."""

    id: str = Field(description="Of the job that makes it.")
    status: str = Field(description="pending, processing, ready or failed.")
    progress: float
    stage: str | None
    error: str | None = Field(description="Why it could not be made.")
    format: str
    rendition: str | None = None
    start: float = 0
    end: float | None = Field(None, description="Null: to the end of the recording.")
    burn_captions: bool = False
    exact: bool = False
    name: str = Field(description="Of the file.")
    size_bytes: int | None = Field(description="Null while there is none.")
    url: str | None = Field(description="Where to get it; null while it is not there.")
    created_at: Time
    expires_at: Time = Field(description="When it is deleted by itself; null: never.")


class Media(BaseModel):
    id: str
    title: str
    slug: str
    kind: str | None
    status: str
    transcript_status: str
    progress: float
    duration: float | None
    size_bytes: int
    created_at: Time
    updated_at: Time
    file_name: str
    content_type: str | None
    user_id: str
    description: str | None = Field(None, description="Plain text.")
    recorded_at: Time | None = Field(
        None, description="As the file tells, or as somebody said; null: not known."
    )
    tags: list[str] = []
    collections: list[CollectionName] = []
    origin: str = Field(
        "upload", description="How it came: upload, watch (a folder) or api (a program's request)."
    )
    renditions: list[Rendition]
    jobs: list[Job]
    stream_url: str | None
    thumbnail_url: str | None
    storyboard_url: str | None = Field(None, description="WebVTT: a small picture for each moment.")
    chapters_url: str | None = Field(None, description="WebVTT, if the source has chapters.")
    waveform_url: str | None = Field(None, description="JSON, for sound without a picture.")
    share_url: str | None
    error: str | None
    can_retry: bool = Field(
        False, description="There is nothing to watch, and encoding again may help."
    )
    transcript_error: str | None = Field(None, description="Why there is no transcript.")
    can_retry_transcript: bool = Field(
        False, description="There is no transcript, and transcribing again may help."
    )
    width: int | None = None
    height: int | None = None
    edit: Edit | None = Field(None, description="What was cut and laid over, if anything was.")
    duplicate_of: list[str] = Field([], description="Other media of yours with the same bytes.")
    duplicate_in_trash: list[str] = Field(
        [], description="Such media in your trash: they can be restored."
    )
    warnings: list[MediaWarning] = Field(
        [], description="Of the version that is watched: what was left out or could not be read."
    )
    storage: StorageUse | None = Field(None, description="Once there is a version to watch.")
    outputs: list[Output] = Field([], description="What jobs of your own kinds make of it.")
    deleted_at: Time | None = Field(None, description="Since when it is in the trash.")
    purge_at: Time | None = Field(None, description="Until when it can surely be restored.")


class SharedMedia(BaseModel):
    """What somebody with a share link may know."""

    title: str
    kind: str | None
    status: str
    duration: float | None
    width: int | None = None
    height: int | None = None
    stream_url: str | None
    thumbnail_url: str | None
    storyboard_url: str | None = None
    chapters_url: str | None = None
    waveform_url: str | None = None
    transcript_url: str | None = None
    download_url: str | None = Field(
        None, description="The file as it was uploaded, if the link allows it."
    )
    downloads: bool = Field(False, description="Whether the link allows to download anything.")


class Rung(BaseModel):
    model_config = ConfigDict(extra="forbid")

    height: int = Field(ge=64, le=4320, description="The short side of the picture.")
    bitrate: int = Field(ge=50, le=200_000, description="At most, in kbit/s, up to 30 fps.")


class Profile(BaseModel):
    """What is made of a source."""

    name: str
    ladder: list[Rung]
    codecs: list[str]
    preset: str
    crf: int
    segment_seconds: float
    audio_bitrate: int
    original: bool = Field(description="Show at once what browsers play already.")
    original_bitrate: int | None = Field(
        description="In kbit/s; what needs more is not listed afterwards. Null: the ladder decides."
    )
    keep_original: bool = Field(description="Whether its files stay when it is not listed.")
    encoder: str
    divide_after: float = Field(description="Longer videos are encoded in spans; in seconds.")
    span_seconds: float
    created_at: Time
    updated_at: Time


class Key(BaseModel):
    prefix: str
    kinds: list[str] | None = Field(
        description="What it is for; null: every kind that may leave the server."
    )
    created_at: Time


class WorkerSetting(BaseModel):
    """How a worker is to work, as it is in effect."""

    value: Any = Field(description="A text, a number, an object or a list, as the setting has it.")
    text: str = Field(description="As people write it.")
    said_by: Literal["server", "worker", "default"] = Field(
        description="Who said it: an admin here, the worker's own flags, or nobody."
    )


class Worker(BaseModel):
    id: str
    name: str
    status: str
    state: str
    kinds: list[str]
    capabilities: list[str]
    metadata: dict[str, Any]
    holds: int
    jobs: list[str] = []
    keys: list[Key] = []
    settings: dict[str, WorkerSetting] = Field(
        {}, description="Those in effect, by name; what an admin says wins over the worker's own."
    )
    resting_until: Time = Field(
        description="It takes no work before that, because of its schedule."
    )
    declined: dict[str, str] = Field({}, description="By kind, why it takes none of it now.")
    notes: list[str] = Field([], description="What it tells of itself.")
    protocol: str = Field(description="The version of the worker protocol that it speaks.")
    upgrade: str | None = Field(
        description="Why it gets no work: the versions of worker and server do not go together."
    )
    registered_at: Time
    last_seen_at: Time


class User(BaseModel):
    id: str
    name: str
    role: str
    quota_bytes: int | None
    has_password: bool
    created_at: Time
    disabled_at: Time


class NewUser(User):
    signin_url: Annotated[str | None, SHOWN_ONCE] = Field(
        description="Signs the user in once; shown only now. Null for a user with a password."
    )


class Token(BaseModel):
    id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: Time
    expires_at: Time
    last_used_at: Time


class NewToken(Token):
    token: Annotated[str, SHOWN_ONCE] = Field(description="Shown once; keep it.")


class Session(BaseModel):
    id: str
    label: str
    current: bool
    created_at: Time
    last_seen_at: Time
    expires_at: Time


class Invite(BaseModel):
    id: str
    name: str
    kinds: list[str] | None = Field(
        description="What the worker may run; null: every kind that may leave the server."
    )
    code: Annotated[str, SHOWN_ONCE] = Field(description="Works once; shown only now.")
    command: Annotated[str, SHOWN_ONCE]
    expires_at: Time


class FailureGroup(BaseModel):
    """Failed jobs with the same reason."""

    kind: str
    error_code: str | None
    count: int
    last_failed_at: Time
    example: str | None
    can_retry: bool = Field(description="Trying them again may help.")


class QueueStats(BaseModel):
    states: dict[str, int]
    kinds: dict[str, dict[str, int]]
    users: dict[str, dict[str, int]]
    oldest_queued_at: Time
    wait_seconds: float | None
    run_seconds: float | None
    failures: list[FailureGroup]
    paused: list[str]


class QueueBucket(BaseModel):
    """The jobs that ended in a period of time."""

    at: Time = Field(description="When it begins.")
    completed: int
    failed: int
    canceled: int
    wait_seconds: float | None = Field(description="From queued to started, on average.")
    run_seconds: float | None = Field(description="Of those that completed, on average.")


class QueueHistory(BaseModel):
    bucket_seconds: int
    items: list[QueueBucket]


class Moment(BaseModel):
    """Something that was found: a segment of speech, or a title (which begins at second 0)."""

    media_id: str
    title: str
    kind: str = Field(description="speech or title.")
    segment_id: str | None
    start: float
    end: float
    speaker: str | None = Field(description="By name, if somebody gave one.")
    snippet: str = Field(description="Plain text.")
    marks: list[tuple[int, int]] = Field(
        description="What to mark in the snippet: first character, and the one after the last."
    )
    html: str = Field(description="The same snippet, escaped, with <mark> around the marks.")


class MomentPage(Page[Moment]):
    corrected: str | None = Field(
        None,
        description="What was looked for instead: nothing says what was asked for, and these are"
        " words of yours that are nearly the same.",
    )


class Download(BaseModel):
    received_bytes: int
    total_bytes: int
    error: str | None = Field(description="Why it has ended without success.")


class SpeechModel(BaseModel):
    id: str
    name: str
    title: str
    provider: str
    licence: str
    size_bytes: int
    languages: list[str] = Field(description="None: all it knows of.")
    capabilities: list[str] = Field(description="transcription or diarization, and what else.")
    installed: bool
    default: bool
    available: bool = Field(description="Whether the engine can run here.")
    reason: str | None = Field(description="Why not.")
    download: Download | None = Field(
        None, description="While it is being fetched by `pull`, and after that has failed."
    )
