"""Template context of the decision card."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Any, Final

from django.db.models import Exists, OuterRef

from checkpoints.db import clock
from checkpoints.decisions import decision_withdrawal
from checkpoints.decisions.vote_and_electorate_types import Vote
from checkpoints.enums import (
    DECIDING_KINDS,
    WITHDRAWABLE_KINDS,
    ActorKind,
    CallStatus,
    DecisionKind,
    InterruptReason,
    Role,
    RunStatus,
    SessionStatus,
)
from checkpoints.models import Decision, Run, Session, ToolCall
from checkpoints.sessions.display_status import derive_session_display_status
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.models import Membership
from harness_site.core import masked_formatting
from harness_site.core.call_sentences import remove_sentence_from_question_args
from harness_site.core.masked_json_value_differences import list_value_differences
from harness_site.core.masking.masker import is_masking_active
from harness_site.core.money_amounts_in_call_arguments import find_visible_amount
from harness_site.core.rendering.safe_display_text import mask_safe_link_or_return_empty
from harness_site.core.status_and_decision_labels import get_status_shape_and_label
from harness_site.core.unreadable_rows_and_quarantine import call_or_use_fallback
from harness_site.review import argument_edit_parsing_and_originals, decision_effect_texts
from harness_site.review.bulk_decision_storage_and_withdrawal import load_keys_of_bulk_decisions
from harness_site.review.call_event_history import (
    CallHistoryEvent,
    find_approval_request_of_decided_call_before_start,
    has_never_run,
    list_call_history_events,
)
from harness_site.review.decision_card_headings import get_card_heading_for_reader
from harness_site.review.decision_options import OUTCOME_KINDS
from harness_site.review.edited_argument_warnings import list_argument_warnings
from harness_site.review.models import Claim, Comment
from harness_site.review.question_choices import (
    find_question_choice_of_decision,
    remove_listed_choices,
    remove_requested_answer_type,
    replace_question_options_by_their_texts,
)
from harness_site.review.selectors import decision_card_queries, pending_calls
from harness_site.review.selectors.conversation_up_to_call import load_conversation_up_to_call
from harness_site.review.selectors.usual_amounts import load_usual_amounts
from harness_site.review.verification_requests_and_hook_answers import find_answered_request
from harness_site.review.what_reader_may_decide_and_has_decided import (
    can_reader_only_wait_for_others,
    find_last_own_decision_on_current_arguments,
    has_agreement_of_person,
    is_overdue,
    may_member_decide_call,
)
from harness_site.sessions.selectors.multi_person_decisions import (
    Agreement,
    build_incomplete_agreements_from_votes,
    has_votes_of_others,
    list_earlier_agreeing_votes_of_others,
    list_overruled_votes,
)
from harness_site.sessions.session_and_call_status_chips import get_session_status_shape_and_label
from harness_site.sessions.timeline.selectors import takeover_approval_verification_and_handover_events
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import (
    ProbeRequest,
    RunEvents,
)

#: Where something starts agents, a decision is used within this time.
_USUALLY_USED_WITHIN: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class _CallSeenByReader:
    """A call, what is known about it, and the votes of people that count, for the member who reads the page.

    `decision` is the final one; `overruled` are the votes against it, each with its person.
    """

    call: ToolCall
    reader: Membership
    evidence: decision_card_queries.CallEvidence
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
    evidence = decision_card_queries.load_call_evidence(call)
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
    asking, may_decide, overdue = (
        call.status == CallStatus.AWAITING_APPROVAL,
        may_member_decide_call(call, reader),
        is_overdue(call),
    )
    return {
        "call": call,
        "reader": seen.person,
        "read_at": clock.now(),
        "session": call.session,
        "args": _format_arguments_not_shown_elsewhere(call, seen.decision),
        "secrets_hidden": is_masking_active(),
        "unusual_amount": load_usual_amounts(call.workspace_id, [call]).find_unusual_amount(
            call.tool, find_visible_amount(masked_formatting.parse_json_or_text(call.args))
        ),
        "has_masked_arguments": argument_edit_parsing_and_originals.has_masked_arguments(call),
        "undecided": call.undecided,
        "asking": asking,
        "overdue": overdue,
        "may_decide": may_decide,
        "may_happen": asking and not call.session.finished and (may_decide or not overdue),
        "late_for": reader.role != Role.ADMIN,
        "heading": get_card_heading_for_reader(
            call, reader, seen.evidence, seen.decision, seen.agreements, seen.overruled
        ),
        "known": seen.evidence,
        "idle": has_never_run(call, seen.evidence),
        "was_interrupted": call.status == CallStatus.INTERRUPTED
        or (call.interrupted_at is not None and call.reason != InterruptReason.NO_RESULT),
        "driver": decision_effect_texts.find_live_owner_run(call.session),
        "session_state": _get_session_state_shape_and_label(call.session),
        "waiting_run": decision_effect_texts.find_run_waiting_for_decision(call.session),
    }


def _get_session_state_shape_and_label(session: Session) -> tuple[str, str]:
    """Return the chip shape and label of the session: of an active one those of its page, which say if a run is alive.

    One query for an active session that no run owns.
    """
    if session.status != SessionStatus.ACTIVE:
        return get_status_shape_and_label(session.status)
    alive = decision_effect_texts.find_live_owner_run(session) is not None
    orphaned = not alive and (session.owner_id is not None or _was_last_run_lost(session))
    status = derive_session_display_status(
        session.status, alive=alive, orphaned=orphaned, quarantined=session.quarantined_at is not None
    )
    return get_session_status_shape_and_label(status, 0)


def _was_last_run_lost(session: Session) -> bool:
    statuses = Run.objects.filter(session=session.pk).order_by("-number").values_list("status", flat=True)
    return statuses.first() == RunStatus.LOST


def _build_final_decision_context(seen: _CallSeenByReader) -> dict[str, Any]:
    """Build the final decision, what it cites, whether it is used, and whether it can be or was withdrawn."""
    call, decision = seen.call, seen.decision
    withdrawal = _build_withdrawal_context(seen)
    return {
        "decision": decision,
        "resumed": _is_decision_used(call, decision),
        "is_left_unused": decision is not None and decision.created_at < clock.now() - _USUALLY_USED_WITHIN,
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
    has_answered = can_reader_only_wait_for_others(call, decisions, seen.agreements, seen.person)
    is_too_late = seen.reader.role == Role.APPROVER and not may_member_decide_call(call, seen.reader)
    last = find_last_own_decision_on_current_arguments(call, decisions, seen.person)
    has_changed = call.undecided and not is_too_late and last is not None and last.kind == DecisionKind.EDIT
    return {
        "agreements": seen.agreements,
        "may_approve_own_change": has_changed and call.approvals == 1 and call.status == CallStatus.AWAITING_APPROVAL,
        "agreed_before": list_earlier_agreeing_votes_of_others(decision, decisions, seen.votes)
        if decision and seen.votes
        else [],
        "overruled": [vote for vote, _person in seen.overruled],
        "own_votes": has_vote,
        "bulk_pk": _find_bulk_decision_pk(seen, last),
        "has_answered": has_answered,
        "waits_for_others": has_answered or has_vote or (call.undecided and is_too_late),
    }


def _find_bulk_decision_pk(seen: _CallSeenByReader, own: Decision | None) -> int | None:
    """Return the key of the bulk decision to which the final decision belongs, else that of the reader's `own` vote."""
    shown = seen.decision or own
    if shown is None or shown.actor_kind != ActorKind.PERSON:
        return None
    return load_keys_of_bulk_decisions([shown.pk]).get(shown.pk)


