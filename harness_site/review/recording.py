"""Record what the forms of the review pages say about a call."""

from typing import Any

from checkpoints.enums import DecisionKind
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import ToolCall
from checkpoints.resuming.actors import Actor
from checkpoints.resuming.decisions import Target, decide
from checkpoints.saving.store import Store
from harness_site.review import evidence
from harness_site.review.forms import ApprovalForm, OutcomeForm
from harness_site.review.unmasked import meant


def record_decision(store: Store, call: ToolCall, actor: Actor, form: OutcomeForm | ApprovalForm) -> None:
    """Record the decision of a valid form, with the file that came along as evidence.

    Raises:
        CheckpointsError: What `checkpoints.resuming.decisions.decide` raises; then nothing was changed.
    """
    file = form.cleaned_data["file"]
    if not file:
        _record_decision(store, call, actor, form, form.cited())
        return
    kept = evidence.keep(call, file, given_by=actor.name)
    try:
        _record_decision(store, call, actor, form, {**form.cited(), "file": evidence.cited(kept)})
    except CheckpointsError:
        kept.delete()
        raise


def _record_decision(
    store: Store, call: ToolCall, actor: Actor, form: OutcomeForm | ApprovalForm, cited: dict[str, Any]
) -> None:
    given = form.cleaned_data
    kind = DecisionKind(given["kind"])
    decide(
        store,
        call_target(call, given["revision"]),
        kind,
        actor=actor,
        reason=given["reason"],
        result=_result(call, given),
        evidence=cited or None,
        new_args=form.changed if kind == DecisionKind.EDIT and isinstance(form, ApprovalForm) else None,
    )


def _result(call: ToolCall, given: dict[str, Any]) -> str | None:
    """The text that the agent gets as the call's answer, where the decision has one."""
    match given["kind"]:
        case DecisionKind.CONFIRM_LANDED:
            return meant(call, given["result"])
        case DecisionKind.REJECT:
            return str(given["message"])
        case DecisionKind.RESPOND:
            return meant(call, given["answer"])
    return None


def call_target(call: ToolCall, revision: int) -> Target:
    """The call as the target of a decision that was made on its `revision`."""
    return Target(call.session.session_id, call.call_id, revision, call.step, call.attempt)
