"""The kind `demo`: artifacts whose every byte tells which claim made them, so that no mix of two
attempts or two versions can look like one set. The kind `whole` is divided into jobs of the kind
`piece`. Their steps can be held (`breakpoints`).
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

from resilience import breakpoints
from rushes import errors
from rushes.protocol import Part
from rushes.worker.context import JobContext

KIND = "demo"
WHOLE, PIECE = "whole", "piece"
PLAYLIST = "master.m3u8"
FILES = 3
FILE_BYTES = 40_000
MARK = "#DEMO:"


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made a set."""

    job_id: str
    claim_id: str
    attempt: int
    source: str

    def content(self, name: str, size_bytes: int = FILE_BYTES) -> bytes:
        line = f"{self.job_id} {self.claim_id} {self.attempt} {self.source} {name}\n".encode()
        return (line * (size_bytes // len(line) + 1))[:size_bytes]

    def playlist(self, names: list[str], size_bytes: int = FILE_BYTES) -> bytes:
        facts = [self.job_id, self.claim_id, str(self.attempt), self.source, str(size_bytes)]
        lines = ["#EXTM3U", MARK + " ".join(facts)]
        for name in names:
            lines += [f"#SHA256:{digest(self.content(name, size_bytes))}", name]
        return "\n".join([*lines, ""]).encode()


def parse(playlist: bytes) -> tuple[Maker, dict[str, bytes], dict[str, str]]:
    """Who made it, what each file has to be, and the hashes it names."""
    lines = playlist.decode().splitlines()
    job_id, claim_id, attempt, source, size = lines[1].removeprefix(MARK).split()
    maker = Maker(job_id, claim_id, int(attempt), source)
    names = [line for line in lines if not line.startswith("#")]
    hashes = [line.partition(":")[2] for line in lines if line.startswith("#SHA256:")]
    contents = {name: maker.content(name, int(size)) for name in names}
    return maker, contents, dict(zip(names, hashes, strict=True))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def demo(job: JobContext) -> dict[str, Any]:
    """Arguments: `files`, `size_bytes`, and `deaf` for one that does not hear when to stop."""
    wait = time.sleep if job.args.get("deaf") else job.wait
    source = digest(job.source().read_bytes())
    breakpoints.reach("demo: source read", wait)
    maker = Maker(job.job_id, job.claim.claim_id, job.attempt, source)
    size_bytes = int(job.args.get("size_bytes", FILE_BYTES))
    names = [f"720p/seg_{n}.m4s" for n in range(int(job.args.get("files", FILES)))]
    for number, name in enumerate(names, 1):
        job.put(name, maker.content(name, size_bytes))
        job.progress(number / (len(names) + 1), "working", checkpoint={"files": number})
        breakpoints.reach(f"demo: {number} put", wait)
    job.put(PLAYLIST, maker.playlist(names, size_bytes))
    breakpoints.reach("demo: all put", wait)
    return {"source": source, "attempt": job.attempt}


def whole(job: JobContext) -> dict[str, Any]:
    """Divides itself, and puts together what its parts have made. Argument: `parts`."""
    count = int(job.args["parts"])
    if job.checkpoint is None:
        job.put("begin.txt", b"begin")
        parts = [Part(kind=PIECE, args={"name": piece_name(n)}) for n in range(count)]
        raise errors.Divided(parts, checkpoint={"parts": count})
    names = ["begin.txt", *[piece_name(n) for n in range(count)]]
    adopted = {each.name for each in job.adopt(names)}
    breakpoints.reach("whole: adopted", job.wait)
    job.put("end.txt", b"end")
    return {"adopted": len(adopted)}


def piece(job: JobContext) -> None:
    name = str(job.args["name"])
    job.put(name, piece_content(name))
    breakpoints.reach("piece: put", job.wait)


def piece_name(n: int) -> str:
    return f"720p/seg_{n:05d}.m4s"


def piece_content(name: str) -> bytes:
    return name.encode() * 2_000


HANDLERS = {KIND: demo, WHOLE: whole, PIECE: piece}
