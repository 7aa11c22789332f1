"""Order, pagination and counting of the session list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias

from django.db.models import Lookup, Q, QuerySet

from checkpoints.db import keyset_pagination
from checkpoints.db.keyset_pagination import AmountCursor, Cursor
from checkpoints.enums import CostBasis
from checkpoints.models import Session
from checkpoints.sessions.session_list_filters_and_sorting import (
    SessionFilter,
    Sort,
    get_order_fields,
    select_sessions_by_filter,
    split_into_indexed_querysets,
)
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, load_rows_or_mark_unreadable

#: Totals are exact up to this number; beyond it a page says "more than".
LIMIT = 1000

#: Condition of a filter by a time: sessions whose source has no times match none.
HAS_TIMES: Final = {"has_times": True}
#: Number of the newest sessions among which those without times are counted.
_NEWEST_COUNTED: Final = 10_000

_UNKNOWN_VALUE_MARK = "unknown~"


@dataclass(frozen=True, slots=True)
class UnknownValueCursor:
    """Cursor among the sessions whose time or cost, by which the list is ordered, is unknown.

    They come after all others, by the times of their files or the newest first.
    """

    place: Cursor | AmountCursor

    def __str__(self) -> str:
        return f"{_UNKNOWN_VALUE_MARK}{self.place}"


#: Cursor of a page.
SessionListCursor: TypeAlias = Cursor | AmountCursor | UnknownValueCursor


def parse_page_cursor(token: str, sort: Sort) -> SessionListCursor | None:
    """Parse the cursor of a page from its URL; None if it is invalid."""
    parse: Callable[[str], Cursor | AmountCursor | None] = AmountCursor.parse if sort.is_by_cost else Cursor.parse
    place = parse(token.removeprefix(_UNKNOWN_VALUE_MARK))
    return UnknownValueCursor(place) if place is not None and token.startswith(_UNKNOWN_VALUE_MARK) else place


def build_cursor_of_session_or_none(session: Session | UnreadableRecord, sort: Sort) -> SessionListCursor | None:
    """Return the cursor of a session in the list; None of one whose place cannot be read."""
    if isinstance(session, UnreadableRecord):
        return None
    place = (
        AmountCursor(session.budget_spent_usd, session.pk)
        if sort.is_by_cost
        else Cursor(str(session.stored_time), session.pk)  # type: ignore[attr-defined]
    )
    return place if _has_known_value(session, sort) else UnknownValueCursor(place)


def load_partial_sessions_after_cursor(
    workspace_id: int, wanted: SessionFilter, size: int, *, after: SessionListCursor | None = None
) -> list[Session | UnreadableRecord]:
    """Load the first sessions after the cursor `after`, with only the columns that the order needs.

    In an order of time, sessions whose source has no times come last; in an order of cost, those whose cost is unknown.
    Those whose place cannot be read come first.
    """
    parts = split_into_indexed_querysets(workspace_id, wanted)
    is_known = _build_known_value_condition(wanted.sort)
    if after is None and len(wanted.among) > 1:
        # Each statement evaluates a combination of conditions completely, so one is enough if it finds all sessions.
        sessions = _load_first_sessions_of_querysets(parts, wanted, size, None)
        if len(sessions) < size:
            return sorted(sessions, key=lambda row: _has_known_value(row, wanted.sort), reverse=True)
    sessions = []
    if not isinstance(after, UnknownValueCursor):
        known = [part.filter(is_known) for part in parts]
        sessions = _load_first_sessions_of_querysets(known, wanted, size, after)
    if len(sessions) < size and not (_requires_times(wanted) and not wanted.sort.is_by_cost):
        place = after.place if isinstance(after, UnknownValueCursor) else None
        unknown = [part.filter(~is_known) for part in parts]
        sessions += _load_first_sessions_of_querysets(unknown, wanted, size - len(sessions), place)
    return sessions


def _requires_times(wanted: SessionFilter) -> bool:
    """Return whether no session without times matches, so that none of them needs to be looked for."""
    (required,) = HAS_TIMES.items()
    return any(required in condition.children for condition in wanted.among)


def _build_known_value_condition(sort: Sort) -> Q:
    """Build the condition of the sessions whose value of the order is known. Indexes by cost have the same one."""
    return ~Q(cost_basis=CostBasis.UNKNOWN) if sort.is_by_cost else Q(has_times=True)


def _has_known_value(session: Session | UnreadableRecord, sort: Sort) -> bool:
    """Return whether the value by which the list is ordered is known; True of a session that cannot be read."""
    if isinstance(session, UnreadableRecord):
        return True
    return session.cost_basis != CostBasis.UNKNOWN if sort.is_by_cost else session.has_times


def _load_first_sessions_of_querysets(
    parts: list[QuerySet[Session]], wanted: SessionFilter, size: int, after: Cursor | AmountCursor | None
) -> list[Session | UnreadableRecord]:
    column = wanted.sort.column
    rows: list[Session | UnreadableRecord] = []
    for part in _filter_querysets_after_cursor(parts, wanted, after):
        rows += load_rows_or_mark_unreadable(
            _order_sessions_with_sort_columns(part, wanted)[:size], "session", session_column="pk"
        )
    unplaced: list[Session | UnreadableRecord] = []
    placed: list[Session] = []
    for row in rows:
        if isinstance(row, UnreadableRecord) or getattr(row, column) is None:
            unplaced.append(row)
        else:
            placed.append(row)
    return (unplaced + sorted(placed, key=attrgetter(column, "pk"), reverse=not wanted.sort.is_ascending))[:size]


def count_sessions_up_to_limit(workspace_id: int, wanted: SessionFilter) -> int:
    """Count the matching sessions; the count stops soon after `LIMIT`."""
    parts: list[QuerySet[Any, Any]]
    if wanted.keys is not None and not wanted.has_column_conditions:
        parts = [wanted.keys]  # reads an index instead of a thousand sessions
    else:
        parts = [*split_into_indexed_querysets(workspace_id, wanted or SessionFilter())]
    return sum(part.order_by()[: LIMIT + 1].count() for part in parts)


def count_newest_sessions_without_times(workspace_id: int, wanted: SessionFilter) -> int:
    """Count the matching sessions whose source has no times, among the newest ones of the workspace or the agent."""
    matching = select_sessions_by_filter(workspace_id, wanted).filter(has_times=False).order_by()
    return sum(
        matching.filter(pk__in=part.order_by("-updated_at", "-pk").values("pk")[:_NEWEST_COUNTED]).count()
        for part in split_into_indexed_querysets(workspace_id, SessionFilter(agent=wanted.agent))
    )


def _filter_querysets_after_cursor(
    parts: list[QuerySet[Session]], filters: SessionFilter, after: Cursor | AmountCursor | None
) -> list[QuerySet[Session]]:
    if after is None:
        return parts
    condition = _build_condition_after_cursor(after, filters.sort)
    return [part.filter(condition) for part in parts]


def _build_condition_after_cursor(after: AmountCursor | Cursor, sort: Sort) -> Lookup[Any]:
    if isinstance(after, AmountCursor):
        build_for_amount = (
            keyset_pagination.build_above_amount_cursor_condition
            if sort.is_ascending
            else keyset_pagination.build_below_amount_cursor_condition
        )
        return build_for_amount(after, sort.column)
    build_for_time = (
        keyset_pagination.build_after_cursor_condition
        if sort.is_ascending
        else keyset_pagination.build_before_cursor_condition
    )
    return build_for_time(after, sort.column)


def _order_sessions_with_sort_columns(sessions: QuerySet[Session], wanted: SessionFilter) -> QuerySet[Session]:
    rows = sessions.order_by(*get_order_fields(wanted.sort))
    if wanted.sort.is_by_cost:
        return rows.only(wanted.sort.column, "cost_basis")
    return rows.only(wanted.sort.column, "has_times").annotate(
        stored_time=keyset_pagination.cast_field_to_text(wanted.sort.column)
    )
