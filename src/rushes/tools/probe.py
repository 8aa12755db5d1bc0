"""What is in a source: streams, times, shape. Reading ffprobe's output is pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from rushes import errors
from rushes.records import JsonObject
from rushes.tools import languages, process, programs, timeline
from rushes.tools.ffmpeg import guarded
from rushes.tools.timeline import Packets

LONGEST_SECONDS = 48 * 3600
LARGEST_SIDE = 16_384
MOST_SOUNDS = 16
EARLIEST_CLOCK = 1971
TOO_LONG = "the file claims to be longer than two days"
HDR_TRANSFERS = ("smpte2084", "arib-std-b67")
INTERLACED = ("tt", "bb", "tb", "bt")
PICTURES = ("mjpeg", "png", "gif", "webp", "bmp", "tiff")
PROTECTED = ("encv", "enca", "drmi", "drms", "p608")
# A file's tags may be hundreds of megabytes: only what is used is asked for, and only so much of it
# is taken in.
LIMITS = process.Limits(
    wall_seconds=300, cpu_seconds=120, stall_seconds=120, output_bytes=8 * 2**20
)
FIELDS = {
    "format": "format_name,duration,bit_rate",
    "stream": "index,codec_type,codec_name,codec_tag_string,profile,level,width,height,pix_fmt,"
    "sample_aspect_ratio,field_order,color_transfer,avg_frame_rate,r_frame_rate,time_base,"
    "start_pts,start_time,duration,nb_frames,bit_rate,sample_rate,channels,extradata_size",
    "stream_disposition": "attached_pic,default,forced",
    "stream_side_data": "rotation",
    "chapter": "start_time,end_time",
}
# Some containers write the names of tags in capitals.
TAGS = {
    "format_tags": "creation_time,CREATION_TIME,com.apple.quicktime.creationdate",
    "stream_tags": "language,LANGUAGE,title,TITLE,rotate,DURATION",
    "chapter_tags": "title,TITLE",
}
MOST_STREAMS, MOST_CHAPTERS = 1_000, 1_000
PACKETS = {"packet": "stream_index,pts,dts,flags,pts_time,duration_time"}
# So many are read with the streams: the start of another program takes longer. Of a small file that
# is all of them, mostly; of a large one no more than is quickly read.
FIRST_PACKETS, MOST_PACKETS, SMALL_BYTES = 256, 4_000, 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoStream:
    index: int
    codec: str
    profile: str
    width: int
    height: int
    pixel_format: str
    time_base: Fraction
    start_pts: int
    frame_rate: float
    variable: bool
    rotation: int
    sample_aspect: Fraction
    interlaced: bool
    hdr: bool
    level: int = 0
    bit_rate: int = 0
    # As the file claims.
    duration: float | None = None

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height as people see it: square pixels, upright."""
        width = max(1, round(self.width * self.sample_aspect))
        return (self.height, width) if self.rotation in (90, 270) else (width, self.height)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioStream:
    index: int
    codec: str
    profile: str
    channels: int
    sample_rate: int
    start_seconds: float | None
    language: str | None
    title: str
    default: bool = False
    # Told once for all, as MP4 needs it; in MPEG-TS every packet has its own.
    has_header: bool = True
    # As the file claims.
    duration: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtitle:
    index: int
    codec: str
    language: str | None
    title: str
    default: bool = False
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    start: float
    end: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    container: str
    duration: float | None
    video: VideoStream | None
    audios: Sequence[AudioStream] = ()
    subtitles: Sequence[Subtitle] = ()
    chapters: Sequence[Chapter] = ()
    cover: int | None = None
    bit_rate: int = 0
    # When it was recorded, as the file claims; RFC 3339.
    recorded_at: str | None = None
    # Those that were read with it, of each stream, and whether there are no others.
    packets: Mapping[int, Packets] = field(default_factory=dict)
    is_whole: bool = False
    # Of the sound's packets that were read: when the last of them ends.
    sound_end: float | None = None

    @property
    def kind(self) -> str:
        return "video" if self.video else "audio"

    @property
    def default_audio(self) -> AudioStream | None:
        """What players begin with: the sound that the file calls its default, else the first."""
        first = self.audios[0] if self.audios else None
        return next((each for each in self.audios if each.default), first)

    @property
    def claimed_seconds(self) -> float | None:
        """How long picture or sound is, whichever is longer; subtitles may go on beyond both."""
        told = [each.duration for each in self.audios]
        told += [self.video.duration] if self.video else []
        known = [each for each in told if each is not None]
        return max(known) if known and len(known) == len(told) else self.duration

    @property
    def outlasted(self) -> bool:
        """Whether the picture ends long before the sound, as far as the file tells."""
        if self.video is None or self.video.duration is None:
            return False
        return any((each.duration or 0.0) > self.video.duration + 1 for each in self.audios)


