"""Extent of the measurements: the full run and the quick one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasurementPlan:
    #: Turns whose cost is reported. Up to `together`, all contenders save every turn, alternating.
    turns: tuple[int, ...]
    together: int
    #: Number of saves measured up to each of `turns`; fewer for contenders that rewrite everything each time.
    window: int
    jumped_window: int
    load_rounds: int
    calls: int
    agents: tuple[int, ...]
    #: Total saves of all agents in each round.
    saves_of_agents: int
    processes: int
    saves_per_process: int
    rounds: int
    fresh_processes: int


FULL = MeasurementPlan(
    turns=(1, 200, 400, 1000, 5000),
    together=400,
    window=40,
    jumped_window=5,
    load_rounds=9,
    calls=300,
    agents=(1, 8, 64),
    saves_of_agents=640,
    processes=8,
    saves_per_process=100,
    rounds=5,
    fresh_processes=9,
)
QUICK = MeasurementPlan(
    turns=(1, 50, 100, 500),
    together=100,
    window=20,
    jumped_window=3,
    load_rounds=3,
    calls=60,
    agents=(1, 8, 64),
    saves_of_agents=256,
    processes=8,
    saves_per_process=50,
    rounds=2,
    fresh_processes=3,
)
