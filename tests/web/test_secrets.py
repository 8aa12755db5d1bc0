"""Secrets are in the answer that makes them, and nowhere else: not in what is kept of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from running import ADMIN_SECRET, Running
from scanner import HOLDS_SECRETS, NEW_SECRETS, tables
from web.test_accounts import add_user, sign_in

DOCUMENT = Path(__file__).parents[2] / "docs/openapi.json"
HOOK = {"url": "https://receiver.example/hook"}
KEY = {"Idempotency-Key": "the same each time"}
# Each is done twice, with one key; `{…}` are ids of what is there before.
MAKES_SECRETS: dict[str, dict[str, Any]] = {
    "/tokens": {"json": {"name": "t"}},
    "/users": {"json": {"name": "bob"}},
    "/users/{user_id}/link": {},
    "/webhooks": {"json": HOOK},
    "/webhooks/{webhook_id}/secret": {"json": {}},
    "/worker/register": {"json": {"name": "gpu"}},
    "/workers/invite": {"json": {}},
    "/workers/{worker_id}/keys": {},
}
# Uses a code up, so that it cannot be repeated in any case.
TAKES_A_CODE = "/worker/join"


def test_a_secret_is_shown_once_and_lies_in_no_table(either_server: Running) -> None:
    with either_server.client() as admin:
        places = {
            "user_id": add_user(either_server)["id"],
            "webhook_id": admin.post("/webhooks", json=HOOK).json()["id"],
            "worker_id": admin.post("/worker/register", json={"name": "cpu"}).json()["worker_id"],
        }
        for route, options in MAKES_SECRETS.items():
            path, key = route.format(**places), {"Idempotency-Key": route}
            first, again = (admin.post(path, headers=key, **options) for _ in range(2))
            assert first.status_code == 201, first.text
            secrets = list(secrets_in(first))
            assert secrets
            assert tables_with(either_server, secrets) == [], route
            assert (again.status_code, again.json()["code"]) == (409, "already_done")
            made = first.json().get("id") or first.json().get("prefix") or "it"
            assert f"made {made};" in again.json()["detail"]


def test_a_secret_that_is_asked_for_again_is_made_once(server: Running) -> None:
    secret = {"X-Admin-Secret": ADMIN_SECRET}
    with server.client() as admin, server.client(None) as script:
        for _ in range(3):
            admin.post("/tokens", json={"name": "once"}, headers={"Idempotency-Key": "token"})
            body, key = {"name": "once"}, {"Idempotency-Key": "worker"}
            script.post("/worker/register", json=body, headers=secret | key)
        other = admin.post("/tokens", json={"name": "x"}, headers={"Idempotency-Key": "token"})
        tokens = admin.get("/tokens").json()["items"]
        workers = admin.get("/workers").json()["items"]
    assert [each["name"] for each in tokens] == ["once"]
    assert [each["name"] for each in workers].count("once") == 1
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "Idempotency-Key")


def test_an_answer_without_a_secret_is_given_again(server: Running) -> None:
    body = {"name": "bob", "password": "correct horse battery"}
    with server.client() as admin:
        first, again = (admin.post("/users", json=body, headers=KEY) for _ in range(2))
    assert (again.status_code, again.json()) == (201, first.json())


def test_a_session_and_a_worker_that_joined_leave_no_secret(either_server: Running) -> None:
    add_user(either_server)
    with either_server.client() as admin, either_server.client(None) as stranger:
        code = admin.post("/workers/invite", json={}).json()["code"]
        joined = stranger.post("/worker/join", json={"code": code, "name": "gpu"}, headers=KEY)
        stranger.headers.update(KEY)
        assert sign_in(stranger).status_code == 201
        cookie = stranger.cookies["rushes_session"]
    assert tables_with(either_server, [*secrets_in(joined), cookie]) == []


def test_every_route_that_shows_a_secret_is_known_here() -> None:
    """By the names that secrets have in answers; `scanner` looks for the same."""
    document = json.loads(DOCUMENT.read_text())
    showing = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method == "post" and shows_secret(document, operation):
                showing.add(path.removeprefix("/api/v1"))
    assert showing == {*MAKES_SECRETS, TAKES_A_CODE}


def shows_secret(document: dict[str, Any], operation: dict[str, Any]) -> bool:
    answer = operation["responses"].get("201", {}).get("content", {}).get("application/json", {})
    name = answer.get("schema", {}).get("$ref", "").rpartition("/")[2]
    schema = document["components"]["schemas"].get(name, {})
    return not schema.get("properties", {}).keys().isdisjoint(NEW_SECRETS)


def secrets_in(answer: httpx2.Response) -> Iterator[str]:
    for name in NEW_SECRETS:
        if said := answer.json().get(name):
            yield said.rpartition("token=")[2]


def tables_with(running: Running, secrets: list[str]) -> list[str]:
    """Of all but the one that signs with its secret."""
    with running.rushes.db.read() as tx:
        rows = {each: str(tx.all(f"SELECT * FROM {each}")) for each in tables(tx)}
    return [
        table
        for table, text in rows.items()
        if table not in HOLDS_SECRETS and any(secret in text for secret in secrets)
    ]
