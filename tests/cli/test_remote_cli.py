"""The command line against a server: named, running here, or not running at all."""

from __future__ import annotations

import http.server
import io
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from running import ADMIN_TOKEN, Running, clean_environment
from rushes import Rushes, ids
from rushes.media import store as media_store
from rushes.media.media import NewMedia
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler
from shell import Command, Shell, until
from web import library

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
NO_ID = "0" * 32


@dataclass
class CliHarness:
    """A shell, and the queue that its commands should see."""

    shell: Shell
    rushes: Rushes

    def add_media(self, title: str = "Holiday") -> str:
        media_id = ids.new("med")
        new = NewMedia(user_id="", title=title, file_name="holiday.mov", size_bytes=1_234_567)
        self.rushes.db.run(lambda tx: media_store.insert(tx, media_id, new, media_id))
        return media_id


@pytest.fixture(params=["named", "here", "inside"])
def harness(
    request: pytest.FixtureRequest, shell: Shell, serve: Callable[..., Running]
) -> Iterator[CliHarness]:
    """A server at an address, the one of this data directory, or none: only a database."""
    if request.param == "inside":
        assert shell.run("migrate") == 0
        with Rushes() as rushes:
            yield CliHarness(shell, rushes)
        return
    server = serve()
    if request.param == "named":
        shell.set(server=server.url, token=ADMIN_TOKEN)
    else:
        # No such database: whatever works, works through the server.
        shell.set(data_dir=server.settings.data_dir, database_url=NOWHERE)
    yield CliHarness(shell, server.rushes)


@pytest.fixture
def named(shell: Shell, server: Running) -> CliHarness:
    shell.set(server=server.url, token=ADMIN_TOKEN)
    return CliHarness(shell, server.rushes)


# The nouns


def test_jobs_are_listed_shown_explained_canceled_and_retried(harness: CliHarness) -> None:
    shell = harness.shell
    assert shell.text("jobs", "ls") == "no jobs\n"
    job_id = harness.rushes.enqueue("resize", {"width": 640}, priority="high").id
    other_id = harness.rushes.enqueue("other").id
    assert [job["id"] for job in shell.json("jobs", "ls")] == [other_id, job_id]
    assert [job["id"] for job in shell.json("jobs", "ls", "--kind", "resize")] == [job_id]
    row = shell.text("jobs", "ls", "--kind", "resize").splitlines()[1]
    assert row.split()[:6] == [job_id, "queued", "resize", "high", "0%", "0/3"]
    assert re.search(r'^args +{"width":640}$', shell.text("jobs", "show", job_id), re.MULTILINE)
    assert "No worker is online that can do resize." in shell.text("jobs", "why", job_id)
    assert shell.text("jobs", "cancel", job_id) == f"{job_id} canceled\n"
    assert shell.json("jobs", "retry", job_id)["retry_of"] == job_id
    assert shell.run("jobs", "show", f"job_{NO_ID}") == 4
    assert shell.err == f"rushes: no job job_{NO_ID}\n"


def test_media_are_tagged_collected_and_described(harness: CliHarness) -> None:
    shell = harness.shell
    first, second = harness.add_media("One"), harness.add_media("Two")
    assert shell.text("media", "tag", first, second, "--add", "a b", "-a", "c") == (
        "2 media items changed\n"
    )
    assert shell.json("media", "tag", second, "--remove", "A B")["changed"] == 1
    assert [each["id"] for each in shell.json("media", "ls", "--tag", "a B")] == [first]
    assert shell.run("media", "tag", f"med_{NO_ID}", "--add", "x") == 4
    assert shell.run("media", "tag", first, "--add", "x" * 1000) == 2
    shell.text("media", "collect", first, "--add", "2020/Summer")
    said = shell.text(
        "media", "describe", first, "--recorded", "2019-07-01", "--description", "A\nday."
    )
    assert re.search("^collections +2020/Summer$", said, re.MULTILINE)
    assert re.search("^tags +a b, c$", said, re.MULTILINE)


