"""Order, pagination and counting of the session list."""

from __future__ import annotations

from operator import attrgetter
from typing import TypeAlias

from django.db.models import QuerySet

from checkpoints.db import keyset_pagination
from checkpoints.db.keyset_pagination import AmountCursor, Cursor
from checkpoints.models import Session
from checkpoints.sessions.list_filters import (
    SessionFilter,
    Sort,
    get_order_fields,
    get_time_field,
    split_into_indexed_querysets,
)

#: Totals are exact up to this number; beyond it a page says "more than".
LIMIT = 1000

#: Cursor of a page.
Place: TypeAlias = Cursor | AmountCursor


def parse_page_cursor(token: str, sort: Sort) -> Place | None:
    """Parse the cursor of a page from its URL; None if it is invalid."""
    return AmountCursor.parse(token) if sort is Sort.COST else Cursor.parse(token)


def get_session_cursor(session: Session, sort: Sort) -> Place:
    """Return the cursor of a session in the list."""
    if sort is Sort.COST:
        return AmountCursor(session.budget_spent_usd, session.pk)
    return Cursor(str(session.stored_time), session.pk)  # type: ignore[attr-defined]


def load_first_sessions(
    workspace_id: int, wanted: SessionFilter, size: int, *, after: Place | None = None
) -> list[Session]:
    """Load the first sessions after the cursor `after`, with only the columns that the order needs."""
    parts = [_order_sessions(part, wanted.sort)[:size] for part in _query_sessions_after(workspace_id, wanted, after)]
    sessions = [row for part in parts for row in part]
    return sorted(sessions, key=attrgetter(_get_sort_column(wanted.sort), "pk"), reverse=True)[:size]


def count_sessions(workspace_id: int, wanted: SessionFilter) -> int:
    """Count the matching sessions; the count stops soon after `LIMIT`."""
    return sum(
        part.order_by()[: LIMIT + 1].count()
        for part in split_into_indexed_querysets(workspace_id, wanted or SessionFilter())
    )


def _query_sessions_after(workspace_id: int, filters: SessionFilter, after: Place | None) -> list[QuerySet[Session]]:
    parts = split_into_indexed_querysets(workspace_id, filters)
    if isinstance(after, AmountCursor):
        return [part.filter(keyset_pagination.filter_below_amount(after, "budget_spent_usd")) for part in parts]
    return (
        parts
        if after is None
        else [part.filter(keyset_pagination.filter_before_cursor(after, filters.time_field)) for part in parts]
    )


def _order_sessions(sessions: QuerySet[Session], sort: Sort) -> QuerySet[Session]:
    annotated = sessions.annotate(stored_time=keyset_pagination.cast_to_text(get_time_field(sort)))
    return annotated.order_by(*get_order_fields(sort)).only(_get_sort_column(sort))


def _get_sort_column(sort: Sort) -> str:
    return get_order_fields(sort)[0].removeprefix("-")
