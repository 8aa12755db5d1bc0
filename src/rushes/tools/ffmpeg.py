"""The command lines of ffmpeg and ffprobe. Pure: lists of arguments, nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from rushes.tools.timeline import HeldFrame

FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,mpegts,mpeg,mpegvideo,avi,flv,ogg,asf,wav,w64,mp3,aac,"
    "flac,ivf,mxf,aiff,ac3,eac3,amr,caf,gif,h264,hevc,obu,dv,rm,wv,ape,tta,au,dts,nut,swf,m4v,gxf"
)
# Of the picture everywhere: divides 24, 25, 30, 50, 60 and their 1001 relatives.
TICKS = 90_000
SOUND_RATE = 48_000
OUT_OF_STEP_SECONDS = 0.03
# Absolute times, wherever a process began.
ABSOLUTE = "default_base_moof+skip_trailer+frag_discont"
# Frames are decoded before others that are shown earlier. The header tells by how much, in an edit
# list; for that it is written when the first frames are known. See boxes.retimed.
PICTURE_FRAGMENTS = f"frag_keyframe+delay_moov+{ABSOLUTE}"
SOUND_FRAGMENTS = f"empty_moov+{ABSOLUTE}"
# Damage is told by what is missing in the end, not by how much of it there was.
QUIET = ("-hide_banner", "-nostdin", "-loglevel", "error", "-max_error_rate", "1")
# The same bytes for the same picture, whichever process made them.
EXACT = ("-map_metadata", "-1", "-map_chapters", "-1", "-fflags", "+bitexact")
KEY_MARGIN_SECONDS = 0.0005
TONE_MAP = (
    "zscale=t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,tonemap=hable:desat=0,"
    "zscale=t=bt709:m=bt709:r=tv,format=yuv420p"
)


def guarded(path: Path) -> list[str]:
    """An input from outside: no format that names other files, no protocol but plain files."""
    return [
        *("-protocol_whitelist", "file,pipe", "-format_whitelist", FORMATS),
        *("-i", f"file:{path}"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoOutput:
    """One rendition of the picture: how it is scaled, how encoded, where it goes."""

    width: int
    height: int
    encode: Sequence[str]
    fd: int
    tail: str = "format=yuv420p"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayInput:
    """A second picture on top. `x` and `y` are expressions of W, H (the first one's size) and w, h
    (its own); `size` is its share of the width. Its own time `zero` is the result's beginning, and
    `begin` of it was cut off."""

    path: Path
    index: int
    zero: float
    begin: float
    x: str
    y: str
    size: float
    prepare: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Frames from `start_pts` up to `stop_pts`, decoded from `key_pts` on."""

    time_base: Fraction
    zero_pts: int
    start_pts: int
    stop_pts: int
    key_pts: int | None
    key_times: Sequence[float]
    first_number: int
    # To come down to; frames are then cut by where they are on its grid.
    rate: float | None = None
    # Whether the key frame is the first there is: then there is nothing to skip.
    from_the_start: bool = False
    hold: HeldFrame | None = None

    @property
    def margin_seconds(self) -> float:
        return KEY_MARGIN_SECONDS if self.rate is None else 0.5 / self.rate

    def seconds(self, pts: int) -> float:
        return float(pts * self.time_base)


def encode_span(
    program: str,
    source: Path,
    index: int,
    cut: Cut,
    outputs: Sequence[VideoOutput],
    *,
    prepare: Sequence[str] = (),
    device: Sequence[str] = (),
    overlay: OverlayInput | None = None,
) -> list[str]:
    """Decode once; every output gets the same frames, and key frames at the same times."""
    argv = [program, *QUIET, *device, "-copyts", *_seek(cut), *guarded(source)]
    if overlay is not None:
        argv += [*_seek_overlay(cut, overlay), *guarded(overlay.path)]
    argv += ["-filter_complex", _graph(index, cut, outputs, prepare, overlay)]
    keys = ",".join(f"{max(0.0, time - cut.margin_seconds):.6f}" for time in cut.key_times)
    for number, output in enumerate(outputs):
        argv += [
            *("-map", f"[v{number}]", *EXACT, "-flags:v", "+bitexact"),
            *output.encode,
            *("-force_key_frames", keys, "-fps_mode", "passthrough"),
            *("-enc_time_base", f"1:{TICKS}", *picture_fragments(cut.first_number)),
            f"pipe:{output.fd}",
        ]
    return [*argv, *PROGRESS]


def frame_times(
    program: str, source: Path, index: int, cut: Cut, prepare: Sequence[str]
) -> list[str]:
    """When each frame is shown that a decoder makes of this part, in TICKS."""
    chain = ",".join([*_trimmed(cut), *prepare, f"settb=1/{TICKS}", "scale=16:16"])
    return [
        *(program, *QUIET, "-copyts", *_seek(cut), *guarded(source)),
        *("-filter_complex", f"[0:{index}]{chain}[v]", "-map", "[v]", "-fps_mode", "passthrough"),
        *("-enc_time_base", f"1:{TICKS}", "-c:v", "rawvideo", "-f", "framecrc", "pipe:1"),
    ]


PROGRESS = ("-progress", "pipe:1", "-stats_period", "0.5")


def picture_fragments(first_number: int = 0) -> list[str]:
    """One fragment for each key frame, with absolute times."""
    return [
        *("-video_track_timescale", str(TICKS), "-avoid_negative_ts", "disabled", "-f", "mp4"),
        *("-movflags", PICTURE_FRAGMENTS),
        *("-fragment_index", str(first_number + 1)),
    ]


def copy_picture(program: str, source: Path, index: int, zero: float) -> list[str]:
    """As it is, to stdout."""
    return [
        *(program, *QUIET, "-copyts", *guarded(source), "-map", f"0:{index}", "-c", "copy"),
        *("-output_ts_offset", f"{-zero:.6f}", *EXACT, *picture_fragments(), "pipe:1"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """One output of sound: `bitrate` in kbit/s, or None to keep it as it is."""

    index: int
    bitrate: int | None
    channels: int
    fd: int


def sound(
    program: str,
    source: Path,
    outputs: Sequence[Sound],
    *,
    zero: float,
    seconds: float | None,
    segment_seconds: float,
) -> list[str]:
    """Sound from `zero` on, in fragments; silence where it is missing, so that it stays in step."""
    argv = [program, *QUIET, "-copyts", *guarded(source)]
    for output in outputs:
        argv += ["-map", f"0:{output.index}"]
        if output.bitrate is None:
            argv += ["-c:a", "copy", "-output_ts_offset", f"{-zero:.6f}"]
        else:
            argv += [*_aac(output), "-af", _in_step(zero, seconds)]
        argv += _sound_fragments(segment_seconds, output.fd)
    return [*argv, *PROGRESS]


def mixed_sound(
    program: str,
    inputs: Sequence[tuple[Path, int, float]],
    output: Sound,
    *,
    seconds: float | None,
    segment_seconds: float,
) -> list[str]:
    """The sound of several files at once; of each its stream and where it begins."""
    argv = [program, *QUIET, "-copyts"]
    for path, _, _ in inputs:
        argv += guarded(path)
    graph = _mix(inputs, seconds)
    argv += ["-filter_complex", ";".join(graph), "-map", "[mix]", *_aac(output)]
    return [*argv, *_sound_fragments(segment_seconds, output.fd), *PROGRESS]


def speech(
    program: str,
    inputs: Sequence[tuple[Path, int, float]],
    target: Path,
    *,
    rate: int,
    seconds: float | None,
) -> list[str]:
    """One channel of plain samples, in step with the picture; several inputs are mixed."""
    argv = [program, *QUIET, "-copyts"]
    for path, _, _ in inputs:
        argv += guarded(path)
    graph = ";".join(_mix(inputs, seconds, rate))
    argv += ["-filter_complex", graph, "-map", "[mix]"]
    return [*argv, "-ac", "1", "-ar", str(rate), "-y", "-f", "s16le", f"file:{target}"]


LEVELS = "4c|c0=c0|c1=c1|c2=0.5*c0+0.5*c1|c3=0.5*c0-0.5*c1"
STATS = (
    "astats=metadata=1:reset=1:measure_perchannel=RMS_level:measure_overall=none,"
    "ametadata=mode=print"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOutput:
    """One stream as one channel of plain samples: a mix, or (`channel`) one of its channels."""

    index: int
    channel: int | None
    target: Path


def speech_tracks(
    program: str,
    source: Path,
    outputs: Sequence[SpeechOutput],
    *,
    measured: Sequence[int],
    zero: float,
    rate: int,
    seconds: float | None,
) -> list[str]:
    """In step with the picture. Of the streams to be `measured`, which have two channels, the
    levels of left, right, mix and difference are written into the directory it runs in, twice a
    second."""
    argv = [program, *QUIET, "-copyts", *guarded(source), "-y"]
    step = _in_step(zero, seconds, rate)
    for each in outputs:
        only = "" if each.channel is None else f",pan=mono|c0=c{each.channel}"
        argv += ["-map", f"0:{each.index}", "-af", f"{step}{only}", "-ac", "1", "-ar", str(rate)]
        argv += ["-f", "s16le", f"file:{each.target}"]
    for index in measured:
        levels = f"pan={LEVELS},asetnsamples=n={rate // 2}:p=1,{STATS}:file={levels_file(index)}"
        argv += ["-map", f"0:{index}", "-af", f"{step},{levels}", "-f", "null", "-"]
    return argv


def levels_file(index: int) -> str:
    return f"levels-{index}.txt"


def _aac(output: Sound) -> list[str]:
    return ["-c:a", "aac", "-b:a", f"{output.bitrate}k", "-ac", str(min(2, output.channels))]


def _mix(
    inputs: Sequence[tuple[Path, int, float]], seconds: float | None, rate: int = SOUND_RATE
) -> list[str]:
    graph = [
        f"[{number}:{index}]{_in_step(zero, seconds, rate)}[m{number}]"
        for number, (_, index, zero) in enumerate(inputs)
    ]
    labels = "".join(f"[m{number}]" for number in range(len(inputs)))
    graph.append(f"{labels}amix=inputs={len(inputs)}:duration=longest:normalize=0[mix]")
    return graph


def _sound_fragments(segment_seconds: float, fd: int) -> list[str]:
    return [
        *EXACT,
        *("-flags:a", "+bitexact"),
        # What an encoder puts before the first sample would begin before the picture.
        *("-bsf:a", "noise=drop=lt(pts\\,0)"),
        *("-avoid_negative_ts", "disabled", "-f", "mp4", "-movflags", SOUND_FRAGMENTS),
        *("-frag_duration", str(round(segment_seconds * 1_000_000)), f"pipe:{fd}"),
    ]


def _in_step(zero: float, seconds: float | None, rate: int = SOUND_RATE) -> str:
    cut = f",atrim=end={seconds:.6f}" if seconds is not None else ""
    # Filled and cut only: to stretch, libswresample would begin again at `first_pts`.
    mend = f"async=1:min_hard_comp={OUT_OF_STEP_SECONDS}:first_pts=0"
    return f"asetpts=PTS-({zero:.6f})/TB,aresample={rate}:{mend}{cut}"


def packets(program: str, source: Path, index: int) -> list[str]:
    return [
        *(program, "-v", "error", "-select_streams", str(index)),
        *("-show_entries", "packet=pts,dts,flags", "-of", "csv=p=0", *guarded(source)),
    ]


def sound_ends(program: str, source: Path, *, after: float | None) -> list[str]:
    """When packets of sound begin and how long they are, from second `after` of the source on."""
    part = () if after is None else ("-read_intervals", f"{after:.3f}%")
    return [
        *(program, "-v", "error", "-select_streams", "a", *part),
        *("-show_entries", "packet=stream_index,pts_time,duration_time", "-of", "csv=p=0"),
        *guarded(source),
    ]


def subtitles(program: str, source: Path, indexes: Mapping[int, int]) -> list[str]:
    """Streams of text as WebVTT, by number, into the directory it runs in."""
    argv = [program, *QUIET, "-y", "-copyts", *guarded(source)]
    for number, index in indexes.items():
        argv += ["-map", f"0:{index}", "-c:s", "webvtt", "-avoid_negative_ts", "disabled"]
        argv += ["-f", "webvtt", f"file:subtitles-{number}.vtt"]
    return [*argv, *PROGRESS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportInput:
    """Segments in one file; `skip`: how many seconds of them come before what is wanted."""

    path: Path
    skip: float = 0.0


EXPORTED_PICTURE = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-profile:v", "high")
EXPORTED_SOUND = {
    None: ("-c:a", "copy"),
    "aac": ("-c:a", "aac", "-b:a", "160k", "-ac", "2"),
    "mp3": ("-c:a", "libmp3lame", "-q:a", "2"),
}
# White with a dark edge, as wide as television has it; fonts are those of the machine.
CAPTION_STYLE = "Fontname=sans-serif,Fontsize=18,Outline=1.2,Shadow=0,MarginV=24"


def export(
    program: str,
    target: Path,
    *,
    picture: ExportInput | None,
    sound: ExportInput | None,
    seconds: float | None,
    encodes_picture: bool,
    encodes_sound: str | None,
    captions: str | None,
) -> list[str]:
    """Picture, sound or both in one file, so long. What is copied begins with a key frame, and the
    file says from where on it is to be shown. `captions`: a file in the directory it runs in, of a
    name that needs no quoting."""
    argv = [program, *QUIET]
    for each in (picture, sound):
        if each is not None:
            argv += [*(["-ss", f"{each.skip:.6f}"] if each.skip else []), *guarded(each.path)]
    if picture is not None:
        drawn = f"subtitles=filename={captions}:force_style='{CAPTION_STYLE}'," if captions else ""
        encode = ["-vf", f"{drawn}format=yuv420p", *EXPORTED_PICTURE]
        argv += ["-map", "0:v:0", *(encode if encodes_picture else ["-c:v", "copy"])]
    if sound is not None:
        argv += ["-map", f"{int(picture is not None)}:a:0", *EXPORTED_SOUND[encodes_sound]]
    if seconds is not None:
        argv += ["-t", f"{seconds:.6f}"]
    kind = ["-f", "mp3"] if target.suffix == ".mp3" else ["-f", "mp4", "-movflags", "+faststart"]
    return [*argv, *EXACT[:4], *kind, "-y", f"file:{target}", *PROGRESS]


def begin_of(program: str, path: Path) -> list[str]:
    """With ffprobe: the second that a file begins at."""
    shown = ("-show_entries", "format=start_time", "-of", "default=noprint_wrappers=1:nokey=1")
    return [program, "-v", "error", *shown, *guarded(path)]


def normalize(program: str, source: Path, target: Path, *, again: bool) -> list[str]:
    """A copy with times that go on, for sources whose own jump. `again`: decoded and encoded, for
    those that have none, as only a decoder knows the order of their frames."""
    # What was held back to be reordered makes such a picture begin late.
    nearly_lossless = (
        *("-vf", "setpts=PTS-STARTPTS", "-c:v", "libx264", "-preset", "ultrafast"),
        *("-crf", "10", "-bf", "0"),
    )
    guess = () if again else ("-fflags", "+genpts")
    return [
        *(program, *QUIET, *guess, *guarded(source), "-map", "0:V?", "-map", "0:a?"),
        *("-c", "copy", *(nearly_lossless if again else ())),
        *("-fps_mode", "vfr", "-enc_time_base", f"1:{TICKS}", "-y", "-f", "matroska"),
        f"file:{target}",
    ]


# A seek ends at a key frame. A decoder that need not look at what comes after gives it at once: of
# 1080p a fifth of the work.
KEYS_ONLY = ("-skip_frame", "nokey")


def small_frame(program: str, source: Path, index: int, side: int) -> list[str]:
    """The first frame, small and grey, to stdout."""
    return [program, *QUIET, *guarded(source), *_grey(index, side, 1)]


def picture_at(
    program: str,
    source: Path,
    index: int,
    time: float,
    size: tuple[int, int],
    *,
    hdr: bool,
    keys_only: bool = False,
    grey: tuple[int, int] | None = None,
) -> list[str]:
    """To stdout. `grey`: also small and grey, into a descriptor, with so many pixels a side."""
    tone = f"{TONE_MAP}," if hdr else ""
    shape = f"{tone}scale={size[0]}:{size[1]},setsar=1,format=yuvj420p"
    # Covers are lost by seeking.
    seek = ("-ss", f"{time:.3f}", "-noaccurate_seek") if time > 0 else ()
    return [
        *(program, *QUIET, *(KEYS_ONLY if keys_only else ()), *seek, *guarded(source)),
        *("-map", f"0:{index}", "-frames:v", "1", "-vf", shape, *EXACT),
        *("-c:v", "mjpeg", "-q:v", "3", "-f", "mjpeg", "pipe:1"),
        *(_grey(index, grey[1], grey[0]) if grey else ()),
    ]


def _grey(index: int, side: int, fd: int) -> list[str]:
    return [
        *("-map", f"0:{index}", "-frames:v", "1"),
        *("-vf", f"scale={side}:{side},format=gray", "-f", "rawvideo", f"pipe:{fd}"),
    ]


def storyboard(
    program: str,
    source: Path,
    index: int,
    *,
    zero: float,
    interval: float,
    size: tuple[int, int],
    columns: int,
    rows: int,
    count: int,
    keys_only: bool,
    hdr: bool,
) -> list[str]:
    """Sheets into the directory it runs in."""
    skip = KEYS_ONLY if keys_only else ()
    tone = f"{TONE_MAP}," if hdr else ""
    shape = (
        f"setpts=PTS-({zero:.6f})/TB,fps=1/{interval:.6f}:start_time=0:round=down:"
        # What is shown while there is only sound is its last frame.
        f"eof_action=pass,tpad=stop=-1:stop_mode=clone,trim=end_frame={count},"
        f"scale={size[0]}:{size[1]},{tone}setsar=1,"
        f"tile={columns}x{rows},format=yuvj420p"
    )
    return [
        *(program, *QUIET, *skip, "-copyts", *guarded(source), "-map", f"0:{index}"),
        *("-vf", shape, *EXACT, "-c:v", "mjpeg", "-q:v", "5", "-fps_mode", "passthrough"),
        *("-f", "image2", "-start_number", "0", "file:storyboard-%d.jpg", *PROGRESS),
    ]


def samples(
    program: str, source: Path, index: int, rate: int, *, start: float, seconds: float
) -> list[str]:
    """The sound as 16 bit numbers to stdout, one channel."""
    return [
        *(program, *QUIET, *guarded(source), "-map", f"0:{index}"),
        *("-ss", f"{start:.6f}", "-t", f"{seconds:.6f}"),
        *("-ac", "1", "-ar", str(rate), "-f", "s16le", "pipe:1"),
    ]


def decode_sound(program: str, source: Path, index: int) -> list[str]:
    """Fails when any of it cannot be decoded."""
    return [
        *(program, *QUIET, "-max_error_rate", "0", *guarded(source)),
        *("-map", f"0:{index}", "-f", "null", "-"),
    ]


def decode(program: str, source: Path) -> list[str]:
    """All tracks; fails when any of them cannot be decoded."""
    return [
        *(program, *QUIET, "-max_error_rate", "0", *guarded(source)),
        *("-map", "0:v?", "-map", "0:a?", "-f", "null", "-"),
    ]


def wave_picture(
    program: str, source: Path, index: int, *, start: float, seconds: float
) -> list[str]:
    cut = f"atrim=start={start:.6f}:duration={seconds:.6f}"
    shape = (
        f"{cut},aformat=channel_layouts=mono,showwavespic=s=1280x360:colors=#ff9e5e,format=yuvj420p"
    )
    return [
        *(program, *QUIET, *guarded(source), "-filter_complex", f"[0:{index}]{shape}"),
        *("-frames:v", "1", *EXACT, "-c:v", "mjpeg", "-q:v", "3", "-f", "mjpeg", "pipe:1"),
    ]


def test_encode(program: str, encode: Sequence[str], tail: str, device: Sequence[str]) -> list[str]:
    """Not tiny: some devices refuse small frames."""
    return [
        *(program, *QUIET, *device, "-f", "lavfi", "-i", "color=black:s=256x256:r=25:d=0.2"),
        *("-vf", tail, *encode, "-f", "null", "-"),
    ]


def _seek(cut: Cut) -> list[str]:
    if cut.key_pts is None or cut.from_the_start:
        return []
    at = float(cut.key_pts * cut.time_base)
    return ["-seek_timestamp", "1", "-ss", f"{at:.6f}", "-noaccurate_seek"]


def _seek_overlay(cut: Cut, overlay: OverlayInput) -> list[str]:
    at = overlay.begin + float((cut.start_pts - cut.zero_pts) * cut.time_base)
    return ["-ss", f"{at:.6f}", "-noaccurate_seek"] if at > 0 else []


def _held(cut: Cut) -> list[str]:
    """Shows the last frame again, at the times that the timeline says, if this cut needs it."""
    hold = cut.hold
    if hold is None or cut.stop_pts <= hold.first_pts:
        return []
    length = hold.stop_pts - hold.first_pts
    again = f"{hold.first_pts}+floor((st(0,ld(0)+1)-1)*{length}/{hold.count})"
    return [
        f"trim=start_pts={min(cut.start_pts, hold.last_pts)}",
        f"tpad=stop={hold.count}:stop_mode=clone",
        f"setpts='if(gt(PTS,{hold.last_pts}),{again},PTS)'",
    ]


def _trimmed(cut: Cut) -> list[str]:
    if cut.rate is None:
        whole = f"trim=start_pts={cut.start_pts}:end_pts={cut.stop_pts}"
        return [*_held(cut), whole, f"setpts=PTS-({cut.zero_pts})"]
    start, stop = (cut.seconds(pts) - cut.margin_seconds for pts in (cut.start_pts, cut.stop_pts))
    zero = cut.seconds(cut.zero_pts)
    return [
        *_held(cut),
        f"fps={cut.rate:.0f}",
        f"trim=start={start:.6f}:end={stop:.6f}",
        f"setpts=PTS-round(({zero:.6f})/TB)",
    ]


def _graph(
    index: int,
    cut: Cut,
    outputs: Sequence[VideoOutput],
    prepare: Sequence[str],
    overlay: OverlayInput | None,
) -> str:
    chain = ",".join([*_trimmed(cut), *prepare])
    labels = "".join(f"[s{number}]" for number in range(len(outputs)))
    split = f"split={len(outputs)}{labels}"
    if overlay is None:
        graph = [f"[0:{index}]{chain},{split}"]
    else:
        under = f"[0:{index}]{chain}[under]"
        own = ",".join([f"setpts=PTS-({overlay.zero:.6f})/TB", *overlay.prepare])
        shape = f"[1:{overlay.index}]{own}[raw]"
        # Here iw is the width of the picture below, and main_dar the shape of the one on top.
        size = f"w=max(2\\,trunc(iw*{overlay.size:.4f}/2)*2):h=max(2\\,trunc(ow/main_dar/2)*2)"
        lay = f"[base][over]overlay=x='{overlay.x}':y='{overlay.y}':eof_action=pass,{split}"
        graph = [under, shape, f"[raw][under]scale2ref={size}[over][base]", lay]
    graph += [
        f"[s{number}]scale={output.width}:{output.height}:flags=bicubic,setsar=1,{output.tail}"
        f"[v{number}]"
        for number, output in enumerate(outputs)
    ]
    return ";".join(graph)
