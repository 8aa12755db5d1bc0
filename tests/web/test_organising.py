"""A library put in order over HTTP: tags, collections, dates, and the same for many at once."""

from __future__ import annotations

from typing import Any

import pytest

from running import Running
from rushes.media import labels
from web import library
from web.callers import FORM

MARKUP = "<img src=x onerror=alert(1)>"


def ids_of(client: Any, **query: Any) -> list[str]:
    answer = client.get("/media", params=query)
    assert answer.is_success, answer.text
    return [item["id"] for item in answer.json()["items"]]


def act(client: Any, action: str, **more: Any) -> Any:
    return client.post("/media/actions", json={"action": action, **more})


def names(client: Any, what: str) -> dict[str, int]:
    return {each["name"]: each["items"] for each in client.get(f"/{what}").json()["items"]}


def test_what_people_say_of_a_media_is_kept_and_found(either_server: Running) -> None:
    running = either_server
    with running.user() as ada, running.user("bob") as bob:
        owner = library.user_id(ada)
        first, second = (library.add(running, owner, title) for title in ("One", "Two"))
        theirs = library.add(running, library.user_id(bob), "Theirs")
        said = {
            "description": "The  first day.\r\nIt rained.\u202e",
            "recorded_at": "2019-07-01",
            "tags": ["Summer", "summer ", MARKUP, "Cafe\u0301", "Café"],
            "collections": ["2020/Summer"],
        }
        answer = ada.patch(f"/media/{first}", json=said)
        assert answer.is_success, answer.text
        item = answer.json()
        assert item["tags"] == [MARKUP, "Café", "Summer"]
        assert item["description"] == "The  first day.\nIt rained."
        assert item["recorded_at"] == "2019-07-01T00:00:00.000Z"
        assert [each["name"] for each in item["collections"]] == ["2020/Summer"]
        [listed] = [each for each in ada.get("/media").json()["items"] if each["id"] == first]
        assert {name: listed[name] for name in said} == {name: item[name] for name in said}
        assert item["title"] == "One"

        collection = item["collections"][0]["id"]
        ada.patch(f"/media/{second}", json={"tags": ["SUMMER"], "collections": [collection]})
        bob.patch(f"/media/{theirs}", json={"tags": ["summer"], "collections": ["2020/summer"]})
        assert names(ada, "tags") == {MARKUP: 1, "Café": 1, "Summer": 2}
        assert names(ada, "collections") == {"2020/Summer": 2}
        assert names(bob, "collections") == {"2020/summer": 1}
        assert ids_of(ada, tag="summer") == [second, first]
        assert ids_of(ada, tag="CAFE\u0301", collection=collection) == [first]
        assert ids_of(ada, collection="2020/SUMMER", sort="recorded") == [second, first]
        assert ids_of(ada, tag="winter") == []
        with running.client() as admin:
            assert ids_of(admin, tag="Summer") == [theirs, second, first]

        # What is somebody else's is not there.
        assert bob.get("/media", params={"collection": collection}).status_code == 404
        refused = bob.patch(f"/media/{theirs}", json={"collections": [collection]})
        assert refused.status_code == 404
        assert bob.patch(f"/media/{first}", json={"tags": []}).status_code == 404
        assert bob.delete(f"/collections/{collection}").status_code == 404

        # In the trash they are not counted, and come back as they were.
        ada.delete(f"/media/{first}")
        assert names(ada, "tags") == {"Summer": 1}
        ada.post(f"/media/{first}/restore")
        assert ada.get(f"/media/{first}").json()["tags"] == item["tags"]

        ada.patch(f"/media/{first}", json={"tags": [], "description": None, "recorded_at": None})
        gone = ada.get(f"/media/{first}").json()
        assert (gone["tags"], gone["description"], gone["recorded_at"]) == ([], None, None)
        assert len(gone["collections"]) == 1
        assert ada.patch(f"/media/{first}", json={}).status_code == 422


