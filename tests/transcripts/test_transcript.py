from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes.transcripts import transcript
from rushes.transcripts.transcript import (
    Passage,
    Transcript,
    TranscriptEngine,
    TranscriptSegment,
    Turn,
    Word,
)
from spoken import (
    ENGINE,
    at_random,
    passage,
    rows_of_passages,
    rows_of_turns,
    said,
    spoken,
    transcripts,
    turn,
    word,
)


def lines(t: Transcript) -> list[str]:
    return [each.text for each in t.segments]


def test_sentences_are_segments_with_the_times_of_their_words() -> None:
    t = spoken("Hello there. How are you? I am fine… Good")
    assert lines(t) == ["Hello there.", "How are you?", "I am fine…", "Good"]
    assert [(each.start, each.end) for each in t.segments][:2] == [(0.0, 0.54), (0.6, 1.44)]
    assert [each.id for each in t.segments][:2] == ["seg_000001", "seg_000002"]
    assert t.text == "Hello there. How are you? I am fine… Good"
    assert t.language == "en"
    assert t.engine == ENGINE


def test_a_title_or_an_initial_ends_no_sentence() -> None:
    assert lines(spoken("Mr. J. Smith came. He left.")) == ["Mr. J. Smith came.", "He left."]


def test_a_pause_begins_a_new_segment() -> None:
    words = [*said("this is", 0), *said("what I meant", 2)]
    assert lines(transcript.build([passage(words)], None, ENGINE)) == ["this is", "what I meant"]


def test_windows_that_cut_a_sentence_leave_it_whole() -> None:
    windows = [passage(said("it was the best", 0)), passage(said("of times.", 1.2))]
    assert lines(transcript.build(windows, None, ENGINE)) == ["it was the best of times."]


def test_windows_come_in_any_order() -> None:
    windows = [passage(said("of times.", 1.2)), passage(said("it was the best", 0))]
    assert transcript.build(windows, None, ENGINE).text == "it was the best of times."


def test_another_speaker_begins_a_new_segment() -> None:
    t = spoken("we go now and you", [turn(0, 0.9, 0), turn(0.9, 9, 1)])
    assert [(each.text, each.speaker) for each in t.segments] == [
        ("we go now", "SPEAKER_00"),
        ("and you", "SPEAKER_01"),
    ]
    assert [each.speaker for each in t.words] == ["SPEAKER_00"] * 3 + ["SPEAKER_01"] * 2


@pytest.mark.parametrize("turns", [None, []])
def test_without_turns_there_are_no_speakers(turns: list[Turn] | None) -> None:
    t = spoken("we go now.", turns)
    assert {each.speaker for each in t.segments} | {each.speaker for each in t.words} == {None}


def test_a_long_sentence_is_cut_at_a_comma_near_its_middle() -> None:
    first, second = "one two three " * 10 + "four,", "five six seven " * 9 + "eight."
    assert lines(spoken(f"{first} {second}", pace=0.2)) == [
        " ".join(first.split()),
        " ".join(second.split()),
    ]


def test_endless_speech_is_cut_into_segments_of_a_sane_length() -> None:
    t = spoken("and then we went on " * 2_000)
    assert all(len(each.text) <= 200 and each.end - each.start <= 15 for each in t.segments)
    assert len(t.segments) < 2_000 * 20 / 60


def test_what_an_engine_cut_in_two_is_one_word_again() -> None:
    words = [
        *[word(0, 1, "1"), word(1, 1.4, ",000"), word(1.5, 2, "well")],
        *[word(2, 2.5, "-known"), word(3, 3.5, "people")],
    ]
    given = Passage(start=0, end=4, text="1,000 well-known people", words=words)
    t = transcript.build([given], None, ENGINE)
    assert [(each.word, each.start, each.end) for each in t.words] == [
        ("1,000", 0, 1.4),
        ("well-known", 1.5, 2.5),
        ("people", 3, 3.5),
    ]
    assert t.text == "1,000 well-known people"


def test_scripts_without_spaces_get_none() -> None:
    words = [word(0, 1, "今日は"), word(1, 2, "天気が"), word(2, 3, "いい。"), word(3, 4, "はい。")]
    t = transcript.build([passage(words, "ja")], None, ENGINE)
    assert lines(t) == ["今日は天気がいい。", "はい。"]
    assert t.text == "今日は天気がいい。はい。"
    assert len(t.words) == 4


def test_a_window_without_words_is_one_segment_of_its_bounds() -> None:
    given = Passage(start=3, end=20, text=" One. Two.  Three. ", language="en")
    t = transcript.build([given], [turn(0, 9, 0), turn(9, 30, 1)], ENGINE)
    assert t.segments == [
        TranscriptSegment(
            id="seg_000001", start=3, end=20, text="One. Two. Three.", speaker="SPEAKER_01"
        )
    ]
    assert t.words == []