def probe(path: Path, watch: process.Watch = lambda: None, *, with_packets: bool = False) -> Probe:
    """PermanentFailure with a sentence for people when there is nothing to be made of it."""
    size = path.stat().st_size
    if size == 0:
        raise refused("the file is empty", "empty_file")
    most = (MOST_PACKETS if size <= SMALL_BYTES else FIRST_PACKETS) if with_packets else 0
    try:
        return read(json.loads(_said(path, watch, most)), most)
    except process.ToolFailed as error:
        if error.code in ("tool_timeout", "tool_stalled"):
            raise refused("the file cannot be read: it makes no sense", "damaged") from error
        if not error.gave_up:
            # Killed, or not even started: that says nothing about the file.
            error.message = f"looking into the file {error.message}"
            raise
        raise _explained(error.lines, path) from error
    except json.JSONDecodeError as error:
        raise refused("the file is damaged: its streams cannot be read", "damaged") from error


def _said(path: Path, watch: process.Watch, packets: int) -> bytes:
    def ask(fields: Mapping[str, str], *more: str) -> bytes:
        entries = ":".join(f"{section}={names}" for section, names in fields.items())
        argv = [programs.ffprobe(), "-v", "error", "-of", "json=compact=1", *more]
        argv += ["-show_entries", entries, *guarded(path)]
        return process.run(argv, limits=LIMITS, watch=watch)

    try:
        if packets:
            return ask(FIELDS | TAGS | PACKETS, "-read_intervals", f"%+#{packets}")
        return ask(FIELDS | TAGS)
    except process.ToolFailed as error:
        if error.code != "tool_limit":
            raise
    # Its tags are a flood; it plays without them.
    try:
        return ask(FIELDS)
    except process.ToolFailed as error:
        if error.code != "tool_limit":
            raise
        raise refused("the file has too many streams or chapters", "unsupported") from error


def refused(message: str, code: str) -> errors.PermanentFailure:
    return errors.PermanentFailure(message, code=code)


def _explained(lines: Sequence[str], path: Path) -> errors.PermanentFailure:
    said = " ".join(lines).lower()
    if "moov atom not found" in said and _is_mp4(path):
        return refused(
            "the recording is incomplete: its index is missing, as after an interrupted recording"
            " or copy",
            "damaged",
        )
    if "format not on whitelist" in said or "not on whitelist" in said:
        return refused("this is no kind of video or audio file that is taken", "unsupported")
    return refused("the file is damaged, or no video or audio at all", "damaged")


def _is_mp4(path: Path) -> bool:
    """By its first box: ffprobe believes the name of a file, which may be anything."""
    with path.open("rb") as file:
        return file.read(8)[4:] in (b"ftyp", b"mdat", b"wide", b"free", b"skip", b"pnot", b"moof")


# Reading


