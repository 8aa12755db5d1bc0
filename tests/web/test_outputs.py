"""What a job makes has its own slot in the media, and takes the place of nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from running import Running
from rushes import errors, kinds
from rushes.kinds import Kind
from rushes.protocol import Claim
from web import library
from web.test_purge import keys, pause_house, plan_and_run, quiet  # noqa: F401  a fixture

FILES = {"master.m3u8": b"#EXTM3U\n", "thumbnail.jpg": b"jpg", "720p/seg_1.m4s": b"picture"}


def run(
    running: Running, media_id: str, files: Mapping[str, bytes], kind: str = "summarize"
) -> Claim:
    """A job of one's own kind on a media, to its end."""
    library.enqueue(running, "", kind, media_id=media_id)
    held = library.claim(running, kind)
    library.put(running, held, files)
    library.finish(running, held, {"duration": 1.0, "kind": "audio"})
    return held


def test_a_handler_of_ones_own_leaves_the_video_alone(quiet: Running) -> None:  # noqa: F811
    pause_house(quiet)
    with quiet.client() as admin:
        media_id = library.add(quiet, library.user_id(admin))
        library.publish(quiet, media_id, FILES, {"duration": 60.0, "kind": "video"})
        before = admin.get(f"/media/{media_id}").json()
        run(quiet, media_id, {"summary.json": b"{}"})
        after = admin.get(f"/media/{media_id}").json()
        same = ("status", "stream_url", "thumbnail_url", "duration", "kind", "storage", "progress")
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        plan_and_run(quiet)
        master = admin.get(f"/media/{media_id}/stream/master.m3u8", follow_redirects=True)
        assert master.status_code == 200
        assert admin.get(f"/media/{media_id}/thumbnail.jpg").content == b"jpg"
        library.publish(quiet, media_id, FILES)
        again = run(quiet, media_id, {"summary.json": b'{"n": 2}'})
        plan_and_run(quiet)
        with quiet.rushes.db.read() as tx:
            rows = tx.all("SELECT slot, job_id, state FROM versions ORDER BY id")
        states = [(row["slot"], row["state"]) for row in rows]
        assert states == [
            ("watch", "purged"),
            ("summarize", "purged"),
            ("watch", "current"),
            ("summarize", "current"),
        ]
        assert rows[-1]["job_id"] == again.job_id
        assert len([key for key in keys(quiet) if key.startswith("media/")]) == len(FILES) + 1


def test_work_of_ones_own_kind_is_no_progress_of_the_video(server: Running) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        library.publish(server, media_id, FILES)
        library.enqueue(server, "", "summarize", media_id=media_id)
        held = library.claim(server, "summarize")
        library.put(server, held, {"thumbnail.jpg": b"another"})
        library.tell(server, held, 0.25, {"renditions": [{"name": "720p", "status": "failed"}]})
        item = admin.get(f"/media/{media_id}").json()
        assert (item["status"], item["progress"]) == ("ready", 1.0)
        assert [job["progress"] for job in item["jobs"] if job["kind"] == "summarize"] == [0.25]


def test_what_is_made_beside_it_is_not_watched(server: Running) -> None:
    """Neither before there is a version to watch, nor by the address of a version."""
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        held = run(server, media_id, FILES)
        item = admin.get(f"/media/{media_id}").json()
        assert (item["status"], item["stream_url"]) == ("pending", None)
        assert admin.get(f"/media/{media_id}/stream/master.m3u8").status_code == 404
        with server.rushes.db.read() as tx:
            found = tx.one("SELECT id FROM versions WHERE job_id = :id", id=held.job_id)
        assert found is not None
        link = admin.post(f"/media/{media_id}/share").json()["share_url"]
        for base in (f"/media/{media_id}", link):
            assert admin.get(f"{base}/stream/{found['id']}/720p/seg_1.m4s").status_code == 404


def test_a_failure_of_ones_own_kind_is_not_the_videos(server: Running) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        library.enqueue(server, "", "summarize", media_id=media_id)
        held = library.claim(server, "summarize")
        server.rushes.dispatch.fail(held, "permanent", "no_words", "nothing was said")
        item = admin.get(f"/media/{media_id}").json()
        assert (item["status"], item["error"]) == ("pending", None)


