"""Migrations that tests make up, applied by the same machinery as those of Rushes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent, indent

import pytest

from rushes.db import revisions, schema
from rushes.db.database import Database


class Tree:
    """A directory of migrations 0001, 0002, …; the first makes the tables `jobs` and `pauses`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "versions").mkdir(parents=True)
        shutil.copy(revisions.MIGRATIONS / "env.py", directory)
        self.head = "0000"
        self.add(
            """
            op.execute(
                "CREATE TABLE jobs (id text PRIMARY KEY, kind text, size integer, state text"
                " DEFAULT 'new' CONSTRAINT known_state CHECK (state IN ('new', 'old')))"
            )
            op.execute("CREATE INDEX jobs_kind ON jobs (kind)")
            op.execute("CREATE TABLE pauses (kind text PRIMARY KEY)")
            for number in range(50):
                op.execute(f"INSERT INTO jobs VALUES ('job_{number}', 'demo', {number}, 'new')")
            """,
            says="works_with = '0001'\nchange = 'contraction'",
        )

    def add(self, body: str, says: str = "change = 'expansion'") -> str:
        """A migration; `body` is what its function does. Returns its revision."""
        before, self.head = self.head, f"{int(self.head) + 1:04d}"
        lines = [
            '"""A change that a test made up."""',
            "import os, sys, time",
            "from pathlib import Path",
            "from alembic import op",
            "from rushes.db.migrations import online",
            f"revision = {self.head!r}",
            f"down_revision = {None if before == '0000' else before!r}",
            dedent(says),
            "def upgrade():",
            indent(dedent(body).strip(), "    "),
        ]
        path = self.directory / "versions" / f"{self.head}_made_up.py"
        path.write_text("\n".join([*lines, ""]))
        return self.head

    def migrate(self, db: Database, to: str | None = None) -> tuple[str | None, str]:
        with self.being_head(to):
            return schema.migrate(db, self.directory)

    @contextmanager
    def being_head(self, revision: str | None = None) -> Iterator[None]:
        """As if this version of Rushes had been made for it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(schema, "HEAD", revision or self.head)
            yield

    def command(self, database_url: str) -> list[str]:
        """A process that migrates to the newest."""
        program = (
            "import sys; from pathlib import Path\n"
            "from rushes.db.database import Database; from rushes.db import schema\n"
            f"schema.HEAD = {self.head!r}\n"
            "print(schema.migrate(Database(sys.argv[1]), Path(sys.argv[2])))"
        )
        return [sys.executable, "-c", program, database_url, str(self.directory)]
