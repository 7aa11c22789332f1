"""Frequency of saves: every turn, every call, or every number of turns or seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from checkpoints.enums import Phase
from checkpoints.exceptions import InvalidInput
from checkpoints.generate_and_validate_ids import validate_integer

#: Phases in which a turn is over or has not begun.
TURN_PHASES = frozenset({Phase.TURN, Phase.RUN_STARTED, Phase.STEP_STARTED, Phase.RESUMED})
#: Phases that are saved with any cadence.
ENDING_PHASES = frozenset({Phase.PAUSED, Phase.RUN_TERMINAL})


@dataclass(frozen=True)
class Cadence:
    """Rule for which snapshots `WriteBehind` saves as they come.

    The others are held back until the next one replaces them, until they are due, or until something depends on them:
    an intent, a pause, the end.

    Attributes:
        turns: Number of turns after which a snapshot is saved. None: not by turns.
        seconds: Time in seconds after which a snapshot that is held back is saved. None: not by time.
        calls: Whether every phase of a turn is saved.
    """

    turns: int | None = 1
    seconds: float | None = None
    calls: bool = False

    @classmethod
    def every_turn(cls) -> Self:
        """Save the snapshot at the end of each turn.

        Returns:
            The rule.
        """
        return cls()

    @classmethod
    def every_call(cls) -> Self:
        """Save the snapshot at every phase of a turn.

        Returns:
            The rule.
        """
        return cls(calls=True)

    @classmethod
    def every(cls, *, n: int | None = None, seconds: float | None = None) -> Self:
        """Save a snapshot every `n` turns or every so many seconds, whichever comes first.

        Args:
            n: Number of turns.
            seconds: Time in seconds.

        Returns:
            The rule.

        Raises:
            InvalidInput: Neither is given, or one is not a positive number.
        """
        if n is None and seconds is None:
            raise InvalidInput("Say how often: n turns, or seconds.")
        if n is not None:
            validate_integer("n", n, minimum=1)
        if seconds is not None and (isinstance(seconds, bool) or not seconds > 0):
            raise InvalidInput(f"seconds is {seconds!r}; it has to be a number above 0.")
        return cls(turns=n, seconds=seconds)

    def is_due(self, phase: Phase, turns: int) -> bool:
        """Return whether a snapshot is saved as it comes.

        Args:
            phase: Phase of the snapshot.
            turns: Number of turns since the last snapshot that was saved.

        Returns:
            Whether it is saved now.
        """
        if self.calls or phase in ENDING_PHASES:
            return True
        return phase in TURN_PHASES and self.turns is not None and turns >= self.turns
