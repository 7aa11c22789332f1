"""Amounts of money, kept exactly as they were given."""

from __future__ import annotations

import math
from decimal import Decimal

from checkpoints.exceptions import NotRepresentable
from checkpoints.serde.canonical import canonical, parse

#: Larger amounts are taken for mistakes: a trillion dollars.
LARGEST = 10**12


def dump(amount: float | Decimal, what: str = "budget_spent_usd") -> str:
    """A JSON number for an int or float, a JSON string for a `Decimal`. Raises `NotRepresentable`."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | Decimal):
        raise NotRepresentable(what, f"a {type(amount).__name__} is not an amount")
    if not math.isfinite(amount) or not -LARGEST < amount < LARGEST:
        raise NotRepresentable(what, f"{amount} is not an amount of money")
    return canonical(str(amount) if isinstance(amount, Decimal) else amount, what)


def load(text: str) -> float | Decimal:
    value = parse(text)
    if isinstance(value, str):
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{text} is not an amount")
    return value


def as_decimal(text: str) -> Decimal:
    """For sums and lists: exact for a `Decimal`, the shortest decimal that names the float otherwise."""
    return Decimal(str(parse(text)))
