"""Log of the steps of a workflow in this process's database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Self

from checkpoints.calls import call_queries
from checkpoints.database_backend import database_call_log
from checkpoints.database_backend.database_call_log import DatabaseExecution
from checkpoints.decisions import record_verify_hook_answers
from checkpoints.enums import CallStatus, KeyPolicy
from checkpoints.exceptions import StepRejected
from checkpoints.formats.canonical_json import parse_json
from checkpoints.integrity import quarantine
from checkpoints.models import ToolCall, Workflow, WorkflowStep
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.call_intent_and_outcome_types import CallIntent, IssuedCall
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Transact
from checkpoints.tools import run_call_and_record_outcome
from checkpoints.tools.run_call_and_record_outcome import Execution, WaitOptions
from checkpoints.workflows import step_rows
from checkpoints.workflows.step_log_protocol import StepValue
from checkpoints.workflows.step_request import StepRequest


class DatabaseStepLog:
    """Log of the steps of a workflow of an owned session."""

    def __init__(self, store: Store, session_id: str, workflow: Workflow) -> None:
        """Continue with a journal that was opened before; `workflow` is its row."""
        self._store = store
        self._session_id = session_id
        self._row = workflow

    @classmethod
    def open_or_create(cls, store: Store, session_id: str, workflow_id: str) -> Self:
        """Open the journal, or create it. Raises `NotOwner`, `SchemaFromFuture`, `CheckpointCorrupted`."""
        owned_session = look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
        return cls(
            store, session_id, step_rows.get_or_create_workflow_and_verify_steps(store, owned_session, workflow_id)
        )

    def issue_or_answer_step_flow(self, request: StepRequest, wait_options: WaitOptions) -> Flow[Execution | StepValue]:
        store = self._store
        owned_session, step = yield Transact(partial(self._get_or_create_step_of_owned_session, request))
        intent = _build_step_intent(step, request)
        call = yield from database_call_log.issue_call_or_find_answer_flow(store, owned_session, intent, wait_options)
        if isinstance(call, ToolCall):
            return StepValue((yield Transact(partial(self._load_step_value_or_raise_rejected, step, call))))
        return DatabaseExecution(store, owned_session, request.tool, call)

    def _get_or_create_step_of_owned_session(self, request: StepRequest) -> tuple[OwnedSession, WorkflowStep]:
        owned_session = look_up_and_lock_rows.flush_and_require_owned_session(self._store, self._session_id)
        with self._quarantine_on_integrity_error():
            return owned_session, step_rows.get_or_create_step_or_replace_identity(
                self._store, owned_session, self._row, request
            )

    def _load_step_value_or_raise_rejected(self, step: WorkflowStep, call: ToolCall) -> Any:
        if call.status == CallStatus.REJECTED:
            raise StepRejected(self._session_id, self._row.workflow_id, step.step_id, call.result_text or "")
        with self._quarantine_on_integrity_error():
            return step_rows.verify_call_and_decode_step_value(self._store, call)

    def ask_hook_and_record_answer_if_interrupted_flow(self, request: StepRequest) -> Flow[bool]:
        owned_session, step = yield Transact(partial(self._get_or_create_step_of_owned_session, request))
        call: ToolCall | None = yield Transact(
            lambda: step_rows.find_live_call_of_step(self._store, owned_session, step)
        )
        if call is None or call.status != CallStatus.INTERRUPTED or call.session_id != owned_session.pk:
            return False
        probe = record_verify_hook_answers.build_probe_with_hook(request.tool.verify, self._session_id, call)
        if probe is None:
            return False
        yield from record_verify_hook_answers.ask_hook_and_record_answer_flow(self._store, probe)
        return True

    def load_step_value_found_by_hook_flow(self, request: StepRequest, issued_call: IssuedCall) -> Flow[Any]:
        return (yield Transact(partial(self._load_step_value_of_call, issued_call.pk)))

    def _load_step_value_of_call(self, call_pk: int) -> Any:
        with self._quarantine_on_integrity_error():
            return step_rows.verify_call_and_decode_step_value(
                self._store, call_queries.get_verified_call_by_pk(self._store, self._session_id, call_pk)
            )

    def list_steps(self) -> list[dict[str, Any]]:
        with self._quarantine_on_integrity_error():
            return step_rows.list_steps(self._store, self._row)

    def _quarantine_on_integrity_error(self) -> AbstractContextManager[None]:
        return quarantine.quarantine_on_integrity_error(self._store, self._session_id)


def _build_step_intent(step: WorkflowStep, request: StepRequest) -> CallIntent:
    args = parse_json(request.args)
    return run_call_and_record_outcome.build_call_intent_of_tool(
        request.tool, args, request.args, KeyPolicy.STEP, step.idempotency_key, step.call_id, None
    )
