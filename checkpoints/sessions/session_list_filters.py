"""Filters and sort orders of session lists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q, QuerySet, TextChoices
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import SessionStatus
from checkpoints.models import Session
from checkpoints.sessions.display_status import STANDING_CONDITIONS, Standing


class Sort(TextChoices):
    """Sort key of a list, largest or newest first."""

    UPDATED = "updated", _("Newest activity")
    STARTED = "started", _("Newest start")
    COST = "cost", _("Highest cost")


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Filter of a session list.

    Sessions were created from `since` up to, but not including, `until`. `least` and `most` are US dollars.
    `among` are further conditions on a session's primary key. `keys` queries the keys of the sessions that `among`
    selects, if one table has them.
    """

    standing: Standing | None = None
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
        return bool(self.standing or self.field_lookups)

    @property
    def time_field(self) -> str:
        return get_sort_time_field(self.sort)

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
        sessions.filter(STANDING_CONDITIONS[session_filter.standing]) if session_filter.standing else sessions
    ).filter(*session_filter.among)


def split_into_indexed_querysets(workspace_id: int, session_filter: SessionFilter) -> list[QuerySet[Session]]:
    """Split the filtered sessions into querysets that one index each can answer.

    The indexes by agent and by cost contain only the sessions that are not active, so that saves need not update them.
    The few active ones are selected by a queryset of their own; a small index has their order by cost.
    """
    sessions = select_sessions_by_filter(workspace_id, session_filter)
    if session_filter.standing or not (session_filter.agent or session_filter.sort is Sort.COST):
        return [sessions]
    return [sessions.exclude(status=SessionStatus.ACTIVE), sessions.filter(status=SessionStatus.ACTIVE)]


def get_order_fields(sort: Sort) -> tuple[str, str]:
    """Return the two fields to order by."""
    return ("-budget_spent_usd" if sort is Sort.COST else f"-{get_sort_time_field(sort)}"), "-pk"


def get_sort_time_field(sort: Sort) -> str:
    return "created_at" if sort is Sort.STARTED else "updated_at"
