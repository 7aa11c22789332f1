"""Where sessions stand in a list of them: which come first, which follow, and how many there are."""

from __future__ import annotations

from operator import attrgetter
from typing import TypeAlias

from django.db.models import QuerySet

from checkpoints.models import Session
from checkpoints.queries import keyset
from checkpoints.queries.keyset import AmountCursor, Cursor
from checkpoints.queries.narrowing import SessionFilter, Sort, order, streams, time_field

#: Totals are counted up to here; beyond it a page says "more than".
LIMIT = 1000

#: Where a page of a list begins.
Place: TypeAlias = Cursor | AmountCursor


def parse(token: str, sort: Sort) -> Place | None:
    """Where a page begins, from its address; None where that says nothing."""
    return AmountCursor.parse(token) if sort is Sort.COST else Cursor.parse(token)


def of(session: Session, sort: Sort) -> Place:
    """The place of one of the `first`."""
    if sort is Sort.COST:
        return AmountCursor(session.budget_spent_usd, session.pk)
    return Cursor(str(session.stored_time), session.pk)  # type: ignore[attr-defined]


def first(workspace_id: int, wanted: SessionFilter, size: int, *, after: Place | None = None) -> list[Session]:
    """The first sessions behind `after`, by what they are ordered by; the rest of them is not read."""
    parts = [_ordered(part, wanted.sort)[:size] for part in _behind(workspace_id, wanted, after)]
    found = [row for part in parts for row in part]
    return sorted(found, key=attrgetter(_by(wanted.sort), "pk"), reverse=True)[:size]


def total(workspace_id: int, wanted: SessionFilter) -> int:
    """How many there are; what is beyond `LIMIT` may be more."""
    return sum(
        found.order_by()[: LIMIT + 1].count() for found in streams(workspace_id, wanted or SessionFilter())
    )  # in no order


def _behind(workspace_id: int, wanted: SessionFilter, after: Place | None) -> list[QuerySet[Session]]:
    parts = streams(workspace_id, wanted)
    if isinstance(after, AmountCursor):
        return [found.filter(keyset.below(after, "budget_spent_usd")) for found in parts]
    return parts if after is None else [found.filter(keyset.before(after, wanted.time_field)) for found in parts]


def _ordered(found: QuerySet[Session], sort: Sort) -> QuerySet[Session]:
    placed = found.annotate(stored_time=keyset.stored_text(time_field(sort)))
    return placed.order_by(*order(sort)).only(_by(sort))


def _by(sort: Sort) -> str:
    return order(sort)[0].removeprefix("-")
