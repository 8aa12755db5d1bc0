"""Clients that mean harm: too slow, too large, malformed, or asking for what is not theirs."""

from __future__ import annotations

import email.message
import hashlib
import json
import os
import resource
import socket
import string
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from running import ADMIN_TOKEN, Running
from rushes.protocol import Hello
from rushes.web import guard, ranges
from rushes.web.api import settings as settings_api
from rushes.web.connection import HEADER_BYTES, Connection
from web import library
from web.cast import FORM, Cast, Props, Route, routes

CANARY = b"canary: the host's own file"
SIGNED = f"Authorization: Bearer {ADMIN_TOKEN}\r\n".encode()
PATIENCE_SECONDS = 20


# Raw requests


@contextmanager
def line_to(running: Running) -> Iterator[socket.socket]:
    address = ("127.0.0.1", running.settings.port)
    with socket.create_connection(address, PATIENCE_SECONDS) as line:
        yield line


def heard(line: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    found = b""
    try:
        while chunk := line.recv(65536):
            found += chunk
    except ConnectionResetError:
        pass
    return found


def ask(running: Running, request: bytes) -> bytes:
    with line_to(running) as line:
        with suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(request)
        return heard(line)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def get(path: bytes, headers: bytes = b"", method: bytes = b"GET") -> bytes:
    start = method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    return start + SIGNED + headers + b"\r\n"


def is_well(running: Running) -> bool:
    with running.client(None, base_url=running.url) as somebody:
        return somebody.get("/livez").status_code == 200


# Too slow


@pytest.fixture
def impatient(server: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(Connection, "header_seconds", 0.3)
    monkeypatch.setattr(guard, "SILENCE_SECONDS", 0.3)
    return server


@pytest.mark.parametrize("begin", [b"", b"GET", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: "])
def test_headers_that_stop_coming_end_the_connection(impatient: Running, begin: bytes) -> None:
    assert status(ask(impatient, begin)) == 408


def test_headers_that_come_byte_by_byte_end_it_too(impatient: Running) -> None:
    with line_to(impatient) as line:
        line.sendall(b"GET / HTTP/1.1\r\nX: ")
        drip(line)
        assert status(heard(line)) == 408


def drip(line: socket.socket) -> None:
    """A byte now and then, until the other side has enough of it."""
    line.settimeout(0.02)
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            line.send(b"x")
            if line.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
        except OSError:
            break
    line.settimeout(PATIENCE_SECONDS)


def test_the_second_request_of_a_connection_has_no_more_time(impatient: Running) -> None:
    with line_to(impatient) as line:
        line.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status(line.recv(65536)) == 200
        line.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        assert status(heard(line)) == 408


POST = b"POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + SIGNED


def test_a_body_that_stops_coming_is_not_waited_for(impatient: Running) -> None:
    answer = ask(impatient, POST + b'Content-Length: 1000\r\n\r\n{"name":')
    assert status(answer) == 408
    assert b'"too_slow"' in answer
    chunked = ask(impatient, POST + b'Transfer-Encoding: chunked\r\n\r\n8\r\n{"name":\r\n')
    assert status(chunked) == 408


def test_a_body_that_comes_byte_by_byte_is_not_waited_for(impatient: Running) -> None:
    with line_to(impatient) as line:
        line.sendall(POST + b"Content-Length: 100000\r\n\r\n")
        drip(line)
        assert status(heard(line)) == 408


def test_who_was_answered_cannot_go_on_sending_for_ever(impatient: Running) -> None:
    """A route without a body answers before the body has come."""
    request = get(b"/livez", b"Content-Length: 100000\r\n").replace(b"Connection: close\r\n", b"")
    with line_to(impatient) as line:
        line.sendall(request)
        assert status(line.recv(65536)) == 200
        until = time.monotonic() + PATIENCE_SECONDS
        with pytest.raises(OSError):
            while time.monotonic() < until:
                line.sendall(b"x")
                time.sleep(0.02)


def test_many_idle_connections_keep_nobody_out(server: Running) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    with ExitStack() as stack:
        for number in range(500):
            line = stack.enter_context(line_to(server))
            if number % 2:
                line.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert is_well(server)
        with server.client() as admin:
            assert admin.get("/media").status_code == 200
    assert is_well(server)


# Too large


@pytest.mark.parametrize(
    "headers",
    [
        b"X: " + b"x" * HEADER_BYTES + b"\r\n",
        b"".join(b"X-%d: %s\r\n" % (n, b"x" * 100) for n in range(400)),
        b"x:\r\n" * 20_000,
        b"Cookie: rushes_session=" + b"x" * 100_000 + b"\r\n",
    ],
    ids=["one", "many", "tiny ones", "a cookie"],
)
def test_headers_have_a_limit(server: Running, headers: bytes) -> None:
    answer = ask(server, get(b"/livez", headers))
    assert status(answer) == 431
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "headers_too_large"
    assert status(ask(server, get(b"/livez?" + b"x" * 40_000))) == 431
    assert status(ask(server, get(b"/livez", b"X: " + b"x" * 20_000 + b"\r\n"))) == 200


def endless(begin: bytes, more: bytes) -> Iterator[bytes]:
    yield begin
    # Far more than the limit, and far less than a machine's memory.
    for _ in range(256):
        yield more


def send_endlessly(running: Running, begin: bytes, more: bytes) -> tuple[int, bytes]:
    """How much was taken before the server hung up, and what it said."""
    taken = 0
    with line_to(running) as line:
        try:
            for part in endless(begin, more):
                line.sendall(part)
                taken += len(part)
        except OSError:
            pass
        try:
            return taken, heard(line)
        except OSError:
            return taken, b""


CHUNKED = get(b"/livez", b"Transfer-Encoding: chunked\r\n", b"POST")
READ = CHUNKED.replace(b"/livez", b"/api/v1/tokens")


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET / HTTP/1.1\r\n", b"X: " + b"x" * 65536 + b"\r\n"),
        (b"GET / HTTP/1.1\r\nX: ", b"x" * 65536),
        (b"GET /", b"x" * 65536),
        (READ + b"0\r\n", b"X: " + b"x" * 65536 + b"\r\n"),
        (READ + b"0\r\nX: ", b"x" * 65536),
        (READ + b"1;x=", b"x" * 65536),
        (CHUNKED + b"0\r\n", b"X: " + b"x" * 65536 + b"\r\n"),
    ],
    ids=["headers", "value", "url", "trailers", "trailer", "extension", "after the answer"],
)
def test_what_never_ends_is_ended(server: Running, begin: bytes, more: bytes) -> None:
    taken, answer = send_endlessly(server, begin, more)
    # What the kernel's buffers hold counts as taken.
    assert taken < 256 * len(more)
    assert status(answer) in (0, 400, 404, 405, 431)
    assert is_well(server)


def bodies(running: Running) -> list[Route]:
    """The routes that read JSON."""
    document = httpx2.get(f"{running.url}/api/v1/openapi.json").json()
    return [
        each
        for each in routes(running)
        if "application/json"
        in document["paths"]
        .get(each.path.replace(":path}", "}"), {})
        .get(each.method.lower(), {})
        .get("requestBody", {})
        .get("content", {})
    ]


def filled(route: Route) -> bytes:
    path = route.path
    for part in [each for each in path.split("/") if "{" in each]:
        path = path.replace(part, "xyz_1")
    return path.encode()


def test_json_bodies_have_a_limit_however_they_come(server: Running) -> None:
    wrong, size = [], guard.BODY_LIMIT_BYTES + 1
    body = b'{"name": "' + b"x" * (size - 12) + b'"}'
    found = bodies(server)
    assert len(found) > 20
    for route in found:
        length = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % size
        chunked = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n" % size
        start = route.method.encode(), filled(route)
        for headers, content in (
            (length, body),
            (form, body),
            (chunked, b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)),
        ):
            answer = ask(server, get(start[1], headers, start[0]) + content)
            if status(answer) != 413 or b'"too_large"' not in answer:
                wrong.append(f"{route} answers {answer[:300]!r} to {headers!r}")
    assert not wrong, "\n".join(wrong)


def test_only_a_worker_may_send_a_long_report(server: Running) -> None:
    report = {"job_id": "job_1", "claim_id": "clm_1", "result": "x" * 2 * guard.BODY_LIMIT_BYTES}
    with server.client(server.worker_key()) as worker:
        assert worker.post("/worker/complete", json=report).status_code == 409
        report["result"] = "x" * (guard.REPORT_LIMIT_BYTES + 1)
        assert worker.post("/worker/complete", json=report).status_code == 413
    with server.client() as admin, server.client(None) as nobody:
        assert admin.post("/worker/complete", json=report).status_code == 413
        assert nobody.post("/worker/complete", json=report).status_code == 413


# Malformed


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4, 5\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: 0x4\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length: four\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Content-Length : 4\r\n",
        b" Content-Length: 4\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"X: a\x00b\r\n",
        b"X\x00: b\r\n",
        b"X: a\rb\r\n",
    ],
)
def test_requests_that_two_readers_would_cut_differently_are_refused(
    server: Running, headers: bytes
) -> None:
    smuggled = b"0\r\n\r\nGET /api/v1/settings HTTP/1.1\r\nHost: x\r\n" + SIGNED + b"\r\n"
    answer = ask(server, get(b"/api/v1/tokens", headers, b"POST") + smuggled)
    assert status(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1
    assert is_well(server)


def test_a_length_that_lies_is_no_way_in(server: Running) -> None:
    body = b'{"name": "x"}'
    short = POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    with line_to(server) as line:
        line.sendall(short + b"GARBAGE\r\n\r\n")
        answer = heard(line)
    assert b"HTTP/1.1 400" in answer
    with line_to(server) as line:
        line.sendall(POST + b"Content-Length: 1000\r\n\r\n" + body)
        line.shutdown(socket.SHUT_WR)
        assert status(heard(line)) in (0, 400)
    assert is_well(server)


def test_what_comes_after_a_body_is_no_header(server: Running) -> None:
    """Whoever looked at the headers on the way has not seen it."""
    start = b"POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    kind = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b'd\r\n{"name": "x"}\r\n0\r\n' + SIGNED + b"\r\n"
    assert status(ask(server, start + kind + body)) == 401


ODD_REQUESTS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"get / http/1.1\r\n\r\n",
    b"G\xffT / HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET http://[/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET //evil.example/%2e%2e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"TRACE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"\r\n\r\n\r\n",
    b"\x00" * 1000,
]


