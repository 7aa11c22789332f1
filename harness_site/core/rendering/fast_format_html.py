"""HTML from templates for `str.format`, escaped like Django's `format_html` in a quarter of the time.

Django prepares every value for lazy translations, which takes most of the time of a page with hundreds of bars or rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

_find_special_character: Final = re.compile("[&<>\"']").search


def build_html(template: str, *values: object, **named_values: object) -> SafeString:
    """Fill a template with escaped values. Safe strings are inserted as they are."""
    named = {name: _escape_value(value) for name, value in named_values.items()}
    return SafeString(template.format(*map(_escape_value, values), **named))


def join_html(separator: str, template: str, rows: Iterable[Sequence[object]]) -> SafeString:
    """Fill a template for each row of values, and join the results by a separator that is safe HTML."""
    return SafeString(separator.join(template.format(*map(_escape_value, row)) for row in rows))


def _escape_value(value: Any) -> object:
    """Return a value whose format is safe HTML. Types are compared, as subclasses may be formatted in another way."""
    kind = type(value)
    if kind is str:
        return escape(value) if _find_special_character(value) else value
    if kind is SafeString:
        return str.__str__(value)  # is formatted faster than a safe string, whose method is written in Python
    return value if kind is int or kind is float else conditional_escape(value)
