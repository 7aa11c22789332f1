"""Error texts of the decision card: what happened, and what to do."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.db import clock
from checkpoints.decisions import decision_withdrawal
from checkpoints.decisions.decide import RULES
from checkpoints.enums import WITHDRAWABLE_KINDS, ActorKind, AuditKind, CallStatus, DecisionKind, RunStatus
from checkpoints.exceptions import (
    AlreadyDecided,
    CheckpointsError,
    DecisionExpired,
    DecisionNotAccepted,
    DecisionUsed,
    EditorMayNotApprove,
    InvalidInput,
    NothingToWithdraw,
    NotPermitted,
    NotUndecided,
    SecondPersonRequired,
    StaleRevision,
    StorageError,
)
from checkpoints.models import AuditEvent, Decision, Run, Session, ToolCall
from harness_site.core import formatting, status_and_decision_labels
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.review.decision_effect_texts import advise_after_used_decision
from harness_site.review.decision_options import APPROVALS
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import ProbeRequest

#: Decisions that are the same without a look at the text for the agent.
_SAME_WITHOUT_RESULT: Final = frozenset(
    {DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.APPROVE_RERUN, DecisionKind.MARK_FAILED}
)
#: Answer of a person that says the same as that of a verify hook.
_ANSWER_OF_PERSON: Final = {
    DecisionKind.PROBE_LANDED: DecisionKind.CONFIRM_LANDED,
    DecisionKind.PROBE_NOT_LANDED: DecisionKind.MARK_FAILED,
}
#: Sentence that says what was not done.
NOTHING: Final = gettext_lazy("Your decision was not recorded.")


@dataclass(frozen=True, slots=True)
class DecisionProblem:
    """Problem with a decision; `status` is the HTTP status of the response.

    `is_agreement` is True if nothing is wrong: the same decision is recorded already, or a verification has found what
    happened before the reader sent an answer.
    """

    status: int
    what: str
    todo: str
    is_agreement: bool = False


def build_decision_problem(
    error: CheckpointsError, call: ToolCall, *, reader: str, nothing: str | Promise = NOTHING
) -> DecisionProblem:
    """Describe an error of the library about the current state of `call` to the user `reader`.

    `nothing` says what was not done.
    """
    if isinstance(error, AlreadyDecided):
        return _build_already_decided_problem(error, call, reader=reader, nothing=nothing)
    if isinstance(error, DecisionUsed):
        return _build_used_decision_problem(error, call)
    if isinstance(error, NothingToWithdraw):
        return _build_conflict_problem(
            _("There is no decision of a person about this call that you could withdraw."),
            _("Nothing was changed. Reload the page."),
        )
    if isinstance(error, StaleRevision):
        todo = _("Your text is still in the form. Check what is new, then send it again.")
        return _build_conflict_problem(_describe_last_change_since_revision(call, error.given), f"{nothing} {todo}")
    if isinstance(error, NotUndecided):
        what = _("This call does not need a decision: {status}.").format(
            status=status_and_decision_labels.get_status_shape_and_label(error.status)[1].lower()
        )
        return _build_conflict_problem(f"{what}{_describe_later_interruption(call)}", str(nothing))
    if isinstance(error, DecisionNotAccepted):
        names = [str(answer.name) for answer in APPROVALS if answer.kind in error.allowed]
        what = _("The agent accepts these answers about this call: {answers}.").format(answers=", ".join(names))
        return _build_conflict_problem(what, str(nothing))
    if isinstance(error, DecisionExpired):
        what = _("The deadline passed at {time}.").format(
            time=formatting.format_iso_date_and_time_with_zone(error.deadline)
        )
        todo = _("Only an admin can decide now. Nothing runs until then.")
        return _build_conflict_problem(what, f"{nothing} {todo}")
    if isinstance(error, SecondPersonRequired | EditorMayNotApprove):
        return _build_another_person_required_problem(error, call)
    if isinstance(error, NotPermitted):
        return DecisionProblem(403, error.detail, error.hint)
    status = 422 if isinstance(error, InvalidInput) else 503 if isinstance(error, StorageError) else 409
    return DecisionProblem(status, error.detail, error.hint)


def _build_used_decision_problem(error: DecisionUsed, call: ToolCall) -> DecisionProblem:
    final_decisions = Decision.objects.filter(tool_call=call, final=True, kind__in=sorted(WITHDRAWABLE_KINDS))
    decision = final_decisions.order_by(*Decision.IN_ORDER).last()
    label = error.kind if decision is None else _get_decision_label(decision, call)
    text = (
        _("The run has already used the answer of {name} ({decision}).")
        if call.is_question
        else _("The run has already used the decision of {name} ({decision}).")
    )
    kind = "" if decision is None else decision.kind
    todo = _("It can no longer be withdrawn.")
    advice = advise_after_used_decision(kind, is_question=call.is_question)
    return _build_conflict_problem(text.format(name=error.by, decision=label.lower()), f"{todo} {advice}")


def _build_already_decided_problem(
    error: AlreadyDecided, call: ToolCall, *, reader: str, nothing: str | Promise
) -> DecisionProblem:
    if error.by == reader:
        text = _("You have already decided, at {time}: {decision}.")
        todo = _say_where_decision_can_be_withdrawn(call) if _is_decision_withdrawable(call) else ""
    else:
        text = _("{name} decided first, at {time}: {decision}.")
        todo = _advise_about_decision_of_another_person(call, error.by)
    what = text.format(name=error.by, time=_format_time(error.at), decision=error.kind.lower())
    return _build_conflict_problem(f"{what}{_describe_later_interruption(call)}", f"{nothing} {todo}".strip())


def _is_decision_withdrawable(call: ToolCall) -> bool:
    try:
        decision = decision_withdrawal.get_withdrawable_decision_or_raise(call)
    except NothingToWithdraw:
        return False
    return not decision_withdrawal.has_run_used_decision(call, decision)


def build_problem_of_earlier_decision(
    decision: Decision,
    call: ToolCall,
    *,
    reader: str,
    kind: str,
    result: str | None,
    is_sent: bool = True,
    request: ProbeRequest | None = None,
) -> DecisionProblem:
    """Describe a decision to the user `reader`, whose answer about `call` comes after it.

    `kind` and `result` are the reader's answer; they are empty without one. It is in an open form if not `is_sent`.
    `request` is the request for the verification whose answer the decision is, if it is one.
    """
    if decision.actor_kind == ActorKind.HOOK:
        return _build_problem_of_verification(decision, request, reader=reader, kind=kind, is_sent=is_sent)
    if decision.kind == kind and (kind in _SAME_WITHOUT_RESULT or decision.result_text == result):
        text = (
            _("You gave the same answer at {time}: {decision}.")
            if decision.actor == reader
            else _("{name} gave the same answer at {time}: {decision}.")
        )
        what = text.format(
            name=mask_and_reveal_hidden(decision.actor),
            time=_format_time(decision.created_at),
            decision=_get_decision_label(decision, call).lower(),
        )
        return DecisionProblem(409, what, _("It is recorded, so there is nothing left to do."), is_agreement=True)
    label = _get_decision_label(decision, call)
    unrecorded = NOTHING if is_sent else _("You had not sent your decision.")
    nothing = unrecorded if kind else ""
    if decision.actor != reader and _has_voted(call, reader):
        what = _describe_overruling_decision(decision, label)
        advice = _advise_about_decision_of_another_person(call, mask_and_reveal_hidden(decision.actor))
        return _build_conflict_problem(what, f"{nothing} {advice}".strip())
    session_id = call.session.session_id
    error = AlreadyDecided(session_id, call.call_id, label, decision.actor, decision.created_at)
    return build_decision_problem(error, call, reader=reader, nothing=nothing)


def _build_problem_of_verification(
    decision: Decision, request: ProbeRequest | None, *, reader: str, kind: str, is_sent: bool
) -> DecisionProblem:
    """Describe what a verification has found; this is a problem only if the reader has sent another answer."""
    found = _describe_outcome_found_by_probe(decision, request, reader)
    if kind in {"", _ANSWER_OF_PERSON.get(DecisionKind(decision.kind))}:
        return DecisionProblem(409, found, _("It is recorded, so there is nothing left to do."), is_agreement=True)
    if is_sent:
        return _build_conflict_problem(found, str(NOTHING))
    return DecisionProblem(409, found, _("The answer that you had chosen was not sent."), is_agreement=True)


def _describe_outcome_found_by_probe(decision: Decision, request: ProbeRequest | None, reader: str) -> str:
    has_happened = decision.kind == DecisionKind.PROBE_LANDED
    if request is None:
        return (
            _("The tool’s own check found that it happened.")
            if has_happened
            else _("The tool’s own check found that it did not happen.")
        )
    if request.name == reader:
        return (
            _("Your verification found that it happened.")
            if has_happened
            else _("Your verification found that it did not happen.")
        )
    text = (
        _("The verification for which {name} asked found that it happened.")
        if has_happened
        else _("The verification for which {name} asked found that it did not happen.")
    )
    return text.format(name=mask_and_reveal_hidden(request.name))


def _format_time(moment: datetime) -> str:
    """Format a time as the pages around the sentence do."""
    return formatting.format_time_with_date_unless_today(moment, clock.now())


def _has_voted(call: ToolCall, reader: str) -> bool:
    """Return whether the reader has decided about the call as one of several people."""
    votes = Decision.objects.filter(tool_call=call, actor=reader, actor_kind=ActorKind.PERSON, final=False)
    return votes.exclude(kind=DecisionKind.WITHDRAW).exists()


def _describe_overruling_decision(decision: Decision, label: str) -> str:
    """Describe the final decision of another person to somebody whose own decision it overrules."""
    text = (
        _("{name} decided after you, at {time}: {decision}. One person can do that.")
        if RULES[DecisionKind(decision.kind)].by_one
        else _("{name} decided after you, at {time}: {decision}.")
    )
    return text.format(
        name=mask_and_reveal_hidden(decision.actor),
        time=_format_time(decision.created_at),
        decision=label.lower(),
    )


def _advise_about_decision_of_another_person(call: ToolCall, masked_name: str) -> str:
    tell = _("If it is wrong, tell {name}.").format(name=masked_name)
    if not _is_decision_withdrawable(call):
        return tell
    return f"{tell} {_say_where_decision_can_be_withdrawn(call)}"


def _say_where_decision_can_be_withdrawn(call: ToolCall) -> str:
    """Name the part of the call's page by its heading. A run may use the decision before it is read."""
    if call.is_question:
        return _("“Wrong answer?” at the call says whether it can still be withdrawn.")
    return _("“Wrong decision?” at the call says whether it can still be withdrawn.")


