"""`rushes backup`: make, verify, list and prune backups; for whoever may read the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts

from rushes import clock, config, errors
from rushes.cli import FAILED, meter, output

if TYPE_CHECKING:
    from rushes.backups.backup_dir import Listed
    from rushes.backups.make import Made
    from rushes.backups.store import BackupRecord
    from rushes.backups.verify import Verification

app = cyclopts.App(name="backup", help="Make, verify, list and prune backups.", help_epilogue="")

SHOWN = 20
QUICK_SECONDS = 1.0
Directory = Annotated[Path, cyclopts.Parameter(help="Where backups are, such as a mounted disk.")]
Id = Annotated[
    str | None,
    cyclopts.Parameter(name="--backup", help="Which one; the newest complete one if not given."),
]
Keep = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=1), help="How many backups to keep."
    ),
]
Play = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=0), help="How many of the newest media to play."
    ),
]


@app.default
def make(directory: Directory, /, *, json: output.Json = False) -> int:
    """Back up database and storage while servers go on; copies only what is new."""
    settings = config.load()
    from rushes.backups import make as making
    from rushes.db import database
    from rushes.storage import storage

    with (
        closing(database.Database(settings.database_url)) as db,
        progress("backup") as report,
    ):
        made = making.make(db, storage.open(settings.storage_url), directory.absolute(), report)
    if json:
        output.print_json(
            {
                "id": made.manifest.id,
                "media": made.manifest.media,
                "objects": made.manifest.objects.count,
                "size_bytes": made.manifest.objects.total_bytes,
                "new_objects": made.new_objects,
                "new_bytes": made.new_bytes,
                "gone": made.gone,
                "problems": made.faults,
            }
        )
    else:
        _print_made(made, directory)
    return 0 if made.is_whole else FAILED


@app.command
def verify(
    directory: Directory, /, *, backup: Id = None, play: Play = 3, json: output.Json = False
) -> int:
    """Restore a backup into a scratch place, check every hash and rule, and play some of it."""
    from rushes.backups import verify as verifying
    from rushes.backups.backup_dir import BackupDir
    from rushes.tools import programs

    settings = config.load()
    programs.use(ffmpeg=settings.ffmpeg, ffprobe=settings.ffprobe)
    now = clock.SystemClock().now()
    place = BackupDir(directory.absolute())
    with progress("verify") as report:
        found = verifying.verify(place, backup, report, now=now, play=play)
    is_recorded = _record(settings, verifying.record(found, place.root, now))
    if json:
        output.print_json(
            {"id": found.id, "good": found.good, "problems": found.problems, "played": found.played}
        )
    else:
        _print_verified(found, is_recorded)
    return 0 if found.good else FAILED


@app.command(name="list")
def list_(directory: Directory, /, *, json: output.Json = False) -> int:
    """List the backups of a directory, the oldest first."""
    from rushes.backups.backup_dir import BackupDir

    place = BackupDir(directory)
    place.check_exists()
    found = place.listed()
    if json:
        output.print_json(found)
    else:
        names = ("backup", "state", "media", "objects", "size", "schema", "verified")
        output.print_table(names, map(_row, found))
    return 0


@app.command
def prune(directory: Directory, /, *, keep: Keep, json: output.Json = False) -> int:
    """Remove all but the newest backups; the newest that was verified as good always stays."""
    from rushes.backups import prune as pruning
    from rushes.backups.backup_dir import BackupDir

    done = pruning.prune(BackupDir(directory.absolute()), keep)
    if json:
        output.print_json(done)
    else:
        removed = output.count(len(done.removed), "backup")
        print(
            f"removed {removed} and {output.count(done.objects, 'object')}"
            f" ({output.size(done.size_bytes)}); kept {len(done.kept)}"
        )
        for id in done.unreadable:
            print(f"{id} cannot be read: it stays, and so do all objects, which may be its own")
    return FAILED if done.unreadable else 0


@contextmanager
def progress(name: str) -> Iterator[Callable[[str, int, int], None]]:
    """Nothing is shown of what takes less than a second."""
    with ExitStack() as shown:
        begun = time.monotonic()
        tasks: list[meter.Task] = []

        def at(stage: str, done: int, total: int) -> None:
            if not tasks and time.monotonic() - begun > QUICK_SECONDS:
                tasks.append(shown.enter_context(meter.work_done()).task(name, 1))
            for task in tasks:
                task.at(done / total if total else 1.0, stage)

        yield at


def _record(settings: config.Settings, record: BackupRecord) -> bool:
    """In the database of this machine, if it has one: a backup may be verified anywhere."""
    from rushes.backups import store
    from rushes.db import database, schema

    url = database.parse_url(settings.database_url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return False
    with suppress(errors.Unavailable), closing(database.Database(settings.database_url)) as db:
        schema.check(db)
        db.run(lambda tx: store.write(tx, record))
        return True
    return False


def _print_made(made: Made, directory: Path) -> None:
    manifest = made.manifest
    print(
        f"{manifest.id}: {manifest.media} media, {output.count(manifest.objects.count, 'object')}"
        f" ({output.size(manifest.objects.total_bytes)})"
    )
    print(
        f"{made.new_objects} new ({output.size(made.new_bytes)}), {made.kept_objects} already there"
        + (f", {made.gone} purged meanwhile" if made.gone else "")
    )
    _print_problems(made.faults)
    if made.faults:
        print("the storage lacks what the database names: see 'rushes doctor --deep'")
    print(f"prove it: rushes backup verify {output.one_line(str(directory))}")


def _print_verified(found: Verification, is_recorded: bool) -> None:
    _print_problems(found.problems)
    if found.good:
        manifest = found.manifest
        assert manifest is not None
        rows = sum(each.rows for each in manifest.tables)
        print(
            f"{found.id} is {output.paint('good', 'green')}: {manifest.objects.count} objects and"
            f" {rows} rows are as they were written, every invariant holds,"
            f" {found.events} events can have happened, {found.decoded} renditions of"
            f" {found.played} media were played"
        )
    else:
        bad = output.paint("not good", "red")
        print(f"{found.id} is {bad}: {output.count(len(found.problems), 'problem')}")
    if not is_recorded:
        output.note("not recorded: there is no database here")


def _print_problems(problems: list[str] | tuple[str, ...]) -> None:
    for each in problems[:SHOWN]:
        print(f"  {output.one_line(each)}")
    if len(problems) > SHOWN:
        print(f"  and {len(problems) - SHOWN} more")


def _row(each: Listed) -> tuple[str, ...]:
    manifest, verified = each.manifest, each.verified
    if manifest is None:
        return (each.id, each.state, "", "", "", "", each.problem or "")
    said = "never"
    if verified is not None:
        at = output.when(clock.rfc3339(verified.at))
        said = f"good {at}" if verified.good else f"not good {at}: {verified.problems[0]}"
    return (
        each.id,
        each.state,
        str(manifest.media),
        str(manifest.objects.count),
        output.size(manifest.objects.total_bytes),
        manifest.revision,
        said,
    )
