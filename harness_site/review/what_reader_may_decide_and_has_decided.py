"""What a member may decide about a call, and what they have decided about it."""

from collections.abc import Sequence

from checkpoints.db import clock
from checkpoints.enums import ActorKind, Role
from checkpoints.models import Decision, ToolCall
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.models import Membership
from harness_site.review.selectors import pending_call_counts_by_decider
from harness_site.sessions.selectors.multi_person_decisions import Agreement, list_incomplete_agreements


def is_overdue(call: ToolCall) -> bool:
    return call.deadline is not None and call.deadline < clock.now()


def may_member_decide_call(call: ToolCall, reader: Membership) -> bool:
    """Return whether a member may decide about a call now.

    Only admins decide after the deadline, and nobody does while the session is quarantined.
    """
    if call.session.quarantined_at is not None:
        return False
    return reader.role == Role.ADMIN or (reader.role == Role.APPROVER and not is_overdue(call))


def has_agreement_of_person(agreements: Sequence[Agreement], name: str) -> bool:
    return any(name in agreement.persons for agreement in agreements)


def has_reader_answered_and_waits_for_others(call: ToolCall, reader: Membership) -> bool:
    """Return whether the reader has answered about an undecided call of several people, and waits for the others."""
    if not call.undecided or call.approvals == 1:
        return False
    decisions = list(call.decisions.order_by(*Decision.IN_ORDER))
    agreements = list_incomplete_agreements(call, decisions, build_eligible_vote_mapper(reader.workspace))
    return can_reader_only_wait_for_others(call, decisions, agreements, reader.user.get_username())


def can_reader_only_wait_for_others(
    call: ToolCall, decisions: Sequence[Decision], agreements: Sequence[Agreement], reader: str
) -> bool:
    if not call.undecided or call.approvals == 1:
        return False
    last_own = find_last_own_decision_on_current_arguments(call, decisions, reader)
    return pending_call_counts_by_decider.can_only_wait_for_others(
        last_own.kind if last_own else None, agreements, reader
    )


def find_last_own_decision_on_current_arguments(
    call: ToolCall, decisions: Sequence[Decision], person: str
) -> Decision | None:
    own = [
        decision
        for decision in decisions
        if decision.actor_kind == ActorKind.PERSON
        and decision.actor == person
        and decision.args_digest == call.args_digest
    ]
    return own[-1] if own else None
