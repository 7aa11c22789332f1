"""Template context of the decision card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from checkpoints.db import clock
from checkpoints.decisions import decision_withdrawal
from checkpoints.decisions.actors import Vote
from checkpoints.enums import (
    DECIDING_KINDS,
    WITHDRAWABLE_KINDS,
    ActorKind,
    CallStatus,
    DecisionKind,
    InterruptReason,
    Role,
    SessionStatus,
)
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Decision, ToolCall
from harness_site.accounts.models import Membership
from harness_site.accounts.voter_eligibility import build_eligible_vote_mapper
from harness_site.core import formatting
from harness_site.core.call_sentences import remove_sentence_from_question_args
from harness_site.core.masking.masker import MASK, is_masking_active
from harness_site.core.money_amounts_in_call_arguments import format_amounts_among_arguments
from harness_site.core.rendering.json_tree import mask_and_dump_json
from harness_site.core.rendering.mask_and_shorten_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import call_or_use_fallback
from harness_site.core.value_differences import list_value_differences
from harness_site.review import decision_effect_texts, parse_edited_arguments
from harness_site.review.argument_value_warnings import list_argument_warnings
from harness_site.review.call_event_history import (
    TraceEvent,
    find_approval_request_before_start,
    has_never_run,
    list_call_trace_events,
)
from harness_site.review.decision_options import (
    APPROVAL_OF_SEVERAL,
    OUTCOME_KINDS,
    AnswerOption,
    list_answer_options,
)
from harness_site.review.forms import ApprovalForm, OutcomeForm
from harness_site.review.models import Comment
from harness_site.review.question_choices import (
    find_question_choice_of_decision,
    is_question_text_alone,
    remove_listed_choices,
    replace_question_options_by_their_texts,
)
from harness_site.review.recorded_bulk_decisions import load_keys_of_bulk_decisions
from harness_site.review.selectors import call_evidence, pending_calls, pending_calls_by_eligible_decider
from harness_site.review.selectors.conversation_around_call import load_conversation_around_call
from harness_site.review.verification_requests import find_answered_request
from harness_site.sessions.selectors.multi_person_approvals import (
    Agreement,
    build_incomplete_agreements_from_votes,
    has_votes_of_others,
    list_earlier_agreeing_votes_of_others,
    list_incomplete_agreements,
    list_overruled_votes,
)
from harness_site.sessions.session_formatting import mask_safe_link_or_return_empty
from harness_site.sessions.timeline.selectors import takeovers_and_requests_from_audit_trail
from harness_site.sessions.timeline.selectors.takeovers_and_requests_from_audit_trail import ProbeRequest, RunEvents

_DECIDED: Final = {
    DecisionKind.APPROVE_RERUN: gettext_lazy("One more run approved"),
    DecisionKind.REJECT: gettext_lazy("Rejected: it does not run"),
    DecisionKind.RESPOND: gettext_lazy("Responded instead: it does not run"),
    DecisionKind.CONFIRM_LANDED: gettext_lazy("Decided: it happened"),
    DecisionKind.PROBE_LANDED: gettext_lazy("Decided: it happened"),
}
#: Headings of a question that a framework has asked, by the decision about it.
_ANSWERED: Final = {
    DecisionKind.APPROVE: gettext_lazy("Answered yes"),
    DecisionKind.REJECT: gettext_lazy("Answered no"),
}
_APPROVED: Final = {
    CallStatus.APPROVED: gettext_lazy("Approved: it has not run yet"),
    CallStatus.ISSUED: gettext_lazy("Approved: it is running"),
    CallStatus.COMPLETED: gettext_lazy("Approved: it has run"),
    CallStatus.FAILED: gettext_lazy("Approved: it ran and failed"),
}
#: Headings of a call that ran once more, by the status of its next attempt.
_RUN_ONCE_MORE: Final = {
    CallStatus.ISSUED: gettext_lazy("One more run approved: it is running"),
    CallStatus.COMPLETED: gettext_lazy("One more run approved: it has run"),
    CallStatus.FAILED: gettext_lazy("One more run approved: it ran and failed"),
    CallStatus.INTERRUPTED: gettext_lazy("One more run approved: its outcome is unknown"),
}
#: Headings of a decision after which the call would have run, if its session had not ended.
_APPROVED_IN_ENDED_SESSION: Final = {
    CallStatus.APPROVED: gettext_lazy("Approved, but it did not run"),
    CallStatus.RERUN_APPROVED: gettext_lazy("One more run approved, but it did not run"),
}


def _is_overdue(call: ToolCall) -> bool:
    return call.deadline is not None and call.deadline < clock.now()


def may_member_decide_call(call: ToolCall, reader: Membership) -> bool:
    """Return whether a member may decide about a call now.

    Only admins decide after the deadline, and nobody does while the session is quarantined.
    """
    if call.session.quarantined_at is not None:
        return False
    return reader.role == Role.ADMIN or (reader.role == Role.APPROVER and not _is_overdue(call))


@dataclass(frozen=True, slots=True)
class _CallSeenByReader:
    """A call, what is known about it, and the votes of people that count, for the member who reads the page.

    `decision` is the final one; `overruled` are the votes against it, each with its person.
    """

    call: ToolCall
    reader: Membership
    evidence: call_evidence.CallEvidence
    decision: Decision | None
    votes: Mapping[int, Vote]
    agreements: tuple[Agreement, ...]
    overruled: Sequence[tuple[Decision, str]]

    @property
    def person(self) -> str:
        return self.reader.user.get_username()


def load_card_context(call: ToolCall, reader: Membership) -> dict[str, Any]:
    seen = _load_call_with_evidence_and_votes_for_reader(call, reader)
    return {
        **_build_status_context(seen),
        **_build_final_decision_context(seen),
        **_build_votes_context(seen),
        **_build_history_context(seen),
    }


def _load_call_with_evidence_and_votes_for_reader(call: ToolCall, reader: Membership) -> _CallSeenByReader:
    evidence = call_evidence.load_call_evidence(call)
    decision = None if call.undecided else evidence.final_decision
    votes = build_eligible_vote_mapper(reader.workspace)(evidence.decisions) if call.approvals > 1 else {}
    return _CallSeenByReader(
        call=call,
        reader=reader,
        evidence=evidence,
        decision=decision,
        votes=votes,
        agreements=build_incomplete_agreements_from_votes(call, evidence.decisions, votes),
        overruled=list_overruled_votes(decision, evidence.decisions, votes) if decision and votes else [],
    )


def _build_status_context(seen: _CallSeenByReader) -> dict[str, Any]:
    """Build what the call is, what it waits for, and whether the reader may decide."""
    call, reader = seen.call, seen.reader
    return {
        "call": call,
        "reader": seen.person,
        "session": call.session,
        "args": _omit_arguments_shown_elsewhere(call, seen.decision),
        "secrets_hidden": is_masking_active(),
        "has_masked_arguments": _has_masked_arguments(call),
        "undecided": call.undecided,
        "asking": call.status == CallStatus.AWAITING_APPROVAL,
        "overdue": _is_overdue(call),
        "may_decide": may_member_decide_call(call, reader),
        "late_for": reader.role != Role.ADMIN,
        "heading": _get_heading_of_own_decision(call, seen.evidence, seen.agreements, seen.person)
        or _get_heading_of_overdue_call(call, reader)
        or _get_heading_of_overruled_reader(call, seen.decision, seen.overruled, seen.person)
        or _get_heading_of_call_that_ran_once_more(seen.decision, seen.evidence.next_attempt)
        or get_card_heading(call, seen.decision),
        "known": seen.evidence,
        "idle": has_never_run(call, seen.evidence),
        "was_interrupted": call.status == CallStatus.INTERRUPTED
        or (call.interrupted_at is not None and call.reason != InterruptReason.NO_RESULT),
        "driver": decision_effect_texts.find_live_owner_run(call.session),
        "waiting_run": decision_effect_texts.find_run_waiting_for_decision(call.session),
    }


def _build_final_decision_context(seen: _CallSeenByReader) -> dict[str, Any]:
    """Build the final decision, what it cites, whether it is used, and whether it can be or was withdrawn."""
    call, decision = seen.call, seen.decision
    withdrawal = _build_withdrawal_context(seen)
    return {
        "decision": decision,
        "resumed": _is_decision_used(call, decision),
        "hooks_answer_first": not call.undecided
        and call.session.status == SessionStatus.NEEDS_REVIEW
        and pending_calls.does_session_wait_for_verify_hooks_alone(call.session),
        "chosen": find_question_choice_of_decision(call, decision),
        "names_decision_in_head": decision is not None
        and (call.is_question or decision.kind in OUTCOME_KINDS or call.status == CallStatus.RERUN_APPROVED),
        "own_decision": decision is not None
        and decision.actor_kind == ActorKind.PERSON
        and decision.actor == seen.person,
        "cited": call_or_use_fallback(
            f"The evidence about call {call.pk}", lambda: build_decision_evidence_context(decision), None
        ),
        "withdrawal": withdrawal,
        "reaches_no_agent": withdrawal is not None and not withdrawal["used"] and call.session.finished,
        "withdrawn": _find_withdrawal_that_reopened_call(seen) if call.undecided else None,
    }


def _build_votes_context(seen: _CallSeenByReader) -> dict[str, Any]:
    """Build who agreed, who was overruled, and whether the reader can only wait for others."""
    call, decision, decisions = seen.call, seen.decision, seen.evidence.decisions
    has_vote = call.undecided and has_agreement_of_person(seen.agreements, seen.person)
    has_answered = _can_reader_only_wait_for_others(call, decisions, seen.agreements, seen.person)
    is_too_late = seen.reader.role == Role.APPROVER and not may_member_decide_call(call, seen.reader)
    last = _find_last_own_decision_on_current_arguments(call, decisions, seen.person)
    has_changed = call.undecided and not is_too_late and last is not None and last.kind == DecisionKind.EDIT
    return {
        "agreements": seen.agreements,
        "may_approve_own_change": has_changed and call.approvals == 1 and call.status == CallStatus.AWAITING_APPROVAL,
        "agreed_before": list_earlier_agreeing_votes_of_others(decision, decisions, seen.votes)
        if decision and seen.votes
        else [],
        "overruled": [vote for vote, _person in seen.overruled],
        "own_votes": has_vote,
        "bulk_pk": _find_bulk_decision(seen, last),
        "has_answered": has_answered,
        "waits_for_others": has_answered or has_vote or (call.undecided and is_too_late),
    }


def _find_bulk_decision(seen: _CallSeenByReader, own: Decision | None) -> int | None:
    """Return the key of the bulk decision to which the final decision belongs, else that of the reader's `own` vote."""
    shown = seen.decision or own
    if shown is None or shown.actor_kind != ActorKind.PERSON:
        return None
    return load_keys_of_bulk_decisions([shown.pk]).get(shown.pk)


