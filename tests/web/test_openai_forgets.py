"""What the OpenAI-compatible API leaves behind: nothing, unless a request says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import spoken
from running import Running
from rushes.transcripts import passages
from rushes.web.openai import api as openai_api
from rushes.web.openai import following as openai_following
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler
from shell import files_below, until
from web.test_openai import SOUND, Person, sent, sound

WORDS = "The password is xylophone."
# Whatever of these is found afterwards was not forgotten.
TRACES = ("xylophone", "Dictation of Ada", "glockenspiel")
FORM = {"prompt": "glockenspiel", "language": "en"}
NAME = "Dictation of Ada.wav"


class Listener:
    """Hears the same in everything; waits where it is told to, until it is let go."""

    def __init__(self) -> None:
        self.waits_for: str | None = None
        self.let_go = threading.Event()

    def __call__(self, job: JobContext) -> dict[str, Any]:
        assert job.passages() == []
        job.put_passage(0, passages.encode(spoken.passage(spoken.said(WORDS, 0.5))))
        job.log(f"heard {WORDS}")
        while job.args.get("language") == self.waits_for and not self.let_go.wait(0.02):
            job.raise_if_stopped()
        engine = {"provider": "local", "transcription_model": "whisper-base"}
        return {"language": "en", "duration": 3.0, "engine": engine}


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def start(tmp_path: Path, listener: Listener) -> Iterator[Callable[..., Person]]:
    """The admin of a server of one's own, on the same data each time."""
    with ExitStack() as stack:

        def start(**given: Any) -> Person:
            table = {"transcribe": Handler(listener)}
            given = {"data_dir": tmp_path, "heartbeat_interval": 0.2, **given}
            running = stack.enter_context(Running(table, **given))
            return Person(running, stack.enter_context(running.client()))

        yield start


def traces(admin: Person) -> list[str]:
    """In the database, and in the files of all media."""
    with admin.running.rushes.db.read() as tx:
        tables = tx.all("SELECT name FROM sqlite_master WHERE type = 'table'")
        rows = [row for each in tables for row in tx.all(f"SELECT * FROM {each['name']}")]
    said = "\n".join(map(str, rows))
    found = [each for each in TRACES if each in said]
    folders = [admin.running.settings.data_dir / "storage" / each for each in ("sources", "media")]
    return found + [file.name for file in files_below(*folders)]


def files_are_kept_in(admin: Person) -> bool:
    return bool(traces(admin))


@pytest.mark.parametrize("stream", ["false", "true"])
def test_nothing_of_a_request_is_left_after_its_answer(
    start: Callable[..., Person], stream: str
) -> None:
    admin = start()
    answer = admin.post({**FORM, "stream": stream}, file_name=NAME)
    assert answer.status_code == 200
    assert WORDS in answer.text
    assert traces(admin) == []
    assert admin.items("media") == []
    assert admin.items("media?status=trashed") == []
    assert admin.api.get("/search", params={"q": "xylophone"}).json()["items"] == []
    assert admin.api.get(f"/media/{answer.headers['rushes-media-id']}").status_code == 404
    job = admin.api.get(f"/transcriptions/{answer.headers['rushes-transcription-id']}")
    assert "xylophone" not in job.text
    with admin.running.rushes.db.read() as tx:
        [used] = tx.all("SELECT sum(size_bytes) AS bytes FROM media")
    assert used["bytes"] == 0


def test_with_store_it_stays(start: Callable[..., Person]) -> None:
    admin = start()
    assert admin.post({**FORM, "store": "true"}, file_name=NAME).status_code == 200
    assert [each["title"] for each in admin.items("media")] == ["Dictation of Ada"]
    assert files_are_kept_in(admin)


