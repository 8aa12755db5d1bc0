"""The release before this one, and the one after it, as servers of their own.

The one before is kept as an archive (`make_release.py`). The one after is this source with one more
migration, an expansion, whether or not there are new ones since the one before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from running import Process, clean_environment, settings_for
from rushes.db import revisions
from upgrades.make_release import ARCHIVE, NOTE

SOURCE = revisions.MIGRATIONS.parents[1]
NEXT = "9000"
EXPANSION = f'''"""What a later release may add, to tables that are in use."""

from alembic import op

revision = "{NEXT}"
down_revision = "{revisions.HEAD}"
change = "expansion"


def upgrade() -> None:
    op.execute("CREATE TABLE upgrade_notes (id text PRIMARY KEY, job_id text REFERENCES jobs(id))")
    op.execute("ALTER TABLE jobs ADD COLUMN upgrade_note text NOT NULL DEFAULT 'none'")
    op.execute("ALTER TABLE events ADD COLUMN upgrade_note text")
    op.execute("ALTER TABLE media ADD COLUMN upgrade_note text")
'''
INDEX = f'''"""An index on what was added."""

from rushes.db.migrations import online

revision = "9001"
down_revision = "{NEXT}"
change = "expansion"


def upgrade() -> None:
    online.create_index("jobs_upgrade_note", "jobs (upgrade_note)")
'''
CONTRACTION = f'''"""What a much later release takes away."""

from alembic import op

revision = "9002"
down_revision = "9001"
change = "contraction"
works_with = "{NEXT}"


def upgrade() -> None:
    op.execute("ALTER TABLE media DROP COLUMN upgrade_note")
'''


@dataclass(frozen=True, slots=True)
class Release:
    """`path`: where its package is; `schema`: what it was made for."""

    path: Path
    schema: str

    def environment(self) -> dict[str, str]:
        mine = clean_environment()
        return {**mine, "PYTHONPATH": os.pathsep.join([str(self.path), mine["PYTHONPATH"]])}

    def server(self, data_dir: Path, **given: Any) -> Process:
        """Not started yet."""
        process = Process(settings_for(data_dir=data_dir, **given))
        process.environment["PYTHONPATH"] = self.environment()["PYTHONPATH"]
        return process

    def run(self, *arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
        """A command of its own, such as `doctor`."""
        return self._run(["-m", "rushes", *arguments], given)

    def python(self, program: str, **given: Any) -> subprocess.CompletedProcess[str]:
        return self._run(["-c", program], given)

    def _run(self, command: list[str], given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        told = {f"RUSHES_{name.upper()}": str(value) for name, value in given.items()}
        return subprocess.run(
            [sys.executable, *command],
            env={**self.environment(), **told},
            capture_output=True,
            text=True,
            timeout=120,
        )


def before(directory: Path) -> Release:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    note = (directory / NOTE).read_text()
    return Release(directory, note.split()[1].rstrip(","))


def after(directory: Path) -> Release:
    shutil.copytree(SOURCE, directory / "rushes", ignore=shutil.ignore_patterns("static"))
    return Release(directory, later(directory / "rushes" / "db" / "migrations"))


def migrations(directory: Path, *, contracts: bool = False) -> tuple[Path, str]:
    """Ours and those of later releases, and the number of the newest."""
    shutil.copytree(revisions.MIGRATIONS, directory)
    return directory, later(directory, contracts=contracts)


def later(directory: Path, *, contracts: bool = False) -> str:
    """Adds them to migrations; returns the newest."""
    added = {NEXT: EXPANSION, "9001": INDEX} | ({"9002": CONTRACTION} if contracts else {})
    for revision, text in added.items():
        (directory / "versions" / f"{revision}_later.py").write_text(text)
    return max(added)
