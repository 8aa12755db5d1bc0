"""Small clips of every kind that people have, made by ffmpeg when a test first asks for them.

Most of them flash and beep at FLASHES, so that picture and sound can be compared in what is made.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from rushes.tools import programs

FLASHES = (0.4, 2.2)
SECONDS = 3
TONE = 1000
# Builds that hold their own C library crash when they load this machine's character sets.
ENVIRONMENT = {**os.environ, "GCONV_PATH": "/nonexistent"}
FLASH_SECONDS = 0.09

X264 = "-c:v libx264 -preset veryfast -bf 2 -g 25 -sc_threshold 0 -pix_fmt yuv420p"
AAC = "-c:a aac -b:a 96k"

Arguments = Sequence[str]
Recipe = Callable[["Clips"], Arguments]


def during(times: Sequence[float] = FLASHES) -> str:
    """As ffmpeg's expressions say it; a hair earlier, so that rounding keeps the first frame."""
    return "+".join(f"between(t,{at - 0.001},{at + FLASH_SECONDS})" for at in times)


def picture(
    size: str = "320x180", rate: str = "25", seconds: float = SECONDS, more: str = ""
) -> list[str]:
    """Dark and moving, with bright flashes."""
    flash = f"drawbox=t=fill:c=white:enable='{during()}'"
    graph = f"testsrc2=s={size}:r={rate}:d={seconds},lutyuv=y=val/3,{flash}"
    return ["-f", "lavfi", "-i", f"{graph},{more}" if more else graph]


def beep(
    seconds: float = SECONDS, rate: int = 48000, tone: int = TONE, more: str = ""
) -> list[str]:
    graph = f"aevalsrc='0.8*sin(2*PI*{tone}*t)*({during()})':s={rate}:d={seconds}"
    return ["-f", "lavfi", "-i", f"{graph},{more}" if more else graph]


