"""Where workers meet the queue: claims go out, reports come in, each in one transaction.

This is the in-process side of `protocol.Coordinator`; the HTTP side will call the same object.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rushes import errors, protocol, wakeup
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs.job import ErrorClass, State
from rushes.jobs.queue import Claimant, Queue
from rushes.protocol import Assignment, Beat, Claim, Progress


class Dispatch:
    """One registered worker's view of the queue."""

    def __init__(
        self,
        db: Database,
        queue: Queue,
        bell: wakeup.Wakeup,
        *,
        worker_id: str,
        worker_name: str,
        poll_seconds: float = 2.0,
    ) -> None:
        self._db = db
        self._queue = queue
        self._bell = bell
        self._poll_seconds = poll_seconds
        self._me = Claimant(id=worker_id, name=worker_name, kinds=())
        self._interrupted = False

    def hello(self, hello: protocol.Hello) -> None:
        self._me = Claimant(
            id=self._me.id,
            name=self._me.name,
            kinds=tuple(hello.kinds),
            capabilities=tuple(hello.capabilities),
        )

        def say(tx: Tx) -> None:
            fleet.register(tx, self._me.id, self._me.name)
            fleet.hello(
                tx,
                self._me.id,
                kinds=hello.kinds,
                capabilities=hello.capabilities,
                metadata=hello.metadata,
            )

        self._db.run(say)

    def claim(self, limit: int, wait_seconds: float = 0) -> list[Assignment]:
        until = time.monotonic() + wait_seconds
        while True:
            mark = self._bell.mark()
            assignments = self._db.run_step(lambda tx: self._queue.claim(tx, self._me, limit))
            left = until - time.monotonic()
            if assignments or left <= 0 or self._interrupted:
                return assignments
            # Jittered, so that workers that started together do not poll together.
            self._bell.wait(mark, min(left, self._poll_seconds * random.uniform(0.75, 1.25)))

    def heartbeat(self, claims: Sequence[Claim]) -> protocol.Pulse:
        def beat(tx: Tx) -> tuple[Mapping[str, Beat], AdminState]:
            state = fleet.seen(tx, self._me.id)
            return (self._queue.heartbeat(tx, claims) if claims else {}), state

        beats, state = self._db.run_step(beat)
        return protocol.Pulse(beats, drain=state is not AdminState.ENABLED)

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        return self._db.run_step(lambda tx: self._queue.progress(tx, reports))

    def complete(self, results: Sequence[tuple[Claim, Any]]) -> Mapping[str, str]:
        done = self._db.run_step(lambda tx: self._queue.complete_many(tx, results))
        answers = dict.fromkeys(done, str(State.COMPLETED))
        for claim, result in results:
            if claim.job_id not in done:
                answers[claim.job_id] = self._complete_one(claim, result)
        return answers

    def fail(self, claim: Claim, error_class: str, code: str, message: str) -> str:
        kind = ErrorClass(error_class)
        return self._db.run(
            lambda tx: self._queue.fail(tx, claim, kind, code=code, message=message)
        )

    def release(self, claim: Claim) -> str:
        return self._db.run(lambda tx: self._queue.release(tx, claim))

    def interrupt(self) -> None:
        self._interrupted = True
        self._bell.ring()

    def _complete_one(self, claim: Claim, result: Any) -> str:
        try:
            return self._db.run(lambda tx: self._queue.complete(tx, claim, result))
        except errors.Conflict as error:
            return error.code
