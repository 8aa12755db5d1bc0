"""What follows what, and how names and titles from outside are tamed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import errors
from rushes.media import media, pipeline
from rushes.media.media import ProcessingOptions

SETTINGS = {"crf": 20}


def test_a_new_media_is_encoded_and_transcribed_at_the_same_time() -> None:
    options = ProcessingOptions(profile="small", language="de", diarize=True)
    transcode, transcribe = pipeline.first_jobs("med_1", "usr_1", options, "small", SETTINGS)
    assert (transcode.kind, transcode.args) == (
        "transcode",
        {"profile": "small", "settings": SETTINGS},
    )
    assert (transcribe.kind, transcribe.args) == ("transcribe", {"language": "de", "diarize": True})
    assert {transcode.parent_id, transcribe.parent_id} == {None}
    assert transcode.dedupe_key != transcribe.dedupe_key


def test_whoever_wants_no_transcript_gets_none() -> None:
    options = ProcessingOptions(transcribe=False)
    jobs = pipeline.first_jobs("med_1", "usr_1", options, "default", SETTINGS)
    assert [job.kind for job in jobs] == ["transcode"]


def test_what_is_only_to_be_heard_is_not_encoded() -> None:
    options = ProcessingOptions(
        transcode=False, diarize=True, speech={"model": "whisper-tiny", "task": None}
    )
    [job] = pipeline.first_jobs("med_1", "usr_1", options, "default", SETTINGS)
    assert (job.kind, job.args) == ("transcribe", {"diarize": True, "model": "whisper-tiny"})


def test_one_version_of_a_media_is_made_at_a_time_whatever_for() -> None:
    jobs = [pipeline.version(kind, "med_1", "usr_1", {}) for kind in pipeline.MAKES_VERSION]
    assert len({job.dedupe_key for job in jobs}) == 1
    assert jobs[0].dedupe_key != pipeline.version("trim", "med_2", "usr_1", {}).dedupe_key


@pytest.mark.parametrize(
    ("kind", "args", "renews"),
    [
        ("trim", {}, True),
        ("composite", {}, True),
        ("transcode", {}, False),
        ("transcode", {"drop_transcript": True}, True),
        ("span", {"drop_transcript": True}, False),
        ("demo", {}, False),
    ],
)
def test_other_sound_is_transcribed_again(kind: str, args: dict[str, bool], renews: bool) -> None:
    assert pipeline.renews_transcript(kind, args) is renews


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("holiday.mov", "holiday"),
        ("C:\\films\\My_holiday 2.final.mp4", "My holiday 2.final"),
        ("../../etc/passwd", "passwd"),
        (".mp4", ".mp4"),
        ("", "Untitled"),
        ("\x00\x07", "Untitled"),
        ("noend", "noend"),
    ],
)
def test_a_title_is_made_of_any_file_name(name: str, title: str) -> None:
    assert media.title_of(name) == title


@given(st.text(max_size=400))
def test_a_title_has_one_line_and_nothing_that_is_obeyed(text: str) -> None:
    try:
        title = media.check_title(text)
    except errors.BadField:
        return
    assert title == title.strip()
    assert len(title.splitlines()) == 1
    assert all(char.isprintable() for char in title)
    assert media.check_title(title) == title


@given(st.text(max_size=400))
def test_a_slug_is_plain(title: str) -> None:
    slug = media.slug_of(title, "med_0198a3b4c5d6e7f8")
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert slug.endswith("d6e7f8")
    assert len(slug) <= 67


@pytest.mark.parametrize(
    ("encoder", "needs"), [("auto", ["gpu?"]), ("nvenc", ["nvenc?"]), ("software", [])]
)
def test_new_versions_prefer_the_hardware_their_profile_asks_for(
    encoder: str, needs: list[str]
) -> None:
    job = pipeline.version(pipeline.TRIM, "med_1", "ada", {"settings": {"encoder": encoder}})
    assert list(job.needs) == needs
