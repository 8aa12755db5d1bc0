"""The test servers themselves: they answer, recover, take either source, and leave nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

import services
from rushes.storage import storage


@pytest.fixture
def directory() -> Iterator[Path]:
    # Not tmp_path: as root that lies below a 0700 directory, where `nobody` cannot go.
    with tempfile.TemporaryDirectory(prefix="rushes-") as name:
        yield Path(name).resolve()


def connect(server: services.Postgres, database: str = "postgres") -> psycopg.Connection:
    url = server.url(database).replace("+psycopg", "")
    return psycopg.connect(url, autocommit=True)


def test_committed_data_survives_a_crash(directory: Path) -> None:
    server = services.Postgres.start(directory, durable=True)
    try:
        with connect(server) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        port = server.port
        server.restart()
        assert server.port == port
        with connect(server) as connection:
            assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    finally:
        server.stop()
    assert "automatic recovery in progress" in (directory / "postgres.log").read_text()


@pytest.mark.parametrize("binaries", [None, "wheel"])
def test_postgres_of_either_source_clones_databases(directory: Path, binaries: str | None) -> None:
    server = services.Postgres.start(directory, binaries=binaries)
    try:
        assert server.source.endswith(" wheel") or not binaries
        assert server.create_database("model") == server.url("model")
        with connect(server, "model") as connection:
            connection.execute("CREATE TABLE empty ()")
        server.create_database("copy", template="model")
        with connect(server, "copy") as connection:
            assert connection.execute("SELECT count(*) FROM empty").fetchone() == (0,)
            server.drop_database("copy")
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    finally:
        server.stop()


@pytest.mark.parametrize("binaries", [None, "wheel"])
def test_redis_of_either_source_has_streams(directory: Path, binaries: str | None) -> None:
    server = services.Redis.start(directory, binaries=binaries)
    try:
        assert server.source.endswith(" wheel") or not binaries
        with redis.Redis.from_url(server.url) as client:
            client.xgroup_create("jobs", "workers", mkstream=True)
            entry = client.xadd("jobs", {"id": "job_1"})
            assert str(entry) in str(client.xreadgroup("workers", "one", {"jobs": ">"}))
            assert client.xack("jobs", "workers", entry) == 1
    finally:
        server.stop()


def test_stop_leaves_no_process(directory: Path) -> None:
    postgres = services.Postgres.start(directory)
    cache = services.Redis.start(directory)
    with connect(postgres):
        assert len(services.processes_in(postgres.data)) > 2
        assert len(services.processes_in(cache.data)) == 1
        postgres.stop()
        cache.stop()
    assert services.processes_in(postgres.data) + services.processes_in(cache.data) == []


def test_the_s3_server_keeps_objects_over_a_crash_and_leaves_nothing(directory: Path) -> None:
    server = services.Seaweed.start(directory)
    try:
        stored = storage.open(server.url())
        stored.put("a", b"1")
        server.crash()
        server.recover()
        assert [entry.key for entry in stored.list()] == ["a"]
    finally:
        server.stop()
    assert services.processes_in(server.data) == []
    assert not list(Path("/tmp").glob(f"seaweedfs-*-{server.port}.sock"))


def test_a_killed_run_leaves_no_process(directory: Path) -> None:
    program = "import pathlib, services, sys; d = pathlib.Path(sys.argv[1]);"
    program += "services.Postgres.start(d); services.Redis.start(d); print('up'); sys.stdin.read()"
    run = subprocess.Popen(
        [sys.executable, "-uc", program, str(directory)],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with run:
        assert run.stdout
        assert run.stdout.readline() == b"up\n"
        assert services.processes_in(directory / "postgres")
        run.kill()
    deadline = time.monotonic() + 5
    left = [directory / "postgres", directory / "redis"]
    while any(services.processes_in(data) for data in left):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_no_binaries_is_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(directory))
    with pytest.raises(services.StartFailed, match="no binaries"):
        services.Redis.start(directory, binaries="system")
