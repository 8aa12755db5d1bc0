"""Remove old backups, and the objects that none of the others needs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from rushes.backups import backup_dir
from rushes.backups.backup_dir import BackupDir


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """`unreadable`: backups whose lists cannot be read; as long as there are such, no object is
    removed, since it may be one of theirs."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    objects: int
    size_bytes: int
    unreadable: tuple[str, ...]


def prune(place: BackupDir, keep: int) -> Pruned:
    """Keeps the newest `keep` that are complete, and the newest good one however old it is."""
    place.check_exists()
    with place.locked(alone=True):
        place.drop_drafts()
        listed = place.listed()
        complete = [each for each in listed if each.state == "complete"]
        good = [each.id for each in complete if each.verified and each.verified.good]
        kept = {each.id for each in complete[-keep:]} | set(good[-1:])
        unreadable = tuple(each.id for each in listed if each.state == "damaged")
        removed = [each.id for each in listed if each.id not in {*kept, *unreadable}]
        needed, broken = _needed(place, sorted(kept))
        unreadable += broken
        for id in removed:
            # First of all, so that half of a backup never looks like one.
            (place.folder(id) / backup_dir.MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(place.folder(id))
        objects, size_bytes = (0, 0) if unreadable else _remove_objects(place, needed)
        return Pruned(
            removed=tuple(removed),
            kept=tuple(sorted(kept)),
            objects=objects,
            size_bytes=size_bytes,
            unreadable=unreadable,
        )


def _needed(place: BackupDir, ids: list[str]) -> tuple[set[str], tuple[str, ...]]:
    needed: set[str] = set()
    broken = []
    for id in ids:
        try:
            needed |= {each.sha256 for each in place.entries(place.manifest(id)) if each.sha256}
        except backup_dir.Damaged:
            broken.append(id)
    return needed, tuple(broken)


def _remove_objects(place: BackupDir, needed: set[str]) -> tuple[int, int]:
    count = size_bytes = 0
    for path in place.objects.glob("??/*"):
        if backup_dir.SHA256.fullmatch(path.name) and path.name not in needed:
            size_bytes += path.stat().st_size
            path.unlink()
            count += 1
    return count, size_bytes
