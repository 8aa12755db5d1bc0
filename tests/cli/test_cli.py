"""The command line as a caller meets it: output, exit codes, and what is not imported."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from rushes import app, clock, config, errors
from rushes.db import schema
from rushes.protocol import Hello
from rushes.worker.context import JobContext
from shell import Shell

SLOW = ("sqlalchemy", "alembic", "psycopg", "fastapi", "starlette", "uvicorn", "obstore", "httpx2")
NOUNS = ("jobs", "media", "tokens", "users", "workers")
NO_ID = "job_" + "0" * 32


@pytest.fixture
def migrated(shell: Shell) -> Shell:
    assert shell.run("migrate") == 0
    return shell


def change(shell: Shell, statement: str) -> None:
    with closing(sqlite3.connect(shell.directory / "data" / "rushes.db")) as connection:
        connection.execute(statement)
        connection.commit()


def test_version(shell: Shell) -> None:
    assert shell.run("--version") == 0
    assert shell.out == "rushes 0.1.0\n"


def test_help_lists_the_commands_and_exit_codes(shell: Shell) -> None:
    assert shell.run("--help") == 0
    for word in ("config", "doctor", "migrate", "serve", "upload", "worker ", *NOUNS, "Exit codes"):
        assert word in shell.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["config"],
        ["config", "--json"],
        ["upload", "--help"],
        ["worker", "--help"],
        *[[noun, "--help"] for noun in NOUNS],
        *[[noun, "ls", "--help"] for noun in NOUNS],
    ],
)
def test_light_commands_import_nothing_slow(arguments: list[str], shell: Shell) -> None:
    program = (
        "import sys; from rushes import cli; code = cli.main(sys.argv[1:]);"
        f"print(*set({SLOW}) & set(sys.modules), end='', file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def completed(script: str, *words: str) -> list[str]:
    """What bash offers after these words; the last one is not finished."""
    program = (
        f'{script}\nCOMP_WORDS=(rushes "$@"); COMP_CWORD=$#; COMPREPLY=();'
        ' _rushes rushes "${!#}" ""; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", program, "bash", *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_shells_complete_commands_options_and_choices(shell: Shell) -> None:
    script = shell.text("completion", "bash")
    assert completed(script, "tr") == ["transcribe"]
    assert completed(script, "jobs", "re") == ["retry"]
    assert "--transcription-profile" in completed(script, "upload", "--tr")
    assert {"docx", "vtt"} <= {*completed(script, "media", "transcript", "--format", "")}
    for other in ("zsh", "fish"):
        assert "transcribe" in shell.text("completion", other)
    assert shell.run("completion", "tcsh") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["config", "--frobnicate"],
        ["jobs", "show"],
        ["jobs", "ls", "--limit", "0"],
        ["jobs", "ls", "--state", "asleep"],
        ["jobs", "cancel"],
        ["jobs", "cancel", NO_ID, "--state", "queued"],
        ["jobs", "retry", NO_ID, "--dry-run"],
        ["media", "ls", "--status", "asleep"],
        ["media", "rm"],
        ["tokens", "create", "script", "--expires", "soon"],
        ["upload"],
        ["upload", "no-such-file.mov"],
        ["upload", "."],
        ["worker"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(arguments: list[str], shell: Shell) -> None:
    assert shell.run(*arguments) == 2
    assert re.fullmatch(r"rushes: .+\n", shell.err)
    assert shell.out == ""


def test_a_bad_setting_is_exit_2(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSHES_POLICI", "fair")
    for arguments in (["config"], ["migrate"], ["jobs", "ls"]):
        assert shell.run(*arguments) == 2
        assert shell.err == (
            "rushes: RUSHES_POLICI: there is no such setting; did you mean RUSHES_POLICY?\n"
        )


def test_config_shows_values_and_origins(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.directory / "rushes.toml").write_text('policy = "fair"')
    monkeypatch.setenv("RUSHES_DATABASE_URL", "postgresql://ada:s3cret@db/rushes")
    assert shell.run("config") == 0
    rows = {line.split()[0]: line.split()[1:] for line in shell.out.splitlines()}
    assert rows["name"] == ["value", "origin"]
    assert rows["policy"] == ["fair", "file", "rushes.toml"]
    assert rows["attempt_timeout"] == ["6h", "default"]
    url = "postgresql://ada:***@db/rushes"
    assert rows["database_url"] == [url, "environment", "RUSHES_DATABASE_URL"]
    document = shell.json("config")
    assert document["attempt_timeout"] == {"value": 21600.0, "origin": "default", "source": None}
    assert document["database_url"]["value"] == url
    assert "s3cret" not in shell.out


def test_config_changes_what_the_page_does(
    migrated: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert migrated.run("config", "set", "job_retention", "30 days") == 0
    assert migrated.out == "RUSHES_JOB_RETENTION: 30 days\n"
    assert migrated.run("config", "set", "RUSHES_TRANSCODE_WORKERS", "3") == 0
    assert migrated.out == "RUSHES_TRANSCODE_WORKERS: 1, and 3 after a restart\n"
    document = migrated.json("config")
    assert document["job_retention"]["value"] == 30 * 86400
    assert document["job_retention"]["origin"] == "page"
    assert migrated.run("config", "set", "job_retention", "1h") == 2
    assert migrated.err == (
        "rushes: RUSHES_JOB_RETENTION: must be never, or a duration from 1d to 3650d, not '1h'\n"
    )
    assert migrated.run("config", "unset", "job_retention") == 0
    assert migrated.out == "RUSHES_JOB_RETENTION: 90 days, which is the default\n"
    monkeypatch.setenv("RUSHES_USER_JOBS", "5")
    assert migrated.run("config", "set", "user_jobs", "7") == 4
    assert "is set by the environment (RUSHES_USER_JOBS): change it there" in migrated.err


def test_settings_that_cannot_be_used_are_named(migrated: Shell) -> None:
    assert migrated.run("config", "set", "user_jobs", "7") == 0
    change(migrated, """UPDATE settings SET value = '"many"'""")
    said = "must be a whole number from 0 to 10000000, not 'many': the default is used"
    assert migrated.run("config") == 0
    assert said in migrated.err
    assert migrated.json("config")["user_jobs"]["value"] == 10_000
    checks = migrated.json("doctor")["checks"]
    assert [each["check"] for each in checks if said in each["message"]] == ["settings"]


def test_migrate_twice(shell: Shell) -> None:
    assert shell.run("migrate") == 0
    assert shell.out == f"schema none -> {schema.HEAD}\n"
    assert shell.run("migrate") == 0
    assert shell.out == f"schema {schema.HEAD}, nothing to do\n"
    assert shell.json("migrate") == {"before": schema.HEAD, "after": schema.HEAD}


def test_a_newer_schema_is_exit_3(migrated: Shell) -> None:
    change(migrated, "UPDATE alembic_version SET version_num = '9999'")
    for arguments in (["migrate"], ["jobs", "ls"]):
        assert migrated.run(*arguments) == 3
        assert re.fullmatch(r"rushes: .*9999, newer than .*upgrade Rushes.*\n", migrated.err)
    assert migrated.run("doctor") == 1
    assert re.search(r"^fail +schema .*9999", migrated.out, re.MULTILINE)


def test_a_database_without_schema_is_exit_3(shell: Shell) -> None:
    assert shell.run("jobs", "ls") == 3
    assert "run 'rushes migrate'" in shell.err


def test_a_database_that_is_down_is_exit_3(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSHES_DATABASE_URL", "postgresql://ada:s3cret@127.0.0.1:1/rushes")
    assert shell.run("migrate") == 3
    assert shell.err == "rushes: the database cannot be reached\n"
    assert shell.run("doctor") == 1
    assert re.search(r"^fail +database .*cannot be reached", shell.out, re.MULTILINE)
    assert "s3cret" not in shell.out


def test_a_file_that_is_no_database_is_exit_3(shell: Shell) -> None:
    (shell.directory / "data").mkdir()
    (shell.directory / "data" / "rushes.db").write_text("not a database, but long enough" * 40)
    assert shell.run("migrate") == 3
    assert shell.err == "rushes: the database file cannot be used\n"


def test_doctor_finds_a_healthy_queue(migrated: Shell) -> None:
    assert migrated.run("doctor") == 0, migrated.out
    checks = [line.split()[:2] for line in migrated.out.splitlines()]
    assert [name for _, name in checks] == [
        "settings",
        "sqlite",
        "database",
        "schema",
        "queue",
        "storage",
        "tools",
        "speech",
    ]
    assert "fail" not in [status for status, _ in checks]
    report = migrated.json("doctor", "--fix")
    assert report["healthy"] is True
    assert migrated.run("doctor", "--history") == 0
    assert "history   all 0 events of 0 jobs are such as can happen" in migrated.out
    assert [each["check"] for each in report["checks"]][-5:-2] == ["fix", "queue", "storage"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--schedule", "sometimes"), ("--nice", "40"), ("--concurrency", "0"), ("--tags", "<b>")],
)
def test_a_worker_does_not_start_with_settings_that_make_no_sense(
    shell: Shell, option: str, value: str
) -> None:
    assert shell.run("worker", "--server", "http://127.0.0.1:9", option, value) == 2
    assert f"{option.removeprefix('--')}: " in shell.err


def test_doctor_and_the_list_name_a_worker_that_is_too_old(migrated: Shell) -> None:
    made = migrated.json("workers", "register", "attic")
    with app.Rushes(settings=config.load()) as rushes:
        rushes.dispatch.hello(made["worker_id"], Hello(kinds=["demo"], protocol="0.9"))
    assert migrated.run("doctor") == 0
    assert "attic is too old: it speaks 0.9; upgrade it to 1.0 or newer" in migrated.out
    assert "too old: it speaks 0.9" in migrated.text("workers", "ls")


@pytest.mark.parametrize(("version", "status"), [((3, 51, 2), "warn"), ((3, 51, 3), "ok")])
def test_doctor_warns_of_an_old_sqlite(
    version: tuple[int, ...], status: str, migrated: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    assert migrated.run("doctor") == 0
    assert re.search(rf"^{status} +sqlite ", migrated.out, re.MULTILINE)
    assert ("WAL-reset" in migrated.out) == (status == "warn")


def test_doctor_creates_nothing(shell: Shell) -> None:
    assert shell.run("doctor") == 1
    assert "run 'rushes migrate'" in shell.out
    assert list(shell.directory.iterdir()) == []


def test_doctor_reports_bad_settings(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSHES_POLICY", "lifo")
    assert shell.run("doctor") == 1
    assert shell.out == "fail  settings  RUSHES_POLICY: must be auto, fifo or fair, not 'lifo'\n"


def enqueue(shell: Shell, kind: str = "echo", **options: Any) -> str:
    with app.open(config.load({}, shell.directory)) as rushes:
        return rushes.enqueue(kind, {"n": 1}, **options).id


def fail_once(shell: Shell, message: str) -> None:
    with app.open(config.load({}, shell.directory)) as rushes:

        @rushes.handler("echo")
        def fail(context: JobContext) -> None:
            raise errors.PermanentFailure(message, code="corrupt")

        assert rushes.run_once()


def test_jobs_are_listed_newest_first(migrated: Shell) -> None:
    assert migrated.run("jobs", "ls") == 0
    assert migrated.out == "no jobs\n"
    assert migrated.json("jobs", "ls") == []
    first, second = enqueue(migrated), enqueue(migrated, "other", priority="high")
    assert migrated.run("jobs", "ls") == 0
    lines = [line.split() for line in migrated.out.splitlines()]
    assert lines[0] == ["id", "state", "kind", "priority", "progress", "attempt", "created"]
    assert lines[1][:6] == [second, "queued", "other", "high", "0%", "0/3"]
    assert lines[2][0] == first
    assert [job["id"] for job in migrated.json("jobs", "ls", "--limit", "1")] == [second]
    assert [job["id"] for job in migrated.json("jobs", "ls", "--kind", "echo")] == [first]
    assert migrated.json("jobs", "ls", "--state", "failed") == []


def test_a_job_is_shown_with_its_attempts(migrated: Shell) -> None:
    job_id = enqueue(migrated)
    fail_once(migrated, "the source is corrupt")
    assert migrated.run("jobs", "show", job_id) == 0
    pairs = dict(re.findall(r"^(\w+) +(.+)$", migrated.out, re.MULTILINE))
    assert pairs["id"] == job_id
    assert pairs["state"] == "failed"
    assert pairs["args"] == '{"n":1}'
    assert pairs["error"] == "the source is corrupt"
    assert pairs["progress"] == "0%"
    assert "claim_id" not in migrated.out
    document = migrated.json("jobs", "show", job_id)
    assert document["priority"] == "normal"
    assert document["args"] == {"n": 1}
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]{8}\.\d{3}Z", document["created_at"])
    assert document["completed_at"] is None
    assert [each["outcome"] for each in document["executions"]] == ["failed"]
    assert document["executions"][0]["started_at"].endswith("Z")


def test_what_a_terminal_would_obey_is_not_printed(migrated: Shell) -> None:
    job_id = enqueue(migrated)
    fail_once(migrated, "bad \033[2Jsource")
    assert migrated.run("jobs", "show", job_id) == 0
    assert "bad source" in migrated.out
    assert "\033" not in migrated.out


def test_doctor_names_the_jobs_that_break_an_invariant(migrated: Shell) -> None:
    job_id = enqueue(migrated)
    change(migrated, "DELETE FROM events")
    assert migrated.run("doctor") == 1
    assert re.search(rf"^fail +queue .*{job_id}", migrated.out, re.MULTILINE)
    assert migrated.run("doctor", "--json") == 1
    report = json.loads(migrated.out)
    assert report["healthy"] is False
    assert {"id": job_id} in [row for check in report["checks"] for row in check["rows"]]


def test_why_says_what_a_job_waits_for(migrated: Shell) -> None:
    job_id = enqueue(migrated, run_at=clock.SystemClock().now() + 3_600_000)
    assert migrated.run("jobs", "why", job_id) == 0
    assert migrated.out.startswith(f"{job_id} is queued, number 1 in line\n")
    assert "No worker is online that can do echo." in migrated.out
    assert "It may not start before" in migrated.out
    codes = [reason["code"] for reason in migrated.json("jobs", "why", job_id)["reasons"]]
    assert codes == ["backoff", "no_capable_worker"]


def test_cancel_and_retry(migrated: Shell) -> None:
    job_id = enqueue(migrated)
    assert migrated.run("jobs", "retry", job_id) == 4
    assert migrated.err == "rushes: the job is queued: only an ended job can be retried\n"
    assert migrated.run("jobs", "cancel", job_id) == 0
    assert migrated.out == f"{job_id} canceled\n"
    assert migrated.run("jobs", "cancel", job_id) == 4
    assert migrated.err == "rushes: the job is canceled already\n"
    assert migrated.run("jobs", "retry", job_id) == 0
    new_id = migrated.out.split()[0]
    assert migrated.out == f"{new_id} queued, a retry of {job_id}\n"
    again = migrated.json("jobs", "retry", job_id)
    assert (again["id"], again["retry_of"]) == (new_id, job_id)


@pytest.mark.parametrize("verb", ["show", "why", "logs", "cancel", "retry"])
def test_an_unknown_job_is_exit_4(verb: str, migrated: Shell) -> None:
    assert migrated.run("jobs", verb, NO_ID) == 4
    assert migrated.err == f"rushes: no job {NO_ID}\n"
    assert migrated.out == ""


def test_a_closed_pipe_is_no_error(migrated: Shell) -> None:
    program = "import sys; from rushes import cli; sys.exit(cli.main(['config']))"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_a_migration_would_do_is_told_and_nothing_done(shell: Shell) -> None:
    assert shell.run("migrate", "--check") == 1
    first, *_, last = shell.out.splitlines()
    assert re.match(r"0001  contraction  servers of schema 0001 and newer .* locks +\S", first)
    assert last.startswith(schema.HEAD)
    assert not (shell.directory / "data" / "rushes.db").exists()
    assert shell.run("migrate") == 0
    assert shell.run("migrate", "--check") == 0
    assert shell.out == f"schema {schema.HEAD}, nothing to do\n"
    document = shell.json("migrate", "--check")
    assert (document["before"], document["pending"]) == (schema.HEAD, [])


def test_a_migration_that_servers_could_not_bear_is_told(migrated: Shell) -> None:
    change(migrated, "UPDATE alembic_version SET version_num = '0022'")
    assert migrated.run("migrate", "--check") == 4
    assert "servers of schema 0022 could not go on: stop them first" in migrated.out
    assert migrated.run("migrate", "--check", "--json") == 4
    document = json.loads(migrated.out)
    assert not document["servers_may_go_on"]
    assert document["pending"][0] == {
        "revision": "0023",
        "sentence": document["pending"][0]["sentence"],
        "change": "contraction",
        "works_with": "0023",
        "servers_may_go_on": False,
        "long_locks": True,
    }


def test_a_newer_schema_that_works_with_us_is_fine(migrated: Shell) -> None:
    change(migrated, "UPDATE alembic_version SET version_num = '9999'")
    change(migrated, f"INSERT INTO schema_compatibility VALUES ('9999', '{schema.HEAD}')")
    assert migrated.run("jobs", "ls") == 0
    for arguments in (["migrate"], ["migrate", "--check"]):
        assert migrated.run(*arguments) == 0
        assert migrated.out == (
            f"schema 9999, newer than {schema.HEAD} of this version, nothing to do\n"
        )
    assert migrated.run("doctor") == 0
    assert re.search(r"^ok +schema +9999 is newer .* works with it", migrated.out, re.MULTILINE)
