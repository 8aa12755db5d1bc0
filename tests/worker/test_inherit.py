"""A version takes over what the one before it has: the same objects, which go with the last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rushes import errors
from rushes.jobs.job import NewJob
from rushes.media import purge
from rushes.protocol import Claim, Completion, Hello, Part, Progress, Rendition
from rushes.renditions import told
from rushes.worker.context import JobContext
from worker.harness import SOURCE, Harness

SETTINGS = {"segment_seconds": 2}
LADDER = [
    Rendition(name="480p", kind="video", status="completed", codecs="avc1", segments_total=1),
    Rendition(name="360p", kind="video", status="completed", codecs="avc1", segments_total=1),
    Rendition(name="240p", kind="video", status="failed"),
    Rendition(name="audio", kind="audio", status="completed", title="Größe", channels=2),
]
FILES = {
    "480p/seg_00000.m4s": b"large",
    "360p/seg_00000.m4s": b"small",
    "audio/seg_00000.m4s": b"sound",
    "thumbnail.jpg": b"picture",
    "master.m3u8": b"#EXTM3U\n",
}
KEPT = {"480p/seg_00000.m4s", "audio/seg_00000.m4s", "thumbnail.jpg"}


def claim(harness: Harness) -> Claim:
    harness.worker.hello(Hello(kinds=["transcode"]))
    [assignment] = harness.worker.claim(1)
    return assignment.claim


def published(harness: Harness, warnings: Any = ()) -> None:
    harness.enqueue("transcode", args={"settings": SETTINGS})
    first = claim(harness)
    detail = {**told(LADDER), "warnings": list(warnings)}
    harness.worker.progress(Progress(claim=first, progress=0.9, detail=detail))
    complete(harness, first, FILES)


def complete(harness: Harness, held: Claim, files: dict[str, bytes], *adopted: str) -> None:
    made = [harness.worker.put_artifact(held, name, content) for name, content in files.items()]
    made += [each for each in harness.worker.artifacts(held) if each.name in adopted]
    manifest = {each.name: each.sha256 for each in made}
    assert harness.worker.complete_all([Completion(held, None, manifest)]) == {
        held.job_id: "completed"
    }


def asked(harness: Harness, **args: Any) -> Claim:
    new = NewJob(kind="transcode", media_id=harness.media_id, args={"settings": SETTINGS, **args})
    harness.running.rushes.db.run(lambda tx: harness.running.rushes.queue.enqueue(tx, new))
    return claim(harness)


def objects(harness: Harness) -> set[str]:
    storage = harness.running.rushes.storage
    return {entry.key for entry in storage.list(f"media/{harness.media_id}")}


def purge_all(harness: Harness) -> None:
    rushes = harness.running.rushes
    rushes.db.run(lambda tx: purge.plan(tx, rushes.queue, grace_ms=-1000, cleanup_partial=True))
    handler = purge.Purge(rushes.db, rushes.storage, grace_ms=-60_000)
    with rushes.db.read() as tx:
        versions = tx.all("SELECT id FROM versions WHERE state IN ('retired','abandoned')")
    for each in versions:
        context: Any = type("Context", (JobContext,), {"__init__": lambda self: None})()
        context.args = {"version_id": each["id"]}
        handler(context)


def test_what_is_taken_over_outlives_the_version_it_came_from(harness: Harness) -> None:
    published(harness)
    second = asked(harness)
    found = harness.worker.inherit(second, ["360p"])
    assert found.why_not is None
    kept = [replace(each, started_at=None, completed_at=None) for each in found.renditions]
    assert kept == [LADDER[0], LADDER[3]]
    assert all(each.started_at and each.completed_at for each in found.renditions)
    assert harness.worker.inherit(second, ["360p"]) == found
    there = {each.name: each.claimed for each in harness.worker.artifacts(second)}
    assert there == dict.fromkeys(KEPT, False)
    assert {each.name for each in harness.worker.adopt(second, sorted(KEPT))} == KEPT
    # Asked once more, it takes nothing away again.
    harness.worker.inherit(second, ["360p"])
    made = {"360p/seg_00000.m4s": b"smaller", "master.m3u8": b"#EXTM3U\n\n"}
    complete(harness, second, made, *KEPT)
    purge_all(harness)
    assert harness.current_files() == {**FILES, **made}
    assert len(objects(harness)) == len(FILES)


def test_the_trash_counts_what_two_versions_share_once(harness: Harness) -> None:
    published(harness)
    second = asked(harness)
    harness.worker.inherit(second, ["360p"])
    harness.worker.adopt(second, sorted(KEPT))
    complete(
        harness, second, {"360p/seg_00000.m4s": b"smaller", "master.m3u8": b"#EXTM3U\n"}, *KEPT
    )
    rushes = harness.running.rushes
    with harness.running.client() as admin:
        assert admin.delete(f"/media/{harness.media_id}").status_code == 204
        told = admin.get("/media/trash", params={"everyone": True}).json()
    there = sum(rushes.storage.size(key) or 0 for key in objects(harness))
    assert told["size_bytes"] == len(SOURCE) + there


def test_what_is_not_needed_in_the_end_stays_with_the_version_before(harness: Harness) -> None:
    published(harness)
    before = objects(harness)
    second = asked(harness)
    harness.worker.inherit(second)
    harness.worker.adopt(second, sorted(KEPT))
    harness.worker.discard(second, ["480p/seg_00000.m4s"])
    # One of its own in place of another's; the rest is left out when it is published.
    harness.worker.release(second)
    third = claim(harness)
    complete(harness, third, {"audio/seg_00000.m4s": b"new sound", "master.m3u8": b"#EXTM3U\n"})
    assert before < objects(harness)
    purge_all(harness)
    assert harness.current_files() == {
        "audio/seg_00000.m4s": b"new sound",
        "master.m3u8": b"#EXTM3U\n",
    }
    assert len(objects(harness)) == 2


def test_a_job_that_ends_early_takes_nothing_along(harness: Harness) -> None:
    published(harness)
    second = asked(harness)
    harness.worker.inherit(second)
    harness.worker.adopt(second, sorted(KEPT))
    harness.worker.fail(second, "permanent", "odd", "")
    purge_all(harness)
    assert harness.current_files() == FILES


@pytest.mark.parametrize(
    ("args", "why_not"),
    [
        ({"edit": {"start": 1.0}}, "what is cut or laid over has changed"),
        ({"settings": {"segment_seconds": 4}}, "segments have another length now"),
        ({"edit": {}}, None),
        ({"settings": {**SETTINGS, "crf": 30}}, None),
    ],
)
def test_what_does_not_go_together_is_told_and_left(
    remote_harness: Harness, args: dict[str, Any], why_not: str | None
) -> None:
    harness = remote_harness
    published(harness)
    second = asked(harness, **args)
    found = harness.worker.inherit(second, ["480p"])
    assert [each.name for each in found.renditions] == ["360p", "audio"]
    assert found.why_not == why_not
    assert bool(harness.worker.artifacts(second)) == (why_not is None)


def test_sound_that_is_not_all_there_is_not_taken_over(remote_harness: Harness) -> None:
    harness = remote_harness
    published(harness, [{"code": "sound_unreadable", "message": "it ends early"}])
    second = asked(harness)
    assert [each.name for each in harness.worker.inherit(second).renditions] == ["480p", "360p"]


def test_parts_and_first_versions_inherit_nothing(remote_harness: Harness) -> None:
    harness = remote_harness
    harness.enqueue("transcode", args={"settings": SETTINGS})
    first = claim(harness)
    assert not harness.worker.inherit(first).renditions
    harness.worker.divide(first, [Part(kind="span")])
    harness.worker.hello(Hello(kinds=["span"]))
    [part] = harness.worker.claim(1)
    with pytest.raises(errors.Conflict):
        harness.worker.inherit(part.claim)
