"""Who is asking, and whether they may: every route takes exactly one of the roles below.

`Public` anybody, `User` a person or their token, `Admin` an admin, `WorkerKey` a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import APIKeyCookie, APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from rushes import errors
from rushes.accounts import access, keys
from rushes.accounts.account import Principal, Scope
from rushes.fleet.worker import Worker
from rushes.web.site import Here, Site

COOKIE = "rushes_session"
SAFE = {"GET", "HEAD", "OPTIONS"}

_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="An API token.")
_header = APIKeyHeader(name="X-API-Key", auto_error=False, scheme_name="api_key")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session")

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
ApiKey = Annotated[str | None, Depends(_header)]
Cookie = Annotated[str | None, Depends(_cookie)]


def recognise(site: Site, request: Request, key: str | None, cookie: str | None) -> Principal:
    """The person behind a request, or Unauthorized."""
    if key is not None:
        principal = by_key(site, key)
    elif cookie is not None:
        refuse_foreign(site, request)
        principal = access.by_session(site.db, cookie)
    else:
        raise errors.Unauthorized("sign in, or send an API token")
    if principal is None:
        raise errors.Unauthorized("this token or session is not valid")
    return principal


def by_key(site: Site, key: str) -> Principal | None:
    if keys.same(key, site.settings.admin_token) or keys.same(key, site.local_token):
        return access.as_admin(site.db)
    return access.by_token(site.db, key)


def refuse_foreign(site: Site, request: Request) -> None:
    """A cookie is sent along by other sites' pages, too: what they start changes nothing here."""
    if request.method in SAFE:
        return
    fetch_site = request.headers.get("sec-fetch-site")
    if fetch_site is not None:
        if fetch_site in ("same-origin", "none"):
            return
        raise errors.Denied("this request came from another site")
    origin = request.headers.get("origin")
    if origin is None:
        return
    if _host(origin) not in (request.headers.get("host"), _host(site.base_url)):
        raise errors.Denied("this request came from another site")


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return "nowhere"


def _user(
    request: Request, site: Here, bearer: Bearer, api_key: ApiKey, cookie: Cookie
) -> Principal:
    key = bearer.credentials if bearer else api_key
    principal = recognise(site, request, key, cookie)
    if not principal.may(Scope.READ if request.method in SAFE else Scope.WRITE):
        raise errors.Denied("this token may only read")
    return principal


def _admin(principal: Annotated[Principal, Depends(_user)]) -> Principal:
    if not principal.is_admin:
        raise errors.Denied("only an admin may do this")
    return principal


def _worker(site: Here, bearer: Bearer, api_key: ApiKey) -> Worker:
    key = bearer.credentials if bearer else api_key
    worker = access.by_worker_key(site.db, key) if key else None
    if worker is None:
        raise errors.Unauthorized("this needs a worker's key")
    return worker


def _public() -> None:
    """Says that a route is meant for everybody."""


ROLES: dict[Callable[..., Any], str] = {
    _user: "user",
    _admin: "admin",
    _worker: "worker",
    _public: "public",
}
User = Annotated[Principal, Depends(_user)]
Admin = Annotated[Principal, Depends(_admin)]
WorkerKey = Annotated[Worker, Depends(_worker)]
Public = Depends(_public)


def role_of(dependant: Dependant) -> str | None:
    """The role a route has declared; the narrowest one when it includes another."""
    found = {ROLES[call] for call in _calls(dependant) if call in ROLES}
    return next((role for role in ("worker", "admin", "user", "public") if role in found), None)


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    for each in dependant.dependencies:
        if each.call is not None:
            yield each.call
        yield from _calls(each)


def address_of(request: Request) -> str:
    """The client's, as a trusted proxy tells it."""
    return request.client.host if request.client else "unknown"


def set_cookie(site: Site, response: Any, value: str) -> None:
    response.set_cookie(
        COOKIE,
        value,
        max_age=int(site.settings.session_duration),
        httponly=True,
        samesite="lax",
        secure=site.is_https,
        path="/",
    )
