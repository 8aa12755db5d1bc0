"""`rushes restore`: a backup into the empty database and storage that the settings name."""

from __future__ import annotations

from contextlib import closing

from rushes import config
from rushes.cli import backup as backups
from rushes.cli import output


def run(
    directory: backups.Directory, /, *, backup: backups.Id = None, json: output.Json = False
) -> int:
    from rushes.backups import restore
    from rushes.backups.backup_dir import BackupDir
    from rushes.db import database
    from rushes.storage import storage

    settings = config.load()
    place = BackupDir(directory.absolute())
    place.check_exists()
    with (
        closing(database.Database(settings.database_url)) as db,
        backups.progress("restore") as report,
    ):
        done = restore.restore(place, backup, db, storage.open(settings.storage_url), report)
    if json:
        output.print_json(
            {
                "id": done.manifest.id,
                "media": done.manifest.media,
                "objects": done.objects,
                "already_there": done.already_there,
                "schema": done.revision,
            }
        )
    else:
        print(
            f"restored {done.manifest.id}: {done.manifest.media} media,"
            f" {output.count(done.objects, 'object')}"
            + (f" ({done.already_there} were there already)" if done.already_there else "")
            + f", schema {done.revision}"
        )
        print("start it: rushes serve")
    return 0
