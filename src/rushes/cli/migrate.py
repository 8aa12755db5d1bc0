"""`rushes migrate`: the database's schema, brought up to date."""

from __future__ import annotations

from contextlib import closing

from rushes import config
from rushes.cli import output


def run(*, json: output.Json = False) -> None:
    settings = config.load()
    from rushes.db import database, schema

    with closing(database.Database(settings.database_url)) as db:
        before, after = schema.migrate(db)
    if json:
        output.print_json({"before": before, "after": after})
    elif before == after:
        print(f"schema {after}, nothing to do")
    else:
        print(f"schema {before or 'none'} -> {after}")
