"""`rushes jobs`: look at jobs and act on them, one by one or by a filter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import cyclopts
import msgspec

from rushes import errors
from rushes.cli import client, output
from rushes.jobs.job import TERMINAL, State

app = cyclopts.App(
    name="jobs", help="List, explain, follow, cancel, retry and move jobs.", help_epilogue=""
)

Limit = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=1, lte=1000), help="How many at most."
    ),
]
Id = Annotated[str, cyclopts.Parameter(help="The job's id, such as job_0198a3….")]
Follow = Annotated[
    bool,
    output.FLAG,
    cyclopts.Parameter(name=["--follow", "-f"], help="Go on until the job has ended."),
]
DryRun = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Only say how many it would be.")]
# Said by another name, or of use to programs alone.
NOT_FOR_PEOPLE = {"status", "progress_stage", "claims", "claimed_by", "renditions"}
EXECUTION_COLUMNS = (
    "number",
    "outcome",
    "worker_name",
    "started_at",
    "ended_at",
    "error_code",
    "error",
)
RECONNECT_SECONDS = 1.0
# As many as the server changes in one go.
BULK_LIMIT = 10_000
DONE = {"cancel": "canceled", "retry": "queued again"}


@cyclopts.Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class JobFilterOptions:
    """Which jobs; what is not said does not matter."""

    state: Annotated[State | None, cyclopts.Parameter(help="Only jobs in this state.")] = None
    kind: Annotated[str | None, cyclopts.Parameter(help="Only jobs of this kind.")] = None
    media: Annotated[str | None, cyclopts.Parameter(help="Only jobs of this media's id.")] = None
    worker: Annotated[str | None, cyclopts.Parameter(help="Only those of this worker's id.")] = None
    error_code: Annotated[str | None, cyclopts.Parameter(help="Only those that failed so.")] = None

    def given(self) -> dict[str, str]:
        names = {"media": "media_id", "worker": "worker_id"}
        return {names.get(name, name): value for name, value in asdict(self).items() if value}


@app.command(name="ls")
def list_jobs(
    *, wanted: JobFilterOptions | None = None, limit: Limit = 50, json: output.Json = False
) -> None:
    """List jobs, newest first."""
    with client.connect() as api:
        found = api.items("/jobs", limit, **(wanted or JobFilterOptions()).given())
    if json:
        output.print_json(found)
    elif found:
        columns = ("id", "state", "kind", "priority", "progress", "attempt", "created")
        output.print_table(columns, [_row(job) for job in found])
    else:
        print("no jobs")


@app.command
def add(
    kind: Annotated[str, cyclopts.Parameter(help="One of your own kinds.")],
    /,
    *,
    args: Annotated[str | None, cyclopts.Parameter(help="What its handler gets, as JSON.")] = None,
    media: Annotated[str | None, cyclopts.Parameter(help="The media it is to work on.")] = None,
    priority: output.Priority = None,
    limit_key: Annotated[
        str | None, cyclopts.Parameter(help="What it has in common with others: see limits.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Add a job of your own kind."""
    given = {"kind": kind, "args": output.parsed("--args", args), "priority": priority}
    with client.connect() as api:
        job = api.post("/jobs", {**given, "media_id": media, "limit_key": limit_key})
    if json:
        output.print_json(job)
    else:
        print(f"{job['id']} {job['state']}, to {job['kind']}")


@app.command
def show(id: Id, /, *, json: output.Json = False) -> None:
    """Show one job and every attempt at it."""
    with client.connect() as api:
        job = api.get(f"/jobs/{id}")
        executions = api.get(f"/jobs/{id}/executions")["items"]
    if json:
        output.print_json({**job, "executions": executions})
        return
    values = {name: output.text(value) for name, value in job.items() if name not in NOT_FOR_PEOPLE}
    values["progress"] = f"{job['progress']:.0%}"
    output.print_pairs((name, value) for name, value in values.items() if value)
    if job["renditions"]:
        print()
        output.print_renditions(job["renditions"])
    if executions:
        names = [name for name in EXECUTION_COLUMNS if any(each.get(name) for each in executions)]
        print()
        rows = [[output.text(each.get(name)) for name in names] for each in executions]
        output.print_table(names, rows)


@app.command
def logs(id: Id, /, *, follow: Follow = False, json: output.Json = False) -> None:
    """Print a job's log; with --json one object per line."""
    for line in _log(id, follow):
        at, _, said = line.partition(" ")
        if json:
            print(msgspec.json.encode({"at": at, "line": said}).decode(), flush=True)
        else:
            print(f"{output.paint(at, 'dim')} {output.one_line(said)}", flush=True)


@app.command
def why(id: Id, /, *, json: output.Json = False) -> None:
    """Say why a job is waiting, or what became of it."""
    with client.connect() as api:
        answer = api.get(f"/jobs/{id}/why")
    if json:
        output.print_json(answer)
        return
    place = f", number {answer['position']} in line" if answer.get("position") else ""
    print(f"{id} is {answer['state']}{place}")
    for reason in answer["reasons"]:
        print(f"  {output.one_line(reason['sentence'])}")
    if answer["workers_that_could"] and answer["state"] in (State.BLOCKED, State.QUEUED):
        names = ", ".join(answer["workers_that_could"])
        print(f"  Workers online that could do it: {output.one_line(names)}.")


