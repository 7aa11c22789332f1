"""In which order contenders take their turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffled(contenders: Sequence[T], turn: int) -> list[T]:
    """Another order for each turn, the same in every run. Whoever follows one that has just filled the processor's
    caches with megabytes of JSON is slower for that, so nobody may always follow the same one."""
    return random.Random(turn).sample(contenders, len(contenders))  # noqa: S311 - an order, no secret
