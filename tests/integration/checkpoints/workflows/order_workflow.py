"""Workflow of three steps, run in this process or in children that die."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from checkpoints import Checkpointer, SyncCheckpointer, SyncWorkflow
from checkpoints.models import ToolCall
from tests.support.processes import append_line, die

STEPS = ("reserve", "charge", "ship")


class OrderSteps:
    """Functions of the steps; each appends its effect to a file."""

    def __init__(self, effects: Path | str) -> None:
        self.effects = str(effects)

    def reserve(self, order: int) -> dict[str, int]:
        append_line(self.effects, f"reserve {order}")
        return {"order": order}

    def charge(self, order: int, amount: str = "40.00") -> str:
        append_line(self.effects, f"charge {order} {amount}")
        return f"charged {amount}"

    async def ship(self, order: int) -> list[int]:
        append_line(self.effects, f"ship {order}")
        return [order]

    @property
    def done(self) -> list[str]:
        return Path(self.effects).read_text().splitlines()


def run_order_workflow(workflow: SyncWorkflow, order_steps: OrderSteps) -> list[Any]:
    """Run the three steps in order; return their results."""
    return [workflow.step(name, getattr(order_steps, name), 17) for name in STEPS]


def call_statuses() -> list[tuple[str, int, str]]:
    calls = ToolCall.objects.order_by("pk")
    return [(call.call_id, call.attempt, call.status) for call in calls]


# in child processes


def die_in_step(url: str, effects: str, step: str, point: str) -> None:
    """Run the workflow and die in one step: before its effect, after the effect, or after it was recorded."""
    order_steps = OrderSteps(effects)
    with SyncCheckpointer.open(url) as cp:
        cp.start_session("s")
        workflow = cp.workflow("s", "order-17")
        for name in STEPS:
            function = getattr(order_steps, name)
            dying = name == step

            async def run(order: int, function: Any = function, dying: bool = dying) -> Any:
                if dying and point == "before the effect":
                    die()
                value = function(order)
                value = await value if asyncio.iscoroutine(value) else value
                if dying and point == "after the effect":
                    die()
                return value

            run.__qualname__ = function.__qualname__
            workflow.step(name, run, 17)
            if dying:
                die()


def die_in_parallel_steps(url: str, effects: str) -> None:
    """Run two steps concurrently, and die when one is completed and the other has had its effect."""

    async def main() -> None:
        order_steps = OrderSteps(effects)
        async with Checkpointer.open(url) as cp:
            await cp.start_session("s")
            workflow = await cp.workflow("s", "order-17")
            reserved = asyncio.Event()

            async def reserve() -> None:
                await workflow.step("reserve", order_steps.reserve, 17)
                reserved.set()

            async def ship(order: int) -> list[int]:
                await order_steps.ship(order)
                await reserved.wait()
                die()

            ship.__qualname__ = OrderSteps.ship.__qualname__
            await asyncio.gather(reserve(), workflow.step("ship", ship, 17))

    asyncio.run(main())