def test_an_engine_that_knows_the_times_of_sentences_gives_segments() -> None:
    utterances = [
        TranscriptSegment(id="x", start=3, end=5, text="One."),
        TranscriptSegment(id="x", start=6, end=99, text="Two."),
        TranscriptSegment(id="x", start=8, end=9, text="  "),
    ]
    given = Passage(start=3, end=20, text="One. Two.", utterances=utterances)
    t = transcript.build([given], None, ENGINE)
    assert [(each.id, each.start, each.end, each.text) for each in t.segments] == [
        ("seg_000001", 3, 5, "One."),
        ("seg_000002", 6, 20, "Two."),
    ]


def test_windows_with_and_without_words_stand_beside_each_other() -> None:
    windows = [
        passage(said("first words here", 0)),
        Passage(start=1, end=2, text="no times"),
        passage(said("and words again", 2)),
    ]
    t = transcript.build(windows, None, ENGINE)
    assert lines(t) == ["first words here", "no times", "and words again"]
    assert [len(each) for each in transcript.words_of(t).values()] == [3, 0, 3]


@pytest.mark.parametrize("text", ["", "   ", "\n\x00"])
def test_silence_is_empty(text: str) -> None:
    t = transcript.build([Passage(start=0, end=9, text=text, language="en")], None, ENGINE)
    assert (t.text, t.language, t.segments, t.words) == ("", None, [], [])


def test_the_language_is_the_one_that_is_spoken_longest() -> None:
    windows = [
        passage(said("ja ja", 0), "de"),
        passage(said("yes this is it", 10), "en"),
        passage(said("ja", 20), "de"),
        passage(said("hm", 30), None),
    ]
    assert transcript.build(windows, None, ENGINE).language == "en"


def test_times_that_cannot_be_are_put_right() -> None:
    nan, infinite = float("nan"), float("inf")
    words = [
        *[word(-5, 0.5, "a"), word(0.2, 0.2, "b"), word(0.2, 9, "c")],
        *[word(0.1, 0.3, "d"), word(nan, 1, "e"), word(0, infinite, "f"), word(99, 99, "g")],
    ]
    windows = [
        Passage(start=0, end=2, text="a b c d g", words=words),
        Passage(start=nan, end=2, text="lost"),
    ]
    t = transcript.build(windows, None, ENGINE)
    assert t.text == "a b c d g"
    times = [time for each in t.words for time in (each.start, each.end)]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= 2


@at_random
@given(rows_of_passages(), st.none() | rows_of_turns())
def test_nothing_is_lost_and_all_is_in_order_and_inside(
    passages: list[Passage], turns: list[Turn] | None
) -> None:
    t = transcript.build(passages, turns, ENGINE)
    end = max((each.end for each in passages), default=0) + 0.02
    expected = "".join(each.text for each in passages)
    assert t.text.replace(" ", "") == expected.replace(" ", "")
    rows = [[(each.start, each.end) for each in row] for row in (t.segments, t.words)]
    for row in rows:
        assert all(0 <= start < stop <= end for start, stop in row)
        assert all(one[1] <= other[0] for one, other in pairwise(row))
    of = transcript.words_of(t)
    assert [each for row in of.values() for each in row] == t.words
    for segment in t.segments:
        if own := of[segment.id]:
            assert segment.text == transcript.joined(each.word for each in own)
            assert (segment.start, segment.end) == (own[0].start, own[-1].end)
            assert {each.speaker for each in own} == {segment.speaker}
    assert len({each.id for each in t.segments}) == len(t.segments)
    named = [each.speaker for each in t.segments] + [each.speaker for each in t.words]
    assert all((speaker is None) == (not turns) for speaker in named)


# As JSON


def test_the_canonical_document() -> None:
    t = Transcript(
        text="Hi you.",
        language="en",
        segments=[
            TranscriptSegment(
                id="seg_000001", start=0, end=1.23456, text="Hi you.", speaker="SPEAKER_00"
            )
        ],
        words=[
            Word(start=0, end=0.5, word="Hi", speaker="SPEAKER_00", confidence=0.98765),
            Word(start=0.5, end=1.23456, word="you.", speaker="SPEAKER_00"),
        ],
        engine=TranscriptEngine(
            provider="local",
            transcription_model="whisper-base",
            diarization_model="diarization-default",
        ),
    )
    assert transcript.encode(t) == {
        "text": "Hi you.",
        "language": "en",
        "segments": [
            {
                "id": "seg_000001",
                "start": 0,
                "end": 1.235,
                "speaker": "SPEAKER_00",
                "text": "Hi you.",
            }
        ],
        "words": [
            {"start": 0, "end": 0.5, "word": "Hi", "speaker": "SPEAKER_00", "confidence": 0.988},
            {
                "start": 0.5,
                "end": 1.235,
                "word": "you.",
                "speaker": "SPEAKER_00",
                "confidence": None,
            },
        ],
        "engine": {
            "provider": "local",
            "transcription_model": "whisper-base",
            "diarization_model": "diarization-default",
        },
    }


