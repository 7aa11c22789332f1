"""Trial of one session from its start to its end, through all its processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.testing.child_processes import Life
from checkpoints.testing.write_boundaries import Boundary


@dataclass(frozen=True)
class Script:
    """Agent and its environment: functions of importable modules, called with the arguments of a trial.

    `agent` starts the session or resumes it, and returns when it is done. `decide` acts for the people: it is called
    whenever the agent has ended with `ReviewRequired`. `observe` returns, as a JSON value, everything that has to be
    the same whatever faults happened: the transcript, the effects on the world, the budget, the plan.

    A process that ended with `StorageUnavailable` is started again, as a supervisor would do; any other error fails
    the trial.
    """

    agent: Callable[..., object]
    observe: Callable[..., Any]
    decide: Callable[..., object] | None = None


class Diverged(AssertionError):
    """The observed result differs from that of the uninterrupted run."""


@dataclass
class Trial:
    """Progress of a trial. `passed` counts the boundaries of all lives."""

    arguments: dict[str, Any]
    passed: list[Boundary] = field(default_factory=list)
    lives: int = 0
    kills: int = 0
    #: Duration of the longest life in seconds.
    longest: float = 0.0

    def add_process_outcome(self, life: Life) -> None:
        first_number = len(self.passed) + 1
        self.passed += [replace(boundary, number=first_number + index) for index, boundary in enumerate(life.passed)]
        self.kills += life.killed
        self.longest = max(self.longest, life.seconds)


def get_next_function_after_process_ended(
    script: Script, function: Callable[..., object], life: Life
) -> Callable[..., object] | None:
    """Return the function to run after a life of `function`; None when the agent is done. Raises `Diverged` for an
    error."""
    if life.killed or life.has_lost_database:
        return function
    if life.has_returned:
        return None if function is script.agent else script.agent
    if life.needs_review and script.decide is not None and function is script.agent:
        return script.decide
    raise Diverged(f"A process failed.\n{life.output}")
