"""How many jobs ended in each minute and half-hour of late: kept as events are numbered, so that
the history of the queue costs the same however many jobs there are.

`history_pos` is the position up to which ends of jobs were added; whoever asks adds the rest.
`history_since` is when the kept counts begin: what ended before is read from the jobs, until
`fill` has come to it, which goes back in time a step at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from rushes.count_store import BETWEEN, ENDED, JOB_TIMES, UNNUMBERED, Head
from rushes.db.database import Database, Tx
from rushes.records import Row, from_row

MINUTE_MS, HALF_HOUR_MS, HOUR_MS = 60_000, 1_800_000, 3_600_000
# How long the counts of each width are kept: as long as anybody may ask for them.
KEPT_MS = {MINUTE_MS: 16 * HOUR_MS, HALF_HOUR_MS: 172 * HOUR_MS}
# Before anything was filled in.
NEVER = 9_000_000_000_000_000_000
# When a job ended, in whichever way; there is an index on just these words.
ENDED_AT = "coalesce(completed_at, failed_at, canceled_at)"
UNADDED = (UNNUMBERED, "events.pos > (SELECT history_pos FROM event_head)")

FIGURES = ("completed", "failed", "canceled", "waited", "wait_ms", "ran", "run_ms")
_FIGURES = ", ".join(FIGURES)
# Of jobs, in the order of the columns.
_OF_JOBS = f"""count(CASE state WHEN 'completed' THEN 1 END),
    count(CASE state WHEN 'failed' THEN 1 END), count(CASE state WHEN 'canceled' THEN 1 END),
    {JOB_TIMES}"""


def _from_events(which: str) -> str:
    """The jobs whose end these events tell of."""
    return f"""SELECT jobs.* FROM events JOIN jobs ON jobs.id = events.job_id
        WHERE {which} AND events.state IN ({ENDED})"""


def _from_rows(begin: str, end: str) -> str:
    """All that ended between these times."""
    return f"""SELECT * FROM jobs WHERE state IN ({ENDED})
        AND {ENDED_AT} >= {begin} AND {ENDED_AT} < {end}"""


def _counts(jobs: str) -> str:
    """Rows of `ended_counts` for these jobs, but for minutes that nobody asks for any more."""
    return f"""
        SELECT width, everybody, CASE everybody WHEN 1 THEN '' ELSE user_id END AS user_id,
            {ENDED_AT} / width * width AS at, kind, {_OF_JOBS}
        FROM ({jobs}) AS ended
        CROSS JOIN (SELECT CAST({MINUTE_MS} AS bigint) AS width, {KEPT_MS[MINUTE_MS]} AS kept
            UNION ALL SELECT {HALF_HOUR_MS}, {KEPT_MS[HALF_HOUR_MS]}) AS widths
        CROSS JOIN (SELECT 0 AS everybody UNION ALL SELECT 1) AS whose
        WHERE {ENDED_AT} >= {{now}} - kept
        GROUP BY 1, 2, 3, 4, 5"""


_INTO = f"INSERT INTO ended_counts (width, everybody, user_id, at, kind, {_FIGURES})"
_ADDED = "ON CONFLICT (width, everybody, user_id, at, kind) DO UPDATE SET " + ", ".join(
    f"{each} = ended_counts.{each} + excluded.{each}" for each in FIGURES
)


# Adding up, by whoever holds the lock of event_head


def add_up(tx: Tx, head: Head) -> None:
    """All events that have a position."""
    if head.pruned_pos > head.history_pos:
        # Older servers have numbered them, and they were forgotten since.
        want_refill(tx)
    elif head.pos > head.history_pos:
        _add(tx, head.history_pos, head.pos)
        tx.all("UPDATE event_head SET history_pos = :pos WHERE id = 1", pos=head.pos)


def _add(tx: Tx, after: int, until: int, begin: int = 0, end: int = NEVER) -> None:
    """`begin`, `end`: only what ended between them."""
    jobs = f"{_from_events(BETWEEN)} AND {ENDED_AT} >= :begin AND {ENDED_AT} < :end"
    tx.all(
        f"{_INTO} SELECT * FROM ({_counts(jobs)}) AS fresh WHERE true {_ADDED}",
        after=after,
        until=until,
        begin=begin,
        end=end,
    )


def want_refill(tx: Tx) -> None:
    """All is to be read from the jobs again."""
    tx.all(
        "UPDATE event_head SET history_pos = pos, history_since = :never WHERE id = 1", never=NEVER
    )


# What ended before


def fill(db: Database) -> bool:
    """One step back in time: half an hour in which jobs ended, without holding anybody up. Any
    replica may. False: there is nothing left to fill in, or another one was quicker."""
    with db.read() as tx:
        step = _next_step(tx)
        if step is None:
            return False
        begin, end = step
        found = tx.all(_FOUND, begin=begin, end=end)
    return db.run(lambda tx: _replace(tx, begin, end, found))


def _next_step(tx: Tx) -> tuple[int, int] | None:
    row = tx.one(
        "SELECT history_since, {now} - :kept AS oldest FROM event_head", kept=KEPT_MS[HALF_HOUR_MS]
    )
    if row is None or row["history_since"] <= row["oldest"]:
        return None
    end = int(row["history_since"])
    last = tx.one(
        f"SELECT {ENDED_AT} AS at FROM jobs WHERE state IN ({ENDED}) AND {ENDED_AT} < :end"
        f" ORDER BY {ENDED_AT} DESC LIMIT 1",
        end=end,
    )
    begin = max(row["oldest"], last["at"] if last else 0)
    return begin - begin % HALF_HOUR_MS, end


_ADDED_ALREADY = " AND ".join(
    f"jobs.id NOT IN (SELECT job_id FROM events WHERE {each} AND job_id IS NOT NULL"
    f" AND events.state IN ({ENDED}))"
    for each in UNADDED
)
# In one statement, so that jobs, events and the position are of the same moment.
_FOUND = f"""
    SELECT width, everybody, user_id, at, kind, {_FIGURES} FROM (
      SELECT * FROM (
        SELECT 0 AS width, 0 AS everybody, '' AS user_id, history_pos AS at, '' AS kind,
            {", ".join(f"0 AS {each}" for each in FIGURES)} FROM event_head) AS head
      UNION ALL
      SELECT * FROM ({_counts(_from_rows(":begin", ":end") + " AND " + _ADDED_ALREADY)}) AS counts
    ) AS found"""


def _replace(tx: Tx, begin: int, end: int, found: Sequence[Row]) -> bool:
    [pos] = [row["at"] for row in found if row["width"] == 0]
    moved = tx.one(
        "UPDATE event_head SET history_since = :begin WHERE id = 1 AND history_since = :end"
        " AND pruned_pos <= :pos RETURNING history_pos",
        begin=begin,
        end=end,
        pos=pos,
    )
    if moved is None:
        return False
    for width in KEPT_MS:
        tx.all(
            "DELETE FROM ended_counts WHERE width = :width AND at >= :begin AND at < :end",
            width=width,
            begin=begin,
            end=end,
        )
    numbers = ", ".join(f"{each} bigint" for each in FIGURES)
    tx.all(
        f"""
        {_INTO} SELECT width, everybody, user_id, at, kind, {_FIGURES}
        FROM ({{given:width bigint, everybody integer, user_id text, at bigint, kind text,
            {numbers}}}) AS given""",
        given=[row for row in found if row["width"]],
    )
    # What was added to the old counts meanwhile.
    _add(tx, pos, moved["history_pos"], begin, end)
    return True


def forget(tx: Tx, *, limit: int) -> int:
    """What nobody asks for any more; returns how many rows, at most `limit` of each width."""
    key = "width, everybody, user_id, at, kind"
    gone = 0
    for width, kept in KEPT_MS.items():
        gone += len(
            tx.all(
                f"DELETE FROM ended_counts WHERE ({key}) IN (SELECT {key} FROM ended_counts"
                " WHERE width = :width AND at < {now} - :kept ORDER BY at LIMIT :limit)"
                " RETURNING at",
                width=width,
                kept=kept + width,
                limit=limit,
            )
        )
    return gone


# Asking


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Whose jobs, and of which kinds; what is None does not matter."""

    user_id: str | None = None
    kind: str | None = None
    not_kinds: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCount:
    """How many jobs ended in a bucket of time; how many of them had waited and run, and for how
    long together."""

    number: int
    completed: int = 0
    failed: int = 0
    canceled: int = 0
    waited: int = 0
    wait_ms: int = 0
    ran: int = 0
    run_ms: int = 0


