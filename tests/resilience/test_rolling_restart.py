"""All servers of a fleet are restarted, one after the other, while people and workers go on."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from resilience.cases import some
from resilience.programs import Server
from resilience.shared_media import opened
from rushes import events
from rushes.jobs import invariants
from upgrades.load import Load, Probe

JOBS = 8


@pytest.mark.parametrize("gently", some([True, False], each_time={True}))
def test_a_rolling_restart_under_load_loses_and_doubles_nothing(
    tmp_path: Path, postgres_url: str, gently: bool
) -> None:
    storage = (tmp_path / "storage").as_uri()
    with ExitStack() as stack:
        fleet = []
        for name in ("a", "b"):
            server = Server(
                tmp_path / name,
                database_url=postgres_url,
                storage_url=storage,
                transcode_workers=0,
                transcription_workers=0,
            )
            stack.callback(server.end)
            server.start()
            fleet.append(server)
        probes = [Probe(server.url) for server in fleet]
        for probe in probes:
            probe.start()
        load = stack.enter_context(Load([each.url for each in fleet], fleet[0].worker_key()))
        load.go_on(JOBS)
        for server in fleet:
            if gently:
                assert server.stop() == 0
            else:
                server.kill()
            load.go_on(JOBS)
            server.start()
            load.go_on(JOBS)
        load.finish()
        for probe in probes:
            probe.leave()
        for server in fleet:
            load.check(server.url)
        with opened(fleet[0].settings) as rushes, rushes.db.begin() as tx:
            events.assign_positions(tx)
            assert invariants.check(tx) == []
