"""Signing in and out, sessions, tokens, and the users."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field, SecretStr

from rushes import errors, events
from rushes.accounts import access, account, store, throttle
from rushes.accounts.account import Principal, Role, Scope
from rushes.accounts.security_log import Action
from rushes.db.database import Tx
from rushes.jobs import read_store
from rushes.media import store as media_store
from rushes.web import auth, models, views
from rushes.web.http import idempotency, open_streams
from rushes.web.http.idempotency import Repeat
from rushes.web.http.problems import documented
from rushes.web.models import SHOWN_ONCE, Body
from rushes.web.services import Here, Services

router = APIRouter(tags=["accounts"], responses=documented(401, 404, 422))

UserId = Annotated[str, Path(max_length=100)]


class SignIn(Body):
    name: str = Field(max_length=64)
    password: SecretStr = Field(max_length=128)


class LinkSignIn(Body):
    token: SecretStr = Field(max_length=200)


class Password(Body):
    password: SecretStr = Field(max_length=1000)
    old_password: SecretStr | None = Field(None, max_length=1000)


class UserRequest(Body):
    name: str = Field(max_length=64)
    role: Role = Role.USER
    password: SecretStr | None = Field(None, max_length=1000)
    quota_bytes: int | None = Field(None, ge=0, le=2**53)


class UserChange(Body):
    role: Role | None = None
    disabled: bool | None = None
    quota_bytes: int | None = Field(None, ge=0, le=2**53)


class TokenRequest(Body):
    name: str = Field(min_length=1, max_length=100)
    scopes: list[Scope] = Field([Scope.WRITE], min_length=1, max_length=3)
    expires_seconds: float | None = Field(None, gt=0, le=10 * 365 * 86400)


class Me(BaseModel):
    id: str
    name: str
    role: str
    scope: str
    used_bytes: int
    quota_bytes: int | None
    has_password: bool
    needs_old_password: bool = Field(
        description="Whether a new password takes the old one. Not if there is none, nor for 15"
        " minutes in a session that a sign-in link has opened."
    )
    event_position: str = Field(
        description="Where the events stood before this: `since` for a stream that is to tell of"
        " all that happens after what is read from now on."
    )


class Link(BaseModel):
    signin_url: Annotated[str, SHOWN_ONCE]


# Sessions


@router.post(
    "/session", status_code=201, dependencies=[auth.Public], responses=documented(403, 429, 503)
)
async def sign_in(body: SignIn, request: Request, response: Response, services: Here) -> Me:
    """By name and password; sets the session cookie."""
    auth.refuse_foreign(services, request)
    password = body.password.get_secret_value()

    def enter() -> Me:
        user_id = access.sign_in(services.db, body.name, password, auth.address_of(request))
        label, lasts_ms = _session_terms(services, request)
        cookie = services.db.run(
            lambda tx: access.open_session(tx, user_id, label, lasts_ms, Action.SIGNED_IN)
        )
        return _entered(services, response, cookie)

    return await open_streams.at_the_door(services, request, enter)


@router.post(
    "/session/link", status_code=201, dependencies=[auth.Public], responses=documented(403, 429)
)
def sign_in_by_link(body: LinkSignIn, request: Request, response: Response, services: Here) -> Me:
    """By the secret of a one-time link. For 15 minutes, this session may set a new password
    without the old one."""
    auth.refuse_foreign(services, request)
    token = body.token.get_secret_value()
    label, lasts_ms = _session_terms(services, request)
    with throttle.throttled(services.db, auth.address_of(request), by="link"):
        cookie = services.db.run(lambda tx: access.sign_in_by_link(tx, token, label, lasts_ms))
    return _entered(services, response, cookie)


@router.get("/session")
def me(who: auth.User, services: Here) -> Me:
    return _me(services, who)


@router.delete("/session", status_code=204)
def sign_out(who: auth.User, services: Here, response: Response) -> None:
    if who.session_id is not None:
        only = who.session_id
        services.db.run(lambda tx: access.sign_out(tx, who.user_id, only))
        open_streams.cut_ended(services, who.user_id)
    response.delete_cookie(auth.COOKIE, path="/")


@router.get("/sessions")
def sessions(who: auth.User, services: Here) -> models.Page[models.Session]:
    with services.db.read() as tx:
        rows = store.sessions_of(tx, who.user_id)
    items = [views.timed(models.Session, row, current=row.id == who.session_id) for row in rows]
    return models.Page(items=items)


@router.delete("/sessions/{session_id}", status_code=204)
def end_session(session_id: UserId, who: auth.User, services: Here) -> None:
    services.db.run(lambda tx: access.end_session(tx, who.user_id, session_id))
    open_streams.cut_ended(services, who.user_id)


@router.put("/session/password", status_code=204, responses=documented(429, 503))
async def set_password(body: Password, request: Request, who: auth.User, services: Here) -> None:
    """Ends all other sessions, and links to sign in. The old password is asked for if there is
    one, but not for 15 minutes in a session that a sign-in link has opened: once, that sets a
    password in place of a forgotten one."""
    if who.token_id is not None:
        raise errors.Denied("a token cannot change the password: sign in")
    await open_streams.at_the_door(
        services, request, lambda: _set_password(body, request, who, services)
    )


def _set_password(body: Password, request: Request, who: Principal, services: Services) -> None:
    with services.db.read() as tx:
        user = store.get_user(tx, who.user_id)
    has_password = user is not None and user.has_password
    if user is not None and has_password and not who.may_reset:
        old = body.old_password.get_secret_value() if body.old_password else ""
        access.sign_in(services.db, user.name, old, auth.address_of(request))
    hash = access.hash_password(body.password.get_secret_value(), who.name)
    here, is_reset = who.session_id or "", has_password and who.may_reset
    services.db.run(
        lambda tx: access.set_password(tx, who.user_id, hash, session_id=here, is_reset=is_reset)
    )
    open_streams.cut_ended(services, who.user_id)


# Tokens


@router.get("/tokens")
def tokens(who: auth.User, services: Here) -> models.Page[models.Token]:
    with services.db.read() as tx:
        rows = store.tokens_of(tx, who.user_id)
    return models.Page(items=[_token(row) for row in rows])


@router.post("/tokens", status_code=201, responses=documented(409, 429))
def make_token(
    body: TokenRequest, who: auth.User, services: Here, once: idempotency.Once
) -> models.NewToken:
    """For scripts. A token cannot make one that may do more than itself."""
    if not all(who.may(scope) for scope in body.scopes):
        raise errors.Denied("a token cannot make one that may do more than itself")

    def make(tx: Tx) -> models.NewToken:
        _refuse_outliving(tx, who, body.expires_seconds)
        user = store.get_user(tx, who.user_id)
        if user is None:
            raise errors.NotFound("no such user")
        scopes = [str(scope) for scope in body.scopes]
        most = services.settings.user_tokens
        token_id, made = access.make_token(
            tx, user, body.name, scopes, body.expires_seconds, most=most
        )
        row = next(row for row in store.tokens_of(tx, user.id) if row.id == token_id)
        return models.NewToken(**_token(row).model_dump(), token=made.text)

    return once.run(services, who, body, models.NewToken, make)


def _refuse_outliving(tx: Tx, who: Principal, seconds: float | None) -> None:
    if who.expires_at is None:
        return
    if seconds is None or read_store.now(tx) + seconds * 1000 > who.expires_at:
        raise errors.Denied("a token cannot make one that lives longer than itself")


@router.delete("/tokens/{token_id}", status_code=204)
def revoke_token(token_id: UserId, who: auth.User, services: Here) -> None:
    """It stops working at once."""
    services.db.run(lambda tx: access.revoke_token(tx, token_id, who.user_id))
    open_streams.cut_ended(services, who.user_id)


# Users


@router.get("/users", responses=documented(403))
def users(who: auth.Admin, services: Here) -> models.Page[models.User]:
    with services.db.read() as tx:
        return models.Page(items=[views.user(each) for each in store.all_users(tx)])


@router.post("/users", status_code=201, responses=documented(403, 409, 429, 503))
async def add_user(
    body: UserRequest, request: Request, who: auth.Admin, services: Here, once: idempotency.Once
) -> models.NewUser:
    """With a password, or with the one-time link in the answer."""
    account.tidy_name(body.name)
    return await open_streams.at_the_door(
        services, request, lambda: _add_user(body, who, services, once)
    )


def _add_user(
    body: UserRequest, who: Principal, services: Services, once: Repeat
) -> models.NewUser:
    password = body.password.get_secret_value() if body.password else None
    hash = access.hash_password(password, body.name) if password is not None else None

    def add(tx: Tx) -> models.NewUser:
        user = access.add_user(tx, body.name, body.role, hash)
        if body.quota_bytes is not None:
            user = access.change_user(tx, user.id, quota_bytes=body.quota_bytes)
        link = _link(services, access.make_link(tx, user.id)) if hash is None else None
        return models.NewUser(**views.user(user).model_dump(), signin_url=link)

    return once.run(services, who, body, models.NewUser, add)


@router.patch("/users/{user_id}", responses=documented(403, 409))
def change_user(user_id: UserId, body: UserChange, who: auth.Admin, services: Here) -> models.User:
    def change(tx: Tx) -> models.User:
        given = body.model_dump(exclude_unset=True, exclude={"disabled"})
        if body.role is None:
            given.pop("role", None)
        user = access.change_user(tx, user_id, **given)
        if body.disabled is not None:
            user = access.set_disabled(tx, user_id, body.disabled)
        return views.user(user)

    changed = services.db.run(change)
    open_streams.cut_ended(services, user_id)
    return changed


@router.post("/users/{user_id}/link", status_code=201, responses=documented(403, 409))
def make_link(user_id: UserId, who: auth.Admin, services: Here, once: idempotency.Once) -> Link:
    """A link that signs the user in once, within a day, also to set a password in place of a
    forgotten one. A newer link ends the one before."""

    def make(tx: Tx) -> Link:
        _refuse_own_link(tx, who, user_id)
        return Link(signin_url=_link(services, access.make_link(tx, user_id)))

    return once.run(services, who, None, Link, make)


def _refuse_own_link(tx: Tx, who: Principal, user_id: str) -> None:
    """It would be a way around the old password, for a stolen session too. The server's own token
    (`rushes users link`) may: an admin who is alone has no other way back."""
    is_own = user_id == who.user_id and (who.session_id or who.token_id)
    if is_own and store.password_hash(tx, user_id) is not None:
        raise errors.Denied(
            "you have a password: another admin can make a link for you, or"
            " 'rushes users link NAME' on the server's machine"
        )


def _session_terms(services: Services, request: Request) -> tuple[str, int]:
    """What a session is called, and how long it lasts."""
    label = request.headers.get("user-agent", "")
    return label, int(services.settings.session_duration * 1000)


def _entered(services: Services, response: Response, cookie: str) -> Me:
    auth.set_cookie(services, response, cookie)
    who = access.by_session(services.db, cookie)
    if who is None:
        raise errors.Unauthorized("this session has ended already")
    return _me(services, who)


def _me(services: Services, who: Principal) -> Me:
    with services.db.read() as tx:
        used = media_store.used_bytes(tx, who.user_id)
        user = store.get_user(tx, who.user_id)
        position = events.head(tx)
    quota = user.quota_bytes if user else None
    has_password = user is not None and user.has_password
    return Me(
        id=who.user_id,
        name=who.name,
        role=who.role,
        scope=who.scope,
        used_bytes=used,
        quota_bytes=quota if quota is not None else services.settings.user_quota or None,
        has_password=has_password,
        needs_old_password=has_password and not who.may_reset,
        event_position=str(position),
    )


def _token(token: store.Token) -> models.Token:
    return views.timed(models.Token, token)


def _link(services: Services, token: str) -> str:
    return f"{services.base_url}/sign-in?token={token}"
