"""Which ffmpeg is taken, and what people are told of one that is too old."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ffmpegs
from running import Running, settings_for
from rushes import errors
from rushes.cli import doctor
from rushes.tools import programs


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Put programs of that version in front of everything; returns what lists their runs."""

    def install(version: str) -> Path:
        folder = tmp_path / f"bin-{version}"
        folder.mkdir()
        for name in programs.NAMES:
            script = f"#!/bin/sh\necho {name} >>{folder}/runs\necho '{name} version {version} x'\n"
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        ffmpegs.forget()
        return folder / "runs"

    yield install
    ffmpegs.forget()


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "WHEEL", "no-such-wheel")


needs_wheel = pytest.mark.skipif(programs.in_wheel("ffmpeg") is None, reason="no wheel here")


@pytest.mark.parametrize("version", ["5.1.9-0+deb12u1", "7.1", "n8.0", "N-118000-gabcdef"])
def test_one_that_is_new_enough_is_taken_without_a_word(
    installed: Callable[[str], Path], version: str
) -> None:
    runs = installed(version)
    assert Path(programs.ffmpeg()).parent == Path(programs.ffprobe()).parent == runs.parent
    assert programs.trouble() is None


@needs_wheel
def test_the_wheel_s_script_in_an_activated_environment_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripts = sysconfig.get_path("scripts")
    assert Path(scripts, "ffmpeg").read_bytes().startswith(b"#!")
    monkeypatch.setenv("PATH", scripts)
    ffmpegs.forget()
    assert programs.ffmpeg() == programs.in_wheel("ffmpeg")
    monkeypatch.undo()
    ffmpegs.forget()


@pytest.mark.usefixtures("no_wheel")
def test_one_that_is_too_old_is_refused_in_a_sentence_that_says_what_to_do(
    installed: Callable[[str], Path],
) -> None:
    installed("4.4.2-0ubuntu0")
    with pytest.raises(errors.RetryLater, match=r"ffmpeg 4\.4 is too old here: install .*5\.1"):
        programs.ffmpeg()
    check = doctor._check_tools(settings_for())
    assert check.status == "warn"
    assert check.message.startswith("videos cannot be processed here: ffmpeg 4.4 is too old here")
    assert "install ffmpeg (5.1 or later)" in check.message


@needs_wheel
def test_one_that_is_too_old_is_passed_over_for_the_wheels(
    installed: Callable[[str], Path],
) -> None:
    installed("4.4.2")
    assert programs.is_bundled(programs.ffmpeg())
    said = programs.trouble() or ""
    assert said.startswith("this machine's ffmpeg 4.4 is older than 5.1 and is passed over")
    assert said.endswith("update it")


def test_one_that_was_asked_for_is_used_and_its_age_is_told(
    installed: Callable[[str], Path],
) -> None:
    folder = installed("4.4.2").parent
    named = {name: str(folder / name) for name in programs.NAMES}
    check = doctor._check_tools(settings_for(**named))
    assert programs.ffmpeg() == named["ffmpeg"]
    assert check.status == "warn"
    assert "ffmpeg 4.4 is older than 5.1, the oldest that is supported" in check.message
    programs.use(ffmpeg=str(folder / "runs"), ffprobe=named["ffprobe"])
    assert "RUSHES_FFMPEG names is no ffmpeg" in (programs.trouble() or "")


@needs_wheel
def test_doctor_says_that_a_wheels_gets_no_security_fixes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Once before: what limits a program is looked for on the PATH, and remembered.
    assert doctor._check_tools(settings_for()).status == "ok"
    monkeypatch.setenv("PATH", str(tmp_path))
    ffmpegs.forget()
    check = doctor._check_tools(settings_for())
    ffmpegs.forget()
    assert check.status == "ok"
    assert "gets no security fixes: once installed, your system's is used" in check.message


@pytest.mark.usefixtures("no_wheel")
def test_a_server_says_at_its_start_that_it_is_too_old(
    installed: Callable[[str], Path],
    serve: Callable[..., Running],
    caplog: pytest.LogCaptureFixture,
) -> None:
    installed("4.4.2")
    running = serve()
    running.stop()
    assert "videos cannot be processed here: ffmpeg 4.4 is too old here" in caplog.text


def test_steps_that_begin_together_look_only_once(installed: Callable[[str], Path]) -> None:
    runs = installed("7.1")
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: programs.ffmpeg(), range(8)))
    assert len(found) == 1
    assert runs.read_text().split() == ["ffmpeg"]
