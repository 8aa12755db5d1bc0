"""Lists of media in every order: a page walks an index, however many there are."""

from __future__ import annotations

import pytest

import plans
from rushes.media import label_store, list_store, media
from rushes.media import store as media_store
from rushes.media.list_store import MediaFilter
from rushes.media.media import Sort
from rushes.text_match import folded
from world import World

MANY = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000)
INSERT INTO media (id, user_id, title, title_folded, slug, file_name, size_bytes, duration,
    created_at)
SELECT 'med_' || n, 'u' || (n - n / 3 * 3), 'Take ' || n, 'take ' || n, '', '', n * n / 1000,
    CASE n - n / 4 * 4 WHEN 0 THEN NULL ELSE n / 5 END, n
FROM numbers"""


@pytest.fixture
def full(world: World) -> World:
    with world.db.begin() as tx:
        tx.all(MANY)
        tx.all("ANALYZE")
    return world


def pages(world: World, wanted: MediaFilter, sort: Sort, limit: int) -> list[str]:
    """All ids, page by page."""
    ids: list[str] = []
    after = None
    while True:
        with world.db.read() as tx:
            found = list_store.list_media(tx, wanted, sort=sort, after=after, limit=limit)
        ids += [each.id for each in found]
        if len(found) < limit:
            return ids
        after = media.list_position(found[-1], sort)


@pytest.mark.parametrize("sort", [each for each in Sort if each is not Sort.DELETED])
@pytest.mark.parametrize("owner", [None, "u1"])
def test_pages_together_are_the_whole_list_in_order(
    full: World, sort: Sort, owner: str | None
) -> None:
    wanted = MediaFilter(user_id=owner)
    ids = pages(full, wanted, sort, 700)
    assert ids == pages(full, wanted, sort, 5000)
    assert len(ids) == len(set(ids)) == (3000 if owner is None else 1000)


@pytest.mark.parametrize("sort", [each for each in Sort if each is not Sort.DELETED])
@pytest.mark.parametrize("owner", [None, "u1"])
@pytest.mark.parametrize("figures", [True, False], ids=["analyzed", "new"])
def test_a_page_walks_an_index(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    sort: Sort,
    owner: str | None,
    figures: bool,
) -> None:
    wanted = MediaFilter(user_id=owner)
    with world.db.begin() as tx:
        tx.all(MANY)
        if figures:
            tx.all("ANALYZE")
    with world.db.read() as tx:
        [first] = list_store.list_media(tx, wanted, sort=sort, limit=1)
    found = plans.collect(world, monkeypatch, lambda sql: True, plans.SORTING)
    for after in (None, media.list_position(first, sort)):
        with world.db.read() as tx:
            list_store.list_media(tx, wanted, sort=sort, after=after, limit=100)
    monkeypatch.undo()
    for _, plan in found:
        assert "Seq Scan on media" not in plan
        # Looking for a media's newest transcription sorts its few jobs.
        assert "Sort Key: media" not in plan, plan
        assert "Sort Key: (" not in plan, plan
        assert "TEMP B-TREE FOR ORDER BY" not in plan.partition("CORRELATED")[0], plan
        assert not [line for line in plan.splitlines() if line == "SCAN media"], plan
    assert "SEARCH media" in found[1][1] or "Index Cond" in found[1][1]


@pytest.mark.parametrize("sort", [each for each in Sort if each is not Sort.DELETED])
@pytest.mark.parametrize("size", [300, 3000], ids=["few", "many"])
def test_a_collection_is_listed_by_an_index(
    world: World, monkeypatch: pytest.MonkeyPatch, sort: Sort, size: int
) -> None:
    with world.db.begin() as tx:
        tx.all(MANY)
        tx.all("UPDATE media SET user_id = 'u1'")
        label = label_store.add(tx, "u1", "collection", "All")
        tx.all(
            "INSERT INTO labeled SELECT CAST(:label AS text), id FROM media WHERE created_at <= :n",
            label=label.id,
            n=size,
        )
        if size > list_store.FEW:
            tx.all("ANALYZE")
    wanted = MediaFilter(user_id="u1", labels=((label.id,),))
    ids = pages(world, wanted, sort, 100)
    assert ids == pages(world, wanted, sort, 5000)
    assert len(ids) == len(set(ids)) == size
    with world.db.read() as tx:
        [first] = list_store.list_media(tx, wanted, sort=sort, limit=1)
    closed = plans.SORTING if size > list_store.FEW or sort in (Sort.NEWEST, Sort.OLDEST) else ()
    found = plans.collect(world, monkeypatch, lambda sql: "AS status" in sql, closed)
    with world.db.read() as tx:
        after = media.list_position(first, sort)
        list_store.list_media(tx, wanted, sort=sort, after=after, limit=50)
        assert label_store.list_labels(tx, "u1", "collection", after=None, limit=5)[0].items == size
    monkeypatch.undo()
    [(_, plan)] = found
    assert "SCAN media" not in plan.splitlines()
    if size <= list_store.FEW:
        # Each of a few is found by its id, and not by a walk through all.
        assert "SEARCH media USING INDEX media_of_user_by" not in plan, plan
    if closed:
        assert "Seq Scan on media" not in plan
        assert "Seq Scan on labeled" not in plan
        assert "TEMP B-TREE FOR ORDER BY" not in plan.partition("CORRELATED")[0], plan
        assert "Sort Key: (" not in plan, plan
        assert "Sort Key: labeled" not in plan, plan


def test_what_programs_have_sent_is_not_walked_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.db.begin() as tx:
        tx.all(MANY)
        tx.all("UPDATE media SET origin = 'api', user_id = 'u1' WHERE created_at > 20")
        tx.all("ANALYZE")
    for owner in (None, "u1"):
        wanted = MediaFilter(user_id=owner, origin="library")
        assert len(pages(world, wanted, Sort.NEWEST, 7)) == (20 if owner is None else 7)
        found = plans.collect(world, monkeypatch, lambda sql: "AS status" in sql, plans.SORTING)
        with world.db.read() as tx:
            list_store.list_media(tx, wanted, limit=50)
        monkeypatch.undo()
        assert "media_of_people" in found[0][1], found[0][1]


def test_what_has_no_length_yet_comes_last(world: World) -> None:
    short, unknown, long = (world.add_media(title) for title in ("a", "b", "c"))
    with world.db.begin() as tx:
        media_store.set_facts(tx, short, kind=None, duration=1.5)
        media_store.set_facts(tx, long, kind=None, duration=90)
    assert pages(world, MediaFilter(), Sort.LONGEST, 1) == [long, short, unknown]


def test_titles_are_in_order_whatever_their_capitals(world: World) -> None:
    ids = {title: world.add_media(title) for title in ("beta", "Alpha", "alpha 2", "ALPHA 1")}
    assert [folded("ﬁLM"), folded("film")] == ["film", "film"]
    in_order = [ids[each] for each in ("Alpha", "ALPHA 1", "alpha 2", "beta")]
    assert pages(world, MediaFilter(), Sort.TITLE, 1) == in_order


def test_titles_that_begin_alike_for_long_are_all_listed(world: World) -> None:
    ids = [world.add_media("x" * 250 + str(n)) for n in range(5)]
    assert pages(world, MediaFilter(), Sort.TITLE, 2) == ids
