"""Dispatch: calls run once, are replayed, or are refused until a person decides."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.exceptions import (
    CallConflict,
    InvalidInput,
    NotOwner,
    OwnershipLost,
    RegistryNotBound,
    ReviewRequired,
    SessionFinished,
    SessionNotFound,
)
from checkpoints.models import ToolCall, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, lose_run, start_session
from tests.support.processes import append_line


@pytest.fixture
def registry(cp: SyncCheckpointer, effects: Path) -> ToolRegistry:
    return desk(start_session(cp), effects)


def desk(cp: SyncCheckpointer, effects: Path, session_id: str = "s") -> ToolRegistry:
    """Build a registry whose tools append a line for each effect."""
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    @registry.tool
    def pay(order: int, amount: Decimal = Decimal(40)) -> str:
        append_line(str(effects), f"pay {order} {amount}")
        return f"paid {amount} for order {order}"

    @registry.tool(side_effects={"write"})
    async def note(text: str) -> dict[str, str]:
        append_line(str(effects), f"note {text}")
        return {"noted": text}

    @registry.tool(side_effects={"read"})
    def look(order: int) -> str:
        append_line(str(effects), f"look {order}")
        return f"order {order}"

    @registry.tool(idempotency="call")
    def ring(times: int) -> str:
        append_line(str(effects), f"ring {times}")
        return f"rang {times}"

    @registry.tool(idempotency=lambda args: str(args["order"]))
    def charge(order: int, amount: int) -> str:
        append_line(str(effects), f"charge {order} {amount}")
        return f"charged {amount}"

    @registry.tool(scope="workspace")
    def welcome(customer: str) -> str:
        append_line(str(effects), f"welcome {customer}")
        return f"welcomed {customer}"

    return registry


def done(effects: Path) -> list[str]:
    return effects.read_text().splitlines()


def test_call_runs_and_is_logged(registry: ToolRegistry, effects: Path) -> None:
    result = registry.dispatch("pay", {"order": 17, "amount": "40.50"}, "call_1")
    call = ToolCall.objects.get()

    assert result == ToolResult("call_1", "paid 40.50 for order 17")
    assert done(effects) == ["pay 17 40.50"]
    assert (
        call.status,
        call.result_text,
        call.args,
        call.args_json_in_caller_order,
        call.side_effects,
        call.attempt,
    ) == (
        "completed",
        "paid 40.50 for order 17",
        '{"amount":"40.50","order":17}',
        '{"order":17,"amount":"40.50"}',
        "mutate",
        1,
    )


@pytest.mark.parametrize("unlogged", [False, True])
def test_registry_without_a_session_runs_nothing_that_has_side_effects(
    cp: SyncCheckpointer, effects: Path, unlogged: bool
) -> None:
    registry = desk(start_session(cp), effects)
    registry.session_id, registry.unlogged = None, unlogged

    assert registry.dispatch("look", {"order": 17}, "call_1") == ToolResult("call_1", "order 17")
    if unlogged:
        assert registry.dispatch("pay", {"order": 17}, "call_2").content == "paid 40 for order 17"
    else:
        with pytest.raises(RegistryNotBound, match="has no session id to log the call with"):
            registry.dispatch("pay", {"order": 17}, "call_2")
    assert done(effects) == ["look 17", *(["pay 17 40"] if unlogged else [])]
    assert not ToolCall.objects.exists()


def test_registry_that_allows_unlogged_calls_logs_in_a_session(cp: SyncCheckpointer, effects: Path) -> None:
    registry = desk(start_session(cp), effects)
    registry.unlogged = True
    registry.dispatch("pay", {"order": 17}, "call_1")

    assert call_statuses() == [("call_1", 1, "completed")]


def test_coroutine_tool_runs_from_blocking_code(registry: ToolRegistry, effects: Path) -> None:
    assert registry.dispatch("note", {"text": "hi"}, "call_1") == ToolResult("call_1", '{"noted":"hi"}')
    assert done(effects) == ["note hi"]


def test_same_call_is_replayed_unchanged(registry: ToolRegistry, effects: Path) -> None:
    first = registry.dispatch("pay", {"order": 17}, "call_1")
    second = registry.dispatch("pay", {"order": 17}, "call_2")

    assert second == ToolResult("call_2", first.content, replayed=True)
    assert (done(effects), ToolCall.objects.get().replay_count) == (["pay 17 40"], 1)


def test_call_of_an_earlier_run_is_replayed(registry: ToolRegistry, open_checkpointer: Open, effects: Path) -> None:
    first = registry.dispatch("pay", {"order": 17}, "call_1")
    second = desk(lose_run(open_checkpointer), effects).dispatch("pay", {"order": 17}, "call_1")

    assert second == ToolResult("call_1", first.content, replayed=True)
    assert done(effects) == ["pay 17 40"]


def test_other_arguments_are_another_call(registry: ToolRegistry, effects: Path) -> None:
    others: list[dict[str, object]] = [
        {"order": 1},
        {"order": 2},
        {"order": 1, "amount": 1},
        {"order": 1, "amount": "1"},
    ]
    for number, args in enumerate(others):
        assert registry.dispatch("pay", args, f"call_{number}").replayed is False
    assert done(effects) == ["pay 1 40", "pay 2 40", "pay 1 1", "pay 1 1"]


def test_reading_call_is_not_logged(registry: ToolRegistry, effects: Path) -> None:
    for _ in range(2):
        assert registry.dispatch("look", {"order": 17}, "call_1") == ToolResult("call_1", "order 17")
    assert (done(effects), ToolCall.objects.count()) == (["look 17", "look 17"], 0)


def test_reading_call_runs_while_another_is_undecided(open_checkpointer: Open, effects: Path) -> None:
    taker, _ = interrupt_call(start_session(open_checkpointer()), open_checkpointer)

    assert desk(taker, effects).dispatch("look", {"order": 17}, "call_2").content == "order 17"


def test_intended_repeats_run_each_time(registry: ToolRegistry, effects: Path) -> None:
    assert [
        registry.dispatch("ring", {"times": 1}, call_id).replayed for call_id in ("call_1", "call_2", "call_1")
    ] == [
        False,
        False,
        True,
    ]
    assert done(effects) == ["ring 1", "ring 1"]


def test_intended_repeat_in_the_next_step_may_reuse_its_id(
    registry: ToolRegistry, cp: SyncCheckpointer, effects: Path
) -> None:
    registry.dispatch("ring", {"times": 1}, "call_1")
    cp.save_checkpoint("s", [], None, 0)

    assert registry.dispatch("ring", {"times": 1}, "call_1").replayed is False
    assert done(effects) == ["ring 1", "ring 1"]


def test_id_reused_in_the_next_step_keeps_results_apart(
    registry: ToolRegistry, cp: SyncCheckpointer, effects: Path
) -> None:
    results = []
    for order in (1, 2):
        results.append(registry.dispatch("pay", {"order": order}, "call_1").content)
        cp.save_checkpoint("s", [], None, 0)

    assert results == ["paid 40 for order 1", "paid 40 for order 2"]
    assert registry.dispatch("pay", {"order": 1}, "call_1").content == "paid 40 for order 1"
    assert done(effects) == ["pay 1 40", "pay 2 40"]


def test_id_reused_in_one_step_for_something_else_is_a_conflict(registry: ToolRegistry, effects: Path) -> None:
    registry.dispatch("pay", {"order": 1}, "call_1")

    with pytest.raises(CallConflict):
        registry.dispatch("pay", {"order": 2}, "call_1")
    with pytest.raises(CallConflict):
        registry.dispatch("note", {"text": "1"}, "call_1")
    assert done(effects) == ["pay 1 40"]


def test_custom_key_makes_other_arguments_the_same_operation(registry: ToolRegistry, effects: Path) -> None:
    registry.dispatch("charge", {"order": 1, "amount": 4}, "call_1")

    assert registry.dispatch("charge", {"order": 1, "amount": 5}, "call_2").content == "charged 4"
    assert done(effects) == ["charge 1 4"]


def test_sessions_do_not_share_calls(registry: ToolRegistry, cp: SyncCheckpointer, effects: Path) -> None:
    other = desk(start_session(cp, "other"), effects, "other")

    assert [each.dispatch("pay", {"order": 1}, "call_1").replayed for each in (registry, other)] == [False, False]
    assert done(effects) == ["pay 1 40", "pay 1 40"]


def test_workspace_key_is_one_operation_in_all_sessions(
    registry: ToolRegistry, cp: SyncCheckpointer, effects: Path
) -> None:
    other = desk(start_session(cp, "other"), effects, "other")

    results = [each.dispatch("welcome", {"customer": "bob"}, "call_1") for each in (registry, other)]
    assert results == [
        ToolResult("call_1", "welcomed bob"),
        ToolResult("call_1", "welcomed bob", replayed=True),
    ]
    assert done(effects) == ["welcome bob"]


def test_workspaces_do_not_share_calls(registry: ToolRegistry, open_checkpointer: Open, effects: Path) -> None:
    Workspace.objects.create(slug="other", name="Other")
    other = desk(start_session(open_checkpointer(workspace="other")), effects)

    for each in (registry, other):
        assert each.dispatch("welcome", {"customer": "bob"}, "call_1").replayed is False
    assert done(effects) == ["welcome bob", "welcome bob"]


# refused: nothing runs


def test_unknown_tool_is_an_error_result(registry: ToolRegistry) -> None:
    result = registry.dispatch("refund", {}, "call_1")

    assert (result.is_error, ToolCall.objects.count()) == (True, 0)


@pytest.mark.parametrize(
    "args",
    [{}, {"order": "17"}, {"order": 17, "colour": 1}, {"order": 17, "amount": "NaN"}, {"order": 17, "amount": {1}}],
    ids=repr,
)
def test_invalid_arguments_are_an_error_result(registry: ToolRegistry, effects: Path, args: dict[str, object]) -> None:
    result = registry.dispatch("pay", args, "call_1")

    assert (result.is_error, result.replayed, done(effects), ToolCall.objects.count()) == (True, False, [], 0)


def test_idempotency_function_that_fails_runs_nothing(registry: ToolRegistry, effects: Path) -> None:
    @registry.tool(idempotency=lambda args: str(args["no such argument"]))
    def fragile(order: int) -> str:
        append_line(str(effects), "fragile")
        return ""

    assert registry.dispatch("fragile", {"order": 1}, "call_1").is_error is True
    assert (done(effects), ToolCall.objects.count()) == ([], 0)


@pytest.mark.parametrize("step", ["1", -1, 2**70, 1.5, True], ids=repr)
def test_invalid_step_runs_nothing(registry: ToolRegistry, effects: Path, step: int) -> None:
    with pytest.raises(InvalidInput):
        registry.dispatch("pay", {"order": 1}, "call_1", step=step)
    assert done(effects) == []


def test_dispatch_requires_an_owned_session(open_checkpointer: Open, effects: Path) -> None:
    registry = desk(open_checkpointer(), effects)
    with pytest.raises(SessionNotFound):
        registry.dispatch("pay", {"order": 1}, "call_1")
    start_session(open_checkpointer())
    with pytest.raises(NotOwner):
        registry.dispatch("pay", {"order": 1}, "call_1")
    assert done(effects) == []


def test_dispatch_of_a_lost_run_runs_nothing(registry: ToolRegistry, open_checkpointer: Open, effects: Path) -> None:
    lose_run(open_checkpointer)

    with pytest.raises(OwnershipLost):
        registry.dispatch("pay", {"order": 1}, "call_1")
    assert done(effects) == []


def test_dispatch_in_a_finished_session_runs_nothing(
    registry: ToolRegistry, cp: SyncCheckpointer, effects: Path
) -> None:
    cp.finish_session("s", "completed")

    with pytest.raises(SessionFinished):
        registry.dispatch("pay", {"order": 1}, "call_1")
    assert done(effects) == []


def test_mutating_call_is_blocked_by_the_review_of_another(open_checkpointer: Open, effects: Path) -> None:
    taker, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)

    others: list[tuple[str, dict[str, object]]] = [("pay", {"order": 1}), ("note", {"text": "x"})]
    for name, args in others:
        with pytest.raises(ReviewRequired) as caught:
            desk(taker, effects).dispatch(name, args, "call_2")
        assert caught.value.calls == [call]
    assert (done(effects), call_statuses()) == ([], [("call_1", 1, "interrupted")])


@pytest.mark.parametrize("logged", [True, False], ids=["logged", "unlogged"])
@pytest.mark.parametrize("args", ['{"order": 17}', b'{"order": 17}', [17], None, 17], ids=repr)
def test_arguments_that_are_not_an_object_are_an_error_result(cp: SyncCheckpointer, args: Any, logged: bool) -> None:
    ran = []
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool(side_effects={"mutate" if logged else "read"})
    def pay(order: int = 0) -> None:
        ran.append(order)

    result = registry.dispatch("pay", args, "call_1")

    assert (result.is_error, ran, cp.pending_tool_calls("s")) == (True, [], [])
    assert "dict" in result.content
    assert ("json.loads" in result.content) is isinstance(args, str | bytes)