def _build_history_context(seen: _CallSeenByReader) -> dict[str, Any]:
    """Build what happened to the call, what people changed and wrote, and the conversation around it."""
    call, decision = seen.call, seen.decision
    events_of_runs = takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(
        call.session_id
    )
    no_events: list[CallHistoryEvent] = []
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
            lambda: load_conversation_up_to_call(call, decision.created_at if decision else call.settled_at),
            None,
        ),
        "comments": sorted(_select_comments_with_handover_note(call), key=attrgetter("pk")),
    }


def _select_comments_with_handover_note(call: ToolCall) -> Iterable[Comment]:
    """Select the comments on a call, with which of them is the note of its hand-over, also once it is decided."""
    handovers = Claim.objects.filter(call=OuterRef("call"), note=OuterRef("text"), handed_by=OuterRef("author"))
    return Comment.objects.filter(call=call.pk).annotate(is_note_of_handover=Exists(handovers))


def _list_events_with_runs_before_start(seen: _CallSeenByReader, events_of_runs: RunEvents) -> list[CallHistoryEvent]:
    call, evidence = seen.call, seen.evidence
    question = find_approval_request_of_decided_call_before_start(call, evidence, events_of_runs)
    runs = [] if question is None else decision_card_queries.load_runs_before_start(call, question.run_number)
    handovers = takeover_approval_verification_and_handover_events.load_handovers_of_call(
        call.session_id, call.call_id, call.step
    )
    return list_call_history_events(call, evidence, events_of_runs, seen.votes, handovers, runs)


