"""Real recordings through real models: words, times, languages, speakers, and nothing out of
nothing. Thresholds leave room for other processors; what is measured is far below."""

from __future__ import annotations

import math
import random
import statistics
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import jiwer
import pytest

import speech
from rushes.engines.engine import (
    BYTES_PER_SECOND,
    RATE,
    Engine,
    EngineWord,
    SpeakerRequest,
    SpeakerTurn,
    TranscribeRequest,
    TranscribeResult,
)
from speech import Read

WORST_WER = 0.10
WORST_START_SECONDS = 0.150
WORST_DER = 0.15


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = speech.engine()
    yield engine
    engine.close()


def nothing() -> None: ...


def hear(
    engine: Engine, sound: bytes, language: str | None = "en", **more: object
) -> TranscribeResult:
    request = TranscribeRequest(sound=sound, language=language, **more)  # type: ignore[arg-type]
    answer = engine.transcribe(request, nothing)
    duration = len(sound) / BYTES_PER_SECOND
    assert all(0 <= word.start <= word.end <= duration for word in answer.words)
    assert all(one.start <= other.start for one, other in pairwise(answer.words))
    assert all(type(word.start) is type(word.confidence) is float for word in answer.words)
    assert all(0 <= (word.confidence or 0) <= 1 for word in answer.words)
    spoken = "".join(word.word for word in answer.words)
    assert spoken == "".join(answer.text.split()), "words are all of the text, in order"
    return answer


def joined(clips: Sequence[Read]) -> Read:
    """One after the other, with a breath between them."""
    sound, words = b"", []
    for clip in clips:
        at = len(sound) / BYTES_PER_SECOND
        words += [
            EngineWord(start=at + each.start, end=at + each.end, word=each.word)
            for each in clip.words
        ]
        sound += clip.sound + speech.silence(0.3)
    return Read(sound=sound, words=words)


def start_errors(read: Read, words: Sequence[EngineWord]) -> list[float]:
    """Of the words that were heard right."""
    true, heard = ([speech.plain(word.word) for word in each] for each in (read.words, words))
    [aligned] = jiwer.process_words(" ".join(true), " ".join(heard)).alignments
    found = []
    for chunk in aligned:
        if chunk.type == "equal":
            for offset in range(chunk.ref_end_idx - chunk.ref_start_idx):
                one = read.words[chunk.ref_start_idx + offset]
                other = words[chunk.hyp_start_idx + offset]
                found.append(abs(one.start - other.start))
    return found


def test_words_and_their_times_are_right(engine: Engine) -> None:
    read = joined(speech.librivox())
    answer = hear(engine, read.sound)
    assert jiwer.wer(speech.plain(read.text), speech.plain(answer.text)) <= WORST_WER
    errors = start_errors(read, answer.words)
    assert len(errors) >= 0.9 * len(read.words)
    assert statistics.median(errors) <= WORST_START_SECONDS
    assert answer.average_logprob is not None
    assert answer.average_logprob > -0.6
    assert answer.compression_ratio is not None
    assert answer.compression_ratio < 2.4


def test_a_language_is_found_and_the_prompt_is_heard(engine: Engine) -> None:
    answer = hear(engine, speech.pcm("jfk"), language=None, prompt="Kennedy, 1961.")
    assert answer.language == "en"
    assert (answer.language_probability or 0) > 0.8
    assert jiwer.wer(speech.plain(speech.JFK_TEXT), speech.plain(answer.text)) <= WORST_WER


@pytest.mark.parametrize(
    "language",
    ["es", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("fr", "it", "ru"))],
)
def test_other_languages_are_told_apart(engine: Engine, language: str) -> None:
    """Prompts of a telephone system, 8 kHz."""
    sound = speech.pcm(f"prompt-{language}")[: 12 * BYTES_PER_SECOND]
    answer = hear(engine, sound, language=None)
    assert answer.language == language
    assert len(answer.words) > 10


def test_what_is_said_in_another_language_is_translated(engine: Engine) -> None:
    sound = speech.pcm("prompt-es")[: 12 * BYTES_PER_SECOND]
    answer = hear(engine, sound, language="es", task="translate")
    words = set(speech.plain(answer.text).split())
    assert len(words & {"press", "to", "the", "message", "your", "for", "record"}) >= 4


