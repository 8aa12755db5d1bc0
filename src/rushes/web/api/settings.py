"""The settings in effect, for admins; without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from rushes import settings as known
from rushes.setting_field import HIDDEN, SettingField, hide
from rushes.web import auth
from rushes.web.http.problems import documented
from rushes.web.services import Here

router = APIRouter(tags=["settings"], responses=documented(401, 403))

# Where things lie on the server is nobody's business but its operator's.
PLACES = {"data_dir", "database_url", "storage_url", "engine_cache_dir"}


class Setting(BaseModel):
    name: str
    value: Any
    sentence: str


@router.get("/settings")
def settings(who: auth.Admin, services: Here) -> dict[str, list[Setting]]:
    """Changing one means changing a variable or the file, and starting again."""
    items = [
        Setting(
            name=known.variable(name),
            value=_shown(name, field, getattr(services.settings, name)),
            sentence=field.meta.description or "",
        )
        for name, field in known.FIELDS.items()
    ]
    return {"items": items}


def _shown(name: str, field: SettingField, value: Any) -> Any:
    if name in PLACES:
        return str(value).partition("://")[0] if "://" in str(value) else HIDDEN
    hidden = hide(value, field.secret)
    return str(hidden) if isinstance(hidden, Path) else hidden
