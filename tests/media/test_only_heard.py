"""A media that nobody watches: how it fares is how its transcription fares."""

from __future__ import annotations

from rushes.jobs.job import ErrorClass
from rushes.media import library, list_store
from rushes.media.list_store import MediaFilter
from rushes.media.media import NewMedia, ProcessingOptions
from rushes.playback import store as playback_store
from world import World


def heard_only(world: World) -> str:
    options = ProcessingOptions(transcode=False, language="de", speech={"model": "whisper-tiny"})
    new = NewMedia(user_id="ann", title="Talk", source_key="sources/talk", options=options)
    return world.run(lambda tx: library.add(tx, world.queue, new))


def statuses(world: World, media_id: str) -> tuple[str, str]:
    with world.db.read() as tx:
        item = library.found(tx, media_id, "ann")
        wanted = MediaFilter(user_id="ann", status=item.status, transcript=item.transcript_status)
        listed = list_store.list_media(tx, wanted, limit=10)
    assert [each.id for each in listed] == [media_id]
    return item.status, item.transcript_status


def test_it_is_as_far_as_its_transcription(world: World) -> None:
    media_id = heard_only(world)
    [job] = world.rows("SELECT kind, args FROM jobs")
    assert job == {"kind": "transcribe", "args": '{"language":"de","model":"whisper-tiny"}'}
    assert statuses(world, media_id) == ("pending", "pending")
    claim = world.claim(world.worker(kinds=["transcribe"]))
    assert statuses(world, media_id) == ("processing", "processing")
    world.complete(claim)
    assert statuses(world, media_id) == ("ready", "ready")


def test_what_failed_says_why_and_can_be_tried_again(world: World) -> None:
    media_id = heard_only(world)
    claim = world.claim(world.worker(kinds=["transcribe"]))
    world.fail(claim, ErrorClass.PERMANENT)
    assert statuses(world, media_id) == ("failed", "failed")
    with world.db.read() as tx:
        failure = playback_store.failures(tx, [media_id])[media_id, True]
    assert failure.reason == "boom"
    world.retry(claim.job_id)
    assert statuses(world, media_id) == ("pending", "pending")


def test_once_somebody_wants_to_watch_it_that_counts(world: World) -> None:
    media_id = heard_only(world)
    world.complete(world.claim(world.worker(kinds=["transcribe"])))
    world.enqueue("transcode", media_id=media_id, user_id="ann")
    assert statuses(world, media_id) == ("pending", "ready")
    world.fail(world.claim(world.worker(kinds=["transcode"])), ErrorClass.PERMANENT, "damaged")
    assert statuses(world, media_id) == ("failed", "ready")


def test_what_is_to_be_watched_does_not_fail_for_want_of_words(world: World) -> None:
    new = NewMedia(user_id="ann", title="Film", source_key="sources/film")
    media_id = world.run(lambda tx: library.add(tx, world.queue, new))
    world.fail(world.claim(world.worker(kinds=["transcribe"])), ErrorClass.PERMANENT)
    assert statuses(world, media_id) == ("pending", "failed")
    world.complete(world.claim(world.worker(kinds=["transcode"])))
    assert statuses(world, media_id) == ("ready", "failed")