def test_it_stays_where_the_operator_says_so_unless_a_request_says_otherwise(
    start: Callable[..., Person],
) -> None:
    admin = start(openai_store=True)
    assert admin.post(FORM, file_name=NAME).status_code == 200
    assert admin.post({**FORM, "store": "false"}, file_name="other.wav").status_code == 200
    assert [each["title"] for each in admin.items("media")] == ["Dictation of Ada"]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for."""
    monkeypatch.setattr(openai_following, "LOOK_SECONDS", 0.02)
    for each in (openai_api, openai_following):
        monkeypatch.setattr(each, "FORGET_SECONDS", 0.0)


@pytest.mark.usefixtures("soon")
def test_nothing_is_left_of_a_request_whose_sender_hangs_up(
    start: Callable[..., Person], listener: Listener
) -> None:
    admin = start()
    listener.waits_for = "en"
    url = f"{admin.running.url}/v1/audio/transcriptions"
    request = admin.api.build_request("POST", url, data=FORM, files={"file": (NAME, SOUND)})
    with sent(request):
        until(lambda: len(admin.items("transcriptions")) == 1)
    until(lambda: traces(admin) == [])
    assert [each["status"] for each in admin.items("transcriptions")] == ["canceled"]


def test_nothing_is_left_of_a_request_whose_server_was_stopped(
    start: Callable[..., Person], listener: Listener
) -> None:
    first = start()
    listener.waits_for = "en"
    url = f"{first.running.url}/v1/audio/transcriptions"
    request = first.api.build_request("POST", url, data=FORM, files={"file": (NAME, SOUND)})
    with sent(request):
        until(lambda: len(first.items("transcriptions")) == 1)
        first.running.stop()
    second = start(transcription_workers=0)
    assert files_are_kept_in(second), "who asks again soon goes on with it"
    with second.running.rushes.db.begin() as tx:
        tx.all("UPDATE media SET forget_at = 0")
    until(lambda: traces(second) == [])
    assert second.items("media") == []


def test_what_is_sent_again_is_heard_once_and_forgotten_by_the_last(
    start: Callable[..., Person], listener: Listener
) -> None:
    admin = start()
    listener.waits_for = "en"
    answers: list[Any] = []
    headers = {"x-stainless-retry-count": "1"}
    threads = [
        threading.Thread(target=lambda: answers.append(admin.post(FORM, headers=headers)))
        for _ in range(2)
    ]
    for each in threads:
        each.start()
    until(lambda: sum(admin.running.services.awaited.values()) == 2)
    listener.let_go.set()
    for each in threads:
        each.join(20)
    assert [WORDS in each.text for each in answers] == [True, True]
    assert len({each.headers["rushes-transcription-id"] for each in answers}) == 1
    assert traces(admin) == []


def test_with_a_key_it_can_be_sent_again_after_it_was_forgotten(
    start: Callable[..., Person],
) -> None:
    admin = start()
    headers = {"Idempotency-Key": "once"}
    for _ in range(2):
        assert WORDS in admin.post(FORM, headers=headers).text
    assert traces(admin) == []


# Before bulk


def test_a_request_does_not_wait_for_a_long_recording(
    start: Callable[..., Person], listener: Listener
) -> None:
    admin = start()
    listener.waits_for = "de"

    def upload(name: str, seconds: float) -> str:
        file = (name, sound(seconds))
        made = admin.api.post("/media", data={"language": "de"}, files={"file": file})
        assert made.status_code == 201, made.text
        [job] = [each for each in made.json()["jobs"] if each["kind"] == "transcribe"]
        return str(job["id"])

    running, waiting, last = (upload(f"{n}.wav", n / 10) for n in (1, 2, 3))
    until(lambda: admin.api.get(f"/jobs/{running}").json()["status"] == "processing")
    assert WORDS in admin.post(FORM).text

    def why(job_id: str) -> list[str]:
        return [each["code"] for each in admin.api.get(f"/jobs/{job_id}/why").json()["reasons"]]

    assert why(waiting) == ["busy"]
    assert why(last) == ["busy", "behind"]
    assert admin.api.get(f"/jobs/{running}").json()["status"] == "processing"
    listener.let_go.set()
