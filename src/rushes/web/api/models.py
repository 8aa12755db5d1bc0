"""The models that this server's speech engine knows, and fetching them beforehand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path

from rushes import errors
from rushes.engines import catalog
from rushes.engines.downloads import Downloads
from rushes.engines.engine import Capabilities, EngineModel, ModelUnavailable
from rushes.web import auth, models
from rushes.web.http.problems import documented
from rushes.web.services import Here, Services

router = APIRouter(prefix="/models", tags=["transcriptions"], responses=documented(401, 503))

Name = Annotated[
    str,
    Path(
        max_length=200,
        description="Such as whisper-base, or a repository of the hub with a Whisper model for"
        " CTranslate2.",
    ),
]


@router.get("/transcription")
def transcription(who: auth.User, services: Here) -> models.Page[models.SpeechModel]:
    """Those with the capability `transcription` may be named as the `model` of one; those with
    `diarization` tell speakers apart. What is not installed is fetched when it is first needed."""
    can = capabilities(services)
    return models.Page(items=[_view(services, can, each) for each in _listed(services, can)])


@router.post(
    "/transcription/{name:path}/pull", status_code=202, responses=documented(404, 409, 422)
)
def pull(name: Name, who: auth.Admin, services: Here) -> models.SpeechModel:
    """Fetch a model in the background, so that no job has to wait for it; twice is once. `download`
    tells how far it is. A repository of the hub is pinned to what it is now."""
    downloads = _downloads(services)
    entry = _entry(downloads, name)
    downloads.start(entry)
    can = capabilities(services)
    found = [each for each in _listed(services, can) if each.name == entry.name]
    return _view(services, can, found[0] if found else _unlisted(entry.name))


@router.delete("/transcription/{name:path}", status_code=204, responses=documented(404, 409, 422))
def remove(name: Name, who: auth.Admin, services: Here) -> None:
    """Remove a model, and what was fetched of it. A job that needs it fetches it again."""
    downloads = _downloads(services)
    entry = _entry(downloads, name)
    try:
        there = downloads.remove(entry)
    except errors.JobOutcome as error:
        raise errors.Unavailable(error.message) from error
    if not there:
        raise errors.NotFound(f"{entry.name} is not here")


def capabilities(services: Services) -> Capabilities:
    try:
        return services.engines.get().capabilities()
    except errors.JobOutcome as error:
        raise errors.Unavailable(error.message) from error


def _view(services: Services, can: Capabilities, model: EngineModel) -> models.SpeechModel:
    download = (
        services.downloads.of(model.name) if services.downloads and not model.installed else None
    )
    return models.SpeechModel(
        id=model.name,
        name=model.name,
        title=model.title,
        provider=can.provider,
        licence=model.licence,
        size_bytes=model.size_bytes,
        languages=list(model.languages),
        capabilities=[model.purpose, *model.capabilities],
        installed=model.installed,
        default=model.default,
        available=can.reason is None,
        reason=can.reason,
        download=models.Download(**asdict(download)) if download else None,
    )


def _downloads(services: Services) -> Downloads:
    if services.downloads is None:
        raise errors.WrongState(
            f"the speech engine {services.settings.engine} keeps its models elsewhere: fetch and"
            " remove them there"
        )
    return services.downloads


def _listed(services: Services, can: Capabilities) -> list[EngineModel]:
    """With those that are on their way, of which nothing else is known yet."""
    known = {each.name for each in can.models}
    coming = services.downloads.names() if services.downloads else []
    return [*can.models, *(_unlisted(each) for each in coming if each not in known)]


def _unlisted(name: str) -> EngineModel:
    return EngineModel(
        name=name,
        purpose="transcription",
        title="",
        licence="unknown",
        size_bytes=0,
        languages=(),
        capabilities=(),
        installed=False,
        default=False,
    )


def _entry(downloads: Downloads, name: str) -> catalog.CatalogModel:
    try:
        return downloads.wanted(name)
    except ModelUnavailable as error:
        raise errors.NotFound(error.message) from error
