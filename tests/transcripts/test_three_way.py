"""Corrections and names of an old transcript in a newer one of the same recording."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rushes.transcripts import editing, three_way, transcript
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.three_way import Merged
from rushes.transcripts.transcript import Transcript
from spoken import ENGINE, at_random, passage, said, spoken, transcripts, turn, untimed

NEWER = replace(ENGINE, transcription_model="whisper-small")
HEARD = "In the cellar. He heard a deep. Then it was quiet. Nobody moved at all."


def heard(text: str, *, late: float = 0.0, **how: object) -> Transcript:
    """As another engine hears it: a little later, in other segments perhaps."""
    words = said(text, late)
    return transcript.build([passage(words)], how.get("turns"), NEWER)  # type: ignore[arg-type]


def corrected(t: Transcript, *texts: str | None) -> Transcript:
    changes = [
        SegmentEdit(segment_id=each.id, text=text)
        for each, text in zip(t.segments, texts, strict=False)
        if text is not None
    ]
    return editing.edited(t, changes)


def texts(t: Transcript) -> list[str]:
    return [each.text for each in t.segments]


def merged(base: Transcript, ours: Transcript, theirs: Transcript) -> Merged:
    return three_way.merge(base, ours, theirs)


# Words


def test_a_correction_is_kept_where_the_words_are_heard_as_before() -> None:
    base = spoken(HEARD)
    ours = corrected(base, None, "He heard a beep.")
    theirs = heard(HEARD.replace("it was quiet", "it was quite quiet"), late=0.07)
    found = merged(base, ours, theirs)
    assert texts(found.transcript) == [
        "In the cellar.",
        "He heard a beep.",
        "Then it was quite quiet.",
        "Nobody moved at all.",
    ]
    assert (found.corrections, found.kept, list(found.conflicts)) == (1, 1, [])
    assert found.transcript.engine == NEWER
    beep = next(each for each in found.transcript.words if each.word == "beep.")
    deep = next(each for each in theirs.words if each.word == "deep.")
    assert (beep.start, beep.end) == (deep.start, deep.end)


def test_other_sentences_around_it_do_not_matter() -> None:
    base = spoken(HEARD)
    ours = corrected(base, None, "He heard a beep.", "Then it was quiet!")
    theirs = heard(
        HEARD.replace("cellar. He", "cellar, he").replace("quiet. Nobody", "quiet nobody")
    )
    found = merged(base, ours, theirs)
    assert texts(found.transcript)[0] == "In the cellar, he heard a beep."
    assert "Then it was quiet! nobody moved at all." in texts(found.transcript)
    assert found.kept == found.corrections == 2


def test_where_both_changed_it_is_a_conflict_and_peoples_words_stay_unless_they_choose() -> None:
    base = spoken(HEARD)
    ours = corrected(base, None, "He heard a beep.", "Then all was quiet.")
    theirs = heard(HEARD.replace("deep", "peep").replace("moved", "stirred"))
    found = merged(base, ours, theirs)
    [conflict] = found.conflicts
    assert (conflict.base, conflict.ours, conflict.theirs) == ("deep.", "beep.", "peep.")
    assert conflict.start == base.words[6].start
    assert (found.corrections, found.kept) == (2, 1)
    assert texts(found.transcript)[1:] == [
        "He heard a beep.",
        "Then all was quiet.",
        "Nobody stirred at all.",
    ]
    taken = three_way.merge(base, ours, theirs, choices={0: "theirs"})
    assert texts(taken.transcript)[1:3] == ["He heard a peep.", "Then all was quiet."]


def test_who_had_it_right_both_times_has_no_conflict() -> None:
    base = spoken(HEARD)
    ours = corrected(base, None, "He heard a beep.")
    found = merged(base, ours, heard(HEARD.replace("deep", "beep")))
    assert not found.conflicts
    assert texts(found.transcript)[1] == "He heard a beep."


def test_removed_and_added_words_are_corrections_too() -> None:
    base = spoken(HEARD)
    ours = corrected(base, "", "He heard a very deep.", None, "Nobody moved at all. Nobody.")
    found = merged(base, ours, heard(HEARD, late=0.05))
    assert texts(found.transcript) == [
        "He heard a very deep.",
        "Then it was quiet.",
        "Nobody moved at all. Nobody.",
    ]


def test_a_text_in_another_language_is_not_mixed_with_corrections() -> None:
    base = spoken(HEARD)
    ours = corrected(base, None, "He heard a beep.")
    theirs = replace(heard("Im Keller. Er hörte was. In der Nacht."), language="de")
    found = merged(base, ours, theirs)
    assert found.transcript == theirs
    assert (found.corrections, found.kept) == (1, 0)


def test_captions_without_words_are_merged_too() -> None:
    base = untimed((0, 4, "He heard a deep"), (4, 8, "and then it was quiet"))
    ours = corrected(base, "He heard a beep")
    theirs = untimed((0.2, 8, "He heard a deep, and then it was so quiet."))
    found = merged(base, ours, theirs)
    assert texts(found.transcript) == ["He heard a beep and then it was so quiet."]


def test_the_same_words_elsewhere_in_the_recording_are_not_meant() -> None:
    base = spoken("You know. " * 40, pace=1.0)
    number = 20
    ours = corrected(base, *[None] * number, "You knew.")
    found = merged(base, ours, heard("You know. " * 40))
    assert not any("knew" in each for each in texts(found.transcript)[: number // 3])


def test_an_hour_is_merged_in_a_second_or_two() -> None:
    sentence = "the one that {} of {} was there and {} of the rest."
    text = " ".join(sentence.format(n, n * 7 % 1000, n * 13 % 1000) for n in range(750))
    base = spoken(text)
    changes = [f"corrected {n}." if n % 50 == 0 else None for n in range(750)]
    ours = corrected(base, *changes)
    theirs = heard(text.replace("the rest", "the guests"), late=0.1)
    began = time.process_time()
    found = merged(base, ours, theirs)
    assert time.process_time() - began < 5
    assert set(filter(None, changes)) <= set(texts(found.transcript))
    assert len(found.transcript.segments) == len(base.segments)


# Speakers


def test_names_follow_their_speakers_whatever_they_are_numbered() -> None:
    turns = [turn(0, 0.9, 0), turn(0.9, 9, 1)]
    base = spoken(HEARD, turns)
    theirs = heard(HEARD, turns=[turn(0, 0.9, 1), turn(0.9, 9, 0)])
    found = three_way.merge(base, base, theirs, names={"SPEAKER_00": "Ada", "SPEAKER_01": "Bob"})
    assert found.names == {"SPEAKER_01": "Ada", "SPEAKER_00": "Bob"}
    assert found.transcript == theirs


def test_who_people_said_it_is_stays_so() -> None:
    base = spoken(HEARD, [turn(0, 0.9, 0), turn(0.9, 9, 1)])
    last = base.segments[-1].id
    for label in ("SPEAKER_00", "SPEAKER_07"):
        ours = editing.edited(base, [SegmentEdit(segment_id=last, speaker=label)])
        theirs = heard(HEARD, turns=[turn(0, 0.9, 5), turn(0.9, 9, 0)])
        found = three_way.merge(base, ours, theirs, names={label: "Ada"})
        segment = found.transcript.segments[-1]
        assert found.names[segment.speaker or ""] == "Ada"
        assert segment.speaker != found.transcript.segments[-2].speaker


def test_speakers_and_names_stay_when_the_newer_one_told_nobody_apart() -> None:
    base = spoken(HEARD, [turn(0, 0.9, 0), turn(0.9, 9, 1)])
    theirs = heard(HEARD.replace("cellar. He", "cellar he"))
    found = three_way.merge(base, base, theirs, names={"SPEAKER_00": "Ada"})
    assert found.names == {"SPEAKER_00": "Ada"}
    assert [(each.text, each.speaker) for each in found.transcript.segments][:2] == [
        ("In the cellar", "SPEAKER_00"),
        ("he heard a deep.", "SPEAKER_01"),
    ]
    assert len({each.id for each in found.transcript.segments}) == len(texts(found.transcript))


# At random


@st.composite
def edits_of(draw: st.DrawFn, t: Transcript) -> Transcript:
    """Some words replaced, removed or added, here and there."""
    changes = []
    for segment in t.segments:
        words = segment.text.split()
        for kind in draw(st.lists(st.sampled_from(["replace", "remove", "add"]), max_size=2)):
            at = draw(st.integers(0, len(words)))
            new = draw(st.lists(st.sampled_from(["new", "Words", "here."]), min_size=1, max_size=2))
            words[at : at + (kind != "add")] = [] if kind == "remove" else new
        changes.append(SegmentEdit(segment_id=segment.id, text=" ".join(words)))
    return editing.edited(t, changes)


plain = st.lists(
    st.sampled_from(["the", "a", "of", "deep", "sea", "and", "then", "quiet.", "Nobody", "No!"]),
    min_size=1,
    max_size=40,
).map(lambda words: spoken(" ".join(words)))


@at_random
@given(st.data(), st.one_of(plain, transcripts()))
def test_an_unchanged_candidate_gives_what_people_made(data: st.DataObject, t: Transcript) -> None:
    ours = data.draw(edits_of(t))
    found = merged(t, ours, replace(t, engine=NEWER))
    assert found.transcript == replace(ours, engine=NEWER)
    assert (found.kept, list(found.conflicts)) == (found.corrections, [])


@at_random
@given(st.data(), plain)
def test_so_does_one_that_is_heard_a_little_later(data: st.DataObject, t: Transcript) -> None:
    ours = data.draw(edits_of(t))
    found = merged(t, ours, editing.cut(t, shift=0.04, end=None))
    assert found.transcript.text.split() == ours.text.split()
    assert not found.conflicts


@at_random
@given(st.data(), st.one_of(plain, transcripts()))
def test_without_corrections_the_candidate_stays_as_it_is(
    data: st.DataObject, t: Transcript
) -> None:
    theirs = data.draw(edits_of(t))
    assert merged(t, t, theirs).transcript == theirs


@at_random
@given(st.data(), plain)
def test_no_correction_is_lost(data: st.DataObject, t: Transcript) -> None:
    """Whatever people wrote is in the result, unless somebody chooses otherwise, and the result
    is in the order of time."""
    ours, theirs = data.draw(edits_of(t)), data.draw(edits_of(t))
    found = merged(t, ours, theirs)
    for word in ("new", "Words", "here."):
        assert found.transcript.text.split().count(word) >= min(
            ours.text.split().count(word), 1 if theirs.segments or ours.segments else 0
        )
    written = [each for each in ours.text.split() if each in ("new", "Words", "here.")]
    rest = iter(found.transcript.text.split())
    assert all(each in rest for each in written)
    assert all(one.start <= other.start for one, other in pairwise(found.transcript.words))
    refused = {each.number: "theirs" for each in found.conflicts}
    again = three_way.merge(t, ours, theirs, choices=refused)  # type: ignore[arg-type]
    assert len(again.conflicts) == len(found.conflicts)
