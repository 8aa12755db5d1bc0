"""Rushes on PostgreSQL with RUSHES_QUEUE_MODE=redis; pickup only."""

from __future__ import annotations

from benchmarks.contestants import rushes_any

TITLE = "Rushes (PostgreSQL, hints by Redis)"
DATABASE = "postgres"
SHARE = 1.0
DONE = rushes_any.DONE
LEFT = rushes_any.LEFT

prepare = rushes_any.prepare
serve = rushes_any.in_mode("redis", rushes_any.serve, redis_url=None)
send = rushes_any.in_mode("redis", rushes_any.send, redis_url=None)
