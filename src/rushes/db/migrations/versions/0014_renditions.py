"""A version knows which renditions its job will make, and when it could first be watched.

Until now that was read out of the job's report of its progress. What is under way is taken over
from there, so that whoever watches it goes on.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

NUMBERS = (
    *("bandwidth", "average_bandwidth", "width", "height", "frame_rate", "target_seconds"),
    *("segments_total", "channels", "track"),
)
WORDS = ("name", "status", "codecs", "range", "language", "title", "group")


def upgrade() -> None:
    op.execute("ALTER TABLE versions ADD COLUMN declared text")
    op.execute("ALTER TABLE versions ADD COLUMN watchable_at bigint")
    bind = op.get_bind()
    found = bind.execute(
        sa.text(
            "SELECT versions.id, jobs.detail FROM versions JOIN jobs ON jobs.id = versions.job_id"
            " WHERE versions.state = 'building' AND slot = 'watch' AND jobs.detail IS NOT NULL"
        )
    ).all()
    for id, detail in found:
        told = json.loads(detail)
        declared = _listed(told, "renditions") + _listed(told, "audio")
        bind.execute(
            sa.text("UPDATE versions SET declared = :declared WHERE id = :id"),
            {"id": id, "declared": json.dumps(declared)},
        )


def _listed(told: Any, what: str) -> list[dict[str, Any]]:
    found = told.get(what) if isinstance(told, dict) else None
    entries = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [_declared(each, what) for each in entries if isinstance(each.get("name"), str)]


def _declared(entry: dict[str, Any], what: str) -> dict[str, Any]:
    kept: dict[str, Any] = {name: entry[name] for name in WORDS if isinstance(entry.get(name), str)}
    kept |= {name: entry[name] for name in NUMBERS if type(entry.get(name)) in (int, float)}
    if isinstance(entry.get("default"), bool):
        kept["default"] = entry["default"]
    is_video = what == "renditions" and "width" in kept
    return {**kept, "kind": "video" if is_video else "audio"}
