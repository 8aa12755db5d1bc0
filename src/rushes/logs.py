"""The log: one line per record, human on a terminal and JSON otherwise, never with a secret. Each
tells for which request, worker, job and media it was written.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Literal

from rushes import correlation, sanitize

NOISY = (
    "alembic",
    "uvicorn.error",
    "uvicorn.access",
    "httpx2",
    "httpcore2",
    "httpx",
    "httpcore",
    "urllib3",
)
IDS = ("request_id", "worker_id", "job_id", "media_id", "trace_id")
# How much of an id is enough to tell it from its neighbours.
SHORT = 6

Format = Literal["auto", "human", "json"]


def configure(format: Format = "auto", level: int = logging.INFO) -> None:
    if format == "auto":
        format = "human" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler()
    handler.setFormatter(_Human() if format == "human" else _Json())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def announcer(format: Format, announce: Callable[[str], None] = print) -> Callable[[str], None]:
    """Prints lines for whoever has started this. Where the log is to be JSON they are, too: both
    often end in one place. A link to sign in with stays whole: it is for those who read this."""
    if format != "json":
        return announce

    def as_json(text: str) -> None:
        for line in filter(None, text.splitlines()):
            at = _utc(time.time())
            said = {"at": at, "level": "info", "logger": "rushes.announced", "message": line}
            announce(json.dumps(said, ensure_ascii=False))

    return as_json


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno == logging.INFO else f" {record.levelname.lower()}"
        return sanitize.secrets(f"{at}{level} {_message(record)}{_short()}{self._trace(record)}")

    def _trace(self, record: logging.LogRecord) -> str:
        return f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {
            "at": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": sanitize.secrets(_message(record)),
            **{name: sanitize.secrets(value) for name, value in _ids().items()},
        }
        if record.exc_info:
            said["trace"] = sanitize.secrets(self.formatException(record.exc_info))
        return json.dumps(said, ensure_ascii=False)


def _ids() -> dict[str, str]:
    known = correlation.here()
    return {name: value for name in IDS if (value := getattr(known, name)) is not None}


def _short() -> str:
    """`[job …7k2p9x]`; a trace is for programs."""
    known = {name.removesuffix("_id"): value for name, value in _ids().items()}
    shown = [f"{name} …{value[-SHORT:]}" for name, value in known.items() if name != "trace"]
    return f" [{', '.join(shown)}]" if shown else ""


def _utc(seconds: float) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{at}.{int(seconds * 1000) % 1000:03d}Z"


def _message(record: logging.LogRecord) -> str:
    """Names and errors come from strangers: a record stays on its line."""
    text = record.getMessage()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
