"""What it costs to log a tool call: its intent before it runs, its result after."""

from __future__ import annotations

import time
from typing import Any, Protocol

from benchmarks.order import shuffled
from benchmarks.plan import Plan
from benchmarks.samples import Samples

ARGS = {"amount": "40.00", "note": "second parcel, the first one was lost " * 4}
RESULT = "charged: receipt 2026-000-117 " * 8
WARM_UP = 10


class Caller(Protocol):
    def call(self, number: int, args: dict[str, Any], result: str) -> None: ...


def measure(callers: dict[str, Caller], plan: Plan) -> dict[str, Samples]:
    """The cost of one call by caller; a tool that does nothing, callers alternating."""
    seconds: dict[str, list[float]] = {name: [] for name in callers}
    for number in range(plan.calls + WARM_UP):
        args = {"order": number, **ARGS}
        for name, caller in shuffled(list(callers.items()), number):
            start = time.perf_counter()
            caller.call(number, args, RESULT)
            seconds[name].append(time.perf_counter() - start)
    return {name: Samples(values[WARM_UP:]) for name, values in seconds.items()}
