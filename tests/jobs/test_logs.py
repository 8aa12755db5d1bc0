"""Job logs: only the holder writes, strangers may read, the newest lines are kept."""

from __future__ import annotations

import threading

from rushes.db.database import Tx
from rushes.jobs import log_store
from rushes.jobs.terms import Claimant
from rushes.protocol import Claim
from world import World


def start(world: World) -> tuple[Claimant, Claim]:
    world.enqueue()
    worker = world.worker()
    return worker, world.claim(worker)


def append(world: World, worker: Claimant, claim: Claim, *lines: str) -> bool:
    return world.run(lambda tx: log_store.append(tx, claim, worker.id, lines))


def shown(world: World, claim: Claim, after: int = 0, limit: int = 5_000) -> list[str]:
    with world.db.read() as tx:
        return [each.line for each in log_store.read(tx, claim.job_id, after, limit)]


def test_lines_are_numbered_and_say_when_and_in_which_attempt(world: World) -> None:
    worker, claim = start(world)
    assert append(world, worker, claim, "one", "two")
    world.advance(1)
    assert append(world, worker, claim, "three")
    world.release(claim)
    again = world.claim(worker)
    assert append(world, worker, again, "four")
    with world.db.read() as tx:
        lines = log_store.read(tx, claim.job_id)
    assert [(each.number, each.epoch, each.line) for each in lines] == [
        (1, 1, "one"),
        (2, 1, "two"),
        (3, 1, "three"),
        (4, 2, "four"),
    ]
    assert lines[2].at - lines[1].at == 1_000


def test_only_the_worker_that_holds_the_job_writes_its_log(world: World) -> None:
    worker, claim = start(world)
    assert not append(world, world.worker(), claim, "not mine")
    assert not append(world, worker, Claim(claim.job_id, "clm_other"), "not this claim")
    world.complete(claim)
    assert not append(world, worker, claim, "too late")
    assert shown(world, claim) == []


def test_a_worker_that_lost_its_claim_writes_nothing_into_the_next_attempt(world: World) -> None:
    worker, claim = start(world)
    world.release(claim)
    again = world.claim(worker)
    assert not append(world, worker, claim, "a ghost")
    assert append(world, worker, again, "alive")
    assert shown(world, claim) == ["alive"]


def test_what_strangers_must_not_see_is_hidden_and_long_lines_are_cut(world: World) -> None:
    worker, claim = start(world)
    said = "opening /srv/rushes/a.mp4\nAuthorization: Bearer abc\n\n\x1b[31mred\x1b[0m \x00\ud800"
    assert append(world, worker, claim, said, "word " * 1_000)
    lines = shown(world, claim)
    assert lines[:3] == ["opening …", "Authorization: …", "red"]
    assert len(lines[3]) <= 1_000
    assert len(lines) == 4


def test_the_oldest_lines_are_dropped_and_the_reader_is_told(world: World) -> None:
    worker, claim = start(world)
    append(world, worker, claim, *(f"line {n}" for n in range(1, 2_001)))
    assert shown(world, claim)[0] == "line 1"
    append(world, worker, claim, *(f"line {n}" for n in range(2_001, 2_121)))
    lines = shown(world, claim)
    assert lines[0] == "… 120 earlier lines were dropped"
    assert lines[1:] == [f"line {n}" for n in range(121, 2_121)]
    assert shown(world, claim, after=119)[:2] == ["… 1 earlier line was dropped", "line 121"]
    assert shown(world, claim, after=120)[0] == "line 121"


def test_a_single_report_larger_than_the_log_keeps_its_end(world: World) -> None:
    worker, claim = start(world)
    append(world, worker, claim, "first")
    append(world, worker, claim, *(f"line {n}" for n in range(1, 5_001)))
    lines = shown(world, claim)
    assert lines[0] == "… 3001 earlier lines were dropped"
    assert lines[-1] == "line 5000"
    assert len(lines) == 2_001


def test_a_reader_follows_page_by_page_and_misses_nothing(world: World) -> None:
    worker, claim = start(world)
    append(world, worker, claim, *(f"line {n}" for n in range(1, 2_051)))
    seen: list[str] = []
    after = 0
    with world.db.read() as tx:
        while page := log_store.read(tx, claim.job_id, after, 300):
            seen += [each.line for each in page]
            after = page[-1].number
    assert seen == ["… 50 earlier lines were dropped", *(f"line {n}" for n in range(51, 2_051))]


def test_reports_of_one_claim_at_the_same_time_are_all_kept(world: World) -> None:
    worker, claim = start(world)
    met = threading.Barrier(4)

    def write(name: int) -> None:
        met.wait(10)
        for n in range(10):
            assert append(world, worker, claim, f"{name}.{n} a", f"{name}.{n} b")

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    lines = shown(world, claim)
    assert len(lines) == 80
    for name in range(4):
        mine = [line for line in lines if line.startswith(f"{name}.")]
        assert mine == [f"{name}.{n} {part}" for n in range(10) for part in "ab"]


def test_a_report_without_lines_only_says_whether_the_claim_is_held(world: World) -> None:
    worker, claim = start(world)

    def nothing(tx: Tx) -> bool:
        return log_store.append(tx, claim, worker.id, [" ", "\n"])

    assert world.run(nothing)
    world.complete(claim)
    assert not world.run(nothing)
    assert shown(world, claim) == []