def _find_request_of_final_decision(seen: _CallSeenByReader, events_of_runs: RunEvents) -> ProbeRequest | None:
    """Return the request for the verification that has decided the call, if it was one that somebody asked for."""
    if seen.decision is None:
        return None
    decisions = seen.evidence.decisions[: seen.evidence.decisions.index(seen.decision) + 1]
    return find_answered_request(decisions, events_of_runs.probes.get((seen.call.call_id, seen.call.step), []))


def _format_arguments_not_shown_elsewhere(call: ToolCall, decision: Decision | None) -> Any:
    """Return the arguments that the page lists.

    Of a question this is its value, without the text that the sentence shows. Its options are left out while they are
    answers to choose from, and listed by their labels afterwards, of which the `decision` has chosen one.
    """
    args = masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
    if not isinstance(args, dict):
        return args
    if not call.is_question or args.keys() != {"value"}:
        return args
    value = args["value"]
    chosen = find_question_choice_of_decision(call, decision)
    shown = (
        remove_listed_choices(call, value)
        if call.undecided
        else replace_question_options_by_their_texts(call, value, chosen)
    )
    return remove_sentence_from_question_args({"value": remove_requested_answer_type(shown)}, call.sentence)


def _is_decision_used(call: ToolCall, decision: Decision | None) -> bool:
    """Return True if the agent has used the decision."""
    ran = decision is not None and decision.kind == DecisionKind.APPROVE and call.status != CallStatus.APPROVED
    return ran or call.replay_count > 0


def _build_withdrawal_context(seen: _CallSeenByReader) -> dict[str, Any] | None:
    """Build whether the decision is used, what to do then, and whether others lose their votes with it.

    The result is None without a decision that could be withdrawn.
    """
    call, decision = seen.call, seen.decision
    if decision is None or decision.kind not in WITHDRAWABLE_KINDS:
        return None
    used = decision_withdrawal.has_run_used_decision(call, decision)
    return {
        "used": used,
        "advice": decision_effect_texts.advise_after_used_decision(decision.kind, is_question=call.is_question)
        if used
        else "",
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


def _build_argument_edit_differences_context(
    call: ToolCall, evidence: decision_card_queries.CallEvidence
) -> dict[str, Any] | None:
    """Build how the edited arguments differ from those of the model, warnings, and whether people can restore these.

    The result is None without an edit.
    """
    edits = [candidate for candidate in evidence.decisions if candidate.kind == DecisionKind.EDIT]
    if not edits:
        return None
    before = argument_edit_parsing_and_originals.load_arguments_before_edits(call)
    after = masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
    return {
        "last": edits[-1],
        "is_repeated": len(edits) > 1,
        "differences": list_value_differences(before, after, as_stored=True),
        "warnings": list_argument_warnings(before, after),
        "is_restorable": argument_edit_parsing_and_originals.load_original_arguments_to_restore_or_none(call)
        is not None
        and DecisionKind.EDIT in call.list_allowed_approval_decisions()
        and not call.session.finished,
    }


def build_decision_evidence_context(decision: Decision | None) -> dict[str, Any] | None:
    """Build the evidence of the decision: a safe `link`, a `text`, and the `rest` of the evidence."""
    if decision is None or decision.evidence is None:
        return None
    evidence = masked_formatting.parse_json_or_text(decision.evidence)
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
