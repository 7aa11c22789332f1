"""Labels and sentences for statuses, decisions, phases, reasons and idempotency policies."""

from typing import Any, Final, Protocol

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import (
    CallStatus,
    DecisionKind,
    InterruptReason,
    JoinStatus,
    KeyPolicy,
    KeyScope,
    PauseStatus,
    PeerCallStatus,
    Phase,
    Risk,
    RunStatus,
    SessionStatus,
    SideEffect,
    get_default_risk,
)
from checkpoints.models import ToolCall
from checkpoints.models.translated_enum_choices import build_choices
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

#: Risk → the reason of a call whose tool declares it.
_DECLARED_RISKS: Final[dict[str, str | Promise]] = {
    Risk.HIGH: _("Its tool declares that a mistake costs more than usual."),
    Risk.MEDIUM: _("Its tool declares this risk."),
    Risk.LOW: _("Its tool declares that a mistake costs less than usual."),
}
#: Definition of equal operations by the key policy of the tool: in a session, and in a workspace.
SAME_OPERATION: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    KeyPolicy.ONCE: (
        _("The same tool with the same arguments runs once in this session. A second call gets this result."),
        _("The same tool with the same arguments runs once in this workspace. A second call gets this result."),
    ),
    KeyPolicy.UNANSWERED: 2
    * (
        _(
            "The same tool with the same arguments is this operation until a saved version has its result. "
            "A call after that runs again."
        ),
    ),
    KeyPolicy.CALL: 2
    * (_("Each call is an operation of its own. Only the same call id in the same step gets this result."),),
    KeyPolicy.FUNCTION: (
        _("A function of the tool decides which calls in this session are the same and get this result."),
        _("A function of the tool decides which calls in this workspace are the same and get this result."),
    ),
    KeyPolicy.STEP: 2 * (_("This is a step of a workflow. It runs once."),),
    "": 2
    * (
        _(
            "The agent’s program chose the idempotency key of this call. "
            "Another call with the same key gets this result."
        ),
    ),
}


#: Status → (chip shape, label). Unknown outcomes always have the hatched shape.
STATES: Final[dict[str, tuple[str, str | Promise]]] = {
    SessionStatus.ACTIVE: ("run", _("Active")),
    SessionStatus.NEEDS_REVIEW: ("unknown", _("Needs a decision")),
    SessionStatus.READY: ("run", _("Ready to resume")),
    SessionStatus.PAUSED: ("wait", _("Paused")),
    SessionStatus.COMPLETED: ("ok", _("Completed")),
    SessionStatus.FAILED: ("bad", _("Failed")),
    SessionStatus.CANCELLED: ("off", _("Cancelled")),
    RunStatus.RUNNING: ("run", _("Running")),
    RunStatus.WAITING: ("wait", _("Waiting for a decision")),
    RunStatus.RELEASED: ("off", _("Released")),
    RunStatus.LOST: ("bad", _("Lost")),
    CallStatus.AWAITING_APPROVAL: ("wait", _("Awaiting approval")),
    CallStatus.APPROVED: ("run", _("Approved, not yet run")),
    CallStatus.ISSUED: ("run", _("Running")),
    CallStatus.INTERRUPTED: ("unknown", _("Outcome unknown")),
    CallStatus.RERUN_APPROVED: ("run", _("One more run approved")),
    CallStatus.REJECTED: ("bad", _("Rejected")),
    CallStatus.SUPERSEDED: ("off", _("Run again")),
    CallStatus.DISCARDED: ("off", _("Discarded")),
    PauseStatus.TAKEN: ("run", _("Taken by a run")),
    PauseStatus.OVER: ("off", _("Resumed")),
    JoinStatus.COMPLETE: ("ok", _("Complete")),
    JoinStatus.USED: ("ok", _("Complete, used")),
    PeerCallStatus.ANSWERED: ("ok", _("Answered")),
    PeerCallStatus.EXPIRED: ("bad", _("No answer in time")),
    DecisionKind.CONFIRM_LANDED: ("ok", _("It happened")),
    DecisionKind.MARK_FAILED: ("off", _("It did not happen")),
    DecisionKind.APPROVE_RERUN: ("wait", _("One more run approved")),
    DecisionKind.APPROVE: ("ok", _("Approved")),
    DecisionKind.EDIT: ("wait", _("Arguments changed")),
    DecisionKind.REJECT: ("bad", _("Rejected")),
    DecisionKind.RESPOND: ("ok", _("Responded instead")),
    DecisionKind.PROBE_LANDED: ("ok", _("Tool’s own check: it happened")),
    DecisionKind.PROBE_NOT_LANDED: ("off", _("Tool’s own check: it did not happen")),
    DecisionKind.PROBE_UNKNOWN: ("unknown", _("Tool’s own check: outcome still unknown")),
    DecisionKind.DISCARD: ("off", _("Discarded")),
    DecisionKind.WITHDRAW: ("off", _("Decision withdrawn")),
}


