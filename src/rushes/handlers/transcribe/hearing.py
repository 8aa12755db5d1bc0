"""What is said in a window: asked for again, in halves or by language, until it can be believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rushes import tracing
from rushes.engines import spoken
from rushes.engines.engine import (
    Engine,
    Spoken,
    TranscribeRequest,
    TranscribeResult,
    Utterance,
)
from rushes.handlers.transcribe import plausibility
from rushes.handlers.transcribe.audio import Recording
from rushes.handlers.transcribe.plausibility import Verdict
from rushes.handlers.transcribe.windows import Window
from rushes.transcripts.transcript import Passage, TranscriptSegment, Word, joined, spelled
from rushes.worker.context import JobContext

# A window that is cut is halved while it is longer than this; less holds what can be said in it.
SHORTEST_CUT_SECONDS = 6.0
# Where the language changes there mostly is a pause, so near to where it seemed to.
PAUSE_NEAR_SECONDS = 0.75
# No part of a window is shorter than this.
SHORTEST_PART_SECONDS = 1.0

Piece = tuple[Window, TranscribeResult]


class Hearing:
    """Of one recording. `expected` is the language that is spoken, as far as it is known."""

    def __init__(
        self, job: JobContext, engine: Engine, recording: Recording, request: TranscribeRequest
    ) -> None:
        """`request`: what every window is asked for with; a language in it is the only one."""
        self._job = job
        self._engine = engine
        self._recording = recording
        self._request = request
        self.expected: str | None = None

    def hear(self, window: Window) -> Iterator[tuple[Window, list[Piece]]]:
        """The window, or one part of it for each language."""
        request = replace(
            self._request, sound=self._recording.sound(window), expected=self.expected
        )
        yield from self._parts(window, self._settled(request, window), request)

    def _parts(
        self, window: Window, result: TranscribeResult, request: TranscribeRequest
    ) -> Iterator[tuple[Window, list[Piece]]]:
        if not result.parts:
            yield window, self._whole(window, result, request)
            return
        said = ", ".join(each.language or "?" for each in result.parts)
        self._job.log(f"the window at {window.start:.1f} s has several languages: {said}")
        for part, found in self._cut(window, result.parts):
            sound = self._recording.sound(part)
            asked = replace(request, sound=sound, language=found.language, expected=self.expected)
            heard = self._settled(asked, part)
            if found.language:
                heard = replace(heard, language_probability=found.probability)
            yield from self._parts(part, heard, replace(asked, language=heard.language))

    def _cut(self, window: Window, parts: Sequence[Spoken]) -> list[tuple[Window, Spoken]]:
        """At the pauses between languages."""
        edges = [0.0]
        for each in parts[1:]:
            at = window.quietest(each.start, PAUSE_NEAR_SECONDS, self._recording.quietest)
            is_long = at - edges[-1] >= SHORTEST_PART_SECONDS
            edges.append(at if is_long else max(each.start, edges[-1]))
        edges.append(window.seconds)
        return [
            (window.part(start, end), each)
            for (start, end), each in zip(pairwise(edges), parts, strict=True)
            if end > start
        ]

    def _settled(self, request: TranscribeRequest, window: Window) -> TranscribeResult:
        """In the language that was spoken before, unless another is sure."""
        result = self._believed(request, window)
        is_other = result.text and result.language not in (None, request.expected)
        if request.language or request.expected is None or not is_other:
            return result
        if spoken.is_believed(result.language_probability, window.seconds):
            return result
        return self._believed(replace(request, language=request.expected), window)

    def _whole(
        self, window: Window, result: TranscribeResult, request: TranscribeRequest
    ) -> list[Piece]:
        """In one piece, unless that is more than the engine can write down at once."""
        request = replace(request, language=request.language or result.language)
        if self._has_more(result, window):
            self._job.log(f"heard the window at {window.start:.1f} s in two halves")
            return [
                piece
                for half in window.halves(self._recording.quietest)
                for piece in self._half(half, request)
            ]
        return self._filled(window, result, request)

    def _half(self, window: Window, request: TranscribeRequest) -> list[Piece]:
        request = replace(request, sound=self._recording.sound(window))
        return self._whole(window, self._believed(request, window), request)

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

    def _believed(self, request: TranscribeRequest, window: Window) -> TranscribeResult:
        results = [self._ask(request)]
        if results[0].parts or self._has_more(results[0], window):
            return results[0]
        verdict = plausibility.judge(results[0], window.seconds)
        for temperature in plausibility.TEMPERATURES:
            if verdict is not Verdict.AGAIN:
                break
            # What it was told before may be what it repeats.
            again = replace(
                request, language=request.language or results[0].language, temperature=temperature
            )
            results.append(self._ask(replace(again, prompt=None)))
            verdict = plausibility.judge(results[-1], window.seconds)
        if verdict is Verdict.DROP:
            self._job.log(f"left out what was heard at {window.start:.1f} s: it is no speech")
            return TranscribeResult(text="", language=results[-1].language)
        if len(results) > 1:
            self._job.log(f"asked {len(results)} times for the window at {window.start:.1f} s")
        chosen = plausibility.mended(plausibility.best(results, window.seconds))
        # Only the first has guessed the language.
        return replace(chosen, language_probability=results[0].language_probability)

    def _ask(self, request: TranscribeRequest) -> TranscribeResult:
        with tracing.span("engine transcribe"):
            result = self._engine.transcribe(request, self._job.listen)
        self._job.alive()
        return result


def passage(window: Window, pieces: Sequence[Piece]) -> Passage:
    said = [piece for piece in pieces if piece[1].text]
    # Times of words for a part of it would leave out the rest.
    has_words = all(result.words for _, result in said)
    return Passage(
        start=window.start,
        end=window.end,
        text=joined(result.text for _, result in said),
        language=(said or pieces)[0][1].language,
        words=[each for piece in said for each in _words(*piece)] if has_words else [],
        utterances=[] if has_words else [each for piece in said for each in _utterances(*piece)],
    )


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
