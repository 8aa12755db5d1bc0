"""An object store that is slow, or says nothing: all arrives, nobody else waits, or it is told."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta

import pytest

from resilience.breakpoints import until
from resilience.demo_handlers import KIND
from resilience.shared_media import SharedMedia, worker
from resilience.test_bucket import Bucket
from resilience.test_bucket import bucket as bucket
from running import Running
from rushes import errors
from rushes.protocol import Hello
from rushes.storage import s3
from rushes.web.http import probe
from rushes.worker.remote import Remote
from web import library
from web.test_uploads import Sender, film, source

SEGMENT = "720p/seg_1.m4s"
CONTENT = os.urandom(300_000)
# More than a server has threads for what it does meanwhile.
VIEWERS = 40
SENDERS = 8
SILENCE_SECONDS = 4.0


@pytest.fixture
def tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(s3.RETRY, "max_retries", 0)


@pytest.fixture
def impatient(tried_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for a machine that is busy."""
    monkeypatch.setitem(s3.CLIENT, "read_timeout", timedelta(seconds=SILENCE_SECONDS))


@pytest.fixture
def stored(bucket: Bucket, serve: Callable[..., Running]) -> Iterator[Running]:
    running = serve(storage_url=bucket.url)
    yield running
    running.stop()


@pytest.fixture
def segment_url(stored: Running) -> str:
    """Of a segment that can be watched."""
    with stored.client() as admin:
        media_id = library.add(stored, library.user_id(admin))
    library.publish(stored, media_id, {"master.m3u8": b"#EXTM3U\n", SEGMENT: CONTENT})
    return f"/media/{media_id}/stream/{SEGMENT}"


@pytest.mark.parametrize("way", ["tus", "form"])
def test_uploads_into_a_slow_storage_arrive_whole(
    stored: Running, bucket: Bucket, way: str
) -> None:
    data = film(400_000)
    with stored.client() as client, bucket.slow():
        if way == "tus":
            sender = Sender(client)
            item = sender.media(sender.send(data))
        else:
            sent = client.post("/media", files={"file": ("talk.mp4", data)})
            assert sent.status_code == 201, sent.text
            item = sent.json()
        with stored.rushes.db.read() as tx:
            row = tx.one("SELECT sha256 FROM media WHERE id = :id", id=item["id"])
    assert row is not None
    assert row["sha256"] == hashlib.sha256(data).hexdigest()
    assert source(stored, item) == data


@pytest.mark.thorough
def test_a_part_of_a_segment_comes_slowly_for_longer_than_silence_is_borne(
    impatient: None, stored: Running, bucket: Bucket, segment_url: str
) -> None:
    asked = {"Range": "bytes=1000-250999"}
    with stored.client() as client, bucket.slow(0.3, 16_384):
        began = time.monotonic()
        got = client.get(segment_url, headers=asked)
        assert time.monotonic() - began > SILENCE_SECONDS
    assert (got.status_code, got.content) == (206, CONTENT[1000:251_000])
    assert got.headers["content-range"] == "bytes 1000-250999/300000"


@pytest.mark.thorough
def test_files_of_a_remote_worker_may_take_longer_than_a_lease(
    bucket: Bucket, serve: Callable[..., Running], hurried: None
) -> None:
    running = serve(storage_url=bucket.url, claim_duration=2.0, heartbeat_interval=0.4)
    shared = SharedMedia(running.rushes, running.url)
    with worker(running.url, running.worker_key()):
        job_id = shared.enqueue(max_attempts=1, args={"files": 1, "size_bytes": 200_000})
        with bucket.slow():
            shared.wait(job_id)
    [attempt] = running.rushes.executions(job_id)
    assert attempt.outcome == "succeeded"
    assert attempt.ended_at is not None
    assert attempt.ended_at - attempt.started_at > 2000
    assert shared.watch() is not None
    running.stop()


def test_while_a_storage_is_silent_only_those_wait_who_need_it(
    tried_once: None, stored: Running, bucket: Bucket, segment_url: str
) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(stored.client())
        remote = stack.enter_context(closing(Remote(stored.url, stored.worker_key())))
        remote.hello(Hello(kinds=[KIND]))
        shared = SharedMedia(stored.rushes, stored.url)
        jobs = [shared.enqueue() for _ in range(2)]
        [job] = remote.claim(1)
        people = stack.enter_context(ThreadPoolExecutor(VIEWERS + SENDERS + 1))
        stack.enter_context(bucket.silent())
        waiting = [people.submit(client.get, segment_url) for _ in range(VIEWERS)]
        form = {"file": ("talk.mp4", film(50_000))}
        waiting += [people.submit(client.post, "/media", files=form) for _ in range(SENDERS)]
        artifact = people.submit(remote.put_artifact, job.claim, "a.m4s", b"bytes")
        until(lambda: stored.services.metrics.requests._value.get() >= len(waiting))
        # All of these in less than the 30 seconds of their clients; the storage is given 120.
        with stored.client(base_url=stored.url) as anybody:
            assert anybody.get("/livez").status_code == 200
        assert remote.heartbeat([job.claim]).claims[job.claim_id].held
        assert client.get(f"/jobs/{job.job_id}/logs").status_code == 200
        assert [each.job_id for each in remote.claim(1)] == [id for id in jobs if id != job.job_id]
        assert not artifact.done()
        assert not any(each.done() for each in waiting)
        bucket.cut()
        answers = [each.result() for each in waiting]
        said = {(each.status_code, each.json()["code"]) for each in answers}
        assert said == {(503, "storage_down")}
        with pytest.raises(errors.StorageDown):
            artifact.result()


def test_a_silent_storage_is_an_error_for_everybody_within_its_time(
    impatient: None, stored: Running, bucket: Bucket, segment_url: str
) -> None:
    """However many wait: none of them waits for the others."""
    with stored.client() as client, ThreadPoolExecutor(VIEWERS) as people, bucket.silent():
        sender = Sender(client)
        upload = sender.create(1000)
        views = [people.submit(client.get, segment_url) for _ in range(VIEWERS)]
        refused = sender.patch(upload, film(1000))
        answers = [refused, *(each.result() for each in views)]
        told = {(each.status_code, each.json()["detail"]) for each in answers}
        assert told == {(503, "the storage is not available")}
        assert sender.offset(upload) == 0
    with stored.client() as client:
        assert client.get(segment_url).content == CONTENT
        assert Sender(client).patch(upload, film(1000)).status_code == 204


def test_readiness_tells_a_slow_storage_from_a_silent_one_and_comes_back(
    stored: Running, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the one who asked is still waiting for an answer that will never come."""
    with stored.client(base_url=stored.url) as client:

        def ready() -> tuple[int, bool]:
            answer = client.get("/readyz")
            return answer.status_code, answer.json()["storage"]

        with bucket.slow():
            assert ready() == (200, True)
        monkeypatch.setattr(stored.services.storage_probe, "_wait_seconds", 0.3)
        with bucket.silent():
            assert ready() == (503, False)
        monkeypatch.setattr(probe, "ABANDON_SECONDS", 0.0)
        # Idle connections from before are dead without knowing it: each costs a look.
        until(lambda: ready() == (200, True))
