"""Changing settings while the server runs: what an admin sees, and what it does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2
import pytest

import world as worlds
from running import Running
from rushes import live_settings
from webhooks.receivers import answer, receiver

HOOK = "https://hooks.example.org/services/T000/s3cret"


def setting(client: httpx2.Client, name: str) -> Any:
    [found] = [each for each in client.get("/settings").json()["items"] if each["name"] == name]
    return found


def change(client: httpx2.Client, name: str, value: Any, **given: Any) -> httpx2.Response:
    return client.patch("/settings", json={"changes": [{"name": name, "value": value, **given}]})


def test_a_change_holds_at_once(either_server: Running) -> None:
    with either_server.client() as admin, either_server.user() as ada:
        before = setting(admin, "RUSHES_USER_TOKENS")
        assert (before["shown"], before["origin"], before["version"]) == ("100", "default", 0)
        assert (before["page"], before["change"], before["is_locked"]) == ("limits", "live", False)
        changed = change(admin, "RUSHES_USER_TOKENS", "1", version=0)
        assert changed.status_code == 200, changed.text
        [after] = changed.json()["items"]
        assert (after["value"], after["origin"], after["version"]) == (1, "page", 1)
        assert after["changed_by"]
        # The one that ada signs in with is all that she may have.
        token = {"name": "another", "scopes": ["read"]}
        assert ada.post("/tokens", json=token).status_code == 429
        assert change(admin, "user_tokens", None).json()["items"][0]["shown"] == "100"
        assert ada.post("/tokens", json=token).status_code == 201

        told = admin.get("/security-log", params={"action": "setting.changed"}).json()["items"]
        assert [(each["subject"], each["detail"]) for each in told] == [
            ("RUSHES_USER_TOKENS", {"before": "1", "after": "100"}),
            ("RUSHES_USER_TOKENS", {"before": "100", "after": "1"}),
        ]


def test_every_part_of_the_server_hears_of_it(server: Running) -> None:
    with server.client() as admin:
        changes = {
            "user_streams": "3",
            "user_uploads": "4",
            "max_upload_size": "5 MB",
            "job_retention": "2 days",
            "max_attempts": "9",
            "engine_model": "whisper-tiny",
            "trash_period": "not at all",
        }
        body = [{"name": name, "value": value} for name, value in changes.items()]
        assert admin.patch("/settings", json={"changes": body}).status_code == 200
        file = {"file": ("talk.mp4", b"\0\0\0\x18ftypisom" + bytes(5_000_000), "video/mp4")}
        assert admin.post("/media", files=file).status_code == 413
        default = admin.get("/models/transcription").json()["items"]
    assert "whisper-tiny" in [each["id"] for each in default if each["default"]]
    services = server.services
    assert sorted(set(services.holds.most.values())) == [3, 4, 6]
    assert services.queue.terms.max_attempts == 9
    assert services.settings.trash_period == 0
    assert server.rushes.retention._keep.jobs_ms == 2 * 86_400_000


def test_what_is_wrong_is_said_as_at_the_start(serve: Callable[..., Running]) -> None:
    server = serve(user_jobs=50)
    with server.client() as admin:
        wrong = change(admin, "job_retention", "1h")
        assert wrong.status_code == 422
        sentence = "RUSHES_JOB_RETENTION: must be never, or a duration from 1d to 3650d, not '1h'"
        assert wrong.json()["detail"] == sentence
        assert wrong.json()["errors"][0]["field"] == "RUSHES_JOB_RETENTION"
        odd: list[Any] = [[], {}, "x" * 3000]
        for value in odd:
            assert change(admin, "job_retention", value).status_code == 422
        assert change(admin, "database_url", "sqlite:///x").status_code == 422
        assert change(admin, "no_such", "1").status_code == 422
        assert admin.patch("/settings", json={"changes": []}).status_code == 422
        locked = change(admin, "user_jobs", "7")
        assert (locked.status_code, locked.json()["code"]) == (409, "wrong_state")
        shown = setting(admin, "RUSHES_USER_JOBS")
        assert (shown["is_locked"], shown["set_where"]) == (True, "by the program")

        assert change(admin, "user_streams", "7", version=0).status_code == 200
        late = change(admin, "user_streams", "8", version=0)
        assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
        by = setting(admin, "RUSHES_USER_STREAMS")["changed_by"]
        assert f"was changed meanwhile by {by} to 7" in late.json()["detail"]


def test_the_address_for_alerts_is_set_tried_and_never_shown(
    serve: Callable[..., Running],
) -> None:
    server = serve(webhook_private_targets=True)
    with server.client() as admin, receiver() as target:
        url = f"{target.url}/s3cret"
        answers = [change(admin, "alert_webhook_url", url)]
        assert answers[0].status_code == 200, answers[0].text
        assert answers[0].json()["items"][0]["shown"] == "***"
        came = threading.Event()

        def respond(request: BaseHTTPRequestHandler) -> None:
            answer(request, 204)
            came.set()

        target.respond = respond
        assert admin.post("/webhooks/whk_alerts/test").status_code == 202
        assert came.wait(20)
        assert target.received[0].path.endswith("/s3cret")
        answers += [admin.get("/settings"), admin.get("/security-log")]
        answers += [change(admin, "alert_webhook_url", "gopher://s3cret")]
        answers += [change(admin, "alert_webhook_url", HOOK, version=0)]
        assert [each.status_code for each in answers] == [200, 200, 200, 422, 409]
    assert not [each.text for each in answers if "s3cret" in each.text]


def test_before_the_first_alert_its_secret_can_be_had_and_a_test_says_what_is_missing(
    server: Running,
) -> None:
    with server.client() as admin, server.user() as ada:
        untried = admin.post("/webhooks/whk_alerts/test")
        assert (untried.status_code, untried.json()["code"]) == (409, "wrong_state")
        assert "RUSHES_ALERT_WEBHOOK_URL" in untried.json()["detail"]
        assert admin.post("/webhooks/whk_alerts/secret", json={}).json()["secret"]
        assert ada.post("/webhooks/whk_alerts/test").status_code == 404
        assert ada.post("/webhooks/whk_alerts/secret", json={}).status_code == 404


def test_a_change_reaches_the_other_server(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_settings, "READ_SECONDS", 0.05)
    with worlds.postgres_database() as url:
        one, other = serve(database_url=url), serve(database_url=url)
        heard = threading.Event()
        other.rushes.live.on_change.append(lambda settings: heard.set())
        with one.client() as admin, other.client() as elsewhere, other.user() as ada:
            assert change(admin, "user_uploads", "1").status_code == 200
            assert heard.wait(20)
            upload = {"Tus-Resumable": "1.0.0", "Upload-Length": "10"}
            codes = [ada.post("/uploads", headers=upload).status_code for _ in range(2)]
            assert codes == [201, 429]
            # Whoever looks does not wait for that.
            assert change(admin, "user_jobs", "1234").status_code == 200
            assert setting(elsewhere, "RUSHES_USER_JOBS")["shown"] == "1234"
        one.stop()
        other.stop()


def test_only_admins_see_and_change_them(server: Running) -> None:
    with server.user() as ada, server.client(None) as stranger:
        for client, code in ((ada, 403), (stranger, 401)):
            assert client.get("/settings").status_code == code
            assert change(client, "user_jobs", "1").status_code == code
