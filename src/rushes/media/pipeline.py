"""What follows what, and what comes first: the jobs a new media starts with, those a finished job
leads to, and the lane that each of them waits in. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from rushes import kinds
from rushes.jobs.job import NewJob, Priority, encode
from rushes.media.media import ProcessingOptions
from rushes.records import JsonObject

TRANSCODE = kinds.TRANSCODE.name
TRIM = kinds.TRIM.name
COMPOSITE = kinds.COMPOSITE.name
PREPARE = kinds.PREPARE.name
TRANSCRIBE = kinds.TRANSCRIBE.name
PURGE = kinds.PURGE.name
WEBHOOK = kinds.WEBHOOK.name
# Kinds that make a new version with other sound, after which the transcript is made again.
CHANGES_SOUND = (TRIM, COMPOSITE)
# Kinds whose work makes the media ready to watch.
MAKES_VERSION = kinds.making(kinds.WATCH)
# As much as OpenAI's own API takes. Whoever sends more has to wait for it anyway, and must not hold
# up those who have said a sentence.
INTERACTIVE_BYTES = 25 * 2**20


class Cause(StrEnum):
    """Why there is a job; decides how soon it is done, unless somebody says (decision 0017)."""

    # Somebody holds the line for it.
    INTERACTIVE = "interactive"
    # Nobody has anything of it yet: an upload, an edit, a first transcript, another try.
    NEW = "new"
    # There is one already, and it stays until the new one is there.
    AGAIN = "again"
    # One of many, or no person's wish: several at once, a watch folder.
    BULK = "bulk"


_PRIORITIES = {
    Cause.INTERACTIVE: Priority.HIGH,
    Cause.NEW: Priority.NORMAL,
    Cause.AGAIN: Priority.LOW,
    Cause.BULK: Priority.LOW,
}


def priority_for(cause: Cause, named: str | None = None) -> str:
    return named or _PRIORITIES[cause].word


def priority_after(done: Priority) -> str:
    """Of what follows a job: not before new work, and not before what it follows."""
    return max(done, Priority.NORMAL).word


def priority_of_retry(old: Priority, cause: Cause = Cause.NEW) -> str:
    """Somebody waits for the one that they try again; one of many gives way."""
    return Priority.LOW.word if cause is Cause.BULK else min(old, Priority.NORMAL).word


def first_jobs(
    media_id: str,
    user_id: str,
    options: ProcessingOptions,
    profile: str,
    settings: JsonObject,
    size_bytes: int = 0,
) -> list[NewJob]:
    """Encoding and transcription need only the source, so neither waits for the other."""
    args = {"profile": profile, "settings": settings}
    found: list[tuple[NewJob, Cause]] = []
    if options.transcode:
        found.append((version(TRANSCODE, media_id, user_id, args), Cause.NEW))
    if options.transcribe:
        speech = {"language": options.language, "diarize": options.diarize, **options.speech}
        is_urgent = options.is_interactive and size_bytes <= INTERACTIVE_BYTES
        cause = Cause.INTERACTIVE if is_urgent else Cause.NEW
        found.append((transcribe(media_id, user_id, speech), cause))
    return [replace(new, priority=priority_for(why, options.priority)) for new, why in found]


def version(kind: str, media_id: str, user_id: str, args: JsonObject) -> NewJob:
    """At most one new version of a media is under way, whatever it is made for. A worker with the
    hardware is preferred, unless the profile wants software."""
    encoder = (args.get("settings") or {}).get("encoder", "auto")
    needs = {"software": (), "auto": ("gpu?",)}.get(encoder, (f"{encoder}?",))
    return _on_media(kind, media_id, user_id, args, f"{TRANSCODE}:{media_id}", needs)


def beginning(whole: NewJob) -> NewJob:
    """What makes a recording watchable, of the encode of an upload. Any worker may do it."""
    return replace(whole, kind=PREPARE, needs=(), dedupe_key=None, limit_key=None)


def transcribe(media_id: str, user_id: str, args: JsonObject, *, of: str | None = None) -> NewJob:
    """At most one is under way for a media; `of` tells a new sound from the one before, which may
    still be listened to. A worker with a graphics card is preferred."""
    key = transcribe_key(media_id, of)
    return _on_media(TRANSCRIBE, media_id, user_id, args, key, ("gpu?",))


def transcribe_key(media_id: str, of: str | None = None) -> str:
    return f"{TRANSCRIBE}:{media_id}" + (f":{of}" if of else "")


def of_ones_own(
    kind: str, media_id: str, user_id: str, args: JsonObject, *, after: str | None = None
) -> NewJob:
    """At most one with these arguments is under way for a media; `after` tells what is to look at
    a new result from what may have looked at the old one."""
    digest = f":{hashlib.sha256(encode(dict(args)).encode()).hexdigest()[:16]}" if args else ""
    key = f"{kind}:{media_id}{digest}" + (f":{after}" if after else "")
    return _on_media(kind, media_id, user_id, args, key, kinds.get(kind).needs)


def _on_media(
    kind: str,
    media_id: str,
    user_id: str,
    args: JsonObject,
    dedupe_key: str,
    needs: Sequence[str] = (),
) -> NewJob:
    return NewJob(
        kind=kind,
        media_id=media_id,
        user_id=user_id,
        args={name: value for name, value in args.items() if value is not None},
        dedupe_key=dedupe_key,
        needs=needs,
    )


def renews_transcript(kind: str, args: JsonObject) -> bool:
    """Whether the transcript there is counts no more once such a job has completed."""
    return kind in CHANGES_SOUND or (kind == TRANSCODE and bool(args.get("drop_transcript")))


def purge(what: str, id: str) -> NewJob:
    """Remove the bytes of a version, a media or an upload; `what` says which."""
    low = priority_for(Cause.BULK)
    return NewJob(kind=PURGE, args={what: id}, dedupe_key=f"{PURGE}:{id}", priority=low)
