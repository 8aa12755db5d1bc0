"""What follows what: the jobs a new media starts with, and those a finished job leads to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushes.jobs.job import NewJob
from rushes.media.media import Options

TRANSCODE = "transcode"
TRANSCRIBE = "transcribe"
PURGE = "purge"
WEBHOOK = "webhook"
# Kinds whose work does not make the media any more or less ready to watch.
BESIDE = (TRANSCRIBE, PURGE, WEBHOOK)
# Kinds that make a new version with other sound, after which the transcript is made again.
CHANGES_SOUND = ("trim", "composite")


def first_jobs(media_id: str, user_id: str, options: Options) -> list[NewJob]:
    """Encoding and transcription need only the source, so neither waits for the other."""
    jobs = [transcode(media_id, user_id, {"profile": options.profile})]
    if options.transcribe:
        wishes = {"language": options.language, "diarize": options.diarize}
        jobs.append(transcribe(media_id, user_id, wishes))
    return jobs


def transcode(media_id: str, user_id: str, args: Mapping[str, Any]) -> NewJob:
    return _on_media(TRANSCODE, media_id, user_id, args)


def transcribe(media_id: str, user_id: str, args: Mapping[str, Any]) -> NewJob:
    return _on_media(TRANSCRIBE, media_id, user_id, args)


def _on_media(kind: str, media_id: str, user_id: str, args: Mapping[str, Any]) -> NewJob:
    """At most one of a kind is under way for a media."""
    return NewJob(
        kind=kind,
        media_id=media_id,
        user_id=user_id,
        args={name: value for name, value in args.items() if value is not None},
        dedupe_key=f"{kind}:{media_id}",
    )


def follow_ups(kind: str, media_id: str | None, user_id: str) -> list[NewJob]:
    """What a job that has just completed leads to."""
    if media_id is not None and kind in CHANGES_SOUND:
        return [transcribe(media_id, user_id, {})]
    return []


def purge(what: str, id: str) -> NewJob:
    """Remove the bytes of a version, a media or an upload; `what` says which."""
    return NewJob(kind=PURGE, args={what: id}, dedupe_key=f"{PURGE}:{id}", priority="low")
