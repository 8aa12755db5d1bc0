"""Forms as others send them, and transcripts in the shapes that others expect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

import spoken
from rushes import errors
from rushes.engines.engine import Capabilities
from rushes.transcripts import transcript as transcripts
from rushes.transcripts.transcript import Transcript
from rushes.web.http.forms import Form
from rushes.web.openai import answers as openai_answers
from rushes.web.openai import form as openai_form
from rushes.web.openai.answers import Heard

FEW = Capabilities(provider="openai", device="remote", models=())


def form(*parts: tuple[str, str], **options: Any) -> Form:
    made = Form("multipart/form-data; boundary=x", openai_form.FIELDS, **options)
    for name, value in parts:
        made.feed(
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        )
    made.feed(b"--x--\r\n")
    return made


def lenient(*parts: tuple[str, str]) -> Form:
    return form(*parts, lists=openai_form.LISTS, lenient=True)


def test_a_list_is_spelled_with_brackets_or_without_and_may_come_again() -> None:
    found = lenient(("keywords[]", "a"), ("keywords", "b"), ("model", "c"), ("other", "d"))
    assert (found.fields, found.lists) == ({"model": "c"}, {"keywords": ["a", "b"]})
    with pytest.raises(errors.BadField, match="model: can be there only once"):
        lenient(("model", "a"), ("model", "b"))


def test_a_form_that_is_not_lenient_knows_what_it_wants() -> None:
    with pytest.raises(errors.BadField, match="other: is not known here"):
        form(("other", "x"))
    with pytest.raises(errors.BadField, match=r"keywords\[\]: is not known here"):
        form(("keywords[]", "x"))


@pytest.mark.parametrize(
    ("given", "code"),
    [("german", "de"), ("Haitian Creole", "ht"), ("pt-BR", "pt"), ("EN", "en"), ("", None)],
)
def test_languages_by_name_or_code(given: str, code: str | None) -> None:
    assert openai_form.read(lenient(("language", given)), "transcribe", FEW).language == code


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("language", "x" * 60_000, errors.BadField),
        ("language", "e\0n", errors.BadField),
        ("model", "x" * 60_000, errors.NoSuchModel),
    ],
)
def test_nonsense_is_refused_even_if_the_engine_tells_nothing(
    name: str, value: str, error: type[errors.RushesError]
) -> None:
    with pytest.raises(error):
        openai_form.read(lenient((name, value)), "transcribe", FEW)


def test_one_of_several_languages_is_none() -> None:
    one = lenient(("languages[]", "de"))
    assert openai_form.read(one, "transcribe", FEW).language == "de"
    two = lenient(("languages[]", "de"), ("languages[]", "en"))
    assert openai_form.read(two, "transcribe", FEW).language is None


def test_an_engine_that_does_not_tell_its_models_is_asked_for_any() -> None:
    assert openai_form.read(lenient(("model", "big-one")), "transcribe", FEW).model == "big-one"


def test_speakers_have_letters_as_columns_of_a_sheet() -> None:
    turns = [spoken.turn(n, n + 1, n) for n in range(30)]
    words = [each for n in range(30) for each in spoken.said(f"Word{n}.", n, pace=0.9)]
    transcript = transcripts.build([spoken.passage(words)], turns, spoken.ENGINE)
    heard = Heard(transcript=transcript, seconds=30.0, names={"SPEAKER_01": "Bo"})
    names = [each["speaker"] for each in openai_answers.speaker_segments(heard)]
    assert (names[:3], names[25:28]) == (["A", "Bo", "C"], ["Z", "AA", "AB"])


def test_pieces_are_joined_as_the_script_wants() -> None:
    assert openai_answers.delta("", "One.")["delta"] == "One."
    assert openai_answers.delta("One.", "Two.")["delta"] == " Two."
    assert openai_answers.delta("日本。", "語")["delta"] == "語"


@given(spoken.transcripts())
@settings(deadline=None, max_examples=30)
def test_any_transcript_has_every_shape(transcript: Transcript) -> None:
    heard = Heard(transcript=transcript, seconds=100.0)
    for format in openai_form.FORMATS:
        assert isinstance(openai_answers.render(heard, format), str)
    verbose = json.loads(openai_answers.render(heard, "verbose_json", words=True))
    assert [each["id"] for each in verbose["segments"]] == list(range(len(transcript.segments)))
    assert [each["word"] for each in verbose["words"]] == [each.word for each in transcript.words]
    assert all(each["avg_logprob"] <= 0 for each in verbose["segments"])
    diarized = json.loads(openai_answers.render(heard, "diarized_json"))
    assert [each["text"] for each in diarized["segments"]] == [
        each["text"] for each in verbose["segments"]
    ]
    assert len({each["speaker"] for each in diarized["segments"]}) == len(
        {each.speaker for each in transcript.segments}
    )
