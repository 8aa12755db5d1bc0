"""Some qualities are made again, and the others go on as they are: one version, of old and new."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handlers.transcode.test_resume import film, media, upload, wait_until
from handlers.transcode.test_server import current, ready, remote_worker
from handlers.transcode.test_spans import decoded_frames, jobs
from running import Process, Running

pytestmark = pytest.mark.timeout(240)

H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-c:a", "aac")
# What is kept is listed, however many bits it needs.
QUICK = {"preset": "ultrafast", "original_bitrate": 100_000}
RUNGS = [{"height": 180, "bitrate": 400}, {"height": 90, "bitrate": 200}]


def clip(folder: Path, seconds: int = 3) -> Path:
    return film(folder / "film.mp4", seconds, "320x180", *H264)


def files(server: Running, media_id: str) -> dict[str, str]:
    """By name the keys of what the current version has."""
    with server.rushes.db.read() as tx:
        rows = tx.all(
            "SELECT artifacts.* FROM artifacts JOIN media ON version_id = current_version_id"
            " WHERE media.id = :id AND retired_at IS NULL",
            id=media_id,
        )
    return {row["name"]: row["key"] for row in rows}


def of(files: dict[str, str], *renditions: str) -> dict[str, str]:
    return {name: key for name, key in files.items() if name.split("/")[0] in renditions}


def completed(found: dict[str, Any]) -> set[str]:
    return {each["name"] for each in found["renditions"] if each["status"] == "completed"}


def again(server: Running, media_id: str, **body: Any) -> dict[str, Any]:
    old = current(server, media_id)
    with server.client() as admin:
        asked = admin.post(f"/media/{media_id}/retranscode", json=body)
        assert asked.status_code == 202, asked.text
    wait_until(lambda: current(server, media_id) != old)
    return ready(server, media_id)


def read(admin: httpx2.Client, media_id: str, name: str) -> str:
    answer = admin.get(f"/media/{media_id}/stream/{name}", follow_redirects=True)
    assert answer.status_code == 200, name
    return answer.text


def check_playable(server: Running, media_id: str) -> None:
    """Whatever the playlists name is there, and all renditions change segments at once."""
    with server.client() as admin:
        master = read(admin, media_id, "master.m3u8")
        lists = re.findall(r'^\S+playlist\.m3u8$|(?<=URI=")[^"]+m3u8', master, re.MULTILINE)
        pictures = [name for name in lists if not name.startswith(("audio", "subtitles"))]
        lengths = []
        for name in lists:
            text = read(admin, media_id, name)
            folder = name.split("/")[0]
            for file in ["init.mp4", *re.findall(r"^seg_\d+\.m4s$", text, re.MULTILINE)]:
                address = f"/media/{media_id}/stream/{folder}/{file}"
                assert admin.get(address, follow_redirects=True).status_code == 200, address
            if name in pictures:
                lengths.append(re.findall(r"#EXTINF:([\d.]+)", text))
        assert len(lengths) > 1
        assert all(each == lengths[0] for each in lengths)
        manifest = read(admin, media_id, "manifest.mpd")
        assert all(name.split("/")[0] in manifest for name in lists)


@pytest.mark.parametrize("where", ["here", "remote"])
def test_only_the_named_quality_is_made_again_and_the_others_stay(
    serve: Callable[..., Running], tmp_path: Path, where: str
) -> None:
    server = serve(transcodes=where == "here", purge_grace=0)
    with remote_worker(server, tmp_path / "one") if where == "remote" else nullcontext():
        media_id = upload(server, clip(tmp_path), ladder=RUNGS, **QUICK)
        before = ready(server, media_id)
        old, old_id = files(server, media_id), current(server, media_id)
        with server.client() as admin:
            master = read(admin, media_id, "master.m3u8")
        after = again(server, media_id, qualities=["90p"])
    new = files(server, media_id)
    kept = ("180p", "original", "audio", "thumbnail.jpg", "storyboard.vtt")
    assert of(new, *kept) == of(old, *kept)
    assert set(new) == set(old)
    assert not set(of(new, "90p").values()) & set(of(old, "90p").values())
    assert completed(after) == completed(before) == {"180p", "90p", "original"}
    assert after["warnings"] == before["warnings"] == []
    assert after["duration"] == before["duration"]
    for name in ("copy_bytes", "source_bytes"):
        assert after["storage"][name] == before["storage"][name]
    assert after["storage"]["rungs_bytes"] == pytest.approx(before["storage"]["rungs_bytes"], 0.01)

    # The version before goes, and takes nothing along that this one has.
    wait_until(lambda: state(server, old_id) == "purged")
    stored = {entry.key for entry in server.rushes.storage.list("media")}
    assert stored == set(new.values())
    check_playable(server, media_id)
    with server.client() as admin:
        shown = read(admin, media_id, "master.m3u8")
    assert re.sub(r"BANDWIDTH=\d+", "", shown) == re.sub(r"BANDWIDTH=\d+", "", master)


def state(server: Running, version_id: str | None) -> str | None:
    with server.rushes.db.read() as tx:
        row = tx.one("SELECT state FROM versions WHERE id = :id", id=version_id)
    return row["state"] if row else None


def test_a_quality_is_added_to_what_was_trimmed(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    server = serve(transcodes=True)
    media_id = upload(server, clip(tmp_path, 4), ladder=RUNGS[:1], **QUICK)
    ready(server, media_id)
    with server.client() as admin:
        assert admin.post(f"/media/{media_id}/trim", json={"start": 1}).status_code == 202
        trimmed = ready(server, media_id)
        assert completed(trimmed) == {"180p"}
        old = files(server, media_id)
        settings = {"segment_seconds": 1, "preset": "ultrafast", "ladder": RUNGS}
        assert admin.put("/profiles/test", json=settings).is_success
        for name in ("360p", "original", "audio"):
            refused = admin.post(f"/media/{media_id}/retranscode", json={"qualities": [name]})
            assert refused.status_code == 422
            assert "known are 180p, 90p" in refused.json()["detail"]
    after = again(server, media_id, qualities=["90p"])
    assert completed(after) == {"180p", "90p"}
    assert after["duration"] == trimmed["duration"]
    assert of(files(server, media_id), "180p", "audio") == of(old, "180p", "audio")
    check_playable(server, media_id)
    # The version that it is made of can be without them, too.
    dropped = again(server, media_id, qualities=["90p"], keep_others=False)
    assert completed(dropped) == {"90p"}


def test_segments_of_another_length_cannot_be_mixed(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    server = serve(transcodes=True)
    media_id = upload(server, clip(tmp_path), ladder=RUNGS, **QUICK)
    ready(server, media_id)
    old = files(server, media_id)
    with server.client() as admin:
        longer = {"name": "longer", "segment_seconds": 2, "ladder": RUNGS, **QUICK}
        assert admin.post("/profiles", json=longer).is_success
    after = again(server, media_id, profile="longer", qualities=["90p"])
    assert completed(after) >= {"180p", "90p"}
    said = [(each["code"], each["message"]) for each in after["warnings"]]
    why = "180p had to be made again, too: segments have another length now"
    assert said == [("made_anew", why)]
    assert not set(old.values()) & set(files(server, media_id).values())
    check_playable(server, media_id)


def test_what_is_damaged_is_made_again_too(serve: Callable[..., Running], tmp_path: Path) -> None:
    server = serve(transcodes=True)
    media_id = upload(server, clip(tmp_path), ladder=RUNGS, **QUICK)
    ready(server, media_id)
    old = files(server, media_id)
    path = server.rushes.storage.local_path(old["180p/seg_00001.m4s"])
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    after = again(server, media_id, qualities=["90p"])
    assert completed(after) == {"180p", "90p", "original"}
    assert [each["code"] for each in after["warnings"]] == ["made_anew"]
    new = files(server, media_id)
    assert of(new, "original", "audio") == of(old, "original", "audio")
    assert new["180p/seg_00000.m4s"] != old["180p/seg_00000.m4s"]
    # Whoever still watches the old version finds all of it.
    assert all(server.rushes.storage.size(key) for key in old.values())
    check_playable(server, media_id)


def test_spans_make_only_what_was_asked_for(serve: Callable[..., Running], tmp_path: Path) -> None:
    server = serve(transcodes=True, transcode_workers=2)
    options = {**QUICK, "divide_after": 3, "span_seconds": 2}
    media_id = upload(server, film(tmp_path / "film.avi", 6), ladder=RUNGS, **options)
    ready(server, media_id)
    old, spans = files(server, media_id), len(jobs(server, kind="span"))
    again(server, media_id, qualities=["180p"])
    new = jobs(server, kind="span")
    assert len(new) == 2 * spans > 0
    assert [each["args"]["qualities"] for each in new[:spans]] == [["180p"]] * spans
    assert of(files(server, media_id), "90p", "audio") == of(old, "90p", "audio")
    assert decoded_frames(server, media_id, "180p") == 6 * 25
    check_playable(server, media_id)


def test_killed_in_the_middle_it_goes_on_with_what_it_took_over(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    server = process(claim_duration=600, heartbeat_interval=60, purge_grace=0)
    source = film(tmp_path / "film.avi", 8)
    media_id = upload(server, source, ladder=RUNGS, preset="ultrafast")
    wait_until(lambda: media(server, media_id)["status"] == "ready")
    kept = stored(server, "90p")
    assert len(kept) == 8
    with server.client() as admin:
        slow = {"name": "slow", "segment_seconds": 1, "ladder": RUNGS, "preset": "slower"}
        assert admin.post("/profiles", json=slow).is_success
        body = {"profile": "slow", "qualities": ["180p"]}
        job = admin.post(f"/media/{media_id}/retranscode", json=body).json()["id"]
        wait_until(lambda: len(stored(server, "180p")) >= 8 + 3)
    server.kill()
    begun = stored(server, "180p")
    server.start()
    with server.client() as admin:
        read(admin, media_id, "90p/seg_00007.m4s")
        wait_until(lambda: admin.get(f"/jobs/{job}").json()["status"] == "completed")
        # Those of the version before are gone; what the first attempt had made is still there.
        wait_until(lambda: len(stored(server, "180p")) == 8)
        assert len(set(begun.items()) & set(stored(server, "180p").items())) >= 3
        assert stored(server, "90p") == kept
        assert completed(media(server, media_id)) == {"180p", "90p"}
        for rung in ("180p", "90p"):
            for number in range(8):
                read(admin, media_id, f"{rung}/seg_{number:05d}.m4s")


def stored(server: Process, rung: str) -> dict[str, int]:
    """Its segments, by where they lie; some may be removed at this moment."""
    found = {}
    for folder, _, names in os.walk(server.data_dir / "storage"):
        if Path(folder).name == rung:
            for name in names:
                path = Path(folder, name)
                if path.match("seg_*.m4s"):
                    with suppress(FileNotFoundError):
                        found[str(path)] = path.stat().st_mtime_ns
    return found
