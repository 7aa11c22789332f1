"""How often versions are saved: every turn, every call, or every so many turns or seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from checkpoints.enums import Phase
from checkpoints.exceptions import InvalidInput
from checkpoints.ids import checked_number

#: Where a turn is over or has not begun.
TURNS = frozenset({Phase.TURN, Phase.RUN_STARTED, Phase.STEP_STARTED, Phase.RESUMED})
#: Saved whatever the cadence is.
ENDS = frozenset({Phase.PAUSED, Phase.RUN_TERMINAL})


@dataclass(frozen=True)
class Cadence:
    """Which snapshots are saved as they come. The others are kept back until the next one takes their place, until they
    are due, or until something depends on them: an intent, a pause, the end."""

    turns: int | None = 1
    seconds: float | None = None
    calls: bool = False

    @classmethod
    def every_turn(cls) -> Self:
        return cls()

    @classmethod
    def every_call(cls) -> Self:
        """Every phase of a turn too."""
        return cls(calls=True)

    @classmethod
    def every(cls, *, n: int | None = None, seconds: float | None = None) -> Self:
        """Every `n` turns or every so many `seconds`, whichever comes first. Raises `InvalidInput`."""
        if n is None and seconds is None:
            raise InvalidInput("Say how often: n turns, or seconds.")
        if n is not None:
            checked_number("n", n, least=1)
        if seconds is not None and (isinstance(seconds, bool) or not seconds > 0):
            raise InvalidInput(f"seconds is {seconds!r}; it has to be a number above 0.")
        return cls(turns=n, seconds=seconds)

    def due(self, phase: Phase, turns: int) -> bool:
        """Whether a snapshot of this phase is saved as it comes, with so many turns since the last one that was."""
        if self.calls or phase in ENDS:
            return True
        return phase in TURNS and self.turns is not None and turns >= self.turns