def test_collections_are_listed_made_renamed_and_removed(named: CliHarness) -> None:
    shell = named.shell
    assert shell.text("collections", "ls") == "no collections\n"
    made = shell.json("collections", "add", "Summer")
    assert shell.run("collections", "add", "SUMMER") == 4
    assert shell.text("collections", "rename", made["id"], "Winter") == (
        f"{made['id']} is Winter now\n"
    )
    assert shell.text("collections", "ls").splitlines()[1].split() == [made["id"], "0", "Winter"]
    assert shell.run("collections", "rm", made["id"]) == 2
    assert shell.run("collections", "rm", made["id"], "--yes") == 0
    assert shell.json("collections", "ls") == []


def test_more_jobs_than_fit_on_a_page_are_listed(harness: CliHarness) -> None:
    made = {harness.rushes.enqueue("noop").id for _ in range(205)}
    found = harness.shell.json("jobs", "ls", "--limit", "1000")
    assert {job["id"] for job in found} == made
    assert len(harness.shell.json("jobs", "ls", "--limit", "203")) == 203


def test_jobs_are_canceled_and_retried_by_a_filter_after_a_count(harness: CliHarness) -> None:
    shell = harness.shell
    for kind in ("resize", "resize", "other"):
        harness.rushes.enqueue(kind)
    assert shell.text("jobs", "cancel", "--kind", "resize", "--dry-run") == "2 jobs match\n"
    assert shell.text("jobs", "cancel", "--kind", "nothing", "--yes") == "0 jobs match\n"
    assert shell.run("jobs", "cancel", "--kind", "resize") == 2
    assert shell.err == "rushes: Cancel 2 jobs? Say --yes if so\n"
    assert shell.text("jobs", "cancel", "--kind", "resize", "--yes") == "2 jobs canceled\n"
    assert len(shell.json("jobs", "ls", "--state", "canceled")) == 2
    answer = shell.json("jobs", "retry", "--state", "canceled", "--yes")
    assert (answer["matched"], answer["changed"], len(answer["ids"])) == (2, 2, 2)
    assert len(shell.json("jobs", "ls", "--state", "queued")) == 3


def test_waiting_jobs_are_moved(harness: CliHarness) -> None:
    shell = harness.shell
    first, second, third = (harness.rushes.enqueue("noop").id for _ in range(3))
    said = shell.text("jobs", "priority", first, "low")
    assert said == f"{first} queued, priority low\n"
    assert shell.text("jobs", "next", second, third).splitlines() == [
        f"{third} queued, next",
        f"{second} queued, next",
    ]
    assert shell.json("jobs", "show", second)["priority"] == "high"
    assert "number 1 in line" in shell.text("jobs", "why", second)
    assert "number 3 in line" in shell.text("jobs", "why", first)
    harness.rushes.cancel(first)
    assert shell.run("jobs", "next", first) == 4
    assert shell.err == "rushes: the job is canceled: only one that waits has a place\n"
    assert shell.run("jobs", "next") == 2
    assert shell.run("jobs", "priority", second, "soon") == 2


def test_limits_are_set_listed_and_removed(harness: CliHarness) -> None:
    shell = harness.shell
    assert shell.text("limits", "ls") == "no limits\n"
    assert shell.text("limits", "set", "user:*", "2") == "user:*: 2 at once, 0 running\n"
    assert shell.json("limits", "set", "engine:openai", "4")["most"] == 4
    assert [each["key"] for each in shell.json("limits", "ls")] == ["engine:openai", "user:*"]
    assert shell.text("limits", "ls").splitlines()[1].split() == ["engine:openai", "4", "0"]
    assert shell.run("limits", "set", "everybody", "2") == 2
    assert shell.run("limits", "set", "user:*", "0") == 2
    assert shell.text("limits", "unset", "user:*") == "user:* has no limit any more\n"
    assert shell.run("limits", "unset", "user:*") == 4


