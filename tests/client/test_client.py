"""The Python client against a real server, over a line that breaks."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from running import ADMIN_TOKEN, Process, Running, clean_environment
from rushes import errors
from rushes.client import Client, Event, RushesError, StillWorking, streams
from rushes.uploads import sample
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(server.url, ADMIN_TOKEN) as made:
        yield made


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_errors_have_a_code_and_a_sentence(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.NotFound) as missing:
        client.media("med_none")
    assert (missing.value.code, bool(missing.value.message)) == ("not_found", True)
    with pytest.raises(errors.Unauthorized), Client(client.where, "wrong") as stranger:
        stranger.search("anything")
    monkeypatch.delenv("RUSHES_TOKEN", raising=False)
    with pytest.raises(RushesError, match="a token is needed"):
        Client(client.where)
    with pytest.raises(errors.Unavailable, match="is the server running there"):
        Client("http://127.0.0.1:9", "any").media("med_none")


def test_lists_go_over_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rushes.client.client.PAGE", 2)
    made = [client.add_sample().id]
    for number in range(4):
        film = tmp_path / f"{number}.mp4"
        film.write_bytes(sample.CLIP.read_bytes() + bytes([number]))
        sent: list[int] = []
        item = client.upload(film, title=f"film {number}", transcribe=False, progress=sent.append)
        assert (item.title, sent[-1]) == (f"film {number}", film.stat().st_size)
        made.append(item.id)
    assert [each.id for each in client.list_media()] == made[::-1]
    assert [each.id for each in client.list_media(3)] == made[:1:-1]
    assert [each.id for each in client.list_media(q="film 2")] == [made[3]]
    assert client.rename(made[0], "other").title == "other"
    assert {each.media_id for each in client.list_jobs(kind="transcode")} == set(made)


def test_waiting_ends_when_it_should(serve: Callable[..., Running]) -> None:
    gate = threading.Event()

    def encode(job: JobContext) -> dict[str, Any]:
        while not gate.wait(0.02):
            job.raise_if_stopped()
        raise errors.PermanentFailure("it is no film")

    table = {"transcode": Handler(encode), "transcribe": Handler(encode)}
    server = serve(handlers_table=table)
    with Client(server.url, ADMIN_TOKEN) as client:
        media = client.add_sample()
        with pytest.raises(StillWorking) as late:
            client.wait(media.id, timeout_seconds=0.2)
        assert late.value.code == "still_working"
        gate.set()
        ended = client.wait(media.id, timeout_seconds=60)
        assert ended.is_done
        assert ended.has_failed
        assert ended.error == "it is no film"
        client.delete_media(media.id)
        with pytest.raises(errors.NotFound):
            client.wait("med_none")


def test_events_go_on_after_a_restart_and_miss_nothing(process: Callable[..., Process]) -> None:
    server = process(transcode_workers=0, transcription_workers=0)
    with Client(server.url, ADMIN_TOKEN) as client:
        stream = client.events(types=["media.*"], since="0")
        made = client.add_sample().id
        heard = [next(stream)]
        server.kill()
        server.start()
        client.rename(made, "another title")
        client.delete_media(made)
        heard += [next(stream), next(stream)]
    types = ["media.created", "media.updated", "media.deleted"]
    assert [(each.type, each.media_id) for each in heard] == [(each, made) for each in types]
    assert len({each.position for each in heard}) == 3


def test_a_stream_is_read_line_by_line() -> None:
    lines = ["retry: 2000", "", ": keep-alive", "id: 7", "event: media.ready"]
    lines += ['data: {"media_id": "med_1"}', ""]
    begun, alive, ready = streams.parsed(iter(lines))
    assert begun is alive is None
    assert ready == Event(
        type="media.ready", position="7", media_id="med_1", data={"media_id": "med_1"}
    )


def test_it_brings_no_server_along() -> None:
    """A machine that only talks to one has neither its database nor its framework in memory."""
    look = "import sys, rushes.client; print({'fastapi', 'sqlalchemy'} & set(sys.modules))"
    said = subprocess.check_output([sys.executable, "-c", look], env=clean_environment(), text=True)
    assert said == "set()\n"
