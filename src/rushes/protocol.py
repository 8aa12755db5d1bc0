"""What a worker and the server say to each other. Plain data; no database, no HTTP.

`Coordinator` is the table of verbs: transports, routes and the reference in the documentation are
made of its methods. Three answers exist: done, `ClaimLost` (stop, never repeat), `Unavailable`
(repeat). Run with the name of a guide, it writes the reference there.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from rushes import errors, kinds, verbs
from rushes.records import JsonObject
from rushes.verbs import Verb, verb
from rushes.worker_settings import WorkerSettings

# Major and minor. A new minor one adds to the protocol, a new major one takes something away.
VERSION = (1, 1)
OLDEST = (1, 0)
ADOPT_LIMIT = 500
PARTS_LIMIT = 2_000
PASSAGES_LIMIT = 100_000
PASSAGE_LIMIT_BYTES = 512 * 1024
LONGEST_WAIT_SECONDS = 60.0

Id = Annotated[str, Meta(max_length=100, pattern=r"^[a-z]+_[A-Za-z0-9_]+$")]
RandomId = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")]
KindName = Annotated[str, Meta(pattern=f"^{kinds.NAME.pattern}$")]
FileName = Annotated[str, Meta(max_length=300)]
FileNames = Annotated[Sequence[FileName], Meta(max_length=ADOPT_LIMIT)]
Needs = Annotated[Sequence[Annotated[str, Meta(max_length=64)]], Meta(max_length=256)]
SHA256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
MD5 = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
ErrorClass = Annotated[str, Meta(pattern="^(permanent|transient|resource)$")]
RENDITION_STATUSES = ("pending", "in_progress", "completed", "failed", "skipped")
RenditionName = Annotated[str, Meta(pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")]
VersionText = Annotated[str, Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]
ETag = Annotated[str, Meta(max_length=64)]
# What fits into a number of JavaScript, and more than any recording has.
Amount = Annotated[int, Meta(ge=0, le=2**53)]
Measure = Annotated[float, Meta(ge=0, le=1e6)]
PlaySeconds = Annotated[float, Meta(ge=0, le=1e6, description="How long a segment plays.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a worker can do; said each time it starts."""

    kinds: Annotated[Sequence[KindName], Meta(max_length=256)]
    capabilities: Sequence[str] | JsonObject = ()
    metadata: JsonObject = field(default_factory=dict)
    boot_id: Annotated[
        RandomId | None,
        Meta(description="Fresh for each process. What another one of this worker held is freed."),
    ] = None
    protocol: Annotated[
        VersionText | None,
        Meta(description="The version of the protocol that it speaks; 1.0 if it is not said."),
    ] = None
    settings: Annotated[
        JsonObject | None,
        Meta(description="How it is to work, as far as it was started so; an admin's word wins."),
    ] = None


def version_text(version: tuple[int, int]) -> str:
    return "{}.{}".format(*version)


def version_of(text: str | None) -> tuple[int, int]:
    """Of a worker that says none, the first."""
    major, _, minor = (text or "1.0").partition(".")
    return int(major), int(minor)


def why_not_spoken(text: str | None) -> str | None:
    """Why a worker with this version cannot work here, if so, and what to do about it."""
    version = version_of(text)
    ours, oldest = version_text(VERSION), version_text(OLDEST)
    if version[0] > VERSION[0]:
        return (
            f"too new: it speaks {version_text(version)}; upgrade the server, which speaks {ours}"
        )
    if version < OLDEST:
        return f"too old: it speaks {version_text(version)}; upgrade it to {oldest} or newer"
    return None


