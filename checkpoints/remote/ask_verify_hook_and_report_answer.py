"""Verify hooks of the agent, asked about calls that a server logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.calls.tool_result_and_verify_answer_types import Landed, NotLanded, Unknown
from checkpoints.decisions import ask_verify_hooks
from checkpoints.decisions.ask_verify_hooks import VerifyProbe
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.remote.remote_checkpointer_state import RemoteCheckpointerState
from checkpoints.remote.transport import escape_identifier
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.sync_and_async_flow_runners import Flow, Transact


def ask_verify_hook_and_report_answer_flow(
    store: RemoteCheckpointerState, held: OwnedSession, call: Mapping[str, Any], hook: Any
) -> Flow[str]:
    """Ask a verify hook about an interrupted call, and report its answer."""
    target = DecisionTarget(held.session_id, call["call_id"], call["revision"], call["step"], call["attempt"])
    probe = VerifyProbe(
        call["number"], target, call["tool_name"], call["args_json"], call["args_digest"], call["run_id"], hook
    )
    answer = yield from ask_verify_hooks.ask_verify_hook_flow(probe)
    fields = {
        "step": call["step"],
        "attempt": call["attempt"],
        "revision": call["revision"],
        **_encode_hook_answer(answer),
    }
    path = f"/sessions/{escape_identifier(held.session_id)}/calls/{escape_identifier(call['call_id'])}/probe"
    outcome: str = yield Transact(lambda: store.send_write_request("POST", path, fields, session=held).value["outcome"])
    return outcome


def _encode_hook_answer(answer: Landed | NotLanded | Unknown) -> dict[str, Any]:
    if isinstance(answer, Landed):
        return {"answer": "landed", "result": answer.result}
    if isinstance(answer, NotLanded):
        return {"answer": "not_landed"}
    return {"answer": "unknown", "why": str(answer.why)}
