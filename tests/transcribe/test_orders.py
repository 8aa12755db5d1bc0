"""Asking for transcriptions: whatever is asked at once or again, one is under way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rushes.db.database import Tx
from rushes.jobs import job as jobs
from rushes.jobs import passage_store, read_store
from rushes.jobs.job import Job
from rushes.media import library, orders, store
from rushes.media.edit import Edit, encode
from rushes.protocol import Claim, Hello
from worker.desk import Desk


def transcribe(desk: Desk, **wishes: Any) -> str:
    def ask(tx: Tx) -> str:
        item = library.found(tx, desk.media_id, None)
        return orders.transcribe(tx, desk.running.rushes.queue, item, wishes)

    return desk.running.rushes.db.run(ask)


def retry(desk: Desk, job_id: str) -> str:
    queue = desk.running.rushes.queue
    return desk.running.rushes.db.run(lambda tx: orders.retry(tx, queue, job_id))


def under_way(desk: Desk) -> list[Job]:
    with desk.running.rushes.db.read() as tx:
        live = read_store.live_jobs_of(tx, [desk.media_id])
    return [job for job in live if job.kind == "transcribe" and not job.cancel_requested_at]


def ended(desk: Desk) -> str:
    """A transcription that has kept a passage and failed."""
    job_id = transcribe(desk, language="en")
    rushes = desk.running.rushes
    desk.worker.hello(_hello())
    [assignment] = desk.worker.claim(1)
    desk.worker.put_passage(assignment.claim, 0, {"start": 0, "end": 1, "text": "One."})
    desk.worker.fail(assignment.claim, "permanent", "engine_unavailable", "there is no engine")
    assert rushes.job(job_id).state == "failed"
    return job_id


def _hello() -> Hello:
    return Hello(kinds=["transcribe"])


def kept(desk: Desk, job_id: str) -> list[Any]:
    with desk.running.rushes.db.read() as tx:
        return passage_store.read(tx, job_id)


def test_of_many_that_ask_at_once_one_gets_its_wish(desk: Desk) -> None:
    desk.enqueue("noop")
    languages = ["en", "de", "fr", "it", "es", "pl"]
    with ThreadPoolExecutor(len(languages)) as pool:
        list(pool.map(lambda language: transcribe(desk, language=language), languages))
    assert len(under_way(desk)) == 1


def test_a_retry_goes_on_with_what_was_heard(desk: Desk) -> None:
    desk.enqueue("noop")
    again = retry(desk, ended(desk))
    assert [job.id for job in under_way(desk)] == [again]
    assert [each["text"] for each in kept(desk, again)] == ["One."]
    assert retry(desk, again_of(desk, again)) == again


def again_of(desk: Desk, job_id: str) -> str:
    of = desk.running.rushes.job(job_id).retry_of
    assert of is not None
    return of


def test_a_retry_after_a_cut_listens_to_what_is_left(desk: Desk) -> None:
    desk.enqueue("noop")
    old = ended(desk)
    cut = Edit(start=60.0)

    def trim(tx: Tx) -> None:
        store.set_edit(tx, desk.media_id, jobs.encode(encode(cut)))

    desk.running.rushes.db.run(trim)
    again = retry(desk, old)
    assert desk.running.rushes.job(again).args["edit"] == encode(cut)
    assert kept(desk, again) == []


def test_a_retry_takes_the_place_of_what_was_asked_since(desk: Desk) -> None:
    desk.enqueue("noop")
    old = ended(desk)
    other = transcribe(desk, language="fr")
    again = retry(desk, old)
    assert [job.id for job in under_way(desk)] == [again]
    assert desk.running.rushes.job(other).state == "canceled"


def test_one_that_is_being_canceled_does_not_swallow_the_new_wish(desk: Desk) -> None:
    desk.enqueue("noop")
    old = ended(desk)
    first = transcribe(desk, language="fr")
    desk.worker.hello(_hello())
    [assignment] = desk.worker.claim(1)
    assert assignment.job_id == first
    again = retry(desk, old)
    second = transcribe(desk, language="it")
    assert len({old, first, again, second}) == 4
    assert [job.id for job in under_way(desk)] == [second]
    beats = desk.worker.heartbeat([Claim(first, assignment.claim_id)]).beats
    assert beats[assignment.claim_id].cancel
