from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rushes import errors
from rushes.jobs.job import NewJob
from rushes.media import edit, exports, media
from rushes.media.exports import Wanted
from rushes.protocol import Rendition

P720 = Rendition(name="720p", kind="video", height=720, bandwidth=2_500, codecs="avc1.64001f")
P360 = Rendition(name="360p", kind="video", height=360, bandwidth=600, codecs="avc1.64001f")
AUDIO = Rendition(name="audio", kind="audio", bandwidth=128, codecs="mp4a.40.2", default=True)
OTHER = Rendition(name="audio-1", kind="audio", bandwidth=256, codecs="opus", default=False)
ITEM = media.Media(
    id="med_1",
    user_id="usr_1",
    title="Holiday",
    description="",
    recorded_at=None,
    origin=media.Origin.UPLOAD,
    slug="holiday-1",
    kind="video",
    file_name="holiday.mov",
    content_type=None,
    size_bytes=1,
    sha256=None,
    source_key="sources/1",
    duration=60.0,
    share_token=None,
    current_version_id="ver_1",
    edit=edit.NOTHING,
    created_at=0,
    updated_at=None,
    deleted_at=None,
    forget_at=None,
    status=media.Status.READY,
    transcript_status=media.TranscriptStatus.READY,
)
ALL = (P360, P720, OTHER, AUDIO)


def plan(found: Any = ALL, *, ready: bool = True, transcript: bool = True, **wanted: Any) -> NewJob:
    item = replace(ITEM, current_version_id="ver_1" if ready else None)
    return exports.plan(
        item, Wanted(**{"format": "mp4", **wanted}), found, has_transcript=transcript
    )


def test_the_best_is_taken_unless_one_is_named() -> None:
    assert plan().args == {
        "format": "mp4",
        "rendition": "720p",
        "picture": "720p",
        "sound": "audio",
        "is_aac": True,
        "start": 0.0,
        "burn_captions": False,
        "exact": False,
        "seconds": 60.0,
        "version_id": "ver_1",
        "key": plan().args["key"],
        "name": "holiday-1_720p.mp4",
    }
    assert plan(rendition="360p").args["picture"] == "360p"
    sound = plan(format="m4a").args
    assert (sound["sound"], sound["name"]) == ("audio", "holiday-1.m4a")
    assert "picture" not in sound
    other = plan(format="mp3", rendition="audio-1").args
    assert (other["sound"], other["is_aac"]) == ("audio-1", False)
    assert "sound" not in plan([P360]).args


def test_a_clip_says_so_in_its_name() -> None:
    made = plan(start=62.5 - 60, end=10, burn_captions=True).args
    assert made["name"] == "holiday-1_720p_0m02.500s-0m10s_captions.mp4"
    assert made["seconds"] == 7.5
    # The end is the end, said or not.
    assert plan(end=60).args == plan(end=60.001).args == plan().args
    assert media.check_artifact_name(made["name"]) == "video/mp4"


def test_what_is_asked_for_alike_has_one_place_and_all_else_another() -> None:
    keys = [
        plan(**wanted).args["key"]
        for wanted in (
            {},
            {"rendition": "360p"},
            {"format": "m4a"},
            {"start": 1},
            {"end": 59},
            {"burn_captions": True},
        )
    ]
    assert len({*keys}) == len(keys)
    assert plan(rendition="720p").dedupe_key == plan().dedupe_key


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("end", {"start": 10, "end": 10}),
        ("end", {"start": 10, "end": 5}),
        ("end", {"end": 61}),
        ("start", {"start": 60}),
        ("start", {"start": 100, "end": 200}),
        ("rendition", {"rendition": "1080p"}),
        ("rendition", {"rendition": "audio"}),
        ("rendition", {"format": "m4a", "rendition": "720p"}),
        ("format", {"found": [AUDIO]}),
        ("format", {"found": [P720], "format": "mp3"}),
        ("burn_captions", {"format": "m4a", "burn_captions": True}),
    ],
)
def test_what_cannot_be_names_its_field(field: str, wanted: dict[str, Any]) -> None:
    with pytest.raises(errors.BadField) as refused:
        plan(**wanted)
    assert refused.value.field == field


def test_what_is_not_there_yet_is_a_matter_of_time() -> None:
    with pytest.raises(errors.WrongState, match="wait until it can be watched"):
        plan(ready=False)
    with pytest.raises(errors.WrongState, match="no transcript"):
        plan(burn_captions=True, transcript=False)
