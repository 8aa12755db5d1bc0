"""A sign-in link in place of a forgotten password: what it opens, for whom, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import pytest

from running import Running
from rushes import errors
from rushes.accounts import access
from web.test_accounts import (
    PASSWORD,
    QUARTER_HOUR,
    WRONG,
    add_user,
    link_of,
    new_token,
    pass_time,
    sign_in,
    signed_in,
)
from web.test_security_log import told

NEW = "a much better password"
NEWER = "an even better password"


def follow(browser: httpx2.Client, link: str) -> httpx2.Response:
    return browser.post("/session/link", json={"token": link})


def set_password(browser: httpx2.Client, password: str = NEW, old: str | None = None) -> int:
    body = {"password": password, "old_password": old}
    return browser.put("/session/password", json=body).status_code


@contextmanager
def came_by_link(running: Running, user_id: str) -> Iterator[httpx2.Client]:
    with running.client(None) as browser:
        assert follow(browser, link_of(running, user_id)).status_code == 201
        yield browser


def test_a_link_replaces_a_forgotten_password(either_server: Running) -> None:
    user_id = add_user(either_server)["id"]
    with (
        signed_in(either_server) as elsewhere,
        either_server.client(None) as here,
        either_server.client(None) as late,
    ):
        me = follow(here, link_of(either_server, user_id)).json()
        assert (me["has_password"], me["needs_old_password"]) == (True, False)
        unused = link_of(either_server, user_id)
        assert set_password(here) == 204
        assert here.get("/session").json()["needs_old_password"]
        assert elsewhere.get("/session").status_code == 401
        assert follow(late, unused).status_code == 401
        assert sign_in(late).status_code == 401
        assert sign_in(late, password=NEW).status_code == 201
    assert ("password.reset", "ada", "ada") in told(either_server)
    assert ("link.made", "admin", "ada") in told(either_server)


def test_the_old_password_is_asked_for_again_once_there_is_a_new_one(
    either_server: Running,
) -> None:
    has_one = add_user(either_server)["id"]
    with either_server.client() as admin:
        has_none = admin.post("/users", json={"name": "bob"}).json()["id"]
    for user_id in (has_one, has_none):
        with came_by_link(either_server, user_id) as browser:
            assert set_password(browser, NEW) == 204
            assert set_password(browser, NEWER) == 401
            assert set_password(browser, NEWER, old=NEW) == 204


def test_a_refused_password_leaves_another_try(server: Running) -> None:
    with came_by_link(server, add_user(server)["id"]) as browser:
        assert set_password(browser, "short") == 422
        assert set_password(browser, NEW) == 204


def test_a_quarter_of_an_hour_after_the_link_the_old_password_is_needed(
    either_server: Running,
) -> None:
    with came_by_link(either_server, add_user(either_server)["id"]) as browser:
        pass_time(either_server, QUARTER_HOUR - 5)
        assert not browser.get("/session").json()["needs_old_password"]
        pass_time(either_server, QUARTER_HOUR + 1)
        assert browser.get("/session").json()["needs_old_password"]
        assert set_password(browser) == 401
        assert set_password(browser, old=WRONG) == 401
        assert set_password(browser, old=PASSWORD) == 204


def test_only_the_session_that_the_link_opened_needs_no_old_password(
    either_server: Running,
) -> None:
    user_id = add_user(either_server)["id"]
    add_user(either_server, "bob")
    with (
        signed_in(either_server) as stolen,
        signed_in(either_server, "bob") as bob,
        came_by_link(either_server, user_id) as browser,
    ):
        token = new_token(browser, "write").json()["token"]
        for other in (stolen, bob):
            assert other.get("/session").json()["needs_old_password"]
            assert set_password(other) == 401
        with either_server.client(token) as script:
            assert script.get("/session").json()["needs_old_password"]
            assert set_password(script) == 403
        assert set_password(browser) == 204


def test_a_session_that_has_ended_meanwhile_sets_no_password(either_server: Running) -> None:
    """While a password is hashed, another may be set, or the user disabled."""
    user_id = add_user(either_server)["id"]
    db = either_server.rushes.db
    with came_by_link(either_server, user_id) as browser:
        who = access.by_session(db, browser.cookies["rushes_session"])
    assert who is not None
    assert who.may_reset
    session_id = str(who.session_id)
    db.run(lambda tx: access.set_password(tx, user_id, "changed elsewhere"))
    with pytest.raises(errors.Unauthorized):
        db.run(
            lambda tx: access.set_password(
                tx, user_id, "too late", session_id=session_id, is_reset=True
            )
        )


def test_who_uses_a_link_while_the_password_changes_is_out_afterwards(
    either_server: Running,
) -> None:
    user_id = add_user(either_server)["id"]
    link, db = link_of(either_server, user_id), either_server.rushes.db

    def change() -> None:
        db.run(lambda tx: access.set_password(tx, user_id, "changed"))

    with ThreadPoolExecutor(1) as pool:
        with db.begin() as tx:
            cookie = access.sign_in_by_link(tx, link, "", 60_000)
            changing = pool.submit(change)
            with pytest.raises(TimeoutError):
                changing.result(0.3)
        changing.result(30)
    assert access.by_session(db, cookie) is None


# Who gets a link


def test_a_disabled_user_gets_no_link(either_server: Running) -> None:
    user_id = add_user(either_server)["id"]
    link = link_of(either_server, user_id)
    with either_server.client() as admin, either_server.client(None) as browser:
        admin.patch(f"/users/{user_id}", json={"disabled": True})
        assert follow(browser, link).status_code == 401
        refused = admin.post(f"/users/{user_id}/link")
        assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
        admin.patch(f"/users/{user_id}", json={"disabled": False})
        assert follow(browser, link).status_code == 401
        assert follow(browser, link_of(either_server, user_id)).status_code == 201
        assert admin.post("/users/usr_none/link").status_code == 404


def test_a_link_ends_nothing_until_it_is_used(either_server: Running) -> None:
    user_id = add_user(either_server)["id"]
    with signed_in(either_server) as browser:
        link_of(either_server, user_id)
        assert browser.get("/session").status_code == 200
        assert sign_in(browser).status_code == 201


def test_only_admins_make_links_and_for_others_only(either_server: Running) -> None:
    """By a link of one's own making, a stolen session or token would become a password."""
    ada = add_user(either_server)["id"]
    chief = add_user(either_server, "chief", role="admin")["id"]
    with signed_in(either_server) as browser:
        assert browser.post(f"/users/{ada}/link").status_code == 403
        assert browser.post(f"/users/{chief}/link").status_code == 403
    with signed_in(either_server, "chief") as browser:
        token = new_token(browser, "admin").json()["token"]
        with either_server.client(token) as script:
            for by in (browser, script):
                assert by.post(f"/users/{ada}/link").status_code == 201
                refused = by.post(f"/users/{chief}/link")
                assert refused.status_code == 403
                assert "rushes users link" in refused.json()["detail"]
    # The server's own token: an admin who is alone gets back in.
    with came_by_link(either_server, chief) as browser:
        assert set_password(browser) == 204


def test_links_cannot_be_guessed_on_and_on(either_server: Running) -> None:
    link = link_of(either_server, add_user(either_server)["id"])
    with either_server.client(None) as thief:
        tries = [follow(thief, f"guess {n}").status_code for n in range(31)]
        assert tries == [401] * 30 + [429]
        refused = follow(thief, link)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert int(refused.headers["retry-after"]) > 0
    found = [(action, subject) for action, _, subject in told(either_server)]
    assert found.count(("signin.failed", "link")) == 1
    assert found.count(("signin.throttled", "link")) == 1
    pass_time(either_server, QUARTER_HOUR + 1)
    with either_server.client(None) as owner:
        assert follow(owner, link).status_code == 201
