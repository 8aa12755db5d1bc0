"""Sound that nobody planned for, with the real engine: sane words, or none."""

from __future__ import annotations

import math
import wave
from array import array
from collections.abc import Iterator
from pathlib import Path

import jiwer
import pytest

import speech
from handlers.transcribe.faulty import Run, second_default
from rushes.engines.engine import BYTES_PER_SECOND, RATE, SpeakerTurn
from rushes.engines.local import LocalEngine
from rushes.transcripts.transcript import Transcript


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    engine = speech.engine("whisper-base", "diarization-default")
    yield engine
    engine.close()


def written(path: Path, *channels: bytes, rate: int = RATE) -> Path:
    tracks = [array("h", each) for each in channels]
    length = max(map(len, tracks))
    for track in tracks:
        track.extend([0] * (length - len(track)))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(tracks))
        file.setsampwidth(2)
        file.setframerate(rate)
        together = array("h", (sample for frame in zip(*tracks, strict=True) for sample in frame))
        file.writeframes(together.tobytes())
    return path


def heard(tmp_path: Path, engine: LocalEngine, source: Path, **options: object) -> Transcript:
    return Run(tmp_path / "run", source, model="whisper-base", **options).attempt(engine)


def test_two_channels_with_a_speaker_each_are_both_heard(
    tmp_path: Path, engine: LocalEngine
) -> None:
    jfk, (reader, *_) = speech.pcm("jfk"), speech.librivox()
    later = speech.silence(len(jfk) / BYTES_PER_SECOND) + reader.sound
    source = written(tmp_path / "both.wav", jfk, later)
    found = heard(tmp_path, engine, source)
    said = f"{speech.JFK_TEXT} {reader.text}"
    assert jiwer.wer(speech.plain(said), speech.plain(found.text)) <= 0.15


@pytest.mark.thorough
def test_people_who_talk_at_once_on_a_channel_each_are_both_written_down(
    tmp_path: Path, engine: LocalEngine
) -> None:
    readers = speech.librivox()
    reader = b"".join(each.sound for each in readers[:2])
    source = written(tmp_path / "both.wav", speech.pcm("jfk"), reader)
    found = heard(tmp_path, engine, source, diarize=True)
    for speaker, said in (
        ("SPEAKER_00", speech.JFK_TEXT),
        ("SPEAKER_01", " ".join(each.text for each in readers[:2])),
    ):
        own = " ".join(word.word for word in found.words if word.speaker == speaker)
        assert jiwer.wer(speech.plain(said), speech.plain(own)) <= 0.15


@pytest.mark.thorough
def test_tracks_with_speech_are_all_heard_and_one_can_be_chosen(
    tmp_path: Path, engine: LocalEngine
) -> None:
    (reader, *_) = speech.librivox()
    first = written(tmp_path / "first.wav", reader.sound)
    source = second_default(tmp_path / "tracks.mka", first, speech.recording("jfk"))
    both = heard(tmp_path / "both", engine, source)
    assert abs(len(both.words) - len(f"{speech.JFK_TEXT} {reader.text}".split())) <= 4
    found = heard(tmp_path / "one", engine, source, track=2)
    assert jiwer.wer(speech.plain(speech.JFK_TEXT), speech.plain(found.text)) <= 0.15


def test_speech_in_antiphase_is_heard(tmp_path: Path, engine: LocalEngine) -> None:
    sound = array("h", speech.pcm("jfk")[: 4 * BYTES_PER_SECOND])
    opposite = array("h", (max(-each, -32767) for each in sound))
    source = written(tmp_path / "antiphase.wav", sound.tobytes(), opposite.tobytes())
    found = heard(tmp_path, engine, source)
    assert speech.plain(found.text).startswith("and so my fellow americans")


@pytest.mark.thorough
def test_three_languages_in_one_recording_are_written_down_as_they_are(
    tmp_path: Path, engine: LocalEngine
) -> None:
    pause = speech.silence(0.7)
    names = ("jfk", "prompt-fr", "prompt-ru")
    source = written(tmp_path / "mixed.wav", pause.join(speech.pcm(each) for each in names))
    found = heard(tmp_path, engine, source)
    ends = [len(speech.pcm(each)) / BYTES_PER_SECOND for each in names]
    english = " ".join(word.word for word in found.words if word.end < ends[0] + 0.5)
    assert jiwer.wer(speech.plain(speech.JFK_TEXT), speech.plain(english)) <= 0.15
    russian = "".join(word.word for word in found.words if word.start > sum(ends[:2]) + 1.4)
    letters = [each for each in russian if each.isalpha()]
    assert sum("а" <= each.lower() <= "я" for each in letters) > 0.9 * len(letters) > 50
    assert found.language == "ru"
    assert {each.language for each in found.segments} == {None, "en", "fr"}


def test_music_is_not_made_into_words(tmp_path: Path, engine: LocalEngine) -> None:
    chords = ((262, 330, 392), (294, 370, 440), (349, 440, 523), (196, 247, 294))
    samples = array("h")
    for at in range(20 * RATE):
        chord = chords[at // (RATE // 2) % 4]
        level = sum(math.sin(math.tau * tone * at / RATE) for tone in chord)
        samples.append(int(4000 * level * (1 - at % (RATE // 2) / RATE)))
    found = heard(tmp_path, engine, written(tmp_path / "music.wav", samples.tobytes()))
    assert found.text == ""


def test_one_sample_is_an_empty_transcript(tmp_path: Path, engine: LocalEngine) -> None:
    found = heard(tmp_path, engine, written(tmp_path / "one.wav", b"\x01\x00"))
    assert (found.text, found.words, found.segments) == ("", [], [])


def test_a_wrong_language_gives_words_that_are_in_order_and_inside(
    tmp_path: Path, engine: LocalEngine
) -> None:
    source = speech.recording("jfk")
    found = heard(tmp_path, engine, source, language="de")
    starts = [word.start for word in found.words]
    assert starts == sorted(starts)
    assert all(0 <= word.start <= word.end <= 11.1 for word in found.words)
    assert len(found.text) < 400


@pytest.mark.thorough
def test_three_people_are_counted_and_told_apart(tmp_path: Path, engine: LocalEngine) -> None:
    sound, turns = speech.two_speakers()
    start = len(sound) / BYTES_PER_SECOND
    sound += speech.pcm("jfk")
    end = len(sound) / BYTES_PER_SECOND
    truth = [*turns, SpeakerTurn(start=start, end=end, speaker=2)]
    found = heard(tmp_path, engine, written(tmp_path / "three.wav", sound), diarize=True)
    labels = sorted({word.speaker for word in found.words if word.speaker})
    assert labels == ["SPEAKER_00", "SPEAKER_01", "SPEAKER_02"]
    right = sum(_who(truth, (word.start + word.end) / 2) == word.speaker for word in found.words)
    assert right / len(found.words) >= 0.85


def _who(turns: list[SpeakerTurn], at: float) -> str:
    nearest = min(turns, key=lambda turn: max(turn.start - at, at - turn.end, 0.0))
    return f"SPEAKER_{nearest.speaker:02d}"
