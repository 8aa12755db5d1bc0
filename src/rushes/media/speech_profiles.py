"""Profiles of transcriptions: names for what one is told. One that is called `default` is for what
names none."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rushes import errors
from rushes.db.database import Tx
from rushes.media import profile_store as store
from rushes.media import profiles
from rushes.records import JsonObject

TABLE: store.Table = "transcription_profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechProfile:
    """`options`: as the arguments of a job have them, and only those that are said."""

    name: str
    options: JsonObject
    created_at: int
    updated_at: int


def list_profiles(tx: Tx) -> list[SpeechProfile]:
    """By name, the default first."""
    found = [_read(row) for row in store.list_profiles(tx, TABLE)]
    return sorted(found, key=lambda each: (each.name != profiles.DEFAULT, each.name))


def get(tx: Tx, name: str) -> SpeechProfile | None:
    row = store.get(tx, name, TABLE)
    return _read(row) if row else None


def found(tx: Tx, name: str) -> SpeechProfile:
    item = get(tx, name)
    if item is None:
        raise errors.NotFound(f"no transcription profile {name}")
    return item


def options(tx: Tx, name: str | None, *, field: str = "profile") -> JsonObject:
    """For a request that names it in a `field`; none of None. With its name, for people."""
    if name is None:
        return {}
    item = get(tx, name)
    if item is None:
        known = ", ".join(each.name for each in list_profiles(tx)) or "none"
        raise errors.BadField(field, f"there is none of this name; known are {known}")
    return {**item.options, "profile": item.name}


def default_options(tx: Tx) -> JsonObject:
    """For a request that names no profile; none unless somebody has made a default."""
    item = get(tx, profiles.DEFAULT)
    return {**item.options, "profile": item.name} if item else {}


def create(tx: Tx, name: str, options: JsonObject) -> SpeechProfile:
    profiles.check_name(name)
    row = store.insert(tx, name, _written(options), TABLE)
    if row is None:
        raise errors.AlreadyExists(f"there is a transcription profile {name} already")
    return _read(row)


def replace(tx: Tx, name: str, options: JsonObject) -> SpeechProfile:
    """All its options."""
    profiles.check_name(name)
    return _read(store.upsert(tx, name, _written(options), TABLE))


def remove(tx: Tx, name: str) -> None:
    if not store.delete(tx, name, TABLE):
        raise errors.NotFound(f"no transcription profile {name}")


def _written(options: JsonObject) -> str:
    return msgspec.json.encode(dict(options)).decode()


def _read(row: store.StoredProfile) -> SpeechProfile:
    return SpeechProfile(
        name=row.name,
        options=msgspec.json.decode(row.settings),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
