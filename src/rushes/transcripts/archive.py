"""The transcripts of a media: what the machine heard, what people made of it, and which is read.

A machine's transcript never changes; people's changes are revisions on top of it. A new one takes
the place of one that nobody has touched, and is a candidate beside one that somebody has; accepting
it takes corrections and names over. What is not read any more is put away and can be brought back.
Every verb that changes something begins by locking the media, and leaves search as true as the
text. What takes long is drafted before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from rushes import errors, ids
from rushes.db.database import Tx
from rushes.transcripts import editing, revisions, search, speakers, store, three_way
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.lexemes import Lexemes
from rushes.transcripts.revisions import Reason, RevisionDraft, SegmentChange, StoredRevision
from rushes.transcripts.store import About, Origin, State, StoredTranscript
from rushes.transcripts.three_way import Choice, Merged
from rushes.transcripts.transcript import Transcript, Turn

HISTORY_LIMIT = 200
NAME_LIMIT = 100
NOBODY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(About):
    """A transcript at one of its revisions. `document` is canonical JSON; `names` are what people
    call the speakers."""

    media_id: str
    user_id: str
    document: str

    @property
    def transcript(self) -> Transcript:
        return revisions.read(self.document)

    @property
    def speakers(self) -> list[str]:
        """In the order in which they are first heard."""
        said = msgspec.json.decode(self.document, type=_Said).segments
        return list(dict.fromkeys(each.speaker for each in said if each.speaker))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    speaker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """As much of a document as it takes to know who speaks."""

    segments: list[_Heard]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A trim moves everything, so its changes are not told one by one."""

    number: int
    user_id: str
    created_at: int
    reason: Reason
    changes: Sequence[SegmentChange]


# Reading


def current(tx: Tx, media_id: str) -> Kept | None:
    return _kept(store.with_state(tx, media_id, "current"))


def candidate(tx: Tx, media_id: str) -> Kept | None:
    """Newer than the current one, and waiting for somebody to take it or leave it."""
    return _kept(store.with_state(tx, media_id, "candidate"))


def get_of_job(tx: Tx, job_id: str) -> Kept | None:
    """As this job heard it, whatever was made of it later."""
    found = store.of_job(tx, job_id)
    if found is None:
        return None
    return _kept(replace(found, edited=None, revision=found.first_revision))


def found(tx: Tx, media_id: str) -> Kept:
    kept = current(tx, media_id)
    if kept is None:
        raise errors.NotFound("this media has no transcript")
    return kept


def between(kept: Kept, start: float, end: float) -> Kept:
    """What is said there, with times from `start` on; nothing of those who are silent there."""
    said = editing.cut(kept.transcript, shift=-start, end=end - start)
    heard = replace(kept, document=revisions.document(said))
    names = {each: name for each, name in kept.names.items() if each in heard.speakers}
    return replace(heard, names=names)


def found_candidate(tx: Tx, media_id: str) -> Kept:
    kept = candidate(tx, media_id)
    if kept is None:
        raise errors.NotFound("there is no other transcript to choose from")
    return kept


def at_revision(tx: Tx, media_id: str, number: int) -> Kept:
    """Of the current transcript, by undoing what came later."""
    kept = found(tx, media_id)
    later = _later(tx, kept, number)
    if not later:
        return kept
    older = revisions.before(kept.transcript, later)
    return replace(kept, document=revisions.document(older), revision=number)


def all_of(tx: Tx, media_id: str) -> list[About]:
    """Those that are read and those that were put away, newest first."""
    return store.about(tx, media_id)


def about_candidate(tx: Tx, media_id: str) -> About | None:
    return next((each for each in all_of(tx, media_id) if each.state == "candidate"), None)


def history(tx: Tx, media_id: str) -> list[Revision]:
    """Of the current transcript, newest first."""
    about = store.about_current(tx, media_id)
    if about is None:
        raise errors.NotFound("this media has no transcript")
    return [
        Revision(
            number=each.number,
            user_id=each.user_id,
            created_at=each.created_at,
            reason=each.reason,
            changes=revisions.read_changes(each.changes),
        )
        for each in store.history(tx, about.id, HISTORY_LIMIT)
    ]


