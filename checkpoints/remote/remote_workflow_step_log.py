"""Steps of a workflow behind a server: their functions run here, and the server keeps what they did."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from checkpoints.calls import registry_of_running_tools
from checkpoints.enums import CallStatus
from checkpoints.exceptions import CallInProgress
from checkpoints.formats.canonical_json import parse_json
from checkpoints.remote.ask_verify_hook_and_report_answer import ask_verify_hook_and_report_answer_flow
from checkpoints.remote.remote_call_log import RemoteExecution, build_issued_call_of_answer, encode_tool
from checkpoints.remote.remote_checkpointer_state import RemoteCheckpointerState
from checkpoints.remote.transport import escape_identifier
from checkpoints.store.call_intent_and_outcome_types import IssuedCall
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.sync_and_async_flow_runners import Flow, Sleep, Transact
from checkpoints.tools.idempotency import compute_key_with_function
from checkpoints.tools.run_call_and_record_outcome import POLL_SECONDS, Execution, WaitOptions
from checkpoints.workflows.step_log_protocol import StepValue
from checkpoints.workflows.step_request import StepRequest


class RemoteStepLog:
    """Log of the steps of a workflow, in a session that this client owns."""

    def __init__(self, store: RemoteCheckpointerState, session_id: str, workflow_id: str) -> None:
        """Open the journal, or create it. Raises `NotOwner`, `SchemaFromFuture`, `CheckpointCorrupted`."""
        self._store = store
        self._session_id = session_id
        self._path = f"/sessions/{escape_identifier(session_id)}/workflows/{escape_identifier(workflow_id)}"
        self._store.send_write_request(
            "POST", self._path, {}, session=self._store.flush_and_require_owned_session(session_id)
        )

    def issue_or_answer_step_flow(self, request: StepRequest, wait_options: WaitOptions) -> Flow[Execution | StepValue]:
        owned_session: OwnedSession = yield Transact(
            lambda: self._store.flush_and_require_owned_session(self._session_id)
        )
        key = uuid.uuid4().hex
        while True:
            answer: Mapping[str, Any] = yield Transact(partial(self._post_step, owned_session, request, key))
            if answer["state"] != "running":
                break
            if not wait_options.for_others:
                raise CallInProgress(self._session_id, answer["call_id"], answer["tool"])
            registry_of_running_tools.require_not_inside_running_call(
                self._session_id, answer["tool"], answer["call_id"]
            )
            yield Sleep(POLL_SECONDS)
        if answer["state"] == "answered":
            return StepValue(answer["value"])
        issued_call = build_issued_call_of_answer(request.tool, answer)
        self._store.executing.add(issued_call.pk)
        return RemoteExecution(self._store, owned_session, request.tool, issued_call)

    def _post_step(self, owned_session: OwnedSession, request: StepRequest, key: str) -> Any:
        fields = {**encode_tool(request.tool), "step_id": request.step_id, "version": request.version}
        policy = request.tool.idempotency
        if callable(policy):
            arguments = dict(parse_json(request.args))
            fields |= {
                "idempotency": "function",
                "key": compute_key_with_function(policy, request.tool.name, arguments),
            }
        else:
            fields["idempotency"] = policy or "once"
        raw = {"args": request.args}
        return self._store.send_write_request(
            "POST", f"{self._path}/steps", fields, session=owned_session, key=key, raw=raw
        ).value

    def ask_hook_and_record_answer_if_interrupted_flow(self, request: StepRequest) -> Flow[bool]:
        hook = request.tool.verify
        if hook is None:
            return False
        owned_session: OwnedSession = yield Transact(
            lambda: self._store.flush_and_require_owned_session(self._session_id)
        )
        call: Mapping[str, Any] | None = yield Transact(partial(self._find_interrupted_call, request))
        if call is None:
            return False
        yield from ask_verify_hook_and_report_answer_flow(self._store, owned_session, call, hook)
        return True

    def _find_interrupted_call(self, request: StepRequest) -> Mapping[str, Any] | None:
        """Find the interrupted call of the step in this session."""
        step = next((step for step in self.list_steps() if step["step_id"] == request.step_id), None)
        if step is None or step["status"] != CallStatus.INTERRUPTED:
            return None
        path = f"/sessions/{escape_identifier(self._session_id)}/calls/{escape_identifier(step['call_id'])}"
        call: Mapping[str, Any] = self._store.transport.send_read_request(path)
        return call

    def load_step_value_found_by_hook_flow(self, request: StepRequest, issued_call: IssuedCall) -> Flow[Any]:
        issued = yield from self.issue_or_answer_step_flow(request, WaitOptions())
        return issued.value if isinstance(issued, StepValue) else None

    def list_steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self._store.transport.send_read_request(self._path)["steps"]
        return steps
