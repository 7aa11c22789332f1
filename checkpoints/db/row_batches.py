"""Rows of a query in batches, each a query of its own, so that no cursor stays open if the caller stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from django.db import models

SomeModel = TypeVar("SomeModel", bound=models.Model)
#: Number of rows that are read at once.
BATCH_SIZE = 1000


def iterate_rows(rows: models.QuerySet[SomeModel], *, by: str = "pk") -> Iterator[SomeModel]:
    """Iterate over rows in the order of `by`, a column that is unique among them."""
    batch = list(rows.order_by(by)[:BATCH_SIZE])
    while batch:
        yield from batch
        if len(batch) < BATCH_SIZE:
            return
        batch = list(rows.filter(**{f"{by}__gt": getattr(batch[-1], by)}).order_by(by)[:BATCH_SIZE])
