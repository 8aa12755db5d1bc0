"""`rushes upload`: send files to a server, and wait for what it makes of them if asked to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts

from rushes import errors
from rushes.cli import FAILED, client, output

if TYPE_CHECKING:
    from rushes.cli.meter import Meter
    from rushes.client.api import Api
    from rushes.client.sending import Uploader

Paths = Annotated[
    str,
    cyclopts.Parameter(
        name="PATH",
        help="Files; folders with --recursive; URLs, which the server fetches by itself.",
    ),
]
Recursive = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Send what is in folders, except hidden files.")
]
Wait = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Wait until all work on them is done.")]
Title = Annotated[str | None, cyclopts.Parameter(help="Instead of the file's name; for one file.")]
Profile = Annotated[str | None, cyclopts.Parameter(help="The profile to transcode with.")]
NoTranscribe = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Make no transcript.")]
Language = Annotated[str | None, cyclopts.Parameter(help="What is spoken, such as en or pt-BR.")]
SpeechProfile = Annotated[
    str | None, cyclopts.Parameter(help="The transcription profile to transcribe with.")
]
Diarize = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Tell the speakers apart.")]

SCHEMES = ("http://", "https://")
SENT, SKIPPED, FAILED_STATUS = "sent", "skipped", "failed"


@dataclass(slots=True)
class UploadResult:
    """What became of one file; `status` is the media's once it was waited for."""

    path: str
    status: str = SENT
    media_id: str | None = None
    duplicate_of: str | None = None
    duplicate_in_trash: str | None = None
    transcript_status: str | None = None
    error: str | None = None
    job_id: str | None = None

    @property
    def has_failed(self) -> bool:
        return FAILED_STATUS in (self.status, self.transcript_status)


def run(
    *paths: Paths,
    recursive: Recursive = False,
    wait: Wait = False,
    title: Title = None,
    profile: Profile = None,
    no_transcribe: NoTranscribe = False,
    language: Language = None,
    diarize: Diarize = False,
    transcription_profile: SpeechProfile = None,
    priority: output.Priority = None,
    json: output.Json = False,
) -> int:
    """Send files to a server. Stopped half way, the same command goes on where it was."""
    urls = [each for each in paths if each.lower().startswith(SCHEMES)]
    named = [Path(each) for each in paths if each not in urls]
    files = _collect(named, recursive) if named or not urls else []
    if title is not None and len(files) + len(urls) > 1:
        raise errors.Invalid(f"--title is for one file, and these are {len(files) + len(urls)}")
    options = {
        "title": title or "",
        "profile": profile or "",
        "transcribe": "false" if no_transcribe else "",
        "language": language or "",
        "diarize": "true" if diarize else "",
        "transcription_profile": transcription_profile or "",
        "priority": priority or "",
    }
    results: list[UploadResult] = []
    try:
        with client.connect(needs_server=True) as api:
            # Whether it is there and knows us is better learned now than file by file.
            api.get("/session")
            given = {name: value for name, value in options.items() if value}
            _import_all(api, urls, given, results)
            if files:
                _send_all(api, files, given, results)
            if wait:
                _wait_for_imports(api, results)
                _wait_for(api, results)
    finally:
        if results:
            _print(results, json)
    return FAILED if any(each.has_failed for each in results) else 0


@dataclass(frozen=True, slots=True)
class _File:
    """`named`: somebody asked for this very file; others were found in a folder, and lie in
    `folder`, which begins with the name of the one that was asked for."""

    path: Path
    named: bool
    folder: str = ""


def _collect(paths: Sequence[Path], recursive: bool) -> list[_File]:
    if not paths:
        raise errors.Invalid("say which files to send")
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise errors.Invalid(f"no such file: {', '.join(missing)}")
    found: dict[Path, _File] = {}
    hidden = 0
    for path in paths:
        if not path.is_dir():
            found.setdefault(path.resolve(), _File(path, True))
        elif not recursive:
            raise errors.Invalid(f"{path} is a folder: say --recursive to send what is in it")
        else:
            for inner in _walk(path):
                if inner is None:
                    hidden += 1
                else:
                    folder = Path(path.resolve().name, inner.parent.relative_to(path))
                    found.setdefault(inner.resolve(), _File(inner, False, folder.as_posix()))
    if hidden:
        output.note(f"left out hidden files and folders: {hidden}")
    if not found:
        raise errors.Invalid("there is nothing to send in there")
    return list(found.values())


