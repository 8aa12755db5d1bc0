"""Alembic's entry point: runs the revisions on the connection that `db.upgrade` hands over."""

from __future__ import annotations

from alembic import context

given = context.config.attributes
context.configure(
    connection=given["connection"],
    # SQLite's are all in the one that is open already.
    transaction_per_migration=True,
    on_version_apply=given["applied"],
)
with context.begin_transaction():
    context.run_migrations()
