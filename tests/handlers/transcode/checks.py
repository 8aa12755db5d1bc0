"""Measures a version that was made, by other means than those that made it: an independent HLS
parser, and ffmpeg's own decoders. Every check raises AssertionError."""

from __future__ import annotations

import re
import subprocess
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import sqrt
from operator import mul
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import m3u8  # type: ignore[import-untyped]
import msgspec

import ffmpegs
from handlers.transcode.clips import ENVIRONMENT

RATE = 48_000
IN_STEP_SECONDS = 0.04
# Containers that count in milliseconds round every time by so much.
ROUNDED_SECONDS = 0.0011
BRIGHT = 110
# Loudness is compared in steps of a millisecond, this many to each side.
STEP, SHIFTS = RATE // 1000, 120
HEARD_SECONDS = 0.01
ALIKE = 0.8
SILENT = 16
LOUD = 8_000
H264_PROFILES = {"Constrained Baseline": "42", "Main": "4d", "High": "64"}
DASH = "{urn:mpeg:dash:schema:mpd:2011}"
LOCAL = ("-allowed_extensions", "ALL", "-protocol_whitelist", "file,pipe")


def tool(program: str, *arguments: str, given: bytes = b"") -> str:
    """What it says; anything on stderr is an error of what it read."""
    ended = subprocess.run(
        [program, "-v", "error", *arguments],
        input=given, capture_output=True, timeout=120, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    said = ended.stderr.decode(errors="replace")
    assert ended.returncode == 0, said
    assert not said, said
    return ended.stdout.decode(errors="replace")


def streams(*arguments: str) -> list[dict[str, Any]]:
    said = tool(ffmpegs.known("ffprobe"), "-of", "json", "-show_streams", *arguments)
    found: list[dict[str, Any]] = msgspec.json.decode(said)["streams"]
    return found


@dataclass(frozen=True)
class Frame:
    seconds: float
    brightness: float


@dataclass(frozen=True)
class Rendition:
    """One playlist and its files. `about` is its line in the master playlist, if it has one."""

    folder: Path
    about: Any = None

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def playlist(self) -> Any:
        return m3u8.load(str(self.folder / "playlist.m3u8"))

    @cached_property
    def seconds(self) -> list[float]:
        return [segment.duration for segment in self.playlist.segments]

    @property
    def starts(self) -> list[float]:
        return [0.0, *accumulate(self.seconds)][:-1]

    @property
    def sizes(self) -> list[int]:
        return [(self.folder / each.uri).stat().st_size for each in self.playlist.segments]

    @property
    def init(self) -> bytes:
        return (self.folder / str(self.playlist.segment_map[0].uri)).read_bytes()

    @property
    def local(self) -> list[str]:
        return [*LOCAL, "-i", str(self.folder / "playlist.m3u8")]

    @cached_property
    def stream(self) -> dict[str, Any]:
        """As ffprobe sees the first segment."""
        first = self.init + (self.folder / self.playlist.segments[0].uri).read_bytes()
        said = tool(ffmpegs.known("ffprobe"), "-of", "json", "-show_streams", "pipe:0", given=first)
        [found] = msgspec.json.decode(said)["streams"]
        return dict(found)

    @cached_property
    def frames(self) -> list[Frame]:
        return list(frames_of(*self.local))

    @cached_property
    def samples(self) -> Sequence[int]:
        samples, said = samples_of(*self.local)
        assert not said, said
        return samples

    @cached_property
    def alone(self) -> list[list[float]]:
        """When the frames of each segment are shown, decoded with nothing but the header: each by
        a decoder of its own, all of them in one process, as its start takes longer than a second
        of video."""
        header = self.folder / str(self.playlist.segment_map[0].uri)
        with tempfile.TemporaryDirectory() as folder:
            inputs, outputs = [], []
            for number, segment in enumerate(self.playlist.segments):
                inputs += ["-i", f"concat:{header}|{self.folder / segment.uri}"]
                outputs += ["-map", str(number), "-fps_mode", "passthrough", "-enc_time_base"]
                outputs += ["1:90000", "-c:v", "rawvideo", "-f", "framecrc", f"{folder}/{number}"]
            tool(ffmpegs.known(), "-copyts", *inputs, *outputs)
            return [_times(Path(folder, str(number))) for number in range(len(self.seconds))]

    @property
    def peak(self) -> float:
        """The peak segment bit rate of RFC 8216, section 4.3.4.2."""
        target = self.playlist.target_duration
        runs = [
            (sum(self.sizes[i:j]) * 8, sum(self.seconds[i:j]))
            for i in range(len(self.sizes))
            for j in range(i + 1, min(i + 6, len(self.sizes)) + 1)
        ]
        rates = [bits / length for bits, length in runs if 0.5 <= length / target <= 1.5]
        return max(rates, default=0.0)


def _times(said: Path) -> list[float]:
    """Of what ffmpeg has written about frames."""
    text = said.read_text()
    [scale] = re.findall(r"^#tb 0: 1/(\d+)$", text, re.MULTILINE)
    lines = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
    return [int(line[2]) / int(scale) for line in lines]


def frames_of(*arguments: str) -> list[Frame]:
    """When every frame is shown, and how bright it is."""
    graph = "scale=32:32:flags=area,signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-"
    said = tool(
        ffmpegs.known(), "-copyts", *arguments, "-map", "0:v:0", "-vf", graph,
        "-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-f", "null", "-",
    )  # fmt: skip
    found = re.findall(r"pts_time:(\S+)\s+lavfi\.signalstats\.YAVG=(\S+)", said)
    return [Frame(float(time), float(brightness)) for time, brightness in found]


def samples_of(*arguments: str) -> tuple[Sequence[int], str]:
    """One channel at 48 kHz, the first is that of second 0; and what is wrong with it."""
    graph = ["-map", "0:a:0", "-af", "aresample=48000:async=1:first_pts=0", "-ac", "1"]
    whole = ["-v", "error", "-max_error_rate", "1", "-copyts"]
    ended = subprocess.run(
        [ffmpegs.known(), *whole, *arguments, *graph, "-f", "s16le", "pipe:1"],
        capture_output=True, timeout=120, env=ENVIRONMENT, check=True,
    )  # fmt: skip
    return array("h", ended.stdout), ended.stderr.decode(errors="replace")


class Version:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.master = m3u8.load(str(folder / "master.m3u8"))
        self.videos = [
            Rendition((folder / each.uri).parent, each)
            for each in self.master.playlists
            if each.stream_info.resolution
        ]
        chosen = [each for each in self.master.media if each.type == "AUDIO"]
        # Sound alone is a stream itself, unless there are several to choose from.
        alone = [] if self.videos else self.master.playlists
        self.sounds = [Rendition((folder / each.uri).parent, each) for each in (chosen or alone)]

    def __getitem__(self, name: str) -> Rendition:
        return next(each for each in [*self.videos, *self.sounds] if each.name == name)

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.videos]

    @property
    def encoded(self) -> list[Rendition]:
        return [each for each in self.videos if each.name != "original"]

    @property
    def files(self) -> list[str]:
        found = (str(each.relative_to(self.folder)) for each in self.folder.rglob("*"))
        return sorted(each for each in found if not each.startswith(".rushes"))


