"""`rushes models` on this machine's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import hub as hubs
from engines.hub import CONTENT, NAME, Hub
from rushes.engines import catalog, fetching
from shell import Shell


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setitem(catalog.MODELS, NAME, hubs.entry(hubs.hub_source()))
    monkeypatch.setattr(fetching, "_away_until", {})
    with hubs.serving() as hub:
        yield hub


@pytest.fixture
def shell(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    monkeypatch.chdir(tmp_path)
    shell = Shell(capsys, monkeypatch, tmp_path)
    shell.set(data_dir=tmp_path / "data", engine_hub_url=hub.url)
    return shell


def test_a_model_is_pulled_listed_and_removed(shell: Shell) -> None:
    assert f"{NAME} is here, from the hub" in shell.text("models", "pull", "toy")
    assert "fetching 2.0 MB" in shell.err
    listed = {each["name"]: each for each in shell.json("models", "ls")}
    assert listed[NAME]["installed"]
    assert not listed["whisper-base"]["installed"]
    assert listed["whisper-base"]["default"]
    assert listed["whisper-base"]["licence"] == "MIT"
    assert "de" in listed["whisper-base"]["languages"]
    assert NAME in shell.text("models", "ls")
    assert shell.json("models", "rm", NAME) == {"name": NAME, "removed": True}
    assert shell.run("models", "rm", NAME) == 4
    assert "is not here" in shell.err


def test_the_default_is_what_the_setting_says(shell: Shell) -> None:
    def defaults() -> set[str]:
        return {each["name"] for each in shell.json("models", "ls") if each["default"]}

    shell.set(engine_model="toy")
    assert defaults() == {NAME, "diarization-default"}
    assert f"{NAME} (default)" in shell.text("models", "ls")
    shell.set(engine_model="whisper-huge")
    assert defaults() == {"diarization-default"}
    # Then it is the name of a model elsewhere.
    shell.set(engine="openai", engine_url="http://127.0.0.1:1", engine_model="toy")
    assert defaults() == {"whisper-base", "diarization-default"}


def test_a_model_comes_from_a_directory(shell: Shell, tmp_path: Path) -> None:
    place = tmp_path / "usb"
    place.mkdir()
    assert shell.run("models", "pull", NAME, "--from", place) == 4
    assert "model.bin" in shell.err
    for name, data in CONTENT.items():
        (place / name).write_bytes(data)
    pulled = shell.json("models", "pull", NAME, "--from", place)
    assert pulled == {"name": NAME, "source": "the directory", "notes": []}


def test_what_cannot_be_had_is_explained(shell: Shell, hub: Hub) -> None:
    assert shell.run("models", "pull", "whisper-huge") == 4
    assert "there are whisper-tiny" in shell.err
    hub.content.clear()
    assert shell.run("models", "pull", NAME, "--from", "hub") == 4
    assert "the hub answers 404 for model.bin" in shell.err


def test_doctor_tells_of_the_engine(shell: Shell) -> None:
    def said() -> dict[str, str]:
        shell.run("doctor", "--json")
        import json

        checks = json.loads(shell.out)["checks"]
        found: dict[str, str] = next(each for each in checks if each["check"] == "speech")
        return found

    assert "rushes models pull whisper-base" in said()["message"]
    shell.text("models", "pull", NAME)
    assert NAME in said()["message"]
    shell.set(engine="openai")
    found = said()
    assert found["status"] == "warn"
    assert "RUSHES_ENGINE_URL" in found["message"]
    shell.set(engine="nobody")
    assert "there are local, openai" in said()["message"]
