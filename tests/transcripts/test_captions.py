from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import errors
from rushes.transcripts import captions, documents, transcript
from rushes.transcripts.captions import Cue
from rushes.transcripts.transcript import Transcript
from spoken import (
    ENGINE,
    at_random,
    gaps,
    lengths,
    passage,
    said,
    spoken,
    texts,
    transcripts,
    turn,
    untimed,
    word,
)

LONG = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age"
    " of foolishness, it was the epoch of belief, it was the epoch of incredulity."
)


def columns(line: str) -> float:
    """As wide as it is seen; most scripts may have 42, those that are twice as wide 20."""
    seen = [each for each in line if unicodedata.category(each) not in ("Mn", "Me", "Cf")]
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in seen)
    return len(seen) - wide + wide * 2.1


def unspaced(text: str) -> str:
    return "".join(text.split())


def test_a_sentence_that_fits_is_one_cue_with_the_times_of_its_words() -> None:
    assert captions.cues(spoken("Hello there, how are you?", pace=0.5)) == [
        Cue(start=0.0, end=2.4, lines=("Hello there, how are you?",))
    ]


def test_two_lines_are_balanced_and_break_after_a_clause() -> None:
    t = spoken("I was looking for the others, but nobody had come yet.")
    assert captions.cues(t)[0].lines == (
        "I was looking for the others,",
        "but nobody had come yet.",
    )


def test_a_long_sentence_becomes_several_cues_that_end_where_one_takes_a_breath() -> None:
    found = captions.cues(spoken(LONG))
    assert [" ".join(each.lines) for each in found] == [
        "It was the best of times, it was the worst of times,",
        "it was the age of wisdom, it was the age of foolishness,",
        "it was the epoch of belief, it was the epoch of incredulity.",
    ]


def test_a_cue_stays_long_enough_to_be_read_when_there_is_silence_behind_it() -> None:
    fast = passage(said("this was said much faster than anybody can read it", 0, pace=0.1))
    later = passage(said("much later.", 9))
    first, _ = captions.cues(transcript.build([fast, later], None, ENGINE))
    assert first.end == 49 / 20


def test_a_cue_is_gone_when_the_next_one_comes() -> None:
    fast = passage(said("this was said faster than anybody can read it.", 0, pace=0.1))
    later = passage(said("Not much later than that by any means.", 1.3))
    first, second = captions.cues(transcript.build([fast, later], None, ENGINE))
    assert first.end == second.start == 1.3


def test_the_last_cue_ends_with_the_media_at_the_latest() -> None:
    t = spoken("Bye.")
    assert captions.cues(t)[0].end == 0.24
    assert captions.cues(t, end=0.5)[0].end == 0.5
    assert captions.cues(t, end=60)[0].end == 0.8


def test_sentences_that_would_only_flash_by_share_a_cue() -> None:
    assert [each.lines for each in captions.cues(spoken("No. Yes. Well, I do not know."))] == [
        ("No. Yes. Well, I do not know.",)
    ]


def test_speakers_never_share_a_cue() -> None:
    t = spoken("No. Yes.", [turn(0, 0.3, 0), turn(0.3, 1, 1)])
    found = captions.cues(t, names={"SPEAKER_01": "Anna"})
    assert [(each.lines, each.speaker) for each in found] == [
        (("No.",), "SPEAKER_00"),
        (("Yes.",), "Anna"),
    ]


def test_a_gap_too_short_to_be_noticed_is_closed() -> None:
    words = [*said("This one is long enough to be read.", 0, pace=0.5)]
    words += said("And so is this other one.", 4.05, pace=0.5)
    first, second = captions.cues(transcript.build([passage(words)], None, ENGINE))
    assert first.end == second.start


def test_no_cue_stays_longer_than_seven_seconds() -> None:
    t = spoken("slow words take their time here", pace=3)
    assert all(each.end - each.start <= 7 for each in captions.cues(t))
    held = transcript.build([passage([word(0, 30, "Ommm.")])], None, ENGINE)
    assert captions.cues(held)[0].end == 7


def test_a_word_longer_than_a_line_is_cut_and_nothing_of_it_is_lost() -> None:
    address = "https://example.org/" + "a-very-long-name/" * 8
    found = captions.cues(spoken(f"See {address} there."))
    assert "".join(line for each in found for line in each.lines).replace(" ", "") == (
        f"See{address}there."
    )
    assert all(len(line) <= 42 for each in found for line in each.lines)


