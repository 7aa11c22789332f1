"""Run an agent repeatedly, with a crash at another place each time.

The first runs have no crash; they count the write boundaries and record the expected result: there are two of them,
because it must not depend on chance. Then, for each boundary, a fresh session is run: the process is killed at that
boundary, new processes continue until the agent is done, and the observed result is compared with that of the
uninterrupted run.
"""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, Self

from checkpoints.testing.child_processes import Processes
from checkpoints.testing.fault_schedules import (
    FaultOnceAtBoundary,
    FaultSchedule,
    KillAtRandomTime,
    KillEachLifeAtLaterBoundary,
    NoFaults,
)
from checkpoints.testing.inject_process_faults import Fault
from checkpoints.testing.trial_script_and_progress import Diverged, Script, Trial, get_next_function_after_process_ended
from checkpoints.testing.write_boundaries import Boundary

#: Number of processes that one session may need beside two for each boundary. With more it would never end.
MAX_EXTRA_PROCESSES = 50
#: Number of trials that run at the same time.
PARALLEL_TRIALS = 2


class CrashPoints:
    """Crash points of one script. A context manager: it begins with the uninterrupted run, and raises `Diverged`
    if two of these have different results.

    `fresh()` returns the arguments of a new trial: a dict of JSON values that names a session of its own, and the
    files or tables for its effects. Several trials run at the same time, so that they must share nothing
    but the database.
    """

    boundaries: list[Boundary]
    #: Return value of `observe` after the uninterrupted run.
    expected: Any

    def __init__(self, script: Script, fresh: Callable[[], dict[str, Any]]) -> None:
        self.script = script
        self.boundaries = []
        self._fresh = fresh
        self._idle: SimpleQueue[Processes] = SimpleQueue()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for _ in range(PARALLEL_TRIALS):
                self._idle.put(stack.enter_context(Processes()))
            self._threads = stack.enter_context(ThreadPoolExecutor(PARALLEL_TRIALS))
            self._run_twice_and_record_expected_result()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def check_each_boundary(self, fault: Fault, boundaries: Iterable[Boundary] | None = None) -> None:
        """Let `fault` happen once at each boundary (None: at all there are), in a trial of its own.

        Raises `Diverged`, naming every boundary after which the result was not the expected one.
        """
        numbers = self.boundaries if boundaries is None else boundaries
        self._run_trials_and_raise_differences(
            {f"{fault} at {boundary}": FaultOnceAtBoundary(boundary.number, fault) for boundary in numbers}
        )

    def check_repeated_kills(self) -> None:
        """In one trial, kill the first process at its first boundary, the second at its second, and so on until one
        finishes.

        Raises `Diverged`.
        """
        self._run_trials_and_raise_differences({"repeated kills": KillEachLifeAtLaterBoundary()})

    def check_random_kills(self, trials: int, *, seed: int, lives: int = 3) -> None:
        """In each trial, kill the first `lives` processes at random times. Raises `Diverged`."""
        chances = [random.Random(f"{seed} {number}") for number in range(trials)]  # noqa: S311
        self._run_trials_and_raise_differences(
            {
                f"random kills, trial {number}": KillAtRandomTime(chance, self._longest, lives)
                for number, chance in enumerate(chances, 1)
            }
        )

    def _run_twice_and_record_expected_result(self) -> None:
        """Run twice without a fault: the first run may also create what is created only once, such as the
        database's tables."""
        first_trial, second_trial = Trial(self._fresh()), Trial(self._fresh())
        ends = []
        for trial in (first_trial, second_trial):
            self._restart_agent_with_faults_until_done(trial, NoFaults())
            ends.append(self._run_observer_and_get_result(trial))
        if ends[0] != ends[1]:
            raise Diverged(f"Two plays without a crash do not come to the same end: {_format_difference(*ends)}")
        self.boundaries, self._longest, self.expected = second_trial.passed, second_trial.longest, ends[1]

    def _run_trials_and_raise_differences(self, fault_schedules: dict[str, FaultSchedule]) -> None:
        trials = [Trial(self._fresh()) for _ in fault_schedules]
        differences = self._threads.map(
            self._run_trial_and_describe_difference, fault_schedules, fault_schedules.values(), trials
        )
        failures = [failure for failure in differences if failure is not None]
        if failures:
            raise Diverged("\n\n".join([f"{len(failures)} trials did not end as expected.", *failures]))

    def _run_trial_and_describe_difference(self, what: str, fault_schedule: FaultSchedule, trial: Trial) -> str | None:
        """Run a trial and describe its wrong result; None if it is right."""
        try:
            self._restart_agent_with_faults_until_done(trial, fault_schedule)
            if (
                isinstance(fault_schedule, FaultOnceAtBoundary)
                and not trial.kills
                and len(trial.passed) < fault_schedule.number
            ):
                raise Diverged("That boundary was not reached.")
            observed = self._run_observer_and_get_result(trial)
        except Diverged as error:
            return f"{what}: {error}"
        return None if observed == self.expected else f"{what}: {_format_difference(self.expected, observed)}"

    def _restart_agent_with_faults_until_done(self, trial: Trial, fault_schedule: FaultSchedule) -> None:
        """Start processes until the agent is done."""
        function: Callable[..., object] | None = self.script.agent
        while function is not None:
            trial.lives += 1
            if trial.lives > MAX_EXTRA_PROCESSES + 2 * len(self.boundaries):
                raise Diverged(f"After {trial.lives - 1} processes the agent is not done.")
            with self._borrow_launcher() as processes:
                life = processes.run(function, trial.arguments, **fault_schedule.plan_fault(trial))
            trial.add_process_outcome(life)
            function = get_next_function_after_process_ended(self.script, function, life)

    def _run_observer_and_get_result(self, trial: Trial) -> Any:
        with self._borrow_launcher() as processes:
            life = processes.run(self.script.observe, trial.arguments)
        if not life.has_returned:
            raise Diverged(f"The end could not be observed.\n{life.output}")
        return life.value

    @contextmanager
    def _borrow_launcher(self) -> Iterator[Processes]:
        """Borrow a launcher that no other trial uses meanwhile."""
        processes = self._idle.get()
        try:
            yield processes
        finally:
            self._idle.put(processes)


def _format_difference(expected: Any, observed: Any) -> str:
    texts = [
        json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines() for value in (expected, observed)
    ]
    return "\n".join(difflib.unified_diff(texts[0], texts[1], "expected", "observed", lineterm="", n=2))
