"""One session from its start to its end, through all the processes that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.testing.boundaries import Boundary
from checkpoints.testing.processes import Life


@dataclass(frozen=True)
class Script:
    """An agent and its world: functions of importable modules, called with the arguments of a trial.

    `agent` starts the session or resumes it, and returns when it is done. `decide` plays the people: it is called
    whenever the agent has ended with `ReviewRequired`. `observe` returns, as a JSON value, everything that has to be
    the same whatever happened on the way: the transcript, the effects on the world, the budget, the plan.

    A process that ended with `StorageUnavailable` is started again, as a supervisor would do; any other error fails
    the trial.
    """

    agent: Callable[..., object]
    observe: Callable[..., Any]
    decide: Callable[..., object] | None = None


class Diverged(AssertionError):
    """What can be observed is not what the uninterrupted play has led to."""


@dataclass
class Trial:
    """How far a trial has come. `passed` numbers the boundaries of all lives through."""

    arguments: dict[str, Any]
    passed: list[Boundary] = field(default_factory=list)
    lives: int = 0
    kills: int = 0
    #: Seconds that the longest life took.
    longest: float = 0.0

    def count(self, life: Life) -> None:
        first = len(self.passed) + 1
        self.passed += [replace(boundary, number=first + index) for index, boundary in enumerate(life.passed)]
        self.kills += life.killed
        self.longest = max(self.longest, life.seconds)


def following(script: Script, function: Callable[..., object], life: Life) -> Callable[..., object] | None:
    """What runs after a life of `function`; None when the agent is done. Raises `Diverged` for an error."""
    if life.killed or life.disconnected:
        return function
    if life.returned:
        return None if function is script.agent else script.agent
    if life.needs_review and script.decide is not None and function is script.agent:
        return script.decide
    raise Diverged(f"A process failed.\n{life.said}")