def test_a_document_without_diarization_names_no_speakers() -> None:
    document = transcript.encode(spoken("Hi you."))
    assert "speaker" not in json.dumps(document)
    assert document["engine"]["diarization_model"] is None


def test_an_empty_document_has_all_its_keys() -> None:
    t = transcript.build([], None, ENGINE)
    document = transcript.encode(t)
    assert document["words"] == document["segments"] == []
    assert document["text"] == ""
    assert document["language"] is None


@at_random
@given(transcripts())
def test_a_document_is_read_as_it_was_written(t: Transcript) -> None:
    assert transcript.decode(json.loads(json.dumps(transcript.encode(t)))) == t


OLDER: dict[str, tuple[Any, str, list[tuple[str, float, float, str]], int]] = {
    "a bare text": ("Just text.", "Just text.", [], 0),
    "a text of several lines": ("One.\r\n\r\nTwo.\x00", "One.\n\nTwo.", [], 0),
    "a text alone": ({"text": "Just text."}, "Just text.", [], 0),
    "segments without ids": (
        {"segments": [{"start": 1, "end": 2, "text": "Hi"}, {"start": 2, "end": 3, "text": "you"}]},
        "Hi you",
        [("seg_000001", 1, 2, "Hi"), ("seg_000002", 2, 3, "you")],
        0,
    ),
    "a list of segments": (
        [{"start": 1, "end": 2, "text": "Hi"}],
        "Hi",
        [("seg_000001", 1, 2, "Hi")],
        0,
    ),
    "as whisper writes it": (
        {
            "text": " Hi you",
            "language": "english",
            "duration": 3.0,
            "segments": [
                {
                    "id": 0,
                    "start": 0.5,
                    "end": 2,
                    "text": " Hi you",
                    "words": [
                        {"word": " Hi", "start": 0.4, "end": 1, "probability": 0.9},
                        {"word": " you", "start": 1, "end": 2, "probability": 0.8},
                    ],
                }
            ],
        },
        "Hi you",
        [("seg_000001", 0.4, 2, "Hi you")],
        2,
    ),
    "words that are missing": (
        {
            "text": "Hi",
            "segments": [{"id": "s1", "start": 1, "end": 2, "text": "Hi"}],
            "words": None,
        },
        "Hi",
        [("s1", 1, 2, "Hi")],
        0,
    ),
    "ids that are there twice": (
        {
            "segments": [
                {"id": "seg_000001", "start": 1, "end": 2, "text": "Hi"},
                {"id": "seg_000001", "start": 2, "end": 3, "text": "you"},
            ]
        },
        "Hi you",
        [("seg_000001", 1, 2, "Hi"), ("seg_000002", 2, 3, "you")],
        0,
    ),
    "what makes no sense": (
        {
            "text": 5,
            "language": ["en"],
            "segments": [
                None,
                {"start": "x", "end": 2, "text": "timeless"},
                {"start": 9, "end": 1, "text": "backwards"},
                {"start": -1, "end": 1, "text": "negative"},
                {"start": float("nan"), "end": 1, "text": "nan"},
                {"start": 1, "end": 2, "text": 7},
                {"start": True, "end": 2, "text": "bool"},
                {"start": 10**400, "end": 2, "text": "huge"},
                {"start": 1, "end": 2, "text": "good \ud800"},
            ],
            "words": [{"word": "x", "start": float("inf")}, {"word": "", "start": 1, "end": 2}, 3],
        },
        "timeless backwards negative nan bool huge good",
        [("seg_000001", 1, 2, "good"), ("seg_000002", 9, 9, "backwards")],
        0,
    ),
    "nothing": (None, "", [], 0),
    "a list of nothing": ([[], None, 3], "", [], 0),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_transcripts_are_read(name: str) -> None:
    document, text, segments, count = OLDER[name]
    t = transcript.decode(document)
    assert t.text == text
    assert [(each.id, each.start, each.end, each.text) for each in t.segments] == segments
    assert len(t.words) == count


def test_what_whisper_knows_of_words_is_kept() -> None:
    t = transcript.decode(OLDER["as whisper writes it"][0])
    assert t.words[0] == Word(start=0.4, end=1, word="Hi", confidence=0.9)
    assert t.language == "english"


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["text", "segments", "words", "word", "start", "end", "id", "speaker", "engine",
             "language", "provider", "confidence", "probability"]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@at_random
@given(values)
def test_whatever_is_read_can_be_written_and_read_again(value: Any) -> None:
    t = transcript.decode(value)
    written = transcript.encode(t)
    json.dumps(written, allow_nan=False).encode()
    again = transcript.decode(written)
    assert transcript.encode(again) == written


def test_a_language_is_a_word_that_every_database_can_keep() -> None:
    heard = transcript.build(
        [passage(said("Hallo.", 0), language="d\0e\n" + "x" * 99)], None, ENGINE
    )
    assert heard.language == "de " + "x" * 32
    assert transcript.build([passage(said("Hm.", 0), language="\0")], None, ENGINE).language is None
