"""Whatever an engine does, no word is lost or made up, and a crash costs one window."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.transcribe.faulty import SPOKEN, Broken, Run, Scripted, recording
from rushes import errors
from rushes.engines.engine import (
    EngineUnavailable,
    SpeakerRequest,
    SpeakerTurn,
    Spoken,
    TranscribeRequest,
    TranscribeResult,
    Watch,
)
from rushes.engines.pace import Pace
from rushes.handlers.transcribe import steps as transcribe_handler
from rushes.protocol import PASSAGE_LIMIT_BYTES, Beat, Claim, Pulse
from rushes.transcripts import passages, transcript
from rushes.transcripts.transcript import Transcript
from rushes.worker import context
from rushes.worker.context import Stop

# Speech, a long silence that is left out, and more speech: six windows.
WORDS = [*range(70), *[None] * 12, *range(70, 130)]


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("talk") / "talk.wav", WORDS)


def words_of(heard: Transcript) -> list[str]:
    return [word.word for word in heard.words]


def test_every_word_is_heard_once_at_its_time(tmp_path: Path, talk: Path) -> None:
    engine = Scripted()
    heard = Run(tmp_path, talk).attempt(engine)
    assert words_of(heard) == [f"w{number}." for number in range(130)]
    for word in heard.words:
        second = WORDS.index(int(word.word[1:-1]))
        assert word.start == pytest.approx(second, abs=0.05)
        assert word.end == pytest.approx(second + SPOKEN, abs=0.05)
    assert len(engine.asked) >= 5
    assert all(len(request.sound) <= 30 * 32_000 for request in engine.asked)


def test_a_crash_at_any_window_costs_that_window_and_no_other(tmp_path: Path, talk: Path) -> None:
    undisturbed = Run(tmp_path / "whole", talk)
    engine = Scripted()
    whole = undisturbed.attempt(engine)
    for crash in range(len(engine.asked)):
        run = Run(tmp_path / str(crash), talk)
        with pytest.raises(Broken):
            run.attempt(Scripted(script=_breaks_at(crash)))
        assert len(run.kept()) == crash
        again = Scripted()
        assert transcript.encode(run.attempt(again)) == transcript.encode(whole)
        assert len(again.asked) == len(engine.asked) - crash


def _breaks_at(crash: int):  # type: ignore[no-untyped-def]
    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        if number == crash:
            raise Broken
        return answer

    return script


@dataclass
class Coarse(Scripted):
    """Finds the same speech, but not the pauses between words; then windows end elsewhere."""

    def speech(self, sound: bytes, watch: Watch) -> Sequence[tuple[float, float]]:
        joined: list[tuple[float, float]] = []
        for start, end in super().speech(sound, watch):
            if joined and start - joined[-1][1] < 1:
                start = joined.pop()[0]
            joined.append((start, end))
        return joined


def test_who_finds_other_windows_goes_on_behind_the_last_word(tmp_path: Path, talk: Path) -> None:
    """Another engine or version takes over: nothing is heard twice, and nothing left out."""
    for first, second in ((Scripted, Coarse), (Coarse, Scripted)):
        for crash in (1, 3):
            run = Run(tmp_path / f"{first.__name__}-{crash}", talk)
            with pytest.raises(Broken):
                run.attempt(first(script=_breaks_at(crash)))
            heard = run.attempt(second())
            assert words_of(heard) == [f"w{number}." for number in range(130)]


def test_what_does_not_fit_into_an_answer_is_heard_in_parts(tmp_path: Path, talk: Path) -> None:
    whole = Scripted()
    Run(tmp_path / "whole", talk).attempt(whole)
    engine = Scripted(script=_writes_at_most(8))
    run = Run(tmp_path / "run", talk)
    heard = run.attempt(engine)
    assert words_of(heard) == [f"w{number}." for number in range(130)]
    assert heard.text.split() == words_of(heard)
    for word in heard.words:
        assert word.start == pytest.approx(WORDS.index(int(word.word[1:-1])), abs=0.05)
    assert len(run.kept()) == len(whole.asked), "the parts of a window are one passage"


def _writes_at_most(count: int):  # type: ignore[no-untyped-def]
    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        words = answer.words[:count]
        text = " ".join(word.word for word in words)
        return replace(answer, text=text, words=words, is_cut=len(answer.words) > count)

    return script


def test_a_part_whose_words_have_no_times_is_not_lost(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", list(range(16)))

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        answer = _writes_at_most(8)(number, request, answer)
        return replace(answer, words=()) if number == 1 else answer

    heard = Run(tmp_path / "run", source).attempt(Scripted(script=script))
    assert heard.text.split() == [f"w{number}." for number in range(16)]


def test_a_loop_that_fills_an_answer_is_no_reason_to_listen_to_parts(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", list(range(20)))

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        return replace(answer, text="and so on " * 20, words=(), is_cut=True)

    engine = Scripted(script=script)
    assert Run(tmp_path / "run", source).attempt(engine).text == "and so on"
    assert len(engine.asked) == 4


def test_a_window_that_loops_is_asked_for_again(tmp_path: Path, talk: Path) -> None:
    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        loops = request.temperature == 0 and request.sound != b"" and number < 1
        return replace(answer, text="and so on " * 20, words=()) if loops else answer

    engine = Scripted(script=script)
    heard = Run(tmp_path, talk).attempt(engine)
    assert words_of(heard) == [f"w{number}." for number in range(130)]
    assert [request.temperature for request in engine.asked[:3]] == [0.0, 0.2, 0.0]


def test_a_window_that_only_loops_is_written_down_once(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", list(range(5)))

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        return replace(answer, text="and so on " * 20, words=())

    engine = Scripted(script=script)
    heard = Run(tmp_path / "run", source).attempt(engine)
    assert heard.text == "and so on"
    assert len(engine.asked) == 4
    assert heard.words == []


@pytest.mark.parametrize("kept", [slice(20, None), slice(None, 6), [0, 1, 2, 25, 26, 27, 28]])
def test_who_is_passed_over_is_listened_to_alone(tmp_path: Path, kept: Any) -> None:
    """As when somebody loud follows somebody quiet."""
    source = recording(tmp_path / "short.wav", list(range(29)))

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        if number:
            return answer
        words = answer.words[kept] if isinstance(kept, slice) else [answer.words[n] for n in kept]
        return replace(answer, text=" ".join(word.word for word in words), words=words)

    engine = Scripted(script=script)
    heard = Run(tmp_path / "run", source).attempt(engine)
    assert words_of(heard) == [f"w{number}." for number in range(29)]
    assert len(engine.asked) == 2


def test_a_window_that_was_listened_to_again_is_spelled_as_the_engine_did(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", list(range(29)))
    texts = ["C", "'est", "l", "'excitation.", "A", "well", "-known", "1", ",000."]
    spelling = "C'est l'excitation. A well-known 1,000."

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        if number:
            return answer
        words = [*answer.words[:4], *answer.words[24:]]
        spoken = [replace(word, word=text) for word, text in zip(words, texts, strict=True)]
        return replace(answer, text=spelling, words=spoken)

    heard = Run(tmp_path / "run", source).attempt(Scripted(script=script))
    between = [f"w{number}." for number in range(4, 24)]
    assert heard.text == " ".join(["C'est l'excitation.", *between, "A well-known 1,000."])
    assert words_of(heard) == ["C'est", "l'excitation.", *between, "A", "well-known", "1,000."]


def test_what_is_made_up_where_nobody_speaks_is_left_out(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", list(range(5)))

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        return replace(
            answer,
            text="Thank you for watching!",
            average_logprob=-1.3,
            no_speech_probability=0.9,
        )

    heard = Run(tmp_path / "run", source).attempt(Scripted(script=script))
    assert (heard.text, heard.segments, heard.words) == ("", [], [])


def test_silence_is_never_shown_to_the_engine(tmp_path: Path) -> None:
    source = recording(tmp_path / "silence.wav", [None] * 40)
    engine = Scripted()
    heard = Run(tmp_path / "run", source).attempt(engine)
    assert engine.asked == []
    assert heard.text == ""


def test_the_language_is_detected_in_every_window_and_expected_after_a_crash(
    tmp_path: Path, talk: Path
) -> None:
    run = Run(tmp_path, talk)
    first = Scripted(script=_breaks_at(2))
    with pytest.raises(Broken):
        run.attempt(first)
    assert [request.expected for request in first.asked] == [None, "en", "en"]
    second = Scripted()
    run.attempt(second)
    assert {request.expected for request in second.asked} == {"en"}
    assert {request.language for request in [*first.asked, *second.asked]} == {None}
    assert run.result["language"] == "en"


@pytest.mark.parametrize(("probability", "asked_again"), [(0.95, 0), (0.4, 1), (None, 0)])
def test_another_language_counts_when_the_engine_is_sure(
    tmp_path: Path, talk: Path, probability: float | None, asked_again: int
) -> None:
    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        if number < 3 or request.language:
            return replace(answer, language=request.language or "en")
        return replace(answer, language="fr", language_probability=probability)

    plain = Scripted()
    Run(tmp_path / "plain", talk).attempt(plain)
    run = Run(tmp_path / "run", talk)
    engine = Scripted(script=script)
    heard = run.attempt(engine)
    french = len(plain.asked) - 3
    assert len(engine.asked) == len(plain.asked) + asked_again * french
    assert words_of(heard) == [f"w{number}." for number in range(130)]
    others = [each for each in heard.segments if each.language]
    if asked_again:
        assert (heard.language, others) == ("en", [])
    else:
        longest = "en" if len(others) < len(heard.segments) / 2 else "fr"
        assert (heard.language, run.result["language"]) == (longest, longest)
        assert {each.language for each in others} == {"en", "fr"} - {longest}


def test_a_given_language_is_the_only_one(tmp_path: Path, talk: Path) -> None:
    engine = Scripted()
    Run(tmp_path, talk, language="de").attempt(engine)
    assert {request.language for request in engine.asked} == {"de"}


def test_a_window_in_two_languages_is_heard_in_two_parts_even_after_a_crash(
    tmp_path: Path,
) -> None:
    source = recording(tmp_path / "short.wav", list(range(20)))

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        first = answer.words[0].word
        if request.language:
            return replace(answer, language=request.language)
        if first == "w12.":
            return replace(answer, language="fr")
        parts = [Spoken(0, 11.9, "en", 0.9), Spoken(11.9, 20, "fr", 0.9)]
        return TranscribeResult(text="", parts=parts)

    whole = Run(tmp_path / "whole", source)
    heard = whole.attempt(Scripted(script=script))
    assert words_of(heard) == [f"w{number}." for number in range(20)]
    assert heard.language == "en"
    assert [each.text for each in heard.segments if each.language == "fr"] == [
        f"w{number}." for number in range(12, 20)
    ]
    run = Run(tmp_path / "run", source)

    def breaks(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        if number == 2:
            raise Broken
        return script(number, request, answer)

    with pytest.raises(Broken):
        run.attempt(Scripted(script=breaks))
    assert len(run.kept()) == 1
    again = Scripted(script=script)
    assert transcript.encode(run.attempt(again)) == transcript.encode(heard)
    assert [request.expected for request in again.asked] == ["en"]


def test_an_unsure_language_is_asked_for_again(tmp_path: Path, talk: Path) -> None:
    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        return replace(answer, language="cy", language_probability=0.2) if number == 0 else answer

    engine = Scripted(script=script)
    run = Run(tmp_path, talk)
    run.attempt(engine)
    assert [request.expected for request in engine.asked[:3]] == [None, None, "en"]


def test_hints_reach_the_engine(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", [1])
    engine = Scripted()
    options = {"prompt": "A lecture.", "vocabulary": ["Rushes", "FFmpeg"], "language": "en-GB"}
    Run(tmp_path / "run", source, **options).attempt(engine)
    [request] = engine.asked
    assert request.prompt == "A lecture. Rushes, FFmpeg."
    assert request.language == "en"


def test_who_speaks_is_found_out_once_and_told_of_every_word(tmp_path: Path, talk: Path) -> None:
    turns = [SpeakerTurn(start=0, end=65, speaker=0), SpeakerTurn(start=65, end=142, speaker=1)]
    engine = Scripted(turns=turns)
    run = Run(tmp_path, talk, diarize=True, speakers=2)
    heard = run.attempt(engine)
    assert {word.speaker for word in heard.words} == {"SPEAKER_00", "SPEAKER_01"}
    assert engine.diarized[0].speakers == 2
    assert run.result["speakers"] == 2
    again = Scripted()
    assert transcript.encode(run.attempt(again)) == transcript.encode(heard)
    assert (again.asked, again.diarized) == ([], [])


def test_what_is_left_is_told_of_the_whole_or_not_at_all(
    tmp_path: Path, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = itertools.count(step=10)
    monkeypatch.setattr(transcribe_handler, "time", SimpleNamespace(monotonic=lambda: next(passed)))
    pace = Pace(tmp_path / "pace.json")
    run = Run(tmp_path / "first", talk, diarize=True)
    run.attempt(Diligent(), pace)
    # Nobody knows yet how long telling speakers apart takes here.
    assert _left(run, "transcribing") == {None}
    assert run.reports[-1].stage == "saving"
    measured = [each.detail or {} for each in run.reports if each.stage == "diarizing"]
    assert [each.get("eta_seconds") for each in measured] == [None, None, 31.2, 20.4, None]

    known = Run(tmp_path / "second", talk, diarize=True)
    pace.learn("diarizing diarization-default", 142, 142_000_000)
    known.attempt(Diligent(), pace)
    left = [each.detail or {} for each in known.reports if each.stage == "transcribing"]
    assert all(each["eta_seconds"] > 1_000_000 for each in left)
    begin = next(each for each in known.reports if each.stage == "diarizing")
    assert begin.detail is not None
    assert begin.detail["eta_seconds"] > 1_000_000


class Diligent(Scripted):
    """Tells how far it is."""

    def diarize(
        self, request: SpeakerRequest, progress: Callable[[float], None], watch: Watch
    ) -> Sequence[SpeakerTurn]:
        for share in (0.01, 0.25, 0.5, 1.0):
            progress(share)
        return self.turns


def _left(run: Run, stage: str) -> set[float | None]:
    return {(each.detail or {}).get("eta_seconds") for each in run.reports if each.stage == stage}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "b", "c": -1, "d": null}', "\x00"])
def test_a_pace_that_cannot_be_read_is_unknown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pace.json"
    file.write_text(text)
    pace = Pace(file)
    assert {pace.expect(each, 60) for each in "abcd"} == {None}
    pace.learn("a", 60, 30)
    assert Pace(file).expect("a", 100) == 50
    Pace(tmp_path / "nowhere" / "pace.json").learn("a", 60, 30)


def test_any_number_of_turns_can_be_kept_and_all_of_them_count(
    tmp_path: Path, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of talk has more than fits into one passage; a crash between two of them costs
    only the speakers."""
    turns = [
        SpeakerTurn(start=at * 142 / 9000, end=(at + 1) * 142 / 9000, speaker=at % 7)
        for at in range(9000)
    ]
    run = Run(tmp_path, talk, diarize=True)
    put = run.folder.put_passage

    def breaks(claim: Claim, number: int, content: Any) -> None:
        if passages.is_turns(content) and content["page"] == 2:
            raise Broken
        put(claim, number, content)

    with monkeypatch.context() as patch, pytest.raises(Broken):
        patch.setattr(run.folder, "put_passage", breaks)
        run.attempt(Scripted(turns=turns))
    assert passages.turns(run.kept()) is None
    again = Scripted(turns=turns)
    run.attempt(again)
    assert again.asked == []
    found = passages.turns(run.kept())
    assert found is not None
    assert [each.speaker for each in found] == [f"SPEAKER_{at % 7:02d}" for at in range(9000)]
    assert found[-1].end == pytest.approx(142)
    assert run.result["speakers"] == 7
    assert max(len(json.dumps(each)) for each in run.kept()) < PASSAGE_LIMIT_BYTES / 2


