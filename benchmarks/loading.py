"""Benchmark of reading a long session: the whole transcript, and its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.contenders.contender import Contender
from benchmarks.duration_samples import DurationSamples
from benchmarks.full_and_quick_run_sizes import MeasurementPlan

TAIL = 50


@dataclass(frozen=True)
class LoadTimes:
    """Load times by contender."""

    whole: dict[str, DurationSamples] = field(default_factory=dict)
    tails: dict[str, DurationSamples] = field(default_factory=dict)


def measure_loading(contenders: Sequence[Contender], plan: MeasurementPlan) -> LoadTimes:
    """Read the sessions that the contenders saved up to the last turn of `plan`, alternating."""
    whole: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    tails: dict[str, list[float]] = {}
    for _ in range(plan.load_rounds):
        for contender in contenders:
            whole[contender.key].append(contender.measure_load())
            start = time.perf_counter()
            if contender.read_last_messages_or_none(TAIL) is not None:
                tails.setdefault(contender.key, []).append(time.perf_counter() - start)
    return LoadTimes(_convert_seconds_to_samples(whole), _convert_seconds_to_samples(tails))


def _convert_seconds_to_samples(seconds: dict[str, list[float]]) -> dict[str, DurationSamples]:
    return {key: DurationSamples(values) for key, values in seconds.items()}