def test_what_a_kind_of_ones_own_makes_is_listed_and_read(quiet: Running) -> None:  # noqa: F811
    with quiet.user() as ada, quiet.user("bob") as bob:
        media_id = library.add(quiet, library.user_id(ada))
        files = {"summary.json": b'{"n": 1}', "parts/notes.md": b"# Notes\n"}
        held = run(quiet, media_id, files)
        [output] = ada.get(f"/media/{media_id}").json()["outputs"]
        assert (output["slot"], output["kind"], output["status"]) == (*["summarize"] * 2, "ready")
        assert (output["job_id"], output["size_bytes"]) == (held.job_id, 16)
        assert [each["name"] for each in output["files"]] == ["parts/notes.md", "summary.json"]
        for each in output["files"]:
            path = each["url"].removeprefix("/api/v1")
            found = ada.get(path)
            assert found.content == files[each["name"]]
            assert found.headers["content-type"] == each["content_type"]
            assert "sandbox" in found.headers["content-security-policy"]
            assert ada.head(path).headers["content-length"] == str(each["size_bytes"])
            assert bob.get(path).status_code == 404
        assert ada.get(f"/media/{media_id}/outputs").json()["items"] == [output]
        assert bob.get(f"/media/{media_id}/outputs").status_code == 404
        for wrong in ("summarize/other.json", "watch/summary.json", "summary/summary.json"):
            assert ada.get(f"/media/{media_id}/outputs/{wrong}").status_code == 404
        ada.delete(f"/media/{media_id}")
        assert ada.get(f"/media/{media_id}/outputs/summarize/summary.json").status_code == 404


def test_what_was_made_before_is_read_until_there_is_more(server: Running) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        run(server, media_id, {"summary.json": b"one"})
        library.enqueue(server, "", "summarize", media_id=media_id)
        held = library.claim(server, "summarize")
        library.put(server, held, {"summary.json": b"two", "more.txt": b"more"})
        library.tell(server, held, 0.5, {})
        [output] = admin.get(f"/media/{media_id}").json()["outputs"]
        assert (output["status"], output["progress"], len(output["files"])) == (
            "processing",
            0.5,
            1,
        )
        assert admin.get(f"/media/{media_id}/outputs/summarize/summary.json").content == b"one"
        server.rushes.dispatch.fail(held, "permanent", "no_words", "nothing was said")
        [output] = admin.get(f"/media/{media_id}").json()["outputs"]
        assert (output["status"], output["error"]) == ("failed", "nothing was said")
        assert output["can_retry"] is True
        assert admin.get(f"/media/{media_id}/outputs/summarize/summary.json").content == b"one"


def test_work_of_ones_own_kind_is_started_on_a_media(server: Running) -> None:
    with server.user() as ada, server.user("bob") as bob:
        media_id = library.add(server, library.user_id(ada))
        library.worker(server, "summarize")
        body = {"kind": "summarize", "args": {"words": 100}}
        first = ada.post(f"/media/{media_id}/jobs", json=body)
        assert first.status_code == 202
        job = first.json()
        assert (job["kind"], job["args"], job["media_id"]) == ("summarize", body["args"], media_id)
        assert ada.post(f"/media/{media_id}/jobs", json=body).json()["id"] == job["id"]
        other = ada.post(f"/media/{media_id}/jobs", json={"kind": "summarize"}).json()
        assert other["id"] != job["id"]
        assert bob.post(f"/media/{media_id}/jobs", json=body).status_code == 404
        for kind, hint in (
            ("transcode", "retranscode"),
            ("purge", "itself"),
            ("nope", "summarize"),
        ):
            refused = ada.post(f"/media/{media_id}/jobs", json={"kind": kind})
            assert refused.status_code == 422
            assert hint in refused.json()["detail"]


def test_a_job_of_ones_own_kind_needs_no_media(server: Running) -> None:
    with server.user() as ada, server.user("bob") as bob:
        library.worker(server, "resize")
        media_id = library.add(server, library.user_id(ada))
        body = {"kind": "resize", "dedupe_key": "order-7", "priority": "low"}
        mine = ada.post("/jobs", json=body).json()
        assert (mine["media_id"], mine["priority"], mine["state"]) == (None, "low", "queued")
        assert ada.post("/jobs", json=body).json()["id"] == mine["id"]
        assert bob.post("/jobs", json=body).json()["id"] != mine["id"]
        on = {"kind": "resize", "media_id": media_id}
        assert ada.post("/jobs", json=on).json()["media_id"] == media_id
        assert bob.post("/jobs", json=on).status_code == 404
        assert ada.post("/jobs", json={"kind": "webhook"}).status_code == 422


