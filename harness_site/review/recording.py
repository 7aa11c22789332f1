from typing import Any

from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.enums import DecisionKind
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import ToolCall
from checkpoints.resuming.actors import Actor
from harness_site.review import evidence
from harness_site.review.forms import ApprovalForm, OutcomeForm
from harness_site.review.unmasked import meant


def record(checkpointer: SyncCheckpointer, call: ToolCall, actor: Actor, form: OutcomeForm | ApprovalForm) -> None:
    """Record the decision of a valid form. Raises what the library's decisions raise; then nothing was changed."""
    file = form.cleaned_data["file"]
    if not file:
        _record(checkpointer, call, actor, form, form.cited())
        return
    kept = evidence.keep(call, file, given_by=actor.name)
    try:
        _record(checkpointer, call, actor, form, {**form.cited(), "file": evidence.cited(kept)})
    except CheckpointsError:
        kept.delete()
        raise


def _record(
    checkpointer: SyncCheckpointer,
    call: ToolCall,
    actor: Actor,
    form: OutcomeForm | ApprovalForm,
    cited: dict[str, Any],
) -> None:
    given = form.cleaned_data
    said: dict[str, Any] = {
        "session_id": call.session.session_id,
        "call_id": call.call_id,
        "step": call.step,
        "attempt": call.attempt,
        "revision": given["revision"],
        "actor": actor,
        "reason": given["reason"],
        "evidence": cited or None,
    }
    match given["kind"]:
        case DecisionKind.CONFIRM_LANDED:
            checkpointer.confirm_landed(result_text=meant(call, given["result"]), **said)
        case DecisionKind.MARK_FAILED:
            checkpointer.mark_failed(**said)
        case DecisionKind.APPROVE_RERUN:
            checkpointer.approve_rerun(**said)
        case DecisionKind.APPROVE:
            checkpointer.approve_call(**said)
        case DecisionKind.EDIT if isinstance(form, ApprovalForm):
            checkpointer.edit_call(new_args=form.changed, **said)
        case DecisionKind.REJECT:
            checkpointer.reject_call(message=given["message"], **said)
        case DecisionKind.RESPOND:
            checkpointer.respond_call(message=meant(call, given["answer"]), **said)
