"""Queries for one call of the review pages, and for the evidence about it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from django.db.models import Exists, OuterRef, Q, QuerySet

from checkpoints.calls.require_unaltered_call import require_call_unaltered
from checkpoints.enums import DECIDING_KINDS, LIVE_CALL_STATUSES, ActorKind, CallStatus, DecisionKind, KeyScope
from checkpoints.models import Decision, LateResult, Run, ToolCall, Workspace
from checkpoints.models.tool_calls_and_results import COPIED_CALLS
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

EARLIER_LIMIT = 10
#: Numbers of the latest decisions among which earlier reasons are looked for, and of the reasons of a kind.
_SEARCHED_DECISIONS = 500
_MAX_REASONS = 3
#: Longer reasons are about one call rather than usual ones.
_MAX_REASON_LENGTH = 200


#: Decisions that end the wait; a call goes on waiting after an edit.
_FINAL_KINDS = DECIDING_KINDS - {DecisionKind.EDIT, DecisionKind.WITHDRAW}
#: Decisions whose text is about the one call: what the agent gets, or what somebody has found out about it.
_WITHOUT_USUAL_REASON = sorted(
    {
        DecisionKind.RESPOND,
        DecisionKind.WITHDRAW,
        DecisionKind.CONFIRM_LANDED,
        DecisionKind.MARK_FAILED,
        DecisionKind.APPROVE_RERUN,
    }
)
#: Numbers, identifiers and addresses in a reason are facts about the one call.
_FACT_ABOUT_CALL = re.compile(r"\d|@|://")


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


def find_and_verify_call_or_none(workspace: Workspace, pk: int) -> ToolCall | None:
    """Return a call of this workspace with its session and runs, or None.

    Raises `IntegrityError`, as `require_call_unaltered` does.
    """
    # Not `first()`, which would order by the key: an order makes a statement of that many columns much slower to build.
    call = next(iter(_query_call_with_session_and_run(workspace.pk, pk)), None) if pk < 2**63 else None
    if call is not None:
        row_seals.verify_row(call.session)
        if get_seal_keys() is not None:
            row_seals.verify_rows([*call.decisions.all(), *call.late_results.all()])
        require_call_unaltered(call)
    return call


def _query_call_with_session_and_run(workspace: int, pk: int) -> QuerySet[ToolCall]:
    return _select_calls_with_session_and_run().filter(workspace=workspace, pk=pk)


@cache
def _select_calls_with_session_and_run() -> QuerySet[ToolCall]:
    """Select all calls with their sessions and runs, and which evidence about them there is.

    Most calls have none, so one query takes the place of five.
    """
    of_call, of_session = {"tool_call": OuterRef("pk")}, {"session": OuterRef("session")}
    others = ToolCall.objects.filter(**of_session).exclude(pk=OuterRef("pk"))
    same_start = {"workspace": OuterRef("workspace"), "issued_at": OuterRef("issued_at")}
    copies = ToolCall.objects.filter(COPIED_CALLS, **same_start).exclude(session=OuterRef("session"))
    return ToolCall.objects.select_related("session__owner", "session__workspace", "run").annotate(
        has_decisions=Exists(Decision.objects.filter(**of_call)),
        has_late_results=Exists(LateResult.objects.filter(**of_call)),
        has_successor_runs=Exists(Run.objects.filter(**of_session, number__gt=OuterRef("run__number"))),
        has_other_attempts=Exists(others.filter(step=OuterRef("step"), call_id=OuterRef("call_id"))),
        has_same_key_in_session=Exists(others.filter(idempotency_key=OuterRef("idempotency_key"))),
        has_copies_in_forks=Exists(copies.filter(idempotency_key=OuterRef("idempotency_key"))),
    )


def load_call_evidence(call: ToolCall) -> CallEvidence:
    """Load the known facts about a call that `find_and_verify_call_or_none` has found; at most five queries."""
    attempts = list(_query_other_attempts(call)) if call.has_other_attempts else []  # type: ignore[attr-defined]
    by_number = {other.attempt: other for other in attempts}
    return CallEvidence(
        decisions=sorted(call.decisions.all(), key=attrgetter("pk")) if call.has_decisions else [],  # type: ignore[attr-defined]
        late_results=_list_late_results(call) if call.has_late_results else [],  # type: ignore[attr-defined]
        successors=_list_first_runs_after_run_of_call(call) if call.has_successor_runs else [],  # type: ignore[attr-defined]
        previous_attempt=by_number.get(call.attempt - 1),
        next_attempt=by_number.get(call.attempt + 1),
        same_key=[other for other in _list_calls_with_same_key(call) if other not in attempts],
    )


def load_earlier_reasons_for_same_tool(call: ToolCall, person: str) -> dict[str, list[str]]:
    """Load what a person has written last with recent decisions about calls of the same tool, by kind of the decision.

    Of a rejection this is the message to the agent. Left out are texts with secrets, and those that may be true of the
    other call alone: answers, reasons about interrupted calls, and reasons with a number or an address.
    """
    if call.is_question or call.status != CallStatus.AWAITING_APPROVAL:
        return {}
    recent = Decision.objects.order_by("-pk").values("pk")[:_SEARCHED_DECISIONS]
    own = Q(pk__in=recent, actor=person, actor_kind=ActorKind.PERSON) & ~Q(kind__in=_WITHOUT_USUAL_REASON)
    same_tool = Decision.objects.filter(own, tool_call__workspace=call.workspace_id, tool_call__tool=call.tool)
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for decision in sorted(same_tool.only("kind", "result", "reason"), key=attrgetter("pk"), reverse=True):
        is_message = decision.kind == DecisionKind.REJECT
        text = ((decision.result_text if is_message else None) or decision.reason).strip()
        is_usual = text not in reasons[decision.kind] and not _FACT_ABOUT_CALL.search(text)
        if is_usual and len(reasons[decision.kind]) < _MAX_REASONS and can_text_be_offered_as_reason(text):
            reasons[decision.kind].append(text)
    return dict(reasons)


def can_text_be_offered_as_reason(text: str) -> bool:
    """Return whether a text is short enough to be offered as a reason, and shows no secret."""
    return 0 < len(text) <= _MAX_REASON_LENGTH and mask_and_reveal_hidden(text) == text


def _query_other_attempts(call: ToolCall) -> QuerySet[ToolCall]:
    attempts = ToolCall.objects.filter(session=call.session_id, step=call.step, call_id=call.call_id)
    return attempts.exclude(pk=call.pk).select_related("run")


def _list_late_results(call: ToolCall) -> list[LateResult]:
    return sorted(call.late_results.select_related("run"), key=attrgetter("pk"))


def _list_first_runs_after_run_of_call(call: ToolCall) -> list[Run]:
    runs = Run.objects.filter(session=call.session_id, number__gt=call.run.number)
    return list(runs.order_by("number")[:EARLIER_LIMIT])


def load_runs_before_start(call: ToolCall, first_number: int) -> list[Run]:
    """Load the runs from the one with `first_number` to the one that has started the call; a query if these differ."""
    if first_number >= call.run.number:
        return []
    runs = Run.objects.filter(session=call.session_id, number__gte=first_number, number__lt=call.run.number)
    return [*runs.order_by("number")[:EARLIER_LIMIT], call.run]


def _list_calls_with_same_key(call: ToolCall) -> list[ToolCall]:
    if call.key_scope == KeyScope.WORKSPACE:
        return list(_query_calls_with_same_key_in_workspace(call.workspace_id, call.idempotency_key, call.pk))
    if call.has_same_key_in_session:  # type: ignore[attr-defined]
        return list(_query_calls_with_same_key_in_session(call.session_id, call.idempotency_key, call.pk))
    return []


def _query_calls_with_same_key_in_workspace(workspace: int, key: str, excluded_pk: int) -> QuerySet[ToolCall]:
    live = {"key_scope": KeyScope.WORKSPACE, "status__in": sorted(LIVE_CALL_STATUSES)}
    return _select_newest_calls_except(
        ToolCall.objects.filter(workspace=workspace, idempotency_key=key, **live), excluded_pk
    )


def _query_calls_with_same_key_in_session(session: int, key: str, excluded_pk: int) -> QuerySet[ToolCall]:
    return _select_newest_calls_except(ToolCall.objects.filter(session=session, idempotency_key=key), excluded_pk)


def _select_newest_calls_except(calls: QuerySet[ToolCall], excluded_pk: int) -> QuerySet[ToolCall]:
    return calls.exclude(pk=excluded_pk).select_related("run", "session").order_by("-pk")[:EARLIER_LIMIT]
