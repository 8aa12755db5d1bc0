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
ENGLISH_RUSSIAN = [("en", 0.93), ("ru", 0.89), ("ru", 0.97), ("ru", 0.59), ("ru", 0.97)]


@pytest.mark.parametrize(
    ("guesses", "expected"),
    [
        ([], []),
        (SPANISH, [("es", 0, 30)]),
        (CALL, [("en", 0, 30)]),
        (ENGLISH_FRENCH, [("en", 0, 10), ("fr", 10, 30)]),
        (FRENCH_UNCLEAR, [("fr", 0, 15), (None, 15, 30)]),
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
