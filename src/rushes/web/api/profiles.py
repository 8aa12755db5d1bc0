"""Profiles: what is made of a source, and how it is transcribed. Everybody may look, admins change
them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from rushes import clock
from rushes.db.database import Tx
from rushes.media import profiles, speech_profiles
from rushes.web import auth, models, views
from rushes.web.api.media import SpeechOptions
from rushes.web.http import idempotency
from rushes.web.http.problems import documented
from rushes.web.models import Body, Rung, Time
from rushes.web.services import Here

router = APIRouter(prefix="/profiles", tags=["profiles"], responses=documented(401, 404, 422))
speech = APIRouter(
    prefix="/transcription-profiles", tags=["profiles"], responses=documented(401, 404, 422)
)

Name = Annotated[str, Path(max_length=100, description="Such as default.")]


class ProfileSettings(Body):
    """What is not said is as in the built-in default."""

    ladder: list[Rung] | None = Field(None, min_length=1, max_length=12)
    codecs: list[str] | None = Field(
        None, min_length=1, max_length=3, description="h264, and also hevc or av1."
    )
    preset: str | None = Field(None, description="From ultrafast to slower.")
    crf: int | None = Field(None, ge=0, le=51, description="Smaller is better and larger.")
    segment_seconds: float | None = Field(None, ge=1, le=20)
    audio_bitrate: int | None = Field(None, ge=32, le=512, description="In kbit/s.")
    original: bool | None = Field(None, description="Show at once what browsers play already.")
    original_bitrate: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="In kbit/s; what needs more is not listed afterwards. The ladder decides else.",
    )
    keep_original: bool | None = Field(
        None, description="Whether its files stay when it is not listed."
    )
    encoder: str | None = Field(None, description="auto, software, or the hardware's.")
    divide_after: float | None = Field(
        None, ge=1, le=1e9, description="Longer videos are encoded in spans; in seconds."
    )
    span_seconds: float | None = Field(None, ge=1, le=3600)

    def settings(self) -> dict[str, Any]:
        return self.model_dump(exclude={"name"}, exclude_none=True)


NewName = Annotated[str, Field(min_length=1, max_length=64, pattern="^[a-z0-9][a-z0-9_-]*$")]


class ProfileRequest(ProfileSettings):
    name: NewName


class TranscriptionProfileRequest(SpeechOptions):
    name: NewName


class TranscriptionProfile(SpeechOptions):
    """How something is transcribed; null is as if nothing was said."""

    name: str
    created_at: Time
    updated_at: Time


@router.get("")
def list_profiles(who: auth.User, services: Here) -> models.Page[models.Profile]:
    """All of them, the default first."""
    with services.db.read() as tx:
        found = profiles.list_profiles(tx)
    return models.Page(items=[views.profile(each) for each in found])


@router.post("", status_code=201, responses=documented(409))
def create(
    body: ProfileRequest, who: auth.Admin, services: Here, once: idempotency.Once
) -> models.Profile:
    def add(tx: Tx) -> models.Profile:
        return views.profile(profiles.create(tx, body.name, body.settings()))

    return once.run(services, who, body, models.Profile, add)


@router.get("/{name}")
def get(name: Name, who: auth.User, services: Here) -> models.Profile:
    with services.db.read() as tx:
        return views.profile(profiles.found(tx, name))


@router.put("/{name}")
def put(name: Name, body: ProfileSettings, who: auth.Admin, services: Here) -> models.Profile:
    """All its settings at once; made if it is not there. Jobs that wait keep those they have."""
    return views.profile(services.db.run(lambda tx: profiles.replace(tx, name, body.settings())))


@router.delete("/{name}", status_code=204)
def delete(name: Name, who: auth.Admin, services: Here) -> None:
    """Remove it, or set the default back to what it was."""
    services.db.run(lambda tx: profiles.remove(tx, name))


# Of transcriptions


@speech.get("")
def list_speech(who: auth.User, services: Here) -> models.Page[TranscriptionProfile]:
    """All of them, the default first: it is for what names none."""
    with services.db.read() as tx:
        found = speech_profiles.list_profiles(tx)
    return models.Page(items=[_speech_view(each) for each in found])


@speech.post("", status_code=201, responses=documented(409))
def create_speech(
    body: TranscriptionProfileRequest, who: auth.Admin, services: Here, once: idempotency.Once
) -> TranscriptionProfile:
    def add(tx: Tx) -> TranscriptionProfile:
        return _speech_view(speech_profiles.create(tx, body.name, _options(body)))

    return once.run(services, who, body, TranscriptionProfile, add)


@speech.get("/{name}")
def get_speech(name: Name, who: auth.User, services: Here) -> TranscriptionProfile:
    with services.db.read() as tx:
        return _speech_view(speech_profiles.found(tx, name))


@speech.put("/{name}")
def put_speech(
    name: Name, body: SpeechOptions, who: auth.Admin, services: Here
) -> TranscriptionProfile:
    """All its options at once; made if it is not there. Jobs that wait keep those they have."""
    return _speech_view(
        services.db.run(lambda tx: speech_profiles.replace(tx, name, _options(body)))
    )


@speech.delete("/{name}", status_code=204)
def delete_speech(name: Name, who: auth.Admin, services: Here) -> None:
    services.db.run(lambda tx: speech_profiles.remove(tx, name))


def _options(body: SpeechOptions) -> dict[str, Any]:
    return body.model_dump(exclude={"name"}, exclude_none=True)


def _speech_view(item: speech_profiles.SpeechProfile) -> TranscriptionProfile:
    return TranscriptionProfile(
        name=item.name,
        created_at=clock.rfc3339(item.created_at),
        updated_at=clock.rfc3339(item.updated_at),
        **item.options,
    )
