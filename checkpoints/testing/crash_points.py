"""Playing an agent again and again, with a crash somewhere else each time.

First it is played without any, which counts its write boundaries and shows what is expected: twice, because that may
not depend on chance. Then, for each boundary, a fresh session is played: the process is killed just there, new
processes go on until the agent is done, and what can be observed at the end is compared with the uninterrupted play.
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

from checkpoints.testing.boundaries import Boundary
from checkpoints.testing.faults import Fault
from checkpoints.testing.hazards import AtRandom, EachLater, Hazard, NoHazard, OnceAt
from checkpoints.testing.processes import Processes
from checkpoints.testing.trials import Diverged, Script, Trial, following

#: Processes that one session may take beside two for each boundary. One that takes more does not come to an end.
SPARE_LIVES = 50
#: Trials that are played at the same time.
ABREAST = 2


class CrashPoints:
    """The crash points of one script. A context manager: it begins with the uninterrupted play, and raises `Diverged`
    where that does not come to the same end twice.

    `fresh()` returns the arguments of a new trial: a dict of JSON values that names a session of its own, and the
    files or tables where its effects go. Several trials are played at the same time, so that nothing may be shared
    between them but the database.
    """

    boundaries: list[Boundary]
    #: What `observe` returned after the uninterrupted play.
    expected: Any

    def __init__(self, script: Script, fresh: Callable[[], dict[str, Any]]) -> None:
        self.script = script
        self.boundaries = []
        self._fresh = fresh
        self._idle: SimpleQueue[Processes] = SimpleQueue()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for _ in range(ABREAST):
                self._idle.put(stack.enter_context(Processes()))
            self._threads = stack.enter_context(ThreadPoolExecutor(ABREAST))
            self._play_uninterrupted()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def check(self, fault: Fault, boundaries: Iterable[Boundary] | None = None) -> None:
        """Let `fault` happen once at each boundary (None: at all there are), in a trial of its own. Raises `Diverged`,
        naming every boundary after which the end was not the expected one."""
        chosen = self.boundaries if boundaries is None else boundaries
        self._try_all({f"{fault} at {boundary}": OnceAt(boundary.number, fault) for boundary in chosen})

    def check_repeated_kills(self) -> None:
        """In one trial, kill the first process at its first boundary, the second at its second, and so on until one
        is done before. Raises `Diverged`."""
        self._try_all({"repeated kills": EachLater()})

    def check_random_kills(self, trials: int, *, seed: int, lives: int = 3) -> None:
        """In each trial, kill the first `lives` processes at random times, whatever they are doing then. Raises
        `Diverged`."""
        chances = [random.Random(f"{seed} {number}") for number in range(trials)]  # noqa: S311
        self._try_all(
            {
                f"random kills, trial {number}": AtRandom(chance, self._longest, lives)
                for number, chance in enumerate(chances, 1)
            }
        )

    def _play_uninterrupted(self) -> None:
        """Twice: the first play may also make what is made only once, such as the tables of the database."""
        first, second = Trial(self._fresh()), Trial(self._fresh())
        ends = []
        for trial in (first, second):
            self._play(trial, NoHazard())
            ends.append(self._observed(trial))
        if ends[0] != ends[1]:
            raise Diverged(f"Two plays without a crash do not come to the same end: {_difference(*ends)}")
        self.boundaries, self._longest, self.expected = second.passed, second.longest, ends[1]

    def _try_all(self, hazards: dict[str, Hazard]) -> None:
        trials = [Trial(self._fresh()) for _ in hazards]
        found = self._threads.map(self._try, hazards, hazards.values(), trials)
        failures = [failure for failure in found if failure is not None]
        if failures:
            raise Diverged("\n\n".join([f"{len(failures)} trials did not end as expected.", *failures]))

    def _try(self, what: str, hazard: Hazard, trial: Trial) -> str | None:
        """What is wrong with the end of a trial; None if nothing is."""
        try:
            self._play(trial, hazard)
            if isinstance(hazard, OnceAt) and not trial.kills and len(trial.passed) < hazard.number:
                raise Diverged("That boundary was not reached.")
            observed = self._observed(trial)
        except Diverged as error:
            return f"{what}: {error}"
        return None if observed == self.expected else f"{what}: {_difference(self.expected, observed)}"

    def _play(self, trial: Trial, hazard: Hazard) -> None:
        """Start processes until the agent is done."""
        function: Callable[..., object] | None = self.script.agent
        while function is not None:
            trial.lives += 1
            if trial.lives > SPARE_LIVES + 2 * len(self.boundaries):
                raise Diverged(f"After {trial.lives - 1} processes the agent is not done.")
            with self._processes() as processes:
                life = processes.run(function, trial.arguments, **hazard.blow(trial))
            trial.count(life)
            function = following(self.script, function, life)

    def _observed(self, trial: Trial) -> Any:
        with self._processes() as processes:
            life = processes.run(self.script.observe, trial.arguments)
        if not life.returned:
            raise Diverged(f"The end could not be observed.\n{life.said}")
        return life.value

    @contextmanager
    def _processes(self) -> Iterator[Processes]:
        """A launcher that nobody else uses meanwhile."""
        processes = self._idle.get()
        try:
            yield processes
        finally:
            self._idle.put(processes)


def _difference(expected: Any, observed: Any) -> str:
    said = [
        json.dumps(each, indent=1, sort_keys=True, ensure_ascii=False).splitlines() for each in (expected, observed)
    ]
    return "\n".join(difflib.unified_diff(said[0], said[1], "expected", "observed", lineterm="", n=2))
