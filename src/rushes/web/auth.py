"""Who is asking, and whether they may: every route takes exactly one of the roles below.

`Public` anybody, `User` a person or their token, `Admin` an admin, `WorkerKey` a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import APIKeyCookie, APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from rushes import errors
from rushes.accounts import access, keys, security_log, throttle
from rushes.accounts.access import KeyHolder
from rushes.accounts.account import Principal, Scope
from rushes.accounts.security_log import Action
from rushes.web.http import addresses
from rushes.web.http.executors import HEARTBEATS, in_thread
from rushes.web.services import Here, Services

T = TypeVar("T")

COOKIE = "rushes_session"
SAFE = {"GET", "HEAD", "OPTIONS"}
UNKNOWN_KEY = (
    "this is no worker's key, or not any more: it was revoked, or the worker was not heard of for"
    " so long that it was forgotten; it has to be registered again"
)

_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="An API token.")
_header = APIKeyHeader(name="X-API-Key", auto_error=False, scheme_name="api_key")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session")

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
ApiKey = Annotated[str | None, Depends(_header)]
Cookie = Annotated[str | None, Depends(_cookie)]


def recognise(
    services: Services, request: Request, key: str | None, cookie: str | None
) -> Principal:
    """The person behind a request, or Unauthorized."""
    if key is not None:
        with_key = partial(by_key, services, key)
        principal = unless_guessed(services, request, key, with_key)
    elif cookie is not None:
        refuse_foreign(services, request)
        principal = access.by_session(services.db, cookie)
    else:
        raise errors.Unauthorized("sign in, or send an API token")
    if principal is None:
        raise errors.Unauthorized("this token or session is not valid")
    if here := security_log.visit.get():
        here.is_by(principal)
    return principal


def unless_guessed(
    services: Services, request: Request, key: str, look: Callable[[], T | None]
) -> T | None:
    """What a key opens; TooMany after many wrong ones from the same network."""
    network = throttle.network_of(address_of(request))
    try:
        services.guesses.check(network, key)
    except errors.TooMany:
        security_log.record_seldom(services.db, Action.KEY_THROTTLED)
        raise
    found = look()
    services.guesses.note(network, key, is_right=found is not None)
    if found is None:
        security_log.record_seldom(services.db, Action.KEY_REFUSED)
    return found


def by_key(services: Services, key: str) -> Principal | None:
    if keys.same(key, services.settings.admin_token) or keys.same(key, services.local_token):
        return access.as_admin(services.db)
    return access.by_token(services.db, key)


def refuse_foreign(services: Services, request: Request) -> None:
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
    if not addresses.is_own(services.settings, origin):
        raise errors.Denied("this request came from another site")


def _user(
    request: Request, services: Here, bearer: Bearer, api_key: ApiKey, cookie: Cookie
) -> Principal:
    key = bearer.credentials if bearer else api_key
    principal = recognise(services, request, key, cookie)
    if not principal.may(Scope.READ if request.method in SAFE else Scope.WRITE):
        security_log.record_seldom(services.db, Action.ACCESS_DENIED, _asked(request))
        raise errors.Denied("this token may only read")
    return principal


def _admin(
    request: Request, services: Here, principal: Annotated[Principal, Depends(_user)]
) -> Principal:
    return only_admin(services, request, principal)


def only_admin(
    services: Services,
    request: Request,
    principal: Principal,
    said: str = "only an admin may do this",
) -> Principal:
    if not principal.is_admin:
        security_log.record_seldom(services.db, Action.ACCESS_DENIED, _asked(request))
        raise errors.Denied(said)
    return principal


def check_priority(principal: Principal, priority: str | None) -> None:
    """What comes before everybody's work is not for everybody to say."""
    if priority == "high" and not principal.is_admin:
        raise errors.Denied("only an admin may give work the priority high: say normal or low")


def _asked(request: Request) -> str:
    """The route, not the address: that is as long as a stranger likes, and has ids in it."""
    route = getattr(request.scope.get("route"), "path", "").removeprefix("/api/v1")
    return f"{request.method} {route.lstrip('/').replace('{', ':').replace('}', '')}"


async def _worker(request: Request, services: Here, bearer: Bearer, api_key: ApiKey) -> KeyHolder:
    key = bearer.credentials if bearer else api_key
    worker = services.known_workers.remembered(key) if key else None
    if key and worker is None:
        # With heartbeats: they must not wait behind the requests of people.
        worker = await in_thread(HEARTBEATS, _worker_of, services, request, key)
    if worker is None:
        raise errors.Unauthorized(UNKNOWN_KEY if key else "this needs a worker's key")
    return worker


def _worker_of(services: Services, request: Request, key: str) -> KeyHolder | None:
    with_key = partial(services.known_workers.by_key, key)
    return unless_guessed(services, request, key, with_key)


async def _public() -> None:
    """Says that a route is meant for everybody."""


def _may_read_health(
    request: Request, services: Here, bearer: Bearer, api_key: ApiKey, cookie: Cookie
) -> None:
    """Public unless the operator has closed it; then for admins."""
    if services.settings.public_health:
        return
    key = bearer.credentials if bearer else api_key
    only_admin(services, request, recognise(services, request, key, cookie))


MayReadHealth = Depends(_may_read_health)
ROLES: dict[Callable[..., Any], str] = {
    _user: "user",
    _admin: "admin",
    _worker: "worker",
    _public: "public",
}
User = Annotated[Principal, Depends(_user)]
Admin = Annotated[Principal, Depends(_admin)]
WorkerKey = Annotated[KeyHolder, Depends(_worker)]
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


def set_cookie(services: Services, response: Any, value: str) -> None:
    response.set_cookie(
        COOKIE,
        value,
        max_age=int(services.settings.session_duration),
        httponly=True,
        samesite="lax",
        secure=services.is_https,
        path="/",
    )
