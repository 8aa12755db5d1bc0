"""The `transcribe` job: sound to words and speakers, a window at a time, resumed at any of them.

Every finished window is a passage that is kept at once, together with where the next one begins:
whoever takes over goes on there. The document is made of the passages when the job completes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rushes import errors
from rushes.engines import catalog, custom
from rushes.engines.engine import (
    DEFAULT_SPEAKERS,
    RATE,
    Engine,
    SpeakerRequest,
    SpeakerTurn,
    TranscribeRequest,
)
from rushes.engines.pace import Pace
from rushes.engines.registry import Registry
from rushes.handlers import job_log
from rushes.handlers.transcribe import feeds, hearing, lines, windows
from rushes.handlers.transcribe.audio import Feed, Recording, Sound, intervals_at
from rushes.handlers.transcribe.feeds import Chooser
from rushes.handlers.transcribe.hearing import Hearing
from rushes.handlers.transcribe.lines import Line, ResumePoint
from rushes.handlers.transcribe.windows import Window
from rushes.records import JsonObject
from rushes.transcripts import passages, transcript
from rushes.transcripts.transcript import Turn
from rushes.worker.context import JobContext

# Sound is looked through for speech in stretches of this length.
STRETCH_SECONDS = 300.0
PREPARING, TRANSCRIBING, DIARIZING, MERGING, SAVING = 0.05, 0.20, 0.70, 0.85, 0.95
PREPARE_SECONDS = 1.0
# The step whose pace is learnt.
SPEAKERS = f"diarizing {DEFAULT_SPEAKERS}"
# What translations are in.
ENGLISH = "en"
# Its models have shorter names, too; other engines' names are their own.
LOCAL = "local"


def transcribe(job: JobContext, registry: Registry) -> JsonObject:
    kept = list(job.passages())
    options = TranscribeOptions.read(job.args)
    if passages.tells_speakers_only(job.args):
        return _tell_apart(job, registry, options, kept)
    engine = registry.get(options.engine)
    options = replace(options, model=_model(options, engine, registry))
    listener = registry.speakers(options.engine) if options.diarize else engine
    job.progress(PREPARING, "preparing", engine_id=engine.id, engine_model=options.model)
    _prepare(job, engine, listener, options)
    _tell_of(job, engine, options)
    sound = Sound(job)
    if not sound.tracks:
        job.log("there is no sound in this media")
        return _result(options, engine, None, 0.0, ["there is no sound in this media"])
    default = Feed(sound.default)
    points = _points(kept, sound, default)
    recordings = _recordings(job, sound, engine, options, points)
    try:
        chosen, seconds = [each.feed for each in recordings], max(r.seconds for r in recordings)
        job.log(job_log.listening(chosen, len(sound.tracks), seconds))
        work = Work(job, engine, options, recordings, kept, points, default, registry.pace)
        work.run()
        speakers = work.diarize(listener) if work.tells_speakers else None
    finally:
        for each in recordings:
            each.close()
    job.progress(MERGING, "merging")
    result = _result(options, engine, work.language, seconds, sound.warnings)
    job.progress(SAVING, "saving")
    return result if speakers is None else {**result, "speakers": speakers}


def _tell_of(job: JobContext, engine: Engine, options: TranscribeOptions) -> None:
    device = engine.capabilities().device
    line = job_log.engine(
        engine.id, device, options.model, language=options.language, task=options.task
    )
    job.log(line)


def _tell_apart(
    job: JobContext, registry: Registry, options: TranscribeOptions, kept: Sequence[Any]
) -> JsonObject:
    """Who speaks when, for words that the server has. It does not know on which of several tracks
    each was heard, so one recording is listened to."""
    listener = registry.speakers(options.engine)
    job.progress(PREPARING, "preparing", engine_id=listener.id, engine_model=DEFAULT_SPEAKERS)
    listener.prepare([DEFAULT_SPEAKERS], _fetching(job), job.listen)
    options = replace(options, diarize=True, model=DEFAULT_SPEAKERS)
    sound = Sound(job)
    if not sound.tracks:
        raise errors.PermanentFailure("there is no sound in this media", code="no_sound")
    [recording], _ = sound.extract([Feed(feeds.number_of(sound, options.track))])
    try:
        turns = passages.turns(kept)
        if turns is None:
            turns = _turns_of(job, registry.pace, listener, options, recording)
    finally:
        recording.close()
    job.progress(SAVING, "saving")
    result = _result(options, listener, None, recording.seconds, sound.warnings)
    return {**result, "speakers": _speakers(turns)}


def _speakers(turns: Sequence[Turn]) -> int:
    return len({each.speaker for each in turns})


def _turns_of(
    job: JobContext, pace: Pace, listener: Engine, options: TranscribeOptions, recording: Recording
) -> list[Turn]:
    request = SpeakerRequest(
        path=recording.path,
        speakers=options.speakers,
        min_speakers=options.min_speakers,
        max_speakers=options.max_speakers,
    )
    diarizing = Diarizing(job, pace, recording.seconds)
    turns = [
        Turn(start=each.start, end=each.end, speaker=passages.LABEL.format(each.speaker))
        for each in listener.diarize(request, diarizing.tell, job.listen)
    ]
    diarizing.learn()
    job.log(job_log.told_apart(_speakers(turns), diarizing.spent))
    for number, page in enumerate(passages.turn_pages(turns)):
        job.put_passage(number, page)
    return turns


def _points(kept: Sequence[Any], sound: Sound, default: Feed) -> list[ResumePoint]:
    found = lines.read(passages.next_of(kept), default)
    return found if all(0 <= each.feed.track < len(sound.tracks) for each in found) else []


def _recordings(
    job: JobContext,
    sound: Sound,
    engine: Engine,
    options: TranscribeOptions,
    points: Sequence[ResumePoint],
) -> list[Recording]:
    """What an earlier attempt has chosen stays chosen."""
    if not points:
        return Chooser(job, sound, engine).choose(options.track)
    recordings, _ = sound.extract([each.feed for each in points])
    return recordings


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeOptions:
    """What was asked for; the `model` is the engine's choice until one is named."""

    engine: str | None
    model: str
    language: str | None
    task: Any
    prompt: str | None
    # None: nobody said so; then only where it costs nothing.
    diarize: bool | None
    speakers: int | None
    min_speakers: int | None
    max_speakers: int | None
    track: int | None = None

    @classmethod
    def read(cls, args: JsonObject) -> TranscribeOptions:
        bounds = {name: args.get(name) for name in ("speakers", "min_speakers", "max_speakers")}
        return cls(
            engine=args.get("engine"),
            model=args.get("model") or "",
            language=_language(args.get("language")),
            task=args.get("task") or "transcribe",
            prompt=_prompt(args),
            track=args.get("track"),
            diarize=True if any(bounds.values()) else args.get("diarize"),
            **bounds,
        )


