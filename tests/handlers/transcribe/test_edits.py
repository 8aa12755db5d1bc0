"""What becomes of a transcript when the recording is cut, mixed or made anew."""

from __future__ import annotations

from typing import Any

import pytest

from rushes.db.database import Tx
from rushes.jobs import read_store
from rushes.media import edit as edits
from rushes.media import store as media_store
from rushes.media.edit import Edit, Overlay
from rushes.protocol import Completion, Hello
from rushes.transcripts import archive
from speaking import said
from worker.harness import Harness, digest

SENTENCES = ("One is here.", "Two is here.", "Three is here.", "Four is here.")


def publish(harness: Harness, kind: str, **args: Any) -> None:
    """As a worker that has done such a job; the media has the transcript before."""
    harness.enqueue(kind, args=args)
    rushes = harness.running.rushes

    def hear(tx: Tx) -> None:
        archive.add(
            tx, media_id=harness.media_id, user_id="", job_id=None, transcript=said(*SENTENCES)
        )

    rushes.db.run(hear)
    harness.worker.hello(Hello(kinds=[kind]))
    [assignment] = harness.worker.claim(1)
    harness.worker.put_artifact(assignment.claim, "x.txt", b"x")
    done = Completion(assignment.claim, None, {"x.txt": digest(b"x")})
    assert harness.worker.complete_all([done]) == {assignment.job_id: "completed"}


def heard(harness: Harness) -> list[tuple[float, str]]:
    with harness.running.rushes.db.read() as tx:
        kept = archive.current(tx, harness.media_id)
    return [(each.start, each.text) for each in kept.transcript.segments] if kept else []


def waiting(harness: Harness) -> list[str]:
    with harness.running.rushes.db.read() as tx:
        return [job.kind for job in read_store.live_jobs_of(tx, [harness.media_id])]


def test_after_a_cut_people_read_what_is_left_at_its_new_times(harness: Harness) -> None:
    publish(harness, "trim", edit={"start": 10.0, "end": 30.0})
    assert heard(harness) == [(0.0, "Two is here."), (10.0, "Three is here.")]
    assert waiting(harness) == ["transcribe"]
    with harness.running.rushes.db.read() as tx:
        item = media_store.get(tx, harness.media_id)
    assert item is not None
    assert item.transcript_status == "pending"


def test_other_sound_makes_the_old_words_wrong(harness: Harness) -> None:
    overlay = {"media_id": "med_other", "sound": "overlay"}
    publish(harness, "composite", edit={"overlay": overlay})
    assert heard(harness) == []
    assert waiting(harness) == ["transcribe"]


def test_a_silent_overlay_changes_nothing_that_is_heard(harness: Harness) -> None:
    publish(harness, "composite", edit={"overlay": {"media_id": "med_other"}})
    assert len(heard(harness)) == 4


def test_a_new_encoding_keeps_the_words_unless_it_is_told_otherwise(harness: Harness) -> None:
    publish(harness, "transcode")
    assert len(heard(harness)) == 4
    assert waiting(harness) == []
    publish(harness, "transcode", drop_transcript=True)
    assert heard(harness) == []
    assert waiting(harness) == ["transcribe"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Edit(), Edit(start=5), True),
        (Edit(), Edit(overlay=Overlay(media_id="a")), True),
        (Edit(), Edit(overlay=Overlay(media_id="a", sound="both")), False),
        (
            Edit(overlay=Overlay(media_id="a", sound="both")),
            Edit(overlay=Overlay(media_id="a", sound="both"), start=3),
            True,
        ),
    ],
)
def test_what_is_heard_of_an_edit(one: Edit, other: Edit, same: bool) -> None:
    assert edits.same_sound(one, other) is same
    assert edits.read(edits.encode(other)) == other