# What holds for every version


def check(version: Version) -> None:
    for rendition in [*version.videos, *version.sounds]:
        check_playlist(rendition)
    for rendition in version.videos:
        check_picture(version, rendition)
        check_segments(rendition)
    for rendition in version.sounds:
        assert rendition.samples
        assert rendition.stream["codec_name"] == "aac"
        assert rendition.stream["profile"] == "LC"
    check_aligned(version.videos)
    check_manifest(version)
    if version.videos:
        check_storyboard(version)


def check_playlist(rendition: Rendition) -> None:
    playlist = rendition.playlist
    assert playlist.version >= 7
    assert playlist.playlist_type == "vod"
    assert playlist.is_endlist
    assert playlist.is_independent_segments
    assert playlist.media_sequence == 0
    assert len(playlist.segment_map) == 1
    assert playlist.segments
    assert all(round(each) <= playlist.target_duration for each in rendition.seconds)
    assert all((rendition.folder / each.uri).is_file() for each in playlist.segments)


def check_picture(version: Version, rendition: Rendition) -> None:
    """What the master playlist says of it is true."""
    about, stream = rendition.about.stream_info, rendition.stream
    assert about.resolution == (stream["width"], stream["height"])
    assert stream.get("sample_aspect_ratio", "1:1") == "1:1"
    codecs = about.codecs.split(",")
    check_codec(codecs[0], stream)
    assert codecs[1:] == ["mp4a.40.2"] * bool(version.sounds)
    sound = max((each.peak for each in version.sounds), default=0.0)
    # Playlists round to microseconds.
    assert about.bandwidth >= round((rendition.peak + sound) * (1 - 1e-6)) - 2
    assert about.average_bandwidth <= about.bandwidth
    assert bool(about.audio) == bool(version.sounds)
    shown = rendition.frames
    assert len(shown) == sum(len(each) for each in rendition.alone)
    if len(shown) > 20:
        rate = (len(shown) - 1) / (shown[-1].seconds - shown[0].seconds)
        assert about.frame_rate > rate * 0.98


