from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import errors
from rushes.transcripts import editing, transcript
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.transcript import Transcript, words_of
from spoken import ENGINE, at_random, passage, spoken, texts, transcripts, turn, untimed, word


def change(t: Transcript, text: str, number: int = 0) -> Transcript:
    return editing.edited(t, [SegmentEdit(segment_id=t.segments[number].id, text=text)])


def timed(t: Transcript) -> list[tuple[str, float, float]]:
    return [(each.word, each.start, each.end) for each in t.words]


def test_words_that_stay_keep_their_times_and_new_ones_take_those_they_stand_for() -> None:
    before = spoken("We are the wurld.")
    after = change(before, "We are the world.")
    assert timed(after) == [*timed(before)[:3], ("world.", 0.9, 1.14)]
    assert [each.confidence for each in after.words] == [0.9, 0.9, 0.9, None]
    assert after.text == after.segments[0].text == "We are the world."
    assert after.segments[0].id == before.segments[0].id


def test_one_word_becomes_several_that_share_its_time() -> None:
    before = spoken("I cannot go")
    assert timed(change(before, "I can not go"))[1:3] == [("can", 0.3, 0.42), ("not", 0.42, 0.54)]


def test_several_words_become_one() -> None:
    assert timed(change(spoken("in the mean while nothing"), "in the meanwhile nothing")) == [
        ("in", 0.0, 0.24),
        ("the", 0.3, 0.54),
        ("meanwhile", 0.6, 1.14),
        ("nothing", 1.2, 1.44),
    ]


def test_a_word_that_was_left_out_goes_between_its_neighbours() -> None:
    assert timed(change(spoken("we home"), "we go home")) == [
        ("we", 0.0, 0.24),
        ("go", 0.24, 0.3),
        ("home", 0.3, 0.54),
    ]


def test_a_word_added_at_the_end_stays_in_its_segment() -> None:
    words = [word(0, 1, "One."), word(1, 2, "Two.")]
    before = transcript.build([passage(words)], None, ENGINE)
    after = change(before, "One and more")
    assert [each.word for each in words_of(after)["seg_000001"]] == ["One", "and", "more"]
    assert after.words[-1] == before.words[-1]
    assert all(one.start <= other.start for one, other in pairwise(after.words))


def test_a_word_added_at_the_beginning_stays_in_its_segment() -> None:
    words = [word(0, 1, "One."), word(1, 2, "Two.")]
    before = transcript.build([passage(words)], None, ENGINE)
    after = change(before, "And two.", 1)
    assert [each.word for each in words_of(after)["seg_000002"]] == ["And", "two."]


def test_a_word_that_is_only_written_otherwise_keeps_its_time() -> None:
    assert timed(change(spoken("hello, dear World"), "Hello dear world!")) == [
        ("Hello", 0.0, 0.24),
        ("dear", 0.3, 0.54),
        ("world!", 0.6, 0.84),
    ]


def test_characters_of_a_script_without_spaces_keep_their_times() -> None:
    words = [word(0, 1, "今日は"), word(1, 2, "天気"), word(2, 3, "がいい。")]
    before = transcript.build([passage(words, "ja")], None, ENGINE)
    after = change(before, "今日は元気がいい。")
    assert timed(after)[0] == ("今日は", 0, 1)
    assert timed(after)[-1] == ("がいい。", 2, 3)
    assert "".join(each.word for each in after.words) == "今日は元気がいい。"


def test_an_empty_text_removes_the_segment_and_its_words() -> None:
    after = change(spoken("One. Two. Three."), " \n", 1)
    assert [each.id for each in after.segments] == ["seg_000001", "seg_000003"]
    assert [each.word for each in after.words] == ["One.", "Three."]
    assert after.text == "One. Three."


def test_a_transcript_without_words_stays_without() -> None:
    after = change(untimed((0, 2, "One."), (2, 4, "Two.")), "Eins.")
    assert after.words == []
    assert after.text == "Eins. Two."


def test_a_speaker_is_set_for_a_segment_and_its_words() -> None:
    t = spoken("One two. Three.", [turn(0, 9, 0)])
    after = editing.edited(t, [SegmentEdit(segment_id="seg_000001", speaker="SPEAKER_07")])
    assert [each.speaker for each in after.segments] == ["SPEAKER_07", "SPEAKER_00"]
    assert [each.speaker for each in after.words] == ["SPEAKER_07", "SPEAKER_07", "SPEAKER_00"]
    nobody = editing.edited(t, [SegmentEdit(segment_id="seg_000001", speaker="")])
    assert nobody.words[0].speaker is None


def test_control_characters_are_not_kept() -> None:
    assert change(spoken("One."), "One\x00\ud800\n two.").segments[0].text == "One two."


def test_a_segment_that_is_not_there_cannot_be_changed() -> None:
    with pytest.raises(errors.NotFound, match="seg_000009"):
        editing.edited(spoken("One."), [SegmentEdit(segment_id="seg_000009", text="x")])