@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": ["x" * 10_000]},
        {"tags": [f"tag {n}" for n in range(1000)]},
        {"tags": [" \u200b "]},
        {"tags": None},
        {"collections": [""]},
        {"collections": ["x" * 201]},
        {"collections": ["col_" + "0" * 32]},
        {"description": "x" * 5001},
        {"recorded_at": "yesterday"},
        {"recorded_at": "9999-01-01"},
        {"title": None},
        {"origin": "api"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_cannot_be_kept_is_refused_whole(server: Running, wrong: dict[str, Any]) -> None:
    with server.user() as ada:
        media_id = library.add(server, library.user_id(ada))
        answer = ada.patch(f"/media/{media_id}", json={"tags": ["kept"], **wrong})
        assert answer.status_code in (404, 422), answer.text
        assert ada.get(f"/media/{media_id}").json()["tags"] == []
        assert names(ada, "tags") == {}


def test_collections_are_made_renamed_and_taken_away_but_never_their_media(
    either_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rushes.web.api.labels.BATCH", 2)
    with either_server.user() as ada:
        owner = library.user_id(ada)
        made = [library.add(either_server, owner, f"Item {n}") for n in range(5)]
        one = ada.post("/collections", json={"name": " Straße "}).json()
        assert (one["name"], one["items"]) == ("Straße", 0)
        assert ada.post("/collections", json={"name": "STRASSE"}).status_code == 409
        two = ada.post("/collections", json={"name": "Two"}).json()
        renamed = ada.patch(f"/collections/{two['id']}", json={"name": "strasse"})
        assert (renamed.status_code, renamed.json()["code"]) == (409, "already_exists")
        assert ada.patch(f"/collections/{one['id']}", json={"name": "STRASSE"}).is_success
        done = act(ada, "collect", filter={"ids": made}, add=[one["id"], "Two"]).json()
        assert (done["matched"], done["changed"], done["failed"]) == (5, 5, [])
        assert names(ada, "collections") == {"STRASSE": 5, "Two": 5}
        page = ada.get("/collections", params={"limit": 1}).json()
        rest = ada.get("/collections", params={"cursor": page["next_cursor"]}).json()
        assert [page["items"][0]["name"], rest["items"][0]["name"]] == ["STRASSE", "Two"]
        assert rest["next_cursor"] is None
        assert ada.get("/collections", params={"cursor": "AA"}).status_code == 422

        assert ada.delete(f"/collections/{one['id']}").status_code == 204
        assert ada.get(f"/collections/{one['id']}").status_code == 404
        assert ids_of(ada) == made[::-1]
        assert ids_of(ada, collection=two["id"]) == made[::-1]


def test_many_are_changed_at_once_and_what_was_not_is_told(
    either_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = either_server
    with running.user() as ada, running.user("bob") as bob:
        owner = library.user_id(ada)
        made = [library.add(running, owner, f"Item {n}") for n in range(4)]
        theirs = library.add(running, library.user_id(bob), "Theirs")
        ada.patch(f"/media/{made[0]}", json={"tags": ["a", "b"]})

        tried = act(ada, "tag", filter={"q": "item"}, add=["new"], dry_run=True).json()
        assert (tried["matched"], tried["changed"]) == (4, 0)
        # One that has as many as it may is told of; the others are changed.
        monkeypatch.setattr(labels, "MOST_OF_MEDIA", 2)
        done = act(ada, "tag", filter={"ids": [*made, theirs]}, add=["new"]).json()
        assert (done["matched"], sorted(done["ids"])) == (4, made[1:])
        assert [(each["id"], each["code"]) for each in done["failed"]] == [(made[0], "bad_field")]
        assert ids_of(ada, tag="new") == made[:0:-1]
        done = act(ada, "tag", filter={"tag": "new"}, remove=["NEW"]).json()
        assert (done["changed"], ids_of(ada, tag="new")) == (3, [])
        assert bob.get(f"/media/{theirs}").json()["tags"] == []
        there = bob.post("/collections", json={"name": "Bob's"}).json()["id"]
        lost = act(ada, "collect", filter={"ids": made[:1]}, add=[there]).json()
        assert [each["code"] for each in lost["failed"]] == ["not_found"]

        shared = act(ada, "share", filter={"ids": [*made[:2], theirs]}).json()
        assert sorted(shared["share_urls"]) == made[:2]
        link = shared["share_urls"][made[0]]
        assert ada.get(f"/media/{made[0]}").json()["share_url"] == link
        assert act(ada, "unshare", filter={"ids": made}).json()["changed"] == 2

        for kind in ("retranscode", "retranscribe"):
            done = act(ada, kind, filter={"ids": made}).json()
            assert (done["changed"], done["failed"]) == (4, [])
        monkeypatch.setattr("rushes.web.api.media_actions.WORK_LIMIT", 3)
        assert act(ada, "retranscode", filter={}).status_code == 422
        for wrong in (
            {"action": "tag", "filter": {}},
            {"action": "tag", "filter": {}, "add": ["x" * 1000]},
            {"action": "delete", "filter": {}, "add": ["x"]},
            {"action": "share", "filter": {"status": "trashed"}},
        ):
            assert ada.post("/media/actions", json=wrong).status_code == 422
        unknown = act(ada, "tag", filter={"collection": there}, add=["x"])
        assert unknown.status_code == 404


def test_folders_become_collections_and_programs_requests_stay_apart(
    server: Running,
) -> None:
    with server.user() as ada:
        made = {}
        for folder in ("2020/Summer", "/2020\\summer/", "../../etc", "x" * 300, ""):
            answer = ada.post("/media", files=FORM, data={"folder": folder})
            assert answer.status_code == 201, answer.text
            made[folder] = answer.json()
        found = {key: [each["name"] for each in item["collections"]] for key, item in made.items()}
        assert found == {
            "2020/Summer": ["2020/Summer"],
            "/2020\\summer/": ["2020/Summer"],
            "../../etc": ["etc"],
            "x" * 300: ["x" * 200],
            "": [],
        }
        asked = ada.post("/transcriptions/submit", files=FORM).json()["media_id"]
        own = ada.post("/media", files=FORM, data={"origin": "api"}).json()
        assert ids_of(ada, origin="api") == [own["id"], asked]
        assert ids_of(ada, origin="library") == [item["id"] for item in reversed(made.values())]
        assert len(ids_of(ada)) == 7
        assert ada.post("/media", files=FORM, data={"origin": "elsewhere"}).status_code == 422


def test_who_stopped_watching_goes_on_there_and_is_alone_with_it(either_server: Running) -> None:
    running = either_server
    with running.user() as ada, running.client() as admin:
        owner = library.user_id(ada)
        made = [library.add(running, owner, title) for title in ("One", "Two", "Three")]
        for media_id in made:
            library.publish(running, media_id, {"master.m3u8": b"#EXTM3U\n"}, {"duration": 100.0})

        def watch(client: Any, media_id: str, seconds: float) -> Any:
            return client.put(f"/media/{media_id}/position", json={"seconds": seconds}).json()

        assert watch(ada, made[0], 40)["finished"] is False
        watch(ada, made[1], 50)
        assert watch(ada, made[2], 91)["finished"] is True
        watch(admin, made[1], 7)
        watch(admin, made[0], 2)
        assert [each["seconds"] for each in admin.get("/watching").json()["items"]] == [7]
        there = ada.get("/watching").json()["items"]
        assert [(each["media"]["title"], each["seconds"]) for each in there] == [
            ("Two", 50),
            ("One", 40),
        ]
        assert ada.get(f"/media/{made[1]}/position").json()["seconds"] == 50
        assert ada.get(f"/media/{made[2]}/position").json()["finished"] is True
        ada.delete(f"/media/{made[1]}")
        ada.delete(f"/media/{made[0]}/position")
        assert ada.get("/watching").json()["items"] == []
        assert ada.get(f"/media/{made[0]}/position").json()["seconds"] == 0
        wrong = ada.put(f"/media/{made[0]}/position", json={"seconds": -1})
        assert wrong.status_code == 422


def test_filters_are_kept_by_name(either_server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rushes.web.api.watching.MOST_FILTERS", 2)
    with either_server.user() as ada, either_server.user("bob") as bob:

        def save(name: str, **filter: Any) -> Any:
            return ada.post("/saved-filters", json={"name": name, "filter": filter})

        kept = save("Interviews", tag="interview", sort="recorded").json()
        assert save("INTERVIEWS", kind="video", status="active").json()["id"] == kept["id"]
        assert save(MARKUP).status_code == 201
        assert save("Third").status_code == 422
        assert save("Wrong", user_id="bob").status_code == 422
        found = ada.get("/saved-filters").json()["items"]
        assert [each["name"] for each in found] == [MARKUP, "INTERVIEWS"]
        said = {name: value for name, value in found[1]["filter"].items() if value is not None}
        assert said == {"kind": "video", "status": "active"}
        assert bob.get("/saved-filters").json()["items"] == []
        assert bob.delete(f"/saved-filters/{kept['id']}").status_code == 404
        assert ada.delete(f"/saved-filters/{kept['id']}").status_code == 204
