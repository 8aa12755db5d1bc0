"""The settings in effect, for admins; without secrets. Some can be changed while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rushes import clock
from rushes import settings as known
from rushes.live_settings import SettingChange, where
from rushes.setting_field import HIDDEN, SettingField, hide
from rushes.web import auth, models
from rushes.web.http.problems import documented
from rushes.web.models import Body
from rushes.web.services import Here, Services

router = APIRouter(tags=["settings"], responses=documented(401, 403))

# Where things lie on the server is nobody's business but its operator's.
PLACES = {"data_dir", "database_url", "storage_url", "engine_cache_dir"}
MOST_CHANGES = 100
LONGEST = 2000


class Setting(BaseModel):
    name: str
    value: Any
    sentence: str
    shown: str = Field(description="The value as people write it: `30 days`, `5 GB`, `no limit`.")
    default: str = Field(description="As people write it.")
    expected: str = Field(description="What fits behind `must be`.")
    origin: Literal["default", "environment", "file", "page", "code"]
    set_where: str | None = Field(description="In words; null for a default.")
    is_locked: bool = Field(
        description="The environment, the file or the program says it, so it can only be changed"
        " there."
    )
    page: str | None = Field(description="Its group in the pages; null: never changed there.")
    change: Literal["live", "restart"] | None = Field(
        description="Whether a change holds at once, or after a restart."
    )
    after_restart: str | None = Field(
        description="What it will be then, where that differs; as people write it."
    )
    control: Literal["duration", "size", "number", "switch", "choice", "text"]
    choices: list[str]
    is_secret: bool
    version: int = Field(description="Grows with every change in the page; 0: never changed there.")
    changed_at: models.Time
    changed_by: str | None


class NewValue(Body):
    name: str = Field(max_length=100, description="`RUSHES_JOB_RETENTION`, or `job_retention`.")
    value: (
        bool
        | int
        | float
        | Annotated[str, Field(max_length=LONGEST, description="`30 days`")]
        | None
    ) = Field(description="As in the environment; null or empty: back to the default.")
    version: int | None = Field(
        None,
        ge=0,
        le=2**53,
        description="The one that was looked at: 409 if somebody has changed it since. Without it"
        " the last one wins.",
    )


class Changes(Body):
    changes: list[NewValue] = Field(min_length=1, max_length=MOST_CHANGES)


@router.get("/settings")
def settings(who: auth.Admin, services: Here) -> models.Page[Setting]:
    """All of them. Those that have a `page` can be changed while the server runs, unless they are
    locked; the others mean changing a variable or the file, and starting again."""
    services.live.refresh()
    return models.Page(items=[_setting(services, each) for each in known.FIELDS.values()])


@router.patch("/settings", responses=documented(409, 422))
def change(body: Changes, who: auth.Admin, services: Here) -> models.Page[Setting]:
    """All of the changes or none. Other servers on the same database follow within seconds."""
    changes = [SettingChange(**each.model_dump()) for each in body.changes]
    changed = services.db.run(lambda tx: services.live.change(tx, changes, by=who.name))
    services.live.refresh()
    return models.Page(items=[_setting(services, each) for each in changed])


def _setting(services: Services, field: SettingField) -> Setting:
    name, live = field.name, services.live
    value, later = getattr(live.now, name), getattr(live.next, name)
    origin = live.next.origin(name)
    stored = live.stored.get(name)
    return Setting(
        name=field.variable,
        value=_raw(field, value),
        sentence=field.meta.description or "",
        shown=_shown(field, value),
        default=field.said_default,
        expected=field.expected,
        origin=origin.kind,
        set_where=None if origin.kind == "default" else where(origin),
        is_locked=origin.is_locked,
        page=field.page,
        change=field.change,
        after_restart=_shown(field, later) if later != value else None,
        control=field.control,
        choices=[each for each in field.choices if each],
        is_secret=field.secret is not None,
        version=stored.version if stored else 0,
        changed_at=clock.rfc3339(stored.changed_at) if stored else None,
        changed_by=stored.changed_by if stored else None,
    )


def _raw(field: SettingField, value: Any) -> Any:
    if field.name in PLACES:
        return str(value).partition("://")[0] if "://" in str(value) else HIDDEN
    hidden = hide(value, field.secret)
    return str(hidden) if isinstance(hidden, Path) else hidden


def _shown(field: SettingField, value: Any) -> str:
    return str(_raw(field, value)) if field.name in PLACES else field.say(value)
