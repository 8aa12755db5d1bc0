"""Kinds of one's own: declared, refused when they cannot work, followed, and installed."""

from __future__ import annotations

import os
import subprocess
import sys
import types
import wave
from pathlib import Path
from typing import Any

import pytest

from running import Process, Running, settings_for
from rushes import errors, handlers, kinds
from rushes.handlers import built_in
from rushes.kinds import Kind
from rushes.worker.loop import Handler
from shell import until
from web import library

NOTHING = Handler(lambda job: None)
EXAMPLE = Path(__file__).parents[1] / "examples" / "summarize"
CAPTIONS = """WEBVTT

00:00.000 --> 00:01.000
The harbour wakes before the town.

00:01.000 --> 00:02.000
Yes.

00:02.000 --> 00:03.000
Every boat in the harbour carries nets, and every boat returns to the harbour at noon.
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One with a handler; what it declares is forgotten afterwards."""
    made = types.ModuleType("of_my_own")
    vars(made)["HANDLERS"] = {"resize": lambda job: None}
    monkeypatch.setitem(sys.modules, "of_my_own", made)
    monkeypatch.setattr(kinds, "_declared", {})
    return made


def test_what_a_module_says_of_its_kinds_is_known(module: Any) -> None:
    assert "resize" in handlers.table("of_my_own")
    assert kinds.get("resize") == Kind(name="resize")
    assert kinds.output_of("resize") == "resize"
    module.KINDS = [Kind(name="resize", label="Resize", output="small", needs=("gpu?",))]
    handlers.table("of_my_own")
    assert kinds.output_of("resize") == "small"
    assert kinds.everything()[-1].label == "Resize"


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ([Kind(name="enlarge")], "no handler for the kind 'enlarge'"),
        ([Kind(name="resize", output="watch")], "cannot make 'watch'"),
        ([Kind(name="resize", output="transcript")], "cannot make 'transcript'"),
        ([Kind(name="resize", remote=False)], "cannot be the server's own"),
        ([Kind(name="resize", events="transcode")], "must begin with its own name"),
        (["resize"], "'resize' in KINDS is no rushes.Kind"),
    ],
)
def test_kinds_that_cannot_work_stop_the_start(
    module: Any, declared: list[Kind], words: str
) -> None:
    module.KINDS = declared
    with pytest.raises(errors.BadSetting, match=words):
        handlers.table("of_my_own")
    assert "resize" not in [each.name for each in kinds.everything()]


def test_every_kind_of_rushes_own_has_a_handler_and_the_reverse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert set(built_in.HANDLERS) == {each.name for each in built_in.KINDS if each.remote}
    monkeypatch.delitem(built_in.HANDLERS, "trim")
    with pytest.raises(errors.BadSetting, match="there is no handler for the kind 'trim'"):
        handlers.table()


def test_rushes_own_kinds_are_nobody_elses(module: Any) -> None:
    module.KINDS = [kinds.TRIM]
    module.HANDLERS |= {"trim": print}
    with pytest.raises(errors.BadSetting, match="of_my_own: trim has a handler already"):
        handlers.table("of_my_own")
    module.HANDLERS = {"purge": print}
    for claimed in (Kind(name="purge"), kinds.PURGE):
        module.KINDS = [claimed]
        with pytest.raises(errors.BadSetting, match="'purge' is a kind of Rushes' own"):
            handlers.table("of_my_own")


def test_a_kind_does_not_speak_as_somebody_else() -> None:
    with pytest.raises(errors.BadSetting, match="must begin with its own name"):
        kinds.declare([Kind(name="media")])


def test_a_kind_that_only_the_server_may_run_needs_somebody_there(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kinds.TABLE, "tidy", Kind(name="tidy", remote=False))
    with pytest.raises(errors.BadSetting, match="nobody here runs jobs of the kind 'tidy'"):
        server.server._start_housekeeping()


def test_names_that_cannot_be_are_refused() -> None:
    for wrong in ("", "Größe", "a/b", "../x", "UPPER"):
        with pytest.raises(errors.BadField):
            Kind(name=wrong)
        with pytest.raises(errors.BadField):
            Kind(name="resize", output=wrong)
    with pytest.raises(errors.BadField, match="follows"):
        Kind(name="resize", follows="transcribe")  # type: ignore[arg-type]


