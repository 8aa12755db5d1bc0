"""Asking for work on a media: every new version and every transcript is enqueued here.

The settings of a profile go along with the job, so a worker needs no database, and whoever changes
the profile later does not change what was asked for before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rushes import errors, kinds, renditions
from rushes.db.database import Tx
from rushes.jobs import job as jobs
from rushes.jobs import read_store
from rushes.jobs import store as job_store
from rushes.jobs.job import Job, NewJob, State
from rushes.jobs.queue import Queue
from rushes.media import edit as edits
from rushes.media import (
    export_store,
    exports,
    inherit_store,
    pipeline,
    profiles,
    speech_profiles,
    store,
)
from rushes.media.edit import Edit, Overlay
from rushes.media.media import Media, NewMedia
from rushes.media.pipeline import Cause, priority_for
from rushes.records import JsonObject
from rushes.tools import ladder
from rushes.tools import profile as profile_tools
from rushes.transcripts import archive, passages


def first_jobs(tx: Tx, media_id: str, new: NewMedia) -> list[NewJob]:
    """BadField for a profile that is not there. What the uploader says comes before the profile."""
    options = new.options
    named = profiles.resolve(tx, options.profile)
    speech = speech_profiles.options(
        tx, options.transcription_profile, field="transcription_profile"
    )
    if options.transcription_profile is None and not options.speech:
        speech = speech_profiles.default_options(tx)
    said = {name for name in ("language", "diarize") if getattr(options, name) is not None}
    speech = {name: value for name, value in speech.items() if name not in said}
    options = replace(options, speech={**speech, **options.speech})
    settings = profile_tools.encode(named.profile)
    return pipeline.first_jobs(media_id, new.user_id, options, named.name, settings, new.size_bytes)


# New versions; each returns the id of the job that makes it


def retranscode(
    tx: Tx,
    queue: Queue,
    item: Media,
    *,
    profile: str | None = None,
    qualities: Sequence[str] | None = None,
    keep_others: bool = True,
    drop_transcript: bool = False,
    priority: str | None = None,
) -> str:
    """What people have cut and laid over stays. Without a profile, the one before. Of the
    `qualities` that are not named, the new version has what the old one has."""
    named = profiles.resolve(tx, profile) if profile else _last_profile(tx, item.id)
    return _make(
        tx,
        queue,
        item,
        pipeline.TRANSCODE,
        named,
        item.edit,
        priority_for(Cause.AGAIN, priority),
        qualities=_known(tx, item, named, qualities),
        keep_others=(qualities is not None and keep_others) or None,
        drop_transcript=drop_transcript or None,
    )


def trim(
    tx: Tx,
    queue: Queue,
    item: Media,
    start: float,
    end: float | None,
    priority: str | None = None,
) -> str:
    """`start` and `end` in seconds of what is seen now."""
    changed = edits.trimmed(item.edit, start, end, item.duration)
    return _edit(tx, queue, item, pipeline.TRIM, changed, priority)


def undo_edits(tx: Tx, queue: Queue, item: Media, priority: str | None = None) -> str:
    """As it was uploaded."""
    if item.edit == edits.NOTHING:
        raise errors.BadField("reset", "there is no edit to undo")
    return _edit(tx, queue, item, pipeline.TRIM, edits.NOTHING, priority)


def composite(
    tx: Tx,
    queue: Queue,
    item: Media,
    overlay: Overlay,
    other: Media | None,
    priority: str | None = None,
) -> str:
    """`other` is the overlay's media as whoever asks sees it. An overlay takes the place of the
    one before."""
    if other is None or other.user_id != item.user_id or other.source_key is None:
        raise errors.BadField("overlay_media_id", "there is no such media to lay over")
    if other.id == item.id:
        raise errors.BadField("overlay_media_id", "a media cannot be laid over itself")
    if other.kind not in (None, "video"):
        raise errors.BadField("overlay_media_id", f"must be a video, not {other.kind}")
    changed = replace(item.edit, overlay=overlay)
    return _edit(tx, queue, item, pipeline.COMPOSITE, changed, priority)


def _edit(tx: Tx, queue: Queue, item: Media, kind: str, changed: Edit, priority: str | None) -> str:
    named = _last_profile(tx, item.id)
    return _make(tx, queue, item, kind, named, changed, priority_for(Cause.NEW, priority))


def retry(tx: Tx, queue: Queue, job_id: str, cause: Cause = Cause.NEW) -> str:
    """Do again what has failed; with what people have cut and laid over since."""
    old = job_store.get(tx, job_id)
    if old is None:
        raise errors.NotFound(f"no job {job_id}")
    item = store.get(tx, old.media_id) if old.media_id else None
    priority = pipeline.priority_of_retry(old.priority, cause)
    if item is not None and old.kind == pipeline.TRANSCRIBE and old.state in jobs.TERMINAL:
        return _listen_again(tx, queue, item, old, priority)
    takes_edit = old.kind == pipeline.TRANSCODE
    args = _with_edit(old.args, item.edit) if item and takes_edit else None
    return queue.retry(tx, job_id, args, priority=priority).id


def resume(tx: Tx, queue: Queue, item: Media, *, since: int) -> None:
    """The work that was stopped when the media was deleted goes on, behind what it has done
    already; a worker that has yet to stop is not waited for."""
    besides = (pipeline.PURGE, pipeline.WEBHOOK)
    went_on: dict[str, str] = {}
    for job_id in store.stopped_jobs(tx, item.id, since=since, besides=besides):
        old = job_store.get(tx, job_id)
        assert old is not None
        takes_edit = old.kind in (pipeline.TRANSCODE, pipeline.TRANSCRIBE)
        new = queue.retry(
            tx,
            old.id,
            _with_edit(old.args, item.edit) if takes_edit else None,
            dedupe_key=old.dedupe_key if old.state in jobs.TERMINAL else f"resume:{old.id}",
            parent_id=went_on.get(old.parent_id or ""),
        )
        went_on[old.id] = new.id


def _with_edit(args: JsonObject, edit: Edit) -> JsonObject:
    others = {name: value for name, value in args.items() if name != "edit"}
    return others if edit == edits.NOTHING else {**others, "edit": edits.encode(edit)}


def _make(
    tx: Tx,
    queue: Queue,
    item: Media,
    kind: str,
    named: profiles.Named,
    edit: Edit,
    priority: str,
    **more: Any,
) -> str:
    if item.source_key is None:
        raise errors.WrongState("this media has no source to make a version of")
    args = {"profile": named.name, "settings": profile_tools.encode(named.profile), **more}
    # To undo all edits is said, too; the version that is there may have some.
    if kind in pipeline.CHANGES_SOUND or edit != edits.NOTHING:
        args["edit"] = edits.encode(edit)
    new = replace(pipeline.version(kind, item.id, item.user_id, args), priority=priority)
    if resumed := _version_under_way(tx, item.id):
        _check_same(resumed, new)
        return resumed.id
    asked = queue.enqueue(tx, new)
    if not asked.created:
        _check_same(job_store.get(tx, asked.id), new)
    return asked.id


def _version_under_way(tx: Tx, media_id: str) -> Job | None:
    """One that goes on after a restore may have a key of its own: the usual does not find it."""
    found = read_store.live_jobs_of(tx, [media_id])
    making = (each for each in found if each.kind in pipeline.MAKES_VERSION)
    return next((each for each in making if each.cancel_requested_at is None), None)


def _check_same(live: Job | None, new: NewJob) -> None:
    """The same request twice gets the same job; another one has to wait for the first."""
    if live is None:
        return
    if live.cancel_requested_at is not None:
        raise errors.WrongState("a new version is being canceled: try again in a moment")
    if live.kind != new.kind or jobs.encode(live.args) != jobs.encode(dict(new.args)):
        raise errors.WrongState("a new version is being made already: wait for it or cancel it")


def _last_profile(tx: Tx, media_id: str) -> profiles.Named:
    """The one this media was made with, if it is still there."""
    recent = store.recent_args(tx, media_id, pipeline.MAKES_VERSION)
    name = jobs.decode(recent[0]).get("profile") if recent else None
    before = profiles.get(tx, name) if isinstance(name, str) else None
    return before or profiles.resolve(tx, None)


def _known(
    tx: Tx, item: Media, named: profiles.Named, qualities: Sequence[str] | None
) -> list[str] | None:
    """In the profile's order, each once. Once a version was made, what is larger than the source
    is not known either."""
    if qualities is None:
        return None
    version = item.current_version_id
    short = inherit_store.short_side(tx, version) if version else None
    known = ladder.names(named.profile, short) if short else profile_tools.names(named.profile)
    if unknown := [each for each in qualities if each not in known]:
        raise errors.BadField(
            "qualities",
            f"the profile {named.name} has no {unknown[0]} for this media;"
            f" known are {', '.join(known)}",
        )
    return [each for each in known if each in qualities]


# Transcripts


def transcribe(
    tx: Tx,
    queue: Queue,
    item: Media,
    options: JsonObject,
    *,
    anew: bool = False,
    priority: str | None = None,
) -> str:
    """A job with the same options that waits or runs already is returned instead; one with others
    is canceled, and so is the same one if it is running and this is `anew`: there are never two.
    Anew without any options means as the last time."""
    item = _locked(tx, item)
    if item.source_key is None:
        raise errors.WrongState("this media has no source to listen to")
    given = {name: value for name, value in options.items() if value is not None}
    named = given.get("profile")
    usual = speech_profiles.default_options(tx) if named is None and not anew else {}
    # What is said comes before what the profile says.
    asked: JsonObject = {**usual, **speech_profiles.options(tx, named), **given}
    if anew and not asked:
        asked = _last_options(tx, item.id)
    args = {**asked, "edit": edits.encode(item.edit) or None}
    new = pipeline.transcribe(item.id, item.user_id, args)
    if same := _make_room(tx, queue, item.id, new.args, anew=anew):
        return same
    word = priority_for(Cause.AGAIN if anew else Cause.NEW, priority)
    key = _free_key(tx, item.id)
    return queue.enqueue(tx, replace(new, dedupe_key=key, priority=word)).id


def tell_speakers_apart(
    tx: Tx, queue: Queue, item: Media, options: JsonObject, priority: str | None = None
) -> str:
    """Of the transcript that is there, without hearing its words again. A transcription that waits
    or runs is not disturbed: it is the one to ask for speakers."""
    item = _locked(tx, item)
    if item.source_key is None:
        raise errors.WrongState("this media has no source to listen to")
    if archive.found(tx, item.id).is_outdated:
        raise errors.WrongState(
            "the recording was edited since this transcript was made: transcribe it again instead"
        )
    given = {name: value for name, value in options.items() if value is not None}
    edit = edits.encode(item.edit) or None
    new = pipeline.transcribe(
        item.id, item.user_id, {**given, passages.ONLY: passages.SPEAKERS, "edit": edit}
    )
    for each in _live_transcriptions(tx, item.id):
        if each.cancel_requested_at is None:
            if jobs.encode(each.args) == jobs.encode(dict(new.args)):
                return each.id
            raise errors.WrongState("it is being transcribed just now: wait for that, or cancel it")
    word, key = priority_for(Cause.NEW, priority), _free_key(tx, item.id)
    return queue.enqueue(tx, replace(new, dedupe_key=key, priority=word)).id


def _listen_again(tx: Tx, queue: Queue, item: Media, old: Job, priority: str) -> str:
    """As `transcribe`, with the options of a job that has ended, and what it has heard already."""
    item = _locked(tx, item)
    args = _with_edit(old.args, item.edit)
    if same := _make_room(tx, queue, item.id, args):
        return same
    key = _free_key(tx, item.id)
    return queue.retry(tx, old.id, args, dedupe_key=key, priority=priority).id


def _locked(tx: Tx, item: Media) -> Media:
    """As it is now, and stays while this is decided."""
    store.lock_for_request(tx, item.id)
    found = store.get(tx, item.id)
    if found is None:
        raise errors.NotFound(f"no media {item.id}")
    return found


def _make_room(
    tx: Tx, queue: Queue, media_id: str, args: JsonObject, *, anew: bool = False
) -> str | None:
    """The job that is the same and need not be asked for again; else the others are canceled."""
    live = [each for each in _live_transcriptions(tx, media_id) if not each.cancel_requested_at]
    for each in live:
        same = jobs.encode(each.args) == jobs.encode(dict(args))
        if same and not (anew and each.state is State.PROCESSING):
            return each.id
    if live:
        queue.cancel_many(tx, [each.id for each in live])
    return None


def _free_key(tx: Tx, media_id: str) -> str:
    """One that is being canceled still holds its key until its worker has stopped."""
    before = _live_transcriptions(tx, media_id)
    return pipeline.transcribe_key(media_id, before[-1].id if before else None)


def export(
    tx: Tx, queue: Queue, item: Media, wanted: exports.Wanted, priority: str | None = None
) -> str:
    """A file of what is watched now."""
    version = item.current_version_id
    told = store.facts(tx, [version]).get(version) if version else None
    whole = [
        each
        for each in renditions.read(told)
        if each.status == "completed"
        and version
        # Some were there only until the others were.
        and export_store.rendition_files(tx, item.id, version, each.name)
    ]
    new = exports.plan(item, wanted, whole, has_transcript=archive.current(tx, item.id) is not None)
    return queue.enqueue(tx, replace(new, priority=priority_for(Cause.NEW, priority))).id


def run(
    tx: Tx, queue: Queue, item: Media, kind: str, args: JsonObject, priority: str | None = None
) -> str:
    """A job of one's own kind on a media; the one that waits or runs already, if there is one."""
    new = pipeline.of_ones_own(kind, item.id, item.user_id, args)
    return queue.enqueue(tx, replace(new, priority=priority_for(Cause.NEW, priority))).id


