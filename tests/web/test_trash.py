"""Deleting and taking back over HTTP: who sees what of it, one by one and many at once."""

from __future__ import annotations

from typing import Any

from running import Running
from web import library

FILES = {"master.m3u8": b"#EXTM3U\n", "thumbnail.jpg": b"a picture"}


def ids_of(client: Any, **query: Any) -> list[str]:
    return [item["id"] for item in client.get("/media", params=query).json()["items"]]


def act(client: Any, action: str, *, dry_run: bool = False, **chosen: Any) -> Any:
    body = {"action": action, "filter": chosen, "dry_run": dry_run}
    return client.post("/media/actions", json=body)


def test_the_trash_begins_with_what_was_deleted_last(either_server: Running) -> None:
    running = either_server
    with running.user() as ada:
        owner = library.user_id(ada)
        made = [library.add(running, owner, title) for title in "abcde"]
        # The second and the fifth with one request.
        ago_ms = dict(zip(made, (3000, 5000, 1000, 2000, 5000), strict=True))
        act(ada, "delete", ids=made)
        with running.rushes.db.begin() as tx:
            for id, ago in ago_ms.items():
                earlier = "UPDATE media SET deleted_at = deleted_at - :ago WHERE id = :id"
                tx.all(earlier, id=id, ago=ago)
        first, second, third, fourth, fifth = made
        in_order = [third, fourth, first, fifth, second]
        assert ids_of(ada, status="trashed") == in_order
        found: list[str] = []
        query: dict[str, Any] = {"status": "trashed", "limit": 2}
        while len(found) < len(made):
            page = ada.get("/media", params=query).json()
            found += [item["id"] for item in page["items"]]
            query["cursor"] = page["next_cursor"]
            if len(found) == 2:
                # What is taken back meanwhile moves nothing else.
                assert ada.post(f"/media/{third}/restore").is_success
        assert (found, query["cursor"]) == (in_order, None)
        assert ids_of(ada, status="trashed", sort="newest") == made[:2:-1] + made[1::-1]
        assert ada.get("/media", params={"sort": "deleted"}).status_code == 422
        mixed = {"status": "trashed", "cursor": first}
        assert ada.get("/media", params=mixed).status_code == 422


def test_what_was_deleted_is_unseen_and_comes_back_as_it_was(either_server: Running) -> None:
    running = either_server
    with (
        running.user() as ada,
        running.user("bob") as bob,
        running.client(None, base_url=running.url) as stranger,
    ):
        media_id = library.add(running, library.user_id(ada), "Wedding")
        library.publish(running, media_id, FILES, {"kind": "video", "duration": 5})
        library.transcribe(running, media_id, "Good morning everybody.")
        link = ada.post(f"/media/{media_id}/share").json()["share_url"].removeprefix(running.url)
        before = ada.get(f"/media/{media_id}").json()
        assert ada.delete(f"/media/{media_id}").status_code == 204
        assert ada.delete(f"/media/{media_id}").status_code == 404

        assert ids_of(ada) == ids_of(bob, status="trashed") == []
        assert ada.get("/search", params={"q": "morning"}).json()["items"] == []
        assert stranger.get(f"{link}/media").status_code == 404
        [item] = ada.get("/media", params={"status": "trashed"}).json()["items"]
        assert (item["id"], item["status"], item["stream_url"]) == (media_id, "trashed", None)
        assert item["deleted_at"] < item["purge_at"]
        assert ada.get(f"/media/{media_id}/thumbnail.jpg").content == b"a picture"
        assert bob.get(f"/media/{media_id}/thumbnail.jpg").status_code == 404
        for path in ("", "/source", "/stream/master.m3u8", "/transcript"):
            assert ada.get(f"/media/{media_id}{path}").status_code == 404
        assert bob.post(f"/media/{media_id}/restore").status_code == 404

        back = ada.post(f"/media/{media_id}/restore").json()
        same = {"title", "status", "duration", "renditions", "stream_url", "thumbnail_url"}
        assert {name: back[name] for name in same} == {name: before[name] for name in same}
        assert [back[name] for name in ("share_url", "deleted_at", "purge_at")] == [None] * 3
        assert ids_of(ada) == [media_id]
        assert ids_of(ada, status="trashed") == []
        assert ada.get(f"/media/{media_id}/source").content == library.SOURCE
        for words in ("morning", "wedding"):
            [hit] = ada.get("/search", params={"q": words}).json()["items"]
            assert hit["media_id"] == media_id
        assert stranger.get(f"{link}/media").status_code == 404


def test_a_restore_whose_answer_was_lost_may_be_repeated(server: Running) -> None:
    with server.user() as ada, server.client() as admin:
        media_id = library.add(server, library.user_id(ada))
        assert ada.post(f"/media/{media_id}/restore").status_code == 409
        ada.delete(f"/media/{media_id}")
        once = {"Idempotency-Key": "undo-1"}
        for _ in range(2):
            answer = ada.post(f"/media/{media_id}/restore", headers=once)
            assert (answer.status_code, answer.json()["id"]) == (200, media_id)
        assert ada.post(f"/media/{media_id}/restore").status_code == 409
        admin.delete(f"/media/{media_id}")
        # It is in its owner's trash, and the admin may take it back, too.
        assert ids_of(admin, status="trashed") == []
        assert ids_of(ada, status="trashed") == [media_id]
        assert admin.post(f"/media/{media_id}/restore").is_success


