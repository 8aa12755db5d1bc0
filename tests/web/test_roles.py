"""Every route as everybody: who gets in, who does not, and that looking changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scanner
from running import Running
from rushes.web import pages
from web.callers import TUS, Call, Callers, Route, routes, rows_of

IN, NOT_HERE = "in", 404
# For routes of each declared role, what each of those who knock is answered.
EXPECTED: dict[str, dict[str, int | str]] = {
    "user": {
        "anonymous": 401,
        "share holder": 401,
        "reader": 403,
        "writer": IN,
        "browser": IN,
        "other": NOT_HERE,
        "admin": IN,
        "admin's writer": NOT_HERE,
        "worker": 401,
        "revoked worker": 401,
        "disabled": 401,
        "ended": 401,
    },
    "admin": {
        "anonymous": 401,
        "share holder": 401,
        "reader": 403,
        "writer": 403,
        "browser": 403,
        "other": 403,
        "admin": IN,
        "admin's writer": 403,
        "worker": 401,
        "revoked worker": 401,
        "disabled": 401,
        "ended": 401,
    },
    "worker": {
        "anonymous": 401,
        "share holder": 401,
        "reader": 401,
        "writer": 401,
        "browser": 401,
        "other": 401,
        "admin": 401,
        "admin's writer": 401,
        "worker": IN,
        "idle worker": 409,
        "revoked worker": 401,
        "disabled": 401,
        "ended": 401,
    },
}
EVERYBODY = sorted({who for row in EXPECTED.values() for who in row})
# Public, since they look at credentials of their own; this is what they make of them.
JUDGE_THEMSELVES = {"POST /worker/register": "admin"}
# Not even an admin finds these when they are somebody else's.
PERSONAL = ("/uploads/", "/sessions/", "/tokens/", "/webhooks/", "/saved-filters/")
MAY_TERMINATE = {"DELETE /uploads/{upload_id}", "POST /uploads/{upload_id}"}
# About the one who asks, or about a claim that need not be one's own.
SELF = {"POST /worker/hello", "POST /worker/claim", "POST /worker/heartbeat"}
# A password is for people who are signed in.
SESSION_ONLY = {"PUT /session/password"}
ENDLESS = {"GET /events"}
HIDDEN = {
    "GET /openapi.json",
    "HEAD /openapi.json",
    "GET /healthz",
    "GET /sign-in",
    "GET /s/{token}",
    "GET /embed/{token}",
    "GET /assets/{name}",
    "GET /favicon.svg",
    "GET /theme.js",
}
KEPT: dict[str, Call] = {}
SEEN = {
    "last_seen_at",
    "last_used_at",
    "announced",
    "pos",
    "beat_at",
    "grace_until",
    # Of a job: that its worker has asked for the source.
    "heard_at",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory: Path = tmp_path_factory.mktemp("roles")
    # Nobody else is to take the jobs of these tests, and nothing happens by itself.
    nobody: dict[str, Any] = {
        "transcode_workers": 0,
        "transcription_workers": 0,
        "transcription_wait": 0.01,
    }
    with Running(data_dir=directory, **nobody) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.rushes.chores, "tick", dict)
        patch.setattr(server.rushes.chores, "attempt", lambda chore: None)
        # On a slow machine all this takes longer than chores may be away.
        patch.setattr(type(server.rushes.chores), "late", False)
        yield server


@pytest.fixture(scope="module")
def callers(running: Running) -> Iterator[Callers]:
    made = Callers(running)
    made.clients["share holder"] = made.with_token(made.resources.share_token("ada"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def all_routes(running: Running) -> list[Route]:
    return routes(running)


def test_every_route_has_declared_exactly_one_role(all_routes: list[Route]) -> None:
    undeclared = {each.key for each in all_routes if each.role is None}
    assert undeclared == {"GET /openapi.json", "HEAD /openapi.json"}
    assert {each.role for each in all_routes if each.role} == {*EXPECTED, "public"}


def test_the_document_lists_what_the_router_has(running: Running, all_routes: list[Route]) -> None:
    with running.client(None) as nobody:
        document = nobody.get("/openapi.json").json()
    documented = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    real = {each.key.replace(":path}", "}") for each in all_routes if each.path not in pages.KNOWN}
    heads = {key for key in real if key.startswith("HEAD") and f"GET{key[4:]}" in real}
    assert documented == real - HIDDEN - heads


@pytest.mark.parametrize("who", EVERYBODY)
def test_each_route_lets_in_whom_it_should_and_nobody_else(
    running: Running, callers: Callers, all_routes: list[Route], who: str
) -> None:
    wrong = []
    for route in all_routes:
        role = JUDGE_THEMSELVES.get(route.key, route.role)
        if role not in EXPECTED or route.key in ENDLESS:
            continue
        expected = expect(route, role, who)
        # Who is refused leaves everything as it is, so the next one can ask for the same.
        call = callers.resources.call(route) if expected == IN else kept_call(callers, route)
        answer = call.by(callers.clients[who])
        # A redirect leads to what is let in by the same rule.
        wanted = {route.status, 200, 307} if expected == IN else {expected}
        if route.key == "DELETE /session" and who == "browser":
            callers.renew(callers.clients[who])
        if answer.status_code not in wanted:
            wrong.append(f"{route} answers {answer.status_code}, not {expected}: {answer.text}")
    assert not wrong, "\n".join(wrong)


def expect(route: Route, role: str, who: str) -> int | str:
    expected = EXPECTED[role].get(who, 401)
    reads = route.method in ("GET", "HEAD", "OPTIONS")
    if who == "reader" and role == "user" and reads:
        expected = IN
    if route.key in SESSION_ONLY and expected in (IN, NOT_HERE):
        return IN if who == "browser" else 403
    if expected == NOT_HERE and not names_something(route):
        return IN
    if who == "admin" and any(each in route.path for each in PERSONAL):
        return IN if route.key in MAY_TERMINATE else NOT_HERE
    if who == "idle worker" and route.key in SELF:
        return IN
    return expected


def kept_call(callers: Callers, route: Route) -> Call:
    if str(route) not in KEPT:
        KEPT[str(route)] = callers.resources.call(route)
    return KEPT[str(route)]


def names_something(route: Route) -> bool:
    """Of a user's own; profiles and models are everybody's."""
    if "profiles/" in route.path or "/v1/models/" in route.path:
        return False
    return "{" in route.path or route.key == "POST /transcriptions"


def test_public_routes_are_open_to_all(callers: Callers, all_routes: list[Route]) -> None:
    wrong = []
    for route in all_routes:
        if route.role != "public" or route.key in JUDGE_THEMSELVES:
            continue
        for who in ("anonymous", "other", "admin", "revoked worker", "disabled"):
            answer = callers.resources.call(route).by(callers.clients[who])
            # Signing in leaves one.
            callers.clients[who].cookies.clear()
            if answer.status_code not in {route.status, 200, 201, 307}:
                wrong.append(f"{route} answers {who} {answer.status_code}: {answer.text}")
    assert not wrong, "\n".join(wrong)


def test_the_admin_secret_is_as_good_as_an_admin_for_registering(callers: Callers) -> None:
    body, path = {"name": "gpu"}, "/api/v1/worker/register"
    secret = {"X-Admin-Secret": callers.running.settings.admin_secret}
    assert callers.clients["anonymous"].post(path, json=body, headers=secret).status_code == 201
    wrong = {"X-Admin-Secret": "guess"}
    assert callers.clients["admin"].post(path, json=body, headers=wrong).status_code == 401


def test_who_is_refused_changes_nothing(
    running: Running, callers: Callers, all_routes: list[Route]
) -> None:
    calls = [
        (route, callers.resources.call(route))
        for route in all_routes
        if route.role in EXPECTED and route.key not in ENDLESS
    ]
    before = everything(running)
    for who in ("anonymous", "share holder", "revoked worker", "disabled", "ended"):
        for _, call in calls:
            assert call.by(callers.clients[who]).status_code == 401
    for route, call in calls:
        if route.method not in ("GET", "HEAD") and route.role != "worker":
            assert call.by(callers.clients["reader"]).status_code == 403
    assert changes(running, before) == []


def test_looking_changes_nothing(
    running: Running, callers: Callers, all_routes: list[Route]
) -> None:
    looks = [each for each in all_routes if each.method in ("GET", "HEAD", "OPTIONS")]
    calls = [callers.resources.call(each) for each in looks if each.key not in ENDLESS]
    before = everything(running)
    for who in ("browser", "admin", "worker"):
        for call in calls:
            assert call.by(callers.clients[who]).status_code < 500
    assert changes(running, before) == []


def test_an_upload_is_its_owners_alone_but_an_admin_may_end_it(callers: Callers) -> None:
    path = f"/api/v1/uploads/{callers.resources.upload('ada')}"
    assert callers.clients["admin"].head(path, headers=TUS).status_code == 404
    assert callers.clients["other"].delete(path, headers=TUS).status_code == 404
    assert callers.clients["admin"].delete(path, headers=TUS).status_code == 204
    assert callers.clients["writer"].head(path, headers=TUS).status_code == 410


def changes(running: Running, before: dict[str, list[str]]) -> list[str]:
    now = everything(running)
    return [each for table in now for each in set(now[table]) ^ set(before[table])]


def everything(running: Running) -> dict[str, list[str]]:
    with running.rushes.db.read() as tx:
        # That somebody was refused is written down.
        names = [each for each in scanner.tables(tx) if each != "security_log"]
    return rows_of(running, names, SEEN)
