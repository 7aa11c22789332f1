"""Which life of a trial is struck, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol, TypedDict

from checkpoints.testing.faults import Fault
from checkpoints.testing.trials import Trial


class Blow(TypedDict, total=False):
    """What is to happen to one life, in the words of `Processes.run`."""

    fault_at: int
    fault: Fault
    kill_after: float


class Hazard(Protocol):
    def blow(self, trial: Trial) -> Blow:
        """What happens to the life that `trial` begins now."""


class NoHazard:
    def blow(self, trial: Trial) -> Blow:
        return {}


@dataclass(frozen=True)
class OnceAt:
    """`fault`, once, at the boundary of that number, counted through all lives."""

    number: int
    fault: Fault

    def blow(self, trial: Trial) -> Blow:
        ahead = self.number - len(trial.passed)
        return {} if trial.kills or ahead <= 0 else {"fault_at": ahead, "fault": self.fault}


class EachLater:
    """The first life is killed at its first boundary, the second at its second, and so on."""

    def blow(self, trial: Trial) -> Blow:
        return {"fault_at": trial.lives, "fault": Fault.KILL}


@dataclass(frozen=True)
class AtRandom:
    """The first `lives` lives are killed at a random time within `seconds`, if they are not done before."""

    chance: random.Random
    seconds: float
    lives: int

    def blow(self, trial: Trial) -> Blow:
        return {"kill_after": self.chance.uniform(0, self.seconds)} if trial.lives <= self.lives else {}