def _model(options: TranscribeOptions, engine: Engine, registry: Registry) -> str:
    name = options.model or registry.model(engine)
    return (custom.known(name) or catalog.find(name).name) if engine.id == LOCAL else name


def _language(given: str | None) -> str | None:
    """Engines know languages, not countries."""
    code = (given or "").strip().lower().replace("_", "-").partition("-")[0]
    return code if code not in ("", "auto") else None


def _prompt(args: JsonObject) -> str | None:
    """Names and terms that may come up are told as a sentence that has them."""
    said = [str(args["prompt"])] if args.get("prompt") else []
    if args.get("vocabulary"):
        said.append(", ".join(map(str, args["vocabulary"])) + ".")
    return " ".join(said) or None


def _prepare(job: JobContext, engine: Engine, listener: Engine, options: TranscribeOptions) -> None:
    progress = _fetching(job)
    if options.diarize and listener is not engine:
        listener.prepare([DEFAULT_SPEAKERS], progress, job.listen)
        engine.prepare([options.model], progress, job.listen)
    else:
        models = [options.model, *([DEFAULT_SPEAKERS] if options.diarize else [])]
        engine.prepare(models, progress, job.listen)


def _fetching(job: JobContext) -> Callable[[float, str], None]:
    told, logged = 0.0, ""

    def progress(share: float, what: str) -> None:
        nonlocal told, logged
        job.alive()
        if what and what != logged:
            logged = what
            job.log(f"fetching {what}")
        if what and time.monotonic() - told > PREPARE_SECONDS:
            told = time.monotonic()
            job.progress(PREPARING + (TRANSCRIBING - PREPARING) / 2 * share, "preparing")

    return progress


