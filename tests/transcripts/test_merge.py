from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from rushes.transcripts import merge
from rushes.transcripts.transcript import Turn, Word
from spoken import at_random, rows_of_turns, rows_of_words, said, turn, word

ZERO, ONE, TWO = "SPEAKER_00", "SPEAKER_01", "SPEAKER_02"


def who(words: list[Word], turns: list[Turn]) -> list[str | None]:
    return [each.speaker for each in merge.label(words, turns)]


TABLE = {
    "inside a turn": (word(1, 2, "a"), [turn(0, 5, 0), turn(6, 9, 1)], ZERO),
    "most of it in the second": (word(4.8, 5.8, "a"), [turn(0, 5, 0), turn(5, 9, 1)], ONE),
    "most of it in the first": (word(4.2, 5.2, "a"), [turn(0, 5, 0), turn(5, 9, 1)], ZERO),
    "as much in both": (word(4.5, 5.5, "a"), [turn(0, 5, 0), turn(5, 9, 1)], ZERO),
    "two turns of one speaker count together": (
        word(0, 10, "a"),
        [turn(0, 3, 0), turn(3, 7, 1), turn(7, 10, 0)],
        ZERO,
    ),
    "turns that overlap": (word(4, 5, "a"), [turn(0, 10, 0), turn(4.5, 6, 1)], ZERO),
    "in a silence, nearer to the next": (word(5.5, 5.6, "a"), [turn(0, 5, 0), turn(6, 9, 1)], ONE),
    "in a silence, nearer to the last": (word(5.2, 5.4, "a"), [turn(0, 5, 0), turn(6, 9, 1)], ZERO),
    "a word without a length": (word(7, 7, "a"), [turn(0, 5, 0), turn(6, 9, 1)], ONE),
    "far behind all": (word(90, 91, "a"), [turn(0, 5, 0), turn(6, 9, 1)], ONE),
    "far before all": (word(0, 1, "a"), [turn(50, 55, 0), turn(60, 90, 1)], ZERO),
    "a long turn hides a short one": (word(21, 22, "a"), [turn(0, 20, 0), turn(1, 2, 1)], ZERO),
    "turns in no order": (word(7, 8, "a"), [turn(6, 9, 1), turn(0, 5, 0)], ONE),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_word_goes_to_whoever_speaks_then(name: str) -> None:
    said_then, turns, expected = TABLE[name]
    assert who([said_then], turns) == [expected]


def test_a_word_far_from_all_turns_goes_with_the_nearer_neighbour() -> None:
    words = [word(1, 2, "one"), word(8, 8.5, "two"), word(9, 10, "three"), word(30, 31, "four")]
    assert who(words, [turn(0, 2, 0), turn(9.9, 12, 1)]) == [ZERO, ONE, ONE, ONE]


def test_a_lone_word_at_the_edge_of_a_turn_goes_with_its_sentence() -> None:
    words = said("I need the design. Okay, I thought you know. Good.")
    assert who(words, [turn(0, 1.45, 0), turn(1.5, 3, 1)])[4] == ONE


def test_a_last_word_at_the_edge_of_a_turn_goes_with_its_sentence() -> None:
    words = said("Where have you been? I was at home.")
    assert who(words, [turn(0, 0.9, 0), turn(0.9, 3, 1)])[:5] == [ZERO, ZERO, ZERO, ZERO, ONE]


def test_two_words_of_a_long_sentence_go_with_it_but_not_half_of_it() -> None:
    words = said("I am Diane. And I am Sheila in Texas. Good.")
    assert who(words, [turn(0, 1.45, 0), turn(1.5, 9, 1)]) == [*[ZERO] * 3, *[ONE] * 7]
    assert who(words, [turn(0, 1.75, 0), turn(1.8, 9, 1)]) == [*[ZERO] * 6, *[ONE] * 4]


def test_a_word_that_has_a_turn_of_its_own_stays_with_its_speaker() -> None:
    words = said("We go home now. Yes, I think that is right.")
    turns = [turn(0, 1.15, 0), turn(1.2, 1.45, 1), turn(1.5, 9, 2)]
    assert who(words, turns) == [ZERO] * 4 + [ONE] + [TWO] * 5


def test_a_sentence_that_is_half_and_half_is_left_as_it_was_heard() -> None:
    words = said("So it is. Hello there. And so on.")
    assert who(words, [turn(0, 1.15, 0), turn(1.2, 9, 1)]) == [ZERO] * 4 + [ONE] * 4


def test_a_pause_ends_a_sentence_for_a_lone_word() -> None:
    words = [*said("this is all", 0), word(0.9, 1.1, "well"), *said("what do you say", 3)]
    turns = [turn(0, 1.2, 0), turn(3, 9, 1)]
    assert who(words, turns) == [ZERO] * 4 + [ONE] * 4


def test_without_turns_nobody_is_named() -> None:
    assert who(said("nobody is here"), []) == [None] * 3


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("done.", True),
        ("done.”", True),
        ("done?)", True),
        ("done…", True),
        ("終わり。", True),
        ("終わり。」", True),
        ("done,", False),
        ("Mr.", False),
        ("J.", False),
        ("U.S.", False),
        ("e.g.", False),
        ("No.", True),
        ("I.", True),
        ("3.5", False),
        ("done", False),
    ],
)
def test_what_ends_a_sentence(text: str, ends: bool) -> None:
    assert merge.ends_sentence(text) is ends


