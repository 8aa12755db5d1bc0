"""The log: one line per record, human on a terminal and JSON otherwise, never with a secret."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal

from rushes import sanitize

NOISY = ("alembic", "uvicorn.error", "uvicorn.access", "httpx2", "httpcore2", "httpx", "httpcore")


def configure(format: Literal["auto", "human", "json"] = "auto", level: int = logging.INFO) -> None:
    if format == "auto":
        format = "human" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler()
    handler.setFormatter(_Human() if format == "human" else _Json())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno == logging.INFO else f" {record.levelname.lower()}"
        return sanitize.secrets(f"{at}{level} {_message(record)}{self._trace(record)}")

    def _trace(self, record: logging.LogRecord) -> str:
        return f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said = {
            "at": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": sanitize.secrets(_message(record)),
        }
        if record.exc_info:
            said["trace"] = sanitize.secrets(self.formatException(record.exc_info))
        return json.dumps(said, ensure_ascii=False)


def _message(record: logging.LogRecord) -> str:
    """Names and errors come from strangers: a record stays on its line."""
    text = record.getMessage()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
