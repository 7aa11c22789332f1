"""What each answer will cause, in words, from the same function that the resume itself uses."""

from collections.abc import Mapping
from typing import Any

from checkpoints import clock
from checkpoints.client import SyncCheckpointer
from checkpoints.enums import CallStatus, DecisionKind, RunStatus
from checkpoints.models import Run, Session, ToolCall
from checkpoints.queries.voices import Agreement
from checkpoints.resuming.decisions import RULES
from harness_site.review.answers import ANSWERS


def driver(session: Session) -> Run | None:
    """The run that owns the session and still shows signs of life."""
    owner = session.owner
    return owner if owner is not None and owner.owning and owner.lease_expires_at > clock.now() else None


def waiting_run(session: Session) -> Run | None:
    """The run that stands at the gate and goes on by itself."""
    run = driver(session)
    return run if run is not None and run.status == RunStatus.WAITING else None


def prospect(call: ToolCall, agreed: Mapping[DecisionKind, Agreement]) -> dict[DecisionKind, str]:
    """Kind of decision → what follows from it now, for a call that is undecided.

    Raises `CheckpointsError` where the session cannot be read.
    """
    session = call.session
    kinds = [answer.kind for answer in ANSWERS[CallStatus(call.status)]]
    preview = SyncCheckpointer(workspace=session.workspace.slug).preview_resume(session.session_id)
    if session.finished:
        said = f"The session is {session.status} and does not go on; the answer is kept with the call."
        return dict.fromkeys(kinds, said)
    others = sum(not _is(call, one) for one in preview["ask"])
    following = _following(call, preview) if not others else {}
    held = f"The session stays paused: {_calls(others)} of it still {_needs(others)} a decision."
    return {kind: _not_yet(call, kind, agreed) or following.get(kind, held) for kind in kinds}


def _not_yet(call: ToolCall, kind: DecisionKind, agreed: Mapping[DecisionKind, Agreement]) -> str:
    """What is missing after this answer where the call goes on waiting; empty where it does not."""
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


def _following(call: ToolCall, preview: Mapping[str, Any]) -> dict[DecisionKind, str]:
    begin = _begin(call, preview["version"])
    replay = len(preview["replay"])
    end = f"{_runs(preview['run'])}, {_model(preview['pending_response'])}."
    failed = f"tells the agent that this call failed{_and_replays(replay)}{end}"
    return {
        DecisionKind.CONFIRM_LANDED: f"{begin} {_replays(replay + 1)}{end}",
        DecisionKind.MARK_FAILED: f"{begin} {failed}",
        DecisionKind.APPROVE_RERUN: f"{begin} runs {call.tool} once more{_and_replays(replay)}{end}",
        DecisionKind.APPROVE: f"{begin} runs {call.tool}{_and_replays(replay)}{end}",
        DecisionKind.REJECT: f"{begin} gives the agent your message as the error of this call"
        f"{_and_replays(replay)}{end}",
        DecisionKind.RESPOND: f"{begin} gives the agent your text as the result of this call"
        f"{_and_replays(replay)}{end}",
    }


def _begin(call: ToolCall, version: int | None) -> str:
    session = call.session
    where = f"from version {version}" if version else "from the start"
    run = driver(session)
    if run is not None and run.status == RunStatus.WAITING:
        return f"Run {run.number} on {run.host} is waiting. It goes on {where} at once,"
    if run is not None and call.status == CallStatus.AWAITING_APPROVAL and run.pk == call.run_id:
        return f"Run {run.number} on {run.host} asked for this and is still there. As soon as it looks again, it"
    return f"No process is waiting. The next one to resume the session goes on {where},"


def _is(call: ToolCall, other: Mapping[str, Any]) -> bool:
    return (other["step"], other["call_id"], other["attempt"]) == (call.step, call.call_id, call.attempt)


def _calls(number: int) -> str:
    return "1 other call" if number == 1 else f"{number} other calls"


def _needs(number: int) -> str:
    return "needs" if number == 1 else "need"


def _replays(number: int) -> str:
    return "gives the agent the recorded result" if number == 1 else f"gives the agent {number} recorded results"


def _and_replays(number: int) -> str:
    if not number:
        return ""
    return f", gives it {number} recorded result{'' if number == 1 else 's'}"


def _runs(calls: list[Mapping[str, Any]]) -> str:
    names = ", ".join(one["tool_name"] for one in calls)
    return f", runs {names}" if names else ""


def _model(pending: bool) -> str:
    return "and asks the model nothing again" if pending else "then asks the model for the next step"
