"""Rushes as a library, as docs/writing-a-handler.md shows it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from rushes import JobContext, NewJob, PermanentFailure, RetryLater, Rushes, errors
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs.job import State

GUIDE = Path(__file__).parents[1] / "docs" / "writing-a-handler.md"


@pytest.fixture
def rushes(database_url: str) -> Iterator[Rushes]:
    with Rushes(database_url) as opened:
        yield opened


def test_the_guide_runs_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    runnable = [block for block in blocks if "postgresql://" not in block]
    assert len(runnable) == 5
    names: dict[str, Any] = {}
    for block in runnable:
        exec(compile(block, str(GUIDE), "exec"), names)
    names["rushes"].close()


def test_a_handler_is_three_lines(rushes: Rushes) -> None:
    @rushes.handler("double")
    def double(job: JobContext) -> int:
        return int(job.args["n"]) * 2

    job = rushes.enqueue("double", {"n": 21})
    assert rushes.run_once()
    assert not rushes.run_once()
    done = rushes.job(job.id)
    assert (done.state, done.result) == (State.COMPLETED, 42)
    [execution] = rushes.executions(job.id)
    assert execution.id.startswith("exe_")
    assert execution.outcome == "succeeded"


def test_a_job_exists_exactly_if_the_callers_transaction_commits(rushes: Rushes) -> None:
    with rushes.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id integer)"))
    with pytest.raises(ZeroDivisionError), rushes.engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO orders VALUES (1)"))
        rushes.enqueue("ship", connection=connection)
        _ = 1 / 0
    assert rushes.jobs() == []
    with rushes.engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO orders VALUES (2)"))
        job = rushes.enqueue("ship", connection=connection)
    assert [each.id for each in rushes.jobs()] == [job.id]


def test_a_session_of_the_orm_will_do(rushes: Rushes) -> None:
    with Session(rushes.engine) as session:
        rushes.enqueue("ship", connection=session)
        session.rollback()
    assert rushes.jobs() == []
    with Session(rushes.engine) as session:
        job = rushes.enqueue("ship", connection=session)
        session.commit()
    assert [each.id for each in rushes.jobs()] == [job.id]


def test_bad_input_inside_a_callers_transaction_leaves_it_usable(rushes: Rushes) -> None:
    with rushes.engine.begin() as connection:
        with pytest.raises(errors.BadField):
            rushes.enqueue("ship", priority="urgent", connection=connection)
        rushes.enqueue("ship", connection=connection)
    assert len(rushes.jobs()) == 1


def test_an_unknown_kind_or_option_is_named(rushes: Rushes) -> None:
    rushes.handler("resize")(lambda job: None)
    with pytest.raises(errors.BadField, match="resize"):
        rushes.enqueue("rezise")
    with pytest.raises(errors.BadField, match="when"):
        rushes.enqueue("resize", when=3)
    with pytest.raises(errors.BadField, match="already"):
        rushes.handler("resize")(lambda job: None)


def test_how_a_handler_ends_decides_about_the_job(rushes: Rushes) -> None:
    ends: dict[str, Exception] = {
        "permanent": PermanentFailure("corrupt"),
        "later": RetryLater("busy"),
        "broken": RuntimeError("oops"),
    }

    @rushes.handler("end")
    def end(job: JobContext) -> None:
        raise ends[job.args["how"]]

    jobs = {how: rushes.enqueue("end", {"how": how}).id for how in ends}
    while rushes.run_once():
        pass
    found = {how: rushes.job(id) for how, id in jobs.items()}
    assert {how: (job.state, job.attempt) for how, job in found.items()} == {
        "permanent": (State.FAILED, 1),
        "later": (State.QUEUED, 0),
        "broken": (State.QUEUED, 1),
    }
    assert found["broken"].last_error == "RuntimeError: oops"


def test_the_next_attempt_starts_from_the_checkpoint(rushes: Rushes) -> None:
    seen = []

    @rushes.handler("steps")
    def steps(job: JobContext) -> None:
        seen.append(job.checkpoint)
        if job.checkpoint is None:
            job.progress(0.5, "half", checkpoint={"done": 5})
            raise RetryLater("not now")

    job = rushes.enqueue("steps")
    rushes.run_once()
    with rushes.db.begin() as tx:
        tx.all("UPDATE jobs SET run_at = 0 WHERE id = :id", id=job.id)
    rushes.run_once()
    assert seen == [None, {"done": 5}]


def test_cancel_stops_a_running_handler(rushes: Rushes) -> None:
    @rushes.handler("long")
    def long(job: JobContext) -> None:
        assert rushes.cancel(job.job_id) is State.PROCESSING
        job.progress(0.1)

    job = rushes.enqueue("long")
    rushes.run_once()
    assert rushes.job(job.id).state is State.CANCELED


def test_a_handler_that_is_registered_later_is_used(rushes: Rushes) -> None:
    rushes.handler("first")(lambda job: None)
    assert not rushes.run_once()
    rushes.handler("second")(lambda job: None)
    job = rushes.enqueue("second")
    assert rushes.run_once()
    assert rushes.job(job.id).state is State.COMPLETED


def test_why_speaks_plainly(rushes: Rushes) -> None:
    def reasons(id: str) -> list[str]:
        return [reason.code for reason in rushes.why(id).reasons]

    rushes.handler("resize")(lambda job: None)
    first = rushes.enqueue("resize", delay_seconds=3_600)
    needy = rushes.enqueue("resize", needs=["gpu"])
    child = rushes.enqueue("resize", parent_id=needy.id)
    assert reasons(first.id) == ["backoff", "no_capable_worker"]
    assert reasons(needy.id) == ["no_capable_worker"]
    assert "gpu" in rushes.why(needy.id).reasons[0].sentence
    assert reasons(child.id) == ["parent"]
    assert rushes.why(needy.id).position == 2

    preferring = rushes.enqueue("resize", needs=["gpu?"])
    crew = rushes.worker("cpu-box")
    crew.step()
    assert rushes.job(preferring.id).state is State.COMPLETED
    assert reasons(preferring.id) == ["ended"]
    plain = rushes.enqueue("resize")
    assert reasons(plain.id) == []
    assert rushes.why(plain.id).workers_that_could == ["cpu-box"]
    rushes.worker("gpu-box", capabilities=["gpu"]).step()
    preferring = rushes.enqueue("resize", needs=["gpu?"])
    rushes.pause()
    assert reasons(preferring.id) == ["paused", "prefers"]
    with rushes.db.begin() as tx:
        for worker in fleet.all_workers(tx):
            fleet.set_state(tx, worker.id, AdminState.DISABLED)
    assert reasons(preferring.id) == ["paused", "no_capable_worker"]
    with pytest.raises(errors.NotFound):
        rushes.why("job_nowhere")


def test_statistics_tell_users_apart(rushes: Rushes) -> None:
    rushes.enqueue_many([NewJob(kind="a", user_id="ann"), NewJob(kind="a", user_id="bob")])
    assert {(row.user_id, row.count) for row in rushes.stats()} == {("ann", 1), ("bob", 1)}


WORKER = """
import sys, time
from rushes import Rushes
with Rushes(sys.argv[1]) as rushes:
    @rushes.handler("long")
    def long(job):
        print("started", flush=True)
        if job.args["deaf"]:
            time.sleep(60)
        job.wait(60)
    @rushes.handler("quick")
    def quick(job):
        print("quick", flush=True)
    rushes.work()
