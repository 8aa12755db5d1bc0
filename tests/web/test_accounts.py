"""Signing in, staying in, and what a session or a token may do."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx2
import psycopg
import pytest

from running import ADMIN_SECRET, ADMIN_TOKEN, Running, real_hasher
from rushes import errors
from rushes.accounts import access
from rushes.clock import SystemClock
from rushes.web.http import sse
from web import library

PASSWORD = "correct horse battery"
WRONG = "incorrect horse battery"
QUARTER_HOUR = 15 * 60
SHIFTED = """CREATE OR REPLACE FUNCTION rushes_now() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + %d'"""


class ShiftedClock(SystemClock):
    def __init__(self, shift_ms: int) -> None:
        self.shift_ms = shift_ms

    def now(self) -> int:
        return super().now() + self.shift_ms


def pass_time(running: Running, seconds: float) -> None:
    """The database's clock is that much later from now on."""
    db, shift_ms = running.rushes.db, int(seconds * 1000)
    if db.dialect.name == "sqlite":
        db.clock = ShiftedClock(shift_ms)
    else:
        with psycopg.connect(db.conninfo, autocommit=True) as connection:
            connection.execute(SHIFTED % shift_ms)


def add_user(running: Running, name: str = "ada", **options: object) -> dict[str, str]:
    with running.client() as admin:
        made = admin.post("/users", json={"name": name, "password": PASSWORD, **options})
    assert made.status_code == 201, made.text
    found: dict[str, str] = made.json()
    return found


@contextmanager
def signed_in(running: Running, name: str = "ada") -> Iterator[httpx2.Client]:
    with running.client(None) as browser:
        assert sign_in(browser, name).status_code == 201
        yield browser


def sign_in(browser: httpx2.Client, name: str = "ada", password: str = PASSWORD) -> httpx2.Response:
    return browser.post("/session", json={"name": name, "password": password})


def new_token(client: httpx2.Client, *scopes: str, **options: object) -> httpx2.Response:
    return client.post("/tokens", json={"name": "t", "scopes": list(scopes), **options})


# Signing in


def test_a_link_signs_in_once(either_server: Running) -> None:
    with either_server.client() as admin:
        made = admin.post("/users", json={"name": "Ada"}).json()
    assert (made["name"], made["has_password"]) == ("ada", False)
    link = {"token": made["signin_url"].partition("token=")[2]}
    with either_server.client(None) as first, either_server.client(None) as second:
        assert first.post("/session/link", json=link).json()["name"] == "ada"
        assert first.get("/session").json()["role"] == "user"
        assert second.post("/session/link", json=link).status_code == 401
        assert second.get("/session").status_code == 401


def test_a_link_expires_after_a_day(either_server: Running) -> None:
    link = link_of(either_server, add_user(either_server)["id"])
    pass_time(either_server, 86_401)
    with either_server.client(None) as late:
        assert late.post("/session/link", json={"token": link}).status_code == 401


def test_a_link_ends_with_a_newer_one_a_password_and_a_disabled_user(
    either_server: Running,
) -> None:
    user = add_user(either_server)
    assert not user["signin_url"]
    older, newer = link_of(either_server, user["id"]), link_of(either_server, user["id"])
    with signed_in(either_server) as browser, either_server.client(None) as late:

        def follow(link: str) -> int:
            return late.post("/session/link", json={"token": link}).status_code

        assert follow(older) == 401
        new = {"password": "a much better password", "old_password": PASSWORD}
        assert browser.put("/session/password", json=new).status_code == 204
        assert follow(newer) == 401
        last = link_of(either_server, user["id"])
        with either_server.client() as admin:
            for disabled in (True, False):
                admin.patch(f"/users/{user['id']}", json={"disabled": disabled})
        assert follow(last) == 401
        assert follow(link_of(either_server, user["id"])) == 201


def test_another_site_cannot_use_a_link_for_somebody(server: Running) -> None:
    link = link_of(server, add_user(server)["id"])
    with server.client(None) as victim:
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            answer = victim.post("/session/link", json={"token": link}, headers=headers)
            assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
        assert victim.post("/session/link", json={"token": link}).status_code == 201


def link_of(running: Running, user_id: str) -> str:
    with running.client() as admin:
        made = admin.post(f"/users/{user_id}/link").json()
    return str(made["signin_url"].partition("token=")[2])


