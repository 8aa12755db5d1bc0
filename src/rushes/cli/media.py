"""`rushes media`: the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import cyclopts

from rushes import errors
from rushes.cli import client, output
from rushes.transcripts import formats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushes.client.api import Api
    from rushes.client.shapes import Document

app = cyclopts.App(
    name="media", help="List, look at, share, change and remove media.", help_epilogue=""
)

Id = Annotated[str, cyclopts.Parameter(help="The media's id, such as med_0198a3….")]
Status = Annotated[
    Literal["pending", "processing", "ready", "failed", "trashed"] | None,
    cyclopts.Parameter(help="Only media with this status."),
]
Query = Annotated[
    str | None, cyclopts.Parameter(name=["--query", "-q"], help="Only titles with this in them.")
]
Tag = Annotated[str | None, cyclopts.Parameter(help="Only media with this tag.")]
Collection = Annotated[
    str | None, cyclopts.Parameter(help="Only media in this collection, by its name or id.")
]
FromOrigin = Annotated[
    Literal["library", "upload", "watch", "api"] | None,
    cyclopts.Parameter(help="Only media that came so; library: all but those of API calls."),
]
Sort = Annotated[
    Literal["newest", "oldest", "title", "longest", "largest", "recorded"] | None,
    cyclopts.Parameter(help="In which order; newest first if not said."),
]
Add = Annotated[
    list[str] | None, cyclopts.Parameter(name=["--add", "-a"], negative="", help="Repeat.")
]
Remove = Annotated[
    list[str] | None, cyclopts.Parameter(name=["--remove", "-r"], negative="", help="Repeat.")
]
Limit = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=1, lte=1000), help="How many at most."
    ),
]
Profile = Annotated[
    str | None,
    cyclopts.Parameter(help="The profile to transcode with; without, the one it was made with."),
]
Qualities = Annotated[
    list[str] | None,
    cyclopts.Parameter(name="--quality", negative="", help="Only this one, such as 720p; repeat."),
]
DropOthers = Annotated[
    bool,
    output.FLAG,
    cyclopts.Parameter(help="With --quality: the other qualities do not stay."),
]
DropTranscript = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Transcribe again when the version is there.")
]
Position = Annotated[
    str,
    cyclopts.Parameter(
        help="bottom-right, bottom-left, top-right, top-left, or X,Y as shares such as 0.1,0.5."
    ),
]
Kind = Annotated[str, cyclopts.Parameter(help="One of your own kinds, such as summarize.")]
Args = Annotated[str | None, cyclopts.Parameter(help="What its handler gets, as JSON.")]
Out = Annotated[
    str,
    cyclopts.Parameter(
        name=["--out", "-o"], help="Where to: a file, or - for stdout.", allow_leading_hyphen=True
    ),
]
MOST_TRASHED = 10_000
JOB_COLUMNS = ("id", "kind", "state", "stage", "progress", "worker_name")


@app.command(name="ls")
def list_media(
    *,
    status: Status = None,
    trashed: Annotated[
        bool, output.FLAG, cyclopts.Parameter(help="What is in the trash; as --status trashed.")
    ] = False,
    query: Query = None,
    tag: Tag = None,
    collection: Collection = None,
    origin: FromOrigin = None,
    sort: Sort = None,
    limit: Limit = 50,
    json: output.Json = False,
) -> None:
    """List media, newest first."""
    if trashed and status not in (None, "trashed"):
        raise errors.Invalid(f"what is in the trash is not {status}: leave out --status")
    status = "trashed" if trashed else status
    with client.connect() as api:
        whose = {"everyone": True} if status == "trashed" else {}
        asked = {"tag": tag, "collection": collection, "origin": origin, "sort": sort}
        found = api.items("/media", limit, status=status, q=query, **asked, **whose)
    if json:
        output.print_json(found)
    elif found and status == "trashed":
        kept = ("id", "deleted", "kept until", "length", "size", "title")
        output.print_table(kept, [_trash_row(each) for each in found])
    elif found:
        columns = ("id", "status", "transcript", "length", "size", "created", "title")
        output.print_table(columns, [_row(each) for each in found])
    else:
        print("the trash is empty" if status == "trashed" else "no media")


@app.command
def show(id: Id, /, *, json: output.Json = False) -> None:
    """Show one media, its renditions and what is being done with it."""
    with client.connect() as api:
        media = api.get(f"/media/{id}")
    if json:
        output.print_json(media)
        return
    output.print_pairs((name, value) for name, value in _pairs(media).items() if value)
    for warning in media["warnings"]:
        print(f"warning: {output.one_line(warning['message'])}")
    if media["renditions"]:
        print()
        output.print_renditions(media["renditions"])
    if media["jobs"]:
        print()
        rows = [[_cell(job, name) for name in JOB_COLUMNS] for job in media["jobs"]]
        output.print_table(("job", *JOB_COLUMNS[1:-1], "worker"), rows)


@app.command(name="rm")
def remove(
    *ids: Id,
    permanently: Annotated[
        bool, output.FLAG, cyclopts.Parameter(help="For good, also out of the trash.")
    ] = False,
    yes: output.Yes = False,
    json: output.Json = False,
) -> None:
    """Move media to the trash and cancel their work; nobody can watch them any more."""
    _require(ids)
    with client.connect() as api:
        titles = _titles(api, ids, in_trash=permanently)
        named = f'"{titles[0]}"' if len(ids) == 1 else output.count(len(ids), "media item")
        if permanently:
            output.confirm(f"Delete {named} for good? Nothing of it can be restored.", yes)
        else:
            output.confirm(f"Move {named} to the trash?", yes)
        _act(api, "delete", ids=ids)
        if permanently:
            _act(api, "purge", ids=ids)
    if json:
        output.print_json([{"id": id, "removed": True, "trashed": not permanently} for id in ids])
        return
    for id, title in zip(ids, titles, strict=True):
        print(f"{id} {'deleted for good' if permanently else 'removed'} ({output.one_line(title)})")
    if not permanently:
        output.note(f"in the trash; to take back: rushes media restore {' '.join(ids)}")


@app.command
def restore(*ids: Id, json: output.Json = False) -> None:
    """Take media back from the trash; work that was under way goes on."""
    _require(ids)
    with client.connect() as api:
        found = [api.post(f"/media/{id}/restore") for id in ids]
    if json:
        output.print_json(found)
        return
    for media in found:
        print(f"{media['id']} restored ({output.one_line(media['title'])})")


@app.command
def empty_trash(
    *,
    everyone: Annotated[
        bool, output.FLAG, cyclopts.Parameter(help="For admins: also the trash of others.")
    ] = False,
    yes: output.Yes = False,
    json: output.Json = False,
) -> None:
    """Delete for good all that is in your trash."""
    with client.connect() as api:
        trash = api.get("/media/trash", everyone=everyone)
        if trash["items"]:
            named = output.count(trash["items"], "media item")
            size = output.size(trash["size_bytes"])
            output.confirm(f"Delete {named} ({size}) for good? Nothing can be restored.", yes)
        changed = 0
        while step := _act(api, "purge", everyone=everyone):
            changed += step
    if json:
        output.print_json({"removed": changed, "size_bytes": trash["size_bytes"]})
    else:
        print(f"{output.count(changed, 'media item')} deleted for good")


def _require(ids: Sequence[str]) -> None:
    if not ids:
        raise errors.Invalid("say which media, by their ids")


def _titles(api: Api, ids: Sequence[str], *, in_trash: bool) -> list[str]:
    """NotFound for the first that is not there."""
    known = {}
    if in_trash:
        trashed = api.items("/media", MOST_TRASHED, status="trashed", everyone=True)
        known = {each["id"]: str(each["title"]) for each in trashed}
    return [known.get(id) or api.get(f"/media/{id}")["title"] for id in ids]


def _act(api: Api, action: str, **chosen: Any) -> int:
    """Returns how many were changed."""
    return int(api.post("/media/actions", {"action": action, "filter": chosen})["changed"])


@app.command(name="tag")
def change_tags(*ids: Id, add: Add = None, remove: Remove = None, json: output.Json = False) -> int:
    """Add tags to media, or take them away."""
    return _label("tag", ids, add, remove, json)


@app.command
def collect(*ids: Id, add: Add = None, remove: Remove = None, json: output.Json = False) -> int:
    """Put media into collections, or take them out: by name or id. One that is not there is
    made."""
    return _label("collect", ids, add, remove, json)


def _label(
    action: str, ids: Sequence[str], add: list[str] | None, remove: list[str] | None, json: bool
) -> int:
    _require(ids)
    with client.connect() as api:
        _titles(api, ids, in_trash=False)
        body = {"action": action, "filter": {"ids": list(ids)}}
        done = api.post("/media/actions", {**body, "add": add or [], "remove": remove or []})
    if json:
        output.print_json(done)
    else:
        print(f"{output.count(done['changed'], 'media item')} changed")
        for each in done["failed"]:
            output.note(f"{each['id']}: {each['message']}")
    return 1 if done["failed"] else 0


@app.command
def describe(
    id: Id,
    /,
    *,
    title: Annotated[str | None, cyclopts.Parameter(help="A new title.")] = None,
    description: Annotated[
        str | None, cyclopts.Parameter(help="Plain text; empty takes it away.")
    ] = None,
    recorded: Annotated[
        str | None, cyclopts.Parameter(help="A date or time such as 2020-07-01; empty: unknown.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Say what it is: its title, its description, when it was recorded."""
    body: Document = {} if title is None else {"title": title}
    body |= {} if description is None else {"description": description or None}
    body |= {} if recorded is None else {"recorded_at": recorded or None}
    with client.connect() as api:
        media = api.patch(f"/media/{id}", body)
    if json:
        output.print_json(media)
    else:
        output.print_pairs((name, value) for name, value in _pairs(media).items() if value)


