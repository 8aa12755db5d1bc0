"""What an engine is given and what it returns: our own types, whatever library is behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from rushes import errors

# Sound as every engine gets it: mono, signed 16 bit, little-endian.
RATE = 16_000
BYTES_PER_SECOND = 2 * RATE

DEFAULT_MODEL = "whisper-base"
DEFAULT_SPEAKERS = "diarization-default"
# What servers that offer several models, and none as their own choice, mostly understand.
ANY_MODEL = "whisper-1"

Task = Literal["transcribe", "translate"]
# Called several times a second while an engine is busy; raises when it must stop.
Watch = Callable[[], None]


class EngineUnavailable(errors.PermanentFailure):
    """It cannot run here; a retry works once it can. The message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="engine_unavailable")


class ModelUnavailable(errors.PermanentFailure):
    """The model is not here, and cannot or may not be fetched."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="model_unavailable")


class EngineFailed(errors.TransientFailure):
    """It broke down while it worked: out of memory, crashed, or did not answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="engine_failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModel:
    """`languages` of () are all it knows of; `size_bytes` is what a download takes."""

    name: str
    purpose: Literal["transcription", "diarization"]
    title: str
    licence: str
    size_bytes: int
    languages: Sequence[str]
    capabilities: Sequence[str]
    installed: bool
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """`reason`: why it cannot run here, for people; None when it can."""

    provider: str
    device: str
    models: Sequence[EngineModel]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineWord:
    """Times in seconds of the sound that was given; `word` without the spaces around it."""

    start: float
    end: float
    word: str
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A piece of text whose times the engine knows, from one that knows none of words."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """The language from `start` to `end` of a window; None when it is not clear. `probability`:
    how sure that is, if the engine says so."""

    start: float
    end: float
    language: str | None
    probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeRequest:
    """One window of speech, at most 30 seconds long. A `language` of None is to be detected:
    `expected` is the one that was spoken before, and another is to be taken only when it is sure. A
    `temperature` above 0 makes the engine guess more freely, to get out of a loop."""

    sound: bytes
    model: str = DEFAULT_MODEL
    language: str | None = None
    expected: str | None = None
    task: Task = "transcribe"
    prompt: str | None = None
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeResult:
    """`words` is empty when the engine knows no times of words; then `utterances` may have some.
    The three after them tell how much the engine trusts itself; None when it does not say.
    `is_cut`: there was no room for all that is said, so the window has to be asked for in parts.
    `parts`: several languages are spoken, one after the other. There is no text then; each part is
    to be asked for by itself."""

    text: str
    language: str | None = None
    language_probability: float | None = None
    words: Sequence[EngineWord] = ()
    utterances: Sequence[Utterance] = ()
    no_speech_probability: float | None = None
    average_logprob: float | None = None
    compression_ratio: float | None = None
    is_cut: bool = False
    parts: Sequence[Spoken] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerRequest:
    """Who speaks when in a file of sound as above. Without `speakers`, as many as are found,
    between the bounds that are given."""

    path: Path
    model: str = DEFAULT_SPEAKERS
    speakers: int | None = None
    min_speakers: int | None = None
    max_speakers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerTurn:
    """`speaker` counts from 0, in the order in which they are first heard."""

    start: float
    end: float
    speaker: int


class Engine(Protocol):
    id: str

    def capabilities(self) -> Capabilities:
        """What it can do here, without loading or fetching anything."""
        ...

    def prepare(
        self, models: Sequence[str], progress: Callable[[float, str], None], watch: Watch
    ) -> None:
        """Make sure that these can be used: `progress` gets a share of 0 to 1 and what is being
        fetched. EngineUnavailable or ModelUnavailable when they cannot."""
        ...

    def speech(self, pcm: bytes, watch: Watch) -> Sequence[tuple[float, float]]:
        """Where somebody speaks: start and end in seconds of this sound, of at most ten minutes.
        In the order of time; a little longer than what is said, without touching each other's."""
        ...

    def transcribe(self, request: TranscribeRequest, watch: Watch) -> TranscribeResult: ...

    def diarize(
        self, request: SpeakerRequest, progress: Callable[[float], None], watch: Watch
    ) -> Sequence[SpeakerTurn]: ...

    def close(self) -> None: ...