def _get_decision_label(decision: Decision, call: ToolCall) -> str:
    return status_and_decision_labels.get_decision_shape_and_label(
        decision.kind, about_question=call.is_question, about_changed_value=call.has_changed_args
    )[1]


def _build_another_person_required_problem(
    error: SecondPersonRequired | EditorMayNotApprove, call: ToolCall
) -> DecisionProblem:
    name = mask_and_reveal_hidden(error.actor)
    if isinstance(error, EditorMayNotApprove):
        what = _("{name}, you changed these arguments, so {needed} other people have to approve them.").format(
            name=name, needed=call.approvals
        )
        return _build_conflict_problem(what, _("Your change is recorded."))
    what = _("{name}, you have already decided the same. This call needs {needed} people.").format(
        name=name, needed=call.approvals
    )
    return _build_conflict_problem(what, _("Your first decision is recorded. Somebody else has to decide the same."))


def _build_conflict_problem(what: str, todo: str) -> DecisionProblem:
    return DecisionProblem(409, what, todo)


def find_session_problem_with_decision(call: ToolCall, kind: str) -> DecisionProblem | None:
    """Return the problem with a decision in a quarantined session, or with one that would run a call of an ended
    session, or None if it can still run, and for a call that is decided: what matters then is that decision."""
    session = call.session
    if session.quarantined_at is not None:
        what = _("The session is quarantined: its data are not as they were written.")
        todo = _("An admin can release the session.")
        return _build_conflict_problem(what, f"{NOTHING} {todo}")
    if not call.undecided or not session.finished or not RULES[DecisionKind(kind)].goes_on:
        return None
    todo = (
        _("Close the question to take it off the list.")
        if call.is_question
        else _("Reject the call to take it off the list.")
        if call.status == CallStatus.AWAITING_APPROVAL
        else _("Record whether the call happened to take it off the list.")
    )
    return _build_conflict_problem(
        _("{session_ended} It does not continue, so nothing can run in it.").format(
            session_ended=_describe_session_end(session)
        ),
        f"{NOTHING} {todo}",
    )


