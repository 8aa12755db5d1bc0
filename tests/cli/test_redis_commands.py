"""What commands say of Redis; never its password."""

from __future__ import annotations

import pytest
import redis as client_library

import services
from scanner import scanner
from shell import Shell
from test_redis_tls import Start
from test_redis_tls import authority as authority
from test_redis_tls import certificate as certificate
from test_redis_tls import start as start

PASSWORD = "canary-redis-password-55aa"


def test_serve_says_in_one_sentence_that_it_cannot_start(
    shell: Shell, redis_server: services.Redis
) -> None:
    scanner.know([PASSWORD])
    redis_server.crash()
    url = f"redis://:{PASSWORD}@127.0.0.1:{redis_server.port}/0"
    shell.set(queue_mode="redis", redis_url=url, startup_wait=0, port=0)
    assert shell.run("serve") != 0
    [line] = [each for each in shell.err.splitlines() if each.startswith("rushes: ")]
    assert line.startswith("rushes: Redis cannot be reached: see to RUSHES_REDIS_URL")
    assert PASSWORD not in shell.out + shell.err


def test_serve_and_doctor_say_what_to_do_about_a_certificate(shell: Shell, start: Start) -> None:
    scanner.know([PASSWORD])
    url = f"rediss://:{PASSWORD}@127.0.0.1:{start().port}/0?ssl_password={PASSWORD}"
    shell.set(queue_mode="redis", redis_url=url, startup_wait=0, port=0)
    assert shell.run("serve") != 0
    [line] = [each for each in shell.err.splitlines() if each.startswith("rushes: ")]
    assert "authority that is not trusted here; give" in line
    assert shell.run("doctor") != 0
    [line] = [each for each in shell.out.splitlines() if each.split()[1] == "redis"]
    assert "ssl_ca_certs" in line
    assert shell.run("config") == 0
    assert PASSWORD not in shell.out + shell.err


def test_a_mode_without_a_url_is_a_wrong_setting(shell: Shell) -> None:
    shell.set(queue_mode="hybrid")
    assert shell.run("config") != 0
    assert "RUSHES_QUEUE_MODE: hybrid needs RUSHES_REDIS_URL" in shell.err


@pytest.mark.parametrize(
    ("mode", "up", "status", "code"),
    [
        ("redis", True, "ok", 0),
        ("redis", False, "fail", 1),
        ("hybrid", False, "warn", 0),
    ],
)
def test_doctor_looks_at_redis_and_hides_its_password(
    shell: Shell, redis_server: services.Redis, mode: str, up: bool, status: str, code: int
) -> None:
    assert shell.run("migrate") == 0
    with client_library.Redis.from_url(redis_server.url) as client:
        client.config_set("requirepass", PASSWORD)
    if not up:
        redis_server.crash()
    shell.set(queue_mode=mode, redis_url=f"redis://:{PASSWORD}@127.0.0.1:{redis_server.port}/0")
    assert shell.run("doctor") == code
    [line] = [each for each in shell.out.splitlines() if each.split()[1] == "redis"]
    assert line.startswith(status)
    assert PASSWORD not in shell.out + shell.err
    assert f"redis://:***@127.0.0.1:{redis_server.port}/0" in line
