"""What a file is, by its first bytes; a name or a claimed type is never asked. Pure.

Only a hint for people and a door for what is surely not media: probing decides, later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rushes import errors

# Enough for the headers in which containers say what is in them.
HEAD_BYTES = 64 * 1024
VIDEO, AUDIO = "video", "audio"


@dataclass(frozen=True, slots=True)
class Found:
    """`kind` is None when the first bytes do not tell."""

    kind: str | None
    content_type: str


UNKNOWN = Found(None, "application/octet-stream")
NOT_MEDIA = "this is {}, not a video or audio file"


def identify(head: bytes) -> Found:
    """Raises UnsupportedMedia for what is surely not media."""
    head = head[:HEAD_BYTES]
    if not head:
        raise errors.UnsupportedMedia("the file is empty")
    for rule in RULES:
        if found := rule(head):
            return found
    if other := _other(head):
        raise errors.UnsupportedMedia(NOT_MEDIA.format(other))
    return UNKNOWN


# Media


def _plain(head: bytes) -> Found | None:
    for magic, found in MAGIC:
        if head.startswith(magic):
            return found
    return None


MAGIC: tuple[tuple[bytes, Found], ...] = (
    (b"fLaC", Found(AUDIO, "audio/flac")),
    (b"#!AMR\n", Found(AUDIO, "audio/amr")),
    (b"#!AMR-WB\n", Found(AUDIO, "audio/amr-wb")),
    (b"caff\x00\x01", Found(AUDIO, "audio/x-caf")),
    (b"MAC ", Found(AUDIO, "audio/x-ape")),
    (b"wvpk", Found(AUDIO, "audio/x-wavpack")),
    (b"TTA1", Found(AUDIO, "audio/x-tta")),
    (b".snd\x00\x00", Found(AUDIO, "audio/basic")),
    (b"DSD \x1c\x00", Found(AUDIO, "audio/x-dsf")),
    (b"Creative Voice File\x1a", Found(AUDIO, "audio/x-voc")),
    (b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00", Found(AUDIO, "audio/x-w64")),
    (b"\x0b\x77", Found(AUDIO, "audio/ac3")),
    (b"\x7f\xfe\x80\x01", Found(AUDIO, "audio/vnd.dts")),
    (b"FLV\x01", Found(VIDEO, "video/x-flv")),
    (b".RMF\x00\x00", Found(VIDEO, "application/vnd.rn-realmedia")),
    (b"\x00\x00\x01\xba", Found(VIDEO, "video/mpeg")),
    (b"\x00\x00\x01\xb3", Found(VIDEO, "video/mpeg")),
    (b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01\x02", Found(VIDEO, "application/mxf")),
    (b"\x1f\x07\x00\x3f", Found(VIDEO, "video/x-dv")),
    (b"DKIF\x00\x00", Found(VIDEO, "video/x-ivf")),
    (b"YUV4MPEG2 ", Found(VIDEO, "video/x-yuv4mpeg")),
)


def _iso(head: bytes) -> Found | None:
    """MP4 and its relatives; QuickTime files may begin with any of its boxes."""
    box, brand = head[4:8], head[8:12]
    if box in (b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot") and head[0] == 0:
        return Found(_handlers(head) or VIDEO, "video/quicktime")
    if box != b"ftyp":
        return None
    if brand in IMAGE_BRANDS:
        raise errors.UnsupportedMedia(NOT_MEDIA.format("an image"))
    if brand in (b"M4A ", b"M4B ", b"M4P "):
        return Found(AUDIO, "audio/mp4")
    kind = _handlers(head) or VIDEO
    if brand == b"qt  ":
        return Found(kind, "video/quicktime")
    if brand[:3] in (b"3gp", b"3g2"):
        return Found(kind, f"{kind}/3gpp")
    return Found(kind, f"{kind}/mp4")


IMAGE_BRANDS = frozenset(
    [b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1", b"crx "]
)


def _handlers(head: bytes) -> str | None:
    """Which tracks there are, if the index comes first."""
    tracks = set(re.findall(rb"hdlr.{8}(vide|soun)", head, re.DOTALL))
    if b"vide" in tracks:
        return VIDEO
    # Without the end of the index a picture may still follow the sound.
    return AUDIO if b"soun" in tracks and b"mdat" in head else None


def _matroska(head: bytes) -> Found | None:
    if not head.startswith(b"\x1a\x45\xdf\xa3"):
        return None
    kind = VIDEO
    if not re.search(rb"\x86[\x80-\xff]V_", head) and re.search(rb"\x86[\x80-\xff]A_", head):
        kind = AUDIO
    return Found(kind, f"{kind}/webm" if b"webm" in head[:64] else f"{kind}/x-matroska")


def _riff(head: bytes) -> Found | None:
    if head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:12] == b"WAVE":
        return Found(AUDIO, "audio/wav")
    if head[:4] == b"RIFF" and head[8:12] in (b"AVI ", b"AVIX", b"AMV "):
        return Found(VIDEO, "video/x-msvideo")
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return Found(AUDIO, "audio/aiff")
    return None


def _ogg(head: bytes) -> Found | None:
    if not head.startswith(b"OggS\x00"):
        return None
    if b"\x80theora" in head or b"OVP80" in head or b"BBCD\x00" in head:
        return Found(VIDEO, "video/ogg")
    return Found(AUDIO, "audio/ogg")


def _asf(head: bytes) -> Found | None:
    if not head.startswith(bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")):
        return None
    if ASF_SOUND in head and ASF_PICTURE not in head:
        return Found(AUDIO, "audio/x-ms-wma")
    return Found(VIDEO, "video/x-ms-asf")


ASF_SOUND = bytes.fromhex("409e69f84d5bcf11a8fd00805f5c442b")
ASF_PICTURE = bytes.fromhex("c0ef19bc4d5bcf11a8fd00805f5c442b")


def _transport_stream(head: bytes) -> Found | None:
    """Packets of 188 bytes, or with a time stamp before or a check after each."""
    for first, step in ((0, 188), (4, 192), (0, 204)):
        starts = head[first : first + 5 * step : step]
        if len(head) > first + step and set(starts) == {0x47}:
            return Found(VIDEO, "video/mp2t")
    return None


def _frames(head: bytes) -> Found | None:
    """MP3 and AAC without a container, perhaps behind a tag, which may be larger than the head."""
    at = 0
    if head.startswith(b"ID3") and len(head) > 10:
        at = 10 + sum(
            (byte & 0x7F) << shift for byte, shift in zip(head[6:10], SHIFTS, strict=True)
        )
        if at + 4 > len(head):
            return Found(AUDIO, "audio/mpeg")
    frame = head[at : at + 7]
    if len(frame) < 4 or frame[0] != 0xFF:
        return Found(AUDIO, "audio/mpeg") if at else None
    if frame[1] & 0xF6 == 0xF0:
        return Found(AUDIO, "audio/aac")
    if length := _mpeg_frame_bytes(frame):
        following = head[at + length : at + length + 2]
        if len(following) < 2 or (following[0] == 0xFF and following[1] & 0xE0 == 0xE0):
            return Found(AUDIO, "audio/mpeg")
    return None


SHIFTS = (21, 14, 7, 0)
# Layer III of MPEG 1 and 2, kbit/s; the others are rare and left to probing.
BITRATES = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),
}
RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def _mpeg_frame_bytes(frame: bytes) -> int:
    """0 when this is no frame."""
    version, layer = frame[1] >> 3 & 3, frame[1] >> 1 & 3
    rate = frame[2] >> 2 & 3
    if frame[1] & 0xE0 != 0xE0 or layer != 1 or version not in RATES or rate == 3:
        return 0
    bits = BITRATES[3 if version == 3 else 2][frame[2] >> 4] * 1000
    samples = 144 if version == 3 else 72
    return samples * bits // RATES[version][rate] + (frame[2] >> 1 & 1) if bits else 0


RULES: tuple[Callable[[bytes], Found | None], ...] = (
    _plain,
    _iso,
    _matroska,
    _riff,
    _ogg,
    _asf,
    _transport_stream,
    _frames,
)


# Not media


def _other(head: bytes) -> str | None:
    """What it surely is instead, with its article."""
    for magic, name in OTHERS:
        if re.match(magic, head, re.DOTALL):
            return name
    return _text(head)


OTHERS: tuple[tuple[bytes, str], ...] = (
    (
        rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|II\*\0|MM\0\*|8BPS|\0\0\x01\0.\0",
        "an image",
    ),
    (rb"BM....\0\0\0\0|\0\0\0\x0cJXL |\0\0\0\x0cjP  ", "an image"),
    (rb"PK\x03\x04|PK\x05\x06|Rar!\x1a\x07|7z\xbc\xaf\x27\x1c|\x1f\x8b\x08|BZh[1-9]", "an archive"),
    (rb"\xfd7zXZ\0|\x28\xb5\x2f\xfd|.{257}ustar", "an archive"),
    (rb"%PDF-|%!PS|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1|\{\\rtf", "a document"),
    (rb"\x7fELF|MZ.{58}|\xca\xfe\xba\xbe|[\xcf\xce]\xfa\xed\xfe|\0asm", "a program"),
    (rb"SQLite format 3\0", "a database"),
    (rb"MThd\0\0\0\x06", "a MIDI score"),
)
# What a demuxer would take for a list of other files, whatever comes after it.
LISTS = (b"#EXTM3U", b"ffconcat", b"[playlist]", b"[Reference]", b"RTSPtext", b"v=0\r\n", b"v=0\n")
MARKUP = re.compile(rb"<(!doctype|html|head|body|script|svg|\?xml|mpd|smil|asx|!--|%|\?php)")
BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
NOT_IN_TEXT = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def _text(head: bytes) -> str | None:
    start = head.removeprefix(BOMS[0]).lstrip(b" \t\r\n\f\0")
    if start.startswith(LISTS):
        return "a playlist"
    if MARKUP.match(start[:64].lower()):
        return "a page or markup"
    if start.startswith(b"#!"):
        return "a script"
    return "text" if _is_text(head) else None


def _is_text(head: bytes) -> bool:
    if head.startswith(BOMS[1:]):
        return _decodes(head[: len(head) // 2 * 2], "utf-16")
    if NOT_IN_TEXT.search(head):
        return False
    # The last character may be cut in two.
    return any(_decodes(head[: len(head) - cut], "utf-8") for cut in range(4))


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return "\0" not in text
