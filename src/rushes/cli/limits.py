"""`rushes limits`: how many jobs with something in common may run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import cyclopts

from rushes.cli import client, output

if TYPE_CHECKING:
    from rushes.client.shapes import Document

app = cyclopts.App(
    name="limits", help="List, set and remove how many jobs may run at once.", help_epilogue=""
)

Key = Annotated[
    str,
    cyclopts.Parameter(
        help="user:* (each user), user:NAME, kind:transcode, or what jobs name: engine:openai."
    ),
]
Most = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=1, lte=100_000), help="So many at once."
    ),
]


@app.command(name="ls")
def list_limits(*, json: output.Json = False) -> None:
    """List the limits, and how many jobs run now."""
    with client.connect() as api:
        found = api.get("/limits")["items"]
    if json:
        output.print_json(found)
    elif found:
        columns = ("key", "most", "running", "user")
        output.print_table(columns, [_row(each) for each in found])
    else:
        print("no limits")


@app.command(name="set")
def set_limit(key: Key, most: Most, /, *, json: output.Json = False) -> None:
    """Set a limit; it holds from the next job on, and what runs goes on."""
    with client.connect() as api:
        limit = api.send("PUT", f"/limits/{key}", json={"most": most}).json()
    if json:
        output.print_json(limit)
    else:
        print(f"{limit['key']}: {limit['most']} at once, {limit['running']} running")


@app.command
def unset(key: Key, /, *, json: output.Json = False) -> None:
    """Remove a limit."""
    with client.connect() as api:
        api.delete(f"/limits/{key}")
    if json:
        output.print_json({"key": key, "most": None})
    else:
        print(f"{key} has no limit any more")


def _row(limit: Document) -> tuple[str, ...]:
    name = output.text(limit.get("name"))
    return (str(limit["key"]), str(limit["most"]), str(limit["running"]), name)
