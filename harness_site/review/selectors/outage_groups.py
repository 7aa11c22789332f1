"""Outages: groups of lost calls of one tool, each within a few minutes of the next."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Final

from django.db.models import (
    Case,
    Count,
    IntegerField,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)

from checkpoints.enums import CallStatus, DecisionKind, InterruptReason
from checkpoints.models import LateResult, ToolCall, Workspace
from harness_site.core.epoch_microseconds import Instant, convert_to_datetime

#: Losses of the same tool within this time of each other belong to one outage.
GAP: Final = timedelta(minutes=5)
#: Number of newest lost calls that are searched for outages, and page size of one outage.
LOOKED_AT: Final = 2000
PAGE: Final = 100
#: Maximum number of outages that the queue shows as one row each; calls of others are rows of their own.
MOST_GROUPS: Final = 20
#: Number of calls that the row of an outage shows when it is opened.
SHOWN_CALLS: Final = 5
#: Sort key that puts pending calls first.
_WAITS: Final = Case(When(status=CallStatus.INTERRUPTED, then=Value(0)), default=Value(1), output_field=IntegerField())


@dataclass(frozen=True, slots=True)
class Outage:
    """Group of two or more undecided calls of `tool`, `number` of them, lost from `first` to `last`.

    `call_pks` are their keys, the earliest first.
    """

    tool: str
    first: datetime
    last: datetime
    number: int
    call_pks: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @property
    def first_call_pks(self) -> tuple[int, ...]:
        """Return the keys of the calls that the row of the outage shows."""
        return self.call_pks[:SHOWN_CALLS]


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
    lost_by_tool: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for tool, lost_at, pk in _query_newest_lost_calls(workspace.pk):
        lost_by_tool[tool].append((lost_at, pk))
    outages = [
        Outage(
            tool,
            convert_to_datetime(group[0][0]),
            convert_to_datetime(group[-1][0]),
            len(group),
            tuple(pk for _, pk in group),
        )
        for tool, lost in lost_by_tool.items()
        for group in _split_lost_calls_at_time_gaps(sorted(lost))
        if len(group) > 1
    ]
    return sorted(outages, key=lambda outage: (outage.first, outage.tool))


def _query_newest_lost_calls(workspace: int) -> QuerySet[ToolCall, tuple[str, int, int]]:
    """Query their tools, the times of their losses in microseconds since 1970, and their keys."""
    return _select_lost_calls().filter(workspace=workspace)[:LOOKED_AT]


@cache
def _select_lost_calls() -> QuerySet[ToolCall, tuple[str, int, int]]:
    lost = ToolCall.objects.filter(status=CallStatus.INTERRUPTED, reason=InterruptReason.RUN_LOST)
    newest = lost.exclude(interrupted_at=None).order_by("-interrupted_at", "-pk")
    return newest.values_list("tool", Instant("interrupted_at"), "pk")


def _split_lost_calls_at_time_gaps(lost: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    """Split the lost calls of one tool, in order of time, where more than `GAP` lies between two of them."""
    start, gap = 0, GAP // timedelta(microseconds=1)
    for index, (before, after) in enumerate(pairwise(lost), 1):
        if after[0] - before[0] > gap:
            yield lost[start:index]
            start = index
    yield lost[start:]


def map_calls_to_outages(calls: Iterable[ToolCall], found: Sequence[Outage]) -> dict[int, Outage]:
    """Map the primary key of each call lost in one of these outages to that outage."""
    outages_by_tool: defaultdict[str, list[Outage]] = defaultdict(list)
    for outage in sorted(found, key=lambda match: match.first):
        outages_by_tool[outage.tool].append(outage)
    lost_calls = [
        call for call in calls if call.status == CallStatus.INTERRUPTED and call.reason == InterruptReason.RUN_LOST
    ]
    return {
        call.pk: match
        for call in lost_calls
        if (match := _find_outage_at(outages_by_tool[call.tool], call.interrupted_at)) is not None
    }


def _find_outage_at(outages: Sequence[Outage], moment: datetime | None) -> Outage | None:
    """Return the outage that contains `moment`; `outages` are sorted and do not overlap."""
    if moment is None:
        return None
    index = bisect_right(outages, moment, key=lambda outage: outage.first)
    return outages[index - 1] if index and moment <= outages[index - 1].last else None


def load_outage_calls(
    workspace: Workspace, tool: str, first: datetime, last: datetime, *, after: int | None = None
) -> OutageCallPage:
    """Load a page of the calls of `tool` that were lost from `first` to `last`, in any status.

    The page begins after the call with key `after`. Runs two queries, one more if there are several pages, and one more
    for a later page.
    """
    lost = ToolCall.objects.filter(
        workspace=workspace,
        tool=tool,
        reason=InterruptReason.RUN_LOST,
        interrupted_at__gte=first,
        interrupted_at__lte=last,
    )
    counts = lost.aggregate(total=Count("pk"), undecided=Count("pk", filter=Q(status=CallStatus.INTERRUPTED)))
    page_calls = lost if after is None else _query_calls_after(lost, after)
    related = page_calls.select_related("session__owner", "session__workspace", "run")
    calls = tuple(related.order_by(_WAITS, "interrupted_at", "pk")[:PAGE])
    following = page_calls.count() - PAGE if counts["total"] > PAGE else 0
    return OutageCallPage(calls, counts["total"], counts["undecided"], max(following, 0))


def _query_calls_after(lost: QuerySet[ToolCall], call_pk: int) -> QuerySet[ToolCall]:
    """Select the calls after the given one, or all calls if it does not exist."""
    position = lost.filter(pk=call_pk)
    status = position.values_list("status", flat=True).first()
    if status is None:
        return lost
    # Compare times inside the database: a value that passed through Python may have other digits.
    interrupted_at, is_pending = Subquery(position.values("interrupted_at")[:1]), Q(status=CallStatus.INTERRUPTED)
    is_later = Q(interrupted_at__gt=interrupted_at) | Q(interrupted_at=interrupted_at, pk__gt=call_pk)
    return lost.filter(
        is_pending & is_later | ~is_pending if status == CallStatus.INTERRUPTED else ~is_pending & is_later
    )


def summarize_agreeing_late_results(late: Iterable[LateResult]) -> LateResultSummary | None:
    """Return the common statement of these late results of one call, or None if there is none or they contradict."""
    results = {(late_result.success, late_result.result): late_result for late_result in late}
    if len({success for success, _ in results}) != 1 or (len(results) > 1 and any(success for success, _ in results)):
        return None
    late_result = next(iter(results.values()))
    kind = DecisionKind.CONFIRM_LANDED if late_result.success else DecisionKind.MARK_FAILED
    return LateResultSummary(kind, late_result.result_text or "", late_result)
