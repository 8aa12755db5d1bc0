"""People who talk at the same time, each on a channel: every word keeps its own time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rushes.transcripts import captions, editing, speakers, transcript
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.transcript import Transcript, Turn, Word, words_of
from spoken import ENGINE, at_random, passage, rows_of_passages, said

ONE = said("This is what I have been saying all the time, my friend.", 0.0)
OTHER = said("Oh yes, indeed.", 1.0)
TURNS = [
    Turn(start=0.0, end=10.0, speaker="SPEAKER_00", feed=0),
    Turn(start=0.0, end=10.0, speaker="SPEAKER_01", feed=1),
]


def both(turns: list[Turn] | None = None) -> Transcript:
    return transcript.build(
        [replace(passage(ONE), feed=0), replace(passage(OTHER), feed=1)], turns, ENGINE
    )


def times(words: list[Word]) -> list[tuple[float, float, str]]:
    return [(each.start, each.end, each.word) for each in words]


def test_each_is_a_segment_whose_words_have_their_own_times() -> None:
    for t in (both(TURNS), both()):
        own = words_of(t)
        assert [each.text for each in t.segments] == [
            "This is what I have been saying all the time, my friend.",
            "Oh yes, indeed.",
        ]
        assert [times(own[each.id]) for each in t.segments] == [times(ONE), times(OTHER)]
        assert [(each.start, each.end) for each in t.segments] == [(0.0, 3.54), (1.0, 1.84)]
        starts = [each.start for each in t.words]
        assert starts == sorted(starts)
    assert [each.speaker for each in both(TURNS).segments] == ["SPEAKER_00", "SPEAKER_01"]
    assert {each.speaker for each in both().segments} == {None}


def test_only_words_whose_time_does_not_tell_name_their_segment() -> None:
    document = transcript.encode(both())
    named = {each["word"]: each.get("segment") for each in document["words"]}
    first = ["have", "been", "saying", "all", "the", "time,", "my", "friend."]
    assert {word for word, segment in named.items() if segment == "seg_000001"} == set(first)
    assert named["This"] is named["Oh"] is None
    assert words_of(transcript.decode(document)) == words_of(both())
    alone = transcript.build([passage(ONE)], None, ENGINE)
    assert all("segment" not in each for each in transcript.encode(alone)["words"])


def test_an_edit_of_one_leaves_the_other_alone_and_can_be_undone() -> None:
    t = both(TURNS)
    text = "This is what I say, my old friend."
    after = editing.edited(t, [SegmentEdit(segment_id="seg_000001", text=text)])
    own = words_of(after)
    assert times(own["seg_000002"]) == times(OTHER)
    assert [each.word for each in own["seg_000001"]] == text.split()
    assert times(own["seg_000001"])[-1] == times(ONE)[-1]
    assert editing.undone(after, editing.changed_segments(t, after)) == t
    gone = editing.edited(t, [SegmentEdit(segment_id="seg_000002", text="")])
    assert words_of(gone) == {"seg_000001": words_of(t)["seg_000001"]}


def test_a_cut_moves_both() -> None:
    moved = editing.cut(both(TURNS), shift=-0.5, end=None)
    own = words_of(moved)
    assert [each.word for each in own["seg_000002"]] == ["Oh", "yes,", "indeed."]
    assert own["seg_000002"][0].start == 0.5
    assert own["seg_000001"][-1].end == 3.04


def test_captions_of_both_are_shown_at_once() -> None:
    shown = captions.cues(both(TURNS), end=10.0)
    assert [(each.start, each.speaker) for each in shown] == [
        (0.0, "SPEAKER_00"),
        (1.0, "SPEAKER_01"),
    ]
    assert shown[0].end >= 3.54
    assert shown[1].end >= 1.8
    assert captions.parse(captions.vtt(both(TURNS))).segments[1].start == 1.0


def test_each_caption_has_its_name_where_names_stand_in_the_text() -> None:
    long = " ".join(f"word{number}" for number in range(40)) + "."
    t = transcript.build(
        [replace(passage(said(long)), feed=0), replace(passage(said("Yes.", 5.0)), feed=1)],
        TURNS,
        ENGINE,
    )
    shown = captions.cues(t, is_labelled=True)
    starts = [each.start for each in shown]
    assert starts == sorted(starts)
    (yes,) = (n for n, each in enumerate(shown) if each.lines == ("SPEAKER_01: Yes.",))
    assert shown[yes].start == 5.0
    assert shown[yes + 1].lines[0].startswith("SPEAKER_00: ")


def test_speakers_found_later_do_not_mix_them_up() -> None:
    turns = [Turn(start=0.0, end=10.0, speaker="SPEAKER_00")]
    named = speakers.labelled(both(), turns)
    assert [times(each) for each in words_of(named).values()] == [times(ONE), times(OTHER)]
    assert [each.text for each in named.segments] == [each.text for each in both().segments]


@at_random
@given(rows_of_passages(), rows_of_passages(), st.booleans())
def test_whatever_two_people_say_each_word_is_in_its_segment_at_its_time(
    one: list[transcript.Passage], other: list[transcript.Passage], has_speakers: bool
) -> None:
    feeds = [[replace(each, feed=n) for each in row] for n, row in enumerate((one, other))]
    alone = [transcript.build(each, None, ENGINE) for each in feeds]
    t = transcript.build([*feeds[0], *feeds[1]], TURNS if has_speakers else None, ENGINE)
    assert sorted(times(list(t.words))) == sorted(
        word for each in alone for word in times(list(each.words))
    )
    own = words_of(t)
    for segment in t.segments:
        if words := own[segment.id]:
            assert segment.text == transcript.joined(each.word for each in words)
            assert (segment.start, segment.end) == (words[0].start, words[-1].end)
    assert words_of(transcript.decode(transcript.encode(t))) == own
    assert editing.cut(t, shift=0, end=None) == t
    shown = captions.cues(t)
    assert all(before.start <= after.start for before, after in pairwise(shown))
