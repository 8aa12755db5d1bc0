"""What `make run` and `make test` install: how far it is, and what to do when it fails.

    python bootstrap.py TITLE ARGUMENTS OF PIP INSTALL

Runs before anything is installed, so it knows nothing but Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

# How often a log without a terminal hears that it goes on.
SAY_SECONDS = 5.0
DRAW_SECONDS = 0.2
SHOWN_LINES = 15
OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|Retrying \(Retry|ConnectTimeout|ProxyError|SSLError"
)
REMEDIES = (
    (
        re.compile(r"No space left on device|Errno 28"),
        "The disk is full: make room for about 1 GB here, then run the same command again.",
    ),
    (
        re.compile(r"Permission denied|Errno 13|Read-only file system"),
        "This folder cannot be written: make it belong to the user who runs this.",
    ),
    (
        re.compile(r"DO NOT MATCH THE HASHES"),
        "The package index sent something else than Rushes was tested with: use another one.",
    ),
    (
        re.compile(r"No matching distribution"),
        "The package index has no build of it for this machine and this Python: try Python 3.11"
        " to 3.13, such as make run PYTHON=python3.12, after rm -r .venv.",
    ),
)


class Progress:
    """One line that changes on a terminal; in a log, one now and then."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._started = self._told = time.monotonic()
        self._is_terminal = sys.stdout.isatty()
        self._seen = 0
        self._doing = ""
        _print(title if self._is_terminal else f"{title}\n")

    def read(self, line: str) -> None:
        if found := re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)", line):
            self._seen += 1
            self._doing = found[1]
        elif line.startswith("Installing collected"):
            self._doing = "installing"
        elif line.startswith("Installing build dependencies") or "Preparing editable" in line:
            self._doing = "building"

    def tell(self) -> None:
        now = time.monotonic()
        if self._is_terminal:
            _print(f"\r\x1b[K{self._title}  {self._state(now)}")
        elif now - self._told >= SAY_SECONDS:
            self._told = now
            _print(f"    {self._state(now)}\n")

    def end(self, word: str) -> None:
        took = f"{word} after {time.monotonic() - self._started:.0f} s\n"
        _print(f"\r\x1b[K{self._title}  {took}" if self._is_terminal else f"    {took}")

    def _state(self, now: float) -> str:
        seconds = f"{now - self._started:.0f} s"
        count = f"{min(self._seen, self._total)} of {self._total}" if self._total else ""
        return ", ".join(each for each in (count, self._doing, seconds) if each)


def main(title: str, arguments: Sequence[str]) -> int:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
    ]
    progress = Progress(title, _count(arguments))
    said: list[str] = []
    running = subprocess.Popen(
        [*pip, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )

    def read() -> None:
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line.rstrip())
            progress.read(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while reader.is_alive():
        reader.join(DRAW_SECONDS)
        progress.tell()
    failed = running.wait() != 0
    progress.end("failed" if failed else "done")
    if failed:
        _explain(said)
    return int(failed)


def _explain(said: Sequence[str]) -> None:
    for line in said[-SHOWN_LINES:]:
        _print(f"    {line}\n")
    _print(f"\n{_remedy(chr(10).join(said))}\n")


def _remedy(said: str) -> str:
    if OFFLINE.search(said):
        index = os.environ.get("PIP_INDEX_URL")
        where = f"{index} (PIP_INDEX_URL)" if index else "pypi.org"
        return (
            f"The package index cannot be reached at {where}: check the network, or set"
            " PIP_INDEX_URL to one that can be reached, and HTTPS_PROXY where there is a proxy."
            " Then run the same command again."
        )
    fitting = (sentence for pattern, sentence in REMEDIES if pattern.search(said))
    return next(
        fitting,
        "pip could not install this; its last lines are above. The same command tries again.",
    )


def _count(arguments: Sequence[str]) -> int:
    """How many packages a list of requirements names."""
    names = [arguments[at + 1] for at, each in enumerate(arguments) if each == "-r"]
    return sum(bool(re.match(r"[A-Za-z]", line)) for name in names for line in Path(name).open())


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit("\nStopped; the same command goes on where this one was.")
