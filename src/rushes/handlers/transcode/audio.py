"""The sound of a version: encoded once, or kept as it is, each track a rendition of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rushes.handlers import job_log
from rushes.handlers.transcode.segments import Background, Track, Workspace, explained, run_tracks
from rushes.handlers.transcode.source import LIMITS, Source
from rushes.protocol import Rendition
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


def start(workspace: Workspace, background: Background, source: Source) -> None:
    """Beside the picture; `background` ends when both are whole."""
    found, zero = source.found, source.zero
    seconds = source.timeline().seconds if workspace.edit else None
    if _keeps(workspace, source):
        return
    sound = workspace.overlay.get("sound", "main")
    if workspace.overlay and (sound != "main" or not found.audios):
        other = workspace.job.source(str(workspace.overlay["media_id"]))
        mix = _mixed(workspace, found, source.path, zero, other, keep=sound == "both")
        if mix:
            names = audio_names([mix[0][1]])
            _list(workspace, names[0], mix[0][1], found.duration, default=True)
            command = _mix_command(workspace, [(p, a.index, z) for p, a, z in mix], seconds)
            background.start(lambda: _make(workspace, command, names, background.watch))
        return
    plans = [
        Plan(
            name,
            audio,
            None if _fits(workspace, name, audio, source) else workspace.profile.audio_bitrate,
        )
        for name, audio in zip(audio_names(found.audios), found.audios, strict=True)
    ]
    for plan in plans:
        default = plan.audio is found.default_audio
        _list(workspace, plan.name, plan.audio, found.duration, default=default)
    if plans:
        path = source.path
        _tell_of_what_is_before(workspace, [plan.audio for plan in plans], zero)
        background.start(
            lambda: _make_plans(workspace, path, plans, zero, seconds, background.watch)
        )


def is_copied(workspace: Workspace, source: Source) -> bool:
    """Whether all of it may stay as it is."""
    audios = source.found.audios
    named = zip(audio_names(audios), audios, strict=True)
    return all(_fits(workspace, name, each, source) for name, each in named)


def _keeps(workspace: Workspace, source: Source) -> bool:
    """Whether the version before has the sound already."""
    sounds = [each for each in workspace.kept.values() if each.kind == "audio"]
    for each in sounds:
        workspace.progress.list(each)
    if sounds and not workspace.overlay:
        _tell_of_what_is_before(workspace, source.found.audios, source.zero)
    return bool(sounds)


def _tell_of_what_is_before(
    workspace: Workspace, audios: Sequence[AudioStream], zero: float
) -> None:
    """The result begins with the picture."""
    begins = [each.start_seconds for each in audios if each.start_seconds is not None]
    early = zero - min(begins, default=zero)
    if early > HEARD_SECONDS and not workspace.begin:
        sentence = f"{early:.1f} s of sound before the picture begins are left out"
        workspace.warn("sound_before_picture", sentence)


def _make_plans(
    workspace: Workspace,
    path: Path,
    plans: Sequence[Plan],
    zero: float,
    seconds: float | None,
    watch: process.Watch,
) -> None:
    """What was kept and turns out to be damaged is encoded instead: players stop at such sound."""
    command = _command(workspace, path, plans, zero, seconds)
    _tell_of(workspace, plans)
    _make(workspace, command, [plan.name for plan in plans], watch)
    damaged = [
        replace(plan, bitrate=workspace.profile.audio_bitrate)
        for plan in plans
        if plan.bitrate is None and not _is_intact(workspace, path, plan, watch)
    ]
    if damaged:
        workspace.artifacts.discard(tuple(f"{plan.name}/" for plan in damaged))
        for plan in damaged:
            workspace.progress.note(f"encoded {plan.name}", True)
            workspace.progress.change(plan.name, segments_completed=0)
        command = _command(workspace, path, damaged, zero, seconds)
        _tell_of(workspace, damaged)
        _make(workspace, command, [plan.name for plan in damaged], watch)


def _tell_of(workspace: Workspace, plans: Sequence[Plan]) -> None:
    copied = [plan.name for plan in plans if plan.bitrate is None]
    encoded = [plan.name for plan in plans if plan.bitrate is not None]
    workspace.job.log(job_log.sounds(copied, encoded, workspace.profile.audio_bitrate))


def _is_intact(workspace: Workspace, path: Path, plan: Plan, watch: process.Watch) -> bool:
    """Found out once, whichever attempt has done so."""
    noted = f"intact {plan.name}"
    if noted in workspace.progress.notes:
        return True
    argv = ffmpeg.decode_sound(programs.ffmpeg(), path, plan.audio.index)
    try:
        process.run(argv, limits=LIMITS, watch=watch)
    except process.ToolFailed:
        return False
    workspace.progress.note(noted, True)
    return True


def make_alone(workspace: Workspace, source: Source) -> float:
    """For media without a picture; returns how many seconds there are."""
    audios = source.found.audios
    end = workspace.edit.get("end")
    seconds = None if end is None else float(end) - workspace.begin
    expected = seconds or max(0.1, (source.found.duration or 0.0) - workspace.begin)
    best = workspace.profile.audio_bitrate
    plans = []
    for rate in [best, SMALLER] if best > SMALLER else [best]:
        for track, (name, audio) in enumerate(zip(audio_names(audios), audios, strict=True)):
            plans.append(Plan(f"{name}-{rate}k", audio, rate))
            default = audio is source.found.default_audio
            _list(workspace, plans[-1].name, audio, expected, default=default)
            title = workspace.progress.sounds[f"{name}-{best}k"].title
            workspace.progress.change(
                plans[-1].name, group=f"audio-{rate}k", track=track, title=title
            )
    workspace.progress.expect(expected)
    zero = begin(source.found) + workspace.begin
    command = _command(workspace, source.path, plans, zero, seconds)
    names = [plan.name for plan in plans]
    workspace.job.log(f"encoding {', '.join(names)} with aac")
    _make(workspace, command, names, workspace.progress.watch, workspace.progress.reached)
    return max(sum(workspace.seconds_of(name)) for name in names)


def begin(found: Probe) -> float:
    """When a file's own time begins."""
    if found.video is not None:
        return float(found.video.start_pts * found.video.time_base)
    return (found.audios[0].start_seconds or 0.0) if found.audios else 0.0


