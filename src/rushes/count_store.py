"""How many jobs there are: kept while events are numbered, so that nobody has to count jobs.

Who changes jobs writes events and no count, so writers do not wait for each other. Whoever numbers
the events adds them up, once each, in the same transaction; whoever asks adds those that are yet to
be added. Jobs that have ended are counted for ever; live and failed ones while they are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes.db.database import Database, Tx
from rushes.records import Row, from_row

LIVE = "'blocked','queued','processing'"
ENDED = "'completed','failed','canceled'"
# How many jobs have waited and run, and for how long, in the order of the columns of job_counts.
JOB_TIMES = """count(started_at - queued_at),
    CAST(coalesce(sum(started_at - queued_at), 0) AS bigint), count(completed_at - started_at),
    CAST(coalesce(sum(completed_at - started_at), 0) AS bigint)"""
# The events that `job_counts`, and the counts of live and failed jobs, are yet to hear of. Two
# each, because each has an index of its own.
UNNUMBERED = "events.pos IS NULL"
UNCOUNTED = (UNNUMBERED, "events.pos > (SELECT counted_pos FROM event_head)")
UNMOVED = (UNNUMBERED, "events.pos > (SELECT live_pos FROM event_head)")


def moves(which: str) -> str:
    """What these events did to the number of live jobs, as rows of kind, user_id, state, number."""
    return f"""
        SELECT job_kind AS kind, user_id, state, 1 AS number FROM events WHERE {which}
        AND job_kind IS NOT NULL AND state IN ({LIVE}) AND coalesce(job_was, '') <> state
        UNION ALL
        SELECT job_kind, user_id, job_was, -1 FROM events WHERE {which}
        AND job_kind IS NOT NULL AND job_was IN ({LIVE}) AND job_was <> state"""


def failures(which: str) -> str:
    """The jobs whose failure these events tell of."""
    return f"""
        SELECT job_kind AS kind, user_id, coalesce(error_code, '') AS error_code, 1 AS number,
            at AS failed_at, job_id FROM events
        WHERE {which} AND job_kind IS NOT NULL AND state = 'failed'"""


# Adding up, by whoever holds the lock of event_head


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last position there is, and those up to which all was added up."""

    pos: int
    counted_pos: int
    live_pos: int
    recount_due: int
    # Of the history, and the last that was forgotten.
    history_pos: int
    pruned_pos: int


def add_up(tx: Tx, head: Head) -> None:
    """All events that have a position."""
    if head.pos > head.counted_pos:
        _count_incidents(tx, head.counted_pos, head.pos)
        _count_ended(tx, head.counted_pos, head.pos)
    if head.pos > head.live_pos and head.recount_due == 0:
        _move(tx, head.live_pos, head.pos)


def _count_ended(tx: Tx, after: int, until: int) -> None:
    tx.all(
        f"""
        INSERT INTO job_counts (kind, user_id, state, count, waited, wait_ms, ran, run_ms)
        SELECT kind, user_id, state, count(*), {JOB_TIMES}
        FROM (SELECT jobs.* FROM events JOIN jobs ON jobs.id = events.job_id
              WHERE events.pos > :after AND events.pos <= :until
              AND events.state IN ({ENDED})) AS ended
        GROUP BY kind, user_id, state
        ON CONFLICT (kind, user_id, state) DO UPDATE SET
            count = job_counts.count + excluded.count,
            waited = job_counts.waited + excluded.waited,
            wait_ms = job_counts.wait_ms + excluded.wait_ms,
            ran = job_counts.ran + excluded.ran, run_ms = job_counts.run_ms + excluded.run_ms""",
        after=after,
        until=until,
    )
    tx.all("UPDATE event_head SET counted_pos = :until WHERE id = 1", until=until)


BETWEEN = "events.pos > :after AND events.pos <= :until"