def _build_history_context(seen: _CallSeenByReader) -> dict[str, Any]:
    """Build what happened to the call, what people changed and wrote, and the conversation around it."""
    call, decision = seen.call, seen.decision
    events_of_runs = takeovers_and_requests_from_audit_trail.load_takeovers_approval_and_probe_requests(call.session_id)
    no_events: list[TraceEvent] = []
    return {
        "edit": call_or_use_fallback(
            f"What people changed about call {call.pk}",
            lambda: _build_argument_edit_differences_context(call, seen.evidence),
            None,
        ),
        "events": call_or_use_fallback(
            f"What happened to call {call.pk}",
            lambda: _list_events_with_runs_before_start(seen, events_of_runs),
            no_events,
        ),
        "last_check": next(
            (each for each in reversed(seen.evidence.decisions) if each.kind == DecisionKind.PROBE_UNKNOWN), None
        ),
        "takeovers": events_of_runs.takeovers,
        "verification_request": _find_request_of_final_decision(seen, events_of_runs),
        "around": call_or_use_fallback(
            f"The conversation around call {call.pk}",
            lambda: load_conversation_around_call(call, decision.created_at if decision else call.settled_at),
            None,
        ),
        "comments": sorted(Comment.objects.filter(call=call.pk), key=attrgetter("pk")),
    }