@st.composite
def edits(draw: st.DrawFn) -> tuple[Transcript, list[SegmentEdit]]:
    t = draw(transcripts().filter(lambda each: bool(each.segments)))
    ids = [each.id for each in t.segments]
    said = {each.id: each.text.split() for each in t.segments}
    changes = []
    for id in draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True)):
        words = list(said[id])
        place = draw(st.integers(0, len(words)))
        words[place : place + draw(st.integers(0, 2))] = draw(st.lists(texts, max_size=3))
        changes.append(SegmentEdit(segment_id=id, text=" ".join(words)))
    return t, changes


@at_random
@given(edits())
def test_what_nobody_changed_stays_and_what_was_written_is_there(
    given: tuple[Transcript, list[SegmentEdit]],
) -> None:
    before, changes = given
    after = editing.edited(before, changes)
    wanted = {each.segment_id: transcript.clean(each.text or "") for each in changes}
    of_before, of_after = words_of(before), words_of(after)
    kept = {each.id: each for each in after.segments}
    for segment in before.segments:
        if segment.id not in wanted:
            assert kept[segment.id] == segment
            assert of_after[segment.id] == of_before[segment.id]
        elif not wanted[segment.id]:
            assert segment.id not in kept
        else:
            assert kept[segment.id].text == wanted[segment.id]
            written = "".join(each.word for each in of_after[segment.id])
            assert written == (wanted[segment.id].replace(" ", "") if of_before[segment.id] else "")
            inside = [each.start for each in of_after[segment.id]]
            assert inside == sorted(inside)
    assert all(0 <= each.start <= each.end for each in after.words)
    assert transcript.decode(transcript.encode(after)) == after


@at_random
@given(edits())
def test_differences_can_be_undone(given: tuple[Transcript, list[SegmentEdit]]) -> None:
    before, changes = given
    after = editing.edited(before, changes)
    differences = editing.changed_segments(before, after)
    assert {each.segment_id for each in differences} <= {each.segment_id for each in changes}
    assert editing.undone(after, differences) == before
    assert editing.changed_segments(after, after) == []


# Cutting


def test_a_cut_moves_what_is_left_and_drops_the_rest() -> None:
    t = spoken("One two three. Four five six. Seven.", [turn(0, 9, 0)], pace=1)
    after = editing.cut(t, shift=-1.9, end=3)
    assert [(each.id, each.start, each.end, each.text) for each in after.segments] == [
        ("seg_000001", 0.1, 0.9, "three."),
        ("seg_000002", 1.1, 2.9, "Four five"),
    ]
    assert timed(after) == [("three.", 0.1, 0.9), ("Four", 1.1, 1.9), ("five", 2.1, 2.9)]
    assert after.text == "three. Four five"
    assert after.segments[0].speaker == "SPEAKER_00"


def test_a_word_at_the_edge_is_clipped_and_stays_if_its_middle_is_heard() -> None:
    t = spoken("one two three", pace=1)
    assert timed(editing.cut(t, shift=-0.3, end=2.2)) == [
        ("one", 0.0, 0.5),
        ("two", 0.7, 1.5),
        ("three", 1.7, 2.2),
    ]
    assert [each.word for each in editing.cut(t, shift=-0.5, end=1.8).words] == ["two"]


def test_segments_without_words_are_clipped() -> None:
    t = untimed((0, 10, "Much of it."), (10, 12, "Gone."), (20, 30, "Gone, too."))
    after = editing.cut(t, shift=-8, end=2.1)
    assert [(each.text, each.start, each.end) for each in after.segments] == [("Much of it.", 0, 2)]


def test_without_an_end_only_the_beginning_is_cut() -> None:
    t = spoken("One. Two. Three.")
    assert editing.cut(t, shift=0, end=None) == t
    assert editing.cut(editing.cut(t, shift=5, end=None), shift=-5, end=None) == t


@at_random
@given(transcripts(), st.floats(-30, 5), st.none() | st.floats(0, 60))
def test_what_is_left_of_a_cut_is_inside_it(t: Transcript, shift: float, end: float | None) -> None:
    after = editing.cut(t, shift=shift, end=end)
    last = float("inf") if end is None else end + 0.001
    rows = [[(each.start, each.end) for each in row] for row in (after.segments, after.words)]
    for row in rows:
        assert all(0 <= start <= end <= last for start, end in row)
        assert row == sorted(row)
    assert [each.word for each in after.words] == [
        each.word
        for each in t.words
        if 0 <= (each.start + each.end) / 2 + shift <= (float("inf") if end is None else end)
    ]
    assert {each.id for each in after.segments} <= {each.id for each in t.segments}
    assert transcript.decode(transcript.encode(after)) == after


def test_a_long_segment_of_few_words_is_corrected_in_one_go() -> None:
    """Aligning it would take minutes."""
    words = [word(n / 10, n / 10 + 0.05, "ab"[n % 2]) for n in range(4000)]
    before = Transcript(
        text="",
        language=None,
        segments=[
            transcript.TranscriptSegment(id="seg_000001", start=0, end=400, text="a b " * 2000)
        ],
        words=words,
    )
    after = change(before, "a b " + "a c " * 1998 + "a b")
    assert [each.word for each in after.words] == ["a", "b", *["a", "c"] * 1998, "a", "b"]
    assert [each.start for each in after.words[:3]] == [0.0, 0.1, 0.2]
    assert after.words[-1].start == before.words[-1].start
    starts = [each.start for each in after.words]
    assert starts == sorted(starts)
