"""Live events as server-sent events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from rushes import errors
from rushes.accounts.account import Principal
from rushes.live import Filter
from rushes.web import auth, sse
from rushes.web.problems import documented
from rushes.web.site import Here, Site

router = APIRouter(tags=["events"], responses=documented(401, 422))

Ref = Annotated[str | None, Query(max_length=100)]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    request: Request,
    who: auth.User,
    site: Here,
    media_id: Ref = None,
    job_id: Ref = None,
    types: Annotated[
        str | None,
        Query(max_length=500, description="Such as media.ready,transcode.* separated by commas."),
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
    since: Annotated[
        str | None, Query(max_length=30, description="As Last-Event-ID, for the first request.")
    ] = None,
) -> StreamingResponse:
    """Changes as they happen. Come back with `Last-Event-ID`, and nothing is missed."""
    want = Filter(
        user_id=who.sees,
        media_id=media_id,
        job_id=job_id,
        types=_words(types),
    )
    subscription = site.relay.subscribe(sse.since(last_event_id or since), want)
    body = sse.stream(subscription, still_allowed=_recheck(site, request, who))
    return StreamingResponse(body, media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


def _words(types: str | None) -> frozenset[str]:
    return frozenset(filter(None, (each.strip() for each in (types or "").split(","))))


def _recheck(site: Site, request: Request, who: Principal) -> Callable[[], bool]:
    """A stream ends soon after its session or token does."""
    bearer = request.headers.get("authorization", "")
    key = bearer.partition(" ")[2] or request.headers.get("x-api-key")
    cookie = request.cookies.get(auth.COOKIE)

    def still() -> bool:
        try:
            return auth.recognise(site, request, key or None, cookie).role is who.role
        except errors.Unauthorized:
            return False

    return still