def test_a_password_signs_in_whatever_the_case_of_the_name(either_server: Running) -> None:
    add_user(either_server, "Zoë")
    with either_server.client(None) as browser:
        assert sign_in(browser, " ZOË ").status_code == 201
        assert browser.get("/session").json()["name"] == "zoë"
    with either_server.client(None) as browser:
        # The same letters, composed in another way.
        assert sign_in(browser, "ZOE\N{COMBINING DIAERESIS}").status_code == 201


def test_a_wrong_name_and_a_wrong_password_are_answered_alike(server: Running) -> None:
    add_user(server)
    with server.client() as admin:
        admin.post("/users", json={"name": "linked"})
        off = add_user(server, "off")["id"]
        admin.patch(f"/users/{off}", json={"disabled": True})
    with server.client(None) as browser:
        answers = [
            sign_in(browser, "ada", WRONG),
            sign_in(browser, "nobody", WRONG),
            sign_in(browser, "linked", WRONG),
            sign_in(browser, "off", PASSWORD),
        ]
    for each in answers:
        assert each.status_code == 401
        assert "set-cookie" not in each.headers
    said = [{**each.json(), "request_id": ""} for each in answers]
    assert all(each == said[0] for each in said)


def test_passwords_are_kept_as_argon2_and_bad_ones_refused(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_hasher", real_hasher)
    add_user(server)
    with server.rushes.db.read() as tx:
        [row] = tx.all("SELECT password_hash FROM users WHERE name = 'ada'")
    work = re.fullmatch(r"\$argon2id\$v=19\$m=(\d+),t=(\d+),p=\d+\$.*", row["password_hash"])
    assert work is not None
    assert (int(work[1]) >= 19 * 1024, int(work[2]) >= 2) == (True, True)
    with server.client() as admin:
        for bad in ("short", "password1234", "aaaaaaaaaaaaaaa", "x" * 129):
            answer = admin.post("/users", json={"name": "bob", "password": bad})
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == "password"
            assert bad not in answer.text


# Guessing


def test_six_failures_close_the_door_for_a_quarter_of_an_hour(either_server: Running) -> None:
    add_user(either_server)
    add_user(either_server, "bob")
    with either_server.client(None) as thief:
        assert [sign_in(thief, "ada", WRONG).status_code for _ in range(6)] == [401] * 6
        refused = sign_in(thief, "ada", PASSWORD)
        assert refused.status_code == 429
        assert refused.json()["code"] == "too_many_requests"
        assert int(refused.headers["retry-after"]) > 0
        assert sign_in(thief, "bob").status_code == 201
        pass_time(either_server, QUARTER_HOUR + 1)
        assert sign_in(thief, "ada").status_code == 201


def test_the_right_password_clears_the_count(server: Running) -> None:
    add_user(server)
    with server.client(None) as browser:
        for _ in range(3):
            assert [sign_in(browser, password=WRONG).status_code for _ in range(5)] == [401] * 5
            assert sign_in(browser).status_code == 201


def test_thirty_failures_from_one_address_close_it_for_every_name(either_server: Running) -> None:
    add_user(either_server)
    with either_server.client(None) as thief:
        tries = [sign_in(thief, f"name{n}", WRONG).status_code for n in range(31)]
        assert tries == [401] * 30 + [429]
        assert sign_in(thief).status_code == 429
        code = {"code": "AAAA-AAAA-AAAA-AAAA", "name": "x"}
        assert thief.post("/worker/join", json=code).status_code == 429
        pass_time(either_server, QUARTER_HOUR + 1)
        assert sign_in(thief).status_code == 201


def test_guesses_at_the_same_time_do_not_slip_through(either_server: Running) -> None:
    add_user(either_server)
    at_once = threading.Barrier(20)

    def guess(number: int) -> int:
        with either_server.client(None) as thief:
            at_once.wait()
            return sign_in(thief, "ada", f"{WRONG} {number}").status_code

    with ThreadPoolExecutor(20) as crowd:
        answers = list(crowd.map(guess, range(20)))
    assert set(answers) == {401, 429}
    assert answers.count(401) <= 6


def test_the_admin_secret_and_join_codes_cannot_be_guessed_on_and_on(server: Running) -> None:
    with server.client(None) as thief:
        for n in range(15):
            body, secret = {"name": "x"}, {"X-Admin-Secret": f"guess {n}"}
            assert thief.post("/worker/register", json=body, headers=secret).status_code == 401
            code = {"code": f"AAAA-AAAA-AAAA-AA{n:02}"}
            assert thief.post("/worker/join", json=code).status_code == 401
        right = {"X-Admin-Secret": ADMIN_SECRET}
        assert thief.post("/worker/register", json=body, headers=right).status_code == 429


def test_a_clients_word_about_its_address_is_not_taken(serve: Callable[..., Running]) -> None:
    server = serve(trusted_proxies="192.0.2.1")
    add_user(server)
    with server.client(None) as thief:
        for n in range(6):
            thief.headers["X-Forwarded-For"] = f"198.51.100.{n}"
            assert sign_in(thief, "ada", WRONG).status_code == 401
        thief.headers["X-Forwarded-For"] = "198.51.100.99"
        assert sign_in(thief, "ada", WRONG).status_code == 429


def test_a_trusted_proxys_word_is_taken_and_what_it_passes_on_is_not(
    serve: Callable[..., Running],
) -> None:
    server = serve(trusted_proxies="127.0.0.1")
    add_user(server)
    with server.client(None) as proxy:
        for n in range(6):
            # The last address is the one the proxy saw; the others are the client's own words.
            proxy.headers["X-Forwarded-For"] = f"198.51.100.{n}, 203.0.113.7"
            assert sign_in(proxy, "ada", WRONG).status_code == 401
        assert sign_in(proxy, "ada", WRONG).status_code == 429
        proxy.headers["X-Forwarded-For"] = "203.0.113.8"
        assert sign_in(proxy, "ada").status_code == 201


# Sessions


@pytest.mark.parametrize("base_url", ["http://rushes.example", "https://rushes.example"])
def test_the_cookie_is_for_this_site_and_not_for_scripts(
    serve: Callable[..., Running], base_url: str
) -> None:
    server = serve(base_url=base_url)
    server.url = f"http://127.0.0.1:{server.settings.port}"
    add_user(server)
    with server.client(None) as browser:
        answer = sign_in(browser)
    name, *flags = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert name.startswith("rushes_session=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(flags)
    assert ("Secure" in flags) == base_url.startswith("https")
    assert ("strict-transport-security" in answer.headers) == base_url.startswith("https")


def test_sessions_are_listed_and_can_be_ended(either_server: Running) -> None:
    add_user(either_server)
    with signed_in(either_server) as one, signed_in(either_server) as two:
        items = one.get("/sessions").json()["items"]
        assert [each["current"] for each in items].count(True) == 1
        other = next(each["id"] for each in items if not each["current"])
        assert one.delete(f"/sessions/{other}").status_code == 204
        assert two.get("/session").status_code == 401
        assert one.get("/session").status_code == 200
        assert one.delete(f"/sessions/{other}").status_code == 404


def test_signing_out_ends_the_session_and_takes_the_cookie_back(server: Running) -> None:
    add_user(server)
    with signed_in(server) as browser:
        cookie = browser.cookies["rushes_session"]
        answer = browser.delete("/session")
        assert answer.status_code == 204
        assert 'rushes_session=""' in answer.headers["set-cookie"]
        kept = {"Cookie": f"rushes_session={cookie}"}
        assert browser.get("/session", headers=kept).status_code == 401


def test_a_session_ends_by_itself(either_server: Running) -> None:
    add_user(either_server)
    with signed_in(either_server) as browser:
        pass_time(either_server, either_server.settings.session_duration - 60)
        assert browser.get("/session").status_code == 200
        pass_time(either_server, either_server.settings.session_duration + 1)
        assert browser.get("/session").status_code == 401


def test_a_new_password_ends_all_other_sessions(either_server: Running) -> None:
    add_user(either_server)
    new = {"password": "a much better password"}
    with signed_in(either_server) as one, signed_in(either_server) as two:
        assert one.put("/session/password", json=new).status_code == 401
        wrong = {**new, "old_password": WRONG}
        assert one.put("/session/password", json=wrong).status_code == 401
        right = {**new, "old_password": PASSWORD}
        assert one.put("/session/password", json=right).status_code == 204
        assert one.get("/session").status_code == 200
        assert two.get("/session").status_code == 401
        assert sign_in(two, password=PASSWORD).status_code == 401
        assert sign_in(two, password=new["password"]).status_code == 201


def test_a_token_cannot_become_a_password(server: Running) -> None:
    """Otherwise one that leaked, and was meant to do little, opens everything for ever."""
    with server.client() as admin:
        link = admin.post("/users", json={"name": "chief", "role": "admin"}).json()["signin_url"]
    with server.client(None) as browser:
        browser.post("/session/link", json={"token": link.partition("token=")[2]})
        narrow = new_token(browser, "write").json()["token"]
        with server.client(narrow) as script:
            answer = script.put("/session/password", json={"password": PASSWORD})
            assert answer.status_code == 403
        assert browser.put("/session/password", json={"password": PASSWORD}).status_code == 204


def test_no_way_to_set_a_password_takes_one_that_is_easy_to_guess(server: Running) -> None:
    add_user(server, "lovelace")
    with server.client() as admin, signed_in(server, "lovelace") as browser:
        added = admin.post("/users", json={"name": "babbage", "password": "babbage-1791-x"})
        change = {"password": "lovelace-1815-x", "old_password": PASSWORD}
        changed = browser.put("/session/password", json=change)
        for refused in (added, changed):
            assert refused.status_code == 422
            [problem] = refused.json()["errors"]
            assert problem["field"] == "password"
            assert "is too easy to guess: " in problem["message"]
        assert sign_in(browser, "lovelace").status_code == 201


# Other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://rushes.example"},
    ],
)
def test_another_sites_page_can_start_nothing(server: Running, headers: dict[str, str]) -> None:
    add_user(server)
    with signed_in(server) as browser:
        media_id = library.add(server, library.user_id(browser))
        writes: list[tuple[str, str, dict[str, object]]] = [
            ("POST", "/tokens", {"json": {"name": "t"}}),
            ("PATCH", f"/media/{media_id}", {"json": {"title": "Owned"}}),
            ("DELETE", f"/media/{media_id}", {}),
            ("POST", f"/media/{media_id}/share", {}),
            ("DELETE", "/session", {}),
        ]
        for method, path, options in writes:
            answer = browser.request(method, path, headers=headers, **options)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["code"]) == (403, "denied")
        plain = {**headers, "Content-Type": "text/plain"}
        form = browser.patch(f"/media/{media_id}", headers=plain, content=b'{"title": "Owned"}')
        assert form.status_code == 403
        assert sign_in_from(browser, headers).status_code == 403
        assert browser.get(f"/media/{media_id}").json()["title"] == "Holiday"
    with server.client() as script:
        # Nobody's browser sends a token along by itself.
        assert new_token(script, "read").status_code == 201
        made = script.post("/tokens", json={"name": "t", "scopes": ["read"]}, headers=headers)
        assert made.status_code == 201