class Clips:
    """A folder of clips; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, name: str) -> Path:
        path = self.folder / name
        with (self.folder / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                draft = path.with_name(f".new.{name}")
                self._make(RECIPES[name](self), draft)
                draft.rename(path)
        return path

    def _make(self, arguments: Arguments, path: Path) -> None:
        argv = [programs.ffmpeg(), "-v", "error", "-nostdin", "-y", *arguments, str(path)]
        subprocess.run(argv, check=True, timeout=120, env=ENVIRONMENT)

    def text(self, name: str, content: str) -> str:
        path = self.folder / name
        path.write_text(content)
        return str(path)


def recipe(*parts: Sequence[str] | str) -> Recipe:
    """Words in a string are arguments of their own; lists are taken as they are."""
    arguments = [
        word for part in parts for word in (part.split() if isinstance(part, str) else part)
    ]
    return lambda clips: arguments


def copied(name: str, before: str = "", after: str = "") -> Recipe:
    """Another clip in new clothes."""
    return lambda clips: [
        *before.split(), "-i", str(clips[name]), *after.split(), "-c", "copy",
    ]  # fmt: skip


def _described(clips: Clips) -> Arguments:
    meta = "".join(
        f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={title}\n"
        for start, end, title in ((0, 1000, "Hello <b>"), (1000, 3000, "Two --> & more"))
    )
    chapters = clips.text(".chapters.txt", f";FFMETADATA1\n{meta}")
    words = clips.text(".words.srt", "1\n00:00:00,500 --> 00:00:01,500\nSpoken words\n")
    return [
        *("-i", str(clips["plain.mp4"]), "-i", chapters, "-i", words),
        *("-map", "0", "-map", "2", "-map_metadata", "1", "-c", "copy", "-c:s", "srt"),
        *("-metadata:s:s:0", "language=deu"),
    ]


def _covered(codec: str) -> Recipe:
    after = "-map 0 -map 1 -c:v copy -disposition:v attached_pic -c:a"
    return lambda clips: [
        *beep(), "-i", str(clips["cover.jpg"]), *after.split(), codec,
    ]  # fmt: skip


HDR = "-colorspace bt2020nc -color_primaries bt2020 -color_range tv -color_trc"
TEN_BIT = "format=yuv420p10le"
PALETTE = "split[a][b];[a]palettegen[p];[b][p]paletteuse"
DARK = "drawbox=t=fill:c=black:enable='lt(t,1.6)'"

RECIPES: dict[str, Recipe] = {
    "plain.mp4": recipe(picture(), beep(), X264, AAC, "-movflags +faststart"),
    "silent.mp4": recipe(picture(), X264),
    "portrait.mp4": recipe(picture("180x320"), beep(), X264, AAC),
    "phone-90.mp4": copied("plain.mp4", "-display_rotation 90"),
    "phone-180.mp4": copied("plain.mp4", "-display_rotation 180"),
    "phone-270.mov": copied("plain.mp4", "-display_rotation 270"),
    "varying.mp4": recipe(
        picture(more="select='not(eq(mod(n,7),3)+eq(mod(n,11),5))'"), beep(), X264, AAC,
        "-fps_mode vfr",
    ),
    "screen.webm": recipe(
        picture(more="select='eq(n,0)+lt(mod(n+9,19),9)'"), beep(), "-fps_mode vfr -c:v libvpx",
        "-deadline realtime -cpu-used 8 -b:v 300k -c:a libopus",
    ),
    "hdr10.mkv": recipe(
        picture(seconds=2, more=TEN_BIT), beep(2), "-c:v libx265 -preset ultrafast",
        "-x265-params log-level=error:hdr10=1", HDR, "smpte2084", AAC,
    ),
    "hlg.mp4": recipe(
        picture(seconds=2, more=TEN_BIT), beep(2), "-c:v libx264 -preset ultrafast",
        HDR, "arib-std-b67", AAC,
    ),
    "interlaced.mpg": recipe(
        picture(rate="50", more="tinterlace=interleave_top"), beep(),
        "-c:v mpeg2video -flags +ildct+ilme -b:v 1M -c:a mp2",
    ),
    "interlaced.mkv": recipe(
        picture(rate="50", more="tinterlace=interleave_top,setfield=tff"), beep(),
        "-c:v libx264 -preset ultrafast -flags +ildct+ilme -x264-params tff=1", AAC,
    ),
    "anamorphic.mp4": recipe(picture("240x180", more="setsar=4/3"), beep(), X264, AAC),
    "odd.mkv": recipe(
        picture("321x181"), beep(), "-c:v libx264 -preset ultrafast -pix_fmt yuv444p", AAC
    ),
    "tiny.mp4": recipe(picture("16x16"), beep(), X264, AAC),
    "wide.mp4": recipe(picture("960x32"), beep(), X264, AAC),
    "ntsc.mp4": recipe(picture(rate="30000/1001"), beep(), X264, AAC),
    "film.mkv": recipe(picture(rate="24000/1001"), beep(), X264, "-c:a ac3"),
    "fast.mp4": recipe(picture("160x90", "120", 2), beep(2), X264, AAC),
    "one-frame.mp4": recipe(picture(seconds=0.04), X264),
    "one-frame-and-sound.mp4": recipe(picture(seconds=0.04), beep(), X264, AAC),
    "sparse.mp4": recipe(picture("160x90", "1/5", 20), X264),
    "one-key.mp4": recipe(picture(), beep(), X264, "-g 9999 -sc_threshold 40", AAC),
    "cut.mp4": copied("one-key.mp4", "-ss 0.3"),
    "languages.mkv": recipe(
        picture(), beep(), beep(tone=500), beep(tone=2000), X264, AAC,
        "-map 0 -map 1 -map 2 -map 3 -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu",
        ["-metadata:s:a:1", 'title=Kommentar "laut"'],
    ),
    "surround.mkv": recipe(
        picture(), beep(more="pan=5.1|FL=c0|FR=c0|FC=c0|LFE=c0|BL=c0|BR=c0"), X264, "-c:a ac3"
    ),
    "late-sound.mp4": recipe(
        picture(), "-itsoffset 1", beep(more="atrim=start=1,asetpts=PTS-STARTPTS"), X264, AAC
    ),
    "late-picture.mkv": recipe(
        "-itsoffset 0.2", picture(more="trim=start=0.2,setpts=PTS-STARTPTS"), beep(), X264, AAC
    ),
    "stream.ts": recipe(picture(), beep(), X264, AAC),
    "later.ts": recipe(picture(), beep(), X264, AAC, "-output_ts_offset 3600"),
    "camera.avi": recipe(picture(), beep(rate=22050), "-c:v mjpeg -c:a pcm_s16le"),
    "divx.avi": recipe(picture(), beep(), "-c:v mpeg4 -b:v 500k -c:a libmp3lame"),
    "reordered.avi": recipe(picture(), beep(), X264, "-c:a libmp3lame"),
    "editing.mov": recipe(picture(), beep(), "-c:v prores_ks -c:a pcm_s16le"),
    "old.flv": recipe(picture(), beep(rate=44100), "-c:v flv1 -b:v 500k -c:a libmp3lame"),
    "office.wmv": recipe(picture(), beep(), "-c:v wmv2 -b:v 500k -c:a wmav2"),
    "free.ogv": recipe(picture(), beep(), "-c:v libtheora -b:v 500k -c:a libvorbis"),
    "many-keys.ogv": recipe(picture("160x90", seconds=5), "-c:v libtheora -g 12 -b:v 500k"),
    "modern.webm": recipe(
        picture(), beep(), "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -b:v 300k",
        "-c:a libopus",
    ),
    "phone.3gp": recipe(
        picture("176x144"), beep(rate=8000), "-c:v h263 -b:v 200k -c:a libopencore_amrnb -ac 1"
    ),
    "moving.gif": recipe(picture("160x90", "10", more=PALETTE)),
    "bare.h264": recipe(picture(), X264, "-f h264"),
    "described.mkv": _described,
    "dark.mp4": recipe(picture(seconds=4, more=DARK), beep(4), X264, AAC),
    "cover.jpg": recipe(["-f", "lavfi", "-i", "testsrc2=s=100x100:r=1:d=1"], "-update 1"),
    "music.mp3": _covered("libmp3lame"),
    "music.m4a": recipe(beep(), AAC, "-f ipod"),
    "music.flac": _covered("flac"),
    "music.wav": recipe(beep(rate=44100)),
    "music.ogg": recipe(beep(), "-c:a libopus"),
    "telephone.wav": recipe(beep(rate=8000), "-c:a pcm_mulaw -ac 1"),
    # Two hours, for the thorough tests.
    "hours.mp4": recipe(
        picture("64x64", "1", 7200), beep(7200), "-c:v libx264 -preset ultrafast -g 10", AAC
    ),
}  # fmt: skip


def joined(clips: Clips) -> Path:
    """Two recordings appended byte by byte, each with its own times."""
    path = clips.folder / "joined.ts"
    draft = clips.folder / f".joined.{id(clips)}"
    draft.write_bytes(clips["stream.ts"].read_bytes() * 2)
    draft.rename(path)
    return path
