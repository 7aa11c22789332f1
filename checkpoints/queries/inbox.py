"""What needs a person, and what was decided: the read side of the review pages."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from django.db.models import QuerySet

from checkpoints.enums import DECIDING, LIVE_CALL, UNDECIDED_CALL, CallStatus, DecisionKind, KeyScope
from checkpoints.models import Decision, LateResult, Run, ToolCall, Workspace
from checkpoints.queries import keyset
from checkpoints.queries.keyset import Cursor

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


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list is narrowed to; an empty one narrows nothing."""

    tool: str = ""
    agent: str = ""

    def __bool__(self) -> bool:
        return bool(self.tool or self.agent)


def count(workspace: Workspace, filters: Filters = Filters(), *, status: CallStatus | None = None) -> Count:
    """How many calls wait for a person; with `status`, those that wait in this one."""
    statuses = UNDECIDED_CALL if status is None else {status}
    found = _waiting(workspace, statuses, filters)[: COUNT_LIMIT + 1].count()
    return Count(min(found, COUNT_LIMIT), found > COUNT_LIMIT)


def interrupted(
    workspace: Workspace, filters: Filters = Filters(), *, after: Cursor | None = None, limit: int = PAGE
) -> tuple[list[ToolCall], Cursor | None]:
    """Calls whose outcome nobody knows, the longest waiting first, and where the next page begins."""
    calls = _waiting(workspace, {CallStatus.INTERRUPTED}, filters).select_related("session", "run")
    if after is not None:
        calls = calls.filter(keyset.after(after, "interrupted_at"))
    timed = calls.annotate(stored_time=keyset.stored_text("interrupted_at")).order_by("interrupted_at", "pk")
    page: list[ToolCall] = [*timed[: limit + 1]]
    shown = page[:limit]
    return shown, _place(shown[-1]) if len(page) > limit else None


def awaiting(
    workspace: Workspace, filters: Filters = Filters(), *, after: int | None = None, limit: int = PAGE
) -> tuple[list[ToolCall], int | None]:
    """Calls that a person has to approve before they run, the longest waiting first, and the id that the next page
    lies behind."""
    calls = _waiting(workspace, {CallStatus.AWAITING_APPROVAL}, filters).select_related("session", "run")
    if after is not None:
        calls = calls.filter(pk__gt=after)
    page = list(calls.order_by("pk")[: limit + 1])
    shown = page[:limit]
    return shown, shown[-1].pk if len(page) > limit else None


def _place(call: ToolCall) -> Cursor:
    return Cursor(str(call.stored_time), call.pk)  # type: ignore[attr-defined]


def decided(
    workspace: Workspace, filters: Filters = Filters(), *, before: int | None = None, limit: int = PAGE
) -> tuple[list[Decision], int | None]:
    """Decisions of people and hooks, the latest first, and the id that the next page lies before."""
    decisions = Decision.objects.filter(session__workspace=workspace, kind__in=SHOWN_DECISIONS)
    if filters.tool:
        decisions = decisions.filter(tool_call__tool=filters.tool)
    if filters.agent:
        decisions = decisions.filter(session__agent=filters.agent)
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
    calls = ToolCall.objects.filter(workspace=workspace)
    return calls.select_related("session__owner", "session__workspace", "run").filter(pk=pk).first()


def longest_waiting(workspace_id: int) -> ToolCall | None:
    """The call that has waited longest for a person; those whose outcome is unknown come before all others."""
    calls = ToolCall.objects.filter(workspace=workspace_id)
    interrupted = calls.filter(status=CallStatus.INTERRUPTED).order_by("interrupted_at", "pk").first()
    return interrupted or calls.filter(status=CallStatus.AWAITING_APPROVAL).order_by("pk").first()


def evidence(call: ToolCall) -> Evidence:
    """What there is to know about a call; five queries."""
    attempts = ToolCall.objects.filter(session=call.session_id, step=call.step, call_id=call.call_id)
    beside = {other.attempt: other for other in attempts.exclude(pk=call.pk).select_related("run")}
    return Evidence(
        decisions=list(Decision.objects.filter(tool_call=call).order_by("pk")),
        late_results=list(LateResult.objects.filter(tool_call=call).select_related("run").order_by("pk")),
        successors=_successors(call),
        previous_attempt=beside.get(call.attempt - 1),
        next_attempt=beside.get(call.attempt + 1),
        same_key=[other for other in _same_key(call) if other.pk not in {one.pk for one in beside.values()}],
    )


def _successors(call: ToolCall) -> list[Run]:
    runs = Run.objects.filter(session=call.session_id, number__gt=call.run.number)
    return list(runs.order_by("number")[:EARLIER_LIMIT])


def _same_key(call: ToolCall) -> list[ToolCall]:
    same = ToolCall.objects.filter(idempotency_key=call.idempotency_key).exclude(pk=call.pk)
    if call.key_scope == KeyScope.WORKSPACE:
        same = same.filter(workspace=call.workspace_id, key_scope=KeyScope.WORKSPACE, status__in=sorted(LIVE_CALL))
    else:
        same = same.filter(session=call.session_id)
    return list(same.select_related("run", "session").order_by("-pk")[:EARLIER_LIMIT])


def _waiting(workspace: Workspace, statuses: Set[CallStatus], filters: Filters) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(workspace=workspace, status__in=sorted(statuses))
    if filters.tool:
        calls = calls.filter(tool=filters.tool)
    if filters.agent:
        calls = calls.filter(session__agent=filters.agent)
    return calls
