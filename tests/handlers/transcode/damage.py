"""Files that are damaged, each by its number: the same number, the same damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from handlers.transcode.clips import Clips

SOURCES = (
    "plain.mp4",
    "phone-90.mp4",
    "stream.ts",
    "described.mkv",
    "languages.mkv",
    "camera.avi",
    "divx.avi",
    "modern.webm",
    "old.flv",
    "interlaced.mpg",
    "editing.mov",
    "music.mp3",
    "music.flac",
    "music.wav",
    "music.m4a",
    "music.ogg",
)

Damage = Callable[[bytearray, random.Random], bytes]


def cut_short(data: bytearray, dice: random.Random) -> bytes:
    return bytes(data[: int(len(data) * dice.random() ** 2) + 1])


def cut_by_a_little(data: bytearray, dice: random.Random) -> bytes:
    return bytes(data[: -dice.randint(1, 2000)])


def beginning_lost(data: bytearray, dice: random.Random) -> bytes:
    return bytes(data[dice.randint(1, 4000) :])


def flipped_head(data: bytearray, dice: random.Random) -> bytes:
    return _flipped(data, dice, 0, 4000, dice.randint(1, 40))


def flipped_anywhere(data: bytearray, dice: random.Random) -> bytes:
    return _flipped(data, dice, 200, len(data), dice.randint(1, 400))


def flipped_tail(data: bytearray, dice: random.Random) -> bytes:
    return _flipped(data, dice, max(0, len(data) - 6000), len(data), dice.randint(1, 60))


def _flipped(data: bytearray, dice: random.Random, begin: int, end: int, count: int) -> bytes:
    for _ in range(count):
        at = dice.randrange(begin, max(begin + 1, min(end, len(data))))
        data[at % len(data)] ^= 1 << dice.randrange(8)
    return bytes(data)


def zeroed(data: bytearray, dice: random.Random) -> bytes:
    at, size = dice.randrange(len(data)), dice.randint(100, len(data) // 2)
    data[at : at + size] = bytes(len(data[at : at + size]))
    return bytes(data)


def noise(data: bytearray, dice: random.Random) -> bytes:
    at, size = dice.randrange(len(data)), dice.randint(100, 20_000)
    data[at : at + size] = dice.randbytes(len(data[at : at + size]))
    return bytes(data)


def blocks_swapped(data: bytearray, dice: random.Random) -> bytes:
    size = dice.choice([188, 512, 4096, 16_384])
    one, other = (dice.randrange(max(1, len(data) - size)) for _ in range(2))
    data[one : one + size], data[other : other + size] = (
        data[other : other + size],
        data[one : one + size],
    )
    return bytes(data)


def hole(data: bytearray, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    del data[at : at + dice.randint(1, 30_000)]
    return bytes(data)


def twice(data: bytearray, dice: random.Random) -> bytes:
    return bytes(data[: dice.randrange(len(data))] + data)


def index_lost(data: bytearray, dice: random.Random) -> bytes:
    for name in (b"moov", b"stts", b"Cues", b"idx1", b"trak"):
        data = data.replace(name, b"free")
    return bytes(data)


def tables_wrong(data: bytearray, dice: random.Random) -> bytes:
    """The tables that say where frames are, how long, and how large."""
    for name in (b"stts", b"stsz", b"stco", b"ctts", b"stsc", b"mdhd", b"elst"):
        at = data.find(name)
        while at >= 0 and dice.random() < 0.5:
            place = at + dice.randint(4, 40)
            data[place : place + 4] = dice.randbytes(4)
            at = data.find(name, at + 4)
    return bytes(data)


DAMAGES: tuple[Damage, ...] = (
    cut_short, cut_by_a_little, beginning_lost, flipped_head, flipped_anywhere, flipped_tail,
    zeroed, noise, blocks_swapped, hole, twice, index_lost, tables_wrong,
)  # fmt: skip


def damaged(number: int, clips: Clips, folder: Path) -> Path:
    dice = random.Random(number)
    source = clips[dice.choice(SOURCES)]
    damage = DAMAGES[number % len(DAMAGES)]
    data = damage(bytearray(source.read_bytes()), dice)
    # Now and then the name is wrong, too.
    name = source.name if dice.random() < 0.8 else "renamed.mp4"
    path = folder / f"{number}-{damage.__name__}-{name}"
    path.write_bytes(data)
    return path
