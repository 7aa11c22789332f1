"""Headings of the decision card."""

from collections.abc import Sequence
from typing import Final

from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from checkpoints.enums import CallStatus, DecisionKind, Role
from checkpoints.models import Decision, ToolCall
from harness_site.accounts.models import Membership
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.review.question_choices import find_question_choice_of_decision
from harness_site.review.selectors import decision_card_queries
from harness_site.review.what_reader_may_decide_and_has_decided import (
    find_last_own_decision_on_current_arguments,
    is_overdue,
)
from harness_site.sessions.selectors.multi_person_decisions import Agreement

#: Headings of the decisions that end the wait for a person; that of an approval depends on the status of the call.
_DECIDED: Final[dict[str, Promise]] = {
    DecisionKind.APPROVE_RERUN: gettext_lazy("One more run approved"),
    DecisionKind.REJECT: gettext_lazy("Rejected: it does not run"),
    DecisionKind.RESPOND: gettext_lazy("Responded instead: it does not run"),
    DecisionKind.CONFIRM_LANDED: gettext_lazy("Decided: it happened"),
    DecisionKind.PROBE_LANDED: gettext_lazy("It happened, as the tool’s own check found"),
    DecisionKind.MARK_FAILED: gettext_lazy("Decided: it did not happen"),
    DecisionKind.PROBE_NOT_LANDED: gettext_lazy("It did not happen, as the tool’s own check found"),
}
#: Headings of a question that a framework has asked, by the decision about it.
_ANSWERED: Final[dict[str, Promise]] = {
    DecisionKind.APPROVE: gettext_lazy("Answered yes"),
    DecisionKind.REJECT: gettext_lazy("Answered no"),
}
_APPROVED: Final[dict[str, Promise]] = {
    CallStatus.APPROVED: gettext_lazy("Approved: it has not run yet"),
    CallStatus.ISSUED: gettext_lazy("Approved: it is running"),
    CallStatus.COMPLETED: gettext_lazy("Approved: it has run"),
    CallStatus.FAILED: gettext_lazy("Approved: it ran and failed"),
}
#: Headings of a call that ran once more, by the status of its next attempt.
_RUN_ONCE_MORE: Final[dict[str, Promise]] = {
    CallStatus.ISSUED: gettext_lazy("One more run approved: it is running"),
    CallStatus.COMPLETED: gettext_lazy("One more run approved: it has run"),
    CallStatus.FAILED: gettext_lazy("One more run approved: it ran and failed"),
    CallStatus.INTERRUPTED: gettext_lazy("One more run approved: its outcome is unknown"),
}
#: Headings of a decision after which the call would have run, if its session had not ended.
_APPROVED_IN_ENDED_SESSION: Final[dict[str, Promise]] = {
    CallStatus.APPROVED: gettext_lazy("Approved, but it did not run"),
    CallStatus.RERUN_APPROVED: gettext_lazy("One more run approved, but it did not run"),
}


def get_card_heading_for_reader(
    call: ToolCall,
    reader: Membership,
    evidence: decision_card_queries.CallEvidence,
    decision: Decision | None,
    agreements: Sequence[Agreement],
    overruled: Sequence[tuple[Decision, str]],
) -> str:
    """Return what a member reads above a call: what they have decided, else what the card asks, or the decision it got.

    `overruled` are the votes against the final `decision`, each with its person.
    """
    person = reader.user.get_username()
    return (
        _get_heading_of_own_decision(call, evidence, agreements, person)
        or _get_heading_of_overdue_call(call, reader)
        or _get_heading_of_overruled_reader(call, decision, overruled, person)
        or _get_heading_of_call_that_ran_once_more(decision, evidence.next_attempt)
        or get_card_heading(call, decision)
    )


def get_card_heading(call: ToolCall, decision: Decision | None) -> str:
    """Return the question that the card asks, or the decision it got."""
    if call.undecided and call.session.quarantined_at is not None:
        return _("Nobody can decide this call now")
    if call.is_question:
        return _get_question_heading(call, decision)
    if call.status == CallStatus.INTERRUPTED:
        return _("Did this happen?")
    if call.status == CallStatus.AWAITING_APPROVAL:
        return _("May this happen?")
    if decision is None:
        return _("This call failed") if call.status == CallStatus.FAILED else _("Outcome of this call")
    if call.session.finished and call.status in _APPROVED_IN_ENDED_SESSION:
        return str(_APPROVED_IN_ENDED_SESSION[call.status])
    if decision.kind == DecisionKind.APPROVE:
        return str(_APPROVED.get(call.status, _("Approved")))
    return str(_DECIDED.get(decision.kind, _("Outcome of this call")))


