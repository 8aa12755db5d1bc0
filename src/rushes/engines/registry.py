"""Which engines there are, and the one place that makes them. A process has one `Registry`.

A package adds an engine by an entry point in `rushes.engines`: its name is the engine's id, and it
is called with `Options`. Nothing heavy is imported before an engine is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rushes.engines.engine import ANY_MODEL, Engine, EngineUnavailable
from rushes.engines.pace import Pace
from rushes.settings import Settings

if TYPE_CHECKING:
    from rushes.engines.cache import Cache

ENTRY_POINTS = "rushes.engines"
Factory = Callable[["Options"], Engine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What engines are made with. `engine` is the one to use unless another is named, and `model`
    what it uses then; empty for its own choice."""

    cache_dir: Path
    engine: str = "local"
    model: str = ""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = 0
    max_loaded: int = 2
    auto_download: bool = True
    hub_url: str = "https://huggingface.co"
    url: str = ""
    api_key: str = ""

    def __repr__(self) -> str:
        return f"Options(engine={self.engine!r}, device={self.device!r})"


def options(settings: Settings) -> Options:
    assert settings.engine_cache_dir is not None
    return Options(
        cache_dir=settings.engine_cache_dir,
        engine=settings.engine,
        model=settings.engine_model,
        device=settings.engine_device,
        threads=settings.engine_threads,
        max_loaded=settings.engine_max_loaded,
        auto_download=settings.engine_auto_download,
        hub_url=settings.engine_hub_url,
        url=settings.engine_url,
        api_key=settings.engine_api_key,
    )


class Registry:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._made: dict[str, Engine] = {}
        self.pace = Pace(options.cache_dir / "pace.json")

    def get(self, id: str | None = None) -> Engine:
        """The one that is meant for this machine, unless another is named. Made once."""
        name = id or self._options.engine
        with self._lock:
            if name not in self._made:
                self._made[name] = self._factory(name)(self._options)
            return self._made[name]

    def speakers(self, id: str | None = None) -> Engine:
        """The one that tells speakers apart: the same if it can, otherwise the local one."""
        engine = self.get(id)
        models = engine.capabilities().models
        can = any(each.purpose == "diarization" for each in models)
        return engine if can else self.get("local")

    def model(self, engine: Engine) -> str:
        """What it uses when nobody names one."""
        if self._options.model and engine is self.get():
            return self._options.model
        models = [each for each in engine.capabilities().models if each.purpose == "transcription"]
        chosen = [each.name for each in models if each.default]
        if chosen or len(models) == 1:
            return chosen[0] if chosen else models[0].name
        return ANY_MODEL

    def use_model(self, name: str) -> None:
        """From the next job on, for those that name none; empty: the engine's own choice."""
        with self._lock:
            self._options = replace(self._options, model=name)
            engine = self._made.get(self._options.engine)
        if engine is not None and (use := getattr(engine, "use_model", None)):
            use(name)

    @property
    def cache(self) -> Cache | None:
        """Where the engine of this machine keeps its models; None for one that does not say."""
        return cache(self._options) if self._options.engine == "local" else None

    def why_not(self) -> str | None:
        """Why the engine of this machine cannot run here, if so. Models may still be missing, and
        a server that is away may come back."""
        try:
            self.get().prepare([], lambda share, what: None, lambda: None)
        except EngineUnavailable as error:
            return error.message
        return None

    def described(self) -> str:
        """Its facts, for the log of whoever runs it. Nothing is loaded, fetched or called."""
        given = self._options
        facts = {
            "device": given.device,
            "threads": given.threads or "as many as cores",
            "max loaded": given.max_loaded,
            "auto download": "on" if given.auto_download else "off",
            "models in": given.cache_dir,
        }
        if given.engine == "local":
            facts["device"] = f"{self.get().capabilities().device} ({given.device})"
        told = ", ".join(f"{name} {value}" for name, value in facts.items())
        return f"speech engine {given.engine}: {told}"

    def ids(self) -> list[str]:
        return sorted({*BUILT_IN, *(each.name for each in _entry_points())})

    def unload_idle(self, seconds: float) -> None:
        """Let engines that know how to free what they have not used for so long."""
        with self._lock:
            made = list(self._made.values())
        for engine in made:
            if unload := getattr(engine, "unload_idle", None):
                unload(seconds)

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, {}
        for engine in made.values():
            engine.close()

    def _factory(self, name: str) -> Factory:
        if name in BUILT_IN:
            return BUILT_IN[name]
        for each in _entry_points():
            if each.name == name:
                factory: Factory = each.load()
                return factory
        raise EngineUnavailable(
            f"there is no speech engine of this name; there are {', '.join(self.ids())}"
        )


def cache(options: Options) -> Cache:
    from rushes.engines.cache import Cache

    return Cache(options.cache_dir, hub_url=options.hub_url)


def _entry_points() -> metadata.EntryPoints:
    return metadata.entry_points(group=ENTRY_POINTS)


def _local(options: Options) -> Engine:
    from rushes.engines.local import LocalEngine

    return LocalEngine(
        cache(options),
        device=options.device,
        threads=options.threads,
        max_loaded=options.max_loaded,
        auto_download=options.auto_download,
        model=_model_for("local", options),
    )


def _openai(options: Options) -> Engine:
    from rushes.engines.openai import OpenAI

    return OpenAI(options.url, options.api_key, model=_model_for("openai", options))


def _model_for(id: str, options: Options) -> str:
    """The setting is for the engine of this machine alone; others do not know the name."""
    return options.model if options.engine == id else ""


BUILT_IN: dict[str, Factory] = {"local": _local, "openai": _openai}
