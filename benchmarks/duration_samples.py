"""Measured durations, statistics of them, and the order in which contenders are measured."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


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


def shuffle_for_turn(contenders: Sequence[T], turn: int) -> list[T]:
    """Shuffle the contenders for one turn, in the same way in every run.

    A contender is slower after one that has just filled the processor's caches with megabytes of JSON, so the
    predecessor has to change.
    """
    return random.Random(turn).sample(contenders, len(contenders))  # noqa: S311 - an order, no secret