def _get_heading_of_own_decision(
    call: ToolCall, evidence: decision_card_queries.CallEvidence, agreements: Sequence[Agreement], reader: str
) -> str:
    """Return what the reader has decided about an undecided call, and who is missing; empty if they have not."""
    if not call.undecided or call.session.quarantined_at is not None:
        return ""
    own = next((agreement for agreement in agreements if reader in agreement.persons), None)
    if own is None:
        last = find_last_own_decision_on_current_arguments(call, evidence.decisions, reader)
        is_edit = last is not None and last.kind == DecisionKind.EDIT
        return _get_heading_of_own_edit(call, agreements) if is_edit and call.has_changed_args else ""
    if len(agreements) > 1:
        return _("You have decided, and another person disagrees")
    missing = own.needed - own.person_count
    if own.kind == DecisionKind.APPROVE:
        return ngettext(
            "You approved: %(number)s more person has to approve",
            "You approved: %(number)s more people have to approve",
            missing,
        ) % {"number": missing}
    return ngettext(
        "You decided: %(number)s more person has to decide the same",
        "You decided: %(number)s more people have to decide the same",
        missing,
    ) % {"number": missing}


def _get_heading_of_own_edit(call: ToolCall, agreements: Sequence[Agreement]) -> str:
    """Return what is left to do about arguments that the reader was the last to change."""
    if call.approvals == 1:
        return (
            _("You changed the value: may the agent get it?")
            if call.is_question
            else _("You changed the arguments: may this happen now?")
        )
    approvals = [agreement.person_count for agreement in agreements if agreement.kind == DecisionKind.APPROVE]
    missing = call.approvals - sum(approvals)
    return ngettext(
        "You changed the arguments: %(number)s other person has to approve",
        "You changed the arguments: %(number)s other people have to approve",
        missing,
    ) % {"number": missing}


def _get_heading_of_overdue_call(call: ToolCall, reader: Membership) -> str:
    """Return that the reader may not decide about an overdue call; empty if they may, or if it is not overdue."""
    if not call.undecided or call.session.quarantined_at is not None or reader.role == Role.ADMIN:
        return ""
    return _("Overdue: only an admin can decide") if is_overdue(call) else ""


def _get_heading_of_overruled_reader(
    call: ToolCall, decision: Decision | None, overruled: Sequence[tuple[Decision, str]], reader: str
) -> str:
    """Return what was decided against the vote of the reader; empty for other readers."""
    own = next((vote for vote, person in overruled if person == reader), None)
    if decision is None or own is None:
        return ""
    if not call.is_question and (decision.kind, own.kind) == (DecisionKind.REJECT, DecisionKind.APPROVE):
        name = mask_and_reveal_hidden(decision.actor)
        return _("%(name)s rejected it; you had approved it") % {"name": name}
    return _("%(decided)s (you had answered otherwise)") % {"decided": get_card_heading(call, decision)}


def _get_heading_of_call_that_ran_once_more(decision: Decision | None, attempt: ToolCall | None) -> str:
    """Return what became of the approved next `attempt` of a call; empty if none was approved, or it has not begun."""
    if decision is None or decision.kind != DecisionKind.APPROVE_RERUN or attempt is None:
        return ""
    return str(_RUN_ONCE_MORE.get(attempt.status, ""))


def _get_question_heading(call: ToolCall, decision: Decision | None) -> str:
    if call.undecided:
        return _("The agent asks a question")
    if decision is None:
        return _("This question was withdrawn")
    if decision.kind == DecisionKind.APPROVE and call.has_changed_args:
        return _("Approved: the agent gets the changed value")
    if chosen := find_question_choice_of_decision(call, decision):
        return _("Answered: %(answer)s") % {"answer": Truncator(chosen.label).chars(100)}
    return str(_ANSWERED.get(decision.kind, _("Answered")))
