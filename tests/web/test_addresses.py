"""Addresses that are given to people work where they are used."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from running import Running
from rushes.settings import Settings
from rushes.web.http import addresses
from web import library
from web.test_accounts import PASSWORD, add_user


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
    [line] = addresses.greeting(Settings(host="0.0.0.0", base_url="https://films.example"))
    assert line == "Rushes is running at https://films.example"


def test_who_is_alone_on_a_machine_hears_how_others_get_in() -> None:
    lines = list(addresses.greeting(Settings()))
    assert lines[0] == "Rushes is running at http://127.0.0.1:8484"
    assert "RUSHES_HOST=0.0.0.0" in lines[1]
    assert len(lines) == 2


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


FILMS = "https://films.example"


@pytest.mark.parametrize(
    ("base_url", "asked", "origin", "is_own"),
    [
        # At the address that was used, with its scheme and port.
        (None, "http://nas.local:8484", "http://nas.local:8484", True),
        (None, "http://nas.local:8484", "https://nas.local:8484", False),
        (None, "http://nas.local:8484", "http://nas.local", False),
        (None, "http://nas.local:8484", "http://nas.local:8485", False),
        (None, "http://NAS.local:80", "http://nas.local", True),
        (None, "https://nas.local", "https://nas.local:443", True),
        (None, "https://nas.local", "https://nas.local:80", False),
        (None, "http://[fd00::5]:8484", "http://[fd00::5]:8484", True),
        # A proxy with TLS that has told the scheme, and one that has not.
        (FILMS, FILMS, FILMS, True),
        (FILMS, "http://films.example", FILMS, True),
        (f"{FILMS}/", "http://films.example", FILMS, True),
        (FILMS, "http://films.example", "http://films.example", False),
        (FILMS, FILMS, "http://films.example", False),
        (FILMS, FILMS, "https://films.example.evil.example", False),
        (f"{FILMS}:8443", "http://films.example:8443", "http://films.example:8443", False),
        # Past the proxy, at an address of its own; and through one that hides the host.
        (FILMS, "http://192.168.7.20:8484", "http://192.168.7.20:8484", True),
        (FILMS, "http://192.168.7.20:8484", FILMS, True),
        ("http://films.example", FILMS, FILMS, True),
        # What is not an origin.
        (None, "http://nas.local", "null", False),
        (None, "http://nas.local", "", False),
        (None, "http://nas.local", "nas.local", False),
        (None, "http://nas.local", "http://nas.local/", False),
        (None, "http://nas.local", "http://nas.local/page", False),
        (None, "http://nas.local", "http://nas.local@nas.local", False),
        (None, "http://nas.local", "http://nas.local:x", False),
        (None, "http://nas.local:x", "http://nas.local:x", False),
        (None, None, "null", False),
    ],
)
def test_a_page_is_ours_by_scheme_host_and_port(
    base_url: str | None, asked: str | None, origin: str, is_own: bool
) -> None:
    token = addresses.used.set(asked)
    try:
        settings = Settings(base_url=base_url) if base_url else Settings()
        assert addresses.is_own(settings, origin) is is_own
    finally:
        addresses.used.reset(token)


@pytest.mark.parametrize("base_url", ["", FILMS])
def test_a_page_that_came_without_tls_changes_nothing_on_a_site_with_it(
    serve: Callable[..., Running], base_url: str
) -> None:
    """The tests' own address is that of a trusted proxy."""
    server = serve(base_url=base_url)
    server.url = f"http://127.0.0.1:{server.settings.port}"
    add_user(server)
    there = {"Host": "films.example", "X-Forwarded-Proto": "https"}
    with server.client(None) as browser:
        browser.headers.update(there)
        signed = browser.post("/session", json={"name": "ada", "password": PASSWORD})
        assert signed.status_code == 201
        cookie = {"Cookie": f"rushes_session={signed.cookies['rushes_session']}"}
        browser.cookies.clear()

        def write(origin: str) -> int:
            headers = {"Origin": origin, **cookie}
            return browser.post("/tokens", json={"name": "t"}, headers=headers).status_code

        assert [write(each) for each in (FILMS, f"{FILMS}:443")] == [201, 201]
        foreign = ("http://films.example", "null", f"{FILMS}:8484", f"{FILMS}.evil.example")
        assert [write(each) for each in foreign] == [403] * 4


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
