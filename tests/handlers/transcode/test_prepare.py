"""What makes an upload watchable is done while its encode waits for its turn: through real servers
and workers, whose encoding is held until the test lets it go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import world as worlds
from handlers.transcode.test_resume import film, wait_until
from running import Process, Running
from rushes import handlers, ids, protocol
from rushes.jobs.job import NewJob
from rushes.media import store as media_store
from rushes.media.media import NewMedia
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote

pytestmark = pytest.mark.timeout(240)

H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-c:a", "aac")
BACKLOG = 60


class Gate:
    """Runs a handler of Rushes' own, once it is open."""

    def __init__(self, kind: str) -> None:
        made = handlers.table()[kind]
        self._run = made.run
        self.reached, self.is_open = threading.Event(), threading.Event()
        self.handler = Handler(self, made.stall_seconds, made.scratch_share)

    def __call__(self, job: JobContext) -> Any:
        self.reached.set()
        while not self.is_open.is_set():
            job.wait(0.02)
            job.raise_if_stopped()
        return self._run(job)


@pytest.fixture
def encoding() -> Iterator[Gate]:
    gate = Gate("transcode")
    yield gate
    gate.is_open.set()


@pytest.fixture
def server(serve: Callable[..., Running], encoding: Gate) -> Running:
    return serve(transcodes=True, handlers_table={"transcode": encoding.handler})


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film(tmp_path_factory.mktemp("clip") / "film.mp4", 6, "320x180", *H264)


def upload(server: Running | Process, source: Path | bytes) -> str:
    with server.client() as admin:
        content = source if isinstance(source, bytes) else source.read_bytes()
        data = {"transcribe": "false"}
        added = admin.post("/media", files={"file": ("film.mp4", content)}, data=data)
    assert added.status_code == 201, added.text
    return str(added.json()["id"])


def shown(server: Running | Process, media_id: str) -> dict[str, Any]:
    with server.client() as admin:
        found: dict[str, Any] = admin.get(f"/media/{media_id}").json()
    return found


def jobs_of(server: Running | Process, media_id: str) -> dict[str, dict[str, Any]]:
    with server.client() as admin:
        asked = [{"media_id": media_id}, {"media_id": media_id, "kind": "prepare"}]
        found = [job for each in asked for job in admin.get("/jobs", params=each).json()["items"]]
    return {each["kind"]: each for each in found}


def is_prepared(server: Running | Process, media_id: str) -> bool:
    return bool(jobs_of(server, media_id)["prepare"]["status"] == "completed")


def events_of(server: Running, media_id: str) -> list[str]:
    with server.rushes.db.read() as tx:
        rows = tx.all("SELECT type FROM events WHERE media_id = :id ORDER BY seq", id=media_id)
    return [row["type"] for row in rows]


def files_of(server: Running, media_id: str) -> dict[str, str]:
    """By name, where they lie."""
    with server.rushes.db.read() as tx:
        rows = tx.all(
            "SELECT name, key FROM artifacts JOIN versions ON versions.id = version_id"
            " WHERE media_id = :id",
            id=media_id,
        )
    return {row["name"]: row["key"] for row in rows}


def keep_busy(server: Running, gate: Gate, source: Path) -> str:
    """The one who encodes has something in hand."""
    first = upload(server, source)
    assert gate.reached.wait(60)
    return first


def queue_up(server: Running, source: Path, count: int) -> None:
    """Encodes that wait, as a server of the release before has left them."""
    rushes, content = server.rushes, source.read_bytes()
    rushes.storage.put("sources/backlog", content)
    new = NewMedia(user_id="", title="Old", size_bytes=len(content), source_key="sources/backlog")

    def add(tx: Any) -> None:
        for _ in range(count):
            media_id = ids.new("med")
            media_store.insert(tx, media_id, new, media_id)
            rushes.queue.enqueue(tx, NewJob(kind="transcode", media_id=media_id))

    rushes.db.run(add)


