"""How much the longest tests try: a part that meets every place, or with HARNESS_TEST_EXHAUSTIVE=1 all there is."""

from __future__ import annotations

import os
from collections.abc import Sequence

from django.db import connection

from checkpoints.testing import Boundary

EXHAUSTIVE = os.environ.get("HARNESS_TEST_EXHAUSTIVE") == "1"
#: How many times as many random examples an exhaustive run tries.
MORE_EXAMPLES = 8


def count_examples(count: int) -> int:
    """Return the number of random examples for a test that tries `count` of them in an ordinary run."""
    return count * MORE_EXAMPLES if EXHAUSTIVE else count


def choose_boundaries(passed: Sequence[Boundary]) -> list[Boundary]:
    """Return the write boundaries to try: of each side of each operation the first or the last that a run passes.

    Of the first ones that one database tries, the other one tries the last ones.
    """
    if EXHAUSTIVE:
        return list(passed)
    first = {(one.place, one.side): one for one in reversed(passed)}
    last = {(one.place, one.side): one for one in passed}
    is_postgresql = connection.vendor == "postgresql"
    return sorted(
        (last[key] if (index + is_postgresql) % 2 else first[key] for index, key in enumerate(sorted(first))),
        key=lambda one: one.number,
    )
