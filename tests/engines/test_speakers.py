"""Speakers of a long file that is taken in pieces."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest

import speech
from rushes.engines.engine import RATE, SpeakerRequest, SpeakerTurn

np = pytest.importorskip("numpy")
speakers = pytest.importorskip("rushes.engines.speakers")


def voice(degrees: float, *members: tuple[int, int]) -> object:
    """Voices that differ by an angle; 60 degrees are a distance of one half."""
    turned = math.radians(degrees)
    at = np.array([math.cos(turned), math.sin(turned)], np.float32)
    return speakers._Speaker(list(members), at, 10.0)


def groups(*given: object, least: int = 1, most: int | None = None) -> list[set[tuple[int, int]]]:
    found = speakers._matched(list(given), least, most)
    return sorted(({*each.members} for each in found), key=min)


def test_the_same_voice_in_several_pieces_is_one_speaker() -> None:
    assert groups(voice(0, (0, 0)), voice(90, (0, 1)), voice(85, (1, 0)), voice(5, (1, 1))) == [
        {(0, 0), (1, 1)},
        {(0, 1), (1, 0)},
    ]


def test_who_was_told_apart_in_a_piece_stays_apart() -> None:
    assert groups(voice(0, (0, 0)), voice(10, (0, 1)), voice(11, (1, 0))) == [
        {(0, 0)},
        {(0, 1), (1, 0)},
    ]


def test_a_voice_that_is_like_no_other_is_a_speaker() -> None:
    assert len(groups(voice(0, (0, 0)), voice(70, (1, 0)), voice(140, (2, 0)))) == 3


@pytest.mark.parametrize(
    ("least", "most", "count"), [(1, 2, 2), (1, 1, 1), (3, None, 3), (4, 4, 4)]
)
def test_bounds_are_kept(least: int, most: int | None, count: int) -> None:
    given = [voice(0, (0, 0)), voice(90, (0, 1)), voice(180, (0, 2)), voice(1, (1, 0))]
    assert len(groups(*given, least=least, most=most)) == count


@pytest.mark.parametrize("minutes", [0, 1, 20, 29, 31, 45, 600])
def test_pieces_cover_everything_and_are_about_equal(minutes: int) -> None:
    length = minutes * 60 * RATE + 7
    cuts = speakers._cuts(length)
    assert cuts[0][0] == 0
    assert cuts[-1][1] == length
    assert all(one[1] == other[0] for one, other in pairwise(cuts))
    assert all((end - start) / RATE <= 1.5 * speakers.PIECE_SECONDS for start, end in cuts)


def test_a_turn_that_was_cut_is_one_again() -> None:
    pieces = [
        [SpeakerTurn(start=1, end=5, speaker=1), SpeakerTurn(start=4, end=10, speaker=0)],
        [SpeakerTurn(start=0, end=2, speaker=0), SpeakerTurn(start=5, end=6, speaker=0)],
    ]
    assert speakers._joined(pieces, [0.0, 10.0]) == [
        SpeakerTurn(start=1, end=5, speaker=1),
        SpeakerTurn(start=4, end=12, speaker=0),
        SpeakerTurn(start=15, end=16, speaker=0),
    ]


@pytest.mark.thorough
def test_two_speakers_are_the_same_two_in_every_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speakers, "PIECE_SECONDS", 14)
    sound, truth = speech.two_speakers()
    path = tmp_path / "sound"
    path.write_bytes(sound)
    models = speech.cache_dir("diarization-default") / "diarization-default"
    shares: list[float] = []
    turns = speakers.Speakers(models, 2).turns(SpeakerRequest(path=path), shares.append)
    assert {turn.speaker for turn in turns} == {0, 1}
    assert speech.diarization_error(truth, turns) <= 0.15
    assert shares == sorted(shares)
