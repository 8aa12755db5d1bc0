"""A database of an earlier version of Rushes is brought up to date with all that is in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import world as worlds
from rushes import errors, events, ids, renditions
from rushes.db import schema
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.jobs import invariants, read_store
from rushes.jobs.job import NewJob
from rushes.jobs.queue import Queue
from rushes.jobs.terms import Claimant
from rushes.media import library, list_store, purge_store, trash
from rushes.media import store as media_store
from rushes.playback import growing
from rushes.protocol import Claim, Part
from rushes.transcripts import search


@pytest.fixture(params=["sqlite", "postgres"])
def old(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Database]]:
    """Makes a database of an older schema."""
    opened: list[Database] = []

    def make(url: str, revision: str) -> Database:
        opened.append(Database(url))
        with monkeypatch.context() as then:
            then.setattr(schema, "HEAD", revision)
            schema.migrate(opened[-1])
        return opened[-1]

    if request.param == "sqlite":
        yield lambda revision: make(f"sqlite:///{tmp_path}/old.db", revision)
    else:
        with worlds.postgres_database(worlds.EMPTY_DATABASE) as url:
            yield lambda revision: make(url, revision)
            opened[-1].close()
    opened[-1].close()


def insert(tx: Tx, table: str, **values: Any) -> None:
    names = ", ".join(values)
    given = ", ".join(f":{name}" for name in values)
    tx.all(f"INSERT INTO {table} ({names}) VALUES ({given})", **values)


def fill(tx: Tx) -> None:
    """A job in its second attempt, each with a version of its own, as it was before 0003."""
    insert(tx, "media", id="med_1", user_id="", title="Holiday", created_at=1)
    insert(
        tx, "workers", id="wrk_1", name="w", kinds="[]", capabilities="[]", metadata="{}",
        registered_at=1,
    )  # fmt: skip
    insert(
        tx, "jobs", id="job_1", kind="transcode", media_id="med_1", user_id="", state="processing",
        priority=2, lane="2 transcode", args="{}", needs="[]", created_at=1, queued_at=1, run_at=1,
        started_at=2, attempt=2, max_attempts=3, claims=2, claim_epoch=2, claim_id="clm_2",
        claimed_by="wrk_1", claimed_at=3, claim_expires_at=2**50, deadline_at=2**50,
    )  # fmt: skip
    for n, outcome in ((1, "lost"), (2, None)):
        ended = {"ended_at": 3, "outcome": outcome, "job_state": "queued"} if outcome else {}
        insert(
            tx, "attempts", job_id="job_1", epoch=n, number=n, claim_id=f"clm_{n}",
            worker_id="wrk_1", worker_name="w", started_at=n, **ended,
        )  # fmt: skip
        insert(
            tx, "versions", id=f"ver_{n}", media_id="med_1", job_id="job_1", claim_id=f"clm_{n}",
            state="building", created_at=n,
        )  # fmt: skip
        insert(
            tx, "artifacts", version_id=f"ver_{n}", name="a.txt", key=f"media/{n}", size_bytes=1,
            sha256="", content_type="text/plain", recorded_at=n,
        )  # fmt: skip


def test_an_attempt_under_way_is_completed_after_the_upgrade(
    old: Callable[[str], Database],
) -> None:
    db = old("0002")
    db.run(fill)
    assert schema.migrate(db) == ("0002", schema.HEAD)
    with db.read() as tx:
        states = tx.all("SELECT id, state FROM versions ORDER BY id")
        outcomes = tx.all("SELECT claim_id, outcome FROM attempts ORDER BY epoch")
    assert [row["state"] for row in states] == ["abandoned", "building"]
    assert [row["outcome"] for row in outcomes] == ["lost", None]
    done = db.run(lambda tx: library.complete(tx, Queue(), Claim("job_1", "clm_2"), files=1))
    assert done.state == "completed"
    with db.read() as tx:
        assert worlds.current_version(tx, "med_1") == "ver_2"
        assert [row.name for row in media_store.artifacts(tx, "ver_2")] == ["a.txt"]
        broken = [each.invariant for each in invariants.check(tx)]
    # The rows were made by hand, without their events.
    assert set(broken) <= {"I7", "I23b", "I23c"}


def deleted(tx: Tx, name: str, *, purging: str | None = None, purged: bool = False) -> None:
    """As it was before 0009: without a version from the moment it was deleted."""
    insert(
        tx, "media", id=f"med_{name}", user_id="ada", title=name, title_folded=name, created_at=1,
        deleted_at=5, source_key=None if purged else f"sources/{name}",
        purged_at=6 if purged else None,
    )  # fmt: skip
    for n, retired_at in ((1, 3), (2, 5)):
        insert(
            tx, "versions", id=f"ver_{name}_{n}", media_id=f"med_{name}", job_id=f"job_{n}",
            claim_id=f"clm_{name}_{n}", state="purged" if purged else "retired", created_at=n,
            published_at=n, retired_at=retired_at,
        )  # fmt: skip
    if purging:
        insert(
            tx, "jobs", id=f"job_{name}", kind="purge", user_id="", state="queued", priority=3,
            lane="3 purge", args="{}", needs="[]", created_at=1, queued_at=1, run_at=1,
            max_attempts=3, dedupe_key=f"purge:{purging}",
        )  # fmt: skip


def test_what_was_deleted_before_is_in_the_trash_unless_its_bytes_may_be_gone(
    old: Callable[[str], Database],
) -> None:
    db = old("0008")

    def fill_trash(tx: Tx) -> None:
        deleted(tx, "whole")
        deleted(tx, "begun", purging="med_begun")
        deleted(tx, "half", purging="ver_half_2")
        deleted(tx, "gone", purged=True)

    db.run(fill_trash)
    schema.migrate(db)
    with db.read() as tx:
        found = list_store.list_media(tx, list_store.MediaFilter(status="trashed"), limit=10)
    assert [item.id for item in found] == ["med_whole"]
    item = db.run(lambda tx: trash.restore(tx, Queue(), "med_whole", "ada"))
    assert (item.status, item.current_version_id) == ("ready", "ver_whole_2")
    for name in ("begun", "half", "gone"):
        with pytest.raises(errors.WrongState), db.begin() as tx:
            trash.restore(tx, Queue(), f"med_{name}", "ada")
    with db.read() as tx:
        assert set(purge_store.due_media(tx, trash_ms=2**50, limit=10)) == {
            "med_begun",
            "med_half",
        }
        broken = [each.invariant for each in invariants.check(tx)]
    assert not {"I10", "I31"} & set(broken)


def replaced(tx: Tx, name: str, *kinds: str) -> None:
    """As it was before 0013: each version took the place of the one before, whatever it was."""
    insert(
        tx, "media", id=f"med_{name}", user_id="ada", title=name, title_folded=name, created_at=1,
        source_key=f"sources/{name}", current_version_id=f"ver_{name}_{len(kinds)}",
    )  # fmt: skip
    for n, kind in enumerate(kinds, 1):
        insert(
            tx, "jobs", id=f"job_{name}_{n}", kind=kind, media_id=f"med_{name}", user_id="ada",
            state="completed", priority=2, lane=f"2 {kind}", args="{}", needs="[]", created_at=1,
            queued_at=1, run_at=1, attempt=1, max_attempts=3, claims=1, claim_epoch=1,
            completed_at=2,
        )  # fmt: skip
        is_last = n == len(kinds)
        insert(
            tx, "versions", id=f"ver_{name}_{n}", media_id=f"med_{name}", job_id=f"job_{name}_{n}",
            claim_id=f"clm_{name}_{n}", state="current" if is_last else "retired", created_at=n,
            published_at=n, retired_at=None if is_last else n + 1,
        )  # fmt: skip


def test_what_a_kind_of_ones_own_had_replaced_is_watched_again(
    old: Callable[[str], Database],
) -> None:
    db = old("0012")

    def fill_media(tx: Tx) -> None:
        replaced(tx, "hidden", "transcode", "trim", "summarize")
        replaced(tx, "shown", "summarize", "summarize", "transcode")
        replaced(tx, "plain", "transcode", "transcode")

    db.run(fill_media)
    schema.migrate(db)
    with db.read() as tx:
        watched = tx.all("SELECT id, current_version_id AS version FROM media ORDER BY id")
        current = tx.all("SELECT id, slot FROM versions WHERE state = 'current' ORDER BY id")
        broken = [each.invariant for each in invariants.check(tx)]
    assert {row["id"]: row["version"] for row in watched} == {
        "med_hidden": "ver_hidden_2",
        "med_plain": "ver_plain_2",
        "med_shown": "ver_shown_3",
    }
    assert {row["id"]: row["slot"] for row in current} == {
        "ver_hidden_2": "watch",
        "ver_hidden_3": "summarize",
        "ver_plain_2": "watch",
        "ver_shown_2": "summarize",
        "ver_shown_3": "watch",
    }
    assert not {"I10", "I31"} & set(broken)


def test_a_job_can_be_divided_after_the_upgrade(old: Callable[[str], Database]) -> None:

    db = old("0002")
    schema.migrate(db)
    queue = Queue()
    worker = Claimant(id=ids.new("wrk"), name="w", kinds=("demo",))
    db.run(lambda tx: fleet.register(tx, worker.id, worker.name))
    db.run(lambda tx: queue.enqueue(tx, NewJob(kind="demo")))
    [held] = db.run(lambda tx: queue.claim(tx, worker))
    state = db.run(lambda tx: queue.divide(tx, held.claim, [Part(kind="demo")]))
    assert state == "blocked"


def test_media_of_an_earlier_version_are_found_by_their_titles(
    old: Callable[[str], Database],
) -> None:
    db = old("0003")
    db.run(lambda tx: insert(tx, "media", id="med_1", user_id="", title="Holiday", created_at=1))
    schema.migrate(db)
    assert db.run(search.catch_up) == 1
    with db.read() as tx:
        [hit] = search.search(tx, "holi", user_id="").hits
    assert (hit.media_id, hit.kind) == ("med_1", "title")


def test_kept_answers_with_a_webhooks_secret_are_forgotten(old: Callable[[str], Database]) -> None:
    db = old("0011")

    def fill(tx: Tx) -> None:
        for key, body in (("a", '{"id":"whk_1","secret":"whsec_x"}'), ("b", '{"id":"job_1"}')):
            insert(
                tx, "idempotency_keys", owner="ada", key=key, fingerprint="f", body=body,
                created_at=1,
            )  # fmt: skip
        insert(
            tx, "webhooks", id="whk_1", user_id="ada", url="https://x.example", types="[]",
            secret="whsec_x", created_at=1,
        )  # fmt: skip

    db.run(fill)
    schema.migrate(db)
    with db.read() as tx:
        assert [row["key"] for row in tx.all("SELECT key FROM idempotency_keys")] == ["b"]
        [hook] = tx.all("SELECT failures, failing_since, rest_until FROM webhooks")
    assert hook == {"failures": 0, "failing_since": None, "rest_until": None}


def test_what_is_being_made_can_be_watched_on_after_the_upgrade(
    old: Callable[[str], Database],
) -> None:
    db = old("0013")
    rung = {"name": "720p", "status": "in_progress", "width": 1280, "height": 720, "codecs": "avc1"}
    rung |= {"bandwidth": 900_000, "frame_rate": 25, "encoder": "libx264", "segments_total": None}
    sound = {"name": "audio", "codecs": "mp4a.40.2", "bandwidth": 128_000, "default": True}
    told = {"renditions": [rung, {"name": 7}, "x"], "audio": [sound], "speed": 2.0}

    def fill_media(tx: Tx) -> None:
        replaced(tx, "new", "transcode")
        tx.all("UPDATE versions SET state = 'building', published_at = NULL")
        tx.all("UPDATE jobs SET detail = :detail", detail=json.dumps(told))

    db.run(fill_media)
    schema.migrate(db)
    with db.read() as tx:
        [row] = tx.all("SELECT declared FROM versions")
    first, second = renditions.decode(row["declared"])
    assert (first.name, first.kind, first.width, first.frame_rate) == ("720p", "video", 1280, 25)
    assert (second.name, second.kind, second.default) == ("audio", "audio", True)
    files = {
        f"{name}/{file}" for name in ("720p", "audio") for file in ("init.mp4", "seg_00000.m4s")
    }
    assert "720p/playlist.m3u8" in (growing.master([first, second], files) or "")


def test_jobs_that_ended_before_the_upgrade_are_counted_once(
    old: Callable[[str], Database],
) -> None:
    db = old("0014")

    def fill(tx: Tx) -> None:
        for number, (state, position) in enumerate(
            [("completed", 1), ("completed", None), ("failed", 2), ("queued", 3)]
        ):
            at = f"{state}_at" if state != "queued" else "run_at"
            insert(
                tx, "jobs", id=f"job_{number}", kind="noop", user_id="ada", state=state, priority=2,
                lane="2", args="{}", needs="[]", created_at=1, queued_at=1, max_attempts=3,
                **{"run_at": 1, "started_at": 3, at: 10},
            )  # fmt: skip
            insert(
                tx, "events", pos=position, at=1, type=f"noop.{state}", job_id=f"job_{number}",
                state=state, user_id="ada",
            )  # fmt: skip
        tx.all("UPDATE event_head SET pos = 3")

    db.run(fill)
    schema.migrate(db)
    for _ in range(2):
        with db.read() as tx:
            found = {str(row.state): row for row in read_store.stats(tx)}
            assert {state: row.count for state, row in found.items()} == {
                "completed": 2,
                "failed": 1,
                "queued": 1,
            }
            assert (found["completed"].wait_ms, found["completed"].run_ms) == (2, 7)
            counted = invariants.INVARIANTS["I28"][1]
            assert tx.all(counted) == []
        db.run(events.assign_positions)
