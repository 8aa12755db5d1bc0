"""How one text of a transcript leads to the next, and back. Pure.

A correction is kept as the segments that it changed. A trim moves everything, so it is kept as the
text from before it, and by how much and where it cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from rushes.transcripts import editing
from rushes.transcripts import transcript as transcripts
from rushes.transcripts.editing import Difference
from rushes.transcripts.transcript import Transcript, TranscriptSegment

ChangeReason = Literal["edited", "reverted", "merged", "diarized"]
Reason = Literal["edited", "reverted", "trimmed", "merged", "diarized"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentChange:
    """None is a segment that was not there, or is not any more."""

    segment_id: str
    before: TranscriptSegment | None
    after: TranscriptSegment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Seconds by which a trim has moved everything, and at which it ends since."""

    shift: float
    end: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimChange(Move):
    """With the text from before it."""

    before: Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRevision:
    """`changes`: JSON, as `reason` has it."""

    number: int
    user_id: str
    created_at: int
    reason: Reason
    changes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionDraft:
    """A text to be written. `segment_ids` are those that it changes; None: perhaps all."""

    reason: Reason
    transcript: Transcript
    document: str
    changes: str
    segment_ids: Sequence[str] | None

    @property
    def is_same(self) -> bool:
        """There is nothing to write."""
        return self.segment_ids is not None and not self.segment_ids


def encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def document(t: Transcript) -> str:
    return encode(transcripts.encode(t))


CANONICAL = (',"segments":[', ',"words":[', ',"engine":')


def canonical(text: str) -> str:
    """What `document` wrote, as it is; an older transcript, or a plain text, made so. A long one is
    only read if it has to be: no text has these marks in it, since quotes are escaped there."""
    if text.startswith('{"text":') and all(mark in text for mark in CANONICAL):
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    return document(transcripts.decode(value if isinstance(value, dict | list | str) else text))


def read(document: str) -> Transcript:
    """What `document` wrote; quicker than reading what anybody may have written."""
    return msgspec.json.decode(document, type=Transcript)


def draft(old: Transcript, new: Transcript, reason: ChangeReason) -> RevisionDraft:
    differences = editing.changed_segments(old, new)
    return RevisionDraft(
        reason=reason,
        transcript=new,
        document=document(new) if differences else "",
        changes=encode(differences),
        segment_ids=[each.segment_id for each in differences],
    )


def trimmed(
    now: Transcript, before: Sequence[TrimChange], *, shift: float, end: float | None
) -> RevisionDraft | None:
    """`before`: trims since people last changed something, oldest first. It is cut from what was
    there before them, so that a wider one brings back what a narrow one took. None: it changes
    nothing."""
    whole = before[0].before if before else now
    new = editing.cut(whole, shift=sum(each.shift for each in before) + shift, end=end)
    if not shift and new == now:
        return None
    return RevisionDraft(
        reason="trimmed",
        transcript=new,
        document=document(new),
        changes=encode(TrimChange(shift=shift, end=end, before=now)),
        segment_ids=None,
    )


def read_trim(changes: str) -> TrimChange:
    return msgspec.json.decode(changes, type=TrimChange)


def moves(revisions: Iterable[StoredRevision]) -> list[Move]:
    """The trims among these revisions, in their order."""
    return [
        msgspec.json.decode(each.changes, type=Move)
        for each in revisions
        if each.reason == "trimmed"
    ]


def read_changes(changes: str) -> list[SegmentChange]:
    """Without the words, which people are not shown."""
    return msgspec.json.decode(changes, type=list[SegmentChange])


def before(t: Transcript, revisions: Iterable[StoredRevision]) -> Transcript:
    """As it was before these revisions, newest first."""
    oldest: dict[str, Difference] = {}
    for revision in revisions:
        if revision.reason == "trimmed":
            t, oldest = read_trim(revision.changes).before, {}
        else:
            found = msgspec.json.decode(revision.changes, type=list[Difference])
            oldest.update((each.segment_id, each) for each in found)
    return editing.undone(t, list(oldest.values())) if oldest else t


def fitted(t: Transcript, trims: Sequence[Move]) -> Transcript:
    """A text from before these trims (newest first), as it is heard today."""
    if not trims:
        return t
    return editing.cut(t, shift=sum(each.shift for each in trims), end=trims[0].end)
