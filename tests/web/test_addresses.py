"""Addresses that are given to people work where they are used."""

from __future__ import annotations

import pytest

from running import Running
from rushes.settings import Settings
from rushes.web import addresses
from web import library


@pytest.fixture(autouse=True)
def in_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "lan", lambda: "192.168.7.20")


def asked_at(address: str | None, **given: object) -> str:
    token = addresses.used.set(address)
    try:
        return addresses.public(Settings(**given))  # type: ignore[arg-type]
    finally:
        addresses.used.reset(token)


@pytest.mark.parametrize(
    ("host", "asked", "told"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8484"),
        ("127.0.0.1", "http://localhost:8484", "http://localhost:8484"),
        # A proxy that somebody has put in front without telling us.
        ("127.0.0.1", "https://films.example", "https://films.example"),
        ("0.0.0.0", None, "http://192.168.7.20:8484"),
        ("0.0.0.0", "http://127.0.0.1:8484", "http://192.168.7.20:8484"),
        ("0.0.0.0", "http://0.0.0.0:8484", "http://192.168.7.20:8484"),
        ("0.0.0.0", "http://nas.local:8484", "http://nas.local:8484"),
        ("::", "http://[::1]:8484", "http://192.168.7.20:8484"),
        ("::", "http://[fd00::5]:8484", "http://[fd00::5]:8484"),
        ("::1", None, "http://[::1]:8484"),
        ("192.168.7.21", None, "http://192.168.7.21:8484"),
    ],
)
def test_what_is_told_is_what_was_used_or_what_others_can_use(
    host: str, asked: str | None, told: str
) -> None:
    assert asked_at(asked, host=host) == told
    assert asked_at(asked, host=host, base_url="https://set.example/") == "https://set.example"


def test_without_a_network_it_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "lan", lambda: None)
    assert asked_at("http://localhost:8484", host="0.0.0.0") == "http://127.0.0.1:8484"


def test_whoever_opens_the_server_to_a_network_hears_of_tls() -> None:
    lines = list(addresses.greeting(Settings(host="0.0.0.0")))
    assert lines[:2] == [
        "Rushes is running at http://192.168.7.20:8484",
        "On this machine: http://127.0.0.1:8484",
    ]
    assert "no TLS" in lines[2]
    assert "RUSHES_BASE_URL=https://" in lines[2]
    for calm in (Settings(), Settings(host="0.0.0.0", base_url="https://films.example")):
        [line] = addresses.greeting(calm)
        assert line.startswith("Rushes is running at ")


def test_a_camera_can_read_the_link() -> None:
    drawn = addresses.qr_code(["Sign in once with http://x/sign-in?token=abc"], Settings())
    assert len(drawn.splitlines()) > 10
    assert drawn != addresses.qr_code([], Settings())


def test_links_to_share_sign_in_and_join_lead_to_where_they_were_asked_for(
    server: Running,
) -> None:
    asked = {"Host": "nas.local:9000"}
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        shared = admin.post(f"/media/{media_id}/share", headers=asked).json()
        assert shared["share_url"].startswith("http://nas.local:9000/s/")
        joined = admin.post("/workers/invite", json={"name": "attic"}, headers=asked).json()
        assert "--server http://nas.local:9000 " in joined["command"]
        there = {"Upload-Length": "10", "Tus-Resumable": "1.0.0", **asked}
        upload = admin.post("/uploads", headers=there)
        assert upload.headers["location"].startswith("http://nas.local:9000/api/v1/uploads/")
        # Who asks elsewhere is told elsewhere.
        again = admin.get(f"/media/{media_id}").json()
        assert again["share_url"].startswith(server.url)


def test_a_mistyped_address_is_a_page_for_people_and_a_problem_for_programs(
    server: Running,
) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with server.client(None, base_url=server.url) as visitor:
        missing = visitor.get("/libary", headers=browser)
        assert missing.status_code == 404
        assert missing.headers["content-type"].startswith("text/html")
        assert '<div id="app">' in missing.text
        assert visitor.get("/libary").json()["code"] == "not_found"
        for path in ("/api/v1/nothing", "/v1/nothing", "/api/nothing"):
            answer = visitor.get(path, headers=browser)
            assert (answer.status_code, "html" in answer.headers["content-type"]) == (404, False)
        assert visitor.post("/libary", headers=browser).headers["content-type"].endswith("json")