def test_a_segment_without_words_that_fits_keeps_its_own_times() -> None:
    t = untimed((1, 30, "Somewhere in here."), (30, 30.2, "And there."))
    assert captions.cues(t) == [
        Cue(start=1, end=30, lines=("Somewhere in here.",)),
        Cue(start=30, end=30.2, lines=("And there.",)),
    ]


def test_a_long_segment_without_words_shares_its_time_by_its_text() -> None:
    found = captions.cues(untimed((10, 20, LONG)))
    assert found[0].start == 10
    assert found[-1].end == 20
    assert len(found) == 3
    assert all(one.end == other.start for one, other in pairwise(found))


def test_wide_scripts_have_twenty_to_a_line_and_no_line_begins_with_a_full_stop() -> None:
    text = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 3
    found = captions.cues(untimed((0, 30, text)))
    rows = [line for each in found for line in each.lines]
    assert "".join(rows) == text
    assert max(map(len, rows)) <= 20
    assert not any(line.startswith(("。", "、")) for line in rows)


@at_random
@given(transcripts())
def test_captions_have_every_word_once_in_order_within_their_limits(
    t: Transcript,
) -> None:
    found = captions.cues(t)
    assert unspaced("".join("".join(each.lines) for each in found)) == unspaced(t.text)
    for each in found:
        assert 1 <= len(each.lines) <= 2
        assert all(line == line.strip() and line for line in each.lines)
        assert all(columns(line) <= 42 + 1e-6 for line in each.lines)
        assert each.start < each.end
    for one, other in pairwise(found):
        assert one.start < other.start
        assert one.end <= other.start + 0.001


def test_what_is_said_too_fast_for_milliseconds_still_comes_one_after_the_other() -> None:
    found = captions.cues(untimed((0.0, 0.001, "0" * 85), (0.001, 0.002, "0")))
    assert len(found) > 2
    assert all(one.start < other.start for one, other in pairwise(found))


@at_random
@given(transcripts(), st.sampled_from(["vtt", "srt"]))
def test_what_is_written_can_be_read(t: Transcript, format: str) -> None:
    unnamed = transcript.decode(
        {
            name: [{key: value for key, value in each.items() if key != "speaker"} for each in row]
            if isinstance(row, list)
            else row
            for name, row in transcript.encode(t).items()
        }
    )
    back = captions.parse(documents.render(unnamed, format).decode() or "WEBVTT")
    assert unspaced(back.text) == unspaced(t.text)
    assert [(each.start, each.end) for each in back.segments] == [
        (each.start, each.end) for each in captions.cues(unnamed)
    ]


@st.composite
def imported(draw: st.DrawFn) -> Transcript:
    rows = []
    moment = 0.0
    for text, gap, length in draw(st.lists(st.tuples(texts, gaps, lengths), max_size=8)):
        start = round(moment + gap + 0.001, 3)
        moment = round(start + max(length, 0.001), 3)
        rows.append((start, moment, " ".join(text.split())[:40]))
    return untimed(*rows)


@at_random
@given(imported())
def test_captions_that_were_imported_come_out_as_they_went_in(t: Transcript) -> None:
    short = [each for each in t.segments if columns(each.text) <= 42]
    back = captions.parse(captions.vtt(untimed(*((e.start, e.end, e.text) for e in short))))
    assert [(each.start, each.end, each.text) for each in back.segments] == [
        (each.start, each.end, each.text) for each in short
    ]


# Files


def test_vtt_names_speakers_and_takes_nothing_for_markup() -> None:
    t = spoken("a <b>bold</b> & --> move", [turn(0, 9, 0)])
    assert captions.vtt(t, names={"SPEAKER_00": "Bo <3 & Co\n"}) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.440\n"
        "<v Bo &lt;3 &amp; Co>a &lt;b&gt;bold&lt;/b&gt; &amp; --&gt; move\n"
    )


def test_vtt_for_hls_says_where_its_clock_begins() -> None:
    lines = captions.vtt(spoken("Hi."), hls=True).split("\n")
    assert lines[:3] == ["WEBVTT", "X-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0", ""]


