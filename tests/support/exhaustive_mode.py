"""How much the longest tests try: a part that meets every place, or with HARNESS_TEST_EXHAUSTIVE=1 all there is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from django.db import connection

from checkpoints.testing import Boundary

EXHAUSTIVE = os.environ.get("HARNESS_TEST_EXHAUSTIVE") == "1"
#: How many times as many random examples an exhaustive run tries.
MORE_EXAMPLES = 8


#: Mark of tests and cases that only an exhaustive run has. The end of an ordinary run has their number.
only_exhaustive = pytest.mark.exhaustive


def mark_all_but_each(step: int, cases: Iterable[Any], *, first: int = 0) -> list[Any]:
    """Return the cases of a parametrized test, of which an ordinary run has each `step`-th one from the `first` on."""
    return [
        case
        if number % step == first
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=only_exhaustive)
        for number, case in enumerate(cases)
    ]


def choose_each(step: int, cases: Sequence[Any]) -> Sequence[Any]:
    """Return each `step`-th case, or in an exhaustive run all."""
    return cases if EXHAUSTIVE else cases[::step]


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