@pytest.mark.parametrize("request_bytes", ODD_REQUESTS, ids=range(len(ODD_REQUESTS)))
def test_odd_requests_break_nothing(impatient: Running, request_bytes: bytes) -> None:
    answer = ask(impatient, request_bytes)
    assert status(answer) < 500
    assert b"Traceback" not in answer
    assert is_well(impatient)


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


DEEP = 10**6
ODD_JSON = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "not json": b"{",
    "not utf-8": b'{"name": "\xff"}',
    "deep lists": b"[" * DEEP,
    "deep lists, closed": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"name":' * 100_000 + b"1" + b"}" * 100_000,
    "just too deep": b'{"name":' * 500 + b"1" + b"}" * 500,
    "a long number": b'{"name": ' + b"9" * 100_000 + b"}",
    "many keys": b"{" + b",".join(b'"%d":1' % n for n in range(50_000)) + b"}",
}
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
    cast = Cast(server)
    wrong = []
    for route in bodies(server):
        client = cast.clients["worker" if route.role == "worker" else "admin"]
        for name, body in ODD_JSON.items():
            call = (route.method, filled(route).decode())
            headers = {"Content-Type": "application/json", "Rushes-Claim": "x"}
            answer = client.request(*call, content=body, headers=headers)
            if not (answer.status_code < 500 and is_problem_or_fine(answer)):
                wrong.append(f"{route} answers {answer.status_code} to {name}")
    cast.close()
    assert not wrong, "\n".join(wrong)


