"""The engine of this machine as a process: it crashes alone, stops at once and leaves nothing."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import speech
from rushes import errors
from rushes.engines import host as hosts
from rushes.engines import local as locals
from rushes.engines.cache import Cache
from rushes.engines.child import Models
from rushes.engines.engine import (
    EngineFailed,
    EngineUnavailable,
    ModelUnavailable,
    SpeakerRequest,
    TranscribeRequest,
)
from rushes.engines.host import Call, Host
from rushes.engines.local import LocalEngine
from rushes.engines.registry import Options, Registry

SMALL = speech.SMALL


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    engine = speech.engine(SMALL, max_loaded=1)
    yield engine
    engine.close()


def nothing() -> None: ...


def ask(engine: LocalEngine, watch: Callable[[], None] = nothing) -> str:
    request = TranscribeRequest(sound=speech.pcm("jfk"), model=SMALL)
    return engine.transcribe(request, watch).text


def is_gone(pid: int) -> bool:
    """Or ended, and not yet looked after by whoever started it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Once:
    """A watch that does something as soon as the engine computes, and then no more."""

    def __init__(self, engine: LocalEngine, act: Callable[[int], None]) -> None:
        self._engine = engine
        self._act: Callable[[int], None] | None = act

    def __call__(self) -> None:
        pid = self._engine.pid
        if pid is not None and self._act is not None:
            act, self._act = self._act, None
            act(pid)


def test_killed_in_the_middle_it_says_so_and_the_next_question_is_answered(
    engine: LocalEngine, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger=hosts.__name__)
    with pytest.raises(EngineFailed, match="memory") as caught:
        ask(engine, Once(engine, lambda pid: os.kill(pid, signal.SIGKILL)))
    assert caught.value.code == "engine_failed"
    assert isinstance(caught.value, errors.TransientFailure)
    with pytest.raises(EngineFailed, match="crashed"):
        ask(engine, Once(engine, lambda pid: os.kill(pid, signal.SIGSEGV)))
    assert "country" in ask(engine)
    pid = engine.pid
    assert pid is not None
    # What an impatient person at a terminal sends, and who stops a service with all of it.
    assert "country" in ask(engine, Once(engine, lambda pid: os.kill(pid, signal.SIGINT)))
    assert "country" in ask(engine, Once(engine, lambda pid: os.kill(pid, signal.SIGTERM)))
    assert engine.pid == pid
    # Killed while nobody asks, it is not even noticed.
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert engine.speech(speech.silence(1), nothing) == []
    # What it prints is for the log alone.
    assert any("loaded whisper-tiny.en" in each.message for each in caplog.records)
    assert capfd.readouterr() == ("", "")


def test_models_leave_the_memory_when_nobody_has_used_them(engine: LocalEngine) -> None:
    assert engine.speech(speech.silence(1), nothing) == []
    pid = engine.pid
    assert pid is not None
    engine.unload_idle(3600)
    assert engine.pid == pid

    def unload() -> None:
        # In the middle of a question it is not idle.
        engine.unload_idle(0)

    engine.speech(speech.silence(1), unload)
    assert not is_gone(pid)
    engine.unload_idle(0)
    assert is_gone(pid)
    assert engine.speech(speech.silence(1), nothing) == []


def test_whoever_watches_ends_it(engine: LocalEngine) -> None:
    seen: list[int] = []

    def stop(pid: int) -> None:
        seen.append(pid)
        raise errors.Canceled("enough")

    with pytest.raises(errors.Canceled):
        ask(engine, Once(engine, stop))
    assert is_gone(seen[0])
    assert engine.pid is None


def test_one_question_at_a_time_and_who_waits_is_heard(engine: LocalEngine) -> None:
    """The second waits for its turn, and may give up meanwhile."""
    first_asks, done = threading.Event(), threading.Event()
    answers: list[str] = []

    def first() -> None:
        def hold() -> None:
            first_asks.set()
            done.wait(60)

        answers.append(ask(engine, hold))

    thread = threading.Thread(target=first)
    thread.start()
    assert first_asks.wait(60)

    def give_up() -> None:
        raise errors.Canceled("enough")

    with pytest.raises(errors.Canceled):
        ask(engine, give_up)
    done.set()
    thread.join()
    assert "country" in answers[0], "the one who computed was not disturbed"


