"""`Idempotency-Key`: repeating a request that creates work answers as the first time.

The key is written in the transaction that does the work, so there is no moment between the two.
Secrets that an answer shows once are not kept: who asks again is told that it was done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from rushes import errors
from rushes.accounts import store
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.web.models import SHOWN_ONCE
from rushes.web.services import Services

M = TypeVar("M", bound=BaseModel)

TRIES = 3


class _Overtaken(Exception):
    """Somebody else has used the key in the meantime; what was done here is undone."""


class Repeat:
    """One request's key, if it has one."""

    def __init__(self, key: str | None, request: Request) -> None:
        self.key = key
        self._what = f"{request.method} {request.scope['path']}"

    def run(
        self,
        services: Services,
        who: Principal,
        body: BaseModel | bytes | None,
        model: type[M],
        work: Callable[[Tx], M],
    ) -> M:
        """Do the work, or answer what it answered before; 422 if the key was for something else."""
        fingerprint = self.fingerprint(body)

        def once(tx: Tx) -> M:
            if before := self.before(tx, who, fingerprint):
                return _again(model, before)
            answer = work(tx)
            self.keep(tx, who, fingerprint, answer)
            return answer

        for _ in range(TRIES):
            try:
                return services.db.run(once)
            except _Overtaken:
                # What the twin has answered is there now.
                continue
        raise errors.DatabaseBusy("the same request is being answered right now")

    def before(self, tx: Tx, who: Principal, fingerprint: str) -> str | None:
        """The answer that was kept for this key."""
        if self.key is None:
            return None
        row = store.kept_answer(tx, who.user_id, self.key)
        if row is None:
            return None
        if row.fingerprint != fingerprint:
            raise errors.BadField("Idempotency-Key", "was used for another request before")
        return row.body

    def forget(self, tx: Tx, who: Principal) -> None:
        """What was made is not there any more: with this key it may be made again."""
        if self.key is not None:
            store.forget_answer(tx, who.user_id, self.key)

    def keep(self, tx: Tx, who: Principal, fingerprint: str, answer: BaseModel) -> None:
        """In the transaction that did the work; it is undone if a twin was quicker."""
        if self.key is None:
            return
        hidden = {name for name in _shown_once(type(answer)) if getattr(answer, name) is not None}
        body = answer.model_dump_json(exclude=hidden)
        if not store.keep_answer(tx, who.user_id, self.key, fingerprint, body):
            raise _Overtaken

    def fingerprint(self, body: BaseModel | bytes | None) -> str:
        if isinstance(body, BaseModel):
            body = body.model_dump_json().encode()
        return hashlib.sha256(self._what.encode() + b"\0" + (body or b"")).hexdigest()


def _shown_once(model: type[BaseModel]) -> set[str]:
    fields = model.model_fields.items()
    return {name for name, field in fields if SHOWN_ONCE in field.metadata}


def _again(model: type[M], kept: str) -> M:
    """What was answered before; AlreadyDone if that held a secret."""
    said = json.loads(kept)
    if _shown_once(model) <= said.keys():
        return model.model_validate(said)
    made = said.get("id") or said.get("prefix") or "it"
    raise errors.AlreadyDone(
        f"this was done before and made {made}; the secret was shown once, in the first answer"
    )


def _once(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=255,
            description="Repeating the request with the same key does the work once.",
        ),
    ] = None,
) -> Repeat:
    return Repeat(key, request)


Once = Annotated[Repeat, Depends(_once)]
