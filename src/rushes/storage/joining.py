"""Objects of a bucket joined to one: the server copies them, and only what is too small for that
comes here and goes back.

`plan` is pure. Several copies run at once, and one piece is in memory at a time. Whatever fails,
the parts are aborted after the last of them has arrived: none is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

from rushes import errors
from rushes.storage.s3_calls import S3Calls

# The server's own limits for a part that is not the last, and for how many there are.
LEAST_BYTES = 5 * 2**20
MOST_BYTES = 5 * 2**30
MOST_PARTS = 10_000
# So much of what is too small to be copied becomes one part.
GATHERED_BYTES = 8 * 2**20
COPIES_AT_ONCE = 8
TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the whole: of sources `begin` to before `end`."""

    begin: int
    end: int
    is_copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    calls: S3Calls
    target: str
    # As the server names them, with the bucket.
    sources: Sequence[str]
    read: Callable[[int], bytes]


def plan(sizes: Sequence[int]) -> list[Step] | None:
    """None when that is no work for the server: nothing would be copied, or it takes no such."""
    steps: list[Step] = []
    begin, gathered = 0, 0
    for number, size in enumerate(sizes):
        if size > MOST_BYTES:
            return None
        if not gathered and size >= LEAST_BYTES:
            steps.append(Step(number, number + 1, is_copy=True))
            begin = number + 1
            continue
        gathered += size
        if gathered >= GATHERED_BYTES:
            steps.append(Step(begin, number + 1, is_copy=False))
            begin, gathered = number + 1, 0
    worth_it = any(step.is_copy for step in steps)
    if gathered:
        # The last part may be as small as it is.
        steps.append(Step(begin, len(sizes), is_copy=len(sizes) - begin == 1))
    return steps if worth_it and len(steps) <= MOST_PARTS else None


def run(place: Place, steps: Sequence[Step], tick: Callable[[], None]) -> None:
    calls, target = place.calls, place.target
    upload = calls.begin_parts(target)
    try:
        tags = _parts(place, upload, steps, tick)
        calls.end_parts(target, upload, tags)
    except BaseException:
        # What cannot be aborted now, the bucket's own rule ends.
        with suppress(errors.RushesError):
            calls.abort_parts(target, upload)
        raise


def _parts(place: Place, upload: str, steps: Sequence[Step], tick: Callable[[], None]) -> list[str]:
    """Their ETags. Nothing is on its way any more when it returns or raises."""
    calls, target = place.calls, place.target
    tags: dict[int, str] = {}
    copies: dict[Future[str], int] = {}
    pool = ThreadPoolExecutor(COPIES_AT_ONCE, thread_name_prefix="join")
    try:
        for number, step in enumerate(steps, 1):
            if step.is_copy:
                source = place.sources[step.begin]
                copies[pool.submit(calls.copy_part, target, upload, number, source)] = number
        for number, step in enumerate(steps, 1):
            if not step.is_copy:
                content = b"".join(place.read(each) for each in range(step.begin, step.end))
                tags[number] = calls.put_part(target, upload, number, content)
                tick()
        pending = set(copies)
        while pending:
            done, pending = wait(pending, TICK_SECONDS, return_when="FIRST_EXCEPTION")
            tags |= {copies[each]: each.result() for each in done}
            tick()
    finally:
        pool.shutdown(cancel_futures=True)
    return [tags[number] for number in sorted(tags)]
