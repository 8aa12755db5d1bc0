"""Small clips of every kind that people have, made by ffmpeg when a test first asks for them.

Most of them flash and beep at FLASHES, so that picture and sound can be compared in what is made.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ffmpegs

FLASHES = (0.4, 2.2)
SECONDS = 3
TONE = 1000
# Builds that hold their own C library crash when they load this machine's character sets.
ENVIRONMENT = {**os.environ, "GCONV_PATH": "/nonexistent"}
FLASH_SECONDS = 0.09

X264 = "-c:v libx264 -preset veryfast -bf 2 -g 25 -sc_threshold 0 -pix_fmt yuv420p"
AAC = "-c:a aac -b:a 96k"

Arguments = Sequence[str]
# Or the clip itself.
Recipe = Callable[["Clips"], Arguments | bytes]


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


def kept(which: str, seconds: float) -> str:
    """Frames that are not left out; those around a flash never are, nor the last."""
    always = [f"lt(abs(t-{at}),0.15)" for at in (*FLASHES, seconds)]
    return "select='" + "+".join([which, *always]) + "'"


def beep(
    seconds: float = SECONDS, rate: int = 48000, tone: int = TONE, more: str = ""
) -> list[str]:
    graph = f"aevalsrc='0.8*sin(2*PI*{tone}*t)*({during()})':s={rate}:d={seconds}"
    return ["-f", "lavfi", "-i", f"{graph},{more}" if more else graph]


class Clips:
    """A folder of clips; several processes may share it."""

    def __init__(self, folder: Path, recipes: Mapping[str, Recipe] | None = None) -> None:
        self.folder = folder
        self._recipes = RECIPES if recipes is None else recipes
        folder.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, name: str) -> Path:
        path = self.folder / name
        with (self.folder / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                draft = path.with_name(f".new.{name}")
                self._make(self._recipes[name](self), draft)
                draft.rename(path)
        return path

    def _make(self, arguments: Arguments | bytes, path: Path) -> None:
        if isinstance(arguments, bytes):
            path.write_bytes(arguments)
            return
        argv = [ffmpegs.known(), "-v", "error", "-nostdin", "-y", *arguments, str(path)]
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


WORDS = """1
00:00:00,200 --> 00:00:00,900
<i>Guten</i> Tag

