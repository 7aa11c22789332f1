"""HTML from templates for `str.format`, escaped like Django's `format_html` in a quarter of the time.

Django prepares every value for lazy translations, which takes most of the time of a page with hundreds of bars or rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe


def build_html(template: str, *values: object, **named_values: object) -> SafeString:
    """Fill a template with escaped values. Safe strings are inserted as they are."""
    named = {name: _escape_value(value) for name, value in named_values.items()}
    return mark_safe(template.format(*map(_escape_value, values), **named))  # noqa: S308 - all values are escaped


def join_html(separator: str, template: str, rows: Iterable[Sequence[object]]) -> SafeString:
    """Fill a template for each row of values, and join the results by a separator that is safe HTML."""
    filled = (template.format(*map(_escape_value, row)) for row in rows)
    return mark_safe(separator.join(filled))  # noqa: S308 - all values are escaped


def _escape_value(value: Any) -> str:
    if isinstance(value, SafeString):
        return value
    if type(value) is str:
        return escape(value)
    if isinstance(value, int | float):
        return str(value)
    return conditional_escape(value)
