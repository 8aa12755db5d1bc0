"""Every error Rushes raises, with a stable `code` and a message that is safe to show to strangers.

RushesError
├── Invalid          the request can never work      BadField · BadSetting · UnsupportedDatabase
│                                                    TooLarge · UnsupportedMedia · WrongChecksum
│                                                    NotSupported
├── NotFound         no such thing                   Gone · LinkExpired · NoSuchModel
├── Unauthorized     who are you?                    LinkLocked · WrongPassword
├── TooMany          not so much, or not so often
├── Denied           you may not
├── Conflict         not now, or not yours           ClaimLost · CancelRequested · WrongState
│                                                    AlreadyExists · AlreadyDone
│                                                    ManifestMismatch
│                                                    UploadBusy · WrongOffset · EditedMeanwhile
│                                                    ChangedMeanwhile
└── Unavailable      try later                       DatabaseBusy · DatabaseDown · DiskFull
                                                     ReadOnly · SchemaTooNew · SchemaTooOld
                                                     SchemaInUse · StorageDown · RedisDown
JobOutcome           raised by handlers: PermanentFailure · TransientFailure · RetryLater
                     Canceled · Stopped · Divided
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RushesError(Exception):
    """`message` may be shown to anybody; `detail` (paths, tool output) is for the log only."""

    code = "error"

    def __init__(self, message: str = "", *, detail: str = "") -> None:
        super().__init__(message or self.code)
        self.message = message or self.code
        self.detail = detail


def for_operators(error: RushesError) -> str:
    """What went wrong and, where it is known, what to do."""
    hint = error.hint if isinstance(error, StorageDown | DiskFull) else ""
    return f"{error.message}: {hint}" if hint else error.message


class Invalid(RushesError):
    code = "invalid"


class BadField(Invalid):
    """A value that was given is wrong; `field` names it."""

    code = "bad_field"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class TooLarge(Invalid):
    """More bytes than a limit or a quota allows."""

    code = "too_large"


class UnsupportedMedia(Invalid):
    code = "unsupported_media"


class WrongChecksum(Invalid):
    """The bytes that came are not those that were meant."""

    code = "wrong_checksum"


class BadSetting(Invalid):
    code = "bad_setting"


class NotSupported(Invalid):
    """A server that is asked does not know how."""

    code = "not_supported"


class UnsupportedDatabase(Invalid):
    code = "unsupported_database"


class NotFound(RushesError):
    code = "not_found"


class Gone(NotFound):
    """It was there once, and will not come back."""

    code = "gone"


class LinkExpired(Gone):
    """A share link whose time is over."""

    code = "link_expired"


class NoSuchModel(NotFound):
    code = "model_not_found"


class Unauthorized(RushesError):
    code = "unauthorized"


class LinkLocked(Unauthorized):
    """A share link that shows nothing without its password."""

    code = "link_locked"


class WrongPassword(Unauthorized):
    """Not the one of this share link."""

    code = "wrong_password"


class TooMany(RushesError):
    """More than one user or address may do at once: later, after `retry_seconds`."""

    code = "too_many_requests"

    def __init__(self, message: str = "", *, retry_seconds: int = 60, detail: str = "") -> None:
        super().__init__(message, detail=detail)
        self.retry_seconds = retry_seconds


class Denied(RushesError):
    code = "denied"


class Conflict(RushesError):
    code = "conflict"


class ClaimLost(Conflict):
    """The claim is not held any more: stop working, change nothing, never repeat the call."""

    code = "claim_lost"


class CancelRequested(Conflict):
    """Still held, but somebody asked to cancel: acknowledge with fail or release."""

    code = "cancel_requested"


class ManifestMismatch(Conflict):
    """What was put is not what was made: nothing is published, the attempt has failed."""

    code = "manifest_mismatch"


class WrongState(Conflict):
    code = "wrong_state"


class AlreadyExists(Conflict):
    code = "already_exists"


class AlreadyDone(Conflict):
    """A request came again whose answer held a secret: that is shown once, and not kept."""

    code = "already_done"


class UploadBusy(Conflict):
    """Another connection is writing to the same upload."""

    code = "upload_busy"


class WrongOffset(Conflict):
    """An upload goes on elsewhere: at `offset_bytes`."""

    code = "wrong_offset"

    def __init__(self, offset_bytes: int) -> None:
        super().__init__(f"the upload goes on at byte {offset_bytes}")
        self.offset_bytes = offset_bytes


class EditedMeanwhile(Conflict):
    """Somebody was quicker: it is at `revision` now, not at the one that was changed."""

    code = "edited_meanwhile"

    def __init__(self, revision: int) -> None:
        super().__init__(
            f"this was changed since you read it and is at revision {revision} now:"
            " read it again, then make your change to that"
        )
        self.revision = revision


class ChangedMeanwhile(Conflict):
    """Somebody else has changed a setting since it was looked at."""

    code = "changed_meanwhile"


class Unavailable(RushesError):
    code = "unavailable"


class DatabaseBusy(Unavailable):
    code = "database_busy"


class DatabaseDown(Unavailable):
    code = "database_down"


class DiskFull(Unavailable):
    code = "disk_full"
    hint = "make room there"


class StorageDown(Unavailable):
    """Files cannot be read or written: out of reach, not permitted, or broken. `hint` is for
    whoever runs the server: why, and what to do."""

    code = "storage_down"

    def __init__(self, message: str = "", *, detail: str = "", hint: str = "") -> None:
        super().__init__(message, detail=f"{hint}; {detail}" if hint else detail)
        self.hint = hint


class RedisDown(Unavailable):
    """Hints do not come by Redis; nothing else is wrong."""

    code = "redis_down"


class ReadOnly(Unavailable):
    code = "read_only"


class SchemaTooNew(Unavailable):
    code = "schema_too_new"


class SchemaTooOld(Unavailable):
    code = "schema_too_old"


class SchemaInUse(Unavailable):
    """Somebody relies on the schema as it is, or holds a table for too long."""

    code = "schema_in_use"


class JobOutcome(Exception):
    """What a handler raises to end its attempt in another way than success."""

    def __init__(self, message: str = "", *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class PermanentFailure(JobOutcome):
    """Trying again cannot help: the source is corrupt or unsupported."""


# Codes of failures that lie in the recording itself: it would fail in the same way again.
OF_THE_SOURCE = frozenset(
    {
        "damaged",
        "empty_file",
        "empty_trim",
        "image_only",
        "no_picture",
        "no_streams",
        "protected",
        "unsupported",
    }
)


class TransientFailure(JobOutcome):
    """Trying again may help: somebody else's service did not answer. The attempt counts."""


class RetryLater(JobOutcome):
    """Something is short (disk, memory, a busy engine): later, and the attempt is given back."""


class Canceled(JobOutcome):
    """Somebody canceled the job and the handler has stopped."""


class Stopped(JobOutcome):
    """The worker is leaving or has lost the claim; the handler must end now."""


class Divided(JobOutcome):
    """The rest of the work goes to `parts` (`protocol.Part`), which any worker may take. The job
    runs again, with this checkpoint, when all of them have completed."""

    def __init__(self, parts: Sequence[Any], *, checkpoint: Any = None) -> None:
        super().__init__(f"divided into {len(parts)} parts", code="divided")
        self.parts = parts
        self.checkpoint = checkpoint
