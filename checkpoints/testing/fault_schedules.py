"""Schedules of faults: the life of a trial and the time of its fault."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol, TypedDict

from checkpoints.testing.inject_process_faults import Fault
from checkpoints.testing.trial_script_and_progress import Trial


class PlannedFault(TypedDict, total=False):
    """Fault planned for one life, as arguments of `Processes.run`."""

    fault_at: int
    fault: Fault
    kill_after: float


class FaultSchedule(Protocol):
    def plan_fault(self, trial: Trial) -> PlannedFault:
        """Plan the fault of the life that `trial` begins now."""


class NoFaults:
    def plan_fault(self, trial: Trial) -> PlannedFault:
        return {}


@dataclass(frozen=True)
class FaultOnceAtBoundary:
    """Schedule with one `fault` at the boundary of that number, counted through all lives."""

    number: int
    fault: Fault

    def plan_fault(self, trial: Trial) -> PlannedFault:
        remaining = self.number - len(trial.passed)
        return {} if trial.kills or remaining <= 0 else {"fault_at": remaining, "fault": self.fault}


class KillEachLifeAtLaterBoundary:
    """Schedule that kills the first life at its first boundary, the second at its second, and so on."""

    def plan_fault(self, trial: Trial) -> PlannedFault:
        return {"fault_at": trial.lives, "fault": Fault.KILL}


@dataclass(frozen=True)
class KillAtRandomTime:
    """Schedule that kills the first `lives` lives at a random time within `seconds`, unless they finish before."""

    chance: random.Random
    seconds: float
    lives: int

    def plan_fault(self, trial: Trial) -> PlannedFault:
        return {"kill_after": self.chance.uniform(0, self.seconds)} if trial.lives <= self.lives else {}
