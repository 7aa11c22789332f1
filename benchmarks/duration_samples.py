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
class DurationSamples:
    """Durations in seconds, at least one."""

    seconds: Sequence[float]

    @property
    def fastest_ms(self) -> float:
        return min(self.seconds) * 1000

    @property
    def median_ms(self) -> float:
        return statistics.median(self.seconds) * 1000

    @property
    def p95_ms(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[math.ceil(len(ordered) * 0.95) - 1] * 1000

    @property
    def slowest_ms(self) -> float:
        return max(self.seconds) * 1000


def shuffle_with_turn_as_seed(contenders: Sequence[T], turn: int) -> list[T]:
    """Shuffle the contenders for one turn, in the same way in every run.

    A contender is slower after one that has just filled the processor's caches with megabytes of JSON, so the
    predecessor has to change.
    """
    return random.Random(turn).sample(contenders, len(contenders))  # noqa: S311 - an order, no secret
