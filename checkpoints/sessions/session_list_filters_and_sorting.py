"""Filters and sort orders of session lists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db.models import Q, QuerySet, TextChoices
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import SessionStatus
from checkpoints.models import Session
from checkpoints.sessions.display_status import DISPLAY_STATUS_CONDITIONS, DisplayStatus


class Sort(TextChoices):
    """Order of a list. Both directions of a column are read from the same indexes."""

    UPDATED = "updated", _("Newest activity")
    UPDATED_ASCENDING = "updated-asc", _("Oldest activity")
    STARTED = "started", _("Newest start")
    STARTED_ASCENDING = "started-asc", _("Oldest start")
    COST = "cost", _("Highest cost")
    COST_ASCENDING = "cost-asc", _("Lowest cost")

    @property
    def is_ascending(self) -> bool:
        """Whether the oldest or the smallest comes first."""
        return self.value.endswith("-asc")

    @property
    def is_by_cost(self) -> bool:
        return self.column == "budget_spent_usd"

    @property
    def is_by_start(self) -> bool:
        return self.column == "created_at"

    @property
    def column(self) -> str:
        """Column that the list is ordered by."""
        return _SORT_COLUMNS[self.value.removesuffix("-asc")]


_SORT_COLUMNS: Final = {"updated": "updated_at", "started": "created_at", "cost": "budget_spent_usd"}


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Filter of a session list.

    Sessions were created from `since` up to, but not including, `until`. `least` and `most` are US dollars.
    `among` are further conditions on a session's primary key. `keys` queries the keys of the sessions that `among`
    selects, if one table has them.
    """

    display_status: DisplayStatus | None = None
    agent: str = ""
    since: datetime | None = None
    until: datetime | None = None
    least: Decimal | None = None
    most: Decimal | None = None
    among: tuple[Q, ...] = ()
    keys: QuerySet[Any, Any] | None = None
    sort: Sort = Sort.UPDATED

    @property
    def is_cost_range_reversed(self) -> bool:
        """Whether the lowest cost is above the highest one, so that no session matches."""
        return self.least is not None and self.most is not None and self.least > self.most

    def __bool__(self) -> bool:
        return bool(self.among) or self.has_column_conditions

    @property
    def has_column_conditions(self) -> bool:
        return bool(self.display_status or self.field_lookups)

    @property
    def field_lookups(self) -> dict[str, Any]:
        """Field lookups on the session's own columns."""
        lookups = {
            "agent": self.agent.replace("\0", "") if self.agent else None,
            "created_at__gte": self.since,
            "created_at__lt": self.until,
            "budget_spent_usd__gte": self.least,
            "budget_spent_usd__lte": self.most,
        }
        return {name: value for name, value in lookups.items() if value is not None}


def select_sessions_of_workspace(workspace_id: int) -> QuerySet[Session]:
    """Select all sessions of a workspace."""
    return Session.objects.filter(workspace_id=workspace_id)


def select_sessions_by_filter(workspace_id: int, session_filter: SessionFilter) -> QuerySet[Session]:
    """Select the sessions that match the filter, unordered."""
    sessions = select_sessions_of_workspace(workspace_id).filter(**session_filter.field_lookups)
    return (
        sessions.filter(DISPLAY_STATUS_CONDITIONS[session_filter.display_status])
        if session_filter.display_status
        else sessions
    ).filter(*session_filter.among)


def split_into_indexed_querysets(workspace_id: int, session_filter: SessionFilter) -> list[QuerySet[Session]]:
    """Split the filtered sessions into querysets that one index each can answer.

    The indexes by agent and by cost contain only the sessions that are not active, so that saves need not update them.
    The few active ones are selected by a queryset of their own; a small index has their order by cost.
    """
    sessions = select_sessions_by_filter(workspace_id, session_filter)
    if session_filter.display_status or not (session_filter.agent or session_filter.sort.is_by_cost):
        return [sessions]
    return [sessions.exclude(status=SessionStatus.ACTIVE), sessions.filter(status=SessionStatus.ACTIVE)]


def get_order_fields(sort: Sort) -> tuple[str, str]:
    """Return the two fields to order by."""
    return (sort.column, "pk") if sort.is_ascending else (f"-{sort.column}", "-pk")
