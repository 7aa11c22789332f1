"""A workflow of three steps, in this process and in others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from checkpoints import Checkpointer, SyncCheckpointer, SyncWorkflow
from checkpoints.models import ToolCall
from tests.support.processes import append_line, die

STEPS = ("reserve", "charge", "ship")


class Desk:
    """Functions whose effects are lines in a file."""

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


def handle(workflow: SyncWorkflow, desk: Desk) -> list[Any]:
    """All three steps, one after the other."""
    return [workflow.step(name, getattr(desk, name), 17) for name in STEPS]


def statuses() -> list[tuple[str, int, str]]:
    calls = ToolCall.objects.order_by("pk")
    return [(call.call_id, call.attempt, call.status) for call in calls]


# in child processes


def die_in(url: str, effects: str, step: str, point: str) -> None:
    """Handle the order and die in one of its steps, before its effect, after it, or after its record."""
    desk = Desk(effects)
    with SyncCheckpointer.open(url) as cp:
        cp.start_session("s")
        workflow = cp.workflow("s", "order-17")
        for name in STEPS:
            function = getattr(desk, name)
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


def die_in_parallel(url: str, effects: str) -> None:
    """Two steps at once: one has ended and the other is in the middle of its effect when the process dies."""

    async def main() -> None:
        desk = Desk(effects)
        async with Checkpointer.open(url) as cp:
            await cp.start_session("s")
            workflow = await cp.workflow("s", "order-17")
            reserved = asyncio.Event()

            async def reserve() -> None:
                await workflow.step("reserve", desk.reserve, 17)
                reserved.set()

            async def ship(order: int) -> list[int]:
                await desk.ship(order)
                await reserved.wait()
                die()

            ship.__qualname__ = Desk.ship.__qualname__
            await asyncio.gather(reserve(), workflow.step("ship", ship, 17))

    asyncio.run(main())
