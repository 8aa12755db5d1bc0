"""A coordinator that is a folder: the work of a job without a server, resumed where it stopped.

What is finished lies in the folder as it will stay; `.rushes` in it remembers what is whole, until
all is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from rushes import errors
from rushes.protocol import (
    Artifact,
    Assignment,
    Beat,
    Claim,
    Coordinator,
    Excerpt,
    Progress,
    Pulse,
    Rendition,
    Source,
    Standing,
)
from rushes.records import JsonObject
from rushes.verbs import Verb

MEMORY, ABOUT = ".rushes", "source.json"
CLAIM = Claim("job_here", "clm_here")


class Folder(Coordinator):
    def __init__(self, source: Path, target: Path) -> None:
        self._source = source
        self.target = target
        self._memory = target / MEMORY
        self._memory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self.lines: list[str] = []
        self._files = {each.name: each for each in self._remembered()}

    def assignment(self, kind: str, args: JsonObject) -> Assignment:
        """What a handler is to do, with what an earlier run has noted."""
        return Assignment(
            job_id=CLAIM.job_id,
            claim_id=CLAIM.claim_id,
            kind=kind,
            args=args,
            media_id=None,
            user_id="",
            epoch=1,
            attempt=1,
            max_attempts=1,
            checkpoint=self._read("checkpoint.json"),
            lease_seconds=3600,
        )

    def begin(self, about: JsonObject) -> None:
        """What lies here of another source, or made on other terms, is made anew."""
        if self._read("about.json") != about:
            for name in self._files:
                (self.target / name).unlink(missing_ok=True)
            self._files.clear()
            shutil.rmtree(self._memory)
            self._memory.mkdir()
            self._write("about.json", about)

    def finish(self, names: Sequence[str]) -> None:
        """All is whole: only what it was made of is remembered, and nothing else stays."""
        (self._memory / "about.json").replace(self.target / ABOUT)
        for name in set(self._files) - set(names):
            (self.target / name).unlink(missing_ok=True)
            with suppress(OSError):
                (self.target / name).parent.rmdir()
        shutil.rmtree(self._memory)

    def forget_if_empty(self) -> None:
        """Nothing came of it, so there is nothing to remember."""
        if not self._files:
            shutil.rmtree(self._memory)
            with suppress(OSError):
                self.target.rmdir()

    def note(self, report: Progress) -> None:
        if report.checkpoint is not None:
            self._write("checkpoint.json", report.checkpoint)

    # What a handler asks for

    def source(
        self, claim: Claim, media_id: str | None = None, excerpt: Excerpt | None = None
    ) -> Source:
        size = self._source.stat().st_size
        return Source(
            file_name=self._source.name, size_bytes=size, sha256=None, path=self._source.resolve()
        )

    def transcript(self, claim: Claim) -> JsonObject | None:
        return None

    def artifacts(self, claim: Claim) -> list[Artifact]:
        return list(self._files.values())

    def adopt(self, claim: Claim, names: Sequence[str]) -> list[Artifact]:
        return [self._files[name] for name in names if self._is_intact(name)]

    def discard(self, claim: Claim, names: Sequence[str]) -> list[Artifact]:
        for name in names:
            if self._files.pop(name, None):
                (self.target / name).unlink(missing_ok=True)
        return self.artifacts(claim)

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        data = content if isinstance(content, bytes) else content.read_bytes()
        path = self.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise errors.DiskFull(f"cannot write: {error.strerror}") from error
        artifact = Artifact(
            name=name,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            content_type="",
            seconds=seconds,
        )
        self._remember(artifact)
        return artifact

    def put_passage(self, claim: Claim, number: int, content: Any) -> int:
        with self._lock, (self._memory / "passages.jsonl").open("ab+") as file:
            _append(file, msgspec.json.encode([number, content]))
            os.fsync(file.fileno())
        return number

    def passages(self, claim: Claim) -> list[Any]:
        """Up to the first that is missing: what comes behind it is made again, too."""
        kept = dict(_lines(self._memory / "passages.jsonl", tuple[int, Any]))
        return [kept[number] for number in takewhile(kept.__contains__, count())]

    def log(self, claim: Claim, lines: Sequence[str]) -> int:
        self.lines += lines
        return len(lines)

    def declare(self, claim: Claim, renditions: Sequence[Rendition]) -> int:
        """Nobody watches it before it is whole."""
        return len(renditions)

    # What only a queue can do

    def call(self, verb: Verb, arguments: JsonObject) -> Any:
        raise errors.WrongState("there is nobody here to ask: this is a folder, not a server")

    def heartbeat(
        self,
        claims: Sequence[Claim] = (),
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
        standing: Standing | None = None,
    ) -> Pulse:
        return Pulse({each.claim_id: Beat(True) for each in claims}, drain=False)

    def read_source(
        self,
        claim: Claim,
        start: int,
        media_id: str | None = None,
        excerpt: Excerpt | None = None,
    ) -> Iterator[bytes]:
        with self._source.open("rb") as file:
            file.seek(start)
            while chunk := file.read(1024 * 1024):
                yield chunk

    # Memory

    def _is_intact(self, name: str) -> bool:
        known = self._files.get(name)
        path = self.target / name
        if known is None or not path.is_file():
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == known.sha256

    def _remember(self, artifact: Artifact) -> None:
        with self._lock, (self._memory / "files.jsonl").open("ab+") as file:
            _append(file, msgspec.json.encode(artifact))
            self._files[artifact.name] = artifact

    def _remembered(self) -> Iterator[Artifact]:
        yield from _lines(self._memory / "files.jsonl", Artifact)

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self._memory / name).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def _write(self, name: str, value: Any) -> None:
        draft = self._memory / f"{name}.new"
        draft.write_text(json.dumps(value))
        draft.replace(self._memory / name)


def _append(file: BinaryIO, line: bytes) -> None:
    """On a line of its own, even if the last one was cut off."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) not in (b"", b"\n"):
        line = b"\n" + line
    file.write(line + b"\n")
    file.flush()


def _lines(path: Path, type: Any) -> Iterator[Any]:
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            yield msgspec.json.decode(line, type=type)
        except msgspec.MsgspecError:
            # Cut off by a crash; what it told of is made again.
            continue
