from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import small_library
from rushes import errors
from rushes.backups import prune, restore, store, verify
from rushes.backups.backup_dir import MANIFEST, BackupDir
from rushes.db import snapshot
from rushes.db.database import Database
from rushes.storage.local import LocalStorage
from rushes.transcripts import search
from small_library import FILES, SOURCE, UNFINISHED, silent
from world import World

NOW = 1_000


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "storage")


@pytest.fixture
def target(empty_database_url: str, tmp_path: Path) -> Iterator[Database]:
    if empty_database_url.startswith("sqlite"):
        (tmp_path / "target").mkdir()
        empty_database_url = f"sqlite:///{tmp_path}/target/rushes.db"
    with closing(Database(empty_database_url)) as db:
        yield db


def content(storage: LocalStorage, key: str) -> bytes:
    return b"".join(storage.read(key))


def verified(directory: Path, id: str | None = None) -> verify.Verification:
    return verify.verify(BackupDir(directory), id, silent, now=NOW)


def test_what_was_backed_up_is_restored_into_either_database(
    world: World, storage: LocalStorage, target: Database, tmp_path: Path
) -> None:
    media_id = small_library.fill(world, storage)
    small_library.back_up(world, storage, tmp_path / "b")
    assert verified(tmp_path / "b").problems == []

    other = LocalStorage(tmp_path / "other")
    done = restore.restore(BackupDir(tmp_path / "b"), None, target, other, silent)

    assert done.objects == len(FILES) + 2
    with world.db.read() as before, target.read() as after:
        for table in ("media", "versions", "jobs", "events", "attempts", "artifacts", "moments"):
            text = f"SELECT * FROM {table} ORDER BY 1, 2"
            assert after.all(text) == before.all(text), table
        for named in store.named(after):
            assert content(other, named.key) == content(storage, named.key)[: named.size_bytes]
        page = search.search(after, "harbour", user_id=None)
    assert [hit.media_id for hit in page.hits] == [media_id]
    assert content(other, f"sources/{media_id}") == SOURCE
    assert content(other, "staging/upl_1") == UNFINISHED
    assert snapshot.marked(target) is None


def test_a_second_backup_copies_only_what_is_new(
    world: World, storage: LocalStorage, tmp_path: Path
) -> None:
    small_library.fill(world, storage)
    first = small_library.back_up(world, storage, tmp_path / "b")
    second = small_library.back_up(world, storage, tmp_path / "b")
    assert (first.new_objects, first.kept_objects) == (len(FILES) + 2, 0)
    assert (second.new_objects, second.kept_objects) == (0, len(FILES) + 2)


def test_what_is_missing_in_the_storage_is_named(
    sqlite_world: World, storage: LocalStorage, tmp_path: Path
) -> None:
    media_id = small_library.fill(sqlite_world, storage)
    storage.delete([f"sources/{media_id}"])
    made = small_library.back_up(sqlite_world, storage, tmp_path / "b")
    assert [fault for fault in made.faults if media_id in fault]
    found = verified(tmp_path / "b")
    assert not found.good
    assert "missing in the storage" in found.problems[0]


def test_what_is_purged_meanwhile_is_no_fault(
    sqlite_world: World, storage: LocalStorage, tmp_path: Path
) -> None:
    media_id = small_library.fill(sqlite_world, storage)
    sqlite_world.run(
        lambda tx: tx.all("UPDATE media SET deleted_at = 1, purge_started_at = 2, kind = kind")
    )
    storage.delete([f"sources/{media_id}"])
    made = small_library.back_up(sqlite_world, storage, tmp_path / "b")
    assert (made.gone, made.faults) == (1, ())


def test_a_restore_refuses_a_database_or_a_storage_that_is_in_use(
    sqlite_world: World, storage: LocalStorage, tmp_path: Path
) -> None:
    small_library.fill(sqlite_world, storage)
    small_library.back_up(sqlite_world, storage, tmp_path / "b")
    place = BackupDir(tmp_path / "b")
    before = sqlite_world.snapshot()
    empty = LocalStorage(tmp_path / "empty")
    with pytest.raises(errors.Conflict, match="the database is not empty"):
        restore.restore(place, None, sqlite_world.db, empty, silent)
    assert sqlite_world.snapshot() == before
    assert list(empty.list()) == []
    empty.put("media/of/another", b"mine")
    with (
        closing(Database(f"sqlite:///{tmp_path}/new.db")) as new,
        pytest.raises(errors.Conflict, match="the storage is not empty"),
    ):
        restore.restore(place, None, new, empty, silent)
    assert content(empty, "media/of/another") == b"mine"


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_restore_that_was_killed_goes_on(
    at: int, sqlite_world: World, storage: LocalStorage, target: Database, tmp_path: Path
) -> None:
    small_library.fill(sqlite_world, storage)
    small_library.back_up(sqlite_world, storage, tmp_path / "b")
    place, other = BackupDir(tmp_path / "b"), LocalStorage(tmp_path / "other")
    calls = 0

    def kill(stage: str, done: int, total: int) -> None:
        nonlocal calls
        if stage == "objects":
            calls += 1
            if calls > at:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore.restore(place, None, target, other, kill)
    done = restore.restore(place, None, target, other, silent)
    assert done.already_there == at + 1
    with target.read() as tx:
        assert store.count_media(tx) == 1


def test_prune_keeps_the_newest_and_what_they_need(
    sqlite_world: World, storage: LocalStorage, tmp_path: Path
) -> None:
    small_library.fill(sqlite_world, storage)
    first = small_library.back_up(sqlite_world, storage, tmp_path / "b")
    assert verified(tmp_path / "b", first.manifest.id).problems == []
    sqlite_world.advance(1)
    small_library.back_up(sqlite_world, storage, tmp_path / "b")
    sqlite_world.advance(1)
    last = small_library.back_up(sqlite_world, storage, tmp_path / "b")
    place = BackupDir(tmp_path / "b")
    place.keep([b"of nobody"])
    done = prune.prune(place, 1)
    assert done.kept == (first.manifest.id, last.manifest.id)
    assert (len(done.removed), done.objects) == (1, 1)
    assert verified(tmp_path / "b").problems == []


def test_prune_removes_no_object_while_a_backup_cannot_be_read(
    sqlite_world: World, storage: LocalStorage, tmp_path: Path
) -> None:
    small_library.fill(sqlite_world, storage)
    made = small_library.back_up(sqlite_world, storage, tmp_path / "b")
    place = BackupDir(tmp_path / "b")
    manifest = place.folder(made.manifest.id) / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-5])
    objects = len(list(place.objects.glob("*/*")))
    assert prune.prune(place, 1).unreadable == (made.manifest.id,)
    assert len(list(place.objects.glob("*/*"))) == objects
