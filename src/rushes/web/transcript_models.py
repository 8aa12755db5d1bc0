"""The shapes of transcripts, of what people change about them, and of merging newer ones."""

from __future__ import annotations

from pydantic import BaseModel, Field

from rushes.web.models import Time


class TranscriptSegment(BaseModel):
    """`speaker` is only there where speakers were told apart, `language` where it is another than
    the transcript's."""

    id: str
    start: float
    end: float
    speaker: str | None = None
    language: str | None = None
    text: str


class TranscriptWord(BaseModel):
    """It is in the last segment that has begun, unless it names another as its `segment`: people
    who talk at once."""

    start: float
    end: float
    word: str
    speaker: str | None = None
    confidence: float | None
    segment: str | None = None


class TranscriptEngine(BaseModel):
    provider: str
    transcription_model: str
    diarization_model: str | None


class Transcript(BaseModel):
    """The canonical document: what was said, with times in seconds."""

    transcription_id: str | None = Field(description="The job that heard it; null: none did.")
    text: str
    language: str | None
    segments: list[TranscriptSegment]
    words: list[TranscriptWord]
    engine: TranscriptEngine | None = Field(description="None: people brought it.")


class SharedTranscript(BaseModel):
    """As `Transcript`, with what people call the speakers."""

    speakers: list[str] = Field(description="Labels, as they are first heard.")
    speaker_names: dict[str, str] = Field(description="By label.")
    text: str
    language: str | None
    segments: list[TranscriptSegment]
    words: list[TranscriptWord]
    engine: TranscriptEngine | None = Field(description="None: people brought it.")


class Candidate(BaseModel):
    id: str
    job_id: str | None
    language: str | None
    created_at: Time


class MergeConflict(BaseModel):
    """A stretch that people have corrected and the newer transcript hears differently."""

    number: int = Field(description="To choose by when the candidate is accepted.")
    start: float
    end: float
    base: str = Field(description="As it was heard before people corrected it.")
    ours: str = Field(description="As people have it.")
    theirs: str = Field(description="As the candidate has it.")


class TranscriptMerge(BaseModel):
    """What accepting the candidate makes of both."""

    id: str = Field(description="Of the candidate.")
    revision: int = Field(description="The newest one of the current transcript.")
    corrections: int = Field(description="How many stretches of words people have corrected.")
    kept: int = Field(description="Those of them that are taken over without a conflict.")
    conflicts: list[MergeConflict]
    speaker_names: dict[str, str] = Field(description="Taken over, by the new labels.")


class TranscriptInfo(BaseModel):
    id: str
    media_id: str
    job_id: str | None = Field(description="The transcription that made it.")
    origin: str = Field(description="machine or imported.")
    language: str | None
    revision: int = Field(description="Of a media's, every text has a number of its own.")
    first_revision: int = Field(description="As it came.")
    edited: bool
    outdated: bool = Field(description="The recording was edited since: times may be others.")
    speakers: list[str]
    speaker_names: dict[str, str]
    candidate: Candidate | None = Field(description="A newer one, to take or to leave.")
    created_at: Time
    updated_at: Time


class TranscriptSummary(BaseModel):
    """One of those that a media has and ever had."""

    id: str
    state: str = Field(description="current, candidate, or retired: it can be brought back.")
    job_id: str | None
    origin: str = Field(description="machine or imported.")
    language: str | None
    revision: int
    edited: bool
    outdated: bool = Field(description="The recording was edited since: times may be others.")
    created_at: Time
    updated_at: Time


class SegmentChange(BaseModel):
    segment_id: str
    before: TranscriptSegment | None
    after: TranscriptSegment | None


class TranscriptRevision(BaseModel):
    revision: int
    user_id: str | None
    reason: str = Field(description="edited, reverted, trimmed, merged or diarized.")
    changes: list[SegmentChange] = Field(description="Of a trim, which moves all, none.")
    created_at: Time