def test_closing_ends_the_process_and_whoever_asks(engine: LocalEngine) -> None:
    closing = threading.Thread(target=engine.close)
    with pytest.raises(EngineFailed):
        ask(engine, Once(engine, lambda pid: closing.start()))
    closing.join()
    assert engine.pid is None


PARENT = """
import sys
from rushes.engines.cache import Cache
from rushes.engines.engine import TranscribeRequest, SpeakerRequest
from rushes.engines.local import LocalEngine
from pathlib import Path
engine = LocalEngine(Cache(Path(sys.argv[1])))
def tell(*at):
    print(engine.pid, flush=True)
if sys.argv[2] == "words":
    sound = Path(sys.argv[3]).read_bytes()
    while True:
        engine.transcribe(TranscribeRequest(sound=sound, model="whisper-tiny.en"), tell)
engine.diarize(SpeakerRequest(path=Path(sys.argv[3])), tell, lambda: None)
"""


@pytest.mark.parametrize("what", ["words", "speakers"])
def test_it_ends_with_its_parent_in_the_middle_of_anything(what: str, tmp_path: Path) -> None:
    models = speech.cache_dir(SMALL, "diarization-default")
    sound = tmp_path / "sound"
    sound.write_bytes(speech.pcm("call"))
    command = [sys.executable, "-c", PARENT, str(models), what, str(sound)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # From here on it computes.
        assert not is_gone(pid)
        descriptor = os.pidfd_open(pid)
        parent.kill()
    # Readable when the process has ended.
    import select

    ended, _, _ = select.select([descriptor], [], [], 10)
    os.close(descriptor)
    assert ended


def test_the_least_recently_used_model_makes_room() -> None:
    models, loaded = Models(), []

    def get(name: str) -> Any:
        def load(path: Path) -> str:
            loaded.append(path.name)
            return path.name

        call = Call(
            what="transcribe",
            request=None,
            directory=Path(name),
            device="cpu",
            threads=1,
            max_loaded=2,
        )
        return models.get(call, load)

    for name in ("a", "b", "a", "c", "a", "b"):
        assert get(name) == name
    assert loaded == ["a", "b", "c", "b"]


def test_a_model_that_may_not_be_fetched_is_named(tmp_path: Path) -> None:
    engine = LocalEngine(Cache(tmp_path), auto_download=False)
    with pytest.raises(ModelUnavailable, match="rushes models pull whisper-base"):
        engine.prepare(["whisper-base"], lambda share, what: None, nothing)
    with pytest.raises(ModelUnavailable, match="rushes models pull whisper-base"):
        engine.transcribe(TranscribeRequest(sound=b"", model="base"), nothing)
    with pytest.raises(ModelUnavailable, match="rushes models pull diarization-default"):
        engine.diarize(SpeakerRequest(path=tmp_path), lambda share: None, nothing)
    assert engine.pid is None


def test_a_directory_of_ones_own_hears_words(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.pull("local/mine", source=speech.cache_dir(SMALL) / SMALL)
    engine = LocalEngine(cache, auto_download=False)
    try:
        request = TranscribeRequest(sound=speech.pcm("jfk"), model="local/mine")
        assert "what you can do for your country" in engine.transcribe(request, nothing).text
    finally:
        engine.close()
    [model] = [each for each in engine.capabilities().models if each.name == "local/mine"]
    assert list(model.languages) == ["en"]


def test_a_model_is_what_it_is_for(engine: LocalEngine) -> None:
    with pytest.raises(ModelUnavailable, match="no model for transcription"):
        engine.transcribe(TranscribeRequest(sound=b"", model="diarization-default"), nothing)
    with pytest.raises(ModelUnavailable, match="there are whisper-tiny"):
        engine.transcribe(TranscribeRequest(sound=b"", model="whisper-huge"), nothing)
    with pytest.raises(errors.PermanentFailure, match="it knows en") as caught:
        engine.transcribe(TranscribeRequest(sound=b"", model=SMALL, language="de"), nothing)
    assert caught.value.code == "unsupported_language"


def test_a_missing_card_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locals, "CARDS", ())
    engine = LocalEngine(Cache(tmp_path), device="cuda")
    assert "RUSHES_ENGINE_DEVICE" in str(engine.capabilities().reason)
    with pytest.raises(EngineUnavailable, match="RUSHES_ENGINE_DEVICE"):
        engine.prepare([], lambda share, what: None, nothing)
    assert LocalEngine(Cache(tmp_path)).capabilities().device == "cpu"


def test_a_card_that_only_seems_to_be_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found out by the process that would use it."""
    monkeypatch.setattr(locals, "CARDS", ("/dev/null",))
    engine = speech.engine(SMALL, device="cuda")
    with pytest.raises(EngineUnavailable, match="no CUDA device can be used"):
        ask(engine)
    engine.close()


def test_without_its_libraries_it_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(locals, "LIBRARIES", ("not_installed",))
    engine = LocalEngine(Cache(tmp_path))
    assert "rushes[speech]" in str(engine.capabilities().reason)
    with pytest.raises(EngineUnavailable, match=r"rushes\[speech\]"):
        engine.speech(b"", nothing)


def test_a_text_that_does_not_fit_is_known_to_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    # Here: it is large.
    from rushes.engines import whisper

    listener = whisper.Whisper(speech.cache_dir(SMALL) / SMALL, "cpu", 2)
    request = TranscribeRequest(sound=speech.pcm("jfk"), model=SMALL)
    whole = listener.transcribe(request)
    assert not whole.is_cut
    monkeypatch.setattr(whisper, "TOKENS_PER_SECOND", 1)
    monkeypatch.setattr(whisper, "SPARE_TOKENS", 0)
    for prompt in (None, "My fellow Americans, this is a speech."):
        cut = listener.transcribe(replace(request, prompt=prompt))
        assert cut.is_cut
        assert len(cut.text) < len(whole.text)


def test_the_model_for_whoever_names_none_can_be_set(tmp_path: Path) -> None:
    for said, meant in (("", "whisper-base"), ("small", "whisper-small")):
        registry = Registry(Options(cache_dir=tmp_path, model=said))
        listed = registry.get().capabilities().models
        names = [each.name for each in listed if each.default and each.purpose == "transcription"]
        assert names == [meant]
        assert registry.model(registry.get()) in (said, meant)
        registry.close()


def test_whether_it_can_run_at_all_is_known_beforehand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A model that is missing, or a server that is away, is no reason."""
    assert Registry(Options(cache_dir=tmp_path, auto_download=False)).why_not() is None
    away = Options(cache_dir=tmp_path, engine="openai", url="http://127.0.0.1:9")
    assert Registry(away).why_not() is None
    assert "RUSHES_ENGINE_URL" in str(Registry(replace(away, url="")).why_not())
    assert "local, openai" in str(Registry(replace(away, engine="parrot")).why_not())
    monkeypatch.setattr(locals, "LIBRARIES", ("not_installed",))
    assert "rushes[speech]" in str(Registry(Options(cache_dir=tmp_path)).why_not())


def test_models_and_what_is_installed_are_listed() -> None:
    can = speech.engine(SMALL).capabilities()
    by_name = {each.name: each for each in can.models}
    assert can.reason is None
    assert by_name[SMALL].installed
    assert not by_name["whisper-large-v3"].installed
    assert {each.name for each in can.models if each.default} == {
        "whisper-base",
        "diarization-default",
    }
    assert by_name["whisper-base"].size_bytes == 147_882_941


def test_engines_are_made_once_and_by_name(tmp_path: Path) -> None:
    registry = Registry(Options(cache_dir=tmp_path))
    assert registry.get() is registry.get("local")
    assert registry.speakers() is registry.get("local")
    with pytest.raises(EngineUnavailable, match="there are local, openai"):
        registry.get("nobody")
    registry.close()
    again = Registry(Options(cache_dir=tmp_path, engine="nobody"))
    with pytest.raises(EngineUnavailable):
        again.get()


def test_a_package_adds_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rushes.engines]\ntheirs = their_engine:make\n")
    (tmp_path / "their_engine.py").write_text("def make(options):\n    return ['made', options]\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = Options(cache_dir=tmp_path, engine="theirs", api_key="sk-secret")
    made: Any = Registry(options).get()
    assert made == ["made", options]
    assert "sk-secret" not in repr(options)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    script = (
        "import sys; from rushes.engines import registry, local, openai;"
        "print([name for name in ('numpy', 'ctranslate2', 'sherpa_onnx', 'onnxruntime', 'av')"
        " if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert said.stdout.strip() == b"[]"


def test_a_process_that_cannot_start_is_a_reason_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    call = Call(what="speech", request=b"", directory=None, device="cpu", threads=1, max_loaded=1)
    with pytest.raises(errors.RetryLater, match="cannot be started"):
        Host().ask(call, nothing)
