"""Models that are not in the catalog: by repository or directory, and what they were at first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import hub as hubs
from engines.hub import MODEL, REPO, Hub
from rushes.engines import custom, fetching
from rushes.engines.cache import Cache
from rushes.engines.engine import ModelUnavailable
from rushes.engines.local import LocalEngine
from shell import Shell


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(fetching, "_away_until", {})
    monkeypatch.setattr(fetching, "FIRST_WAIT_SECONDS", 0.01)
    with hubs.serving() as hub:
        hub.content = dict(MODEL)
        yield hub


@pytest.fixture
def cache(tmp_path: Path, hub: Hub) -> Cache:
    return Cache(tmp_path / "models", hub_url=hub.url)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "my-model"
    place.mkdir()
    for name, data in MODEL.items():
        (place / name).write_bytes(data)
    return place


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("base.en", "Systran/faster-whisper-base.en"),
        ("whisper-small.en", "Systran/faster-whisper-small.en"),
        ("distil-small.en", "Systran/faster-distil-whisper-small.en"),
        (" Somebody/a_model-2.1 ", "Somebody/a_model-2.1"),
        ("tiny.en", "whisper-tiny.en"),
    ],
)
def test_a_repository_is_a_name(said: str, meant: str) -> None:
    assert custom.known(said) == meant


@pytest.mark.parametrize(
    "said",
    [
        *("", "/", "a/", "/b", "/tmp/model", "../x/y", "a/..", "a/../b", "./b", "a/.b", "a/b/c"),
        *("a//b", "a/b--c", "a/b?c", "a/b%2e", "a\\b", "a\n/b", "a/b c", "C:/x/y"),
        f"a/{'b' * 200}",
    ],
)
def test_what_looks_like_a_path_is_none(said: str, cache: Cache) -> None:
    assert custom.full_name(said) is None
    with pytest.raises(ModelUnavailable):
        cache.pull(said)


def test_a_repository_is_fetched_pinned_and_listed(cache: Cache, hub: Hub) -> None:
    with pytest.raises(ModelUnavailable, match=f"rushes models pull {REPO}"):
        LocalEngine(cache).prepare([REPO], lambda share, what: None, lambda: None)
    assert hub.asked == [], "only who runs the machine decides what is fetched"
    hub.drop_after = 1_000_000
    assert cache.pull(REPO).source == "the hub"
    hub.drop_after = None
    assert "README.md" not in {each.name for each in cache.path(REPO).iterdir()}
    engine = LocalEngine(cache, model=REPO)
    [model] = [each for each in engine.capabilities().models if each.name == REPO]
    assert (model.installed, model.default, model.licence) == (True, True, "mit")
    assert (model.languages, model.capabilities) == (["en"], ["word_timestamps"])
    assert model.size_bytes == sum(len(MODEL[each]) for each in MODEL if each != "README.md")
    engine.prepare([REPO], lambda share, what: None, lambda: None)
    assert cache.remove(REPO)
    assert [each.installed for each in engine.capabilities().models if each.name == REPO] == [False]
    # Who was chosen once is fetched again for a job.
    engine.prepare([REPO], lambda share, what: None, lambda: None)
    assert cache.installed(REPO)


@pytest.mark.parametrize("name", ["model.bin", "tokenizer.json"])
def test_other_bytes_than_at_first_are_refused(cache: Cache, hub: Hub, name: str) -> None:
    cache.pull(REPO)
    cache.remove(REPO)
    hub.content[name] = b"?" + hub.content[name][1:]
    with pytest.raises(ModelUnavailable, match=f"gives as {name} is not what it should be"):
        cache.pull(REPO)
    assert not cache.installed(REPO)
    cache.remove(REPO, forget=True)
    cache.pull(REPO)
    assert cache.installed(REPO)


def test_what_is_damaged_the_first_time_is_fetched_again(cache: Cache, hub: Hub) -> None:
    hub.damaged_answers = 1
    cache.pull(REPO)
    assert (cache.path(REPO) / "model.bin").read_bytes() == MODEL["model.bin"]


def test_what_is_no_model_is_told(cache: Cache, hub: Hub) -> None:
    del hub.content["model.bin"]
    with pytest.raises(ModelUnavailable, match=r"it has no model\.bin"):
        cache.pull(REPO)
    with pytest.raises(ModelUnavailable, match="the hub answers 404 for no/such"):
        cache.pull("no/such")
    assert [each.name for each in cache.entries() if "/" in each.name] == []


def test_a_directory_is_a_model_by_the_name_of_it(cache: Cache, directory: Path, hub: Hub) -> None:
    name = custom.own_name(directory)
    assert name == "local/my-model"
    assert cache.pull(name, source=directory).source == "the directory"
    assert cache.installed(name)
    (directory / "model.bin").write_bytes(b"other bytes")
    with pytest.raises(ModelUnavailable, match=r"model\.bin is not what it was"):
        cache.pull(name, source=directory)
    assert (cache.path(name) / "model.bin").read_bytes() == MODEL["model.bin"]
    (directory / "tokenizer.json").unlink()
    with pytest.raises(ModelUnavailable, match=r"it has no tokenizer\.json"):
        cache.pull("local/other", source=directory)
    with pytest.raises(ModelUnavailable):
        cache.pull("local/never-seen")
    assert hub.asked == []


def test_the_command_takes_repositories_and_directories(
    hub: Hub,
    directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = Shell(capsys, monkeypatch, tmp_path)
    shell.set(data_dir=tmp_path / "data", engine_hub_url=hub.url)
    assert f"{REPO} is here, from the hub" in shell.text("models", "pull", REPO)
    assert "local/my-model is here" in shell.text("models", "pull", str(directory))
    assert "local/my-model is here" in shell.text("models", "pull", "./my-model")
    listed = {each["name"]: each["installed"] for each in shell.json("models", "ls")}
    assert listed[REPO]
    assert listed["local/my-model"]
    assert shell.run("models", "pull", "./nothing") == 4
    assert shell.json("models", "rm", REPO) == {"name": REPO, "removed": True}
    assert not {each["name"]: each["installed"] for each in shell.json("models", "ls")}[REPO]
    assert shell.json("models", "rm", REPO, "--forget")["removed"]
    assert REPO not in {each["name"] for each in shell.json("models", "ls")}
