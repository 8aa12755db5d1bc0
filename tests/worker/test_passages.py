"""Results that grow while a job runs: kept at once, told at once, and found by whoever goes on."""

from __future__ import annotations

import pytest

from rushes import errors, events
from rushes.protocol import PASSAGES_LIMIT, Completion, Hello
from rushes.records import JsonObject
from rushes.transcripts import archive, passages
from rushes.transcripts.transcript import Passage
from rushes.worker.context import JobContext
from worker.harness import Harness


def said(number: int, text: str) -> JsonObject:
    return passages.encode(
        Passage(start=number, end=number + 1, text=text, language="en"), next=[number, 0, "en"]
    )


def test_the_next_attempt_finds_what_was_kept_in_order(harness: Harness) -> None:
    claim = harness.claimed()
    assert harness.worker.passages(claim) == []
    harness.worker.put_passage(claim, 1, said(1, "two"))
    harness.worker.put_passage(claim, 0, said(0, "one"))
    harness.worker.put_passage(claim, 1, said(1, "two, mended"))
    harness.worker.release(claim)
    found = harness.worker.passages(harness.claim().claim)
    assert [each["text"] for each in found] == ["one", "two, mended"]


def test_a_retry_begins_with_them(harness: Harness) -> None:
    claim = harness.claimed()
    harness.worker.put_passage(claim, 0, said(0, "one"))
    harness.worker.fail(claim, "permanent", "engine_unavailable", "there is no engine")
    rushes = harness.running.rushes
    rushes.db.run(lambda tx: rushes.queue.retry(tx, claim.job_id))
    again = harness.claim().claim
    assert again.job_id != claim.job_id
    assert [each["text"] for each in harness.worker.passages(again)] == ["one"]


def test_listeners_hear_each_one_and_none_of_where_it_goes_on(harness: Harness) -> None:
    claim = harness.claimed()
    harness.worker.put_passage(claim, 0, said(0, "one"))
    harness.worker.put_passage(claim, 1, {"turns": []})
    rushes = harness.running.rushes
    rushes.chores.number_events()
    with rushes.db.read() as tx:
        told = [row.data or "" for row in events.read_since(tx, 0) if row.type == "demo.passage"]
    [data] = told
    assert '"one"' in data
    assert "next" not in data


@pytest.mark.parametrize(
    ("number", "content"), [(PASSAGES_LIMIT, "x"), (-1, "x"), (0, "x" * 600_000)]
)
def test_too_much_is_refused(harness: Harness, number: int, content: str) -> None:
    claim = harness.claimed()
    with pytest.raises(errors.RushesError):
        harness.worker.put_passage(claim, number, {"text": content})
    assert harness.worker.passages(claim) == []


def test_a_transcription_completes_together_with_its_transcript(harness: Harness) -> None:
    harness.enqueue(kind="transcribe")
    harness.worker.hello(Hello(kinds=["transcribe"]))
    [assignment] = harness.worker.claim(1)
    claim = assignment.claim
    harness.worker.put_passage(claim, 0, said(0, "Hello."))
    harness.worker.put_passage(claim, 1, said(1, "Again."))
    engine = {"provider": "local", "transcription_model": "whisper-base"}
    done = Completion(claim, {"engine": engine}, {})
    assert harness.worker.complete_all([done]) == {claim.job_id: "completed"}
    assert harness.worker.complete_all([done]) == {claim.job_id: "completed"}
    with harness.running.rushes.db.read() as tx:
        kept = archive.current(tx, harness.media_id)
    assert kept is not None
    assert kept.transcript.text == "Hello. Again."
    assert kept.transcript.engine is not None
    assert kept.transcript.engine.transcription_model == "whisper-base"


def test_whoever_waits_long_hears_of_a_cancel_without_reporting(harness: Harness) -> None:
    harness.enqueue()
    assignment = harness.claim()
    job = JobContext(assignment, lambda report: None, coordinator=harness.worker)
    job.listen()
    rushes = harness.running.rushes
    rushes.db.run(lambda tx: rushes.queue.cancel(tx, assignment.job_id))
    with pytest.raises(errors.Canceled):
        while True:
            job.listen()


def test_a_handler_that_stands_still_does_not_renew_by_listening(harness: Harness) -> None:
    harness.enqueue()
    assignment = harness.claim()
    job = JobContext(assignment, lambda report: None, coordinator=harness.worker, stall_seconds=0.0)
    rushes = harness.running.rushes
    rushes.db.run(lambda tx: rushes.queue.cancel(tx, assignment.job_id))
    job.listen()
    assert not job.stopping
