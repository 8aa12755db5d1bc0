"""Guessing passwords and keys: slow for whoever guesses, not felt by anybody else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from running import Running
from rushes import errors, limits
from rushes.accounts import access, throttle
from web.test_accounts import PASSWORD, WRONG, add_user, pass_time, sign_in


def from_address(client: httpx2.Client, address: str, password: str) -> httpx2.Response:
    client.headers["X-Forwarded-For"] = address
    return sign_in(client, "ada", password)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_a_network_is_what_one_person_has(address: str, network: str) -> None:
    assert throttle.network_of(address) == network


def test_addresses_of_one_network_are_one(server: Running) -> None:
    add_user(server)
    with server.client(None) as thief:
        tries = [from_address(thief, f"2001:db8::{n:x}", WRONG).status_code for n in range(8)]
        assert tries == [401] * 6 + [429] * 2
        assert from_address(thief, "2001:db8:0:1::1", WRONG).status_code == 401


def test_an_account_is_not_guessed_from_everywhere_and_its_owner_gets_in(
    either_server: Running,
) -> None:
    add_user(either_server)
    with either_server.client(None) as owner, either_server.client(None) as thief:
        assert from_address(owner, "192.0.2.1", PASSWORD).status_code == 201
        tries = [from_address(thief, f"203.0.113.{n}", WRONG) for n in range(20)]
        assert [each.status_code for each in tries].count(401) == throttle.FREE_FAILURES
        late = tries[-1]
        assert (late.status_code, late.json()["code"]) == (429, "too_many_requests")
        assert int(late.headers["retry-after"]) > 0
        # Where she has been before she is not held up; elsewhere she waits like the thief.
        assert from_address(owner, "192.0.2.1", PASSWORD).status_code == 201
        assert from_address(owner, "198.51.100.1", PASSWORD).status_code == 429
        pass_time(either_server, 2)
        assert from_address(owner, "198.51.100.1", PASSWORD).status_code == 201


def test_each_failure_doubles_the_pause_up_to_a_quarter_of_an_hour() -> None:
    free = throttle.FREE_FAILURES
    assert [throttle.pause_ms(free + n) for n in (-1, 0, 1, 2, 500)] == [
        0,
        1_000,
        2_000,
        4_000,
        15 * 60_000,
    ]


def test_a_crowd_at_the_door_holds_up_nobody_else(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_user(server)
    hashing, go_on = threading.Semaphore(0), threading.Event()

    def slow(password: str, hash: str | None) -> bool:
        hashing.release()
        go_on.wait(60)
        return False

    monkeypatch.setattr(access, "_verify", slow)

    def enter(number: int) -> httpx2.Response:
        with server.client(None) as stranger:
            return from_address(stranger, f"203.0.113.{number}", WRONG)

    with ThreadPoolExecutor(60) as crowd, server.client() as admin:
        tries = [crowd.submit(enter, number) for number in range(60)]
        try:
            for _ in range(limits.HASHING_THREADS):
                assert hashing.acquire(timeout=30)
            # Nobody is let go until these have been answered.
            assert admin.get(f"{server.url}/livez").status_code == 200
            assert admin.get("/session").status_code == 200
            assert not hashing.acquire(blocking=False)
        finally:
            go_on.set()
        answers = [each.result(60) for each in tries]
    refused = [each for each in answers if each.status_code == 503]
    assert len(refused) >= 60 - limits.MOST_WAITING - throttle.FREE_FAILURES
    assert all(int(each.headers["retry-after"]) > 0 for each in refused)


def test_one_network_takes_only_a_few_places_at_the_door(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(access, "_verify", lambda password, hash: not go_on.wait(60))

    def enter(number: int) -> int:
        with server.client(None) as stranger:
            return sign_in(stranger, f"name{number}", WRONG).status_code

    with ThreadPoolExecutor(12) as crowd:
        tries = [crowd.submit(enter, number) for number in range(12)]
        while sum(each.done() for each in tries) < 12 - limits.MOST_SIGN_INS:
            go_on.wait(0.01)
        go_on.set()
        answers = sorted(each.result(60) for each in tries)
    assert answers == [401] * limits.MOST_SIGN_INS + [429] * (12 - limits.MOST_SIGN_INS)


def test_wrong_keys_are_counted_and_known_ones_go_on(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_GUESSES", 10)
    server.services.guesses = limits.Guesses()
    with server.client() as admin, server.client("guess") as thief:
        assert admin.get("/session").status_code == 200
        fresh = admin.post("/tokens", json={"name": "fresh"}).json()["token"]
        for _ in range(20):
            # One that has ended, in a script that nobody looks after.
            assert thief.get("/session").status_code == 401
        guesses = [{"Authorization": f"Bearer guess {n}"} for n in range(11)]
        tries = [thief.get("/session", headers=each).status_code for each in guesses]
        assert tries == [401] * 9 + [429] * 2
        refused = thief.post("/worker/hello", json={}, headers=guesses[10])
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert admin.get("/session").status_code == 200
        with server.client(fresh) as new:
            assert new.get("/session").status_code == 429


def test_wrong_keys_are_forgotten_with_time() -> None:
    now = [0.0]
    guesses = limits.Guesses(lambda: now[0])
    for number in range(limits.MOST_GUESSES):
        guesses.note("net", f"wrong {number}", is_right=False)
    with pytest.raises(errors.TooMany):
        guesses.check("net", "key")
    guesses.check("other", "key")
    now[0] = limits.GUESS_SECONDS + 1
    guesses.check("net", "key")
