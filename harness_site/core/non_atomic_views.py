"""Views that keep out of the transaction with which `ATOMIC_REQUESTS` of a project surrounds every view."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connections, transaction
from django.urls import URLPattern, URLResolver


def exclude_views_from_atomic_requests(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Exclude every view below `patterns` from `ATOMIC_REQUESTS`, on every database.

    The library refuses to write inside a transaction of its caller, because nothing would be durable before its end.
    """
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            exclude_views_from_atomic_requests(pattern.url_patterns)
            continue
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(pattern.callback)
