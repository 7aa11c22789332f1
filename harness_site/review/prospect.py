"""What each answer will cause, in words, from the same function that the resume itself uses."""

from collections.abc import Mapping
from typing import Any, Final

from checkpoints import clock
from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.enums import DecisionKind, RunStatus
from checkpoints.models import Run, Session, ToolCall

_KINDS: Final = (DecisionKind.CONFIRM_LANDED, DecisionKind.MARK_FAILED, DecisionKind.APPROVE_RERUN)


def driver(session: Session) -> Run | None:
    """The run that owns the session and still shows signs of life."""
    owner = session.owner
    return owner if owner is not None and owner.owning and owner.lease_expires_at > clock.now() else None


def waiting_run(session: Session) -> Run | None:
    """The run that stands at the gate and goes on by itself."""
    run = driver(session)
    return run if run is not None and run.status == RunStatus.WAITING else None


def prospect(call: ToolCall) -> dict[str, str]:
    """Kind of decision → what follows from it, for a call that is undecided.

    Raises `CheckpointsError` where the session cannot be read.
    """
    session = call.session
    preview = SyncCheckpointer(workspace=session.workspace.slug).preview_resume(session.session_id)
    others = sum(not _is(call, one) for one in preview["ask"])
    if session.finished:
        said = f"The session is {session.status} and does not go on; the answer is kept with the call."
        return dict.fromkeys(_KINDS, said)
    if others:
        said = f"The session stays paused: {_calls(others)} of it still {_needs(others)} a decision."
        return dict.fromkeys(_KINDS, said)
    begin = _begin(session, preview["version"])
    replay = len(preview["replay"])
    end = f"{_runs(preview['run'])}, {_model(preview['pending_response'])}."
    return {
        DecisionKind.CONFIRM_LANDED: f"{begin} {_replays(replay + 1)}{end}",
        DecisionKind.MARK_FAILED: f"{begin} tells the agent that this call failed{_and_replays(replay)}{end}",
        DecisionKind.APPROVE_RERUN: f"{begin} runs {call.tool} once more{_and_replays(replay)}{end}",
    }


def _begin(session: Session, version: int | None) -> str:
    where = f"from version {version}" if version else "from the start"
    run = waiting_run(session)
    if run is not None:
        return f"Run {run.number} on {run.host} is waiting. It goes on {where} at once,"
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