def ended(tx: Tx, filter: HistoryFilter, *, since: int, width: int) -> list[EndedCount]:
    """For each bucket of `width` milliseconds in which a job ended; `number` counts them from
    `since`. Both are multiples of a minute, and `since` of `width`."""
    head = tx.one("SELECT history_since FROM event_head")
    filled = max(since, head["history_since"] if head else NEVER)
    sums = ", ".join(f"CAST(sum({each}) AS bigint) AS {each}" for each in FIGURES)
    sources = " UNION ALL ".join(_sources(filter, fills=filled > since))
    rows = tx.all(
        f"""
        SELECT (at - CAST(:since AS bigint)) / :width AS number, {sums}
        FROM ({sources}) AS ended GROUP BY 1""",
        since=since,
        filled=filled,
        width=width,
        base=base_of(width),
        everybody=int(filter.user_id is None),
        user_id=filter.user_id or "",
        kind=filter.kind,
        not_kinds=msgspec.json.encode(list(filter.not_kinds)).decode(),
    )
    return [from_row(EndedCount, row) for row in rows]


def base_of(width: int) -> int:
    """Of which counts buckets of this width are made."""
    return MINUTE_MS if width % HALF_HOUR_MS else HALF_HOUR_MS


def _sources(filter: HistoryFilter, *, fills: bool) -> Iterator[str]:
    """What is kept, what is yet to be added, and, if some is not filled in yet, what was before."""
    kinds = "" if filter.kind is None else " AND kind = :kind"
    if filter.not_kinds:
        kinds += " AND kind NOT IN (SELECT value FROM {each:CAST(:not_kinds AS text)})"
    yield f"""SELECT at, {_FIGURES} FROM ended_counts WHERE width = :base
        AND everybody = :everybody AND user_id = :user_id AND at >= :filled{kinds}"""
    jobs = kinds if filter.user_id is None else f" AND jobs.user_id = :user_id{kinds}"
    for each in UNADDED:
        yield _by_minute(f"{_from_events(each)} AND {ENDED_AT} >= :filled{jobs}")
    if fills:
        yield _by_minute(f"{_from_rows(':since', ':filled')}{jobs}")


def _by_minute(jobs: str) -> str:
    return f"""SELECT {ENDED_AT} / {MINUTE_MS} * {MINUTE_MS} AS at, {_OF_JOBS}
        FROM ({jobs}) AS one GROUP BY 1"""
