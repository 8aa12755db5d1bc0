"""The few pages there are so far: where a sign-in link leads, and a first page after it."""

from __future__ import annotations

from html import escape
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from rushes import errors
from rushes.accounts import access
from rushes.web import auth, playback
from rushes.web.api import accounts
from rushes.web.site import Here

router = APIRouter(include_in_schema=False, dependencies=[auth.Public])


@router.get("/sign-in", response_class=HTMLResponse)
def sign_in(
    request: Request, site: Here, token: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    """Uses a one-time link up and goes on to the first page, without the secret in its address."""
    if token is None:
        return _page("Sign in", "<p>Open the sign-in link that the server printed.</p>", 200)
    try:
        user_id = site.db.run(lambda tx: access.use_link(tx, token))
    except errors.Unauthorized as error:
        return _page("This link does not work", f"<p>{escape(error.message)}.</p>", 401)
    response = RedirectResponse("/", 303)
    accounts.open_session(site, request, response, user_id)
    return response


@router.get("/", response_class=HTMLResponse)
def home(request: Request, site: Here, cookie: auth.Cookie) -> Response:
    who = access.by_session(site.db, cookie) if cookie else None
    if who is None:
        return _page("Rushes", "<p>Rushes is running. Open the sign-in link it printed.</p>", 200)
    return _page(
        "Rushes",
        f"<p>You are signed in as <strong>{escape(who.name)}</strong>.</p>"
        "<p>Upload a recording from a terminal on this machine:</p>"
        "<pre>rushes upload recording.mp4 --wait</pre>"
        '<p>The API is described in <a href="/api/v1/openapi.json">openapi.json</a>.</p>',
        200,
    )


@router.get("/s/{token}", response_class=HTMLResponse)
def share(token: str, site: Here) -> Response:
    item = playback.shared_media(token, site)
    body = f"<p>{escape(item.status)}</p>"
    if item.stream_url:
        body = f'<p><a href="{escape(item.stream_url)}">Watch</a></p>'
    return _page(escape(item.title), body, 200)


def _page(title: str, body: str, status: int) -> HTMLResponse:
    head = f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{head}</head>'
        f"<body><main><h1>{title}</h1>{body}</main></body></html>",
        status,
    )