#: Decision about a question → CSS class of its shape, and label; others are as for a call.
QUESTION_ANSWERS: Final[dict[str, tuple[str, str | Promise]]] = {
    DecisionKind.APPROVE: ("ok", _("Answered yes")),
    DecisionKind.REJECT: ("bad", _("Answered no")),
    DecisionKind.EDIT: ("wait", _("Value changed")),
    DecisionKind.RESPOND: ("ok", _("Answered")),
}


#: Decision that lets a call run or wait again, and status of the call → what has become of it since.
_RUN_SINCE: Final[dict[tuple[str, str], str | Promise]] = {
    (DecisionKind.APPROVE, CallStatus.APPROVED): _("Not run yet"),
    (DecisionKind.APPROVE, CallStatus.ISSUED): _("Running"),
    (DecisionKind.APPROVE, CallStatus.COMPLETED): _("Has run"),
    (DecisionKind.APPROVE, CallStatus.FAILED): _("Ran and failed"),
    (DecisionKind.APPROVE_RERUN, CallStatus.RERUN_APPROVED): _("Not run again yet"),
    (DecisionKind.APPROVE_RERUN, CallStatus.SUPERSEDED): _("Run again"),
    (DecisionKind.APPROVE_RERUN, CallStatus.ISSUED): _("Running"),
    (DecisionKind.APPROVE_RERUN, CallStatus.COMPLETED): _("Has run"),
    (DecisionKind.APPROVE_RERUN, CallStatus.FAILED): _("Ran and failed"),
    (DecisionKind.APPROVE_RERUN, CallStatus.INTERRUPTED): _("Ran, outcome unknown"),
    (DecisionKind.EDIT, CallStatus.AWAITING_APPROVAL): _("Waits again"),
    (DecisionKind.WITHDRAW, CallStatus.AWAITING_APPROVAL): _("Waits again"),
    (DecisionKind.WITHDRAW, CallStatus.INTERRUPTED): _("Waits again"),
}


#: Statuses of calls that run next, unless their session has ended.
_LET_RUN_STATUSES: Final = frozenset({CallStatus.APPROVED, CallStatus.RERUN_APPROVED})


#: Decision → verb after the name of the person.
_DID: Final[dict[str, str | Promise]] = {
    DecisionKind.CONFIRM_LANDED: _("confirmed that it happened"),
    DecisionKind.MARK_FAILED: _("recorded that it did not happen"),
    DecisionKind.APPROVE_RERUN: _("approved one more run"),
    DecisionKind.APPROVE: _("approved"),
    DecisionKind.EDIT: _("changed the arguments"),
    DecisionKind.REJECT: _("rejected it"),
    DecisionKind.RESPOND: _("responded instead"),
    DecisionKind.WITHDRAW: _("withdrew the decision"),
    DecisionKind.PROBE_LANDED: _("found that it happened"),
    DecisionKind.PROBE_NOT_LANDED: _("found that it did not happen"),
}


#: Decision about a question → verb after the name of the person; others are as for a call.
_DID_ABOUT_QUESTION: Final[dict[str, str | Promise]] = {
    DecisionKind.APPROVE: _("answered yes"),
    DecisionKind.EDIT: _("changed the value"),
    DecisionKind.REJECT: _("answered no"),
    DecisionKind.RESPOND: pgettext_lazy("verb after a name", "answered"),
}