@app.command
def cancel(
    *ids: Id,
    wanted: JobFilterOptions | None = None,
    dry_run: DryRun = False,
    yes: output.Yes = False,
    json: output.Json = False,
) -> None:
    """Cancel jobs, by id or by a filter; those being worked on stop at the next heartbeat."""
    _act("cancel", ids, wanted, dry_run=dry_run, yes=yes, json=json)


@app.command
def retry(
    *ids: Id,
    wanted: JobFilterOptions | None = None,
    dry_run: DryRun = False,
    yes: output.Yes = False,
    json: output.Json = False,
) -> None:
    """Enqueue ended jobs again, each as a new job; by a filter, those failed or canceled."""
    _act("retry", ids, wanted, dry_run=dry_run, yes=yes, json=json)


@app.command
def priority(
    id: Id,
    priority: Annotated[
        Literal["high", "normal", "low"], cyclopts.Parameter(help="high is for admins.")
    ],
    /,
    *,
    json: output.Json = False,
) -> None:
    """Change which work a job waits with; it keeps its age."""
    with client.connect() as api:
        job = api.patch(f"/jobs/{id}", {"priority": priority})
    if json:
        output.print_json(job)
    else:
        print(f"{id} {job['state']}, priority {job['priority']}")


@app.command(name="next")
def do_next(*ids: Id, json: output.Json = False) -> None:
    """Put jobs before all others of yours; for an admin, before everybody's."""
    if not ids:
        raise errors.Invalid("say which jobs, by their ids")
    # The first that is named comes first, so it is the last that is put before the others.
    _act_on_each("next", ids[::-1], json)


def _act(
    action: str,
    ids: tuple[str, ...],
    wanted: JobFilterOptions | None,
    *,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> None:
    filter = (wanted or JobFilterOptions()).given()
    if bool(ids) == bool(filter):
        raise errors.Invalid("say which jobs: by their ids, or by a filter such as --state queued")
    if ids and dry_run:
        raise errors.Invalid("--dry-run goes with a filter, not with ids")
    if ids:
        _act_on_each(action, ids, json)
    else:
        _act_on_matching(action, filter, dry_run=dry_run, yes=yes, json=json)


def _act_on_each(action: str, ids: tuple[str, ...], json: bool) -> None:
    with client.connect() as api:
        answers = []
        for id in ids:
            answers.append(api.post(f"/jobs/{id}/{action}"))
            if not json:
                print(_said(action, id, answers[-1]))
    if json:
        output.print_json(answers[0] if len(ids) == 1 else answers)


def _said(action: str, id: str, job: dict[str, str]) -> str:
    if action == "retry":
        return f"{job['id']} {job['state']}, a retry of {id}"
    if action == "next":
        return f"{id} {job['state']}, next"
    if job["state"] == State.PROCESSING:
        return f"{id} will be canceled: its worker has yet to stop"
    return f"{id} {job['state']}"


def _act_on_matching(
    action: str, filter: dict[str, str], *, dry_run: bool, yes: bool, json: bool
) -> None:
    body = {"action": action, "filter": filter}
    with client.connect() as api:
        answer = api.post("/jobs/actions", {**body, "dry_run": True})
        matched = answer["matched"]
        if matched and not dry_run:
            output.confirm(f"{action.capitalize()} {output.count(matched, 'job')}?", yes)
            answer = api.post("/jobs/actions", body)
    if json:
        output.print_json(answer)
    elif dry_run or not matched:
        print(f"{output.count(matched, 'job')} match" + ("es" if matched == 1 else ""))
    else:
        print(f"{output.count(answer['changed'], 'job')} {DONE[action]}")
    if matched >= BULK_LIMIT and not dry_run:
        output.note("there may be more: run it again")


def _log(id: str, follow: bool) -> Iterator[str]:
    """Goes on where it was when the connection breaks."""
    seen = 0
    with client.connect() as api:
        while True:
            try:
                with api.stream(f"/jobs/{id}/logs", follow=follow) as lines:
                    for number, line in enumerate(lines, 1):
                        if number > seen:
                            seen = number
                            yield line
                if not follow or api.get(f"/jobs/{id}")["state"] in TERMINAL:
                    return
            except errors.Unavailable as error:
                if not follow:
                    raise
                output.note(f"{error.message}; trying again")
            time.sleep(RECONNECT_SECONDS)


def _row(job: dict[str, object]) -> tuple[str, ...]:
    return (
        str(job["id"]),
        str(job["state"]),
        str(job["kind"]),
        str(job["priority"]),
        f"{job['progress']:.0%}",
        f"{job['attempt']}/{job['max_attempts']}",
        str(job["created_at"]),
    )
