"""`rushes process`: the whole pipeline for files on this machine, without a server."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import errors
from rushes.cli import FAILED, INTERRUPTED, output
from rushes.records import JsonObject

if TYPE_CHECKING:
    from rushes.cli.meter import Task
    from rushes.engines.registry import Registry
    from rushes.protocol import Progress
    from rushes.worker.folder import Folder

Files = Annotated[Path, cyclopts.Parameter(name="FILE", help="Videos or sound files.")]
Out = Annotated[
    Path | None, cyclopts.Parameter(help="Where to put what is made; a folder for each file.")
]
Qualities = Annotated[
    str | None, cyclopts.Parameter(help="Only these, such as 720p,360p; else all that fit.")
]
Preset = Annotated[str | None, cyclopts.Parameter(help="Of the encoder: ultrafast to slower.")]
Transcribe = Annotated[
    bool, cyclopts.Parameter(help="Also write down what is said: transcript and captions.")
]
Model = Annotated[str | None, cyclopts.Parameter(help="For that, as 'rushes models ls' names it.")]
Language = Annotated[str | None, cyclopts.Parameter(help="That is spoken; else it is detected.")]
Diarize = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Tell speakers apart.")]
Again = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Make anew what is there already.")]

DEFAULT_OUT = Path("rushes-out")
OTHERS = (
    "holds what was made of another file, or in another way: choose another --out, or say --again"
)
# One process is all there is to divide the work among.
ALONE = {"divide_after": 1e9}


@dataclass(slots=True)
class ProcessResult:
    path: str
    status: str
    folder: str | None = None
    duration: float | None = None
    renditions: list[str] = field(default_factory=list)
    seconds: float = 0.0
    size_bytes: int = 0
    words: int | None = None
    warnings: list[str] = field(default_factory=list)
    error: str | None = None


def run(
    *files: Files,
    out: Out = None,
    qualities: Qualities = None,
    preset: Preset = None,
    transcribe: Transcribe = True,
    model: Model = None,
    language: Language = None,
    diarize: Diarize = False,
    again: Again = False,
    json: output.Json = False,
) -> int:
    """Make files streamable and captioned. Run again after a stop, it goes on where it was."""
    sources = _checked(files)
    args: dict[str, Any] = {"settings": {**ALONE, **({"preset": preset} if preset else {})}}
    if qualities:
        args["qualities"] = [each.strip() for each in qualities.split(",") if each.strip()]
    _check_qualities(args)
    if transcribe:
        speech = {"model": model, "language": language, "diarize": diarize or None}
        args["speech"] = {name: value for name, value in speech.items() if value is not None}
    targets = _targets(sources, out or DEFAULT_OUT)
    results: list[ProcessResult] = []
    try:
        _process_all(sources, targets, args, again, results)
    except KeyboardInterrupt:
        output.note("stopped: what is finished is kept; run it again to go on")
        return INTERRUPTED
    finally:
        _print(results, json)
    return FAILED if any(each.status == "failed" for each in results) else 0


def _checked(files: Sequence[Path]) -> list[Path]:
    if not files:
        raise errors.Invalid("say which files to process")
    if missing := [str(path) for path in files if not path.exists()]:
        raise errors.Invalid(f"no such file: {', '.join(missing)}")
    if folders := [str(path) for path in files if path.is_dir()]:
        raise errors.Invalid(f"not a file but a folder: {', '.join(folders)}")
    return list(dict.fromkeys(path.resolve() for path in files))


def _check_qualities(args: dict[str, Any]) -> None:
    from rushes.tools import profile

    known = profile.names(profile.decode(args["settings"]))
    if unknown := [each for each in args.get("qualities", []) if each not in known]:
        raise errors.Invalid(f"no quality {', '.join(unknown)}; there are {', '.join(known)}")


def _targets(sources: Sequence[Path], out: Path) -> list[Path]:
    """A folder for each, named as its file; those of the same name keep their endings."""
    stems = [source.stem for source in sources]
    names = [
        source.name.replace(".", "-") if stems.count(source.stem) > 1 else source.stem
        for source in sources
    ]
    return [
        out / (name if names.count(name) == 1 else f"{name}-{number}")
        for number, name in enumerate(names, 1)
    ]


def _process_all(
    sources: Sequence[Path],
    targets: Sequence[Path],
    args: dict[str, Any],
    again: bool,
    results: list[ProcessResult],
) -> None:
    from rushes import config
    from rushes.cli import meter
    from rushes.engines.registry import Registry, options
    from rushes.tools import programs

    settings = config.load()
    programs.use(ffmpeg=settings.ffmpeg, ffprobe=settings.ffprobe)
    engines = Registry(options(settings))
    try:
        with meter.work_done() as bars:
            tasks = [bars.task(source.name, 1.0) for source in sources]
            for source, target, task in zip(sources, targets, tasks, strict=True):
                began = time.monotonic()
                result = _process(source, target, args, again, task, engines)
                result.seconds = round(time.monotonic() - began, 1)
                results.append(result)
                task.end()
    finally:
        engines.close()


def _process(
    source: Path, target: Path, args: dict[str, Any], again: bool, task: Task, engines: Registry
) -> ProcessResult:
    from rushes.worker.folder import ABOUT, MEMORY, Folder

    result = ProcessResult(path=str(source), status="ready", folder=str(target))
    if refusal := _refusal(source):
        return replace(result, status="failed", error=refusal)
    stat = source.stat()
    about = {
        "name": source.name,
        "size_bytes": stat.st_size,
        "changed_ns": stat.st_mtime_ns,
        "args": args,
    }
    if (target / ABOUT).exists() and not (target / MEMORY).exists():
        if again:
            shutil.rmtree(target)
        elif json.loads((target / ABOUT).read_text()) == about:
            return replace(result, status="there already")
        else:
            return replace(result, status="failed", error=f"{target} {OTHERS}")
    folder = Folder(source, target)
    folder.begin(about)
    try:
        made, spoken = _make(folder, args, task, engines)
    except errors.JobOutcome as error:
        folder.forget_if_empty()
        return replace(result, status="failed", error=error.message)
    return replace(
        result,
        duration=made["duration"],
        renditions=made["renditions"],
        warnings=made["warnings"] + spoken.warnings,
        words=spoken.words,
        size_bytes=sum(path.stat().st_size for path in target.rglob("*") if path.is_file()),
    )


def _make(
    folder: Folder, args: dict[str, Any], task: Task, engines: Registry
) -> tuple[JsonObject, Spoken]:
    """Both steps into a folder that has begun; it is whole when they are done."""
    from rushes.handlers.transcode.steps import transcode
    from rushes.worker.context import JobContext
    from rushes.worker.folder import MEMORY

    # The bar is for both steps; neither is known to take longer.
    share = 0.5 if "speech" in args else 1.0

    def report(progress: Progress) -> None:
        folder.note(progress)
        task.at(share * progress.progress, _stage(progress))

    def listened(progress: Progress) -> None:
        task.at(share + (1 - share) * progress.progress, _stage(progress))

    job = JobContext(
        folder.assignment("transcode", args),
        report,
        coordinator=folder,
        scratch_root=folder.target / MEMORY,
    )
    try:
        made = transcode(job)
        options = args.get("speech")
        spoken = Spoken() if options is None else _speech(folder, options, engines, listened)
        passing = tuple(f"{name}/" for name in made.get("temporary", ()))
        kept = [name for name in job.manifest or {} if not name.startswith(passing)]
        folder.finish([*kept, *spoken.names])
    finally:
        job.close()
    return made, spoken


def _refusal(source: Path) -> str | None:
    """As a server answers an upload."""
    from rushes.uploads import sniff

    try:
        with source.open("rb") as file:
            sniff.identify(file.read(sniff.HEAD_BYTES))
    except errors.UnsupportedMedia as error:
        return error.message
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


@dataclass(slots=True)
class Spoken:
    """What came of listening: files, and what people should know."""

    names: list[str] = field(default_factory=list)
    words: int | None = None
    warnings: list[str] = field(default_factory=list)


def _speech(
    folder: Folder, args: dict[str, Any], engines: Registry, report: Callable[[Progress], None]
) -> Spoken:
    """Transcript and captions beside what was made. Without an engine there are none, and that is
    no reason to fail."""
    from rushes.engines.engine import EngineUnavailable, ModelUnavailable
    from rushes.handlers.transcribe.steps import transcribe
    from rushes.tools import playlist
    from rushes.transcripts import captions, documents, passages
    from rushes.worker.context import JobContext
    from rushes.worker.folder import MEMORY

    assignment = folder.assignment("transcribe", args)
    root = folder.target / MEMORY
    job = JobContext(assignment, report, coordinator=folder, scratch_root=root)
    try:
        result = transcribe(job, engines)
    except (EngineUnavailable, ModelUnavailable) as error:
        return Spoken(warnings=[f"not transcribed: {error.message}"])
    finally:
        job.close()
    contents = folder.passages(assignment.claim)
    heard = passages.made_of(contents, passages.engine_of(result))
    master = (folder.target / playlist.MASTER).read_text()
    manifest = (folder.target / playlist.MANIFEST).read_text()
    made = {
        "transcript.json": documents.render(heard, "json").decode(),
        "captions.vtt": captions.vtt(heard, hls=True),
        "captions.m3u8": playlist.captions("captions.vtt", result["duration"]),
        playlist.MASTER: playlist.with_captions(master, "captions.m3u8", heard.language),
        playlist.MANIFEST: playlist.manifest_with_captions(
            manifest, "captions.vtt", heard.language
        ),
    }
    for name, text in made.items() if heard.text else ():
        folder.put_artifact(assignment.claim, name, text.encode())
    names = [*made] if heard.text else []
    return Spoken(names=names, words=len(heard.text.split()), warnings=result["warnings"])


def _stage(progress: Progress) -> str:
    detail = progress.detail or {}
    words = [str(progress.stage or "").replace("_", " ")]
    if detail.get("speed"):
        words.append(f"{detail['speed']:.1f}×")
    if progress.stage in ("transcode", "transcribing") and detail.get("eta_seconds") is not None:
        words.append(f"{detail['eta_seconds']:.0f} s left")
    return " · ".join(words)


def _print(results: Sequence[ProcessResult], json: bool) -> None:
    if json:
        output.print_json([asdict(each) for each in results])
        return
    for each in results:
        name = Path(each.path).name
        if each.status == "ready":
            speed = each.duration / each.seconds if each.seconds and each.duration else 0.0
            made = ", ".join(each.renditions)
            if each.words:
                made += f", {each.words} words"
            size = output.size(each.size_bytes)
            took = f"{each.seconds:.1f} s, {speed:.1f}× real time"
            print(f"{name}: {made} in {took}; {size} in {each.folder}")
        elif each.status == "failed":
            print(f"{name}: failed: {each.error}")
        else:
            print(f"{name}: {each.status}, in {each.folder}; say --again to make it anew")
        for warning in each.warnings:
            print(f"{name}: {warning}")
