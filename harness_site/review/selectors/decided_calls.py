"""Query for the list of decisions about calls."""

from __future__ import annotations

from checkpoints.enums import DECIDING_KINDS, DecisionKind
from checkpoints.models import Decision, Workspace
from harness_site.review.selectors.pending_calls import PAGE, CallFilters

#: Decisions to list: discards of read-only calls are automatic and left out.
SHOWN_DECISIONS = sorted(DECIDING_KINDS - {DecisionKind.DISCARD})


def load_decided_page(
    workspace: Workspace, filters: CallFilters, *, before: int | None = None, limit: int = PAGE
) -> tuple[list[Decision], int | None]:
    """Load decisions of people and hooks, the latest first, and the key to continue before (None at the end)."""
    decisions = Decision.objects.filter(session__workspace=workspace, kind__in=SHOWN_DECISIONS)
    if filters.tool:
        decisions = decisions.filter(tool_call__tool=filters.tool)
    if filters.agent:
        decisions = decisions.filter(session__agent=filters.agent)
    if filters.risk is not None:
        decisions = decisions.filter(tool_call__risk=filters.risk)
    if before is not None:
        decisions = decisions.filter(pk__lt=before)
    decision_rows = list(decisions.select_related("tool_call", "session").order_by("-pk")[: limit + 1])
    page_decisions = decision_rows[:limit]
    return page_decisions, page_decisions[-1].pk if len(decision_rows) > limit else None
