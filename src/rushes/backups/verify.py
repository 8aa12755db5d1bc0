"""Verify a backup by restoring it: every hash, every row, every rule of the queue, and some media
are played. It is called good only when nothing at all was wrong."""

from __future__ import annotations

import posixpath
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec

from rushes import errors
from rushes.backups import backup_dir, restore, store
from rushes.backups.backup_dir import BackupDir, Entry, Manifest, Verified
from rushes.backups.make import Progress, faults
from rushes.backups.store import BackupRecord, Playable
from rushes.db import schema, snapshot
from rushes.db.database import Database
from rushes.jobs import invariants
from rushes.jobs.replay import Replay, impossible
from rushes.media import playlist_check
from rushes.tools import ffmpeg, process, programs

PLAYED = 3
MASTER = "master.m3u8"
SHOWN = 3


@dataclass(slots=True)
class Verification:
    """`problems` of a good one is empty."""

    id: str
    problems: list[str] = field(default_factory=list)
    manifest: Manifest | None = None
    events: int = 0
    played: int = 0
    decoded: int = 0

    @property
    def good(self) -> bool:
        return not self.problems


def verify(
    place: BackupDir, id: str | None, progress: Progress, *, now: int, play: int = PLAYED
) -> Verification:
    """What was found is kept beside the backup, if that may be written."""
    place.check_exists()
    with place.locked(alone=False):
        found = Verification(place.chosen(id))
        found.problems += _Verifying(place, found, progress, play).problems()
    if found.manifest is not None:
        _keep(place, found, now)
    return found


def record(found: Verification, directory: Path, now: int) -> BackupRecord:
    manifest = found.manifest
    return BackupRecord(
        id=found.id,
        directory=str(directory),
        started_at=manifest.started_at if manifest else now,
        finished_at=manifest.finished_at if manifest else None,
        verified_at=now,
        result="good" if found.good else "bad",
        media=manifest.media if manifest else 0,
        objects=manifest.objects.count if manifest else 0,
        size_bytes=manifest.objects.total_bytes if manifest else 0,
        problem_count=len(found.problems),
        problems=tuple(found.problems),
    )


def _keep(place: BackupDir, found: Verification, now: int) -> None:
    assert found.manifest is not None
    result = Verified(
        at=now,
        good=found.good,
        checksum=found.manifest.checksum,
        problems=tuple(found.problems[: store.PROBLEMS_KEPT]),
        problem_count=len(found.problems),
    )
    path = place.folder(found.id) / backup_dir.VERIFIED
    try:
        backup_dir.write_whole(path, msgspec.json.encode(result))
    except errors.Unavailable:
        if place.verified(found.id) is not None:
            raise


@dataclass(frozen=True, slots=True)
class _Then:
    """The clock stands still at the moment of the snapshot: leases have not run out since."""

    at: int

    def now(self) -> int:
        return self.at


