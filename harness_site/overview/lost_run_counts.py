"""Numbers of sessions of which a run was lost, in a period and in the one before it."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db.models import F, QuerySet

from checkpoints.enums import RunStatus
from checkpoints.models import Run
from harness_site.overview.current_session_counts import LIMIT
from harness_site.overview.periods import Period
from harness_site.review.selectors.pending_calls import BoundedCount


def count_lost_run_sessions_in_period_and_before(
    workspace: int, period: Period, agent: str = ""
) -> tuple[BoundedCount, BoundedCount | None]:
    """Count the sessions of which a run was lost in a period and in the preceding one, in one query.

    The list of sessions finds the same. The second count is None if there are too many runs to know it.
    """
    of_agent = {"session__agent": agent} if agent else {}
    lost = _select_lost_runs().filter(
        workspace_without_index=workspace,
        ended_at__gte=period.preceding_start,
        ended_at__lt=period.end,
        **of_agent,
    )
    rows = list(lost[: LIMIT + 1])
    is_bounded = len(rows) > LIMIT
    sessions = {session for session, ended_at in rows[:LIMIT] if ended_at is not None and ended_at >= period.start}
    preceding = {session for session, ended_at in rows[:LIMIT] if ended_at is not None and ended_at < period.start}
    is_period_bounded = is_bounded and not preceding
    return BoundedCount(len(sessions), is_period_bounded), None if is_bounded else BoundedCount(len(preceding))


@cache
def _select_lost_runs() -> QuerySet[Any, Any]:
    """Select session and end of each lost run, the newest first."""
    # With an index for its condition on the workspace, a plan reads all sessions of it instead of the few lost runs.
    runs = Run.objects.alias(workspace_without_index=F("session__workspace") + 0)
    return runs.filter(status=RunStatus.LOST).order_by("-ended_at").values_list("session", "ended_at")
