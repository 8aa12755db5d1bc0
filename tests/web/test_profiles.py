"""Profiles over HTTP: made, changed and removed by admins, and what of it reaches a job."""

from __future__ import annotations

from typing import Any

import pytest

from running import Running
from rushes.media import library as media_library
from rushes.media.media import NewMedia, ProcessingOptions
from rushes.tools import profile as profile_tools
from rushes.web import models
from rushes.web.api.profiles import ProfileSettings
from web import library
from web.callers import FORM, TUS
from web.test_uploads import metadata

SMALL = {"ladder": [{"height": 360, "bitrate": 500}], "crf": 28}


def test_there_is_always_a_default(either_server: Running) -> None:
    with either_server.client() as admin:
        [default] = admin.get("/profiles").json()["items"]
        assert default["name"] == "default"
        assert [rung["height"] for rung in default["ladder"]] == [2160, 1440, 1080, 720, 480, 360]
        changed = admin.put("/profiles/default", json={"crf": 30}).json()
        assert (changed["crf"], changed["ladder"]) == (30, default["ladder"])
        assert admin.get("/profiles/default").json() == changed
        assert admin.delete("/profiles/default").status_code == 204
        assert admin.get("/profiles/default").json() == default
        assert admin.delete("/profiles/default").status_code == 204


def test_profiles_are_made_changed_and_removed(either_server: Running) -> None:
    with either_server.client() as admin:
        made = admin.post("/profiles", json={"name": "small", **SMALL})
        assert made.status_code == 201, made.text
        assert made.json()["ladder"] == SMALL["ladder"]
        assert admin.post("/profiles", json={"name": "small"}).status_code == 409
        assert admin.post("/profiles", json={"name": "default"}).status_code == 409
        # All of it anew: what is not said is not kept.
        assert admin.put("/profiles/small", json={"preset": "fast"}).json()["crf"] == 23
        assert admin.put("/profiles/other", json={}).status_code == 200
        names = [each["name"] for each in admin.get("/profiles").json()["items"]]
        assert names == ["default", "other", "small"]
        assert admin.delete("/profiles/small").status_code == 204
        assert admin.delete("/profiles/small").status_code == 404
        assert admin.get("/profiles/small").status_code == 404


@pytest.mark.parametrize(
    "settings",
    [
        {"crf": 99},
        {"ladder": []},
        {"ladder": [{"height": 720}]},
        {"ladder": [{"height": 720, "bitrate": 1000}, {"height": 720, "bitrate": 900}]},
        {"codecs": ["hevc"]},
        {"codecs": ["h264", "h264"]},
        {"codecs": ["wmv"]},
        {"preset": "no-such"},
        {"encoder": "abacus"},
        {"segment_seconds": 0},
        {"flavour": "vanilla"},
    ],
)
def test_settings_that_cannot_work_are_refused(server: Running, settings: Any) -> None:
    with server.client() as admin:
        assert admin.put("/profiles/small", json=settings).status_code == 422
        assert admin.post("/profiles", json={"name": "small", **settings}).status_code == 422
        assert admin.get("/profiles/small").status_code == 404


@pytest.mark.parametrize("name", ["Small", "a b", "ü", "-x", "x" * 65, "a.b"])
def test_names_are_plain_words(server: Running, name: str) -> None:
    with server.client() as admin:
        assert admin.put(f"/profiles/{name}", json={}).status_code == 422
        assert admin.post("/profiles", json={"name": name}).status_code == 422


def test_the_document_knows_every_setting() -> None:
    settings = set(profile_tools.Profile.__struct_fields__)
    assert set(ProfileSettings.model_fields) == settings
    assert set(models.Profile.model_fields) == settings | {"name", "created_at", "updated_at"}
    assert set(models.Rung.model_fields) == set(profile_tools.Rung.__struct_fields__)


def transcode_of(client: Any, media_id: str) -> Any:
    jobs = client.get(f"/media/{media_id}").json()["jobs"]
    return next(job for job in jobs if job["kind"] == "transcode")


