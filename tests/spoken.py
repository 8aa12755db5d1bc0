"""Things that were said, for the tests of transcripts: by hand, and at random."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
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

ENGINE = TranscriptEngine(provider="local", transcription_model="whisper-base")
# The machine may be busy; how long one example takes says nothing.
at_random = settings(deadline=None, max_examples=80)


def word(start: float, end: float, text: str, speaker: str | None = None) -> Word:
    return Word(start=start, end=end, word=text, speaker=speaker, confidence=0.9)


def said(
    text: str, start: float = 0.0, *, pace: float = 0.3, speaker: str | None = None
) -> list[Word]:
    """A word every `pace` seconds, with a little silence behind each."""
    return [
        word(
            round(start + number * pace, 3), round(start + (number + 0.8) * pace, 3), each, speaker
        )
        for number, each in enumerate(text.split())
    ]


def passage(words: Sequence[Word], language: str | None = "en") -> Passage:
    return Passage(
        start=words[0].start,
        end=words[-1].end,
        text=transcript.joined(each.word for each in words),
        language=language,
        words=words,
    )


def spoken(text: str, turns: Sequence[Turn] | None = None, *, pace: float = 0.3) -> Transcript:
    return transcript.build([passage(said(text, pace=pace))], turns, ENGINE)


def turn(start: float, end: float, speaker: int) -> Turn:
    return Turn(start=start, end=end, speaker=f"SPEAKER_{speaker:02d}")


def untimed(*segments: tuple[float, float, str]) -> Transcript:
    """Without words, as from an engine that knows none, or from captions that were imported."""
    made = [
        TranscriptSegment(id=f"seg_{number:06d}", start=start, end=end, text=text)
        for number, (start, end, text) in enumerate(segments, start=1)
    ]
    return Transcript(
        text=transcript.joined(each.text for each in made),
        language=None,
        segments=made,
        words=[],
    )


# At random

LETTERS = "abcXYZéßøйΩאع0123'’-.,?!…&<>{}\\/"
WIDE = "日本語がんこカ。、？한국어ก้"
texts = st.one_of(
    st.text(LETTERS, min_size=1, max_size=12),
    st.text(LETTERS, min_size=40, max_size=90),
    st.text(WIDE, min_size=1, max_size=6),
).filter(lambda text: bool(transcript.clean(text)))
gaps = st.sampled_from([0.0, 0.0, 0.0, 0.02, 0.3, 1.5, 9.0])
lengths = st.sampled_from([0.0, 0.001, 0.1, 0.25, 0.4, 0.9, 8.0])


@st.composite
def rows_of_words(draw: st.DrawFn) -> list[Word]:
    """In the order of time, some of them at the same time or without a length."""
    moment = draw(gaps)
    words = []
    for text, gap, length in draw(st.lists(st.tuples(texts, gaps, lengths), max_size=25)):
        moment = round(moment + gap, 3)
        end = round(moment + length, 3)
        words.append(Word(start=moment, end=end, word=text, confidence=0.5))
        moment = end
    return words


@st.composite
def rows_of_passages(draw: st.DrawFn) -> list[Passage]:
    """Windows one after the other, some of which have no words."""
    moment = 0.0
    made = []
    for words, kind in draw(st.lists(st.tuples(rows_of_words(), st.integers(0, 3)), max_size=4)):
        length = words[-1].end if words else 1.0
        moved = [
            Word(
                start=round(each.start + moment, 3), end=round(each.end + moment, 3), word=each.word
            )
            for each in words
        ]
        utterances = [
            TranscriptSegment(id="", start=each.start, end=each.end, text=each.word)
            for each in moved
        ]
        made.append(
            Passage(
                start=moment,
                end=round(moment + length, 3),
                text=transcript.joined(each.word for each in words),
                language=draw(st.sampled_from([None, "en", "ja"])),
                words=moved if kind else (),
                utterances=utterances if kind == 1 else (),
            )
        )
        moment = round(moment + length + draw(gaps), 3)
    return made


@st.composite
def rows_of_turns(draw: st.DrawFn) -> list[Turn]:
    """May overlap, as people do."""
    return [
        turn(start, start + length, speaker)
        for start, length, speaker in draw(
            st.lists(
                st.tuples(st.floats(0, 60), st.floats(0.01, 20), st.integers(0, 3)), max_size=8
            )
        )
    ]


@st.composite
def transcripts(draw: st.DrawFn) -> Transcript:
    return transcript.build(draw(rows_of_passages()), draw(st.none() | rows_of_turns()), ENGINE)