def _list_events_with_runs_before_start(seen: _CallSeenByReader, events_of_runs: RunEvents) -> list[TraceEvent]:
    call, evidence = seen.call, seen.evidence
    question = find_approval_request_before_start(call, evidence, events_of_runs)
    runs = [] if question is None else call_evidence.load_runs_before_start(call, question.run_number)
    return list_call_trace_events(call, evidence, events_of_runs, seen.votes, runs)


def _find_request_of_final_decision(seen: _CallSeenByReader, events_of_runs: RunEvents) -> ProbeRequest | None:
    """Return the request for the verification that has decided the call, if it was one that somebody asked for."""
    if seen.decision is None:
        return None
    decisions = seen.evidence.decisions[: seen.evidence.decisions.index(seen.decision) + 1]
    return find_answered_request(decisions, events_of_runs.probes.get((seen.call.call_id, seen.call.step), []))


def has_reader_answered(call: ToolCall, reader: Membership) -> bool:
    """Return whether the reader has answered about an undecided call of several people, and waits for the others."""
    if not call.undecided or call.approvals == 1:
        return False
    decisions = list(call.decisions.order_by(*Decision.IN_ORDER))
    agreements = list_incomplete_agreements(call, decisions, build_eligible_vote_mapper(reader.workspace))
    return _can_reader_only_wait_for_others(call, decisions, agreements, reader.user.get_username())