def test_an_upload_takes_the_settings_along(either_server: Running) -> None:
    with either_server.client() as admin, either_server.user() as ada:
        admin.post("/profiles", json={"name": "small", **SMALL})
        plain = ada.post("/media", files=FORM).json()
        small = ada.post("/media", files=FORM, data={"profile": "small"}).json()
        admin.put("/profiles/small", json={"crf": 10})
        args = transcode_of(ada, plain["id"])["args"]
        assert args["profile"] == "default"
        assert profile_tools.decode(args["settings"]) == profile_tools.DEFAULT
        args = transcode_of(ada, small["id"])["args"]
        assert (args["profile"], args["settings"]["crf"]) == ("small", 28)
        assert profile_tools.decode(args["settings"]).ladder[0].height == 360


def test_an_unknown_profile_is_refused_with_those_that_are_known(either_server: Running) -> None:
    with either_server.client() as admin, either_server.user() as ada:
        admin.post("/profiles", json={"name": "small", **SMALL})
        media_id = library.add(either_server, library.user_id(ada))
        options = metadata(filename="a.mp4", profile="huge")
        for answer in (
            ada.post("/media", files=FORM, data={"profile": "huge"}),
            ada.post("/uploads", headers={**TUS, **options, "Upload-Length": "300"}),
            ada.post(f"/media/{media_id}/retranscode", json={"profile": "huge"}),
        ):
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == "profile"
            assert "known are default, small" in answer.json()["detail"]
        assert len(ada.get("/media").json()["items"]) == 1


def test_an_upload_that_has_begun_survives_its_profile(either_server: Running) -> None:
    content = FORM["file"][1]
    with either_server.client() as admin, either_server.user() as ada:
        admin.post("/profiles", json={"name": "small", **SMALL})
        headers = {
            **TUS,
            "Upload-Length": str(len(content)),
            **metadata(filename="a.mp4", profile="small"),
        }
        there = ada.post("/uploads", headers=headers).headers["location"]
        admin.delete("/profiles/small")
        more = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        sent = ada.patch(there, headers={**TUS, **more}, content=content)
        assert sent.status_code == 204, sent.text
        media_id = sent.headers["rushes-media-id"]
        assert transcode_of(ada, media_id)["args"]["profile"] == "default"


# Of transcriptions

TALKS = {"model": "whisper-tiny", "language": "de", "diarize": True, "prompt": "Ein Gespräch."}
NOTHING = {"speakers", "min_speakers", "max_speakers", "task", "vocabulary"}


def transcription_of(client: Any, media_id: str) -> Any:
    jobs = client.get(f"/media/{media_id}").json()["jobs"]
    return next(job for job in jobs if job["kind"] == "transcribe")["args"]


def test_transcription_profiles_are_made_changed_and_removed(either_server: Running) -> None:
    path = "/transcription-profiles"
    with either_server.client() as admin, either_server.user() as ada:
        assert ada.get(path).json()["items"] == []
        made = admin.post(path, json={"name": "talks", **TALKS})
        assert made.status_code == 201, made.text
        assert TALKS.items() <= made.json().items()
        assert {made.json()[name] for name in NOTHING} == {None}
        assert admin.post(path, json={"name": "talks"}).status_code == 409
        assert admin.post(path, json={"name": "Bad name"}).status_code == 422
        assert admin.put(f"{path}/Bad%20name", json={}).status_code == 422
        assert admin.put(f"{path}/talks", json={"task": "sing"}).status_code == 422
        assert ada.put(f"{path}/talks", json={}).status_code == 403
        assert ada.get(f"{path}/talks").json() == made.json()
        changed = admin.put(f"{path}/talks", json={"language": "fr"}).json()
        assert (changed["language"], changed["model"]) == ("fr", None)
        assert [each["name"] for each in ada.get(path).json()["items"]] == ["talks"]
        # They are names of their own.
        assert admin.get("/profiles/talks").status_code == 404
        assert admin.delete(f"{path}/talks").status_code == 204
        assert admin.delete(f"{path}/talks").status_code == 404


