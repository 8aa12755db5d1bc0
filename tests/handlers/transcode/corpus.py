"""Recordings as people have them, each with something that breaks players or clocks, and what a
viewer has to see and hear of it. All of them flash and beep at known seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from handlers.transcode import joining
from handlers.transcode.clips import AAC, Clips, Recipe, copied, during, recipe

SECONDS = 11.0
# In different segments; a multiple of the frames of 5, 10, 25, 30 and 50 a second.
FLASHES = (1.4, 4.6, 9.2)
SLOW_FLASHES = (1.0, 5.0, 9.0)
SLIDES, SLIDE_FLASHES = 80.0, (10.0, 40.0, 60.0)
TRIMMED = 3.3
LATE = 2.4

X264 = "-c:v libx264 -preset veryfast -bf 2 -sc_threshold 0 -pix_fmt yuv420p"
# What the presets for screens and live pictures do: no frame is reordered.
QUICK = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"
EACH_SECOND = "-g 25"
ONE_GROUP = "-g 9999"
# As they can be joined by hand; sound of AAC would begin a little late each time.
PLAIN_BOXES = "-c:a pcm_s16le -use_editlist 0"
VP8 = "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 400k"


def picture(
    rate: str = "25",
    seconds: float = SECONDS,
    *,
    flashes: Sequence[float] = FLASHES,
    size: str = "320x180",
    more: str = "",
) -> list[str]:
    """Dark and moving, with bright flashes."""
    steps = [
        f"testsrc2=s={size}:r={rate}:d={seconds}",
        "lutyuv=y=val/3",
        f"drawbox=t=fill:c=white:enable='{during(flashes)}'" if flashes else "",
        more,
    ]
    return ["-f", "lavfi", "-i", ",".join(filter(None, steps))]


def sound(
    seconds: float = SECONDS,
    *,
    beeps: Sequence[float] = FLASHES,
    tone: int = 1000,
    more: str = "",
) -> list[str]:
    graph = f"aevalsrc='0.8*sin(2*PI*{tone}*t)*({during(beeps)})':s=48000:d={seconds}"
    return ["-f", "lavfi", "-i", f"{graph},{more}" if more else graph]


def pausing(moving: str) -> str:
    """Frames are left out, but never the first, nor those that begin and end a flash."""
    kept = "+".join(f"between(t,{at - 0.001},{at + 0.16})" for at in FLASHES)
    return f"select='eq(n,0)+{kept}+{moving}'"


@dataclass(frozen=True)
class Recording:
    """`seconds`, `flashes` and `beeps` are those of what is made. `pace`: frames made of each of
    the source. `sounds` and `subtitles` are languages in the order of the source."""

    recipe: Recipe
    seconds: float = SECONDS
    flashes: Sequence[float] = FLASHES
    beeps: Sequence[float] = FLASHES
    sounds: Sequence[str] = ("und",)
    default: int = 0
    subtitles: Sequence[str] = ()
    pace: int = 1
    # How much the length may differ: a container may not tell how long its last frame is shown.
    within: float = 0.041
    # A moment after a flash has begun at which it is still seen. Of frames that are reordered
    # Chromium may show the one before, as long as it does not play.
    glimpse: float = 0.07
    always: bool = False
    is_video: bool = field(default=True)


def _joined(*names: str) -> Recipe:
    return lambda clips: [
        *("-i", "concat:" + "|".join(str(clips[name]) for name in names), "-c", "copy"),
    ]  # fmt: skip


LANGUAGES = (
    "-metadata:s:a:0 language=eng -metadata:s:a:1 language=deu -metadata:s:a:2 language=fra"
    " -disposition:a:0 0 -disposition:a:1 default -disposition:a:2 0"
)
# What is said whenever it flashes, in the order of RECORDINGS["subtitled.mkv"].
WORDS = (("deu", "Licht"), ("eng", "Light"))


def _subtitled(clips: Clips) -> list[str]:
    inputs, about = [], []
    for number, (language, word) in enumerate(WORDS):
        cues = "".join(
            f"{n}\n00:00:0{at:.3f} --> 00:00:0{at + 0.5:.3f}\n{word} {n}\n\n".replace(".", ",")
            for n, at in enumerate(FLASHES, 1)
        )
        inputs += ["-i", clips.text(f".{language}.srt", cues)]
        about += ["-map", str(number + 2), f"-metadata:s:s:{number}", f"language={language}"]
    steps = [X264, EACH_SECOND, AAC, "-c:s srt -map 0 -map 1"]
    return [*picture(), *sound(), *inputs, *" ".join(steps).split(), *about]


FIRST_PART, SECOND_PART = 6.0, 5.0
# Made for others, and the one that is wrong on purpose: its picture is a tenth of a second late.
PARTS: dict[str, Recipe] = {
    "wrong.mp4": recipe(
        picture(flashes=[each + 0.1 for each in FLASHES], rate="50"), sound(), X264, EACH_SECOND,
        AAC,
    ),
    "small.ts": recipe(
        picture(seconds=FIRST_PART, flashes=FLASHES[:2]), sound(FIRST_PART, beeps=FLASHES[:2]),
        QUICK, EACH_SECOND, AAC,
    ),
    "large.ts": recipe(
        picture(seconds=SECOND_PART, flashes=[FLASHES[2] - FIRST_PART], size="640x360"),
        sound(SECOND_PART, beeps=[FLASHES[2] - FIRST_PART]),
        QUICK, EACH_SECOND, AAC, f"-output_ts_offset {FIRST_PART}",
    ),
    "first.mov": recipe(
        picture(seconds=FIRST_PART, flashes=FLASHES[:2]), sound(FIRST_PART, beeps=FLASHES[:2]),
        QUICK, "-profile:v baseline", EACH_SECOND, PLAIN_BOXES,
    ),
    "second.mov": recipe(
        picture(seconds=SECOND_PART, flashes=[FLASHES[2] - FIRST_PART], size="640x360"),
        sound(SECOND_PART, beeps=[FLASHES[2] - FIRST_PART]),
        X264, "-bf 0", EACH_SECOND, PLAIN_BOXES,
    ),
}  # fmt: skip

LATE_TIMES = [each - LATE for each in FLASHES if each > LATE]
TRIMMED_TIMES = [each - TRIMMED for each in FLASHES if each > TRIMMED]

RECORDINGS: dict[str, Recording] = {
    "steady.mp4": Recording(recipe(picture(), sound(), X264, EACH_SECOND, AAC), always=True),
    "screen.mp4": Recording(
        recipe(
            picture("30", more=pausing("lt(mod(t,5),1.5)+lt(random(3),0.05)")), sound(),
            "-fps_mode vfr", QUICK, AAC,
        ),
        always=True,
    ),
    "screen-reordered.mkv": Recording(
        recipe(
            picture("30", more=pausing("lt(mod(t,5),1.5)+lt(random(3),0.05)")), sound(),
            "-fps_mode vfr", X264, AAC,
        ),
    ),
    "call.webm": Recording(
        recipe(
            # Frames are missing anywhere, and always before a segment begins.
            picture("30", more=pausing("gt(random(5),0.25)*lt(mod(t,4),3.7)")), sound(),
            "-fps_mode vfr", VP8, "-c:a libopus",
        ),
        always=True,
    ),
    "drawing.ogv": Recording(
        recipe(
            # Frames that are like the one before are left out: the white ones.
            picture(), sound(), "-c:v libtheora -b:v 500k -c:a libvorbis",
        ),
        glimpse=0.03,
    ),
    "trimmed.mp4": Recording(
        copied("one-group.mp4", f"-ss {TRIMMED}"),
        seconds=SECONDS - TRIMMED, flashes=TRIMMED_TIMES, beeps=TRIMMED_TIMES, within=0.1,
        always=True,
    ),
    "open-gop.mp4": Recording(
        recipe(picture(), sound(), X264, "-x264-params open-gop=1:keyint=50:bframes=3", AAC),
        always=True,
    ),
    "one-a-second.mp4": Recording(
        recipe(
            picture("1", flashes=SLOW_FLASHES), sound(beeps=SLOW_FLASHES), X264, AAC,
        ),
        flashes=SLOW_FLASHES, beeps=SLOW_FLASHES, always=True,
    ),
    "time-lapse.mp4": Recording(
        recipe(picture("1", 14, flashes=SLOW_FLASHES), X264),
        seconds=14, flashes=SLOW_FLASHES, beeps=(), sounds=(), always=True,
    ),
    "slides.mp4": Recording(
        recipe(
            picture("1/10", SLIDES, flashes=SLIDE_FLASHES),
            sound(SLIDES, beeps=SLIDE_FLASHES), X264, AAC,
        ),
        seconds=SLIDES, flashes=SLIDE_FLASHES, beeps=SLIDE_FLASHES,
    ),
    "late-picture.mp4": Recording(
        recipe(
            f"-itsoffset {LATE}", picture(more=f"trim=start={LATE},setpts=PTS-STARTPTS"), sound(),
            "-fps_mode passthrough", X264, AAC,
        ),
        seconds=SECONDS - LATE, flashes=LATE_TIMES, beeps=LATE_TIMES,
    ),
    "late-sound.mp4": Recording(
        recipe(
            picture(), f"-itsoffset {LATE}", sound(more=f"atrim=start={LATE},asetpts=PTS-STARTPTS"),
            X264, EACH_SECOND, AAC,
        ),
        beeps=FLASHES[1:], always=True,
    ),
    # Its sound begins a packet before its picture, too.
    "after-an-hour.mkv": Recording(
        recipe(picture(), sound(), X264, EACH_SECOND, AAC, "-output_ts_offset 3600"),
        always=True,
    ),
    "after-an-hour.ts": Recording(
        recipe(picture(), sound(), X264, EACH_SECOND, AAC, "-output_ts_offset 3600"),
    ),
    "stream.ts": Recording(recipe(picture(), sound(), X264, EACH_SECOND, AAC)),
    "long-sound.mp4": Recording(
        recipe(picture(seconds=3, flashes=FLASHES[:1]), sound(), X264, AAC),
        flashes=FLASHES[:1], always=True,
    ),
    "long-picture.mp4": Recording(
        recipe(picture(), sound(5), X264, EACH_SECOND, AAC), beeps=FLASHES[:2],
    ),
    "cover-and-sound.mp4": Recording(
        recipe(picture(seconds=0.04, flashes=()), sound(), X264, AAC), flashes=(),
    ),
    "interlaced.mkv": Recording(
        recipe(
            picture("50", more="tinterlace=interleave_top,setfield=tff"), sound(),
            QUICK, "-flags +ildct+ilme -x264-params tff=1", AAC,
        ),
        pace=2,
    ),
    "sport.mp4": Recording(recipe(picture("60000/1001"), sound(), X264, AAC)),
    "rotated.mp4": Recording(copied("steady.mp4", "-display_rotation 90")),
    "one-group.mp4": Recording(recipe(picture(), sound(), X264, ONE_GROUP, AAC)),
    "changing-size.ts": Recording(_joined("small.ts", "large.ts"), within=0.1),
    "three-languages.mkv": Recording(
        recipe(
            picture(), sound(), sound(tone=500), sound(tone=2000), X264, EACH_SECOND, AAC,
            "-map 0 -map 1 -map 2 -map 3", LANGUAGES,
        ),
        sounds=("en", "de", "fr"), default=1,
    ),
    "radio-play.m4a": Recording(
        recipe(sound(), sound(tone=500), sound(tone=2000), AAC, "-map 0 -map 1 -map 2", LANGUAGES),
        flashes=(), sounds=("en", "de", "fr"), default=1, is_video=False,
    ),
    "subtitled.mkv": Recording(_subtitled, subtitles=("de", "en")),
    "two-descriptions.mov": Recording(
        lambda clips: joining.joined(clips["first.mov"], clips["second.mov"]), always=True,
    ),
}  # fmt: skip

ALWAYS = [name for name, each in RECORDINGS.items() if each.always]


class Corpus(Clips):
    def __init__(self, folder: Path) -> None:
        recipes = {name: each.recipe for name, each in RECORDINGS.items()}
        super().__init__(folder, {**recipes, **PARTS})
