"""Error texts of the decision card: what happened, and what to do."""

from dataclasses import dataclass

from checkpoints.decisions.decide import RULES
from checkpoints.enums import AuditKind, CallStatus, DecisionKind, RunStatus
from checkpoints.exceptions import (
    AlreadyDecided,
    CheckpointsError,
    DecisionExpired,
    EditorMayNotApprove,
    InvalidInput,
    NotPermitted,
    NotUndecided,
    SecondPersonRequired,
    StaleRevision,
    StorageError,
)
from checkpoints.models import AuditEvent, Decision, Run, Session, ToolCall
from harness_site.core import formatting
from harness_site.core.rendering.display_text import mask_and_reveal_hidden

NOTHING = "Your decision was not recorded."


@dataclass(frozen=True, slots=True)
class DecisionProblem:
    """Problem with a decision; `status` is the HTTP status of the response."""

    status: int
    what: str
    todo: str


def describe_decision_error(error: CheckpointsError, call: ToolCall, *, nothing: str = NOTHING) -> DecisionProblem:
    """Describe an error of the library about the current state of `call`; `nothing` says what was not done."""
    if isinstance(error, AlreadyDecided):
        since = _describe_lost_again(call)
        return DecisionProblem(
            409,
            f"{error.by} decided this first, at {formatting.format_exact_time(error.at)}: {error.kind.lower()}.{since}",
            f"{nothing} Nothing was changed. What was decided stands beside this; if you know better, tell them.",
        )
    if isinstance(error, StaleRevision):
        return DecisionProblem(
            409,
            f"{_describe_changes_since(call, error.given)} (Revision {error.given}, now {error.current}.)",
            f"{nothing} Look at what is known once more; what you typed is still in the form, and sending it again "
            "decides on what you see now.",
        )
    if isinstance(error, NotUndecided):
        message = (
            f"This call is not open for a decision: it is {formatting.format_status_chip(error.status)[1].lower()}."
        )
        return DecisionProblem(409, message + _describe_lost_again(call), f"{nothing} Nothing was changed.")
    if isinstance(error, DecisionExpired):
        return DecisionProblem(
            409,
            f"The time to decide ended at {formatting.format_exact_time(error.deadline)}; nobody has "
            "decided about it since.",
            f"{nothing} It has been escalated: an admin has to decide. Nothing runs until then.",
        )
    if isinstance(error, SecondPersonRequired):
        return DecisionProblem(
            409,
            f"You have decided so already, {mask_and_reveal_hidden(error.actor)}: this takes "
            f"{call.approvals} different people.",
            "Your first decision stands and counts once. Somebody else has to agree.",
        )
    if isinstance(error, EditorMayNotApprove):
        return DecisionProblem(
            409,
            f"You have changed these arguments, {mask_and_reveal_hidden(error.actor)}: this takes "
            f"{call.approvals} other people.",
            "Your change stands. People who have not changed the arguments have to approve them.",
        )
    if isinstance(error, NotPermitted):
        return DecisionProblem(403, error.detail, error.hint)
    status = 422 if isinstance(error, InvalidInput) else 503 if isinstance(error, StorageError) else 409
    return DecisionProblem(status, error.detail, error.hint)


def get_session_ended_problem(call: ToolCall, kind: str) -> DecisionProblem | None:
    """Return the problem with a decision that would run a call of an ended session, or None if it can still run."""
    session = call.session
    if not session.finished or not RULES[DecisionKind(kind)].goes_on:
        return None
    return DecisionProblem(
        409,
        f"The session was {_format_session_ended(session)}. It does not go on, so nothing can run in it any more.",
        f"{NOTHING} To take the call off the list, "
        + ("reject it." if call.status == CallStatus.AWAITING_APPROVAL else "record whether it happened."),
    )


def _format_session_ended(session: Session) -> str:
    event = AuditEvent.objects.filter(session=session, kind=AuditKind.SESSION_FINISHED).order_by("-pk").first()
    if event is None:
        return session.get_status_display().lower()
    return (
        f"{session.get_status_display().lower()} by {mask_and_reveal_hidden(event.actor)} at "
        f"{formatting.format_exact_time(event.created_at)}"
    )


def _describe_changes_since(call: ToolCall, since: int) -> str:
    """Describe what was recorded about a call since that revision."""
    decision = Decision.objects.filter(tool_call=call, revision__gte=since).order_by("-pk").first()
    if decision is None:
        takeover_run = _find_takeover_run(call) if call.status == CallStatus.INTERRUPTED else None
        if takeover_run is not None and call.interrupted_at is not None:
            return _format_takeover(takeover_run, call)
        return "Something new was recorded about this call while you were deciding."
    others = "" if decision.final else f", as one of {call.approvals} who have to agree"
    return (
        f"{mask_and_reveal_hidden(decision.actor)} {formatting.format_decision_verb(decision.kind)} at "
        f"{formatting.format_exact_time(decision.created_at)}{others}."
    )


def _describe_lost_again(call: ToolCall) -> str:
    """Describe the takeover of a call that was decided and then interrupted again; empty if there was none."""
    takeover_run = _find_takeover_run(call) if call.status == CallStatus.INTERRUPTED else None
    return "" if takeover_run is None else f" {_format_takeover(takeover_run, call)}"


def _find_takeover_run(call: ToolCall) -> Run | None:
    later_runs = Run.objects.filter(session=call.session_id, number__gt=call.run.number)
    return later_runs.exclude(status=RunStatus.RELEASED).order_by("number").first()


def _format_takeover(run: Run, call: ToolCall) -> str:
    return (
        f"Run {run.number} on {mask_and_reveal_hidden(run.host)} took the session over from run {call.run.number} at "
        f"{formatting.format_exact_time(run.started_at)}, while the call was under way: nobody knows "
        "whether it happened."
    )
