"""Recordings as people have them are true in every rung, and in the players that people use."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError

from ffmpegs import BUNDLED, INSTALLED
from handlers.transcode import checks, encoding, fragments
from handlers.transcode.checks import IN_STEP_SECONDS, Rendition, Version, near
from handlers.transcode.corpus import ALWAYS, FLASHES, RECORDINGS, WORDS, Corpus, Recording
from handlers.transcode.players import PLAYERS, Player, served

# As in the default profile: the preset that reorders frames, and its segments.
SETTINGS = {"preset": "veryfast", "segment_seconds": 4}
BEFORE_SECONDS = 0.04
LENGTH_SECONDS = 0.1
ODDEST = ("screen.mp4", "open-gop.mp4", "time-lapse.mp4", "long-sound.mp4")
INSTALLED_TOO = ("screen.mp4", "trimmed.mp4")
OTHERS = ("shaka", "dash.js")

pytestmark = pytest.mark.timeout(240)


class Versions:
    """What Rushes makes of the corpus with one ffmpeg or the other, once for all tests of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "versions"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sources = Corpus(folder / "corpus")

    def get(self, name: str, tools: str) -> tuple[Version, dict[str, Any]]:
        folder = self.folder / tools
        folder.mkdir(exist_ok=True)
        target, result = folder / name, folder / f"{name}.json"
        with (folder / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not result.exists():
                made = encoding.make(self.sources[name], target, settings=SETTINGS)
                result.write_text(json.dumps(made.result))
        return Version(target), json.loads(result.read_text())


@pytest.fixture(scope="session")
def versions(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Versions:
    folder = tmp_path_factory.getbasetemp()
    return Versions(folder if worker_id == "master" else folder.parent)


@pytest.fixture(scope="session")
def address(versions: Versions) -> Iterator[str]:
    with served(versions.folder) as found:
        yield found


# Without a player


def made() -> list[Any]:
    return [
        pytest.param(tools, name, marks=[] if is_quick else [pytest.mark.thorough])
        for tools in (BUNDLED, INSTALLED)
        for name in RECORDINGS
        for is_quick in [name in (ALWAYS if tools == BUNDLED else INSTALLED_TOO)]
    ]


@pytest.mark.parametrize(("tools", "name"), made(), indirect=["tools"])
def test_a_recording_is_true_in_every_rung(name: str, tools: str, versions: Versions) -> None:
    recording = RECORDINGS[name]
    version, result = versions.get(name, tools)
    checks.check(version)
    check_in_step(version, recording)
    for rendition in [*version.videos, *version.sounds, *unlisted_copy(version)]:
        check_samples(rendition)
    assert result["duration"] == near(recording.seconds, recording.within)
    if recording.is_video:
        check_whole(version, result, recording, versions.sources[name])


def unlisted_copy(version: Version) -> list[Rendition]:
    """What could be watched while the rest was made."""
    folder = version.folder / "original"
    is_there = (folder / "playlist.m3u8").exists() and "original" not in version.names
    return [Rendition(folder)] if is_there else []


def check_in_step(version: Version, recording: Recording) -> None:
    for video in [*version.videos, *unlisted_copy(version)]:
        shown = checks.flashes(video.frames)
        assert shown == [near(at, IN_STEP_SECONDS) for at in recording.flashes], video.name
        for sound in version.sounds:
            heard = checks.beeps(sound.samples)
            together = [at for at in heard if near(at, 0.5) in shown]
            alone = [at for at in shown if near(at, 0.5) in heard]
            assert alone == [near(at, IN_STEP_SECONDS) for at in together], video.name
    for sound in version.sounds:
        heard = checks.beeps(sound.samples)
        assert heard == [near(at, IN_STEP_SECONDS) for at in recording.beeps], sound.name


def check_samples(rendition: Rendition) -> None:
    """The playlist says what the samples say; every segment can be the first to be played."""
    ticks = fragments.scale(rendition.init)
    # Players that read no edit lists would show everything late.
    assert all(0 <= edit <= ticks for edit in fragments.edits(rendition.init))
    longest = max(rendition.seconds)
    assert round(longest) <= rendition.playlist.target_duration
    is_picture = rendition.stream["codec_type"] == "video"
    for number, segment in enumerate(rendition.playlist.segments):
        found = list(fragments.fragments((rendition.folder / segment.uri).read_bytes()))
        length = sum(each.duration for one in found for each in one.samples) / ticks
        last = number + 1 == len(rendition.playlist.segments)
        assert segment.duration == near(length, 0.002 if not last else 0.05), (number, length)
        if is_picture and rendition.stream["codec_name"] == "h264":
            assert found[0].first_slice == fragments.IDR, number


def check_whole(
    version: Version, result: dict[str, Any], recording: Recording, source: Path
) -> None:
    """No frame is missing, and picture and sound end together."""
    expected = len(checks.frames_of("-i", str(source))) * recording.pace
    for video in version.videos:
        shown = [frame.seconds for frame in video.frames]
        assert shown == sorted(set(shown))
        assert sum(video.seconds) == near(recording.seconds, recording.within), video.name
        assert len(shown) >= expected, video.name
    assert result["frames"] >= expected


def test_the_check_sees_a_tenth_of_a_second(tools: str, versions: Versions) -> None:
    version, _ = versions.get("wrong.mp4", tools)
    with pytest.raises(AssertionError):
        check_in_step(version, RECORDINGS["steady.mp4"])


# In players


def plays() -> list[Any]:
    """All of them in the player of our own pages, the oddest in the others too."""
    return [
        pytest.param(name, player, marks=[] if is_quick(name, player) else [pytest.mark.thorough])
        for name in RECORDINGS
        for player in PLAYERS
    ]


def is_quick(name: str, player: str) -> bool:
    return name in ALWAYS and (player == "hls.js" or (name in ODDEST and player in OTHERS))


@pytest.mark.parametrize(("name", "player"), plays())
def test_a_recording_plays_and_seeks(
    name: str, player: str, tools: str, versions: Versions, address: str, browser: Browser
) -> None:
    recording = RECORDINGS[name]
    version, _ = versions.get(name, tools)
    shown = Player.open(browser, player, f"{address}/{tools}/{name}")
    try:
        about = shown.about
        assert about["duration"] == near(recording.seconds, LENGTH_SECONDS)
        assert bool(about["width"]) == recording.is_video
        assert about["rungs"] == len(version.master.playlists)
        check_tracks(shown, recording)
        shown.play(0.3)
        # While it plays: dash.js shows none before.
        check_words(shown, recording)
        shown.pin(about["rungs"] - 1)
        check_seek(shown, recording, -2)
        shown.pin(0)
        check_seek(shown, recording, -1)
        for number in range(len(recording.sounds)):
            check_sound(shown, recording, number)
        check_end(shown, recording)
        assert shown.fatal == []
    finally:
        shown.page.close()


def check_seek(player: Player, recording: Recording, number: int) -> None:
    """To one of the flashes, or where there is none to a beep."""
    if len(recording.flashes) >= -number:
        at = recording.flashes[number]
        player.look(at - BEFORE_SECONDS, bright=False)
        player.look(at + recording.glimpse, bright=True)
    else:
        player.seek(recording.beeps[number])
    player.play(0.2)


def check_end(player: Player, recording: Recording) -> None:
    # Not onto the last frame of all: Chromium takes that for the end.
    player.seek(recording.seconds - 1.2)
    assert player.end() == near(recording.seconds, LENGTH_SECONDS)


def check_tracks(player: Player, recording: Recording) -> None:
    if player.about["sounds"] or len(recording.sounds) > 1:
        assert player.about["sounds"] == list(recording.sounds)
        assert player.about["sound"] == recording.default
    assert player.about["subtitles"] == list(recording.subtitles)


def check_words(player: Player, recording: Recording) -> None:
    for number in range(len(recording.subtitles)):
        word = WORDS[number][1]
        found = player.words(number)
        assert [text for *_, text in found] == [f"{word} {n}" for n in range(1, len(FLASHES) + 1)]
        assert [begin for begin, *_ in found] == [near(at, 0.01) for at in FLASHES]


def check_sound(player: Player, recording: Recording, number: int) -> None:
    """Another language goes on from where the one before was."""
    if len(recording.sounds) > 1:
        player.choose(number)
        player.seek(recording.beeps[0])
        player.play(0.5)
        assert player.sound == number


def test_a_player_shows_a_tenth_of_a_second(
    tools: str, versions: Versions, address: str, browser: Browser
) -> None:
    """The check of the players can fail."""
    versions.get("wrong.mp4", tools)
    shown = Player.open(browser, "hls.js", f"{address}/{tools}/wrong.mp4")
    try:
        shown.page.evaluate("patience = 2000")
        with pytest.raises(BrowserError, match="not bright"):
            check_seek(shown, RECORDINGS["steady.mp4"], -1)
    finally:
        shown.page.close()
