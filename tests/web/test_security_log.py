"""The security log: what it tells, what it never tells, and who reads it."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest

from running import ADMIN_SECRET, ADMIN_TOKEN, Running
from rushes.accounts import access, security_log, security_store
from rushes.accounts.security_log import Action
from web import library
from web.test_accounts import PASSWORD, WRONG, add_user, new_token, pass_time, sign_in, signed_in

NEW_PASSWORD = "another horse battery"


def entries(running: Running, **params: Any) -> list[dict[str, Any]]:
    """Oldest first."""
    with running.client() as admin:
        answer = admin.get("/security-log", params={"limit": 200, **params})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found[::-1]


def told(running: Running, **params: Any) -> list[tuple[str, str | None, str]]:
    found = entries(running, **params)
    return [(each["action"], each["user_name"], each["subject"]) for each in found]


def test_signing_in_and_failing_to_is_told_with_address_and_request(
    either_server: Running,
) -> None:
    ada = add_user(either_server)
    with either_server.client(None) as browser:
        browser.headers["X-Forwarded-For"] = "203.0.113.7"
        failed = sign_in(browser, password=WRONG)
        came = sign_in(browser)
        browser.delete("/session")
    found = entries(either_server, user_id=ada["id"])
    assert [(each["action"], each["user_name"]) for each in found] == [
        ("signin.failed", "ada"),
        ("signin.password", "ada"),
        ("signout", "ada"),
    ]
    assert {each["address"] for each in found} == {"203.0.113.7"}
    asked = [failed.headers["x-request-id"], came.headers["x-request-id"]]
    assert [each["request_id"] for each in found[:2]] == asked
    assert found[1]["at"].endswith("Z")


def test_what_was_typed_as_a_name_is_not_kept(server: Running) -> None:
    with server.client(None) as browser:
        assert sign_in(browser, PASSWORD, WRONG).status_code == 401
    [entry] = entries(server, action="signin.failed")
    assert (entry["user_id"], entry["user_name"], entry["subject"]) == (None, None, "password")
    assert PASSWORD not in str(entry)


def test_a_link_is_told_when_made_used_and_used_again(server: Running) -> None:
    with server.client() as admin:
        url = admin.post("/users", json={"name": "ada"}).json()["signin_url"]
    link = {"token": url.partition("token=")[2]}
    with server.client(None) as browser:
        codes = [browser.post("/session/link", json=link).status_code for _ in range(4)]
    assert codes == [201, 401, 401, 401]
    assert told(server)[-4:] == [
        ("user.added", "admin", "ada"),
        ("link.made", "admin", "ada"),
        ("signin.link", "ada", ""),
        ("signin.failed", None, "link"),
    ]


def test_whoever_guesses_is_told_of_but_cannot_fill_the_log(either_server: Running) -> None:
    add_user(either_server)
    with either_server.client(None) as thief:
        tries = [sign_in(thief, password=WRONG).status_code for _ in range(12)]
        for number in range(12):
            thief.get("/media", headers={"Authorization": f"Bearer guess-{number}"})
    assert tries == [401] * 6 + [429] * 6
    kinds = [each["action"] for each in entries(either_server)]
    assert kinds.count("signin.failed") == 6
    assert kinds.count("signin.throttled") == 1
    assert kinds.count("key.refused") == 1
    pass_time(either_server, 16 * 60)
    with either_server.client(None) as thief:
        thief.get("/media", headers={"Authorization": "Bearer guess"})
    assert len(entries(either_server, action="key.refused")) == 2


def test_changes_of_users_are_told_once_each(either_server: Running) -> None:
    ada = add_user(either_server)
    path = f"/users/{ada['id']}"
    with signed_in(either_server) as browser, signed_in(either_server) as other:
        change = {"password": NEW_PASSWORD, "old_password": PASSWORD}
        assert browser.put("/session/password", json=change).status_code == 204
        assert other.get("/session").status_code == 401
    with either_server.client() as admin:
        for body in ({"role": "admin"}, {"role": "admin"}, {"disabled": True}, {"disabled": True}):
            assert admin.patch(path, json=body).status_code == 200
        admin.patch(path, json={"disabled": False})
    found = entries(either_server)[-6:]
    assert [(each["action"], each["user_name"], each["subject"]) for each in found] == [
        ("signin.password", "ada", ""),
        ("signin.password", "ada", ""),
        ("password.changed", "ada", "ada"),
        ("user.changed", "admin", "ada"),
        ("user.disabled", "admin", "ada"),
        ("user.enabled", "admin", "ada"),
    ]
    assert found[2]["detail"] == {"sessions_ended": 1}
    assert found[3]["detail"]["role"] == "admin"


def test_what_is_undone_is_not_told(server: Running) -> None:
    with server.client() as admin:
        me = admin.get("/session").json()["id"]
        assert admin.patch(f"/users/{me}", json={"disabled": True}).status_code == 409
    assert entries(server, action="user.disabled") == []


def test_sessions_tokens_workers_and_shares_are_told(either_server: Running) -> None:
    ada = add_user(either_server)
    media_id = library.add(either_server, ada["id"])
    with signed_in(either_server) as browser, signed_in(either_server):
        [here] = [s for s in browser.get("/sessions").json()["items"] if not s["current"]]
        browser.delete(f"/sessions/{here['id']}")
        token = new_token(browser, "write").json()
        browser.delete(f"/tokens/{token['id']}")
        for _ in range(2):
            browser.post(f"/media/{media_id}/share")
        for _ in range(2):
            browser.delete(f"/media/{media_id}/share")
    with either_server.client() as admin, either_server.client(None) as stranger:
        code = admin.post("/workers/invite", json={"name": "gpu"}).json()["code"]
        made = stranger.post("/worker/join", json={"code": code, "name": "x"}).json()
        assert stranger.post("/worker/join", json={"code": code, "name": "x"}).status_code == 401
        admin.post(f"/workers/{made['worker_id']}/keys")
        admin.delete(f"/workers/{made['worker_id']}/keys/{made['prefix']}")
        secret = {"X-Admin-Secret": ADMIN_SECRET}
        stranger.post("/worker/register", json={"name": "cpu"}, headers=secret)
    found = told(either_server)
    start = found.index(("session.ended", "ada", here["id"]))
    assert found[start:] == [
        ("session.ended", "ada", here["id"]),
        ("token.made", "ada", "t"),
        ("token.revoked", "ada", "t"),
        ("share.made", "ada", media_id),
        ("share.removed", "ada", media_id),
        ("invite.made", "admin", "gpu"),
        ("worker.joined", None, "gpu"),
        ("key.refused", None, "join code"),
        ("worker_key.made", "admin", "gpu"),
        ("worker_key.revoked", "admin", "gpu"),
        ("worker.registered", "admin secret", "cpu"),
    ]


def test_a_share_that_ends_by_deleting_is_told(either_server: Running) -> None:
    with either_server.user() as ada:
        owner = library.user_id(ada)
        media = [library.add(either_server, owner) for _ in range(4)]
        for media_id in media[:3]:
            ada.post(f"/media/{media_id}/share")
        ada.delete(f"/media/{media[0]}")
        assert ada.delete(f"/media/{media[0]}").status_code == 404
        chosen = {"action": "delete", "filter": {"ids": media[1:]}}
        assert ada.post("/media/actions", json=chosen).json()["changed"] == 3
    found = entries(either_server, action="share.removed")
    assert [each["subject"] for each in found] == media[:3]
    assert {each["user_name"] for each in found} == {"ada"}
    assert {str(each["detail"]["by_deleting"]) for each in found} == {"True"}


def test_what_an_admin_says_of_a_worker_is_told_once(either_server: Running) -> None:
    with either_server.client() as admin:
        worker_id = admin.post("/worker/register", json={"name": "gpu"}).json()["worker_id"]
        for verb in ("disable", "disable", "enable", "drain", "drain", "enable"):
            assert admin.post(f"/workers/{worker_id}/{verb}").status_code == 200
        assert admin.post("/workers/wrk_nobody/disable").status_code == 404
        for _ in range(2):
            assert admin.patch(f"/workers/{worker_id}", json={"nice": 3}).status_code == 200
    assert told(either_server)[-6:] == [
        ("worker.registered", "admin", "gpu"),
        ("worker.disabled", "admin", "gpu"),
        ("worker.enabled", "admin", "gpu"),
        ("worker.drained", "admin", "gpu"),
        ("worker.enabled", "admin", "gpu"),
        ("worker.changed", "admin", "gpu"),
    ]


def test_webhooks_are_told_by_host_for_the_rest_may_be_a_secret(either_server: Running) -> None:
    url = "https://hooks.slack.com/services/T0/B0/aVerySecretPath"
    with either_server.user() as ada:
        path = f"/webhooks/{ada.post('/webhooks', json={'url': url}).json()['id']}"
        changes: list[dict[str, Any]] = [{"enabled": False}, {"enabled": False}, {"types": ["*"]}]
        for change in changes:
            assert ada.patch(path, json=change).status_code == 200
        assert ada.post(f"{path}/secret", json={}).status_code == 201
        assert ada.delete(path).status_code == 204
        assert ada.patch(path, json={"enabled": True}).status_code == 404
    found = [each for each in entries(either_server) if each["action"].startswith("webhook.")]
    assert [(each["action"], each["user_name"], each["subject"]) for each in found] == [
        ("webhook.made", "ada", "hooks.slack.com"),
        ("webhook.changed", "ada", "hooks.slack.com"),
        ("webhook.secret_changed", "ada", "hooks.slack.com"),
        ("webhook.removed", "ada", "hooks.slack.com"),
    ]
    assert found[1]["detail"]["enabled"] is False
    assert "aVerySecretPath" not in str(found)


def test_a_token_that_may_only_read_is_told_of_but_cannot_fill_the_log(
    either_server: Running,
) -> None:
    add_user(either_server)
    with signed_in(either_server) as browser:
        made = new_token(browser, "read").json()
    with either_server.client(made["token"]) as script:
        for number in range(12):
            assert script.delete(f"/media/med_{number}").status_code == 403
        assert script.post("/tokens", json={"name": "t"}).status_code == 403
        assert script.get("/media").status_code == 200
    found = entries(either_server, action="access.denied")
    assert [(each["user_name"], each["subject"]) for each in found] == [
        ("ada", "DELETE media/:media_id"),
        ("ada", "POST tokens"),
    ]
    assert {each["detail"]["token_id"] for each in found} == {made["id"]}


def test_only_admins_read_it_and_a_try_is_told_once(either_server: Running) -> None:
    add_user(either_server)
    with signed_in(either_server) as browser, either_server.client(None) as nobody:
        assert nobody.get("/security-log").status_code == 401
        for _ in range(3):
            assert browser.get("/security-log").status_code == 403
        assert browser.delete("/workers/wrk_1/keys/abc").status_code == 403
    assert told(either_server, action="access.denied") == [
        ("access.denied", "ada", "GET security-log"),
        ("access.denied", "ada", "DELETE workers/:worker_id/keys/:prefix"),
    ]


def test_no_row_and_no_line_has_a_secret(
    either_server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rushes.security")
    ada = add_user(either_server)
    media_id = library.add(either_server, ada["id"])
    secrets = [PASSWORD, WRONG, NEW_PASSWORD, ADMIN_TOKEN, ADMIN_SECRET]
    with either_server.client() as admin, either_server.client(None) as browser:
        made = admin.post("/users", json={"name": "bob"}).json()
        link = made["signin_url"].partition("token=")[2]
        browser.post("/session/link", json={"token": link})
        sign_in(browser, password=WRONG)
        sign_in(browser)
        change = {"password": NEW_PASSWORD, "old_password": PASSWORD}
        browser.put("/session/password", json=change)
        token = new_token(browser, "write").json()["token"]
        share = browser.post(f"/media/{media_id}/share").json()["share_url"].rpartition("/")[2]
        code = admin.post("/workers/invite", json={}).json()["code"]
        key = browser.post("/worker/join", json={"code": code, "name": "x\ny"}).json()["key"]
        cookie = browser.cookies["rushes_session"]
    secrets += [link, token, share, code, key, cookie]
    # A key as a name: somebody has pasted it into the wrong field.
    pasted = partial(security_log.record, action=Action.TOKEN_MADE, subject=token, name=key)
    either_server.rushes.db.run(pasted)
    with either_server.rushes.db.read() as tx:
        rows = str(security_store.page(tx, limit=1000))
    lines = [each.getMessage() for each in caplog.records if each.name == "rushes.security"]
    assert len(lines) >= 9
    assert any(each.startswith("signin.failed by ada from 127.0.0.1") for each in lines)
    assert [each for each in secrets if each in rows or each in "".join(lines)] == []


def test_pages_follow_each_other_without_gaps(server: Running) -> None:
    with server.client() as admin:
        for _ in range(5):
            admin.post("/workers/invite", json={"name": "gpu"})
        seen: list[str] = []
        cursor = None
        while True:
            params: dict[str, Any] = {
                "action": "invite.made",
                "limit": 2,
                **({"cursor": cursor} if cursor else {}),
            }
            page = admin.get("/security-log", params=params).json()
            seen += [each["id"] for each in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert admin.get("/security-log", params={"action": "nonsense"}).status_code == 422
    assert len(seen) == 5
    assert seen == sorted(set(seen), reverse=True)


def test_old_entries_are_forgotten(either_server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_store, "PRUNED_AT_ONCE", 2)
    for name in ("ada", "bob", "eve"):
        add_user(either_server, name)
    pass_time(either_server, 89 * 86400)
    either_server.server._forget(0)
    assert len(entries(either_server, action="user.added")) >= 3
    pass_time(either_server, 91 * 86400)
    either_server.rushes.db.run(lambda tx: access.add_user(tx, "new"))
    either_server.server._forget(0)
    assert told(either_server) == [("user.added", None, "new")]
