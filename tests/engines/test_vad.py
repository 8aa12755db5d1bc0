"""Where somebody speaks, and where it is only not silent."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import speech
from rushes.engines import vad
from rushes.engines.engine import BYTES_PER_SECOND, RATE

STEP = vad.FRAME / RATE


def frames(*parts: tuple[float, float]) -> list[float]:
    """(seconds, probability) of each part."""
    return [value for seconds, value in parts for _ in range(round(seconds / STEP))]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], []),
        ([(2, 0.1)], []),
        # Padded, but not beyond the sound.
        ([(2, 0.9)], [(0.0, 2.0)]),
        ([(1, 0.1), (1, 0.9), (1, 0.1)], [(0.8, 2.2)]),
        # Shorter than a word.
        ([(1, 0.1), (0.064, 0.9), (1, 0.1)], []),
        # A breath is no pause.
        ([(1, 0.1), (1, 0.9), (0.25, 0.1), (1, 0.9), (1, 0.1)], [(0.8, 3.45)]),
        # A pause is one.
        ([(1, 0.9), (1, 0.1), (1, 0.9)], [(0.0, 1.2), (1.8, 3.0)]),
        # What is neither stays what it was.
        ([(1, 0.1), (1, 0.9), (1, 0.4), (1, 0.1)], [(0.8, 3.2)]),
        ([(1, 0.1), (1, 0.4)], []),
    ],
)
def test_speech_is_what_lasts(
    parts: list[tuple[float, float]], expected: list[tuple[float, float]]
) -> None:
    given = frames(*parts)
    found = vad.intervals(given, len(given) * STEP)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=3 * STEP)


@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0]), max_size=400), st.floats(0, 1))
def test_intervals_are_in_order_inside_and_apart(probabilities: list[float], cut: float) -> None:
    duration = max(0.0, (len(probabilities) - cut) * STEP)
    found = vad.intervals(probabilities, duration)
    assert all(0 <= start < end <= duration for start, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))


@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0]), max_size=400))
def test_nothing_that_lasts_is_lost(probabilities: list[float]) -> None:
    """Every run of sure speech that is long enough lies inside an interval."""
    found = vad.intervals(probabilities, len(probabilities) * STEP)
    run = 0
    for at, probability in enumerate([*probabilities, 0.0]):
        if probability >= vad.SPEECH:
            run += 1
            continue
        if run * STEP > vad.MIN_SPEECH_SECONDS:
            middle = (at - run / 2) * STEP
            assert any(start <= middle <= end for start, end in found)
        run = 0


LOUDNESS = st.sampled_from([0, 1, 2, 500, -30_000])


@settings(max_examples=30)
@given(st.lists(st.tuples(LOUDNESS, st.integers(1, 30)), max_size=8))
def test_all_but_digital_silence_is_kept(parts: list[tuple[int, int]]) -> None:
    samples = array("h", [level for level, tenths in parts for _ in range(tenths * RATE // 10)])
    found = vad.not_silent(samples.tobytes())
    kept: set[int] = set()
    for start, end in found:
        assert 0 <= start < end <= len(samples) / RATE
        assert end - start <= vad.LONGEST_SECONDS + 0.1
        kept.update(range(round(start * 50), round(end * 50) + 1))
    for frame in range(0, len(samples), vad.QUIET_FRAME):
        if max(map(abs, samples[frame : frame + vad.QUIET_FRAME])) > vad.DIGITAL_SILENCE:
            assert frame // vad.QUIET_FRAME in kept


def test_a_long_sound_is_cut_where_it_is_quiet() -> None:
    loud, quiet = array("h", [900] * RATE), array("h", [20] * (RATE // 10))
    sound = (loud * 12 + quiet + loud * 15).tobytes()
    found = vad.not_silent(sound)
    assert found[0] == pytest.approx((0.0, 12.0), abs=0.1)
    assert found[-1][1] == pytest.approx(len(sound) / BYTES_PER_SECOND)


def hum(length: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A low note with its overtones, of power 1."""
    at = np.arange(length) / RATE
    wave = np.sum([np.sin(110 * n * math.tau * at) / n for n in range(1, 12)], axis=0)
    return np.asarray(wave / np.sqrt(np.mean(wave**2)))


def pcm(samples: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
    return bytes((samples * min(1.0, 30_000 / np.abs(samples).max())).astype("<i2"))


@pytest.mark.parametrize("decibels", [6, 12])
def test_a_voice_is_found_under_a_loud_hum(decibels: int) -> None:
    at, samples, middles = 0.0, [], []
    for each in speech.librivox():
        middles += [at + (word.start + word.end) / 2 for word in each.words]
        samples.append(np.frombuffer(each.sound, "<i2").astype(np.float64))
        at += len(each.sound) / BYTES_PER_SECOND
    voice = np.concatenate(samples)
    level = np.sqrt(np.mean(voice**2)) * 10 ** (decibels / 20)
    found = vad.speech(pcm(voice + level * hum(len(voice))))
    heard = sum(any(start <= middle <= end for start, end in found) for middle in middles)
    assert heard >= 0.97 * len(middles)


def test_a_hum_by_itself_is_no_speech() -> None:
    assert list(vad.speech(pcm(8000 * hum(40 * RATE)))) == []


@pytest.mark.parametrize("length", [0, RATE, 2 * RATE + 255, 31 * RATE + 7])
def test_what_does_not_go_on_all_the_time_stays(length: int) -> None:
    """A click in silence, whatever the length is."""
    samples = np.zeros(length, np.float32)
    if length:
        samples[length // 2] = 0.5
    left = vad.without_hum(samples)
    assert left.shape == samples.shape
    assert left == pytest.approx(samples, abs=0.01)
