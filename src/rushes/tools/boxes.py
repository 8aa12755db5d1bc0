"""Just enough of the MP4 format to cut a fragmented stream into segments. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from typing import BinaryIO, NamedTuple

from rushes import errors

# Larger than any fragment we make; what is beyond is damage.
LARGEST_BOX = 512 * 1024 * 1024
MOST_SAMPLES = 1_000_000
# Beside each other in a file; nobody looks further for its header.
MOST_BOXES = 1_000
CONTAINERS = (b"moov", b"trak", b"edts", b"mdia", b"minf", b"stbl", b"moof", b"traf", b"mvex")
# Of a sample: whether another has to be decoded before it.
NOT_SYNC = 0x10000
# moof, mfhd, traf, tfhd, tfdt and trun, without its rows.
RETIMED_HEAD = 8 + 16 + 8 + 16 + 20 + 20
IDR, SPS = 5, 7


class Sample(NamedTuple):
    """`ticks` until the next is decoded; shown `shift` after it is decoded itself."""

    ticks: int
    size: int
    flags: int
    shift: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """moof and mdat of one track; times in ticks of the track's timescale. `start` is when its
    first sample is decoded; `edit` is what the header's edit list takes off when it is shown."""

    moof: bytes
    mdat: bytes
    start: int
    samples: Sequence[Sample]
    edit: int = 0

    @property
    def data(self) -> bytes:
        return self.moof + self.mdat

    @property
    def frames(self) -> int:
        return len(self.samples)

    @property
    def ticks(self) -> int:
        return sum(sample.ticks for sample in self.samples)

    @property
    def shown(self) -> list[int]:
        """When each sample is shown, in the order in which they are decoded."""
        decoded = accumulate((sample.ticks for sample in self.samples), initial=self.start)
        return [
            at + sample.shift - self.edit for at, sample in zip(decoded, self.samples, strict=False)
        ]

    @property
    def payload(self) -> memoryview:
        """No copy: a few seconds of a camera's picture are tens of megabytes."""
        return memoryview(self.mdat)[16 if self.mdat[:4] == b"\0\0\0\x01" else 8 :]

    @property
    def begins_by_itself(self) -> bool:
        """Its first sample needs no other, and nothing is shown before it."""
        shown = self.shown
        return not self.samples[0].flags & NOT_SYNC and min(shown) == shown[0]


@dataclass(frozen=True, slots=True)
class Init:
    """`edit`: what the edit list takes off the times at which samples are shown."""

    data: bytes
    timescale: int
    codecs: str
    edit: int = 0


