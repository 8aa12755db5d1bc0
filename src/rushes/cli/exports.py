"""`rushes media export` and `exports`: files of what is watched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import cyclopts

from rushes import errors
from rushes.cli import FAILED, INTERRUPTED, client, output

if TYPE_CHECKING:
    from rushes.client.api import Api
    from rushes.client.shapes import Document

Id = Annotated[str, cyclopts.Parameter(help="The media's id, such as med_0198a3….")]
Format = Annotated[
    Literal["mp4", "m4a", "mp3"],
    cyclopts.Parameter(name=["--format", "-f"], help="mp4: picture and sound; else sound alone."),
]
Rendition = Annotated[
    str | None, cyclopts.Parameter(name=["--rendition", "-r"], help="Such as 720p; else the best.")
]
From = Annotated[
    str, cyclopts.Parameter(name="--from", help="What to begin with: 12.5 or 1:02:03.")
]
To = Annotated[str | None, cyclopts.Parameter(name="--to", help="Where to end; else at the end.")]
Burn = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Write the captions into the picture; encodes it.")
]
Exact = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Begin with the very frame; encodes the picture.")
]
NoWait = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Only ask for it; 'media exports' lists it.")
]
Out = Annotated[
    Path | None,
    cyclopts.Parameter(name=["--out", "-o"], help="Where to; else here, by a name of its own."),
]


def export(
    id: Id,
    /,
    *,
    format: Format = "mp4",
    rendition: Rendition = None,
    from_: From = "0",
    to: To = None,
    burn_captions: Burn = False,
    exact: Exact = False,
    out: Out = None,
    no_wait: NoWait = False,
    priority: output.Priority = None,
    json: output.Json = False,
) -> int:
    """Make a file of what is watched, or of a part of it, and fetch it. What is not encoded begins
    with the key frame before --from, and is shown from there on by players that know how."""
    body = {
        "format": format,
        "rendition": rendition,
        "start": output.seconds("--from", from_),
        "end": None if to is None else output.seconds("--to", to),
        "burn_captions": burn_captions,
        "exact": exact,
        "priority": priority,
    }
    with client.connect(needs_server=True) as api:
        job = api.post(f"/media/{id}/exports", body)
        if no_wait:
            _print(job, json, f"{job['id']} {job['state']}, to export {id}")
            return 0
        try:
            job = _wait_for(api, job)
        except KeyboardInterrupt:
            output.note(f"stopped waiting: {job['id']} goes on, see 'rushes media exports {id}'")
            return INTERRUPTED
        if job["state"] != "completed":
            output.note(f"{job['id']} {job['state']}: {job['error'] or 'no file was made'}")
            return FAILED
        return _fetch(api, job, out, json)


def exports(id: Id, /, *, json: output.Json = False) -> None:
    """List the files that were made of what is watched."""
    with client.connect() as api:
        found = api.items(f"/media/{id}/exports", 1000)
    if json:
        output.print_json(found)
    elif found:
        columns = ("id", "status", "size", "until", "name")
        output.print_table(columns, [_row(each) for each in found])
    else:
        print("no exports")


def _wait_for(api: Api, job: Document) -> Document:
    from rushes.cli import meter
    from rushes.cli.following import job_at_its_end

    with meter.work_done() as bars:
        task = bars.task(job["args"]["name"], 1.0)
        return job_at_its_end(api, job["id"], task)


def _fetch(api: Api, job: Document, out: Path | None, json: bool) -> int:
    found = api.items(f"/media/{job['media_id']}/exports", 1000)
    made = next((each for each in found if each["id"] == job["id"] and each["url"]), None)
    if made is None:
        raise errors.NotFound("the export is not there any more: ask for it again")
    target = out or Path(made["name"])
    if target.is_dir():
        target = target / made["name"]
    _download(api, made, target)
    _print({**made, "path": str(target)}, json, str(target))
    return 0


def _download(api: Api, made: Document, target: Path) -> None:
    """Whole, or not at all."""
    from rushes.cli import meter

    draft = target.with_name(f".{target.name}.part")
    try:
        with (
            meter.bytes_sent("getting") as bars,
            api.content(made["url"].removeprefix("/api/v1")) as chunks,
            draft.open("wb") as file,
        ):
            task = bars.task(target.name, made["size_bytes"])
            for chunk in chunks:
                file.write(chunk)
                task.at(file.tell())
            task.end()
        if draft.stat().st_size != made["size_bytes"]:
            raise errors.Unavailable("the file did not arrive whole: try again")
        draft.replace(target)
    except OSError as error:
        raise errors.DiskFull(f"cannot write {target}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def _print(value: Document, json: bool, line: str) -> None:
    if json:
        output.print_json(value)
    else:
        print(line)


def _row(made: Document) -> tuple[str, ...]:
    progress = f" {made['progress']:.0%}" if made["status"] == "processing" else ""
    return (
        made["id"],
        f"{made['status']}{progress}",
        "" if made["size_bytes"] is None else output.size(made["size_bytes"]),
        output.when(made["expires_at"]),
        made["error"] or made["name"],
    )
