"""Phases of a run that are saved with its versions."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import (
    IntegrityError,
    InvalidInput,
    NotOwner,
    ReviewRequired,
    SessionQuarantined,
    StillNeeded,
    VersionConflict,
)
from checkpoints.formats.canonical_json import parse_json
from checkpoints.loop_state import (
    PhaseDetails,
    PostLlm,
    PostToolBatch,
    PreLlm,
    PreToolBatch,
    RunStarted,
    RunTerminal,
    RuntimeSnapshot,
    StepStarted,
)
from checkpoints.models import Checkpoint, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.loop_state.phase_agent import POINTS, AgentLoop
from tests.integration.checkpoints.loop_state.snapshot_samples import ANSWER, FULL
from tests.integration.checkpoints.session_setups import conversation, start_session


def test_snapshot_is_restored_equal(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_phase("s", PostLlm(model="best"), snapshot=FULL, transcript=conversation("a"))
    point = open_checkpointer().resume("s")

    assert point.snapshot == FULL
    assert (point.pending_response, point.transcript) == (ANSWER, conversation("a"))
    assert (point.budget_spent_usd, point.usage) == (Decimal("0.30"), FULL.usage)


def test_values_with_columns_are_not_stored_in_the_snapshot(cp: SyncCheckpointer) -> None:
    start_session(cp).save_phase("s", StepStarted(), snapshot=FULL, transcript=conversation("a"), plan={"goal": 1})
    row = Checkpoint.objects.get()
    payload = parse_json(row.payload or "")

    assert {"usage", "total_cost_usd", "messages"} & payload.keys() == set()
    assert (row.phase, row.plan, payload["snapshot_schema"]) == ("step_started", '{"goal":1}', 1)
    assert (Session.objects.get().total_tokens, str(Session.objects.get().budget_spent_usd)) == (15, "0.300000")


def test_light_phase_keeps_the_snapshot_and_adds_details(cp: SyncCheckpointer) -> None:
    start_session(cp).save_phase("s", StepStarted(), snapshot=FULL, transcript=conversation("a"), plan={"goal": 1})
    version = cp.save_phase("s", PreLlm(model="best", provider="plain", message_count=1))
    loaded = cp.load("s", version)

    assert loaded["payload"] == {
        "phase_schema": 1,
        "details": {"model": "best", "provider": "plain", "message_count": 1},
    }
    assert (loaded["phase"], loaded["plan"], loaded["usage"]) == ("pre_llm", {"goal": 1}, FULL.usage)
    assert (loaded["transcript"], loaded["budget_spent_usd"]) == (conversation("a"), Decimal("0.30"))


@pytest.mark.parametrize(
    ("after", "pending"),
    [
        ([], ANSWER),
        ([PreToolBatch()], ANSWER),
        ([PreToolBatch(), RunStarted(resumed=True), PreToolBatch()], ANSWER),
        ([PreToolBatch(), PostToolBatch()], None),
        ([PreToolBatch(), PostToolBatch(), PreToolBatch()], None),
        ([PreLlm()], None),
    ],
    ids=lambda phases: "-".join(type(phase).__name__ for phase in phases) if isinstance(phases, list) else "",
)
def test_answer_is_pending_until_its_tools_have_run(
    open_checkpointer: Open, after: list[PhaseDetails], pending: dict[str, Any] | None
) -> None:
    with open_checkpointer() as first:
        start_session(first).save_phase("s", PostLlm(), snapshot=FULL, transcript=conversation("a"))
        for details in after:
            first.save_phase("s", details)
    point = open_checkpointer().resume("s")

    assert (point.pending_response, point.snapshot) == (pending, replace(FULL, pending_llm_response=pending))
    assert open_checkpointer().preview_resume("s")["pending_response"] is (pending is not None)


def test_light_phase_keeps_a_pending_answer_without_a_snapshot(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint(
            "s", [], None, 0, phase="post_llm", payload={"pending_llm_response": ANSWER}
        )
        first.save_phase("s", PreToolBatch(tool_call_count=1))
    point = open_checkpointer().resume("s")

    assert (point.pending_response, point.snapshot) == (ANSWER, None)


def test_plain_version_clears_the_snapshot(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_phase("s", PostLlm(), snapshot=FULL, transcript=[])
        first.save_checkpoint("s", conversation("a"), None, 0)
        first.save_phase("s", PreToolBatch())
    point = open_checkpointer().resume("s")

    assert (point.pending_response, point.snapshot) == (None, None)


def test_expected_version_is_compared_with_the_session(cp: SyncCheckpointer) -> None:
    start_session(cp).save_phase("s", RunStarted(), expected_version=0)

    for transcript in (None, conversation("a")):
        with pytest.raises(VersionConflict):
            cp.save_phase("s", PreLlm(), transcript=transcript, expected_version=0)


def test_saving_a_phase_requires_ownership(open_checkpointer: Open) -> None:
    start_session(open_checkpointer())

    with pytest.raises(NotOwner):
        open_checkpointer().save_phase("s", RunStarted())


def test_saved_terminal_phase_is_the_result_of_a_resume(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        end = RunTerminal(state="failed", terminal_result={"why": "no money"})
        start_session(first).save_phase("s", end, transcript=conversation("a"))
    assert open_checkpointer().preview_resume("s")["finished"] is True

    for _ in range(2):
        point = open_checkpointer().resume("s")
        assert (point.finished, point.result, point.run) == (True, {"why": "no money"}, None)
    assert Session.objects.get().status == "failed"


def test_finish_is_refused_while_an_outcome_is_unknown(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).record_tool_call_issued("s", "call_1", "pay", {}, "key")
        first.save_phase("s", RunTerminal(state="completed", terminal_result="paid"))

    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s")
    assert Session.objects.get().status == "needs_review"


def test_invalid_terminal_phase_is_not_saved(cp: SyncCheckpointer) -> None:
    with pytest.raises(InvalidInput, match=r"details\.state"):
        start_session(cp).save_phase("s", RunTerminal(state="running", terminal_result=None))


def test_replays_are_counted_in_the_snapshot(open_checkpointer: Open) -> None:
    def saved(cp: SyncCheckpointer) -> int:
        version = cp.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(replayed_effect_count=99))
        return int(cp.load("s", version)["payload"]["replayed_effect_count"])

    def paying(cp: SyncCheckpointer, *orders: int) -> None:
        registry = ToolRegistry(checkpointer=cp, session_id="s")
        registry.tool(name="pay")(lambda order: "paid")
        for order in orders:
            registry.dispatch("pay", {"order": order}, f"call_{order}")

    with open_checkpointer() as first:
        paying(start_session(first), 1, 2)
        assert saved(first) == 0
        paying(first, 1, 1)
        assert saved(first) == 1
    with open_checkpointer() as second:
        paying(start_session(second), 1, 2, 3)
        second.save_phase("s", PreToolBatch())
        assert saved(second) == 3
    third = open_checkpointer()
    third.resume("s")
    assert saved(third) == 3


def test_changed_result_is_not_replayed(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        registry = ToolRegistry(checkpointer=start_session(first), session_id="s")
        registry.tool(name="pay")(lambda order: "paid")
        registry.dispatch("pay", {"order": 1}, "call_1")
    ToolCall.objects.update(result='"paid nothing"')
    second = open_checkpointer()

    registry = ToolRegistry(checkpointer=start_session(second), session_id="s")
    registry.tool(name="pay")(lambda order: "paid")
    with pytest.raises(IntegrityError, match="its result does not match its digest"):
        registry.dispatch("pay", {"order": 1}, "call_2")
    with pytest.raises(IntegrityError):
        second.find_completed_call(ToolCall.objects.get().idempotency_key)
    second.close()
    with pytest.raises((IntegrityError, SessionQuarantined)):
        open_checkpointer().resume("s")


def test_snapshot_is_kept_while_a_later_version_needs_it(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first)
        for step in (1, 2):
            first.save_phase("s", StepStarted(), snapshot=replace(FULL, step=step), transcript=conversation("a"))
            first.save_phase("s", PostLlm(), snapshot=replace(FULL, step=step))
        for details in (PreToolBatch(), PostToolBatch(), PreToolBatch()):
            first.save_phase("s", details)
        assert first.prune("s", keep_last=1).versions == 3
        assert first.prune("s", older_than=timedelta(0)).versions == 0
        for version in (4, 5, 6):
            with pytest.raises(StillNeeded):
                first.delete_checkpoint("s", version)
    point = open_checkpointer().resume("s")

    assert point.snapshot == replace(FULL, step=2, pending_llm_response=None)


def test_fork_of_a_version_without_snapshot_has_its_position(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_phase("s", PostLlm(), snapshot=FULL, transcript=conversation("a"))
        light = first.save_phase("s", PreToolBatch(tool_call_count=1))
        first.save_phase("s", PostToolBatch())
        first.fork_session("s", "fork", version=light)
        first.fork_session("s", "later")

    assert open_checkpointer().resume("fork").snapshot == FULL
    assert open_checkpointer().resume("later").snapshot == replace(FULL, pending_llm_response=None)


def test_complete_loop_saves_every_phase(cp: SyncCheckpointer, effects: Path) -> None:
    passed: list[str] = []
    result = AgentLoop(cp, str(effects), passed.append).start()

    assert result == {"text": "all paid", "asked": 3, "paid": 3}
    assert list(dict.fromkeys(passed)) == POINTS
    assert effects.read_text().split("\n")[:-1] == ["ask 1", "pay 1", "ask 2", "pay 2", "pay 3", "ask 3"]
