"""Whole numbers in the query of a URL."""

from __future__ import annotations

from django.http import HttpRequest


def parse_whole_number_or_none(text: str) -> int | None:
    """Parse a whole number of at most 18 digits, which every column of a primary key can be compared with."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def parse_number_parameter_or_none(request: HttpRequest, name: str) -> int | None:
    """Parse a whole number from the query; None if it is absent or invalid."""
    return parse_whole_number_or_none(request.GET.get(name, ""))
