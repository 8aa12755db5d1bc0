"""The models that this server's speech engine knows."""

from __future__ import annotations

from fastapi import APIRouter

from rushes import errors
from rushes.engines.engine import Capabilities
from rushes.web import auth, models
from rushes.web.problems import documented
from rushes.web.site import Here, Site

router = APIRouter(prefix="/models", tags=["transcriptions"], responses=documented(401, 503))


@router.get("/transcription")
def transcription(who: auth.User, site: Here) -> models.Page[models.SpeechModel]:
    """Those that `model` of a transcription may name; what is not installed is fetched when it is
    first needed."""
    can = capabilities(site)
    return models.Page(
        items=[
            models.SpeechModel(
                id=each.name,
                name=each.name,
                title=each.title,
                provider=can.provider,
                licence=each.licence,
                size_bytes=each.size_bytes,
                languages=list(each.languages),
                capabilities=list(each.capabilities),
                installed=each.installed,
                default=each.default,
                available=can.reason is None,
                reason=can.reason,
            )
            for each in can.models
            if each.purpose == "transcription"
        ]
    )


def capabilities(site: Site) -> Capabilities:
    try:
        return site.engines.get().capabilities()
    except errors.JobOutcome as error:
        raise errors.Unavailable(error.message) from error