def sign_in_from(browser: httpx2.Client, headers: dict[str, str]) -> httpx2.Response:
    body = {"name": "ada", "password": PASSWORD}
    return browser.post("/session", json=body, headers=headers)


def test_our_own_pages_and_programs_with_a_cookie_may_write(server: Running) -> None:
    add_user(server)
    with signed_in(server) as browser:
        for headers in (
            {},
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": server.url},
        ):
            made = browser.post("/tokens", json={"name": "t"}, headers=headers)
            assert made.status_code == 201


# Tokens


def test_a_token_may_do_what_its_scope_says_and_cannot_widen_it(either_server: Running) -> None:
    add_user(either_server, role="admin")
    with signed_in(either_server) as browser:
        made = {scope: new_token(browser, scope).json() for scope in ("read", "write", "admin")}
    assert made["read"]["token"].startswith("rushes_tok_")
    may = {"read": (403, 403), "write": (201, 403), "admin": (201, 201)}
    for scope, (token_status, user_status) in may.items():
        with either_server.client(made[scope]["token"]) as script:
            assert script.get("/session").json()["scope"] == scope
            assert script.get("/media").status_code == 200
            assert new_token(script, "read").status_code == token_status
            wider = new_token(script, "read", "admin").status_code
            assert wider == (201 if scope == "admin" else 403)
            user = script.post("/users", json={"name": f"by-{scope}"})
            assert user.status_code == user_status


