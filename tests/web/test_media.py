"""The library over HTTP: looking, finding, renaming, sharing, deleting, starting work again."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from running import Running
from rushes.media import store as media_store
from web import library

MASTER = b"#EXTM3U\n#EXT-X-VERSION:7\n"


def test_a_new_media_is_pending_with_its_first_jobs(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada), "Überblick: ein Test!")
        item = ada.get(f"/media/{media_id}").json()
    assert (item["status"], item["transcript_status"]) == ("pending", "pending")
    assert sorted(job["kind"] for job in item["jobs"]) == ["transcode", "transcribe"]
    assert item["slug"] == f"uberblick-ein-test-{media_id[-6:]}"
    assert item["stream_url"] is None
    assert item["created_at"].endswith("Z")


def test_status_follows_the_work(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))

        def status() -> tuple[str, str]:
            item = ada.get(f"/media/{media_id}").json()
            return item["status"], item["transcript_status"]

        held = library.claim(either_server, "transcode")
        assert status() == ("processing", "pending")
        dispatch = either_server.rushes.dispatch
        dispatch.fail(held, "permanent", "corrupt", "the file is damaged")
        assert status() == ("failed", "pending")
        assert ada.get(f"/media/{media_id}").json()["error"] == "the file is damaged"
        library.publish(either_server, media_id, {"master.m3u8": MASTER, "thumbnail.jpg": b"jpg"})
        assert status() == ("ready", "pending")
        item = ada.get(f"/media/{media_id}").json()
        assert item["stream_url"] == f"/api/v1/media/{media_id}/stream/master.m3u8"
        assert item["error"] is None
        dispatch.fail(library.claim(either_server, "transcribe"), "permanent", "x", "x")
        assert status() == ("ready", "failed")


def test_pages_are_complete_and_in_order(either_server: Running) -> None:
    with either_server.user() as ada:
        owner = library.user_id(ada)
        ids = [library.add(either_server, owner, f"Take {n}") for n in range(5)]
        seen, cursor = [], None
        while True:
            page = ada.get("/media", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
            seen += [item["id"] for item in page.json()["items"]]
            cursor = page.json()["next_cursor"]
            if cursor is None:
                break
    assert seen == ids[::-1]


@pytest.mark.parametrize(
    ("q", "found"),
    [("STRASSE", 1), ("100%", 1), ("_", 0), ("sommer", 1), ("nothing", 0), ("e", 2)],
)
def test_titles_are_found_by_any_part(either_server: Running, q: str, found: int) -> None:
    with either_server.user() as ada:
        owner = library.user_id(ada)
        for title in ("Straße bei Nacht", "100% Sommer"):
            library.add(either_server, owner, title)
        assert len(ada.get("/media", params={"q": q}).json()["items"]) == found


def test_lists_can_be_narrowed_to_a_status(either_server: Running) -> None:
    with either_server.user() as ada:
        owner = library.user_id(ada)
        ready = library.add(either_server, owner)
        library.publish(either_server, ready, {"master.m3u8": MASTER})
        waiting = library.add(either_server, owner)
        for status, expected in (("ready", [ready]), ("pending", [waiting]), ("failed", [])):
            items = ada.get("/media", params={"status": status}).json()["items"]
            assert [item["id"] for item in items] == expected
        assert ada.get("/media?status=nonsense").status_code == 422


def listed(client: Any, **params: Any) -> list[str]:
    """The ids of all pages, two to a page."""
    ids: list[str] = []
    while True:
        page = client.get("/media", params={"limit": 2, **params})
        assert page.status_code == 200, page.text
        ids += [item["id"] for item in page.json()["items"]]
        params["cursor"] = page.json()["next_cursor"]
        if params["cursor"] is None:
            return ids


def note(running: Running, media_id: str, kind: str, duration: float | None) -> None:
    """As if somebody had probed it."""
    running.rushes.db.run(
        lambda tx: media_store.set_facts(tx, media_id, kind=kind, duration=duration)
    )


def test_lists_have_the_order_that_is_asked_for(either_server: Running) -> None:
    with either_server.user() as ada:
        owner = library.user_id(ada)
        old, twin, short, new = (
            library.add(either_server, owner, title, bytes(size))
            for title, size in (("beta", 5), ("Alpha", 9), ("alpha", 1), ("Gamma", 5))
        )
        note(either_server, old, "video", 60)
        note(either_server, twin, "audio", None)
        note(either_server, short, "audio", 3.25)
        note(either_server, new, "video", 600)
        assert listed(ada) == listed(ada, sort="newest") == [new, short, twin, old]
        assert listed(ada, sort="oldest") == [old, twin, short, new]
        assert listed(ada, sort="title") == [twin, short, old, new]
        assert listed(ada, sort="longest") == [new, old, short, twin]
        assert listed(ada, sort="largest") == [twin, new, old, short]
        assert listed(ada, sort="longest", kind="audio") == [short, twin]
        assert listed(ada, sort="title", q="ALPHA", kind="audio") == [twin, short]
        for wrong in ({"sort": "best"}, {"kind": "picture"}, {"transcript": "lost"}):
            assert ada.get("/media", params=wrong).status_code == 422


def test_lists_can_be_narrowed_to_how_the_transcript_is(either_server: Running) -> None:
    with either_server.user() as ada:
        owner = library.user_id(ada)
        waiting, heard, failed = (library.add(either_server, owner) for _ in range(3))
        for job in either_server.rushes.jobs(kind="transcribe"):
            if job.media_id != waiting:
                either_server.rushes.cancel(job.id)
        library.transcribe(either_server, heard, "Good morning.")
        for status, expected in (("pending", waiting), ("ready", heard), ("failed", failed)):
            assert listed(ada, transcript=status, sort="largest") == [expected]
        assert listed(ada, transcript="none") == listed(ada, transcript="processing") == []


def test_the_next_page_goes_on_where_the_last_one_ended(either_server: Running) -> None:
    """Whatever has become of the last one meanwhile."""
    with either_server.user() as ada:
        owner = library.user_id(ada)
        a, b, c, d = (library.add(either_server, owner, title) for title in "abcd")
        first = ada.get("/media", params={"sort": "title", "limit": 2}).json()
        assert [item["id"] for item in first["items"]] == [a, b]
        rest = {"sort": "title", "cursor": first["next_cursor"]}
        ada.patch(f"/media/{b}", json={"title": "zebra"})
        assert [item["id"] for item in ada.get("/media", params=rest).json()["items"]] == [c, d, b]
        ada.delete(f"/media/{b}")
        assert [item["id"] for item in ada.get("/media", params=rest).json()["items"]] == [c, d]
        assert listed(ada, sort="oldest", cursor=b) == [c, d]


def test_a_cursor_of_another_list_is_refused(either_server: Running) -> None:
    def made(*said: Any) -> str:
        text = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
        return f"{media_id}.{text}"

    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        for sort, cursor in (
            ("title", media_id),
            ("newest", made("title", "a")),
            ("largest", made("title", "a")),
            ("longest", made("largest", 5)),
            ("title", made("title", 5)),
            ("title", made("title", "\0")),
            ("largest", made("largest", 2**63)),
            ("largest", made("largest", -(10**30))),
            ("longest", made("longest", 10**400)),
            ("longest", f"{media_id}.e"),
            ("longest", f"{media_id}.____"),
            ("title", made()),
        ):
            answer = ada.get("/media", params={"sort": sort, "cursor": cursor})
            assert answer.status_code == 422, (sort, cursor)
            assert "begin again" in answer.json()["detail"]
        assert listed(ada, sort="title", cursor=made("title", "a")) == [media_id]


def test_renaming_changes_the_title_and_nothing_else(server: Running) -> None:
    with server.user() as ada:
        media_id = library.add(server, library.user_id(ada))
        before = ada.get(f"/media/{media_id}").json()
        after = ada.patch(f"/media/{media_id}", json={"title": "  New\n name  "}).json()
        assert after["title"] == "New name"
        same = ("id", "slug", "status", "created_at")
        assert {k: after[k] for k in same} == {k: before[k] for k in same}
        assert {job.pop("media_title") for job in after["jobs"]} == {"New name"}
        assert {job.pop("media_title") for job in before["jobs"]} == {"Holiday"}
        assert after["jobs"] == before["jobs"]
        for bad in ("", " \n ", "x" * 301):
            assert ada.patch(f"/media/{media_id}", json={"title": bad}).status_code == 422


def test_a_share_link_works_without_signing_in_until_it_is_taken_back(server: Running) -> None:
    anybody = server.client(None, base_url=server.url, follow_redirects=True)
    with server.user() as ada, anybody:
        media_id = library.add(server, library.user_id(ada), "<b>Party</b>")
        library.publish(server, media_id, {"master.m3u8": MASTER, "thumbnail.jpg": b"jpg"})
        link = ada.post(f"/media/{media_id}/share").json()["share_url"]
        assert ada.post(f"/media/{media_id}/share").json()["share_url"] == link
        assert ada.get(f"/media/{media_id}").json()["share_url"] == link
        assert anybody.get(f"{link}/stream/master.m3u8").content == MASTER
        assert anybody.get(f"{link}/thumbnail.jpg").content == b"jpg"
        shown = anybody.get(f"{link}/media").json()
        assert set(shown) == {
            "title",
            "kind",
            "status",
            "duration",
            "width",
            "height",
            "stream_url",
            "thumbnail_url",
            "storyboard_url",
            "chapters_url",
            "waveform_url",
            "transcript_url",
            "download_url",
            "downloads",
        }
        assert anybody.get(shown["stream_url"]).content == MASTER
        assert "<b>" not in anybody.get(link).text
        assert ada.delete(f"/media/{media_id}/share").status_code == 204
        assert anybody.get(f"{link}/stream/master.m3u8").status_code == 404
        again = ada.post(f"/media/{media_id}/share").json()["share_url"]
        assert again != link


def test_deleting_hides_cancels_and_unpublishes_at_once(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        library.publish(either_server, media_id, {"master.m3u8": MASTER})
        ada.post(f"/media/{media_id}/share")
        assert ada.delete(f"/media/{media_id}").status_code == 204
        assert ada.get(f"/media/{media_id}").status_code == 404
        assert ada.get(f"/media/{media_id}/stream/master.m3u8").status_code == 404
        assert ada.get("/media").json()["items"] == []
        assert ada.delete(f"/media/{media_id}").status_code == 404
        states = {job["state"] for job in ada.get("/jobs").json()["items"]}
        assert states <= {"completed", "canceled"}


def test_a_media_is_found_by_its_slug_by_whom_it_belongs_to(either_server: Running) -> None:
    with either_server.user() as ada, either_server.user("bob") as bob:
        media_id = library.add(either_server, library.user_id(ada), title="Über allen Gipfeln")
        library.publish(either_server, media_id, {"master.m3u8": MASTER, "thumbnail.jpg": b"jpg"})
        library.transcribe(either_server, media_id, "Warte nur.")
        slug = ada.get(f"/media/{media_id}").json()["slug"]
        assert slug.startswith("uber-allen-gipfeln-")
        # A new title leaves the address as it is.
        renamed = ada.patch(f"/media/{slug}", json={"title": "Ruh"}).json()
        assert (renamed["id"], renamed["title"], renamed["slug"]) == (media_id, "Ruh", slug)
        paths = ("", "/stream/master.m3u8", "/thumbnail.jpg", "/transcript", "/outputs")
        for path in paths:
            assert ada.get(f"/media/{slug}{path}").content == (
                ada.get(f"/media/{media_id}{path}").content
            ), path
            assert bob.get(f"/media/{slug}{path}").status_code == 404, path
        started = ada.post(f"/media/{slug}/retranscribe")
        assert (started.status_code, started.json()["media_id"]) == (202, media_id)
        for wrong in (slug.upper(), slug[:-1], "%25", f"{slug}%00", media_id[4:]):
            assert ada.get(f"/media/{wrong}").status_code == 404, wrong
        assert ada.delete(f"/media/{slug}").status_code == 204
        assert ada.get(f"/media/{slug}").status_code == 404


def test_the_same_bytes_are_offered_not_merged(server: Running) -> None:
    with server.user() as ada, server.user("bob") as bob:
        first = library.add(server, library.user_id(ada))
        second = library.add(server, library.user_id(ada))
        others = library.add(server, library.user_id(bob))
        assert ada.get(f"/media/{second}").json()["duplicate_of"] == [first]
        assert bob.get(f"/media/{others}").json()["duplicate_of"] == []


def test_work_can_be_started_again_and_twice_is_once(either_server: Running) -> None:
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        library.publish(either_server, media_id, {"master.m3u8": MASTER})
        first = ada.post(f"/media/{media_id}/retranscode", json={"profile": "default"})
        assert first.status_code == 202
        assert first.json()["args"]["profile"] == "default"
        second = ada.post(f"/media/{media_id}/retranscode", json={})
        assert second.json()["id"] == first.json()["id"]
        item = ada.get(f"/media/{media_id}").json()
        assert item["status"] == "ready"
        assert ada.post(f"/media/{media_id}/retranscribe", json={"language": "de"}).json()[
            "kind"
        ] == ("transcribe")
        created = ada.post("/transcriptions", json={"media_id": media_id})
        assert (created.status_code, created.json()["status"]) == (202, "queued")
        one = ada.get(f"/transcriptions/{created.json()['id']}").json()
        assert one["kind"] == "transcribe"
        assert ada.get(f"/transcriptions/{first.json()['id']}").status_code == 404
        canceled = ada.post(f"/transcriptions/{one['id']}/cancel").json()
        assert canceled["status"] == "canceled"
        retried = ada.post(f"/transcriptions/{one['id']}/retry").json()
        assert (retried["status"], retried["retry_of"]) == ("queued", one["id"])


def test_a_file_is_submitted_for_transcription_in_one_request(server: Running) -> None:
    with server.user() as ada:
        wav = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(64)
        sent = ada.post(
            "/transcriptions/submit",
            files={"file": ("talk.wav", wav)},
            data={"language": "de", "diarize": "true"},
        )
        assert sent.status_code == 202, sent.text
        job = sent.json()
        assert (job["kind"], job["status"]) == ("transcribe", "queued")
        assert job["args"] == {"language": "de", "diarize": True}
        item = ada.get(f"/media/{job['media_id']}").json()
        assert (item["title"], item["kind"]) == ("talk", "audio")
        none = ada.post(
            "/transcriptions/submit",
            files={"file": ("talk.wav", wav)},
            data={"transcribe": "false"},
        )
        assert none.status_code == 422


def test_a_media_tells_what_its_version_leaves_out(either_server: Running) -> None:
    lost = {"code": "frames_lost", "message": "3 frames of the picture could not be decoded"}
    nonsense = [{"code": 7}, "frames", None]
    with either_server.user() as ada:
        media_id = library.add(either_server, library.user_id(ada))
        held = library.claim(either_server, "transcode")
        library.put(either_server, held, {"master.m3u8": MASTER})
        library.tell(either_server, held, 0.5, {"renditions": [], "warnings": [lost, *nonsense]})
        library.finish(either_server, held)
        assert ada.get(f"/media/{media_id}").json()["warnings"] == [lost]
        # The next version has warnings of its own, told as older workers do.
        result = {"warnings": ["the end is missing", 7]}
        library.publish(either_server, media_id, {"master.m3u8": MASTER + b"\n"}, result)
        older = [{"code": "other", "message": "the end is missing"}]
        assert ada.get("/media").json()["items"][0]["warnings"] == older
