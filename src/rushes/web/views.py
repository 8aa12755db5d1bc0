"""From the domain to what the API says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rushes import clock
from rushes.accounts.account import User
from rushes.db.database import Tx
from rushes.fleet.worker import Worker
from rushes.jobs import job as jobs
from rushes.jobs import read_store
from rushes.media import edit as edits
from rushes.media import growing, playback_store, profiles
from rushes.media import store as media_store
from rushes.media.media import Media
from rushes.media.pipeline import BESIDE, SPAN
from rushes.tools import profile as profile_tools
from rushes.web import models
from rushes.web.site import Site

MASTER, THUMBNAIL = "master.m3u8", "thumbnail.jpg"
STORYBOARD, CHAPTERS, WAVEFORM = "storyboard.vtt", "chapters.vtt", "waveform.json"
WELL_KNOWN = (MASTER, THUMBNAIL, STORYBOARD, CHAPTERS, WAVEFORM)
SAME_NAME = set(models.Job.model_fields) & set(jobs.Job.__dataclass_fields__)


def job(item: jobs.Job) -> models.Job:
    values = {name: said(name, getattr(item, name)) for name in SAME_NAME}
    detail = item.detail if isinstance(item.detail, dict) else {}
    return models.Job(
        **{
            **values,
            "status": item.state,
            "priority": item.priority.word,
            "worker_name": item.processed_by_worker_name,
            "error": item.last_error,
            **_detail(detail),
        }
    )


def _detail(detail: Mapping[str, Any]) -> dict[str, Any]:
    """A worker's own words: what does not fit is left out, never an error for the reader."""
    return {
        "renditions": renditions(detail),
        "speed": _number(detail.get("speed")),
        "eta_seconds": _number(detail.get("eta_seconds")),
    }


def renditions(detail: Any) -> list[models.Rendition]:
    found = detail.get("renditions") if isinstance(detail, dict) else None
    made = []
    for each in found if isinstance(found, list) else []:
        try:
            made.append(models.Rendition.model_validate(each))
        except ValueError:
            continue
    return made


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def execution(row: Mapping[str, Any]) -> models.Execution:
    names = models.Execution.model_fields
    return models.Execution(**{name: said(name, row[name]) for name in names})


def media(site: Site, tx: Tx, item: Media) -> models.Media:
    return media_page(site, tx, [item])[0]


def media_page(site: Site, tx: Tx, items: Sequence[Media]) -> list[models.Media]:
    """A page of media costs a handful of queries, however long it is."""
    if not items:
        return []
    live: dict[str, list[jobs.Job]] = {}
    for each in read_store.live_jobs_of(tx, [item.id for item in items]):
        if each.kind != SPAN:
            live.setdefault(each.media_id or "", []).append(each)
    failed = [item.id for item in items if item.status == "failed"]
    errors = playback_store.failures(tx, failed) if failed else {}
    files = watchable(tx, items)
    versions = [item.current_version_id for item in items if item.current_version_id]
    published = media_store.renditions(tx, versions) if versions else {}
    return [
        _media(
            site,
            item,
            live.get(item.id, []),
            errors.get(item.id),
            files[item.id],
            published.get(item.current_version_id or ""),
        )
        for item in items
    ]


def watchable(tx: Tx, items: Sequence[Media]) -> dict[str, set[str]]:
    """By media: which of the files that have an address of their own can be had now."""
    found: dict[str, set[str]] = {item.id: set() for item in items}
    media_of = {item.current_version_id: item.id for item in items if item.current_version_id}
    if media_of:
        for version, name in media_store.well_known(tx, [*media_of], WELL_KNOWN):
            found[media_of[version]].add(name)
    waiting = [item.id for item in items if item.current_version_id is None]
    building = playback_store.building(tx, waiting) if waiting else {}
    asked = [
        (each.version_id, name)
        for each in building.values()
        for name in (THUMBNAIL, *growing.first_files(each.detail))
    ]
    present = playback_store.present(tx, asked) if asked else set()
    for media_id, each in building.items():
        files = {name for version, name in present if version == each.version_id}
        found[media_id] |= files & {THUMBNAIL}
        if growing.master(each.detail, files) is not None:
            found[media_id].add(MASTER)
    return found