@pytest.fixture
def shared_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_declared", {})
    kinds.declare([Kind(name="summarize", label="Summary", shared=True), Kind(name="notes")])


@pytest.mark.usefixtures("shared_kind")
def test_a_share_link_shows_the_outputs_of_kinds_that_say_so_and_no_others(server: Running) -> None:
    with server.client() as admin, server.client(None, base_url=server.url) as stranger:
        media_id = library.add(server, library.user_id(admin))
        library.publish(server, media_id, FILES)
        run(server, media_id, {"summary.md": b"# Summary"})
        run(server, media_id, {"private.md": b"# Mine"}, "notes")
        link = admin.post(f"/media/{media_id}/share").json()["share_url"]
        link = link[link.index("/s/") :]
        [shown] = stranger.get(f"{link}/outputs").json()["items"]
        assert (shown["slot"], shown["label"]) == ("summarize", "Summary")
        assert [each["url"] for each in shown["files"]] == [f"{link}/outputs/summarize/summary.md"]
        found = stranger.get(shown["files"][0]["url"])
        assert (found.status_code, found.content) == (200, b"# Summary")
        assert "sandbox" in found.headers["content-security-policy"]
        part = stranger.get(shown["files"][0]["url"], headers={"Range": "bytes=2-4"})
        assert (part.status_code, part.content) == (206, b"Sum")
        for wrong in ("notes/private.md", "watch/720p/seg_1.m4s", "summarize/other.md"):
            assert stranger.get(f"{link}/outputs/{wrong}").status_code == 404
        admin.delete(f"/media/{media_id}/share")
        assert stranger.get(shown["files"][0]["url"]).status_code == 404
        assert stranger.get(f"{link}/outputs").status_code == 404


@pytest.mark.usefixtures("shared_kind")
def test_what_was_made_of_a_recording_that_is_cut_is_its_owners_alone(server: Running) -> None:
    """A handler reads the whole source, so what it makes may tell of what was cut off."""
    with server.client() as admin, server.client(None, base_url=server.url) as stranger:
        media_id = library.add(server, library.user_id(admin))
        library.publish(server, media_id, FILES, {"duration": 60.0, "kind": "video"})
        run(server, media_id, {"summary.md": b"# Summary"})
        link = admin.post(f"/media/{media_id}/share").json()["share_url"]
        there = f"{link[link.index('/s/') :]}/outputs"
        assert stranger.get(f"{there}/summarize/summary.md").status_code == 200
        admin.post(f"/media/{media_id}/trim", json={"start": 10.0})
        held = library.claim(server, "trim")
        library.put(server, held, FILES)
        library.finish(server, held, {"duration": 50.0, "kind": "video"})
        assert stranger.get(f"{there}/summarize/summary.md").status_code == 404
        assert stranger.get(there).json()["items"] == []
        assert admin.get(f"/media/{media_id}/outputs/summarize/summary.md").status_code == 200


def test_kinds_are_told(server: Running) -> None:
    with server.user() as ada:
        found = {each["name"]: each for each in ada.get("/kinds").json()["items"]}
    assert set(kinds.TABLE) <= set(found)
    told = found["transcribe"]
    assert (told["label"], told["output"], told["events"]) == (
        "Transcribe",
        "transcript",
        "transcription",
    )
    assert found["purge"]["housekeeping"] is True
    assert (found["trim"]["parts"], told["parts"]) == (["span"], [])
    assert not any(found[name]["can_start"] for name in kinds.TABLE)


def test_a_worker_reads_what_is_said(server: Running) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        library.enqueue(server, "", "summarize", media_id=media_id)
        held = library.claim(server, "summarize")
        assert server.rushes.dispatch.transcript(held) is None
        library.transcribe(server, media_id, "Hello there")
        said = server.rushes.dispatch.transcript(held)
        assert said is not None
        assert said["text"] == "Hello there"
        server.rushes.dispatch.release(held)
        with pytest.raises(errors.ClaimLost):
            server.rushes.dispatch.transcript(held)