def test_srt_numbers_its_cues_and_names_who_begins_to_speak() -> None:
    t = spoken("No. Well, perhaps. Yes.", [turn(0, 0.9, 0), turn(0.9, 1.2, 1)], pace=0.3)
    assert captions.srt(t, names={"SPEAKER_00": "Anna"}) == (
        "1\n00:00:00,000 --> 00:00:00,900\nAnna: No. Well, perhaps.\n\n"
        "2\n00:00:00,900 --> 00:00:01,140\nSPEAKER_01: Yes.\n\n"
    )


def test_srt_has_nothing_that_a_player_takes_for_markup() -> None:
    written = captions.srt(untimed((3661.5, 3662, "<i>x</i> {\\an8}y 1 < 2")))
    assert not re.search(r"<[/A-Za-z]|\{\\", written)
    assert "01:01:01,500 --> 01:01:02,000" in written
    assert captions.parse(written).text == "<i>x</i> {\\an8}y 1 < 2"


def test_text_has_paragraphs_and_names() -> None:
    windows = [passage(said("One. Two.", 0)), passage(said("Three.", 5)), passage(said("Four.", 9))]
    t = transcript.build(windows, [turn(0, 6, 0), turn(9, 10, 1)], ENGINE)
    assert captions.txt(t, names={"SPEAKER_01": "Anna"}) == (
        "SPEAKER_00: One. Two.\n\nThree.\n\nAnna: Four.\n"
    )
    assert captions.txt(spoken("One. Two.")) == "One. Two.\n"
    assert captions.txt(transcript.decode("Old.\n\nText.")) == "Old.\n\nText.\n"


# Reading

VTT = """\ufeffWEBVTT - some title\r
Kind: captions\r
Language: de-AT\r
\r
STYLE\r
::cue { color: red }\r
\r
NOTE a comment\r
of two lines\r
\r
REGION\r
id:fred\r
\r
intro\r
01:02.500 --> 01:04.000 align:start position:0%\r
<v.loud Anna &amp; Bo>Gr&uuml;&szlig; <i>Gott</i></v>\r
&lt;b&gt; 1 &#62; 0\r
\r
100:00:05.000 --> 100:00:06.000\r
<c.yellow>last<00:01:03.000> one</c>\r
"""


def test_vtt_is_read() -> None:
    t = captions.parse(VTT)
    assert t.language == "de-at"
    assert [(each.start, each.end, each.text, each.speaker) for each in t.segments] == [
        (62.5, 64, "Grüß Gott <b> 1 > 0", "Anna & Bo"),
        (360_005, 360_006, "last one", None),
    ]
    assert t.words == []
    assert t.segments[0].id == "seg_000001"


