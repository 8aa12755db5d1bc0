"""Whether two sounds are one: the channels of a track, or two tracks of a file. Pure.

People on a call may have a channel each, and a mix of channels that are each other's opposite is
silence. Levels tell which recordings may be so; what is said in both is compared sample by sample.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

LEVEL = re.compile(rb"lavfi\.astats\.([1-4])\.RMS_level=(\S+)")
# Power below which there is nothing to compare, of a full scale of 1: -55 dB.
QUIET = 10**-5.5
# A channel with less than this share of the other's power has nothing on it: -30 dB.
EMPTY = 10**-3
# A mix that keeps less than this share of the power cancels itself out: -10 dB.
CANCELED = 0.1
# So much louder than the other, each against its own level, is alone: 6 dB.
ALONE = 10**0.6
# Of all that is loud, at least so much cancels out, or is on one channel alone.
LEAST_SHARE = 0.1
# Channels that share more of their power than this have one sound.
TOGETHER = 0.5

# For comparing samples: every so manyth, moved by up to 10 ms, as from one microphone to another.
THIN, LAGS = 4, 40
# An echo has less than this share of the power: -3 dB.
FAINT = 0.5
# Of one voice in two places, at least this much is the same; the half of a mix has more.
SAME = 0.5


@dataclass(frozen=True, slots=True)
class Levels:
    """Power of a moment: of both channels, of their mix and of their difference."""

    left: float
    right: float
    mix: float
    difference: float


class Layout(Enum):
    MIX = "mix"
    LEFT = "left"
    RIGHT = "right"
    APART = "apart"


def read(said: bytes) -> list[Levels]:
    """What ffmpeg's astats prints of left, right, mix and difference."""
    found: list[Levels] = []
    row: list[float] = []
    for match in LEVEL.finditer(said):
        if int(match[1]) == 1:
            row = []
        row.append(_power(match[2]))
        if len(row) == 4:
            found.append(Levels(*row))
    return found


def _power(decibels: bytes) -> float:
    try:
        level = float(decibels)
    except ValueError:
        return 0.0
    return 10 ** (min(level, 20.0) / 10) if math.isfinite(level) else 0.0


def layout(moments: Sequence[Levels]) -> Layout:
    """How to listen to a track of two channels. APART is a guess: see `contained`."""
    loud = [each for each in moments if max(each.left, each.right) > QUIET]
    left, right = sum(each.left for each in loud), sum(each.right for each in loud)
    if min(left, right) <= EMPTY * max(left, right):
        return Layout.MIX
    canceled = sum(each.mix < CANCELED * max(each.left, each.right) / 2 for each in loud)
    if canceled >= LEAST_SHARE * len(loud):
        return Layout.LEFT if left >= right else Layout.RIGHT
    return Layout.APART if _is_apart(loud) else Layout.MIX


def _is_apart(loud: Sequence[Levels]) -> bool:
    usual_left, usual_right = (
        _usual([each.left for each in loud]),
        _usual([each.right for each in loud]),
    )
    lefts = [each.left / usual_left for each in loud]
    rights = [each.right / usual_right for each in loud]
    pairs = list(zip(lefts, rights, strict=True))
    least = LEAST_SHARE * len(loud)
    if sum(one > ALONE * other for one, other in pairs) < least:
        return False
    if sum(other > ALONE * one for one, other in pairs) < least:
        return False
    power = sum(each.left + each.right for each in loud) / 2
    shared = sum(each.mix - each.difference for each in loud)
    return abs(shared) < TOGETHER * power


def _usual(powers: Sequence[float]) -> float:
    """Of the loud moments of a channel; never nothing."""
    return max(sorted(powers)[len(powers) * 9 // 10], QUIET)


def is_fainter(one: bytes, other: bytes) -> bool:
    """As when a microphone hears a loudspeaker."""
    return _level(one) < FAINT * _level(other)


def _level(pcm: bytes) -> float:
    samples = _thin(pcm)
    return sum(each * each for each in samples) / max(len(samples), 1)


def same(one: bytes, other: bytes) -> bool:
    """Whether what is heard in the first is in the second, a little earlier or later perhaps."""
    first, second = _thin(one), _thin(other)
    length = min(len(first), len(second)) - 2 * LAGS
    if length <= LAGS:
        return False
    middle = first[LAGS : LAGS + length]
    own = math.sqrt(sum(each * each for each in middle))
    if not own:
        return True
    for lag in range(2 * LAGS + 1):
        moved = second[lag : lag + length]
        theirs = math.sqrt(sum(each * each for each in moved))
        shared = sum(map(float.__mul__, middle, moved))
        if theirs and abs(shared) > SAME * own * theirs:
            return True
    return False


def _thin(pcm: bytes) -> list[float]:
    """Without what is too high for so few samples."""
    samples = array("h", pcm[: len(pcm) // (2 * THIN) * (2 * THIN)])
    return [float(sum(samples[at : at + THIN])) for at in range(0, len(samples), THIN)]
