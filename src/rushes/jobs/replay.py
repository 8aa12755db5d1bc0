"""Whether what has happened is what the specification allows (proof/Jobs.tla).

Events have no gaps and come in the order of their commits, so those of a job are its whole life:
each must be one of the steps that there are, from where the last one has left it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rushes import events
from rushes.db.database import Tx
from rushes.events import JobEvent

PAGE = 10_000
NEW = "none"
# The same as `Steps` of the specification.
STEPS = frozenset(
    {
        (NEW, "queued"),
        (NEW, "blocked"),
        ("queued", "queued"),
        ("queued", "processing"),
        ("queued", "canceled"),
        ("queued", "failed"),
        ("processing", "processing"),
        ("processing", "completed"),
        ("processing", "queued"),
        ("processing", "failed"),
        ("processing", "canceled"),
        ("processing", "blocked"),
        ("blocked", "blocked"),
        ("blocked", "queued"),
        ("blocked", "failed"),
        ("blocked", "canceled"),
    }
)
CLAIM, DIVIDE = ("queued", "processing"), ("processing", "blocked")
# After these an attempt may turn out not to have counted.
GIVEN_BACK = {("processing", "queued"), ("processing", "failed"), DIVIDE}


@dataclass(frozen=True, slots=True)
class Impossible:
    """An event that cannot have happened, and why."""

    event: JobEvent
    why: str


@dataclass(slots=True)
class Replay:
    """`is_cut`: the events begin in the middle, because older ones are not kept any more."""

    is_cut: bool = False
    seen: int = 0
    _last: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    @property
    def jobs(self) -> int:
        return len(self._last)

    def see(self, event: JobEvent) -> Impossible | None:
        self.seen += 1
        before = self._last.get(event.job_id)
        self._last[event.job_id] = (event.state, event.attempt, event.epoch)
        if before is None and self.is_cut and event.was is not None:
            return None
        why = _why_not(event, *(before or (NEW, 0, 0)))
        return Impossible(event, why) if why else None


def _why_not(event: JobEvent, state: str, attempt: int, epoch: int) -> str | None:
    step = (state, event.state)
    if step not in STEPS:
        return f"no job goes from {state} to {event.state}"
    if event.was not in (None, state):
        return f"it tells that the job was {event.was}, which was {state}"
    if event.epoch != epoch + (step == CLAIM):
        return f"it is of claim {event.epoch} after {epoch}"
    counted = {attempt + (step == CLAIM) - (step == DIVIDE)}
    if step in GIVEN_BACK:
        counted.add(attempt - 1)
    if event.attempt not in counted:
        return f"attempt {event.attempt} comes after {attempt}"
    return None


def impossible(tx: Tx, replay: Replay) -> Iterator[Impossible]:
    """Of all events that are kept, oldest first; `replay` tells afterwards how many there were."""
    after = events.pruned_until(tx)
    replay.is_cut = after > 0
    while page := events.of_jobs(tx, after=after, limit=PAGE):
        yield from filter(None, map(replay.see, page))
        after = page[-1].pos
