"""The engine on this machine: faster-whisper for words, sherpa-onnx for speakers.

Neither is imported here; they run in a process of their own (`host`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from rushes import errors
from rushes.engines import catalog, custom
from rushes.engines.cache import Cache
from rushes.engines.engine import (
    DEFAULT_MODEL,
    DEFAULT_SPEAKERS,
    Capabilities,
    EngineModel,
    EngineUnavailable,
    ModelUnavailable,
    SpeakerRequest,
    SpeakerTurn,
    TranscribeRequest,
    TranscribeResult,
    Watch,
)
from rushes.engines.host import Call, Host

LIBRARIES = ("faster_whisper", "sherpa_onnx")
CARDS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvhost-ctrl")
MISSING = "the speech engine is not installed here: pip install 'rushes[speech]'"
NO_CARD = "RUSHES_ENGINE_DEVICE is cuda, but there is no CUDA device here: set it to auto or cpu"


class LocalEngine:
    id = "local"

    def __init__(
        self,
        cache: Cache,
        *,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        threads: int = 0,
        max_loaded: int = 2,
        auto_download: bool = True,
        model: str = "",
    ) -> None:
        self._cache = cache
        self._device: Literal["auto", "cpu", "cuda"] = device
        self._threads = threads or _cores()
        self._max_loaded = max_loaded
        self._auto_download = auto_download
        self._model_name = model
        # Telling speakers apart takes minutes of a long recording, and cannot be interrupted: words
        # that somebody waits for come from another process.
        self._host, self._speaker_host = Host(), Host()

    @property
    def pid(self) -> int | None:
        """Of the process that computes, while there is one."""
        return self._host.pid

    def use_model(self, name: str) -> None:
        self._model_name = name

    def capabilities(self) -> Capabilities:
        device = "cuda" if self._device != "cpu" and _has_card() else "cpu"
        chosen = custom.known(self._model_name) if self._model_name else DEFAULT_MODEL
        defaults = (chosen, DEFAULT_SPEAKERS)
        models = [self._model(each, defaults) for each in self._cache.entries()]
        return Capabilities(provider=self.id, device=device, models=models, reason=self._reason())

    def prepare(
        self, models: Sequence[str], progress: Callable[[float, str], None], watch: Watch
    ) -> None:
        self._check()
        entries = [self._cache.entry(each) for each in models]
        missing = [each for each in entries if not self._cache.installed(each.name)]
        for number, entry in enumerate(missing):
            if not self._auto_download:
                raise _not_here(entry.name)

            def tell(done: int, total: int, what: str, number: int = number) -> None:
                share = done / total if total else 0.0
                progress((number + min(share, 1.0)) / len(missing), what)

            self._cache.pull(entry.name, tell, watch)
        progress(1.0, "")

    def speech(self, pcm: bytes, watch: Watch) -> Sequence[tuple[float, float]]:
        self._check()
        intervals: Sequence[tuple[float, float]] = self._host.ask(
            self._call("speech", pcm, None), watch
        )
        return intervals

    def transcribe(self, request: TranscribeRequest, watch: Watch) -> TranscribeResult:
        entry = self._ready(request.model, "transcription")
        if request.language is not None and request.language not in entry.languages:
            raise errors.PermanentFailure(
                f"{entry.name} does not know this language; it knows {', '.join(entry.languages)}",
                code="unsupported_language",
            )
        call = self._call("transcribe", request, self._cache.path(entry.name))
        result: TranscribeResult = self._host.ask(call, watch)
        return result

    def diarize(
        self, request: SpeakerRequest, progress: Callable[[float], None], watch: Watch
    ) -> Sequence[SpeakerTurn]:
        entry = self._ready(request.model, "diarization")
        call = self._call("diarize", request, self._cache.path(entry.name))
        turns: Sequence[SpeakerTurn] = self._speaker_host.ask(call, watch, progress)
        return turns

    def unload_idle(self, seconds: float) -> None:
        """Free the memory of models that nobody has used for so long, here and on the card."""
        self._host.unload_idle(seconds)
        self._speaker_host.unload_idle(seconds)

    def close(self) -> None:
        self._host.close()
        self._speaker_host.close()

    def _ready(self, name: str, purpose: str) -> catalog.CatalogModel:
        self._check()
        entry = self._cache.entry(name)
        if entry.purpose != purpose:
            raise ModelUnavailable(f"{entry.name} is no model for {purpose}")
        if not self._cache.installed(entry.name):
            raise _not_here(entry.name)
        return entry

    def _check(self) -> None:
        if reason := self._reason():
            raise EngineUnavailable(reason)

    def _reason(self) -> str | None:
        if any(importlib.util.find_spec(each) is None for each in LIBRARIES):
            return MISSING
        return NO_CARD if self._device == "cuda" and not _has_card() else None

    def _call(
        self,
        what: Literal["transcribe", "diarize", "speech"],
        request: Any,
        directory: Path | None,
    ) -> Call:
        return Call(
            what=what,
            request=request,
            directory=directory and directory.absolute(),
            device=self._device,
            threads=self._threads,
            max_loaded=self._max_loaded,
        )

    def _model(self, entry: catalog.CatalogModel, defaults: Sequence[str | None]) -> EngineModel:
        return EngineModel(
            name=entry.name,
            purpose=entry.purpose,
            title=entry.title,
            licence=entry.licence,
            size_bytes=entry.size_bytes,
            languages=entry.languages,
            capabilities=entry.capabilities,
            installed=self._cache.installed(entry.name),
            default=entry.name in defaults,
        )


def _not_here(name: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{name} is not on the machine that does the work: run 'rushes models pull {name}' there"
    )


def _cores() -> int:
    """Those this process may use: more threads than that make it slower."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _has_card() -> bool:
    return any(Path(each).exists() for each in CARDS)
