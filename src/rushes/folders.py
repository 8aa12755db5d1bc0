"""A folder that is watched: each file that appears in it is handed on once, when it is whole.

What was handed on is noted in a small file, so that a restart does not read everything again. The
note is a help, not the truth: whoever takes files in has to know those that are there already.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from rushes import errors, inotify

log = logging.getLogger("rushes.folders")

After = Literal["keep", "move", "delete"]
# Where files are moved to. It is hidden, and so never looked into.
DONE = ".done"
# Files that others are still making, by the names that they give them.
TEMPORARY = (".part", ".partial", ".crdownload", ".download", ".filepart", ".tmp", ".temp", "~")
SEEN = (
    inotify.MODIFY
    | inotify.CLOSE_WRITE
    | inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.ONLYDIR
    | inotify.DONT_FOLLOW
)
# How often everything is looked at where changes are told, and where they are not: a share that
# others write to tells of none.
RESCAN_SECONDS, POLL_SECONDS = 30.0, 2.0
# Between two looks, however much is going on.
PAUSE_SECONDS = 0.1
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 10.0, 3600.0


class Outcome(StrEnum):
    TAKEN = "taken"
    # The same content was there already.
    DUPLICATE = "duplicate"
    # Nobody wants it as it is.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Facts:
    """By which a file is the same as before."""

    size_bytes: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Facts:
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


@dataclass(frozen=True, slots=True)
class Found:
    """A file in the folder; `name` is its path from there."""

    name: str
    path: Path
    facts: Facts

    @property
    def folder(self) -> str:
        """From there, too; empty for what lies in it."""
        return self.name.rpartition("/")[0]


# Raises UnsupportedMedia for what it will never take; any other error means: try again later.
Take = Callable[[Found], Outcome]


class Notes:
    """What became of which file: a line for each, appended when it is certain."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, tuple[Facts, Outcome]] = {}
        self._read()

    def get(self, file: Found) -> Outcome | None:
        """None for a file that is new, or another than before."""
        facts, outcome = self._known.get(file.name, (None, None))
        return outcome if facts == file.facts else None

    def add(self, file: Found, outcome: Outcome) -> None:
        self._known[file.name] = (file.facts, outcome)
        self._append([_line(file.name, file.facts, outcome)])

    def _read(self) -> None:
        with suppress(OSError):
            for line in self._path.read_text(errors="surrogateescape").splitlines():
                # The last one may be half a line.
                with suppress(ValueError, KeyError, TypeError):
                    name, size_bytes, changed_ns, inode, outcome = json.loads(line)
                    facts = Facts(int(size_bytes), int(changed_ns), int(inode))
                    self._known[str(name)] = (facts, Outcome(outcome))
            lines = [_line(name, *known) for name, known in self._known.items()]
            draft = self._path.with_suffix(".new")
            draft.unlink(missing_ok=True)
            self._append(lines, draft)
            draft.replace(self._path)

    def _append(self, lines: list[str], path: Path | None = None) -> None:
        """Never a reason to fail: then it is found out anew."""
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(path or self._path, "a", opener=_private) as file:
                file.write("".join(lines))


