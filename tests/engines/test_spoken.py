"""Which languages a window has, from guesses of its slices: those of real recordings, five seconds
each."""

from __future__ import annotations

import pytest

from rushes.engines import spoken
from rushes.engines.engine import Spoken

SPANISH = [("es", 0.36), ("tl", 0.84), ("it", 0.3), ("es", 0.82), ("vi", 0.28), ("es", 0.95)]
CALL = [("en", 0.83), ("en", 0.99), ("haw", 0.3), ("en", 0.99), ("en", 1.0), ("vi", 0.21)]
ENGLISH_FRENCH = [("en", 0.95), ("en", 0.97), ("fr", 0.87), ("fr", 1.0), ("fr", 0.99), ("br", 0.37)]
FRENCH_UNCLEAR = [("fr", 1.0), ("fr", 0.99), ("fr", 0.99), ("yo", 0.09), ("fr", 0.2), ("fr", 0.25)]
SPANISH_UNSURE = [("es", 0.91), ("es", 0.43), ("es", 0.71), ("es", 0.91)]
ENGLISH_RUSSIAN = [("en", 0.93), ("ru", 0.89), ("ru", 0.97), ("ru", 0.59), ("ru", 0.97)]


@pytest.mark.parametrize(
    ("guesses", "expected"),
    [
        ([], []),
        (SPANISH, [("es", 0, 30)]),
        (CALL, [("en", 0, 30)]),
        (ENGLISH_FRENCH, [("en", 0, 10), ("fr", 10, 30)]),
        (FRENCH_UNCLEAR, [("fr", 0, 15), (None, 15, 30)]),
        (SPANISH_UNSURE, [("es", 0, 20)]),
        (ENGLISH_RUSSIAN, [("en", 0, 5), ("ru", 5, 25)]),
        ([("yo", 0.1), ("en", 0.2), ("cy", 0.3)], []),
    ],
)
def test_a_language_counts_that_is_surely_spoken_for_a_while(
    guesses: list[tuple[str, float]], expected: list[tuple[str | None, float, float]]
) -> None:
    slices = [
        Spoken(5.0 * number, 5.0 * (number + 1), language, probability)
        for number, (language, probability) in enumerate(guesses)
    ]
    found = [(each.language, each.start, each.end) for each in spoken.parts(slices)]
    assert found == expected


@pytest.mark.parametrize(
    ("probability", "seconds", "believed"),
    [(0.9, 20, True), (0.7, 20, False), (0.9, 2, False), (0.97, 2, True), (None, 5, False)],
)
def test_little_sound_is_not_believed_easily(
    probability: float | None, seconds: float, believed: bool
) -> None:
    assert spoken.is_believed(probability, seconds) is believed


@pytest.mark.parametrize(
    ("alone", "expected"),
    [
        # It was only hard to tell in the middle of something.
        ("fr", [("fr", 0, 30)]),
        ("pt", [("fr", 0, 15), (None, 15, 30)]),
    ],
)
def test_what_nobody_is_sure_of_stays_with_its_neighbour_if_it_sounds_like_it_alone(
    alone: str, expected: list[tuple[str | None, float, float]]
) -> None:
    parts = [Spoken(0.0, 15.0, "fr", 0.99), Spoken(15.0, 30.0, None, 0.25)]
    found = spoken.settled(parts, lambda part: alone)
    assert [(each.language, each.start, each.end) for each in found] == expected


def test_of_three_parts_each_begins_where_the_one_before_ends() -> None:
    parts = [
        Spoken(float(at), at + 10.0, language, 0.9)
        for at, language in ((0, "en"), (10, "ru"), (20, "de"))
    ]
    changes = {("en", "ru"): 8.5, ("ru", "de"): 21.5}
    found = spoken.refined(
        parts, lambda one, other: changes[one.language or "", other.language or ""]
    )
    assert [(each.start, each.end) for each in found] == [(0.0, 8.5), (8.5, 21.5), (21.5, 30.0)]
