"""What can never work is refused by name, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rushes import Rushes, errors
from rushes.jobs import job as jobs
from rushes.jobs import limiting


@pytest.mark.parametrize(
    ("field", "enqueue"),
    [
        ("kind", lambda app: app.enqueue("No Word")),
        ("kind", lambda app: app.enqueue("x" * 65)),
        ("needs", lambda app: app.enqueue("demo", needs=["gpu"] * (jobs.NEEDS_LIMIT + 1))),
        ("needs", lambda app: app.enqueue("demo", needs=["No Word"])),
    ],
)
def test_a_job_that_nobody_could_run_is_refused(
    field: str, enqueue: Callable[[Rushes], object], tmp_path: Path
) -> None:
    with Rushes(f"sqlite:///{tmp_path}/jobs.db") as app:
        with pytest.raises(errors.BadField) as refused:
            enqueue(app)
        assert refused.value.field == field
        assert list(app.jobs()) == []


@pytest.mark.parametrize("most", [-1, 0, limiting.MOST + 1])
def test_a_limit_of_nothing_or_too_much_is_refused(most: int) -> None:
    with pytest.raises(errors.BadField) as refused:
        limiting.check("kind:transcode", most)
    assert refused.value.field == "most"
    limiting.check("kind:transcode", 1)
    limiting.check("kind:transcode", limiting.MOST)


def test_the_pace_of_a_stage_is_not_that_of_the_next() -> None:
    told = {"stage": "encoding", "speed": 2.0, "eta_seconds": 5, "frames": 9}
    assert jobs.without_old_pace(told, "encoding") == told
    assert jobs.without_old_pace(told, "saving") == {"stage": "encoding", "frames": 9}
    assert jobs.without_old_pace(None, "saving") == {}