def test_an_upload_is_watchable_while_sixty_encodes_wait_before_it(
    server: Running, encoding: Gate, clip: Path
) -> None:
    keep_busy(server, encoding, clip)
    queue_up(server, clip, BACKLOG)
    media_id = upload(server, clip)
    wait_until(lambda: is_prepared(server, media_id))
    found = shown(server, media_id)
    assert (found["status"], found["kind"]) == ("pending", "video")
    assert found["duration"] == pytest.approx(6, abs=0.1)
    assert [each["kind"] for each in found["jobs"]] == ["transcode"]
    assert {each["name"]: each["status"] for each in found["renditions"]} == {
        "original": "completed"
    }
    with server.client(follow_redirects=True) as admin:
        master = admin.get(found["stream_url"].removeprefix("/api/v1"))
        assert "original/playlist.m3u8" in master.text
        whole = admin.get(master.url.join("original/playlist.m3u8")).text
        assert whole.endswith("#EXT-X-ENDLIST\n")
        assert admin.get(found["thumbnail_url"].removeprefix("/api/v1")).content[:2] == b"\xff\xd8"
        waiting = admin.get("/jobs", params={"kind": "transcode", "state": "queued", "limit": 100})
        assert len(waiting.json()["items"]) == BACKLOG + 1
        job_id = jobs_of(server, media_id)["transcode"]["id"]
        moved = admin.post("/jobs/actions", json={"action": "next", "filter": {"ids": [job_id]}})
        assert moved.is_success, moved.text
    prepared = files_of(server, media_id)
    encoding.is_open.set()
    wait_until(lambda: shown(server, media_id)["status"] == "ready")
    # Nothing was copied twice.
    kept = files_of(server, media_id)
    assert {name: kept.get(name) for name in prepared} == prepared
    told = [each for each in events_of(server, media_id) if not each.endswith(".progress")]
    order = [
        *("prepare.started", "media.watchable", "prepare.completed"),
        *("transcode.started", "transcode.completed"),
    ]
    assert [each for each in told if each in order] == order
    assert told.count("media.ready") == 1


def test_who_encodes_at_once_needs_nobody_to_prepare(
    serve: Callable[..., Running], clip: Path
) -> None:
    server = serve(transcodes=True)
    media_id = upload(server, clip)
    wait_until(lambda: shown(server, media_id)["status"] == "ready")
    jobs = jobs_of(server, media_id)
    assert "prepare" not in jobs
    assert jobs["transcode"]["attempt"] == 1


def test_a_damaged_file_is_told_once_and_never_encoded(
    server: Running, encoding: Gate, clip: Path
) -> None:
    keep_busy(server, encoding, clip)
    media_id = upload(server, clip.read_bytes()[:600])
    wait_until(lambda: shown(server, media_id)["status"] == "failed")
    found, jobs = shown(server, media_id), jobs_of(server, media_id)
    assert found["error"] == jobs["transcode"]["error"]
    assert found["can_retry"] is False
    assert (jobs["transcode"]["status"], jobs["transcode"]["attempt"]) == ("failed", 0)
    told = events_of(server, media_id)
    assert told.count("transcode.failed") == 1
    assert "transcode.started" not in told


def test_a_source_that_browsers_do_not_play_has_a_poster_early(
    server: Running, encoding: Gate, tmp_path: Path
) -> None:
    source = film(tmp_path / "film.avi", 3)
    keep_busy(server, encoding, source)
    media_id = upload(server, source)
    wait_until(lambda: is_prepared(server, media_id))
    found = shown(server, media_id)
    assert found["thumbnail_url"]
    assert found["stream_url"] is None
    assert set(files_of(server, media_id)) == {"thumbnail.jpg"}


def test_a_short_recording_of_sound_can_be_heard_early(
    server: Running, encoding: Gate, clip: Path, tmp_path: Path
) -> None:
    keep_busy(server, encoding, clip)
    sound = film(tmp_path / "sound.wav", 5, "320x180", "-vn", "-c:a", "pcm_s16le")
    media_id = upload(server, sound)
    wait_until(lambda: is_prepared(server, media_id))
    assert shown(server, media_id)["stream_url"]
    prepared = files_of(server, media_id)
    encoding.is_open.set()
    wait_until(lambda: shown(server, media_id)["status"] == "ready")
    kept = files_of(server, media_id)
    assert {name: kept.get(name) for name in prepared} == prepared