def test_a_users_token_is_never_an_admins(server: Running) -> None:
    with server.user("ada") as ada:
        assert new_token(ada, "admin").status_code == 403
    add_user(server, "bob")
    with signed_in(server, "bob") as bob:
        assert new_token(bob, "admin").status_code == 403
        assert new_token(bob, "all").status_code == 422


def test_an_admins_narrow_token_sees_only_the_admins_own(server: Running) -> None:
    chief = add_user(server, "chief", role="admin")["id"]
    with server.user("ada") as ada, signed_in(server, "chief") as browser:
        hers = library.add(server, library.user_id(ada))
        his = library.add(server, chief)
        assert len(browser.get("/media").json()["items"]) == 2
        narrow = new_token(browser, "write").json()["token"]
    with server.client(narrow) as script:
        assert [each["id"] for each in script.get("/media").json()["items"]] == [his]
        assert script.delete(f"/media/{hers}").status_code == 404


def test_a_demoted_admins_token_is_a_users_at_once(either_server: Running) -> None:
    user_id = add_user(either_server, role="admin")["id"]
    with signed_in(either_server) as browser:
        token = new_token(browser, "admin").json()["token"]
        with either_server.client(token) as script, either_server.client() as admin:
            assert script.get("/users").status_code == 200
            assert admin.patch(f"/users/{user_id}", json={"role": "user"}).status_code == 200
            assert script.get("/users").status_code == 403
            assert browser.get("/users").status_code == 403
            assert script.get("/media").status_code == 200


