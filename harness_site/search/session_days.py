"""Outcomes of the sessions of each agent by day. Days with changed sessions are recounted.

Counting a day reads its part of an index. Incremental sums would require the previous contribution of each session and
would delay agents or be wrong after a crash.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Count, Q, Sum

from checkpoints.db.clock import database_now
from checkpoints.enums import SessionStatus
from checkpoints.models import Session, Workspace
from harness_site.search.models import SessionDay

#: Number of days displayed.
SHOWN: Final = 14
#: A transaction that commits late has an earlier time.
_OVERLAP: Final = timedelta(seconds=30)
#: Above this number of changes, recounting all days is as fast.
_MANY: Final = 5_000


def update_session_days(since: datetime | None) -> datetime:
    """Recount the days of sessions changed `since`, or all displayed days.

    Returns the moment from which changes are not counted yet.
    """
    now = database_now("default")
    first = now.date() - timedelta(days=SHOWN - 1)
    for workspace in Workspace.objects.values_list("pk", flat=True):
        for day in _list_changed_days(workspace, since, first, now):
            recount_day(workspace, day)
    return now


def _list_changed_days(workspace: int, since: datetime | None, first: date, now: datetime) -> Iterable[date]:
    # Deleted sessions leave no change behind, so all days are recounted every hour.
    all_days = [first + timedelta(days=number) for number in range(SHOWN)]
    if since is None or since.hour != now.hour:
        return all_days
    sessions = Session.objects.filter(workspace=workspace, updated_at__gt=since - _OVERLAP)
    start_times = list(sessions.order_by("-updated_at").values_list("created_at", flat=True)[:_MANY])
    return (
        all_days
        if len(start_times) == _MANY
        else sorted({moment.date() for moment in start_times if moment.date() >= first})
    )


def recount_day(workspace: int, day: date) -> None:
    """Recount one day."""
    start = datetime.combine(day, time.min, UTC)
    sessions = Session.objects.filter(
        workspace=workspace, created_at__gte=start, created_at__lt=start + timedelta(days=1)
    )
    agent_rows = (
        sessions.order_by()
        .values("agent")
        .annotate(
            sessions=Count("pk"),
            completed=Count("pk", filter=Q(status=SessionStatus.COMPLETED)),
            failed=Count("pk", filter=Q(status=SessionStatus.FAILED)),
            cost=Sum("budget_spent_usd"),
        )
    )
    rows = [SessionDay(workspace_id=workspace, day=day, **row) for row in agent_rows]
    with transaction.atomic():
        SessionDay.objects.filter(workspace=workspace, day=day).exclude(agent__in=[row.agent for row in rows]).delete()
        SessionDay.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["workspace", "day", "agent"],
            update_fields=["sessions", "completed", "failed", "cost"],
        )
