"""The queue for people over HTTP, and what they hear of it while it happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from running import Running, events_of
from rushes.protocol import Claim, Completion, Progress
from web import library


def test_a_job_is_looked_at_explained_canceled_and_retried(either_server: Running) -> None:
    with either_server.user() as ada:
        job_id = library.enqueue(either_server, library.user_id(ada))
        job = ada.get(f"/jobs/{job_id}").json()
        assert (job["status"], job["state"], job["attempt"]) == ("queued", "queued", 0)
        assert "claim_id" not in job
        why = ada.get(f"/jobs/{job_id}/why").json()
        assert why["position"] == 1
        assert "worker" in why["reasons"][0]["sentence"]
        assert ada.post(f"/jobs/{job_id}/cancel").json()["state"] == "canceled"
        twice = ada.post(f"/jobs/{job_id}/cancel")
        assert (twice.status_code, twice.json()["code"]) == (409, "wrong_state")
        assert twice.json()["detail"] == "the job is canceled already"
        again = ada.post(f"/jobs/{job_id}/retry")
        assert again.status_code == 202
        assert again.json()["retry_of"] == job_id
        assert ada.post(f"/jobs/{job_id}/retry").json()["id"] == again.json()["id"]
        assert ada.post(f"/jobs/{again.json()['id']}/retry").status_code == 409
        held = library.claim(either_server, "demo")
        either_server.rushes.dispatch.complete_plain([Completion(held)])
        [execution] = ada.get(f"/jobs/{held.job_id}/executions").json()["items"]
        assert (execution["outcome"], execution["worker_name"]) == ("succeeded", "test")
        assert "claim_id" not in execution
        assert ada.post(f"/jobs/{held.job_id}/cancel").status_code == 409


def test_an_execution_tells_what_it_used_and_how_it_ended(either_server: Running) -> None:
    dispatch = either_server.rushes.dispatch
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))

        def executions(job_id: str) -> Any:
            items = ada.get(f"/transcriptions/{job_id}/executions").json()["items"]
            assert items == ada.get(f"/jobs/{job_id}/executions").json()["items"]
            assert {each["transcription_id"] for each in items} == {job_id}
            return items

        def begin(held: Claim, model: str) -> None:
            report = Progress(
                claim=held, progress=0.1, stage="preparing", engine_id="local", engine_model=model
            )
            dispatch.progress([report])

        held = library.claim(either_server, "transcribe")
        begin(held, "whisper-tiny")
        shown = ada.get(f"/transcriptions/{held.job_id}").json()
        assert (shown["stage"], shown["progress_stage"]) == ("preparing", "preparing")
        [one] = executions(held.job_id)
        assert (one["status"], one["provider"], one["model"]) == (
            "processing",
            "local",
            "whisper-tiny",
        )
        assert (one["processing_duration_ms"], one["completed_at"], one["failed_at"]) == (
            None,
            None,
            None,
        )
        dispatch.release(held)
        held = library.claim(either_server, "transcribe")
        released, running = executions(held.job_id)
        assert (released["status"], released["model"]) == ("released", "whisper-tiny")
        # What the one before used is not what this one uses.
        assert (running["provider"], running["model"]) == (None, None)
        begin(held, "whisper-base")
        dispatch.fail(held, "permanent", "engine_failed", "it broke down")
        failed = executions(held.job_id)[1]
        assert (failed["status"], failed["model"], failed["error"]) == (
            "failed",
            "whisper-base",
            "it broke down",
        )
        assert failed["failed_at"] == failed["ended_at"]
        assert failed["completed_at"] is None
        assert failed["processing_duration_ms"] >= 0
        ada.post("/transcriptions", json={"media_id": media_id})
        held = library.claim(either_server, "transcribe")
        begin(held, "whisper-base")
        library.finish(either_server, held)
        [done] = executions(held.job_id)
        assert (done["status"], done["provider"], done["model"]) == (
            "completed",
            "local",
            "whisper-base",
        )
        assert done["completed_at"] == done["ended_at"]
        assert done["failed_at"] is None


def test_many_jobs_are_changed_by_a_filter_after_a_look(either_server: Running) -> None:
    with either_server.user() as ada, either_server.user("bob") as bob:
        mine = [library.enqueue(either_server, library.user_id(ada)) for _ in range(3)]
        other = library.enqueue(either_server, library.user_id(ada), "other")
        theirs = library.enqueue(either_server, library.user_id(bob))
        action = {"action": "cancel", "filter": {"kind": "demo", "state": "queued"}}
        look = ada.post("/jobs/actions", json={**action, "dry_run": True}).json()
        assert (look["matched"], look["changed"]) == (3, 0)
        done = ada.post("/jobs/actions", json=action).json()
        assert sorted(done["ids"]) == sorted(mine)
        assert ada.get(f"/jobs/{other}").json()["state"] == "queued"
        assert bob.get(f"/jobs/{theirs}").json()["state"] == "queued"
        retry = {"action": "retry", "filter": {"ids": [mine[0], theirs]}}
        assert len(ada.post("/jobs/actions", json=retry).json()["ids"]) == 1


def test_running_jobs_come_first_page_by_page(either_server: Running) -> None:
    running = either_server
    with running.user() as ada:
        owner = library.user_id(ada)
        made = [library.enqueue(running, owner, kind) for kind in ("a", "b", "c", "d", "e")]
        library.claim(running, "a")
        library.claim(running, "c")
        for limit in (1, 2, 3, 5, 50):
            seen, cursor = [], None
            while True:
                query = {"order": "running", "limit": limit} | (
                    {"cursor": cursor} if cursor else {}
                )
                page = ada.get("/jobs", params=query).json()
                seen += [job["id"] for job in page["items"]]
                cursor = page["next_cursor"]
                if cursor is None:
                    break
            assert seen == [made[2], made[0], made[4], made[3], made[1]], limit
        assert ada.get("/jobs", params={"order": "oldest"}).status_code == 422


def test_a_job_tells_the_title_of_its_recording(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada), title="Homecoming")
        plain = library.enqueue(either_server, library.user_id(ada))
        titles = {job["id"]: job["media_title"] for job in ada.get("/jobs").json()["items"]}
        assert titles.pop(plain) is None
        assert set(titles.values()) == {"Homecoming"}
        ada.patch(f"/media/{media_id}", json={"title": "Departure"})
        [job_id, *_] = titles
        assert ada.get(f"/jobs/{job_id}").json()["media_title"] == "Departure"
        jobs = ada.get(f"/media/{media_id}").json()["jobs"]
        assert {job["media_title"] for job in jobs} == {"Departure"}
        ada.delete(f"/media/{media_id}")
        assert ada.get(f"/jobs/{job_id}").json()["media_title"] is None


def test_nobody_is_asked_to_try_again_what_cannot_work(either_server: Running) -> None:
    dispatch = either_server.rushes.dispatch
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        heard = library.claim(either_server, "transcribe")
        dispatch.fail(heard, "permanent", "damaged", "the file is damaged")
        media = ada.get(f"/media/{media_id}").json()
        assert (media["transcript_error"], media["can_retry_transcript"]) == (
            "the file is damaged",
            False,
        )
        assert (media["error"], media["can_retry"]) == (None, False)
        assert ada.get(f"/jobs/{heard.job_id}").json()["can_retry"] is False
        seen = library.claim(either_server, "transcode")
        dispatch.fail(seen, "permanent", "encoder_lost", "the encoder is gone")
        media = ada.get(f"/media/{media_id}").json()
        assert (media["error"], media["can_retry"]) == ("the encoder is gone", True)
        assert ada.get(f"/jobs/{seen.job_id}").json()["can_retry"] is True
        again = ada.post(f"/jobs/{seen.job_id}/retry").json()["id"]
        assert ada.get(f"/jobs/{again}").json()["can_retry"] is False
        ada.post(f"/jobs/{again}/cancel")
        assert ada.get(f"/media/{media_id}").json()["can_retry"] is True


def test_jobs_are_found_by_words(either_server: Running) -> None:
    running = either_server
    with running.user() as ada, running.user("bob") as bob, running.client() as admin:
        owner = library.user_id(ada)
        media_id = library.add(running, owner, "100% Straße_1")
        library.add(running, owner, "100x Strasse21")
        theirs = library.add(running, library.user_id(bob), "100% Straße_1")
        failed = library.enqueue(running, owner, "fails")
        held = library.claim(running, "fails")
        running.rushes.dispatch.fail(held, "permanent", "corrupt", "The File is damaged!")
        plain = library.enqueue(running, owner, "other")

        def found(client: Any, **params: str) -> list[str]:
            return [each["id"] for each in client.get("/jobs", params=params).json()["items"]]

        of_media = [each.id for each in running.rushes.jobs(media_id=media_id)]
        assert found(ada, q="STRASSE_1") == of_media
        assert found(ada, q="100% s") == of_media
        of_theirs = [each.id for each in running.rushes.jobs(media_id=theirs)]
        assert found(admin, q="straße_") == of_theirs + of_media
        assert found(ada, q="file IS") == found(ada, q="damaged!") == [failed]
        assert found(ada, q="TEST") == [failed]
        assert found(ada, q=plain[-12:].upper()) == [plain]
        assert found(ada, q="%") == of_media
        assert found(ada, q="fault") == []
        assert found(ada, not_kind="transcode, transcribe,fails") == [plain]
        assert ada.get("/jobs", params={"q": "x" * 201}).status_code == 422

        def matched(client: Any, **wanted: Any) -> int:
            body = {"action": "cancel", "dry_run": True, "filter": wanted}
            return int(client.post("/jobs/actions", json=body).json()["matched"])

        assert matched(ada, q="straße_1") == 2
        assert matched(ada, q="straße_1", not_kinds=["transcribe"]) == 1
        assert matched(admin, q="straße_1", user_id=library.user_id(bob)) == 2
        assert matched(admin, q="straße_1") == 4
        assert matched(ada, user_id=owner) == 5
        body = {"action": "cancel", "filter": {"user_id": library.user_id(bob)}}
        assert ada.post("/jobs/actions", json=body).status_code == 422


def test_the_history_of_the_queue_has_every_span(either_server: Running) -> None:
    running = either_server
    with running.user() as ada, running.user("bob") as bob, running.client() as admin:
        owner = library.user_id(ada)
        for _ in range(3):
            library.enqueue(running, owner)
            running.rushes.dispatch.complete_plain([Completion(library.claim(running, "demo"))])
        library.enqueue(running, owner, "other")
        running.rushes.dispatch.fail(library.claim(running, "other"), "permanent", "x", "x")
        running.rushes.cancel(library.enqueue(running, library.user_id(bob)))

        def sums(client: Any, **params: Any) -> tuple[int, int, int]:
            items = client.get("/queue/history", params=params).json()["items"]
            completed, failed, canceled = (
                sum(each[name] for each in items) for name in ("completed", "failed", "canceled")
            )
            return completed, failed, canceled

        assert sums(ada, hours=1) == (3, 1, 0)
        assert sums(bob, hours=168) == (0, 0, 1)
        assert sums(admin) == (3, 1, 1)
        assert sums(admin, kind="other") == (0, 1, 0)
        assert sums(admin, not_kind="other,none") == (3, 0, 1)
        for hours, (seconds, count) in {
            1: (60, 60),
            6: (600, 36),
            24: (1800, 48),
            168: (10_800, 56),
        }.items():
            history = ada.get("/queue/history", params={"hours": hours}).json()
            times = [each["at"] for each in history["items"]]
            assert (history["bucket_seconds"], len(times)) == (seconds, count)
            assert times == sorted(set(times))
        recent = [each for each in history["items"] if each["completed"]]
        assert all(each["wait_seconds"] >= 0 <= each["run_seconds"] for each in recent)
        assert history["items"][0]["wait_seconds"] is None
        for wrong in (0, 169, "x"):
            assert ada.get("/queue/history", params={"hours": wrong}).status_code == 422


def test_repeating_a_request_with_its_key_does_the_work_once(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        library.publish(either_server, media_id, {"a.txt": b"a"})
        key = {"Idempotency-Key": "one"}
        path = f"/media/{media_id}/retranscode"
        first = ada.post(path, json={}, headers=key)
        ada.post(f"/jobs/{first.json()['id']}/cancel")
        assert ada.post(path, json={}, headers=key).json() == first.json()
        other = ada.post(path, json={"profile": "x"}, headers=key)
        assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "Idempotency-Key")
        assert ada.post(path, json={}).json()["id"] != first.json()["id"]


def test_a_paused_queue_gives_nothing_out(server: Running) -> None:
    with server.client() as admin, server.user() as ada:
        library.enqueue(server, library.user_id(ada))
        assert ada.post("/queue/pause", json={}).status_code == 403
        assert admin.post("/queue/pause", json={"kind": "demo"}).json() == {"paused": ["demo"]}
        worker = library.worker(server, "demo")
        assert server.rushes.dispatch.claim(worker, 1) == []
        assert admin.get("/queue/stats").json()["paused"] == ["demo"]
        admin.post("/queue/resume", json={"kind": "demo"})
        assert len(server.rushes.dispatch.claim(worker, 1)) == 1
    with server.rushes.db.read() as tx:
        told = tx.all("SELECT type, data FROM events WHERE type LIKE 'queue.%' ORDER BY seq")
    assert [row["type"] for row in told] == ["queue.paused", "queue.resumed"]
    assert {row["data"] for row in told} == {'{"kind":"demo"}'}


def test_events_are_heard_filtered_and_resumed(either_server: Running) -> None:
    with either_server.user() as ada, either_server.user("bob") as bob:
        owner, stranger = library.user_id(ada), library.user_id(bob)
        with ada.stream("GET", "/events") as stream:
            frames = events_of(stream)
            assert stream.headers["content-type"].startswith("text/event-stream")
            library.add(either_server, stranger)
            media_id = library.add(either_server, owner)
            heard = [next(frames) for _ in range(3)]
        types = sorted(each[1] for each in heard)
        assert types == ["media.created", "transcode.queued", "transcription.queued"]
        assert {each[2]["media_id"] for each in heard} == {media_id}
        last = heard[0][0]
        ada.patch(f"/media/{media_id}", json={"title": "New"})
        wanted = {"types": "media.*", "media_id": media_id}
        with ada.stream("GET", "/events", params=wanted, headers={"Last-Event-ID": last}) as more:
            kinds = []
            for _, type, _ in events_of(more):
                kinds.append(type)
                if type == "media.updated":
                    break
        assert set(kinds) <= {"media.created", "media.updated"}


def test_a_log_is_followed_until_the_job_ends(server: Running) -> None:
    dispatch = server.rushes.dispatch
    with server.client() as admin:
        job_id = library.enqueue(server, "")
        me = library.worker(server, "demo")
        [assignment] = dispatch.claim(me, 1)
        dispatch.log(me.id, assignment.claim, ["first"])
        with admin.stream("GET", f"/jobs/{job_id}/logs?follow=true") as stream:
            lines = stream.iter_lines()
            assert next(lines).endswith(" first")
            dispatch.log(me.id, assignment.claim, ["second"])
            assert next(lines).endswith(" second")
            dispatch.complete_plain([Completion(assignment.claim)])
            assert list(lines) == []


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]], threading.Event]]:
    got: list[tuple[dict[str, str], bytes]] = []
    came = threading.Event()

    class Receive(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(200)
            self.end_headers()
            came.set()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receive)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", got, came
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_hears_of_events_with_a_signature(serve: Any, receiver: Any) -> None:
    url, got, came = receiver
    running = serve(webhook_private_targets=True)
    with running.user() as ada:
        made = ada.post("/webhooks", json={"url": url, "types": ["media.created"]}).json()
        assert made["secret"].startswith("whsec_")
        assert ada.get(f"/webhooks/{made['id']}").json()["secret"] is None
        media_id = library.add(running, library.user_id(ada))
        assert came.wait(30)
        headers, body = got[0]
        told = Webhook(made["secret"]).verify(body, headers)
        assert told["type"] == "media.created"
        assert told["data"]["media_id"] == media_id
        came.clear()
        assert ada.post(f"/webhooks/{made['id']}/test").status_code == 202
        assert came.wait(30)
        deliveries = ada.get(f"/webhooks/{made['id']}/deliveries").json()["items"]
        assert [each["type"] for each in deliveries] == ["webhook.test", "media.created"]
        path = f"/webhooks/{made['id']}/deliveries/{deliveries[1]['id']}/redeliver"
        came.clear()
        assert ada.post(path).status_code == 202
        assert came.wait(30)
        assert got[-1][1] == body
        with running.user("bob") as bob:
            assert bob.get(f"/webhooks/{made['id']}").status_code == 404
            assert bob.get("/webhooks").json()["items"] == []


def test_a_webhook_to_a_private_address_is_refused(server: Running) -> None:
    with server.user() as ada:
        answer = ada.post("/webhooks", json={"url": "http://127.0.0.1:1/x", "types": ["*"]})
        assert answer.status_code == 422
        assert ada.get("/webhooks/whk_alerts").status_code == 404