class _Verifying:
    def __init__(
        self, place: BackupDir, found: Verification, progress: Progress, play: int
    ) -> None:
        self._place = place
        self._found = found
        self._progress = progress
        self._play = play
        self._entries: dict[str, Entry] = {}

    def problems(self) -> Iterator[str]:
        try:
            manifest = self._place.manifest(self._found.id)
            restore.check_revision(manifest)
            self._found.manifest = manifest
            damaged = list(restore.problems(self._place, manifest, self._progress))
            yield from damaged
            if damaged:
                # What is made of damaged files tells nothing more.
                return
            self._entries = {each.key: each for each in self._place.entries(manifest)}
            yield from self._of_totals(manifest)
            yield from faults(iter(self._entries.values()))
            with tempfile.TemporaryDirectory(prefix="rushes-verify-") as scratch:
                yield from self._of_database(manifest, Path(scratch))
        except (errors.Conflict, errors.SchemaTooNew) as error:
            yield f"{error.message}: {error.detail}" if error.detail else error.message

    def _of_totals(self, manifest: Manifest) -> Iterator[str]:
        there = [each for each in self._entries.values() if each.sha256 is not None]
        if len(self._entries) - len(there) != manifest.objects.absent:
            yield "the list of objects has another number of absent ones than the manifest"
        if sum(each.size_bytes for each in there) != manifest.objects.total_bytes:
            yield "the list of objects has another total size than the manifest"

    def _of_database(self, manifest: Manifest, scratch: Path) -> Iterator[str]:
        self._progress("rows", 0, len(manifest.tables))
        clock = _Then(manifest.started_at)
        with closing(Database(f"sqlite:///{scratch}/verify.db", clock)) as db:
            snapshot.mark(db, manifest.id)
            restore.load(self._place, manifest, db)
            schema.migrate(db)
            yield from self._of_rules(db)
            yield from self._of_names(db, manifest)
            with db.read() as tx:
                playable = store.playable(tx, self._play)
            for number, each in enumerate(playable):
                self._progress("playing", number, len(playable))
                yield from self._of_media(db, each, scratch)

    def _of_rules(self, db: Database) -> Iterator[str]:
        with db.begin() as tx:
            for each in invariants.check(tx):
                yield f"{each.invariant} is broken ({each.sentence})"
        replay = Replay()
        with db.read() as tx:
            for wrong in islice(impossible(tx, replay), SHOWN):
                yield f"the event {wrong.event.pos} cannot have happened: {wrong.why}"
        self._found.events = replay.seen

    def _of_names(self, db: Database, manifest: Manifest) -> Iterator[str]:
        """Rows and the list of objects must tell the same."""
        rest = set(self._entries)
        with db.read() as tx:
            if store.count_media(tx) != manifest.media:
                yield "the database has another number of media than the manifest"
            for named in store.named(tx):
                rest.discard(named.key)
                entry = self._entries.get(named.key)
                if entry is None:
                    yield f"{named.key} is named by a row, and is not in the backup"
                elif entry.sha256 is not None and named.sha256 not in (None, entry.sha256):
                    yield f"{named.key} has other bytes than its row says"
        for key in sorted(rest)[:SHOWN]:
            yield f"{key} is in the backup, and no row names it"

    def _of_media(self, db: Database, item: Playable, scratch: Path) -> Iterator[str]:
        with db.read() as tx:
            files = store.files(tx, item.version_id)
        player = _Player(self._place, self._entries, files, scratch)
        try:
            self._found.decoded += player.play()
            self._found.played += 1
        except (errors.RushesError, ValueError, OSError) as error:
            yield f"{item.media_id} cannot be played: {error}"


class _Player:
    """Reads a version as players do, from the backup's objects."""

    def __init__(
        self, place: BackupDir, entries: dict[str, Entry], files: dict[str, str], scratch: Path
    ) -> None:
        self._place = place
        self._entries = entries
        self._files = files
        self._scratch = scratch

    def play(self) -> int:
        """Decodes the beginning of each rendition; returns how many there were."""
        decoded = 0
        for name in sorted(self._references(MASTER)):
            if not name.endswith(".m3u8") or name in playlist_check.SERVED:
                continue
            beginning = self._beginning(name, self._references(name))
            if not beginning:
                continue
            sample = self._scratch / "sample.mp4"
            with sample.open("wb") as whole:
                for each in beginning:
                    with self._path(each).open("rb") as piece:
                        shutil.copyfileobj(piece, whole)
            process.run(ffmpeg.decode(programs.ffmpeg(), sample))
            decoded += 1
        if not decoded:
            raise ValueError("it has no rendition")
        return decoded

    def _references(self, playlist: str) -> set[str]:
        """All that it names has to be there."""
        named = playlist_check.references(playlist, self._path(playlist).read_bytes())
        for each in named - playlist_check.SERVED:
            self._path(each)
        return named

    def _beginning(self, playlist: str, named: set[str]) -> list[str]:
        """The file that begins all segments, and the first of them; nothing for subtitles."""
        folder = posixpath.dirname(playlist)
        lines = self._path(playlist).read_text().splitlines()
        first = next((line for line in lines if line and not line.startswith("#")), "")
        segment = posixpath.normpath(posixpath.join(folder, first))
        if not segment.endswith((".m4s", ".mp4")):
            return []
        begins = sorted(each for each in named if each.endswith(".mp4") and each != segment)
        return [*begins, segment]

    def _path(self, name: str) -> Path:
        entry = self._entries.get(self._files.get(name, ""))
        if entry is None or entry.sha256 is None:
            raise ValueError(f"{name} is not there")
        return self._place.object_path(entry.sha256)
