"""Recording of one decision from a form of the review, with its file as evidence."""

from typing import Any

from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decide import record_decision
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import DecisionKind
from checkpoints.exceptions import CheckpointsError, InvalidInput, StaleRevision
from checkpoints.models import ToolCall
from checkpoints.store.database_client_state import Store
from harness_site.review import evidence_files
from harness_site.review.argument_edit_parsing_and_originals import load_original_arguments_to_restore_or_none
from harness_site.review.decision_options import find_answer_name_or_empty
from harness_site.review.forms import ApprovalForm, OutcomeForm
from harness_site.review.restore_masked_results import (
    restore_masked_result_or_refuse_mask,
    restore_masked_result_or_say_unknown,
)


def record_decision_from_form(store: Store, call: ToolCall, actor: Actor, form: OutcomeForm | ApprovalForm) -> None:
    """Record the decision of a valid form, with the uploaded file as evidence.

    Raises:
        CheckpointsError: From `checkpoints.decisions.decide.record_decision`; nothing was changed.
    """
    file = form.cleaned_data["file"]
    if not file:
        _record_decision_with_evidence(store, call, actor, form, form.build_evidence())
        return
    evidence_file = evidence_files.delete_orphans_and_store_evidence_file(call, file, given_by=actor.name)
    try:
        _record_decision_with_evidence(
            store,
            call,
            actor,
            form,
            {**form.build_evidence(), "file": evidence_files.build_evidence_reference(evidence_file)},
        )
    except CheckpointsError:
        evidence_file.delete()
        raise


def restore_original_arguments(store: Store, call: ToolCall, actor: Actor, *, revision: int, reason: str) -> None:
    """Record a change of the arguments back to those that the agent asked for, secrets included.

    Raises:
        StaleRevision: The call has changed since this `revision`, and has no changed arguments any more.
        InvalidInput: There is nothing to restore.
        CheckpointsError: From `checkpoints.decisions.decide.record_decision`; nothing was changed.
    """
    original = load_original_arguments_to_restore_or_none(call)
    target = build_decision_target(call, revision)
    if original is None and revision != call.revision:
        raise StaleRevision(target.session_id, target.call_id, revision, call.revision)
    if original is None:
        raise InvalidInput("The arguments of this call are the original ones, or these are not known.")
    record_decision(store, target, DecisionKind.EDIT, actor=actor, reason=reason, new_args=original)


def _record_decision_with_evidence(
    store: Store, call: ToolCall, actor: Actor, form: OutcomeForm | ApprovalForm, evidence: dict[str, Any]
) -> None:
    data = form.cleaned_data
    kind = DecisionKind(data["kind"])
    record_decision(
        store,
        build_decision_target(call, data["revision"]),
        kind,
        actor=actor,
        reason=data["reason"] or data.get("message") or _get_chosen_answer_or_empty(call, form),
        result=get_result_text_or_none(call, form),
        evidence=evidence or None,
        new_args=form.changed if kind == DecisionKind.EDIT and isinstance(form, ApprovalForm) else None,
    )


def _get_chosen_answer_or_empty(call: ToolCall, form: OutcomeForm | ApprovalForm) -> str:
    """Return what the person has read and chosen to answer a question, which needs no other reason.

    The agent gets the value of an option, which may be a code, or true or false for yes or no.
    """
    if isinstance(form, ApprovalForm) and form.choice is not None:
        return form.choice.stored_label
    kind = form.cleaned_data["kind"]
    is_yes_or_no = call.is_question and kind in {DecisionKind.APPROVE, DecisionKind.REJECT}
    return find_answer_name_or_empty(call, kind) if is_yes_or_no else ""


def get_result_text_or_none(call: ToolCall, form: OutcomeForm | ApprovalForm) -> str | None:
    """Return the text that the agent gets as the result of the call, or None if the decision has none."""
    data = form.cleaned_data
    if isinstance(form, ApprovalForm) and form.choice is not None:
        return form.choice.answer
    match data["kind"]:
        case DecisionKind.CONFIRM_LANDED:
            return restore_masked_result_or_say_unknown(call, data["result"])
        case DecisionKind.REJECT:
            return str(data["message"])
        case DecisionKind.RESPOND:
            return restore_masked_result_or_refuse_mask(call, data["answer"])
    return None


def build_decision_target(call: ToolCall, revision: int) -> DecisionTarget:
    """Build the decision target for this `revision` of the call."""
    return DecisionTarget(call.session.session_id, call.call_id, revision, call.step, call.attempt)