class Cutter:
    """Bytes of a fragmented MP4 with one track go in, its parts come out as they are whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head = b""
        self._moof = b""
        self.init: Init | None = None

    def feed(self, chunk: bytes) -> Iterator[Fragment]:
        self._buffer += chunk
        while (box := self._next()) is not None:
            kind = box[4:8]
            if kind in (b"ftyp", b"moov"):
                self._head += box
                if kind == b"moov":
                    self.init = read_init(self._head)
            elif kind == b"moof":
                self._moof = box
            elif kind == b"mdat":
                yield read_fragment(self._moof, box, self.init.edit if self.init else 0)

    def _next(self) -> bytes | None:
        if len(self._buffer) < 8:
            return None
        size = int.from_bytes(self._buffer[:4], "big")
        if size == 1 and len(self._buffer) >= 16:
            size = int.from_bytes(self._buffer[8:16], "big")
        elif size == 1:
            return None
        if not 8 <= size <= LARGEST_BOX:
            raise _nonsense()
        if len(self._buffer) < size:
            return None
        with memoryview(self._buffer) as whole:
            box = bytes(whole[:size])
        del self._buffer[:size]
        return box


def _nonsense() -> errors.TransientFailure:
    return errors.TransientFailure("the encoder wrote nonsense", code="bad_output")


def read_fragment(moof: bytes, mdat: bytes, edit: int = 0) -> Fragment:
    start = 0
    samples: list[Sample] = []
    default = Sample(0, 0, 0, 0)
    for path, body in _walk(moof):
        if path == b"tfhd":
            default = _defaults(body)
        elif path == b"tfdt":
            # Unlike the standard's, ffmpeg's wide times may be below zero.
            wide = body[:1] > b"\0"
            start = int.from_bytes(body[4 : 12 if wide else 8], "big", signed=wide)
        elif path == b"trun":
            samples += _run(body, default)
    return Fragment(moof, mdat, start, samples, edit)


def read_init(data: bytes) -> Init:
    timescale = whole = 1
    codecs, edits = "", b""
    for path, body in _walk(data):
        if path == b"mvhd":
            whole = _timescale(body)
        elif path == b"mdhd":
            timescale = _timescale(body)
        elif path == b"elst":
            edits = body
        elif path == b"stsd":
            codecs = _codecs(body[8:])
    return Init(data, timescale, codecs, _edit(edits, Fraction(timescale, whole or 1)))


def _timescale(body: bytes) -> int:
    at = 20 if body[:1] > b"\0" else 12
    return int.from_bytes(body[at : at + 4], "big")


def _edit(elst: bytes, scale: Fraction) -> int:
    """Where the first entry that shows something begins, less the pauses before it."""
    wide = elst[:1] > b"\0"
    entry = struct.Struct(">Qqi" if wide else ">Iii")
    waited = 0
    for at in range(8, len(elst) - entry.size + 1, entry.size):
        length, begin, _ = entry.unpack_from(elst, at)
        if begin >= 0:
            return int(begin) - round(waited * scale)
        waited += length
    return -round(waited * scale)


def without_edits(data: bytes) -> bytes:
    """A header whose edit list is gone: for fragments that are `retimed`."""
    made = b""
    for kind, box in _boxes(data):
        if kind in CONTAINERS:
            made += _box(kind, without_edits(box[8:])) if kind != b"edts" else b""
        else:
            made += box
    return made


# Times


def retimed(fragment: Fragment, end: int) -> list[bytes | memoryview]:
    """The same samples, decoded from the moment on that the first is shown, and each before it is
    shown: so no edit list has to tell a delay, which depends on an encoder's first frames, and
    which players read differently. `end` is when the next fragment begins. In pieces, to be joined
    once."""
    if sum(sample.size for sample in fragment.samples) != len(fragment.payload):
        raise _nonsense()
    decoded = decode_times(fragment.shown)
    lengths = [later - at for at, later in pairwise([*decoded, max(end, decoded[-1] + 1)])]
    rows = b"".join(
        struct.pack(">IIII", length, sample.size, sample.flags, max(0, shown - at))
        for sample, length, shown, at in zip(
            fragment.samples, lengths, fragment.shown, decoded, strict=True
        )
    )
    number, track = _numbers(fragment.moof)
    offset = len(rows) + RETIMED_HEAD + 8
    run = struct.pack(">IIi", 0xF01, fragment.frames, offset) + rows
    parts = _box(b"tfhd", struct.pack(">II", 0x020000, track))
    parts += _box(b"tfdt", struct.pack(">Iq", 1 << 24, decoded[0])) + _box(b"trun", run)
    moof = _box(b"moof", _box(b"mfhd", struct.pack(">II", 0, number)) + _box(b"traf", parts))
    return [moof, struct.pack(">I4s", len(fragment.payload) + 8, b"mdat"), fragment.payload]


def decode_times(shown: Sequence[int]) -> list[int]:
    """In the order of decoding: always growing, and none after it is shown. Those that wait for
    others share the time before the first of them is shown."""
    due = list(accumulate(reversed(shown), min))[::-1]
    decoded: list[int] = []
    for at, group in groupby(due):
        count = len(list(group))
        before = decoded[-1] if decoded else at - count
        for n in range(1, count + 1):
            step = before + (at - before) * n // count
            decoded.append(max(step, decoded[-1] + 1) if decoded else step)
    return decoded


def _numbers(moof: bytes) -> tuple[int, int]:
    """Its number, and that of its track."""
    numbers = {kind: int.from_bytes(body[4:8], "big") for kind, body in _walk(moof)}
    return numbers.get(b"mfhd", 1), numbers.get(b"tfhd", 1)


# H.264


def units(sample: bytes, prefix: int = 4) -> Iterator[bytes]:
    """The NAL units of a sample, as MP4 keeps them: each after its length."""
    at = 0
    while at + prefix < len(sample):
        size = int.from_bytes(sample[at : at + prefix], "big")
        at += prefix
        yield sample[at : at + size]
        at += size


def kind_of(unit: bytes) -> int:
    return unit[0] & 0x1F if unit else 0


def first_units(fragment: Fragment, init: bytes) -> list[bytes]:
    config = _inside(init, b"avcC")
    first = bytes(fragment.payload[: fragment.samples[0].size])
    return list(units(first, (config[4] & 3) + 1 if len(config) > 4 else 4))


def parameters(init: bytes) -> list[bytes]:
    """The sequence parameter sets that a header tells."""
    config = _inside(init, b"avcC")
    found, at = [], 6
    for _ in range(config[5] & 0x1F if len(config) > 5 else 0):
        size = int.from_bytes(config[at : at + 2], "big")
        found.append(config[at + 2 : at + 2 + size])
        at += 2 + size
    return found


# Whole files


def most_descriptions(file: BinaryIO, begin: int = 0, end: int | None = None) -> int:
    """How many sample descriptions a track of an MP4 or MOV has, at most. Where there are several,
    samples are coded in different ways, and the first description does not tell how."""
    most, at = 0, begin
    end = file.seek(0, 2) if end is None else end
    for _ in range(MOST_BOXES):
        file.seek(at)
        head = file.read(16)
        if len(head) < 16 or at + 16 > end:
            break
        size, kind = struct.unpack_from(">I4s", head)
        inside = at + (16 if size == 1 else 8)
        size = int.from_bytes(head[8:], "big") if size == 1 else size or end - at
        if size < inside - at:
            break
        if kind == b"stsd":
            most = max(most, int.from_bytes(head[12:], "big"))
        elif kind in CONTAINERS:
            most = max(most, most_descriptions(file, inside, min(end, at + size)))
        if kind == b"moov":
            break
        at += size
    return most


# Reading


def _walk(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every box that is no container, in order."""
    for kind, box in _boxes(data):
        if kind in CONTAINERS:
            yield from _walk(box[8:])
        else:
            yield kind, box[8:]


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if size < 8:
            return
        yield kind, data[at : at + size]
        at += size


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body) + 8, kind) + body


