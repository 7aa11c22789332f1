"""Texts about the effect of each answer, derived from the library's resume preview."""

from collections.abc import Mapping
from typing import Any

from checkpoints.client import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.decisions.decide import RULES
from checkpoints.enums import CallStatus, DecisionKind, RunStatus
from checkpoints.models import Run, Session, ToolCall
from harness_site.review.decision_options import ANSWERS
from harness_site.sessions.selectors.agreements import Agreement


def get_live_owner_run(session: Session) -> Run | None:
    """Return the run that owns the session and still has a valid lease."""
    owner = session.owner
    return owner if owner is not None and owner.is_owning and owner.lease_expires_at > clock.now() else None


def get_waiting_run(session: Session) -> Run | None:
    """Return the live run that waits for a decision and continues by itself."""
    run = get_live_owner_run(session)
    return run if run is not None and run.status == RunStatus.WAITING else None


def preview_decision_effects(call: ToolCall, agreed: Mapping[DecisionKind, Agreement]) -> dict[DecisionKind, str]:
    """Describe the effect of each decision kind on an undecided call.

    Raises `CheckpointsError` if the session cannot be read.
    """
    session = call.session
    kinds = [answer.kind for answer in ANSWERS[CallStatus(call.status)]]
    preview = SyncCheckpointer(workspace=session.workspace.slug).preview_resume(session.session_id)
    if session.finished:
        text = f"The session is {session.status} and does not go on; the answer is kept with the call."
        return dict.fromkeys(kinds, text)
    others = sum(not _is_same_call(call, other) for other in preview["ask"])
    effects = _format_effects_by_kind(call, preview) if not others else {}
    paused_text = (
        f"The session stays paused: {_format_call_count(others)} of it still "
        f"{_format_calls_needing_decision(others)} a decision."
    )
    return {kind: _format_missing_approvals(call, kind, agreed) or effects.get(kind, paused_text) for kind in kinds}


def _format_missing_approvals(call: ToolCall, kind: DecisionKind, agreed: Mapping[DecisionKind, Agreement]) -> str:
    """Describe the approvals that are missing after this answer; empty if the call stops waiting."""
    if kind == DecisionKind.EDIT:
        needs = "an approval of its own" if call.approvals == 1 else f"{call.approvals} approvals of other people"
        return f"Nothing runs. The call stays here with the changed arguments and needs {needs}."
    if RULES[kind].by_one:
        return ""
    missing = call.approvals - (agreed[kind].people if kind in agreed else 0) - 1
    if missing < 1:
        return ""
    people = "one more person has" if missing == 1 else f"{missing} more people have"
    return f"Nothing moves yet: {people} to decide the same. Yours is kept with your name until then."


def _format_effects_by_kind(call: ToolCall, preview: Mapping[str, Any]) -> dict[DecisionKind, str]:
    begin = _format_resume_point(call, preview["version"])
    replay = len(preview["replay"])
    end = f"{_format_calls_to_run(preview['run'])}, {_format_model_step(preview['pending_response'])}."
    failed = f"tells the agent that this call failed{_format_additional_replays(replay)}{end}"
    return {
        DecisionKind.CONFIRM_LANDED: f"{begin} {_format_replayed_calls(replay + 1)}{end}",
        DecisionKind.MARK_FAILED: f"{begin} {failed}",
        DecisionKind.APPROVE_RERUN: f"{begin} runs {call.tool} once more{_format_additional_replays(replay)}{end}",
        DecisionKind.APPROVE: f"{begin} runs {call.tool}{_format_additional_replays(replay)}{end}",
        DecisionKind.REJECT: f"{begin} gives the agent your message as the error of this call"
        f"{_format_additional_replays(replay)}{end}",
        DecisionKind.RESPOND: f"{begin} gives the agent your text as the result of this call"
        f"{_format_additional_replays(replay)}{end}",
    }


def _format_resume_point(call: ToolCall, version: int | None) -> str:
    session = call.session
    start_point = f"from version {version}" if version else "from the start"
    run = get_live_owner_run(session)
    if run is not None and run.status == RunStatus.WAITING:
        return f"Run {run.number} on {run.host} is waiting. It goes on {start_point} at once,"
    if run is not None and call.status == CallStatus.AWAITING_APPROVAL and run.pk == call.run_id:
        return f"Run {run.number} on {run.host} asked for this and is still there. As soon as it looks again, it"
    return f"No process is waiting. The next one to resume the session goes on {start_point},"


def _is_same_call(call: ToolCall, other: Mapping[str, Any]) -> bool:
    return (other["step"], other["call_id"], other["attempt"]) == (call.step, call.call_id, call.attempt)


def _format_call_count(number: int) -> str:
    return "1 other call" if number == 1 else f"{number} other calls"


def _format_calls_needing_decision(number: int) -> str:
    return "needs" if number == 1 else "need"


def _format_replayed_calls(number: int) -> str:
    return "gives the agent the recorded result" if number == 1 else f"gives the agent {number} recorded results"


def _format_additional_replays(number: int) -> str:
    if not number:
        return ""
    return f", gives it {number} recorded result{'' if number == 1 else 's'}"


def _format_calls_to_run(calls: list[Mapping[str, Any]]) -> str:
    names = ", ".join(call["tool_name"] for call in calls)
    return f", runs {names}" if names else ""


def _format_model_step(pending: bool) -> str:
    return "and asks the model nothing again" if pending else "then asks the model for the next step"
