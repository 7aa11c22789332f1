"""What needs a person, and what was decided: the read side of the review pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet, TextChoices

from checkpoints import clock
from checkpoints.enums import DECIDING, LIVE_CALL, UNDECIDED_CALL, CallStatus, DecisionKind, KeyScope, Risk
from checkpoints.models import Decision, LateResult, Run, ToolCall, Workspace
from checkpoints.queries import order
from checkpoints.queries.order import Sort

PAGE = 50
#: Counting stops here: a page never scans a table to print a number.
COUNT_LIMIT = 99
EARLIER_LIMIT = 10
#: A read-only call that the machine threw away was nobody's decision.
SHOWN_DECISIONS = sorted(DECIDING - {DecisionKind.DISCARD})
#: After an edit, a call goes on waiting.
_ENDING = DECIDING - {DecisionKind.EDIT}


@dataclass(frozen=True, slots=True)
class Count:
    """A number that is exact up to `COUNT_LIMIT`; beyond it, only that there are more."""

    number: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.number}+" if self.more else str(self.number)

    def __bool__(self) -> bool:
        return self.number > 0

    def __add__(self, other: Count) -> Count:
        both = self.number + other.number
        return Count(min(both, COUNT_LIMIT), self.more or other.more or both > COUNT_LIMIT)


class Limit(TextChoices):
    """How much time there is left to decide."""

    OVERDUE = "overdue", "Overdue"
    HOUR = "hour", "Within an hour"
    DAY = "day", "Within a day"
    NONE = "none", "No deadline"


_LEFT = {Limit.OVERDUE: timedelta(), Limit.HOUR: timedelta(hours=1), Limit.DAY: timedelta(days=1)}


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list is narrowed to; an empty one narrows nothing.

    `age` is how long a call has waited at least. `condition` is whatever else its caller knows about calls that wait.
    """

    tool: str = ""
    agent: str = ""
    risk: Risk | None = None
    age: timedelta | None = None
    limit: Limit | None = None
    condition: Q | None = None

    def __bool__(self) -> bool:
        return any((self.tool, self.agent, self.risk, self.age, self.limit, self.condition))


def count(workspace: Workspace, filters: Filters = Filters(), *, status: CallStatus | None = None) -> Count:
    """How many calls wait for a person; with `status`, those that wait in this one and fit."""
    if filters:
        calls = _common(_undecided(workspace), filters) if status is None else waiting(workspace, status, filters)
        found = calls[: COUNT_LIMIT + 1].count()
    else:
        found = (_undecided_counted(workspace.pk) if status is None else _counted(workspace.pk, status)).count()
    return Count(min(found, COUNT_LIMIT), found > COUNT_LIMIT)


def _undecided_counted(workspace: int) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(workspace=workspace, status__in=sorted(UNDECIDED_CALL))[: COUNT_LIMIT + 1]


def _counted(workspace: int, status: CallStatus) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(workspace=workspace, status=status)[: COUNT_LIMIT + 1]


def page(
    workspace: Workspace,
    status: CallStatus,
    filters: Filters = Filters(),
    *,
    sort: Sort = Sort.OLDEST,
    after: int | None = None,
    limit: int = PAGE,
) -> tuple[list[ToolCall], int | None]:
    """Calls that wait for a person in this status, and the key of the one that the next page lies behind."""
    first = order.ordered(waiting(workspace, status, filters), sort, status, after=after)
    found = list(_with_sessions(first[: limit + 1], sort, status))
    shown = found[:limit]
    return shown, shown[-1].pk if len(found) > limit else None


def _with_sessions(first: QuerySet[ToolCall], sort: Sort, status: CallStatus) -> QuerySet[ToolCall]:
    # Sessions are read of those alone that are shown, whatever has to be sorted for it.
    calls = ToolCall.objects.filter(pk__in=first.values("pk")).select_related("session")
    return order.ordered(calls, sort, status, after=None)


def begun(workspace: Workspace, since: datetime, *, limit: int = 4 * PAGE) -> list[ToolCall]:
    """The calls that wait and began to after `since`, the longest waiting first."""
    waits = Q(status=CallStatus.INTERRUPTED, interrupted_at__gt=since)
    waits |= Q(status=CallStatus.AWAITING_APPROVAL, issued_at__gt=since)
    return list(_undecided(workspace).filter(waits).order_by("pk")[:limit])


