"""Clips that all tests of a run share, whichever process they run in, and both kinds of ffmpeg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ffmpegs
from handlers.transcode.clips import Clips

# With this machine's ffmpeg: each thing that Rushes asks of one, and each kind of clip. The rest of
# all pairs is in `make soak`.
INSTALLED_TOO = (
    *(
        f"same_frames[installed-{clip}"
        for clip in ("phone-90.mp4", "interlaced.mkv", "varying.mp4")
    ),
    "every_screen_shows[installed-hdr10.mkv",
    "renditions_and_a_waveform[installed-music.mp3",
    "other_codecs_are_additional_renditions[installed-hevc",
    "a_trim_keeps_exactly_what_is_between[installed-later.ts",
    "sound_of_an_overlay_is_chosen[installed-both",
    "test_sound_that_is_damaged_in_the_middle_is_mended",
    "test_a_picture_that_cannot_be_decoded_is_refused",
    "a_list_of_other_files_is_no_media[installed-hls_master",
    "test_a_movie_whose_data_is_elsewhere_does_not_get_it",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "[installed" in item.nodeid and not any(each in item.nodeid for each in INSTALLED_TOO):
            item.add_marker(pytest.mark.thorough)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What makes something of a clip works with the ffmpeg that Rushes brings, and with that of
    the machine."""
    if "clips" in metafunc.fixturenames:
        metafunc.parametrize("tools", [ffmpegs.BUNDLED, ffmpegs.INSTALLED], indirect=True)


@pytest.fixture(autouse=True)
def tools(request: pytest.FixtureRequest) -> Iterator[str]:
    kind = getattr(request, "param", ffmpegs.BUNDLED)
    if kind == ffmpegs.BUNDLED:
        yield kind
        return
    with pytest.MonkeyPatch.context() as patch:
        ffmpegs.find_only(kind, patch)
        yield kind
    ffmpegs.forget()


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Clips:
    folder = tmp_path_factory.getbasetemp()
    return Clips((folder if worker_id == "master" else folder.parent) / "clips")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "made"
