"""Blocking tools that still run when nothing waits for them any more: a check that finds no effect proves nothing."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from django.db import connections

from checkpoints import Checkpointer, Landed, NotLanded, SyncCheckpointer, ToolRegistry
from checkpoints.calls import registry_of_running_tools
from checkpoints.exceptions import LateResultRefused, ReviewRequired
from checkpoints.models import Workspace
from tests.conftest import Open, StartChild
from tests.integration.checkpoints import child_scripts
from tests.integration.checkpoints.session_setups import start_session

STILL_RUNS = "the tool still runs in a thread of this process"


class SlowPayment:
    """Tool that pays when it is released, and a hook that looks whether it has paid."""

    def __init__(self) -> None:
        self.began, self.released, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.paid = 0

    def pay(self) -> str:
        self.began.set()
        assert self.released.wait(60)
        self.paid += 1
        return "paid"

    def fail(self) -> str:
        self.began.set()
        assert self.released.wait(60)
        raise ValueError("declined")

    def look(self, args: dict[str, object]) -> Landed | NotLanded:
        return Landed("paid") if self.paid else NotLanded()

    def registry(self, run: Callable[[], str], timeout: float | None = None) -> ToolRegistry:
        registry = ToolRegistry(idempotency="unanswered")
        registry.tool(name="pay", side_effects={"mutate"}, verify=self.look, timeout=timeout)(run)
        return registry

    def release(self) -> None:
        """Let the tool continue, and wait for its end."""
        self.released.set()
        for thread in threading.enumerate():
            if thread.name == "harness-invoke":
                thread.join(60)
        assert not any(place.tool == "pay" for place in registry_of_running_tools._running)


def test_hook_that_finds_nothing_does_not_settle_a_timed_out_call_that_still_runs(cp: SyncCheckpointer) -> None:
    payment = SlowPayment()
    registry = payment.registry(payment.pay, timeout=0.01)
    registry.bind(start_session(cp), "s")

    with pytest.raises(ReviewRequired, match=STILL_RUNS):
        registry.dispatch("pay", {}, "call_1")
    with pytest.raises(ReviewRequired, match=STILL_RUNS):
        cp.resume("s", registry)
    payment.release()

    assert cp.resume("s", registry).replayable["call_1"].is_error is False
    assert payment.paid == 1


def test_hook_that_finds_nothing_settles_the_call_once_its_tool_has_ended(cp: SyncCheckpointer) -> None:
    payment = SlowPayment()
    registry = payment.registry(payment.fail, timeout=0.01)
    registry.bind(start_session(cp), "s")

    with pytest.raises(ReviewRequired, match=STILL_RUNS):
        registry.dispatch("pay", {}, "call_1")
    payment.release()

    cp.resume("s", registry)
    assert cp.pending_tool_calls("s") == []


def test_waiting_resume_asks_when_the_tool_has_ended(cp: SyncCheckpointer) -> None:
    payment = SlowPayment()
    registry = payment.registry(payment.pay, timeout=0.01)
    registry.bind(start_session(cp), "s")
    with pytest.raises(ReviewRequired):
        registry.dispatch("pay", {}, "call_1")

    threading.Timer(0.3, payment.released.set).start()

    assert cp.resume("s", registry, wait=True, timeout=60).replayable["call_1"].is_error is False
    assert payment.paid == 1


def test_hook_does_not_settle_a_call_whose_session_was_released_while_it_runs(open_checkpointer: Open) -> None:
    payment = SlowPayment()
    first, second = open_checkpointer(), open_checkpointer()
    registry = payment.registry(payment.pay)
    first.start_session("s")
    bound = registry.for_session(first, "s")

    def dispatch() -> None:
        with pytest.raises(LateResultRefused):
            bound.dispatch("pay", {}, "call_1")
        connections.close_all()

    dispatching = threading.Thread(target=dispatch)
    dispatching.start()
    assert payment.began.wait(60)

    first.close()
    with pytest.raises(ReviewRequired, match=STILL_RUNS):
        second.resume("s", registry)
    payment.released.set()
    dispatching.join(60)

    assert second.resume("s", registry).replayable["call_1"].is_error is False
    assert payment.paid == 1


@pytest.mark.asyncio
async def test_hook_does_not_settle_a_blocking_tool_of_a_cancelled_task(workspace: Workspace) -> None:
    payment = SlowPayment()
    registry = payment.registry(payment.pay)

    async def turn(cp: Checkpointer) -> str:
        async with cp.session("s", registry=registry) as session:
            return (await session.dispatch("pay", {}, "call_1")).content

    async with Checkpointer() as cp:
        task = asyncio.create_task(turn(cp))
        await asyncio.to_thread(payment.began.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ReviewRequired, match=STILL_RUNS):
            await turn(cp)
        await asyncio.to_thread(payment.release)
        await turn(cp)
    assert payment.paid == 1


def test_forked_process_does_not_run_the_tool_of_its_parent(start_child: StartChild) -> None:
    assert start_child(child_scripts.look_for_tool_of_parent_after_fork).result() == 0