"""


@pytest.mark.parametrize("deaf", [False, True])
def test_sigterm_gives_the_job_back_within_a_second(rushes: Rushes, deaf: bool) -> None:
    job = rushes.enqueue("long", {"deaf": deaf})
    command = [sys.executable, "-c", WORKER, str(rushes.db.url.render_as_string(False))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=20)
    process.stdout.close()
    released = rushes.job(job.id)
    assert (released.state, released.attempt) == (State.QUEUED, 0)
    assert rushes.executions(job.id)[0].outcome == "released"


SLOW_TO_START = """
import threading
is_running, start = threading.Event(), threading.Thread.start
def start_and_see_it_run(thread):
    start(thread)
    if getattr(getattr(thread, "_work", None), "__name__", "") == "run":
        is_running.wait(20)
threading.Thread.start = start_and_see_it_run
"""


def test_a_signal_that_comes_while_workers_start_gives_the_job_back(rushes: Rushes) -> None:
    job = rushes.enqueue("long", {"deaf": False})
    killed = "import os; os.kill(os.getpid(), 15); is_running.set()"
    script = SLOW_TO_START + WORKER.replace('print("started", flush=True)', killed)
    command = [sys.executable, "-c", script, str(rushes.db.url.render_as_string(False))]
    assert subprocess.run(command, stdout=subprocess.PIPE, timeout=60).returncode == 0
    assert rushes.job(job.id).state is State.QUEUED
    assert rushes.executions(job.id)[0].outcome == "released"


BREAKS_DOWN_ONCE = """
from rushes.worker.loop import Worker
work = Worker._work
def break_down(worker, *slot):
    Worker._work = work
    raise SystemExit
Worker._work = break_down
"""


def test_a_worker_that_breaks_down_is_started_again(rushes: Rushes) -> None:
    rushes.enqueue("quick")
    script = BREAKS_DOWN_ONCE + WORKER
    command = [sys.executable, "-c", script, str(rushes.db.url.render_as_string(False))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "quick\n"
    process.terminate()
    process.wait(timeout=20)
    process.stdout.close()


def test_submit_in_one_process_work_in_another(rushes: Rushes) -> None:
    command = [sys.executable, "-c", WORKER, str(rushes.db.url.render_as_string(False))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    job = rushes.enqueue("quick")
    assert process.stdout.readline() == "quick\n"
    deadline = time.monotonic() + 20
    while rushes.job(job.id).state is not State.COMPLETED:
        assert time.monotonic() < deadline
    process.terminate()
    process.wait(timeout=20)
    process.stdout.close()


def test_a_worker_of_a_newer_schema_refuses_to_start(database_url: str) -> None:
    with Rushes(database_url) as rushes, rushes.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(errors.SchemaTooNew):
        Rushes(database_url)