def test_a_token_expires_and_can_be_revoked(either_server: Running) -> None:
    with either_server.user("ada") as ada:
        short = new_token(ada, "write", expires_seconds=3600).json()
        other = new_token(ada, "write").json()
        shown = {each["id"]: each for each in ada.get("/tokens").json()["items"]}
        assert shown[short["id"]]["expires_at"] is not None
        assert all("token" not in each for each in shown.values())
        with either_server.client(short["token"]) as script:
            assert script.get("/session").status_code == 200
            pass_time(either_server, 3601)
            assert script.get("/session").status_code == 401
        with either_server.client(other["token"]) as script:
            assert ada.delete(f"/tokens/{other['id']}").status_code == 204
            assert script.get("/session").status_code == 401
            assert ada.delete(f"/tokens/{other['id']}").status_code == 404


def test_a_token_cannot_make_one_that_outlives_it(server: Running) -> None:
    with server.user("ada") as ada:
        short = new_token(ada, "write", expires_seconds=3600).json()["token"]
    with server.client(short) as script:
        assert new_token(script, "write").status_code == 403
        assert new_token(script, "write", expires_seconds=7200).status_code == 403
        assert new_token(script, "write", expires_seconds=1800).status_code == 201


def test_no_key_is_kept_as_it_is(server: Running) -> None:
    add_user(server)
    with signed_in(server) as browser:
        token = new_token(browser, "write").json()["token"]
        cookie = browser.cookies["rushes_session"]
    key = server.worker_key()
    with server.client() as admin:
        code = admin.post("/workers/invite", json={}).json()["code"]
        link = admin.post("/users", json={"name": "bob"}).json()["signin_url"].partition("=")[2]
    names = ("users", "sessions", "tokens", "worker_keys", "invites", "signin_links")
    with server.rushes.db.read() as tx:
        kept = str([tx.all(f"SELECT * FROM {name}") for name in names])
    for secret in (token, cookie, key, code, code.replace("-", ""), link, PASSWORD):
        assert secret not in kept


@pytest.mark.parametrize(
    "key",
    ["", "x", "rushes_tok_", f"{ADMIN_TOKEN} ", ADMIN_TOKEN.upper(), "rushes_tok_" + "A" * 49],
)
def test_what_is_no_token_opens_nothing(server: Running, key: str) -> None:
    with server.client(None) as nobody:
        for header in ("X-API-Key", "Authorization"):
            value = f"Bearer {key}x" if header == "Authorization" else f"{key}x"
            assert nobody.get("/media", headers={header: value}).status_code == 401
        assert nobody.get("/media", params={"token": ADMIN_TOKEN}).status_code == 401
        assert nobody.get("/media", headers={"X-API-Key": ADMIN_TOKEN}).status_code == 200


