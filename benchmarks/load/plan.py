"""How many messages and calls each generated session has."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

#: A few sessions are as long as sessions get.
HUGE: Final = 10_000
_HUGE_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Size:
    messages: int
    calls: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`sessions` of them with `messages` and `calls` between them, the same for the same `seed`."""

    sessions: int
    messages: int
    calls: int
    seed: int

    @property
    def huge(self) -> int:
        """How many sessions have 10,000 messages and more: together at most half of all messages."""
        return min(_HUGE_MOST, self.sessions // 100, self.messages // (2 * (HUGE + _HUGE_MOST)))

    @property
    def _many_calls(self) -> int:
        """Of a huge session: one for every second message, if all of them together have half of all calls at most."""
        return min((HUGE - 1) // 2, self.calls // (2 * self.huge)) if self.huge else 0

    def size(self, number: int) -> Size:
        """Of session `number`, from 0. The huge ones are spread evenly; of the others, two neighbours are as large as
        two average ones."""
        every = self.sessions // self.huge if self.huge else 0
        index, rest = divmod(number, every) if every else (0, 1)
        if every and rest == every - 1 and index < self.huge:
            return Size(HUGE + index, self._many_calls)
        ordinary = self.sessions - self.huge
        left = self.messages - sum(HUGE + each for each in range(self.huge))
        messages = max(2, round(left / ordinary) + self._swing(number, left // ordinary // 2))
        usual = (self.calls - self.huge * self._many_calls) / ordinary
        calls = max(0, round(usual) + self._swing(number + 1, int(usual) // 2))
        return Size(messages, min(calls, (messages - 1) // 2))

    def _swing(self, number: int, widest: int) -> int:
        drawn = Random(f"{self.seed} {number // 2}").randint(0, max(widest, 0))
        return drawn if number % 2 else -drawn