def _move(tx: Tx, after: int, until: int) -> None:
    # A server from before does not tell what a job was.
    unknown = tx.one(
        f"SELECT 1 AS one FROM events WHERE {BETWEEN} AND job_kind IS NULL AND job_id IS NOT NULL"
        " AND state IS NOT NULL LIMIT 1",
        after=after,
        until=until,
    )
    if unknown:
        want_recount(tx)
        return
    tx.all(
        f"""
        INSERT INTO live_counts (user_id, kind, state, count)
        SELECT user_id, kind, state, sum(number) FROM ({moves(BETWEEN)}) AS moved
        GROUP BY user_id, kind, state HAVING sum(number) <> 0
        ON CONFLICT (user_id, kind, state) DO UPDATE SET
            count = live_counts.count + excluded.count""",
        after=after,
        until=until,
    )
    tx.all(
        f"""
        INSERT INTO failure_counts (user_id, kind, error_code, count, last_failed_at, last_job_id)
        SELECT user_id, kind, error_code, sum(number), max(failed_at), max(job_id)
        FROM ({failures(BETWEEN)}) AS failed GROUP BY user_id, kind, error_code
        ON CONFLICT (user_id, kind, error_code) DO UPDATE SET
            count = failure_counts.count + excluded.count,
            last_failed_at = excluded.last_failed_at, last_job_id = excluded.last_job_id""",
        after=after,
        until=until,
    )
    tx.all("UPDATE event_head SET live_pos = :until WHERE id = 1", until=until)


# A job that was lost and runs again; one that will not be tried again, though it might have worked:
# what is put off or given back only fails when it was claimed too often.
RECOVERED, GIVEN_UP = "stale_job_recovered", "job_max_retries_exceeded"
_INCIDENTS = f"""
    SELECT CASE events.state WHEN 'queued' THEN '{RECOVERED}' ELSE '{GIVEN_UP}' END, kind, count(*)
    FROM events JOIN jobs ON jobs.id = events.job_id
    JOIN attempts ON attempts.job_id = events.job_id AND attempts.epoch = events.epoch
    WHERE events.pos > :after AND events.pos <= :until AND (
      (events.state = 'queued' AND coalesce(job_was, '') <> 'queued'
        AND outcome IN ('lost','stalled'))
      OR (events.state = 'failed' AND (
        events.attempt >= jobs.max_attempts OR outcome IN ('deferred','released')
        OR events.error_code IN ('poison','attempts_exhausted','too_many_claims'))))
    GROUP BY 1, 2"""


