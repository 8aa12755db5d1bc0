"""Short ways for tests to put media, jobs and published versions into a running server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from declared import declared
from running import Running
from rushes import ids
from rushes.db.database import Tx
from rushes.fleet import store as fleet
from rushes.jobs.job import NewJob
from rushes.jobs.terms import Claimant
from rushes.media import library
from rushes.media.media import NewMedia
from rushes.protocol import Claim, Completion, Hello, Progress
from rushes.transcripts import archive
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.transcript import Transcript, TranscriptEngine, TranscriptSegment

SOURCE = b"the source itself"


def user_id(client: Any) -> str:
    return str(client.get("/session").json()["id"])


def add(running: Running, owner: str, title: str = "Holiday", content: bytes = SOURCE) -> str:
    """A media with its first jobs, as an upload leaves it."""
    key = f"sources/{ids.new('upl')}"
    running.rushes.storage.put(key, content)
    new = NewMedia(
        user_id=owner,
        title=title,
        file_name="holiday.mov",
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        source_key=key,
    )
    return running.rushes.db.run(lambda tx: library.add(tx, running.rushes.queue, new))


def enqueue(running: Running, owner: str, kind: str = "demo", **options: Any) -> str:
    def put(tx: Tx) -> str:
        new = NewJob(kind=kind, user_id=owner, **options)
        return running.rushes.queue.enqueue(tx, new).id

    return running.rushes.db.run(put)


def worker(running: Running, *kinds: str) -> Claimant:
    """Registered with the server, but played by the test."""
    me = Claimant(id=ids.new("wrk"), name="test", kinds=kinds)
    running.rushes.db.run(lambda tx: fleet.register(tx, me.id, me.name))
    running.rushes.dispatch.hello(me.id, Hello(kinds=list(kinds)))
    return me


def claim(running: Running, kind: str) -> Claim:
    [assignment] = running.rushes.dispatch.claim(worker(running, kind), 1)
    return assignment.claim


def publish(
    running: Running,
    media_id: str,
    files: Mapping[str, bytes | tuple[bytes, float]],
    result: Any = None,
) -> Claim:
    """Run the media's transcode job (or a new one) to its end with these files."""
    rushes = running.rushes
    live = [job for job in rushes.jobs(media_id=media_id, kind="transcode") if not _ended(job)]
    if not live:
        enqueue(running, "", "transcode", media_id=media_id)
    held = claim(running, "transcode")
    put(running, held, files)
    finish(running, held, result)
    return held


def put(running: Running, held: Claim, files: Mapping[str, bytes | tuple[bytes, float]]) -> None:
    """Files of the version that a claim builds; segments with the seconds they play."""
    for name, given in files.items():
        content, seconds = given if isinstance(given, tuple) else (given, None)
        sha256 = hashlib.sha256(content).hexdigest()
        more: dict[str, Any] = {} if seconds is None else {"seconds": seconds}
        running.rushes.dispatch.put_artifact(held, name, content, sha256, **more)


def tell(running: Running, held: Claim, progress: float, detail: Any) -> None:
    """As a worker reports how far it is."""
    report = Progress(claim=held, progress=progress, stage="transcode", detail=detail)
    if renditions := declared(detail):
        running.rushes.dispatch.declare(held, renditions)
    running.rushes.dispatch.progress([report])


def finish(running: Running, held: Claim, result: Any = None) -> None:
    running.rushes.dispatch.complete(Completion(held, result))


def transcribe(
    running: Running, media_id: str, *texts: str, speakers: Sequence[str] = ("SPEAKER_00",)
) -> str:
    """A machine's transcript with a segment of a second for each of these, said in turn."""
    segments = [
        TranscriptSegment(id=f"seg_{n:06d}", start=n - 1, end=n, text=text, speaker=speaker)
        for n, (text, speaker) in enumerate(zip(texts, cycle(speakers)), 1)
    ]
    engine = TranscriptEngine(provider="local", transcription_model="whisper-tiny")
    heard = Transcript(
        text=" ".join(texts), language="en", segments=segments, words=[], engine=engine
    )

    def keep(tx: Tx) -> str:
        owner = library.found(tx, media_id, None).user_id
        return archive.add(tx, media_id=media_id, user_id=owner, job_id=None, transcript=heard)

    return running.rushes.db.run(keep)


def correct(running: Running, media_id: str, text: str) -> None:
    """The first segment of its transcript."""

    def edit(tx: Tx) -> None:
        kept = archive.found(tx, media_id)
        change = SegmentEdit(segment_id="seg_000001", text=text)
        draft = archive.draft_edit(kept, kept.revision, [change])
        archive.write(tx, kept, kept.user_id, draft)

    running.rushes.db.run(edit)


def _ended(job: Any) -> bool:
    return job.state in ("completed", "failed", "canceled")


def done(held: Claim, result: Any = None) -> Completion:
    """What a worker says of a job that made no files."""
    return Completion(held, result)
