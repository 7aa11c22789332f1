"""Phase records of other systems are migrated, or refused with the name of the invalid field."""

from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointCorrupted, CheckpointsError, NotOwner, SchemaFromFuture
from checkpoints.loop_state import RuntimeSnapshot, ToolExecution
from checkpoints.models import Checkpoint
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session

ANSWER = {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "pay", "args": {}}]}
OLD = {
    "schemaVersion": "1.0",
    "runId": "run-abc123",
    "threadId": "thread-9",
    "phase": "post_llm",
    "timestamp": 1767323045,
    "data": {
        "messages": conversation("ab"),
        "step": 2,
        "state": "running",
        "llmCalls": 3,
        "totalCostUsd": 0.75,
        "usage": {"total_tokens": 90},
        "pendingResponse": ANSWER,
        "toolExecutions": [
            {"toolName": "look", "tool_call_id": "call_0", "success": True, "output": "seen", "inputHash": "a"}
        ],
        "finishReason": "tool_calls",
    },
}


def record(**changes: Any) -> dict[str, Any]:
    plain = {
        "run_id": "run-abc123",
        "schema_version": 1,
        "phase": "step_started",
        "payload": {"messages": conversation("a"), "step": 1, "state": "running"},
    }
    return {**plain, **changes}


def test_old_names_are_migrated_with_a_report(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        imported = start_session(first).import_record("s", OLD, run_id="run-abc123")
    point = open_checkpointer().resume("s")

    assert (imported.version, imported.run_id) == (1, "run-abc123")
    assert [text_message for text_message in imported.applied if "missing" not in text_message] == [
        "schemaVersion → schema_version",
        "runId → run_id",
        "threadId → thread_id",
        "timestamp → timestamp_ms",
        "data → payload",
        "schema_version: '1.0' → 1",
        "timestamp_ms: was in seconds",
        "payload.llmCalls → llm_calls",
        "payload.totalCostUsd → total_cost_usd",
        "payload.pendingResponse → pending_llm_response",
        "payload.toolExecutions → tool_executions",
        "payload.finishReason → finish_reason",
        "payload.tool_executions[0].output: left out",
        "payload.tool_executions[0].toolName → tool",
        "payload.tool_executions[0].tool_call_id → call_id",
        "payload.tool_executions[0].inputHash → input_hash",
    ]
    assert "payload.context: was missing" in imported.applied
    assert (point.transcript, point.pending_response, point.budget_spent_usd) == (conversation("ab"), ANSWER, 0.75)
    assert point.snapshot == RuntimeSnapshot(
        step=2,
        llm_calls=3,
        total_cost_usd=0.75,
        usage={"total_tokens": 90},
        pending_llm_response=ANSWER,
        tool_executions=(ToolExecution(call_id="call_0", tool="look", success=True, input_hash="a"),),
    )


def test_current_record_needs_no_migration(cp: SyncCheckpointer) -> None:
    payload = {"model": "m", "provider": "p", "message_count": 1}
    imported = start_session(cp).import_record("s", record(phase="pre_llm", payload=payload))

    assert (imported.applied, (cp.load_latest("s") or {})["payload"]) == ((), {"phase_schema": 1, "details": payload})


def test_chain_of_records_has_the_state_of_its_last_record(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).import_record("s", OLD)
        first.import_record("s", record(phase="pre_tool_batch", payload={"tool_call_count": 1}))
        assert open_checkpointer().preview_resume("s")["pending_response"] is True
        first.import_record("s", record(phase="run_terminal", payload={"state": "completed", "terminal_result": 5}))
    point = open_checkpointer().resume("s")

    assert (point.finished, point.result) == (True, 5)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"run_id": None}, "run_id"),
        ({"run_id": 5}, "run_id"),
        ({"runId": "twice"}, "run_id"),
        ({"phase": "dreaming"}, "phase"),
        ({"phase": ["post_llm"]}, "phase"),
        ({"phase": "turn"}, "phase"),
        ({"payload": None}, "payload"),
        ({"payload": "text"}, "payload"),
        ({"payload": {"messages": "text"}}, "payload.messages"),
        ({"payload": {"messages": ["text"]}}, "payload.messages[0]"),
        ({"payload": {"messages": [], "step": 1}}, "payload.state"),
        ({"payload": {"messages": [], "step": "1", "state": "running"}}, "payload.step"),
        ({"payload": {"step": 1, "state": "running"}}, "payload.messages"),
        ({"payload": {"junk": 1}}, "payload.junk"),
        ({"payload": {"messages": [], "step": 1, "state": "x", "pending_llm_response": "y"}}, None),
        ({"payload": {"messages": [], "step": 1, "state": "x", "tool_executions": [5]}}, None),
        ({"phase": "run_terminal", "payload": {"state": "completed"}}, "payload.terminal_result"),
        ({"junk": 1}, "junk"),
        ({"schema_version": "new"}, "schema_version"),
        ({"schema_version": True}, "schema_version"),
        ({"timestamp_ms": "now"}, "timestamp_ms"),
    ],
)
def test_damaged_record_names_the_field_and_writes_nothing(
    cp: SyncCheckpointer, change: dict[str, Any], field: str | None
) -> None:
    with pytest.raises(CheckpointCorrupted) as caught:
        start_session(cp).import_record("s", record(**change))
    assert field is None or caught.value.field == field
    assert Checkpoint.objects.count() == 0


@pytest.mark.parametrize("given", [None, [], "text", 5], ids=repr)
def test_value_that_is_no_record_is_refused(cp: SyncCheckpointer, given: Any) -> None:
    with pytest.raises(CheckpointCorrupted) as caught:
        start_session(cp).import_record("s", given)
    assert caught.value.field == "record"


def test_record_of_another_run_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(CheckpointCorrupted) as caught:
        start_session(cp).import_record("s", OLD, run_id="run-other")
    assert (caught.value.field, Checkpoint.objects.count()) == ("run_id", 0)


@pytest.mark.parametrize("version", [2, "2.0", "v3"])
def test_record_of_a_newer_version_is_refused(cp: SyncCheckpointer, version: object) -> None:
    with pytest.raises(SchemaFromFuture):
        start_session(cp).import_record("s", record(schema_version=version))
    assert Checkpoint.objects.count() == 0


def test_record_without_a_terminal_phase_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(CheckpointsError, match="state"):
        start_session(cp).import_record(
            "s", record(phase="run_terminal", payload={"state": "running", "terminal_result": 1})
        )
    assert Checkpoint.objects.count() == 0


def test_import_requires_ownership(open_checkpointer: Open) -> None:
    start_session(open_checkpointer())

    with pytest.raises(NotOwner):
        open_checkpointer().import_record("s", OLD)
