"""A fleet on a virtual clock, small enough for every run; `benchmarks/simulate.py` has larger."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.simulation import Phase, Plan, check, percentiles, simulate

import world as worlds

SMALL = Plan(workers=14, hours=0.4, load=0.45, pace=8, crashes_per_day=30, seed=7)


def test_a_fleet_lives_through_crashes_and_a_spike(tmp_path: Path) -> None:
    world = worlds.open_sqlite(tmp_path)
    live_through(world, SMALL)
    world.close()


@pytest.mark.thorough
def test_a_larger_one_does(world: worlds.World) -> None:
    live_through(world, Plan(workers=60, hours=1.0, load=0.5, pace=4, crashes_per_day=24, seed=3))


def live_through(world: worlds.World, plan: Plan) -> None:
    figures = simulate(world, plan)
    assert figures.crashes > 3
    assert figures.completed > 100
    # No job is lost, none completed twice, every invariant holds.
    check(world, figures)
    spike = percentiles(figures.waits[Phase.SPIKE])
    assert spike[1] > 10, "the spike was none"
    # It passes: those who come long after it hardly wait, as those before it.
    for phase in (Phase.BEFORE, Phase.NORMAL):
        usual = percentiles(figures.waits[phase])
        assert usual[0] <= 2.0, phase
        assert usual[1] < spike[1] / 2, phase
