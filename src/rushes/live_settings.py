"""The settings in effect: what was given at the start, above what admins have changed since.

A change is a row. Every server reads the rows every few seconds, and builds its settings anew when
they are others than before; `now` is always whole. What is stored and cannot be used, perhaps
because another version has written it, is told and left out: it stops nobody.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rushes import config, errors, settings_store
from rushes.accounts import security_log
from rushes.accounts.security_log import Action
from rushes.db.database import Database, Tx
from rushes.setting_field import BadValue, SettingField, SettingOrigin
from rushes.settings import FIELDS, Settings, variable
from rushes.settings_store import StoredSetting

log = logging.getLogger("rushes.settings")

# So soon a change reaches the other servers.
READ_SECONDS = 2.0
CHANGEABLE = {name: field for name, field in FIELDS.items() if field.page}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """`value` None: back to the default. `version`: the one that whoever changes it has seen; None:
    they did not look."""

    name: str
    value: Any = None
    version: int | None = None


class LiveSettings:
    def __init__(self, db: Database, given: Settings) -> None:
        self._db = db
        self._given = given
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._rows: list[StoredSetting] = []
        # By name, also of those that have gone back to their default.
        self.stored: dict[str, StoredSetting] = {}
        # What is stored and not used, as sentences.
        self.problems: list[str] = []
        self.now = given
        # As they are after a restart.
        self.next = given
        # Called with the new ones, from any thread; they must not block.
        self.on_change: list[Callable[[Settings], None]] = []
        self._kept_until_restart: dict[str, Any] = {}
        self.refresh()
        self._kept_until_restart = {
            name: getattr(self.now, name)
            for name, field in CHANGEABLE.items()
            if field.change == "restart"
        }

    def refresh(self) -> None:
        """Read what is stored; whoever asks afterwards has it."""
        # Under the lock, so that what was read first does not win over what was read last.
        with self._lock:
            with self._db.read() as tx:
                rows = settings_store.all_settings(tx)
            if rows == self._rows:
                return
            self._rows = rows
            self.stored = {row.name: row for row in rows}
            self.next, problems = overlaid(self._given, rows)
            self.now = msgspec.structs.replace(self.next, **self._kept_until_restart)
            for each in set(problems) - set(self.problems):
                log.warning("%s", each)
            self.problems = problems
            for use in self.on_change:
                use(self.now)

    def run(self) -> None:
        """Until `stop`, whatever fails."""
        while not self._stopping.wait(READ_SECONDS):
            try:
                self.refresh()
            except errors.Unavailable as error:
                log.debug("settings: %s", error.message)
            except Exception:
                log.exception("the settings cannot be read")

    def stop(self) -> None:
        self._stopping.set()

    def change(self, tx: Tx, changes: Sequence[SettingChange], *, by: str) -> list[SettingField]:
        """All of them or none; `refresh` after the commit. Returns what was changed. Raises
        BadField, WrongState for what the environment or the file says, and ChangedMeanwhile."""
        stored = {row.name: row for row in settings_store.all_settings(tx)}
        fields = [_changeable(each.name) for each in changes]
        for field, each in zip(fields, changes, strict=True):
            self._refuse_locked(field)
            value = None if each.value in (None, "") else _read(field, each.value)
            text = None if value is None else msgspec.json.encode(value).decode()
            if not settings_store.put_if_at(tx, field.name, text, version=each.version, by=by):
                raise _changed_meanwhile(tx, field)
            security_log.record(
                tx,
                Action.SETTING_CHANGED,
                field.variable,
                before=_said(field, stored.get(field.name)),
                after=field.say(field.default if value is None else value),
            )
        return fields

    def _refuse_locked(self, field: SettingField) -> None:
        origin = self._given.origin(field.name)
        if origin.is_locked:
            raise errors.WrongState(f"{field.variable} is set {where(origin)}: change it there")


def where(origin: SettingOrigin) -> str:
    """What fits behind "is set"."""
    if origin.kind == "environment":
        return f"by the environment ({origin.source})"
    if origin.kind == "file":
        return f"in {origin.source.rpartition('/')[2]}"
    return f"in the page by {origin.source}" if origin.kind == "page" else "by the program"


def look(db: Database, given: Settings) -> tuple[Settings, list[str]]:
    """As a server that starts now would have them, and what it could not use."""
    with db.read() as tx:
        return overlaid(given, settings_store.all_settings(tx))


def overlaid(given: Settings, rows: Sequence[StoredSetting]) -> tuple[Settings, list[str]]:
    """What holds where nobody has said otherwise at the start; and what cannot be used."""
    values: dict[str, Any] = {}
    origins: dict[str, SettingOrigin] = {}
    problems = []
    for row in rows:
        if row.value is None:
            continue
        if row.name not in CHANGEABLE:
            problems.append(f"{variable(row.name)}, {_set_by(row)}, is not known here: not used")
        elif not given.origin(row.name).is_locked:
            try:
                values[row.name] = CHANGEABLE[row.name].read(msgspec.json.decode(row.value))
                origins[row.name] = SettingOrigin("page", row.changed_by)
            except (BadValue, msgspec.DecodeError) as error:
                said = error if isinstance(error, BadValue) else "cannot be read"
                problems.append(
                    f"{variable(row.name)}, {_set_by(row)}, {said}: the default is used"
                )
    settings = msgspec.structs.replace(given, **values, origins={**given.origins, **origins})
    return settings, problems


def _set_by(row: StoredSetting) -> str:
    return f"set in the page by {row.changed_by}"


def _changeable(name: str) -> SettingField:
    key = name.lower().removeprefix("rushes_")
    if key in CHANGEABLE:
        return CHANGEABLE[key]
    if key in FIELDS:
        raise errors.BadField(
            variable(key), "can only be changed in the environment or the file, before the start"
        )
    known = {each: variable(each) for each in CHANGEABLE}
    raise errors.BadField(name[:100], config.no_such(name, known))


def _read(field: SettingField, value: Any) -> Any:
    try:
        return field.read(value)
    except BadValue as error:
        raise errors.BadField(field.variable, str(error)) from None


def _said(field: SettingField, row: StoredSetting | None) -> str:
    """What was stored so far, for people."""
    if row is None or row.value is None:
        return field.say(field.default)
    try:
        return field.say(field.read(msgspec.json.decode(row.value)))
    except (BadValue, msgspec.DecodeError):
        return "nothing that could be used"


def _changed_meanwhile(tx: Tx, field: SettingField) -> errors.ChangedMeanwhile:
    found = {row.name: row for row in settings_store.all_settings(tx)}.get(field.name)
    name = found.changed_by if found else "somebody"
    said = "" if field.secret else f" to {_said(field, found)}"
    return errors.ChangedMeanwhile(
        f"{field.variable} was changed meanwhile by {name}{said}: look at it, and save again"
    )
