"""Loops, invented sentences and sane speech, each told from the other."""

from __future__ import annotations

from typing import Any

import pytest

from rushes.engines.engine import EngineWord, TranscribeResult, Utterance
from rushes.handlers.transcribe import plausibility
from rushes.handlers.transcribe.plausibility import Verdict, judge

SANE = "It was the best of times, it was the worst of times, it was the age of wisdom."


def said(text: str, **more: Any) -> TranscribeResult:
    words = [
        EngineWord(start=number, end=number + 1, word=word)
        for number, word in enumerate(text.split())
    ]
    return TranscribeResult(text=text, words=words, **more)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (said(SANE), Verdict.KEEP),
        (said(SANE, average_logprob=-0.3, no_speech_probability=0.9), Verdict.KEEP),
        (said(""), Verdict.KEEP),
        (said("no, no, no, no, stop"), Verdict.KEEP),
        (said("ha ha ha ha ha ha"), Verdict.KEEP),
        (said("Thank you. " * 6), Verdict.AGAIN),
        (said("I am going to the store to buy some bread and milk. " * 3), Verdict.AGAIN),
        (said(SANE, compression_ratio=2.9), Verdict.AGAIN),
        (said(SANE, average_logprob=-1.4), Verdict.AGAIN),
        (said("Bye.", average_logprob=-1.4, no_speech_probability=0.8), Verdict.DROP),
        (said("you", average_logprob=-0.98, no_speech_probability=0.71), Verdict.DROP),
        (said("word " * 8 + "x" * 2000), Verdict.AGAIN),
    ],
)
def test_what_is_believed(answer: TranscribeResult, verdict: Verdict) -> None:
    assert judge(answer, 20.0) is verdict


@pytest.mark.parametrize(
    ("times", "gaps"),
    [
        ([(0, 1), (4, 5), (9, 10), (14, 15), (19, 20)], []),
        ([(18, 19), (19, 20)], [(0.0, 18)]),
        ([(0, 1), (9, 10), (14, 15), (19, 20)], [(1, 9)]),
        ([(0, 1), (2, 3)], [(3, 20.0)]),
        ([], []),
    ],
)
def test_where_speech_was_passed_over(
    times: list[tuple[float, float]], gaps: list[tuple[float, float]]
) -> None:
    words = [EngineWord(start=start, end=end, word="x") for start, end in times]
    assert plausibility.passed_over(TranscribeResult(text="x", words=words), 20.0) == gaps


def test_a_loop_that_stays_is_said_once_and_its_words_with_it() -> None:
    mended = plausibility.mended(said("And so on. " + "We are here. " * 9 + "The end."))
    assert mended.text == "And so on. We are here. The end."
    assert [word.word for word in mended.words] == mended.text.split()
    assert [word.start for word in mended.words] == sorted(word.start for word in mended.words)


def test_a_loop_of_whole_sentences_is_said_once() -> None:
    sentences = ["And so on.", *["We are here."] * 9, "The end."]
    utterances = [
        Utterance(start=number, end=number + 1, text=text) for number, text in enumerate(sentences)
    ]
    answer = TranscribeResult(text=" ".join(sentences), utterances=utterances)
    mended = plausibility.mended(answer)
    assert [(each.start, each.text) for each in mended.utterances] == [
        (0, "And so on."),
        (1, "We are here."),
        (10, "The end."),
    ]
    assert mended.text == "And so on. We are here. The end."


def test_sane_speech_is_left_alone() -> None:
    answer = said(SANE)
    assert plausibility.mended(answer).words == list(answer.words)
    assert plausibility.mended(answer).text == SANE


def test_of_several_tries_the_one_that_is_believed_counts() -> None:
    loop = said("again and again and " * 9, average_logprob=-0.1)
    fine = said(SANE, average_logprob=-0.5)
    unsure = said("Something else.", average_logprob=-1.2)
    assert plausibility.best([loop, fine, unsure], 20.0) is fine
    assert plausibility.best([loop, unsure], 20.0) is unsure