class Work:
    """One attempt: which windows there are, and what has come of them."""

    def __init__(
        self,
        job: JobContext,
        engine: Engine,
        options: TranscribeOptions,
        recordings: Sequence[Recording],
        kept: Sequence[Any],
        points: Sequence[ResumePoint],
        default: Feed,
        pace: Pace,
    ) -> None:
        self._job = job
        self._pace = pace
        self._engine = engine
        self._options = options
        self._recordings = recordings
        self._default = default
        self._kept = list(kept)
        # Turns that are not all there are found out again, and written over.
        self._number = sum(not passages.is_turns(each) for each in kept)
        known = {each.feed: each for each in points}
        self._lines = [self._line(each, known.get(each.feed)) for each in recordings]
        self._spoken = transcript.seconds_spoken(passages.spoken(kept))
        self._seconds = sum(each.seconds for each in recordings)
        self._ends_at = DIARIZING if options.diarize else MERGING
        self._began_at = time.monotonic()
        self._began_with: float | None = None

    def _line(self, recording: Recording, point: ResumePoint | None) -> Line:
        request = TranscribeRequest(
            sound=b"",
            model=self._options.model,
            language=self._options.language,
            task=self._options.task,
            prompt=self._options.prompt,
        )
        heard = Hearing(self._job, self._engine, recording, request)
        return Line(recording, heard, point or ResumePoint(recording.feed))

    @property
    def language(self) -> str | None:
        """The one that was spoken longest."""
        spoken = max(self._spoken, key=lambda name: self._spoken[name], default=None)
        return self._options.language or spoken

    def run(self) -> None:
        if passages.turns(self._kept) is not None:
            return
        self._tell()
        if self._number:
            self._job.log(f"going on behind {self._number} windows of an earlier attempt")
        while waiting := [each for each in self._lines if each.is_open]:
            # Together through the recording, so that what is told live is in order, nearly.
            line = min(waiting, key=lambda each: each.begin or 0.0)
            for window in self._planned(line):
                self._hear(line, window)
        heard, spent = self._seconds - (self._began_with or 0.0), time.monotonic() - self._began_at
        self._job.log(job_log.heard(self._number, self._spoken, spent, heard))
        if self._number:
            self._pace.learn(self._hearing, heard, spent)

    def _planned(self, line: Line) -> Iterator[Window]:
        """The windows of its next stretch. Planning begins anew where it did before, so that the
        same windows come out; what another engine finds differently is heard once all the same."""
        begin, recording = line.begin or 0.0, line.recording
        end = min(begin + STRETCH_SECONDS, recording.seconds)
        found = self._engine.speech(recording.read(begin, end), self._job.listen)
        self._job.alive()
        others = [each for each in self._recordings if each is not recording]
        plan = windows.plan(
            feeds.own(recording, others, intervals_at(found, begin)),
            begin,
            end,
            is_last=end >= recording.seconds,
            quietest=recording.quietest,
        )
        line.point = replace(line.point, begin=begin)
        for window in plan.windows:
            rest = window.after(line.resumed_at)
            if rest is not None:
                yield rest
        line.begin = plan.next
        line.point = replace(
            line.point, begin=recording.seconds if plan.next is None else plan.next
        )

    def _hear(self, line: Line, window: Window) -> None:
        for part, pieces in line.hearing.hear(window):
            if line.note_language(pieces, part.seconds) and not self._options.language:
                self._job.log(f"from {part.start:.1f} s on, {line.hearing.expected} is spoken")
            passage = hearing.passage(part, pieces)
            if self._options.task == "translate":
                passage = replace(passage, language=ENGLISH)
            if len(self._lines) > 1:
                passage = replace(passage, feed=self._lines.index(line))
            self._keep(line, part, passage)

    def _keep(self, line: Line, window: Window, passage: transcript.Passage) -> None:
        line.point = replace(line.point, done=window.end, language=line.hearing.expected)
        resume = lines.encode([each.point for each in self._lines], self._default)
        self._job.put_passage(self._number, passages.encode(passage, next=resume))
        self._number += 1
        for name, seconds in transcript.seconds_spoken([passage]).items():
            self._spoken[name] = self._spoken.get(name, 0.0) + seconds
        self._tell(passage.text)

    @property
    def tells_speakers(self) -> bool:
        """If nobody said whether: where each has a channel, who speaks is known already."""
        if self._options.diarize is None:
            return len(self._recordings) > 1 and self._is_by_channel
        return self._options.diarize

    @property
    def _is_by_channel(self) -> bool:
        return all(each.feed.channel is not None for each in self._recordings)

    def diarize(self, listener: Engine) -> int:
        """How many speakers there are; what was found out is kept in the last passages."""
        turns = passages.turns(self._kept)
        if turns is None:
            diarizing = Diarizing(self._job, self._pace, self._seconds)
            turns = list(self._turns(listener, diarizing))
            diarizing.learn()
            self._job.log(job_log.told_apart(_speakers(turns), diarizing.spent))
            for number, page in enumerate(passages.turn_pages(turns), self._number):
                self._job.put_passage(number, page)
        return _speakers(turns)

    def _turns(self, listener: Engine, diarizing: Diarizing) -> Iterator[Turn]:
        """Who has a channel, or a track if there are no more speakers than those, is known."""
        several = len(self._recordings) > 1
        least = self._options.speakers or self._options.min_speakers or 0
        most = self._options.speakers or self._options.max_speakers
        is_known = several and (
            most == len(self._recordings)
            or (self._is_by_channel and least <= len(self._recordings))
        )
        others = len(self._recordings) - 1
        first = 0
        for number, recording in enumerate(self._recordings):
            feed = number if several else None
            found: Sequence[SpeakerTurn] = [SpeakerTurn(start=0, end=recording.seconds, speaker=0)]
            if not is_known:
                request = SpeakerRequest(
                    path=recording.path,
                    speakers=None if several else self._options.speakers,
                    min_speakers=None if several else self._options.min_speakers,
                    # Each of the others has somebody, too.
                    max_speakers=most and max(1, most - others)
                    if several
                    else self._options.max_speakers,
                )
                tell = diarizing.part(number, len(self._recordings))
                found = listener.diarize(request, tell, self._job.listen)
            for each in found:
                label = passages.LABEL.format(first + each.speaker)
                yield Turn(start=each.start, end=each.end, speaker=label, feed=feed)
            first += max((each.speaker + 1 for each in found), default=0)

    def _tell(self, text: str | None = None) -> None:
        total = max(self._seconds, 1 / RATE)
        done = sum(each.done for each in self._lines)
        if self._began_with is None:
            self._began_with = done
        speed = (done - self._began_with) / max(time.monotonic() - self._began_at, 0.001)
        share = TRANSCRIBING + (self._ends_at - TRANSCRIBING) * min(done / total, 1.0)
        self._job.progress(
            share,
            "transcribing",
            speed=round(speed, 2) if speed else None,
            eta_seconds=self._left(total - done, speed),
            text=text,
        )

    def _left(self, seconds: float, speed: float) -> float | None:
        """With the speakers, if they are asked for: people wait for the whole."""
        here = seconds / speed if speed else self._pace.expect(self._hearing, seconds)
        after = self._pace.expect(SPEAKERS, self._seconds) if self._options.diarize else 0.0
        return None if here is None or after is None else round(here + after, 1)

    @property
    def _hearing(self) -> str:
        return f"transcribing {self._engine.id} {self._options.model}"


