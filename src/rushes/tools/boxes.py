"""Just enough of the MP4 format to cut a fragmented stream into segments. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from rushes import errors

# Larger than any fragment we make; what is beyond is damage.
LARGEST_BOX = 512 * 1024 * 1024
CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf", b"mvex")


@dataclass(frozen=True, slots=True)
class Fragment:
    """moof and mdat of one track; times in ticks of the track's timescale."""

    data: bytes
    start: int
    ticks: int
    frames: int


@dataclass(frozen=True, slots=True)
class Init:
    data: bytes
    timescale: int
    codecs: str


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
                yield read_fragment(self._moof, box)

    def _next(self) -> bytes | None:
        if len(self._buffer) < 8:
            return None
        size = int.from_bytes(self._buffer[:4], "big")
        if size == 1 and len(self._buffer) >= 16:
            size = int.from_bytes(self._buffer[8:16], "big")
        elif size == 1:
            return None
        if not 8 <= size <= LARGEST_BOX:
            raise errors.TransientFailure("the encoder wrote nonsense", code="bad_output")
        if len(self._buffer) < size:
            return None
        box = bytes(self._buffer[:size])
        del self._buffer[:size]
        return box


def read_fragment(moof: bytes, mdat: bytes) -> Fragment:
    start = ticks = frames = default = 0
    for path, body in _walk(moof):
        if path == b"tfhd":
            default = _default_duration(body)
        elif path == b"tfdt":
            start = int.from_bytes(body[4:12] if body[0] else body[4:8], "big")
        elif path == b"trun":
            count, length = _run(body, default)
            frames += count
            ticks += length
    return Fragment(moof + mdat, start, ticks, frames)


def read_init(data: bytes) -> Init:
    timescale, codecs = 1, ""
    for path, body in _walk(data):
        if path == b"mdhd":
            at = 20 if body[0] else 12
            timescale = int.from_bytes(body[at : at + 4], "big")
        elif path == b"stsd":
            codecs = _codecs(body[8:])
    return Init(data, timescale, codecs)


def _walk(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every box that is no container, in order."""
    at = 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if size < 8:
            return
        body = data[at + 8 : at + size]
        if kind in CONTAINERS:
            yield from _walk(body)
        else:
            yield kind, body
        at += size


def _default_duration(tfhd: bytes) -> int:
    flags, at = int.from_bytes(tfhd[1:4], "big"), 8
    at += 8 if flags & 0x1 else 0
    at += 4 if flags & 0x2 else 0
    return int.from_bytes(tfhd[at : at + 4], "big") if flags & 0x8 else 0


def _run(trun: bytes, default: int) -> tuple[int, int]:
    flags = int.from_bytes(trun[1:4], "big")
    count = int.from_bytes(trun[4:8], "big")
    if not flags & 0x100:
        return count, count * default
    at = 8 + (4 if flags & 0x1 else 0) + (4 if flags & 0x4 else 0)
    step = 4 * sum(1 for flag in (0x100, 0x200, 0x400, 0x800) if flags & flag)
    length = sum(int.from_bytes(trun[at + n * step :][:4], "big") for n in range(count))
    return count, length


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
