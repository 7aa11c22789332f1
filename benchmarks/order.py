"""Order of the contenders in each turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffle_for_turn(contenders: Sequence[T], turn: int) -> list[T]:
    """Shuffle the contenders for one turn, in the same way in every run.

    A contender is slower after one that has just filled the processor's caches with megabytes of JSON, so the
    predecessor has to change.
    """
    return random.Random(turn).sample(contenders, len(contenders))  # noqa: S311 - an order, no secret
