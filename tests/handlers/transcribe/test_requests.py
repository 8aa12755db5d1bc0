"""Asking for transcriptions: whatever is asked at once or again, one is under way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rushes.db.database import Tx
from rushes.jobs import job as jobs
from rushes.jobs import passage_store, read_store
from rushes.jobs.job import Job
from rushes.media import library, requests, store
from rushes.media.edit import Edit, encode
from rushes.protocol import Claim, Hello
from worker.harness import Harness


def transcribe(harness: Harness, **options: Any) -> str:
    def ask(tx: Tx) -> str:
        item = library.found(tx, harness.media_id, None)
        return requests.transcribe(tx, harness.running.rushes.queue, item, options)

    return harness.running.rushes.db.run(ask)


def retry(harness: Harness, job_id: str) -> str:
    queue = harness.running.rushes.queue
    return harness.running.rushes.db.run(lambda tx: requests.retry(tx, queue, job_id))


def under_way(harness: Harness) -> list[Job]:
    with harness.running.rushes.db.read() as tx:
        live = read_store.live_jobs_of(tx, [harness.media_id])
    return [job for job in live if job.kind == "transcribe" and not job.cancel_requested_at]


def ended(harness: Harness) -> str:
    """A transcription that has kept a passage and failed."""
    job_id = transcribe(harness, language="en")
    rushes = harness.running.rushes
    harness.worker.hello(_hello())
    [assignment] = harness.worker.claim(1)
    harness.worker.put_passage(assignment.claim, 0, {"start": 0, "end": 1, "text": "One."})
    harness.worker.fail(assignment.claim, "permanent", "engine_unavailable", "there is no engine")
    assert rushes.job(job_id).state == "failed"
    return job_id


def _hello() -> Hello:
    return Hello(kinds=["transcribe"])


def kept(harness: Harness, job_id: str) -> list[Any]:
    with harness.running.rushes.db.read() as tx:
        return passage_store.read(tx, job_id)


def test_of_many_that_ask_at_once_one_gets_what_it_asked_for(harness: Harness) -> None:
    harness.enqueue("noop")
    languages = ["en", "de", "fr", "it", "es", "pl"]
    with ThreadPoolExecutor(len(languages)) as pool:
        list(pool.map(lambda language: transcribe(harness, language=language), languages))
    assert len(under_way(harness)) == 1


def test_a_retry_goes_on_with_what_was_heard(harness: Harness) -> None:
    harness.enqueue("noop")
    again = retry(harness, ended(harness))
    assert [job.id for job in under_way(harness)] == [again]
    assert [each["text"] for each in kept(harness, again)] == ["One."]
    assert retry(harness, again_of(harness, again)) == again


def again_of(harness: Harness, job_id: str) -> str:
    of = harness.running.rushes.job(job_id).retry_of
    assert of is not None
    return of


def test_a_retry_after_a_cut_listens_to_what_is_left(harness: Harness) -> None:
    harness.enqueue("noop")
    old = ended(harness)
    cut = Edit(start=60.0)

    def trim(tx: Tx) -> None:
        store.set_edit(tx, harness.media_id, jobs.encode(encode(cut)))

    harness.running.rushes.db.run(trim)
    again = retry(harness, old)
    assert harness.running.rushes.job(again).args["edit"] == encode(cut)
    assert kept(harness, again) == []


def test_a_retry_takes_the_place_of_what_was_asked_since(harness: Harness) -> None:
    harness.enqueue("noop")
    old = ended(harness)
    other = transcribe(harness, language="fr")
    again = retry(harness, old)
    assert [job.id for job in under_way(harness)] == [again]
    assert harness.running.rushes.job(other).state == "canceled"


def test_one_that_is_being_canceled_does_not_swallow_the_new_request(harness: Harness) -> None:
    harness.enqueue("noop")
    old = ended(harness)
    first = transcribe(harness, language="fr")
    harness.worker.hello(_hello())
    [assignment] = harness.worker.claim(1)
    assert assignment.job_id == first
    again = retry(harness, old)
    second = transcribe(harness, language="it")
    assert len({old, first, again, second}) == 4
    assert [job.id for job in under_way(harness)] == [second]
    beats = harness.worker.heartbeat([Claim(first, assignment.claim_id)]).claims
    assert beats[assignment.claim_id].cancel
