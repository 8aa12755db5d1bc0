"""The sentences that say most of what a recording is about, after each transcription.

No model and no network: a sentence counts by how often its words are said in the whole recording.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rushes import JobContext, Kind, PermanentFailure

SENTENCES = 5
# Shorter words hold sentences together, and say little by themselves.
SHORTEST_WORD = 4

KINDS = [Kind(name="summarize", label="Summary", output="summary", follows=("transcribe",))]


def summarize(job: JobContext) -> dict[str, int]:
    transcript = job.transcript()
    if transcript is None:
        raise PermanentFailure("there is no transcript to summarize yet", code="no_transcript")
    sentences = list(_sentences(transcript["segments"]))
    job.progress(0.5, "choosing")
    chosen = _most_telling(sentences, int(job.args.get("sentences", SENTENCES)))
    summary = {"language": transcript["language"], "sentences": chosen}
    job.put("summary.json", json.dumps(summary, ensure_ascii=False, indent=2).encode())
    lines = [f"- {each['text']} ({_clock(each['start'])})" for each in chosen]
    job.put("summary.md", "\n".join(["# Summary", "", *lines, ""]).encode())
    return {"sentences": len(chosen)}


def _sentences(segments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each with the second at which its segment begins."""
    return [
        {"start": segment["start"], "text": text}
        for segment in segments
        for text in re.split(r"(?<=[.!?…。？！])\s+", segment["text"].strip())
        if text
    ]


def _most_telling(sentences: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """In the order in which they are said."""
    often = Counter(word for each in sentences for word in _words(each["text"]))

    def worth(sentence: dict[str, Any]) -> float:
        words = _words(sentence["text"])
        return sum(often[word] for word in words) / (len(words) + 3)

    best = sorted(range(len(sentences)), key=lambda n: worth(sentences[n]), reverse=True)[:count]
    return [sentences[n] for n in sorted(best)]


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) >= SHORTEST_WORD]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


HANDLERS = {"summarize": summarize}