# A machine's


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A transcript with all that takes long of keeping it, done before the transaction begins."""

    transcript: Transcript
    document: str
    lexemes: Mapping[str, Lexemes]


def prepared(transcript: Transcript) -> Prepared:
    return Prepared(
        transcript=transcript,
        document=revisions.document(transcript),
        lexemes=search.prepare(transcript),
    )


def add(
    tx: Tx,
    *,
    media_id: str,
    user_id: str,
    job_id: str | None,
    transcript: Transcript | Prepared,
) -> str:
    """What a job has heard; returns its id. Saying it twice is harmless, and who is overtaken by a
    job that was ordered later says it for the record."""
    before = store.of_job(tx, job_id) if job_id is not None else None
    if before is not None:
        return before.id
    _lock(tx, media_id)
    read = {each.state: each for each in all_of(tx, media_id) if each.state != "retired"}
    # The ids of jobs are in the order in which they were made.
    if job_id is not None and any(job_id < (each.job_id or "") for each in read.values()):
        return _insert(tx, media_id, user_id, "retired", "machine", transcript, job_id)
    kept = read.get("current")
    store.set_state(tx, media_id, "candidate", "retired")
    if kept is not None and _is_touched(tx, kept):
        return _insert(tx, media_id, user_id, "candidate", "machine", transcript, job_id)
    store.set_state(tx, media_id, "current", "retired")
    return _insert(tx, media_id, user_id, "current", "machine", transcript, job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What accepting the candidate would make of both; `draft` is a revision on top of it."""

    current: Kept
    candidate: Kept
    result: Merged
    draft: RevisionDraft


def check_candidate(tx: Tx, media_id: str, id: str, revision: int) -> None:
    """That both are what somebody has seen."""
    other = found_candidate(tx, media_id)
    _check_current(tx, media_id, revision)
    if other.id != id:
        raise errors.WrongState("there is a newer transcript to choose from: read that first")


def draft_merge(
    tx: Tx, media_id: str, choices: Mapping[int, Choice] | None = None
) -> Callable[[], Merge]:
    """Reads what it takes; what is returned merges it, which takes long."""
    kept, other = found(tx, media_id), found_candidate(tx, media_id)
    later = _later(tx, kept, kept.first_revision)
    return lambda: _merged(kept, other, later, choices or {})


