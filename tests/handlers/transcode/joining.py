"""Two MOV files become one, box by box, as by editors that encode nothing anew: where pictures are
coded differently, their track has two sample descriptions. ffmpeg writes no such files."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from handlers.transcode.fragments import boxes, find

HOLD_OTHERS = ("moov", "trak", "mdia", "minf", "stbl")
# Where each has its duration, of version 0.
DURATIONS = {"mvhd": 16, "tkhd": 20, "mdhd": 16}


@dataclass(frozen=True)
class Chunk:
    offset: int
    samples: int
    entry: int


def joined(first: Path, second: Path) -> bytes:
    """Both have the same tracks, in the same order, and neither an edit list nor ctts."""
    files = [first.read_bytes(), second.read_bytes()]
    head = next(body for name, body in boxes(files[0]) if name == "ftyp")
    data = [next(body for name, body in boxes(each) if name == "mdat") for each in files]
    moved = [
        len(head) + 16 - files[0].index(data[0]),
        len(head) + 16 + len(data[0]) - files[1].index(data[1]),
    ]
    movies = [find(each, "moov") for each in files]
    traks = zip(*(_all(each, "trak") for each in movies), strict=True)
    tracks = [_track(one, other, moved) for one, other in traks]
    body = _patched("mvhd", find(movies[0], "mvhd"), _length(movies, "mvhd"))
    movie = _box("moov", body + b"".join(tracks))
    return _box("ftyp", head) + _box("mdat", b"".join(data)) + movie


def _track(first: bytes, second: bytes, moved: Sequence[int]) -> bytes:
    tables = [find(each, "mdia", "minf", "stbl") for each in (first, second)]
    entries = [find(each, "stsd")[8:] for each in tables]
    differ = entries[0] != entries[1]
    made = [_box("stsd", struct.pack(">II", 0, 1 + differ) + b"".join(entries[: 1 + differ]))]
    made.append(_rows("stts", [row for each in tables for row in _read(each, "stts", 2)]))
    counts = [struct.unpack_from(">I", find(each, "stsz"), 8)[0] for each in tables]
    if any(name == "stss" for name, _ in boxes(tables[0])):
        keys = [(n,) for (n,) in _read(tables[0], "stss", 1)]
        made.append(
            _rows("stss", [*keys, *((n + counts[0],) for (n,) in _read(tables[1], "stss", 1))])
        )
    made.append(_sizes(tables, counts))
    chunks = [*_chunks(tables[0], moved[0], 1), *_chunks(tables[1], moved[1], 1 + differ)]
    described = [(n, each.samples, each.entry) for n, each in enumerate(chunks, 1)]
    made.append(_rows("stsc", described))
    made.append(_rows("stco", [(each.offset,) for each in chunks]))
    stbl = b"".join(made)
    lengths = {
        "tkhd": _length([first, second], "tkhd"),
        "mdhd": _length([find(each, "mdia") for each in (first, second)], "mdhd"),
    }
    return _box("trak", _rebuilt(first, stbl, lengths))


def _rebuilt(data: bytes, stbl: bytes, lengths: dict[str, int]) -> bytes:
    made = b""
    for name, body in boxes(data):
        if name == "stbl":
            made += _box(name, stbl)
        elif name in HOLD_OTHERS:
            made += _box(name, _rebuilt(body, stbl, lengths))
        elif name in lengths:
            made += _patched(name, body, lengths[name])
        else:
            made += _box(name, body)
    return made


def _chunks(table: bytes, moved: int, entry: int) -> Iterator[Chunk]:
    offsets = [offset for (offset,) in _read(table, "stco", 1)]
    runs = _read(table, "stsc", 3)
    ends = [*(first for first, _, _ in runs[1:]), len(offsets) + 1]
    for (first, samples, _), end in zip(runs, ends, strict=True):
        for number in range(first, end):
            yield Chunk(offsets[number - 1] + moved, samples, entry)


def _sizes(tables: Sequence[bytes], counts: Sequence[int]) -> bytes:
    usual = [struct.unpack_from(">I", find(each, "stsz"), 4)[0] for each in tables]
    if all(usual):
        return _box("stsz", struct.pack(">III", 0, usual[0], sum(counts)))
    sizes = b"".join(find(each, "stsz")[12:] for each in tables)
    return _box("stsz", struct.pack(">III", 0, 0, sum(counts)) + sizes)


def _read(table: bytes, name: str, columns: int) -> list[tuple[int, ...]]:
    body = find(table, name)
    (count,) = struct.unpack_from(">I", body, 4)
    return [struct.unpack_from(f">{columns}I", body, 8 + 4 * columns * n) for n in range(count)]


def _rows(name: str, rows: Sequence[tuple[int, ...]]) -> bytes:
    packed = b"".join(struct.pack(f">{len(row)}I", *row) for row in rows)
    return _box(name, struct.pack(">II", 0, len(rows)) + packed)


def _length(parents: Sequence[bytes], name: str) -> int:
    at = DURATIONS[name]
    return sum(struct.unpack_from(">I", find(each, name), at)[0] for each in parents)


def _patched(name: str, body: bytes, length: int) -> bytes:
    at = DURATIONS[name]
    return _box(name, body[:at] + struct.pack(">I", length) + body[at + 4 :])


def _all(data: bytes, wanted: str) -> list[bytes]:
    return [body for name, body in boxes(data) if name == wanted]


def _box(name: str, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body) + 8, name.encode()) + body
