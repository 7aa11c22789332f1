"""Totals among the arguments of a call that the rows of a list beside them add up to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import combinations
from typing import Any, Final

_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)
#: Number of rows and of columns with numbers up to which sums are computed.
_MAX_ROWS: Final = 500
_MAX_COLUMNS: Final = 12


def parse_number(value: Any) -> Decimal | None:
    """Return a number, or a text that is one, exactly; None for anything else, also for infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    if isinstance(value, str):
        return Decimal(text) if _NUMBER.fullmatch(text) else None
    return number if (number := Decimal(text)).is_finite() else None


def list_sums_of_same_columns(before: Any, after: Any, total: Decimal) -> list[Decimal | None]:
    """List what the rows of a changed list add up to, if the rows before the change added up to a total.

    The products of two columns, such as a quantity and a price, or the values of one column can add up. Where the total
    has more than one such explanation, there is a sum for each: one of products first.

    Args:
        before: The list before the change.
        after: The list after it.
        total: The total before the change.

    Returns:
        An empty list if the rows did not add up to the total. A sum is None if a changed row lacks one of its numbers.
    """
    rows = _get_rows(before)
    if not rows:
        return []
    columns = [name for name in rows[0] if all(parse_number(row.get(name)) is not None for row in rows)][:_MAX_COLUMNS]
    explanations: Iterable[tuple[str, ...]] = [*combinations(columns, 2), *combinations(columns, 1)]
    return [_add_up(_get_rows(after), names) for names in explanations if _add_up(rows, names) == total]


def _get_rows(value: Any) -> list[Mapping[str, Any]]:
    is_table = isinstance(value, list) and len(value) <= _MAX_ROWS and all(isinstance(row, dict) for row in value)
    return value if is_table else []


def _add_up(rows: list[Mapping[str, Any]], columns: tuple[str, ...]) -> Decimal | None:
    """Return the sum over the rows of the product of their columns; None if a row has no number there."""
    total = Decimal(0)
    for row in rows:
        product = Decimal(1)
        for name in columns:
            number = parse_number(row.get(name))
            if number is None:
                return None
            product *= number
        total += product
    return total
