"""Finishing a session, and its state afterwards."""

from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import (
    CallInProgress,
    InvalidInput,
    NotOwner,
    NotRepresentable,
    OwnershipLost,
    ReviewRequired,
    SessionFinished,
    SessionNotFound,
)
from checkpoints.models import Run, Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, lose_run, start_session


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("result", [None, {}, {"paid": [1, "\0"]}, "text", False], ids=repr)
def test_finished_session_returns_its_result(open_checkpointer: Open, status: str, result: object) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", [{"a": 1}], {"p": 1}, 0.5)
    cp.finish_session("s", status, result)

    point = open_checkpointer().resume("s")
    assert (point.finished, point.result, point.run, point.version) == (True, result, None, 1)
    assert (point.transcript, point.plan, point.budget_spent_usd, point.replayable) == ([{"a": 1}], {"p": 1}, 0.5, {})
    assert (Session.objects.get().status, list(Run.objects.values_list("number", "status"))) == (status, [(1, status)])


def test_finished_session_is_not_revived(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.finish_session("s", "completed")

    for call in (cp.start_session, open_checkpointer().start_session, lambda given: cp.finish_session(given, "failed")):
        with pytest.raises(SessionFinished) as caught:
            call("s")
        assert caught.value.status == "completed"
    assert Session.objects.get().status == "completed"


@pytest.mark.parametrize("status", ["active", "done", "", None, ["completed"]], ids=repr)
def test_status_that_is_not_final_is_refused(cp: SyncCheckpointer, status: Any) -> None:
    with pytest.raises(InvalidInput):
        start_session(cp).finish_session("s", status)
    assert Session.objects.get().status == "active"


def test_result_without_an_exact_json_form_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(NotRepresentable):
        start_session(cp).finish_session("s", "completed", {"a": float("nan")})
    assert Session.objects.get().status == "active"


def test_finish_requires_ownership(open_checkpointer: Open) -> None:
    stale = open_checkpointer()
    with pytest.raises(SessionNotFound):
        stale.finish_session("s", "completed")
    start_session(stale)
    taker = lose_run(open_checkpointer)

    with pytest.raises(OwnershipLost):
        stale.finish_session("s", "completed")
    with pytest.raises(NotOwner):
        open_checkpointer().finish_session("s", "completed")
    taker.finish_session("s", "failed")
    assert Session.objects.get().status == "failed"


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_finish_is_refused_while_a_call_runs(cp: SyncCheckpointer, status: str) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "pay", {}, "key")

    with pytest.raises(CallInProgress):
        cp.finish_session("s", status)
    cp.record_tool_call_result("s", "call_1", "paid", True)
    cp.finish_session("s", status)
    assert call_statuses() == [("call_1", 1, "completed")]


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_finish_is_refused_while_a_call_is_undecided(open_checkpointer: Open, status: str) -> None:
    taker, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)

    with pytest.raises(ReviewRequired) as caught:
        taker.finish_session("s", status)
    assert caught.value.calls == [call]
    assert Session.objects.get().status == "needs_review"


def test_open_calls_of_a_cancelled_session_stay_undecided(cp: SyncCheckpointer) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "pay", {}, "key")
    cp.finish_session("s", "cancelled")
    (call,) = cp.pending_tool_calls("s")

    assert (call["status"], Session.objects.get().status) == ("interrupted", "cancelled")
    cp.confirm_landed("s", "call_1", "paid", actor="alice", reason="in the ledger", revision=call["revision"])
    assert (call_statuses(), Session.objects.get().status) == ([("call_1", 1, "completed")], "cancelled")
