"""Decisions about several calls, each recorded or refused by itself: by late results, or by evidence of people."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.utils.translation import gettext as _

from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decide import record_decision
from checkpoints.enums import ActorKind, DecisionKind
from checkpoints.exceptions import AlreadyDecided, CheckpointsError
from checkpoints.models import Decision, LateResult, ToolCall
from checkpoints.store.database_client_state import Store
from harness_site.accounts.models import Membership
from harness_site.core import formatting, status_and_decision_labels
from harness_site.review import claim_services
from harness_site.review.decision_error_texts import (
    NOTHING,
    DecisionProblem,
    build_decision_problem,
    build_problem_of_earlier_decision,
    find_session_problem_with_decision,
)
from harness_site.review.record_decision_from_form import build_decision_target
from harness_site.review.restore_masked_results import (
    restore_masked_result_or_refuse_mask,
    restore_masked_result_or_say_unknown,
)
from harness_site.review.selectors import outage_groups
from harness_site.review.selectors.outage_groups import LateResultSummary


@dataclass(frozen=True, slots=True)
class ChosenCall:
    """Call selected on a page: its key, its revision, and the decision that its evidence supported."""

    pk: int
    revision: int
    kind: DecisionKind

    @classmethod
    def parse_form_value_or_none(cls, text: str) -> Self | None:
        pk, _, rest = text.partition(".")
        revision, _, kind = rest.partition(".")
        if kind not in DecisionKind.values or not all(part.isdecimal() and len(part) < 19 for part in (pk, revision)):
            return None
        return cls(int(pk), int(revision), DecisionKind(kind))

    def __str__(self) -> str:
        return f"{self.pk}.{self.revision}.{self.kind}"


@dataclass(frozen=True, slots=True)
class BulkDecisionResult:
    """Outcome of a bulk decision for one call.

    `refused` is None if the decision was recorded. `decision_pk` is the key of the recorded decision.
    """

    call: ToolCall
    kind: DecisionKind
    refused: DecisionProblem | None
    decision_pk: int | None = None

    @property
    def label(self) -> str:
        return str(status_and_decision_labels.get_status_shape_and_label(self.kind)[1])


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """Decision of a person about one call, with its own reason and evidence.

    `result` is what the agent gets: the result of a call that happened, or the message about a rejected one.
    """

    pk: int
    revision: int
    kind: DecisionKind
    reason: str
    evidence: dict[str, Any]
    result: str


def record_decisions_from_answers(
    answers: Sequence[CallAnswer], *, by: Membership, actor: Actor
) -> list[BulkDecisionResult]:
    """Record each of these decisions about calls of the workspace, in this order and independently of each other."""
    store = Store(workspace=by.workspace.slug)
    calls = ToolCall.objects.filter(workspace=by.workspace, pk__in=[answer.pk for answer in answers])
    calls_by_pk = {call.pk: call for call in calls.select_related("session", "run")}
    outcomes = [
        (call, answer.kind, _try_to_record_answer(store, call, answer, actor))
        for answer in answers
        if (call := calls_by_pk.get(answer.pk)) is not None
    ]
    return _remove_claims_and_build_results(outcomes, by=by)


def _try_to_record_answer(store: Store, call: ToolCall, answer: CallAnswer, actor: Actor) -> DecisionProblem | None:
    """Record a decision; return why it was refused, if it was."""
    problem = find_session_problem_with_decision(call, answer.kind)
    if problem is not None:
        return problem
    try:
        _record_answer(store, call, answer, actor)
    except CheckpointsError as error:
        call.refresh_from_db()
        is_late = isinstance(error, AlreadyDecided)
        problem = _find_problem_of_earlier_decision(call, answer, actor.name) if is_late else None
        return problem or build_decision_problem(error, call, reader=actor.name)
    return None


def _find_problem_of_earlier_decision(call: ToolCall, answer: CallAnswer, reader: str) -> DecisionProblem | None:
    """Describe the decision that was recorded before the answer of the reader, maybe the same one; None without one."""
    decision = None if call.undecided else call.decisions.filter(final=True).order_by("pk").last()
    if decision is None:
        return None
    return build_problem_of_earlier_decision(decision, call, reader=reader, kind=answer.kind, result=answer.result)


def _remove_claims_and_build_results(
    outcomes: Sequence[tuple[ToolCall, DecisionKind, DecisionProblem | None]], *, by: Membership
) -> list[BulkDecisionResult]:
    recorded = [call for call, _kind, problem in outcomes if problem is None]
    claim_services.reload_statuses_and_remove_claims(recorded, by=by)
    own_decisions = Decision.objects.filter(
        tool_call__in=recorded, actor_kind=ActorKind.PERSON, actor=by.user.get_username()
    ).exclude(kind=DecisionKind.WITHDRAW)
    pks = dict(own_decisions.order_by("revision").values_list("tool_call", "pk"))  # the last one counts
    return [
        BulkDecisionResult(call, kind, problem, None if problem is not None else pks.get(call.pk))
        for call, kind, problem in outcomes
    ]


def _record_answer(store: Store, call: ToolCall, answer: CallAnswer, actor: Actor) -> None:
    result = None
    if answer.kind == DecisionKind.CONFIRM_LANDED:
        result = restore_masked_result_or_say_unknown(call, answer.result)
    elif answer.kind == DecisionKind.REJECT:
        result = restore_masked_result_or_refuse_mask(call, answer.result)
    record_decision(
        store,
        build_decision_target(call, answer.revision),
        answer.kind,
        actor=actor,
        reason=answer.reason,
        result=result,
        evidence=answer.evidence or None,
    )


def record_decisions_from_late_results(
    chosen: Sequence[ChosenCall], *, by: Membership, actor: Actor, reason: str
) -> list[BulkDecisionResult]:
    """Record a decision about each of these calls of the workspace, in this order and independently of each other."""
    store = Store(workspace=by.workspace.slug)
    pks = [choice.pk for choice in chosen]
    calls = ToolCall.objects.filter(workspace=by.workspace, pk__in=pks).select_related("session", "run")
    calls_by_pk = {call.pk: call for call in calls}
    late_results: defaultdict[int, list[LateResult]] = defaultdict(list)
    for result in LateResult.objects.filter(tool_call__in=calls_by_pk).select_related("run").order_by("pk"):
        late_results[result.tool_call_id].append(result)
    outcomes = []
    for choice in chosen:
        if (call := calls_by_pk.get(choice.pk)) is not None:
            late_result_summary = outage_groups.summarize_agreeing_late_results_of_call(late_results[choice.pk])
            problem = _decide_by_late_result_or_explain_refusal(
                store, call, choice, late_result_summary, actor=actor, reason=reason
            )
            outcomes.append((call, choice.kind, problem))
    return _remove_claims_and_build_results(outcomes, by=by)


def _decide_by_late_result_or_explain_refusal(
    store: Store,
    call: ToolCall,
    seen: ChosenCall,
    late_result_summary: LateResultSummary | None,
    *,
    actor: Actor,
    reason: str,
) -> DecisionProblem | None:
    """Record the decision that the evidence supports; return why it was refused, if it was."""
    if late_result_summary is None or late_result_summary.kind != seen.kind:
        message = _("The late results of this call have changed.")
        todo = _("Open the call to decide it.")
        return DecisionProblem(409, message, f"{NOTHING} {todo}")
    try:
        _record_decision_from_late_result(store, call, seen, late_result_summary, actor, reason)
    except CheckpointsError as error:
        call.refresh_from_db()
        return build_decision_problem(error, call, reader=actor.name)
    return None


def _record_decision_from_late_result(
    store: Store, call: ToolCall, seen: ChosenCall, late_result_summary: LateResultSummary, actor: Actor, reason: str
) -> None:
    late = late_result_summary.late
    report = f"reported {'success' if late.success else 'a failure'} at {formatting.format_utc_time(late.received_at)}."
    record_decision(
        store,
        build_decision_target(call, seen.revision),
        seen.kind,
        actor=actor,
        reason=reason,
        result=late_result_summary.result if seen.kind == DecisionKind.CONFIRM_LANDED else None,
        evidence={"text": f"Run {'?' if late.run is None else late.run.number} {report}", "late_result": late.pk},
    )