def follow_up(tx: Tx, queue: Queue, done: Job, before: Edit) -> None:
    """What a job that has just completed leads to. In the transaction that publishes the new
    version; `before` is the edit of the old."""
    if done.media_id is None or done.division is not None:
        return
    for kind in kinds.following(done.kind):
        # As others asked for it meanwhile, it may have looked at what there was before.
        new = pipeline.of_ones_own(kind.name, done.media_id, done.user_id, {}, after=done.id)
        queue.enqueue(tx, replace(new, priority=pipeline.priority_after(done.priority)))
    if pipeline.renews_transcript(done.kind, done.args):
        _hear_again(tx, queue, done, before)


def _hear_again(tx: Tx, queue: Queue, done: Job, before: Edit) -> None:
    """Other sound is transcribed, with the same options as before."""
    assert done.media_id is not None
    _fit_transcript(tx, done, before)
    queue.cancel_many(tx, [each.id for each in _live_transcriptions(tx, done.media_id)])
    args = {**_last_options(tx, done.media_id), "edit": done.args.get("edit") or None}
    new = pipeline.transcribe(done.media_id, done.user_id, args, of=done.id)
    queue.enqueue(tx, replace(new, priority=pipeline.priority_after(done.priority)))


def _last_options(tx: Tx, media_id: str) -> JsonObject:
    """Of the last transcription that has heard words."""
    recent = map(jobs.decode, store.recent_args(tx, media_id, [pipeline.TRANSCRIBE]))
    return next((each for each in recent if not passages.tells_speakers_only(each)), {})


def _fit_transcript(tx: Tx, done: Job, before: Edit) -> None:
    """Until the new one is there, people read the old one at its new times, if it still fits."""
    assert done.media_id is not None
    after = edits.read(done.args.get("edit"))
    if done.kind != pipeline.TRANSCODE and edits.same_sound(before, after):
        shift = before.start - after.start
        end = None if after.end is None else after.end - after.start
        archive.replace_cut(tx, done.media_id, shift=shift, end=end)
    else:
        archive.drop(tx, done.media_id)


def _live_transcriptions(tx: Tx, media_id: str) -> list[Job]:
    found = read_store.live_jobs_of(tx, [media_id])
    return [each for each in found if each.kind == pipeline.TRANSCRIBE]
