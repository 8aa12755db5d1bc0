"""Durations and sizes as people write them: 6h, 30 days, 500ms, 10GiB. Pure."""

from __future__ import annotations

import re

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
GIB = 2**30
_SIZES = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": GIB, "TIB": 2**40}
_SIZES |= {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d{1,20}(?:\.\d+)?)\s*((?:[kmgt]i?)?b)?(?:(?<=b)ytes?)?", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY}
_WORDS = {"d": "day", "h": "hour", "min": "minute", "s": "second", "ms": "millisecond"}
_UNITS |= {f"{word}{end}": _UNITS[unit] for unit, word in _WORDS.items() for end in ("", "s")}
_UNITS |= {"week": 7 * DAY, "weeks": 7 * DAY}
_DURATION = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})?", re.IGNORECASE)


def parse_seconds(text: str) -> float | None:
    """None if it is no duration. Without a unit it is seconds."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * _UNITS[(match[2] or "s").lower()] if match else None


def parse_bytes(text: str) -> int | None:
    """None if it is no size."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * _SIZES[(match[2] or "").upper()]) if match else None


def format_seconds(seconds: float) -> str:
    """In the largest unit that leaves no fraction: 6h, 90s, 500ms."""
    for unit in ("d", "h", "min", "s"):
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"


def say_seconds(seconds: float) -> str:
    """30 days, 1 hour, 500 milliseconds."""
    written = format_seconds(seconds)
    number = written.rstrip("abcdefghijklmnopqrstuvwxyz")
    word = _WORDS[written[len(number) :]]
    return f"{number} {word}" if number == "1" else f"{number} {word}s"


def format_bytes(size: int) -> str:
    """In the largest unit that leaves no fraction: 2GiB, 1500000B."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        whole, rest = divmod(size, _SIZES[unit.upper()])
        if whole and not rest:
            return f"{whole}{unit}"
    return f"{size}B"


def say_bytes(size: int) -> str:
    """In a unit of either kind that leaves no fraction: 5 GB, 1 GiB, 0 bytes."""
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB"):
        whole, rest = divmod(size, _SIZES[unit.upper()])
        if whole and not rest:
            return f"{whole} {unit}"
    return f"{size} {'byte' if size == 1 else 'bytes'}"