def test_a_transcription_takes_the_options_of_its_profile_along(either_server: Running) -> None:
    with either_server.client() as admin, either_server.user() as ada:
        admin.post("/transcription-profiles", json={"name": "talks", **TALKS})
        asked = {"transcription_profile": "talks"}
        media = ada.post("/media", files=FORM, data=asked).json()
        assert transcription_of(ada, media["id"]) == {**TALKS, "profile": "talks"}
        # Who says something else means it.
        said = ada.post("/media", files=FORM, data={**asked, "language": "en"}).json()
        assert transcription_of(ada, said["id"])["language"] == "en"
        submitted = ada.post("/transcriptions/submit", files=FORM, data=asked).json()
        assert submitted["args"] == {**TALKS, "profile": "talks"}
        headers = {**TUS, **metadata(filename="a.mp4", **asked), "Upload-Length": "300"}
        assert ada.post("/uploads", headers=headers).status_code == 201

        media_id = library.add(either_server, library.user_id(ada))
        body = {"profile": "talks", "diarize": False}
        one = ada.post("/transcriptions", json={"media_id": media_id, **body}).json()
        assert one["args"] == {**TALKS, "diarize": False, "profile": "talks"}
        again = ada.post(f"/media/{media_id}/retranscribe", json={"profile": "talks"}).json()
        assert again["args"] == {**TALKS, "profile": "talks"}
        # What waits keeps what it has, and a profile that is gone is needed by nobody.
        admin.delete("/transcription-profiles/talks")
        assert ada.get(f"/jobs/{again['id']}").json()["args"] == again["args"]
        last = ada.post(f"/media/{media_id}/retranscribe").json()
        assert last["args"] == again["args"]


def test_what_names_no_transcription_profile_takes_the_default_one(either_server: Running) -> None:
    path = "/transcription-profiles"
    with either_server.client() as admin, either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        for name in ("talks", "default", "calls"):
            admin.put(f"{path}/{name}", json={"language": "de", "prompt": name})
        listed = [each["name"] for each in ada.get(path).json()["items"]]
        assert listed == ["default", "calls", "talks"]
        usual = {"language": "de", "prompt": "default", "profile": "default"}
        media = ada.post("/media", files=FORM).json()
        assert transcription_of(ada, media["id"]) == usual
        said = ada.post("/media", files=FORM, data={"language": "en"}).json()
        assert transcription_of(ada, said["id"]) == {**usual, "language": "en"}
        asked = ada.post("/transcriptions", json={"media_id": media_id, "diarize": True}).json()
        assert asked["args"] == {**usual, "diarize": True}
        # Again means as it was, or as it is said now.
        again = f"/media/{media_id}/retranscribe"
        assert ada.post(again, json={"language": "fr"}).json()["args"] == {"language": "fr"}
        assert ada.post(again).json()["args"] == {"language": "fr"}
        # Who says all there is to say, as OpenAI's clients do, is not told anything else.
        options = ProcessingOptions(speech={"model": "whisper-tiny"})
        new = NewMedia(user_id="", title="Clip", source_key="sources/clip", options=options)
        rushes = either_server.rushes
        said_all = rushes.db.run(lambda tx: media_library.add(tx, rushes.queue, new))
        assert transcription_of(admin, said_all) == {"model": "whisper-tiny"}


def test_an_unknown_transcription_profile_is_refused(either_server: Running) -> None:
    with either_server.client() as admin, either_server.user() as ada:
        admin.post("/transcription-profiles", json={"name": "talks"})
        media_id = library.add(either_server, library.user_id(ada))
        asked = {"transcription_profile": "songs"}
        headers = {**TUS, **metadata(filename="a.mp4", **asked), "Upload-Length": "300"}
        for answer, field in (
            (ada.post("/media", files=FORM, data=asked), "transcription_profile"),
            (ada.post("/uploads", headers=headers), "transcription_profile"),
            (ada.post(f"/media/{media_id}/retranscribe", json={"profile": "songs"}), "profile"),
        ):
            assert answer.status_code == 422, answer.text
            assert answer.json()["errors"][0]["field"] == field
            assert "known are talks" in answer.json()["detail"]