@pytest.mark.parametrize(
    ("words", "speaker"),
    [
        ([], None),
        ([word(0, 1, "a")], None),
        ([word(0, 1, "a", ZERO), word(1, 3, "b", ONE)], ONE),
        ([word(0, 1, "a", ONE), word(1, 2, "b", ZERO)], ONE),
        ([word(0, 0.1, "a", ZERO), word(1, 1.1, "b", ZERO), word(2, 2.15, "c", ONE)], ZERO),
        ([word(0, 0, "a", ZERO), word(0, 0, "b", ONE), word(0, 0, "c", ONE)], ONE),
    ],
)
def test_who_speaks_most(words: list[Word], speaker: str | None) -> None:
    assert merge.speaker_of(words) == speaker


@at_random
@given(rows_of_words(), rows_of_turns())
def test_every_word_gets_a_speaker_and_nothing_else_changes(
    words: list[Word], turns: list[Turn]
) -> None:
    labelled = merge.label(words, turns)
    known: set[str | None] = {each.speaker for each in turns}
    assert [(each.start, each.end, each.word) for each in labelled] == [
        (each.start, each.end, each.word) for each in words
    ]
    assert {each.speaker for each in labelled} <= (known or {None})


@at_random
@given(rows_of_words(), rows_of_turns())
def test_a_word_is_never_given_to_somebody_who_is_silent_while_another_speaks(
    words: list[Word], turns: list[Turn]
) -> None:
    """Unless that is where its sentence goes on."""
    labelled = merge.label(words, turns)
    for number, each in enumerate(labelled):
        speaking = {
            turn.speaker
            for turn in turns
            if min(turn.end, each.end) - max(turn.start, each.start) > 1e-6
        }
        others = labelled[max(number - 2, 0) : number] + labelled[number + 1 : number + 3]
        beside = {other.speaker for other in others}
        assert not speaking or each.speaker in speaking or each.speaker in beside


def test_hours_of_words_are_labelled_in_one_go() -> None:
    words = [word(each * 0.4, each * 0.4 + 0.3, f"w{each}") for each in range(90_000)]
    turns = [turn(each * 3.6, each * 3.6 + 3.5, each % 4) for each in range(10_000)]
    labelled = merge.label(words, turns)
    changes = sum(one.speaker != other.speaker for one, other in pairwise(labelled))
    assert changes == 9_999
