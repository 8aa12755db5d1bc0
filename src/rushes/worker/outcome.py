"""What an exception of a handler means for its job, in words that may be shown to strangers."""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass

from rushes import errors
from rushes.sanitize import sanitize as sanitize
from rushes.worker.context import Stop

log = logging.getLogger("rushes.worker")


@dataclass(frozen=True, slots=True)
class Failure:
    error_class: str
    code: str
    message: str


def failure_of(error: BaseException, stop: Stop | None) -> Failure | Stop:
    """How to report a handler's exception; a `Stop` when there is nothing to report as failed."""
    if stop is Stop.CLAIM_LOST or stop is Stop.SHUTDOWN:
        return stop
    match error:
        case errors.Canceled():
            return Failure("transient", "canceled", sanitize(error.message))
        case errors.PermanentFailure():
            return Failure("permanent", error.code or "permanent", sanitize(error.message))
        case errors.TransientFailure():
            return Failure("transient", error.code or "transient", sanitize(error.message))
        case errors.RetryLater():
            return Failure("resource", error.code or "resource", sanitize(error.message))
        case errors.Unavailable():
            return Failure("resource", error.code, sanitize(error.message))
        case MemoryError():
            return Failure("resource", "out_of_memory", "there was not enough memory")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Failure("resource", "disk_full", "the disk is full")
        case OSError(errno=errno.EIO | errno.EROFS | errno.ESTALE | errno.ENODEV):
            return Failure("resource", "disk_failed", "the disk cannot be used")
        case _:
            pass
    log.exception("a handler failed", exc_info=error)
    return Failure("transient", "handler_error", sanitize(f"{type(error).__name__}: {error}"))