def test_a_translation_is_english_and_what_is_spoken_is_kept(tmp_path: Path, talk: Path) -> None:
    def german(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        return replace(answer, language="de")

    def breaks(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        return german(number, request, _breaks_at(2)(number, request, answer))

    run = Run(tmp_path, talk, task="translate")
    with pytest.raises(Broken):
        run.attempt(Scripted(script=breaks))
    engine = Scripted(script=german)
    assert run.attempt(engine).language == "en"
    assert {request.expected for request in engine.asked} == {"de"}
    assert run.result["language"] == "en"


def test_a_line_that_was_cut_off_costs_its_window_alone(tmp_path: Path, talk: Path) -> None:
    run = Run(tmp_path, talk)
    with pytest.raises(Broken):
        run.attempt(Scripted(script=_breaks_at(3)))
    kept = tmp_path / ".rushes" / "passages.jsonl"
    kept.write_bytes(kept.read_bytes()[:-40])
    assert len(run.kept()) == 2
    with pytest.raises(Broken):
        run.attempt(Scripted(script=_breaks_at(1)))
    assert len(run.kept()) == 3, "what is written next is not spoilt by it"
    assert words_of(run.attempt(Scripted())) == [f"w{number}." for number in range(130)]
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:1] + lines[4:]))
    assert len(run.kept()) == 1, "behind a gap nothing counts"


