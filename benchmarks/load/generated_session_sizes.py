"""Plan of the sizes of generated sessions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

#: Number of messages of the few largest sessions.
HUGE: Final = 10_000
_HUGE_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class SessionSize:
    messages: int
    calls: int


@dataclass(frozen=True, slots=True)
class SessionSizePlan:
    """Totals of `sessions`, `messages` and `calls`; the same `seed` gives the same sizes."""

    sessions: int
    messages: int
    calls: int
    seed: int

    @property
    def huge_session_count(self) -> int:
        """Number of sessions with 10,000 messages and more: together at most half of all messages."""
        return min(_HUGE_MOST, self.sessions // 100, self.messages // (2 * (HUGE + _HUGE_MOST)))

    @property
    def _calls_of_huge_session(self) -> int:
        """Number of calls of a huge session: at most one per two messages, and half of all calls in total."""
        return min((HUGE - 1) // 2, self.calls // (2 * self.huge_session_count)) if self.huge_session_count else 0

    def get_session_size(self, number: int) -> SessionSize:
        """Return the size of session `number`, from 0.

        The huge ones are spread evenly; of the others, two neighbours are together as large as two average ones.
        """
        interval = self.sessions // self.huge_session_count if self.huge_session_count else 0
        index, offset = divmod(number, interval) if interval else (0, 1)
        if interval and offset == interval - 1 and index < self.huge_session_count:
            return SessionSize(HUGE + index, self._calls_of_huge_session)
        ordinary_count = self.sessions - self.huge_session_count
        remaining_messages = self.messages - sum(
            HUGE + index_of_huge for index_of_huge in range(self.huge_session_count)
        )
        messages = max(
            2,
            round(remaining_messages / ordinary_count)
            + self._get_signed_size_offset(number, remaining_messages // ordinary_count // 2),
        )
        mean_calls = (self.calls - self.huge_session_count * self._calls_of_huge_session) / ordinary_count
        calls = max(0, round(mean_calls) + self._get_signed_size_offset(number + 1, int(mean_calls) // 2))
        return SessionSize(messages, min(calls, (messages - 1) // 2))

    def _get_signed_size_offset(self, number: int, maximum: int) -> int:
        swing = Random(f"{self.seed} {number // 2}").randint(0, max(maximum, 0))
        return swing if number % 2 else -swing