def _defaults(tfhd: bytes) -> Sample:
    has, at = int.from_bytes(tfhd[1:4], "big"), 8
    at += 8 if has & 0x1 else 0
    at += 4 if has & 0x2 else 0
    found = []
    for flag in (0x8, 0x10, 0x20):
        found.append(int.from_bytes(tfhd[at : at + 4], "big") if has & flag else 0)
        at += 4 if has & flag else 0
    return Sample(found[0], found[1], found[2], 0)


def _run(trun: bytes, default: Sample) -> Iterator[Sample]:
    has, count = int.from_bytes(trun[1:4], "big"), int.from_bytes(trun[4:8], "big")
    at = 8 + (4 if has & 0x1 else 0)
    first = int.from_bytes(trun[at : at + 4], "big") if has & 0x4 else None
    at += 4 if has & 0x4 else 0
    told = [has & flag for flag in (0x100, 0x200, 0x400, 0x800)]
    row = struct.Struct(">" + "".join("i" if n == 3 else "I" for n in range(4) if told[n]))
    if not row.size:
        count = min(count, MOST_SAMPLES)
    elif len(trun) < at + count * row.size:
        raise _nonsense()
    for number in range(count):
        values = iter(row.unpack_from(trun, at + number * row.size))
        ticks, size, flags, shift = (
            next(values) if each else usual for each, usual in zip(told, default, strict=True)
        )
        yield Sample(ticks, size, first if first is not None and number == 0 else flags, shift)


# Codecs, as RFC 6381 names them


def _codecs(entry: bytes) -> str:
    kind = entry[4:8]
    if kind in (b"avc1", b"avc3") and (body := _inside(entry, b"avcC")):
        return f"avc1.{body[1:4].hex()}"
    if kind in (b"hvc1", b"hev1") and (body := _inside(entry, b"hvcC")):
        return _hevc(kind.decode(), body)
    if kind == b"av01" and (body := _inside(entry, b"av1C")):
        return _av1(body)
    if kind == b"mp4a":
        return f"mp4a.40.{_audio_object_type(_inside(entry, b'esds'))}"
    return kind.decode("latin1").strip()


def _inside(entry: bytes, name: bytes) -> bytes:
    at = entry.find(name)
    return entry[at + 4 :] if at >= 0 else b""


def _hevc(kind: str, config: bytes) -> str:
    space = ("", "A", "B", "C")[config[1] >> 6]
    compatibility = int(f"{int.from_bytes(config[2:6], 'big'):032b}"[::-1], 2)
    tier = "H" if config[1] & 0x20 else "L"
    constraints = ".".join(f"{byte:X}" for byte in config[6:12].rstrip(b"\0"))
    profile = f"{space}{config[1] & 0x1F}.{compatibility:X}.{tier}{config[12]}"
    return f"{kind}.{profile}" + (f".{constraints}" if constraints else "")


def _av1(config: bytes) -> str:
    profile, level = config[1] >> 5, config[1] & 0x1F
    tier = "H" if config[2] & 0x80 else "M"
    depth = 8 if not config[2] & 0x40 else (12 if config[2] & 0x20 else 10)
    return f"av01.{profile}.{level:02d}{tier}.{depth:02d}"


def _audio_object_type(esds: bytes) -> int:
    """The first five bits of the decoder's own configuration, which tag 5 holds."""
    at = esds.find(b"\x05\x80\x80\x80")
    body = esds[at + 5 :] if at >= 0 else b""
    return body[0] >> 3 if body else 2
