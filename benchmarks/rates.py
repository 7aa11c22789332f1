"""Saves per second, round by round."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rates:
    """Saves per second by contender and number of savers, one value per round."""

    found: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def get_median(self, key: str, count: int) -> float:
        return statistics.median(self.found[key, count])

    def get_share(self, key: str, of: str, count: int) -> float:
        """Return the rate relative to another contender's: the median over the rounds."""
        pairs = zip(self.found[key, count], self.found[of, count], strict=True)
        return statistics.median(own_rate / other_rate for own_rate, other_rate in pairs)