def accept_candidate(
    tx: Tx, media_id: str, id: str, revision: int, user_id: str = NOBODY, merge: Merge | None = None
) -> Kept:
    """It is the current one from now on, unless either is another one than whoever decides has
    seen. With `merge`, what people made of the old one is its next revision."""
    _lock(tx, media_id)
    check_candidate(tx, media_id, id, revision)
    if merge is not None and found(tx, media_id).names != merge.current.names:
        raise errors.WrongState("somebody has named speakers meanwhile: try again")
    store.set_state(tx, media_id, "current", "retired")
    store.promote_candidate(tx, media_id)
    taken = found(tx, media_id)
    if merge is None:
        return _indexed(tx, taken)
    if merge.result.names:
        store.set_names(tx, taken.id, revisions.encode(merge.result.names))
        taken = replace(taken, names=merge.result.names)
    return _indexed(tx, taken) if merge.draft.is_same else _write(tx, taken, user_id, merge.draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldApart:
    """Who speaks when, as a job has found out of a recording whose words are there already."""

    turns: Sequence[Turn]
    model: str | None


def tell_apart(tx: Tx, media_id: str, user_id: str, found: ToldApart) -> None:
    """Give the words of the current transcript their speakers, as its next revision; text and
    names stay. Nothing, if nobody is heard or there is no transcript any more."""
    if not found.turns or store.about_current(tx, media_id) is None:
        return
    _lock(tx, media_id)
    kept = _kept(store.with_state(tx, media_id, "current"))
    assert kept is not None
    before = kept.transcript
    after = speakers.told_apart(before, found.turns, kept.names)
    if after.engine is not None:
        after = replace(after, engine=replace(after.engine, diarization_model=found.model))
    draft = revisions.draft(before, after, "diarized")
    if not draft.is_same:
        _write(tx, kept, user_id, draft)


def dismiss_candidate(tx: Tx, media_id: str) -> None:
    _lock(tx, media_id)
    found_candidate(tx, media_id)
    store.set_state(tx, media_id, "candidate", "retired")


def replace_cut(tx: Tx, media_id: str, *, shift: float, end: float | None) -> None:
    """After a trim: what is left of it, at its new times, as a revision of nobody's."""
    if store.about_current(tx, media_id) is None:
        return
    _lock(tx, media_id)
    kept, other = found(tx, media_id), candidate(tx, media_id)
    trims = [revisions.read_trim(each) for each in store.last_trims(tx, kept.id)]
    draft = revisions.trimmed(kept.transcript, trims, shift=shift, end=end)
    if draft is not None:
        _write(tx, kept, NOBODY, draft)
    if other is not None:
        cut = editing.cut(other.transcript, shift=shift, end=end)
        store.set_state(tx, media_id, "candidate", "retired")
        _insert(tx, media_id, other.user_id, "candidate", other.origin, cut, None)
    store.fit(tx, media_id)


def drop(tx: Tx, media_id: str) -> None:
    """What was said is no longer what is heard. It is put away, for people to bring it back."""
    if store.about_current(tx, media_id) is None:
        return
    _lock(tx, media_id)
    for state in ("current", "candidate"):
        store.set_state(tx, media_id, state, "retired")
    search.forget_speech(tx, media_id)


def forget(tx: Tx, media_id: str) -> None:
    """The media was deleted: nothing of it is found from now on. The texts go when it is purged."""
    search.forget(tx, media_id)


def index_again(tx: Tx, media_id: str, user_id: str, title: str) -> None:
    """The media is back: its title and what is said in it are found as before."""
    search.keep_title(tx, media_id, user_id, title)
    if (kept := current(tx, media_id)) is not None:
        _indexed(tx, kept)


def purge(tx: Tx, media_id: str) -> None:
    search.forget(tx, media_id)
    store.purge(tx, media_id)


# People's


def draft_edit(kept: Kept, revision: int, changes: Sequence[SegmentEdit]) -> RevisionDraft:
    """On top of `revision`; EditedMeanwhile if that is not the newest."""
    _check(kept, revision)
    before = kept.transcript
    return revisions.draft(before, editing.edited(before, changes), "edited")


def draft_revert(tx: Tx, kept: Kept, revision: int, to: int) -> RevisionDraft:
    """Back to an older text, at the times that it is heard today."""
    _check(kept, revision)
    later = _later(tx, kept, to)
    now = kept.transcript
    older = revisions.fitted(revisions.before(now, later), revisions.moves(later))
    return revisions.draft(now, older, "reverted")


def write(tx: Tx, kept: Kept, user_id: str, draft: RevisionDraft) -> Kept:
    """The next revision; the same text again is none. EditedMeanwhile if somebody was quicker."""
    _lock(tx, kept.media_id)
    if draft.is_same:
        _check_current(tx, kept.media_id, kept.revision)
        return kept
    return _write(tx, kept, user_id, draft)


def restore(tx: Tx, media_id: str, id: str, revision: int | None) -> Kept:
    """Read one again that was put away, instead of the current one, which is at `revision`."""
    _lock(tx, media_id)
    _check_current(tx, media_id, revision)
    store.set_state(tx, media_id, "current", "retired")
    if not store.promote(tx, media_id, id):
        raise errors.NotFound("this media has no such transcript to bring back")
    return _indexed(tx, found(tx, media_id))


def rename_speakers(tx: Tx, media_id: str, names: Mapping[str, str]) -> Kept:
    """Names of some of them; an empty one takes a name away."""
    _lock(tx, media_id)
    kept = found(tx, media_id)
    known = kept.speakers
    if unknown := [label for label in names if label not in known and label not in kept.names]:
        raise errors.BadField("names", f"there is no speaker {unknown[0]}")
    given = {label: _clean(name) for label, name in names.items()}
    merged = {label: name for label, name in {**kept.names, **given}.items() if name}
    store.set_names(tx, kept.id, revisions.encode(merged))
    return replace(kept, names=merged)


def import_captions(
    tx: Tx, media_id: str, transcript: Transcript | Prepared, *, replace: bool = False
) -> Kept:
    """Captions that people have, instead of what a machine heard. What people have worked on is
    only replaced if they say so."""
    owner = _lock(tx, media_id)
    kept = current(tx, media_id)
    if kept is not None and not replace and _is_touched(tx, kept):
        raise errors.WrongState(
            "people have worked on the transcript that is there: ask to replace it if you mean to"
        )
    store.set_state(tx, media_id, "current", "retired")
    _insert(tx, media_id, owner, "current", "imported", transcript, None)
    return found(tx, media_id)


# How


def _merged(
    kept: Kept, other: Kept, later: Sequence[StoredRevision], choices: Mapping[int, Choice]
) -> Merge:
    """`later`: all revisions of the current one. What it was before them is the base."""
    ours, theirs = kept.transcript, other.transcript
    base = revisions.fitted(revisions.before(ours, later), revisions.moves(later))
    result = three_way.merge(base, ours, theirs, names=kept.names, choices=choices)
    if unknown := choices.keys() - {each.number for each in result.conflicts}:
        raise errors.BadField("choices", f"there is no conflict {min(unknown)}")
    draft = revisions.draft(theirs, result.transcript, "merged")
    if not draft.is_same:
        # Nothing of it was searched so far.
        draft = replace(draft, segment_ids=None)
    return Merge(current=kept, candidate=other, result=result, draft=draft)


def _lock(tx: Tx, media_id: str) -> str:
    """Returns whose it is."""
    owner = store.touch(tx, media_id)
    if owner is None:
        raise errors.NotFound(f"no media {media_id}")
    return owner


def _check(kept: About, revision: int) -> None:
    if kept.revision != revision:
        raise errors.EditedMeanwhile(kept.revision)


def _check_current(tx: Tx, media_id: str, revision: int | None) -> None:
    """None: there is none."""
    about = store.about_current(tx, media_id)
    now = about.revision if about else None
    if now is not None and now != revision:
        raise errors.EditedMeanwhile(now)
    if now != revision:
        raise errors.WrongState("the transcript that you have read was put away meanwhile")


def _is_touched(tx: Tx, kept: About) -> bool:
    """Whether people would lose something with it."""
    return kept.origin == "imported" or bool(kept.names) or store.is_edited(tx, kept.id)


def _insert(
    tx: Tx,
    media_id: str,
    user_id: str,
    state: State,
    origin: Origin,
    transcript: Transcript | Prepared,
    job_id: str | None,
) -> str:
    ready = transcript if isinstance(transcript, Prepared) else prepared(transcript)
    id = ids.new("trn")
    store.insert(
        tx,
        id=id,
        media_id=media_id,
        user_id=user_id,
        job_id=job_id,
        state=state,
        origin=origin,
        language=ready.transcript.language,
        document=ready.document,
    )
    if state == "current":
        search.keep_speech(tx, media_id, user_id, id, ready.transcript, known=ready.lexemes)
    return id


def _indexed(tx: Tx, kept: Kept) -> Kept:
    search.keep_speech(tx, kept.media_id, kept.user_id, kept.id, kept.transcript)
    return kept


def _write(tx: Tx, kept: Kept, user_id: str, draft: RevisionDraft) -> Kept:
    written = store.add_revision(
        tx,
        kept.media_id,
        kept.id,
        revision=kept.revision,
        user_id=user_id,
        reason=draft.reason,
        edited=draft.document,
        changes=draft.changes,
    )
    if written is None:
        raise errors.EditedMeanwhile(found(tx, kept.media_id).revision)
    search.keep_speech(
        tx, kept.media_id, kept.user_id, kept.id, draft.transcript, only=draft.segment_ids
    )
    return replace(
        kept,
        document=draft.document,
        revision=written.revision,
        updated_at=written.updated_at,
    )


def _later(tx: Tx, kept: Kept, number: int) -> list[StoredRevision]:
    """The revisions after this one, newest first."""
    if number not in (kept.first_revision, kept.revision, *store.numbers(tx, kept.id)):
        raise errors.NotFound(f"the transcript has no revision {number}")
    return store.revisions(tx, kept.id, after=number)


def _clean(name: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in name)
    return " ".join(printable.split())[:NAME_LIMIT]


def _kept(found: StoredTranscript | None) -> Kept | None:
    if found is None:
        return None
    about = {name: getattr(found, name) for name in About.__dataclass_fields__}
    document = revisions.canonical(found.edited or found.document)
    return Kept(media_id=found.media_id, user_id=found.user_id, document=document, **about)
