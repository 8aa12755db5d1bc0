"""What the log of a job tells people: what was found, what is made of it, how long it took. Pure.

Few lines, in words, and nothing of a tool's own output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rushes.engines.engine import DEFAULT_SPEAKERS
from rushes.protocol import Rendition
from rushes.records import JsonObject
from rushes.tools.probe import AudioStream, Probe, VideoStream

MOST_TRACKS = 4


def length(seconds: float) -> str:
    """9.4 s, 12 min 3 s, 1 h 2 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def took(spent: float, seconds: float) -> str:
    """With the pace, where it is one."""
    pace = seconds / spent if spent > 0.5 else 0.0
    return length(spent) + (f", {pace:.1f} times real time" if pace else "")


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# Encoding


def found(source: Probe, video: VideoStream | None) -> list[str]:
    """The file as it was uploaded; `video` with the frame rate that was measured."""
    facts = ["/".join(source.container.split(",")[:2])]
    facts += [length(source.duration)] if source.duration else []
    facts += [f"{source.bit_rate / 1e6:.1f} Mbit/s"] if source.bit_rate else []
    lines = [f"source: {', '.join(facts)}"]
    lines += [f"picture: {_picture(video)}"] if video else []
    lines += [f"sound: {_sound(each)}" for each in source.audios[:MOST_TRACKS]]
    if (more := len(source.audios) - MOST_TRACKS) > 0:
        lines.append(f"sound: {count(more, 'more track')}")
    extras = [(len(source.subtitles), "subtitle track"), (len(source.chapters), "chapter")]
    if told := [count(number, noun) for number, noun in extras if number]:
        lines.append(f"also in it: {', '.join(told)}")
    return lines


def _picture(video: VideoStream) -> str:
    width, height = video.shown
    rate = f"{video.frame_rate:.2f}".rstrip("0").rstrip(".")
    facts = [video.codec, f"{width} × {height}", f"{rate} frames a second"]
    marks = {
        "variable frame rate": video.variable,
        "interlaced": video.interlaced,
        "HDR": video.hdr,
        f"rotated by {video.rotation}°": bool(video.rotation),
    }
    return ", ".join([*facts, *(name for name, has in marks.items() if has)])


def _sound(audio: AudioStream) -> str:
    facts = [audio.codec, count(audio.channels, "channel"), f"{audio.sample_rate / 1000:g} kHz"]
    return ", ".join([*facts, *([audio.language] if audio.language else [])])


def edits(edit: JsonObject) -> list[str]:
    start, end = float(edit.get("start") or 0.0), edit.get("end")
    said = []
    if start or end is not None:
        until = "the end" if end is None else length(float(end))
        said.append(f"cut: from {length(start)} to {until}")
    if edit.get("overlay"):
        said.append("with another video laid over it")
    return said


def ladder(rungs: Iterable[Rendition], kept: Iterable[str]) -> str:
    """What is encoded by what, and what is not."""
    rungs, kept = list(rungs), set(kept)
    made = [each for each in rungs if each.encoder and each.name not in kept]
    names = sorted({each.encoder for each in made if each.encoder})
    said = [f"encoding {_names(each.name for each in made)} with {', '.join(names)}"]
    if skipped := [each.name for each in rungs if each.status == "skipped"]:
        said.append(f"not made: {_names(skipped)}")
    if taken := [each.name for each in rungs if each.name in kept]:
        said.append(f"kept from the version before: {_names(taken)}")
    return "; ".join(said)


def sounds(copied: Sequence[str], encoded: Sequence[str], bitrate: int) -> str:
    said = [f"copying {_names(copied)} as it is"] if copied else []
    said += [f"encoding {_names(encoded)} with aac at {bitrate} kbit/s"] if encoded else []
    return "; ".join(said)


def made(result: JsonObject, spent: float) -> str:
    """`result`: of a job that encodes."""
    seconds = float(result["duration"])
    what = _names(result["renditions"]) or "nothing"
    return f"done: {what}, {length(seconds)}; this attempt took {took(spent, seconds)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


# Transcribing


def engine(provider: str, device: str, model: str, *, language: str | None, task: str) -> str:
    asked = f"language {language}" if language else "language to be detected"
    into = ", translated into English" if task == "translate" else ""
    return f"engine {provider} on {device}, model {model}; {asked}{into}"


def listening(feeds: Sequence[object], tracks: int, seconds: float) -> str:
    to = " and ".join(map(str, feeds))
    return f"listening to {to} of {count(tracks, 'track')} of sound, {length(seconds)}"


def heard(windows: int, spoken: Mapping[str, float], spent: float, seconds: float) -> str:
    """`spoken`: how long each language was."""
    ranked = sorted(spoken, key=lambda name: -spoken[name])
    what = ", ".join(f"{name} ({length(spoken[name])})" for name in ranked) or "no speech"
    return f"heard {count(windows, 'window')}: {what}; it took {took(spent, seconds)}"


def told_apart(speakers: int, spent: float) -> str:
    who = count(speakers, "speaker")
    return f"told {who} apart with {DEFAULT_SPEAKERS}; it took {length(spent)}"
