"""What the server and a worker owe each other, over both transports: in-process and HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from running import ADMIN_SECRET, Running
from rushes import errors
from rushes.jobs import log_store
from rushes.jobs import store as jobs
from rushes.jobs.job import State
from rushes.media import library
from rushes.media import store as media_store
from rushes.protocol import Assignment, Beat, Claim, Completion, Coordinator, Hello, Progress, Roll
from rushes.worker import remote
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote
from worker.desk import SOURCE, Desk, digest


def test_a_job_goes_out_and_its_result_comes_back(desk: Desk) -> None:
    job_id = desk.enqueue(args={"quality": 720})
    assignment = desk.claim()
    assert (assignment.job_id, assignment.args) == (job_id, {"quality": 720})
    assert (assignment.attempt, assignment.lease_seconds) == (1, 60)
    claim = assignment.claim
    assert desk.worker.heartbeat([claim]).beats == {claim.claim_id: Beat(True)}
    detail = {"renditions": [{"name": "720p", "progress": 0.5}], "speed": 2.1}
    report = Progress(claim=claim, progress=0.5, stage="transcode", detail=detail)
    assert desk.worker.progress([report]) == {claim.claim_id: Beat(True)}
    assert desk.job(claim).detail == {**detail, "stage": "transcode"}
    answers = desk.worker.complete([Completion(claim, {"frames": 25})])
    assert answers == {job_id: "completed"}
    assert desk.job(claim).result == {"frames": 25}
    assert desk.worker.complete([Completion(claim, {"frames": 25})]) == {job_id: "completed"}
    assert desk.worker.claim(1) == []


def test_a_claim_that_waits_is_answered_when_a_job_comes(desk: Desk) -> None:
    desk.worker.hello(Hello(kinds=["demo"]))
    found: list[Assignment] = []
    waiting = threading.Thread(target=lambda: found.extend(desk.worker.claim(1, 20)))
    waiting.start()
    job_id = desk.enqueue()
    waiting.join(15)
    assert [each.job_id for each in found] == [job_id]


def test_the_source_comes_whole_and_from_any_byte_on(stored_desk: Desk) -> None:
    desk = stored_desk
    claim = desk.claimed()
    source = desk.worker.source(claim)
    assert (source.size_bytes, source.sha256) == (len(SOURCE), digest(SOURCE))
    assert b"".join(desk.worker.read_source(claim, 0)) == SOURCE
    assert b"".join(desk.worker.read_source(claim, len(SOURCE) - 300)) == SOURCE[-300:]
    assert b"".join(desk.worker.read_source(claim, len(SOURCE))) == b""


def test_artifacts_are_seen_by_nobody_until_the_job_completes(
    stored_desk: Desk, tmp_path: Path
) -> None:
    desk = stored_desk
    claim = desk.claimed()
    segment = tmp_path / "segment"
    segment.write_bytes(SOURCE * 3)
    playlist = desk.worker.put_artifact(claim, "master.m3u8", b"#EXTM3U\n")
    assert playlist.content_type == "application/vnd.apple.mpegurl"
    desk.worker.put_artifact(claim, "720p/seg_1.m4s", segment)
    again = desk.worker.put_artifact(claim, "master.m3u8", b"#EXTM3U\n")
    assert again == playlist
    with pytest.raises(errors.AlreadyExists):
        desk.worker.put_artifact(claim, "master.m3u8", b"other")
    there = {each.name: each.sha256 for each in desk.worker.artifacts(claim)}
    assert there == {"master.m3u8": digest(b"#EXTM3U\n"), "720p/seg_1.m4s": digest(SOURCE * 3)}
    assert desk.current_files() is None
    assert desk.worker.complete([Completion(claim, None, there)]) == {claim.job_id: "completed"}
    assert desk.current_files() == {"master.m3u8": b"#EXTM3U\n", "720p/seg_1.m4s": SOURCE * 3}


def test_nothing_is_published_when_a_file_is_not_what_was_made(stored_desk: Desk) -> None:
    desk = stored_desk
    claim = desk.claimed()
    made = desk.worker.put_artifact(claim, "a.txt", b"one")
    wrong = [
        {"a.txt": digest(b"two")},
        {"a.txt": made.sha256, "b.txt": made.sha256},
        {},
    ]
    for manifest in wrong:
        answer = desk.worker.complete([Completion(claim, None, manifest)])
        assert answer == {claim.job_id: "manifest_mismatch"}
    with desk.running.rushes.db.read() as tx:
        version = media_store.building_version(tx, claim.job_id)
        assert version is not None
        [row] = media_store.artifacts(tx, version["id"])
    desk.running.rushes.storage.delete([row["key"]])
    answer = desk.worker.complete([Completion(claim, None, {"a.txt": made.sha256})])
    assert answer == {claim.job_id: "manifest_mismatch"}
    assert desk.current_files() is None
    assert desk.job(claim).state is State.PROCESSING


def test_a_playlist_that_leads_elsewhere_is_refused(stored_desk: Desk) -> None:
    """Also when its bytes did not come through the server."""
    desk = stored_desk
    claim = desk.claimed()
    evil = b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttp://evil.example/evil.m3u8\n"
    for name, content in (
        ("master.m3u8", evil),
        ("720p/playlist.m3u8", b'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="k.bin"\n'),
        ("manifest.mpd", b"<MPD><BaseURL>http://evil.example/</BaseURL></MPD>"),
        ("storyboard.vtt", b"WEBVTT\n\n00:00.000 --> 00:01.000\nhttp://evil.example/#xywh=0,0,1,1"),
        ("master.m3u8", b"#EXTM3U\n" + b"# long\n" * 2**20 * 2),
    ):
        with pytest.raises(errors.Invalid):
            desk.worker.put_artifact(claim, name, content)
    assert desk.worker.artifacts(claim) == []
    # Nothing is left of them, either.
    assert list(desk.running.rushes.storage.list("media")) == []


def test_a_playlist_is_published_with_all_that_it_names(stored_desk: Desk) -> None:
    desk = stored_desk
    claim = desk.claimed()
    made = [desk.worker.put_artifact(claim, "master.m3u8", b"#EXTM3U\n720p/playlist.m3u8\n")]
    text = b"#EXTM3U\n#EXTINF:4,\nseg_1.m4s\n"
    made.append(desk.worker.put_artifact(claim, "720p/playlist.m3u8", text))
    manifest = {each.name: each.sha256 for each in made}
    answer = desk.worker.complete([Completion(claim, None, manifest)])
    assert answer == {claim.job_id: "manifest_mismatch"}
    assert desk.current_files() is None
    segment = desk.worker.put_artifact(claim, "720p/seg_1.m4s", b"x")
    manifest[segment.name] = segment.sha256
    answer = desk.worker.complete([Completion(claim, None, manifest)])
    assert answer == {claim.job_id: "completed"}


@pytest.mark.parametrize(
    "name", ["../x.txt", "/etc/x.txt", "a/../../x.txt", "x.html", "x", "a\0.txt", "é.txt", ".x.txt"]
)
def test_a_name_that_is_none_of_ours_is_refused(desk: Desk, name: str) -> None:
    claim = desk.claimed()
    with pytest.raises((errors.Invalid, errors.NotFound)):
        desk.worker.put_artifact(claim, name, b"x")
    assert desk.worker.artifacts(claim) == []


def test_a_lost_claim_can_change_nothing_any_more(desk: Desk) -> None:
    claim = desk.claimed()
    desk.worker.put_artifact(claim, "old.txt", b"old")
    rushes = desk.running.rushes
    # As if the lease had run out and another worker had taken over.
    rushes.db.run(lambda tx: rushes.queue.release(tx, claim))
    second = desk.claim().claim
    before = desk.job(second)
    for call in calls_of(desk.worker, claim):
        with pytest.raises(errors.ClaimLost):
            call()
    beats = desk.worker.heartbeat([claim]).beats
    assert beats == {claim.claim_id: Beat(False)}
    assert desk.worker.progress([Progress(claim=claim)]) == {claim.claim_id: Beat(False)}
    answers = desk.worker.complete([Completion(claim, None, {"old.txt": digest(b"old")})])
    assert answers == {claim.job_id: "claim_lost"}
    assert desk.job(second) == before
    desk.worker.put_artifact(second, "new.txt", b"new")
    desk.worker.complete([Completion(second, None, {"new.txt": digest(b"new")})])
    assert desk.current_files() == {"new.txt": b"new"}


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
    ]


def test_a_finished_job_is_out_of_reach(desk: Desk) -> None:
    claim = desk.claimed()
    desk.worker.complete([Completion(claim)])
    for call in calls_of(desk.worker, claim):
        with pytest.raises(errors.ClaimLost):
            call()


def test_what_is_reported_twice_is_answered_alike(desk: Desk) -> None:
    claim = desk.claimed()
    assert desk.worker.fail(claim, "permanent", "corrupt", "cannot be read") == "failed"
    assert desk.worker.fail(claim, "permanent", "corrupt", "cannot be read") == "failed"
    assert desk.job(claim).error_code == "corrupt"
    claim = desk.claimed()
    assert desk.worker.release(claim) == "queued"
    assert desk.worker.release(claim) == "queued"
    assert desk.job(claim).attempt == 0


def test_cancel_and_drain_are_told_with_the_heartbeat(desk: Desk) -> None:
    claim = desk.claimed()
    desk.running.rushes.cancel(claim.job_id)
    assert desk.worker.heartbeat([claim]).beats == {claim.claim_id: Beat(True, cancel=True)}
    answers = desk.worker.complete([Completion(claim)])
    assert answers == {claim.job_id: "cancel_requested"}
    assert desk.worker.fail(claim, "transient", "canceled", "") == "canceled"
    worker_id = desk.job(claim).processed_by_worker_id
    with desk.running.client() as admin:
        assert admin.post(f"/workers/{worker_id}/drain").status_code == 200
        assert desk.worker.heartbeat([]).drain is True
        desk.enqueue()
        assert desk.worker.claim(1) == []
        admin.post(f"/workers/{worker_id}/enable")
    assert desk.worker.heartbeat([]).drain is False
    assert len(desk.worker.claim(1)) == 1


def test_lines_of_a_log_are_kept_without_places_and_secrets(desk: Desk) -> None:
    claim = desk.claimed()
    desk.worker.log(claim, ["encoding 720p", "cannot open /srv/rushes/media/x.mp4: no such file"])
    with desk.running.rushes.db.read() as tx:
        lines = [each.line for each in log_store.read(tx, claim.job_id)]
    assert lines[0] == "encoding 720p"
    assert "/srv" not in lines[1]
    with desk.running.client() as admin:
        shown = admin.get(f"/jobs/{claim.job_id}/logs")
    assert shown.headers["content-type"] == "text/plain; charset=utf-8"
    assert shown.text.splitlines()[0].endswith(" encoding 720p")


def test_too_much_to_say_is_cut(desk: Desk) -> None:
    """What a worker says for people is no reason to refuse what it does."""
    metadata = {"host": "here", "x": "y" * 11_000, **{f"n{n}": "z" * 900 for n in range(12)}}
    words = [f"word-{n}-{'w' * 90}" for n in range(300)]
    desk.enqueue()
    desk.worker.hello(Hello(kinds=["demo"], capabilities=words, metadata=metadata))
    [assignment] = desk.worker.claim(1)
    claim = assignment.claim
    [worker] = [each for each in desk.running.rushes.workers() if each.holds]
    assert worker.metadata["host"] == "here"
    assert len(worker.metadata["x"]) == 1000
    assert len(worker.metadata) < len(metadata)
    assert worker.capabilities[0] == min(word[:64] for word in words)
    detail = {"speed": 2.0, "renditions": [{"name": "720p"}], "rest": ["r" * 900] * 100}
    report = Progress(claim=claim, stage="s" * 9000, engine_id="e" * 9000, detail=detail)
    assert desk.worker.progress([report]) == {claim.claim_id: Beat(True)}
    job = desk.job(claim)
    assert (job.stage, job.engine_id) == ("s" * 100, "e" * 100)
    assert {name: job.detail.get(name) for name in detail} == {**detail, "rest": None}
    desk.worker.log(claim, [f"line {n} {'l' * 20_000}" for n in range(20)])
    desk.worker.log(claim, ["more"] * 3000)
    assert desk.worker.fail(claim, "permanent", "c" * 9000, "m " * 9000) == "failed"
    job = desk.job(claim)
    assert job.error_code == "c" * 100
    assert job.last_error is not None
    assert len(job.last_error) <= 500


def test_what_was_said_is_kept_but_for_control_characters(desk: Desk) -> None:
    claim = desk.claimed()
    text = "the password: hunter2 is in /etc/shadow\nfamily 👨\u200d👩 می\u200cخواهم"
    desk.worker.put_passage(claim, 0, {"text": f"\x00\x1b[2J\u202e{text}\x9b", "words": []})
    [passage] = desk.worker.passages(claim)
    assert passage["text"] == f"[2J{text}"


def test_a_handler_fetches_works_puts_and_logs(stored_desk: Desk) -> None:
    desk = stored_desk
    job_id = desk.enqueue()
    scratches: list[Path] = []

    def run(job: JobContext) -> dict[str, int]:
        content = job.source().read_bytes()
        scratches.append(job.scratch)
        job.progress(0.5, "working", renditions=[{"name": "only", "status": "in_progress"}])
        job.log("half way")
        (job.scratch / "out.bin").write_bytes(content[::-1])
        job.put("out.bin", job.scratch / "out.bin")
        return {"size": len(content)}

    hello = Hello(kinds=["demo"])
    assert Worker(desk.worker, {"demo": Handler(run)}, hello=hello).step() == 1
    assert desk.running.rushes.job(job_id).result == {"size": len(SOURCE)}
    assert desk.current_files() == {"out.bin": SOURCE[::-1]}
    assert not scratches[0].exists()


def test_deleting_the_media_stops_the_work_and_publishes_nothing(desk: Desk) -> None:
    claim = desk.claimed()
    made = desk.worker.put_artifact(claim, "a.txt", b"a")
    rushes = desk.running.rushes
    rushes.db.run(lambda tx: library.delete(tx, rushes.queue, desk.media_id))
    assert desk.worker.heartbeat([claim]).beats[claim.claim_id].cancel
    answer = desk.worker.complete([Completion(claim, None, {"a.txt": made.sha256})])
    assert answer == {claim.job_id: "cancel_requested"}
    assert desk.current_files() is None


def test_another_workers_claim_is_as_good_as_none(remote_desk: Desk) -> None:
    desk = remote_desk
    claim = desk.claimed()
    thief = desk.connect("thief")
    thief.hello(Hello(kinds=["demo"]))
    for call in calls_of(thief, claim):
        with pytest.raises(errors.ClaimLost):
            call()
    with pytest.raises(errors.ClaimLost):
        thief.release(claim)
    with pytest.raises(errors.ClaimLost):
        thief.fail(claim, "permanent", "x", "x")
    assert thief.complete([Completion(claim)]) == {claim.job_id: "claim_lost"}
    assert thief.heartbeat([claim]).beats == {claim.claim_id: Beat(False)}
    with desk.running.rushes.db.read() as tx:
        assert jobs.held(tx, claim) is not None


def test_a_revoked_key_opens_nothing(remote_desk: Desk) -> None:
    desk, server = remote_desk, remote_desk.running
    claim = desk.claimed()
    with server.client() as admin:
        [worker] = [each for each in admin.get("/workers").json()["items"] if each["name"] == "one"]
        prefix = worker["keys"][0]["prefix"]
        assert admin.delete(f"/workers/{worker['id']}/keys/{prefix}").status_code == 204
    with pytest.raises(errors.Unauthorized):
        desk.worker.heartbeat([claim])
    with pytest.raises(errors.Unauthorized):
        desk.worker.claim(1)


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


# Lost answers and new processes


def test_a_request_that_is_repeated_gets_the_same_jobs(desk: Desk) -> None:
    desk.enqueue()
    desk.enqueue()
    desk.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [first] = desk.worker.claim(1, request_id="req_1")
    assert desk.worker.claim(1, request_id="req_1") == [first]
    [second] = desk.worker.claim(1, request_id="req_2")
    assert second.job_id != first.job_id


def test_what_a_heartbeat_does_not_list_is_freed_at_once(desk: Desk) -> None:
    jobs = {desk.enqueue(), desk.enqueue()}
    desk.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [lost] = desk.worker.claim(1, request_id="req_1")
    [kept] = desk.worker.claim(1, request_id="req_2")
    assert {lost.job_id, kept.job_id} == jobs
    # That of another heart, which knows of neither.
    desk.worker.heartbeat([], Roll())
    assert desk.job(lost.claim).state == "processing"
    beats = desk.worker.heartbeat([kept.claim], Roll(["req_1", "req_2"])).beats
    assert beats == {kept.claim_id: Beat(True)}
    assert (desk.job(lost.claim).state, desk.job(lost.claim).attempt) == ("queued", 0)
    assert desk.job(kept.claim).state == "processing"


def test_what_does_not_move_on_is_listed_and_not_renewed(desk: Desk) -> None:
    desk.enqueue()
    desk.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [stuck] = desk.worker.claim(1, request_id="req_1")
    until = desk.job(stuck.claim).claim_expires_at
    desk.worker.heartbeat([], Roll(["req_1"], [stuck.claim]))
    assert desk.job(stuck.claim).state == "processing"
    assert desk.job(stuck.claim).claim_expires_at == until


def test_a_process_that_starts_anew_frees_what_the_old_one_held(desk: Desk) -> None:
    desk.enqueue()
    desk.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    [old] = desk.worker.claim(1, request_id="req_1")
    # Saying it once more, as after an answer that was lost, changes nothing.
    desk.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_1"))
    assert desk.job(old.claim).state == "processing"
    desk.worker.hello(Hello(kinds=["demo"], capabilities=["cpu"], boot_id="boot_2"))
    assert desk.job(old.claim).state == "queued"
    [new] = desk.worker.claim(1, request_id="req_2")
    assert new.job_id == old.job_id
    assert desk.worker.heartbeat([old.claim]).beats == {old.claim_id: Beat(False)}
    with pytest.raises(errors.ClaimLost):
        desk.worker.release(old.claim)
    assert desk.job(new.claim).state == "processing"
