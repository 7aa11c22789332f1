"""Why a decision was not recorded, as the card says it: what happened, what became of it, what to do now."""

from dataclasses import dataclass

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
from checkpoints.resuming.decisions import RULES
from harness_site import wording
from harness_site.rendering.text import visible

NOTHING = "Your decision was not recorded."


@dataclass(frozen=True, slots=True)
class Problem:
    """`status` is the HTTP status it is answered with."""

    status: int
    what: str
    todo: str


def problem(error: CheckpointsError, call: ToolCall, *, nothing: str = NOTHING) -> Problem:
    """The words for an error of the library about `call` as it stands now; `nothing` says what did not happen."""
    if isinstance(error, AlreadyDecided):
        since = _since_then(call)
        return Problem(
            409,
            f"{error.by} decided this first, at {wording.exact(error.at)}: {error.kind.lower()}.{since}",
            f"{nothing} Nothing was changed. What was decided stands beside this; if you know better, tell them.",
        )
    if isinstance(error, StaleRevision):
        return Problem(
            409,
            f"{_news(call, error.given)} (Revision {error.given}, now {error.current}.)",
            f"{nothing} Look at what is known once more; what you typed is still in the form, and sending it again "
            "decides on what you see now.",
        )
    if isinstance(error, NotUndecided):
        what = f"This call is not open for a decision: it is {wording.state(error.status)[1].lower()}."
        return Problem(409, what + _since_then(call), f"{nothing} Nothing was changed.")
    if isinstance(error, DecisionExpired):
        return Problem(
            409,
            f"The time to decide ended at {wording.exact(error.deadline)}; nobody has decided about it since.",
            f"{nothing} It has been escalated: an admin has to decide. Nothing runs until then.",
        )
    if isinstance(error, SecondPersonRequired):
        return Problem(
            409,
            f"You have decided so already, {visible(error.actor)}: this takes {call.approvals} different people.",
            "Your first decision stands and counts once. Somebody else has to agree.",
        )
    if isinstance(error, EditorMayNotApprove):
        return Problem(
            409,
            f"You have changed these arguments, {visible(error.actor)}: this takes {call.approvals} other people.",
            "Your change stands. People who have not changed the arguments have to approve them.",
        )
    if isinstance(error, NotPermitted):
        return Problem(403, error.detail, error.hint)
    status = 422 if isinstance(error, InvalidInput) else 503 if isinstance(error, StorageError) else 409
    return Problem(status, error.detail, error.hint)


def over(call: ToolCall, kind: str) -> Problem | None:
    """Why there is no sense in letting a call run: its session has ended. None where it can still run."""
    session = call.session
    if not session.finished or not RULES[DecisionKind(kind)].goes_on:
        return None
    return Problem(
        409,
        f"The session was {_ended(session)}. It does not go on, so nothing can run in it any more.",
        f"{NOTHING} To take the call off the list, "
        + ("reject it." if call.status == CallStatus.AWAITING_APPROVAL else "record whether it happened."),
    )


def _ended(session: Session) -> str:
    event = AuditEvent.objects.filter(session=session, kind=AuditKind.SESSION_FINISHED).order_by("-pk").first()
    if event is None:
        return session.get_status_display().lower()
    return f"{session.get_status_display().lower()} by {visible(event.actor)} at {wording.exact(event.created_at)}"


def _news(call: ToolCall, since: int) -> str:
    """What was recorded about a call since that revision of it."""
    made = Decision.objects.filter(tool_call=call, revision__gte=since).order_by("-pk").first()
    if made is None:
        taker = _taker(call) if call.status == CallStatus.INTERRUPTED else None
        if taker is not None and call.interrupted_at is not None:
            return _taken_over(taker, call)
        return "Something new was recorded about this call while you were deciding."
    others = "" if made.final else f", as one of {call.approvals} who have to agree"
    return f"{visible(made.actor)} {wording.did(made.kind)} at {wording.exact(made.created_at)}{others}."


def _since_then(call: ToolCall) -> str:
    """What has become of a call that was decided and then lost with its run."""
    taker = _taker(call) if call.status == CallStatus.INTERRUPTED else None
    return "" if taker is None else f" {_taken_over(taker, call)}"


def _taker(call: ToolCall) -> Run | None:
    after = Run.objects.filter(session=call.session_id, number__gt=call.run.number)
    return after.exclude(status=RunStatus.RELEASED).order_by("number").first()


def _taken_over(run: Run, call: ToolCall) -> str:
    return (
        f"Run {run.number} on {visible(run.host)} took the session over from run {call.run.number} at "
        f"{wording.exact(run.started_at)}, while the call was under way: nobody knows whether it happened."
    )
