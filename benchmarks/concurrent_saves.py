"""Benchmarks of many agents in one process and of many processes, each saving its own session: saves per second."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from benchmarks.agent_groups.agent_group import AgentGroup
from benchmarks.benchmark_databases import DatabaseFactory, Kind
from benchmarks.django_setup import create_library_tables, create_plain_tables
from benchmarks.full_and_quick_run_sizes import MeasurementPlan

WAYS = ("library", "statement")


@dataclass(frozen=True)
class SaveRates:
    """Saves per second by contender and number of savers, one value per round."""

    found: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def get_median(self, key: str, count: int) -> float:
        return statistics.median(self.found[key, count])

    def get_median_ratio(self, key: str, of: str, count: int) -> float:
        """Return the rate relative to another contender's: the median over the rounds."""
        pairs = zip(self.found[key, count], self.found[of, count], strict=True)
        return statistics.median(own_rate / other_rate for own_rate, other_rate in pairs)


def measure_save_rates_of_agents(groups: Sequence[AgentGroup], plan: MeasurementPlan) -> SaveRates:
    rates = SaveRates()
    for agents in plan.agents:
        turns = plan.saves_of_agents // agents
        for group in groups:  # warms up connections and caches
            group.begin_session_for_each_agent(agents)
            group.save_turns_of_all_agents(2)
        for _ in range(plan.rounds):
            for group in groups:
                group.begin_session_for_each_agent(agents)
                start = time.perf_counter()
                group.save_turns_of_all_agents(turns)
                rate = agents * turns / (time.perf_counter() - start)
                rates.found.setdefault((group.key, agents), []).append(rate)
    return rates


@dataclass(frozen=True)
class ProcessTeam:
    """Team of processes that save on request."""

    members: list[subprocess.Popen[str]]

    def measure_saves_per_second(self, saves: int, members: int) -> float:
        """Return the saves per second if this many members make this many saves, all at the same time."""
        start = time.perf_counter()
        for member in self.members[:members]:
            _require_pipe(member.stdin).write(f"{saves}\n")
            _require_pipe(member.stdin).flush()
        for member in self.members[:members]:
            _wait_until_process_has_saved(member)
        return saves * members / (time.perf_counter() - start)

    def close(self) -> None:
        for member in self.members:
            _require_pipe(member.stdin).close()
            member.wait()


def measure_save_rates_of_processes(databases: DatabaseFactory, kind: Kind, plan: MeasurementPlan) -> SaveRates:
    """Measure the rates of one process and of all, for each way of saving."""
    teams = {way: _create_database_and_start_processes(databases, kind, way, plan.processes) for way in WAYS}
    rates = SaveRates()
    try:
        for count in (1, plan.processes):
            for _ in range(plan.rounds):
                for way, team in teams.items():
                    rates.found.setdefault((way, count), []).append(
                        team.measure_saves_per_second(plan.saves_per_process, count)
                    )
    finally:
        for team in teams.values():
            team.close()
    return rates


def _create_database_and_start_processes(databases: DatabaseFactory, kind: Kind, way: str, size: int) -> ProcessTeam:
    database = databases.create_empty_database(kind, f"processes_{way}")
    (create_library_tables if way == "library" else create_plain_tables)(database.alias)
    command = [sys.executable, "-m", "benchmarks.workers.saving_worker", way, database.url]
    pipe = subprocess.PIPE
    team = ProcessTeam(
        [subprocess.Popen([*command, str(index)], stdin=pipe, stdout=pipe, text=True) for index in range(size)]
    )
    for member in team.members:
        _wait_until_process_has_saved(member)
    return team


def _require_pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("The process has no pipe.")
    return pipe


def _wait_until_process_has_saved(member: subprocess.Popen[str]) -> None:
    if not _require_pipe(member.stdout).readline():
        raise RuntimeError(f"A saving process ended with {member.wait()}.")
