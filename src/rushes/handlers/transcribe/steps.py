"""The `transcribe` job: sound to words and speakers, a window at a time, resumed at any of them.

Every finished window is a passage that is kept at once, together with where the next one begins:
whoever takes over goes on there. The document is made of the passages when the job completes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rushes.engines import catalog
from rushes.engines.engine import (
    DEFAULT_SPEAKERS,
    RATE,
    Engine,
    SpeakerRequest,
    TranscribeRequest,
    TranscribeResult,
    Utterance,
)
from rushes.engines.pace import Pace
from rushes.engines.registry import Registry
from rushes.handlers.transcribe import plausibility, windows
from rushes.handlers.transcribe.audio import Recording, extract, intervals_at
from rushes.handlers.transcribe.plausibility import Verdict
from rushes.handlers.transcribe.windows import Window
from rushes.transcripts import passages
from rushes.transcripts.transcript import Passage, TranscriptSegment, Turn, Word, joined, spelled
from rushes.worker.context import JobContext

# Sound is looked through for speech in stretches of this length.
STRETCH_SECONDS = 300.0
# A detected language this sure is believed for the rest of the recording.
SURE = 0.7
# After so many windows the one that was heard most is.
UNDECIDED_WINDOWS = 5
PREPARING, TRANSCRIBING, DIARIZING, MERGING, SAVING = 0.05, 0.20, 0.70, 0.85, 0.95
PREPARE_SECONDS = 1.0
# A window that is cut is halved while it is longer than this; less holds what can be said in it.
SHORTEST_CUT_SECONDS = 6.0
# The step whose pace is learnt.
SPEAKERS = f"diarizing {DEFAULT_SPEAKERS}"
# What translations are in.
ENGLISH = "en"
# Its models have shorter names, too; other engines' names are their own.
LOCAL = "local"


def transcribe(job: JobContext, registry: Registry) -> dict[str, Any]:
    kept = list(job.passages())
    options = TranscribeOptions.read(job.args)
    engine = registry.get(options.engine)
    options = replace(options, model=_model(options, engine, registry))
    listener = registry.speakers(options.engine) if options.diarize else engine
    job.progress(PREPARING, "preparing", engine_id=engine.id)
    _prepare(job, engine, listener, options)
    recording = extract(job)
    if recording is None:
        job.log("there is no sound in this media")
        return _result(options, engine, None, 0.0, ["there is no sound in this media"])
    try:
        work = Work(job, engine, options, recording, kept, registry.pace)
        work.run()
        speakers = work.diarize(listener) if options.diarize else None
    finally:
        recording.close()
    job.progress(MERGING, "merging")
    result = _result(options, engine, work.language, recording.seconds, recording.warnings)
    job.progress(SAVING, "saving")
    return result if speakers is None else {**result, "speakers": speakers}


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeOptions:
    """What was asked for; the `model` is the engine's choice until one is named."""

    engine: str | None
    model: str
    language: str | None
    task: Any
    prompt: str | None
    diarize: bool
    speakers: int | None
    min_speakers: int | None
    max_speakers: int | None

    @classmethod
    def read(cls, args: Mapping[str, Any]) -> TranscribeOptions:
        bounds = {name: args.get(name) for name in ("speakers", "min_speakers", "max_speakers")}
        return cls(
            engine=args.get("engine"),
            model=args.get("model") or "",
            language=_language(args.get("language")),
            task=args.get("task") or "transcribe",
            prompt=_prompt(args),
            diarize=bool(args.get("diarize") or any(bounds.values())),
            **bounds,
        )


def _model(options: TranscribeOptions, engine: Engine, registry: Registry) -> str:
    name = options.model or registry.model(engine)
    return catalog.find(name).name if engine.id == LOCAL else name


def _language(given: str | None) -> str | None:
    """Engines know languages, not countries."""
    code = (given or "").strip().lower().replace("_", "-").partition("-")[0]
    return code if code not in ("", "auto") else None


def _prompt(args: Mapping[str, Any]) -> str | None:
    """Names and terms that may come up are told as a sentence that has them."""
    said = [str(args["prompt"])] if args.get("prompt") else []
    if args.get("vocabulary"):
        said.append(", ".join(map(str, args["vocabulary"])) + ".")
    return " ".join(said) or None


def _prepare(job: JobContext, engine: Engine, listener: Engine, options: TranscribeOptions) -> None:
    told = 0.0

    def progress(share: float, what: str) -> None:
        nonlocal told
        job.alive()
        if what and time.monotonic() - told > PREPARE_SECONDS:
            told = time.monotonic()
            job.log(f"fetching {what}: {share:.0%}")
            job.progress(PREPARING + (TRANSCRIBING - PREPARING) / 2 * share, "preparing")

    if options.diarize and listener is not engine:
        listener.prepare([DEFAULT_SPEAKERS], progress, job.listen)
        engine.prepare([options.model], progress, job.listen)
    else:
        models = [options.model, *([DEFAULT_SPEAKERS] if options.diarize else [])]
        engine.prepare(models, progress, job.listen)