2
00:00:01,500 --> 00:00:02,500
<script>alert(1)</script> & <font color="red">{} --&gt; more</font>
"""
SCRIPT = """[Script Info]
ScriptType: v4.00+
[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,20
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:00.50,0:00:01.50,Default,,0,0,0,,{\\an8\\b1}Hello{\\b0}\\Nthere
"""


def subtitled(codecs: Sequence[str], after: str) -> Recipe:
    """With words in German, and with a script in English that is the default."""

    def arguments(clips: Clips) -> Arguments:
        words = clips.text(".german.srt", WORDS)
        script = clips.text(".english.ass", SCRIPT)
        each = [word for n, codec in enumerate(codecs) for word in (f"-c:s:{n}", codec)]
        return [
            *("-i", str(clips["plain.mp4"]), "-i", words, "-i", script),
            *("-map", "0", "-map", "1", "-map", "2", "-c", "copy", *each),
            *("-metadata:s:s:0", "language=ger", "-metadata:s:s:1", "language=eng"),
            *("-disposition:s:0", "forced", "-disposition:s:1", "default", *after.split()),
        ]

    return arguments


def _with_pictures(clips: Clips) -> Arguments:
    """Subtitles as a Blu-ray has them: nothing but an empty screen, twice."""
    screen = bytes.fromhex("0140 00b4 10 0000 80 00 00 00".replace(" ", ""))
    parts = [
        b"PG" + (at * 90_000).to_bytes(4, "big") + bytes(4) + bytes([kind])
        + len(data).to_bytes(2, "big") + data
        for at in (0, 1)
        for kind, data in ((0x16, screen), (0x80, b""))
    ]  # fmt: skip
    path = clips.folder / ".pictures.sup"
    path.write_bytes(b"".join(parts))
    return [
        *("-i", str(clips["plain.mp4"]), "-f", "sup", "-i", str(path), "-map", "0", "-map", "1"),
        *("-c", "copy", "-metadata:s:s:0", "language=fre"),
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
    # Pauses as in recordings of a screen: nothing is stored while nothing moves.
    "pauses.mp4": recipe(
        picture(seconds=9, rate="30", more=kept("lt(mod(t,2.5),0.7)+lt(random(3),0.05)", 9)),
        beep(9), X264, "-g 250", AAC, "-fps_mode vfr",
    ),
    "pauses.mkv": recipe(
        picture(seconds=9, rate="30", more=kept("eq(n,0)+gt(mod(t,3),1.9)", 9)), beep(9),
        X264, AAC, "-fps_mode vfr",
    ),
    "dropped.webm": recipe(
        picture(seconds=6, rate="30", more=kept("eq(n,0)+gt(random(5),0.25)", 6)), beep(6),
        "-fps_mode vfr -c:v libvpx -deadline realtime -cpu-used 8 -b:v 300k -c:a libopus",
    ),
    # As browsers record: whenever there is a frame.
    "jittery.webm": recipe(
        picture(rate="30", more="select='eq(n,0)+gt(random(5),0.3)',settb=1/1000,"
                "setpts='PTS+if(N,floor(random(2)*16))'"),
        "-fps_mode passthrough -enc_time_base 1:1000",
        "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 300k",
    ),
    # Equal frames are left out.
    "still.ogv": recipe(
        picture(seconds=8, more=kept("lt(mod(t,3),0.5)+eq(mod(n,29),0)", 8)), beep(8),
        "-fps_mode vfr -c:v libtheora -b:v 500k -c:a libvorbis",
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
    "ntsc.mkv": copied("ntsc.mp4"),
    "film.mkv": recipe(picture(rate="24000/1001"), beep(), X264, "-c:a ac3"),
    "fast.avi": recipe(picture("160x90", "120", 2), beep(2), "-c:v mjpeg -c:a pcm_s16le"),
    "fast.mp4": recipe(picture("160x90", "120", 2), beep(2), X264, AAC),
    "one-frame.mp4": recipe(picture(seconds=0.04), X264),
    # A cover with a talk; a picture that freezes before the sound ends, and the other way round.
    "cover-and-talk.mp4": recipe(picture(rate="1", seconds=1), beep(6), X264, AAC, "-bf 0"),
    "short-picture.mp4": recipe(picture(), beep(6.5), X264, AAC),
    "short-picture.mkv": recipe(
        picture(rate="30000/1001"), beep(6.5), "-c:v libvpx -deadline realtime -cpu-used 8",
        "-b:v 300k -c:a libopus",
    ),
    "short-sound.mp4": recipe(picture(seconds=6), beep(2.5), X264, AAC),
    "sparse.mp4": recipe(picture("160x90", "1/5", 20), X264),
    "one-key.mp4": recipe(picture(), beep(), X264, "-g 9999 -sc_threshold 40", AAC),
    # Key frames that others are shown before, which need the one before.
    "open.mp4": recipe(picture(), beep(), X264, "-x264-params open-gop=1:b-adapt=0", AAC),
    # As a telephone trims: what was cut away is still in there, and not to be shown.
    "trimmed.mp4": copied("plain.mp4", "-ss 1.3"),
    "far-keys.mp4": recipe(picture("64x36", "10", 15), X264, "-g 300"),
    "small.ts": recipe(picture("160x90"), beep(), X264, AAC, "-output_ts_offset 3.08"),
    "slides.mp4": recipe(picture("160x90", "1", 9), beep(9), X264, AAC),
    "cut.mp4": copied("one-key.mp4", "-ss 0.3"),
    "languages.mkv": recipe(
        picture(), beep(), beep(tone=500), beep(tone=2000), X264, AAC,
        "-map 0 -map 1 -map 2 -map 3 -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu",
        ["-metadata:s:a:1", 'title=Kommentar "laut"'],
    ),
    "second-default.mkv": recipe(
        picture(), beep(), beep(tone=500), X264, AAC, "-map 0 -map 1 -map 2",
        "-metadata:s:a:0 language=eng -metadata:s:a:1 language=ger",
        "-disposition:a:0 0 -disposition:a:1 default",
    ),
    "second-default.m4a": recipe(
        beep(), beep(4, tone=500), AAC, "-map 0 -map 1",
        "-metadata:s:a:0 language=eng -metadata:s:a:1 language=deu",
        "-disposition:a:0 0 -disposition:a:1 default",
    ),
    "silent-first.m4a": recipe(
        beep(more="volume=0"), beep(), AAC, "-map 0 -map 1",
        "-disposition:a:0 0 -disposition:a:1 default",
    ),
    "faststart.m4a": copied("second-default.m4a", "", "-map 0 -movflags +faststart"),
    "subtitled.mkv": subtitled(["srt", "ass"], ""),
    "subtitled.mp4": subtitled(["mov_text", "mov_text"], ""),
    "pictures.mkv": _with_pictures,
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
    return _appended(clips, "joined.ts", "stream.ts", "stream.ts")


def shape_changing(clips: Clips) -> Path:
    """As a broadcast changes from one programme to the next."""
    return _appended(clips, "shape-changing.ts", "stream.ts", "small.ts")


def rateless(clips: Clips) -> Path:
    """Without the length of a frame, which our ffmpeg tells and browsers do not: then ffprobe
    guesses a thousand frames a second."""
    path = clips.folder / "rateless.webm"
    data = clips["jittery.webm"].read_bytes()
    at = data.index(b"\x23\xe3\x83\x84")
    path.write_bytes(data[:at] + b"\xec\x86" + bytes(6) + data[at + 8 :])
    return path


def _appended(clips: Clips, name: str, *parts: str) -> Path:
    draft = clips.folder / f".{name}.{os.getpid()}"
    draft.write_bytes(b"".join(clips[part].read_bytes() for part in parts))
    return draft.rename(clips.folder / name)
