"""`rushes media export`, and URLs for `rushes upload`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from running import ADMIN_TOKEN, Running
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler
from shell import Shell
from web import library

TOLD = {
    "renditions": [{"name": "360p", "kind": "video", "status": "completed", "height": 360}],
}
FILES: dict[str, Any] = {"360p/init.mp4": b"(init)", "360p/seg_00000.m4s": (b"[segment]", 12.0)}


def make(job: JobContext) -> None:
    job.put(job.args["name"], job.excerpt(job.args["picture"]))


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve(handlers_table={"export": Handler(make)})


@pytest.fixture
def media_id(server: Running) -> str:
    with server.client() as admin:
        made = library.add(server, library.user_id(admin))
    held = library.claim(server, "transcode")
    library.put(server, held, FILES)
    library.tell(server, held, 0.9, TOLD)
    library.finish(server, held, {"kind": "video", "duration": 12.0})
    return made


def test_an_export_is_waited_for_and_fetched(server: Running, shell: Shell, media_id: str) -> None:
    shell.set(server=server.url, token=ADMIN_TOKEN)
    assert shell.text("media", "exports", media_id) == "no exports\n"
    target = shell.directory / "film.mp4"
    assert shell.text("media", "export", media_id, "-o", target) == f"{target}\n"
    assert target.read_bytes() == b"(init)[segment]"
    clip = shell.json("media", "export", media_id, "--from", "0:02", "--to", "5", "-r", "360p")
    assert (clip["start"], clip["end"]) == (2, 5)
    assert (shell.directory / clip["path"]).read_bytes() == b"(init)[segment]"
    listed = shell.text("media", "exports", media_id)
    assert listed.count("ready") == 2
    assert clip["name"] in listed
    assert shell.text("media", "export", media_id, "--no-wait").startswith("job_")
    for bad, code in (("--to=1:99:99:99", 2), ("--to=13", 2), ("--burn-captions", 4)):
        assert shell.run("media", "export", media_id, bad) == code
        assert shell.err.startswith("rushes: ")
    assert not [*shell.directory.glob(".*.part")]


def test_a_url_is_the_servers_to_fetch(server: Running, shell: Shell) -> None:
    shell.set(server=server.url, token=ADMIN_TOKEN)
    assert shell.run("upload", "http://127.0.0.1:1/film.mp4") == 1
    assert "must not point at this address" in shell.out
    # A name that means nothing here: asked for, and told when it is waited for.
    url = "http://films.invalid/film.mp4"
    [asked] = shell.json("upload", url, "--title", "Film", "--no-transcribe")
    assert (asked["path"], asked["status"]) == (url, "queued")
    with server.client() as admin:
        job = admin.get(f"/jobs/{asked['job_id']}").json()
    assert job["args"] == {"url": url, "options": {"title": "Film", "transcribe": "false"}}
