"""Verification of what people have decided about calls, before anything depends on it.

Beside each signature, the call itself has to follow from its last signed decision: a call that waits for nothing but
its execution has a signed approval of these arguments at its revision, and one that a person has answered has that
answer. What no person decides, such as the result of a tool, has no signature.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from django.db.models import QuerySet

from checkpoints.calls.decision_signatures import needs_signature, verify_decision_signature
from checkpoints.calls.insert_signed_decision import DecisionTerms
from checkpoints.enums import DECIDING_KINDS, UNDECIDED_CALL_STATUSES, CallStatus, DecisionKind
from checkpoints.exceptions import DecisionNotSigned, DecisionSignatureInvalid, IntegrityError
from checkpoints.models import Decision, ToolCall
from checkpoints.seals import row_seals
from checkpoints.seals.decision_keys import get_decision_keys

#: Statuses that nothing but a decision of a person gives, and the kind of that decision.
_KIND_OF_STATUS = {
    CallStatus.APPROVED: DecisionKind.APPROVE,
    CallStatus.RERUN_APPROVED: DecisionKind.APPROVE_RERUN,
    CallStatus.REJECTED: DecisionKind.REJECT,
}
_AFTER_APPROVAL = frozenset(
    {CallStatus.APPROVED, CallStatus.ISSUED, CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.DISCARDED}
)
#: Statuses that a call can have while a decision of a person is the last one about it. Those that wait for a decision
#: are allowed after each: nothing runs in them.
_STATUSES_AFTER = {
    DecisionKind.CONFIRM_LANDED: frozenset({CallStatus.COMPLETED}),
    DecisionKind.MARK_FAILED: frozenset({CallStatus.FAILED}),
    DecisionKind.APPROVE_RERUN: frozenset({CallStatus.RERUN_APPROVED, CallStatus.SUPERSEDED, CallStatus.DISCARDED}),
    DecisionKind.APPROVE: _AFTER_APPROVAL,
    DecisionKind.EDIT: frozenset[CallStatus](),
    DecisionKind.REJECT: frozenset({CallStatus.REJECTED}),
    DecisionKind.RESPOND: frozenset({CallStatus.COMPLETED}),
    DecisionKind.WITHDRAW: frozenset({CallStatus.COMPLETED, CallStatus.FAILED}),  # a verify hook has answered since
}
#: Decisions whose text is the result of the call.
ANSWERING_KINDS = frozenset(
    {DecisionKind.CONFIRM_LANDED, DecisionKind.MARK_FAILED, DecisionKind.REJECT, DecisionKind.RESPOND}
)


def select_decisions_joined_for_signatures(using: str) -> QuerySet[Decision]:
    """Select decisions with what their signatures cover."""
    return Decision.objects.using(using).select_related("tool_call__session__workspace")


def verify_decisions(decisions: Iterable[Decision]) -> None:
    """Verify seals and signatures of decisions. Raises `IntegrityError`."""
    for decision in decisions:
        row_seals.verify_row(decision)
        verify_decision_signature(decision)


def verify_call_against_decisions(call: ToolCall) -> None:
    """Verify that what people have decided about a call is signed, and that the call follows from it.

    Nothing if signatures are not required.

    Args:
        call: The call, as it was read.

    Raises:
        DecisionNotSigned: A decision is not signed, or the call has a status without the decision that gives it.
        DecisionSignatureInvalid: A decision does not match its signature, or the call does not follow from it.
        DecisionKeyUnknown: A decision was signed with a key that is not configured.
    """
    if get_decision_keys() is not None:
        _verify_decisions_and_find_last_final_one(call)


def verify_calls_against_decisions(using: str, calls: Sequence[ToolCall]) -> None:
    """Verify each of several calls as `verify_call_against_decisions` does, with one query for their decisions."""
    if get_decision_keys() is None or not calls:
        return
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    for decision in (
        select_decisions_joined_for_signatures(using)
        .filter(tool_call__in=[call.pk for call in calls])
        .order_by(*Decision.IN_ORDER)
    ):
        verify_decision_signature(decision)
        decisions[decision.tool_call_id].append(decision)
    for call in calls:
        _require_call_state_follows_from_decision(call, _find_last_final_decision_by_person(decisions[call.pk]))


def require_signed_approval_quorum(call: ToolCall, approvals: int) -> None:
    """Require that as many people have agreed to a call as its tool demands, before the call uses that up.

    The number in the log may have been lowered before somebody decided; the one of the tool is the program's.

    Args:
        call: The call, with a status that permits it to run.
        approvals: Number of people that the tool demands.

    Raises:
        DecisionNotSigned: There are fewer.
        IntegrityError: From `verify_call_against_decisions`.
    """
    if get_decision_keys() is None:
        return
    decision = _verify_decisions_and_find_last_final_one(call)
    people = set() if decision is None else set(DecisionTerms.from_json(decision.signed_terms).people)
    if len(people) < max(approvals, call.approvals):
        why = f"{len(people)} people have signed, and its tool demands {max(approvals, call.approvals)}"
        raise DecisionNotSigned(row_seals.get_table_name(call), row_seals.describe_row(call), why)


def verify_session_calls_against_decisions(using: str, session_pk: int) -> None:
    """Verify the decisions of people in a session, and that its calls follow from them.

    Nothing if signatures are not required. Raises what `verify_call_against_decisions` raises, for the first row.
    """
    for _, error in iterate_decision_errors_of_sessions(using, [session_pk]):
        raise error


def iterate_decision_errors_of_sessions(using: str, session_pks: Sequence[int]) -> Iterator[tuple[int, IntegrityError]]:
    """Find the decisions of sessions that are not as the site has signed them, and calls that do not follow them.

    Yields the key of the session and the error. Nothing if signatures are not required.
    """
    if get_decision_keys() is None:
        return
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    calls: dict[int, ToolCall] = {}
    bad_calls = set()
    for decision in (
        select_decisions_joined_for_signatures(using)
        .filter(session__in=session_pks)
        .order_by("session_id", *Decision.IN_ORDER)
    ):
        decisions[decision.tool_call_id].append(decision)
        calls[decision.tool_call_id] = decision.tool_call
        try:
            verify_decision_signature(decision)
        except IntegrityError as error:
            bad_calls.add(decision.tool_call_id)
            yield decision.session_id, error
    decided = ToolCall.objects.using(using).filter(session__in=session_pks, status__in=sorted(_KIND_OF_STATUS))
    calls |= {call.pk: call for call in decided}
    for pk in sorted(calls.keys() - bad_calls):
        try:
            _require_call_state_follows_from_decision(calls[pk], _find_last_final_decision_by_person(decisions[pk]))
        except IntegrityError as error:
            yield calls[pk].session_id, error


def _verify_decisions_and_find_last_final_one(call: ToolCall) -> Decision | None:
    """Return the last decision of a person about a call that moved it. Raises `IntegrityError`."""
    decisions = list(
        select_decisions_joined_for_signatures(str(call._state.db)).filter(tool_call=call).order_by(*Decision.IN_ORDER)
    )
    for decision in decisions:
        verify_decision_signature(decision)
    last = _find_last_final_decision_by_person(decisions)
    _require_call_state_follows_from_decision(call, last)
    return last


def _find_last_final_decision_by_person(decisions: Sequence[Decision]) -> Decision | None:
    return next(
        (
            decision
            for decision in reversed(decisions)
            if decision.final
            and decision.kind in DECIDING_KINDS
            and needs_signature(decision.kind, decision.actor_kind)
        ),
        None,
    )


def _require_call_state_follows_from_decision(call: ToolCall, decision: Decision | None) -> None:
    """Require that a call has a status, arguments and a result to which its last signed decision leads."""
    if call.status in UNDECIDED_CALL_STATUSES:
        return
    table, row = row_seals.get_table_name(call), row_seals.describe_row(call)
    required = _KIND_OF_STATUS.get(CallStatus(call.status))
    if decision is None:
        if required is not None:
            raise DecisionNotSigned(table, row, f"it is {call.status}, and there is no signed decision that says so")
        return
    if call.status not in _STATUSES_AFTER.get(DecisionKind(decision.kind), ()):
        raise DecisionSignatureInvalid(table, row, f"it is {call.status} after the decision {decision.kind}")
    if decision.kind in ANSWERING_KINDS and call.result != decision.result:
        raise DecisionSignatureInvalid(table, row, f"its result is not that of the decision {decision.kind}")
    if call.status in {CallStatus.APPROVED, CallStatus.RERUN_APPROVED}:
        terms = DecisionTerms.from_json(decision.signed_terms)
        seen = (decision.args_digest, terms.asked_args_digest, decision.revision + 1)
        if seen != (call.args_digest, call.asked_args_digest, call.revision):
            raise DecisionSignatureInvalid(table, row, "it is another call than the one that was approved")
        if len(set(terms.people)) < call.approvals:
            raise DecisionSignatureInvalid(table, row, f"fewer than {call.approvals} people have approved it")