def decided(
    workspace: Workspace, filters: Filters = Filters(), *, before: int | None = None, limit: int = PAGE
) -> tuple[list[Decision], int | None]:
    """Decisions of people and hooks, the latest first, and the id that the next page lies before."""
    decisions = Decision.objects.filter(session__workspace=workspace, kind__in=SHOWN_DECISIONS)
    if filters.tool:
        decisions = decisions.filter(tool_call__tool=filters.tool)
    if filters.agent:
        decisions = decisions.filter(session__agent=filters.agent)
    if filters.risk is not None:
        decisions = decisions.filter(tool_call__risk=filters.risk)
    if before is not None:
        decisions = decisions.filter(pk__lt=before)
    page = list(decisions.select_related("tool_call", "session").order_by("-pk")[: limit + 1])
    shown = page[:limit]
    return shown, shown[-1].pk if len(page) > limit else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about one call beside its own row, each in the order in which it came."""

    decisions: list[Decision]
    late_results: list[LateResult]
    #: The runs that came after the call's own: the first took over, the last one has it now.
    successors: list[Run]
    previous_attempt: ToolCall | None
    next_attempt: ToolCall | None
    #: Other calls with the same idempotency key, the latest first.
    same_key: list[ToolCall]

    @property
    def deciding(self) -> Decision | None:
        """The decision that ended the last wait for a person: neither one voice of several, nor an edit."""
        return next((made for made in reversed(self.decisions) if made.final and made.kind in _ENDING), None)


def find(workspace: Workspace, pk: int) -> ToolCall | None:
    """A call of this workspace with its session and runs; None where there is no such call."""
    return _call(workspace.pk, pk).first() if pk < 2**63 else None


def _call(workspace: int, pk: int) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(workspace=workspace, pk=pk)
    return calls.select_related("session__owner", "session__workspace", "run")


def longest_waiting(workspace_id: int) -> ToolCall | None:
    """The call that has waited longest for a person; those whose outcome is unknown come before all others."""
    return _longest_unknown(workspace_id).first() or _longest_unapproved(workspace_id).first()


def _longest_unknown(workspace: int) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(workspace=workspace, status=CallStatus.INTERRUPTED)
    return calls.order_by("interrupted_at", "pk")[:1]


def _longest_unapproved(workspace: int) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(workspace=workspace, status=CallStatus.AWAITING_APPROVAL).order_by("pk")[:1]


def evidence(call: ToolCall) -> Evidence:
    """What there is to know about a call; five queries."""
    attempts = _attempts(call.session_id, call.step, call.call_id)
    beside = {other.attempt: other for other in attempts if other.pk != call.pk}
    return Evidence(
        decisions=list(_decisions(call.pk)),
        late_results=list(_late_results(call.pk)),
        successors=list(_successors(call.session_id, call.run.number)),
        previous_attempt=beside.get(call.attempt - 1),
        next_attempt=beside.get(call.attempt + 1),
        same_key=[other for other in _same_key(call) if other.pk not in {one.pk for one in beside.values()}],
    )


def _attempts(session: int, step: int, call_id: str) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(session=session, step=step, call_id=call_id).select_related("run")


def _decisions(call: int) -> QuerySet[Decision]:
    return Decision.objects.filter(tool_call=call).order_by("pk")


def _late_results(call: int) -> QuerySet[LateResult]:
    return LateResult.objects.filter(tool_call=call).select_related("run").order_by("pk")


def _successors(session: int, number: int) -> QuerySet[Run]:
    return Run.objects.filter(session=session, number__gt=number).order_by("number")[:EARLIER_LIMIT]


def _same_key(call: ToolCall) -> QuerySet[ToolCall]:
    if call.key_scope == KeyScope.WORKSPACE:
        return _same_in_workspace(call.workspace_id, call.idempotency_key, call.pk)
    return _same_in_session(call.session_id, call.idempotency_key, call.pk)


def _same_in_workspace(workspace: int, key: str, but: int) -> QuerySet[ToolCall]:
    live = {"key_scope": KeyScope.WORKSPACE, "status__in": sorted(LIVE_CALL)}
    return _newest_others(ToolCall.objects.filter(workspace=workspace, idempotency_key=key, **live), but)


def _same_in_session(session: int, key: str, but: int) -> QuerySet[ToolCall]:
    return _newest_others(ToolCall.objects.filter(session=session, idempotency_key=key), but)


def _newest_others(calls: QuerySet[ToolCall], but: int) -> QuerySet[ToolCall]:
    return calls.exclude(pk=but).select_related("run", "session").order_by("-pk")[:EARLIER_LIMIT]


def waiting(workspace: Workspace, status: CallStatus, filters: Filters) -> QuerySet[ToolCall]:
    """The calls that wait in this status and fit, in no order."""
    # With the other statuses named as well, PostgreSQL would expect almost none and read them all to sort them.
    calls = _common(ToolCall.objects.filter(workspace=workspace, status=status), filters)
    if filters.age is not None:
        calls = calls.filter(**{f"{order.since(status)}__lte": clock.now() - filters.age})
    if filters.limit == Limit.NONE:
        calls = calls.filter(decide_within=None)
    elif filters.limit is not None:
        left = clock.now() + _LEFT[filters.limit]
        calls = calls.alias(until=order.deadline(status)).filter(until__lt=left)
    return calls if filters.condition is None else calls.filter(filters.condition)


def _undecided(workspace: Workspace) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(workspace=workspace, status__in=sorted(UNDECIDED_CALL))


def _common(calls: QuerySet[ToolCall], filters: Filters) -> QuerySet[ToolCall]:
    """What fits of what is asked of a call whether it waits or not."""
    if filters.tool:
        calls = calls.filter(tool=filters.tool)
    if filters.agent:
        calls = calls.filter(session__agent=filters.agent)
    return calls if filters.risk is None else calls.filter(risk=filters.risk)
