"""Runs a benchmark and keeps what it prints in `build/bench/NAME.log`, of which the page is made.

    python benchmarks/log.py NAME COMMAND …

With OPTIONS in the environment (`make bench-queue OPTIONS=--claims`) only a part is measured, which
is added to what the log has.
The first line of a log says when it began, the last how it ended; one without was cut off.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

LOGS = Path(__file__).resolve().parents[1] / "build" / "bench"


def main(name: str, command: Sequence[str]) -> int:
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    options = os.environ.get("OPTIONS", "")
    with (LOGS / f"{name}.log").open("a" if options else "w") as log:

        def say(line: str) -> None:
            sys.stdout.write(line)
            sys.stdout.flush()
            log.write(line)
            log.flush()

        say(f"began {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n")
        if options:
            say(f"only {options}\n")
        with subprocess.Popen(
            [*command, *shlex.split(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                say(line)
        say(f"ended {running.returncode} after {time.monotonic() - began:.0f} s\n")
    return running.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
