"""Our transcripts in the shapes of OpenAI's API. Pure."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from rushes.engines import catalog
from rushes.transcripts import captions, formats
from rushes.transcripts.transcript import Transcript, TranscriptSegment, Word, joined, words_of

Format = Literal["json", "text", "srt", "vtt", "verbose_json", "diarized_json"]

JSON = "application/json"
MEDIA_TYPES: Mapping[Format, str] = {
    "json": JSON,
    "verbose_json": JSON,
    "diarized_json": JSON,
    "text": "text/plain; charset=utf-8",
    "srt": formats.TYPES["srt"],
    "vtt": formats.TYPES["vtt"],
}
# They are called by their English names there.
LANGUAGES: Mapping[str, str] = {code: name for name, code in catalog.CODES.items()}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Frames of a spectrum, which is how OpenAI counts where a segment was looked for.
FRAMES_PER_SECOND = 100
LEAST_CONFIDENCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a transcription has come to. `names` are what people call the speakers."""

    transcript: Transcript
    seconds: float
    task: Literal["transcribe", "translate"] = "transcribe"
    names: Mapping[str, str] = field(default_factory=dict)


def render(heard: Heard, format: Format, *, words: bool = False) -> str:
    match format:
        case "json":
            return _json({**_text(heard), "usage": _usage(heard)})
        case "text":
            return heard.transcript.text + "\n"
        case "srt":
            return captions.srt(_as_asked(heard), names=heard.names, end=heard.seconds)
        case "vtt":
            return captions.vtt(_as_asked(heard), names=heard.names, end=heard.seconds)
        case "verbose_json":
            return _json(_verbose(heard, words))
        case "diarized_json":
            return _json(_diarized(heard))


def _as_asked(heard: Heard) -> Transcript:
    """Speakers that nobody has asked for, because each has a channel, are not in captions: clients
    know them without."""
    spoken = heard.transcript
    if spoken.engine is None or spoken.engine.diarization_model is not None:
        return spoken
    segments = [replace(each, speaker=None) for each in spoken.segments]
    return replace(
        spoken, segments=segments, words=[replace(each, speaker=None) for each in spoken.words]
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text(heard: Heard) -> dict[str, Any]:
    """With the language that was spoken, as far as it is known."""
    code = heard.transcript.language
    return {"text": heard.transcript.text, "languages": [{"code": code}] if code else []}


def _usage(heard: Heard) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(heard.seconds)}


# With times


def _verbose(heard: Heard, words: bool) -> dict[str, Any]:
    of = words_of(heard.transcript)
    made = {
        "task": heard.task,
        "language": _language(heard),
        "duration": heard.seconds,
        "text": heard.transcript.text,
        "segments": [
            _segment(number, each, of.get(each.id, ()))
            for number, each in enumerate(heard.transcript.segments)
        ],
        "usage": _usage(heard),
    }
    if words:
        made["words"] = [
            {"word": each.word, "start": each.start, "end": each.end}
            for each in heard.transcript.words
        ]
    return made


def _segment(number: int, segment: TranscriptSegment, words: Sequence[Word]) -> dict[str, Any]:
    """All that programs look for. We keep no tokens and no probability of silence; the mean
    logarithm is that of the words' confidence."""
    return {
        "id": number,
        "seek": int(segment.start * FRAMES_PER_SECOND),
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": _mean_logarithm(words),
        "compression_ratio": _compression(segment.text),
        "no_speech_prob": 0.0,
    }


def _mean_logarithm(words: Sequence[Word]) -> float:
    known = [each.confidence for each in words if each.confidence is not None]
    if not known:
        return 0.0
    return sum(math.log(max(each, LEAST_CONFIDENCE)) for each in known) / len(known)


def _compression(text: str) -> float:
    """Much above 2 it repeats itself."""
    plain = text.encode()
    return len(plain) / len(zlib.compress(plain)) if plain else 0.0


def _language(heard: Heard) -> str:
    if heard.task == "translate":
        return "english"
    code = heard.transcript.language or ""
    return LANGUAGES.get(code.partition("-")[0], code or "unknown")


# With speakers


def _diarized(heard: Heard) -> dict[str, Any]:
    return {
        "task": heard.task,
        "duration": heard.seconds,
        "text": heard.transcript.text,
        "segments": speaker_segments(heard),
        "usage": _usage(heard),
    }


def speaker_segments(heard: Heard) -> list[dict[str, Any]]:
    speakers = _speakers(heard)
    return [
        {
            "type": "transcript.text.segment",
            "id": each.id,
            "start": each.start,
            "end": each.end,
            "speaker": speakers[each.speaker],
            "text": each.text,
        }
        for each in heard.transcript.segments
    ]


def _speakers(heard: Heard) -> dict[str | None, str]:
    """In the order in which they are first heard: A, B, and so on, unless people have named them.
    Where nobody was told apart, all of it is by one."""
    labels = dict.fromkeys(each.speaker for each in heard.transcript.segments)
    return {
        label: heard.names.get(label or "", _letters(number)) for number, label in enumerate(labels)
    }


def _letters(number: int) -> str:
    """As columns of a sheet are called: A … Z, AA, AB …"""
    more, last = divmod(number, len(ALPHABET))
    return (_letters(more - 1) if more else "") + ALPHABET[last]


# As it comes


def delta(said: str, text: str) -> dict[str, Any]:
    """`text` as it goes on behind what was said before."""
    more = joined([said[-1], text])[1:] if said else text
    return {"type": "transcript.text.delta", "delta": more}


def done(heard: Heard) -> dict[str, Any]:
    return {"type": "transcript.text.done", **_text(heard)}


def frame(event: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(event)


KEEPALIVE = b": keep-alive\n\n"
LAST = b"data: [DONE]\n\n"