class Diarizing:
    """How far telling the speakers apart is. It says nothing for its first part, in which only
    what other recordings took is known."""

    def __init__(self, job: JobContext, pace: Pace, seconds: float) -> None:
        self._job = job
        self._pace = pace
        self._seconds = seconds
        self._began_at = time.monotonic()
        self._first: tuple[float, float] | None = None
        self._say(0.0, pace.expect(SPEAKERS, seconds))

    def tell(self, share: float) -> None:
        self._job.alive()
        now = time.monotonic()
        if self._first is None:
            self._first = (now, share)
        at, before = self._first
        done, spent = share - before, now - at
        self._say(share, spent * (1 - share) / done if done > 0 and spent > 0 else None)

    def part(self, number: int, count: int) -> Callable[[float], None]:
        """For one of several recordings."""
        return lambda share: self.tell((number + share) / count)

    @property
    def spent(self) -> float:
        return time.monotonic() - self._began_at

    def learn(self) -> None:
        self._pace.learn(SPEAKERS, self._seconds, self.spent)

    def _say(self, share: float, left: float | None) -> None:
        self._job.progress(
            DIARIZING + (MERGING - DIARIZING) * share,
            "diarizing",
            eta_seconds=round(left, 1) if left else None,
        )


def _result(
    options: TranscribeOptions,
    engine: Engine,
    language: str | None,
    seconds: float,
    warnings: Sequence[str],
) -> JsonObject:
    return {
        "language": ENGLISH if options.task == "translate" else language,
        "duration": seconds,
        "engine": {
            "provider": engine.id,
            "transcription_model": options.model,
            "diarization_model": DEFAULT_SPEAKERS if options.diarize else None,
        },
        "warnings": list(warnings),
    }