def _media(
    site: Site,
    item: Media,
    live: Sequence[jobs.Job],
    error: str | None,
    files: set[str],
    published: str | None,
) -> models.Media:
    making = [each for each in live if each.kind not in BESIDE]
    detail = msgspec.json.decode(published) if published else None
    if detail is None and making:
        detail = making[0].detail
    done = 1.0 if item.status == "ready" else 0.0
    names = set(models.Media.model_fields) & set(Media.__dataclass_fields__) - {"edit"}
    values = {name: said(name, getattr(item, name)) for name in names}
    ladder = renditions(detail)
    return models.Media(
        **values,
        **_largest(ladder),
        edit=edit(item),
        progress=making[0].progress if making else done,
        renditions=ladder,
        jobs=[job(each) for each in live],
        error=error,
        **urls(files, f"/api/v1/media/{item.id}"),
        share_url=share_url(site, item),
    )


def edit(item: Media) -> models.Edit | None:
    if item.edit == edits.NOTHING:
        return None
    return models.Edit.model_validate(edits.encode(item.edit))


def _largest(ladder: Sequence[models.Rendition]) -> dict[str, Any]:
    """The size of the best picture there is or will be."""
    sizes = [
        (each.width, each.height)
        for each in ladder
        if each.width and each.height and each.status not in growing.LEFT_OUT
    ]
    if not sizes:
        return {}
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return {"width": width, "height": height}


def urls(files: set[str], base: str) -> dict[str, Any]:
    where = {
        "stream_url": (MASTER, f"{base}/stream/{MASTER}"),
        "thumbnail_url": (THUMBNAIL, f"{base}/{THUMBNAIL}"),
        "storyboard_url": (STORYBOARD, f"{base}/{STORYBOARD}"),
        "chapters_url": (CHAPTERS, f"{base}/stream/{CHAPTERS}"),
        "waveform_url": (WAVEFORM, f"{base}/stream/{WAVEFORM}"),
    }
    return {field: url if name in files else None for field, (name, url) in where.items()}


def profile(item: profiles.Named) -> models.Profile:
    return models.Profile(
        name=item.name,
        created_at=clock.rfc3339(item.created_at),
        updated_at=clock.rfc3339(item.updated_at),
        **profile_tools.encode(item.profile),
    )


def share_url(site: Site, item: Media) -> str | None:
    return f"{site.base_url}/s/{item.share_token}" if item.share_token else None


def worker(
    site: Site,
    item: Worker,
    now: int,
    *,
    keys: Sequence[Mapping[str, Any]] = (),
    holding: Sequence[str] = (),
) -> models.Worker:
    return models.Worker(
        id=item.id,
        name=item.name,
        status=item.status(now, int(site.settings.offline_threshold * 1000)),
        state=item.state,
        kinds=item.kinds,
        capabilities=item.capabilities,
        metadata=item.metadata,
        holds=item.holds,
        jobs=list(holding),
        keys=[
            models.Key(prefix=key["prefix"], created_at=clock.rfc3339(key["created_at"]))
            for key in keys
            if key["worker_id"] == item.id
        ],
        registered_at=clock.rfc3339(item.registered_at),
        last_seen_at=clock.rfc3339(item.last_seen_at),
    )


def user(item: User) -> models.User:
    return models.User(**{n: said(n, getattr(item, n)) for n in models.User.model_fields})


def timed(model: type[models.T], row: Mapping[str, Any], **more: Any) -> models.T:
    """A row as the model of the same names."""
    names = set(model.model_fields) & set(row)  # type: ignore[attr-defined]
    return model(**{name: said(name, row[name]) for name in names}, **more)


def said(name: str, value: Any) -> Any:
    return clock.rfc3339(value) if name.endswith("_at") and isinstance(value, int) else value
