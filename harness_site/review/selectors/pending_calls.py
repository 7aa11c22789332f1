"""Queries for the calls that wait for a decision, filtered, counted and in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from heapq import merge
from itertools import islice
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, TextChoices
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy as _

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus, DecisionKind, Risk
from checkpoints.models import Decision, Session, ToolCall, Workspace
from checkpoints.models.tool_calls_and_results import IS_QUESTION
from harness_site.core.formatting import format_number
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, load_rows_or_mark_unreadable
from harness_site.review.selectors import queue_order
from harness_site.review.selectors.queue_order import QueueSort

PAGE = 20
#: Upper bound of counts, so that a page never scans a table to display a number.
COUNT_LIMIT = 99
#: Statuses of undecided calls as literals: SQLite uses the index of these calls only for a statement that repeats its
#: condition, not for one with parameters.
UNDECIDED_STATUS_LITERALS = [RawSQL(f"'{status}'", ()) for status in sorted(UNDECIDED_CALL_STATUSES)]  # noqa: S611


@dataclass(frozen=True, slots=True)
class BoundedCount:
    """Count that is exact up to `COUNT_LIMIT`; `more` is True beyond it."""

    number: int
    more: bool = False

    def __str__(self) -> str:
        number = format_number(self.number)
        return f"{number}+" if self.more else number

    def __bool__(self) -> bool:
        return self.number > 0

    def __add__(self, other: BoundedCount) -> BoundedCount:
        both = self.number + other.number
        return BoundedCount(min(both, COUNT_LIMIT), self.more or other.more or both > COUNT_LIMIT)


@dataclass(frozen=True, slots=True)
class DueCalls:
    """Calls that are overdue or due within a day.

    `urgent_count` counts those of them that are overdue or due within an hour. `statuses` has the first of them by key,
    the nearest deadline first.
    """

    urgent_count: BoundedCount = BoundedCount(0)
    statuses: Mapping[int, CallStatus] = field(default_factory=dict)

    def list_first_pks(self, statuses: Collection[CallStatus]) -> list[int]:
        """List the keys of the first page of those that wait in these statuses."""
        return [pk for pk, status in self.statuses.items() if status in statuses][:PAGE]


class DeadlineFilter(TextChoices):
    """Filter by the time left to decide."""

    OVERDUE = "overdue", _("Overdue")
    HOUR = "hour", _("Within an hour")
    DAY = "day", _("Within a day")
    NONE = "none", _("No deadline")


TIME_LEFT_BY_FILTER = {
    DeadlineFilter.OVERDUE: timedelta(),
    DeadlineFilter.HOUR: timedelta(hours=1),
    DeadlineFilter.DAY: timedelta(days=1),
}


@dataclass(frozen=True, slots=True)
class CallFilters:
    """Filters of a list of calls; empty filters select everything.

    `age` is the minimum waiting time. `condition` is an additional condition on pending calls.
    """

    tool: str = ""
    agent: str = ""
    risk: Risk | None = None
    age: timedelta | None = None
    limit: DeadlineFilter | None = None
    condition: Q | None = None

    def __bool__(self) -> bool:
        return any((self.tool, self.agent, self.risk, self.age, self.limit, self.condition))


def count_pending_calls(
    workspace: Workspace, filters: CallFilters = CallFilters(), *, status: CallStatus | None = None
) -> BoundedCount:
    """Count the pending calls that match, of all statuses or of `status` alone."""
    if filters:
        calls = query_pending_calls(workspace, status, filters)
    else:
        calls = select_undecided_calls(status).filter(workspace=workspace)
    # Reading a hundred keys takes less time than building a query that counts a subquery.
    number = len(calls.values_list("pk")[: COUNT_LIMIT + 1])
    return BoundedCount(min(number, COUNT_LIMIT), number > COUNT_LIMIT)


def count_pending_calls_by_agent(workspace: Workspace, agents: Iterable[str], *, limit: int) -> dict[str, BoundedCount]:
    """Count the pending calls of each of these agents among the first `limit` of all agents.

    If there are more calls, each count says that it may be larger.
    """
    names = list(_query_undecided_calls(workspace).values_list("session__agent", flat=True)[: limit + 1])
    numbers = Counter(names[:limit])
    return {agent: BoundedCount(numbers[agent], len(names) > limit) for agent in agents}


def list_keys_of_pending_page_and_count_next(
    workspace: Workspace,
    statuses: Collection[CallStatus],
    filters: CallFilters = CallFilters(),
    *,
    sort: QueueSort = QueueSort.OLDEST,
    after: int | None = None,
    limit: int = PAGE,
    excluded_keys: Collection[int] = (),
    keys_at_end: Collection[int] = (),
    all_in_order: Sequence[int] | None = None,
) -> tuple[list[int], int]:
    """List the keys of a page of pending calls in these statuses, and count those of the next page.

    Calls with the `excluded_keys` are left out; those with the `keys_at_end` come after all others, in the same order.
    `all_in_order` has the keys of all these calls in this order, if they are known; the first page then needs no query.
    """
    if all_in_order is not None:
        listed = [pk for pk in all_in_order if pk not in excluded_keys]
        listed = [pk for pk in listed if pk not in keys_at_end] + [pk for pk in listed if pk in keys_at_end]
        return listed[:limit], len(listed[limit : 2 * limit])

    def list_first_keys(condition: Q | None, start: int | None) -> list[int]:
        matching = _add_condition(filters, condition)
        return _list_first_sorted_keys(workspace, statuses, matching, sort, after=start, limit=2 * limit)

    left_out = {*excluded_keys, *keys_at_end}
    is_in_last_part = after is not None and after in keys_at_end
    keys = [] if is_in_last_part else list_first_keys(~Q(pk__in=left_out) if left_out else None, after)
    if keys_at_end and len(keys) < 2 * limit:
        keys += list_first_keys(
            Q(pk__in=set(keys_at_end).difference(excluded_keys)), after if is_in_last_part else None
        )
        del keys[2 * limit :]
    return keys[:limit], len(keys[limit:])


def _list_first_sorted_keys(
    workspace: Workspace,
    statuses: Iterable[CallStatus],
    filters: CallFilters,
    sort: QueueSort,
    *,
    after: int | None,
    limit: int,
) -> list[int]:
    """List the first keys of pending calls in these statuses, after the call with the key `after`.

    One query for each status, whose index has its order; a query for several would read all their calls.
    """
    sorted_rows = [
        queue_order.list_sort_keys_of_queue_calls_after_key(
            query_pending_calls(workspace, status, filters), sort, after=after, limit=limit
        )
        if filters or after is not None
        else list(_select_sort_keys_of_calls(status, sort).filter(workspace=workspace.pk)[:limit])
        for status in statuses
    ]
    return [row[-1] for row in islice(merge(*sorted_rows), limit)]


@cache
def _select_sort_keys_of_calls(status: CallStatus, sort: QueueSort) -> QuerySet[Any, Any]:
    """Select what `list_sort_keys_of_queue_calls_after_key` lists, of the calls of all workspaces."""
    return queue_order.select_sort_keys_of_queue_calls(select_calls_of_status(status), sort)


def _add_condition(filters: CallFilters, condition: Q | None) -> CallFilters:
    if condition is None or filters.condition is None:
        return replace(filters, condition=condition or filters.condition)
    return replace(filters, condition=filters.condition & condition)


def drop_calls_that_filters_hide(
    workspace: Workspace, statuses_by_pk: Mapping[int, CallStatus], filters: CallFilters
) -> dict[int, CallStatus]:
    """Keep those of these calls, given by key with their status, that match; one query for each status."""
    found = {
        pk
        for status in set(statuses_by_pk.values())
        for pk in query_pending_calls(workspace, status, filters)
        .filter(pk__in=sorted(statuses_by_pk))
        .values_list("pk", flat=True)
    }
    return {pk: status for pk, status in statuses_by_pk.items() if pk in found}


def list_first_due_calls_and_count_urgent(
    workspace: Workspace, filters: CallFilters, *, with_overdue: bool = True
) -> DueCalls:
    """List the calls that are overdue or due within a day, the nearest deadline first.

    Without `with_overdue`, the overdue ones are left out, for readers who may not decide them.
    """
    now = clock.now()
    rows: QuerySet[Any, Any]
    if filters:
        matching: QuerySet[Any, Any] = query_pending_calls(workspace, None, replace(filters, limit=DeadlineFilter.DAY))
        rows = matching.order_by("due", "pk").values_list("pk", "status", "due")
    else:
        end_of_day = now + TIME_LEFT_BY_FILTER[DeadlineFilter.DAY]
        rows = select_deadlines_of_undecided_calls().filter(workspace=workspace.pk, due__lt=end_of_day)
    if not with_overdue:
        rows = rows.filter(due__gte=now)
    return build_due_calls(rows[: COUNT_LIMIT + 1], now)


def build_due_calls(rows: Iterable[tuple[int, str, datetime]], now: datetime) -> DueCalls:
    """Build them of the key, the status and the deadline of each call, the nearest deadline first."""
    found = list(rows)
    end_of_hour = now + TIME_LEFT_BY_FILTER[DeadlineFilter.HOUR]
    urgent = sum([deadline < end_of_hour for _pk, _status, deadline in found])
    return DueCalls(
        BoundedCount(min(urgent, COUNT_LIMIT), urgent > COUNT_LIMIT),
        {pk: CallStatus(status) for pk, status, _deadline in found},
    )


@cache
def select_deadlines_of_undecided_calls() -> QuerySet[Any, Any]:
    """Select key, status and deadline, as `due`, of the calls that have one, the nearest first."""
    calls: QuerySet[Any, Any] = select_undecided_calls(None).filter(decide_within__isnull=False)
    calls = calls.annotate(due=queue_order.build_deadline_expression())
    return calls.order_by("due", "pk").values_list("pk", "status", "due")


def load_calls_with_sessions(pks: Iterable[int]) -> dict[int, ToolCall | UnreadableRecord]:
    """Load the calls with these keys and their sessions, by key; none in no query."""
    keys = sorted(set(pks))
    if not keys:
        return {}
    calls = ToolCall.objects.select_related("session").filter(pk__in=keys)
    return {call.pk: call for call in load_rows_or_mark_unreadable(calls, "call", session_column="session_id")}


def load_keys_of_calls_whose_hook_could_not_tell(calls: Iterable[ToolCall]) -> frozenset[int]:
    """Load the keys of those of these calls whose verify hook answered that it does not know the outcome."""
    pks = sorted(call.pk for call in calls if call.status == CallStatus.INTERRUPTED and call.verifiable)
    answers = Decision.objects.filter(tool_call__in=pks, kind=DecisionKind.PROBE_UNKNOWN)
    return frozenset(answers.values_list("tool_call", flat=True)) if pks else frozenset()


def does_session_wait_for_verify_hooks_alone(session: Session) -> bool:
    """Return whether no person has been asked yet: the next run asks the verify hook of each undecided call first."""
    unknown = Decision.objects.filter(tool_call=OuterRef("pk"), kind=DecisionKind.PROBE_UNKNOWN)
    asks_person = Q(status=CallStatus.AWAITING_APPROVAL) | Q(verifiable=False) | Exists(unknown)
    calls = ToolCall.objects.filter(session=session, status__in=UNDECIDED_CALL_STATUSES)
    return set(calls.annotate(asks_person=asks_person).values_list("asks_person", flat=True)) == {False}


def list_newly_pending_calls(workspace: Workspace, since: datetime, *, limit: int = 4 * PAGE) -> list[ToolCall]:
    """List the pending calls that began to wait after `since`, the longest waiting first."""
    condition = Q(status=CallStatus.INTERRUPTED, interrupted_at__gt=since)
    condition |= Q(status=CallStatus.AWAITING_APPROVAL, issued_at__gt=since)
    return list(_query_undecided_calls(workspace).select_related("session").filter(condition).order_by("pk")[:limit])


def get_waiting_since(call: ToolCall) -> datetime:
    return call.interrupted_at or call.issued_at


def query_pending_calls(
    workspace: Workspace | int, status: CallStatus | None, filters: CallFilters
) -> QuerySet[ToolCall]:
    """Select the calls of a workspace, or of that with this key, that wait in this status, or in any (None), and match,
    unordered.

    A filter by deadline annotates it as `due`.
    """
    calls = _filter_by_tool_agent_and_risk(select_calls_of_status(status).filter(workspace=workspace), filters)
    if filters.age is not None:
        calls = calls.alias(waiting_since=queue_order.WAITING_SINCE)
        calls = calls.filter(waiting_since__lte=clock.now() - filters.age)
    if filters.limit == DeadlineFilter.NONE:
        calls = calls.filter(decide_within=None)
    elif filters.limit is not None:
        latest_deadline = clock.now() + TIME_LEFT_BY_FILTER[filters.limit]
        # An index has the calls with a deadline.
        calls = calls.annotate(due=queue_order.build_deadline_expression())
        calls = calls.filter(status__in=UNDECIDED_STATUS_LITERALS, decide_within__isnull=False, due__lt=latest_deadline)
    return calls if filters.condition is None else calls.filter(filters.condition)


@cache
def select_calls_of_status(status: CallStatus | None) -> QuerySet[ToolCall]:
    # If all pending statuses were named beside one, PostgreSQL would expect few rows and sort all of them; SQLite uses
    # the index of these calls only then.
    names_all = status is None or connection.vendor == "sqlite"
    return select_undecided_calls(status) if names_all else ToolCall.objects.filter(status=status)


def _query_undecided_calls(workspace: Workspace) -> QuerySet[ToolCall]:
    return select_undecided_calls(None).filter(workspace=workspace)


@cache
def select_undecided_calls(status: CallStatus | None) -> QuerySet[ToolCall]:
    """Select the calls with this status; None stands for all that wait for a decision."""
    calls = ToolCall.objects.filter(status__in=UNDECIDED_STATUS_LITERALS)
    return calls if status is None else calls.filter(status=status)


def _filter_by_tool_agent_and_risk(calls: QuerySet[ToolCall], filters: CallFilters) -> QuerySet[ToolCall]:
    """Filter calls by the conditions that do not depend on their status."""
    if filters.tool:
        calls = calls.filter(tool=filters.tool)
    if filters.agent:
        calls = calls.filter(session__agent=filters.agent)
    return calls if filters.risk is None else calls.filter(risk=filters.risk).exclude(IS_QUESTION)  # which has none
