"""`rushes jobs`: look at jobs and act on them, directly in the database."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import clock, config
from rushes.cli import output
from rushes.jobs.job import Job, State, encode

if TYPE_CHECKING:
    from rushes.app import Rushes

app = cyclopts.App(name="jobs", help="List, explain, cancel and retry jobs.", help_epilogue="")

Limit = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=1, lte=1000), help="How many at most."
    ),
]
OnlyState = Annotated[State | None, cyclopts.Parameter(help="Only jobs in this state.")]
OnlyKind = Annotated[str | None, cyclopts.Parameter(help="Only jobs of this kind.")]
Id = Annotated[str, cyclopts.Parameter(help="The job's id, such as job_0198a3….")]
# Of use to the worker that holds the job, and to the queue.
NOT_FOR_PEOPLE = {"claim_id", "claim_epoch", "checkpoint", "deadline_at"}
EXECUTION_COLUMNS = (
    "number",
    "outcome",
    "worker_name",
    "started_at",
    "ended_at",
    "error_code",
    "error",
)


@app.command(name="ls")
def list_jobs(
    *,
    state: OnlyState = None,
    kind: OnlyKind = None,
    limit: Limit = 50,
    json: output.Json = False,
) -> None:
    """List jobs, newest first."""
    with _open() as rushes:
        found = rushes.jobs(state=state, kind=kind, limit=limit)
    if json:
        output.print_json([_document(job) for job in found])
    elif found:
        columns = ("id", "state", "kind", "priority", "progress", "attempt", "created")
        output.print_table(columns, [_row(job) for job in found])
    else:
        print("no jobs")


@app.command
def show(id: Id, /, *, json: output.Json = False) -> None:
    """Show one job and every attempt at it."""
    with _open() as rushes:
        job = rushes.job(id)
        executions = [output.with_times(each) for each in rushes.executions(id)]
    if json:
        output.print_json({**_document(job), "executions": executions})
        return
    values = {name: _text(value) for name, value in _document(job).items()}
    output.print_pairs((n, v) for n, v in values.items() if v and n not in NOT_FOR_PEOPLE)
    if executions:
        names = [name for name in EXECUTION_COLUMNS if any(each.get(name) for each in executions)]
        print()
        output.print_table(names, [[_text(each.get(n)) for n in names] for each in executions])


@app.command
def why(id: Id, /, *, json: output.Json = False) -> None:
    """Say why a job is waiting, or what became of it."""
    with _open() as rushes:
        answer = rushes.why(id)
    if json:
        output.print_json(answer)
        return
    place = f", number {answer['position']} in line" if answer.get("position") else ""
    print(f"{id} is {answer['state']}{place}")
    for reason in answer["reasons"]:
        print(f"  {reason['sentence']}")
    if answer.get("workers_that_could") and answer["state"] in (State.BLOCKED, State.QUEUED):
        print(f"  Workers online that could do it: {', '.join(answer['workers_that_could'])}.")


@app.command
def cancel(id: Id, /, *, json: output.Json = False) -> None:
    """Cancel a job; one that is being worked on stops at its worker's next heartbeat."""
    with _open() as rushes:
        state = rushes.cancel(id)
    if json:
        output.print_json({"id": id, "state": state})
    elif state is State.PROCESSING:
        print(f"{id} will be canceled: its worker has yet to stop")
    else:
        print(f"{id} {state}")


@app.command
def retry(id: Id, /, *, json: output.Json = False) -> None:
    """Enqueue an ended job again, as a new job."""
    with _open() as rushes:
        new = rushes.retry(id)
    if json:
        output.print_json({"id": new.id, "created": new.created, "retry_of": id})
    else:
        print(f"{new.id} queued, a retry of {id}" if new.created else f"{new.id} is there already")


def _open() -> Rushes:
    settings = config.load()
    # Imported here: it brings the database, which `rushes jobs --help` does not need.
    from rushes import app as composition

    return composition.open(settings)


def _document(job: Job) -> dict[str, Any]:
    return output.with_times({**asdict(job), "priority": job.priority.word})


def _row(job: Job) -> tuple[str, ...]:
    return (
        job.id,
        job.state,
        job.kind,
        job.priority.word,
        f"{job.progress:.0%}",
        f"{job.attempt}/{job.max_attempts}",
        clock.rfc3339(job.created_at) or "",
    )


def _text(value: Any) -> str:
    """Empty for what is not set, so that it can be left out."""
    if value is None or value in ({}, []):
        return ""
    return value if isinstance(value, str) else encode(value)
