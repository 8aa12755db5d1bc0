"""`rushes migrate`: the database's schema, brought up to date, or what that would do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import config
from rushes.cli import FAILED, REFUSED, output

if TYPE_CHECKING:
    from rushes.db import revisions, schema

Check = Annotated[
    bool,
    output.FLAG,
    cyclopts.Parameter(
        help="Change nothing; list what would be done. Exit code 0: nothing, 1: servers may go on"
        " meanwhile, 4: those that run have to be stopped first."
    ),
]


def run(*, check: Check = False, json: output.Json = False) -> int:
    settings = config.load()
    if check:
        return _check(settings.database_url, json=json)
    from rushes.db import database, schema

    with closing(database.Database(settings.database_url)) as db:
        before, after = schema.migrate(db)
    if json:
        output.print_json({"before": before, "after": after})
    elif before == after:
        print(f"{_described(after)}, nothing to do")
    else:
        print(f"schema {before or 'none'} -> {after}")
    return 0


def _check(database_url: str, *, json: bool) -> int:
    plan = _plan(database_url)
    if json:
        output.print_json(_document(plan))
    else:
        for line in _lines(plan):
            print(line)
    if not plan.pending:
        return 0
    return FAILED if plan.servers_may_go_on else REFUSED


def _plan(database_url: str) -> schema.Plan:
    from rushes.db import database, revisions, schema

    url = database.parse_url(database_url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        # Looking must not make the file.
        return schema.Plan(schema.Found(None), revisions.pending(None, schema.HEAD), [])
    with closing(database.Database(database_url)) as db:
        return schema.plan(db)


def _lines(plan: schema.Plan) -> Iterator[str]:
    before = plan.found.revision
    if not plan.pending:
        yield f"{_described(str(before))}, nothing to do"
        return
    for each in plan.pending:
        yield "  ".join(
            (
                each.revision,
                each.change.ljust(len("contraction")),
                f"servers of schema {each.works_with} and newer may go on",
                "long locks " if each.long_locks else "short locks",
                each.sentence,
            )
        )
    for old in plan.in_the_way:
        yield f"servers of schema {old.revision} are running: stop them first"
    if not (plan.servers_may_go_on or plan.in_the_way):
        yield f"servers of schema {before} could not go on: stop them first"


def _document(plan: schema.Plan) -> dict[str, Any]:
    before = plan.found.revision
    after = plan.pending[-1].revision if plan.pending else before
    return {
        "before": before,
        "after": after,
        "servers_may_go_on": plan.servers_may_go_on,
        "pending": [_pending(each, before) for each in plan.pending],
        "servers": [
            {
                "schema": each.revision,
                "connections": each.connections,
                "may_go_on": each not in plan.in_the_way,
            }
            for each in plan.servers
        ],
    }


def _pending(each: revisions.Migration, before: str | None) -> dict[str, Any]:
    return {
        "revision": each.revision,
        "sentence": each.sentence,
        "change": each.change,
        "works_with": each.works_with,
        "servers_may_go_on": before is not None and each.works_with <= before,
        "long_locks": each.long_locks,
    }


def _described(revision: str) -> str:
    from rushes.db import schema

    newer = f", newer than {schema.HEAD} of this version" if revision > schema.HEAD else ""
    return f"schema {revision}{newer}"
