"""From the domain to what the API says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from rushes import clock, kinds, protocol, sanitize
from rushes.accounts.account import User
from rushes.accounts.store import WorkerKey
from rushes.db.database import Tx
from rushes.errors import OF_THE_SOURCE
from rushes.fleet.worker import FleetWorker
from rushes.jobs import job as jobs
from rushes.jobs import read_store
from rushes.media import edit as edits
from rushes.media import label_store, output_store, profiles
from rushes.media import store as media_store
from rushes.media.clips import Part
from rushes.media.label_store import Label
from rushes.media.media import Media, Sizes, StoredFile
from rushes.media.pipeline import MAKES_VERSION, TRANSCRIBE
from rushes.playback import growing
from rushes.playback import store as playback_store
from rushes.renditions import LEFT_OUT
from rushes.tools import profile as profile_tools
from rushes.transcripts import store as transcript_store
from rushes.web import models
from rushes.web.services import Services

MASTER, THUMBNAIL = "master.m3u8", "thumbnail.jpg"
STORYBOARD, CHAPTERS, WAVEFORM = "storyboard.vtt", "chapters.vtt", "waveform.json"
SHOWN_IN_TRASH = {THUMBNAIL}
OUTPUT_STATUS = {
    jobs.State.BLOCKED: "pending",
    jobs.State.QUEUED: "pending",
    jobs.State.PROCESSING: "processing",
    jobs.State.COMPLETED: "ready",
    jobs.State.FAILED: "failed",
    jobs.State.CANCELED: "failed",
}
# What is not here is its own status.
EXECUTION_STATUS: dict[jobs.Outcome | None, str] = {
    None: "processing",
    jobs.Outcome.SUCCEEDED: "completed",
    jobs.Outcome.LOST: "failed",
    jobs.Outcome.STALLED: "failed",
}
WELL_KNOWN = (MASTER, THUMBNAIL, STORYBOARD, CHAPTERS, WAVEFORM)

Shape = TypeVar("Shape", bound=BaseModel)
SAME_NAME = set(models.Job.model_fields) & set(jobs.Job.__dataclass_fields__)


def job(tx: Tx, item: jobs.Job) -> models.Job:
    return job_page(tx, [item])[0]


def job_page(tx: Tx, items: Sequence[jobs.Job]) -> list[models.Job]:
    titles = read_store.titles(tx, items)
    return [_job(each, titles.get(each.media_id or "")) for each in items]


def _job(item: jobs.Job, title: str | None) -> models.Job:
    values = {name: said(name, getattr(item, name)) for name in SAME_NAME}
    detail = jobs.without_old_pace(item.detail, item.stage)
    return models.Job(
        **{
            **values,
            "status": item.state,
            "progress_stage": item.stage,
            "priority": item.priority.word,
            "worker_name": item.processed_by_worker_name,
            # Of a part, they are a worker's words, and work with them goes on as they are.
            "args": item.args if item.division is None else sanitize.tree(item.args),
            "error": item.last_error,
            "media_title": title,
            "can_retry": item.state in (jobs.State.FAILED, jobs.State.CANCELED)
            and item.error_code not in OF_THE_SOURCE,
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
    return _fitting(models.Rendition, detail, "renditions")


def warnings(detail: Any) -> list[models.MediaWarning]:
    return _fitting(models.MediaWarning, detail, "warnings")


def _fitting(model: type[Shape], detail: Any, name: str) -> list[Shape]:
    found = detail.get(name) if isinstance(detail, dict) else None
    made = []
    for each in found if isinstance(found, list) else []:
        try:
            made.append(model.model_validate(each))
        except ValueError:
            continue
    return made


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def execution(attempt: read_store.Attempt) -> models.Execution:
    status = EXECUTION_STATUS.get(attempt.outcome) or attempt.outcome
    ended_at = attempt.ended_at
    return timed(
        models.Execution,
        attempt,
        transcription_id=attempt.job_id if attempt.kind == TRANSCRIBE else None,
        status=status,
        completed_at=clock.rfc3339(ended_at) if status == "completed" else None,
        failed_at=clock.rfc3339(ended_at) if status == "failed" else None,
        processing_duration_ms=None if ended_at is None else ended_at - attempt.started_at,
    )


def media(services: Services, tx: Tx, item: Media) -> models.Media:
    return media_page(services, tx, [item])[0]


def media_with_twins(services: Services, tx: Tx, item: Media) -> models.Media:
    """Looking for others with the same bytes is for one media, not for a page of them."""
    twins = media_store.twins(tx, item)
    found = {"duplicate_of": list(twins.seen), "duplicate_in_trash": list(twins.trashed)}
    return media(services, tx, item).model_copy(update=found)


def media_page(services: Services, tx: Tx, items: Sequence[Media]) -> list[models.Media]:
    """A page of media costs a handful of queries, however long it is."""
    if not items:
        return []
    live: dict[str, list[jobs.Job]] = {}
    for each in read_store.live_jobs_of(tx, [item.id for item in items]):
        if not kinds.is_part(each.kind):
            live.setdefault(each.media_id or "", []).append(each)
    failed = [item.id for item in items if "failed" in (item.status, item.transcript_status)]
    failures = playback_store.failures(tx, failed) if failed else {}
    files = watchable(tx, items)
    versions = [item.current_version_id for item in items if item.current_version_id]
    published = media_store.facts(tx, versions) if versions else {}
    sizes = media_store.sizes(tx, versions) if versions else {}
    made = outputs(tx, [item for item in items if item.deleted_at is None])
    labels = label_store.of_media(tx, [item.id for item in items])
    return [
        _media(
            services,
            item,
            live.get(item.id, []),
            _failure(item, failures),
            files[item.id],
            published.get(item.current_version_id or ""),
            sizes.get(item.current_version_id or ""),
            made.get(item.id, []),
            labels.get(item.id, []),
        )
        for item in items
    ]


def outputs(tx: Tx, items: Sequence[Media]) -> dict[str, list[models.Output]]:
    """By media: what jobs of one's own kinds have made of it, are making, or could not make."""
    ids = [item.id for item in items]
    published = {(each.media_id, each.slot): each for each in output_store.published(tx, ids)}
    newest = {
        (job.media_id or "", kinds.output_of(job.kind)): job
        for job in output_store.newest_jobs(tx, ids)
    }
    files = output_store.files(tx, [each.id for each in published.values()]) if published else []
    found: dict[str, list[models.Output]] = {}
    for key in sorted(published.keys() | newest.keys()):
        version = published.get(key)
        made = [each for each in files if version and each.version_id == version.id]
        output = _output(*key, version, newest.get(key), made)
        if output is not None:
            found.setdefault(key[0], []).append(output)
    return found


