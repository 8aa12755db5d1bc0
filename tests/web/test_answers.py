"""What every answer carries, and what no page lets through."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from running import Running
from rushes.web.api import settings as settings_api
from web import library


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
            assert page.text.count("</title>") == 1
            assert "<script>" not in page.text
            assert "onerror=alert(1)>" not in page.text
            assert "&lt;" in page.text or payload == "{{7*7}}"


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
        ("GET", f"{server.url}/v1/models", {}),
        ("GET", f"{server.url}/v1/nothing", {}),
        ("GET", f"{server.url}/v1/models/%00", {}),
        ("POST", f"{server.url}/v1/audio/transcriptions", {}),
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
