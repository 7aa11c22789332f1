"""Bulk decisions after they were recorded: what has become of each decision, and the withdrawal of those that no run
has used, with one reason, each in its own transaction."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from checkpoints.decisions import decision_withdrawal
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import DECIDING_KINDS, WITHDRAWABLE_KINDS, CallStatus, DecisionKind, SessionStatus
from checkpoints.exceptions import CheckpointsError, DecisionUsed, NothingToWithdraw, StaleRevision
from checkpoints.models import Decision, Session, ToolCall, Workspace
from checkpoints.store.database_client_state import Store
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.models import Membership
from harness_site.core import masked_formatting, status_and_decision_labels
from harness_site.review.decision_effect_texts import advise_after_used_decision, find_live_owner_run
from harness_site.review.decision_error_texts import DecisionProblem, build_decision_problem
from harness_site.review.differing_arguments import find_names_of_visibly_differing_arguments
from harness_site.review.models import BulkDecision, BulkDecisionEntry
from harness_site.review.outage_page_url import OutageWindow
from harness_site.review.record_decision_from_form import build_decision_target
from harness_site.review.record_each_of_several_decisions import BulkDecisionResult
from harness_site.review.selectors.next_attempts_of_rerun_calls import load_statuses_of_next_attempts
from harness_site.review.selectors.same_approval_call_groups import SameApprovalGroup
from harness_site.sessions.selectors.multi_person_decisions import has_votes_of_others


class BulkDecisionState(StrEnum):
    """What has become of a decision that was recorded with others."""

    #: It can be withdrawn.
    UNUSED = "unused"
    USED = "used"
    WITHDRAWN = "withdrawn"
    #: People have decided further about the call, so it has to be looked at by itself.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """Decision of a bulk decision, with its call, and with the decision that withdrew it, if any."""

    decision: Decision
    state: BulkDecisionState
    withdrawal: Decision | None = None
    #: Whether the withdrawal cancels the votes of other people, too.
    cancels_others: bool = False
    #: Status of the next attempt of the call if it ran once more, else empty.
    next_status: str = ""

    @property
    def call(self) -> ToolCall:
        return self.decision.tool_call

    @property
    def args(self) -> Any:
        return masked_formatting.parse_json_or_text(self.call.args)

    @property
    def chip_of_run_since_decision(self) -> tuple[str, str] | None:
        """Shape and label of the chip of whether the call has run since the decision; None if nothing is to be said."""
        if not self.decision.final or self.state not in {BulkDecisionState.UNUSED, BulkDecisionState.USED}:
            return None
        return status_and_decision_labels.find_shape_and_label_of_run_since_decision(
            self.next_status or self.call.status,
            final_kind=self.decision.kind,
            is_session_finished=self.call.session.finished,
        )


@dataclass(frozen=True, slots=True)
class RecordedBulkDecision:
    """Bulk decision with its decisions, in the order in which they were recorded."""

    pk: int
    author: str
    created_at: datetime
    decisions: tuple[RecordedDecision, ...]

    @property
    def names_of_differing_arguments(self) -> set[str]:
        """Names of the arguments that tell the calls apart."""
        return find_names_of_visibly_differing_arguments(each.args for each in self.decisions)

    @property
    def numbers_by_chip_of_run_since_decision(self) -> dict[tuple[str, str], int]:
        """Number of the calls that have run since, wait to run and so on, by shape and label of the chip."""
        return dict(
            Counter(
                chip_of_run_since_decision
                for each in self.decisions
                if (chip_of_run_since_decision := each.chip_of_run_since_decision) is not None
            )
        )

    @property
    def unused(self) -> list[RecordedDecision]:
        return self._list_decisions_in_state(BulkDecisionState.UNUSED)

    @property
    def used(self) -> list[RecordedDecision]:
        return self._list_decisions_in_state(BulkDecisionState.USED)

    @property
    def withdrawn(self) -> list[RecordedDecision]:
        return self._list_decisions_in_state(BulkDecisionState.WITHDRAWN)

    @property
    def are_withdrawn_calls_undecided(self) -> bool:
        """Whether nobody has decided again about a call whose decision was withdrawn."""
        return all(each.call.undecided for each in self.withdrawn)

    @property
    def common_withdrawal(self) -> Decision | None:
        """First of the withdrawals if all have the same author and reason, else None."""
        withdrawals = [each.withdrawal for each in self.withdrawn if each.withdrawal is not None]
        alike = {(each.actor_kind, each.actor, each.reason) for each in withdrawals}
        return withdrawals[0] if len(alike) == 1 else None

    @property
    def is_withdrawn_as_a_whole(self) -> bool:
        """Whether one person has withdrawn all decisions, with one reason."""
        return len(self.withdrawn) == len(self.decisions) and self.common_withdrawal is not None

    @property
    def advice_after_use(self) -> str:
        """What can be done about decisions that runs have used; empty if that differs between the calls."""
        kinds = {(each.decision.kind, each.call.is_question) for each in self.used}
        if len(kinds) != 1:
            return ""
        [(kind, is_question)] = kinds
        return advise_after_used_decision(kind, is_question=is_question, number=len(self.used))

    @property
    def common_reason(self) -> str:
        """Reason of all decisions; empty if they differ."""
        reasons = {each.decision.reason for each in self.decisions}
        return reasons.pop() if len(reasons) == 1 else ""

    @property
    def common_evidence(self) -> str | None:
        """Evidence of all decisions, canonical JSON text; None if they differ or have none."""
        evidence = {each.decision.evidence for each in self.decisions}
        return evidence.pop() if len(evidence) == 1 else None

    @property
    def continuing_sessions(self) -> list[Session]:
        """Sessions that wait for nothing else, with final decisions that no run has used."""
        decided = (each.call.session for each in self.unused if each.decision.final)
        return list({session.pk: session for session in decided if session.status == SessionStatus.READY}.values())

    @property
    def continuing_sessions_without_process(self) -> list[Session]:
        """Those of `continuing_sessions` that no live run owns."""
        return [session for session in self.continuing_sessions if find_live_owner_run(session) is None]

    @property
    def are_votes_of_others_cancelled(self) -> bool:
        """Whether a withdrawal has cancelled votes of other people about a call that nobody has decided again."""
        return any(each.cancels_others and each.call.undecided for each in self.withdrawn)

    def list_withdrawable(self, reader: Membership) -> list[RecordedDecision]:
        """List the decisions that this approver can withdraw: of others, those with which nobody else has to agree."""
        is_own = reader.user.get_username() == self.author
        return [each for each in self.unused if each.decision.final or is_own]

    @property
    def url_of_calls_to_decide_again(self) -> str:
        """URL of the page where the calls of the withdrawn decisions are decided together; empty if there is none."""
        calls = [each.call for each in self.withdrawn if each.call.undecided]
        groups = {(call.tool, call.approvals, call.error_type, call.status) for call in calls}
        if len(calls) < 2 or len(groups) > 1:
            return ""
        [(tool, approvals, error_type, status)] = groups
        if status == CallStatus.AWAITING_APPROVAL:
            return SameApprovalGroup(tool, approvals).url
        times = sorted(call.interrupted_at for call in calls if call.interrupted_at is not None)
        if not times:
            return ""
        first, last = (time.replace(microsecond=0) for time in (times[0], times[-1]))
        return OutageWindow(tool, error_type, first, last).url

    def _list_decisions_in_state(self, state: BulkDecisionState) -> list[RecordedDecision]:
        return [each for each in self.decisions if each.state == state]


def delete_orphans_and_save_bulk_decision(results: Sequence[BulkDecisionResult], *, by: Membership) -> int | None:
    """Save which decisions a person has recorded together; return the key of the bulk decision, None without any."""
    decisions = [result.decision_pk for result in results if result.decision_pk is not None]
    if not decisions:
        return None
    _delete_bulk_decisions_without_decisions()
    with transaction.atomic():
        bulk = BulkDecision.objects.create(workspace=by.workspace, author=by.user.get_username())
        BulkDecisionEntry.objects.bulk_create(BulkDecisionEntry(bulk=bulk, decision_id=pk) for pk in decisions)
    return bulk.pk


def _delete_bulk_decisions_without_decisions() -> None:
    """Delete what is left of bulk decisions whose sessions were deleted."""
    BulkDecisionEntry.objects.filter(~Exists(Decision.objects.filter(pk=OuterRef("decision")))).delete()
    BulkDecision.objects.filter(~Exists(BulkDecisionEntry.objects.filter(bulk=OuterRef("pk")))).delete()


def load_bulk_decision(workspace: Workspace, pk: int) -> RecordedBulkDecision | None:
    """Load a bulk decision with what has become of its decisions; None without any of them.

    These are four queries, and those of the electorate if calls need the decisions of several people.
    """
    bulk = BulkDecision.objects.filter(workspace=workspace, pk=pk).first()
    if bulk is None:
        return None
    recorded = list(
        Decision.objects.filter(bulk_entry__bulk=pk)
        .select_related("tool_call__session__owner")
        .order_by("created_at", "pk")
    )
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    for decision in Decision.objects.filter(
        tool_call__in=[each.tool_call_id for each in recorded], kind__in=sorted(DECIDING_KINDS)
    ):
        decisions[decision.tool_call_id].append(decision)
    in_force = [(each.tool_call, each) for each in recorded if each.final and each.kind in WITHDRAWABLE_KINDS]
    unused = {call.pk for call in decision_withdrawal.list_calls_with_unused_decision(in_force)}
    of_several = [made for each in recorded if each.tool_call.approvals > 1 for made in decisions[each.tool_call_id]]
    votes = build_eligible_vote_mapper(workspace)(of_several)
    next_statuses = load_statuses_of_next_attempts(each.tool_call for each in recorded)
    rows = tuple(
        replace(
            _build_recorded_decision(each, decisions[each.tool_call_id], is_unused=each.tool_call_id in unused),
            cancels_others=each.final and has_votes_of_others(each, decisions[each.tool_call_id], votes),
            next_status=next_statuses.get(each.tool_call_id, ""),
        )
        for each in recorded
    )
    return RecordedBulkDecision(bulk.pk, bulk.author, bulk.created_at, rows) if rows else None


def _build_recorded_decision(
    decision: Decision, decisions_about_call: Sequence[Decision], *, is_unused: bool
) -> RecordedDecision:
    """`is_unused` tells whether no run has used a final decision."""
    call, revision = decision.tool_call, decision.revision
    following = next((each for each in decisions_about_call if each.revision == revision + 1), None)
    if following is not None and following.kind == DecisionKind.WITHDRAW:
        return RecordedDecision(decision, BulkDecisionState.WITHDRAWN, withdrawal=following)
    if any(each.revision > revision for each in decisions_about_call):
        return RecordedDecision(decision, BulkDecisionState.CHANGED)
    if not decision.final:
        is_open = call.undecided and call.revision == revision + 1
        return RecordedDecision(decision, BulkDecisionState.UNUSED if is_open else BulkDecisionState.CHANGED)
    return RecordedDecision(decision, BulkDecisionState.UNUSED if is_unused else BulkDecisionState.USED)


def load_keys_of_bulk_decisions(decisions: Sequence[int]) -> dict[int, int]:
    """Load the keys of the bulk decisions to which these decisions belong, by the keys of the decisions.

    A decision that was recorded alone on a page for several calls is left out.
    """
    others = BulkDecisionEntry.objects.filter(bulk=OuterRef("bulk")).exclude(pk=OuterRef("pk"))
    entries = BulkDecisionEntry.objects.filter(Exists(others), decision__in=decisions)
    return dict(entries.values_list("decision", "bulk"))


def withdraw_decisions(
    decisions: Sequence[RecordedDecision], *, by: Membership, actor: Actor, reason: str
) -> Mapping[int, DecisionProblem]:
    """Withdraw each of these decisions that no run has used, in this order and independently of each other.

    A decision that was used, changed or withdrawn meanwhile stays as it is: its state says so.

    Returns:
        The other problems, by primary key of the call.
    """
    store = Store(workspace=by.workspace.slug)
    problems = {}
    for recorded in decisions:
        problem = _try_to_withdraw_decision(store, recorded, actor, reason)
        if problem is not None:
            problems[recorded.call.pk] = problem
    return problems


def _try_to_withdraw_decision(
    store: Store, recorded: RecordedDecision, actor: Actor, reason: str
) -> DecisionProblem | None:
    try:
        decision_withdrawal.withdraw_decision(store, _build_withdrawal_target(recorded), actor=actor, reason=reason)
    except (DecisionUsed, NothingToWithdraw, StaleRevision):
        return None
    except CheckpointsError as error:
        return build_decision_problem(error, recorded.call, reader=actor.name)
    return None


def _build_withdrawal_target(recorded: RecordedDecision) -> DecisionTarget:
    """Name the call at the revision to which its decision has brought it."""
    return build_decision_target(recorded.call, recorded.decision.revision + 1)
