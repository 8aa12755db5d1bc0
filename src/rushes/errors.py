"""Every error Rushes raises, with a stable `code` and a message that is safe to show to strangers.

RushesError
├── Invalid          the request can never work      BadField · BadSetting · UnsupportedDatabase
├── NotFound         no such thing
├── Conflict         not now, or not yours           ClaimLost · CancelRequested · WrongState
└── Unavailable      try later                       DatabaseBusy · DatabaseDown · DiskFull
                                                     ReadOnly · SchemaTooNew · SchemaTooOld
JobOutcome           raised by handlers: PermanentFailure · RetryLater · Canceled · Stopped
"""

from __future__ import annotations


class RushesError(Exception):
    """`message` may be shown to anybody; `detail` (paths, tool output) is for the log only."""

    code = "error"

    def __init__(self, message: str = "", *, detail: str = "") -> None:
        super().__init__(message or self.code)
        self.message = message or self.code
        self.detail = detail


class Invalid(RushesError):
    code = "invalid"


class BadField(Invalid):
    """A value that was given is wrong; `field` names it."""

    code = "bad_field"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class BadSetting(Invalid):
    code = "bad_setting"


class UnsupportedDatabase(Invalid):
    code = "unsupported_database"


class NotFound(RushesError):
    code = "not_found"


class Conflict(RushesError):
    code = "conflict"


class ClaimLost(Conflict):
    """The claim is not held any more: stop working, change nothing, never repeat the call."""

    code = "claim_lost"


class CancelRequested(Conflict):
    """Still held, but somebody asked to cancel: acknowledge with fail or release."""

    code = "cancel_requested"


class WrongState(Conflict):
    code = "wrong_state"


class Unavailable(RushesError):
    code = "unavailable"


class DatabaseBusy(Unavailable):
    code = "database_busy"


class DatabaseDown(Unavailable):
    code = "database_down"


class DiskFull(Unavailable):
    code = "disk_full"


class ReadOnly(Unavailable):
    code = "read_only"


class SchemaTooNew(Unavailable):
    code = "schema_too_new"


class SchemaTooOld(Unavailable):
    code = "schema_too_old"


class JobOutcome(Exception):
    """What a handler raises to end its attempt in another way than success."""

    def __init__(self, message: str = "", *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class PermanentFailure(JobOutcome):
    """Trying again cannot help: the source is corrupt or unsupported."""


class RetryLater(JobOutcome):
    """Something is short (disk, memory, a busy engine): later, and the attempt is given back."""


class Canceled(JobOutcome):
    """Somebody canceled the job and the handler has stopped."""


class Stopped(JobOutcome):
    """The worker is leaving or has lost the claim; the handler must end now."""