def test_without_a_model_the_engine_chooses(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", [1])
    engine = Scripted()
    run = Run(tmp_path / "run", source)
    run.attempt(engine)
    assert engine.asked[0].model == "its-own-choice"
    assert run.result["engine"]["transcription_model"] == "its-own-choice"
    Run(tmp_path / "named", source, model="large").attempt(engine)
    assert engine.asked[1].model == "large"


def test_a_cancel_is_heard_while_the_sound_is_extracted(
    tmp_path: Path, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "LISTEN_SECONDS", 0.0)
    run = Run(tmp_path, talk)

    def canceled(claims: Sequence[Claim]) -> Pulse:
        return Pulse({each.claim_id: Beat(True, cancel=True) for each in claims}, drain=False)

    monkeypatch.setattr(run.folder, "heartbeat", canceled)
    engine = Scripted()
    with pytest.raises(errors.Canceled):
        run.attempt(engine)
    assert engine.stretches == 0


def test_an_engine_that_cannot_run_says_so_before_anything_is_read(tmp_path: Path) -> None:
    source = recording(tmp_path / "short.wav", [1])
    engine = Scripted(unavailable=EngineUnavailable("no speech engine is installed here"))
    run = Run(tmp_path / "run", source)
    with pytest.raises(errors.PermanentFailure) as failure:
        run.attempt(engine)
    assert failure.value.code == "engine_unavailable"
    # A retry works once it is there.
    assert words_of(run.attempt(Scripted())) == ["w1."]


def test_a_cancel_reaches_the_engine(tmp_path: Path, talk: Path) -> None:
    run = Run(tmp_path, talk)

    def script(
        number: int, request: TranscribeRequest, answer: TranscribeResult
    ) -> TranscribeResult:
        assert run.job is not None
        run.job.stop(Stop.CANCELED)
        return answer

    engine = Scripted(script=script)
    with pytest.raises(errors.Canceled):
        run.attempt(engine)
    assert len(engine.asked) == 1


def test_stages_come_in_order_and_progress_never_falls(tmp_path: Path, talk: Path) -> None:
    run = Run(tmp_path, talk, diarize=True)
    run.attempt(Scripted(turns=[SpeakerTurn(start=0, end=142, speaker=0)]))
    stages = list(dict.fromkeys(report.stage for report in run.reports))
    assert stages == ["preparing", "transcribing", "diarizing", "merging", "saving"]
    shares = [report.progress for report in run.reports]
    assert shares == sorted(shares)
    texts = [
        report.detail["text"] for report in run.reports if report.detail and "text" in report.detail
    ]
    assert " ".join(texts).split() == [f"w{number}." for number in range(130)]


def test_what_a_worker_says_is_not_trusted() -> None:
    contents = [
        "nonsense",
        {"start": "x"},
        {"turns": 5},
        None,
        {"start": 0, "end": 1, "text": "Hi."},
    ]
    assert [each.text for each in passages.spoken(contents)] == ["Hi."]
    assert passages.turns(contents) == []
