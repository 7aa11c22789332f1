"""Labels of statuses, decisions and phases."""

from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import (
    CallStatus,
    DecisionKind,
    JoinStatus,
    PauseStatus,
    PeerCallStatus,
    Phase,
    RunStatus,
    SessionStatus,
)
from checkpoints.models.translated_enum_choices import build_choices

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
