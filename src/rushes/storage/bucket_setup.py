"""A bucket made ready: made if asked for, told what ends by itself and which pages may read it.

What was set is read back. Each step is told by itself: a key that may not, or a server that does
not know a call, keeps none of the others from being done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element

from rushes import errors
from rushes.storage import bucket_rules
from rushes.storage.bucket_rules import Wanted
from rushes.storage.s3_calls import S3Calls

State = Literal["done", "already", "would", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    step: str
    state: State
    # For people, a line each.
    said: Sequence[str] = ()


def set_up(
    calls: S3Calls, wanted: Wanted, *, region: str, create: bool, dry_run: bool
) -> Iterator[Outcome]:
    bucket = _told("bucket", lambda: _bucket(calls, region, create=create, dry_run=dry_run))
    yield bucket
    if bucket.state == "failed":
        return
    is_new = bucket.state == "would"
    for step, root, rules in (
        ("lifecycle", "LifecycleConfiguration", wanted.lifecycle()),
        ("cors", "CORSConfiguration", wanted.cors()),
    ):
        if is_new:
            yield Outcome(step, "would", bucket_rules.described(rules))
        else:
            yield _rules(calls, step, root, rules, dry_run=dry_run)


def _bucket(calls: S3Calls, region: str, *, create: bool, dry_run: bool) -> Outcome:
    try:
        calls.call("HEAD")
    except errors.NotFound:
        if not create:
            said = "it does not exist: --create makes it"
            return Outcome("bucket", "failed", [said])
        if dry_run:
            return Outcome("bucket", "would", [f"make it in the region {region}"])
        calls.create_bucket(region)
        calls.call("HEAD")
        return Outcome("bucket", "done", [f"made in the region {region}"])
    return Outcome("bucket", "already", ["it exists"])


def _rules(
    calls: S3Calls, step: str, root: str, rules: Sequence[Element], *, dry_run: bool
) -> Outcome:
    lines = bucket_rules.described(rules)

    def apply() -> Outcome:
        document = bucket_rules.merged(root, calls.configuration(step), rules)
        if document is None:
            return Outcome(step, "already", lines)
        if dry_run:
            return Outcome(step, "would", lines)
        calls.configure(step, document)
        if lost := bucket_rules.missing(calls.configuration(step), rules):
            said = f"the storage has taken these rules and does not have them: {', '.join(lost)}"
            return Outcome(step, "failed", [said])
        return Outcome(step, "done", lines)

    return _told(step, apply)


def _told(step: str, apply: Callable[[], Outcome]) -> Outcome:
    try:
        return apply()
    except errors.NotSupported:
        return Outcome(
            step, "failed", ["the storage does not know this call: set it by its own tools"]
        )
    except errors.RushesError as error:
        return Outcome(step, "failed", [errors.for_operators(error)])
