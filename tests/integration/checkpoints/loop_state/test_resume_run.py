"""Resuming by run id: a new run is linked to the old one and carries its totals forward."""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, Unknown
from checkpoints.exceptions import ReviewRequired, RunNotFound, SessionBusy
from checkpoints.loop_state import PostToolBatch, RuntimeSnapshot
from checkpoints.models import Run, ToolCall, Workspace
from checkpoints.store.owning_run_protocol import OwningRun
from tests.conftest import Open
from tests.integration.checkpoints.loop_state.phase_agent import AgentLoop
from tests.integration.checkpoints.session_setups import conversation, start_session


def spent(cp: SyncCheckpointer, state: str = "running") -> OwningRun:
    """Return a released run with usage totals."""
    run = cp.start_session("s")
    snapshot = RuntimeSnapshot(
        step=4, state=state, llm_calls=4, tool_calls=7, active_s=9.5, usage={"total_tokens": 900}, total_cost_usd=1.5
    )
    cp.save_phase("s", PostToolBatch(), snapshot=snapshot, transcript=conversation("ab"))
    cp.close()
    return run


def test_totals_are_carried_forward(open_checkpointer: Open) -> None:
    old = spent(open_checkpointer())
    point = open_checkpointer().resume_run(old.pk)

    assert point.run is not None
    assert point.snapshot is not None
    assert (point.run.number, point.run.resumed_from_id, point.run.pk == old.pk) == (2, old.pk, False)
    assert (point.budget_spent_usd, point.usage, point.transcript) == (1.5, {"total_tokens": 900}, conversation("ab"))
    assert (point.snapshot.llm_calls, point.snapshot.tool_calls, point.snapshot.active_s) == (4, 7, 9.5)


def test_exhausted_limits_stay_exhausted(open_checkpointer: Open) -> None:
    run = spent(open_checkpointer(), state="exhausted")
    for _ in range(2):
        with open_checkpointer() as cp:
            point = cp.resume_run(str(run.pk))
            assert point.run is not None
            assert point.snapshot is not None
            assert (point.snapshot.state, point.budget_spent_usd) == ("exhausted", 1.5)
            cp.save_phase("s", PostToolBatch(), snapshot=replace(point.snapshot, step=5))
            run = point.run


def test_every_run_of_a_session_resumes_its_newest_version(open_checkpointer: Open) -> None:
    first = spent(open_checkpointer())
    with open_checkpointer() as cp:
        cp.resume_run(first.pk)
        version = cp.save_checkpoint("s", conversation("abc"), None, 2)
    point = open_checkpointer().resume_run(first.pk)

    assert point.run is not None
    assert (point.version, point.run.number, point.budget_spent_usd) == (version, 3, 2)


def test_finished_run_returns_its_result_and_runs_nothing(open_checkpointer: Open, effects: Path) -> None:
    with open_checkpointer() as cp:
        result = AgentLoop(cp, str(effects)).start()
    done = effects.read_text()
    for _ in range(2):
        cp = open_checkpointer()
        point = cp.resume_run(Run.objects.order_by("number").values_list("pk", flat=True)[0])
        assert (point.finished, AgentLoop(cp, str(effects)).go_on(point)) == (True, result)
    assert (effects.read_text(), Run.objects.count()) == (done, 1)


def test_live_run_is_not_resumed(open_checkpointer: Open) -> None:
    run = open_checkpointer().start_session("s")

    with pytest.raises(SessionBusy):
        open_checkpointer().resume_run(run.pk)
    assert open_checkpointer().resume_run(run.pk, takeover=True).version == 0


@pytest.mark.parametrize("run_id", ["", "no id", uuid.UUID(int=7), "../../etc"], ids=str)
def test_unknown_run_raises_typed_error(cp: SyncCheckpointer, run_id: str | uuid.UUID) -> None:
    start_session(cp)

    with pytest.raises(RunNotFound):
        cp.resume_run(run_id)


def test_run_of_another_workspace_is_unknown(open_checkpointer: Open) -> None:
    run = open_checkpointer().start_session("s")
    Workspace.objects.create(slug="other", name="Other")

    with pytest.raises(RunNotFound):
        open_checkpointer(workspace="other").resume_run(run.pk)


def test_hooks_of_the_registry_are_called(open_checkpointer: Open) -> None:
    first = open_checkpointer()
    run = first.start_session("s")
    first.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    first.close()
    with pytest.raises(ReviewRequired):
        open_checkpointer().resume_run(run.pk)
    registry = ToolRegistry()
    asked: list[object] = []

    def was_paid(args: dict[str, Any]) -> Unknown:
        asked.append(args)
        return Unknown("the bank is closed")

    registry.tool(name="pay", verify=was_paid)(lambda: "paid")

    with pytest.raises(ReviewRequired):
        open_checkpointer().resume_run(run.pk, registry)
    assert (asked, registry.session_id, ToolCall.objects.get().status) == ([{}], "s", "interrupted")


@pytest.mark.asyncio
async def test_async_class_behaves_alike(workspace: Workspace) -> None:
    async with Checkpointer() as first:
        run = await first.start_session("s")
        await first.save_phase("s", PostToolBatch(), snapshot=RuntimeSnapshot(step=2), transcript=conversation("a"))
        record = {"run_id": "r", "phase": "pre_llm", "payload": {"model": "m"}}
        assert (await first.import_record("s", record)).version == 2
    async with Checkpointer() as second:
        point = await second.resume_run(run.pk, ToolRegistry())
        assert point.snapshot == RuntimeSnapshot(step=2)
        with pytest.raises(RunNotFound):
            await second.resume_run("x")