def read(said: JsonObject, asked_packets: int = 0) -> Probe:
    """`asked_packets`: so many were to be read, if there are."""
    streams = [each for each in said.get("streams", []) if isinstance(each, dict)][:MOST_STREAMS]
    chapters = said.get("chapters", [])[:MOST_CHAPTERS]
    _refuse_protected(streams)
    pictures = [each for each in streams if each.get("codec_type") == "video"]
    moving = [each for each in pictures if not _flag(each, "attached_pic")]
    about = said.get("format", {})
    video = next((each for each in map(_video, moving) if each is not None), None)
    audios = [each for each in map(_audio, streams) if each is not None]
    container = str(about.get("format_name", ""))
    duration = _number(about.get("duration"))
    if video is None and not audios:
        raise refused("there is neither picture nor sound in this file", "no_streams")
    if duration is not None and duration > LONGEST_SECONDS:
        raise refused(TOO_LONG, "damaged")
    if video is not None and not audios and _is_still(moving[0], duration):
        raise refused("this is a picture, not a video", "image_only")
    return Probe(
        container=container,
        duration=duration,
        video=video,
        audios=audios[:MOST_SOUNDS],
        subtitles=[_subtitle(each) for each in streams if each.get("codec_type") == "subtitle"],
        chapters=[_chapter(n, each) for n, each in enumerate(chapters, 1)],
        cover=next((int(each["index"]) for each in pictures if _flag(each, "attached_pic")), None),
        bit_rate=int(_number(about.get("bit_rate")) or 0),
        recorded_at=_recorded(about),
        **_packets(said.get("packets"), asked_packets, {each.index for each in audios}),
    )


def _packets(found: Sequence[JsonObject] | None, asked: int, sounds: Collection[int]) -> JsonObject:
    if not found:
        return {}
    rows: dict[int, list[tuple[str, str, str]]] = {}
    ends = []
    for each in found:
        index = _whole(each.get("stream_index"))
        row = (str(each.get("pts", "")), str(each.get("dts", "")), str(each.get("flags", "")))
        rows.setdefault(index, []).append(row)
        if index in sounds:
            times = [_number(each.get(name)) for name in ("pts_time", "duration_time")]
            ends.append(sum(time for time in times if time is not None))
    return {
        "packets": {index: timeline.packets(row) for index, row in rows.items()},
        "is_whole": len(found) < asked,
        "sound_end": max(ends, default=None),
    }


def _refuse_protected(streams: Sequence[JsonObject]) -> None:
    if any(each.get("codec_tag_string") in PROTECTED for each in streams):
        raise refused(
            "the file is protected (DRM): it can only be played by its seller", "protected"
        )


def _is_still(stream: JsonObject, duration: float | None) -> bool:
    one_frame = stream.get("nb_frames") in ("1", None) and not duration
    return stream.get("codec_name") in PICTURES and one_frame


def _video(stream: JsonObject) -> VideoStream | None:
    width, height = _whole(stream.get("width")), _whole(stream.get("height"))
    if not stream.get("codec_name") or width < 2 or height < 2:
        return None
    if max(width, height) > LARGEST_SIDE:
        raise refused(f"the picture is too large: {width}×{height}", "unsupported")
    rate, real = _fraction(stream.get("avg_frame_rate")), _fraction(stream.get("r_frame_rate"))
    frame_rate = float(rate or real or 25)
    return VideoStream(
        index=int(stream["index"]),
        codec=str(stream["codec_name"]),
        profile=str(stream.get("profile", "")),
        width=width,
        height=height,
        pixel_format=str(stream.get("pix_fmt", "")),
        time_base=_fraction(stream.get("time_base")) or Fraction(1, 1000),
        start_pts=_whole(stream.get("start_pts")),
        frame_rate=frame_rate if 0 < frame_rate <= 1000 else 25.0,
        variable=bool(rate and real and abs(rate - real) > real / 100),
        rotation=_rotation(stream),
        sample_aspect=_aspect(stream.get("sample_aspect_ratio")),
        interlaced=stream.get("field_order") in INTERLACED,
        hdr=stream.get("color_transfer") in HDR_TRANSFERS,
        level=_whole(stream.get("level")),
        bit_rate=int(_number(stream.get("bit_rate")) or 0),
        duration=_length(stream),
    )