def check_codec(said: str, stream: dict[str, Any]) -> None:
    name, level = stream["codec_name"], stream["level"]
    if name == "h264":
        assert said.startswith(f"avc1.{H264_PROFILES[stream['profile']]}")
        assert said.endswith(f"{level:02x}")
    elif name == "hevc":
        assert said.startswith("hvc1.1.6.")
        assert f".L{level}" in said
    else:
        assert name == "av1"
        assert said == f"av01.0.{level:02d}M.08"


def check_segments(rendition: Rendition) -> None:
    """Each decodes with nothing but the header, and begins where the playlist says."""
    for number, start in enumerate(rendition.starts):
        times = rendition.alone[number]
        assert times
        assert times == sorted(times)
        assert abs(times[0] - start) <= ROUNDED_SECONDS, (rendition.name, number)
        if number + 1 < len(rendition.starts):
            assert times[-1] < rendition.starts[number + 1]


def check_aligned(videos: Sequence[Rendition]) -> None:
    for one, other in pairwise(videos):
        assert len(one.seconds) == len(other.seconds)
        assert one.seconds == [near(each, 0.002) for each in other.seconds]
        if "original" not in (one.name, other.name):
            assert one.seconds == other.seconds
            shown = [near(each.seconds, 0.0005) for each in other.frames]
            assert [each.seconds for each in one.frames] == shown


class near:
    def __init__(self, value: float, by: float) -> None:
        self._value, self._by = value, by

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float | int) and abs(other - self._value) <= self._by

    def __repr__(self) -> str:
        return f"{self._value} ± {self._by}"

    __hash__ = None  # type: ignore[assignment]


def check_manifest(version: Version) -> None:
    """DASH tells the same as HLS, and can be read by somebody else."""
    path = version.folder / "manifest.mpd"
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{DASH}MPD"
    told = {
        each.attrib["id"]: (each.attrib["codecs"], list(_ticks(each)))
        for each in root.iter(f"{DASH}Representation")
        if "codecs" in each.attrib
    }
    renditions = {each.name: each for each in [*version.videos, *version.sounds]}
    assert set(told) == set(renditions)
    # Not before a browser has shown all of it: dash.js would seek back and pause.
    ends = [sum(ticks) / 90_000 for _, ticks in told.values()]
    assert 0 < presented(root) - max(ends) < 0.0015
    for name, (codecs, ticks) in told.items():
        seconds = renditions[name].seconds
        assert [tick / 90_000 for tick in ticks] == [near(each, 0.0001) for each in seconds]
        if renditions[name] in version.videos:
            check_codec(codecs, renditions[name].stream)
    found = streams(*LOCAL, str(path))
    assert sum(each["codec_type"] != "subtitle" for each in found) == len(renditions)


def presented(manifest: ElementTree.Element) -> float:
    """How long it says that all is."""
    told = manifest.attrib["mediaPresentationDuration"]
    return float(told.removeprefix("PT").removesuffix("S"))


def _ticks(representation: ElementTree.Element) -> Iterator[int]:
    for each in representation.iter(f"{DASH}S"):
        yield from [int(each.attrib["d"])] * (int(each.attrib.get("r", 0)) + 1)


def check_storyboard(version: Version) -> None:
    """From the beginning to the end without a gap; every picture is inside its sheet, and as bright
    as the frames there."""
    text = (version.folder / "storyboard.vtt").read_text()
    cues = re.findall(r"(\S+) --> (\S+)\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)", text)
    assert text.startswith("WEBVTT\n")
    times = [(_seconds(begin), _seconds(end)) for begin, end, *_ in cues]
    assert times[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(times))
    assert times[-1][1] == near(sum(version.videos[0].seconds), 0.002)
    frames = version.videos[-1].frames
    sheets = {name: Sheet.read(version.folder / name) for name in {cue[2] for cue in cues}}
    for (begin, end), (*_, name, x, y, width, height) in zip(times, cues, strict=True):
        found = sheets[name].brightness(int(x), int(y), int(width), int(height))
        before = [each for each in frames if each.seconds < end]
        near_it = [each for each in before if each.seconds >= 2 * begin - end] or before[-1:]
        shown = [each.brightness for each in near_it]
        assert min(shown) - 8 <= found <= max(shown) + 8, (name, begin)


