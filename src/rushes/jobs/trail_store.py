"""The texts that look for jobs, and pick them, along trails."""

from __future__ import annotations

# Jobs that may be before the place where the others begin: they came back, or had to wait, or have
# the place of their whole. All others are queued behind those that were there before.
CAME_BACK = "(claims > 0 OR run_at > queued_at OR division IS NOT NULL)"
# Between the lanes that have a trail, the others are found as above; no lane is behind '4'.
WAITING_ON_TRAILS = f"""
    WITH RECURSIVE trail AS MATERIALIZED ({{given:lane text, at bigint, place text}}),
    gap AS (
        SELECT lane, coalesce(lead(lane) OVER (ORDER BY lane), '4') AS until
        FROM (SELECT '' AS lane UNION ALL SELECT lane FROM trail) AS known
    ), lanes(lane, until) AS (
        SELECT (SELECT min(lane) FROM jobs WHERE state = 'queued' AND jobs.lane > gap.lane
            AND jobs.lane < gap.until), until FROM gap
        UNION ALL
        SELECT (SELECT min(lane) FROM jobs WHERE state = 'queued' AND jobs.lane > lanes.lane
            AND jobs.lane < lanes.until), until
        FROM lanes WHERE lanes.lane IS NOT NULL
    ), head AS (
        SELECT (SELECT id FROM jobs
                WHERE state = 'queued' AND jobs.lane = lanes.lane AND run_at <= {{now}}
                ORDER BY jobs.lane, queued_at, id LIMIT 1) AS id
        FROM lanes WHERE lane IS NOT NULL
        UNION ALL
        SELECT (SELECT id FROM jobs
                WHERE state = 'queued' AND jobs.lane = trail.lane AND run_at <= {{now}}
                AND (queued_at, id) >= (trail.at, trail.place)
                ORDER BY jobs.lane, queued_at, id LIMIT 1) FROM trail
        UNION ALL
        SELECT (SELECT id FROM jobs
                WHERE state = 'queued' AND jobs.lane = trail.lane AND run_at <= {{now}}
                AND {CAME_BACK} AND (queued_at, id) < (trail.at, trail.place)
                ORDER BY jobs.lane, queued_at, id LIMIT 1) FROM trail
    )"""
SINCE = " AND (queued_at, id) >= (:at, :place)"
BEFORE = f" AND {CAME_BACK} AND (queued_at, id) < (:at, :place)"
