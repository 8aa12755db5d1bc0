"""Which tracks and channels of a file are listened to, each by itself.

Mostly it is one: the track that players begin with, its channels mixed. A file may have its speech
on another track, a track for each side of a call, a speaker on each channel, or channels whose mix
is silence. What is in two of them is listened to once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rushes import errors
from rushes.engines.engine import Engine
from rushes.handlers.transcribe import channels
from rushes.handlers.transcribe.audio import Feed, Recording, Sound
from rushes.handlers.transcribe.channels import Layout
from rushes.handlers.transcribe.windows import Interval
from rushes.tools.probe import AudioStream
from rushes.worker.context import JobContext

# Sound is looked through for speech in stretches of this length, until there is so much of it.
STRETCH_SECONDS, SOME_SECONDS = 300.0, 1.0
# So many moments of speech of this length are compared; most of them decide.
PROBES, PROBE_SECONDS, MOST = 12, 0.5, 0.5
# Of one stretch of speech, fewer do.
ECHO_PROBES = 3
# The same film for others: not a part of what is said in it.
OTHER_VERSION = re.compile(r"(?i)comment|descri|karaoke")


def number_of(sound: Sound, track: int | None) -> int:
    """Counted from 0, of one that somebody has asked for, counted from 1; else the default."""
    if track is None:
        return sound.default
    if not 1 <= track <= len(sound.tracks):
        count = len(sound.tracks)
        raise errors.PermanentFailure(
            f"there is no track {track}: the recording has {count}", code="no_such_track"
        )
    return track - 1


class Chooser:
    def __init__(self, job: JobContext, sound: Sound, engine: Engine) -> None:
        self._job = job
        self._sound = sound
        self._engine = engine
        self._speech: dict[Feed, Sequence[Interval]] = {}

    def choose(self, track: int | None) -> list[Recording]:
        """`track`: the one that somebody has asked for, counted from 1."""
        if track is not None:
            [group] = self._extracted([number_of(self._sound, track)])
            return group
        groups = self._extracted(self._order())
        if len(groups) == 1:
            return groups[0]
        return self._with_speech(groups)

    def _order(self) -> list[int]:
        """The default track first."""
        numbers = range(len(self._sound.tracks))
        return sorted(numbers, key=lambda each: (each != self._sound.default, each))

    def _extracted(self, tracks: Sequence[int]) -> list[list[Recording]]:
        """Of each track what is to be listened to, if it is: one recording, or one per channel."""
        mixed, layouts = self._sound.extract([Feed(each) for each in tracks], is_measured=True)
        return [self._by_channel(each, layouts.get(each.feed.track)) for each in mixed]

    def _by_channel(self, mixed: Recording, layout: Layout | None) -> list[Recording]:
        track = mixed.feed.track
        match layout:
            case Layout.LEFT | Layout.RIGHT:
                side = 0 if layout is Layout.LEFT else 1
                recordings, _ = self._sound.extract([Feed(track, side)])
                self._note(f"the channels of track {track + 1} cancel each other out", recordings)
                mixed.close()
                return recordings
            case Layout.APART:
                recordings, _ = self._sound.extract([Feed(track, 0), Feed(track, 1)])
                if self._are_apart(recordings):
                    self._note(
                        f"the channels of track {track + 1} have different speech", recordings
                    )
                    mixed.close()
                    return recordings
                for each in recordings:
                    each.close()
            case _:
                pass
        return [mixed]

    def _are_apart(self, recordings: Sequence[Recording]) -> bool:
        one, other = recordings
        if not (self._spoken(one) and self._spoken(other)):
            return False
        # Who is heard faintly on the other's channel, too, would be written down twice.
        return not (self._is_in(one, other) or self._is_in(other, one))

    def _with_speech(self, groups: Sequence[list[Recording]]) -> list[Recording]:
        """The first track that has any, and others of the same version that have other speech."""
        heard: list[list[Recording]] = []
        for group in groups:
            first = heard[0][0].feed.track if heard else None
            if first is not None and self._is_version(first, group[0].feed.track):
                continue
            if not any(self._spoken(each) for each in group):
                continue
            if not any(self._is_within(group, each) for each in heard):
                heard = [each for each in heard if not self._is_within(each, group)]
                heard.append(group)
        heard = heard or [groups[0]]
        for group in groups:
            if group not in heard:
                for each in group:
                    each.close()
        chosen = [each for group in heard for each in group]
        if [each.feed.track for each in chosen] != [self._sound.default]:
            self._note(f"of {len(groups)} tracks of sound", chosen)
        else:
            self._job.log(f"of {len(groups)} tracks of sound, {chosen[0].feed} was listened to")
        return chosen

    def _is_version(self, one: int, other: int) -> bool:
        """Whether the tracks are there to be heard instead of each other."""
        first, second = self._sound.tracks[one], self._sound.tracks[other]
        languages = {_language(first), _language(second)} - {None}
        return len(languages) > 1 or bool(OTHER_VERSION.search(second.title or ""))

    def _is_within(self, group: Sequence[Recording], of: Sequence[Recording]) -> bool:
        return all(any(self._is_in(each, other, loud=True) for other in of) for each in group)

    def _is_in(self, one: Recording, other: Recording, *, loud: bool = False) -> bool:
        """Whether what is said in the first is heard in the second as well; with `loud`, not just
        as an echo."""
        moments = moments_of(self._spoken(one))
        pairs = [(one.read(*each), other.read(*each)) for each in moments]
        same = sum(
            channels.same(*each) and not (loud and channels.is_fainter(each[1], each[0]))
            for each in pairs
        )
        return same > MOST * len(moments)

    def _spoken(self, recording: Recording) -> Sequence[Interval]:
        """Some of its speech: what is found first."""
        if recording.feed not in self._speech:
            self._speech[recording.feed] = self._find(recording)
        return self._speech[recording.feed]

    def _find(self, recording: Recording) -> Sequence[Interval]:
        begin = 0.0
        while begin < recording.seconds:
            end = min(begin + STRETCH_SECONDS, recording.seconds)
            found = self._engine.speech(recording.read(begin, end), self._job.listen)
            self._job.alive()
            if sum(stop - start for start, stop in found) >= SOME_SECONDS:
                return [(begin + start, begin + stop) for start, stop in found]
            begin = end
        return []

    def _note(self, why: str, recordings: Sequence[Recording]) -> None:
        said = " and ".join(str(each.feed) for each in recordings)
        sentence = f"{why}: {said} {'was' if len(recordings) == 1 else 'were'} listened to"
        self._job.log(sentence)
        self._sound.warnings.append(sentence)


def _language(track: AudioStream) -> str | None:
    return (track.language or "").partition("-")[0] or None


def own(
    recording: Recording, others: Sequence[Recording], speech: Sequence[Interval]
) -> list[Interval]:
    """Without what is only an echo of another track, such as a loudspeaker in a microphone. That is
    muted, since short pauses between what is said are listened to as well."""
    tracks = [each for each in others if each.feed.track != recording.feed.track]
    found = []
    for each in speech:
        if any(_is_echo(recording, other, each) for other in tracks):
            recording.mute(each)
        else:
            found.append(each)
    return found


def _is_echo(recording: Recording, other: Recording, interval: Interval) -> bool:
    for moment in moments_of([interval], ECHO_PROBES):
        here, there = recording.read(*moment), other.read(*moment)
        if not (channels.is_fainter(here, there) and channels.same(here, there)):
            return False
    return True


def moments_of(speech: Sequence[Interval], most: int = PROBES) -> list[Interval]:
    """All over what is said."""
    middles = [
        start + (number + 0.5) * (end - start) / count
        for start, end in speech
        for count in [max(1, int((end - start) / (2 * PROBE_SECONDS)))]
        for number in range(count)
    ]
    step = max(len(middles) / most, 1.0)
    chosen = [middles[int(step * number)] for number in range(min(most, len(middles)))]
    half = PROBE_SECONDS / 2
    return [(max(each - half, 0.0), max(each - half, 0.0) + PROBE_SECONDS) for each in chosen]