def _can_reader_only_wait_for_others(
    call: ToolCall, decisions: Sequence[Decision], agreements: Sequence[Agreement], reader: str
) -> bool:
    if not call.undecided or call.approvals == 1:
        return False
    last_own = _find_last_own_decision_on_current_arguments(call, decisions, reader)
    return pending_calls_by_eligible_decider.can_only_wait_for_others(
        last_own.kind if last_own else None, agreements, reader
    )


def _get_heading_of_overdue_call(call: ToolCall, reader: Membership) -> str:
    """Return that the reader may not decide about an overdue call; empty if they may, or if it is not overdue."""
    if not call.undecided or call.session.quarantined_at is not None or reader.role == Role.ADMIN:
        return ""
    return _("Overdue: only an admin can decide") if _is_overdue(call) else ""


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


def _has_masked_arguments(call: ToolCall) -> bool:
    return MASK in mask_and_dump_json(formatting.parse_json_or_text(call.args))


def _omit_arguments_shown_elsewhere(call: ToolCall, decision: Decision | None) -> Any:
    """Return the arguments that the page lists, with separators in amounts, as the sentence has them.

    Of a question this is its value, without the text that the sentence shows. Its options are left out while they are
    answers to choose from, and listed by their labels afterwards, of which the `decision` has chosen one.
    """
    args = formatting.parse_json_or_text(call.args_json_in_caller_order)
    if not isinstance(args, dict):
        return args
    if not call.is_question or args.keys() != {"value"}:
        return format_amounts_among_arguments(args)
    value = args["value"]
    chosen = find_question_choice_of_decision(call, decision)
    shown = (
        remove_listed_choices(call, value)
        if call.undecided
        else replace_question_options_by_their_texts(call, value, chosen)
    )
    return remove_sentence_from_question_args({"value": shown}, call.sentence)


def _get_heading_of_call_that_ran_once_more(decision: Decision | None, attempt: ToolCall | None) -> str:
    """Return what became of the approved next `attempt` of a call; empty if none was approved, or it has not begun."""
    if decision is None or decision.kind != DecisionKind.APPROVE_RERUN or attempt is None:
        return ""
    known_statuses = {str(status): text for status, text in _RUN_ONCE_MORE.items()}
    return str(known_statuses.get(attempt.status, ""))


def has_agreement_of_person(agreements: Sequence[Agreement], name: str) -> bool:
    return any(name in agreement.persons for agreement in agreements)


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
        return str(_APPROVED_IN_ENDED_SESSION[CallStatus(call.status)])
    if decision.kind == DecisionKind.APPROVE:
        known_statuses = {str(status): text for status, text in _APPROVED.items()}
        return str(known_statuses.get(call.status, _("Approved")))
    decided = {str(kind): text for kind, text in _DECIDED.items()}
    return str(decided.get(decision.kind, _("Decided: it did not happen")))


def _get_heading_of_own_decision(
    call: ToolCall, evidence: call_evidence.CallEvidence, agreements: Sequence[Agreement], reader: str
) -> str:
    """Return what the reader has decided about an undecided call, and who is missing; empty if they have not."""
    if not call.undecided or call.session.quarantined_at is not None:
        return ""
    own = next((agreement for agreement in agreements if reader in agreement.persons), None)
    if own is None:
        last = _find_last_own_decision_on_current_arguments(call, evidence.decisions, reader)
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


