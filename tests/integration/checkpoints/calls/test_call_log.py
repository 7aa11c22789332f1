"""The call log without a tool registry: intents, results and refused transitions."""

from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import (
    CallAlreadySettled,
    CallConflict,
    CallInProgress,
    CallNotFound,
    InvalidArguments,
    InvalidIdentifier,
    InvalidInput,
    LateResultRefused,
    NotOwner,
    NotRepresentable,
    OwnershipLost,
    ReviewRequired,
    SessionFinished,
    SessionNotFound,
)
from checkpoints.models import ToolCall, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, lose_run, start_session

ARGS = {"order": 17, "amount": "40"}


def issue(cp: SyncCheckpointer, call_id: str = "call_1", key: str = "key", **more: Any) -> None:
    cp.record_tool_call_issued("s", call_id, "pay", **{"args": ARGS, "idempotency_key": key} | more)


def test_intent_is_stored_before_the_result(cp: SyncCheckpointer) -> None:
    run = cp.start_session("s")
    issue(cp)
    (call,) = cp.pending_tool_calls("s")
    started_at = call.pop("started_at")

    assert call == {
        "call_id": "call_1",
        "tool_name": "pay",
        "args_json": '{"amount":"40","order":17}',
        "status": "issued",
        "reason": "",
        "run_id": str(run.pk),
        "alive": True,
        "step": 0,
        "attempt": 1,
        "revision": 1,
        "verify_reason": None,
        "allowed_decisions": [],
    }
    assert started_at == ToolCall.objects.get().issued_at.isoformat()


def test_completed_call_is_found_by_its_key(cp: SyncCheckpointer) -> None:
    issue(start_session(cp))
    cp.record_tool_call_result("s", "call_1", "paid\0", True)

    found = cp.find_completed_call("key")
    assert found is not None
    assert (found["call_id"], found["tool_name"], found["result_text"], found["status"], found["session_id"]) == (
        "call_1",
        "pay",
        "paid\0",
        "completed",
        "s",
    )
    assert cp.pending_tool_calls("s") == []


@pytest.mark.parametrize("result", ["", "{}", '"quoted"', "NUL \0 and \ud800", "世界" * 1000, "null"], ids=ascii)
def test_result_is_returned_unchanged(cp: SyncCheckpointer, result: str) -> None:
    issue(start_session(cp))
    cp.record_tool_call_result("s", "call_1", result, True)

    found = cp.find_completed_call("key")
    assert found is not None
    assert found["result_text"] == result


def test_only_completed_calls_are_found(cp: SyncCheckpointer) -> None:
    issue(start_session(cp))
    assert cp.find_completed_call("key") is None
    cp.record_tool_call_result("s", "call_1", "declined", False)
    assert cp.find_completed_call("key") is None
    assert cp.find_completed_call("no such key") is None


def test_other_workspace_finds_nothing(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    issue(start_session(cp))
    cp.record_tool_call_result("s", "call_1", "paid", True)

    assert open_checkpointer(workspace="other").find_completed_call("key") is None


def test_unknown_session_has_no_pending_calls(cp: SyncCheckpointer) -> None:
    assert cp.pending_tool_calls("not yet started") == []


def test_failed_call_may_be_retried(cp: SyncCheckpointer) -> None:
    issue(start_session(cp))
    cp.record_tool_call_result("s", "call_1", "declined", False)
    issue(cp)
    cp.record_tool_call_result("s", "call_1", "paid", True)

    assert call_statuses() == [("call_1", 1, "failed"), ("call_1", 2, "completed")]


def test_failed_call_may_be_retried_under_another_id(cp: SyncCheckpointer) -> None:
    issue(start_session(cp))
    cp.record_tool_call_result("s", "call_1", "declined", False)
    issue(cp, "call_2")

    assert call_statuses() == [("call_1", 1, "failed"), ("call_2", 1, "issued")]


# what stands in the way of an intent


def test_running_call_is_in_progress(cp: SyncCheckpointer) -> None:
    issue(start_session(cp))

    for call_id in ("call_1", "call_2"):
        with pytest.raises(CallInProgress) as caught:
            issue(cp, call_id)
        assert (caught.value.session_id, caught.value.call_id, caught.value.tool) == ("s", "call_1", "pay")
    assert call_statuses() == [("call_1", 1, "issued")]


def test_completed_call_is_settled(cp: SyncCheckpointer) -> None:
    issue(start_session(cp))
    cp.record_tool_call_result("s", "call_1", "paid", True)

    with pytest.raises(CallAlreadySettled) as caught:
        issue(cp, "call_2")
    assert (caught.value.call_id, caught.value.status) == ("call_1", "completed")
    assert call_statuses() == [("call_1", 1, "completed")]


def test_interrupted_call_needs_review(open_checkpointer: Open) -> None:
    taker, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)

    with pytest.raises(ReviewRequired) as caught:
        issue(taker, key="key of call_1", args={"order": 17})
    assert caught.value.calls == [call]
    assert (call["status"], call["reason"], call["revision"], call["alive"]) == ("interrupted", "run_lost", 2, False)


def test_other_mutating_call_is_blocked_by_the_review(open_checkpointer: Open) -> None:
    taker, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)

    with pytest.raises(ReviewRequired) as caught:
        issue(taker, "call_2", "other key")
    assert (caught.value.calls, call_statuses()) == ([call], [("call_1", 1, "interrupted")])


def test_reading_call_is_not_blocked_by_the_review(open_checkpointer: Open) -> None:
    taker, _ = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    issue(taker, "call_2", "other key", side_effects=("read",))

    assert call_statuses() == [("call_1", 1, "interrupted"), ("call_2", 1, "issued")]


