"""What the verbs of the queue have done, told to the metrics once it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from rushes.db.database import Tx
from rushes.jobs.job import Completed, Outcome
from rushes.jobs.lifecycle import POISON, Lost, Settlement
from rushes.metrics import Metrics
from rushes.protocol import Assignment


class JobObserver:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def claimed(self, tx: Tx, jobs: Sequence[Assignment]) -> None:
        if jobs:
            tx.after_commit(partial(self._claimed, jobs))

    def completed(self, tx: Tx, jobs: Sequence[Completed]) -> None:
        if jobs:
            tx.after_commit(partial(self._completed, jobs))

    def settled(self, tx: Tx, kind: str, outcome: Outcome, ran_ms: int) -> None:
        tx.after_commit(partial(self._metrics.attempts_ended, kind, outcome, [ran_ms / 1000]))

    def lost(
        self,
        tx: Tx,
        lost: Sequence[Lost],
        settlements: Sequence[Settlement],
        ran_ms: Mapping[str, int],
    ) -> None:
        """Those of them that were still there to be settled: they have their time in `ran_ms`."""
        for each, settled in zip(lost, settlements, strict=True):
            if each.id in ran_ms:
                self.settled(tx, each.kind, settled.next.outcome, ran_ms[each.id])
                poison = settled.next.error_code == POISON
                cause = each.loss.cause
                tx.after_commit(partial(self._metrics.lease_lost, each.kind, cause, poison=poison))

    def _claimed(self, jobs: Sequence[Assignment]) -> None:
        for kind, waited in _by_kind((each.kind, each.waited_seconds) for each in jobs):
            self._metrics.jobs_claimed(kind, waited)

    def _completed(self, jobs: Sequence[Completed]) -> None:
        for kind, ran in _by_kind((each.kind, each.ran_ms / 1000) for each in jobs):
            self._metrics.attempts_ended(kind, Outcome.SUCCEEDED, ran)


def _by_kind(figures: Iterable[tuple[str, float]]) -> Iterable[tuple[str, list[float]]]:
    """Most batches are of one kind."""
    sorted_out: dict[str, list[float]] = {}
    for kind, figure in figures:
        sorted_out.setdefault(kind, []).append(figure)
    return sorted_out.items()
