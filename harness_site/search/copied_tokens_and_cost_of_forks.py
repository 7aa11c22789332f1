"""Tokens and cost that forks have from their originals, which have spent them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from django.db.models import Expression, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from checkpoints.formats import money_amount_codec
from checkpoints.models import Checkpoint, Session
from checkpoints.store.version_state_types import count_total_tokens

_START: Final = F("created_at")


@dataclass(frozen=True, slots=True)
class CopiedAmounts:
    """Part of the totals of one fork, which began at `start`, or in the hour that begins then."""

    start: datetime
    agent: str
    tokens: int
    cost: Decimal


def load_copied_amounts_by_fork(
    sessions: QuerySet[Session], start: Expression | F = _START
) -> Mapping[int, CopiedAmounts]:
    """Load for each fork among some sessions what had been spent at the version that it continues from.

    The first version of the fork says that, or that of its original if retention has removed the first one. A fork
    whose totals are lower has begun to count anew, and they contain nothing copied.
    """
    versions = Checkpoint.objects.order_by()
    own = versions.filter(session=OuterRef("pk"), version=1)
    original = versions.filter(session=OuterRef("forked_from"), version=OuterRef("forked_version"))
    source = Coalesce(Subquery(own.values("pk")[:1]), Subquery(original.values("pk")[:1]))
    forks: QuerySet[Any, Any] = sessions.filter(forked_version__isnull=False).annotate(source=source)
    rows = list(forks.values("pk", "agent", "source", "total_tokens", "budget_spent_usd", start=start))
    sources = versions.only("usage", "budget_spent_usd").in_bulk({row["source"] for row in rows} - {None})
    copied = {}
    for row in rows:
        tokens, cost = _read_tokens_and_cost_of_version(sources.get(row["source"]))
        copied[row["pk"]] = CopiedAmounts(
            row["start"],
            row["agent"],
            tokens if tokens <= row["total_tokens"] else 0,
            cost if cost <= row["budget_spent_usd"] else Decimal(),
        )
    return copied


def load_usage_copied_by_fork(fork: Session) -> str | None:
    """Load the usage of the version that `load_copied_amounts_by_fork` reads; None if there is none."""
    versions = Checkpoint.objects.values_list("usage", flat=True)
    for version in (
        versions.filter(session=fork.pk, version=1),
        versions.filter(session=fork.forked_from_id, version=fork.forked_version or 0),
    ):
        for usage in version:
            return usage
    return None


def _read_tokens_and_cost_of_version(version: Checkpoint | None) -> tuple[int, Decimal]:
    """Return what had been spent at a version; nothing if it is missing or cannot be read."""
    if version is None:
        return 0, Decimal()
    try:
        return count_total_tokens(version.usage), money_amount_codec.round_amount_to_millionth(version.budget_spent_usd)
    except (ValueError, AttributeError, InvalidOperation, RecursionError):
        return 0, Decimal()
