"""A late result, or one of a run that no longer owns its session, is stored and changes no status."""

import json

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import LateResultRefused
from checkpoints.models import AuditEvent, LateResult, Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import (
    call_statuses,
    interrupt_call,
    lose_run,
    start_session,
    take_session_past_gate,
)


def kept() -> list[tuple[bool, str | None]]:
    return [(late.success, late.result_text) for late in LateResult.objects.order_by("pk")]


def report(cp: SyncCheckpointer, result: str = "paid", success: bool = True) -> LateResultRefused:
    with pytest.raises(LateResultRefused) as caught:
        cp.record_tool_call_result("s", "call_1", result, success)
    return caught.value


@pytest.mark.parametrize("success", [True, False])
def test_result_of_a_lost_run_is_stored_as_evidence(open_checkpointer: Open, success: bool) -> None:
    stale = start_session(open_checkpointer())
    interrupt_call(stale, open_checkpointer)
    refused = report(stale, "paid\0", success)

    assert (refused.call_id, refused.status) == ("call_1", "interrupted")
    assert (kept(), call_statuses()) == ([(success, "paid\0")], [("call_1", 1, "interrupted")])


def test_late_result_names_its_run(open_checkpointer: Open) -> None:
    stale = open_checkpointer()
    run = stale.start_session("s")
    interrupt_call(stale, open_checkpointer)
    report(stale)

    assert LateResult.objects.get().run_id == run.pk


def test_late_result_updates_the_session_for_live_pages(open_checkpointer: Open) -> None:
    stale = start_session(open_checkpointer())
    interrupt_call(stale, open_checkpointer)
    before = Session.objects.get().revision
    report(stale)

    assert Session.objects.get().revision > before
    event = AuditEvent.objects.get(kind="late_result")
    assert json.loads(event.details) == {"attempt": 1, "call_id": "call_1", "status": "interrupted", "step": 0}


def test_late_result_does_not_change_a_decision(open_checkpointer: Open) -> None:
    stale = start_session(open_checkpointer())
    taker, call = interrupt_call(stale, open_checkpointer)
    taker.mark_failed("s", "call_1", actor="alice", reason="the bank says no", revision=call["revision"])
    report(stale)

    assert (call_statuses(), kept()) == ([("call_1", 1, "failed")], [(True, "paid")])


def test_late_result_after_the_end_of_the_session(open_checkpointer: Open) -> None:
    stale = start_session(open_checkpointer())
    taker, _ = interrupt_call(stale, open_checkpointer)
    taker.finish_session("s", "cancelled")
    report(stale)

    assert (call_statuses(), kept()) == ([("call_1", 1, "interrupted")], [(True, "paid")])


def test_result_of_a_process_without_a_run_is_stored(open_checkpointer: Open) -> None:
    interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    report(open_checkpointer())

    assert (call_statuses(), kept()) == ([("call_1", 1, "interrupted")], [(True, "paid")])


def test_other_process_cannot_settle_a_running_call(open_checkpointer: Open) -> None:
    owner = start_session(open_checkpointer())
    owner.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    report(open_checkpointer())

    assert call_statuses() == [("call_1", 1, "issued")]
    owner.record_tool_call_result("s", "call_1", "paid", True)
    assert call_statuses() == [("call_1", 1, "completed")]


def test_result_of_a_lost_run_does_not_settle_the_attempt_of_the_next(open_checkpointer: Open) -> None:
    stale = start_session(open_checkpointer())
    taker, call = interrupt_call(stale, open_checkpointer)
    taker.approve_rerun("s", "call_1", actor="alice", reason="not in the ledger", revision=call["revision"])
    taker.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key of call_1")
    report(stale, "paid by the first run")

    assert call_statuses() == [("call_1", 1, "superseded"), ("call_1", 2, "issued")]
    taker.record_tool_call_result("s", "call_1", "paid by the second run", True)
    assert call_statuses() == [("call_1", 1, "superseded"), ("call_1", 2, "completed")]


def test_result_of_a_former_run_counts_for_the_run_of_the_same_client(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    first.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    lose_run(open_checkpointer)
    report(take_session_past_gate(first))

    assert (call_statuses(), kept()) == ([("call_1", 1, "interrupted")], [(True, "paid")])
