"""Many processes, each saving its own session: how many saves a second together."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO

from benchmarks.databases import Databases, Kind
from benchmarks.django_setup import create_library_tables, create_plain_tables
from benchmarks.plan import Plan
from benchmarks.rates import Rates

WAYS = ("library", "statement")


@dataclass(frozen=True)
class Team:
    """Processes that save when they are told to."""

    members: list[subprocess.Popen[str]]

    def run(self, saves: int, members: int) -> float:
        """Saves a second, when so many members save as often as said, all at the same time."""
        start = time.perf_counter()
        for member in self.members[:members]:
            _pipe(member.stdin).write(f"{saves}\n")
            _pipe(member.stdin).flush()
        for member in self.members[:members]:
            _answer(member)
        return saves * members / (time.perf_counter() - start)

    def close(self) -> None:
        for member in self.members:
            _pipe(member.stdin).close()
            member.wait()


def measure(databases: Databases, kind: Kind, plan: Plan) -> Rates:
    """The rates of one process and of all, by way of saving."""
    teams = {way: _team(databases, kind, way, plan.processes) for way in WAYS}
    rates = Rates()
    try:
        for count in (1, plan.processes):
            for _ in range(plan.rounds):
                for way, team in teams.items():
                    rates.found.setdefault((way, count), []).append(team.run(plan.saves_per_process, count))
    finally:
        for team in teams.values():
            team.close()
    return rates


def _team(databases: Databases, kind: Kind, way: str, size: int) -> Team:
    database = databases.new(kind, f"processes_{way}")
    (create_library_tables if way == "library" else create_plain_tables)(database.alias)
    command = [sys.executable, "-m", "benchmarks.workers.saving", way, database.url]
    pipe = subprocess.PIPE
    team = Team([subprocess.Popen([*command, str(at)], stdin=pipe, stdout=pipe, text=True) for at in range(size)])
    for member in team.members:
        _answer(member)
    return team


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("The process has no pipe.")
    return pipe


def _answer(member: subprocess.Popen[str]) -> None:
    if not _pipe(member.stdout).readline():
        raise RuntimeError(f"A saving process ended with {member.wait()}.")
