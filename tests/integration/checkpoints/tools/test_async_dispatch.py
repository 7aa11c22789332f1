"""Dispatch from an event loop gives the same guarantees."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, ToolResult, Unknown
from checkpoints.exceptions import CallInProgress, ReviewRequired
from checkpoints.models import ToolCall, Workspace
from tests.integration.checkpoints.session_setups import call_statuses
from tests.support.async_database import run_in_thread
from tests.support.processes import append_line

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def acp(workspace: Workspace) -> AsyncIterator[Checkpointer]:
    async with Checkpointer() as opened:
        await opened.start_session("s")
        yield opened


class Desk:
    """Registry with one tool, `pay`, that waits for an event."""

    def __init__(self, acp: Checkpointer, effects: Path, **options: Any) -> None:
        self.registry = ToolRegistry(checkpointer=acp, session_id="s")
        self.inside = asyncio.Event()
        self.may_leave = asyncio.Event()
        self.effects = effects

        async def pay(order: int) -> str:
            append_line(str(effects), f"pay {order}")
            self.inside.set()
            await self.may_leave.wait()
            return f"paid {order}"

        self.registry.tool(**options)(pay)

    async def call(self, call_id: str = "call_1", **options: Any) -> ToolResult:
        return await self.registry.adispatch("pay", {"order": 17}, call_id, **options)

    def done(self) -> list[str]:
        return self.effects.read_text().splitlines()


async def log() -> list[tuple[str, int, str]]:
    return await run_in_thread(call_statuses)


async def test_concurrent_tasks_with_one_key_run_once(acp: Checkpointer, effects: Path) -> None:
    desk = Desk(acp, effects)
    tasks = [asyncio.ensure_future(desk.call(f"call_{number}")) for number in range(20)]
    await desk.inside.wait()
    desk.may_leave.set()
    results = await asyncio.gather(*tasks)

    assert desk.done() == ["pay 17"]
    assert sorted(result.replayed for result in results) == [False] + [True] * 19
    assert {result.content for result in results} == {"paid 17"}
    assert [status for _, _, status in await log()] == ["completed"]


async def test_running_call_can_be_refused_instead_of_awaited(acp: Checkpointer, effects: Path) -> None:
    desk = Desk(acp, effects)
    first = asyncio.ensure_future(desk.call())
    await desk.inside.wait()

    with pytest.raises(CallInProgress):
        await desk.call("call_2", in_progress="raise")
    desk.may_leave.set()
    assert (await first).content == "paid 17"
    assert desk.done() == ["pay 17"]


async def test_cancelled_call_is_interrupted_and_never_runs_again(acp: Checkpointer, effects: Path) -> None:
    desk = Desk(acp, effects)
    task = asyncio.ensure_future(desk.call())
    await desk.inside.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await run_in_thread(ToolCall.objects.values_list("status", "reason").get) == ("interrupted", "cancelled")
    with pytest.raises(ReviewRequired):
        await desk.call("call_2")
    assert desk.done() == ["pay 17"]


async def test_waiter_is_notified_when_its_call_is_cancelled(acp: Checkpointer, effects: Path) -> None:
    desk = Desk(acp, effects)
    first = asyncio.ensure_future(desk.call())
    await desk.inside.wait()
    waiter = asyncio.ensure_future(desk.call("call_2"))
    await asyncio.sleep(0)
    first.cancel()

    with pytest.raises(ReviewRequired):
        await waiter
    with pytest.raises(asyncio.CancelledError):
        await first
    assert desk.done() == ["pay 17"]


async def test_cancelled_waiter_does_not_change_the_call(acp: Checkpointer, effects: Path) -> None:
    desk = Desk(acp, effects)
    first = asyncio.ensure_future(desk.call())
    await desk.inside.wait()
    waiter = asyncio.ensure_future(desk.call("call_2"))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    desk.may_leave.set()

    assert (await first).content == "paid 17"
    assert await log() == [("call_1", 1, "completed")]


async def test_timed_out_tool_needs_review(acp: Checkpointer, effects: Path) -> None:
    with pytest.raises(ReviewRequired):
        await Desk(acp, effects, timeout=0.05).call()
    assert await log() == [("call_1", 1, "interrupted")]


async def test_blocking_tool_does_not_block_the_event_loop(acp: Checkpointer) -> None:
    registry = ToolRegistry(checkpointer=acp, session_id="s")
    reached, loop = asyncio.Event(), asyncio.get_running_loop()

    @registry.tool
    def pay() -> str:
        asyncio.run_coroutine_threadsafe(_set(reached), loop).result()
        return "paid"

    assert await registry.adispatch("pay", {}, "call_1") == ToolResult("call_1", "paid")
    assert reached.is_set()


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_async_hook_is_called_after_an_ambiguous_error(acp: Checkpointer, effects: Path) -> None:
    asked = []

    async def was_paid(args: dict[str, Any]) -> Unknown:
        asked.append(args)
        return Unknown()

    with pytest.raises(ReviewRequired):
        await Desk(acp, effects, timeout=0.05, verify=was_paid).call()
    assert asked == [{"order": 17}]


async def test_error_of_one_call_does_not_affect_concurrent_calls(acp: Checkpointer) -> None:
    registry = ToolRegistry(checkpointer=acp, session_id="s")

    @registry.tool
    async def pay(order: int) -> str:
        if order == 2:
            raise ValueError("declined")
        return f"paid {order}"

    results = await asyncio.gather(
        *[registry.adispatch("pay", {"order": order}, f"call_{order}") for order in range(1, 5)]
    )
    assert [result.is_error for result in results] == [False, True, False, False]
    assert sorted(await log()) == [
        ("call_1", 1, "completed"),
        ("call_2", 1, "failed"),
        ("call_3", 1, "completed"),
        ("call_4", 1, "completed"),
    ]


async def test_cancelled_save_is_complete_or_absent(acp: Checkpointer) -> None:
    for number in range(10):
        task = asyncio.ensure_future(acp.save_checkpoint("s", [{"n": n} for n in range(number)], None, 0))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await acp.save_checkpoint("s", [{"last": True}], None, 0)

    for listed in await acp.list_checkpoints("s"):
        loaded = await acp.load("s", listed["version"])
        assert len(loaded["transcript"]) == listed["message_count"]


async def test_cancelled_callers_leak_no_connections(workspace: Workspace) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s")
        for _ in range(40):  # more often than there are workers
            task = asyncio.ensure_future(cp.save_checkpoint("s", [], None, 0))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        last = await cp.save_checkpoint("s", [], None, 0)

    versions = await run_in_thread(lambda: [found["version"] for found in SyncCheckpointer().list_checkpoints("s")])
    assert versions == list(range(len(versions), 0, -1))
    assert last in versions


async def test_tools_that_query_the_database_leak_no_connections(acp: Checkpointer) -> None:
    registry = ToolRegistry(checkpointer=acp, session_id="s")

    @registry.tool
    def count(order: int) -> str:
        return str(ToolCall.objects.count())

    for order in range(1, 21):  # more than the pool holds
        assert (await registry.adispatch("count", {"order": order}, f"call_{order}")).content == str(order)
