"""Starting or resuming a session is one flow, and it always passes the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import Checkpointer, Landed, SyncCheckpointer, ToolRegistry, sync_and_async_flow_runners
from checkpoints.exceptions import ApprovalRequired, AtGate, InvalidIdentifier, NotOwner, ReviewRequired
from checkpoints.loop_state.phase_details import StepStarted
from checkpoints.models import Session
from checkpoints.resume import start_or_resume
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.sessions.new_session_fields import NewSessionFields
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, conversation, start_session


def open_session(cp: SyncCheckpointer, session_id: str = "s", **options: Any) -> ResumePoint:
    return sync_and_async_flow_runners.run_flow(
        start_or_resume.create_or_resume_session_flow(
            cp.store, session_id, NewSessionFields("Refund order 17", "desk"), **options
        )
    )


def test_session_that_does_not_exist_is_created(cp: SyncCheckpointer) -> None:
    point = open_session(cp)

    assert (point.transcript, point.version, point.finished) == ([], 0, False)
    assert point.run is not None
    assert (point.run.number, Session.objects.get().title) == (1, "Refund order 17")


def test_existing_session_is_resumed_and_keeps_its_description(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        first.start_session("s", "Where is my parcel?")
        first.save_checkpoint("s", conversation("ab"), {"goal": 1}, 0.5)
    point = open_session(open_checkpointer())

    assert (point.transcript, point.plan, point.version) == (conversation("ab"), {"goal": 1}, 1)
    assert Session.objects.get().title == "Where is my parcel?"


def test_session_with_an_undecided_call_is_refused_and_released(open_checkpointer: Open) -> None:
    with start_session(open_checkpointer()) as first:
        first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    second = open_checkpointer()
    with pytest.raises(ReviewRequired):
        open_session(second)

    assert call_statuses() == [("call_1", 1, "interrupted")]
    assert Session.objects.get().owner is None


def test_finished_session_returns_its_result_on_open(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).finish_session("s", "completed", {"refunded": 40})
    point = open_session(open_checkpointer())

    assert (point.finished, point.result, point.run) == (True, {"refunded": 40}, None)


def test_unusable_id_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(InvalidIdentifier):
        open_session(cp, "")
    assert not Session.objects.exists()


# start_session passes the same gate


def lose_call(open_checkpointer: Open, **effects: Any) -> SyncCheckpointer:
    """Return a new checkpointer for a session whose run ended inside `pay(order=17)`."""
    with start_session(open_checkpointer()) as first:
        first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key", **effects)
    return open_checkpointer()


def paying(cp: SyncCheckpointer, **options: Any) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay", **options)(lambda order: f"paid {order}")
    return registry


def test_start_with_an_undecided_call_is_refused_and_saves_nothing(open_checkpointer: Open) -> None:
    cp = lose_call(open_checkpointer)
    with pytest.raises(ReviewRequired):
        cp.start_session("s")
    with pytest.raises(ReviewRequired) as caught:
        cp.start_session("s")
    with pytest.raises(NotOwner):
        cp.save_checkpoint("s", conversation("a"), None, 0)
    with pytest.raises(ReviewRequired):  # appending needs no run, and is held by the same calls
        cp.append_checkpoint("s", conversation("a"), expected_version=0)
    with pytest.raises(NotOwner):
        cp.save_phase("s", StepStarted())

    assert [call["call_id"] for call in caught.value.calls] == ["call_1"]
    session = Session.objects.get()
    assert (session.owner, session.status, session.latest_version) == (None, "needs_review", 0)


def test_async_start_with_an_undecided_call_is_refused(open_checkpointer: Open) -> None:
    lose_call(open_checkpointer)

    async def start() -> None:
        async with Checkpointer() as cp:
            with pytest.raises(ReviewRequired):
                await cp.start_session("s")
            with pytest.raises(NotOwner):
                await cp.save_checkpoint("s", conversation("a"), None, 0)

    asyncio.run(start())
    assert Session.objects.get().owner is None


def test_start_continues_after_the_call_is_decided(open_checkpointer: Open) -> None:
    cp = lose_call(open_checkpointer)
    with pytest.raises(ReviewRequired) as caught:
        cp.start_session("s")
    revision = caught.value.calls[0]["revision"]
    cp.confirm_landed("s", "call_1", "paid", actor="alice", reason="I looked.", revision=revision)
    run = cp.start_session("s")

    assert (run.status, Session.objects.get().status) == ("running", "active")
    assert cp.save_checkpoint("s", conversation("a"), None, 0) == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_start_calls_the_hooks_of_bound_registries(open_checkpointer: Open, is_async: bool) -> None:
    cp = lose_call(open_checkpointer)

    async def was_paid(args: dict[str, Any]) -> Landed:
        return Landed(f"receipt {args['order']}")

    async def start() -> None:
        async with Checkpointer() as other:
            registry = ToolRegistry(checkpointer=other, session_id="s")
            registry.tool(name="pay", verify=was_paid)(lambda order: "paid")
            await other.start_session("s")

    if is_async:
        asyncio.run(start())
    else:
        registry = paying(cp, verify=was_paid)
        assert (cp.start_session("s").status, registry.session_id) == ("running", "s")
    assert call_statuses() == [("call_1", 1, "completed")]


def test_start_with_a_call_that_awaits_approval_is_refused(open_checkpointer: Open) -> None:
    with start_session(open_checkpointer()) as first, pytest.raises(ApprovalRequired):
        paying(first, requires_approval=True).dispatch("pay", {"order": 17}, "call_1")
    with pytest.raises(ApprovalRequired):
        open_checkpointer().start_session("s")
    assert Session.objects.get().owner is None


def test_start_discards_interrupted_reading_calls(open_checkpointer: Open) -> None:
    cp = lose_call(open_checkpointer, side_effects={"read"})
    cp.start_session("s")

    assert call_statuses() == [("call_1", 1, "discarded")]


def test_start_by_the_owner_keeps_its_running_calls(cp: SyncCheckpointer) -> None:
    run = start_session(cp).start_session("s")
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")

    assert (cp.start_session("s").pk, call_statuses()) == (run.pk, [("call_1", 1, "issued")])


# the run in which a call became undecided may save what else it has done, and go on only through the gate


def test_run_saves_other_work_before_it_is_refused_at_the_gate(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool
    def pay(order: int) -> str:
        raise ConnectionError

    with pytest.raises(ReviewRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")

    assert cp.save_checkpoint("s", conversation("ab"), None, 1) == 1
    assert cp.append_checkpoint("s", conversation("c"), expected_version=1) == 2
    assert cp.save_phase("s", StepStarted()) == 3
    with pytest.raises(ReviewRequired):
        registry.dispatch("pay", {"order": 18}, "call_2")
    with pytest.raises(ReviewRequired):
        cp.finish_session("s", "completed")
    with pytest.raises(ReviewRequired):
        cp.start_session("s")
    with pytest.raises(NotOwner):
        cp.save_checkpoint("s", conversation("abc"), None, 1)


def test_run_at_the_gate_cannot_write(open_checkpointer: Open) -> None:
    cp = lose_call(open_checkpointer)
    flow = start_or_resume.resume_session_flow(cp.store, "s", wait=True)
    step = next(flow)
    while not isinstance(step, sync_and_async_flow_runners.Sleep):
        assert isinstance(step, sync_and_async_flow_runners.Transact)
        step = flow.send(step.work())

    registry = paying(cp)
    attempts: list[Callable[[], object]] = [
        lambda: cp.save_checkpoint("s", conversation("a"), None, 0),
        lambda: cp.append_checkpoint("s", conversation("a"), expected_version=0),
        lambda: cp.record_tool_call_issued("s", "call_2", "look", {}, "other", side_effects={"read"}),
        lambda: registry.dispatch("pay", {"order": 18}, "call_3"),
        lambda: cp.finish_session("s", "cancelled"),
        lambda: cp.start_session("s"),
    ]
    for attempt in attempts:
        with pytest.raises(AtGate, match="waits for decisions about its calls"):
            attempt()
    assert (call_statuses(), Session.objects.get().latest_version) == ([("call_1", 1, "interrupted")], 0)

    (call,) = cp.pending_tool_calls("s")
    cp.mark_failed("s", "call_1", actor="alice", reason="not in the ledger", revision=call["revision"])
    assert sync_and_async_flow_runners.run_flow(flow_from(flow)).version == 0
    assert cp.save_checkpoint("s", conversation("a"), None, 0) == 1


def flow_from(flow: sync_and_async_flow_runners.Flow[ResumePoint]) -> sync_and_async_flow_runners.Flow[ResumePoint]:
    """Run the remaining steps of a flow."""
    step = flow.send(None)
    while True:
        try:
            step = flow.send((yield step))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