app.command("rushes.cli.sharing:share", name="share", help="Print a link that shows it to others.")
app.command("rushes.cli.sharing:unshare", name="unshare", help="Make the link stop working.")


@app.command
def retranscode(
    id: Id,
    /,
    *,
    profile: Profile = None,
    quality: Qualities = None,
    drop_others: DropOthers = False,
    drop_transcript: DropTranscript = False,
    priority: output.Priority = None,
    json: output.Json = False,
) -> None:
    """Make a new version; the old one plays until it is there."""
    body = {
        "profile": profile,
        "qualities": quality,
        "keep_others": not drop_others,
        "drop_transcript": drop_transcript,
        "priority": priority,
    }
    _order(id, "retranscode", body, json)


@app.command
def run(
    id: Id,
    kind: Kind,
    /,
    *,
    args: Args = None,
    priority: output.Priority = None,
    json: output.Json = False,
) -> None:
    """Run a job of your own kind on it."""
    given = {"kind": kind, "args": output.parsed("--args", args), "priority": priority}
    _order(id, "jobs", given, json)


@app.command
def retranscribe(
    id: Id,
    /,
    *,
    model: Annotated[str | None, cyclopts.Parameter(help="Of the speech engine.")] = None,
    language: Annotated[str | None, cyclopts.Parameter(help="Such as en; else detected.")] = None,
    speakers: Annotated[int | None, cyclopts.Parameter(help="How many there are.")] = None,
    diarize: Annotated[bool, output.FLAG, cyclopts.Parameter(help="Tell speakers apart.")] = False,
    track: Annotated[int | None, cyclopts.Parameter(help="Of the sound, from 1.")] = None,
    translate: Annotated[bool, output.FLAG, cyclopts.Parameter(help="Into English.")] = False,
    profile: Annotated[str | None, cyclopts.Parameter(help="A transcription profile.")] = None,
    priority: output.Priority = None,
    json: output.Json = False,
) -> None:
    """Listen to it again; one that is running is canceled."""
    body = {
        "model": model,
        "language": language,
        "speakers": speakers,
        "diarize": diarize or None,
        "track": track,
        "task": "translate" if translate else None,
        "profile": profile,
        "priority": priority,
    }
    _order(id, "retranscribe", body, json)


