"""Words from one window of sound with a Whisper model, by faster-whisper. Runs in the child.

The library's own `transcribe` would look at the end of a window again and again until it is used
up; here a window is encoded once and decoded once, since the caller cuts at pauses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import ctranslate2
import faster_whisper
import numpy as np
from faster_whisper import transcribe as library
from faster_whisper.audio import pad_or_trim
from faster_whisper.tokenizer import Tokenizer

from rushes.engines.engine import (
    RATE,
    EngineUnavailable,
    EngineWord,
    TranscribeRequest,
    TranscribeResult,
)

BEAM = 5
# Of those that are drawn above a temperature of 0.
DRAWN = 5
# Less cannot hold a word, nor fill one frame of the spectrum.
SHORTEST_SAMPLES = RATE // 20
# What nobody can say in that time, in the script that needs most of them; a loop ends there.
TOKENS_PER_SECOND, SPARE_TOKENS = 50, 24
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"
NO_CARD = (
    "RUSHES_ENGINE_DEVICE is cuda, but no CUDA device can be used here: set it to auto or cpu,"
    " or install the driver and the CUDA libraries"
)


class Whisper:
    def __init__(
        self, directory: Path, device: Literal["auto", "cpu", "cuda"], threads: int
    ) -> None:
        self._model = _load(directory, device, threads)

    def transcribe(self, request: TranscribeRequest) -> TranscribeResult:
        samples = np.frombuffer(request.sound, "<i2").astype(np.float32) / 32768
        if len(samples) < SHORTEST_SAMPLES:
            return TranscribeResult(text="", language=request.language)
        features = self._model.feature_extractor(samples)
        encoded = self._model.encode(pad_or_trim(features))
        language, probability = self._language(encoded, request.language)
        tokenizer = Tokenizer(
            self._model.hf_tokenizer,
            self._model.model.is_multilingual,
            task=request.task,
            language=language,
        )
        duration = len(samples) / RATE
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
            compression_ratio=library.get_compression_ratio(text) if text else None,
            is_cut=len(result.sequences_ids[0]) >= room,
        )

    def _language(self, encoded: Any, given: str | None) -> tuple[str, float | None]:
        if not self._model.model.is_multilingual:
            return "en", None
        if given is not None:
            return given, None
        token, probability = self._model.model.detect_language(encoded)[0][0]
        return token.strip("<|>"), float(probability)

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
