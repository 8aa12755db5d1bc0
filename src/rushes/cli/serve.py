"""`rushes serve`: the server, with its workers, in the foreground."""

from __future__ import annotations

from typing import Annotated

import cyclopts
import msgspec

from rushes import config


def run(
    *,
    host: Annotated[str | None, cyclopts.Parameter(help="Instead of RUSHES_HOST.")] = None,
    port: Annotated[int | None, cyclopts.Parameter(help="Instead of RUSHES_PORT.")] = None,
) -> None:
    """Run the server until Ctrl-C or SIGTERM."""
    settings = config.load()
    given = {"host": host, "port": port}
    given = {name: value for name, value in given.items() if value is not None}
    if given:
        changed = given if settings.has_base_url else {**given, "base_url": ""}
        settings = msgspec.structs.replace(settings, **changed)
    from rushes import serving

    serving.serve(settings, announce=_say)


def _say(line: str) -> None:
    print(line, flush=True)
