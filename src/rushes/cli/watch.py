"""`rushes watch`: send what appears in a folder to a server, until Ctrl-C."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import cyclopts
import msgspec

from rushes import errors
from rushes.cli import client, output

if TYPE_CHECKING:
    from rushes.cli.meter import Meter
    from rushes.client.api import Api
    from rushes.client.sending import Sent
    from rushes.folders import Found, Outcome, Take

Folder = Annotated[Path, cyclopts.Parameter(name="DIR", help="Its sub-folders are watched, too.")]
After = Annotated[
    Literal["keep", "move", "delete"],
    cyclopts.Parameter(help="What becomes of a file the server has; move: into .done in DIR."),
]
Settle = Annotated[
    float,
    cyclopts.Parameter(help="Seconds that a file must stay as it is to count as whole."),
]
Profile = Annotated[str | None, cyclopts.Parameter(help="The profile to transcode with.")]
NoTranscribe = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Make no transcript.")]
Language = Annotated[str | None, cyclopts.Parameter(help="What is spoken, such as en or pt-BR.")]
Priority = Annotated[
    Literal["high", "normal", "low"],
    cyclopts.Parameter(help="Which work comes first; high is for admins."),
]
Diarize = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Tell the speakers apart.")]


def run(
    folder: Folder,
    /,
    *,
    after: After = "keep",
    settle: Settle = 5.0,
    profile: Profile = None,
    no_transcribe: NoTranscribe = False,
    language: Language = None,
    diarize: Diarize = False,
    priority: Priority = "low",
    json: output.Json = False,
) -> None:
    """Send the files that appear in a folder, each once, until Ctrl-C. Those that the server has
    already are skipped; stopped half way, the same command goes on where it was."""
    from rushes.cli import meter
    from rushes.client import unfinished
    from rushes.folders import FolderWatcher, Notes

    if not folder.is_dir():
        raise errors.Invalid(f"{folder} is no folder")
    if not 0 < settle <= 3600:
        raise errors.Invalid("--settle must be more than 0, and at most 3600")
    options = {
        "profile": profile or "",
        "transcribe": "false" if no_transcribe else "",
        "language": language or "",
        "diarize": "true" if diarize else "",
        "skip_duplicates": "true",
        "priority": priority,
        "origin": "watch",
    }
    with client.connect(needs_server=True) as api, meter.bytes_sent() as bars:
        who = api.get("/session")["id"]
        facts = f"{api.where}\0{who}\0{folder.resolve()}".encode()
        name = f"watched-{hashlib.sha256(facts).hexdigest()[:16]}.jsonl"
        given = {name: value for name, value in options.items() if value}
        FolderWatcher(
            folder,
            _sender(api, given, bars, json),
            Notes(unfinished.cache_directory() / name),
            after=after,
            settle_seconds=settle,
            say=output.note,
        ).run()


def _sender(api: Api, options: dict[str, str], bars: Meter, json: bool) -> Take:
    from rushes.client.sending import Uploader
    from rushes.client.unfinished import Unfinished
    from rushes.folders import Outcome

    uploader = Uploader(api, Unfinished())

    def take(file: Found) -> Outcome:
        task = bars.task(file.path.name, file.facts.size_bytes)
        try:
            lies_in = {"folder": file.folder} if file.folder else {}
            sent = uploader.send(file.path, {**options, **lies_in}, task)
        finally:
            task.end()
        outcome = Outcome.DUPLICATE if sent.duplicate_of == sent.media_id else Outcome.TAKEN
        _print(file, sent, outcome, json)
        return outcome

    return take


def _print(file: Found, sent: Sent, outcome: Outcome, json: bool) -> None:
    if json:
        said = {"path": str(file.path), "status": str(outcome), "media_id": sent.media_id}
        print(msgspec.json.encode(said).decode(), flush=True)
    else:
        print(f"{sent.media_id}  {outcome}  {output.one_line(file.name)}", flush=True)