def _describe_session_end(session: Session) -> str:
    event = AuditEvent.objects.filter(session=session, kind=AuditKind.SESSION_FINISHED).order_by("-pk").first()
    status = session.get_status_display().lower()
    if event is None:
        return _("The session is {status}.").format(status=status)
    return _("The session is {status}, ended by {name} at {time}.").format(
        status=status,
        name=mask_and_reveal_hidden(event.actor),
        time=_format_time(event.created_at),
    )


def _describe_last_change_since_revision(call: ToolCall, since: int) -> str:
    """Describe what was recorded about a call since that revision."""
    decision = Decision.objects.filter(tool_call=call, revision__gte=since).order_by("-pk").first()
    if decision is None:
        takeover_run = _find_run_that_took_over_from_call_run(call) if call.status == CallStatus.INTERRUPTED else None
        if takeover_run is not None and call.interrupted_at is not None:
            return _format_takeover(takeover_run, call)
        return _("Something new was recorded about this call while you were deciding.")
    text = (
        _("{name} {decided} at {time}.")
        if decision.final
        else _("{name} {decided} at {time}, as one of {needed} people.")
    )
    return text.format(
        name=mask_and_reveal_hidden(decision.actor),
        decided=status_and_decision_labels.format_decision_verb(decision.kind, call.is_question),
        time=_format_time(decision.created_at),
        needed=call.approvals,
    )


def _describe_later_interruption(call: ToolCall) -> str:
    """Describe the takeover of a call that was decided and then interrupted again; empty if there was none."""
    takeover_run = _find_run_that_took_over_from_call_run(call) if call.status == CallStatus.INTERRUPTED else None
    return "" if takeover_run is None else f" {_format_takeover(takeover_run, call)}"


def _find_run_that_took_over_from_call_run(call: ToolCall) -> Run | None:
    later_runs = Run.objects.filter(session=call.session_id, number__gt=call.run.number)
    return later_runs.exclude(status=RunStatus.RELEASED).order_by("number").first()


def _format_takeover(run: Run, call: ToolCall) -> str:
    return _(
        "Run {number} on {host} took the session over from run {before} at {time}, while the call was running: it is "
        "unknown whether the call happened."
    ).format(
        number=run.number,
        host=mask_and_reveal_hidden(run.host),
        before=call.run.number,
        time=_format_time(run.started_at),
    )
