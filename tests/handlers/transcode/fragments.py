"""Reads segments box by box, apart from the code that wrote them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

IDR = 5
SLICES = (1, 5)


@dataclass(frozen=True)
class Sample:
    duration: int
    shift: int
    size: int


@dataclass(frozen=True)
class Fragment:
    """`start` is the decode time of the first sample; all times in ticks of the track."""

    start: int
    samples: list[Sample]
    data: bytes

    @property
    def shown(self) -> list[int]:
        at, times = self.start, []
        for each in self.samples:
            times.append(at + each.shift)
            at += each.duration
        return sorted(times)

    @property
    def first_slice(self) -> int:
        """What kind of picture H.264 says the first is."""
        at, end = 0, self.samples[0].size
        while at < end:
            (size,) = struct.unpack_from(">I", self.data, at)
            kind = self.data[at + 4] & 31
            if kind in SLICES:
                return kind
            at += 4 + size
        raise AssertionError("no picture in the first sample")


def boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        assert 8 <= size <= len(data) - at
        yield name.decode(), data[at + 8 : at + size]
        at += size


def find(data: bytes, *path: str) -> bytes:
    for name in path:
        data = next(body for found, body in boxes(data) if found == name)
    return data


def scale(init: bytes) -> int:
    """Ticks a second."""
    header = find(init, "moov", "trak", "mdia", "mdhd")
    (ticks,) = struct.unpack_from(">I", header, 20 if header[0] else 12)
    return int(ticks)


def edits(init: bytes) -> list[int]:
    """Where in the track it is begun to be shown, one for each edit."""
    track = find(init, "moov", "trak")
    if "edts" not in dict(boxes(track)):
        return []
    body = find(track, "edts", "elst")
    (count,) = struct.unpack_from(">I", body, 4)
    step, form, at = (20, ">q", 8) if body[0] else (12, ">i", 4)
    return [struct.unpack_from(form, body, 8 + n * step + at)[0] for n in range(count)]


def fragments(segment: bytes) -> Iterator[Fragment]:
    moof = b""
    for name, body in boxes(segment):
        if name == "moof":
            moof = body
        elif name == "mdat":
            yield _fragment(moof, body)


def _fragment(moof: bytes, data: bytes) -> Fragment:
    track = find(moof, "traf")
    header, begin = find(track, "tfhd"), find(track, "tfdt")
    (start,) = struct.unpack_from(">q" if begin[0] else ">I", begin, 4)
    assert start >= 0
    flags = int.from_bytes(header[1:4])
    at = 8 + 8 * bool(flags & 1) + 4 * bool(flags & 2)
    duration = size = 0
    if flags & 8:
        (duration,) = struct.unpack_from(">I", header, at)
        at += 4
    if flags & 16:
        (size,) = struct.unpack_from(">I", header, at)
    runs = [body for name, body in boxes(track) if name == "trun"]
    samples = [each for run in runs for each in _run(run, duration, size)]
    return Fragment(start, samples, data)


def _run(run: bytes, duration: int, size: int) -> Iterator[Sample]:
    flags = int.from_bytes(run[1:4])
    (count,) = struct.unpack_from(">I", run, 4)
    at = 8 + 4 * bool(flags & 1) + 4 * bool(flags & 4)
    for _ in range(count):
        fields = {"duration": duration, "size": size, "flags": 0, "shift": 0}
        for bit, name in ((0x100, "duration"), (0x200, "size"), (0x400, "flags"), (0x800, "shift")):
            if flags & bit:
                form = ">i" if name == "shift" and run[0] else ">I"
                (fields[name],) = struct.unpack_from(form, run, at)
                at += 4
        yield Sample(fields["duration"], fields["shift"], fields["size"])
