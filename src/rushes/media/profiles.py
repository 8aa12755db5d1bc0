"""Profiles by name. `default` is always there: it can be changed, and removing it resets it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from rushes import errors
from rushes.db.database import Tx
from rushes.media import profile_store as store
from rushes.records import JsonObject
from rushes.tools import profile as profile_tools
from rushes.tools.profile import Profile

DEFAULT = "default"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Without times: the default as it comes."""

    name: str
    profile: Profile
    created_at: int | None = None
    updated_at: int | None = None


def list_profiles(tx: Tx) -> list[Named]:
    """The default first."""
    found = [_named(row) for row in store.list_profiles(tx)]
    if not any(each.name == DEFAULT for each in found):
        found.append(_untouched())
    return sorted(found, key=lambda each: (each.name != DEFAULT, each.name))


def get(tx: Tx, name: str) -> Named | None:
    if row := store.get(tx, name):
        return _named(row)
    return _untouched() if name == DEFAULT else None


def found(tx: Tx, name: str) -> Named:
    item = get(tx, name)
    if item is None:
        raise errors.NotFound(f"no profile {name}")
    return item


def resolve(tx: Tx, name: str | None) -> Named:
    """For a request that names it; None is the default."""
    item = get(tx, name or DEFAULT)
    if item is None:
        known = ", ".join(each.name for each in list_profiles(tx))
        raise errors.BadField("profile", f"there is none of this name; known are {known}")
    return item


def create(tx: Tx, name: str, settings: JsonObject) -> Named:
    text = _checked(name, settings)
    row = None if name == DEFAULT else store.insert(tx, name, text)
    if row is None:
        raise errors.AlreadyExists(f"there is a profile {name} already")
    return _named(row)


def replace(tx: Tx, name: str, settings: JsonObject) -> Named:
    """All its settings; what is not said is as in the built-in default."""
    return _named(store.upsert(tx, name, _checked(name, settings)))


def remove(tx: Tx, name: str) -> None:
    if not store.delete(tx, name) and name != DEFAULT:
        raise errors.NotFound(f"no profile {name}")


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise errors.BadField("name", "must be a word of a-z, 0-9, _ and - (at most 64)")


def _checked(name: str, settings: JsonObject) -> str:
    check_name(name)
    profile_tools.decode(settings)
    return msgspec.json.encode(dict(settings)).decode()


def _named(row: store.StoredProfile) -> Named:
    return Named(
        name=row.name,
        profile=profile_tools.decode(msgspec.json.decode(row.settings)),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _untouched() -> Named:
    return Named(name=DEFAULT, profile=profile_tools.DEFAULT)
