"""`Idempotency-Key`: repeating a request that creates work answers as the first time.

The key is written in the transaction that does the work, so there is no moment between the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from rushes import errors
from rushes.accounts import once_store
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.web.site import Site

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
        site: Site,
        who: Principal,
        body: BaseModel | bytes | None,
        model: type[M],
        work: Callable[[Tx], M],
    ) -> M:
        """Do the work, or answer what it answered before; 422 if the key was for something else."""
        fingerprint = self.fingerprint(body)

        def once(tx: Tx) -> M:
            if before := self.before(tx, who, fingerprint):
                return model.model_validate_json(before)
            answer = work(tx)
            self.keep(tx, who, fingerprint, answer)
            return answer

        for _ in range(TRIES):
            try:
                return site.db.run(once)
            except _Overtaken:
                # What the twin has answered is there now.
                continue
        raise errors.DatabaseBusy("the same request is being answered right now")

    def before(self, tx: Tx, who: Principal, fingerprint: str) -> str | None:
        """The answer that was kept for this key."""
        if self.key is None:
            return None
        row = once_store.kept(tx, who.user_id, self.key)
        if row is None:
            return None
        if row["fingerprint"] != fingerprint:
            raise errors.BadField("Idempotency-Key", "was used for another request before")
        return str(row["body"])

    def keep(self, tx: Tx, who: Principal, fingerprint: str, answer: BaseModel) -> None:
        """In the transaction that did the work; it is undone if a twin was quicker."""
        if self.key is None:
            return
        if not once_store.keep(tx, who.user_id, self.key, fingerprint, answer.model_dump_json()):
            raise _Overtaken

    def fingerprint(self, body: BaseModel | bytes | None) -> str:
        if isinstance(body, BaseModel):
            body = body.model_dump_json().encode()
        return hashlib.sha256(self._what.encode() + b"\0" + (body or b"")).hexdigest()


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