@app.command
def diarize(
    id: Id,
    /,
    *,
    speakers: Annotated[int | None, cyclopts.Parameter(help="How many there are.")] = None,
    min_speakers: Annotated[int | None, cyclopts.Parameter(help="At least so many.")] = None,
    max_speakers: Annotated[int | None, cyclopts.Parameter(help="At most so many.")] = None,
    track: Annotated[int | None, cyclopts.Parameter(help="Of the sound, from 1.")] = None,
    priority: output.Priority = None,
    json: output.Json = False,
) -> None:
    """Tell the speakers of its transcript apart; the words stay as they are."""
    body = {
        "speakers": speakers,
        "min_speakers": min_speakers,
        "max_speakers": max_speakers,
        "track": track,
        "priority": priority,
    }
    _order(id, "transcript/speakers", body, json)


@app.command
def transcript(
    id: Id,
    /,
    *,
    format: Annotated[
        formats.Format, cyclopts.Parameter(name=["--format", "-f"], help="What to print.")
    ] = "txt",
    out: Out = output.STDOUT,
    json: output.Json = False,
) -> None:
    """Print what is said in it, or write it to a file."""
    wanted = "json" if json else format
    output.check_printable(wanted, out)
    with client.connect() as api:
        answer = api.send("GET", f"/media/{id}/transcript", params={"format": wanted})
    output.write(answer.content, wanted, None if out == output.STDOUT else Path(out))


