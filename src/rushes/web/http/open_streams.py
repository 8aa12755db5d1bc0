"""What a user holds open over HTTP, counted and ended by `limits`; and room for more work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Depends, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rushes.accounts import store as accounts
from rushes.accounts import throttle
from rushes.accounts.account import Principal
from rushes.jobs import read_store
from rushes.limits import Hold, What, refuse_beyond
from rushes.web import auth
from rushes.web.services import Here, Services

T = TypeVar("T")

# A stream that cannot be opened says nothing, but it answers.
OPEN_SECONDS = 5.0


def hold(what: What, who: Principal) -> Hold:
    return Hold(what=what, user_id=who.user_id, session_id=who.session_id, token_id=who.token_id)


async def at_the_door(services: Services, request: Request, call: Callable[[], T]) -> T:
    """A call that hashes a password: few from one network at the same time, few in all."""
    network = throttle.network_of(auth.address_of(request))
    with services.holds.held(Hold(what=What.SIGN_INS, user_id=network)):
        return await services.passwords.run(call)


def cut_ended(services: Services, user_id: str | None = None) -> None:
    """End what people hold open without being allowed to any more: this user's, or anybody's. The
    chores ask now and then, for what was decided elsewhere."""
    holds = [each for each in services.holds.all() if user_id in (None, each.user_id)]
    if not holds:
        return
    given = [
        accounts.Holder(
            number=number,
            user_id=each.user_id,
            session_id=each.session_id,
            token_id=each.token_id,
        )
        for number, each in enumerate(holds)
    ]
    with services.db.read() as tx:
        over = accounts.ended(tx, given)
    for number in over:
        holds[number].cut()


class HeldStream(StreamingResponse):
    """A stream whose `leave` is called in any case, even when nobody has read a byte of it. It is
    not answered before `opened` is done, or has taken too long."""

    def __init__(
        self,
        body: AsyncIterable[Any],
        leave: Callable[[], None],
        opened: Callable[[], Awaitable[Any]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(body, **options)
        self._leave = leave
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._opened is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._opened(), OPEN_SECONDS)
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


def _room_for_jobs(who: auth.User, services: Here) -> None:
    most = services.settings.user_jobs
    if most:
        with services.db.read() as tx:
            waiting = read_store.waiting_of(tx, who.user_id, most)
        refuse_beyond(waiting + 1, most, "jobs waiting already")


# For the routes that add work of a user's.
RoomForJobs = Depends(_room_for_jobs)
