"""Query for the list of decisions about calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.db.models import QuerySet

from checkpoints.enums import DECIDING_KINDS, DecisionKind
from checkpoints.models import Decision, Workspace
from harness_site.core.utc_time_range_parameters import TimeRange
from harness_site.review.selectors.pending_calls import PAGE, BoundedCount, CallFilters
from harness_site.search.hourly_call_statistics import COUNTED_DECISIONS

#: Upper bound of the number of decisions that a filtered list states.
COUNT_LIMIT = 1000
#: Decisions to list: discards of read-only calls are automatic and left out.
SHOWN_DECISIONS = sorted(DECIDING_KINDS - {DecisionKind.DISCARD})


@dataclass(frozen=True, slots=True)
class DecisionFilters:
    """Filters of the decisions themselves, beside those of their calls.

    `times` are those of the decisions. `only_people` selects the final decisions of people, whose waiting times the
    overview shows.
    """

    times: TimeRange = field(default_factory=TimeRange)
    only_people: bool = False

    def __bool__(self) -> bool:
        return bool(self.times or self.only_people)


def load_decided_page(
    workspace: Workspace,
    filters: CallFilters,
    wanted: DecisionFilters = DecisionFilters(),
    *,
    before: int | None = None,
    limit: int = PAGE,
) -> tuple[list[Decision], int | None]:
    """Load decisions of people and hooks, the latest first, and the key to continue before (None at the end)."""
    decisions = _query_decisions(workspace, filters, wanted)
    if before is not None:
        decisions = decisions.filter(pk__lt=before)
    decision_rows = list(decisions.select_related("tool_call", "session").order_by("-pk")[: limit + 1])
    page_decisions = decision_rows[:limit]
    return page_decisions, page_decisions[-1].pk if len(decision_rows) > limit else None


def count_decisions(workspace: Workspace, filters: CallFilters, wanted: DecisionFilters) -> BoundedCount:
    """Count the decisions that match, up to `COUNT_LIMIT`."""
    number = len(_query_decisions(workspace, filters, wanted).order_by().values_list("pk")[: COUNT_LIMIT + 1])
    return BoundedCount(min(number, COUNT_LIMIT), number > COUNT_LIMIT)


def _query_decisions(workspace: Workspace, filters: CallFilters, wanted: DecisionFilters) -> QuerySet[Decision]:
    decisions = Decision.objects.filter(session__workspace=workspace, kind__in=SHOWN_DECISIONS)
    if wanted.only_people:
        decisions = decisions.filter(COUNTED_DECISIONS)
    if wanted.times.since is not None:
        decisions = decisions.filter(created_at__gte=wanted.times.since)
    if wanted.times.until is not None:
        decisions = decisions.filter(created_at__lt=wanted.times.until)
    if filters.tool:
        decisions = decisions.filter(tool_call__tool=filters.tool)
    if filters.agent:
        decisions = decisions.filter(session__agent=filters.agent)
    return decisions if filters.risk is None else decisions.filter(tool_call__risk=filters.risk)
