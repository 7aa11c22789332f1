"""Outages: groups of calls of one tool that were interrupted by one cause, each within a few minutes of the next.

The cause is that their runs were lost, or that the tool raised errors of one type.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Final

from django.db.models import (
    Case,
    Count,
    IntegerField,
    Q,
    QuerySet,
    Value,
    When,
)

from checkpoints.enums import CallStatus, DecisionKind, InterruptReason
from checkpoints.models import LateResult, ToolCall, Workspace
from checkpoints.models.tool_calls_and_results import COPIED_CALLS
from harness_site.core.epoch_microseconds import Instant, convert_to_datetime
from harness_site.review.selectors.pending_calls import UNDECIDED_STATUS_LITERALS

#: Interruptions of the same tool by the same cause within this time of each other belong to one outage.
GAP: Final = timedelta(minutes=5)
#: Errors further apart than this are another outage if this is also so many times the median time between the errors.
_ERROR_GAP: Final = timedelta(minutes=1)
_TIMES_MEDIAN_OF_ERROR_GAPS: Final = 10
#: Calls that may belong to an outage: those of lost runs, and those whose tool raised an error that has a type. The
#: copy of a call in a fork is the same call, so that it counts once, and no answer for all calls runs it twice.
_MAY_BELONG_TO_OUTAGE: Final = Q(reason=InterruptReason.RUN_LOST) | Q(
    ~Q(error_type=""), reason=InterruptReason.AMBIGUOUS_ERROR
)
#: Number of newest such calls that are searched for outages, and page size of one outage.
LOOKED_AT: Final = 2000
PAGE: Final = 100
#: Maximum number of outages that the queue shows as one row each; calls of others are rows of their own.
MOST_GROUPS: Final = 20
#: Number of calls that the row of an outage shows when it is opened, and up to which number it shows all.
SHOWN_CALLS: Final = 5
ALL_SHOWN: Final = 10
#: Sort key that puts pending calls first.
_WAITS: Final = Case(When(status=CallStatus.INTERRUPTED, then=Value(0)), default=Value(1), output_field=IntegerField())


@dataclass(frozen=True, slots=True)
class Outage:
    """Group of two or more undecided calls of `tool`, `number` of them, interrupted from `first` to `last`.

    `error_type` is the type of the errors that the tool raised; empty if the runs were lost. `call_pks` are the keys of
    the calls, the earliest first.
    """

    tool: str
    error_type: str
    first: datetime
    last: datetime
    number: int
    call_pks: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @property
    def first_call_pks(self) -> tuple[int, ...]:
        """Return the keys of the calls that the row of the outage shows."""
        return self.call_pks[: ALL_SHOWN if self.number <= ALL_SHOWN else SHOWN_CALLS]


@dataclass(frozen=True, slots=True)
class OutageCallPage:
    """Page of the calls of an outage, pending calls first.

    `total` and `undecided` count all calls of the outage, `following` those after this page.
    """

    calls: tuple[ToolCall, ...]
    total: int
    undecided: int
    following: int


@dataclass(frozen=True, slots=True)
class LateResultSummary:
    """Result that all late results of a call agree on: landed with `result`, or failed."""

    kind: DecisionKind
    result: str
    late: LateResult


def list_open_outages(workspace: Workspace) -> list[Outage]:
    """List the outages with calls that wait for a decision, the earliest first; one query."""
    calls_by_cause: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for tool, error_type, interrupted_at, pk in _query_newest_outage_candidates(workspace.pk):
        calls_by_cause[tool, error_type].append((interrupted_at, pk))
    outages = [
        Outage(
            tool,
            error_type,
            convert_to_datetime(group[0][0]),
            convert_to_datetime(group[-1][0]),
            len(group),
            tuple(sorted(pk for _, pk in group)),  # in the order in which they were logged
        )
        for (tool, error_type), calls in calls_by_cause.items()
        for group in _split_calls_of_cause(sorted(calls), are_errors=bool(error_type))
    ]
    return sorted(outages, key=lambda outage: (outage.first, outage.tool, outage.error_type))


def count_agents_of_large_outages(outages: Iterable[Outage]) -> dict[Outage, Counter[str]]:
    """Count the calls of each agent in the outages whose rows do not show all calls; one query if there are any.

    A session without an agent counts as the agent "".
    """
    large = [outage for outage in outages if outage.number > ALL_SHOWN]
    if not large:
        return {}
    pks = [pk for outage in large for pk in outage.call_pks]
    agents = dict(ToolCall.objects.filter(pk__in=pks).values_list("pk", "session__agent"))
    return {outage: Counter(agents[pk] for pk in outage.call_pks if pk in agents) for outage in large}


def _query_newest_outage_candidates(workspace: int) -> QuerySet[ToolCall, tuple[str, str, int, int]]:
    """Query their tools and types of errors, the times of their interruptions in microseconds since 1970, and their
    keys."""
    return _select_outage_candidates().filter(workspace=workspace)[:LOOKED_AT]


@cache
def _select_outage_candidates() -> QuerySet[ToolCall, tuple[str, str, int, int]]:
    undecided = ToolCall.objects.filter(status__in=UNDECIDED_STATUS_LITERALS)
    interrupted = undecided.filter(_MAY_BELONG_TO_OUTAGE, ~COPIED_CALLS, status=CallStatus.INTERRUPTED)
    newest = interrupted.exclude(interrupted_at=None).order_by("-interrupted_at", "-pk")
    return newest.values_list("tool", "error_type", Instant("interrupted_at"), "pk")


def _split_calls_of_cause(calls: Sequence[tuple[int, int]], *, are_errors: bool) -> Iterator[Sequence[tuple[int, int]]]:
    """Split the calls of one cause, in order of time, at `GAP`, and at shorter gaps between series of errors.

    Lost runs are found by and by, whenever the sweeper looks, so gaps between them mean nothing.
    """
    for group in _list_groups_between_time_gaps(calls, GAP // timedelta(microseconds=1)):
        if are_errors:
            usual_gap = median(after[0] - before[0] for before, after in pairwise(group))
            least_gap = _ERROR_GAP // timedelta(microseconds=1)
            yield from _list_groups_between_time_gaps(group, max(least_gap, _TIMES_MEDIAN_OF_ERROR_GAPS * usual_gap))
        else:
            yield group


def _list_groups_between_time_gaps(calls: Sequence[tuple[int, int]], gap: float) -> list[Sequence[tuple[int, int]]]:
    """Split the calls, in order of time, where more than `gap` microseconds lie between two of them.

    A part of one call is left out: of thousands of calls, nearly all may be such parts.
    """
    groups: list[Sequence[tuple[int, int]]] = []
    start = 0
    for index, (before, after) in enumerate(pairwise(calls), 1):
        if after[0] - before[0] > gap:
            if index - start > 1:
                groups.append(calls[start:index])
            start = index
    if len(calls) - start > 1:
        groups.append(calls[start:])
    return groups


def map_calls_to_outages(calls: Iterable[ToolCall], found: Sequence[Outage]) -> dict[int, Outage]:
    """Map the primary key of each call interrupted in one of these outages to that outage."""
    outages_by_call = {pk: outage for outage in found for pk in outage.call_pks}
    return {call.pk: outages_by_call[call.pk] for call in calls if call.pk in outages_by_call}


def load_page_of_outage_calls(
    workspace: Workspace, tool: str, error_type: str, first: datetime, last: datetime, *, after: int | None = None
) -> OutageCallPage:
    """Load a page of the calls of `tool` that were interrupted from `first` to `last`, in any status, without copies.

    The tool raised errors of the type `error_type`; if this is empty, their runs were lost. The page begins after the
    call with key `after`. Runs two queries, one more if there are several pages, and one more for a later page.
    """
    cause = (
        Q(reason=InterruptReason.AMBIGUOUS_ERROR, error_type=error_type)
        if error_type
        else Q(reason=InterruptReason.RUN_LOST)
    )
    interrupted = ToolCall.objects.filter(
        cause, ~COPIED_CALLS, workspace=workspace, tool=tool, interrupted_at__gte=first, interrupted_at__lte=last
    )
    counts = interrupted.aggregate(total=Count("pk"), undecided=Count("pk", filter=Q(status=CallStatus.INTERRUPTED)))
    page_calls = interrupted if after is None else _query_calls_after(interrupted, after)
    related = page_calls.select_related("session__owner", "session__workspace", "run")
    calls = tuple(related.order_by(_WAITS, "pk")[:PAGE])
    following = page_calls.count() - PAGE if counts["total"] > PAGE else 0
    return OutageCallPage(calls, counts["total"], counts["undecided"], max(following, 0))


def _query_calls_after(calls: QuerySet[ToolCall], call_pk: int) -> QuerySet[ToolCall]:
    """Select the calls after the given one, or all calls if it does not exist."""
    status = calls.filter(pk=call_pk).values_list("status", flat=True).first()
    if status is None:
        return calls
    is_pending, is_later = Q(status=CallStatus.INTERRUPTED), Q(pk__gt=call_pk)
    return calls.filter(
        is_pending & is_later | ~is_pending if status == CallStatus.INTERRUPTED else ~is_pending & is_later
    )


def summarize_agreeing_late_results_of_call(late: Iterable[LateResult]) -> LateResultSummary | None:
    """Return the common statement of these late results of one call, or None if there is none or they contradict."""
    results = {(late_result.success, late_result.result): late_result for late_result in late}
    if len({success for success, _ in results}) != 1 or (len(results) > 1 and any(success for success, _ in results)):
        return None
    late_result = next(iter(results.values()))
    kind = DecisionKind.CONFIRM_LANDED if late_result.success else DecisionKind.MARK_FAILED
    return LateResultSummary(kind, late_result.result_text or "", late_result)