def _output(
    media_id: str,
    slot: str,
    version: output_store.Version | None,
    job: jobs.Job | None,
    files: Sequence[StoredFile],
) -> models.Output | None:
    """None of a job that has ended well without making a file."""
    state = job.state if job else jobs.State.COMPLETED
    if version is None and state is jobs.State.COMPLETED:
        return None
    kind = job.kind if job else version.kind if version else ""
    has_failed = state in (jobs.State.FAILED, jobs.State.CANCELED)
    return models.Output(
        slot=slot,
        kind=kind,
        label=kinds.get(kind).label or kind,
        status=OUTPUT_STATUS[state],
        progress=1.0 if job is None or state is jobs.State.COMPLETED else job.progress,
        error=_why(job) if job and has_failed else None,
        can_retry=job is not None and has_failed and job.error_code not in OF_THE_SOURCE,
        job_id=job.id if job else version.job_id if version else "",
        published_at=clock.rfc3339(version.published_at) if version else None,
        size_bytes=version.size_bytes if version else 0,
        files=[
            models.OutputFile(
                name=each.name,
                size_bytes=each.size_bytes,
                content_type=each.content_type,
                url=f"/api/v1/media/{media_id}/outputs/{slot}/{each.name}",
            )
            for each in files
        ],
    )


def _why(job: jobs.Job) -> str:
    return job.last_error or job.error_code or f"{job.kind} was canceled"


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
        for name in (THUMBNAIL, *growing.first_files(each.renditions))
    ]
    present = playback_store.present(tx, asked) if asked else set()
    for media_id, each in building.items():
        files = {name for version, name in present if version == each.version_id}
        found[media_id] |= files & {THUMBNAIL}
        if growing.master(each.renditions, files) is not None:
            found[media_id].add(MASTER)
    return found


def _media(
    services: Services,
    item: Media,
    live: Sequence[jobs.Job],
    failure: dict[str, Any],
    files: set[str],
    published: Mapping[str, Any] | None,
    sizes: Sizes | None,
    made: Sequence[models.Output],
    labels: Sequence[Label],
) -> models.Media:
    making = [each for each in live if each.kind in MAKES_VERSION]
    detail = published or (making[0].detail if making else None)
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
        warnings=warnings(detail),
        jobs=[_job(each, item.title) for each in live],
        **failure,
        **urls(files & SHOWN_IN_TRASH if item.deleted_at else files, f"/api/v1/media/{item.id}"),
        share_url=share_url(services, item),
        storage=_storage(item, sizes) if sizes else None,
        outputs=list(made),
        tags=[each.name for each in labels if each.kind == "tag"],
        collections=[
            models.CollectionName(id=each.id, name=each.name)
            for each in labels
            if each.kind == "collection"
        ],
        purge_at=purge_at(services, item),
    )


