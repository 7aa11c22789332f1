from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.enums import DecisionKind
from checkpoints.models import ToolCall
from checkpoints.resuming.actors import Actor
from harness_site.review.forms import DecisionForm


def record(checkpointer: SyncCheckpointer, call: ToolCall, actor: Actor, form: DecisionForm) -> None:
    """Record the decision of a valid form. Raises what the library's decisions raise; then nothing was changed."""
    place = (call.session.session_id, call.call_id)
    seen = {"revision": form.cleaned_data["revision"], "step": call.step, "attempt": call.attempt}
    kind, reason, evidence = form.cleaned_data["kind"], form.cleaned_data["reason"], form.cited()
    if kind == DecisionKind.CONFIRM_LANDED:
        result = form.cleaned_data["result"]
        checkpointer.confirm_landed(*place, result, actor=actor, reason=reason, evidence=evidence, **seen)
    elif kind == DecisionKind.MARK_FAILED:
        checkpointer.mark_failed(*place, actor=actor, reason=reason, evidence=evidence, **seen)
    else:
        # A re-run is approved on a reason alone; what was cited for it becomes part of the reason.
        cited = form.cleaned_data["evidence"]
        checkpointer.approve_rerun(*place, actor=actor, reason=f"{reason}\n{cited}" if cited else reason, **seen)
