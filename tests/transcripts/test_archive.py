"""Which transcript is read, what people made of it, and that nothing of theirs is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from rushes import errors
from rushes.db.database import Tx
from rushes.media import library
from rushes.media import store as media_store
from rushes.transcripts import archive, captions
from rushes.transcripts import store as transcript_store
from rushes.transcripts.archive import Kept
from rushes.transcripts.editing import SegmentEdit
from rushes.transcripts.three_way import Choice
from speaking import add, edit, found, kept, revert, said, spoken, texts
from world import World

VTT = "WEBVTT\n\n00:01.000 --> 00:02.500\nBrought along\n"


def candidate(world: World, media_id: str) -> Kept | None:
    with world.db.read() as tx:
        return archive.candidate(tx, media_id)


def accept(world: World, media_id: str) -> Kept:
    other = candidate(world, media_id)
    assert other is not None
    revision = kept(world, media_id).revision
    return world.run(lambda tx: archive.accept_candidate(tx, media_id, other.id, revision))


def merge(world: World, media_id: str, choices: dict[int, Choice] | None = None) -> Kept:
    with world.db.read() as tx:
        made = archive.draft_merge(tx, media_id, choices)()
    return world.run(
        lambda tx: archive.accept_candidate(
            tx, media_id, made.candidate.id, made.current.revision, "ada", made
        )
    )


def status(world: World, media_id: str) -> str:
    with world.db.read() as tx:
        item = media_store.get(tx, media_id)
    assert item is not None
    return item.transcript_status


# Machine and people


def test_a_new_transcript_takes_the_place_of_one_that_nobody_has_touched(world: World) -> None:
    media_id = spoken(world, "First try.")
    add(world, media_id, said("Second try."))
    assert texts(kept(world, media_id)) == ["Second try."]
    assert candidate(world, media_id) is None


def test_a_new_transcript_of_an_edited_one_is_a_candidate(world: World) -> None:
    media_id = spoken(world, "First try.")
    edit(world, media_id, 0, seg_000001="Corrected.")
    for text in ("Second try.", "Third try."):
        add(world, media_id, said(text))
    assert texts(kept(world, media_id)) == ["Corrected."]
    other = candidate(world, media_id)
    assert other is not None
    assert texts(other) == ["Third try."]
    assert found(world, "third") == []


@pytest.mark.parametrize("touch", ["names", "import"])
def test_names_and_imported_captions_are_peoples_work_too(world: World, touch: str) -> None:
    media_id = world.add_media()
    add(world, media_id, said("Hello.", speakers=["SPEAKER_00"]))
    if touch == "names":
        world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_00": "Ada"}))
    else:
        world.run(lambda tx: archive.import_captions(tx, media_id, captions.parse(VTT)))
    before = kept(world, media_id).id
    add(world, media_id, said("Heard again."))
    assert kept(world, media_id).id == before
    assert candidate(world, media_id) is not None


def test_a_candidate_can_be_taken_or_left(world: World) -> None:
    media_id = spoken(world, "First try.")
    edit(world, media_id, 0, seg_000001="Corrected.")
    add(world, media_id, said("Second try."))
    world.run(lambda tx: archive.dismiss_candidate(tx, media_id))
    assert candidate(world, media_id) is None
    add(world, media_id, said("Third try."))
    taken = accept(world, media_id)
    assert texts(taken) == ["Third try."]
    assert candidate(world, media_id) is None
    assert found(world, "third") == [(media_id, 0.0)]
    assert found(world, "corrected") == []
    with pytest.raises(errors.NotFound):
        world.run(lambda tx: archive.accept_candidate(tx, media_id, "", taken.revision))
    with pytest.raises(errors.NotFound):
        world.run(lambda tx: archive.dismiss_candidate(tx, media_id))


def test_what_a_job_has_heard_is_kept_once_and_stays_as_it_was(world: World) -> None:
    media_id = world.add_media()

    def heard(tx: Tx) -> str:
        return archive.add(
            tx, media_id=media_id, user_id="", job_id="job_1", transcript=said("As heard.")
        )

    assert world.run(heard) == world.run(heard)
    edit(world, media_id, 0, seg_000001="As corrected.")
    with world.db.read() as tx:
        of_job = archive.get_of_job(tx, "job_1")
        assert archive.get_of_job(tx, "job_2") is None
    assert of_job is not None
    assert (texts(of_job), of_job.revision) == (["As heard."], 0)


@pytest.mark.parametrize("edited", [False, True])
def test_who_was_ordered_earlier_and_comes_later_is_not_read(world: World, edited: bool) -> None:
    media_id = world.add_media()

    def hear(job_id: str, text: str) -> str:
        return world.run(
            lambda tx: archive.add(
                tx, media_id=media_id, user_id="", job_id=job_id, transcript=said(text)
            )
        )

    hear("job_2", "Ordered later.")
    if edited:
        edit(world, media_id, 0, seg_000001="Corrected.")
        hear("job_4", "Ordered last.")
    hear("job_1", "Ordered first.")
    hear("job_3" if edited else "job_0", "In between.")
    assert texts(kept(world, media_id)) == ["Corrected." if edited else "Ordered later."]
    other = candidate(world, media_id)
    assert (other and texts(other)) == (["Ordered last."] if edited else None)
    assert found(world, "first") == found(world, "between") == []
    with world.db.read() as tx:
        of_job = archive.get_of_job(tx, "job_1")
    assert of_job is not None
    assert texts(of_job) == ["Ordered first."]


def test_a_candidate_that_nobody_has_seen_is_not_taken(world: World) -> None:
    media_id = spoken(world, "First try.")
    edit(world, media_id, 0, seg_000001="Corrected.")
    seen = add(world, media_id, said("Second try."))
    newer = add(world, media_id, said("Third try."))

    def take(id: str, revision: int) -> Kept:
        return world.run(lambda tx: archive.accept_candidate(tx, media_id, id, revision))

    with pytest.raises(errors.WrongState):
        take(seen, 1)
    edit(world, media_id, 1, seg_000001="Corrected meanwhile.")
    with pytest.raises(errors.EditedMeanwhile):
        take(newer, 1)
    assert texts(kept(world, media_id)) == ["Corrected meanwhile."]
    assert texts(take(newer, kept(world, media_id).revision)) == ["Third try."]


def test_corrections_and_names_are_taken_over_into_a_newer_transcript(world: World) -> None:
    people = ["SPEAKER_00", "SPEAKER_01"]
    media_id = spoken(world, "He heard a deep.", "Then it was quiet.", speakers=people)
    edit(world, media_id, 0, seg_000001="He heard a beep.")
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_01": "Ada"}))
    newer = said("He heard a deep.", "Then all was quiet.", speakers=people[::-1])
    add(world, media_id, newer)
    before = kept(world, media_id)
    taken = merge(world, media_id)
    assert (
        texts(taken) == texts(kept(world, media_id)) == ["He heard a beep.", newer.segments[1].text]
    )
    assert taken.names == kept(world, media_id).names == {"SPEAKER_00": "Ada"}
    assert found(world, "beep") == [(media_id, 0.0)]
    assert found(world, "deep") == []
    with world.db.read() as tx:
        [revision] = archive.history(tx, media_id)
        heard = archive.at_revision(tx, media_id, taken.first_revision)
    assert (revision.reason, revision.user_id) == ("merged", "ada")
    assert texts(heard) == ["He heard a deep.", "Then all was quiet."]
    back = world.run(lambda tx: archive.restore(tx, media_id, before.id, taken.revision))
    assert (texts(back), back.names) == (texts(before), before.names)


def test_what_was_taken_over_is_taken_over_again(world: World) -> None:
    media_id = spoken(world, "He heard a deep.")
    edit(world, media_id, 0, seg_000001="He heard a beep.")
    for text in ("So he heard a deep.", "And so he heard a deep."):
        add(world, media_id, said(text))
        assert texts(merge(world, media_id)) == [text.replace("deep", "beep")]


def test_of_a_conflict_peoples_words_stay_unless_they_choose(world: World) -> None:
    for choices, expected in (({}, "He heard a beep."), ({0: "theirs"}, "He heard a peep.")):
        media_id = spoken(world, "He heard a deep.")
        edit(world, media_id, 0, seg_000001="He heard a beep.")
        add(world, media_id, said("He heard a peep."))
        assert texts(merge(world, media_id, cast("dict[int, Choice]", choices))) == [expected]


def test_corrections_from_before_a_trim_are_taken_over(world: World) -> None:
    media_id = spoken(world, "Cut off.", "He heard a deep.")
    edit(world, media_id, 0, seg_000002="He heard a beep.")
    world.run(lambda tx: archive.replace_cut(tx, media_id, shift=-10.0, end=None))
    add(world, media_id, said("He heard a deep."))
    assert texts(merge(world, media_id)) == ["He heard a beep."]


def test_who_names_a_speaker_while_somebody_accepts_loses_nothing(world: World) -> None:
    media_id = spoken(world, "He heard a deep.", speakers=["SPEAKER_00"])
    edit(world, media_id, 0, seg_000001="He heard a beep.")
    add(world, media_id, said("He heard a deep.", speakers=["SPEAKER_00"]))
    with world.db.read() as tx:
        made = archive.draft_merge(tx, media_id)()
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_00": "Ada"}))
    with pytest.raises(errors.WrongState):
        world.run(
            lambda tx: archive.accept_candidate(tx, media_id, made.candidate.id, 1, "ada", made)
        )
    assert merge(world, media_id).names == {"SPEAKER_00": "Ada"}


# Revisions


def test_a_revision_keeps_what_it_changes_and_no_more(world: World) -> None:
    media_id = spoken(world, *(f"sentence number {n}" for n in range(300)))
    edit(world, media_id, 0, seg_000001="first", seg_000300="last")
    [row] = world.rows("SELECT changes FROM transcript_revisions")
    assert len(row["changes"]) < 3000
    with world.db.read() as tx:
        [revision] = archive.history(tx, media_id)
    assert [each.segment_id for each in revision.changes] == ["seg_000001", "seg_000300"]


def test_an_edit_keeps_the_times_of_words_that_stay(world: World) -> None:
    media_id = spoken(world, "I scream for ice", "cream")
    changed = edit(world, media_id, 0, seg_000001="We scream for ice")
    words = [(word.word, word.start) for word in changed.transcript.words]
    assert words[1:] == [("scream", 1.0), ("for", 2.0), ("ice", 3.0), ("cream", 10.0)]
    assert changed.revision == 1
    assert changed.transcript.text == "We scream for ice cream"


def test_every_revision_can_be_read_again(world: World) -> None:
    media_id = spoken(world, "one two three", "four five six", "seven eight nine")
    documents = [kept(world, media_id).document]
    steps: list[dict[str, str]] = [
        {"seg_000002": "four 5 six"},
        {"seg_000001": ""},
        {"seg_000002": "four five", "seg_000003": "seven eight nine ten"},
        {"seg_000002": "日本語", "seg_000003": "a much longer sentence than it was before"},
    ]
    for revision, step in enumerate(steps):
        documents.append(edit(world, media_id, revision, **step).document)
    with world.db.read() as tx:
        again = [archive.at_revision(tx, media_id, n) for n in range(len(documents))]
        for number in (-1, len(documents)):
            with pytest.raises(errors.NotFound):
                archive.at_revision(tx, media_id, number)
    assert [each.document for each in again] == documents
    assert [each.revision for each in again] == list(range(len(documents)))


def test_the_history_tells_who_changed_what(world: World) -> None:
    media_id = spoken(world, "one", "two", "three")
    edit(world, media_id, 0, "usr_1", seg_000001="1", seg_000003="3")
    edit(world, media_id, 1, "usr_2", seg_000002="")
    with world.db.read() as tx:
        newest, oldest = archive.history(tx, media_id)
    assert (newest.number, newest.user_id, newest.reason) == (2, "usr_2", "edited")
    [gone] = newest.changes
    assert gone.segment_id == "seg_000002"
    assert gone.before is not None
    assert (gone.before.text, gone.after) == ("two", None)
    pairs = {
        each.segment_id: (each.before and each.before.text, each.after and each.after.text)
        for each in oldest.changes
    }
    assert pairs == {"seg_000001": ("one", "1"), "seg_000003": ("three", "3")}


def test_going_back_is_a_new_revision(world: World) -> None:
    media_id = spoken(world, "one", "two")
    original = kept(world, media_id).document
    edit(world, media_id, 0, seg_000001="1")
    edit(world, media_id, 1, seg_000002="")
    back = revert(world, media_id, 2, 0)
    assert (back.document, back.revision) == (original, 3)
    with world.db.read() as tx:
        assert archive.history(tx, media_id)[0].reason == "reverted"
    assert found(world, "two") == [(media_id, 10.0)]


def test_saying_the_same_again_is_no_revision(world: World) -> None:
    media_id = spoken(world, "one")
    assert edit(world, media_id, 0, seg_000001="one").revision == 0


def test_an_edit_of_an_older_revision_is_refused_and_told_the_newest(world: World) -> None:
    media_id = spoken(world, "one")
    edit(world, media_id, 0, seg_000001="1")
    with pytest.raises(errors.EditedMeanwhile) as refused:
        edit(world, media_id, 0, seg_000001="eins")
    assert refused.value.revision == 1
    with pytest.raises(errors.EditedMeanwhile):
        revert(world, media_id, 0, 0)
    assert texts(kept(world, media_id)) == ["1"]


def test_the_number_of_a_text_is_never_that_of_another(world: World) -> None:
    """Who edits what was replaced meanwhile hears of it, though both were never edited."""
    media_id = spoken(world, "First try.")
    add(world, media_id, said("Second try."))
    with pytest.raises(errors.EditedMeanwhile):
        edit(world, media_id, 0, seg_000001="Corrected first try.")
    edit(world, media_id, 1, seg_000001="Corrected second try.")
    add(world, media_id, said("Third try."))
    edit(world, media_id, 2, seg_000001="Corrected again.")
    taken = accept(world, media_id)
    assert taken.revision > 3
    with pytest.raises(errors.EditedMeanwhile):
        edit(world, media_id, 3, seg_000001="Corrected third try.")


def test_of_two_edits_at_once_one_wins_and_the_other_is_told(world: World) -> None:
    media_id = spoken(world, "one", "two")
    for revision in range(4):
        start = threading.Barrier(2)

        def change(segment: str, revision: int = revision, start: Any = start) -> Any:
            start.wait()
            try:
                return edit(world, media_id, revision, **{segment: f"by {segment} {revision}"})
            except errors.EditedMeanwhile as error:
                return error

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(change, ("seg_000001", "seg_000002")))
        [refused] = [each for each in answers if isinstance(each, errors.EditedMeanwhile)]
        assert refused.revision == revision + 1
    assert kept(world, media_id).revision == 4


def test_an_edit_and_a_new_transcript_at_once_lose_nothing(world: World) -> None:
    for _ in range(4):
        media_id = spoken(world, "one")
        start = threading.Barrier(2)

        def change(media_id: str = media_id, start: Any = start) -> bool:
            start.wait()
            try:
                edit(world, media_id, 0, seg_000001="corrected")
            except errors.EditedMeanwhile:
                return False
            return True

        def renew(media_id: str = media_id, start: Any = start) -> None:
            start.wait()
            add(world, media_id, said("heard anew"))

        with ThreadPoolExecutor(2) as pool:
            edited, _ = pool.submit(change), pool.submit(renew)
        other = candidate(world, media_id)
        if edited.result():
            assert texts(kept(world, media_id)) == ["corrected"]
            assert other is not None
        else:
            assert texts(kept(world, media_id)) == ["heard anew"]
            assert other is None


# Speakers


def test_speakers_are_named_and_unnamed_beside_the_document(world: World) -> None:
    media_id = spoken(world, "Hi.", "Hello.", speakers=["SPEAKER_00", "SPEAKER_01"])
    before = kept(world, media_id).document
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_00": "  Ada\n L. "}))
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_01": "Bob"}))
    assert kept(world, media_id).names == {"SPEAKER_00": "Ada L.", "SPEAKER_01": "Bob"}
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_00": ""}))
    after = kept(world, media_id)
    assert after.names == {"SPEAKER_01": "Bob"}
    assert (after.document, after.revision) == (before, 0)
    with pytest.raises(errors.BadField):
        world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_07": "Eve"}))


# How it goes on


def test_a_trim_moves_the_text_with_its_corrections_and_names(world: World) -> None:
    media_id = spoken(world, "one", "two", "three", speakers=["SPEAKER_00"])
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_00": "Ada"}))
    edit(world, media_id, 0, seg_000002="zwei")
    add(world, media_id, said("uno", "due", "tre"))
    world.run(lambda tx: archive.replace_cut(tx, media_id, shift=-10, end=10))
    after = kept(world, media_id)
    assert (texts(after), after.names) == (["zwei"], {"SPEAKER_00": "Ada"})
    assert after.transcript.segments[0].start == 0
    assert found(world, "zwei") == [(media_id, 0.0)]
    assert found(world, "three") == []
    other = candidate(world, media_id)
    assert other is not None
    assert texts(other) == ["due"]
    with world.db.read() as tx:
        assert texts(archive.at_revision(tx, media_id, 0)) == ["one", "two", "three"]
    assert texts(revert(world, media_id, after.revision, 0)) == ["two"]


def trim(world: World, media_id: str, shift: float, end: float | None) -> Kept:
    world.run(lambda tx: archive.replace_cut(tx, media_id, shift=shift, end=end))
    return kept(world, media_id)


def test_a_trim_that_is_taken_back_brings_all_corrections_back(world: World) -> None:
    media_id = spoken(world, "one", "two", "three")
    before = edit(world, media_id, 0, seg_000001="uno", seg_000003="tre")
    assert texts(trim(world, media_id, -10, 10)) == ["two"]
    assert texts(trim(world, media_id, 0, 20)) == ["two", "tre"]
    back = trim(world, media_id, 10, None)
    assert back.document == before.document
    assert found(world, "uno") == [(media_id, 0.0)]
    assert trim(world, media_id, 0, None).revision == back.revision


def test_what_was_corrected_before_a_trim_can_be_had_again_after_it(world: World) -> None:
    media_id = spoken(world, "one", "two", "three")
    before = edit(world, media_id, 0, seg_000001="uno")
    cut = trim(world, media_id, -10, 10)
    edit(world, media_id, cut.revision, seg_000002="due")
    back = trim(world, media_id, 10, None)
    assert texts(back) == ["due"]
    again = revert(world, media_id, back.revision, before.revision)
    assert again.document == before.document
    with world.db.read() as tx:
        assert texts(archive.at_revision(tx, media_id, cut.revision)) == ["two"]
        assert [each.reason for each in archive.history(tx, media_id)] == [
            *("reverted", "trimmed", "edited", "trimmed", "edited")
        ]


# What is put away


def test_corrections_to_what_is_not_heard_any_more_can_be_brought_back(world: World) -> None:
    media_id = spoken(world, "one", "two", speakers=["SPEAKER_00"])
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_00": "Ada"}))
    mine = edit(world, media_id, 0, seg_000001="uno")

    def lay_over(tx: Tx) -> None:
        media_store.set_edit(tx, media_id, '{"overlay":{"media_id":"med_1","sound":"both"}}')
        archive.drop(tx, media_id)

    world.run(lay_over)
    with world.db.read() as tx:
        [away] = archive.all_of(tx, media_id)
    assert (away.state, away.is_edited, away.is_outdated) == ("retired", True, True)
    add(world, media_id, said("other sound"))
    newest = kept(world, media_id)
    assert (texts(newest), newest.is_outdated) == (["other sound"], False)
    with pytest.raises(errors.EditedMeanwhile):
        world.run(lambda tx: archive.restore(tx, media_id, mine.id, 0))
    with pytest.raises(errors.NotFound):
        world.run(lambda tx: archive.restore(tx, media_id, "trn_other", newest.revision))
    world.run(lambda tx: media_store.set_edit(tx, media_id, None))
    back = world.run(lambda tx: archive.restore(tx, media_id, mine.id, newest.revision))
    assert (back.document, back.names, back.is_outdated) == (
        mine.document,
        {"SPEAKER_00": "Ada"},
        False,
    )
    assert found(world, "uno") == [(media_id, 0.0)]
    assert found(world, "sound") == []
    assert texts(revert(world, media_id, back.revision, 0)) == ["one", "two"]


def test_what_was_brought_back_is_numbered_on_behind_all_others(world: World) -> None:
    media_id = spoken(world, "one")
    mine = edit(world, media_id, 0, seg_000001="uno")
    add(world, media_id, said("eins"))
    taken = accept(world, media_id)
    last = edit(world, media_id, taken.revision, seg_000001="zwei").revision
    world.run(lambda tx: archive.restore(tx, media_id, mine.id, last))
    with pytest.raises(errors.EditedMeanwhile):
        edit(world, media_id, last, seg_000001="drei")
    assert edit(world, media_id, mine.revision, seg_000001="due").revision == last + 1
    with world.db.read() as tx:
        assert texts(archive.at_revision(tx, media_id, mine.revision)) == ["uno"]
        with pytest.raises(errors.NotFound):
            archive.at_revision(tx, media_id, last)


def test_what_was_dropped_can_be_brought_back_while_nothing_else_is_there(world: World) -> None:
    media_id = spoken(world, "one")
    mine = edit(world, media_id, 0, seg_000001="uno")
    world.run(lambda tx: archive.drop(tx, media_id))
    with pytest.raises(errors.WrongState):
        world.run(lambda tx: archive.restore(tx, media_id, mine.id, mine.revision))
    back = world.run(lambda tx: archive.restore(tx, media_id, mine.id, None))
    assert back.document == mine.document


def test_a_trim_alone_is_nobodys_work(world: World) -> None:
    media_id = spoken(world, "one", "two")
    world.run(lambda tx: archive.replace_cut(tx, media_id, shift=-10, end=None))
    add(world, media_id, said("Heard again."))
    assert texts(kept(world, media_id)) == ["Heard again."]


def test_imported_captions_are_read_at_once_but_replace_edits_only_if_told(world: World) -> None:
    media_id = spoken(world, "Machine's.")
    parsed = captions.parse(VTT)
    imported = world.run(lambda tx: archive.import_captions(tx, media_id, parsed))
    assert (imported.origin, texts(imported)) == ("imported", ["Brought along"])
    assert found(world, "brought") == [(media_id, 1.0)]
    edit(world, media_id, imported.revision, seg_000001="Brought and corrected")
    with pytest.raises(errors.WrongState):
        world.run(lambda tx: archive.import_captions(tx, media_id, parsed))
    world.run(lambda tx: archive.import_captions(tx, media_id, parsed, replace=True))
    assert texts(kept(world, media_id)) == ["Brought along"]


def test_every_change_is_told(world: World) -> None:
    media_id = spoken(world, "one", user_id="usr_1", speakers=["SPEAKER_00"])
    edit(world, media_id, 0, seg_000001="1")
    world.run(lambda tx: archive.rename_speakers(tx, media_id, {"SPEAKER_00": "Ada"}))
    add(world, media_id, said("eins"), user_id="usr_1")
    accept(world, media_id)
    rows = world.rows("SELECT * FROM events WHERE media_id = :id ORDER BY seq", id=media_id)
    assert [row["type"] for row in rows] == ["media.created"] + ["media.updated"] * 5
    assert {row["user_id"] for row in rows} == {"usr_1"}


def test_a_dropped_transcript_is_gone_from_everywhere(world: World) -> None:
    media_id = spoken(world, "one")
    world.run(lambda tx: archive.drop(tx, media_id))
    with world.db.read() as tx:
        assert archive.current(tx, media_id) is None
    assert found(world, "one") == []
    world.run(lambda tx: archive.drop(tx, media_id))


def test_a_deleted_media_has_no_transcript_and_a_purged_one_leaves_nothing(world: World) -> None:
    media_id = spoken(world, "one", title="Interview")
    edit(world, media_id, 0, seg_000001="1")
    world.run(lambda tx: library.delete(tx, world.queue, media_id))
    with world.db.read() as tx:
        assert archive.current(tx, media_id) is None
    with pytest.raises(errors.NotFound):
        edit(world, media_id, 1, seg_000001="eins")
    world.run(lambda tx: archive.purge(tx, media_id))
    for table in ("transcripts", "transcript_revisions", "moments", "moment_index"):
        assert world.rows(f"SELECT * FROM {table}") == []


def test_the_status_of_a_transcript_follows_its_jobs_and_the_text_itself(world: World) -> None:
    media_id = world.add_media()
    assert status(world, media_id) == "none"
    for end, expected in (("fail", "failed"), ("cancel", "failed"), ("complete", "ready")):
        job_id = world.enqueue("transcribe", media_id=media_id)
        assert status(world, media_id) == "pending"
        claim = world.claim(world.worker(kinds=["transcribe"]))
        assert status(world, media_id) == "processing"
        if end == "complete":
            world.complete(claim)
        else:
            world.cancel(job_id)
            world.fail(claim)
        assert status(world, media_id) == expected
    add(world, media_id, said("There it is."))
    world.cancel(world.enqueue("transcribe", media_id=media_id))
    assert status(world, media_id) == "ready"
    world.run(lambda tx: archive.drop(tx, media_id))
    assert status(world, media_id) == "failed"


def test_passages_of_ended_jobs_are_forgotten_after_a_while(world: World) -> None:
    live, ended = world.enqueue(), world.enqueue()
    world.cancel(ended)

    def keep(tx: Tx) -> None:
        for job_id in (live, ended):
            tx.all(
                "INSERT INTO passages (job_id, number, content, recorded_at)"
                " VALUES (:job_id, 0, 'null', {now})",
                job_id=job_id,
            )

    def forget(tx: Tx) -> int:
        return transcript_store.forget_passages(tx, keep_ms=1000)

    world.run(keep)
    assert world.run(forget) == 0
    world.advance(2)
    assert world.run(forget) == 1
    assert [row["job_id"] for row in world.rows("SELECT job_id FROM passages")] == [live]


def test_an_unknown_segment_is_refused(world: World) -> None:
    media_id = spoken(world, "one")
    with pytest.raises(errors.NotFound):
        edit(world, media_id, 0, seg_000009="?")
    before = kept(world, media_id)
    change = SegmentEdit(segment_id="seg_000001", speaker="SPEAKER_03")
    draft = archive.draft_edit(before, 0, [change])
    changed = world.run(lambda tx: archive.write(tx, before, "", draft))
    assert changed.transcript.words[0].speaker == "SPEAKER_03"
