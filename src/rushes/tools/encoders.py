"""What encodes a picture: software everywhere, hardware where a test encode has proved it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rushes import errors
from rushes.tools import ffmpeg, process, programs
from rushes.tools.profile import Codec

DEVICE = "/dev/dri/renderD128"
SOFTWARE = "software"
TEST_LIMITS = process.Limits(wall_seconds=20, cpu_seconds=20, stall_seconds=20)
# ffmpeg's wrapper takes no more than 8.
AV1_SPEED = {"ultrafast": 8, "superfast": 8, "veryfast": 8, "faster": 7, "fast": 7, "medium": 6}


@dataclass(frozen=True, slots=True)
class Encoder:
    """`device` opens it, `tail` ends the filters before it."""

    name: str
    codecs: dict[Codec, str]
    device: Sequence[str] = ()
    tail: str = "format=yuv420p"

    def arguments(
        self, codec: Codec, *, bitrate: int, crf: int, preset: str, reorder: bool = True
    ) -> list[str]:
        """Constant quality, never more than `bitrate` kbit/s; key frames only where forced.
        `reorder`: frames may be decoded before others that are shown earlier."""
        program = self.codecs[codec]
        cap = ["-maxrate", f"{bitrate}k", "-bufsize", f"{2 * bitrate}k", "-g", "9999"]
        tag = ["-tag:v", "hvc1"] if codec == "hevc" else []
        in_order = [] if reorder or codec == "av1" else ["-bf", "0"]
        quality = _quality(program, crf, preset, bitrate)
        return ["-c:v", program, *quality, *in_order, *cap, *tag]


ENCODERS = (
    Encoder(
        "nvenc",
        {"h264": "h264_nvenc", "hevc": "hevc_nvenc", "av1": "av1_nvenc"},
    ),
    Encoder(
        "qsv",
        {"h264": "h264_qsv", "hevc": "hevc_qsv", "av1": "av1_qsv"},
        device=("-init_hw_device", "qsv=hw", "-filter_hw_device", "hw"),
        tail="format=nv12,hwupload=extra_hw_frames=64",
    ),
    Encoder(
        "vaapi",
        {"h264": "h264_vaapi", "hevc": "hevc_vaapi", "av1": "av1_vaapi"},
        device=("-init_hw_device", f"vaapi=hw:{DEVICE}", "-filter_hw_device", "hw"),
        tail="format=nv12,hwupload",
    ),
    Encoder("videotoolbox", {"h264": "h264_videotoolbox", "hevc": "hevc_videotoolbox"}),
    Encoder(SOFTWARE, {"h264": "libx264", "hevc": "libx265", "av1": "libaom-av1"}),
)
BY_NAME = {encoder.name: encoder for encoder in ENCODERS}


def _quality(program: str, crf: int, preset: str, bitrate: int) -> list[str]:
    match program:
        case "libx264":
            same = ["-profile:v", "high", "-sc_threshold", "0", "-keyint_min", "1"]
            return ["-preset", preset, "-crf", str(crf), *same]
        case "libx265":
            closed = "open-gop=0:scenecut=0:no-info=1:log-level=error"
            forced = ["-forced-idr", "1", "-x265-params", closed]
            return ["-preset", preset, "-crf", str(crf + 3), *forced]
        case "libaom-av1":
            speed = ["-cpu-used", str(AV1_SPEED.get(preset, 6)), "-usage", "realtime"]
            quality = ["-crf", str(crf + 9), "-b:v", f"{bitrate}k"]
            return [*speed, "-row-mt", "1", *quality, "-lag-in-frames", "0"]
        case "h264_nvenc" | "hevc_nvenc" | "av1_nvenc":
            forced = ["-forced-idr", "1", "-no-scenecut", "1"]
            return ["-preset", "p4", "-rc", "vbr", "-cq", str(crf), "-b:v", "0", *forced]
        case "h264_qsv" | "hevc_qsv" | "av1_qsv":
            return ["-global_quality", str(crf), "-forced_idr", "1", "-preset", "veryfast"]
        case "h264_vaapi" | "hevc_vaapi" | "av1_vaapi":
            return ["-rc_mode", "QVBR", "-global_quality", str(crf), "-b:v", f"{bitrate}k"]
        case _:
            return ["-b:v", f"{bitrate}k", "-realtime", "0"]


# Without such a device a test encode can only fail, and would cost every start a moment.
DEVICES = {
    "nvenc": ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl"),
    "qsv": ("/dev/dri",),
    "vaapi": ("/dev/dri",),
    "videotoolbox": ("/System/Library/Frameworks/VideoToolbox.framework",),
}


def proved() -> list[str]:
    """The hardware that works here, best first."""
    return [
        name
        for name, devices in DEVICES.items()
        if any(Path(device).exists() for device in devices) and works(name, "h264")
    ]


@lru_cache
def works(name: str, codec: Codec) -> bool:
    """By encoding something: what a program lists is no evidence."""
    encoder = BY_NAME[name]
    if codec not in encoder.codecs:
        return False
    arguments = encoder.arguments(codec, bitrate=1000, crf=30, preset="ultrafast")
    try:
        argv = ffmpeg.test_encode(programs.ffmpeg(), arguments, encoder.tail, encoder.device)
        process.run(argv, limits=TEST_LIMITS)
    except errors.JobOutcome:
        return False
    return True


def choose(requested: str, codecs: Sequence[Codec]) -> Encoder:
    """The requested one if it works here for all these codecs, else the best that does."""
    for name in proved() if requested == "auto" else [requested]:
        if name != SOFTWARE and all(works(name, codec) for codec in codecs):
            return BY_NAME[name]
    return BY_NAME[SOFTWARE]
