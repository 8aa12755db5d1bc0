"""A quality that cannot be made is told of, and keeps nobody from watching the others."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handlers.transcode import checks, encoding
from handlers.transcode.checks import Version
from handlers.transcode.clips import Clips
from handlers.transcode.test_qualities import H264, QUICK, RUNGS, again, completed, files
from handlers.transcode.test_resume import film, upload, wait_until
from handlers.transcode.test_server import current, ready
from handlers.transcode.test_spans import decoded_frames, jobs
from running import Running
from rushes import errors
from rushes.tools import programs

pytestmark = pytest.mark.timeout(240)

# An encoder that cannot do pictures of some heights: all of them, those of more than one segment,
# or those behind the first few segments.
PICKY = """#!{python}
import os, sys
real, heights, when, argv = {real!r}, {heights!r}, {when!r}, sys.argv[1:]
graph = argv[argv.index("-filter_complex") + 1] if "libx264" in argv else ""
with open({runs!r}, "a") as runs:
    runs.write("encode\\n" if graph else "")
if any(f":{{height}}" in graph for height in heights) and (
    when == "always"
    or when == "long" and "," in argv[argv.index("-force_key_frames") + 1]
    or when == "late" and int(argv[argv.index("-fragment_index") + 1]) > 2
):
    sys.exit("[libx264 @ 0x5] cannot open /etc/shadow: it is too small for me")
os.execv(real, [real, *argv])
"""


@pytest.fixture
def picky(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Returns what counts its runs."""
    real = programs.ffmpeg()

    def install(*heights: int, when: str = "always") -> Path:
        path, runs = tmp_path / "picky-ffmpeg", tmp_path / "runs"
        words: dict[str, Any] = {"real": real, "heights": heights, "when": when, "runs": str(runs)}
        path.write_text(PICKY.format(python=sys.executable, **words))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        programs.use(ffmpeg=str(path))
        return runs

    yield install
    programs.use()


def rows(made: encoding.Made) -> dict[str, dict[str, Any]]:
    detail = [report.detail for report in made.reports if report.detail][-1]
    return {each["name"]: each for each in detail["renditions"]}


@pytest.mark.parametrize(("when", "runs"), [("always", 1 + 2 + 1), ("long", 1 + 2 + 2)])
def test_a_rung_that_fails_is_left_out_and_the_others_are_made(
    picky: Callable[..., Path], clips: Clips, target: Path, when: str, runs: int
) -> None:
    counted = picky(90, when=when)
    made = encoding.make(clips["ntsc.mp4"], target)
    version = Version(target)
    checks.check(version)
    assert [len(each.frames) for each in version.videos] == [90]
    assert made.result["renditions"] == ["180p"]
    failed = rows(made)["90p"]
    assert (failed["status"], failed["segments_completed"]) == ("failed", 0)
    assert failed["error_message"].endswith("ended with status 1")
    assert made.result["warnings"] == [f"90p could not be made: {failed['error_message']}"]
    assert not (target / "90p").exists()
    # All at once, each with one segment, and then those that can be made.
    assert len(counted.read_text().split()) == runs


def test_when_all_fail_so_does_the_job(
    picky: Callable[..., Path], clips: Clips, target: Path
) -> None:
    picky(180, 90)
    with pytest.raises(errors.TransientFailure) as raised:
        encoding.make(clips["ntsc.mp4"], target)
    assert raised.value.message == "encoding the picture ended with status 1"
    assert not (target / "master.m3u8").exists()


def test_people_see_which_quality_has_failed_and_when_the_others_were_made(
    serve: Callable[..., Running], picky: Callable[..., Path], tmp_path: Path
) -> None:
    server = serve(transcodes=True)
    picky(90)
    media_id = upload(
        server, film(tmp_path / "film.mp4", 3, "320x180", *H264), ladder=RUNGS, **QUICK
    )
    found = ready(server, media_id)
    (job,) = jobs(server, kind="transcode")
    assert job["attempt"] == 1
    for told in (found, job):
        known = {each["name"]: each for each in told["renditions"]}
        assert known["90p"]["status"] == "failed"
        assert known["90p"]["error_message"] == "its encoder ended with status 1"
        assert known["90p"]["started_at"] is not None
        assert known["90p"]["completed_at"] is None
        made = known["180p"]
        assert made["error_message"] is None
        assert job["started_at"] <= made["started_at"] <= made["completed_at"]
        assert made["completed_at"] <= job["completed_at"]
    (warning,) = found["warnings"]
    assert warning["code"] == "quality_failed"
    with server.client() as admin:
        master = admin.get(f"/media/{media_id}/stream/master.m3u8", follow_redirects=True).text
        assert "180p/" in master
        assert "90p/" not in master
        log = admin.get(f"/jobs/{job['id']}/logs").text
        assert "too small for me" in log
        assert "/etc/shadow" not in log
    # Repaired, it is added; what is there keeps the time at which it was made.
    programs.use()
    after = {
        each["name"]: each for each in again(server, media_id, qualities=["90p"])["renditions"]
    }
    assert after["90p"]["status"] == "completed"
    assert after["90p"]["error_message"] is None
    assert after["180p"]["completed_at"] == made["completed_at"] < after["90p"]["started_at"]


def test_a_quality_that_cannot_be_made_again_leaves_the_version_as_it_is(
    serve: Callable[..., Running], picky: Callable[..., Path], tmp_path: Path
) -> None:
    server = serve(transcodes=True, max_attempts=1)
    media_id = upload(
        server, film(tmp_path / "film.mp4", 2, "320x180", *H264), ladder=RUNGS, **QUICK
    )
    ready(server, media_id)
    old, version = files(server, media_id), current(server, media_id)
    picky(90)
    with server.client() as admin:
        body = {"qualities": ["90p"]}
        job = admin.post(f"/media/{media_id}/retranscode", json=body).json()["id"]
        wait_until(lambda: admin.get(f"/jobs/{job}").json()["status"] == "failed")
    assert (current(server, media_id), files(server, media_id)) == (version, old)


def test_what_a_span_cannot_make_is_left_out_of_the_whole(
    serve: Callable[..., Running], picky: Callable[..., Path], tmp_path: Path
) -> None:
    server = serve(transcodes=True, max_attempts=1)
    picky(90, when="late")
    options = {**QUICK, "divide_after": 3, "span_seconds": 2}
    media_id = upload(server, film(tmp_path / "film.avi", 6), ladder=RUNGS, **options)
    found = ready(server, media_id)
    assert completed(found) == {"180p"}
    assert {each["status"] for each in jobs(server, kind="span")} == {"completed"}
    (failed,) = [each for each in found["renditions"] if each["name"] == "90p"]
    assert failed["error_message"] == "a part of it could not be encoded"
    assert decoded_frames(server, media_id, "180p") == 6 * 25
    assert not [name for name in files(server, media_id) if name.startswith(("90p", "failed"))]
