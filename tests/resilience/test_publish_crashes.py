"""A server is killed at every step of handing out, keeping and publishing. Whoever watches sees the
old set or the new one, and the new one is published once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from resilience import crashing_server as steps
from resilience.programs import Server
from resilience.scene import Scene, audience, opened, worker

# Longer than any restart takes here; what was lost is found again by a shorter one.
LEASE = {"claim_duration": 60.0, "heartbeat_interval": 5.0}
SHORT = {"RUSHES_CLAIM_DURATION": "2", "RUSHES_HEARTBEAT_INTERVAL": "0.4"}
HANDLERS = {"handlers": "resilience.demo_handlers"}

Start = Callable[..., Server]


@contextmanager
def scene_on(server: Server, *, remote: bool = True) -> Iterator[Scene]:
    """With a worker, and a first version that everybody watches."""
    with ExitStack() as stack:
        scene = Scene(stack.enter_context(opened(server.settings)), server.url)
        if remote:
            stack.enter_context(worker(server.url, server.worker_key()))
        scene.wait(scene.enqueue())
        yield scene


def crash_at(server: Server, scene: Scene, step: str, *, published: bool = False) -> list[str]:
    """Kill the server there while it makes the second version; answers how its attempts ended."""
    before = scene.watch()
    assert before is not None
    with audience(scene) as watching:
        server.stage.arm(step)
        job_id = scene.enqueue()
        server.stage.wait(step)
        now = scene.watch()
        assert now is not None
        assert now.job_id == (job_id if published else before.job_id)
        server.kill()
        server.start()
        scene.wait(job_id)
        after = scene.watch()
        assert watching.leave()[-1:] in ([before], [after])
        assert [each for each in watching.seen if each not in (before, after)] == []
    outcomes = scene.outcomes(job_id)
    scene.check(job_id, outcomes, before=before)
    return outcomes


@pytest.mark.parametrize("step", [*steps.PUT_STEPS, *steps.UNCOMMITTED])
def test_a_remote_worker_finishes_its_attempt_when_the_server_dies(
    start_server: Start, database_url: str, step: str
) -> None:
    server = start_server(database_url=database_url, **LEASE)
    with scene_on(server) as scene:
        assert crash_at(server, scene, step) == ["succeeded"]


def test_a_set_stays_published_when_the_server_dies_before_it_can_say_so(
    start_server: Start, database_url: str
) -> None:
    server = start_server(database_url=database_url, **LEASE)
    with scene_on(server) as scene:
        assert crash_at(server, scene, steps.COMMITTED, published=True) == ["succeeded"]