def _fits(workspace: Workspace, name: str, audio: AudioStream, source: Source) -> bool:
    """Whether browsers play it as it is, in step with the picture."""
    begins = audio.start_seconds
    return (
        not (workspace.edit or source.changes)
        and f"encoded {name}" not in workspace.progress.notes
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
    workspace: Workspace, name: str, audio: AudioStream, seconds: float | None, *, default: bool
) -> None:
    taken = [each.title for each in workspace.progress.sounds.values()]
    title = audio.title or audio.language or "Audio"
    workspace.progress.list(
        Rendition(
            name=name,
            kind="audio",
            segments_total=int((seconds or 0.0) / workspace.profile.segment_seconds) + 1,
            title=f"{title} {len(taken) + 1}" if title in taken else title,
            language=audio.language,
            default=default,
            group="",
            track=0,
            channels=min(2, audio.channels),
            bandwidth=workspace.profile.audio_bitrate * 1000,
            # Until its header is there; both that are made have this one.
            codecs="mp4a.40.2",
        )
    )


def _command(
    workspace: Workspace, path: Path, plans: Sequence[Plan], zero: float, seconds: float | None
) -> Command:
    def command(fds: Sequence[int]) -> list[str]:
        wanted = [plan for plan in plans if not workspace.is_finished(plan.name)]
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
            segment_seconds=workspace.profile.segment_seconds,
        )

    return command


def _mix_command(
    workspace: Workspace, inputs: Sequence[tuple[Path, int, float]], seconds: float | None
) -> Command:
    return lambda fds: ffmpeg.mixed_sound(
        programs.ffmpeg(),
        inputs,
        ffmpeg.Sound(index=0, bitrate=workspace.profile.audio_bitrate, channels=2, fd=fds[0]),
        seconds=seconds,
        segment_seconds=workspace.profile.segment_seconds,
    )


def _mixed(
    workspace: Workspace, found: Probe, path: Path, zero: float, other: Path, *, keep: bool
) -> list[tuple[Path, AudioStream, float]]:
    """The overlay's sound, with the main one's if both are asked for or it has none."""
    second = probe(other, workspace.progress.watch)
    mix = []
    if second.default_audio is not None:
        mix.append((other, second.default_audio, begin(second) + workspace.begin))
    if found.default_audio is not None and (keep or not mix):
        mix.insert(0, (path, found.default_audio, zero))
    return mix


def _make(
    workspace: Workspace,
    command: Command,
    names: Sequence[str],
    watch: process.Watch,
    progress: Callable[[float], None] = lambda seconds: None,
) -> None:
    """All in one process. What was finished before is not made again. On the last attempt, sound
    that cannot be read does not keep the picture from being watched."""
    tracks = [Track(workspace, name) for name in names if not workspace.is_finished(name)]
    if tracks:
        workspace.progress.begin(track.name for track in tracks)
        try:
            with explained(workspace.job, "encoding the sound"):
                run_tracks(workspace, command, tracks, watch=watch, progress=progress)
        except process.ToolFailed:
            # A beginning is nobody's last chance.
            if workspace.job.attempt < workspace.job.max_attempts or workspace.is_beginning:
                raise
            workspace.warn("sound_unreadable", "the sound could not be read to its end")
        workspace.artifacts.flush()
    for name in names:
        if workspace.seconds_of(name):
            workspace.finish(name)
        else:
            workspace.progress.change(name, status="failed")
