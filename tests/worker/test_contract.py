"""What the server and a worker owe each other, over both transports: in-process and HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from running import ADMIN_SECRET, Running
from rushes import errors
from rushes.jobs import log_store
from rushes.jobs import store as jobs
from rushes.jobs.job import State
from rushes.media import library
from rushes.media import store as media_store
from rushes.protocol import (
    Assignment,
    Beat,
    Claim,
    Completion,
    Coordinator,
    Hello,
    Progress,
    Rendition,
)
from rushes.worker import capabilities as offers
from rushes.worker import remote
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote
from shell import until
from web import library as web_library
from worker.harness import SOURCE, Harness, digest


def test_a_job_goes_out_and_its_result_comes_back(harness: Harness) -> None:
    job_id = harness.enqueue(args={"quality": 720})
    assignment = harness.claim()
    assert (assignment.job_id, assignment.args) == (job_id, {"quality": 720})
    assert (assignment.attempt, assignment.lease_seconds) == (1, 60)
    claim = assignment.claim
    assert harness.worker.heartbeat([claim]).claims == {claim.claim_id: Beat(True)}
    detail = {"renditions": [{"name": "720p", "progress": 0.5}], "speed": 2.1}
    report = Progress(claim=claim, progress=0.5, stage="transcode", detail=detail)
    assert harness.worker.progress(report).cancel is False
    assert harness.job(claim).detail == {**detail, "stage": "transcode"}
    answers = harness.worker.complete_all([Completion(claim, {"frames": 25})])
    assert answers == {job_id: "completed"}
    assert harness.job(claim).result == {"frames": 25}
    assert harness.worker.complete_all([Completion(claim, {"frames": 25})]) == {job_id: "completed"}
    assert harness.worker.claim(1) == []


def test_a_claim_that_waits_is_answered_when_a_job_comes(harness: Harness) -> None:
    harness.worker.hello(Hello(kinds=["demo"]))
    found: list[Assignment] = []
    waiting = threading.Thread(target=lambda: found.extend(harness.worker.claim(1, 20)))
    waiting.start()
    job_id = harness.enqueue()
    waiting.join(15)
    assert [each.job_id for each in found] == [job_id]


def test_the_source_comes_whole_and_from_any_byte_on(stored_harness: Harness) -> None:
    harness = stored_harness
    claim = harness.claimed()
    source = harness.worker.source(claim)
    assert (source.size_bytes, source.sha256) == (len(SOURCE), digest(SOURCE))
    assert b"".join(harness.worker.read_source(claim, 0)) == SOURCE
    assert b"".join(harness.worker.read_source(claim, len(SOURCE) - 300)) == SOURCE[-300:]
    assert b"".join(harness.worker.read_source(claim, len(SOURCE))) == b""


def test_artifacts_are_seen_by_nobody_until_the_job_completes(
    stored_harness: Harness, tmp_path: Path
) -> None:
    harness = stored_harness
    claim = harness.claimed()
    segment = tmp_path / "segment"
    segment.write_bytes(SOURCE * 3)
    playlist = harness.worker.put_artifact(claim, "master.m3u8", b"#EXTM3U\n")
    assert playlist.content_type == "application/vnd.apple.mpegurl"
    harness.worker.put_artifact(claim, "720p/seg_1.m4s", segment)
    again = harness.worker.put_artifact(claim, "master.m3u8", b"#EXTM3U\n")
    assert again == playlist
    with pytest.raises(errors.AlreadyExists):
        harness.worker.put_artifact(claim, "master.m3u8", b"other")
    there = {each.name: each.sha256 for each in harness.worker.artifacts(claim)}
    assert there == {"master.m3u8": digest(b"#EXTM3U\n"), "720p/seg_1.m4s": digest(SOURCE * 3)}
    assert harness.current_files() is None
    assert harness.worker.complete_all([Completion(claim, None, there)]) == {
        claim.job_id: "completed"
    }
    assert harness.current_files() == {"master.m3u8": b"#EXTM3U\n", "720p/seg_1.m4s": SOURCE * 3}


def test_nothing_is_published_when_a_file_is_not_what_was_made(stored_harness: Harness) -> None:
    harness = stored_harness
    claim = harness.claimed()
    made = harness.worker.put_artifact(claim, "a.txt", b"one")
    wrong = [
        {"a.txt": digest(b"two")},
        {"a.txt": made.sha256, "b.txt": made.sha256},
        {},
    ]
    for manifest in wrong:
        answer = harness.worker.complete_all([Completion(claim, None, manifest)])
        assert answer == {claim.job_id: "manifest_mismatch"}
    with harness.running.rushes.db.read() as tx:
        version = media_store.building_version(tx, claim.job_id)
        assert version is not None
        [row] = media_store.artifacts(tx, version)
    harness.running.rushes.storage.delete([row.key])
    answer = harness.worker.complete_all([Completion(claim, None, {"a.txt": made.sha256})])
    assert answer == {claim.job_id: "manifest_mismatch"}
    assert harness.current_files() is None
    assert harness.job(claim).state is State.PROCESSING


def test_a_playlist_that_leads_elsewhere_is_refused(stored_harness: Harness) -> None:
    """Also when its bytes did not come through the server."""
    harness = stored_harness
    claim = harness.claimed()
    evil = b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttp://evil.example/evil.m3u8\n"
    for name, content in (
        ("master.m3u8", evil),
        ("720p/playlist.m3u8", b'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="k.bin"\n'),
        ("manifest.mpd", b"<MPD><BaseURL>http://evil.example/</BaseURL></MPD>"),
        ("storyboard.vtt", b"WEBVTT\n\n00:00.000 --> 00:01.000\nhttp://evil.example/#xywh=0,0,1,1"),
        ("master.m3u8", b"#EXTM3U\n" + b"# long\n" * 2**20 * 2),
    ):
        with pytest.raises(errors.Invalid):
            harness.worker.put_artifact(claim, name, content)
    assert harness.worker.artifacts(claim) == []
    # Nothing is left of them, either.
    assert list(harness.running.rushes.storage.list("media")) == []


def test_a_playlist_is_published_with_all_that_it_names(stored_harness: Harness) -> None:
    harness = stored_harness
    claim = harness.claimed()
    made = [harness.worker.put_artifact(claim, "master.m3u8", b"#EXTM3U\n720p/playlist.m3u8\n")]
    text = b"#EXTM3U\n#EXTINF:4,\nseg_1.m4s\n"
    made.append(harness.worker.put_artifact(claim, "720p/playlist.m3u8", text))
    manifest = {each.name: each.sha256 for each in made}
    answer = harness.worker.complete_all([Completion(claim, None, manifest)])
    assert answer == {claim.job_id: "manifest_mismatch"}
    assert harness.current_files() is None
    segment = harness.worker.put_artifact(claim, "720p/seg_1.m4s", b"x")
    manifest[segment.name] = segment.sha256
    answer = harness.worker.complete_all([Completion(claim, None, manifest)])
    assert answer == {claim.job_id: "completed"}


@pytest.mark.parametrize(
    "name", ["../x.txt", "/etc/x.txt", "a/../../x.txt", "x.html", "x", "a\0.txt", "é.txt", ".x.txt"]
)
def test_a_name_that_is_none_of_ours_is_refused(harness: Harness, name: str) -> None:
    claim = harness.claimed()
    with pytest.raises((errors.Invalid, errors.NotFound)):
        harness.worker.put_artifact(claim, name, b"x")
    assert harness.worker.artifacts(claim) == []


def test_a_lost_claim_can_change_nothing_any_more(harness: Harness) -> None:
    claim = harness.claimed()
    harness.worker.put_artifact(claim, "old.txt", b"old")
    rushes = harness.running.rushes
    # As if the lease had run out and another worker had taken over.
    rushes.db.run(lambda tx: rushes.queue.release(tx, claim))
    second = harness.claim().claim
    before = harness.job(second)
    for call in calls_of(harness.worker, claim):
        with pytest.raises(errors.ClaimLost):
            call()
    beats = harness.worker.heartbeat([claim]).claims
    assert beats == {claim.claim_id: Beat(False)}
    with pytest.raises(errors.ClaimLost):
        harness.worker.progress(Progress(claim=claim))
    answers = harness.worker.complete_all([Completion(claim, None, {"old.txt": digest(b"old")})])
    assert answers == {claim.job_id: "claim_lost"}
    assert harness.job(second) == before
    harness.worker.put_artifact(second, "new.txt", b"new")
    harness.worker.complete_all([Completion(second, None, {"new.txt": digest(b"new")})])
    assert harness.current_files() == {"new.txt": b"new"}


def calls_of(worker: Coordinator, claim: Claim) -> list[Callable[[], object]]:
    """Everything that needs a live claim and says so by an error."""
    return [
        lambda: worker.source(claim),
        lambda: list(worker.read_source(claim, 0)),
        lambda: worker.artifacts(claim),
        lambda: worker.put_artifact(claim, "x.txt", b"x"),
        lambda: worker.adopt(claim, ["old.txt"]),
        lambda: worker.log(claim, ["hello"]),
        lambda: worker.put_passage(claim, 0, {"text": "late"}),
        lambda: worker.passages(claim),
        lambda: worker.transcript(claim),
        lambda: worker.discard(claim, ["old.txt"]),
        lambda: worker.inherit(claim, ["720p"]),
        lambda: worker.progress(Progress(claim=claim)),
    ]


def test_a_finished_job_is_out_of_reach(harness: Harness) -> None:
    claim = harness.claimed()
    harness.worker.complete_all([Completion(claim)])
    for call in calls_of(harness.worker, claim):
        with pytest.raises(errors.ClaimLost):
            call()


def test_what_is_reported_twice_is_answered_alike(harness: Harness) -> None:
    claim = harness.claimed()
    assert harness.worker.fail(claim, "permanent", "corrupt", "cannot be read") == "failed"
    assert harness.worker.fail(claim, "permanent", "corrupt", "cannot be read") == "failed"
    assert harness.job(claim).error_code == "corrupt"
    claim = harness.claimed()
    assert harness.worker.release(claim) == "queued"
    assert harness.worker.release(claim) == "queued"
    assert harness.job(claim).attempt == 0


def test_cancel_and_drain_are_told_with_the_heartbeat(harness: Harness) -> None:
    claim = harness.claimed()
    harness.running.rushes.cancel(claim.job_id)
    assert harness.worker.heartbeat([claim]).claims == {claim.claim_id: Beat(True, cancel=True)}
    answers = harness.worker.complete_all([Completion(claim)])
    assert answers == {claim.job_id: "cancel_requested"}
    assert harness.worker.fail(claim, "transient", "canceled", "") == "canceled"
    worker_id = harness.job(claim).processed_by_worker_id
    with harness.running.client() as admin:
        assert admin.post(f"/workers/{worker_id}/drain").status_code == 200
        assert harness.worker.heartbeat([]).drain is True
        harness.enqueue()
        assert harness.worker.claim(1) == []
        admin.post(f"/workers/{worker_id}/enable")
    assert harness.worker.heartbeat([]).drain is False
    assert len(harness.worker.claim(1)) == 1


def test_lines_of_a_log_are_kept_without_places_and_secrets(harness: Harness) -> None:
    claim = harness.claimed()
    harness.worker.log(
        claim, ["encoding 720p", "cannot open /srv/rushes/media/x.mp4: no such file"]
    )
    with harness.running.rushes.db.read() as tx:
        lines = [each.line for each in log_store.read(tx, claim.job_id)]
    assert lines[0] == "encoding 720p"
    assert "/srv" not in lines[1]
    with harness.running.client() as admin:
        shown = admin.get(f"/jobs/{claim.job_id}/logs")
    assert shown.headers["content-type"] == "text/plain; charset=utf-8"
    assert shown.text.splitlines()[0].endswith(" encoding 720p")


def test_too_much_to_say_is_cut(harness: Harness) -> None:
    """What a worker says for people is no reason to refuse what it does."""
    metadata = {"host": "here", "x": "y" * 11_000, **{f"n{n}": "z" * 900 for n in range(12)}}
    words = [f"word-{n}-{'w' * 90}" for n in range(300)]
    harness.enqueue()
    harness.worker.hello(Hello(kinds=["demo"], capabilities=words, metadata=metadata))
    [assignment] = harness.worker.claim(1)
    claim = assignment.claim
    [worker] = [each for each in harness.running.rushes.workers() if each.holds]
    assert worker.metadata["host"] == "here"
    assert len(worker.metadata["x"]) == 1000
    assert len(worker.metadata) < len(metadata)
    assert worker.capabilities[0] == min(word[:64] for word in words)
    detail = {"speed": 2.0, "renditions": [{"name": "720p"}], "rest": ["r" * 900] * 100}
    report = Progress(claim=claim, stage="s" * 9000, engine_id="e" * 9000, detail=detail)
    assert harness.worker.progress(report).cancel is False
    job = harness.job(claim)
    assert (job.stage, job.engine_id) == ("s" * 100, "e" * 100)
    assert {name: job.detail.get(name) for name in detail} == {**detail, "rest": None}
    harness.worker.log(claim, [f"line {n} {'l' * 20_000}" for n in range(20)])
    harness.worker.log(claim, ["more"] * 3000)
    assert harness.worker.fail(claim, "permanent", "c" * 9000, "m " * 9000) == "failed"
    job = harness.job(claim)
    assert job.error_code == "c" * 100
    assert job.last_error is not None
    assert len(job.last_error) <= 500


def test_what_was_said_is_kept_but_for_control_characters(harness: Harness) -> None:
    claim = harness.claimed()
    text = "the password: hunter2 is in /etc/shadow\nfamily 👨\u200d👩 می\u200cخواهم"
    harness.worker.put_passage(claim, 0, {"text": f"\x00\x1b[2J\u202e{text}\x9b", "words": []})
    [passage] = harness.worker.passages(claim)
    assert passage["text"] == f"[2J{text}"


def test_a_handler_fetches_works_puts_and_logs(stored_harness: Harness) -> None:
    harness = stored_harness
    job_id = harness.enqueue()
    scratches: list[Path] = []

    def run(job: JobContext) -> dict[str, int]:
        content = job.source().read_bytes()
        scratches.append(job.scratch)
        job.progress(0.5, "working", renditions=[Rendition(name="only", kind="video")])
        job.log("half way")
        (job.scratch / "out.bin").write_bytes(content[::-1])
        job.put("out.bin", job.scratch / "out.bin")
        return {"size": len(content)}

    hello = Hello(kinds=["demo"])
    assert Worker(harness.worker, {"demo": Handler(run)}, hello=hello).step() == 1
    assert harness.running.rushes.job(job_id).result == {"size": len(SOURCE)}
    assert harness.current_files() == {"out.bin": SOURCE[::-1]}
    assert not scratches[0].exists()


def test_deleting_the_media_stops_the_work_and_publishes_nothing(harness: Harness) -> None:
    claim = harness.claimed()
    made = harness.worker.put_artifact(claim, "a.txt", b"a")
    rushes = harness.running.rushes
    rushes.db.run(lambda tx: library.delete(tx, rushes.queue, harness.media_id))
    assert harness.worker.heartbeat([claim]).claims[claim.claim_id].cancel
    answer = harness.worker.complete_all([Completion(claim, None, {"a.txt": made.sha256})])
    assert answer == {claim.job_id: "cancel_requested"}
    assert harness.current_files() is None


def test_another_workers_claim_is_as_good_as_none(remote_harness: Harness) -> None:
    harness = remote_harness
    claim = harness.claimed()
    thief = harness.connect("thief")
    thief.hello(Hello(kinds=["demo"]))
    for call in calls_of(thief, claim):
        with pytest.raises(errors.ClaimLost):
            call()
    with pytest.raises(errors.ClaimLost):
        thief.release(claim)
    with pytest.raises(errors.ClaimLost):
        thief.fail(claim, "permanent", "x", "x")
    assert thief.complete_all([Completion(claim)]) == {claim.job_id: "claim_lost"}
    assert thief.heartbeat([claim]).claims == {claim.claim_id: Beat(False)}
    with harness.running.rushes.db.read() as tx:
        assert jobs.held(tx, claim) is not None


def test_a_revoked_key_opens_nothing(remote_harness: Harness) -> None:
    harness, server = remote_harness, remote_harness.running
    claim = harness.claimed()
    with server.client() as admin:
        [worker] = [each for each in admin.get("/workers").json()["items"] if each["name"] == "one"]
        prefix = worker["keys"][0]["prefix"]
        assert admin.delete(f"/workers/{worker['id']}/keys/{prefix}").status_code == 204
    with pytest.raises(errors.Unauthorized):
        harness.worker.heartbeat([claim])
    with pytest.raises(errors.Unauthorized):
        harness.worker.claim(1)


def test_a_join_code_works_once(server: Running) -> None:
    with server.client() as admin:
        invite = admin.post("/workers/invite", json={"name": "studio"}).json()
    assert invite["code"] in invite["command"]
    worker_id, key = remote.join(server.url, invite["code"].lower(), "ignored")
    with closing(Remote(server.url, key)) as worker:
        worker.hello(Hello(kinds=["demo"]))
    with server.client() as admin:
        assert admin.get(f"/workers/{worker_id}").json()["name"] == "studio"
    with pytest.raises(errors.Unauthorized):
        remote.join(server.url, invite["code"], "again")


def test_the_admin_secret_registers_workers(server: Running) -> None:
    with server.client(None) as script:
        body = {"name": "gpu"}
        good = script.post("/worker/register", json=body, headers={"X-Admin-Secret": ADMIN_SECRET})
        bad = script.post("/worker/register", json=body, headers={"X-Admin-Secret": "guess"})
        none = script.post("/worker/register", json=body)
    assert (good.status_code, bad.status_code, none.status_code) == (201, 401, 401)
    assert good.json()["key"].startswith("rushes_wrk_")
    with closing(Remote(server.url, good.json()["key"])) as worker:
        worker.hello(Hello(kinds=["demo"]))
    with server.rushes.db.read() as tx:
        stored = tx.all("SELECT * FROM worker_keys")
    assert good.json()["key"] not in str(stored)
    assert [row["prefix"] for row in stored] == [good.json()["prefix"]]


def test_a_worker_is_registered_with_what_it_can_do(server: Running) -> None:
    told = {"gpu": True, "codecs": ["h264", "hevc"], "accelerator": "nvenc", "fpga": False}
    words = ["accelerator", "accelerator:nvenc", "codecs", "codecs:h264", "codecs:hevc", "gpu"]
    with server.client() as admin:
        body = {"worker_name": "gpu-1", "capabilities": told, "metadata": {"pod": "gpu-1-abc"}}
        made = admin.post("/worker/register", json=body).json()
        assert (made["name"], made["api_key"]) == ("gpu-1", made["key"])

        def shown() -> Any:
            found = admin.get(f"/workers/{made['worker_id']}").json()
            return found["capabilities"], found["metadata"]

        assert shown() == (words, {"pod": "gpu-1-abc"})
        with closing(Remote(server.url, made["api_key"])) as worker:
            worker.hello(Hello(kinds=["demo"]))
            assert shown() == (words, {"pod": "gpu-1-abc"})
            worker.hello(Hello(kinds=["demo"], capabilities={"cpu": True}, metadata={"host": "a"}))
            assert shown() == (["cpu"], {"host": "a"})
        told = {"capabilities": {"gpu": "/srv/secret/gpu"}, "metadata": {"home": "/srv/secret"}}
        made = admin.post("/worker/register", json={"name": "cpu", **told}).json()
        assert "secret" not in str(shown())
        for field in ("capabilities", "metadata"):
            large = {**body, field: {"much": "x" * 11_000}}
            refused = admin.post("/worker/register", json=large)
            assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
        assert admin.post("/worker/register", json={}).status_code == 422
        assert admin.post("/worker/register", json={**body, "name": "both"}).status_code == 422


def test_what_the_server_keeps_of_attempts_holds_for_all_workers(
    serve: Callable[..., Running],
) -> None:
    seen: list[tuple[str, bool]] = []
    handler = Handler(lambda job: seen.append((job.kind, job.keep_completed_qualities)))
    for keep in (False, True):
        seen.clear()
        running = serve(handlers_table={"inside": handler}, keep_completed_qualities=keep)
        outside = Hello(kinds=["outside"])
        with closing(Remote(running.url, running.worker_key())) as remote_worker:
            worker = Worker(remote_worker, {"outside": handler}, hello=outside)
            for kind in ("inside", "outside"):
                web_library.enqueue(running, "ada", kind)
            assert worker.step(5) == 1
        until(lambda: len(seen) == 2)
        assert sorted(seen) == [("inside", keep), ("outside", keep)]


def test_workers_tell_which_pod_they_run_in(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", "rushes-0")
    monkeypatch.setenv("POD_NAMESPACE", "media")
    monkeypatch.setenv("NODE_NAME", "node-7")
    pod = {"pod_name": "rushes-0", "pod_namespace": "media", "node_name": "node-7"}
    running = serve()
    with running.client() as admin:
        [first, *_] = admin.get("/workers").json()["items"]
    assert pod.items() <= first["metadata"].items()
    assert pod.items() <= offers.described().items()
    monkeypatch.delenv("POD_NAME")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOSTNAME", "rushes-1")
    assert offers.described()["pod_name"] == "rushes-1"


# Lost answers and new processes


def test_a_request_that_is_repeated_gets_the_same_jobs(harness: Harness) -> None:
    harness.enqueue()
    harness.enqueue()
    harness.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [first] = harness.worker.claim(1, request_id="req_1")
    assert harness.worker.claim(1, request_id="req_1") == [first]
    [second] = harness.worker.claim(1, request_id="req_2")
    assert second.job_id != first.job_id


def test_what_a_heartbeat_does_not_list_is_freed_at_once(harness: Harness) -> None:
    jobs = {harness.enqueue(), harness.enqueue()}
    harness.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [lost] = harness.worker.claim(1, request_id="req_1")
    [kept] = harness.worker.claim(1, request_id="req_2")
    assert {lost.job_id, kept.job_id} == jobs
    # That of another heart, which knows of neither.
    harness.worker.heartbeat([])
    assert harness.job(lost.claim).state == "processing"
    beats = harness.worker.heartbeat([kept.claim], answered=["req_1", "req_2"]).claims
    assert beats == {kept.claim_id: Beat(True)}
    assert (harness.job(lost.claim).state, harness.job(lost.claim).attempt) == ("queued", 0)
    assert harness.job(kept.claim).state == "processing"


def test_what_does_not_move_on_is_listed_and_not_renewed(harness: Harness) -> None:
    harness.enqueue()
    harness.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [stuck] = harness.worker.claim(1, request_id="req_1")
    until = harness.job(stuck.claim).claim_expires_at
    harness.worker.heartbeat([], [stuck.claim], ["req_1"])
    assert harness.job(stuck.claim).state == "processing"
    assert harness.job(stuck.claim).claim_expires_at == until


def test_a_process_that_starts_anew_frees_what_the_old_one_held(harness: Harness) -> None:
    harness.enqueue()
    harness.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [old] = harness.worker.claim(1, request_id="req_1")
    # Saying it once more, as after an answer that was lost, changes nothing.
    harness.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    assert harness.job(old.claim).state == "processing"
    harness.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_2"))
    assert harness.job(old.claim).state == "queued"
    [new] = harness.worker.claim(1, request_id="req_2")
    assert new.job_id == old.job_id
    assert harness.worker.heartbeat([old.claim]).claims == {old.claim_id: Beat(False)}
    with pytest.raises(errors.ClaimLost):
        harness.worker.release(old.claim)
    assert harness.job(new.claim).state == "processing"
