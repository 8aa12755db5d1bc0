"""Whatever happens to a backup, it is never called good, and never restored."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import small_library
import world as worlds
from rushes import errors
from rushes.backups import make, restore, verify
from rushes.backups.backup_dir import MANIFEST, OBJECTS, BackupDir
from rushes.db.database import Database
from rushes.storage.local import LocalStorage
from small_library import silent

SEEDED = 6
Damage = Callable[[BackupDir, Path], object]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two backups; the second is the one to damage."""
    directory = tmp_path_factory.mktemp("good")
    opened = worlds.open_sqlite(directory)
    storage = LocalStorage(directory / "storage")
    small_library.fill(opened, storage)
    small_library.back_up(opened, storage, directory / "b")
    opened.advance(1)
    small_library.back_up(opened, storage, directory / "b")
    opened.close()
    assert verify.verify(BackupDir(directory / "b"), None, silent, now=1).problems == []
    return directory / "b"


@pytest.fixture
def damaged(good: Path, tmp_path: Path) -> BackupDir:
    shutil.copytree(good, tmp_path / "b")
    return BackupDir(tmp_path / "b")


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    at = bit % (len(content) * 8)
    content[at // 8] ^= 1 << (at % 8)
    path.write_bytes(content)


def objects(place: BackupDir) -> list[Path]:
    """Those that have any bytes."""
    return sorted(path for path in place.objects.glob("*/*") if path.stat().st_size)


def tables(folder: Path) -> list[Path]:
    return sorted((folder / "tables").iterdir())


def rewrite(folder: Path, change: Callable[[dict[str, object]], None]) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))


def of_another(place: BackupDir, folder: Path) -> None:
    other = place.folder(place.ids()[0])
    shutil.copy(other / MANIFEST, folder / MANIFEST)


def tables_of_another(place: BackupDir, folder: Path) -> None:
    other = place.folder(place.ids()[0])
    shutil.rmtree(folder / "tables")
    shutil.copytree(other / "tables", folder / "tables")


def swap_objects(place: BackupDir, folder: Path) -> None:
    one, two = objects(place)[:2]
    one_content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(one_content)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def on_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


PLACES: dict[str, Callable[[BackupDir, Path], Path]] = {
    "manifest": lambda place, folder: folder / MANIFEST,
    "list": lambda place, folder: folder / OBJECTS,
    "table": lambda place, folder: folder / "tables" / "media.gz",
    "object": lambda place, folder: objects(place)[-1],
}
WAYS: dict[str, Callable[[Path], None]] = {
    "flipped": lambda path: flip(path, 8 * 20 + 3),
    "cut": cut,
    "longer": append,
    "emptied": empty,
    "removed": Path.unlink,
    "a directory": on_directory,
}


def damage_of(place: str, way: str) -> Damage:
    return lambda directory, folder: WAYS[way](PLACES[place](directory, folder))


DAMAGES: dict[str, Damage] = {
    **{f"{place} {way}": damage_of(place, way) for place in PLACES for way in WAYS},
    "manifest of another backup": of_another,
    "tables of another backup": tables_of_another,
    "objects swapped": swap_objects,
    "all objects gone": lambda place, folder: shutil.rmtree(place.objects),
    "all tables gone": lambda place, folder: shutil.rmtree(folder / "tables"),
    "a field too much": lambda place, folder: rewrite(folder, lambda it: it.update(extra=1)),
    "another schema": lambda place, folder: rewrite(folder, lambda it: it.update(revision="0030")),
    "a table less": lambda place, folder: rewrite(
        folder,
        lambda it: it.update(tables=list(it["tables"])[1:]),  # type: ignore[call-overload]
    ),
    "another format": lambda place, folder: rewrite(folder, lambda it: it.update(format=2)),
    "not JSON": lambda place, folder: (folder / MANIFEST).write_text("manifest"),
}


def is_refused(place: BackupDir, id: str, tmp_path: Path) -> None:
    """Named as not good, and nothing comes of a restore."""
    found = verify.verify(place, id, silent, now=1)
    assert found.problems
    other = LocalStorage(tmp_path / "other")
    with closing(Database(f"sqlite:///{tmp_path}/other.db")) as db:
        with pytest.raises(errors.RushesError):
            restore.restore(place, id, db, other, silent)
        with db.read() as tx:
            assert tx.all("SELECT name FROM sqlite_master") == []
    assert list(other.list()) == []


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_backup_is_never_good(name: str, damaged: BackupDir, tmp_path: Path) -> None:
    id = damaged.ids()[-1]
    DAMAGES[name](damaged, damaged.folder(id))
    is_refused(damaged, id, tmp_path)


@pytest.mark.parametrize(
    "seed",
    [*range(SEEDED), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(SEEDED, 200))],
)
def test_any_bit_matters(seed: int, damaged: BackupDir, tmp_path: Path) -> None:
    dice = random.Random(seed)
    id = damaged.ids()[-1]
    folder = damaged.folder(id)
    files = [folder / MANIFEST, folder / OBJECTS, *tables(folder), *objects(damaged)]
    flip(dice.choice(files), dice.randrange(2**30))
    is_refused(damaged, id, tmp_path)


@pytest.mark.parametrize("at", range(4))
def test_a_backup_that_was_killed_is_incomplete(at: int, tmp_path: Path) -> None:
    opened = worlds.open_sqlite(tmp_path)
    storage = LocalStorage(tmp_path / "storage")
    small_library.fill(opened, storage)
    calls = 0

    def kill(stage: str, done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if stage == "objects" or calls > at * 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make.make(opened.db, storage, tmp_path / "b", kill)
    opened.close()
    place = BackupDir(tmp_path / "b")
    [listed] = place.listed()
    assert listed.state == "incomplete"
    is_refused(place, listed.id, tmp_path)