def tone() -> bytes:
    wave = [int(9000 * math.sin(440 * math.tau * at / RATE)) for at in range(4 * RATE)]
    return array("h", wave).tobytes()


def noise() -> bytes:
    drawn = random.Random(7)
    return array("h", [int(drawn.gauss(0, 800)) for _ in range(4 * RATE)]).tobytes()


@pytest.mark.parametrize(
    "sound",
    [b"", b"\x01\x00", speech.silence(4), tone(), noise()],
    ids=["none", "one sample", "silence", "tone", "noise"],
)
def test_where_nobody_speaks_nobody_is_heard(engine: Engine, sound: bytes) -> None:
    assert list(engine.speech(sound, nothing)) == []


@pytest.mark.parametrize("sound", [b"", b"\x01\x00"], ids=["none", "one sample"])
def test_too_little_sound_has_no_words(engine: Engine, sound: bytes, tmp_path: Path) -> None:
    assert hear(engine, sound).text == ""
    path = tmp_path / "sound"
    path.write_bytes(sound)
    assert list(engine.diarize(SpeakerRequest(path=path), lambda share: None, nothing)) == []


def test_no_word_is_outside_of_what_counts_as_speech(engine: Engine) -> None:
    read = joined(speech.librivox())
    sound = speech.silence(3) + read.sound + speech.silence(3)
    intervals = list(engine.speech(sound, nothing))
    assert intervals
    for word in read.words:
        middle = 3 + (word.start + word.end) / 2
        assert any(start <= middle <= end for start, end in intervals), word
    assert intervals[0][0] > 2
    assert intervals[-1][1] < len(sound) / BYTES_PER_SECOND - 2


def diarized(engine: Engine, tmp_path: Path, sound: bytes, **bounds: int) -> list[SpeakerTurn]:
    path = tmp_path / "sound"
    path.write_bytes(sound)
    shares: list[float] = []
    request = SpeakerRequest(path=path, **bounds)  # type: ignore[arg-type]
    turns = list(engine.diarize(request, shares.append, nothing))
    duration = len(sound) / BYTES_PER_SECOND
    assert all(0 <= turn.start < turn.end <= duration for turn in turns)
    assert [turn.start for turn in turns] == sorted(turn.start for turn in turns)
    first_heard = list(dict.fromkeys(turn.speaker for turn in turns))
    assert first_heard == list(range(len(first_heard)))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    return turns


def test_two_people_on_the_telephone_are_told_apart(engine: Engine, tmp_path: Path) -> None:
    turns = diarized(engine, tmp_path, speech.pcm("call"))
    assert {turn.speaker for turn in turns} == {0, 1}
    assert speech.diarization_error(speech.call_turns(), turns) <= WORST_DER


@pytest.mark.thorough
def test_two_people_who_read_in_turn_are_told_apart(engine: Engine, tmp_path: Path) -> None:
    sound, truth = speech.two_speakers()
    turns = diarized(engine, tmp_path, sound)
    assert {turn.speaker for turn in turns} == {0, 1}
    assert speech.diarization_error(truth, turns) <= WORST_DER


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("bounds", "count"),
    [
        ({"speakers": 1}, 1),
        ({"speakers": 3}, 3),
        ({"min_speakers": 3}, 3),
        ({"max_speakers": 1}, 1),
    ],
)
def test_as_many_speakers_as_asked_for(
    engine: Engine, tmp_path: Path, bounds: dict[str, int], count: int
) -> None:
    turns = diarized(engine, tmp_path, speech.pcm("call"), **bounds)
    assert len({turn.speaker for turn in turns}) == count


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(5))
def test_each_short_sentence_is_right(engine: Engine, number: int) -> None:
    read = speech.librivox()[number]
    answer = hear(engine, read.sound)
    assert jiwer.wer(speech.plain(read.text), speech.plain(answer.text)) <= WORST_WER
    assert statistics.median(start_errors(read, answer.words)) <= WORST_START_SECONDS


@pytest.mark.thorough
def test_a_temperature_still_gives_words(engine: Engine) -> None:
    answer = hear(engine, speech.pcm("jfk"), temperature=0.4)
    assert jiwer.wer(speech.plain(speech.JFK_TEXT), speech.plain(answer.text)) <= 0.3