def _line(name: str, facts: Facts, outcome: Outcome) -> str:
    values = [name, facts.size_bytes, facts.changed_ns, facts.inode, str(outcome)]
    return json.dumps(values) + "\n"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class FolderWatcher:
    def __init__(
        self,
        root: Path,
        take: Take,
        notes: Notes,
        *,
        after: After = "keep",
        settle_seconds: float = 5.0,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        """`say` hears of trouble, once for each file and trouble."""
        self._root = root
        self._take = take
        self._notes = notes
        self._after = after
        self._settle_seconds = settle_seconds
        self._say = say
        self._told: set[tuple[str, str]] = set()
        # As it was last seen, and since when it has been so.
        self._settling: dict[str, tuple[Facts, float]] = {}
        self._retries: dict[str, tuple[Facts, int, float]] = {}
        self._stopping = threading.Event()
        self._watch = inotify.open_watch()
        self._folders: dict[int, Path] = {}
        # Somebody has one of these open, and writes.
        self._written: set[Path] = set()

    def run(self) -> None:
        """Until `stop`."""
        try:
            while not self._stopping.is_set():
                self._wait(self.step())
        finally:
            watch, self._watch = self._watch, None
            if watch is not None:
                watch.close()

    def stop(self) -> None:
        self._stopping.set()
        if (watch := self._watch) is not None:
            watch.wake()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def step(self) -> float:
        """Hand on what is whole; returns after how many seconds there may be more."""
        files = list(self._walk(self._root, ""))
        self._forget_all_but({file.name for file in files})
        soon = POLL_SECONDS if self._watch is None else RESCAN_SECONDS
        for file in files:
            if self._stopping.is_set():
                break
            soon = min(soon, self._look_at(file))
        return soon

    def _look_at(self, file: Found) -> float:
        """Returns after how many seconds to look again."""
        if (outcome := self._notes.get(file)) is not None:
            if outcome is not Outcome.REFUSED:
                self._tidy(file)
            return RESCAN_SECONDS
        if (wait := self._unsettled_seconds(file)) > 0:
            return wait
        facts, _, retry_at = self._retries.get(file.name, (None, 0, 0.0))
        if facts == file.facts and (wait := retry_at - time.monotonic()) > 0:
            return wait
        self._hand_on(file)
        return RESCAN_SECONDS

    def _unsettled_seconds(self, file: Found) -> float:
        """How long it has yet to stay as it is. What has not been written to for long enough was
        moved here, or was here before us."""
        now = time.monotonic()
        facts, since = self._settling.get(file.name, (None, now))
        if facts != file.facts:
            age = max(0.0, time.time() - file.facts.changed_ns / 1e9)
            since = now - (age if age >= self._settle_seconds else 0.0)
            self._settling[file.name] = (file.facts, since)
        if file.path in self._written:
            return RESCAN_SECONDS
        return since + self._settle_seconds - now

    def _hand_on(self, file: Found) -> None:
        try:
            outcome = self._take(file)
        except errors.UnsupportedMedia as error:
            self._notes.add(file, Outcome.REFUSED)
            self._tell(file.name, f"is left alone: {error.message}")
        except FileNotFoundError:
            pass
        except OSError as error:
            self._try_later(file, error.strerror or str(error))
        except errors.RushesError as error:
            self._try_later(file, error.message)
        else:
            self._notes.add(file, outcome)
            self._retries.pop(file.name, None)
            self._tidy(file)

    def _try_later(self, file: Found, reason: str) -> None:
        if self._stopping.is_set():
            return
        facts, tries, _ = self._retries.get(file.name, (None, 0, 0.0))
        tries = tries if facts == file.facts else 0
        pause = min(FIRST_RETRY_SECONDS * 2 ** min(tries, 20), LONGEST_RETRY_SECONDS)
        self._retries[file.name] = (file.facts, tries + 1, time.monotonic() + pause)
        self._tell(file.name, f"is tried again later: {reason}")

    def _tell(self, name: str, message: str) -> None:
        if (name, message) not in self._told:
            self._told.add((name, message))
            self._say(f"{name} {message}")

    def _forget_all_but(self, names: set[str]) -> None:
        """Not what became of the others: a disk that is gone for a while brings them back."""
        self._settling = {name: at for name, at in self._settling.items() if name in names}
        self._retries = {name: at for name, at in self._retries.items() if name in names}
        self._told = {each for each in self._told if each[0] in names or each[0] in ("", ".")}

    # After it was taken in

    def _tidy(self, file: Found) -> None:
        """Out of the way first: if somebody has written to it in the meantime it is put back."""
        if self._after == "keep":
            return
        aside = file.path.with_name(f".{file.path.name}.taken")
        try:
            file.path.rename(aside)
            if Facts.of(aside.lstat()) != file.facts:
                aside.rename(file.path)
            elif self._after == "delete":
                aside.unlink()
            else:
                target = self._free_place(file.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                aside.rename(target)
        except FileNotFoundError:
            # Another watcher, or its owner, was quicker.
            pass
        except OSError as error:
            with suppress(OSError):
                aside.rename(file.path)
            self._tell(file.name, f"was taken in and cannot be put away: {error.strerror}")

    def _free_place(self, name: str) -> Path:
        wanted = self._root / DONE / name
        place, number = wanted, 1
        while os.path.lexists(place):
            number += 1
            place = wanted.with_name(f"{wanted.stem} ({number}){wanted.suffix}")
        return place

    # What is there

    def _walk(self, folder: Path, inside: str) -> Iterator[Found]:
        """Files by name, folder by folder. Nothing behind a symbolic link: it may lead anywhere."""
        self._listen_to(folder)
        try:
            entries = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError as error:
            self._tell(inside or ".", f"cannot be looked into: {error.strerror}")
            return
        for entry in entries:
            name = f"{inside}{entry.name}"
            if is_ignored(entry.name):
                continue
            with suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    yield from self._walk(Path(entry.path), f"{name}/")
                elif stat.S_ISREG(found.st_mode):
                    yield Found(name, Path(entry.path), Facts.of(found))

    def _listen_to(self, folder: Path) -> None:
        if self._watch is None:
            return
        try:
            self._folders[self._watch.add(folder, SEEN)] = folder
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            pass
        except OSError:
            # No more of them: then it is looked at more often.
            self._watch.close()
            self._watch = None
            self._written.clear()

    def _wait(self, seconds: float) -> None:
        self._stopping.wait(min(seconds, PAUSE_SECONDS))
        if self._watch is None:
            self._stopping.wait(min(seconds, POLL_SECONDS))
            return
        until = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            # A file that grows is none to look at before somebody closes it.
            told = [self._is_news(change) for change in self._watch.read(left)]
            if any(told):
                return

    def _is_news(self, change: inotify.Change) -> bool:
        """Whether there is a reason to look."""
        if change.mask & inotify.OVERFLOW:
            self._written.clear()
            return True
        folder = self._folders.get(change.watch)
        if folder is None or not change.name:
            return True
        path = folder / change.name
        if change.mask & inotify.MODIFY:
            self._written.add(path)
            return False
        self._written.discard(path)
        return not is_ignored(change.name)


def is_ignored(name: str) -> bool:
    return name.startswith((".", "~")) or name.lower().endswith(TEMPORARY)
