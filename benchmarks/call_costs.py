"""Benchmark of logging a tool call: its intent before it runs, its result after."""

from __future__ import annotations

import time
from typing import Any, Protocol

from benchmarks.duration_samples import DurationSamples, shuffle_with_turn_as_seed
from benchmarks.full_and_quick_run_sizes import MeasurementPlan

ARGS = {"amount": "40.00", "note": "second parcel, the first one was lost " * 4}
RESULT = "charged: receipt 2026-000-117 " * 8
WARM_UP = 10


class CallLogger(Protocol):
    def log_intent_and_result(self, number: int, args: dict[str, Any], result: str) -> None: ...


def measure_call_logging(callers: dict[str, CallLogger], plan: MeasurementPlan) -> dict[str, DurationSamples]:
    """Measure the cost of one call for each caller, alternating; the tool itself does nothing."""
    seconds: dict[str, list[float]] = {name: [] for name in callers}
    for number in range(plan.calls + WARM_UP):
        args = {"order": number, **ARGS}
        for name, call_logger in shuffle_with_turn_as_seed(list(callers.items()), number):
            start = time.perf_counter()
            call_logger.log_intent_and_result(number, args, RESULT)
            seconds[name].append(time.perf_counter() - start)
    return {name: DurationSamples(values[WARM_UP:]) for name, values in seconds.items()}
