"""Log of calls behind a server: tools run here, and the server keeps what they did."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from checkpoints.calls import registry_of_running_tools
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.decisions.decision_poll_interval import compute_decision_poll_interval
from checkpoints.enums import CallStatus
from checkpoints.exceptions import (
    ApprovalRequired,
    CallInProgress,
    InvalidArguments,
    NotRepresentable,
    ReviewRequired,
    TooLarge,
)
from checkpoints.formats.caller_argument_order import encode_argument_order, restore_argument_order_in_json
from checkpoints.remote.ask_verify_hook_and_report_answer import ask_verify_hook_and_report_answer_flow
from checkpoints.remote.remote_checkpointer_state import RemoteCheckpointerState
from checkpoints.remote.transport import escape_identifier
from checkpoints.store.call_intent_and_outcome_types import CallOutcome, IssuedCall
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.sync_and_async_flow_runners import Flow, Sleep, Transact
from checkpoints.tools.idempotency import compute_key_with_function, get_policy_name
from checkpoints.tools.run_call_and_record_outcome import POLL_SECONDS, DispatchRequest, WaitOptions
from checkpoints.tools.tool import Tool


def encode_tool(tool: Tool) -> dict[str, Any]:
    """Describe a tool for the log; what is not set is left out."""
    fields: dict[str, Any] = {
        "tool": tool.name,
        "side_effects": sorted(tool.side_effects),
        "scope": str(tool.scope),
        "sentence": tool.sentence,
        "verifiable": tool.verify is not None,
        "requires_approval": tool.requires_approval,
        "approvals": tool.approvals,
    }
    if tool.risk is not None:
        fields["risk"] = str(tool.risk)
    if tool.decide_within is not None:
        fields["decide_within"] = tool.decide_within
    return fields


@dataclass(frozen=True)
class RemoteCallLog:
    """Call log of a session that this client owns."""

    store: RemoteCheckpointerState
    session_id: str

    def issue_or_answer_call_flow(
        self, request: DispatchRequest, wait_options: WaitOptions
    ) -> Flow[RemoteExecution | ToolResult]:
        held: OwnedSession = yield Transact(lambda: self.store.flush_and_require_owned_session(self.session_id))
        try:
            fields = self._encode_request(request)
        except (InvalidArguments, NotRepresentable, TooLarge) as error:
            return ToolResult(request.call_id, str(error), is_error=True)
        key, args = (
            uuid.uuid4().hex,
            restore_argument_order_in_json(request.stored, encode_argument_order(request.args)),
        )
        start = time.monotonic()
        while True:
            try:
                answer: Mapping[str, Any] = yield Transact(
                    partial(self._post_call_and_report_replayed_results, held, fields, args, key)
                )
            except InvalidArguments as error:
                return ToolResult(request.call_id, str(error), is_error=True)
            except ApprovalRequired:
                if not wait_options.for_approval:
                    raise
                key = uuid.uuid4().hex
                yield Sleep(compute_decision_poll_interval(time.monotonic() - start))
                continue
            if answer["state"] != "running":
                break
            if not wait_options.for_others:
                raise CallInProgress(self.session_id, answer["call_id"], answer["tool"])
            registry_of_running_tools.require_not_inside_running_call(
                self.session_id, answer["tool"], answer["call_id"]
            )
            yield Sleep(POLL_SECONDS)
        if answer["state"] == "answered":
            return ToolResult(
                request.call_id,
                answer["content"],
                is_error=answer["is_error"],
                replayed=answer["replayed"],
                attempt=answer["attempt"],
                answered_before=answer["answered_before"],
            )
        issued_call = build_issued_call_of_answer(request.tool, answer)
        self.store.executing.add(issued_call.pk)
        return RemoteExecution(self.store, held, request.tool, issued_call)

    def _encode_request(self, request: DispatchRequest) -> dict[str, Any]:
        policy = request.policy
        fields: dict[str, Any] = {
            **encode_tool(request.tool),
            "call_id": request.call_id,
            "idempotency": get_policy_name(policy).value if not callable(policy) else "function",
        }
        if callable(policy):
            fields["key"] = compute_key_with_function(policy, request.tool.name, request.args)
        if request.step is not None:
            fields["step"] = request.step
        elif policy == "call" and request.tool.continues_open_calls:
            fields["continues_open_calls"] = True
        return fields

    def _post_call_and_report_replayed_results(
        self, held: OwnedSession, fields: dict[str, Any], args: str, key: str
    ) -> Any:
        taken = list(self.store.taken.get(self.session_id, ()))
        path = f"/sessions/{escape_identifier(self.session_id)}/calls"
        if taken:
            fields = {**fields, "taken": taken}
        answer = self.store.send_write_request("POST", path, fields, session=held, key=key, raw={"args": args}).value
        if taken:
            del self.store.taken[self.session_id][: len(taken)]
        return answer


@dataclass(frozen=True)
class RemoteExecution:
    """Issued call that runs in this process."""

    store: RemoteCheckpointerState
    held: OwnedSession
    tool: Tool
    issued_call: IssuedCall

    @property
    def session_id(self) -> str:
        return self.held.session_id

    @property
    def run_id(self) -> str:
        return str(self.held.run_id)

    @property
    def _call_url_path(self) -> str:
        return f"/sessions/{escape_identifier(self.session_id)}/calls/{escape_identifier(self.issued_call.call_id)}"

    def write_outcome(self, outcome: CallOutcome) -> None:
        report_call_outcome(self.store, self.session_id, self.held.fence, self.issued_call, outcome)

    def settle_by_verify_hook_flow(self, error: Exception) -> Flow[ToolResult]:
        call: Mapping[str, Any] = yield Transact(self._load_call_from_server)
        if self.tool.verify is not None and call["status"] == CallStatus.INTERRUPTED:
            yield from ask_verify_hook_and_report_answer_flow(self.store, self.held, call, self.tool.verify)
            call = yield Transact(self._load_call_from_server)
        if call["undecided"]:
            raise ReviewRequired(self.session_id, [call]) from error
        is_error = call["status"] != CallStatus.COMPLETED
        return ToolResult(call["call_id"], call["result_text"] or "", is_error=is_error, attempt=call["attempt"])

    def _load_call_from_server(self) -> Any:
        issued_call = self.issued_call
        return self.store.transport.send_read_request(
            self._call_url_path, step=issued_call.step, attempt=issued_call.attempt
        )

    def mark_execution_as_ended(self, *, answered: bool) -> None:
        self.store.executing.discard(self.issued_call.pk)


def build_issued_call_of_answer(tool: Tool, answer: Mapping[str, Any]) -> IssuedCall:
    """Build the call of a tool that the server has logged and told this client to run."""
    return IssuedCall(
        answer["number"], tool.name, answer["call_id"], answer["step"], answer["attempt"], answer["args_json"]
    )


def report_call_outcome(
    store: RemoteCheckpointerState, session_id: str, fence: int | None, issued_call: IssuedCall, outcome: CallOutcome
) -> None:
    """Report the outcome of a call. Raises `LateResultRefused` if it can no longer count."""
    fields: dict[str, Any] = {
        "status": str(outcome.status),
        "error_type": outcome.error_type[:200],
        "error_message": outcome.error_message,
        "reason": str(outcome.reason),
        "step": issued_call.step,
        "attempt": issued_call.attempt,
        "fence": fence,
    }
    path = f"/sessions/{escape_identifier(session_id)}/calls/{escape_identifier(issued_call.call_id)}"
    store.send_write_request("PATCH", path, fields, raw={"result": outcome.result or "null"})
