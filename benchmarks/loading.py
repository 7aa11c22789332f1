"""What it costs to read a long session back, whole and its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.contenders.contender import Contender
from benchmarks.plan import Plan
from benchmarks.samples import Samples

TAIL = 50


@dataclass(frozen=True)
class Loading:
    """By contender."""

    whole: dict[str, Samples] = field(default_factory=dict)
    tails: dict[str, Samples] = field(default_factory=dict)


def measure(contenders: Sequence[Contender], plan: Plan) -> Loading:
    """Read the sessions that the contenders have saved up to the last turn of `plan`, alternating."""
    whole: dict[str, list[float]] = {each.key: [] for each in contenders}
    tails: dict[str, list[float]] = {}
    for _ in range(plan.load_rounds):
        for contender in contenders:
            whole[contender.key].append(contender.load())
            start = time.perf_counter()
            if contender.tail(TAIL) is not None:
                tails.setdefault(contender.key, []).append(time.perf_counter() - start)
    return Loading(_samples(whole), _samples(tails))


def _samples(seconds: dict[str, list[float]]) -> dict[str, Samples]:
    return {key: Samples(values) for key, values in seconds.items()}
