"""Saves a second, round by round."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rates:
    """Saves a second, by who saves and how many of them at the same time, one for each round."""

    found: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def median(self, key: str, count: int) -> float:
        return statistics.median(self.found[key, count])

    def share(self, key: str, of: str, count: int) -> float:
        """How much of another's rate one reaches: the median over the rounds."""
        pairs = zip(self.found[key, count], self.found[of, count], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)
