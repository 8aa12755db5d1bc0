"""Rushes on PostgreSQL with RUSHES_QUEUE_MODE=hybrid and no Redis there; pickup only."""

from __future__ import annotations

from benchmarks.contestants import rushes_any

TITLE = "Rushes (PostgreSQL, hybrid, Redis away)"
DATABASE = "postgres"
SHARE = 1.0
DONE = rushes_any.DONE
LEFT = rushes_any.LEFT

prepare = rushes_any.prepare
serve = rushes_any.in_mode("hybrid", rushes_any.serve, redis_url="redis://127.0.0.1:1/0")
send = rushes_any.in_mode("hybrid", rushes_any.send, redis_url="redis://127.0.0.1:1/0")
