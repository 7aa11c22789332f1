"""Queries for one call of the review pages, and for the evidence about it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from django.db.models import QuerySet

from checkpoints.calls import signed_decisions
from checkpoints.enums import DECIDING_KINDS, LIVE_CALL_STATUSES, DecisionKind, KeyScope
from checkpoints.models import Decision, LateResult, Run, ToolCall, Workspace
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys

EARLIER_LIMIT = 10


#: Decisions that end the wait; a call goes on waiting after an edit.
_FINAL_KINDS = DECIDING_KINDS - {DecisionKind.EDIT, DecisionKind.WITHDRAW}


@dataclass(frozen=True, slots=True)
class CallEvidence:
    """Known facts about one call beside its own row, each list in order of time."""

    decisions: list[Decision]
    late_results: list[LateResult]
    #: Runs after the call's own: the first took over, the last one is the current owner.
    successors: list[Run]
    previous_attempt: ToolCall | None
    next_attempt: ToolCall | None
    #: Other calls with the same idempotency key, the latest first.
    same_key: list[ToolCall]

    @property
    def final_decision(self) -> Decision | None:
        """The decision that ended the last wait for a person, not a single vote or an edit."""
        return next(
            (decision for decision in reversed(self.decisions) if decision.final and decision.kind in _FINAL_KINDS),
            None,
        )


def find_verified_call(workspace: Workspace, pk: int) -> ToolCall | None:
    """Return a call of this workspace with its session and runs, or None. Raises `IntegrityError`."""
    # Not `first()`, which would order by the key: an order makes a statement of that many columns much slower to build.
    call = next(iter(_query_call_with_session_and_run(workspace.pk, pk)), None) if pk < 2**63 else None
    if call is not None:
        row_seals.verify_rows([call, call.session])
        if get_seal_keys() is not None:
            row_seals.verify_rows([*call.decisions.all(), *call.late_results.all()])
        signed_decisions.verify_decisions_of_call(call)
    return call


def _query_call_with_session_and_run(workspace: int, pk: int) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(workspace=workspace, pk=pk)
    return calls.select_related("session__owner", "session__workspace", "run")


def load_call_evidence(call: ToolCall) -> CallEvidence:
    """Load the known facts about a call; five queries."""
    attempts = _query_attempts(call.session_id, call.step, call.call_id)
    other_attempts = {other.attempt: other for other in attempts if other.pk != call.pk}
    return CallEvidence(
        decisions=sorted(_query_decisions_of_call(call.pk), key=attrgetter("pk")),
        late_results=sorted(_query_late_results_of_call(call.pk), key=attrgetter("pk")),
        successors=list(_query_successor_runs(call.session_id, call.run.number)),
        previous_attempt=other_attempts.get(call.attempt - 1),
        next_attempt=other_attempts.get(call.attempt + 1),
        same_key=[
            other
            for other in _list_calls_with_same_key(call)
            if other.pk not in {attempt.pk for attempt in other_attempts.values()}
        ],
    )


def _query_attempts(session: int, step: int, call_id: str) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(session=session, step=step, call_id=call_id).select_related("run")


def _query_decisions_of_call(call: int) -> QuerySet[Decision]:
    return Decision.objects.filter(tool_call=call)


def _query_late_results_of_call(call: int) -> QuerySet[LateResult]:
    return LateResult.objects.filter(tool_call=call).select_related("run")


def _query_successor_runs(session: int, number: int) -> QuerySet[Run]:
    return Run.objects.filter(session=session, number__gt=number).order_by("number")[:EARLIER_LIMIT]


def _list_calls_with_same_key(call: ToolCall) -> QuerySet[ToolCall]:
    if call.key_scope == KeyScope.WORKSPACE:
        return _query_same_key_in_workspace(call.workspace_id, call.idempotency_key, call.pk)
    return _query_same_key_in_session(call.session_id, call.idempotency_key, call.pk)


def _query_same_key_in_workspace(workspace: int, key: str, excluded_pk: int) -> QuerySet[ToolCall]:
    live = {"key_scope": KeyScope.WORKSPACE, "status__in": sorted(LIVE_CALL_STATUSES)}
    return _exclude_and_order_newest(
        ToolCall.objects.filter(workspace=workspace, idempotency_key=key, **live), excluded_pk
    )


def _query_same_key_in_session(session: int, key: str, excluded_pk: int) -> QuerySet[ToolCall]:
    return _exclude_and_order_newest(ToolCall.objects.filter(session=session, idempotency_key=key), excluded_pk)


def _exclude_and_order_newest(calls: QuerySet[ToolCall], excluded_pk: int) -> QuerySet[ToolCall]:
    return calls.exclude(pk=excluded_pk).select_related("run", "session").order_by("-pk")[:EARLIER_LIMIT]
