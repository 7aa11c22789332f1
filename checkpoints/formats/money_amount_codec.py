"""Amounts of money, kept exactly as they were given."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal

from checkpoints.exceptions import NotRepresentable
from checkpoints.formats.canonical_json import parse_json

#: Largest accepted amount: a trillion dollars. A larger one is a mistake.
LARGEST_AMOUNT = 10**12
#: Largest number of characters of a `Decimal`.
MAX_TEXT_LENGTH = 60
HEADLINE_PRECISION = Decimal("0.000001")
#: Largest rounded amount, which the column of a session can keep.
LARGEST_HEADLINE = LARGEST_AMOUNT - HEADLINE_PRECISION


def encode_amount_as_json(amount: float | Decimal, what: str = "budget_spent_usd") -> str:
    """Convert an int or float to a JSON number, a `Decimal` to a JSON string. Raises `NotRepresentable`."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | Decimal):
        raise NotRepresentable(what, f"a {type(amount).__name__} is not an amount")
    if not _is_finite_amount_within_limits(amount):
        raise NotRepresentable(what, "it is not an amount of money below a trillion dollars")
    if isinstance(amount, Decimal):
        return f'"{amount}"'
    return int.__repr__(amount) if isinstance(amount, int) else float.__repr__(amount)


def _is_finite_amount_within_limits(amount: float | Decimal) -> bool:
    if isinstance(amount, Decimal):
        return amount.is_finite() and abs(amount) < LARGEST_AMOUNT and len(str(amount)) <= MAX_TEXT_LENGTH
    return (isinstance(amount, int) or math.isfinite(amount)) and -LARGEST_AMOUNT < amount < LARGEST_AMOUNT


def parse_stored_amount_as_float_or_decimal(text: str) -> float | Decimal:
    value = parse_json(text)
    if isinstance(value, str):
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{text} is not an amount")
    return value


def round_amount_to_millionth(text: str) -> Decimal:
    """Round an amount to a millionth of a dollar, for sums and lists."""
    amount = Decimal(text.strip('"'))
    if not amount.is_finite():
        raise ValueError(f"{text} is not an amount")
    rounded = amount.quantize(HEADLINE_PRECISION, rounding=ROUND_HALF_EVEN)
    return max(-LARGEST_HEADLINE, min(rounded, LARGEST_HEADLINE))
