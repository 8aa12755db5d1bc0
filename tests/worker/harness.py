"""A server with one media, and a worker's connection to it over either transport."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import world as worlds
from running import Running
from rushes import ids
from rushes.db.database import Tx
from rushes.in_process import Local
from rushes.jobs.job import Job, NewJob
from rushes.media import store as media_store
from rushes.media.media import NewMedia
from rushes.protocol import Assignment, Claim, Coordinator, Hello
from rushes.worker.remote import Remote

SOURCE = bytes(range(256)) * 5000


@dataclass
class Harness:
    """A server with one media, and a worker's connection to it."""

    running: Running
    worker: Coordinator
    connect: Callable[[str], Coordinator]

    def enqueue(self, kind: str = "demo", **options: object) -> str:
        key = f"sources/{ids.new('upl')}"
        self.running.rushes.storage.put(key, SOURCE)
        new = NewMedia(
            user_id="",
            title="Holiday",
            file_name="holiday.mov",
            size_bytes=len(SOURCE),
            sha256=hashlib.sha256(SOURCE).hexdigest(),
            source_key=key,
        )

        def add(tx: Tx) -> str:
            self.media_id = ids.new("med")
            media_store.insert(tx, self.media_id, new, self.media_id)
            job = NewJob(kind=kind, media_id=self.media_id, **options)  # type: ignore[arg-type]
            return self.running.rushes.queue.enqueue(tx, job).id

        return self.running.rushes.db.run(add)

    def claim(self) -> Assignment:
        self.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], metadata={"host": "here"}))
        [assignment] = self.worker.claim(1)
        return assignment

    def claimed(self) -> Claim:
        self.enqueue()
        return self.claim().claim

    def job(self, claim: Claim) -> Job:
        return self.running.rushes.job(claim.job_id)

    def current_files(self) -> dict[str, bytes] | None:
        """What somebody who watches would get."""
        with self.running.rushes.db.read() as tx:
            version = worlds.current_version(tx, self.media_id)
            rows = media_store.artifacts(tx, version) if version else None
        if rows is None:
            return None
        read = self.running.rushes.storage.read
        return {row.name: b"".join(read(row.key)) for row in rows}


@contextmanager
def open_harness(running: Running, transport: str) -> Iterator[Harness]:
    opened: list[Remote] = []

    def connect(name: str) -> Coordinator:
        if transport == "http":
            opened.append(Remote(running.url, running.worker_key(name)))
            return opened[-1]
        rushes = running.rushes
        return Local(
            rushes.dispatch,
            rushes.db,
            rushes.bell,
            worker_id=ids.new("wrk"),
            worker_name=name,
            poll_seconds=0.1,
        )

    yield Harness(running, connect("one"), connect)
    for each in opened:
        each.close()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
