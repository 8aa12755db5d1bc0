"""How this worker works now: its own settings, below what the server says, and what follows of them
for its hours, its tools, its disk and its memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rushes import worker_settings
from rushes.protocol import Standing
from rushes.worker.scratch import ScratchSpace
from rushes.worker_settings import RELEASE, Group, WorkerSettings

log = logging.getLogger("rushes.worker")

# A rest that is so much shorter or longer than was told is told again: a clock was set.
SHIFT_SECONDS = 90.0


def _local_time() -> datetime:
    return datetime.now().astimezone()


class Conduct:
    def __init__(
        self,
        own: WorkerSettings | None = None,
        *,
        scratch_root: Path | None = None,
        be_nice: Callable[[int], str | None] | None = None,
        unload_idle: Callable[[float], None] | None = None,
        clock: Callable[[], datetime] = _local_time,
    ) -> None:
        """`be_nice`: of the tools of this process; returns what is to be told of it. `unload_idle`:
        lets go of what has not been used for so many seconds. `clock`: the time here."""
        self.own = own or WorkerSettings()
        self.space = ScratchSpace(scratch_root)
        self._be_nice = be_nice
        self._unload_idle = unload_idle
        self._clock = clock
        self._told = WorkerSettings()
        self._notes: list[str] = []
        self.now = worker_settings.merged(self.own, self._told)
        self._apply()

    def obey(self, told: WorkerSettings | None) -> bool:
        """What the server says; True if it is something else than before."""
        told = told or WorkerSettings()
        if told == self._told:
            return False
        before, self._told = self.now, told
        self.now = worker_settings.merged(self.own, told)
        for each in worker_settings.in_effect(self.own, told):
            if getattr(before, each.name) != getattr(self.now, each.name):
                log.info("%s is %s now, by the %s", each.name, each.text, each.said_by)
        self._apply()
        return True

    def _apply(self) -> None:
        self._schedule = worker_settings.schedule(self.now.schedule)
        self.space.set_budget(self.now.scratch_budget or 0)
        self._notes = []
        if self._be_nice is not None and (said := self._be_nice(self.now.nice or 0)):
            log.warning("%s", said)
            self._notes = [said]

    # Hours

    @property
    def is_resting(self) -> bool:
        return not self._schedule.is_open(self._clock())

    @property
    def gives_back(self) -> bool:
        """Whether what is in hand is given back when the hours are over."""
        return self.now.rest == RELEASE

    @property
    def seconds_left(self) -> float:
        """Until it opens or closes next; for ever if never."""
        here = self._clock()
        then = self._schedule.next_change(here.replace(tzinfo=None))
        if then is None:
            return float("inf")
        # Here an hour may be left out or come twice in between.
        moment = _in_zone_of(here, then).astimezone(UTC)
        return max(0.0, (moment - here.astimezone(UTC)) / timedelta(seconds=1))

    # How much at once

    def groups(self, kinds: Collection[str]) -> dict[str, Group]:
        return worker_settings.groups(self.now.concurrency or {}, kinds)

    def declined(self, scratch_shares: Mapping[str, float | None]) -> dict[str, str]:
        """Why some kinds are not taken now. By kind: how much room it takes beside its source;
        None: it takes none at all."""
        none = {
            kind: "it is set to take none of it"
            for group in self.groups(scratch_shares).values()
            for kind in group.kinds
            if group.count == 0
        }
        needy = [kind for kind, share in scratch_shares.items() if share is not None]
        trouble = self.space.trouble() if needy else None
        return {**(dict.fromkeys(needy, trouble) if trouble else {}), **none}

    # What is told of it

    def standing(self, scratch_shares: Mapping[str, float | None]) -> Standing:
        rests = min(self.seconds_left, 1e6) if self.is_resting else None
        declined = self.declined(scratch_shares)
        return Standing(resting_seconds=rests, declined=declined, notes=self._notes)

    def tick(self) -> None:
        """Now and then."""
        if self._unload_idle is not None and self.now.idle_unload:
            self._unload_idle(self.now.idle_unload)


def is_news(before: Standing, now: Standing, seconds_between: float) -> bool:
    """Whether it is worth telling: a rest grows shorter by itself."""
    if (before.declined, list(before.notes)) != (now.declined, list(now.notes)):
        return True
    if before.resting_seconds is None or now.resting_seconds is None:
        return before.resting_seconds is not now.resting_seconds
    expected = before.resting_seconds - seconds_between
    return abs(expected - now.resting_seconds) > SHIFT_SECONDS


def _in_zone_of(here: datetime, then: datetime) -> datetime:
    """A time on the wall as a moment: of the zone of `here` if it knows when clocks change, else of
    this machine's."""
    zone = here.tzinfo
    is_fixed = zone is None or zone.utcoffset(None) is not None
    return then.astimezone() if is_fixed else then.replace(tzinfo=zone)
