"""The library over HTTP: looking, finding, renaming, sharing, deleting, starting work again."""

from __future__ import annotations

import pytest

from running import Running
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


def test_renaming_changes_the_title_and_nothing_else(server: Running) -> None:
    with server.user() as ada:
        media_id = library.add(server, library.user_id(ada))
        before = ada.get(f"/media/{media_id}").json()
        after = ada.patch(f"/media/{media_id}", json={"title": "  New\n name  "}).json()
        assert after["title"] == "New name"
        same = ("id", "slug", "status", "jobs", "created_at")
        assert {k: after[k] for k in same} == {k: before[k] for k in same}
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
            "stream_url",
            "thumbnail_url",
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
