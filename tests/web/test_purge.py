"""Bytes go when nobody needs them any more, and not a moment before."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import pytest

from running import Running
from rushes.media import purge
from rushes.worker.context import JobContext
from shell import until
from web import library


@pytest.fixture
def quiet(storage_url: str, serve: Callable[..., Running]) -> Running:
    """Its chores do nothing by themselves; everything is due at once."""
    return serve(storage_url=storage_url, purge_grace=0, trash_period=0, sweep_interval=60.0)


def keys(running: Running) -> set[str]:
    storage = running.rushes.storage
    return {entry.key for folder in purge.FOLDERS for entry in storage.list(folder)}


def plan_and_run(running: Running, *, partial: bool = True) -> None:
    rushes = running.rushes
    rushes.db.run(
        lambda tx: purge.plan(tx, rushes.queue, grace_ms=0, trash_ms=0, cleanup_partial=partial)
    )
    run_house(running)


def run_house(running: Running) -> None:
    """What the server's house worker would do, here and now."""
    handler = purge.Purge(running.rushes.db, running.rushes.storage, grace_ms=-60_000, trash_ms=0)
    me = library.worker(running, "purge")
    while found := running.rushes.dispatch.claim(me, 1):
        [job] = found
        context = JobContext(job, lambda _: None, coordinator=None)  # type: ignore[arg-type]
        handler(context)
        running.rushes.dispatch.fail(job.claim, "permanent", "done", "")


def pause_house(running: Running) -> None:
    """Once it is there: one that comes later would take the jobs, and find all too young."""
    with running.client() as admin:

        def house() -> list[str]:
            items = admin.get("/workers").json()["items"]
            return [each["id"] for each in items if "house" in each["name"]]

        until(house)
        for id in house():
            admin.post(f"/workers/{id}/disable")


def test_a_replaced_version_goes_and_the_current_one_stays(quiet: Running) -> None:
    pause_house(quiet)
    with quiet.client() as admin:
        media_id = library.add(quiet, library.user_id(admin))
        library.publish(quiet, media_id, {"a.txt": b"one", "b.txt": b"only then"})
        library.publish(quiet, media_id, {"a.txt": b"two"})
        assert len(keys(quiet)) == 4
        plan_and_run(quiet)
        assert len(keys(quiet)) == 2
        assert admin.get(f"/media/{media_id}/stream/a.txt").content == b"two"
        assert admin.get(f"/media/{media_id}/source").content == library.SOURCE


def test_what_was_of_use_until_the_version_was_whole_goes_after_a_while(quiet: Running) -> None:
    pause_house(quiet)
    files = {
        "master.m3u8": b"#EXTM3U\n",
        "360p/seg_00000.m4s": b"small",
        "original/seg_00000.m4s": b"as it came",
        "originality/seg_00000.m4s": b"another",
    }
    with quiet.client() as admin:
        media_id = library.add(quiet, library.user_id(admin))
        library.publish(quiet, media_id, files, {"temporary": ["original", 7, "%"]})
        took = admin.get(f"/media/{media_id}").json()["storage"]
        assert took == {
            "source_bytes": len(library.SOURCE),
            "copy_bytes": 0,
            "rungs_bytes": len(b"small" + b"another"),
            "other_bytes": len(b"#EXTM3U\n"),
        }
        master = admin.get(f"/media/{media_id}/stream/master.m3u8", follow_redirects=True)
        watched = f"{str(master.url).rpartition('/')[0]}/original/seg_00000.m4s"
        rushes = quiet.rushes
        day = 86_400_000
        rushes.db.run(lambda tx: purge.plan(tx, rushes.queue, grace_ms=day, cleanup_partial=True))
        run_house(quiet)
        assert admin.get(watched).content == b"as it came"
        plan_and_run(quiet)
        assert len(keys(quiet)) == 4
        assert not any("original/" in key for key in keys(quiet))
        assert admin.get(watched).status_code == 404
        assert admin.get(f"/media/{media_id}/stream/360p/seg_00000.m4s").content == b"small"
        plan_and_run(quiet)
        assert len(keys(quiet)) == 4


def test_a_copy_that_is_part_of_the_version_stays(quiet: Running) -> None:
    pause_house(quiet)
    with quiet.client() as admin:
        media_id = library.add(quiet, library.user_id(admin))
        library.publish(quiet, media_id, {"original/seg_00000.m4s": b"as it came"}, {})
        plan_and_run(quiet)
        assert admin.get(f"/media/{media_id}").json()["storage"]["copy_bytes"] == 10
        assert len(keys(quiet)) == 2


def test_a_deleted_media_leaves_nothing_behind(quiet: Running) -> None:
    pause_house(quiet)
    with quiet.client() as admin:
        media_id = library.add(quiet, library.user_id(admin))
        kept = library.add(quiet, library.user_id(admin))
        library.publish(quiet, media_id, {"a.txt": b"one"})
        admin.delete(f"/media/{media_id}")
        assert len(keys(quiet)) == 3
        plan_and_run(quiet)
        assert len(keys(quiet)) == 1
        assert admin.get(f"/media/{kept}/source").content == library.SOURCE


def test_a_media_that_is_not_deleted_is_not_purged_whoever_asks(quiet: Running) -> None:
    pause_house(quiet)
    with quiet.client() as admin:
        media_id = library.add(quiet, library.user_id(admin))
        library.publish(quiet, media_id, {"a.txt": b"one"})
        library.transcribe(quiet, media_id, "Good morning.")
        before = keys(quiet)
        library.enqueue(quiet, "", "purge", args={"media_id": media_id})
        run_house(quiet)
        assert keys(quiet) == before
        assert admin.get(f"/media/{media_id}/transcript").status_code == 200
        assert len(admin.get("/search", params={"q": "morning"}).json()["items"]) == 1


def test_what_a_job_left_is_kept_while_it_may_be_tried_again(quiet: Running) -> None:
    pause_house(quiet)
    dispatch = quiet.rushes.dispatch
    with quiet.client() as admin:
        library.add(quiet, library.user_id(admin))
        held = library.claim(quiet, "transcode")
        dispatch.put_artifact(held, "a.txt", b"", hashlib.sha256(b"").hexdigest())
        dispatch.fail(held, "transient", "x", "x")
        plan_and_run(quiet)
        assert len(keys(quiet)) == 2
        job_id = held.job_id
        admin.post(f"/jobs/{job_id}/cancel")
        plan_and_run(quiet, partial=False)
        assert len(keys(quiet)) == 2
        plan_and_run(quiet)
        assert len(keys(quiet)) == 1


def test_files_that_nothing_refers_to_are_found_and_removed(quiet: Running) -> None:
    pause_house(quiet)
    storage = quiet.rushes.storage
    with quiet.client() as admin:
        media_id = library.add(quiet, library.user_id(admin))
        library.publish(quiet, media_id, {"a.txt": b"one"})
        before = keys(quiet)
        for orphan in (
            "media/med_x/ver_y/z.txt",
            "sources/upl_x",
            "staging/clm_x/put_y",
            "check/x",
        ):
            storage.put(orphan, b"lost")
        quiet.rushes.db.run(lambda tx: purge.plan_scan(tx, quiet.rushes.queue))
        run_house(quiet)
        assert keys(quiet) == before


def test_the_server_does_it_by_itself(serve: Callable[..., Running]) -> None:
    running = serve(purge_grace=0, trash_period=0)
    with running.client() as admin:
        media_id = library.add(running, library.user_id(admin))
        admin.delete(f"/media/{media_id}")
        deadline = time.monotonic() + 20
        while keys(running):
            assert time.monotonic() < deadline
            time.sleep(0.05)
