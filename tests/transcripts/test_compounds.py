"""What may be a part of a word, and what words with it are found by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes.transcripts import compounds


@pytest.mark.parametrize(
    ("word", "part", "is_there"),
    [
        ("mietvertrag", "vertrag", True),
        ("mietvertrags", "vertrag", True),
        ("vertragsstrafe", "vertrag", True),
        ("datenschutzbeauftragter", "schutz", True),
        # Only an ending is added; what is before has too few letters, no vowel, or is a prefix.
        ("vertrages", "vertrag", False),
        ("strasse", "rasse", False),
        ("schreiben", "reiben", False),
        ("verkaufen", "kaufen", False),
        # One of two places is enough.
        ("verkaufenskaufen", "kaufen", True),
        ("vertrag", "vertrag", False),
        ("mietvertrag", "vertreter", False),
    ],
)
def test_a_part_has_something_like_a_word_beside_it(word: str, part: str, is_there: bool) -> None:
    assert compounds.has_part(word, part) == is_there


@pytest.mark.parametrize(
    ("language", "has_them"),
    [("de", True), ("de-CH", True), ("German", True), ("sv_SE", True), ("nl", True), ("fi", True),
     ("en", False), ("fr", False), ("zh", False), ("", False), (None, False)],
)  # fmt: skip
def test_some_languages_write_words_together(language: str | None, has_them: bool) -> None:
    assert compounds.are_in(language) == has_them


LETTERS = st.text(st.sampled_from("abc"), max_size=12)


@given(before=LETTERS, part=LETTERS, after=LETTERS)
def test_whatever_has_a_part_has_a_key_of_it(before: str, part: str, after: str) -> None:
    word = before + part + after
    if compounds.is_part(part) and compounds.is_word(word):
        assert compounds.part_keys(part).intersection(compounds.keys(word))
        assert compounds.first_key(word) in compounds.keys(word)
