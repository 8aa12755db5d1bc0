"""Which words are near to one that was typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes.transcripts import spelling


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        ("theatre", "theatre", 0),
        ("theatre", "theater", 1),
        ("theatre", "teatre", 1),
        ("theatre", "theattre", 1),
        ("theatre", "theadre", 1),
        ("engineering", "enigneernig", 2),
        ("theatre", "threat", 3),
        ("", "abc", 3),
    ],
)
def test_edits_are_counted(one: str, other: str, edits: int) -> None:
    assert spelling.distance(one, other) == spelling.distance(other, one) == edits


@pytest.mark.parametrize("word", ["four", "x" * 31, "1299abc", "don't", "東京"])
def test_what_is_short_or_no_word_is_not_corrected(word: str) -> None:
    assert not spelling.is_word(word)


def test_one_letter_may_be_wrong_and_two_in_long_words() -> None:
    assert spelling.nearest("brigde", ["bridge", "bright", "brigade", "brigde"]) == [
        "bridge",
        "brigade",
    ]
    assert spelling.nearest("theatr", ["theatres"]) == []
    assert spelling.nearest("enigneernig", ["engineering"]) == ["engineering"]


LETTERS = st.sampled_from("abcde")
WORDS = st.text(LETTERS, min_size=5, max_size=13)
EDITS = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "replace", "turn"]), st.integers(0, 12), LETTERS),
    min_size=1,
    max_size=2,
)


def _edited(word: str, kind: str, at: int, letter: str) -> str:
    at %= len(word)
    if kind == "add":
        return word[:at] + letter + word[at:]
    if kind == "drop":
        return word[:at] + word[at + 1 :]
    if kind == "replace":
        return word[:at] + letter + word[at + 1 :]
    return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


@given(word=WORDS, edits=EDITS)
def test_whatever_is_near_has_a_key_in_common(word: str, edits: list[tuple[str, int, str]]) -> None:
    typed = word
    for edit in edits:
        typed = _edited(typed, *edit)
    if spelling.is_word(typed) and spelling.nearest(typed, [word]):
        assert spelling.typed_keys(typed).intersection(spelling.keys(word))