def _walk(folder: Path) -> Iterator[Path | None]:
    """Every file in it, in order; None for what is hidden."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in [each for each in folders if each.startswith(".")]:
            folders.remove(name)
            yield None
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith("."):
                yield None
            elif path.is_file():
                yield path


def _send_all(
    api: Api, files: Sequence[_File], options: dict[str, str], results: list[UploadResult]
) -> None:
    from rushes.cli import meter
    from rushes.client.sending import Uploader
    from rushes.client.unfinished import Unfinished

    uploader = Uploader(api, Unfinished())
    try:
        with meter.bytes_sent() as bars:
            for file in files:
                results.append(_send(uploader, file, options, bars))
    except KeyboardInterrupt:
        output.note("stopped: the same command goes on where this one was")
        raise
    except errors.Unavailable as error:
        raise type(error)(
            f"{error.message}; the same command goes on where this one stopped"
        ) from error


def _import_all(
    api: Api, urls: Sequence[str], options: dict[str, str], results: list[UploadResult]
) -> None:
    """Asks for them; the server needs nobody to wait."""
    flags = {name: value == "true" for name, value in options.items() if value in ("true", "false")}
    for url in urls:
        try:
            job = api.post("/media/import", {**options, **flags, "url": url})
            results.append(UploadResult(path=url, status=job["state"], job_id=job["id"]))
        except errors.Invalid as error:
            results.append(UploadResult(path=url, status=FAILED_STATUS, error=error.message))


def _wait_for_imports(api: Api, results: Sequence[UploadResult]) -> None:
    from rushes.cli import meter
    from rushes.cli.following import job_at_its_end

    with meter.work_done() as bars:
        for result in (each for each in results if each.job_id and not each.error):
            job = job_at_its_end(api, str(result.job_id), bars.task(result.path, 1.0))
            if job["state"] == "completed":
                result.status, result.media_id = SENT, job["result"]["media_id"]
            else:
                result.status, result.error = FAILED_STATUS, job["error"] or job["state"]


def _send(uploader: Uploader, file: _File, options: dict[str, str], bars: Meter) -> UploadResult:
    result = UploadResult(path=str(file.path))
    task = bars.task(file.path.name, _size(file.path))
    if file.folder:
        options = {**options, "folder": file.folder}
    try:
        sent = uploader.send(file.path, options, task)
    except OSError as error:
        result.status, result.error = FAILED_STATUS, error.strerror or str(error)
    except errors.UnsupportedMedia as error:
        # A folder may well hold other things besides media.
        result.status = FAILED_STATUS if file.named else SKIPPED
        result.error = error.message
    except (errors.Invalid, errors.NotFound) as error:
        result.status, result.error = FAILED_STATUS, error.message
    else:
        result.media_id, result.duplicate_of = sent.media_id, sent.duplicate_of
        result.duplicate_in_trash = sent.duplicate_in_trash
    task.end()
    return result


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _wait_for(api: Api, results: Sequence[UploadResult]) -> None:
    from rushes.cli import meter
    from rushes.cli.following import Follower

    sent = {each.media_id: each for each in results if each.media_id is not None}
    names = {id: Path(each.path).name for id, each in sent.items()}
    try:
        with meter.work_done() as bars:
            found = Follower(api, names, bars).follow()
    except KeyboardInterrupt:
        output.note("the server goes on without us; 'rushes media show ID' tells how far it is")
        raise
    for id, result in sent.items():
        if id not in found:
            result.status, result.error = FAILED_STATUS, "it was removed"
            continue
        result.status = found[id]["status"]
        result.transcript_status = found[id]["transcript_status"]
        if result.has_failed:
            result.error = found[id]["error"] or _last_error(api, id)


def _last_error(api: Api, media_id: str) -> str | None:
    failed = api.items("/jobs", 1, media_id=media_id, state="failed")
    return f"{failed[0]['kind']}: {failed[0]['error']}" if failed else None


def _print(results: Sequence[UploadResult], json: bool) -> None:
    if json:
        output.print_json([asdict(each) for each in results])
        return
    rows = [
        (each.media_id or each.job_id or "-", _status(each), each.path, _remark(each))
        for each in results
    ]
    output.print_table(("media", "status", "file", ""), rows)


def _status(result: UploadResult) -> str:
    if result.transcript_status in (None, "none", result.status):
        return result.status
    return f"{result.status}, transcript {result.transcript_status}"


def _remark(result: UploadResult) -> str:
    if result.duplicate_of is not None and result.error is None:
        return f"the same file is already there as {result.duplicate_of}"
    if result.duplicate_in_trash is not None and result.error is None:
        return f"the same file is in the trash: rushes media restore {result.duplicate_in_trash}"
    return result.error or ""
