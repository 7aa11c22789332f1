"""Measured durations and statistics of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Samples:
    """Durations in seconds, at least one; the statistics are in milliseconds."""

    seconds: Sequence[float]

    @property
    def fastest(self) -> float:
        return min(self.seconds) * 1000

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) * 1000

    @property
    def p95(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[math.ceil(len(ordered) * 0.95) - 1] * 1000

    @property
    def slowest(self) -> float:
        return max(self.seconds) * 1000