def _audio(stream: JsonObject) -> AudioStream | None:
    rate, channels = _whole(stream.get("sample_rate")), _whole(stream.get("channels"))
    known = stream.get("codec_type") == "audio" and stream.get("codec_name")
    if not known or rate <= 0 or channels <= 0:
        return None
    return AudioStream(
        index=int(stream["index"]),
        codec=str(stream["codec_name"]),
        profile=str(stream.get("profile", "")),
        channels=channels,
        sample_rate=rate,
        start_seconds=_number(stream.get("start_time")),
        language=_language(stream),
        title=_tag(stream, "title"),
        has_header=bool(stream.get("extradata_size")),
        default=_flag(stream, "default"),
        duration=_length(stream),
    )


def _subtitle(stream: JsonObject) -> Subtitle:
    return Subtitle(
        index=int(stream["index"]),
        codec=str(stream.get("codec_name", "")),
        language=_language(stream),
        title=_tag(stream, "title"),
        default=_flag(stream, "default"),
        forced=_flag(stream, "forced"),
    )


def _chapter(number: int, chapter: JsonObject) -> Chapter:
    return Chapter(
        start=_number(chapter.get("start_time")) or 0.0,
        end=_number(chapter.get("end_time")) or 0.0,
        title=_tag(chapter, "title") or f"Chapter {number}",
    )


def _recorded(about: JsonObject) -> str | None:
    """What a telephone has noted with its zone tells more; exports set the other time anew. A clock
    that nobody has set stands at the beginning of its epoch: 1904 or 1970."""
    for name in ("com.apple.quicktime.creationdate", "creation_time"):
        try:
            when = datetime.fromisoformat(_tag(about, name))
        except ValueError:
            continue
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        if EARLIEST_CLOCK <= when.year < 2200:
            return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return None


def _rotation(stream: JsonObject) -> int:
    for side in stream.get("side_data_list", []):
        if "rotation" in side:
            return round(-float(side["rotation"]) / 90) * 90 % 360
    return round(float(_number(_tag(stream, "rotate")) or 0) / 90) * 90 % 360


def _aspect(text: object) -> Fraction:
    """Nonsense counts as square."""
    try:
        width, _, height = str(text).partition(":")
        found = Fraction(int(width), int(height))
    except (ValueError, ZeroDivisionError):
        return Fraction(1)
    return found if Fraction(1, 10) <= found <= 10 else Fraction(1)


def _flag(stream: JsonObject, name: str) -> bool:
    return bool(stream.get("disposition", {}).get(name))


def _language(stream: JsonObject) -> str | None:
    return languages.tag(_tag(stream, "language"))


def _tag(stream: JsonObject, name: str) -> str:
    tags = stream.get("tags") or {}
    return str(tags.get(name) or tags.get(name.upper()) or "")[:200]


def _number(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if 0 <= abs(found) < 1e12 else None


def _length(stream: JsonObject) -> float | None:
    """Matroska tells it as a tag, by the clock."""
    told = _number(stream.get("duration"))
    if told is not None:
        return told
    try:
        hours, minutes, seconds = (float(each) for each in _tag(stream, "DURATION").split(":"))
    except ValueError:
        return None
    return hours * 3600 + minutes * 60 + seconds


def _whole(value: object) -> int:
    """Nonsense counts as nothing."""
    try:
        return int(str(value))
    except ValueError:
        return 0


def _fraction(text: object) -> Fraction | None:
    try:
        found = Fraction(str(text))
    except (ValueError, ZeroDivisionError):
        return None
    return found if found > 0 else None
