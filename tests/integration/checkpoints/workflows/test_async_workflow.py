"""The async workflow: the same step log, and concurrent steps."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from checkpoints import Checkpointer
from checkpoints.exceptions import DuplicateStep, ReviewRequired
from checkpoints.models import Workspace
from tests.integration.checkpoints.workflows.order_workflow import STEPS, OrderSteps

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def cp(workspace: Workspace) -> AsyncIterator[Checkpointer]:
    async with Checkpointer() as opened:
        await opened.start_session("s")
        yield opened


async def test_sequential_steps(cp: Checkpointer, order_steps: OrderSteps) -> None:
    passes = [await cp.workflow("s", "order-17") for _ in range(2)]

    for workflow in passes:
        assert [await workflow.step(name, getattr(order_steps, name), 17) for name in STEPS] == [
            {"order": 17},
            "charged 40.00",
            [17],
        ]
    assert len(order_steps.done) == 3
    assert [step["step_id"] for step in await passes[0].journal()] == list(STEPS)


async def test_concurrent_steps(cp: Checkpointer, order_steps: OrderSteps) -> None:
    """Each step waits for the other, so that sequential execution would time out."""
    met = asyncio.Barrier(2)

    async def meet(name: str) -> str:
        await asyncio.wait_for(met.wait(), 60)
        await order_steps.ship(len(name))
        return name

    for _ in range(2):
        workflow = await cp.workflow("s", "w")
        steps = [workflow.step(name, meet, name) for name in ("first", "second")]
        assert await asyncio.gather(*steps) == ["first", "second"]
    assert sorted(order_steps.done) == ["ship 5", "ship 6"]


async def test_concurrent_blocking_steps(cp: Checkpointer) -> None:
    met = threading.Barrier(2)
    workflow = await cp.workflow("s", "w")

    assert sorted(await asyncio.gather(*[workflow.step(name, met.wait, 60) for name in ("first", "second")])) == [0, 1]


async def test_concurrent_steps_have_distinct_positions(cp: Checkpointer) -> None:
    workflow = await cp.workflow("s", "w")
    numbers = range(20)

    assert await asyncio.gather(*[workflow.step(str(number), int, number) for number in numbers]) == list(numbers)
    assert sorted(step["result"] for step in await workflow.journal()) == list(numbers)


async def test_same_step_run_concurrently_runs_once(cp: Checkpointer, order_steps: OrderSteps) -> None:
    workflow = await cp.workflow("s", "w")
    done = await asyncio.gather(*[workflow.step("a", order_steps.ship, 17) for _ in range(5)], return_exceptions=True)

    assert sorted(type(each).__name__ for each in done) == ["DuplicateStep"] * 4 + ["list"]
    assert order_steps.done == ["ship 17"]


async def test_concurrent_passes_run_each_step_once(cp: Checkpointer, order_steps: OrderSteps) -> None:
    def slow(order: int) -> str:
        time.sleep(0.2)
        return order_steps.charge(order)

    passes = [await cp.workflow("s", "w") for _ in range(4)]

    assert await asyncio.gather(*[each.step("charge", slow, 17) for each in passes]) == ["charged 40.00"] * 4
    assert order_steps.done == ["charge 17 40.00"]


async def test_other_steps_finish_when_one_fails(cp: Checkpointer, order_steps: OrderSteps) -> None:
    async def fail() -> None:
        raise ValueError("no such order")

    workflow = await cp.workflow("s", "w")
    done = await asyncio.gather(
        workflow.step("fail", fail), workflow.step("ship", order_steps.ship, 17), return_exceptions=True
    )

    assert (str(done[0]), done[1]) == ("no such order", [17])
    assert sorted(step["status"] for step in await workflow.journal()) == ["completed", "failed"]


async def test_cancelled_step_needs_a_decision(cp: Checkpointer, order_steps: OrderSteps) -> None:
    inside = asyncio.Event()

    async def ship(order: int) -> None:
        inside.set()
        await asyncio.Event().wait()

    workflow = await cp.workflow("s", "w")
    task = asyncio.create_task(workflow.step("ship", ship, 17))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    with pytest.raises(ReviewRequired):
        await workflow.step("ship", ship, 17)
    with pytest.raises(DuplicateStep):
        await asyncio.gather(workflow.step("other", ship, 1), workflow.step("other", ship, 1))
