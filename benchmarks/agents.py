"""Benchmark of many agents in one process, each saving its own session: saves per second."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.crowds.crowd import Crowd
from benchmarks.plan import Plan
from benchmarks.rates import Rates


def measure_agents(crowds: Sequence[Crowd], plan: Plan) -> Rates:
    rates = Rates()
    for agents in plan.agents:
        turns = plan.saves_of_agents // agents
        for crowd in crowds:  # warms up connections and caches
            crowd.begin_sessions(agents)
            crowd.save_turns(2)
        for _ in range(plan.rounds):
            for crowd in crowds:
                crowd.begin_sessions(agents)
                start = time.perf_counter()
                crowd.save_turns(turns)
                rate = agents * turns / (time.perf_counter() - start)
                rates.found.setdefault((crowd.key, agents), []).append(rate)
    return rates
