"""Input that no program of ours would send: odd headers, JSON, addresses and words."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import httpx2
import pytest

from running import Running
from rushes.web import pages
from web.callers import Callers, Route, routes
from web.raw_http import bodies, filled


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "["},
        {"Host": "a b"},
        {"Host": "evil.example"},
        {"Origin": "http://["},
        {"Origin": "http://a:b:c"},
        {"Authorization": "Bearer \xff\xfe"},
        {"Authorization": "Basic Og=="},
        {"Authorization": ","},
        {"Cookie": "rushes_session=\xff; =; ;;"},
        {"Idempotency-Key": "\xff"},
        {"Accept-Language": "\xff"},
        {"User-Agent": "\xff<script>"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "multipart/form-data; boundary=\xff"},
        {"Content-Type": "/"},
        {"Content-Encoding": "gzip"},
        {"Expect": "100-continue"},
        {"Range": "bytes=" + "0-1," * 5000},
        {"Last-Event-ID": "9" * 90},
        {"If-None-Match": '"' * 1000},
        {"X-HTTP-Method-Override": "DELETE"},
        {"X-Forwarded-For": "'; DROP TABLE users; --"},
        {"X-Forwarded-Proto": "javascript"},
        {"Forwarded": "for=\xff"},
    ],
    ids=str,
)
def test_odd_headers_break_nothing(server: Running, headers: dict[str, str]) -> None:
    encoded = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    with server.client() as admin, server.client(None) as browser:
        browser.cookies.set("rushes_session", "x")
        tus = {b"Tus-Resumable": b"1.0.0", b"Upload-Length": b"300"}
        for client in (admin, browser):
            answers = [
                client.get("/media", headers=encoded),
                client.post("/tokens", content=b'{"name": "x"}', headers=encoded),
                client.post("/uploads", headers={**tus, **encoded}),
                client.post("/media", content=b"x", headers=encoded),
                client.post("/session", json={"name": "x", "password": "y"}, headers=encoded),
                client.get("/nothing", headers=encoded),
            ]
            assert [each for each in answers if each.status_code >= 500] == []


def odd_json(deep: int) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "null": b"null",
        "a list": b"[]",
        "a number": b"1",
        "not json": b"{",
        "not utf-8": b'{"name": "\xff"}',
        "deep lists": b"[" * deep,
        "deep lists, closed": b"[" * (deep // 2) + b"]" * (deep // 2),
        "deep objects": b'{"name":' * (deep // 10) + b"1" + b"}" * (deep // 10),
        "just too deep": b'{"name":' * 500 + b"1" + b"}" * 500,
        "a long number": b'{"name": ' + b"9" * (deep // 10) + b"}",
        "many keys": b"{" + b",".join(b'"%d":1' % n for n in range(deep // 20)) + b"}",
    }


# The reader is the same for all; two get to feel its limits.
DEEPEST = {"POST /tokens", "POST /worker/progress"}
ODD_VALUES: dict[str, Any] = {
    "NUL": "a\0b",
    "half a pair": "\ud800",
    "the other half": "\udfff",
    "a huge number": 2**64,
    "a huge negative number": -(2**70),
    "infinity": float("inf"),
    "not a number": float("nan"),
    "nested": {"a": {"b": ["\ud800", 2**70, {"c\0": "\0"}]}},
    "deep": json.loads("[" * 200 + "]" * 200),
    "long": "x" * 100_000,
    "a direction": "\u202e\u2066",
    "empty": "",
    "true": True,
}


def test_odd_json_is_refused_and_never_a_surprise(server: Running) -> None:
    callers = Callers(server)
    wrong = []
    for route in bodies(server):
        client = callers.clients["worker" if route.role == "worker" else "admin"]
        for name, body in odd_json(10**6 if route.key in DEEPEST else 10**4).items():
            call = (route.method, filled(route).decode())
            headers = {"Content-Type": "application/json", "Rushes-Claim": "x"}
            answer = client.request(*call, content=body, headers=headers)
            if not (answer.status_code < 500 and is_problem_or_fine(answer)):
                wrong.append(f"{route} answers {answer.status_code} to {name}")
    callers.close()
    assert not wrong, "\n".join(wrong)


def is_problem_or_fine(answer: httpx2.Response) -> bool:
    kind = answer.headers.get("content-type", "")
    return answer.is_success or kind == "application/problem+json"


def test_odd_values_in_any_field_are_never_a_surprise(either_server: Running) -> None:
    """Each field of each body in turn, the others as they should be."""
    callers = Callers(either_server)
    with either_server.client() as admin:
        document = admin.get("/openapi.json").json()
    wrong = []
    for route in bodies(either_server):
        client = callers.clients["worker" if route.role == "worker" else "admin"]
        for field in fields(document, route):
            call = callers.resources.call(route)
            headers = {**call.options.get("headers", {}), "Content-Type": "application/json"}
            for name, value in ODD_VALUES.items():
                sent = json.dumps({**call.options.get("json", {}), field: value}).encode()
                answer = client.request(call.method, call.path, content=sent, headers=headers)
                if answer.status_code >= 500:
                    wrong.append(f"{route} answers {answer.status_code} to {field} = {name}")
    looks = [client.get(f"/api/v1/{each}") for each in ("jobs", "workers", "users", "media")]
    assert [each.status_code for each in looks if each.status_code >= 500] == []
    callers.close()
    assert not wrong, "\n".join(wrong)


def fields(document: dict[str, Any], route: Route) -> list[str]:
    operation = document["paths"][route.path.replace(":path}", "}")][route.method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return [*schema.get("properties", {}), "unknown"]


def test_what_a_worker_says_can_be_read_whatever_it_is(either_server: Running) -> None:
    """A handler's words reach readers' eyes: odd ones must not close these."""
    callers = Callers(either_server)
    for name, value in ODD_VALUES.items():
        job_id, claim_id = callers.resources.claim()
        held = {"job_id": job_id, "claim_id": claim_id}
        for more in (
            {"detail": {"renditions": [{"name": value, "odd": value}], "speed": value}},
            {"detail": {"renditions": value, "eta_seconds": value}},
            {"checkpoint": value},
            {"stage": value if isinstance(value, str) else "x"},
        ):
            sent = json.dumps({**held, **more}).encode()
            headers = {"Content-Type": "application/json"}
            said = callers.clients["worker"].post(
                "/api/v1/worker/progress", content=sent, headers=headers
            )
            assert said.status_code in (200, 422), f"{name}: {said.text}"
        done = json.dumps({**held, "result": value}).encode()
        callers.clients["worker"].post("/api/v1/worker/complete", content=done, headers=headers)
        assert callers.clients["admin"].get(f"/api/v1/jobs/{job_id}").status_code == 200
    assert callers.clients["admin"].get("/api/v1/jobs").status_code == 200
    callers.close()


def test_nul_and_half_characters_in_addresses_find_nothing(either_server: Running) -> None:
    callers = Callers(either_server)
    wrong = []
    # The application itself says that it knows of nothing there.
    finders = [each for each in routes(either_server) if each.path not in pages.KNOWN]
    for route in (each for each in finders if "{" in each.path):
        client = callers.clients["worker" if route.role == "worker" else "admin"]
        headers = {"Rushes-Claim": "clm_1", "Rushes-SHA256": "0" * 64, "Tus-Resumable": "1.0.0"}
        for odd in ("%00", "a%00b", "%ed%a0%80", "%ff", "%F4%90%80%80", "%c0%ae", "'\"\\"):
            path = route.path
            for part in [each for each in path.split("/") if "{" in each]:
                path = path.replace(part, odd)
            answer = client.request(route.method, path, headers=headers, content=b"{}")
            if not 400 <= answer.status_code < 500 and route.method != "OPTIONS":
                wrong.append(f"{route.method} {path} answers {answer.status_code}")
    filters = ("kind", "media_id", "user_id", "error_code", "worker_id")
    for name, odd in product(filters, ("%00", "%ff", "%ed%a0%80")):
        answer = callers.clients["admin"].get(f"/api/v1/jobs?{name}={odd}")
        if answer.status_code != (422 if odd == "%00" else 200):
            wrong.append(f"jobs?{name}={odd} answers {answer.status_code}")
    callers.close()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("since", ["9" * 25, "-1", "1e9", "x", "0x1", "٣", "9223372036854775808"])
def test_any_last_position_begins_a_stream(server: Running, since: str) -> None:
    with server.client() as admin:
        with admin.stream("GET", "/events", params={"since": since}) as stream:
            assert stream.status_code == 200
            assert next(stream.iter_lines()).startswith(("retry", "id", "event", ":"))
        headers = {"Last-Event-ID": since.encode().decode("latin-1").encode("latin-1")}
        with admin.stream("GET", "/events", headers=headers) as stream:  # type: ignore[arg-type]
            assert stream.status_code == 200


def test_a_worker_cannot_grow_without_bounds_by_saying_hello(server: Running) -> None:
    with server.client(server.worker_key()) as worker:
        for body in (
            {"kinds": ["x"] * 257},
            {"kinds": ["x" * 65]},
            {"kinds": ["de\0mo"]},
        ):
            assert worker.post("/worker/hello", json=body).status_code == 422, body
        # What is only shown is cut and cleaned.
        shown = {"metadata": {"x": "y" * 11_000}, "capabilities": ["\0", "z" * 11_000]}
        assert worker.post("/worker/hello", json={"kinds": ["demo"], **shown}).status_code == 200
    with server.client() as admin:
        [told] = [
            each for each in admin.get("/workers").json()["items"] if each["kinds"] == ["demo"]
        ]
    assert len(str(told["metadata"])) + len(str(told["capabilities"])) < 12_000
    assert "\0" not in str(told["capabilities"])
