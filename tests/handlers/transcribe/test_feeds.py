"""Which tracks and channels are listened to: all that is said, and none of it twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import ffmpegs
from handlers.transcribe.faulty import (
    Broken,
    Run,
    Scripted,
    channels,
    recording,
    second_default,
    tracks,
)
from rushes import errors
from rushes.engines.engine import SpeakerTurn, TranscribeRequest, TranscribeResult
from rushes.handlers.transcribe.channels import Layout, Levels, layout
from rushes.transcripts import transcript
from rushes.transcripts.transcript import Transcript

SILENCE: list[int | None] = [None] * 6


def words_of(heard: Transcript) -> list[str]:
    return [word.word for word in heard.words]


def names(*numbers: int) -> list[str]:
    return [f"w{number}." for number in numbers]


def test_the_default_track_is_written_down_if_all_say_the_same(tmp_path: Path) -> None:
    one = recording(tmp_path / "one.wav", [1, 2, 3, 4, None, 6])
    source = tracks(tmp_path / "tracks.mka", one, one)
    run = Run(tmp_path / "run", source)
    assert words_of(run.attempt(Scripted())) == names(1, 2, 3, 4, 6)
    assert run.result["warnings"] == []


def test_of_tracks_in_several_languages_players_begin_with_one(tmp_path: Path) -> None:
    made = [recording(tmp_path / f"{n}.wav", [n, n + 1]) for n in (1, 7)]
    source = tracks(tmp_path / "tracks.mka", *made, default=1, languages=["eng", "fra"])
    assert words_of(Run(tmp_path / "run", source).attempt(Scripted())) == names(7, 8)


def test_a_silent_default_track_gives_way_to_one_with_speech(tmp_path: Path) -> None:
    silent = recording(tmp_path / "silent.wav", SILENCE)
    spoken = recording(tmp_path / "spoken.wav", [None, 1, 2, 3, None, 5])
    source = tracks(tmp_path / "tracks.mka", silent, spoken)
    run = Run(tmp_path / "run", source)
    assert words_of(run.attempt(Scripted())) == names(1, 2, 3, 5)
    [warning] = run.result["warnings"]
    assert "track 2 was listened to" in warning


def test_tracks_with_different_speech_are_all_heard_in_the_order_of_time(tmp_path: Path) -> None:
    desktop = recording(tmp_path / "desktop.wav", [1, 2, 3, None, None, None, 7, 8])
    microphone = recording(tmp_path / "microphone.wav", [None, None, None, 14, 15, 16])
    run = Run(tmp_path / "run", second_default(tmp_path / "obs.mkv", desktop, microphone))
    heard = run.attempt(Scripted())
    assert words_of(heard) == names(1, 2, 3, 14, 15, 16, 7, 8)
    assert [word.start for word in heard.words] == pytest.approx(range(8), abs=0.05)
    assert "track 2 and track 1 were listened to" in run.result["warnings"][0]


def test_what_a_microphone_hears_of_the_desktop_is_written_down_once(tmp_path: Path) -> None:
    loud = recording(tmp_path / "loud.wav", [40, 41, 42, None, None, None, None, 47, None])
    said = recording(tmp_path / "said.wav", [None, None, None, 3, 4, 5, 6, None, 8])
    microphone = tmp_path / "microphone.wav"
    echo = "[0:a]volume=0.3[echo];[echo][1:a]amix=inputs=2:normalize=0"
    argv = [ffmpegs.known(), "-v", "error", "-i", str(loud), "-i", str(said)]
    subprocess.run([*argv, "-filter_complex", echo, str(microphone)], check=True)
    heard = Run(tmp_path / "run", tracks(tmp_path / "obs.mkv", loud, microphone)).attempt(
        Scripted()
    )
    assert words_of(heard) == names(40, 41, 42, 3, 4, 5, 6, 47, 8)


@pytest.mark.parametrize(("track", "numbers"), [(1, (1, 2)), (2, (7, 8))])
def test_people_choose_a_track(tmp_path: Path, track: int, numbers: tuple[int, ...]) -> None:
    made = [recording(tmp_path / f"{n}.wav", [n, n + 1]) for n in (1, 7)]
    source = tracks(tmp_path / "tracks.mka", *made)
    run = Run(tmp_path / "run", source, track=track)
    assert words_of(run.attempt(Scripted())) == names(*numbers)


def test_a_track_that_is_not_there_is_said(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", recording(tmp_path / "one.wav", [1]), track=3)
    with pytest.raises(errors.PermanentFailure, match="there is no track 3") as failure:
        run.attempt(Scripted())
    assert failure.value.code == "no_such_track"


LEFT = [1, 2, 3, 4, None, None, None, None, 9, 10, None, None]
RIGHT = [None, None, None, None, 25, 26, 27, 28, 29, 30, None, None]


def test_a_speaker_on_each_channel_is_heard_by_itself(tmp_path: Path) -> None:
    source = channels(tmp_path / "call.wav", LEFT, RIGHT)
    engine = Scripted()
    heard = Run(tmp_path / "run", source, diarize=True).attempt(engine)
    assert sorted(words_of(heard)) == sorted(names(1, 2, 3, 4, 9, 10, 25, 26, 27, 28, 29, 30))
    who = {word.word: word.speaker for word in heard.words}
    assert {who[each] for each in names(1, 2, 3, 4, 9, 10)} == {"SPEAKER_00"}
    assert {who[each] for each in names(25, 26, 27, 28, 29, 30)} == {"SPEAKER_01"}
    assert engine.diarized == [], "who has a channel is known"
    starts = [word.start for word in heard.words]
    assert starts == sorted(starts)
    assert [round(start) for start in starts] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9]


@pytest.mark.parametrize(("said", "expected"), [(None, ["SPEAKER_00", "SPEAKER_01"]), (False, [])])
def test_who_has_a_channel_is_named_unless_somebody_says_no(
    said: bool | None, expected: list[str], tmp_path: Path
) -> None:
    engine = Scripted()
    source = channels(tmp_path / "call.wav", LEFT, RIGHT)
    heard = Run(tmp_path / "run", source, diarize=said).attempt(engine)
    assert len(heard.words) == 12
    assert sorted({word.speaker for word in heard.words if word.speaker}) == expected
    assert engine.diarized == [], "nothing is spent on it"
    assert heard.engine is not None
    assert heard.engine.diarization_model is None


def test_voices_of_one_channel_are_told_apart_only_when_asked_for(tmp_path: Path) -> None:
    engine = Scripted()
    source = channels(tmp_path / "talk.wav", LEFT, LEFT)
    heard = Run(tmp_path / "run", source).attempt(engine)
    assert {word.speaker for word in heard.words} == {None}
    assert engine.diarized == []


def test_a_crash_between_channels_costs_one_window(tmp_path: Path) -> None:
    left = [word and 10 * block + word for block in range(7) for word in LEFT]
    right = [word and 10 * block + word + 200 for block in range(7) for word in RIGHT]
    source = channels(tmp_path / "call.wav", left, right)
    whole = Scripted()
    expected = Run(tmp_path / "whole", source, diarize=True).attempt(whole)
    assert len(whole.asked) == 4
    for crash in (1, 3):

        def script(
            number: int, request: TranscribeRequest, answer: TranscribeResult, crash: int = crash
        ) -> TranscribeResult:
            if number == crash:
                raise Broken
            return answer

        run = Run(tmp_path / str(crash), source, diarize=True)
        with pytest.raises(Broken):
            run.attempt(Scripted(script=script))
        again = Scripted()
        assert transcript.encode(run.attempt(again)) == transcript.encode(expected)
        assert len(again.asked) == len(whole.asked) - crash


def test_channels_that_cancel_each_other_are_heard(tmp_path: Path) -> None:
    source = channels(tmp_path / "half.wav", [1, 2, 3, None, 5], SILENCE[:5])
    opposite = tmp_path / "opposite.wav"
    _filtered(source, opposite, "pan=stereo|c0=c0|c1=-1*c0")
    run = Run(tmp_path / "run", opposite)
    assert words_of(run.attempt(Scripted())) == names(1, 2, 3, 5)
    assert "left channel" in run.result["warnings"][0]


def test_channels_that_are_alike_are_heard_once(tmp_path: Path) -> None:
    source = channels(tmp_path / "half.wav", LEFT, [None])
    stereo = tmp_path / "stereo.wav"
    _filtered(source, stereo, "pan=stereo|c0=c0|c1=0.7*c0")
    engine = Scripted()
    run = Run(tmp_path / "run", stereo)
    assert len(run.attempt(engine).words) == 6
    assert engine.stretches == 1, "nothing is looked through twice"
    assert run.result["warnings"] == []


def test_speakers_of_tracks_are_counted_on(tmp_path: Path) -> None:
    one = recording(tmp_path / "one.wav", [1, 2, 3, None, None, None])
    other = recording(tmp_path / "other.wav", [None, None, None, 24, 25, 26])
    source = tracks(tmp_path / "tracks.mka", one, other)
    engine = Scripted(turns=[SpeakerTurn(start=0, end=6, speaker=0)])
    run = Run(tmp_path / "run", source, diarize=True)
    heard = run.attempt(engine)
    assert len(engine.diarized) == 2
    assert [word.speaker for word in heard.words] == ["SPEAKER_00"] * 3 + ["SPEAKER_01"] * 3
    assert run.result["speakers"] == 2


def test_layouts() -> None:
    quiet, loud = 1e-9, 1e-2
    left = Levels(loud, quiet, loud / 4, loud / 4)
    right = Levels(quiet, loud, loud / 4, loud / 4)
    middle = Levels(loud, loud, loud, quiet)
    opposite = Levels(loud, loud, quiet, loud)
    assert layout([]) is Layout.MIX
    assert layout([left] * 9) is Layout.MIX
    assert layout([middle] * 9) is Layout.MIX
    assert layout([left, right] * 5) is Layout.APART
    assert layout([middle] * 20 + [left, right]) is Layout.MIX
    assert layout([opposite] * 9) is Layout.LEFT
    assert layout([middle] * 6 + [opposite] * 3) is Layout.LEFT


def _filtered(source: Path, target: Path, filter: str) -> None:

    argv = [ffmpegs.known(), "-v", "error", "-i", str(source), "-af", filter, str(target)]
    subprocess.run(argv, check=True)