def test_a_kind_that_follows_another_runs_after_it_and_once(server: Running, module: Any) -> None:
    module.HANDLERS |= {"summarize": print, "announce": print}
    module.KINDS = [
        Kind(name="summarize", follows=("transcribe",), needs=("gpu?",)),
        Kind(name="announce", follows=("summarize",)),
    ]
    handlers.table("of_my_own")
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        heard = library.claim(server, "transcribe")
        library.finish(server, heard)
        library.finish(server, heard)

        def jobs(kind: str) -> list[str]:
            found = admin.get("/jobs", params={"kind": kind, "media_id": media_id}).json()
            return [each["state"] for each in found["items"]]

        assert (jobs("summarize"), jobs("announce")) == (["queued"], [])
        library.finish(server, library.claim(server, "summarize"))
        assert (jobs("summarize"), jobs("announce")) == (["completed"], ["queued"])


def test_a_kind_that_follows_work_without_files_runs_too(server: Running, module: Any) -> None:
    module.HANDLERS |= {"announce": lambda job: None}
    module.KINDS = [Kind(name="announce", follows=("resize",))]
    table = handlers.table("of_my_own")
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        for kind in ("resize", "announce"):
            server.rushes.handler(kind)(table[kind].run)
        library.enqueue(server, "", "resize", media_id=media_id)
        while server.rushes.run_once():
            pass
        ran = admin.get("/jobs", params={"kind": "announce"}).json()["items"]
    assert [each["state"] for each in ran] == ["completed"]


def test_what_is_not_for_people_is_not_started_by_them(server: Running, module: Any) -> None:
    module.KINDS = [Kind(name="resize", follows=("transcode",), by_people=False)]
    handlers.table("of_my_own")
    with server.user() as ada:
        media_id = library.add(server, library.user_id(ada))
        for path, body in ((f"/media/{media_id}/jobs", {}), ("/jobs", {"media_id": media_id})):
            refused = ada.post(path, json={"kind": "resize", **body})
            assert (refused.status_code, refused.json()["code"]) == (422, "bad_field")
        assert ada.get("/kinds").json()["items"][-1]["can_start"] is False
    library.publish(server, media_id, {"master.m3u8": b"#EXTM3U\n"})
    assert [job.kind for job in server.rushes.jobs(kind="resize")] == ["resize"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, as pip installs it."""
    place = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(place)]
    copy = tmp_path_factory.mktemp("example") / "summarize"
    subprocess.run(["cp", "-r", str(EXAMPLE), str(copy)], check=True)
    subprocess.run([*command, str(copy)], check=True, capture_output=True, timeout=120)
    return place


def test_the_example_is_installed_and_does_what_it_says(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), *_python_path()]))
    with wave.open(str(tmp_path / "harbour.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(16_000))
    with Process(settings_for(data_dir=tmp_path / "data")) as server, server.client() as admin:
        told = {each["name"]: each for each in admin.get("/kinds").json()["items"]}
        assert (told["summarize"]["label"], told["summarize"]["can_start"]) == ("Summary", True)
        with (tmp_path / "harbour.wav").open("rb") as file:
            choice = {"transcribe": "false"}
            media = admin.post("/media", files={"file": ("harbour.wav", file)}, data=choice).json()
        too_early = admin.post(f"/media/{media['id']}/jobs", json={"kind": "summarize"}).json()
        until(lambda: admin.get(f"/jobs/{too_early['id']}").json()["state"] == "failed")
        [output] = admin.get(f"/media/{media['id']}").json()["outputs"]
        assert output["error"] == "there is no transcript to summarize yet"
        vtt = {"Content-Type": "text/vtt"}
        there = f"/media/{media['id']}/transcript/import"
        assert admin.post(there, content=CAPTIONS.encode(), headers=vtt).status_code == 201
        body = {"kind": "summarize", "args": {"sentences": 1}}
        job = admin.post(f"/media/{media['id']}/jobs", json=body).json()
        until(lambda: admin.get(f"/jobs/{job['id']}").json()["state"] == "completed")
        summary = admin.get(f"/media/{media['id']}/outputs/summary/summary.json").json()
        [sentence] = summary["sentences"]
        assert sentence["text"].startswith("Every boat")
        assert sentence["start"] == 2.0
        read = admin.get(f"/media/{media['id']}/outputs/summary/summary.md").text
        assert read == f"# Summary\n\n- {sentence['text']} (0:02)\n"


def _python_path() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