def test_the_servers_own_token_is_off_when_none_is_set(serve: Callable[..., Running]) -> None:
    server = serve(admin_token="", admin_secret="")
    with server.client(None) as nobody:
        for headers in ({"X-API-Key": ""}, {"Authorization": "Bearer"}, {"X-Admin-Secret": ""}):
            assert nobody.get("/media", headers=headers).status_code == 401
            answer = nobody.post("/worker/register", json={"name": "x"}, headers=headers)
            assert answer.status_code == 401


# Users


def test_disabling_a_user_ends_everything_of_theirs_at_once(either_server: Running) -> None:
    user_id = add_user(either_server)["id"]
    with signed_in(either_server) as browser, either_server.client() as admin:
        token = new_token(browser, "write").json()["token"]
        link = admin.post(f"/users/{user_id}/link").json()["signin_url"].partition("token=")[2]
        with either_server.client(token) as script:
            assert script.get("/session").status_code == 200
            changed = admin.patch(f"/users/{user_id}", json={"disabled": True})
            assert changed.json()["disabled_at"] is not None
            assert browser.get("/session").status_code == 401
            assert script.get("/session").status_code == 401
            assert sign_in(browser).status_code == 401
            assert browser.post("/session/link", json={"token": link}).status_code == 401
            assert admin.patch(f"/users/{user_id}", json={"disabled": False}).is_success
            assert browser.get("/session").status_code == 401
            assert sign_in(browser).status_code == 201


def test_a_stream_of_events_ends_with_its_session(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "stream", partial(sse.stream, check_seconds=0))
    server = serve(event_keep_alive=0.1)
    user_id = add_user(server)["id"]
    with (
        signed_in(server) as browser,
        server.client() as admin,
        browser.stream("GET", "/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        admin.patch(f"/users/{user_id}", json={"disabled": True})
        # Ends, or this would wait for ever.
        assert not [line for line in lines if line.startswith("data")]


def test_the_last_admin_stays_one(either_server: Running) -> None:
    with either_server.client() as admin:
        me = admin.get("/session").json()["id"]
        for change in ({"disabled": True}, {"role": "user"}):
            answer = admin.patch(f"/users/{me}", json=change)
            assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
        assert admin.get("/session").json() == {**admin.get("/session").json(), "role": "admin"}
        second = add_user(either_server, "second", role="admin")["id"]
        assert admin.patch(f"/users/{second}", json={"role": "user"}).status_code == 200


def test_two_admins_cannot_remove_each_other_at_the_same_time(either_server: Running) -> None:
    names = ("one", "two")
    ids = {name: add_user(either_server, name, role="admin")["id"] for name in names}
    with either_server.client() as admin:
        first = admin.get("/session").json()["id"]
        assert admin.patch(f"/users/{first}", json={"role": "user"}).status_code == 200
    db = either_server.rushes.db

    def demote(name: str) -> object:
        return db.run(lambda tx: access.change_user(tx, ids[name], role="user"))

    with ThreadPoolExecutor(1) as pool:
        with db.begin() as tx:
            access.change_user(tx, ids["one"], role="user")
            second = pool.submit(demote, "two")
            with pytest.raises(TimeoutError):
                second.result(0.3)
        with pytest.raises(errors.WrongState):
            second.result(30)


def test_what_a_change_leaves_out_stays(either_server: Running) -> None:
    user_id = add_user(either_server, quota_bytes=1000)["id"]
    with either_server.client() as admin:
        path = f"/users/{user_id}"
        assert admin.patch(path, json={}).json()["quota_bytes"] == 1000
        assert admin.patch(path, json={"role": None, "disabled": None}).status_code == 200
        assert admin.patch(path, json={"role": "admin"}).json()["quota_bytes"] == 1000
        assert admin.patch(path, json={"quota_bytes": None}).json()["quota_bytes"] is None
        assert admin.patch(path, json={"role": "owner"}).status_code == 422
        assert admin.patch("/users/usr_none", json={"role": "user"}).status_code == 404
        twice = admin.post("/users", json={"name": "ADA"})
        assert (twice.status_code, twice.json()["code"]) == (409, "already_exists")
        for bad in ("", "a b", "../x", "a/b", "x" * 65):
            assert admin.post("/users", json={"name": bad}).status_code == 422
