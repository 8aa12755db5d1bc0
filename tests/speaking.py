"""Short ways for tests to have something said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushes.transcripts import archive, search
from rushes.transcripts.archive import Kept
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.search import Hit
from rushes.transcripts.transcript import Transcript, TranscriptEngine, TranscriptSegment, Word
from world import World

ENGINE = TranscriptEngine(provider="local", transcription_model="whisper-base")


def said(*texts: str, language: str | None = "en", speakers: Sequence[str] = ()) -> Transcript:
    """A segment of ten seconds for each text, a second for each of its words."""
    segments, words = [], []
    for n, text in enumerate(texts):
        speaker = speakers[n % len(speakers)] if speakers else None
        start = 10.0 * n
        segments.append(
            TranscriptSegment(
                id=f"seg_{n + 1:06d}", start=start, end=start + 10, text=text, speaker=speaker
            )
        )
        words += [
            Word(start=start + at, end=start + at + 0.5, word=word, speaker=speaker, confidence=0.9)
            for at, word in enumerate(text.split())
        ]
    return Transcript(
        text=" ".join(texts), language=language, segments=segments, words=words, engine=ENGINE
    )


def add(world: World, media_id: str, transcript: Transcript, *, user_id: str = "") -> str:
    return world.run(
        lambda tx: archive.add(
            tx, media_id=media_id, user_id=user_id, job_id=None, transcript=transcript
        )
    )


def spoken(world: World, *texts: str, user_id: str = "", title: str = "rushes", **how: Any) -> str:
    """A media in which this is said."""
    media_id = world.add_media(title, user_id)
    add(world, media_id, said(*texts, **how), user_id=user_id)
    return media_id


def kept(world: World, media_id: str) -> Kept:
    with world.db.read() as tx:
        return archive.found(tx, media_id)


def edit(world: World, media_id: str, revision: int, user_id: str = "", **texts: str) -> Kept:
    """`seg_000001="Hello"` and so on."""
    changes = [SegmentEdit(segment_id=id, text=text) for id, text in texts.items()]
    before = kept(world, media_id)
    draft = archive.draft_edit(before, revision, changes)
    return world.run(lambda tx: archive.write(tx, before, user_id, draft))


def revert(world: World, media_id: str, revision: int, to: int, user_id: str = "") -> Kept:
    with world.db.read() as tx:
        before = archive.found(tx, media_id)
        draft = archive.draft_revert(tx, before, revision, to)
    return world.run(lambda tx: archive.write(tx, before, user_id, draft))


def texts(kept: Kept) -> list[str]:
    return [each.text for each in kept.transcript.segments]


def hits(world: World, q: str, user_id: str | None = None, **how: Any) -> list[Hit]:
    with world.db.read() as tx:
        return list(search.search(tx, q, user_id=user_id, **how).hits)


def found(world: World, q: str, user_id: str | None = None) -> list[tuple[str, float]]:
    """The media and the second of each hit."""
    return [(each.media_id, each.start) for each in hits(world, q, user_id)]
