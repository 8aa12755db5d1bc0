"""Live events as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from rushes import errors
from rushes.accounts.account import Principal
from rushes.limits import What
from rushes.live import EventFilter, Subscription
from rushes.web import auth
from rushes.web.http import open_streams, sse
from rushes.web.http.open_streams import HeldStream
from rushes.web.http.problems import documented
from rushes.web.services import Here, Services

router = APIRouter(tags=["events"], responses=documented(401, 422))

Ref = Annotated[str | None, Query(max_length=100)]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=documented(429)
    | {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    request: Request,
    who: auth.User,
    services: Here,
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
    want = EventFilter(
        user_id=who.sees,
        media_id=media_id,
        job_id=job_id,
        types=_words(types),
    )
    hold = services.holds.enter(open_streams.hold(What.STREAMS, who))
    subscription = services.relay.subscribe(sse.since(last_event_id or since), want)
    loop = asyncio.get_running_loop()
    hold.end = lambda: _end(loop, subscription)

    def leave() -> None:
        subscription.close()
        services.holds.leave(hold)

    body = sse.stream(
        subscription,
        still_allowed=recheck(services, request, who),
        keep_alive_seconds=services.settings.event_keep_alive,
        retry_seconds=services.settings.event_retry,
    )
    # Who has the answer may act on it: what comes of that must be heard.
    opened = subscription.opened
    return HeldStream(body, leave, opened, media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


def _end(loop: asyncio.AbstractEventLoop, subscription: Subscription) -> None:
    loop.call_soon_threadsafe(subscription.end)


def _words(types: str | None) -> frozenset[str]:
    return frozenset(filter(None, (each.strip() for each in (types or "").split(","))))


def recheck(services: Services, request: Request, who: Principal) -> Callable[[], bool]:
    """A stream ends soon after its session or token does."""
    bearer = request.headers.get("authorization", "")
    key = bearer.partition(" ")[2] or request.headers.get("x-api-key")
    cookie = request.cookies.get(auth.COOKIE)

    def still() -> bool:
        try:
            return auth.recognise(services, request, key or None, cookie).role is who.role
        except errors.Unauthorized:
            return False

    return still
