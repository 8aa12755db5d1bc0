"""The sound of a version: encoded once, or kept as it is, each track a rendition of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rushes.handlers.board import Row
from rushes.handlers.making import Aside, Desk, Track, explained, run_tracks
from rushes.handlers.reading import LIMITS, Source
from rushes.tools import ffmpeg, process, programs
from rushes.tools.ladder import audio_names
from rushes.tools.probe import AudioStream, Probe, probe

COPIED_RATES = (44_100, 48_000)
# Sound that begins this close to the picture needs no mending.
# Less of it is a frame of a codec, and nobody hears it.
HEARD_SECONDS = 0.1
IN_STEP_SECONDS = 0.025
SMALLER = 64

Command = Callable[[Sequence[int]], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """`bitrate` None keeps it as it is."""

    name: str
    audio: AudioStream
    bitrate: int | None


def start(desk: Desk, aside: Aside, source: Source) -> None:
    """Beside the picture; `aside` ends when both are whole."""
    found, zero = source.found, source.zero
    seconds = source.timeline().seconds if desk.edit else None
    wish = desk.overlay.get("sound", "main")
    if desk.overlay and (wish != "main" or not found.audios):
        other = desk.job.source(str(desk.overlay["media_id"]))
        mix = _mixed(desk, found, source.path, zero, other, keep=wish == "both")
        if mix:
            names = audio_names([mix[0][1]])
            _list(desk, names[0], mix[0][1], found.duration, default=True)
            command = _mix_command(desk, [(p, a.index, z) for p, a, z in mix], seconds)
            aside.start(lambda: _make(desk, command, names, aside.watch))
        return
    plans = [
        Plan(name, audio, None if _fits(desk, name, audio, source) else desk.profile.audio_bitrate)
        for name, audio in zip(audio_names(found.audios), found.audios, strict=True)
    ]
    for plan in plans:
        default = plan.audio is found.default_audio
        _list(desk, plan.name, plan.audio, found.duration, default=default)
    if plans:
        path = source.path
        _tell_of_what_is_before(desk, [plan.audio for plan in plans], zero)
        aside.start(lambda: _make_plans(desk, path, plans, zero, seconds, aside.watch))


def _tell_of_what_is_before(desk: Desk, audios: Sequence[AudioStream], zero: float) -> None:
    """The result begins with the picture."""
    begins = [each.start_seconds for each in audios if each.start_seconds is not None]
    early = zero - min(begins, default=zero)
    if early > HEARD_SECONDS and not desk.begin:
        sentence = f"{early:.1f} s of sound before the picture begins are left out"
        desk.warn("sound_before_picture", sentence)


def _make_plans(
    desk: Desk,
    path: Path,
    plans: Sequence[Plan],
    zero: float,
    seconds: float | None,
    watch: process.Watch,
) -> None:
    """What was kept and turns out to be damaged is encoded instead: players stop at such sound."""
    command = _command(desk, path, plans, zero, seconds)
    _make(desk, command, [plan.name for plan in plans], watch)
    damaged = [
        replace(plan, bitrate=desk.profile.audio_bitrate)
        for plan in plans
        if plan.bitrate is None and not _is_intact(path, plan.audio, watch)
    ]
    if damaged:
        desk.shelf.discard(tuple(f"{plan.name}/" for plan in damaged))
        for plan in damaged:
            desk.board.note(f"encoded {plan.name}", True)
            desk.board.row(plan.name).done = 0
        command = _command(desk, path, damaged, zero, seconds)
        _make(desk, command, [plan.name for plan in damaged], watch)


def _is_intact(path: Path, audio: AudioStream, watch: process.Watch) -> bool:
    argv = ffmpeg.decode_sound(programs.ffmpeg(), path, audio.index)
    try:
        process.run(argv, limits=LIMITS, watch=watch)
    except process.ToolFailed:
        return False
    return True


def make_alone(desk: Desk, source: Source) -> float:
    """For media without a picture; answers how many seconds there are."""
    audios = source.found.audios
    end = desk.edit.get("end")
    seconds = None if end is None else float(end) - desk.begin
    expected = seconds or max(0.1, (source.found.duration or 0.0) - desk.begin)
    best = desk.profile.audio_bitrate
    plans = []
    for rate in [best, SMALLER] if best > SMALLER else [best]:
        for track, (name, audio) in enumerate(zip(audio_names(audios), audios, strict=True)):
            plans.append(Plan(f"{name}-{rate}k", audio, rate))
            default = audio is source.found.default_audio
            _list(desk, plans[-1].name, audio, expected, default=default)
            title = desk.board.sounds[f"{name}-{best}k"].more["title"]
            group = {"group": f"audio-{rate}k", "track": track, "title": title}
            desk.board.sounds[plans[-1].name].more |= group
    desk.board.expect(expected)
    zero = begin(source.found) + desk.begin
    command = _command(desk, source.path, plans, zero, seconds)
    names = [plan.name for plan in plans]
    _make(desk, command, names, desk.board.watch, desk.board.reached)
    return max(sum(desk.seconds_of(name)) for name in names)


def begin(found: Probe) -> float:
    """When a file's own time begins."""
    if found.video is not None:
        return float(found.video.start_pts * found.video.time_base)
    return (found.audios[0].start_seconds or 0.0) if found.audios else 0.0


