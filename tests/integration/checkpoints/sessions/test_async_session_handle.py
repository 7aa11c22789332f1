"""The async session handle gives the same guarantees, also when a task is cancelled."""

import asyncio

import pytest

from checkpoints import Checkpointer, ToolRegistry
from checkpoints.exceptions import CheckpointerClosed, OwnershipLost, SessionBusy
from checkpoints.models import Run, Session, Workspace
from tests.integration.checkpoints.session_setups import call_statuses, conversation
from tests.support.async_database import run_in_thread

pytestmark = pytest.mark.asyncio


async def runs() -> list[str]:
    return await run_in_thread(lambda: list(Run.objects.order_by("number").values_list("status", flat=True)))


async def test_complete_request_with_the_async_handle(workspace: Workspace) -> None:
    registry = ToolRegistry()

    @registry.tool(side_effects={"mutate"})
    async def pay(order: int) -> str:
        return f"paid {order}"

    async with Checkpointer() as cp:
        async with cp.session("s", "Refund order 17", registry=registry) as session:
            assert await session.append(conversation("a"), plan={"goal": 1}) == 1
            result = await session.dispatch("pay", {"order": 17}, "call_1")
            assert await session.save(conversation("ab")) == session.version == 2
            assert [each["position"] for each in await session.messages(after=1)] == [1]
        assert await runs() == ["released"]
        async with cp.session("s", registry=registry) as session:
            again = await session.dispatch("pay", {"order": 17}, "call_1")
            await session.finish("completed", {"ok": True})
            assert (session.finished, session.result) == (True, {"ok": True})
        assert (again.content, again.replayed) == (result.content, True)
    assert await runs() == ["released", "completed"]


async def test_tasks_share_one_registry_and_one_checkpointer(workspace: Workspace) -> None:
    registry = ToolRegistry()
    inside = asyncio.Barrier(10)

    @registry.tool(side_effects={"mutate"})
    async def pay(order: int) -> str:
        await inside.wait()
        return f"paid {order}"

    async def request(cp: Checkpointer, order: int) -> str:
        async with cp.session(f"s{order}", registry=registry) as session:
            return (await session.dispatch("pay", {"order": order}, "call_1")).content

    async with Checkpointer() as cp:
        told = await asyncio.gather(*[request(cp, order) for order in range(10)])

    assert told == [f"paid {order}" for order in range(10)]
    assert await run_in_thread(lambda: [len(call_statuses(f"s{order}")) for order in range(10)]) == [1] * 10


async def test_two_requests_of_one_process_do_not_share_a_run(workspace: Workspace) -> None:
    async with Checkpointer() as cp, cp.session("s") as session:
        with pytest.raises(SessionBusy):
            async with cp.session("s"):
                raise AssertionError("two handles share a run")
        assert await session.append(conversation("a")) == 1


async def test_cancelled_block_releases(workspace: Workspace) -> None:
    inside = asyncio.Event()

    async def request(cp: Checkpointer) -> None:
        async with cp.session("s") as session:
            await session.append(conversation("a"))
            inside.set()
            await asyncio.Event().wait()

    async with Checkpointer() as cp:
        task = asyncio.ensure_future(request(cp))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await runs() == ["released"]


async def test_block_cancelled_while_it_starts_owns_nothing(workspace: Workspace) -> None:
    async def request(cp: Checkpointer) -> None:
        async with cp.session("s"):
            await asyncio.Event().wait()

    async with Checkpointer() as cp:
        for steps in range(0, 12, 2):
            task = asyncio.ensure_future(request(cp))
            for _ in range(steps):
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert cp.store.list_owned_sessions() == []
        async with cp.session("s") as session:
            assert await session.append(conversation("a")) == 1
    assert set(await runs()) == {"released"}


async def test_lost_session_is_not_changed(workspace: Workspace) -> None:
    async with Checkpointer() as first, Checkpointer() as second:
        async with first.session("s") as session:
            await second.start_session("s", takeover=True)
            with pytest.raises(OwnershipLost):
                await session.append(conversation("a"))
        assert await run_in_thread(lambda: Session.objects.values_list("owner__number", flat=True).get()) == 2


async def test_checkpointer_closed_inside_the_block(workspace: Workspace) -> None:
    cp = Checkpointer()
    async with cp.session("s") as session:
        await cp.close()
        with pytest.raises(CheckpointerClosed):
            await session.append(conversation("a"))
    assert await runs() == ["released"]


async def test_one_session_is_released(workspace: Workspace) -> None:
    async with Checkpointer() as first, Checkpointer() as second:
        await first.start_session("s")
        assert await first.release_session("s") is True
        assert await first.release_session("s") is False
        assert (await second.start_session("s")).number == 2