def test_same_call_id_in_the_same_step_is_one_call(cp: SyncCheckpointer) -> None:
    issue(start_session(cp))

    for changed in ({"args": {"order": 18}}, {"args": {"order": "17", "amount": "40"}}):
        with pytest.raises(CallConflict) as caught:
            issue(cp, key="other key", **changed)
        assert (caught.value.call_id, caught.value.step) == ("call_1", 0)
    with pytest.raises(CallConflict):
        cp.record_tool_call_issued("s", "call_1", "mail", ARGS, "other key")
    assert call_statuses() == [("call_1", 1, "issued")]


def test_same_call_id_in_two_steps_is_two_calls(cp: SyncCheckpointer) -> None:
    issue(start_session(cp), args={"order": 1}, key="first")
    cp.record_tool_call_result("s", "call_1", "paid 1", True)
    cp.save_checkpoint("s", [], None, 0)
    issue(cp, args={"order": 2}, key="second")
    cp.record_tool_call_result("s", "call_1", "paid 2", True)

    found = [cp.find_completed_call(key) for key in ("first", "second")]
    assert [(call["step"], call["result_text"]) for call in found if call] == [(0, "paid 1"), (1, "paid 2")]


def test_step_can_be_given(cp: SyncCheckpointer) -> None:
    issue(start_session(cp), key="a", step=1)
    issue(cp, key="b", step=2)
    cp.record_tool_call_result("s", "call_1", "first", True, step=1)

    assert cp.find_completed_call("b") is None
    assert [call["step"] for call in cp.pending_tool_calls("s")] == [2]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        pytest.param({"args": {"a": float("nan")}}, NotRepresentable, id="NaN"),
        pytest.param({"args": {"a": {1}}}, NotRepresentable, id="set"),
        pytest.param({"args": {1: "a"}}, NotRepresentable, id="int key"),
        pytest.param({"args": [1]}, InvalidArguments, id="list of arguments"),
        pytest.param({"args": '{"order": 17}'}, InvalidArguments, id="arguments as JSON text"),
        pytest.param({"call_id": ""}, InvalidIdentifier, id="no call id"),
        pytest.param({"call_id": 7}, InvalidIdentifier, id="number as call id"),
        pytest.param({"key": ""}, InvalidIdentifier, id="no key"),
        pytest.param({"key": "k" * 256}, InvalidIdentifier, id="long key"),
        pytest.param({"side_effects": ()}, InvalidInput, id="no side effects"),
        pytest.param({"side_effects": ("explodes",)}, InvalidInput, id="unknown side effect"),
        pytest.param({"side_effects": None}, InvalidInput, id="None as side effects"),
        pytest.param({"step": "first"}, InvalidInput, id="text as step"),
        pytest.param({"step": -1}, InvalidInput, id="negative step"),
        pytest.param({"step": 2**70}, InvalidInput, id="huge step"),
        pytest.param({"step": True}, InvalidInput, id="bool as step"),
    ],
)
def test_unusable_intent_is_refused(cp: SyncCheckpointer, changed: dict[str, Any], error: type[Exception]) -> None:
    start_session(cp)

    with pytest.raises(error):
        issue(cp, **changed)
    assert ToolCall.objects.count() == 0


def test_single_side_effect_may_be_a_string(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    issue(cp, side_effects="mutate")
    lose_run(open_checkpointer)

    assert call_statuses() == [("call_1", 1, "interrupted")]


def test_intent_requires_an_owned_session(open_checkpointer: Open) -> None:
    cp = open_checkpointer()
    with pytest.raises(SessionNotFound):
        issue(cp)
    start_session(open_checkpointer())
    with pytest.raises(NotOwner):
        issue(cp)
    assert ToolCall.objects.count() == 0


def test_intent_of_a_lost_run_is_refused(open_checkpointer: Open) -> None:
    stale = start_session(open_checkpointer())
    lose_run(open_checkpointer)

    with pytest.raises(OwnershipLost):
        issue(stale)
    assert ToolCall.objects.count() == 0


def test_intent_in_a_finished_session_is_refused(cp: SyncCheckpointer) -> None:
    start_session(cp).finish_session("s", "completed")

    with pytest.raises(SessionFinished):
        issue(cp)


# results


def test_result_without_an_intent_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(SessionNotFound):
        cp.record_tool_call_result("s", "call_1", "paid", True)
    start_session(cp)
    with pytest.raises(CallNotFound) as caught:
        cp.record_tool_call_result("s", "call_1", "paid", True)
    assert (caught.value.session_id, caught.value.call_id) == ("s", "call_1")


def test_result_of_another_step_is_not_found(cp: SyncCheckpointer) -> None:
    issue(start_session(cp), step=1)

    with pytest.raises(CallNotFound):
        cp.record_tool_call_result("s", "call_1", "paid", True, step=2)


@pytest.mark.parametrize("result", [None, 5, {"paid": True}, b"paid"], ids=repr)
def test_result_that_is_not_a_string_is_refused(cp: SyncCheckpointer, result: Any) -> None:
    issue(start_session(cp))

    with pytest.raises(InvalidInput):
        cp.record_tool_call_result("s", "call_1", result, True)
    assert call_statuses() == [("call_1", 1, "issued")]


@pytest.mark.parametrize("success", [True, False])
def test_second_result_changes_nothing(cp: SyncCheckpointer, success: bool) -> None:
    issue(start_session(cp))
    cp.record_tool_call_result("s", "call_1", "paid", True)

    with pytest.raises(LateResultRefused):
        cp.record_tool_call_result("s", "call_1", "other", success)
    found = cp.find_completed_call("key")
    assert found is not None
    assert found["result_text"] == "paid"