@dataclass(frozen=True)
class Sheet:
    """A picture in grey."""

    width: int
    height: int
    grey: bytes

    @classmethod
    def read(cls, path: Path) -> Sheet:
        argv = [ffmpegs.known(), "-v", "error", "-i", str(path), "-f", "image2pipe"]
        argv += ["-pix_fmt", "gray", "-c:v", "pgm", "pipe:1"]
        ended = subprocess.run(argv, capture_output=True, timeout=60, env=ENVIRONMENT, check=True)
        kind, width, height, _, grey = ended.stdout.split(maxsplit=4)
        assert kind == b"P5"
        return cls(int(width), int(height), grey)

    def brightness(self, x: int, y: int, width: int, height: int) -> float:
        """On the scale of video."""
        assert x + width <= self.width
        assert y + height <= self.height
        rows = [row * self.width + x for row in range(y, y + height)]
        found = sum(sum(self.grey[at : at + width]) for at in rows) / (width * height)
        return 16 + found * 219 / 255


def _seconds(clock: str) -> float:
    hours, minutes, seconds = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


# Against the source


def check_frames(
    rendition: Rendition,
    source: Sequence[Frame],
    *,
    rounded: float = ROUNDED_SECONDS,
    last: float = 0.002,
) -> None:
    """The same frames at the same times, counted from the first. `last`: how much of the last
    frame's length nobody knows."""
    expected = [each.seconds - source[0].seconds for each in source]
    assert len(rendition.frames) == len(expected)
    assert [each.seconds for each in rendition.frames] == [near(each, rounded) for each in expected]
    frame = expected[-1] / max(1, len(expected) - 1) or 0.04
    assert sum(rendition.seconds) == near(expected[-1] + frame, max(frame, last) * 1.01)


def flashes(frames: Sequence[Frame], bright: float = BRIGHT) -> list[float]:
    """When it becomes bright."""
    lit = [Frame(-1, 0), *frames]
    return [
        later.seconds
        for earlier, later in pairwise(lit)
        if earlier.brightness <= bright < later.brightness
    ]


def beeps(samples: Sequence[int], loud: int = LOUD) -> list[float]:
    """When it becomes loud after a tenth of a second of quiet."""
    found: list[float] = []
    last = -RATE
    for begin in range(0, len(samples), STEP):
        step = samples[begin : begin + STEP]
        if max(step) <= loud and min(step) >= -loud:
            continue
        for number, sample in enumerate(step, begin):
            if abs(sample) > loud:
                if number - last > RATE / 10:
                    found.append(number / RATE)
                last = number
    return found


def check_in_step(version: Version, times: Sequence[float], *, late: float = 0.041) -> None:
    """Flash and beep are where they are expected; the flash up to one frame late, as a frame may
    have been missing there."""
    for video in version.videos:
        shown = flashes(video.frames)
        assert shown == [near(each + late / 2, late / 2 + 0.002) for each in times], video.name
    for sound in version.sounds:
        heard = beeps(sound.samples)
        assert heard == [near(each, IN_STEP_SECONDS) for each in times], sound.name


def check_heard(sound: Rendition, source: Sequence[int]) -> None:
    """The source's sound, not shifted against it; both begin with the first frame."""
    if not any(source):
        assert max(map(abs, sound.samples)) < SILENT
        return
    made, given = _loudness(sound.samples), _loudness(source)
    likeness = {shift: _likeness(made, given, shift) for shift in range(-SHIFTS, SHIFTS + 1)}
    best = max(likeness, key=lambda shift: likeness[shift])
    assert best * STEP / RATE == near(0, HEARD_SECONDS), sound.name
    assert likeness[best] > ALIKE, sound.name


def _loudness(samples: Sequence[int]) -> list[float]:
    """Above the average, of every step."""
    peaks = [max(map(abs, samples[at : at + STEP])) for at in range(0, len(samples), STEP)]
    average = sum(peaks) / len(peaks)
    return [each - average for each in peaks]


def _likeness(one: Sequence[float], other: Sequence[float], shift: int) -> float:
    """1 when `one` is `other` so many steps later, however loud."""
    one, other = one[max(0, shift) :], other[max(0, -shift) :]
    length = sqrt(sum(map(mul, one, one)) * sum(map(mul, other, other)))
    return float(sum(map(mul, one, other)) / (length or 1))


def brightness(path: Path) -> float:
    return frames_of("-i", str(path))[0].brightness
