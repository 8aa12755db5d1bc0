"""Models are fetched and removed over HTTP, beforehand and in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engines import hub as hubs
from engines.hub import CONTENT, MODEL, NAME, REPO, Hub
from running import Running
from rushes.engines import catalog, fetching
from shell import until

PATH = f"/models/transcription/{NAME}"
SIZE = sum(len(each) for each in CONTENT.values())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setitem(catalog.MODELS, NAME, hubs.entry(hubs.hub_source()))
    monkeypatch.setattr(fetching, "_away_until", {})
    with hubs.serving() as hub:
        yield hub


@pytest.fixture
def running(hub: Hub, serve: Callable[..., Running]) -> Running:
    return serve(engine_hub_url=hub.url, engine_model=NAME)


def model(client: Any) -> dict[str, Any]:
    items = client.get("/models/transcription").json()["items"]
    [found] = [each for each in items if each["name"] == NAME]
    return dict(found)


def fetching_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("download ")]


def test_a_model_is_fetched_in_the_background_and_removed(running: Running, hub: Hub) -> None:
    hub.hold = threading.Event()
    hub.drop_after = 1_000_000
    with running.client() as admin, running.user() as ada:
        before = model(ada)
        assert (before["installed"], before["default"], before["download"]) == (False, True, None)
        assert ada.post(f"{PATH}/pull").status_code == 403
        begun = admin.post(f"{PATH}/pull")
        assert begun.status_code == 202, begun.text
        assert begun.json()["download"]["total_bytes"] == SIZE
        until(lambda: 0 < model(ada)["download"]["received_bytes"] < SIZE)
        again = admin.post("/models/transcription/toy/pull")
        assert (again.status_code, again.json()["download"]["error"]) == (202, None)
        assert len(fetching_threads()) == 1
        busy = admin.delete(PATH)
        assert (busy.status_code, busy.json()["code"]) == (409, "wrong_state")
        hub.drop_after = None
        hub.hold.set()
        until(lambda: model(ada)["installed"])
        assert model(ada)["download"] is None
        asked = len(hub.asked)
        until(lambda: not fetching_threads())
        assert admin.post(f"{PATH}/pull").json()["download"] is None
        assert len(hub.asked) == asked
        assert admin.delete(PATH).status_code == 204
        assert not model(ada)["installed"]
        assert admin.delete(PATH).status_code == 404


def test_models_say_whether_they_hear_words_or_tell_speakers_apart(server: Running) -> None:
    with server.client() as admin:
        known = {each["id"]: each for each in admin.get("/models/transcription").json()["items"]}
        speakers = known.pop("diarization-default")
        assert speakers["capabilities"] == ["diarization", "speakers"]
        assert (speakers["default"], speakers["provider"]) == (True, "local")
        assert "whisper-base" in known
        for each in known.values():
            assert each["capabilities"][:2] == ["transcription", "word_timestamps"], each


def test_what_cannot_be_fetched_says_why_and_can_be_tried_again(running: Running, hub: Hub) -> None:
    hub.content.clear()
    with running.client() as admin:
        admin.post(f"{PATH}/pull")
        until(lambda: model(admin)["download"]["error"])
        assert "the hub answers 404 for model.bin" in model(admin)["download"]["error"]
        hub.content.update(CONTENT)
        admin.post(f"{PATH}/pull")
        until(lambda: model(admin)["installed"])
        for name in ("whisper-huge", "..%2F..", "%00"):
            for answer in (
                admin.post(f"/models/transcription/{name}/pull"),
                admin.delete(f"/models/transcription/{name}"),
            ):
                assert answer.status_code == 404, name


def test_a_repository_of_the_hub_is_fetched_by_admins_and_named_by_all(
    running: Running, hub: Hub
) -> None:
    hub.content = dict(MODEL)
    hub.hold = threading.Event()
    path = f"/models/transcription/{REPO}"

    def listed(client: Any) -> dict[str, Any]:
        items = client.get("/models/transcription").json()["items"]
        return next((each for each in items if each["name"] == REPO), {})

    with running.client() as admin, running.user() as ada:
        assert listed(ada) == {}
        assert ada.post(f"{path}/pull").status_code == 403
        assert admin.delete(path).status_code == 404
        begun = admin.post(f"{path}/pull")
        assert (begun.status_code, begun.json()["installed"]) == (202, False)
        assert listed(ada)["download"]["error"] is None
        hub.hold.set()
        until(lambda: listed(ada)["installed"])
        assert listed(ada)["licence"] == "mit"
        until(lambda: not fetching_threads())
        assert admin.delete(path).status_code == 204
        assert listed(ada)["installed"] is False
        for name in ("local/mine", "%2Ftmp%2Fmodel", "a/../b", "a%2F..%2Fb", "a/b/c", "a/..%2F"):
            answer = admin.post(f"/models/transcription/{name}/pull")
            assert answer.status_code in (404, 405), name


def test_a_server_that_stops_ends_its_downloads(running: Running, hub: Hub) -> None:
    hub.hold = threading.Event()
    hub.drop_after = 1_000_000
    with running.client() as admin:
        admin.post(f"{PATH}/pull")
        until(lambda: model(admin)["download"]["received_bytes"])
    running.stop()
    assert fetching_threads() == []


def test_models_of_another_server_are_its_own(serve: Callable[..., Running]) -> None:
    running = serve(engine="openai", engine_url="http://127.0.0.1:1")
    with running.client() as admin:
        for answer in (
            admin.post("/models/transcription/whisper-tiny/pull"),
            admin.delete("/models/transcription/whisper-tiny"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
            assert "elsewhere" in answer.json()["detail"]
