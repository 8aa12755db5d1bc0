"""Words from one window of sound with a Whisper model, by faster-whisper. Runs in the child.

The library's own `transcribe` would look at the end of a window again and again until it is used
up; here a window is encoded once and decoded once, since the caller cuts at pauses.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import ctranslate2
import faster_whisper
import numpy as np
from faster_whisper import transcribe as library
from faster_whisper.audio import pad_or_trim
from faster_whisper.tokenizer import Tokenizer

from rushes.engines import spoken
from rushes.engines.engine import (
    RATE,
    EngineUnavailable,
    EngineWord,
    Spoken,
    TranscribeRequest,
    TranscribeResult,
)

Samples = np.ndarray[Any, np.dtype[np.float32]]

BEAM = 5
# Of those that are drawn above a temperature of 0.
DRAWN = 5
# Less cannot hold a word, nor fill one frame of the spectrum.
SHORTEST_SAMPLES = RATE // 20
# What nobody can say in that time, in the script that needs most of them; a loop ends there.
TOKENS_PER_SECOND, SPARE_TOKENS = 50, 24
# Of what is encoded, a second has so many frames; a language is guessed of so many seconds.
FRAMES, SLICE_SECONDS = 50, 5.0
# Where it changes is looked for more closely.
EDGE_SECONDS, EDGE_STEP_SECONDS = 2.0, 0.5
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"
NO_CARD = (
    "RUSHES_ENGINE_DEVICE is cuda, but no CUDA device can be used here: set it to auto or cpu,"
    " or install the driver and the CUDA libraries"
)


def compression_ratio(text: str) -> float:
    """How much the text repeats itself, by its letters: of UTF-8's bytes, Cyrillic has two for a
    letter that are alike, and looked like a loop."""
    letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
    plain = bytes(letters[letter] % 256 for letter in text)
    return len(plain) / len(zlib.compress(plain))


class Slices:
    """Of a window that was encoded: to encode is dear, to guess the language of a slice is not."""

    def __init__(self, encoded: Any, guesses: Callable[[Any], dict[str, float]]) -> None:
        self._whole = np.array(encoded.to_device(ctranslate2.Device.cpu))
        self._guesses = guesses

    def guess(self, start: float, end: float) -> Spoken:
        guesses = self._of(start, end)
        language = max(guesses, key=lambda name: guesses[name])
        return Spoken(start, end, language, guesses[language])

    def change(self, one: Spoken, other: Spoken) -> float:
        """Where the first ends and the second begins, more or less: slices of both may be wrong
        by their length."""
        steps = int(2 * SLICE_SECONDS / EDGE_STEP_SECONDS)
        first = max(one.start, one.end - SLICE_SECONDS)
        for number in range(steps):
            at = first + number * EDGE_STEP_SECONDS
            if at + EDGE_SECONDS > other.end:
                break
            guesses = self._of(at, at + EDGE_SECONDS)
            before = guesses.get(one.language or "", 0.0)
            after = guesses.get(other.language or "", 0.0) or 1.0 - before
            if after > before:
                return at + EDGE_SECONDS / 2
        return one.end

    def _of(self, start: float, end: float) -> dict[str, float]:
        piece = self._whole[:, round(start * FRAMES) : round(end * FRAMES)]
        return self._guesses(ctranslate2.StorageView.from_array(np.ascontiguousarray(piece)))


class Whisper:
    def __init__(
        self, directory: Path, device: Literal["auto", "cpu", "cuda"], threads: int
    ) -> None:
        self._model = _load(directory, device, threads)

    def transcribe(self, request: TranscribeRequest) -> TranscribeResult:
        samples = np.frombuffer(request.sound, "<i2").astype(np.float32) / np.float32(32768)
        if len(samples) < SHORTEST_SAMPLES:
            return TranscribeResult(text="", language=request.language)
        encoded = self._encoded(samples)
        duration = len(samples) / RATE
        parts = self._spoken(encoded, samples, request)
        if len(parts) > 1:
            return TranscribeResult(text="", parts=parts)
        [(language, probability)] = [(each.language, each.probability) for each in parts]
        tokenizer = Tokenizer(
            self._model.hf_tokenizer,
            self._model.model.is_multilingual,
            task=request.task,
            language=language,
        )
        result, room = self._decode(encoded, tokenizer, request, duration)
        tokens = [each for each in result.sequences_ids[0] if each < tokenizer.eot]
        text = tokenizer.decode(tokens).strip()
        return TranscribeResult(
            text=text,
            language=language,
            language_probability=probability,
            words=self._words(encoded, tokenizer, tokens, duration) if text else (),
            no_speech_probability=float(result.no_speech_prob),
            average_logprob=_average(result),
            compression_ratio=compression_ratio(text) if text else None,
            is_cut=len(result.sequences_ids[0]) >= room,
        )

    def _encoded(self, samples: Samples) -> Any:
        return self._model.encode(pad_or_trim(self._model.feature_extractor(samples)))

    def _spoken(
        self, encoded: Any, samples: Samples, request: TranscribeRequest
    ) -> Sequence[Spoken]:
        """One language, or where each of several is spoken."""
        duration = len(samples) / RATE
        if not self._model.model.is_multilingual:
            return [Spoken(0.0, duration, "en")]
        if request.language is not None:
            return [Spoken(0.0, duration, request.language)]
        if duration >= 2 * SLICE_SECONDS:
            parts = self._parts(Slices(encoded, self._guesses), samples)
            if len(parts) > 1:
                return parts
        guesses = self._guesses(encoded)
        language = max(guesses, key=lambda name: guesses[name])
        if request.expected in guesses and not spoken.is_believed(guesses[language], duration):
            language = request.expected
        return [Spoken(0.0, duration, language, guesses[language])]

    def _parts(self, slices: Slices, samples: Samples) -> list[Spoken]:
        duration = len(samples) / RATE
        count = int(duration / SLICE_SECONDS)
        edges = [duration * number / count for number in range(count + 1)]
        found = spoken.parts([slices.guess(*each) for each in pairwise(edges)])

        def alone(part: Spoken) -> str:
            guesses = self._guesses(
                self._encoded(samples[round(part.start * RATE) : round(part.end * RATE)])
            )
            return max(guesses, key=lambda name: guesses[name])

        return spoken.refined(spoken.settled(found, alone), slices.change)

    def _guesses(self, encoded: Any) -> dict[str, float]:
        found = self._model.model.detect_language(encoded)[0]
        return {token.strip("<|>"): float(probability) for token, probability in found}

    def _decode(
        self, encoded: Any, tokenizer: Tokenizer, request: TranscribeRequest, duration: float
    ) -> tuple[Any, int]:
        """With how many tokens there was room for: a text that needs them all is not whole."""
        before = tokenizer.encode(f" {request.prompt.strip()}") if request.prompt else []
        prompt = self._model.get_prompt(tokenizer, before, without_timestamps=True)
        room = int(duration * TOKENS_PER_SECOND) + SPARE_TOKENS
        # Half of the length is all the library gives to the text, however short the prompt is.
        length = min(self._model.max_length, max(2 * room, len(prompt) + room))
        how: dict[str, Any] = {"beam_size": BEAM}
        if request.temperature > 0:
            how = {
                "beam_size": 1,
                "num_hypotheses": DRAWN,
                "sampling_topk": 0,
                "sampling_temperature": request.temperature,
            }
        result = self._model.model.generate(
            encoded,
            [prompt],
            max_length=length,
            return_scores=True,
            return_no_speech_prob=True,
            suppress_blank=True,
            suppress_tokens=library.get_suppressed_tokens(tokenizer, [-1]),
            **how,
        )[0]
        return result, min(length // 2, length - len(prompt))

    def _words(
        self, encoded: Any, tokenizer: Tokenizer, tokens: list[int], duration: float
    ) -> list[EngineWord]:
        """By the attention of the decoder; the library mends words that last too long."""
        piece: dict[str, Any] = {"tokens": tokens, "start": 0.0, "end": duration, "seek": 0}
        frames = min(self._model.feature_extractor.nb_max_frames, int(np.ceil(duration * 100)))
        self._model.add_word_timestamps(
            [[piece]], tokenizer, encoded, frames, PREPENDED, APPENDED, 0.0
        )
        words: list[EngineWord] = []
        at = 0.0
        for each in piece["words"]:
            text = each["word"].strip()
            start = min(max(float(each["start"]), at), duration)
            end = min(max(float(each["end"]), start), duration)
            if text:
                words.append(
                    EngineWord(
                        start=start, end=end, word=text, confidence=float(each["probability"])
                    )
                )
                at = start
        return words


def _average(result: Any) -> float:
    """The score is the mean without the token that ends the text."""
    count = len(result.sequences_ids[0])
    return float(result.scores[0]) * count / (count + 1)


def _load(
    directory: Path, device: Literal["auto", "cpu", "cuda"], threads: int
) -> faster_whisper.WhisperModel:
    if device == "cuda" and not ctranslate2.get_cuda_device_count():
        raise EngineUnavailable(NO_CARD)
    if device != "cpu" and ctranslate2.get_cuda_device_count():
        try:
            return _proved(_open(directory, "cuda", "float16", threads))
        except RuntimeError as error:
            # Such as CUDA libraries that are missing, which shows when they are first used.
            if device == "cuda":
                raise EngineUnavailable(NO_CARD) from error
    return _open(directory, "cpu", "int8", threads)


def _open(directory: Path, device: str, kind: str, threads: int) -> faster_whisper.WhisperModel:
    return faster_whisper.WhisperModel(
        str(directory),
        device=device,
        compute_type=kind,
        cpu_threads=threads,
        local_files_only=True,
    )


def _proved(model: faster_whisper.WhisperModel) -> faster_whisper.WhisperModel:
    model.encode(pad_or_trim(model.feature_extractor(np.zeros(RATE, np.float32))))
    return model
