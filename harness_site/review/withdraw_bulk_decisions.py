"""Withdrawal of the decisions of one bulk decision that no run has used: one reason, each in its own transaction."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from checkpoints.decisions import decision_withdrawal
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import DECIDING_KINDS, DecisionKind
from checkpoints.exceptions import CheckpointsError, DecisionUsed, NothingToWithdraw, StaleRevision
from checkpoints.models import Decision, ToolCall
from checkpoints.store.database_client_state import Store
from harness_site.accounts.models import Membership
from harness_site.review.bulk_decisions import BulkDecisionResult
from harness_site.review.decision_error_texts import DecisionProblem, build_decision_problem
from harness_site.review.record_decision import build_decision_target


class BulkDecisionState(StrEnum):
    """What has become of a decision that was recorded with others."""

    #: It can be withdrawn together with the others that were recorded with it.
    UNUSED = "unused"
    USED = "used"
    WITHDRAWN = "withdrawn"
    #: People have decided further about the call, so it has to be looked at by itself.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class BulkDecision:
    """Decision that was recorded with others. `withdrawn_by` is the name of the person who withdrew it, or empty."""

    result: BulkDecisionResult
    state: BulkDecisionState
    withdrawn_by: str = ""
    #: Why it was not withdrawn with the others, if its state does not say so.
    problem: DecisionProblem | None = None

    @property
    def call(self) -> ToolCall:
        return self.result.call


def load_bulk_decisions(recorded: Sequence[BulkDecisionResult]) -> list[BulkDecision]:
    """Load the states of the recorded decisions of a bulk decision, in two queries; their calls have their sessions."""
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    rows = Decision.objects.filter(tool_call__in=[result.call for result in recorded], kind__in=sorted(DECIDING_KINDS))
    for decision in rows:
        decisions[decision.tool_call_id].append(decision)
    in_force = [
        (result.call, own)
        for result in recorded
        if result.final and (own := _find_decision_at_revision(decisions[result.call.pk], result.revision)) is not None
    ]
    unused = {call.pk for call in decision_withdrawal.list_calls_with_unused_decision(in_force)}
    return [_build_bulk_decision(result, decisions[result.call.pk], result.call.pk in unused) for result in recorded]


def _find_decision_at_revision(decisions: Sequence[Decision], revision: int | None) -> Decision | None:
    return next((decision for decision in decisions if decision.revision == revision), None)


def _build_bulk_decision(
    result: BulkDecisionResult, decisions: Sequence[Decision], is_final_and_unused: bool
) -> BulkDecision:
    call, revision = result.call, result.revision
    if revision is None:
        return BulkDecision(result, BulkDecisionState.CHANGED)
    following = _find_decision_at_revision(decisions, revision + 1)
    if following is not None and following.kind == DecisionKind.WITHDRAW:
        return BulkDecision(result, BulkDecisionState.WITHDRAWN, withdrawn_by=following.actor)
    if any(decision.revision > revision for decision in decisions):
        return BulkDecision(result, BulkDecisionState.CHANGED)
    if not result.final:
        is_open = call.undecided and call.revision == revision + 1
        return BulkDecision(result, BulkDecisionState.UNUSED if is_open else BulkDecisionState.CHANGED)
    return BulkDecision(result, BulkDecisionState.UNUSED if is_final_and_unused else BulkDecisionState.USED)


def withdraw_bulk_decisions(
    decisions: Sequence[BulkDecision], *, by: Membership, actor: Actor, reason: str
) -> dict[int, DecisionProblem]:
    """Withdraw each decision that no run has used, in this order and independently of each other.

    A decision that was used, changed or withdrawn meanwhile stays as it is: its state says so.

    Returns:
        The other problems, by primary key of the call.
    """
    store = Store(workspace=by.workspace.slug)
    problems = {}
    for decision in decisions:
        if decision.state != BulkDecisionState.UNUSED:
            continue
        problem = _try_to_withdraw_decision(store, decision, actor, reason)
        if problem is not None:
            problems[decision.call.pk] = problem
    return problems


def _try_to_withdraw_decision(
    store: Store, decision: BulkDecision, actor: Actor, reason: str
) -> DecisionProblem | None:
    try:
        decision_withdrawal.withdraw_decision(store, _build_withdrawal_target(decision), actor=actor, reason=reason)
    except (DecisionUsed, NothingToWithdraw, StaleRevision):
        return None
    except CheckpointsError as error:
        return build_decision_problem(error, decision.call, reader=actor.name)
    return None


def _build_withdrawal_target(decision: BulkDecision) -> DecisionTarget:
    """Name the call at the revision to which its decision has brought it."""
    return build_decision_target(decision.call, (decision.result.revision or 0) + 1)