FILES = {
    "srt with commas": ("1\n00:00:01,500 --> 00:00:02,000\nHi\n", [(1.5, 2, "Hi")]),
    "srt with dots and no hours": ("1\n00:01.5 --> 00:02\nHi\n", [(1.5, 2, "Hi")]),
    "srt without numbers": ("00:00:01,000 --> 00:00:02,000\nHi\n\n", [(1, 2, "Hi")]),
    "old line ends": ("1\r00:00:01,000 --> 00:00:02,000\rHi\ryou\r", [(1, 2, "Hi you")]),
    "no empty line between": (
        "1\n00:00:01,000 --> 00:00:02,000\nHi\n2\n00:00:02,000 --> 00:00:03,000\nyou\n",
        [(1, 2, "Hi"), (2, 3, "you")],
    ),
    "an empty line inside": (
        "1\n00:00:01,000 --> 00:00:02,000\nHi\n\nall\n\n2\n00:00:02,000 --> 00:00:03,000\nyou\n",
        [(1, 2, "Hi all"), (2, 3, "you")],
    ),
    "a number is said": ("1\n00:00:01,000 --> 00:00:02,000\n42\n", [(1, 2, "42")]),
    "tags": (
        '1\n00:00:01,000 --> 00:00:02,000 X1:0\n{\\an8}<font color="#fff">Hi</font> <3 you\n',
        [(1, 2, "Hi <3 you")],
    ),
    "in no order": (
        "WEBVTT\n\n00:05.000 --> 00:06.000\nb\n\n00:01.000 --> 00:02.000\na\n",
        [(1, 2, "a"), (5, 6, "b")],
    ),
    "overlapping": (
        "WEBVTT\n\n00:01.000 --> 00:06.000\na\n\n00:02.000 --> 00:03.000\nb\n",
        [(1, 6, "a"), (2, 3, "b")],
    ),
    "an end before its start": ("WEBVTT\n\n00:05.000 --> 00:01.000\na\n", [(5, 5, "a")]),
    "two voices in one": (
        "WEBVTT\n\n00:01.000 --> 00:02.000\n<v A>Hi</v>\n<v B>Ho</v>\n",
        [(1, 2, "Hi"), (1, 2, "Ho")],
    ),
    "nothing in it": ("WEBVTT\n\n00:01.000 --> 00:02.000\n\n00:03.0 --> 00:04.0\n<i></i>\n", []),
    "only a header": ("WEBVTT", []),
    "said twice": (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nNo.\n\n00:02.000 --> 00:03.000\nNo.\n",
        [(1, 2, "No."), (2, 3, "No.")],
    ),
    "rolling": (
        "WEBVTT\n\n00:00.000 --> 00:02.000 align:start\n \nhello<00:00:01.000><c> world</c>\n\n"
        "00:02.000 --> 00:02.010\nhello world\n \n\n"
        "00:02.010 --> 00:04.000\nhello world\nhow<00:00:03.000><c> are</c>\n\n"
        "00:04.000 --> 00:04.010\nhow are\n \n\n"
        "00:04.010 --> 00:06.000\nhow are\nyou &lt;all&gt;\n",
        [(0, 2.01, "hello world"), (2.01, 4.01, "how are"), (4.01, 6, "you <all>")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_captions_that_people_have_are_read(name: str) -> None:
    file, expected = FILES[name]
    found = captions.parse(file).segments
    assert [(each.start, each.end, each.text) for each in found] == expected


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("", "file: line 1: this is neither WebVTT nor SubRip"),
        ("Dear all,\n\nhello.", "file: line 1: this is neither WebVTT nor SubRip"),
        ("WEBVTTX\n", "file: line 1: this is neither WebVTT nor SubRip"),
        ("1\n00:00:01,000 --> soon\nHi\n", "file: line 2: these times cannot be read"),
        ("WEBVTT\n\n00:01.000-->\nHi\n", "file: line 3: these times cannot be read"),
    ],
)
def test_what_is_no_file_of_captions_is_refused(file: str, message: str) -> None:
    with pytest.raises(errors.BadField) as refused:
        captions.parse(file)
    assert refused.value.message == message


def test_there_is_a_limit_to_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captions, "CUE_LIMIT", 2)
    with pytest.raises(errors.BadField, match="line 9: more than 2 captions"):
        captions.parse("WEBVTT\n\n" + "00:01.000 --> 00:02.000\na\n\n" * 3)


@at_random
@given(
    st.lists(
        st.sampled_from([*"WEBVT019:.,<>{}\\/vb &;#-\n\r\t", " --> ", "00:01.000", "<v A>"])
    ).map("".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    for file in (text, f"WEBVTT\n\n00:01.000 --> 00:02.000\n{text}"):
        try:
            t = captions.parse(file)
        except errors.BadField:
            continue
        assert transcript.decode(transcript.encode(t)) == t
        captions.vtt(t)


@pytest.mark.parametrize("voice", ["<v.", "<v ", "<v.a ", "<v\t\t"])
def test_voices_that_never_close_are_read_in_one_go(voice: str) -> None:
    """Not once more from each of them to the end of the caption."""
    said = voice * (9_000 // len(voice))
    cues = (f"{n:02d}:00.000 --> {n:02d}:30.000\n{said}" for n in range(60))
    read = captions.parse("WEBVTT\n\n" + "\n\n".join(cues))
    assert len(read.segments) == 60
    assert read.segments[0].text == transcript.clean(said)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("word\n" * 101, "line 103: more than 100 lines"),
        ("word " * 2_001, "line 3: more than 10,000 characters"),
    ],
)
@pytest.mark.parametrize("format", ["vtt", "srt"])
def test_a_caption_is_no_book(format: str, said: str, problem: str) -> None:
    begin = "WEBVTT\n\n" if format == "vtt" else "\n1\n"
    place = "00:00:01.000 --> 00:00:02.000\n"
    with pytest.raises(errors.BadField) as refused:
        captions.parse(begin + place + said)
    assert problem.partition(": ")[2] in str(refused.value)
    assert captions.parse(begin + place + said[:400]).segments