def is_problem_or_fine(answer: httpx2.Response) -> bool:
    kind = answer.headers.get("content-type", "")
    return answer.is_success or kind == "application/problem+json"


def test_odd_values_in_any_field_are_never_a_surprise(either_server: Running) -> None:
    """Each field of each body in turn, the others as they should be."""
    cast = Cast(either_server)
    document = httpx2.get(f"{either_server.url}/api/v1/openapi.json").json()
    wrong = []
    for route in bodies(either_server):
        client = cast.clients["worker" if route.role == "worker" else "admin"]
        for field, (name, value) in product(fields(document, route), ODD_VALUES.items()):
            call = cast.props.call(route)
            body = {**call.options.get("json", {}), field: value}
            sent = json.dumps(body).encode()
            headers = {**call.options.get("headers", {}), "Content-Type": "application/json"}
            answer = client.request(call.method, call.path, content=sent, headers=headers)
            if answer.status_code >= 500:
                wrong.append(f"{route} answers {answer.status_code} to {field} = {name}")
    looks = [client.get(f"/api/v1/{each}") for each in ("jobs", "workers", "users", "media")]
    assert [each.status_code for each in looks if each.status_code >= 500] == []
    cast.close()
    assert not wrong, "\n".join(wrong)


def fields(document: dict[str, Any], route: Route) -> list[str]:
    operation = document["paths"][route.path.replace(":path}", "}")][route.method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return [*schema.get("properties", {}), "unknown"]


def test_what_a_worker_says_can_be_read_whatever_it_is(either_server: Running) -> None:
    """A handler's words reach readers' eyes: odd ones must not close these."""
    cast = Cast(either_server)
    for name, value in ODD_VALUES.items():
        job_id, claim_id = cast.props.claim()
        held = {"job_id": job_id, "claim_id": claim_id}
        for more in (
            {"detail": {"renditions": [{"name": value, "odd": value}], "speed": value}},
            {"detail": {"renditions": value, "eta_seconds": value}},
            {"checkpoint": value},
            {"stage": value if isinstance(value, str) else "x"},
        ):
            sent = json.dumps({**held, **more}).encode()
            headers = {"Content-Type": "application/json"}
            said = cast.clients["worker"].post(
                "/api/v1/worker/progress", content=sent, headers=headers
            )
            assert said.status_code in (200, 422), f"{name}: {said.text}"
        done = json.dumps({**held, "result": value}).encode()
        cast.clients["worker"].post("/api/v1/worker/complete", content=done, headers=headers)
        assert cast.clients["admin"].get(f"/api/v1/jobs/{job_id}").status_code == 200
    assert cast.clients["admin"].get("/api/v1/jobs").status_code == 200
    cast.close()


def test_nul_and_half_characters_in_addresses_find_nothing(either_server: Running) -> None:
    cast = Cast(either_server)
    wrong = []
    for route in routes(either_server):
        client = cast.clients["worker" if route.role == "worker" else "admin"]
        for odd in ("%00", "a%00b", "%ed%a0%80", "%ff", "%F4%90%80%80", "%c0%ae", "'\"\\"):
            path = route.path
            for part in [each for each in path.split("/") if "{" in each]:
                path = path.replace(part, odd)
            options = Props.call(cast.props, route).options if route.role == "worker" else {}
            for address in {path, f"{route.path.split('{')[0].rstrip('/') or '/'}?q={odd}"}:
                if route.key.startswith(("GET /events", "GET /s/")) and "?" in address:
                    continue
                answer = client.request(route.method, address, **{**options, "content": b""})
                if answer.status_code >= 500:
                    wrong.append(f"{route.method} {address} answers {answer.status_code}")
    for name, odd in product(("kind", "media_id", "user_id", "error_code", "worker_id"), ("%00",)):
        answer = cast.clients["admin"].get(f"/api/v1/jobs?{name}={odd}")
        if answer.status_code != 422:
            wrong.append(f"jobs?{name}={odd} answers {answer.status_code}")
    cast.close()
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


# Asking for what is not there


DOTS = ["..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "%c0%ae%c0%ae", "%u002e%u002e", "..%00"]
SLASHES = ["/", "%2f", "%5c", "\\", "%252f", "%c0%af", "//", "/./"]
TRAVERSALS = [
    *(f"{(dots + slash) * 8}TARGET" for dots, slash in product(DOTS, SLASHES)),
    "/TARGET",
    "%2fTARGET",
    "file:///TARGET",
    "720p/../../../../TARGET",
    "720p%2f..%2f..%2f..%2fTARGET",
    "....//....//....//TARGET",
    "..;/..;/TARGET",
    "~/TARGET",
    "TARGET%00.m4s",
    "TARGET%0a.m4s",
    "C:\\TARGET",
    "\\\\host\\TARGET",
    "ver_1/../../TARGET",
    "ver_1/%2e%2e/%2e%2e/TARGET",
]


def test_no_spelling_of_a_path_leads_out(server: Running) -> None:
    secret = server.settings.data_dir / "secret.m4s"
    secret.write_bytes(CANARY)
    cast = Cast(server)
    media_id, share = cast.props.published("ada"), cast.props.share_token("ada")
    job_id, claim_id = cast.props.claim()
    inside = str(secret).lstrip("/")
    targets = [inside, "secret.m4s", "etc/passwd"]
    prefixes = [
        f"/api/v1/media/{media_id}/stream/",
        f"/s/{share}/stream/",
        "/api/v1/media/",
        "/s/",
        f"/api/v1/media/{media_id}/",
    ]
    assert len(TRAVERSALS) >= 40
    for prefix, shape, target in product(prefixes, TRAVERSALS, targets):
        path = (prefix + shape.replace("TARGET", target)).encode()
        answer = ask(server, get(path))
        assert 400 <= status(answer) < 500, (path, answer[:200])
        assert CANARY not in answer
        assert b"root:" not in answer
    before = {each for each in server.settings.data_dir.rglob("*") if each.is_file()}
    key = cast.clients["worker"].headers["authorization"].encode()
    digest = hashlib.sha256(b"evil").hexdigest().encode()
    for shape in TRAVERSALS:
        path = f"/api/v1/worker/artifacts/{job_id}/{shape.replace('TARGET', 'evil.txt')}".encode()
        headers = b"Authorization: %s\r\nRushes-Claim: %s\r\n" % (key, claim_id.encode())
        headers += b"Rushes-SHA256: %s\r\nContent-Length: 4\r\n" % digest
        request = get(path, headers, b"PUT").replace(SIGNED, b"", 1) + b"evil"
        answer = ask(server, request)
        assert 400 <= status(answer) < 500, (path, answer[:200])
    cast.close()
    after = {each for each in server.settings.data_dir.rglob("*") if each.is_file()}
    assert not [each for each in after - before if b"evil" in each.read_bytes()]


@pytest.fixture
def shown(server: Running) -> Iterator[tuple[Running, httpx2.Client, str, Path]]:
    """A published file, by its address and where it lies."""
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        library.publish(server, media_id, {"720p/a.m4s": b"x" * 1000})
        with server.rushes.db.read() as tx:
            [row] = tx.all("SELECT key FROM artifacts")
        path = server.rushes.storage.local_path(row["key"])
        assert path is not None
        yield server, admin, f"/media/{media_id}/stream/720p/a.m4s", path


def test_a_link_that_was_planted_is_not_followed(
    shown: tuple[Running, httpx2.Client, str, Path],
) -> None:
    server, admin, address, path = shown
    secret = server.settings.data_dir / "secret"
    secret.write_bytes(CANARY)
    path.unlink()
    path.symlink_to(secret)
    refused = admin.get(address)
    assert 400 <= refused.status_code < 500
    assert CANARY not in refused.content
    path.unlink()
    os.mkfifo(path)
    assert 400 <= admin.get(address).status_code < 500
    path.unlink()
    path.mkdir()
    assert 400 <= admin.get(address).status_code < 500
    path.rmdir()
    folder = path.parent
    elsewhere = server.settings.data_dir / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / path.name).write_bytes(CANARY)
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(elsewhere)
    refused = admin.get(address)
    assert 400 <= refused.status_code < 500
    assert CANARY not in refused.content


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-1,2-3", 200),
        ("bytes=" + ",".join(f"{n}-{n}" for n in range(4000)), 200),
        ("bytes=" + ",".join(["0-"] * 8000), 200),
        ("bytes=0-" + "9" * 5000, 200),
        ("bytes=-1", 206),
        ("bytes=-0", 416),
        ("bytes=--1", 200),
        ("bytes=-1-", 200),
        ("bytes=9223372036854775808-", 416),
        ("bytes=0-9223372036854775808", 206),
        ("bytes=18446744073709551616-18446744073709551617", 200),
        ("bytes=5-1", 416),
        ("bytes=-", 200),
        ("bytes=", 200),
        ("bytes=a-b", 200),
        ("bytes=1 - 2", 206),
        ("BYTES=0-1", 200),
        ("items=0-1", 200),
    ],
)
def test_a_range_costs_no_more_than_one_look(
    shown: tuple[Running, httpx2.Client, str, Path], asked: str, expected: int
) -> None:
    _, admin, address, _ = shown
    answer = admin.get(address, headers={"Range": asked})
    assert answer.status_code == expected
    assert len(answer.content) <= 1000 or expected == 416
    head = admin.head(address, headers={"Range": asked})
    assert (head.status_code, head.headers["content-length"]) == (200, "1000")