def _count_incidents(tx: Tx, after: int, until: int) -> None:
    tx.all(
        f"""
        INSERT INTO incident_counts (type, kind, count) {_INCIDENTS}
        ON CONFLICT (type, kind) DO UPDATE SET
            count = incident_counts.count + excluded.count""",
        after=after,
        until=until,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCount:
    """How often there was such an incident with jobs of a kind."""

    type: str
    kind: str
    count: int


def incidents(tx: Tx) -> list[IncidentCount]:
    rows = tx.all("SELECT type, kind, count FROM incident_counts ORDER BY type, kind")
    return [from_row(IncidentCount, row) for row in rows]


# Counting again


def is_kept(tx: Tx) -> bool:
    """False while live and failed jobs have to be counted one by one."""
    row = tx.one("SELECT recount_due FROM event_head WHERE id = 1")
    return row is not None and row["recount_due"] == 0


def want_recount(tx: Tx) -> None:
    tx.all("UPDATE event_head SET recount_due = {now} WHERE id = 1")


# In one statement, so that jobs, events and positions are of the same moment: what there is, less
# what the events without a position have done, is how it was at the last position.
_COUNTED = f"""
    SELECT what, user_id, kind, word, CAST(sum(number) AS bigint) AS number, max(at) AS at,
        max(job_id) AS job_id FROM (
      SELECT 'live' AS what, user_id, kind, state AS word, count(*) AS number,
          CAST(NULL AS bigint) AS at, '' AS job_id
      FROM jobs WHERE state IN ({LIVE}) GROUP BY user_id, kind, state
      UNION ALL
      SELECT 'live', user_id, kind, state, -number, NULL, '' FROM ({moves(UNNUMBERED)}) AS moved
      UNION ALL
      SELECT 'failed', user_id, kind, coalesce(error_code, ''), count(*), max(failed_at), max(id)
      FROM jobs WHERE state = 'failed' GROUP BY user_id, kind, coalesce(error_code, '')
      UNION ALL
      SELECT 'failed', user_id, kind, error_code, -number, failed_at, job_id
      FROM ({failures(UNNUMBERED)}) AS failed
      UNION ALL
      SELECT 'position', '', '', '', pos, recount_due, '' FROM event_head) AS counted
    GROUP BY what, user_id, kind, word HAVING sum(number) <> 0 OR what = 'position'"""


def recount_if_due(db: Database) -> bool:
    """Look at every job once, without holding anybody up. Any replica may."""
    with db.read() as tx:
        if is_kept(tx):
            return False
        found = tx.all(_COUNTED)
    return db.run(lambda tx: _replace(tx, found))


def _replace(tx: Tx, found: Sequence[Row]) -> bool:
    [head] = [row for row in found if row["what"] == "position"]
    # Not if another replica was quicker: what was deleted since is in its figures only.
    moved = tx.one(
        "UPDATE event_head SET live_pos = :pos, recount_due = 0 WHERE id = 1"
        " AND recount_due = :due AND pruned_pos <= :pos RETURNING id",
        pos=head["number"],
        due=head["at"],
    )
    if moved is None:
        return False
    tx.all("DELETE FROM live_counts")
    tx.all("DELETE FROM failure_counts")
    tx.all(
        """
        INSERT INTO live_counts (user_id, kind, state, count)
        SELECT user_id, kind, word, number FROM ({given:user_id text, kind text, word text,
            number bigint}) AS given""",
        given=[row for row in found if row["what"] == "live"],
    )
    tx.all(
        """
        INSERT INTO failure_counts (user_id, kind, error_code, count, last_failed_at, last_job_id)
        SELECT user_id, kind, word, number, at, job_id FROM ({given:user_id text, kind text,
            word text, number bigint, at bigint, job_id text}) AS given""",
        given=[row for row in found if row["what"] == "failed"],
    )
    return True


# By how much the kept counts are too high. Nothing is deleted while a recount is due.
ENDED_OFF = f"""
    SELECT kind, user_id, state, CAST(sum(number) AS bigint) AS off FROM (
        SELECT kind, user_id, state, count - pruned AS number FROM job_counts
        UNION ALL
        SELECT jobs.kind, jobs.user_id, jobs.state, 1 FROM events
        JOIN jobs ON jobs.id = events.job_id
        WHERE ({" OR ".join(UNCOUNTED)}) AND events.state IN ({ENDED})
        UNION ALL
        SELECT kind, user_id, state, -1 FROM jobs WHERE state IN ({ENDED})) AS counted
    GROUP BY kind, user_id, state HAVING sum(number) <> 0"""
LIVE_OFF = f"""
    SELECT kind, user_id, state, CAST(sum(number) AS bigint) AS off FROM (
        SELECT kind, user_id, state, count AS number FROM live_counts
        UNION ALL {moves(f"({' OR '.join(UNMOVED)})")}
        UNION ALL
        SELECT kind, user_id, state, -1 FROM jobs WHERE state IN ({LIVE})) AS counted
    WHERE (SELECT recount_due FROM event_head) = 0
    GROUP BY kind, user_id, state HAVING sum(number) <> 0"""
FAILED_OFF = f"""
    SELECT kind, user_id, error_code, CAST(sum(number) AS bigint) AS off FROM (
        SELECT kind, user_id, error_code, count AS number FROM failure_counts
        UNION ALL
        SELECT kind, user_id, error_code, number
        FROM ({failures(f"({' OR '.join(UNMOVED)})")}) AS failed
        UNION ALL
        SELECT kind, user_id, coalesce(error_code, ''), -1 FROM jobs WHERE state = 'failed'
        ) AS counted
    WHERE (SELECT recount_due FROM event_head) = 0
    GROUP BY kind, user_id, error_code HAVING sum(number) <> 0"""


def repair(db: Database) -> None:
    """Make the kept counts those of the rows, whatever has happened to either."""

    def correct(tx: Tx) -> None:
        want_recount(tx)
        tx.all(
            f"""
            INSERT INTO job_counts (kind, user_id, state, count, waited, wait_ms, ran, run_ms)
            SELECT kind, user_id, state, -off, 0, 0, 0, 0 FROM ({ENDED_OFF}) AS wrong WHERE true
            ON CONFLICT (kind, user_id, state) DO UPDATE SET
                count = job_counts.count + excluded.count"""
        )

    db.run(correct)
    recount_if_due(db)