def _storage(item: Media, sizes: Sizes) -> models.StorageUse:
    return models.StorageUse(
        source_bytes=item.size_bytes,
        copy_bytes=sizes.copy,
        rungs_bytes=sizes.rungs,
        other_bytes=sizes.whole - sizes.copy - sizes.rungs,
    )


def _failure(
    item: Media, failures: Mapping[tuple[str, bool], playback_store.Failure]
) -> dict[str, Any]:
    """Speech is the reason only of those that are merely listened to."""
    said = failures.get((item.id, True)) if item.transcript_status == "failed" else None
    seen = (failures.get((item.id, False)) or said) if item.status == "failed" else None
    return {
        "error": seen.reason if seen else None,
        "can_retry": seen is not None and seen.code not in OF_THE_SOURCE,
        "transcript_error": said.reason if said else None,
        "can_retry_transcript": said is not None and said.code not in OF_THE_SOURCE,
    }


def purge_at(services: Services, item: Media) -> str | None:
    if item.deleted_at is None:
        return None
    return clock.rfc3339(item.deleted_at + int(services.settings.trash_period * 1000))


def edit(item: Media) -> models.Edit | None:
    if item.edit == edits.NOTHING:
        return None
    return models.Edit.model_validate(edits.encode(item.edit))


def _largest(ladder: Sequence[models.Rendition]) -> dict[str, Any]:
    """The size of the best picture there is or will be."""
    sizes = [
        (each.width, each.height)
        for each in ladder
        if each.width and each.height and each.status not in LEFT_OUT
    ]
    if not sizes:
        return {}
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return {"width": width, "height": height}


def shared_media(
    tx: Tx, item: Media, *, downloads: bool = False, part: Part | None = None
) -> models.SharedMedia:
    """What whoever has its link may know of it. Of a part no pictures: they are of the whole."""
    base = f"/s/{item.share_token}"
    files = watchable(tx, [item])[item.id]
    facts = media_store.facts(tx, [item.current_version_id]) if item.current_version_id else {}
    source = downloads and item.source_key is not None and not item.edit.cuts
    return models.SharedMedia(
        title=item.title,
        kind=item.kind,
        status=item.status,
        duration=part.seconds if part else item.duration,
        **_largest(renditions(facts.get(item.current_version_id or ""))),
        **urls(files & {MASTER} if part else files, base),
        transcript_url=f"{base}/transcript" if has_shared_transcript(tx, item) else None,
        download_url=f"{base}/source" if source else None,
        downloads=downloads,
    )


def has_shared_transcript(tx: Tx, item: Media) -> bool:
    """Not while it still has the words of what was cut off."""
    about = transcript_store.about_current(tx, item.id)
    return about is not None and not (about.is_outdated and item.edit.cuts)


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


def share_url(services: Services, item: Media) -> str | None:
    return f"{services.base_url}/s/{item.share_token}" if item.share_token else None


def worker(
    services: Services,
    item: FleetWorker,
    now: int,
    *,
    keys: Sequence[WorkerKey] = (),
    holding: Sequence[str] = (),
) -> models.Worker:
    resting = item.resting_until if (item.resting_until or 0) > now else None
    return models.Worker(
        id=item.id,
        name=item.name,
        status=item.status(now, int(services.settings.offline_threshold * 1000)),
        state=item.state,
        kinds=item.kinds,
        capabilities=item.capabilities,
        metadata=dict(item.metadata),
        holds=item.holds,
        jobs=list(holding),
        keys=[
            models.Key(
                prefix=key.prefix,
                kinds=None if key.grant.kinds is None else list(key.grant.kinds),
                created_at=clock.rfc3339(key.created_at),
            )
            for key in keys
            if key.worker_id == item.id
        ],
        settings={
            each.name: models.WorkerSetting(value=each.value, text=each.text, said_by=each.said_by)
            for each in item.in_effect
        },
        resting_until=clock.rfc3339(resting),
        declined=dict(item.declined),
        notes=list(item.notes),
        protocol=protocol.version_text(protocol.version_of(item.protocol)),
        upgrade=item.upgrade,
        registered_at=clock.rfc3339(item.registered_at),
        last_seen_at=clock.rfc3339(item.last_seen_at),
    )


def user(item: User) -> models.User:
    return models.User(**{n: said(n, getattr(item, n)) for n in models.User.model_fields})


def timed(model: type[models.T], record: Any, **more: Any) -> models.T:
    """A record as the model of the same names; `more` is what it has not, or otherwise."""
    names = {each for each in model.model_fields if hasattr(record, each)}  # type: ignore[attr-defined]
    values = {name: said(name, getattr(record, name)) for name in names - more.keys()}
    return model(**values, **more)


def said(name: str, value: Any) -> Any:
    return clock.rfc3339(value) if name.endswith("_at") and isinstance(value, int) else value
