"""Rows of a query in batches, each a query of its own, so that no cursor stays open if the caller stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from django.db import models

SomeModel = TypeVar("SomeModel", bound=models.Model)
#: Number of rows that are read at once.
BATCH_SIZE = 1000


def iterate_rows_read_in_batches(
    rows: models.QuerySet[SomeModel], *, by: str = "pk", descending: bool = False
) -> Iterator[SomeModel]:
    """Iterate over rows in the order of `by`, a column that is unique among them, or in the opposite order."""
    ordered, after = (rows.order_by(f"-{by}"), f"{by}__lt") if descending else (rows.order_by(by), f"{by}__gt")
    batch = list(ordered[:BATCH_SIZE])
    while batch:
        yield from batch
        if len(batch) < BATCH_SIZE:
            return
        batch = list(ordered.filter(**{after: getattr(batch[-1], by)})[:BATCH_SIZE])
