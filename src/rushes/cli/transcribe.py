"""`rushes transcribe`: what is said in a file, as captions or text, without a server."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import errors
from rushes.cli import FAILED, INTERRUPTED, output
from rushes.transcripts import formats

if TYPE_CHECKING:
    from rushes.cli.meter import Task
    from rushes.config import Settings
    from rushes.protocol import Progress
    from rushes.transcripts.transcript import Transcript

File = Annotated[Path, cyclopts.Parameter(name="FILE", help="A video or a sound file.")]
Format = Annotated[
    formats.Format, cyclopts.Parameter(name=["--format", "-f"], help="What to write.")
]
Out = Annotated[
    str | None,
    cyclopts.Parameter(
        name=["--out", "-o"],
        help="Where to: a file, or - for stdout; else beside FILE.",
        allow_leading_hyphen=True,
    ),
]
Model = Annotated[str | None, cyclopts.Parameter(help="As 'rushes models ls' names them.")]
Language = Annotated[str | None, cyclopts.Parameter(help="Such as en; else it is detected.")]
Diarize = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Tell speakers apart.")]
Speakers = Annotated[
    int | None, cyclopts.Parameter(help="How many speakers there are; tells them apart.")
]
Track = Annotated[
    int | None,
    cyclopts.Parameter(help="Of the sound, from 1; else those that have speech."),
]
Translate = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Into English.")]
Prompt = Annotated[str | None, cyclopts.Parameter(help="What it is about; names that come up.")]


def run(
    file: File,
    *,
    format: Format = "txt",
    out: Out = None,
    model: Model = None,
    language: Language = None,
    diarize: Diarize = False,
    speakers: Speakers = None,
    track: Track = None,
    translate: Translate = False,
    prompt: Prompt = None,
) -> int:
    """Write down what is said. Stopped half way, the same command goes on where it was."""
    if not file.is_file():
        raise errors.Invalid(f"no such file: {file}")
    options = {
        "model": model,
        "language": language,
        "diarize": diarize or None,
        "speakers": speakers,
        "track": track,
        "task": "translate" if translate else None,
        "prompt": prompt,
    }
    args = {name: value for name, value in options.items() if value is not None}
    output.check_printable(format, out)
    target = None if out == output.STDOUT else Path(out) if out else file.with_suffix(f".{format}")
    if target is not None and target.resolve() == file.resolve():
        raise errors.Invalid("this would write over the file itself: say where to with -o")
    try:
        heard = _transcribe(file, args)
    except KeyboardInterrupt:
        output.note("stopped: what is finished is kept; run it again to go on")
        return INTERRUPTED
    except errors.JobOutcome as error:
        output.note(f"{file.name}: {error.message}")
        return FAILED
    _write(heard, format, target, file.stem)
    return 0


def _transcribe(file: Path, args: dict[str, Any]) -> Transcript:
    from rushes import config
    from rushes.cli import meter
    from rushes.engines.registry import Registry, options
    from rushes.tools import programs

    settings = config.load()
    programs.use(ffmpeg=settings.ffmpeg, ffprobe=settings.ffprobe)
    registry = Registry(options(settings))
    try:
        with meter.work_done() as bars:
            return _heard(
                file, args, _memory(settings, file, args), registry, bars.task(file.name, 1.0)
            )
    finally:
        registry.close()


def _memory(settings: Settings, file: Path, args: dict[str, Any]) -> Path:
    """Where an unfinished transcript is kept; another one for another file or other options."""
    stat = file.stat()
    about = f"{file.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}\0{sorted(args.items())}"
    return settings.data_dir / "transcribe" / hashlib.sha256(about.encode()).hexdigest()[:16]


def _heard(file: Path, args: dict[str, Any], memory: Path, registry: Any, task: Task) -> Transcript:
    from rushes.handlers.transcribe.steps import transcribe
    from rushes.transcripts import passages
    from rushes.worker.context import JobContext
    from rushes.worker.folder import Folder

    folder = Folder(file, memory)

    def report(progress: Progress) -> None:
        task.at(progress.progress, _stage(progress))

    assignment = folder.assignment("transcribe", args)
    job = JobContext(assignment, report, coordinator=folder, scratch_root=memory)
    try:
        result = transcribe(job, registry)
        contents = folder.passages(assignment.claim)
    finally:
        job.close()
        task.end()
    for warning in result["warnings"]:
        output.note(f"{file.name}: {warning}")
    shutil.rmtree(memory, ignore_errors=True)
    return passages.made_of(contents, passages.engine_of(result))


def _stage(progress: Progress) -> str:
    detail = progress.detail or {}
    words = [str(progress.stage or "")]
    if detail.get("speed"):
        words.append(f"{detail['speed']:.1f}×")
    if detail.get("eta_seconds") is not None:
        words.append(f"{detail['eta_seconds']:.0f} s left")
    return " · ".join(words)


def _write(heard: Transcript, format: str, target: Path | None, title: str) -> None:
    from rushes.transcripts import documents

    output.write(documents.render(heard, format, title=title), format, target)
    if target is not None:
        said = output.count(len(heard.text.split()), "word") if heard.text else "nothing was said"
        output.note(f"{target}: {said}")
