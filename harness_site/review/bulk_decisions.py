"""Bulk decisions about calls by their late results, each recorded or refused by itself."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decide import record_decision
from checkpoints.enums import DecisionKind
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import LateResult, ToolCall
from checkpoints.store.store import Store
from harness_site.accounts.models import Membership
from harness_site.core import formatting
from harness_site.review import claim_services
from harness_site.review.decision_errors import NOTHING, DecisionProblem, describe_decision_error
from harness_site.review.record_decision import call_target
from harness_site.review.selectors import outage_groups
from harness_site.review.selectors.outage_groups import LateResultSummary


@dataclass(frozen=True, slots=True)
class ChosenCall:
    """Call selected on a page: its key, its revision, and the decision that its evidence supported."""

    pk: int
    revision: int
    kind: DecisionKind

    @classmethod
    def parse(cls, text: str) -> Self | None:
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

    `refused` is None if the decision was recorded; `final` is False if more approvals are needed.
    """

    call: ToolCall
    kind: DecisionKind
    refused: DecisionProblem | None
    final: bool = True


def decide_all(chosen: Sequence[ChosenCall], *, by: Membership, actor: Actor, reason: str) -> list[BulkDecisionResult]:
    """Record a decision about each of these calls of the workspace, in this order and independently of each other."""
    store = Store(workspace=by.workspace.slug)
    pks = [choice.pk for choice in chosen]
    calls = ToolCall.objects.filter(workspace=by.workspace, pk__in=pks).select_related("session", "run")
    calls_by_pk = {call.pk: call for call in calls}
    late_results: defaultdict[int, list[LateResult]] = defaultdict(list)
    for result in LateResult.objects.filter(tool_call__in=calls_by_pk).select_related("run").order_by("pk"):
        late_results[result.tool_call_id].append(result)
    return [
        _decide_and_report(
            store,
            calls_by_pk[choice.pk],
            choice,
            outage_groups.combine_late_results(late_results[choice.pk]),
            by=by,
            actor=actor,
            reason=reason,
        )
        for choice in chosen
        if choice.pk in calls_by_pk
    ]


def _decide_and_report(
    store: Store,
    call: ToolCall,
    seen: ChosenCall,
    witness: LateResultSummary | None,
    *,
    by: Membership,
    actor: Actor,
    reason: str,
) -> BulkDecisionResult:
    if witness is None or witness.kind != seen.kind:
        message = "The late results say something else since you looked, or no longer the same."
        return BulkDecisionResult(
            call, seen.kind, DecisionProblem(409, message, f"{NOTHING} Look at the call by itself.")
        )
    try:
        _apply_evidence_decision(store, call, seen, witness, actor, reason)
    except CheckpointsError as error:
        call.refresh_from_db()
        return BulkDecisionResult(call, seen.kind, describe_decision_error(error, call))
    claim_services.remove_claims_after_decision(call, by=by)
    return BulkDecisionResult(call, seen.kind, None, final=not call.undecided)


def _apply_evidence_decision(
    store: Store, call: ToolCall, seen: ChosenCall, witness: LateResultSummary, actor: Actor, reason: str
) -> None:
    late = witness.late
    report = (
        f"reported {'success' if late.success else 'a failure'} at {formatting.format_exact_time(late.received_at)}."
    )
    record_decision(
        store,
        call_target(call, seen.revision),
        seen.kind,
        actor=actor,
        reason=reason,
        result=witness.result if seen.kind == DecisionKind.CONFIRM_LANDED else None,
        evidence={"text": f"Run {'?' if late.run is None else late.run.number} {report}", "late_result": late.pk},
    )