#: Decision → sentence about it. `%(name)s` is the person, `%(time)s` the time of day.
_DECIDED_AT: Final[dict[str, str | Promise]] = {
    DecisionKind.CONFIRM_LANDED: _("%(name)s confirmed at %(time)s that it happened"),
    DecisionKind.MARK_FAILED: _("%(name)s recorded at %(time)s that it did not happen"),
    DecisionKind.APPROVE_RERUN: _("%(name)s approved one more run at %(time)s"),
    DecisionKind.APPROVE: _("%(name)s approved at %(time)s"),
    DecisionKind.RESPOND: _("%(name)s responded instead at %(time)s"),
    DecisionKind.EDIT: _("%(name)s changed the arguments at %(time)s"),
    DecisionKind.WITHDRAW: _("%(name)s withdrew a decision at %(time)s"),
}


#: Decision about a question → sentence about it; others are as for a call.
_ANSWERED_AT: Final[dict[str, str | Promise]] = {
    DecisionKind.APPROVE: _("%(name)s answered yes at %(time)s"),
    DecisionKind.RESPOND: _("%(name)s answered at %(time)s"),
    DecisionKind.EDIT: _("%(name)s changed the value at %(time)s"),
}


_PHASES: Final[dict[str, Any]] = dict(build_choices(Phase))


_WHY: Final[dict[str, str | Promise]] = {
    InterruptReason.RUN_LOST: _("The process ended during this call"),
    InterruptReason.AMBIGUOUS_ERROR: _("The tool failed and may still have done it"),
    InterruptReason.CANCELLED: _("The call was cancelled while it ran"),
    InterruptReason.ABANDONED: _("The run continued without recording the outcome"),
    InterruptReason.FORKED: _("The outcome was unknown when the session was forked"),
    InterruptReason.UNREADABLE: _("The record of the call cannot be read"),
    InterruptReason.NO_RESULT: _("The imported transcript has no result of the call"),
}


class KeyedCall(Protocol):
    """A call with the policy and the scope of its idempotency key."""

    @property
    def key_policy(self) -> str: ...

    @property
    def key_scope(self) -> str: ...


def get_status_shape_and_label(value: str) -> tuple[str, str]:
    """Return the chip shape and label of a status or decision; unknown values of newer versions are returned as is."""
    shape, label = STATES.get(value, ("off", value.replace("_", " ").capitalize()))
    return shape, str(label)


def get_call_status_shape_and_label(status: str, *, is_question: bool, final_kind: str | None) -> tuple[str, str]:
    """Return the chip shape and label of a call.

    A call whose result a person gave has that of the decision, because its tool never ran.

    Args:
        status: Status of the call.
        is_question: Whether a framework asks for a value.
        final_kind: Kind of the last final decision about the call; None if nobody has decided.
    """
    if status == CallStatus.COMPLETED and (is_question or final_kind == DecisionKind.RESPOND):
        return get_decision_shape_and_label(DecisionKind.RESPOND, about_question=is_question, about_changed_value=False)
    if status == CallStatus.DISCARDED and is_question:
        return get_status_shape_and_label(status)[0], gettext("Withdrawn")
    shape, label = get_status_shape_and_label(status)
    return shape, gettext("Awaiting answer") if is_question and status == CallStatus.AWAITING_APPROVAL else label


def find_shape_and_label_of_run_since_decision(
    status: str, *, final_kind: str, is_session_finished: bool
) -> tuple[str, str] | None:
    """Return the chip shape and label of whether a call has run since `final_kind` let it run, or waits again since a
    decision was withdrawn or its arguments were changed; None if neither.

    Args:
        status: Status of the call, or that of its next attempt if it ran once more.
        final_kind: Kind of the final decision.
        is_session_finished: Whether the session of the call has ended.
    """
    label = _RUN_SINCE.get((final_kind, status))
    if is_session_finished and status in _LET_RUN_STATUSES and label is not None:
        return "wait", gettext("Will not run")
    return None if label is None else (get_status_shape_and_label(status)[0], str(label))