app.command("rushes.cli.exports:export", name="export", help="Make a file of it, and fetch it.")
app.command("rushes.cli.exports:exports", name="exports", help="List the files made of it.")


@app.command
def trim(
    id: Id,
    /,
    *,
    start: Annotated[str, cyclopts.Parameter(help="What to begin with: 12.5 or 1:02:03.")] = "0",
    end: Annotated[str | None, cyclopts.Parameter(help="What to end with; the end if not.")] = None,
    reset: Annotated[bool, output.FLAG, cyclopts.Parameter(help="Undo all edits.")] = False,
    priority: output.Priority = None,
    json: output.Json = False,
) -> None:
    """Cut off the beginning or the end of what is seen now."""
    if reset and (end is not None or start != "0"):
        raise errors.Invalid("--reset undoes all edits: it goes with neither --start nor --end")
    body = {
        "start": output.seconds("--start", start),
        "end": None if end is None else output.seconds("--end", end),
        "reset": reset,
        "priority": priority,
    }
    _order(id, "trim", body, json)


@app.command
def composite(
    id: Id,
    overlay: Annotated[str, cyclopts.Parameter(help="The id of the video to lay over it.")],
    /,
    *,
    position: Position = "bottom-right",
    size: Annotated[float, cyclopts.Parameter(help="Its share of the width.")] = 0.25,
    sound: Annotated[
        Literal["main", "overlay", "both"], cyclopts.Parameter(help="Whose sound is heard.")
    ] = "main",
    priority: output.Priority = None,
    json: output.Json = False,
) -> None:
    """Lay another video over this one, such as a webcam's."""
    body = {
        "overlay_media_id": overlay,
        "position": _position(position),
        "size": size,
        "sound": sound,
        "priority": priority,
    }
    _order(id, "composite", body, json)


def _order(id: str, what: str, body: Document, json: bool) -> None:
    with client.connect() as api:
        job = api.post(f"/media/{id}/{what}", body)
    if json:
        output.print_json(job)
    else:
        print(f"{job['id']} {job['state']}, to {job['kind']} {id}")


def _position(text: str) -> str | dict[str, float]:
    x, comma, y = text.partition(",")
    if not comma:
        return text
    try:
        return {"x": float(x), "y": float(y)}
    except ValueError:
        raise errors.BadField("--position", f"must be like 0.1,0.5, not {text!r}") from None


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


def _trash_row(media: Document) -> tuple[str, ...]:
    return (
        media["id"],
        output.when(media["deleted_at"]),
        output.when(media["purge_at"]),
        output.length(media["duration"]),
        output.size(media["size_bytes"]),
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
        "picture": f"{media['width']}×{media['height']}" if media["width"] else "",
        "edit": output.text(media["edit"]),
        "size": output.size(media["size_bytes"]),
        "file": media["file_name"],
        "created": output.when(media["created_at"]),
        "recorded": output.when(media["recorded_at"]) if media["recorded_at"] else "",
        "tags": ", ".join(media["tags"]),
        "collections": ", ".join(each["name"] for each in media["collections"]),
        "description": output.one_line(media["description"] or ""),
        "shared at": media["share_url"] or "",
        "same as": " ".join(media["duplicate_of"]),
        "in the trash": " ".join(media["duplicate_in_trash"]),
        **{each["label"].lower(): _output(each) for each in media["outputs"]},
    }


def _output(made: Document) -> str:
    """What was made in a slot, or why not."""
    files = [f"{each['name']} ({output.size(each['size_bytes'])})" for each in made["files"]]
    failed = f"{made['status']} {made['error'] or ''}".strip() if made["status"] != "ready" else ""
    return "; ".join(filter(None, [", ".join(files), failed]))


def status_of(media: Document) -> str:
    progress = f" {media['progress']:.0%}" if media["status"] == "processing" else ""
    return f"{media['status']}{progress}"


def _cell(job: dict[str, Any], name: str) -> str:
    return f"{job[name]:.0%}" if name == "progress" else output.text(job[name])