def test_deleting_for_good_takes_two_steps(server: Running) -> None:
    with server.user() as ada, server.user("bob") as bob:
        media_id = library.add(server, library.user_id(ada))
        for_good = f"/media/{media_id}?permanently=true"
        assert ada.delete(for_good).status_code == 409
        assert ids_of(ada) == [media_id]
        ada.delete(f"/media/{media_id}")
        assert bob.delete(for_good).status_code == 404
        assert ada.delete(for_good).status_code == 204
        assert ids_of(ada, status="trashed") == []
        restored = ada.post(f"/media/{media_id}/restore")
        assert restored.status_code == 409
        assert "deleted for good" in restored.json()["detail"]


def test_many_are_deleted_restored_and_purged_by_one_request(either_server: Running) -> None:
    running = either_server
    with running.user() as ada, running.user("bob") as bob:
        mine = [library.add(running, library.user_id(ada), f"Clip {n}") for n in range(120)]
        his = library.add(running, library.user_id(bob))
        asked = act(ada, "delete", dry_run=True, ids=[*mine, his, "med_nobody"]).json()
        assert (asked["matched"], asked["changed"], len(ids_of(ada, limit=200))) == (120, 0, 120)
        done = act(ada, "delete", ids=[*mine, his, "med_nobody"]).json()
        assert (done["matched"], done["changed"], done["ids"]) == (120, 120, mine)
        assert act(ada, "delete", ids=mine).json()["changed"] == 0
        assert (ids_of(ada), ids_of(bob)) == ([], [his])
        states = {job["state"] for job in ada.get("/jobs", params={"limit": 200}).json()["items"]}
        assert states == {"canceled"}
        assert ada.get("/media/trash").json()["items"] == 120

        assert act(bob, "restore", ids=mine).json()["changed"] == 0
        assert act(ada, "restore", q="Clip 1").json()["changed"] == 31
        assert act(ada, "purge", ids=mine[1:2]).json()["changed"] == 0
        assert act(ada, "restore", ids=mine[:3]).json()["changed"] == 2
        assert act(ada, "purge").json()["changed"] == 87
        assert len(ids_of(ada, limit=200)) == 33
        assert act(ada, "restore").json()["matched"] == 0


def test_an_admin_who_empties_the_trash_empties_only_their_own(server: Running) -> None:
    with server.user() as ada, server.client() as admin:
        hers = library.add(server, library.user_id(ada))
        own = library.add(server, library.user_id(admin))
        assert act(admin, "delete").json()["changed"] == 2
        assert act(admin, "purge").json()["ids"] == [own]
        assert ids_of(ada, status="trashed") == [hers]
        assert ids_of(ada, status="trashed", everyone=True) == [hers]
        assert ids_of(admin, status="trashed") == []
        assert ids_of(admin, status="trashed", everyone=True) == [hers]
        assert act(admin, "restore", ids=[hers]).json()["ids"] == [hers]


def test_what_cannot_be_meant_is_refused(server: Running) -> None:
    with server.user() as ada:
        media_id = library.add(server, library.user_id(ada))
        for action, chosen in (
            ("delete", {"status": "trashed"}),
            ("purge", {"status": "ready"}),
            ("restore", {"status": "failed"}),
            ("delete", {"titel": "Holiday"}),
            ("burn", {}),
            ("delete", {"ids": ["med_1"] * 1001}),
        ):
            assert act(ada, action, **chosen).status_code == 422, (action, chosen)
        assert act(ada, "delete", ids=[]).json()["matched"] == 0
        assert ids_of(ada) == [media_id]


def test_the_trash_says_how_much_it_holds_and_counts_for_the_quota(server: Running) -> None:
    with server.user() as ada:
        media_id = library.add(server, library.user_id(ada), content=b"x" * 1000)
        library.publish(server, media_id, {"a.m4s": b"y" * 500})
        nothing = {"items": 0, "size_bytes": 0, "period_seconds": 30 * 86_400}
        assert ada.get("/media/trash").json() == nothing
        used = ada.get("/session").json()["used_bytes"]
        ada.delete(f"/media/{media_id}")
        assert ada.get("/media/trash").json() == {**nothing, "items": 1, "size_bytes": 1500}
        assert ada.get("/session").json()["used_bytes"] == used
        act(ada, "purge")
        assert ada.get("/media/trash").json() == nothing
        assert ada.get("/session").json()["used_bytes"] == 0


def test_what_is_in_the_trash_is_nobodys_duplicate(server: Running) -> None:
    with server.user() as ada:
        first, second = (library.add(server, library.user_id(ada)) for _ in range(2))
        ada.delete(f"/media/{first}")
        assert ada.get(f"/media/{second}").json()["duplicate_of"] == []
        ada.post(f"/media/{first}/restore")
        assert ada.get(f"/media/{second}").json()["duplicate_of"] == [first]
