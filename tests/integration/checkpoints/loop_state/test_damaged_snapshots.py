"""A damaged, newer or missing snapshot raises a specific error, and nothing runs."""

from dataclasses import replace
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import (
    CheckpointCorrupted,
    InvalidInput,
    SchemaFromFuture,
)
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.loop_state import PostLlm, PreToolBatch, RunTerminal, StepStarted
from checkpoints.models import Checkpoint, Session
from tests.conftest import Open
from tests.integration.checkpoints.loop_state.snapshot_samples import FULL
from tests.integration.checkpoints.session_setups import conversation, start_session


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", -1),
        ("step", True),
        ("step", 1.5),
        ("state", 5),
        ("context", []),
        ("started_at_s", float("nan")),
        ("total_cost_usd", -1),
        ("pending_llm_response", {}),
        ("pending_llm_response", "text"),
        ("tool_executions", ({"call_id": "x"},)),
        ("session_token", 5),
    ],
)
def test_snapshot_value_of_the_wrong_type_is_not_saved(cp: SyncCheckpointer, field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        start_session(cp).save_phase("s", StepStarted(), snapshot=replace(FULL, **{field: value}))  # type: ignore[arg-type]
    assert Checkpoint.objects.count() == 0


def damaged(cp: SyncCheckpointer, change: dict[str, Any], remove: str | None = None) -> None:
    start_session(cp).save_phase("s", PostLlm(model="best"), snapshot=FULL, transcript=conversation("a"))
    cp.close()
    payload = parse_json(Checkpoint.objects.get().payload or "") | change
    payload.pop(remove, None)
    Checkpoint.objects.update(payload=to_canonical_json(payload))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"step": "3"}, "step"),
        ({"step": None}, "step"),
        ({"llm_calls": -1}, "llm_calls"),
        ({"state": 1}, "state"),
        ({"context": "x"}, "context"),
        ({"pending_llm_response": "text"}, "pending_llm_response"),
        ({"pending_llm_response": {}}, "pending_llm_response"),
        ({"tool_executions": {}}, "tool_executions"),
        ({"tool_executions": [{"call_id": "x"}]}, "tool_executions[0].tool"),
        ({"tool_executions": ["x"]}, "tool_executions[0]"),
        ({"active_s": "soon"}, "active_s"),
        ({"junk": 1}, "junk"),
        ({"details": None}, "details"),
        ({"details": {"model": 5}}, "details.provider"),
        ({"snapshot_schema": "1"}, "snapshot_schema"),
        ({"snapshot_schema": 0}, "snapshot_schema"),
    ],
)
def test_damaged_payload_error_names_the_field(open_checkpointer: Open, change: dict[str, Any], field: str) -> None:
    damaged(open_checkpointer(), change)
    cp = open_checkpointer()

    for attempt in (cp.resume, cp.preview_resume):
        with pytest.raises(CheckpointCorrupted) as caught:
            attempt("s")
        assert caught.value.field == field
    assert Session.objects.get().owner is None


@pytest.mark.parametrize("field", ["step", "state", "tool_calls", "pending_llm_response", "final_text", "details"])
def test_missing_field_is_named(open_checkpointer: Open, field: str) -> None:
    damaged(open_checkpointer(), {}, remove=field)

    with pytest.raises(CheckpointCorrupted) as caught:
        open_checkpointer().resume("s")
    assert caught.value.field == field


def test_payload_of_a_newer_version_runs_nothing(open_checkpointer: Open) -> None:
    damaged(open_checkpointer(), {"snapshot_schema": 2, "feelings": "good"})

    with pytest.raises(SchemaFromFuture) as caught:
        open_checkpointer().resume("s")
    assert (caught.value.found, caught.value.known) == (2, 1)


@pytest.mark.parametrize("payload", ['{"snapshot_schema":', "null", "[]"])
def test_damaged_snapshot_before_a_light_phase_is_detected(open_checkpointer: Open, payload: str) -> None:
    with open_checkpointer() as first:
        start_session(first).save_phase("s", PostLlm(), snapshot=FULL, transcript=conversation("a"))
        first.save_phase("s", PreToolBatch())
    Checkpoint.objects.filter(version=1).update(payload=payload)

    with pytest.raises(CheckpointCorrupted) as caught:
        open_checkpointer().resume("s")
    assert caught.value.field == "the payload of version 1"


def test_payload_of_the_user_is_not_validated(open_checkpointer: Open) -> None:
    own = {"step": "three", "schema": "x", "details": 5}
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [], None, 0, phase="step_started", payload=own)
    second = open_checkpointer()

    assert (second.resume("s").snapshot, (second.load_latest("s") or {})["payload"]) == (None, own)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"details": {"state": "completed", "terminal_result": 1}}, "details.final_text"),
        ({"details": {"state": "running"}}, "details.state"),
    ],
)
def test_damaged_terminal_phase_is_not_returned_as_result(
    open_checkpointer: Open, change: dict[str, Any], field: str
) -> None:
    with open_checkpointer() as first:
        start_session(first).save_phase("s", RunTerminal(state="completed", terminal_result=1))
    payload = parse_json(Checkpoint.objects.get().payload or "")
    if field == "details.state":
        change = {"details": payload["details"] | change["details"]}
    Checkpoint.objects.update(payload=to_canonical_json(payload | change))

    with pytest.raises(CheckpointCorrupted) as caught:
        open_checkpointer().resume("s")
    assert caught.value.field == field
