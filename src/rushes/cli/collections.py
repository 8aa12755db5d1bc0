"""`rushes collections`: what media are put together in."""

from __future__ import annotations

from typing import Annotated

import cyclopts

from rushes.cli import client, output

app = cyclopts.App(
    name="collections", help="List, make, rename and remove collections.", help_epilogue=""
)

Id = Annotated[str, cyclopts.Parameter(help="The collection's id, such as col_0198a3….")]
Name = Annotated[str, cyclopts.Parameter(help="Such as 2020/Summer.")]
MOST = 10_000


@app.command(name="ls")
def list_collections(*, json: output.Json = False) -> None:
    """List your collections, and how much is in them."""
    with client.connect() as api:
        found = api.items("/collections", MOST)
    if json:
        output.print_json(found)
    elif found:
        rows = [(each["id"], str(each["items"]), each["name"]) for each in found]
        output.print_table(("id", "items", "name"), rows)
    else:
        print("no collections")


@app.command
def add(name: Name, /, *, json: output.Json = False) -> None:
    """Make a collection with nothing in it."""
    with client.connect() as api:
        made = api.post("/collections", {"name": name})
    if json:
        output.print_json(made)
    else:
        print(f"{made['id']} made ({output.one_line(made['name'])})")


@app.command
def rename(id: Id, name: Name, /, *, json: output.Json = False) -> None:
    """Give it another name."""
    with client.connect() as api:
        made = api.patch(f"/collections/{id}", {"name": name})
    if json:
        output.print_json(made)
    else:
        print(f"{made['id']} is {output.one_line(made['name'])} now")


@app.command(name="rm")
def remove(id: Id, /, *, yes: output.Yes = False, json: output.Json = False) -> None:
    """Remove a collection; the media that are in it stay."""
    with client.connect() as api:
        found = api.get(f"/collections/{id}")
        output.confirm(f'Remove the collection "{found["name"]}"? Its media stay.', yes)
        api.delete(f"/collections/{id}")
    if json:
        output.print_json({"id": id, "removed": True})
    else:
        print(f"{id} removed ({output.one_line(found['name'])})")
