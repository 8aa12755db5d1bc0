"""Users, tokens and sessions as plain data, and what each may do. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rushes import errors
from rushes.records import Row, from_row

NAME = re.compile(r"[\w.@+-]{1,64}")


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"


class Scope(StrEnum):
    """Each one includes those before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    id: str
    name: str
    role: Role
    quota_bytes: int | None
    created_at: int
    disabled_at: int | None
    has_password: bool

    @classmethod
    def from_row(cls, row: Row) -> User:
        has_password = row["password_hash"] is not None
        return from_row(cls, row, role=Role(row["role"]), has_password=has_password)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is asking. `session_id` or `token_id` says by what; neither for the server's own."""

    user_id: str
    name: str
    role: Role
    scope: Scope
    session_id: str | None = None
    token_id: str | None = None
    expires_at: int | None = None
    # Whether the session is so new, and opened by a link, that it need not tell the old password.
    may_reset: bool = False

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN and self.scope is Scope.ADMIN

    def may(self, scope: Scope) -> bool:
        order = list(Scope)
        return order.index(self.scope) >= order.index(scope)

    @property
    def sees(self) -> str | None:
        """Whose things are visible: one user's, or everybody's (None). An admin's token that is
        not for administration shows only the admin's own."""
        return None if self.is_admin else self.user_id


def folded_name(name: str) -> str:
    """As names are kept and compared."""
    return unicodedata.normalize("NFKC", name).strip().casefold()


def tidy_name(name: str) -> str:
    tidy = folded_name(name)
    if not NAME.fullmatch(tidy):
        raise errors.BadField("name", "must be 1 to 64 letters, digits or . _ @ + -")
    return tidy


def check_scopes(scopes: Iterable[str], role: Role) -> Scope:
    """The widest of the scopes asked for."""
    try:
        asked = [Scope(scope) for scope in scopes]
    except ValueError:
        raise errors.BadField("scopes", "must be of read, write and admin") from None
    if not asked:
        raise errors.BadField("scopes", "must name at least one of read, write and admin")
    if Scope.ADMIN in asked and role is not Role.ADMIN:
        raise errors.BadField("scopes", "only an admin's token can have admin")
    return max(asked, key=list(Scope).index)
