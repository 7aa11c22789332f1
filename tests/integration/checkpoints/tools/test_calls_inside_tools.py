"""Tools that make calls themselves."""

from typing import Any

import pytest

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired, CallInsideItself, ReviewRequired
from checkpoints.models import Workspace
from tests.integration.checkpoints.session_setups import call_statuses, start_session


def test_tool_calls_another_tool(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")
    registry.tool(name="inner")(lambda: "done")

    @registry.tool
    def outer() -> str:
        return registry.dispatch("inner", {}, "call_2").content

    assert registry.dispatch("outer", {}, "call_1").content == "done"
    assert call_statuses() == [("call_1", 1, "completed"), ("call_2", 1, "completed")]


@pytest.mark.parametrize("timeout", [None, 60.0], ids=["same thread", "thread of its own"])
def test_call_inside_itself_is_refused_instead_of_waiting_for_its_own_end(
    cp: SyncCheckpointer, timeout: float | None
) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")
    refused: list[CallInsideItself] = []

    @registry.tool(timeout=timeout, side_effects={"mutate"})
    def outer() -> str:
        try:
            return registry.dispatch("outer", {}, "call_2").content
        except CallInsideItself as error:
            refused.append(error)
            return "done"

    assert registry.dispatch("outer", {}, "call_1").content == "done"
    assert "outer made the same call while it ran as call 'call_1' of session 's'." in str(refused[0])
    assert call_statuses() == [("call_1", 1, "completed")]


@pytest.mark.asyncio
async def test_async_call_inside_itself_is_refused(workspace: Workspace) -> None:
    registry = ToolRegistry()

    async with Checkpointer() as cp, cp.session("s", registry=registry) as session:

        @registry.tool
        async def outer() -> str:
            return (await session.dispatch("outer", {}, "call_2")).content

        refused = await session.dispatch("outer", {}, "call_1")
    assert "outer made the same call while it ran as call 'call_1'" in refused.content


def test_step_inside_itself_is_refused(cp: SyncCheckpointer) -> None:
    start_session(cp)
    inner_pass = cp.workflow("s", "order")

    def ship() -> str:
        return str(inner_pass.step("ship", ship))

    with pytest.raises(CallInsideItself):
        cp.workflow("s", "order").step("ship", ship)
    assert [status for _, _, status in call_statuses()] == ["failed"]


@pytest.mark.parametrize("effects", ["read", "mutate"])
def test_undecided_call_inside_a_tool_ends_the_run(cp: SyncCheckpointer, effects: str) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")
    registry.tool(name="pay", requires_approval=True)(lambda: "paid")

    @registry.tool(side_effects={effects})
    def order() -> str:
        return registry.dispatch("pay", {}, "call_2").content

    with pytest.raises(ApprovalRequired) as waiting:
        registry.dispatch("order", {}, "call_1")
    (call,) = waiting.value.calls
    cp.approve_call("s", "call_2", actor="alice", reason="The order is right.", revision=call["revision"])

    assert registry.dispatch("order", {}, "call_1").content == "paid"


def test_tool_with_an_inner_call_that_waits_runs_again_from_its_start(cp: SyncCheckpointer) -> None:
    registry, effects = ToolRegistry(checkpointer=start_session(cp), session_id="s"), []
    registry.tool(name="pay", requires_approval=True)(lambda: "paid")

    @registry.tool
    def order() -> str:
        effects.append("booked")
        return registry.dispatch("pay", {}, "call_2").content

    with pytest.raises(ApprovalRequired) as waiting:
        registry.dispatch("order", {}, "call_1")
    (call,) = waiting.value.calls
    cp.approve_call("s", "call_2", actor="alice", reason="The order is right.", revision=call["revision"])
    assert registry.dispatch("order", {}, "call_1").content == "paid"
    assert effects == ["booked", "booked"]


def test_tool_whose_ambiguous_errors_include_the_wait_of_an_inner_call_is_decided_about(cp: SyncCheckpointer) -> None:
    registry, effects = ToolRegistry(checkpointer=start_session(cp), session_id="s"), []
    registry.tool(name="pay", requires_approval=True)(lambda: "paid")

    @registry.tool(ambiguous_errors=(ReviewRequired,))
    def order() -> str:
        effects.append("booked")
        return registry.dispatch("pay", {}, "call_2").content

    with pytest.raises(ReviewRequired):
        registry.dispatch("order", {}, "call_1")
    assert call_statuses() == [("call_1", 1, "interrupted"), ("call_2", 1, "awaiting_approval")]
    about: Any = {"actor": "alice", "reason": "The order is booked."}
    revisions = {call["call_id"]: call["revision"] for call in cp.pending_tool_calls("s")}
    cp.approve_call("s", "call_2", revision=revisions["call_2"], **about)
    cp.confirm_landed("s", "call_1", "booked, not paid", revision=revisions["call_1"], **about)

    assert registry.dispatch("order", {}, "call_1").content == "booked, not paid"
    assert registry.dispatch("pay", {}, "call_2").content == "paid"
    assert effects == ["booked"]
