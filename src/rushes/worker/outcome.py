"""What a handler's result or exception means for its job. Pure, but for the log."""

from __future__ import annotations

import errno
import logging
import threading
from dataclasses import dataclass
from typing import Any

import msgspec

from rushes import errors
from rushes.sanitize import sanitize
from rushes.worker.context import Stop

log = logging.getLogger("rushes.worker")

RESULT_LIMIT_BYTES = 1024 * 1024


def checked(result: Any) -> Any:
    """Refuse here what could not be reported later, and would hold up its neighbours."""
    try:
        size = len(msgspec.json.encode(result))
    except (TypeError, ValueError) as error:
        raise errors.PermanentFailure(
            f"the handler's result is not JSON: {error}", code="bad_result"
        ) from None
    if size > RESULT_LIMIT_BYTES:
        raise errors.PermanentFailure(
            "the handler's result is larger than 1 MB: put it as an artifact", code="bad_result"
        )
    return result


@dataclass(frozen=True, slots=True)
class Failure:
    """What an exception of a handler means for its job, in words that may be shown to strangers."""

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
            return Failure("resource", error.code, sanitize(errors.for_operators(error)))
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


def is_for_the_process(error: BaseException) -> bool:
    """What a signal raises, it raises in the main thread. Anywhere else a handler's code has tried
    to exit, or a library has panicked."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and isinstance(error, KeyboardInterrupt | SystemExit)
