"""Kinds of jobs for the tests of `rushes worker`: they tell that they run, and wait for a sign.

The files they do this by are in the worker's directory.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rushes.worker.context import JobContext


def echo(job: JobContext) -> Any:
    return {"said": job.args.get("say"), "database": "sqlalchemy" in sys.modules}


def hold(job: JobContext) -> Any:
    """Until the file `go` is there; stops when it is asked to."""
    Path(job.args["started"]).touch()
    job.progress(0.5, "holding")
    while not Path(job.args["go"]).exists():
        job.wait(0.02)
    return {"attempt": job.attempt}


def deaf(job: JobContext) -> Any:
    """The same, but hears nothing."""
    Path(job.args["started"]).touch()
    while not Path(job.args["go"]).exists():
        time.sleep(0.02)


HANDLERS = {"echo": echo, "hold": hold, "deaf": deaf}
