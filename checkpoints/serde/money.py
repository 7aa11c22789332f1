"""Amounts of money, kept exactly as they were given."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, Decimal

from checkpoints.exceptions import NotRepresentable
from checkpoints.serde.canonical import parse

#: Larger amounts are taken for mistakes: a trillion dollars.
LARGEST = 10**12
#: Characters of a `Decimal`; more digits than that measure nothing.
LONGEST = 60
HEADLINE = Decimal("0.000001")


def dump(amount: float | Decimal, what: str = "budget_spent_usd") -> str:
    """A JSON number for an int or float, a JSON string for a `Decimal`. Raises `NotRepresentable`."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | Decimal):
        raise NotRepresentable(what, f"a {type(amount).__name__} is not an amount")
    if not _is_amount(amount):
        raise NotRepresentable(what, "it is not an amount of money below a trillion dollars")
    if isinstance(amount, Decimal):
        return f'"{amount}"'
    return int.__repr__(amount) if isinstance(amount, int) else float.__repr__(amount)


def _is_amount(amount: float | Decimal) -> bool:
    if isinstance(amount, Decimal):
        return amount.is_finite() and abs(amount) < LARGEST and len(str(amount)) <= LONGEST
    return (isinstance(amount, int) or math.isfinite(amount)) and -LARGEST < amount < LARGEST


def load(text: str) -> float | Decimal:
    value = parse(text)
    if isinstance(value, str):
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{text} is not an amount")
    return value


def as_decimal(text: str) -> Decimal:
    """For sums and lists: rounded down to a millionth of a dollar."""
    amount = Decimal(text.strip('"'))
    if not amount.is_finite():
        raise ValueError(f"{text} is not an amount")
    return amount.quantize(HEADLINE, rounding=ROUND_DOWN)