Piece = tuple[Window, TranscribeResult]


class Work:
    """One attempt: which windows there are, and what has come of them."""

    def __init__(
        self,
        job: JobContext,
        engine: Engine,
        options: TranscribeOptions,
        recording: Recording,
        kept: Sequence[Any],
        pace: Pace,
    ) -> None:
        self._job = job
        self._pace = pace
        self._engine = engine
        self._options = options
        self._recording = recording
        self._kept = list(kept)
        # Turns that are not all there are found out again, and written over.
        self._number = sum(not passages.is_turns(each) for each in kept)
        self._resume = ResumePoint.read(passages.next_of(kept))
        self.language = options.language or self._resume.language
        self._heard: dict[str, float] = {}
        self._ends_at = DIARIZING if options.diarize else MERGING
        self._began_at = time.monotonic()
        self._began_with: float | None = None

    def run(self) -> None:
        if passages.turns(self._kept) is not None:
            return
        self._tell(self._resume.begin)
        if self._number:
            self._job.log(f"going on behind {self._number} windows of an earlier attempt")
        for window, after in self._windows():
            passage = self._passage(window, self._hear(window))
            resume = replace(after, language=self.language)
            self._job.put_passage(self._number, passages.encode(passage, next=resume.encode()))
            self._number += 1
            self._tell(window.end, passage.text)
        heard = self._recording.seconds - (self._began_with or 0.0)
        if self._number:
            self._pace.learn(self._hearing, heard, time.monotonic() - self._began_at)

    def diarize(self, listener: Engine) -> int:
        """How many speakers there are; what was found out is kept in the last passages."""
        turns = passages.turns(self._kept)
        if turns is None:
            diarizing = Diarizing(self._job, self._pace, self._recording.seconds)
            request = SpeakerRequest(
                path=self._recording.path,
                speakers=self._options.speakers,
                min_speakers=self._options.min_speakers,
                max_speakers=self._options.max_speakers,
            )
            found = listener.diarize(request, diarizing.tell, self._job.listen)
            diarizing.learn()
            turns = [
                Turn(start=each.start, end=each.end, speaker=passages.LABEL.format(each.speaker))
                for each in found
            ]
            for number, page in enumerate(passages.turn_pages(turns), self._number):
                self._job.put_passage(number, page)
        return len({each.speaker for each in turns})

    def _windows(self) -> Iterator[tuple[Window, ResumePoint]]:
        """Each with where to resume after it. Planning begins anew where it did before, so that the
        same windows come out; what another engine finds differently is heard once all the same."""
        begin: float | None = self._resume.begin
        while begin is not None and begin < self._recording.seconds:
            end = min(begin + STRETCH_SECONDS, self._recording.seconds)
            plan = windows.plan(
                intervals_at(self._speech(begin, end), begin),
                begin,
                end,
                is_last=end >= self._recording.seconds,
                quietest=self._recording.quietest,
            )
            for window in plan.windows:
                rest = window.after(self._resume.done)
                if rest is not None:
                    yield rest, ResumePoint(begin, rest.end)
            begin = plan.next

    def _speech(self, begin: float, end: float) -> Sequence[windows.Interval]:
        sound = self._recording.read(begin, end)
        found = self._engine.speech(sound, self._job.listen)
        self._job.alive()
        return found

    def _hear(self, window: Window) -> list[Piece]:
        """In one piece, unless that is more than the engine can write down at once."""
        request = TranscribeRequest(
            sound=self._recording.sound(window),
            model=self._options.model,
            language=self.language,
            task=self._options.task,
            prompt=self._options.prompt,
        )
        result = self._believed(request, window)
        if self._has_more(result, window):
            self._job.log(f"heard the window at {window.start:.1f} s in two halves")
            first, second = window.halves(self._recording.quietest)
            return [*self._hear(first), *self._hear(second)]
        self._note_language(result, window.seconds)
        return self._filled(window, result, request)

    def _filled(
        self, window: Window, result: TranscribeResult, request: TranscribeRequest
    ) -> list[Piece]:
        """Engines pass over quiet people when somebody loud follows. All of a window is speech, so
        where there are no words for long it is listened to once more, alone."""
        pieces: list[Piece] = []
        begin = 0
        for start, stop in plausibility.passed_over(result, window.seconds):
            part = window.part(start, stop)
            heard = self._believed(replace(request, sound=self._recording.sound(part)), part)
            self._job.log(f"listened again from {part.start:.1f} to {part.end:.1f} s")
            if heard.text:
                end = begin + sum(word.end <= start for word in result.words[begin:])
                pieces += [(window, _only(result, begin, end)), (part, heard)]
                begin = end
        return [*pieces, (window, _only(result, begin, None) if pieces else result)]

    def _has_more(self, result: TranscribeResult, window: Window) -> bool:
        """A loop fills any room; there is nothing behind it."""
        is_long = window.seconds > SHORTEST_CUT_SECONDS
        return result.is_cut and is_long and not plausibility.loops(result)

    def _passage(self, window: Window, pieces: Sequence[Piece]) -> Passage:
        said = [piece for piece in pieces if piece[1].text]
        language = (said or pieces)[0][1].language
        # Times of words for a part of it would leave out the rest.
        has_words = all(result.words for _, result in said)
        return Passage(
            start=window.start,
            end=window.end,
            text=joined(result.text for _, result in said),
            language=ENGLISH if self._options.task == "translate" else language,
            words=[each for piece in said for each in _words(*piece)] if has_words else [],
            utterances=[]
            if has_words
            else [each for piece in said for each in _utterances(*piece)],
        )

    def _believed(self, request: TranscribeRequest, window: Window) -> TranscribeResult:
        results = [self._ask(request)]
        if self._has_more(results[0], window):
            return results[0]
        verdict = plausibility.judge(results[0], window.seconds)
        for temperature in plausibility.TEMPERATURES:
            if verdict is not Verdict.AGAIN:
                break
            # What it was told before may be what it repeats.
            results.append(self._ask(replace(request, temperature=temperature, prompt=None)))
            verdict = plausibility.judge(results[-1], window.seconds)
        if verdict is Verdict.DROP:
            self._job.log(f"left out what was heard at {window.start:.1f} s: it is no speech")
            return TranscribeResult(text="", language=results[-1].language)
        if len(results) > 1:
            self._job.log(f"asked {len(results)} times for the window at {window.start:.1f} s")
        return plausibility.mended(plausibility.best(results, window.seconds))

    def _ask(self, request: TranscribeRequest) -> TranscribeResult:
        result = self._engine.transcribe(request, self._job.listen)
        self._job.alive()
        return result

    def _note_language(self, result: TranscribeResult, seconds: float) -> None:
        if self.language is not None or result.language is None or not result.text:
            return
        trust = result.language_probability or 0.0
        self._heard[result.language] = self._heard.get(result.language, 0.0) + seconds * trust
        if trust >= SURE:
            self.language = result.language
        elif self._number >= UNDECIDED_WINDOWS:
            self.language = max(self._heard, key=lambda each: self._heard[each])
        if self.language is not None:
            self._job.log(f"the language is {self.language}")

    def _tell(self, done: float, text: str | None = None) -> None:
        total = max(self._recording.seconds, 1 / RATE)
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
        after = (
            self._pace.expect(SPEAKERS, self._recording.seconds) if self._options.diarize else 0.0
        )
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

    def learn(self) -> None:
        self._pace.learn(SPEAKERS, self._seconds, time.monotonic() - self._began_at)

    def _say(self, share: float, left: float | None) -> None:
        self._job.progress(
            DIARIZING + (MERGING - DIARIZING) * share,
            "diarizing",
            eta_seconds=round(left, 1) if left else None,
        )


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where planning begins, until when all is heard, and what is known by then."""

    begin: float = 0.0
    done: float = 0.0
    language: str | None = None

    @classmethod
    def read(cls, value: Any) -> ResumePoint:
        return cls(*value) if isinstance(value, list) and len(value) == 3 else cls()

    def encode(self) -> list[Any]:
        return [self.begin, self.done, self.language]


def _only(result: TranscribeResult, begin: int, end: int | None) -> TranscribeResult:
    """Some of its words, spelled as the engine has spelled them."""
    said = spelled(result.text, [word.word for word in result.words])
    text = "".join(said[begin:end]).strip()
    return replace(result, text=text, words=result.words[begin:end])


def _words(window: Window, result: TranscribeResult) -> Iterator[Word]:
    for each in result.words:
        start, end = window.times(each.start, each.end)
        yield Word(start=start, end=end, word=each.word, confidence=each.confidence)


def _utterances(window: Window, result: TranscribeResult) -> Iterator[TranscriptSegment]:
    whole = [Utterance(start=0.0, end=window.seconds, text=result.text)]
    for each in result.utterances or whole:
        start, end = window.times(each.start, each.end)
        yield TranscriptSegment(id="", start=start, end=end, text=each.text)


def _result(
    options: TranscribeOptions,
    engine: Engine,
    language: str | None,
    seconds: float,
    warnings: Sequence[str],
) -> dict[str, Any]:
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