class Typed(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self) -> bool:
        return True


def test_whoever_sits_at_a_terminal_is_asked(
    named: CliHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    media_id = named.add_media("Holiday")
    monkeypatch.setattr("sys.stdin", Typed("\n"))
    assert named.shell.run("media", "rm", media_id) == 4
    assert named.shell.err == ('Move "Holiday" to the trash? [y/N] rushes: nothing was changed\n')
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    assert named.shell.text("media", "rm", media_id) == f"{media_id} removed (Holiday)\n"


def test_a_log_is_printed(harness: CliHarness) -> None:
    @harness.rushes.handler("chatty")
    def talk(job: JobContext) -> None:
        job.log("first")
        job.log("second \033[2J")

    job_id = harness.rushes.enqueue("chatty").id
    assert harness.rushes.run_once()
    lines = harness.shell.text("jobs", "logs", job_id).splitlines()
    assert [line.split(" ", 1)[1].strip() for line in lines] == ["first", "second"]
    assert harness.shell.text("jobs", "logs", "-f", job_id).splitlines() == lines
    assert '"line":"first"' in harness.shell.text("jobs", "logs", job_id, "--json")


def test_a_link_is_given_terms_and_ended(
    harness: CliHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, media_id = harness.shell, harness.add_media("Holiday")
    share = ("media", "share", media_id)
    monkeypatch.setattr("sys.stdin", io.StringIO("open sesame\n"))
    made = shell.json(*share, "--expires", "7d", "--password-stdin", "--download")
    assert (made["has_password"], made["allow_download"], made["expired"]) == (True, True, False)
    assert "open sesame" not in str(made)
    said = shell.text(*share)
    assert said == f"{made['share_url']}\n"
    dated = shell.json(*share, "--expires", "2031-01-31T18:00:00+00:00")
    assert dated["expires_at"] == "2031-01-31T18:00:00.000Z"
    plain = shell.json(*share, "--expires", "never", "--no-password", "--no-download")
    assert (plain["expires_at"], plain["has_password"], plain["allow_download"]) == (
        None,
        False,
        False,
    )
    for wrong in ("soon", "2001-01-01", "-5d", "100000d"):
        assert shell.run(*share, f"--expires={wrong}") == 2, wrong
    assert shell.run(*share, "--end", "--download") == 2
    assert shell.json(*share, "--end") == {"id": media_id, "share_url": None}
    assert shell.json(*share)["share_url"] != made["share_url"]


def test_media_are_listed_shown_shared_and_removed(harness: CliHarness) -> None:
    shell = harness.shell
    assert shell.text("media", "ls") == "no media\n"
    media_id, other_id = harness.add_media("Holiday in Ulm"), harness.add_media("Zoo \u202e")
    assert "1.2 MB" in shell.text("media", "ls", "-q", "ulm")
    assert [item["id"] for item in shell.json("media", "ls", "-q", "ulm")] == [media_id]
    assert len(shell.json("media", "ls", "--status", "pending")) == 2
    assert shell.json("media", "ls", "--status", "ready") == []
    shown = shell.text("media", "show", media_id)
    assert re.search(r"^title +Holiday in Ulm$", shown, re.MULTILINE)
    url = shell.text("media", "share", media_id).strip()
    assert "/s/" in url
    assert url in shell.text("media", "show", media_id)
    assert shell.json("media", "unshare", media_id) == {"id": media_id, "share_url": None}
    assert "\u202e" not in shell.text("media", "ls")
    assert shell.run("media", "rm", media_id) == 2
    assert shell.text("media", "rm", media_id, other_id, "--yes").count("removed") == 2
    assert shell.text("media", "ls") == "no media\n"
    assert shell.run("media", "show", media_id) == 4


def test_a_media_is_shown_with_its_warnings(named: CliHarness, server: Running) -> None:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
    early = {"code": "sound_before_picture", "message": "2.0 s of sound are left out"}
    library.tell(server, library.claim(server, "transcode"), 0.1, {"warnings": [early]})
    shown = named.shell.text("media", "show", media_id).splitlines()
    assert "warning: 2.0 s of sound are left out" in shown


def test_what_was_removed_is_in_the_trash_until_it_is_emptied(harness: CliHarness) -> None:
    shell = harness.shell
    one, two, three = (harness.add_media(title) for title in ("Zoo", "Wedding", "Exam"))
    assert shell.text("media", "ls", "--trashed") == "the trash is empty\n"
    shell.text("media", "rm", one, two, three, "--yes")
    assert f"rushes media restore {one} {two} {three}" in shell.err
    assert shell.text("media", "ls") == "no media\n"
    listed = shell.text("media", "ls", "--trashed")
    assert "kept until" in listed
    assert "Wedding" in listed
    assert len(shell.json("media", "ls", "--status", "trashed")) == 3
    assert shell.run("media", "ls", "--trashed", "--status", "ready") == 2
    assert shell.text("media", "restore", two) == f"{two} restored (Wedding)\n"
    assert shell.run("media", "restore", two) == 4
    assert "not in the trash" in shell.err
    assert shell.run("media", "rm", "--permanently", one) == 2
    # One that is in the trash, and one that is not.
    assert shell.text("media", "rm", "--permanently", one, two, "--yes").count("for good") == 2
    assert shell.text("media", "ls") == "no media\n"
    assert [each["id"] for each in shell.json("media", "ls", "--trashed")] == [three]
    # It belongs to nobody: whoever empties their own trash does not reach it.
    assert shell.json("media", "empty-trash")["removed"] == 0
    everyone = ("media", "empty-trash", "--everyone")
    assert shell.run(*everyone) == 2
    assert "1 media item" in shell.err
    assert shell.text(*everyone, "--yes") == "1 media item deleted for good\n"
    assert shell.json(*everyone)["removed"] == 0
    assert shell.run("media", "restore", three) == 4


def test_workers_are_let_in_and_out(harness: CliHarness) -> None:
    shell = harness.shell
    made = shell.json("workers", "register", "lab")
    assert made["key"].startswith("rushes_wrk_")
    assert made["key"] not in shell.text("workers", "show", "lab")
    assert f"{made['prefix']}…" in shell.out
    assert made["key"] not in shell.text("workers", "ls", "--json")
    assert shell.text("workers", "disable", "lab") == "lab is disabled\n"
    assert re.search(r" lab +disabled ", shell.text("workers", "ls"))
    assert shell.json("workers", "enable", made["worker_id"])["state"] == "enabled"
    assert shell.text("workers", "drain", "lab") == "lab is draining\n"
    assert shell.run("workers", "revoke", "lab", made["prefix"]) == 0
    assert shell.json("workers", "show", "lab")["keys"] == []
    assert shell.run("workers", "revoke", "lab", made["prefix"]) == 4
    assert shell.run("workers", "revoke", "lab", "-Xy_1234") == 4
    assert shell.err == "rushes: no such key\n"
    assert shell.run("workers", "show", "nobody") == 4
    assert shell.err == "rushes: no worker nobody\n"
    assert re.match(r"rushes worker --server http\S+ --join \S+\n", shell.text("workers", "invite"))


def test_how_a_worker_works_is_said_shown_and_taken_back(harness: CliHarness) -> None:
    shell = harness.shell
    shell.json("workers", "register", "lab")
    told = shell.text(
        "workers", "set", "lab", "schedule=22:00-06:00", "nice=10", "concurrency=demo=1,mix=2"
    )
    assert re.search(r"schedule +22:00-06:00 \(set here\)", told)
    assert re.search(r"concurrency +demo=1,mix=2 \(set here\)", told)
    assert re.search(r"rest +finish \(unless said\)", shell.text("workers", "show", "lab"))
    settings = shell.json("workers", "set", "lab", "nice=", "scratch-budget=50GB")["settings"]
    assert settings["nice"] == {"value": 0, "text": "0", "said_by": "default"}
    assert settings["scratch_budget"]["value"] == 50 * 10**9
    assert shell.run("workers", "set", "lab", "nice=40") == 2
    assert "nice: must be a whole number from 0 to 19" in shell.err
    assert shell.run("workers", "set", "lab", "nice") == 2
    assert shell.run("workers", "set", "lab", "colour=red") == 2
    assert shell.run("workers", "set", "nobody", "nice=3") == 4


def test_two_workers_of_one_name_have_to_be_told_apart_by_id(named: CliHarness) -> None:
    first = named.shell.json("workers", "register", "lab")["worker_id"]
    second = named.shell.json("workers", "register", "lab")["worker_id"]
    assert named.shell.run("workers", "drain", "lab") == 2
    assert first in named.shell.err
    assert second in named.shell.err
    assert named.shell.run("workers", "drain", first) == 0


def test_users_are_added_and_kept_out(harness: CliHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = harness.shell
    added = shell.text("users", "add", "Ada")
    assert added.startswith("ada may sign in, as a user\n")
    assert "/sign-in?token=" in added
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    bob = shell.json("users", "add", "bob", "--admin", "--password-stdin")
    assert (bob["role"], bob["has_password"]) == ("admin", True)
    assert "correct horse" not in shell.out
    monkeypatch.setattr("sys.stdin", io.StringIO("carol-password-1\n"))
    assert shell.run("users", "add", "carol", "--password-stdin") == 2
    assert "is too easy to guess: " in shell.err
    assert shell.run("users", "add", "ada") == 4
    assert shell.text("users", "disable", "ADA") == "ada is disabled\n"
    assert shell.run("users", "link", "ada") == 4
    assert shell.err == "rushes: ada is disabled: a link would not sign them in\n"
    assert re.search(r"^ada +user, disabled ", shell.text("users", "ls"), re.MULTILINE)
    assert shell.json("users", "enable", "ada")["disabled_at"] is None
    assert "/sign-in?token=" in shell.text("users", "link", "ada")
    assert shell.run("users", "link", "eve") == 4
    told = shell.json("users", "log", "--action", "user.disabled")
    assert [(each["user_name"], each["subject"]) for each in told] == [("admin", "ada")]
    assert re.search(r" admin +link.made +ada ", shell.text("users", "log", "--user", "admin"))
    assert shell.text("users", "log", "--user", "bob") == "nothing was logged\n"


def test_a_link_replaces_a_forgotten_password(
    harness: CliHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = harness.shell
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    shell.json("users", "add", "bob", "--admin", "--password-stdin")
    assert "/sign-in?token=" in shell.text("users", "link", "bob")
    assert shell.err == "The link works once, within a day, also to set a new password.\n"


def test_tokens_are_shown_once_and_can_be_revoked(harness: CliHarness) -> None:
    shell = harness.shell
    assert shell.text("tokens", "ls") == "no tokens\n"
    token = shell.text("tokens", "create", "script", "--scope", "read", "--expires", "90d").strip()
    assert re.fullmatch(r"rushes_tok_\S+", token)
    assert token not in shell.text("tokens", "ls")
    [listed] = shell.json("tokens", "ls")
    assert (listed["name"], listed["scopes"]) == ("script", ["read"])
    assert listed["expires_at"] > listed["created_at"]
    shell.set(token=token)
    assert shell.run("jobs", "ls") == 0
    assert shell.run("users", "add", "eve") == 4
    assert shell.err == "rushes: this token may only read\n"
    shell.set(token=ADMIN_TOKEN) if shell.is_set("server") else shell.unset("token")
    assert shell.run("tokens", "revoke", listed["id"]) == 0
    shell.set(token=token)
    assert shell.run("jobs", "ls") == 4
    assert token not in shell.err


# Finding the server


def test_a_server_that_was_killed_is_not_waited_for(
    shell: Shell, server: Running, tmp_path: Path
) -> None:
    """Its address file is still there, and another server has its port."""
    assert shell.run("migrate") == 0
    with Rushes() as rushes:
        job_id = rushes.enqueue("mine").id
    (shell.directory / "data" / "server.json").write_text(
        f'{{"url": "{server.url}", "token": "of one that is gone", "pid": 1}}'
    )
    assert [job["id"] for job in shell.json("jobs", "ls")] == [job_id]
    (shell.directory / "data" / "server.json").write_text("{")
    assert [job["id"] for job in shell.json("jobs", "ls")] == [job_id]


def test_a_server_that_cannot_be_reached_is_named(shell: Shell) -> None:
    shell.set(server="http://127.0.0.1:1/", token="canary-7c2e")
    for arguments in (["jobs", "ls"], ["upload", __file__]):
        assert shell.run(*arguments) == 3
        assert re.fullmatch(
            r"rushes: http://127.0.0.1:1 cannot be reached \(.+\): is the server running there\?\n",
            shell.err,
        )


def test_a_server_without_a_token_is_asked_for_one(shell: Shell, server: Running) -> None:
    shell.set(server=server.url)
    assert shell.run("jobs", "ls") == 2
    assert "RUSHES_TOKEN" in shell.err
    shell.set(data_dir=server.settings.data_dir)
    assert shell.run("jobs", "ls") == 0, "on the server's own machine it is known"


def test_a_wrong_token_is_exit_4_and_not_repeated(shell: Shell, server: Running) -> None:
    shell.set(server=server.url, token="canary-7c2e")
    assert shell.run("media", "ls") == 4
    assert shell.err == "rushes: this token or session is not valid\n"


@contextmanager
def answering(status: int, **headers: str) -> Iterator[str]:
    """Some other web server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{other.server_port}"
        other.shutdown()


def test_what_is_not_a_rushes_server_is_said_to_be_none(shell: Shell) -> None:
    with answering(404) as url:
        shell.set(server=url, token="x")
        assert shell.run("jobs", "ls") == 4
        assert shell.err == f"rushes: {url} answered HTTP 404, but not as a Rushes server would\n"


def test_a_redirect_is_not_followed_with_the_token(shell: Shell) -> None:
    with answering(301, Location="https://elsewhere.example.org/api/v1/jobs") as url:
        shell.set(server=url, token="x")
        assert shell.run("jobs", "ls") == 2
        assert "set RUSHES_SERVER" in shell.err
        assert "https://elsewhere.example.org" in shell.err


def test_a_command_for_a_server_needs_no_database_code(server: Running, tmp_path: Path) -> None:
    program = (
        "import sys; from rushes import cli; code = cli.main(sys.argv[1:]);"
        "print(*{'sqlalchemy', 'fastapi', 'alembic'} & set(sys.modules)); sys.exit(code)"
    )
    settings = {"RUSHES_SERVER": server.url, "RUSHES_TOKEN": ADMIN_TOKEN}
    done = subprocess.run(
        [sys.executable, "-c", program, "jobs", "ls"],
        env={**clean_environment(), **settings},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "no jobs\n\n")


def test_a_log_is_followed_until_the_job_has_ended(
    serve: Callable[..., Running], command: Callable[..., Command]
) -> None:
    go_on = threading.Event()

    def talk(job: JobContext) -> None:
        job.log("it has begun")
        while not go_on.is_set():
            job.wait(0.02)
        job.log("it is over")

    server = serve(handlers_table={"chatty": Handler(talk)})
    job_id = server.rushes.enqueue("chatty").id
    following = command("jobs", "logs", "-f", job_id, server=server.url, token=ADMIN_TOKEN)
    assert following.process.stdout is not None
    assert b"it has begun" in following.process.stdout.readline()
    go_on.set()
    assert following.wait() == 0, following.err
    assert "it is over" in following.out
    until(lambda: server.rushes.job(job_id).state == "completed")
