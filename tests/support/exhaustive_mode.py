"""How much the longest tests try: a part that meets every place, or with HARNESS_TEST_EXHAUSTIVE=1 all there is.

With HARNESS_TEST_SAMPLED=1, any parametrized test has a sample of its cases.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain, combinations, product
from typing import Any
from zlib import crc32

import pytest
from django.db import connection

from checkpoints.testing import Boundary

EXHAUSTIVE = os.environ.get("HARNESS_TEST_EXHAUSTIVE") == "1"
#: Whether a run has a sample of the cases of each parametrized test, because another one has all of them.
SAMPLED = os.environ.get("HARNESS_TEST_SAMPLED") == "1"
#: Largest number of cases of a test that a sampled run has all of.
FEW_CASES = 2
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


def mark_all_but_combinations(*parameters: Sequence[Any], together: int = 1) -> list[Any]:
    """Return all combinations of values, of which an ordinary run has enough to meet each value.

    With `together`, it meets all combinations of the values of so many parameters, such as all pairs. A tuple gives
    values to several arguments of the test.
    """
    numbered = list(product(*(range(len(values)) for values in parameters)))
    chosen = _choose_covering_combinations(numbered, together)
    cases = []
    for numbers in numbered:
        values = [values[number] for values, number in zip(parameters, numbers, strict=True)]
        case = chain.from_iterable(value if isinstance(value, tuple) else (value,) for value in values)
        cases.append(pytest.param(*case, marks=() if numbers in chosen else only_exhaustive))
    return cases


def _choose_covering_combinations(numbered: Sequence[tuple[int, ...]], together: int) -> set[tuple[int, ...]]:
    """Choose again and again the combination that has most of what has not been met yet."""

    def list_parts(numbers: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(combinations(enumerate(numbers), together))

    chosen, left = set(), set[tuple[tuple[int, int], ...]]().union(*map(list_parts, numbered))
    while left:
        best = max(numbered, key=lambda numbers: len(left & list_parts(numbers)))
        chosen.add(best)
        left -= list_parts(best)
    return chosen


def choose_sample(cases: Sequence[str]) -> set[str]:
    """Return the names of cases for a sampled run: all of a few, or the first, the last and a sixth of the others.

    A checksum of the name chooses the sixth, so that it is the same in each run and follows no order of values.
    """
    if len(cases) <= FEW_CASES:
        return set(cases)
    return {cases[0], cases[-1], *(case for case in cases if crc32(case.encode()) % 6 == 0)}


def choose_each(step: int, cases: Sequence[Any]) -> Sequence[Any]:
    """Return each `step`-th case, or in an exhaustive run all."""
    return cases if EXHAUSTIVE else cases[::step]


def count_examples(count: int) -> int:
    """Return the number of random examples for a test that tries `count` of them in an ordinary run."""
    return count * MORE_EXAMPLES if EXHAUSTIVE else count


def choose_boundaries(passed: Sequence[Boundary]) -> list[Boundary]:
    """Return the write boundaries to try: on one side of each operation, the first or the last that a run passes.

    The side that one database leaves out, the other one tries.
    """
    if EXHAUSTIVE:
        return list(passed)
    first = {(one.place, one.side): one for one in reversed(passed)}
    last = {(one.place, one.side): one for one in passed}
    chosen = [
        (last if index % 4 < 2 else first)[key]
        for index, key in enumerate(sorted(first))
        if (index + index // 2 + (connection.vendor == "postgresql")) % 2
    ]
    return sorted(chosen, key=lambda one: one.number)
