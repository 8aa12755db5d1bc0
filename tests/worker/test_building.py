"""A version belongs to a job: its attempts and its parts build it together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rushes import errors, events, ids
from rushes.db.database import Tx
from rushes.jobs import invariants
from rushes.jobs.job import NewJob, State
from rushes.media import library, purge, purge_store
from rushes.media import store as media_store
from rushes.media.media import NewMedia, StoredFile
from rushes.protocol import Artifact, Claim, Completion, Hello, Part, Progress
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from worker.harness import SOURCE, Harness, digest

HELLO = Hello(kinds=["demo", "piece"])


def claim(harness: Harness) -> Claim:
    harness.worker.hello(HELLO)
    [assignment] = harness.worker.claim(1)
    return assignment.claim


def put(harness: Harness, held: Claim, **files: bytes) -> dict[str, str]:
    """Files by name without their suffix; returns a manifest."""
    made = [harness.worker.put_artifact(held, f"{name}.txt", files[name]) for name in files]
    return {each.name: each.sha256 for each in made}


def complete(
    harness: Harness, held: Claim, manifest: dict[str, str] | None, result: object = None
) -> str:
    answers = harness.worker.complete_all([Completion(held, result, manifest)])
    return answers[held.job_id]


def rows(harness: Harness, held: Claim) -> dict[str, StoredFile]:
    with harness.running.rushes.db.read() as tx:
        version = media_store.building_version(tx, held.job_id)
        assert version is not None
        return {row.name: row for row in media_store.artifacts(tx, version)}


def objects(harness: Harness) -> set[str]:
    storage = harness.running.rushes.storage
    return {entry.key for entry in storage.list(f"media/{harness.media_id}")}


def check(harness: Harness) -> None:
    with harness.running.rushes.db.begin() as tx:
        events.assign_positions(tx)
        assert invariants.check(tx) == []


# Attempts


def test_an_attempt_adopts_what_the_one_before_has_made(stored_harness: Harness) -> None:
    harness = stored_harness
    first = harness.claimed()
    put(harness, first, one=b"one", two=b"two", old=b"old")
    harness.worker.put_artifact(first, "720p/seg_00000.m4s", b"segment", 4.0)
    harness.worker.release(first)
    second = claim(harness)
    there = {each.name: each for each in harness.worker.artifacts(second)}
    assert there["720p/seg_00000.m4s"] == Artifact(
        name="720p/seg_00000.m4s",
        size_bytes=7,
        sha256=digest(b"segment"),
        content_type=there["720p/seg_00000.m4s"].content_type,
        seconds=4.0,
        claimed=False,
    )
    names = ["one.txt", "720p/seg_00000.m4s", "never.txt"]
    adopted = harness.worker.adopt(second, names)
    assert [each.name for each in adopted] == names[:2]
    assert all(each.claimed for each in adopted)
    assert [each.name for each in harness.worker.adopt(second, names)] == names[:2]
    manifest = {each.name: each.sha256 for each in adopted}
    manifest |= put(harness, second, two=b"two again", three=b"three")
    assert complete(harness, second, manifest) == "completed"
    assert complete(harness, second, manifest) == "completed"
    assert harness.current_files() == {
        "one.txt": b"one",
        "two.txt": b"two again",
        "three.txt": b"three",
        "720p/seg_00000.m4s": b"segment",
    }
    # What was replaced or left out is gone from the storage as well.
    assert len(objects(harness)) == 4
    check(harness)


def test_what_is_damaged_is_not_adopted(stored_harness: Harness) -> None:
    harness = stored_harness
    first = harness.claimed()
    put(harness, first, whole=b"whole", gone=b"gone", short=b"short", other=b"other")
    before = rows(harness, first)
    storage = harness.running.rushes.storage
    storage.delete([str(before["gone.txt"].key)])
    storage.put(str(before["short.txt"].key), b"sh")
    damaged = {"gone.txt", "short.txt"}
    if storage.local_path(str(before["other.txt"].key)) is not None:
        storage.put(str(before["other.txt"].key), b"OTHER")
        damaged.add("other.txt")
    harness.worker.release(first)
    second = claim(harness)
    adopted = harness.worker.adopt(second, sorted(before))
    assert {each.name for each in adopted} == set(before) - damaged
    assert set(rows(harness, second)) == set(before) - damaged
    made = put(harness, second, gone=b"made again")
    manifest = {each.name: each.sha256 for each in adopted} | made
    assert complete(harness, second, manifest) == "completed"
    files = harness.current_files()
    assert files is not None
    assert files["gone.txt"] == b"made again"


def test_a_manifest_is_of_the_attempt_that_completes(harness: Harness) -> None:
    first = harness.claimed()
    manifest = put(harness, first, one=b"one")
    harness.worker.release(first)
    second = claim(harness)
    assert complete(harness, second, manifest) == "manifest_mismatch"
    assert harness.current_files() is None
    harness.worker.adopt(second, ["one.txt"])
    assert complete(harness, second, {}) == "manifest_mismatch"
    assert complete(harness, second, manifest) == "completed"
    assert harness.current_files() == {"one.txt": b"one"}


def test_an_attempt_without_files_publishes_none_of_those_before(harness: Harness) -> None:
    first = harness.claimed()
    put(harness, first, one=b"one")
    harness.worker.release(first)
    second = claim(harness)
    assert complete(harness, second, None) == "completed"
    assert harness.current_files() is None
    rushes = harness.running.rushes
    # The server may have done so by itself.
    rushes.db.run(purge_store.abandon_versions)
    with rushes.db.read() as tx:
        assert [row["state"] for row in tx.all("SELECT state FROM versions")] == ["abandoned"]


def test_a_lost_claim_adopts_and_divides_nothing(harness: Harness) -> None:
    first = harness.claimed()
    put(harness, first, one=b"one")
    rushes = harness.running.rushes
    rushes.db.run(lambda tx: rushes.queue.release(tx, first))
    second = claim(harness)
    before = rows(harness, second)
    with pytest.raises(errors.ClaimLost):
        harness.worker.adopt(first, ["one.txt"])
    with pytest.raises(errors.ClaimLost):
        harness.worker.put_artifact(first, "one.txt", b"late")
    assert rows(harness, second) == before
    nobody = Claim(first.job_id, "clm_nobody")
    with pytest.raises(errors.ClaimLost):
        harness.worker.divide(nobody, [Part(kind="piece")])


def test_a_claim_removes_files_of_its_own_only(stored_harness: Harness) -> None:
    harness = stored_harness
    first = harness.claimed()
    put(harness, first, theirs=b"theirs", both=b"both")
    harness.worker.release(first)
    second = claim(harness)
    harness.worker.adopt(second, ["both.txt"])
    manifest = put(harness, second, mine=b"mine", kept=b"kept")
    for _ in range(2):
        harness.worker.discard(second, ["mine.txt", "both.txt", "theirs.txt", "never.txt"])
    assert set(rows(harness, second)) == {"theirs.txt", "kept.txt"}
    assert len(objects(harness)) == 2
    assert complete(harness, second, manifest) == "manifest_mismatch"
    assert complete(harness, second, {"kept.txt": manifest["kept.txt"]}) == "completed"
    assert harness.current_files() == {"kept.txt": b"kept"}
    with pytest.raises(errors.ClaimLost):
        harness.worker.discard(second, ["kept.txt"])
    assert harness.current_files() == {"kept.txt": b"kept"}


def test_what_a_handler_discards_is_not_in_its_manifest(harness: Harness) -> None:
    harness.enqueue()

    def run(job: JobContext) -> None:
        job.put("one.txt", b"one")
        job.put("two.txt", b"two")
        job.discard(["one.txt"])

    Worker(harness.worker, {"demo": Handler(run)}, hello=HELLO).step()
    assert harness.current_files() == {"two.txt": b"two"}


def test_too_many_names_at_once_are_refused(harness: Harness) -> None:
    held = harness.claimed()
    with pytest.raises(errors.Invalid):
        harness.worker.adopt(held, [f"{n}.txt" for n in range(501)])


def test_a_published_version_is_never_touched(harness: Harness) -> None:
    first = harness.claimed()
    manifest = put(harness, first, one=b"one")
    assert complete(harness, first, manifest) == "completed"
    rushes = harness.running.rushes
    new = NewJob(kind="demo", media_id=harness.media_id)
    rushes.db.run(lambda tx: rushes.queue.enqueue(tx, new))
    second = claim(harness)
    assert harness.worker.artifacts(second) == []
    assert list(harness.worker.adopt(second, ["one.txt"])) == []
    put(harness, second, one=b"another")
    assert harness.current_files() == {"one.txt": b"one"}
    harness.worker.fail(second, "permanent", "corrupt", "")
    rushes.db.run(purge_store.abandon_versions)
    assert harness.current_files() == {"one.txt": b"one"}
    retried = rushes.db.run(lambda tx: rushes.queue.retry(tx, first.job_id)).id
    third = claim(harness)
    assert third.job_id == retried
    assert harness.worker.artifacts(third) == []
    check(harness)


# Retries


def test_a_retried_job_takes_over_what_the_failed_one_has_left(harness: Harness) -> None:
    rushes = harness.running.rushes
    first = harness.claimed()
    put(harness, first, one=b"one")
    harness.worker.fail(first, "permanent", "corrupt", "")
    rushes.db.run(purge_store.abandon_versions)
    again = rushes.db.run(lambda tx: rushes.queue.retry(tx, first.job_id)).id
    rushes.cancel(again)
    last = rushes.db.run(lambda tx: rushes.queue.retry(tx, again)).id
    second = claim(harness)
    assert second.job_id == last
    assert [each.name for each in harness.worker.artifacts(second)] == ["one.txt"]
    [adopted] = harness.worker.adopt(second, ["one.txt"])
    assert complete(harness, second, {"one.txt": adopted.sha256}) == "completed"
    assert harness.current_files() == {"one.txt": b"one"}
    check(harness)


def test_what_is_being_purged_is_not_taken_over(harness: Harness) -> None:
    rushes = harness.running.rushes
    first = harness.claimed()
    put(harness, first, one=b"one")
    harness.worker.fail(first, "permanent", "corrupt", "")
    planned = rushes.db.run(
        lambda tx: purge.plan(tx, rushes.queue, grace_ms=-1000, cleanup_partial=True)
    )
    assert planned == 1
    rushes.db.run(lambda tx: rushes.queue.retry(tx, first.job_id))
    second = claim(harness)
    assert harness.worker.artifacts(second) == []
    manifest = put(harness, second, one=b"fresh")
    assert complete(harness, second, manifest) == "completed"
    assert harness.current_files() == {"one.txt": b"fresh"}


def test_what_waits_for_a_retry_is_not_purged(harness: Harness) -> None:
    rushes = harness.running.rushes
    first = harness.claimed()
    put(harness, first, one=b"one")
    harness.worker.fail(first, "permanent", "corrupt", "")
    rushes.db.run(lambda tx: rushes.queue.retry(tx, first.job_id))
    plan = lambda tx: purge.plan(tx, rushes.queue, grace_ms=-1000, cleanup_partial=True)  # noqa: E731
    assert rushes.db.run(plan) == 0
    second = claim(harness)
    assert [each.name for each in harness.worker.adopt(second, ["one.txt"])] == ["one.txt"]
    assert rushes.db.run(plan) == 0


# Parts


def test_parts_build_the_version_of_their_job(stored_harness: Harness) -> None:
    harness = stored_harness
    whole = harness.claimed()
    put(harness, whole, first=b"first")
    parts = [Part(kind="piece", args={"n": n}) for n in range(2)]
    assert harness.worker.divide(whole, parts, {"planned": 2}) == "blocked"
    assert harness.worker.divide(whole, parts, {"planned": 2}) == "blocked"
    assert harness.job(whole).state is State.BLOCKED
    for n in range(2):
        part = claim(harness)
        assert harness.job(part).args == {"n": n}
        made = put(harness, part, **{f"piece{n}": b"piece"})
        assert complete(harness, part, {}) == "manifest_mismatch"
        assert complete(harness, part, made) == "completed"
        assert complete(harness, part, made) == "completed"
        assert harness.current_files() is None
    harness.worker.hello(HELLO)
    [assignment] = harness.worker.claim(1)
    assert (assignment.job_id, assignment.checkpoint) == (whole.job_id, {"planned": 2})
    names = ["first.txt", "piece0.txt", "piece1.txt"]
    adopted = harness.worker.adopt(assignment.claim, names)
    manifest = {each.name: each.sha256 for each in adopted}
    assert complete(harness, assignment.claim, manifest) == "completed"
    assert harness.current_files() == {
        "first.txt": b"first",
        "piece0.txt": b"piece",
        "piece1.txt": b"piece",
    }
    check(harness)


def test_a_handler_divides_and_puts_together(harness: Harness) -> None:
    job_id = harness.enqueue()

    def whole(job: JobContext) -> dict[str, object]:
        if job.checkpoint is None:
            job.put("begin.txt", b"begin")
            raise errors.Divided([Part(kind="piece")] * 3, checkpoint={"divided": True})
        names = [each.name for each in job.artifacts()]
        assert [each.name for each in job.adopt(names)] == names
        job.put("end.txt", b"end")
        return {"kind": "video", "duration": 12.5}

    def piece(job: JobContext) -> None:
        job.put(f"{job.job_id}.txt", b"piece")

    worker = Worker(harness.worker, {"demo": Handler(whole), "piece": Handler(piece)}, hello=HELLO)
    for _ in range(5):
        assert worker.step() == 1
    assert worker.step() == 0
    rushes = harness.running.rushes
    assert rushes.job(job_id).state is State.COMPLETED
    assert [each.outcome for each in rushes.executions(job_id)] == ["divided", "succeeded"]
    files = harness.current_files()
    assert files is not None
    assert sorted(files.values()) == [b"begin", b"end", b"piece", b"piece", b"piece"]
    with rushes.db.read() as tx:
        item = media_store.get(tx, harness.media_id)
    assert item is not None
    assert (item.kind, item.duration) == ("video", 12.5)
    check(harness)


def test_a_division_that_is_refused_fails_the_job(harness: Harness) -> None:
    job_id = harness.enqueue()

    def whole(job: JobContext) -> None:
        raise errors.Divided([Part(kind="Not A Kind")])

    Worker(harness.worker, {"demo": Handler(whole)}, hello=HELLO).step()
    job = harness.running.rushes.job(job_id)
    assert (job.state, job.error_code) == (State.FAILED, "bad_division")


def test_parts_of_a_job_that_was_retried_write_nothing_any_more(harness: Harness) -> None:
    """One part failed, the other has not heard of it, and the retry has taken the version over."""
    rushes = harness.running.rushes
    whole = harness.claimed()
    harness.worker.divide(whole, [Part(kind="piece")] * 2, None)
    late, failing = claim(harness), claim(harness)
    put(harness, late, early=b"early")
    harness.worker.fail(failing, "permanent", "corrupt", "")
    assert harness.worker.heartbeat([late]).claims[late.claim_id].cancel
    rushes.db.run(lambda tx: rushes.queue.retry(tx, whole.job_id))
    retry = claim(harness)
    [adopted] = harness.worker.adopt(retry, ["early.txt"])
    with pytest.raises(errors.CancelRequested):
        put(harness, late, early=b"late")
    with pytest.raises(errors.CancelRequested):
        put(harness, late, more=b"late")
    assert complete(harness, retry, {"early.txt": adopted.sha256}) == "completed"
    assert harness.current_files() == {"early.txt": b"early"}
    assert harness.worker.release(late) == "canceled"
    check(harness)


def test_the_job_shows_how_far_its_parts_are(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rushes.dispatch.FOLLOW_SECONDS", 0.0)
    whole = harness.claimed()
    detail = {
        "renditions": [
            {"name": "720p", "status": "pending", "segments_total": 4, "segments_completed": 0},
            {"name": "1080p", "status": "skipped"},
        ],
        "audio": [{"name": "audio", "segments_total": 2, "segments_completed": 0}],
    }
    harness.worker.progress(Progress(claim=whole, progress=0.15, stage="transcode", detail=detail))
    harness.worker.divide(whole, [Part(kind="piece")] * 2, None)
    part = claim(harness)
    for n in range(2):
        harness.worker.put_artifact(part, f"720p/seg_{n:05d}.m4s", b"x", 4.0)
        harness.worker.put_artifact(part, f"audio/seg_{n:05d}.m4s", b"x", 4.0)
    harness.worker.progress(Progress(claim=part, progress=0.5))
    job = harness.job(whole)
    assert job.progress == pytest.approx(0.15 + 0.8 * 0.25)
    began = job.detail["renditions"][0]["started_at"]
    assert job.detail["renditions"] == [
        {
            "name": "720p",
            "status": "in_progress",
            "segments_total": 4,
            "segments_completed": 2,
            "progress": 0.5,
            "started_at": began,
        },
        {"name": "1080p", "status": "skipped"},
    ]
    assert job.detail["audio"][0]["segments_completed"] == 2
    with harness.running.rushes.db.read() as tx:
        told = tx.all(
            "SELECT type, progress FROM events WHERE job_id = :id ORDER BY seq", id=whole.job_id
        )
    assert told[-1] == {"type": "demo.progress", "progress": job.progress}
    manifest = {each.name: each.sha256 for each in harness.worker.artifacts(part)}
    assert complete(harness, part, manifest) == "completed"
    assert harness.job(whole).progress == pytest.approx(0.15 + 0.8 * 0.5)
    check(harness)


def test_progress_of_parts_is_told_at_most_once_a_second(harness: Harness) -> None:
    whole = harness.claimed()
    harness.worker.divide(whole, [Part(kind="piece")], None)
    part = claim(harness)
    for n in range(5):
        harness.worker.progress(Progress(claim=part, progress=n / 10))
    with harness.running.rushes.db.read() as tx:
        told = tx.all(
            "SELECT type FROM events WHERE job_id = :id AND type = 'demo.progress'",
            id=whole.job_id,
        )
    assert len(told) == 1


# Another media's source


def other_media(harness: Harness, user_id: str = "") -> str:
    rushes = harness.running.rushes
    key = f"sources/{ids.new('upl')}"
    rushes.storage.put(key, b"overlay")
    new = NewMedia(
        user_id=user_id,
        title="Face",
        file_name="face.webm",
        size_bytes=7,
        sha256=digest(b"overlay"),
        source_key=key,
    )
    media_id = ids.new("med")

    def add(tx: Tx) -> None:
        media_store.insert(tx, media_id, new, media_id)

    rushes.db.run(add)
    return media_id


def test_the_source_of_an_overlay_is_for_the_job_that_names_it(stored_harness: Harness) -> None:
    harness = stored_harness
    face, stranger = other_media(harness), other_media(harness)
    foreign = other_media(harness, "usr_other")
    harness.enqueue(args={"edit": {"overlay": {"media_id": face}}})
    held = claim(harness)
    source = harness.worker.source(held, face)
    assert (source.size_bytes, source.sha256) == (7, digest(b"overlay"))
    assert b"".join(harness.worker.read_source(held, 4, face)) == b"lay"
    assert harness.worker.source(held, harness.media_id).size_bytes == len(SOURCE)
    for other in (stranger, foreign, "med_nothing"):
        with pytest.raises(errors.NotFound):
            harness.worker.source(held, other)
        with pytest.raises(errors.NotFound):
            list(harness.worker.read_source(held, 0, other))


def test_somebody_elses_media_is_no_source_even_if_the_job_names_it(harness: Harness) -> None:
    foreign = other_media(harness, "usr_other")
    harness.enqueue(args={"edit": {"overlay": {"media_id": foreign}}})
    held = claim(harness)
    with pytest.raises(errors.NotFound):
        harness.worker.source(held, foreign)
    rushes = harness.running.rushes
    face = other_media(harness)
    harness.enqueue(args={"edit": {"overlay": {"media_id": face}}})
    held = claim(harness)
    rushes.db.run(lambda tx: library.delete(tx, rushes.queue, face))
    with pytest.raises(errors.NotFound):
        harness.worker.source(held, face)


def test_a_part_gets_the_overlay_of_its_job_and_no_other(harness: Harness) -> None:
    face, stranger = other_media(harness), other_media(harness)
    harness.enqueue(args={"edit": {"overlay": {"media_id": face}}})
    whole = claim(harness)
    with pytest.raises(errors.Invalid):
        named = {"edit": {"overlay": {"media_id": stranger}}}
        harness.worker.divide(whole, [Part(kind="piece", args=named)], None)
    harness.worker.divide(whole, [Part(kind="piece")], None)
    part = claim(harness)
    assert harness.worker.source(part, face).size_bytes == 7
    with pytest.raises(errors.NotFound):
        harness.worker.source(part, stranger)


@pytest.mark.parametrize(
    "result",
    [None, [], "video", {"kind": 7, "duration": "long"}, {"duration": -1.0}, {"duration": 10**15}],
)
def test_facts_that_are_none_are_ignored(harness: Harness, result: object) -> None:
    held = harness.claimed()
    assert complete(harness, held, put(harness, held, one=b"one"), result) == "completed"
    with harness.running.rushes.db.read() as tx:
        item = media_store.get(tx, harness.media_id)
    assert item is not None
    assert (item.kind, item.duration) == (None, None)


def made_by(harness: Harness, kind: str, args: dict[str, object]) -> Callable[[], str | None]:
    """Complete such a job on the media; returns how to read what is kept of its edit."""
    rushes = harness.running.rushes
    new = NewJob(kind=kind, media_id=harness.media_id, args=args)
    rushes.db.run(lambda tx: rushes.queue.enqueue(tx, new))
    harness.worker.hello(Hello(kinds=[kind]))
    [assignment] = harness.worker.claim(1)
    held = assignment.claim
    assert complete(harness, held, put(harness, held, one=b"one")) == "completed"

    def edit() -> str | None:
        with rushes.db.read() as tx:
            row = tx.one("SELECT edit FROM media WHERE id = :id", id=harness.media_id)
        assert row is not None
        return row["edit"]  # type: ignore[no-any-return]

    return edit


def test_an_edit_is_kept_with_the_version_it_made(harness: Harness) -> None:
    complete(harness, harness.claimed(), None)
    edit = made_by(harness, "trim", {"edit": {"start": 2.0, "end": 5.0}})
    assert edit() == '{"end":5.0,"start":2.0}'
    made_by(harness, "transcode", {"edit": {"start": 2.0, "end": 5.0}})
    assert edit() == '{"end":5.0,"start":2.0}'
    # It tells what the version that is shown was made of.
    made_by(harness, "transcode", {})
    assert edit() is None
    made_by(harness, "trim", {"edit": {"start": 2.0}})
    made_by(harness, "trim", {})
    assert edit() is None


# Files that are under way meanwhile


def slowly(content: bytes, meanwhile: Callable[[], object]) -> Iterator[bytes]:
    meanwhile()
    yield content


def test_a_slow_copy_does_not_replace_what_the_same_claim_has_put(harness: Harness) -> None:
    held = harness.claimed()
    late = slowly(b"late", lambda: put(harness, held, one=b"right"))
    dispatch = harness.running.rushes.dispatch
    with pytest.raises(errors.AlreadyExists):
        dispatch.put_artifact(held, "one.txt", late, digest(b"late"))
    assert rows(harness, held)["one.txt"].sha256 == digest(b"right")
    assert len(objects(harness)) == 1


def test_a_slow_file_of_a_part_does_not_reach_a_version_that_was_taken_over(
    harness: Harness,
) -> None:
    rushes = harness.running.rushes
    whole = harness.claimed()
    harness.worker.divide(whole, [Part(kind="piece")] * 2, None)
    late, failing = claim(harness), claim(harness)
    put(harness, late, one=b"right")
    retried: list[Claim] = []

    def take_over() -> None:
        harness.worker.fail(failing, "permanent", "corrupt", "")
        rushes.db.run(lambda tx: rushes.queue.retry(tx, whole.job_id))
        retried.append(claim(harness))
        assert len(harness.worker.adopt(retried[0], ["one.txt"])) == 1

    content = slowly(b"late", take_over)
    with pytest.raises(errors.CancelRequested):
        rushes.dispatch.put_artifact(late, "two.txt", content, digest(b"late"))
    assert set(rows(harness, retried[0])) == {"one.txt"}
    assert len(objects(harness)) == 1
