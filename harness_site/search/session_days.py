"""What became of the sessions of each agent, day by day. A day in which a session has changed is counted anew.

Counting one day reads its part of an index; keeping sums as sessions change would need to know what each session had
added before, and would be in the agents' way or wrong after the first crash.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Count, Q, Sum

from checkpoints.clock import database_now
from checkpoints.enums import SessionStatus
from checkpoints.models import Session, Workspace
from harness_site.search.models import SessionDay

#: The overview shows so many days.
SHOWN: Final = 14
#: What commits late has an earlier time.
_OVERLAP: Final = timedelta(seconds=30)
#: More changes than these at once, and all days are as quick.
_MANY: Final = 5_000


def bring_up(since: datetime | None) -> datetime:
    """Count the days of the sessions that have changed `since`, or all days that are shown. Returns from when on
    changes are not counted yet."""
    now = database_now("default")
    first = now.date() - timedelta(days=SHOWN - 1)
    for workspace in Workspace.objects.values_list("pk", flat=True):
        for day in _days(workspace, since, first, now):
            count(workspace, day)
    return now


def _days(workspace: int, since: datetime | None, first: date, now: datetime) -> Iterable[date]:
    # Deleted sessions leave no trace of a change: with each hour, all days are counted anew.
    every = [first + timedelta(days=number) for number in range(SHOWN)]
    if since is None or since.hour != now.hour:
        return every
    changed = Session.objects.filter(workspace=workspace, updated_at__gt=since - _OVERLAP)
    begun = list(changed.order_by("-updated_at").values_list("created_at", flat=True)[:_MANY])
    return every if len(begun) == _MANY else sorted({moment.date() for moment in begun if moment.date() >= first})


def count(workspace: int, day: date) -> None:
    """Count one day anew."""
    start = datetime.combine(day, time.min, UTC)
    sessions = Session.objects.filter(
        workspace=workspace, created_at__gte=start, created_at__lt=start + timedelta(days=1)
    )
    found = (
        sessions.order_by()
        .values("agent")
        .annotate(
            sessions=Count("pk"),
            completed=Count("pk", filter=Q(status=SessionStatus.COMPLETED)),
            failed=Count("pk", filter=Q(status=SessionStatus.FAILED)),
            cost=Sum("budget_spent_usd"),
        )
    )
    rows = [SessionDay(workspace_id=workspace, day=day, **row) for row in found]
    with transaction.atomic():
        SessionDay.objects.filter(workspace=workspace, day=day).exclude(agent__in=[row.agent for row in rows]).delete()
        SessionDay.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["workspace", "day", "agent"],
            update_fields=["sessions", "completed", "failed", "cost"],
        )
