"""Transcripts as files for other programs: `DIR/{job_id}/transcript.json`.

The database says which there are, the folder which were written: whatever is missing is written and
whatever is too much is removed, at every tick. So nothing is remembered in between, a crash loses
nothing, and any number of servers may do it. A folder appears whole or not at all.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from rushes.db.database import Database
from rushes.transcripts import revisions, store

log = logging.getLogger("rushes.transcripts")

FILE = "transcript.json"
# Whose folder it is: what one installation does not know, another may have written.
OWNER = ".rushes"
# What a server leaves that was killed, or, in earlier releases, that had no users yet.
NOBODY = ("", "None")
# Also what is being written: then with a dot before and something random behind.
NAME = re.compile(r"(?P<under_way>\.?)(?P<job_id>job_[0-9a-z]+)(?:\.[0-9a-f]+)?")
# At a tick: chores have other work, too.
MOST = 200
LEFT_SECONDS = 3600.0


class AnothersFolder(Exception):
    pass


class TranscriptFolder:
    def __init__(self, db: Database, folder: Path) -> None:
        self._db = db
        self._folder = folder
        self._complaint = ""

    def tick(self, number: int) -> None:
        """A chore. A folder that cannot be written is said once, and tried again."""
        try:
            self.update()
            self._complaint = ""
        except (OSError, AnothersFolder) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("transcripts cannot be written to RUSHES_TRANSCRIPTS_DIR: %s", error)

    def update(self) -> None:
        with self._db.read() as tx:
            installation = store.installation(tx)
        if installation is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._check_owner(installation)
        # Listed first: what another server writes meanwhile is not taken for something unknown.
        there = self._there()
        with self._db.read() as tx:
            known = store.job_ids(tx)
        self._remove(there - known)
        missing = sorted(known - there, reverse=True)[:MOST]
        for job_id in missing:
            with self._db.read() as tx:
                document = store.document_of_job(tx, job_id)
            if document is not None:
                self._write(job_id, revisions.canonical(document))

    def _check_owner(self, installation: str) -> None:
        """Raises AnothersFolder. The first to come is the owner."""
        owner = self._folder / OWNER
        if not owner.exists() or owner.read_text() in NOBODY:
            made = self._folder / f"{OWNER}.{secrets.token_hex(4)}"
            made.write_text(installation)
            made.replace(owner)
        if owner.read_text() != installation:
            raise AnothersFolder(
                "the folder belongs to another installation of Rushes; choose one of its own, or"
                f" remove {OWNER} from it if that one is gone for good"
            )

    def _there(self) -> set[str]:
        found = set()
        for entry in os.scandir(self._folder):
            name = NAME.fullmatch(entry.name)
            if name and name["under_way"]:
                self._remove_left(Path(entry.path))
            elif name:
                found.add(name["job_id"])
        return found

    def _write(self, job_id: str, document: str) -> None:
        made = self._folder / f".{job_id}.{secrets.token_hex(4)}"
        made.mkdir()
        try:
            with (made / FILE).open("w", encoding="utf-8") as file:
                file.write(document)
                file.flush()
                os.fsync(file.fileno())
            made.rename(self._folder / job_id)
        except OSError:
            shutil.rmtree(made, ignore_errors=True)
            # Another server may have been quicker.
            if not (self._folder / job_id / FILE).exists():
                raise

    def _remove(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            shutil.rmtree(self._folder / job_id, ignore_errors=True)

    def _remove_left(self, path: Path) -> None:
        """What a server that was killed has begun."""
        try:
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except FileNotFoundError:
            pass
