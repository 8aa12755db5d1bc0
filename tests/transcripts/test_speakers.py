"""Speakers for words that are there already."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from rushes.transcripts import editing, speakers
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.transcript import Transcript, Turn, joined, words_of
from spoken import at_random, rows_of_turns, spoken, transcripts, turn, untimed


def said_by(t: Transcript) -> list[tuple[str, str | None]]:
    return [(each.text, each.speaker) for each in t.segments]


def test_a_segment_in_which_two_speak_becomes_two() -> None:
    before = spoken("Did you hear that no I did not hear a thing.")
    after = speakers.told_apart(before, [turn(0, 1.2, 0), turn(1.2, 9, 1)])
    assert said_by(after) == [
        ("Did you hear that", "SPEAKER_00"),
        ("no I did not hear a thing.", "SPEAKER_01"),
    ]
    assert after.segments[0].id == before.segments[0].id
    assert after.segments[1].start == after.words[4].start


def test_corrected_words_stay_and_a_text_without_words_stays_whole() -> None:
    before = spoken("He heard a deep. Then it was quiet.")
    before = editing.edited(before, [SegmentEdit(segment_id="seg_000001", text="He heard a beep!")])
    after = speakers.told_apart(before, [turn(0, 1.2, 0), turn(1.2, 9, 1)])
    assert said_by(after) == [
        ("He heard a beep!", "SPEAKER_00"),
        ("Then it was quiet.", "SPEAKER_01"),
    ]
    captions = untimed((0, 4, "He heard a beep"), (4, 8, "and then it was quiet"))
    assert said_by(speakers.told_apart(captions, [turn(0, 3, 0), turn(3, 9, 1)])) == [
        ("He heard a beep", "SPEAKER_00"),
        ("and then it was quiet", "SPEAKER_01"),
    ]


def test_whoever_was_there_keeps_the_label_and_nobody_new_gets_one_with_a_name() -> None:
    before = spoken("One two three. Four five six.", [turn(0, 0.9, 0), turn(0.9, 9, 1)])
    turns = [turn(0, 0.9, 1), turn(0.9, 1.4, 0), turn(1.4, 9, 2)]
    after = speakers.told_apart(before, turns, {"SPEAKER_02": "Somebody of before"})
    assert said_by(after)[0] == ("One two three.", "SPEAKER_00")
    assert {speaker for _, speaker in said_by(after)[1:]} <= {"SPEAKER_01", "SPEAKER_03"}


@at_random
@given(transcripts(), rows_of_turns())
def test_text_and_words_stay_as_they_are(t: Transcript, turns: list[Turn]) -> None:
    after = speakers.told_apart(t, turns)
    assert "".join(after.text.split()) == "".join(t.text.split())
    assert [(each.start, each.word) for each in after.words] == [
        (each.start, each.word) for each in t.words
    ]
    assert len({each.id for each in after.segments}) == len(after.segments)
    assert all(one.start <= other.start for one, other in pairwise(after.segments))
    words = words_of(after)
    for segment in after.segments:
        said = joined(each.word for each in words[segment.id])
        assert not said or "".join(said.split()) == "".join(segment.text.split())