@pytest.mark.parametrize("condition", ['"other"', 'W/"x"', "*", "", "x" * 5000, "Mon, 01 Jan 2024"])
def test_a_part_is_a_part_of_the_same_file(
    shown: tuple[Running, httpx2.Client, str, Path], condition: str
) -> None:
    _, admin, address, _ = shown
    headers = {"Range": "bytes=0-9", "If-Range": condition}
    assert admin.get(address, headers=headers).status_code == 200


def test_who_leaves_in_the_middle_leaves_nothing_open(
    shown: tuple[Running, httpx2.Client, str, Path],
) -> None:
    server, admin, address, path = shown
    large = b"x" * 20_000_000
    path.write_bytes(large)
    with server.rushes.db.begin() as tx:
        tx.all("UPDATE artifacts SET size_bytes = :size", size=len(large))
    admin.get("/media")
    before = open_files(path)
    for number in range(60):
        with line_to(server) as line:
            line.sendall(get(f"/api/v1{address}".encode()))
            if number % 2:
                line.recv(1000)
            # Without a goodbye.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until = time.monotonic() + PATIENCE_SECONDS
    while open_files(path) > before and time.monotonic() < until:
        time.sleep(0.02)
    assert open_files(path) == before == 0
    assert is_well(server)


def open_files(path: Path) -> int:
    """How often this process has it open."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            count += each.readlink() == path
        except OSError:
            continue
    return count


# Names of files


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=400))
def test_any_file_name_is_one_header(name: str) -> None:
    header = ranges.attachment(name)
    header.encode("ascii")
    assert len(header) < 1000
    assert not set(header) & set("\r\n\0\x7f")
    message = email.message.Message()
    message["Content-Disposition"] = header
    plain = message.get_params(header="content-disposition")
    assert plain is not None
    assert [key for key, _ in plain] == ["attachment", "filename", "filename"] or len(plain) >= 2
    exact = header.partition("filename*=UTF-8''")[2]
    assert set(exact) <= set(string.ascii_letters + string.digits + "%-._~")


@pytest.mark.parametrize(
    "name",
    [
        'a"; filename="evil.html',
        "a\r\nSet-Cookie: rushes_session=x",
        "a\nX: y",
        "../../etc/passwd",
        "\u202egpj.exe",
        "é日本🎬.mp4",
        "x" * 5000 + ".mp4",
        "",
        ".",
        "a;b,c=d",
        "%0d%0aX: y",
        "nul\0.mp4",
        "'`$(id)`'",
        "-rf",
    ],
)
def test_a_hostile_file_name_stays_a_name(server: Running, name: str) -> None:
    content = FORM["file"][1]
    with server.client() as admin:
        disposition = f'form-data; name="file"; filename="{quote(name, safe="")}"'
        sent = {"file": (name, content, "video/mp4")}
        made = admin.post("/media", files=sent)
        assert made.status_code in (201, 422), disposition
        if made.status_code == 422:
            return
        item = made.json()
        source = admin.get(f"/media/{item['id']}/source")
        assert source.content == content
        assert source.headers["content-type"] == "application/octet-stream"
        header = source.headers["content-disposition"]
        assert header.startswith('attachment; filename="')
        assert "set-cookie" not in source.headers
        assert "x" not in {key.lower() for key in source.headers}
        assert "sandbox" in source.headers["content-security-policy"]
        assert not [char for char in item["title"] if ord(char) < 32]


def test_titles_are_text_on_every_page(server: Running) -> None:
    payloads = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "{{7*7}}",
        "</title>",
    ]
    with server.client() as admin, server.client(None, base_url=server.url) as anybody:
        for payload in payloads:
            media_id = library.add(server, library.user_id(admin), payload)
            url = admin.post(f"/media/{media_id}/share").json()["share_url"]
            page = anybody.get(f"/s/{url.rpartition('/')[2]}")
            assert page.headers["content-type"].startswith("text/html")
            assert payload not in page.text or payload == "{{7*7}}"
            assert "<script" not in page.text
            assert "onerror=alert(1)>" not in page.text
            assert "&lt;" in page.text or payload == "{{7*7}}"


# On every answer


def answers_of_every_kind(server: Running, admin: httpx2.Client) -> Iterator[httpx2.Response]:
    media_id = library.add(server, library.user_id(admin))
    library.publish(server, media_id, {"master.m3u8": b"#EXTM3U\n", "a.m4s": b"segment"})
    share = admin.post(f"/media/{media_id}/share").json()["share_url"].rpartition("/")[2]
    base = f"{server.url}/api/v1"
    looks: list[tuple[str, str, dict[str, str]]] = [
        ("GET", f"{base}/media", {}),
        ("GET", f"{server.url}/", {}),
        ("GET", f"{server.url}/sign-in", {}),
        ("GET", f"{server.url}/sign-in?token=wrong", {}),
        ("GET", f"{server.url}/s/{share}", {}),
        ("GET", f"{server.url}/s/{share}/media", {}),
        ("GET", f"{base}/media/{media_id}/stream/master.m3u8", {}),
        ("GET", f"{base}/media/{media_id}/stream/a.m4s", {}),
        ("HEAD", f"{base}/media/{media_id}/stream/a.m4s", {}),
        ("GET", f"{base}/media/{media_id}/stream/a.m4s", {"Range": "bytes=0-1"}),
        ("GET", f"{base}/media/{media_id}/stream/a.m4s", {"Range": "bytes=99-"}),
        ("GET", f"{base}/media/{media_id}/source", {}),
        ("GET", f"{base}/openapi.json", {}),
        ("GET", f"{server.url}/metrics", {}),
        ("GET", f"{base}/nothing", {}),
        ("GET", f"{server.url}/nothing", {}),
        ("PUT", f"{base}/media", {}),
        ("GET", f"{base}/media?limit=0", {}),
        ("GET", f"{base}/media/%00", {}),
        ("OPTIONS", f"{base}/uploads", {}),
        ("OPTIONS", f"{base}/media", {}),
    ]
    for method, address, headers in looks:
        yield admin.request(method, address, headers=headers)
    yield httpx2.get(f"{base}/media")
    yield admin.post(f"{base}/tokens", content=b"x" * 2_000_000)
    with admin.stream("GET", f"{base}/events") as stream:
        yield stream


def test_every_answer_carries_the_security_headers(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(f"a secret place: {server.settings.data_dir}")

    with server.client() as admin:
        for answer in answers_of_every_kind(server, admin):
            check_headers(answer)
        monkeypatch.setattr(settings_api, "_shown", broken)
        unexpected = admin.get("/settings")
        assert (unexpected.status_code, unexpected.json()["code"]) == (500, "internal_error")
        assert unexpected.json()["request_id"] == unexpected.headers["x-request-id"]
        check_headers(unexpected)
    with server.client(None) as browser:
        assert browser.get("/session").headers["cache-control"] == "no-store"


def check_headers(answer: httpx2.Response) -> None:
    headers, where = answer.headers, f"{answer.request.method} {answer.request.url}"
    policy = headers["content-security-policy"]
    assert "'unsafe" not in policy, where
    assert "default-src 'self'" in policy or policy == "sandbox; default-src 'none'", where
    assert "frame-ancestors 'none'" in policy or "sandbox" in policy, where
    assert headers["x-content-type-options"] == "nosniff", where
    assert headers["x-frame-options"] == "DENY", where
    assert headers["referrer-policy"] == "no-referrer", where
    assert headers["cross-origin-resource-policy"] == "same-origin", where
    assert headers["cross-origin-opener-policy"] == "same-origin", where
    assert "x-request-id" in headers, where
    assert "server" not in headers, where
    assert "access-control-allow-origin" not in headers, where
    is_file = "/stream/" in answer.request.url.path
    assert is_file or headers["cache-control"] == "no-store", where


def test_a_worker_cannot_grow_without_bounds_by_saying_hello(server: Running) -> None:
    with server.client(server.worker_key()) as worker:
        for body in (
            {"kinds": ["x"] * 257},
            {"kinds": ["x" * 65]},
            {"kinds": ["demo"], "metadata": {"x": "y" * 11_000}},
            {"kinds": ["de\0mo"]},
            {"kinds": ["demo"], "capabilities": ["\0"]},
        ):
            assert worker.post("/worker/hello", json=body).status_code == 422
        assert worker.post("/worker/hello", json={"kinds": ["demo"]}).status_code == 200
    assert Hello(kinds=["demo"]).kinds == ["demo"]


def test_a_stranger_costs_no_password_hashing_beyond_the_limit(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rushes.accounts import access

    server, hashed, verify = serve(), [], access._verify

    def counted(password: str, hash: str | None) -> bool:
        hashed.append(hash)
        return verify(password, hash)

    monkeypatch.setattr(access, "_verify", counted)
    with server.client(None) as stranger:
        for _ in range(12):
            stranger.post("/session", json={"name": "ada", "password": "wrong password"})
    assert len(hashed) == 6