def _find_last_own_decision_on_current_arguments(
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


def _get_question_heading(call: ToolCall, decision: Decision | None) -> str:
    if call.undecided:
        return _("The agent asks a question")
    if decision is None:
        return _("This question was withdrawn")
    if decision.kind == DecisionKind.APPROVE and call.has_changed_args:
        return _("Approved: the agent gets the changed value")
    if chosen := find_question_choice_of_decision(call, decision):
        return _("Answered: %(answer)s") % {"answer": Truncator(chosen.label).chars(100)}
    answered = {str(kind): text for kind, text in _ANSWERED.items()}
    return str(answered.get(decision.kind, _("Answered")))


def _is_decision_used(call: ToolCall, decision: Decision | None) -> bool:
    """Return True if the agent has used the decision."""
    ran = decision is not None and decision.kind == DecisionKind.APPROVE and call.status != CallStatus.APPROVED
    return ran or call.replay_count > 0


def _build_withdrawal_context(seen: _CallSeenByReader) -> dict[str, Any] | None:
    """Build whether the decision is used, the version to fork from, and whether others lose their votes with it.

    The result is None without a decision that could be withdrawn.
    """
    call, decision = seen.call, seen.decision
    if decision is None or decision.kind not in WITHDRAWABLE_KINDS:
        return None
    used = decision_withdrawal.has_run_used_decision(call, decision)
    return {
        "used": used,
        "version": min(call.step, call.session.latest_version) if used else 0,
        "cancels_others": has_votes_of_others(decision, seen.evidence.decisions, seen.votes),
    }


def _find_withdrawal_that_reopened_call(seen: _CallSeenByReader) -> dict[str, Any] | None:
    """Return the `last` decision, a withdrawal after which the call waits again, and whose decision it ended; or None.

    `decider` is the person whose decision was withdrawn, empty if it is not known.
    """
    moving = [decision for decision in seen.evidence.decisions if decision.kind in DECIDING_KINDS and decision.final]
    if not moving or moving[-1].kind != DecisionKind.WITHDRAW:
        return None
    ended = moving[-2] if len(moving) > 1 else None
    return {
        "last": moving[-1],
        "decider": ended.actor if ended else "",
        "cancels_others": ended is not None and has_votes_of_others(ended, seen.evidence.decisions, seen.votes),
    }


def build_decision_form_with_known_result(shown: dict[str, Any]) -> OutcomeForm | ApprovalForm:
    """Build the form for a pending call, prefilled with the latest agreed or late result."""
    call: ToolCall = shown["call"]
    voices = sorted((voice for agreement in shown["agreements"] for voice in agreement.voices), key=attrgetter("pk"))
    result_texts = {voice.kind: voice.result_text for voice in voices}
    if shown["asking"]:
        answer = mask_and_reveal_hidden(result_texts.get(DecisionKind.RESPOND) or "")
        initial = {
            "revision": call.revision,
            "args": parse_edited_arguments.format_masked_arguments_if_editable(call.args_json_in_caller_order),
            "answer": answer,
        }
        return ApprovalForm(initial=initial, call=call)
    successful_results = [late_result.result_text for late_result in shown["known"].late_results if late_result.success]
    result = result_texts.get(DecisionKind.CONFIRM_LANDED) or (successful_results[-1] if successful_results else "")
    return OutcomeForm(initial={"revision": call.revision, "result": mask_and_reveal_hidden(result)})


def offer_reason_of_own_edit_to_approve(
    shown: dict[str, Any], earlier_reasons: dict[str, list[str]]
) -> dict[str, list[str]]:
    """Return the earlier reasons; to approve an own edit of the call, the reason of the edit comes first."""
    edits = [decision for decision in shown["known"].decisions if decision.kind == DecisionKind.EDIT]
    is_own_change = shown["may_approve_own_change"] and shown["call"].has_changed_args
    if not is_own_change or not edits or edits[-1].actor != shown["reader"]:
        return earlier_reasons
    reason = edits[-1].reason.strip()
    if reason not in earlier_reasons.get(DecisionKind.EDIT, []):  # a long one, or one with a secret
        return earlier_reasons
    others = [other for other in earlier_reasons.get(DecisionKind.APPROVE, []) if other != reason]
    return {**earlier_reasons, DecisionKind.APPROVE: [reason, *others]}


def _build_argument_edit_differences_context(
    call: ToolCall, evidence: call_evidence.CallEvidence
) -> dict[str, Any] | None:
    """Build how the edited arguments differ from those of the model, warnings, and whether people can restore these.

    The result is None without an edit.
    """
    edits = [candidate for candidate in evidence.decisions if candidate.kind == DecisionKind.EDIT]
    if not edits:
        return None
    before = parse_edited_arguments.load_arguments_before_edits(call)
    after = formatting.parse_json_or_text(call.args_json_in_caller_order)
    return {
        "last": edits[-1],
        "is_repeated": len(edits) > 1,
        "differences": list_value_differences(before, after),
        "warnings": list_argument_warnings(before, after),
        "is_restorable": parse_edited_arguments.load_original_arguments_to_restore_or_none(call) is not None
        and DecisionKind.EDIT in call.list_allowed_approval_decisions()
        and not call.session.finished,
    }


def build_decision_evidence_context(decision: Decision | None) -> dict[str, Any] | None:
    """Build the evidence of the decision: a safe `link`, a `text`, and the `rest` of the evidence."""
    if decision is None or decision.evidence is None:
        return None
    evidence = formatting.parse_json_or_text(decision.evidence)
    if not isinstance(evidence, dict):
        return {"rest": evidence}
    link = mask_safe_link_or_return_empty(evidence.get("link"))
    text = evidence.get("text") if isinstance(evidence.get("text"), str) else ""
    handled_names = {name for name, content in (("link", link), ("text", text)) if content} | {"file"}
    return {
        "link": link,
        "text": text,
        "rest": {name: value for name, value in evidence.items() if name not in handled_names},
    }


def build_decision_options(
    call: ToolCall, agreed: tuple[Agreement, ...], decisions: Sequence[Decision], reader: str
) -> list[dict[str, Any]]:
    """Build each answer with its effect; `mine` is the decision of a reader who has given it already.

    `edited` is True if the reader has edited the arguments and therefore may not approve them.
    """
    editor = call.approvals > 1 and any(
        decision.kind == DecisionKind.EDIT and decision.actor == reader for decision in decisions
    )
    options = [
        _adapt_approve_option_to_call(call, agreed, option, reader)
        for option in list_answer_options(call)
        if _is_decision_option_available(call, option.kind)
    ]
    unknown = _("This cannot be predicted, because the session cannot be read.")
    fallback_effects = dict.fromkeys((option.kind for option in options), unknown)
    description = f"What follows from a decision about call {call.pk}"
    effects = call_or_use_fallback(
        description, lambda: _preview_effects_by_kind_or_error(call, agreed, options, reader), fallback_effects
    )
    return [
        {
            "kind": option.kind.value,
            "field_value": option.choice or option.kind.value,
            "is_choice": bool(option.choice),
            "is_secondary": option.is_secondary,
            "name": option.name,
            "summary": option.summary,
            "does": str(option.does),
            "button": option.button,
            "then": effects[option.kind],
            "mine": _find_decision_that_reader_can_only_repeat(agreed, option.kind, reader),
            "edited": editor and option.kind == DecisionKind.APPROVE,
        }
        for option in options
    ]


def _adapt_approve_option_to_call(
    call: ToolCall, agreed: Sequence[Agreement], option: AnswerOption, reader: str
) -> AnswerOption:
    """Return the approval that does not run the call yet, if more people have to approve, or that runs it with values
    that the reader sees masked; any other answer as it is."""
    if option.kind != DecisionKind.APPROVE or call.is_question or call.session.finished:
        return option
    missing = decision_effect_texts.count_people_missing_after_answer(call, option.kind, agreed, reader)
    if not missing and _has_masked_arguments(call):
        return replace(option, summary=_("The call runs with the unmasked values."))
    if not missing:
        return option
    summary = _("One of the %(needed)s approvals that it needs.") % {"needed": call.approvals}
    return replace(APPROVAL_OF_SEVERAL, summary=summary)


def _preview_effects_by_kind_or_error(
    call: ToolCall, agreed: Sequence[Agreement], options: Sequence[AnswerOption], reader: str
) -> dict[DecisionKind, str]:
    try:
        return decision_effect_texts.preview_decision_effects_by_kind(call, agreed, reader)
    except CheckpointsError as error:
        unknown = _("This cannot be predicted: {problem}").format(problem=error.detail)
        return dict.fromkeys((option.kind for option in options), unknown)


def _is_decision_option_available(call: ToolCall, kind: DecisionKind) -> bool:
    if kind == DecisionKind.EDIT and parse_edited_arguments.format_masked_arguments_if_editable(call.args) is None:
        return False
    if kind == DecisionKind.EDIT and is_question_text_alone(call):
        return False
    return call.status != CallStatus.AWAITING_APPROVAL or kind in call.list_allowed_approval_decisions()


def _find_decision_that_reader_can_only_repeat(
    agreed: Sequence[Agreement], kind: DecisionKind, reader: str
) -> Decision | None:
    """Return the reader's decision of this kind; None without one, or if others have given another text with theirs,
    which the reader may agree to."""
    of_kind = [agreement for agreement in agreed if agreement.kind == kind]
    own = next(filter(None, (agreement.find_decision_of_person(reader) for agreement in of_kind)), None)
    return own if len(of_kind) == 1 else None
