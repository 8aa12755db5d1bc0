"""The release before this one and the one after it, on one database: a rolling upgrade, and the way
back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import world as worlds
from running import Process
from rushes import Rushes, events
from rushes.db import schema, upgrade
from rushes.db.database import Database
from rushes.jobs import invariants
from upgrades import releases
from upgrades.load import KIND, Load, Probe
from upgrades.make_release import ARCHIVE
from upgrades.releases import Release

# Enough to be in the middle of something, whatever happens.
A_FEW, MANY = 8, 200
# Only the workers of the load work, and nobody encodes what is uploaded.
SETTINGS = {"transcode_workers": 0, "transcription_workers": 0, "sweep_interval": 0.5}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return releases.before(tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return releases.after(tmp_path_factory.mktemp("after"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """A server of a release; all share the storage."""
    with ExitStack() as stack:

        def begin(release: Release, name: str, url: str, **given: Any) -> Process:
            storage = (tmp_path / "storage").as_uri()
            process = release.server(
                tmp_path / name, database_url=url, storage_url=storage, **SETTINGS, **given
            )
            return stack.enter_context(process)

        yield begin


@pytest.fixture
def empty_url() -> Iterator[str]:
    with worlds.postgres_database(worlds.EMPTY_DATABASE) as url:
        yield url


def ready(server: Process) -> int:
    with server.client(base_url=server.url) as client:
        return client.get("/readyz").status_code


def revisions_connected(url: str) -> set[str]:
    with closing(Database(url)) as db:
        return {each.revision for each in upgrade.connected(db)}


def check_database(url: str) -> None:
    with closing(Database(url)) as db, db.begin() as tx:
        events.assign_positions(tx)
        assert invariants.check(tx) == []


def upgrade_under_load(
    old: Release, new: Release, start: Callable[..., Process], url: str, jobs: int
) -> None:
    first = start(old, "old", url)
    assert ready(first) == 200
    assert revisions_connected(url) >= {old.schema}
    # Known before it is there, as in the settings of a worker.
    second = new.server(first.data_dir, database_url=url)
    probe = Probe(first.url)
    probe.start()
    with Load([first.url, second.url], first.worker_key()) as load:
        load.go_on(jobs)
        second = start(new, "new", url, port=second.port)
        with closing(Database(url)) as db:
            assert schema.current(db) == new.schema
        load.go_on(jobs)
        assert {ready(first), ready(second)} == {200}
        assert revisions_connected(url) >= {old.schema, new.schema}
        assert first.stop() == 0
        load.go_on(jobs)
        first.start()
        assert ready(first) == 200
        load.go_on(jobs)
        assert first.stop() == 0
        load.go_on(jobs)
        load.finish()
        probe.leave()
        load.check(second.url)
    check_database(url)


def test_a_rolling_upgrade_under_load_loses_and_doubles_nothing(
    old: Release, new: Release, start: Callable[..., Process], empty_url: str
) -> None:
    upgrade_under_load(old, new, start, empty_url, A_FEW)


@pytest.mark.thorough
def test_a_rolling_upgrade_under_load_for_longer_is_clean_in_the_eyes_of_both(
    old: Release, new: Release, start: Callable[..., Process], empty_url: str, tmp_path: Path
) -> None:
    upgrade_under_load(old, new, start, empty_url, MANY)
    given = {"database_url": empty_url, "data_dir": tmp_path / "old"}
    given["storage_url"] = (tmp_path / "storage").as_uri()
    for release in (old, new):
        report = release.run("doctor", "--json", **given)
        assert json.loads(report.stdout)["healthy"], report.stdout
        plan = release.run("migrate", "--check", "--json", **given)
        assert json.loads(plan.stdout)["pending"] == []


@pytest.mark.thorough
def test_two_new_ones_started_at_once_migrate_once_and_both_serve(
    old: Release, new: Release, start: Callable[..., Process], empty_url: str
) -> None:
    first = start(old, "old", empty_url)
    with Load([first.url], first.worker_key()) as load, ThreadPoolExecutor(2) as both:
        crew = list(both.map(lambda name: start(new, name, empty_url), ("b", "c")))
        for each in crew:
            assert ready(each) == 200
        load.go_on(A_FEW)
        assert ready(first) == 200
        load.finish()
        load.check(first.url)


def test_an_old_version_is_refused_by_a_schema_that_has_left_it_behind(
    old: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, where it takes no server: the rule is the same."""
    url = f"sqlite:///{tmp_path}/rushes.db"
    directory, head = releases.migrations(tmp_path / "migrations", contracts=True)
    monkeypatch.setattr(schema, "HEAD", head)
    with closing(Database(url)) as db:
        schema.migrate(db, directory)
    refused = old.run("jobs", "ls", database_url=url, data_dir=tmp_path)
    assert refused.returncode == 3
    assert refused.stderr == (
        f"rushes: the database has schema {head}, newer than {old.schema} of this version of"
        " Rushes: upgrade Rushes, nothing was changed\n"
    )


ADDS_AND_WORKS = f"""
import json
from rushes import Rushes
with Rushes() as rushes:
    rushes.handler({KIND!r})(lambda job: job.args["number"])
    made = rushes.enqueue({KIND!r}, {{"number": 7}})
    assert rushes.run_once()
    print(json.dumps([str(rushes.job(made.id).state), len(rushes.jobs(limit=10))]))
"""


def test_an_sqlite_file_goes_from_the_old_to_the_new_and_back(
    old: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"database_url": f"sqlite:///{tmp_path}/rushes.db", "data_dir": tmp_path}
    directory, head = releases.migrations(tmp_path / "migrations")

    def work_there(jobs: int) -> None:
        said = old.python(ADDS_AND_WORKS, **given)
        assert said.returncode == 0, said.stderr
        assert json.loads(said.stdout) == ["completed", jobs]

    work_there(1)
    with monkeypatch.context() as then, closing(Database(str(given["database_url"]))) as db:
        then.setattr(schema, "HEAD", head)
        assert schema.migrate(db, directory) == (old.schema, head)
        with Rushes(str(given["database_url"])) as rushes:
            rushes.handler(KIND)(lambda job: None)
            rushes.enqueue(KIND)
            assert rushes.run_once()
    work_there(3)
    check_database(str(given["database_url"]))


def test_the_archive_is_small_and_of_an_older_schema_than_the_next(old: Release) -> None:
    assert ARCHIVE.stat().st_size < 1_000_000
    assert old.schema <= schema.HEAD < releases.NEXT
    assert not (old.path / "rushes" / "web" / "static").exists()