def get_decision_shape_and_label(kind: str, *, about_question: bool, about_changed_value: bool) -> tuple[str, str]:
    """Return the chip shape and label of a decision about a call, or about a question and its changed value."""
    if not about_question or (about_changed_value and kind == DecisionKind.APPROVE):
        return get_status_shape_and_label(kind)
    shape, label = QUESTION_ANSWERS.get(kind) or get_status_shape_and_label(kind)
    return shape, str(label)


def format_vote_label(kind: str, label: str, needed: int) -> str:
    """Return the label of a decision with which more of the `needed` people have to agree; `label` is that of its
    kind."""
    if kind == DecisionKind.WITHDRAW:
        return gettext("Own decision withdrawn")
    return gettext("%(decision)s · one of %(needed)s") % {"decision": label, "needed": needed}


def format_phase(value: str) -> str:
    """Return the label of the phase of a version; unknown values of newer versions are returned as is."""
    return str(_PHASES.get(value, value))


def format_decision_verb(decision: str, about_question: bool = False) -> str:
    """Return the verb of a decision about a call or a question, to follow the name of the person."""
    verb = (_DID_ABOUT_QUESTION.get(decision) if about_question else None) or _DID.get(decision)
    return (
        str(verb) if verb else gettext("decided: %(decision)s") % {"decision": get_status_shape_and_label(decision)[1]}
    )


def get_decision_sentence_template(decision: str, about_question: bool = False) -> str:
    """Return the sentence about a decision, with the placeholders `%(name)s` and `%(time)s`."""
    sentence = (_ANSWERED_AT if about_question else {}).get(decision) or _DECIDED_AT.get(decision)
    return str(sentence) if sentence else gettext("%(name)s decided at %(time)s")


def format_unknown_outcome_reason(reason: str, *, verifiable: bool, hook_could_not_tell: bool = False) -> str:
    """Explain why the outcome of a call is unknown, and whether a verify hook of its tool may tell or could not."""
    how = explain_verify_hook_ability(verifiable, hook_could_not_tell=hook_could_not_tell)
    return f"{format_interrupt_reason(reason)} · {how}"


def format_interrupt_reason(reason: str) -> str:
    """Explain why the outcome of a call is unknown."""
    return str(_WHY.get(reason, gettext("The reason is unknown")))


def describe_interruption(reason: str, error_type: str) -> str:
    """Explain why the outcome of a call is unknown, with the type of the error that its tool raised, if there is
    one."""
    if reason != InterruptReason.AMBIGUOUS_ERROR or not error_type:
        return format_interrupt_reason(reason)
    sentence = gettext("The tool failed with %(error)s and may still have done it")
    return sentence % {"error": mask_and_reveal_hidden(error_type)}


def explain_verify_hook_ability(verifiable: bool, *, hook_could_not_tell: bool) -> str:
    """Say whether a verify hook of the tool may tell the outcome of a call, or could not."""
    if hook_could_not_tell:
        return gettext("The tool’s own check could not tell")
    return gettext("The tool can check it") if verifiable else gettext("The tool cannot check it")


def describe_idempotency_rule(policy: str, scope: str) -> str:
    """Explain which calls are the same operation, by the key policy and its scope."""
    sentences = SAME_OPERATION.get(policy)
    return str(sentences[scope == KeyScope.WORKSPACE]) if sentences else mask_and_reveal_hidden(policy)


def find_unusual_risk(call: ToolCall) -> Risk | None:
    """Return the risk of a call if its tool declares another than its side effects mean.

    The usual one distinguishes no call from the others. A question has none.
    """
    is_usual = call.risk == get_default_risk(call.side_effects.split(","))
    return None if call.is_question or is_usual or call.risk not in Risk.values else Risk(call.risk)


def explain_declared_risk(risk: str) -> str:
    """Explain a risk that a tool declares."""
    return str(_DECLARED_RISKS[risk])


def describe_tool_effect(call: ToolCall) -> str:
    """Describe what the tool of a call may do: change, write or only read. Empty for questions and imported calls."""
    if call.is_question or call.is_imported:
        return ""
    effects = call.side_effects.split(",")
    if SideEffect.MUTATE in effects:
        return gettext("its tool changes or deletes something outside of the session")
    return gettext("its tool writes something new") if SideEffect.WRITE in effects else gettext("its tool only reads")
