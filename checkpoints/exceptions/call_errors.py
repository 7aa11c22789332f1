"""Errors about tool calls that cannot be made or settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints.exceptions.base_error import CheckpointsError


class CallError(CheckpointsError):
    """Base of errors about tool calls."""

    code = "call_error"


class CallConflict(CallError):
    """A call with this id exists in the step, with another tool or other arguments."""

    code = "call_conflict"
    hint = "Give each call of one step its own id. Nothing was run."

    def __init__(self, session_id: str, call_id: str, step: int) -> None:
        self.session_id, self.call_id, self.step = session_id, call_id, step
        super().__init__(
            f"Call {call_id!r} of step {step} in session {session_id!r} is already recorded with another tool or "
            "other arguments."
        )


class CallInProgress(CallError):
    """A call with the same idempotency key is running."""

    code = "call_in_progress"
    hint = "Wait for its result. Nothing was run."

    def __init__(self, session_id: str, call_id: str, tool: str) -> None:
        self.session_id, self.call_id, self.tool = session_id, call_id, tool
        super().__init__(f"{tool} is running as call {call_id!r} of session {session_id!r}.")


class CallInsideItself(CallInProgress):
    """A tool made the call that it runs for, directly or through other tools, and would wait for its own end."""

    code = "call_inside_itself"
    hint = "Nothing was run. Give the inner call other arguments, or the tool the idempotency policy 'call'."

    def __init__(self, session_id: str, call_id: str, tool: str) -> None:
        super().__init__(session_id, call_id, tool)
        self.args = (f"{tool} made the same call while it ran as call {call_id!r} of session {session_id!r}.",)


class CallAlreadySettled(CallError):
    """A call that is to be issued has an outcome already."""

    code = "call_already_settled"
    hint = "Use its stored result: find_completed_call returns it. Nothing was written."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(f"Call {call_id!r} of session {session_id!r} is already {status}.")


class LateResultRefused(CallError):
    """A result came after its call was settled or taken over; it is kept as evidence."""

    code = "late_result_refused"
    hint = "It was kept as evidence for whoever decides; it changed nothing."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(
            f"The result of call {call_id!r} in session {session_id!r} came too late or from a run that no longer "
            f"owns it: the call is {status}."
        )


class ReviewRequired(CallError):
    """Undecided calls hold the session. `calls` has one dict for each, as `check_pending_tool_calls` returns them."""

    code = "review_required"
    hint = "Decide in the review queue or with confirm_landed, mark_failed or approve_rerun, then resume."

    def __init__(self, session_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
        self.session_id, self.calls = session_id, [dict(call) for call in calls]
        names = ", ".join(f"{call['tool_name']} ({call['call_id']})" for call in self.calls)
        hook_reasons = [(call["call_id"], call["verify_reason"]) for call in self.calls if call.get("verify_reason")]
        reasons = "".join(
            f" The verify hook was asked about {call_id!r}: {reason}." for call_id, reason in hook_reasons
        )
        super().__init__(
            f"In session {session_id!r} it is unknown whether this happened: {names}. Nothing was run again.{reasons}"
        )


class ApprovalRequired(ReviewRequired):
    """A person has to approve calls before they run for the first time. `calls` as in `ReviewRequired`."""

    code = "approval_required"
    hint = "Decide in the review queue or with approve_call, edit_call, reject_call or respond_call, then resume."

    def __init__(self, session_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(session_id, calls)
        names = ", ".join(f"{call['tool_name']} ({call['call_id']})" for call in self.calls)
        self.args = (f"In session {session_id!r} this waits for approval: {names}. Nothing was run.",)


class RegistryNotBound(CallError, ValueError):
    """A tool with side effects was called through a registry that has no session to log the call in."""

    code = "registry_not_bound"
    hint = (
        "Nothing was run. Bind the registry: ToolRegistry(checkpointer=cp, session_id=…), registry.bind(cp, session_id)"
        " or resume(session_id, registry). ToolRegistry(unlogged=True) runs such tools without a log."
    )

    def __init__(self, tool: str, missing: str) -> None:
        self.tool, self.missing = tool, missing
        super().__init__(f"{tool!r} has side effects, and its registry has no {missing} to log the call with.")


class ResultNotRecorded(CallError):
    """The tool has run, and its result could not be written."""

    code = "result_not_recorded"
    hint = "The call stays open and will be asked about on the next resume; the tool is not run again."

    def __init__(self, session_id: str, call_id: str, result: str) -> None:
        self.session_id, self.call_id, self.result = session_id, call_id, result
        super().__init__(f"Call {call_id!r} of session {session_id!r} ran, but its result could not be recorded.")
