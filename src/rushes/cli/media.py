"""`rushes media`: the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import cyclopts

from rushes import errors
from rushes.cli import client, output

if TYPE_CHECKING:
    from rushes.cli.api import Document

app = cyclopts.App(name="media", help="List, look at, share and remove media.", help_epilogue="")

Id = Annotated[str, cyclopts.Parameter(help="The media's id, such as med_0198a3….")]
Status = Annotated[
    Literal["pending", "processing", "ready", "failed"] | None,
    cyclopts.Parameter(help="Only media with this status."),
]
Query = Annotated[
    str | None, cyclopts.Parameter(name=["--query", "-q"], help="Only titles with this in them.")
]
Limit = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=1, lte=1000), help="How many at most."
    ),
]
JOB_COLUMNS = ("id", "kind", "state", "stage", "progress", "worker_name")


@app.command(name="ls")
def list_media(
    *, status: Status = None, query: Query = None, limit: Limit = 50, json: output.Json = False
) -> None:
    """List media, newest first."""
    with client.connect() as api:
        found = api.items("/media", limit, status=status, q=query)
    if json:
        output.print_json(found)
    elif found:
        columns = ("id", "status", "transcript", "length", "size", "created", "title")
        output.print_table(columns, [_row(each) for each in found])
    else:
        print("no media")


@app.command
def show(id: Id, /, *, json: output.Json = False) -> None:
    """Show one media, its renditions and what is being done with it."""
    with client.connect() as api:
        media = api.get(f"/media/{id}")
    if json:
        output.print_json(media)
        return
    output.print_pairs((name, value) for name, value in _pairs(media).items() if value)
    if media["renditions"]:
        print()
        output.print_renditions(media["renditions"])
    if media["jobs"]:
        print()
        rows = [[_cell(job, name) for name in JOB_COLUMNS] for job in media["jobs"]]
        output.print_table(("job", *JOB_COLUMNS[1:-1], "worker"), rows)


@app.command(name="rm")
def remove(*ids: Id, yes: output.Yes = False, json: output.Json = False) -> None:
    """Remove media and their work; nobody can watch them any more."""
    if not ids:
        raise errors.Invalid("say which media, by their ids")
    with client.connect() as api:
        titles = [api.get(f"/media/{id}")["title"] for id in ids]
        named = f'"{titles[0]}"' if len(ids) == 1 else output.count(len(ids), "media item")
        output.confirm(f"Remove {named}?", yes)
        for id in ids:
            api.delete(f"/media/{id}")
    if json:
        output.print_json([{"id": id, "removed": True} for id in ids])
    else:
        for id, title in zip(ids, titles, strict=True):
            print(f"{id} removed ({output.one_line(title)})")


@app.command
def share(id: Id, /, *, json: output.Json = False) -> None:
    """Print a link that shows this media to whoever has it."""
    with client.connect() as api:
        shared = api.post(f"/media/{id}/share")
    if json:
        output.print_json({"id": id, **shared})
    else:
        print(shared["share_url"])


@app.command
def unshare(id: Id, /, *, json: output.Json = False) -> None:
    """Make the link stop working."""
    with client.connect() as api:
        api.delete(f"/media/{id}/share")
    if json:
        output.print_json({"id": id, "share_url": None})
    else:
        print(f"{id} is not shared any more")


def _row(media: Document) -> tuple[str, ...]:
    return (
        media["id"],
        status_of(media),
        media["transcript_status"],
        output.length(media["duration"]),
        output.size(media["size_bytes"]),
        output.when(media["created_at"]),
        media["title"],
    )


def _pairs(media: Document) -> dict[str, str]:
    return {
        **{name: media[name] for name in ("id", "title")},
        "kind": media["kind"] or "",
        "status": status_of(media),
        "transcript": media["transcript_status"],
        "error": media["error"] or "",
        "length": output.length(media["duration"]),
        "size": output.size(media["size_bytes"]),
        "file": media["file_name"],
        "created": output.when(media["created_at"]),
        "shared at": media["share_url"] or "",
        "same as": " ".join(media["duplicate_of"]),
    }


def status_of(media: Document) -> str:
    progress = f" {media['progress']:.0%}" if media["status"] == "processing" else ""
    return f"{media['status']}{progress}"


def _cell(job: dict[str, Any], name: str) -> str:
    return f"{job[name]:.0%}" if name == "progress" else output.text(job[name])