def capability_words(said: Sequence[str] | JsonObject) -> list[str]:
    """Of an object, each name that is not false or empty; where it is a text, or a list of some,
    also `name:text`."""
    if not isinstance(said, Mapping):
        return list(said)
    words = []
    for name, value in said.items():
        if value:
            texts = value if isinstance(value, list | tuple) else [value]
            words += [name, *(f"{name}:{each}" for each in texts if isinstance(each, str))]
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On which a worker works. `kinds`: of those it has named, the ones its key is for.
    `keep_completed_qualities`: whether a new attempt goes on with what the last has finished.
    `protocol`: the version that the server speaks; `upgrade`: why it gives this worker nothing.
    `settings`: what an admin says of how it is to work. `terms_etag`: changes with that."""

    worker_id: str
    name: str
    kinds: Sequence[str]
    heartbeat_seconds: float
    lease_seconds: float
    keep_completed_qualities: bool = True
    protocol: VersionText = "1.0"
    upgrade: str | None = None
    settings: WorkerSettings | None = None
    terms_etag: ETag = ""

    @property
    def knows_signs(self) -> bool:
        """Whether a waiting claim is a sign of life there, and may name kinds."""
        return version_of(self.protocol) >= (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a worker tells of itself. `resting_seconds`: for how long it takes no work yet, because
    of its hours. `declined`: by kind why it takes none of it now. `notes`: for people."""

    resting_seconds: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    declined: Annotated[Mapping[str, str], Meta(max_length=256)] = field(default_factory=dict)
    notes: Annotated[Sequence[str], Meta(max_length=20)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One job, held by the worker that gets this until `lease_seconds` after it asked."""

    job_id: str
    claim_id: str
    kind: str
    args: JsonObject
    media_id: str | None
    user_id: str
    epoch: int
    attempt: int
    max_attempts: int
    checkpoint: Any
    lease_seconds: float
    # How long it could have been claimed before it was.
    waited_seconds: float = 0.0
    # As W3C's `traceparent` has it; None when nobody follows it.
    trace: str | None = None

    @property
    def claim(self) -> Claim:
        return Claim(self.job_id, self.claim_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """Which job, and the proof of holding it."""

    job_id: Id
    claim_id: Id


@dataclass(frozen=True, slots=True)
class Beat:
    """`held` false: stop at once. `cancel`: stop and acknowledge with fail or release."""

    held: bool
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Renewed(Beat):
    lease_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """The answer to a heartbeat, by claim id. `drain`: finish what you hold, claim nothing new.
    `settings` and `terms_etag` as of `Terms`."""

    claims: Mapping[str, Beat]
    drain: bool
    lease_seconds: float = 0.0
    settings: WorkerSettings | None = None
    terms_etag: ETag = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendition:
    """One rung of the ladder, or one sound, of the version that a job makes. `status` is pending,
    in_progress, completed, failed or skipped; `target_seconds` how long a segment may be at most,
    `group` and `track` which of several sounds with the same bits it is. `error_message` says why
    it failed. The server notes when it `started_at` and `completed_at`; a worker only repeats what
    it was told of a rendition that it inherits."""

    name: RenditionName
    kind: Literal["video", "audio"]
    status: Annotated[str, Meta(pattern=f"^({'|'.join(RENDITION_STATUSES)})$")] = "pending"
    segments_total: Amount | None = None
    segments_completed: Amount = 0
    target_seconds: Measure | None = None
    codecs: str | None = None
    bandwidth: Amount | None = None
    average_bandwidth: Amount | None = None
    width: Amount | None = None
    height: Amount | None = None
    frame_rate: Measure | None = None
    range: str | None = None
    encoder: str | None = None
    channels: Amount | None = None
    language: str | None = None
    title: str | None = None
    default: bool | None = None
    group: str | None = None
    track: Amount | None = None
    error_message: str | None = None
    started_at: str | None = None
    completed_at: str | None = None

    @property
    def progress(self) -> float:
        if self.status == "completed" or not self.segments_total:
            return float(self.status == "completed")
        return round(min(1.0, self.segments_completed / self.segments_total), 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a worker says of a job it holds. `checkpoint` replaces the one before."""

    claim: Claim
    progress: Annotated[float, Meta(ge=0, le=1)] = 0.0
    stage: str | None = None
    checkpoint: Any = None
    engine_id: str | None = None
    engine_model: str | None = None
    # For people: `renditions` and `audio` (see `renditions.told`), `speed` (× real time),
    # `eta_seconds`, `text`, `warnings`.
    detail: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file of a version, as the server has recorded it. `seconds`: how long a segment plays;
    `claimed`: whether it was put or adopted by the claim that asks."""

    name: str
    size_bytes: int
    sha256: str
    content_type: str
    seconds: PlaySeconds | None = None
    claimed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """What a job's version has of the one that is current: `renditions` that are whole. `why_not`:
    they do not go together with what the job makes, and their files were not taken over."""

    renditions: Sequence[Rendition] = ()
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Presigned:
    """Where to PUT a file past the server, and what to name when it is there. None: the storage
    cannot do that."""

    url: str | None = None
    ticket: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a job works on. `path` when this process can open it directly."""

    file_name: str
    size_bytes: int
    sha256: str | None
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The segments of a rendition that play between two seconds, behind what begins each of its
    files: one file for whoever reads it."""

    rendition: RenditionName
    start: float = 0.0
    end: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A job that does a share of a divided job's work."""

    kind: Annotated[str, Meta(max_length=64)]
    args: JsonObject = field(default_factory=dict)
    needs: Needs = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """`manifest` says by name and SHA-256 what the attempt made; None when it made no files."""

    claim: Claim
    result: Any = None
    manifest: Annotated[Mapping[str, str], Meta(max_length=200_000)] | None = None


class Coordinator:
    """The server as a worker sees it. A verb is one method here, one of the same name in
    `dispatch`, and one of the job's context if handlers are to use it."""

    # As the server knows whoever speaks, once that is known.
    worker_id: str | None = None

    def call(self, verb: Verb, arguments: JsonObject) -> Any:
        """What a transport does with every verb that it does not implement itself."""
        raise NotImplementedError(verb.name)

    @verb("POST", "/hello", "Say what this worker can do", words=True)
    def hello(self, hello: Hello) -> Terms | None:
        """What the worker can do, each time it starts; the answer says on what terms it works.
        Before it, a claim hands nothing out. Kinds that its key is not for are left out, unless
        there are no others. Capabilities and metadata are cut to 10 KB each. With an `upgrade`
        the versions do not go together: the worker gets nothing, and is to claim nothing."""

    @verb("POST", "/claim", "Claim jobs", reply="jobs", own=True)
    def claim(
        self,
        limit: Annotated[int, Meta(ge=1, le=100)] = 1,
        wait_seconds: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_SECONDS)] = 0,
        request_id: Annotated[
            RandomId | None,
            Meta(description="Fresh for each request. Repeated, the answer is the same jobs."),
        ] = None,
        boot_id: Annotated[RandomId | None, Meta(description="As given with hello.")] = None,
        kinds: Annotated[
            Sequence[KindName] | None,
            Meta(max_length=256, description="Only these, of those that hello has named."),
        ] = None,
        terms_etag: Annotated[
            ETag | None,
            Meta(
                description="As last heard. When the terms are others, now or while the claim"
                " waits, it is answered at once, with none: a heartbeat tells them."
            ),
        ] = None,
        answered: Annotated[
            Sequence[RandomId],
            Meta(
                max_length=1000,
                description="As with a heartbeat; only from a worker that holds nothing at all.",
            ),
        ] = (),
    ) -> list[Assignment]:
        """Up to `limit` jobs (1 unless told, 100 at most); with `wait_seconds` (60 at most)
        answered the moment one fits, or with none. While it waits it is a sign of life. To be
        repeated only with the same `request_id`: then the answer is the same jobs, as far as they
        are still held. With `kinds`, only of these. With a `terms_etag` that is not, or no longer,
        the current one it is answered at once, with none. Each job has `job_id`,
        `claim_id`, `kind`, `args`, `media_id` (null for a job without one), `user_id`, `epoch`,
        `attempt`, `max_attempts`, `checkpoint` (null at first), `lease_seconds`, `waited_seconds`
        and `trace`: a W3C traceparent to go on with, or null. Whoever sends it back with what it
        says of the job, as the header `traceparent`, keeps the trace whole."""

    @verb("POST", "/heartbeat", "Renew claims", words=True)
    def heartbeat(
        self,
        claims: Annotated[Sequence[Claim], Meta(max_length=1000)] = (),
        stalled: Annotated[
            Sequence[Claim],
            Meta(max_length=1000, description="Held, but not to be renewed: it does not move on."),
        ] = (),
        answered: Annotated[
            Sequence[RandomId],
            Meta(
                max_length=1000,
                description="Claim requests answered since the last such heartbeat. What they have"
                " claimed, and is in neither list, is freed; the attempt does not count.",
            ),
        ] = (),
        standing: Annotated[
            Standing | None, Meta(description="When it is not as it was told last.")
        ] = None,
    ) -> Pulse:
        """Renew the `claims` that are held; those in `stalled` are held, too, but their work does
        not move on, so their leases are left to run out. In the answer, by claim id, of each of
        `claims`: `held` false: stop at once; `cancel`: stop and say so. `drain`: finish what is
        held, claim nothing. `settings`: what an admin says of how this worker is to work."""

    @verb("POST", "/progress", "Report progress", words=True)
    def progress(self, report: Progress) -> Renewed:
        """How far it is, from 0 to 1; renews the lease, too. A `checkpoint` takes the place of the
        one before; null leaves it. `detail` is for people, and may have `renditions`, `audio`,
        `speed`, `eta_seconds` and `warnings`."""

    @verb("POST", "/renditions", "Declare renditions", reply="declared", words=True)
    def declare(
        self, claim: Claim, renditions: Annotated[Sequence[Rendition], Meta(max_length=200)]
    ) -> int:
        """The renditions of the version that the job makes, with all that is known of them; again
        when more is. What can be watched while it is made is decided by them and by the files that
        are there. What parts declare does not count: their whole has."""

    @verb("POST", "/complete", "Complete a job", reply="state", words=True, slow=True)
    def complete(self, completion: Completion) -> str:
        """Publish and complete. `manifest`: by name the SHA-256 of all that the claim has put or
        adopted; null if that is nothing. Repeating it is harmless and answered alike."""

    @verb("POST", "/fail", "Report a failure", reply="state", words=True)
    def fail(
        self,
        claim: Claim,
        error_class: ErrorClass = "transient",
        code: str = "failed",
        message: str = "",
    ) -> str:
        """The attempt has failed; the answer says what becomes of the job. `error_class` is
        `permanent`, `transient` (unless told) or `resource`. Repeating it is harmless."""

    @verb("POST", "/release", "Give a job back", reply="state")
    def release(self, claim: Claim) -> str:
        """Give the job back; the attempt does not count. Repeating it is harmless."""

    @verb("POST", "/divide", "Hand a job's work on to parts", reply="state", words=True, slow=True)
    def divide(
        self,
        claim: Claim,
        parts: Annotated[Sequence[Part], Meta(min_length=1, max_length=PARTS_LIMIT)],
        checkpoint: Any = None,
    ) -> str:
        """Hand the work on to parts (2,000 at most, each with `kind`, `args`, `needs`), which are
        next in line; the job runs again when all of them have completed. Repeating it is harmless
        and answered alike."""

    @verb("POST", "/logs", "Send lines of a job's log", reply="lines", status=202, words=True)
    def log(self, claim: Claim, lines: Sequence[str]) -> int:
        """Lines for people who look at the job; cleaned and bounded before they are kept."""

    @verb("POST", "/passages", "Keep a part of a result", reply="number", status=202, words=True)
    def put_passage(
        self, claim: Claim, number: Annotated[int, Meta(ge=0, lt=PASSAGES_LIMIT)], content: Any
    ) -> int:
        """A finished part of a result that grows while the job runs (512 KB at most); listeners
        hear of it. Repeating it is harmless. Passages outlive the attempt, and a retry of the job
        begins with them."""

    @verb("GET", "/passages/{job_id}", "Read what was kept", reply="items", slow=True)
    def passages(self, claim: Claim) -> list[Any]:
        """What the job's attempts have kept so far, in the order of their numbers; the next
        attempt goes on behind it."""

    @verb("GET", "/transcript/{job_id}", "Read a transcript", reply="transcript", slow=True)
    def transcript(self, claim: Claim) -> JsonObject | None:
        """What is said in the job's media, as people read it now (`text`, `language`, `segments`,
        `words`, and by `speakers` what people call them); null while there is none."""

    @verb(
        "GET",
        "/source",
        "Fetch a job's source",
        own=True,
        says="`job_id`, and `media_id` or `rendition`, `from_seconds`, `to_seconds`, in the"
        " address; header `Rushes-Claim`",
        answers="the bytes, with ranges; or a redirect to the storage",
    )
    def read_source(
        self,
        claim: Claim,
        start: int,
        media_id: str | None = None,
        excerpt: Excerpt | None = None,
    ) -> Iterator[bytes]:
        """The source's bytes; ask again from another start to resume. `media_id`, if given, is of
        the overlay that the job's arguments name. With a `rendition`, instead of the source, the
        segments of it that play from `from_seconds` to `to_seconds`, as one file: of the version
        that the job's arguments name as `version_id`, or of what is watched now. HEAD tells its
        size and, if it is known, its SHA-256 in the headers `Rushes-Source-Size` and
        `Rushes-Source-SHA256`."""

    @verb("GET", "/artifacts/{job_id}", "List the files put so far", reply="items")
    def artifacts(self, claim: Claim) -> list[Artifact]:
        """What the job's version holds, whichever attempt or part has put it; `claimed` says which
        are this claim's."""

    @verb(
        "PUT",
        "/artifacts/{job_id}/{name}",
        "Put a file",
        own=True,
        says="the bytes; headers `Rushes-Claim`, `Rushes-SHA256`; `seconds` in the address",
        answers="the artifact as recorded",
    )
    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        """One finished file. Repeating it with the same content is harmless. `seconds`: how long a
        segment plays."""

    @verb("POST", "/artifacts/{job_id}/adopt", "Take over files", reply="items", slow=True)
    def adopt(self, claim: Claim, names: FileNames) -> list[Artifact]:
        """Take over files that others have put, 500 at most. Returns those that are intact; what is
        damaged is removed."""

    @verb("POST", "/artifacts/{job_id}/inherit", "Take over renditions", slow=True)
    def inherit(
        self, claim: Claim, besides: Annotated[Sequence[RenditionName], Meta(max_length=200)] = ()
    ) -> Inherited:
        """The renditions that the media's current version has, except `besides`: their files, and
        those of none (thumbnail, storyboard), are in the job's version from now on, to be adopted
        like those of an earlier attempt. With a `why_not` they are not. Repeating it is
        harmless."""

    @verb("POST", "/artifacts/{job_id}/discard", "Remove files", reply="items", slow=True)
    def discard(self, claim: Claim, names: FileNames) -> list[Artifact]:
        """Remove files of this claim again, 500 at most. Returns what the version holds after it.
        Repeating it is harmless."""

    @verb("POST", "/artifacts/{job_id}/presign", "Ask where to put a file")
    def presign(self, claim: Claim, name: FileName) -> Presigned:
        """Where to PUT a file past the server, and what to name then; both null when the storage
        cannot do that."""

    @verb("POST", "/artifacts/{job_id}/confirm", "Say that a file is there", slow=True)
    def confirm(
        self,
        claim: Claim,
        name: FileName,
        ticket: Id,
        size_bytes: Annotated[int, Meta(ge=0)],
        sha256: SHA256,
        md5: MD5,
        seconds: PlaySeconds | None = None,
    ) -> Artifact:
        """A file that was PUT past the server is there, with these digests in hexadecimal.
        Repeating it is harmless."""

    def source(
        self, claim: Claim, media_id: str | None = None, excerpt: Excerpt | None = None
    ) -> Source:
        """The job's source, that of another media which the job's arguments name, or a part of
        what is watched."""
        raise NotImplementedError

    def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
        """The job's state after it, or an error's code, for each job id."""
        return {each.claim.job_id: self._completed(each) for each in completions}

    def _completed(self, completion: Completion) -> str:
        try:
            return self.complete(completion)
        except errors.Conflict as error:
            return error.code
        except errors.Invalid:
            return errors.Invalid.code

    @property
    def is_understood(self) -> bool:
        """Whether the server knows all that is said to it, as far as that is known."""
        return True

    def admins_word(self) -> Pulse | None:
        """As with a heartbeat, for a worker whose `hello` was answered with no terms."""
        return None

    def interrupt(self) -> None:
        """End a `claim` that is waiting, from another thread."""


VERBS = verbs.of(Coordinator)


if __name__ == "__main__":
    guide = Path(sys.argv[1])
    guide.write_text(verbs.with_reference(guide.read_text(), VERBS))
