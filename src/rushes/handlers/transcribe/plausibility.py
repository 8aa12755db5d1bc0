"""Whether to believe what an engine has heard: loops, text out of silence, too much of it. Pure.

Engines that predict the next word sometimes repeat themselves for ever, or make up a sentence where
nobody speaks. Such a window is asked for again with more freedom; what stays bad is mended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TypeVar

from rushes.engines.engine import TranscribeResult, Utterance

T = TypeVar("T")

# Text that packs this well repeats itself.
LOOPING_RATIO = 2.4
UNSURE_LOGPROB = -1.0
# Where there may be no speech at all, less doubt is enough.
NO_SPEECH, DOUBTED_LOGPROB = 0.6, -0.8
# Nobody speaks faster; some scripts need fewer characters, none needs more.
FASTEST_PER_SECOND = 40.0
SLACK_SECONDS = 1.0
# A loop: this many words repeated, at least so many times in a row.
LONGEST_PHRASE = 12
REPEATS = {1: 8, 2: 5, 3: 4}
MANY = 3
# A window is all speech: so long without a word, and some were passed over.
LONGEST_GAP = 5.0
# With how much freedom a window is tried again.
TEMPERATURES = (0.2, 0.4, 0.8)


class Verdict(Enum):
    KEEP = "keep"
    AGAIN = "again"
    DROP = "drop"


def judge(result: TranscribeResult, seconds: float) -> Verdict:
    """`seconds`: how long the window is."""
    if not result.text.strip():
        return Verdict.KEEP
    trust = result.average_logprob if result.average_logprob is not None else 0.0
    if trust < DOUBTED_LOGPROB and (result.no_speech_probability or 0.0) > NO_SPEECH:
        return Verdict.DROP
    if trust < UNSURE_LOGPROB or loops(result) or _is_hurried(result, seconds):
        return Verdict.AGAIN
    return Verdict.KEEP


def passed_over(result: TranscribeResult, seconds: float) -> list[tuple[float, float]]:
    """Where a window has no words for long, although it has some."""
    if not result.words:
        return []
    starts = [word.start for word in result.words]
    ends = [word.end for word in result.words]
    gaps = zip([0.0, *ends], [*starts, seconds], strict=True)
    return [(end, start) for end, start in gaps if start - end >= LONGEST_GAP]


def best(results: Sequence[TranscribeResult], seconds: float) -> TranscribeResult:
    """Of several tries: one that is believed, else the one that repeats itself least."""

    def order(result: TranscribeResult) -> tuple[bool, bool, float]:
        believed = judge(result, seconds) is Verdict.KEEP
        trust = result.average_logprob
        return believed, not loops(result), trust if trust is not None else 0.0

    return max(results, key=order)


def mended(result: TranscribeResult) -> TranscribeResult:
    """Said once what was said over and over."""
    words = [word for _, word in _once([(word.word, word) for word in result.words])]
    text = " ".join(text for text, _ in _once([(each, None) for each in result.text.split()]))
    return replace(
        result,
        text=text,
        words=words,
        utterances=() if words else _mended(result.utterances),
        is_cut=result.is_cut and not loops(result),
    )


def _mended(utterances: Sequence[Utterance]) -> list[Utterance]:
    kept = _once([(word, each) for each in utterances for word in each.text.split()])
    said = [(each, [word for word, of in kept if of is each]) for each in utterances]
    return [
        each if len(words) == len(each.text.split()) else replace(each, text=" ".join(words))
        for each, words in said
        if words
    ]


def loops(result: TranscribeResult) -> bool:
    return repeats(result.text.split()) or _is_packed(result)


def repeats(words: Sequence[str]) -> bool:
    return _first_loop([_plain(each) for each in words]) is not None


def _is_packed(result: TranscribeResult) -> bool:
    return result.compression_ratio is not None and result.compression_ratio > LOOPING_RATIO


def _is_hurried(result: TranscribeResult, seconds: float) -> bool:
    return len(result.text) > FASTEST_PER_SECOND * (seconds + SLACK_SECONDS)


def _once(pairs: Sequence[tuple[str, T]]) -> list[tuple[str, T]]:
    kept = list(pairs)
    while (loop := _first_loop([_plain(text) for text, _ in kept])) is not None:
        begin, length, times = loop
        del kept[begin + length : begin + length * times]
    return kept


def _first_loop(words: Sequence[str]) -> tuple[int, int, int] | None:
    """Where it begins, how many words it has, and how often they come."""
    for begin in range(len(words)):
        for length in range(1, min(LONGEST_PHRASE, (len(words) - begin) // MANY) + 1):
            times = _times(words, begin, length)
            if times >= REPEATS.get(length, MANY):
                return begin, length, times
    return None


def _times(words: Sequence[str], begin: int, length: int) -> int:
    phrase = words[begin : begin + length]
    times = 1
    while words[begin + times * length : begin + (times + 1) * length] == phrase:
        times += 1
    return times


def _plain(word: str) -> str:
    return "".join(char for char in word.casefold() if char.isalnum())