def test_a_poster_that_cannot_be_taken_is_no_reason_to_fail(
    server: Running, encoding: Gate, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rushes.handlers.transcode import images
    from rushes.tools import process

    def refuse(*args: object, **named: object) -> bytes:
        raise process.ToolFailed("gave up")

    keep_busy(server, encoding, clip)
    monkeypatch.setattr(images, "_shot", refuse)
    media_id = upload(server, clip)
    wait_until(lambda: is_prepared(server, media_id))
    found = shown(server, media_id)
    assert found["stream_url"]
    assert found["thumbnail_url"] is None


def test_an_encode_that_begins_takes_over_from_who_prepares(
    serve: Callable[..., Running], clip: Path
) -> None:
    reached, go_on, refused = threading.Event(), threading.Event(), threading.Event()

    def slow(job: JobContext) -> None:
        job.put("early.txt", b"early")
        reached.set()
        assert go_on.wait(60)
        try:
            job.put("late.txt", b"late")
        except Exception:
            refused.set()
            raise

    busy = Gate("transcode")
    server = serve(
        transcodes=True,
        handlers_table={"prepare": Handler(slow), "transcode": busy.handler},
    )
    keep_busy(server, busy, clip)
    media_id = upload(server, clip)
    assert reached.wait(60)
    busy.is_open.set()
    wait_until(lambda: shown(server, media_id)["status"] == "ready")
    go_on.set()
    wait_until(lambda: jobs_of(server, media_id)["prepare"]["status"] == "canceled")
    assert not {"early.txt", "late.txt"} & set(files_of(server, media_id))
    assert refused.is_set()


def test_what_is_deleted_meanwhile_is_gone_and_comes_back_whole(
    serve: Callable[..., Running], encoding: Gate, clip: Path
) -> None:
    preparing = Gate("prepare")
    table = {"prepare": preparing.handler, "transcode": encoding.handler}
    server = serve(transcodes=True, handlers_table=table)
    keep_busy(server, encoding, clip)
    media_id = upload(server, clip)
    assert preparing.reached.wait(60)
    with server.client() as admin:
        assert admin.delete(f"/media/{media_id}").status_code == 204
        preparing.is_open.set()
        states = {"prepare": "canceled", "transcode": "canceled"}
        wait_until(lambda: {k: v["status"] for k, v in jobs_of(server, media_id).items()} == states)
        assert admin.get(f"/media/{media_id}/stream/master.m3u8").status_code == 404
        assert admin.post(f"/media/{media_id}/restore").is_success
    encoding.is_open.set()
    wait_until(lambda: shown(server, media_id)["status"] == "ready")


def test_a_server_that_is_killed_meanwhile_prepares_it_after_its_restart(
    process: Callable[..., Process], clip: Path
) -> None:
    server = process(claim_duration=600, heartbeat_interval=60, transcription_workers=0)
    with server.client() as admin:
        assert admin.post("/queue/pause", json={"kind": "transcode"}).is_success
    media_id = upload(server, clip)
    wait_until(lambda: jobs_of(server, media_id)["prepare"]["status"] != "queued")
    server.kill()
    server.start()
    wait_until(lambda: is_prepared(server, media_id))
    assert shown(server, media_id)["stream_url"]
    assert jobs_of(server, media_id)["transcode"]["attempt"] == 0
    with server.client() as admin:
        assert admin.post("/queue/resume", json={"kind": "transcode"}).is_success
    wait_until(lambda: shown(server, media_id)["status"] == "ready")


@contextmanager
def remote(server: Running, table: dict[str, Handler]) -> Iterator[None]:
    with ExitStack() as stack:
        link = Remote(server.url, server.worker_key())
        stack.callback(link.close)
        mine = Worker(
            link, table, hello=protocol.Hello(kinds=sorted(table)), claim_wait_seconds=0.5
        )
        thread = threading.Thread(target=mine.run, daemon=True)
        thread.start()
        stack.callback(thread.join, 30)
        stack.callback(mine.stop)
        yield


def test_a_worker_that_only_encodes_does_all_of_it(
    serve: Callable[..., Running], clip: Path
) -> None:
    server = serve()
    with remote(server, {"transcode": handlers.table()["transcode"]}):
        media_id = upload(server, clip)
        wait_until(lambda: shown(server, media_id)["status"] == "ready")
    assert set(jobs_of(server, media_id)) == {"transcode"}


def test_a_remote_worker_prepares_beside_what_it_encodes(
    serve: Callable[..., Running], encoding: Gate, clip: Path
) -> None:
    server = serve()
    table = {"transcode": encoding.handler, "prepare": handlers.table()["prepare"]}
    with remote(server, table):
        wait_until(lambda: _offers(server, "prepare"))
        keep_busy(server, encoding, clip)
        media_id = upload(server, clip)
        wait_until(lambda: is_prepared(server, media_id))
        assert shown(server, media_id)["stream_url"]
        encoding.is_open.set()
        wait_until(lambda: shown(server, media_id)["status"] == "ready")


def _offers(server: Running, kind: str) -> bool:
    with server.client() as admin:
        found = admin.get("/workers").json()["items"]
    return any(kind in each["kinds"] for each in found)


def test_one_server_prepares_what_another_encodes(
    serve: Callable[..., Running], encoding: Gate, clip: Path, tmp_path: Path
) -> None:
    with worlds.postgres_database() as url:
        shared = {"database_url": url, "storage_url": (tmp_path / "storage").as_uri()}
        one = serve(handlers_table={"prepare": handlers.table()["prepare"]}, **shared)
        other = serve(handlers_table={"transcode": encoding.handler}, **shared)
        keep_busy(other, encoding, clip)
        media_id = upload(other, clip)
        wait_until(lambda: is_prepared(one, media_id))
        assert shown(other, media_id)["stream_url"]
        encoding.is_open.set()
        wait_until(lambda: shown(one, media_id)["status"] == "ready")
        for each in (other, one):
            each.stop()