def _fits(desk: Desk, name: str, audio: AudioStream, source: Source) -> bool:
    """Whether browsers play it as it is, in step with the picture."""
    begins = audio.start_seconds
    return (
        not (desk.edit or source.changes)
        and f"encoded {name}" not in desk.board.notes
        and audio.codec == "aac"
        and audio.profile == "LC"
        and audio.has_header
        and audio.channels <= 2
        and audio.sample_rate in COPIED_RATES
        and begins is not None
        # A fragment cannot say that it begins before the beginning.
        and 0 <= begins - source.zero <= IN_STEP_SECONDS
    )


def _list(
    desk: Desk, name: str, audio: AudioStream, seconds: float | None, *, default: bool
) -> None:
    taken = [row.more.get("title") for row in desk.board.sounds.values()]
    title = audio.title or audio.language or "Audio"
    row = Row(name)
    row.total = int((seconds or 0.0) / desk.profile.segment_seconds) + 1
    row.more = {
        "title": f"{title} {len(taken) + 1}" if title in taken else title,
        "language": audio.language,
        "default": default,
        "group": "",
        "track": 0,
        "channels": min(2, audio.channels),
        "bandwidth": desk.profile.audio_bitrate * 1000,
        # Until its header is there; both that are made have this one.
        "codecs": "mp4a.40.2",
    }
    desk.board.sounds[name] = row


def _command(
    desk: Desk, path: Path, plans: Sequence[Plan], zero: float, seconds: float | None
) -> Command:
    def command(fds: Sequence[int]) -> list[str]:
        wanted = [plan for plan in plans if not desk.is_finished(plan.name)]
        outputs = [
            ffmpeg.Sound(
                index=plan.audio.index,
                bitrate=plan.bitrate,
                channels=plan.audio.channels,
                fd=fd,
            )
            for plan, fd in zip(wanted, fds, strict=True)
        ]
        return ffmpeg.sound(
            programs.ffmpeg(),
            path,
            outputs,
            zero=zero,
            seconds=seconds,
            segment_seconds=desk.profile.segment_seconds,
        )

    return command


def _mix_command(
    desk: Desk, inputs: Sequence[tuple[Path, int, float]], seconds: float | None
) -> Command:
    return lambda fds: ffmpeg.mixed_sound(
        programs.ffmpeg(),
        inputs,
        ffmpeg.Sound(index=0, bitrate=desk.profile.audio_bitrate, channels=2, fd=fds[0]),
        seconds=seconds,
        segment_seconds=desk.profile.segment_seconds,
    )


def _mixed(
    desk: Desk, found: Probe, path: Path, zero: float, other: Path, *, keep: bool
) -> list[tuple[Path, AudioStream, float]]:
    """The overlay's sound, with the main one's if both are wished or it has none."""
    second = probe(other, desk.board.watch)
    mix = []
    if second.default_audio is not None:
        mix.append((other, second.default_audio, begin(second) + desk.begin))
    if found.default_audio is not None and (keep or not mix):
        mix.insert(0, (path, found.default_audio, zero))
    return mix


def _make(
    desk: Desk,
    command: Command,
    names: Sequence[str],
    watch: process.Watch,
    progress: Callable[[float], None] = lambda seconds: None,
) -> None:
    """All in one process. What was finished before is not made again. On the last attempt, sound
    that cannot be read does not keep the picture from being watched."""
    tracks = [Track(desk, name) for name in names if not desk.is_finished(name)]
    if tracks:
        try:
            with explained(desk.job, "encoding the sound"):
                run_tracks(desk, command, tracks, watch=watch, progress=progress)
        except process.ToolFailed:
            if desk.job.attempt < desk.job.max_attempts:
                raise
            desk.warn("sound_unreadable", "the sound could not be read to its end")
        desk.shelf.flush()
    for name in names:
        if desk.seconds_of(name):
            desk.finish(name)
        else:
            desk.board.row(name).status = "failed"
